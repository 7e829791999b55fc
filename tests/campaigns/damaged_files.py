"""Random damage to every kind of file that cdopt reads.

A process of its own reads the damaged files, so that one that crashes is counted and the rest go
on. Each read ends in time, in an answer or a CdoptError, writes nothing and stays within a memory
limit. Runs come in the format of today and in that with texts in HDF5's heaps, which are damaged
most; beside a run may be pipes, folders and links where its parts belong.
Files of cdopt's own with checksums (archives and runs) must not give another answer unnoticed:
these are counted as ``other_answer``; texts and FCLib files have no checksums, so there a changed
number is another problem, and not counted.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import cdopt
from cdopt.interop import fclib
from cdopt.interop import quadratic_programs as qps
from cdopt.interop.fclib import write as write_fclib

MEMORY = 2**30  # bytes of address space beyond those at the start
BATCH = 200
SECONDS = 60.0  # that a read may take
FORBIDDEN = (
    "forbidden_escapes", "forbidden_memory", "forbidden_written", "forbidden_crashes",
    "forbidden_endless", "other_answer",
)  # fmt: skip


def read_run(path: Path) -> Any:
    """All that a run file tells."""
    run = cdopt.Trajectory.load(path)
    frames = [
        (f.q, f.v, f.phi, f.normals, f.points, f.contact_ids, *f.forces.values()) for f in run
    ]
    return run.scene.to_toml(), dict(run.settings), run.t, run.diagnostics["ok"], repr(run), frames


def read_step(path: Path) -> Any:
    """The arrays of a contact step."""
    step = cdopt.ContactStep.load(path)
    return step.M.toarray(), step.B.toarray(), step.phi, step.v, step.F_ext, step.dt


def read_scene(path: Path) -> Any:
    """A scene, as text."""
    return cdopt.scene.load(path).to_toml()


READERS: dict[str, Callable[[Path], Any]] = {
    "run.vtkhdf": read_run,
    "old.vtkhdf": read_run,
    "parts.vtkhdf": read_run,
    "step.npz": read_step,
    "scene.toml": read_scene,
    "problem.hdf5": fclib.read,
    "program.qps": qps.read,
}
CHECKSUMS = ("run.vtkhdf", "parts.vtkhdf", "step.npz")


def make(folder: Path) -> None:
    """One sound file of each kind."""
    scene = cdopt.scene.pyramid(3)
    for name in ("run.vtkhdf", "old.vtkhdf", "parts.vtkhdf"):
        cdopt.simulate(scene, 1e-3, 3e-3, out=folder / name)
    with h5py.File(folder / "old.vtkhdf", "r+", libver=("v108", "v110")) as file:
        records = file["cdopt"]
        for name in ("settings", "forces", "columns"):
            records.attrs[name] = records[name][()].tobytes().decode()
            del records[name]
        records.attrs["format"] = 3
    step = cdopt.bank.load("beam-uniform").step
    step.save(folder / "step.npz")
    scene.save(folder / "scene.toml")
    write_fclib(folder / "problem.hdf5", step)
    qps.write(folder / "program.qps", cdopt.ClassicCD(step))


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """Bits turned, a piece cut out, moved, repeated or filled, or the end cut off."""
    raw = bytearray(whole)
    kind = rng.choice(("bit", "bits", "cut", "end", "swap", "fill", "repeat"))
    a, b = sorted(rng.randrange(len(raw)) for _ in range(2))
    b = min(b, a + rng.choice((1, 8, 64, 4096)))
    if kind in ("bit", "bits"):
        for _ in range(1 if kind == "bit" else rng.randrange(2, 40)):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del raw[a:b]
    elif kind == "end":
        del raw[a:]
    elif kind == "swap":
        c = rng.randrange(len(raw) - (b - a))
        raw[a:b], raw[c : c + b - a] = raw[c : c + b - a], raw[a:b]
    elif kind == "fill":
        raw[a:b] = bytes([rng.choice((0, 255, rng.randrange(256)))]) * (b - a)
    else:
        raw[b:b] = raw[a:b] * rng.randrange(1, 8)
    return bytes(raw)


def heap_damaged(whole: bytes, rng: random.Random) -> bytes:
    """Numbers in a heap of texts, which has no checksum, changed."""
    raw, heap = bytearray(whole), whole.index(b"GCOL")
    for _ in range(rng.randrange(1, 4)):
        at = heap + 8 * rng.randrange(0, rng.choice((5, 256)))
        value = rng.choice((0, 8, 16, 2**64 - 16, 2**64 - 24, 2**64 - 1, 2**63, rng.randrange(9)))
        raw[at : at + 8] = value.to_bytes(8, "little")
    return bytes(raw)


def spoil_parts(place: Path, whole: bytes, rng: random.Random) -> bytes:
    """A sound run; where its next parts belong a pipe, a folder, a link or damage."""
    for path in place.parent.glob(f"{place.name}.part-*"):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with h5py.File(place.parents[1] / place.name) as file:
        number = int(file["cdopt"].attrs["commit"]) + rng.choice((1, 1, 1, 2))
    part = place.with_name(f"{place.name}.part-{number}")
    kind = rng.choice(("pipe", "folder", "link", "device", "empty", "damage"))
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "folder":
        part.mkdir()
    elif kind == "link":
        part.symlink_to(rng.choice((place.name, part.name, "gone")))
    elif kind == "device":
        part.symlink_to("/dev/zero")
    else:
        part.write_bytes(b"" if kind == "empty" else damaged(whole, rng))
    return whole


def limit_memory() -> None:
    """Let this process have so much more than it has."""
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))


def work(folder: Path, name: str, first: int, count: int, seed: int) -> None:
    """Read so many damaged files, and print a line for each."""
    read, whole = READERS[name], (folder / name).read_bytes()
    right = read(folder / name)
    place = folder / f"damaged {name}" / name
    place.parent.mkdir(exist_ok=True)
    limit_memory()
    for k in range(first, first + count):
        rng = random.Random(f"{seed} {name} {k}")
        if name == "parts.vtkhdf":
            content = spoil_parts(place, whole, rng)
        elif name == "old.vtkhdf" and rng.random() < 0.5:
            content = heap_damaged(whole, rng)
        else:
            content = damaged(whole, rng)
        place.write_bytes(content)
        stamp, there = place.stat().st_mtime_ns, sorted(place.parent.iterdir())
        told = ""
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            found = read(place)
            word = "answers"
            if name in CHECKSUMS and not same(found, right):
                word = "other_answer"
        except cdopt.CdoptError:
            word = "refused"
        except MemoryError:
            word = "forbidden_memory"
        except Exception as error:
            word, told = "forbidden_escapes", f"{type(error).__name__}: {error}"[:200]
        faulthandler.cancel_dump_traceback_later()
        if sorted(place.parent.iterdir()) != there or place.read_bytes() != content:
            word = "forbidden_written"
        if place.stat().st_mtime_ns != stamp:
            word = "forbidden_written"
        print(json.dumps([k, word, told]), flush=True)


def same(one: Any, two: Any) -> bool:
    """Whether two answers agree in every bit."""
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two, equal_nan=True)
    return bool(one == two)


def run(count: int, seed: int) -> dict[str, int]:
    """Damage ``count`` files of each kind; counts by kind and by what came of it."""
    table: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder)
        for name in READERS:
            k = 0
            while k < count:
                part = min(BATCH, count - k)
                given = (place, name, str(k), str(part), str(seed))
                command = [sys.executable, "-m", __name__, *given]
                done = subprocess.run(command, capture_output=True, text=True, check=False,
                                      timeout=1800)  # fmt: skip
                lines = [json.loads(line) for line in done.stdout.splitlines()]
                for number, word, told in lines:
                    table[word] += 1
                    table[f"{name}: {word}"] += 1
                    if word not in ("answers", "refused"):
                        print(name, number, word, told, file=sys.stderr)
                k += len(lines)
                if len(lines) < part:
                    ended = "Timeout" not in done.stderr
                    table["forbidden_crashes" if ended else "forbidden_endless"] += 1
                    print(name, k, done.returncode, done.stderr[-500:], file=sys.stderr)
                    k += 1
    return dict(table)


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
