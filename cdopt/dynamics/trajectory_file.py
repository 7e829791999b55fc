"""A trajectory in one VTKHDF file, which ParaView opens and which survives a killed process.

The group ``VTKHDF`` is read by ParaView (``cdopt.interop.vtkhdf``): the bodies as points
with ``velocity``, ``radius`` and ``fixed``, and the contacts as lines from body to contact point
to body, with ``force``, ``force_classic``, ``gap``, ``normal`` and ``contact``, their number, and
with friction the vectors ``force_t``. The
group ``cdopt`` has the scene as text, the settings of the run, q, v and step of each frame, the
diagnostics, and the checkpoint from which a run is resumed.

HDF5 changes a file in many places at once, and a process that is killed meanwhile would leave a
damaged file. So no file is changed in place. Each commit of a run writes the new data as a small
file of the same layout next to the file (``NAME.part-1``, ...). From time to time, and at the end,
the parts are appended to a copy of the file, which replaces the file by renaming. Copying takes at
most a twentieth of a run's time, however large the file is, and needs free space of its size on
the disk. A reader reads the file and its parts, and writes nothing. Other programs see a whole
file at all times, as of the last merge. A lock next to the file (``NAME.lock``) keeps a second
writer away.

Chunks carry Fletcher-32 checksums and the structures of HDF5 those of its format 1.8, so that
damage is an error when it is read, not another number. A file is checked as a whole when it is
opened: it contains everything itself, and nothing is larger than what is stored of it. Texts of
variable length have no checksum, and HDF5 may never return from damaged ones: there are none.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cdopt._util import files
from cdopt._util.checks import IntArray
from cdopt._util.errors import CdoptError, InvalidInput
from cdopt.collision import joint_gaps
from cdopt.dynamics.records import Checkpoint, Frame, Header, MemoryStore, components, in_space
from cdopt.geometry.polytope import FEATURES
from cdopt.interop.hdf5 import fixed_attributes, self_contained
from cdopt.interop.vtkhdf import PolyDataSeries, append, growing
from cdopt.scene import Scene, Sphere, State
from cdopt.scene.files import loads

try:
    import fcntl
except ImportError:  # Windows: two writers at a time are not noticed
    fcntl = None  # type: ignore[assignment]

FORMAT = 4
_TEXTS = ("settings", "forces", "columns")  # of the header, as JSON
_RECORDS, _JOINTS = "cdopt", "joint_forces"
_EXPECTED = f"a trajectory that cdopt wrote, in format {FORMAT}"
_DIAGNOSTICS = {"step", "time", "ok"}  # of any run
_CELL_DATA = {"gap": ("f8", 0), "normal": ("f8", 3), "contact": ("i8", 0)}
_CONTACTS = {"point": "points", "contact": "contact_ids", "gap": "phi", "normal": "normals"}

_COMMIT_SECONDS = 0.5  # of work that a kill may lose, in addition to the current step
_COMMIT_BYTES = 2**26  # that may wait in memory
_MERGE_SHARE = 20.0  # a merge that took 1 s is followed by another after 20 s at the earliest
_VERSIONS = ("v108", "v110")  # of HDF5, that programs of today read
_MARGIN = 2**16  # bytes
_PART = re.compile(r"\.part-[1-9][0-9]*")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

Columns = dict[str, NDArray[Any]]  # rows per frame, and per contact of all frames


# --- reading -----------------------------------------------------------------------------


class FileStore:
    """Frames and diagnostics in a file of ``simulate``, read on demand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checked: dict[Path, tuple[int, ...]] = {}
        with self._open() as parts:
            self.header = _header(parts[0], path)
            for k, part in enumerate(parts):
                _require_rows(part, self.header, at_least=0 if k else 1)

    def array(self, name: str) -> NDArray[Any]:
        """As that of ``MemoryStore``."""
        with self._open() as parts:
            if name == "t":
                return np.concatenate([PolyDataSeries(part).times for part in parts])
            if name == _JOINTS and name not in parts[0][_RECORDS]:
                return np.zeros((sum(part[_RECORDS]["step"].shape[0] for part in parts), 0))
            rows = np.concatenate([part[_RECORDS][name][()] for part in parts])
        return rows.reshape(-1, self.header.scene.nb, rows.shape[1]) if name in "qv" else rows

    def frame(self, k: int) -> Frame:
        """Frame k ≥ 0."""
        with self._open() as parts:
            for part in parts:
                count = part[_RECORDS]["step"].shape[0]
                if k < count:
                    break
                k -= count
            columns = _read(part, self.header, k, 1)
            t, q, v, step = (columns[name][0] for name in ("t", "q", "v", "step"))
            return Frame(
                step=int(step),
                state=State(float(t), q, v),
                joint_forces=columns[_JOINTS][0] if _JOINTS in columns else np.zeros(0),
                forces={name: columns[_shown(name)] for name in self.header.forces},
                **{name: columns[shown] for shown, name in _CONTACTS.items()},
            )

    def checkpoint(self) -> Checkpoint:
        """The last checkpoint of the run in the file."""
        with self._open() as parts:
            group = parts[-1][_RECORDS]["checkpoint"]
            state = State(float(group.attrs["t"]), group["q"][()], group["v"][()])
            memory = {name: data[()] for name, data in group.get("memory", {}).items()}
            return Checkpoint(int(group.attrs["step"]), state, memory)

    def commits(self) -> tuple[int, int]:
        """Numbers of the last commit in the file itself, and of the last one in its parts."""
        with self._open() as parts:
            return int(parts[0][_RECORDS].attrs["commit"]), int(parts[-1][_RECORDS].attrs["commit"])

    @contextlib.contextmanager
    def _open(self) -> Iterator[list[h5py.File]]:
        """The file and its parts, each checked as a whole whenever it has changed."""
        files.regular(self.path, _EXPECTED)
        with _faults_named(self.path), contextlib.ExitStack() as stack:
            path = self.path.resolve()
            while True:
                before = _stamp(path)
                if before[-1] == 0:
                    raise InvalidInput("path", f"{self.path}: empty", "a run that was begun")
                opened = [self._checked_file(path, stack)]
                number = int(opened[0][_RECORDS].attrs["commit"])
                with contextlib.suppress(FileNotFoundError):
                    while True:
                        number += 1
                        part = self._checked_file(_part(path, number), stack)
                        if int(part[_RECORDS].attrs["commit"]) != number:
                            raise ValueError(f"{_part(path, number)}: no part of this run")
                        opened.append(part)
                if _stamp(path) == before:  # else parts were merged meanwhile
                    break
            yield opened

    def _checked_file(self, path: Path, stack: contextlib.ExitStack) -> h5py.File:
        stamp = _stamp(path)
        files.regular(path, _EXPECTED)
        file = stack.enter_context(h5py.File(path, "r"))
        if stamp != self._checked.get(path):
            self_contained(file, stamp[-1])
            fixed_attributes(file)
            self._checked[path] = stamp
        return file


# --- writing -----------------------------------------------------------------------------


class FileWriter(MemoryStore):
    """A trajectory file being written; nobody else can write it until it is closed.

    It keeps uncommitted data in memory. Without a header it continues the run in the file.
    """

    def __init__(self, path: Path, header: Header | None = None) -> None:
        if header is not None:
            _require_new(path)
        elif path.is_symlink():
            raise InvalidInput("out", f"{path}: a link", "a file")
        self.path = path
        self._merged = self._number = 0  # commits: in the file, and in all
        self._waiting = 0  # bytes in memory
        self._last_commit = self._last_merge = time.perf_counter()
        self._merge_seconds = 0.0
        with contextlib.ExitStack() as stack:
            stack.callback(_unlock, path, _locked(path))
            if header is None:
                store = FileStore(path)
                header = store.header
                self._merged, self._number = store.commits()
            super().__init__(header)
            self._lock = stack.pop_all()

    def resume(self) -> Checkpoint:
        """The last checkpoint; diagnostics of a failed step after it are removed."""
        checkpoint = FileStore(self.path).checkpoint()
        self._merge(checkpoint.step)
        return checkpoint

    def add(self, row: list[float], frame: Frame | None = None, state: State | None = None) -> None:
        """As in MemoryStore."""
        super().add(row, frame, state)
        self._waiting += 8 * len(row)
        if frame is not None:
            self._waiting += 2 * frame.q.nbytes + 64 * frame.nc

    def commit(self, checkpoint: Checkpoint, final: bool = False) -> None:
        """Write what was added to the disk, if it is time to; ``final`` also merges the parts."""
        late = time.perf_counter() - self._last_commit > _COMMIT_SECONDS
        new = self._number == 0
        if not (final or late or new or self._waiting > _COMMIT_BYTES):
            return
        if self._rows:
            self._write(self.path if new else _part(self.path, self._number + 1), checkpoint)
            self._number += 1
            self._merged += new
            self._rows, self._frames, self._waiting = [], [], 0
        self._last_commit = time.perf_counter()
        pause = max(_COMMIT_SECONDS, _MERGE_SHARE * self._merge_seconds)
        if final or self._last_commit - self._last_merge > pause:
            self._merge()

    def discard(self) -> None:
        """Remove the file, if it is still in its place, and its parts."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
            self._remove_parts()

    def close(self) -> None:
        """Let others write. Parts of the file that are not merged stay."""
        self._lock.close()

    def _write(self, path: Path, checkpoint: Checkpoint) -> None:
        """Write what was added as a new file, made in memory: HDF5 damages files on a full disk."""
        if self._number == 0:
            self._remove_parts()  # of a run that is gone
        self._complete()
        image = io.BytesIO()
        with h5py.File(image, "w", libver=_VERSIONS) as file:
            _lay_out(file, self.header)
            if self._frames:
                _append(file, self.header.scene, _columns(self._frames))
            records = file[_RECORDS]
            append(records["diagnostics"], np.array(self._rows))
            records.attrs["commit"] = self._number + 1
            group = records.create_group("checkpoint")
            group.attrs["step"] = checkpoint.step
            group.attrs["t"] = checkpoint.state.t
            group["q"], group["v"] = checkpoint.state.q, checkpoint.state.v
            for name, array in checkpoint.memory.items():
                group[f"memory/{name}"] = np.asarray(array)
        # the view is given back before the image goes
        with _draft(path, self.path) as draft, image.getbuffer() as content:
            files.write_into(draft, content)

    def _merge(self, last_step: int | None = None) -> None:
        """Append the parts to a copy that replaces the file; later diagnostics are dropped."""
        if self._merged == self._number and last_step is None:
            return
        started = time.perf_counter()
        with _draft(self.path, self.path) as draft:
            parts = [_part(self.path, k) for k in range(self._merged + 1, self._number + 1)]
            shutil.copyfile(self.path, draft)
            shutil.copymode(self.path, draft)
            if hasattr(os, "posix_fallocate"):  # HDF5 damages files on a full disk
                size = _MARGIN + sum(part.stat().st_size for part in [self.path, *parts])
                with draft.open("r+b") as stream:
                    os.posix_fallocate(stream.fileno(), 0, size)
            with h5py.File(draft, "r+", libver=_VERSIONS) as file:
                records = file[_RECORDS]
                for path in parts:
                    with h5py.File(path, "r") as part:
                        new = part[_RECORDS]
                        frames = _read(part, self.header, 0, new["step"].shape[0])
                        _append(file, self.header.scene, frames)
                        append(records["diagnostics"], new["diagnostics"][()])
                        records.attrs["commit"] = new.attrs["commit"]
                        del records["checkpoint"]
                        part.copy(new["checkpoint"], records, "checkpoint")
                if last_step is not None:
                    rows = records["diagnostics"]
                    rows.resize(int(np.count_nonzero(rows[:, 0] <= last_step)), axis=0)
        self._merged = self._number
        self._remove_parts()
        self._last_merge = time.perf_counter()
        self._merge_seconds = self._last_merge - started

    def _remove_parts(self) -> None:
        with files.named(self.path, "out"):
            for path in self.path.parent.iterdir():
                if _PART.fullmatch(path.name.removeprefix(self.path.name)) is None:
                    continue
                if not path.is_file():
                    found = f"{path}: no regular file"
                    raise InvalidInput("out", found, "no such thing where the run has its parts")
                path.unlink()


def copy(path: Path, store: MemoryStore | FileStore) -> None:
    """Write all frames and diagnostics of a store to a new file, and the checkpoint."""
    _require_new(path)
    writer = FileWriter(_next_to(path, f".{secrets.token_hex(4)}.copy"), store.header)
    try:
        checkpoint = store.checkpoint()  # first: an unfinished run continues meanwhile
        steps = store.array("step").tolist()
        frames = {step: k for k, step in enumerate(steps) if step <= checkpoint.step}
        for row in store.array("diagnostics").tolist():
            k = frames.pop(int(row[0]), None)
            writer.add(row, None if k is None else store.frame(k))
            writer.commit(checkpoint)
        writer.commit(checkpoint, final=True)
        writer.path.replace(path)
    finally:
        writer.discard()  # what is left of a copy that failed
        writer.close()


def _require_new(path: Path) -> None:
    """Refuse the path of a file that exists, or that no file can have."""
    try:
        exists = os.path.lexists(path)
    except ValueError as error:
        raise InvalidInput("out", f"{path}: {error}", "a path to write to") from error
    if exists:
        expected = "a new path, or resume=True to continue the run"
        raise InvalidInput("out", f"{path}: a file that exists", expected)


@contextlib.contextmanager
def _draft(path: Path, run: Path) -> Iterator[Path]:
    """A new file, which replaces ``path`` if the block succeeds."""
    draft = _next_to(run, ".draft")
    with files.named(run, "out"):
        draft.unlink(missing_ok=True)  # of a run that was killed
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666))
            yield draft
            files.synchronise(draft)
            draft.replace(path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()  # still there if the block failed
        files.synchronise(path.parent)


def _locked(path: Path) -> int:
    """Lock a file until this process ends, by a separate lock file: readers may always read."""
    lock_path = _next_to(path, ".lock")
    while True:
        if lock_path.is_symlink():
            raise InvalidInput("out", f"{lock_path}: a link", "no such file, or the lock of a run")
        with files.named(path, "out"):
            lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock_path.exists() and os.path.samestat(lock_path.stat(), os.fstat(lock)):
                return lock
            os.close(lock)
        except FileNotFoundError:  # removed between two looks at it
            os.close(lock)
        except OSError as error:
            os.close(lock)
            found = f"{path}: a file that another run is writing"
            raise InvalidInput("out", found, "its end") from error


def _unlock(path: Path, lock: int) -> None:
    with contextlib.suppress(OSError):  # it stays: the next process may lock it
        _next_to(path, ".lock").unlink()
    os.close(lock)


# --- the layout of the file --------------------------------------------------------------


def _lay_out(file: h5py.File, header: Header) -> None:
    """Datasets of a new file, without rows."""
    scene, radius = header.scene, np.zeros(header.scene.nb)
    spheres = scene.bodies.table(Sphere)
    if spheres is not None:
        radius[spheres.body] = spheres.columns["radius"]
    vectors = {name: components(name, scene.dim) > 0 for name in header.forces}
    forces = {_shown(name): ("f8", 3 * vectors[name]) for name in header.forces}
    PolyDataSeries.create(
        file,
        scene.nb,
        point_data={"velocity": 3},
        cell_data=_CELL_DATA | forces,
        fixed_data={"radius": radius, "fixed": scene.bodies.fixed.astype(np.int8)},
    )
    records = file.create_group(_RECORDS)
    records.attrs["format"] = FORMAT
    texts = {"settings": dict(header.settings), "forces": header.forces, "columns": header.columns}
    _write_text(records, "scene", scene.to_toml())
    for name, value in texts.items():
        _write_text(records, name, json.dumps(value))
    growing(records, "q", "f8", scene.initial.q.shape[1:])
    growing(records, "v", "f8", scene.initial.v.shape[1:])
    growing(records, "step", "i8", (), 512)
    if joints := joint_gaps(scene, scene.initial).size:
        growing(records, _JOINTS, "f8", (joints,))
    growing(records, "diagnostics", "f8", (len(header.columns),), 64)


def _write_text(records: h5py.Group, name: str, text: str) -> None:
    """A text as bytes in chunks with checksums."""
    append(growing(records, name, "u1", ()), np.frombuffer(text.encode(), "u1"))


def _text(records: h5py.Group, name: str) -> str:
    return bytes(records[name][()].tobytes()).decode()


def _columns(frames: Sequence[Frame]) -> Columns:
    """At least one frame; ``nc`` counts the contacts of each."""
    flat = {shown: [getattr(f, name) for f in frames] for shown, name in _CONTACTS.items()}
    flat |= {_shown(name): [frame.forces[name] for frame in frames] for name in frames[0].forces}
    names = ("step", "t", "q", "v", "nc", *([_JOINTS] if frames[0].joint_forces.size else []))
    columns = {name: np.array([getattr(frame, name) for frame in frames]) for name in names}
    return columns | {name: np.concatenate(parts) for name, parts in flat.items()}


def _read(file: h5py.File, header: Header, first: int, count: int) -> Columns:
    """``count`` frames of a file, from ``first``."""
    records, series, nb = file[_RECORDS], PolyDataSeries(file), header.scene.nb
    frames, bodies = slice(first, first + count), slice(first * nb, (first + count) * nb)
    nc, names = series.lines(first, count), (*_CELL_DATA, *map(_shown, header.forces))
    columns = {name: series.cell_data(name, first, count) for name in names}
    columns["point"] = series.points(first, count)[_places(nb, nc)[1]]
    dim = header.scene.dim
    columns = {name: x if x.ndim == 1 else x[:, :dim] for name, x in columns.items()}
    if _JOINTS in records:
        columns[_JOINTS] = records[_JOINTS][frames]
    q, v = (records[name][bodies].reshape(count, nb, records[name].shape[1]) for name in "qv")
    known = {"step": records["step"][frames], "t": series.times[frames], "q": q, "v": v, "nc": nc}
    return columns | known


def _append(file: h5py.File, scene: Scene, columns: Columns) -> None:
    """Append frames, all at once."""
    contacts = dict(columns)
    steps, times, q, v, nc = (contacts.pop(name) for name in ("step", "t", "q", "v", "nc"))
    joints = contacts.pop(_JOINTS, np.zeros((steps.size, 0)))
    if not steps.size:
        return
    bounded, nb, dim = np.isfinite(scene.bodies.reach), scene.nb, scene.dim
    bodies, places, middle = _places(nb, nc)
    points, velocity = np.zeros((2, bodies.size + places.size, 3))
    points[bodies, :dim] = q[:, :, :dim].reshape(-1, dim)
    velocity[bodies, :dim] = v[:, :, :dim].reshape(-1, dim)
    points[places, :dim] = contacts.pop("point")
    # from body to contact point to body; a wall ends at the contact
    i, j = np.divmod(contacts["contact"] // FEATURES, nb)
    i, j = (np.where(bounded[body], body, middle) for body in (i, j))
    cells = {name: rows if rows.ndim == 1 else in_space(rows) for name, rows in contacts.items()}
    lines, on_points = np.column_stack([i, middle, j]), {"velocity": velocity}
    PolyDataSeries(file).append(times, nb + nc, points, nc, lines, on_points, cells)
    records = file[_RECORDS]
    append(records["q"], q.reshape(-1, q.shape[2]))
    append(records["v"], v.reshape(-1, v.shape[2]))
    append(records["step"], steps)
    if _JOINTS in records:
        append(records[_JOINTS], joints)


def _places(nb: int, counts: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Rows of bodies and of contact points of each frame, and numbers of points within frames."""
    begins = np.cumsum(nb + counts) - nb - counts
    bodies = (begins[:, None] + np.arange(nb)).ravel()
    first = np.cumsum(counts) - counts
    middle = nb + np.arange(counts.sum()) - np.repeat(first, counts)
    return bodies, np.repeat(begins, counts) + middle, middle


def _shown(name: str) -> str:
    """Name of a force in ParaView: f is force, f_classic is force_classic."""
    return f"force{name.removeprefix('f')}"


def _next_to(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _part(path: Path, number: int) -> Path:
    return _next_to(path, f".part-{number}")


def _stamp(path: Path) -> tuple[int, ...]:
    """Device, inode, time and size, which change when a file does."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@contextlib.contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    """Raise InvalidInput for every error that a damaged or foreign file may cause."""
    try:
        yield
    except CdoptError:
        raise
    except files.DAMAGE as error:
        message = " ".join(f"{path}: {error}".split())[:300]
        raise InvalidInput("path", message, _EXPECTED) from error


def _header(file: h5py.File, path: Path) -> Header:
    records = file[_RECORDS]
    if records.attrs["format"] != FORMAT:
        raise InvalidInput("path", f"{path}: format {records.attrs['format']}", _EXPECTED)
    settings, forces, columns = (json.loads(_text(records, name)) for name in _TEXTS)
    if not isinstance(settings, dict) or not {"method", "dt", "every"} <= set(settings):
        raise ValueError("settings without method, dt or every")
    texts = all(
        isinstance(n, list) and all(isinstance(x, str) for x in n) for n in (forces, columns)
    )
    if not texts or not set(columns) >= _DIAGNOSTICS:
        raise ValueError("no names of forces, or of diagnostics")
    scene = loads(_text(records, "scene"), str(path))
    return Header(scene, settings, tuple(forces), tuple(columns))


def _require_rows(file: h5py.File, header: Header, at_least: int) -> None:
    """Every array of frames, and every array of steps, must have as many rows."""
    records, initial = file[_RECORDS], header.scene.initial
    frames, rows = records["step"].shape, records["diagnostics"].shape
    if len(frames) != 1 or frames[0] < at_least or PolyDataSeries(file).times.shape != frames:
        raise ValueError("no frames, or frames without times")
    joints = joint_gaps(header.scene, initial).size
    if _JOINTS in records and records[_JOINTS].shape != (frames[0], joints):
        raise ValueError(f"{_JOINTS} of shape {records[_JOINTS].shape}, not {(frames[0], joints)}")
    for name, start in (("q", initial.q), ("v", initial.v)):
        expected = (frames[0] * start.shape[0], start.shape[1])
        if records[name].shape != expected:
            raise ValueError(f"{name} of shape {records[name].shape}, not {expected}")
    if len(rows) != 2 or rows[0] == 0 or rows[1] != len(header.columns):
        raise ValueError(f"diagnostics of shape {rows} for {len(header.columns)} names")
