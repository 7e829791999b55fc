"""A trajectory in one HDF5 file, which ParaView opens and which survives being killed.

The group ``VTKHDF`` holds what ParaView shows (``cdopt.interop.vtkhdf``): the bodies as points
with ``velocity``, ``radius`` and ``fixed``, and the contacts as lines from body to contact point
to body, with ``force``, ``force_classic``, ``gap``, ``normal`` and ``contact``, their number. The
group ``cdopt`` holds the scene as text, the settings of the run, q, v and step of each frame, the
diagnostics, and the checkpoint from which a run is resumed.

Chunks carry Fletcher-32 checksums and HDF5's own structures those of its format 1.8, so that
damage is an error when it is read, not another number. A file is checked as a whole when it is
opened: it contains everything itself, and nothing is larger than what is stored of it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cdopt._util import files
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.dynamics.frame import Frame
from cdopt.dynamics.journal import CommittedFile, JournaledFile, half_done
from cdopt.dynamics.store import Checkpoint, Header
from cdopt.interop.hdf5 import require_self_contained
from cdopt.interop.vtkhdf import PolyDataSeries, append, growing
from cdopt.scene import Sphere, State
from cdopt.scene.files import loads

FORMAT = 2  # 1 had other contact numbers
_OWN = "cdopt"  # the group beside VTKHDF
_FAULTS = (
    OSError,
    KeyError,
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    MemoryError,
    OverflowError,
)
_EXPECTED = "a trajectory that cdopt wrote"
_COLUMNS = {"step", "time", "ok"}  # of any diagnostics
_CELL_DATA = {"gap": ("f8", 0), "normal": ("f8", 3), "contact": ("i8", 0)}


class FileWriter:
    """A trajectory file being written; see ``cdopt.dynamics.journal`` for what a kill leaves.

    Parameters
    ----------
    path : a file that ``create`` made.
    """

    def __init__(self, path: Path) -> None:
        self._raw = JournaledFile(path)
        self._rows: list[Sequence[float]] = []
        fresh = self._raw.seek(0, 2) == 0
        try:
            with _faults_named(path):
                mode = "w" if fresh else "r+"
                self._file = h5py.File(self._raw, mode, libver=("v108", "v110"))
                try:
                    require_self_contained(self._file, self._raw.seek(0, 2))
                except BaseException:
                    self._file.close()
                    raise
        except InvalidInput:
            self._raw.close()
            raise
        self.empty = fresh

    def start(self, header: Header) -> None:
        """Lay out an empty file."""
        scene = header.scene
        self._bounded = np.isfinite(scene.bodies.reach)
        PolyDataSeries.create(
            self._file,
            scene.nb,
            point_data={"velocity": 3},
            cell_data={**_CELL_DATA, **{_shown(name): ("f8", 0) for name in header.forces}},
            fixed_data={
                "radius": _radii(header),
                "fixed": scene.bodies.fixed.astype(np.int8),
            },
        )
        own = self._file.create_group(_OWN)
        own.attrs["format"] = FORMAT
        own.attrs["settings"] = json.dumps(dict(header.settings))
        own.attrs["forces"] = json.dumps(header.forces)
        own.attrs["columns"] = json.dumps(header.columns)
        append(growing(own, "scene", "u1", ()), np.frombuffer(scene.to_toml().encode(), "u1"))
        growing(own, "q", "f8", scene.initial.q.shape[1:])
        growing(own, "v", "f8", scene.initial.v.shape[1:])
        growing(own, "step", "i8", (), 512)
        growing(own, "diagnostics", "f8", (len(header.columns),), 64)

    def add_frame(self, frame: Frame) -> None:
        """Write a frame."""
        state, own = frame.state, self._file[_OWN]
        contact = state.nb + np.arange(frame.nc)
        ends = np.where(self._bounded[frame.bodies], frame.bodies, contact[:, None])
        PolyDataSeries(self._file).append(
            frame.t,
            np.concatenate([_in_space(state.position), _in_space(frame.points)]),
            np.column_stack([ends[:, 0], contact, ends[:, 1]]),  # a wall ends at the contact
            {"velocity": np.concatenate([_in_space(state.velocity), np.zeros((frame.nc, 3))])},
            {
                "gap": frame.phi,
                "normal": _in_space(frame.normals),
                "contact": frame.contact_ids,
                **{_shown(name): values for name, values in frame.forces.items()},
            },
        )
        append(own["q"], frame.q)
        append(own["v"], frame.v)
        append(own["step"], [frame.step])

    def add_row(self, row: Sequence[float]) -> None:
        """Write a row of diagnostics."""
        self._rows.append(row)

    @property
    def pending(self) -> int:
        """Bytes that wait for a commit."""
        return self._raw.pending

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make all that was written last, with where the run stands."""
        own = self._file[_OWN]
        if self._rows:
            append(own["diagnostics"], np.array(self._rows))
            self._rows = []
        place = own.require_group("checkpoint")
        place.attrs["step"] = checkpoint.step
        place.attrs["t"] = checkpoint.state.t
        wanted = {"q": checkpoint.state.q, "v": checkpoint.state.v}
        wanted.update({f"memory/{name}": array for name, array in checkpoint.memory.items()})
        for name in set(place.get("memory", ())):
            if f"memory/{name}" not in wanted:
                del place["memory"][name]
        for name, array in wanted.items():
            _replace(place, name, np.asarray(array))
        self._file.flush()
        self._raw.commit()

    def take_back(self, step: int) -> None:
        """Forget the diagnostics of steps after this one."""
        rows = self._file[_OWN]["diagnostics"]
        rows.resize(int(np.count_nonzero(rows[:, 0] <= step)), axis=0)

    def checkpoint(self, path: Path) -> Checkpoint:
        """Where the run stands that the file holds."""
        with _faults_named(path):
            place = self._file[_OWN]["checkpoint"]
            state = State(float(place.attrs["t"]), place["q"][()], place["v"][()])
            memory = {name: data[()] for name, data in place.get("memory", {}).items()}
            return Checkpoint(int(place.attrs["step"]), state, memory)

    def header(self, path: Path) -> Header:
        """What the run is that the file holds."""
        found = _header(self._file, path)
        self._bounded = np.isfinite(found.scene.bodies.reach)
        return found

    def close(self) -> None:
        """Close the file; what was not committed is gone."""
        self._file.close()
        self._raw.close()


class FileStore:
    """Frames and diagnostics in a file, read when they are asked for.

    Parameters
    ----------
    path : a file that ``simulate`` wrote, or is writing.

    Raises
    ------
    InvalidInput : no such file, or not a trajectory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checked: tuple[int, ...] = ()
        with self._open() as file:
            self.header = _header(file, path)
            _require_rows(file, self.header)

    def __len__(self) -> int:
        return int(self.steps.size)

    @property
    def times(self) -> FloatArray:  # noqa: D102
        with self._open() as file:
            return PolyDataSeries(file).times

    @property
    def steps(self) -> IntArray:  # noqa: D102
        with self._open() as file:
            return np.asarray(file[_OWN]["step"][()])

    def table(self) -> FloatArray:  # noqa: D102
        with self._open() as file:
            return np.asarray(file[_OWN]["diagnostics"][()])

    def motion(self, name: str) -> FloatArray:  # noqa: D102
        with self._open() as file:
            rows = np.asarray(file[_OWN][name][()])
            return rows.reshape(-1, self.header.scene.nb, rows.shape[1])

    def frame(self, k: int) -> Frame:  # noqa: D102
        scene = self.header.scene
        nb, dim = scene.nb, scene.dim
        with self._open() as file:
            own, series = file[_OWN], PolyDataSeries(file)
            rows = slice(k * nb, (k + 1) * nb)
            return Frame(
                step=int(own["step"][k]),
                state=State(float(series.times[k]), own["q"][rows], own["v"][rows]),
                contact_ids=series.cell_data("contact", k),
                phi=series.cell_data("gap", k),
                normals=series.cell_data("normal", k)[:, :dim].copy(),
                points=series.points(k)[nb:, :dim].copy(),
                forces={
                    name: series.cell_data(_shown(name), k) for name in self.header.forces
                },
            )  # fmt: skip

    @contextlib.contextmanager
    def _open(self) -> Iterator[h5py.File]:
        """The file after its last commit, checked as a whole whenever it has changed."""
        place, size = files.regular(self.path, _EXPECTED)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_faults_named(self.path))
            place = place.resolve()
            source: Path | CommittedFile = place
            if half_done(place):
                source = stack.enter_context(CommittedFile(place))
                size = source.seek(0, 2)
            if size == 0:
                raise InvalidInput("path", f"{self.path}: empty", "a run that was begun")
            file = stack.enter_context(h5py.File(source, "r"))
            found = place.stat()
            stamp = (found.st_dev, found.st_ino, found.st_mtime_ns, size)
            if stamp != self._checked:
                require_self_contained(file, size)
                self._checked = stamp
            yield file


def create(path: Path) -> None:
    """Make an empty file.

    Raises
    ------
    InvalidInput : there is one already, or its folder is missing.
    SaveFailed : the disk is full or cannot be written.
    """
    with files.named(path, "out"):
        try:
            path.open("xb").close()
        except FileExistsError as error:
            raise InvalidInput(
                "out", f"{path}: a file that exists", "a new path, or resume=True to go on with it"
            ) from error
        except ValueError as error:
            raise InvalidInput("out", f"{path}: {error}", "a path to write to") from error
        files.synchronise(path.parent)


@contextlib.contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    """Whatever HDF5 has to say of a file that is no trajectory, as one exception."""
    try:
        yield
    except InvalidInput:
        raise
    except _FAULTS as error:
        found = " ".join(f"{path}: {error}".split())[:300]
        raise InvalidInput("path", found, _EXPECTED) from error


def _header(file: h5py.File, path: Path) -> Header:
    with _faults_named(path):
        own = file[_OWN]
        if own.attrs["format"] != FORMAT:
            found = f"{path}: format {own.attrs['format']}"
            raise InvalidInput("path", found, f"a trajectory in format {FORMAT}")
        stated = {name: json.loads(own.attrs[name]) for name in ("settings", "forces", "columns")}
        settings, forces, columns = stated["settings"], stated["forces"], stated["columns"]
        if not isinstance(settings, dict) or not {"method", "dt", "every"} <= set(settings):
            raise ValueError("settings without method, dt or every")
        if not _texts(forces) or not _texts(columns) or not set(columns) >= _COLUMNS:
            raise ValueError("no names of forces, or of diagnostics")
        text = own["scene"][()].tobytes().decode()
        return Header(loads(text, str(path)), settings, tuple(forces), tuple(columns))


def _texts(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _require_rows(file: h5py.File, header: Header) -> None:
    """What is told of every frame and every step has as many rows."""
    own, initial = file[_OWN], header.scene.initial
    frames = own["step"].shape
    if len(frames) != 1 or frames[0] == 0 or PolyDataSeries(file).times.shape != frames:
        raise ValueError("no frames, or frames without times")
    for name, start in (("q", initial.q), ("v", initial.v)):
        wanted = (frames[0] * start.shape[0], start.shape[1])
        if own[name].shape != wanted:
            raise ValueError(f"{name} of shape {own[name].shape}, not {wanted}")
    rows = own["diagnostics"].shape
    if len(rows) != 2 or rows[0] == 0 or rows[1] != len(header.columns):
        raise ValueError(f"diagnostics of shape {rows} for {len(header.columns)} names")


def _radii(header: Header) -> FloatArray:
    """(nb,) m, of spheres and discs; 0 for other shapes."""
    bodies = header.scene.bodies
    radius = np.zeros(bodies.nb)
    table = bodies.table(Sphere)
    if table is not None:
        radius[table.body] = table.columns["radius"]
    return radius


def _replace(group: h5py.Group, name: str, array: NDArray[Any]) -> None:
    """An array under a name whose length may differ from the last one there."""
    if name not in group:
        growing(group, name, array.dtype.str, array.shape[1:])
    dataset = group[name]
    dataset.resize(array.shape[0], axis=0)
    if array.size:
        dataset[...] = array


def _shown(name: str) -> str:
    """Name of a force in ParaView: f is force, f_classic is force_classic."""
    return f"force{name.removeprefix('f')}"


def _in_space(table: FloatArray) -> FloatArray:
    """(n, 3) from (n, 2) or (n, 3)."""
    return table if table.shape[1] == 3 else np.column_stack([table, np.zeros(table.shape[0])])
