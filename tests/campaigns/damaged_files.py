"""Random damage to every kind of file that cdopt reads.

A separate process reads the damaged files, so that one that crashes is counted and the rest go
on. Each read ends in time, in an answer or a CdoptError, writes nothing and stays within a memory
limit. Next to a run may be pipes, folders and links where its parts belong.
Files of cdopt's own with checksums (archives and runs) must not give another answer unnoticed:
these are counted as ``other_answer``; texts and FCLib files have no checksums, so there a changed
number is another problem, and not counted.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import random
import re
import resource
import shutil
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
BATCH = 300  # files that one process reads
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


def read_wall(path: Path) -> Any:
    """A scene of blocks, as text."""
    fixed = "binary 0" if path.name == "binary.stl" else ""
    return cdopt.scene.load_assembly(path, 2000.0, fixed=fixed).to_toml()


def read_solution(path: Path) -> Any:
    """The numbers of a solution."""
    solution = cdopt.StepSolution.load(path)
    return solution.f, solution.v_next, solution.status


READERS: dict[str, Callable[[Path], Any]] = {
    "run.vtkhdf": read_run,
    "parts.vtkhdf": read_run,
    "step.npz": read_step,
    "parts.npz": read_step,
    "rough.npz": cdopt.ContactStep.load,
    "rows.npz": cdopt.problem.Step.load,
    "solution.npz": read_solution,
    "runs.jsonl": cdopt.study.read,
    "wall.obj": read_wall,
    "wall.stl": read_wall,
    "wall.json": read_wall,
    "binary.stl": read_wall,
    "spheres.dump": read_scene,
    "spheres.data": read_scene,
    "scene.toml": read_scene,
    "problem.hdf5": fclib.read,
    "program.qps": qps.read,
}
CHECKSUMS = ("run.vtkhdf", "parts.vtkhdf", "step.npz", "solution.npz")
TEXTS = (".toml", ".qps", ".obj", ".json", ".dump", ".data", ".stl")
NUMBER = re.compile(rb"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
TOKENS = (  # in the place of a number
    b"1e400", b"-1e400", b"nan", b"inf", b"-1", b"0", b"1e300", b"1e-320", b"99999999999999999999",
    b"1" * 5000, b"\x1b]0;a\x07", b"\xed\xa0\x80", b"\0", b"2147483648", b"[[[[", b'"', b"1.5", b"",
)  # fmt: skip
ODD = (-1, -5, 10**8, 2**31 - 1, -(2**31), 0, 1)  # in the place of an index


def tokens_damaged(whole: bytes, rng: random.Random) -> bytes:
    """A number of a text, or several, replaced by what is none, or none that fits."""
    places = list(NUMBER.finditer(whole))
    for found in sorted(rng.sample(places, rng.randrange(1, 4)), key=lambda m: -m.start()):
        whole = whole[: found.start()] + rng.choice(TOKENS) + whole[found.end() :]
    return whole


def arrays_damaged(whole: bytes, rng: random.Random) -> bytes:
    """An archive with sound checksums whose arrays are not those of a step."""
    with np.load(io.BytesIO(whole)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    numeric = [name for name, array in arrays.items() if array.dtype.kind in "if"]
    for name in rng.sample(numeric, rng.randrange(1, 3)):
        array, way = np.atleast_1d(arrays[name]).copy(), rng.randrange(5)
        if way == 0 and array.size:
            array.flat[rng.randrange(array.size)] = rng.choice(ODD)
        elif way == 1 and array.size > 2:
            array.ravel()[1:-1], array.ravel()[-1] = 10**8, -5  # which SciPy's check lets pass
        elif way == 2:
            array = array[: rng.randrange(len(array) + 1)]
        elif way == 3:
            array = array.astype(rng.choice(("u1", "u8", "f4", "c16", "i8", "S3")))
        else:
            array = np.resize(array, rng.choice(((0,), (2, 2), (1000,), (3, 0))))
        arrays[name] = array
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


CORNERS = [[x, y, z] for z in (0.0, 1.0) for y in (0.0, 1.0) for x in (0.0, 1.0)]
FACES = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (1, 3, 7, 5), (3, 2, 6, 7), (2, 0, 4, 6))
DUMP = """ITEM: TIMESTEP
7
ITEM: NUMBER OF ATOMS
2
ITEM: BOX BOUNDS ff ff pp
0 4
0 4
0 4
ITEM: ATOMS id radius x y z vx vy vz mass
1 0.5 0.5 0.5 0.5 0 0 0 1
2 0.5 1.5 0.5 0.5 0 0 1 1
"""
DATA = """a data file

2 atoms
0 4 xlo xhi
0 4 ylo yhi
0 4 zlo zhi

Atoms # sphere

1 1 1.0 2500 0.5 0.5 0.5
2 1 1.0 2500 1.5 0.5 0.5

Velocities

1 0 0 0 0 0 0
2 0 0 1 0 0 0
"""


def make_texts(folder: Path) -> None:
    """Two blocks as meshes and as a list, and two spheres as LAMMPS writes them."""
    (folder / "spheres.dump").write_text(DUMP)
    (folder / "spheres.data").write_text(DATA)
    blocks = {"fixed": np.array(CORNERS), "free": np.add(CORNERS, (0.0, 0.0, 1.5))}
    listed = [{"name": name, "vertices": corners.tolist()} for name, corners in blocks.items()]
    (folder / "wall.json").write_text(json.dumps({"blocks": listed}))
    mesh, solids, every = "", "", []
    for number, (name, corners) in enumerate(blocks.items()):
        mesh += "".join(f"v {x} {y} {z}\n" for x, y, z in corners) + f"o {name}\n"
        mesh += "".join(f"f {' '.join(str(8 * number + k + 1) for k in f)}\n" for f in FACES)
        facets = [corners[[f[0], f[k], f[k + 1]]] for f in FACES for k in (1, 2)]
        lines = [f"vertex {x} {y} {z}\n" for facet in facets for x, y, z in facet]
        solids += f"solid {name}\n{''.join(lines)}endsolid\n"
        every += facets
    (folder / "wall.obj").write_text(mesh)
    (folder / "wall.stl").write_text(solids)
    records = np.zeros(len(every), np.dtype([("n", "<f4", 3), ("x", "<f4", 9), ("a", "<u2")]))
    records["x"] = np.array(every).reshape(-1, 9)
    head = bytes(80) + len(every).to_bytes(4, "little")
    (folder / "binary.stl").write_bytes(head + records.tobytes())


def make(folder: Path) -> None:
    """One sound file of each kind."""
    scene = cdopt.scene.pyramid(3)
    for name in ("run.vtkhdf", "parts.vtkhdf"):
        cdopt.simulate(scene, 1e-3, 3e-3, out=folder / name)
    step = cdopt.bank.load("beam-uniform").step
    for name in ("step.npz", "parts.npz"):
        step.save(folder / name)
    cdopt.bank.load("rough-arch").step.save(folder / "rough.npz")
    cdopt.bank.generators.supports_delassus().save(folder / "rows.npz")
    cdopt.ClassicCD(step).solve("newton").save(folder / "solution.npz")
    cdopt.study.run(cdopt.study.Plan(["beam-uniform"], ["newton", "pgs"]), folder / "study")
    shutil.copy(folder / "study" / "runs.jsonl", folder / "runs.jsonl")
    make_texts(folder)
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


Task = tuple[str, int]  # the kind of a file, and the number of its damage


def work(folder: Path, seed: int, tasks: list[Task]) -> None:
    """Read damaged files, and print a line for each."""
    right = {name: READERS[name](folder / name) for name in dict(tasks)}
    limit_memory()
    for name, k in tasks:
        read, whole = READERS[name], (folder / name).read_bytes()
        place = folder / f"damaged {name}" / name
        place.parent.mkdir(exist_ok=True)
        rng = random.Random(f"{seed} {name} {k}")
        if name == "parts.vtkhdf":
            content = spoil_parts(place, whole, rng)
        elif name in ("parts.npz", "rough.npz", "rows.npz"):
            content = arrays_damaged(whole, rng)
        elif name.endswith(TEXTS) and name != "binary.stl" and rng.random() < 0.5:
            content = tokens_damaged(whole, rng)
        else:
            content = damaged(whole, rng)
        place.write_bytes(content)
        stamp, there = place.stat().st_mtime_ns, sorted(place.parent.iterdir())
        told = ""
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            found = read(place)
            word = "answers"
            if name in CHECKSUMS and not same(found, right[name]):
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
        print(json.dumps([word, told]), flush=True)


def same(one: Any, two: Any) -> bool:
    """Whether two answers agree in every bit."""
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two, equal_nan=True)
    return bool(one == two)


def run(count: int, seed: int, kinds: tuple[str, ...] = ()) -> dict[str, int]:
    """Damage ``count`` files of each kind; counts by kind and by what came of it."""
    table: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder)
        left = [(name, k) for name in kinds or READERS for k in range(count)]
        while left:
            part = left[:BATCH]
            command = [sys.executable, "-m", __name__, place, str(seed), json.dumps(part)]
            done = subprocess.run(command, capture_output=True, text=True, check=False,
                                  timeout=1800)  # fmt: skip
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            for (name, number), (word, told) in zip(part, lines, strict=False):
                table[word] += 1
                table[f"{name}: {word}"] += 1
                if word not in ("answers", "refused"):
                    print(name, number, word, told, file=sys.stderr)
            if len(lines) < len(part):
                ended = "Timeout" not in done.stderr
                table["forbidden_crashes" if ended else "forbidden_endless"] += 1
                print(*part[len(lines)], done.returncode, done.stderr[-500:], file=sys.stderr)
            left = left[min(len(lines) + 1, len(part)) :]
    return dict(table)


if __name__ == "__main__":
    work(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
