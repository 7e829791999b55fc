"""Trajectory: the result of a simulation, in memory or in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util import checks, notebook
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt.collision import joints
from cdopt.dynamics.records import Frame, Header, MemoryStore, largest_forces
from cdopt.dynamics.trajectory_file import FileStore, copy
from cdopt.scene import Scene

_WHOLE = (
    "step",
    "contacts",
    "iterations_",
    "impacts",
    "plastic",
    "substeps",
    "carrying",
    "sliding",
)
_YES_NO = ("ok", "claimed_")

if TYPE_CHECKING:
    import pandas as pd


class Diagnostics(Mapping[str, NDArray[Any]]):
    """Measurements of every step; row 0 is the initial state.

    A ``table`` (rows, columns) of numbers whose ``columns`` have names.

    By name, each with one row per step: ``step``; ``time``, s; ``ok``, whether all certificates
    are ok; ``contacts``, detected at the start of the step; ``kinetic`` and ``potential`` energy of
    the free bodies, J; ``momentum`` (dim,), N s, and ``angular_momentum`` (1,) or (3,) about the
    origin, N m s; ``overlap``, the deepest at the end of the step, m; for every stage of the
    method (``classic``, ``forces``) ``residual_``, the worst of its certificate, ``claimed_``,
    whether the solver reported success, ``iterations_`` (−1: unknown) and ``seconds_``; the
    measures of the method (``closed`` contacts, ``closed_tol``, ``projected``; with rigid
    contacts ``impacts`` and ``plastic``, the number of contact steps of a step with several
    impacts, and of the contacts that closed without restitution beyond the limit; with
    friction ``substeps``, the number of parts of a step, ``carrying`` contacts with a force, and
    those of them that are ``sliding``, with friction at its limit; with
    elastic contacts ``elastic``, the energy stored in them, J, and rows of recorded steps only);
    with elastic contacts and inertia ``dissipated``, the energy of free bodies lost in damping
    since the start, ``work``, that of loads except gravity and of moving walls through elastic
    contacts, ``balance``, the change of kinetic + potential + elastic + dissipated − work, and
    ``scheme_error``, the part of it due to the integrator: ``balance`` − ``scheme_error`` is
    round-off; all in J; ``seconds_detect``, ``seconds_assemble`` and ``seconds_output``, the time
    for files and measurements since the previous row.
    """

    def __init__(self, columns: tuple[str, ...], table: FloatArray) -> None:
        self._columns: tuple[str, ...] = checks.instances("columns", columns, str)
        expected = f"numbers (rows, {len(self._columns)})"
        self._table = checks.real("table", table, expected, (None, len(self._columns)))
        names = list(dict.fromkeys(column.partition(".")[0] for column in self._columns))
        if "dissipated" in names:
            names.insert(names.index("work") + 1, "balance")
        self._names = tuple(names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if checks.choice("name", name, self._names) == "balance":
            parts = ("kinetic", "potential", "elastic", "dissipated")
            total = np.sum([self[part] for part in parts], axis=0) - self["work"]
            return read_only(total - total[:1])
        columns = [k for k, column in enumerate(self._columns) if column.partition(".")[0] == name]
        vector = "." in self._columns[columns[0]]
        values = self._table[:, columns] if vector else self._table[:, columns[0]]
        if name.startswith(_YES_NO):
            return read_only(values > 0.5)
        if name.startswith(_WHOLE):
            return read_only(np.nan_to_num(values, nan=-1.0).astype(np.int64))
        return read_only(values.copy())

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def stages(self) -> list[str]:
        """Names of the solves of a step, each of which has a residual."""
        return [name.removeprefix("residual_") for name in self if name.startswith("residual_")]

    def to_frame(self) -> pd.DataFrame:
        """A row for each step as a pandas.DataFrame, the number of the step its index.

        Vectors have a column for each component, ``momentum.0`` and so on.
        """
        columns = {
            name if values.ndim == 1 else f"{name}.{k}": column
            for name, values in self.items()
            for k, column in enumerate(np.atleast_2d(values.T))
        }
        return notebook.data_frame(columns, index="step")

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())

    def __repr__(self) -> str:
        return f"Diagnostics({self._table.shape[0]:,} rows of {', '.join(self._names)})"


class Trajectory:
    """Frames and diagnostics of a simulation, kept in a ``store``, in memory or in a file.

    ``trajectory[k]`` is a Frame, read on demand; negative numbers count from the end.

    Raises
    ------
    InvalidInput : reading a file that is gone or damaged.
    """

    def __init__(self, store: MemoryStore | FileStore, path: Path | None = None) -> None:
        self._store = store
        self.path = path

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """The trajectory in a file of ``simulate``, also of an unfinished run."""
        place = checks.path("path", path)
        return cls(FileStore(place), place)

    def save(self, path: str | Path) -> None:
        """Write the trajectory to a new VTKHDF file; the run can be resumed from it.

        Raises
        ------
        InvalidInput : the file exists, or no file can have this path.
        SaveFailed : the disk is full or cannot be written.
        """
        copy(checks.path("path", path), self._store)

    # --- scene and settings ------------------------------------------------------------

    @property
    def header(self) -> Header:
        """Scene, settings and names of columns."""
        return self._store.header

    @property
    def scene(self) -> Scene:
        """The scene."""
        return self._store.header.scene

    @property
    def settings(self) -> Mapping[str, Any]:
        """Method, dt, every, and the method's settings, as plain values."""
        return MappingProxyType(dict(self._store.header.settings))

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.settings["method"])

    @property
    def dt(self) -> float:
        """Δt, s."""
        return float(self.settings["dt"])

    @property
    def friction(self) -> float | None:
        """μ of all contacts, if the run did not use that of the scene's materials."""
        stated = self.settings.get("friction")
        return None if stated is None or isinstance(stated, str) else float(stated)

    # --- frames ------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._store.array("step").size)

    def __getitem__(self, k: int) -> Frame:
        count, k = len(self), checks.whole("k", k)
        if not -count <= k < count:
            raise IndexError(f"k: found {k}; expected a frame from {-count} to {count - 1}")
        return self._store.frame(k % count)

    def __iter__(self) -> Iterator[Frame]:
        return (self[k] for k in range(len(self)))

    @property
    def final(self) -> Frame:
        """The last frame."""
        return self[-1]

    @property
    def t(self) -> FloatArray:
        """(frames,) s."""
        return read_only(self._store.array("t"))

    @property
    def steps(self) -> IntArray:
        """(frames,) number of steps up to each."""
        return read_only(self._store.array("step"))

    @property
    def q(self) -> FloatArray:
        """(frames, nb, 3 or 7) positions, as in State."""
        return read_only(self._store.array("q"))

    @property
    def v(self) -> FloatArray:
        """(frames, nb, 3 or 6) velocities, as in State."""
        return read_only(self._store.array("v"))

    @property
    def joint_forces(self) -> FloatArray:
        """(frames, nj) N and N·m, reactions of joints in the step that led to a frame, by rows."""
        return read_only(self._store.array("joint_forces"))

    def joints_to_frame(self) -> pd.DataFrame:
        """Reactions of the joints as a pandas.DataFrame, N and N·m, the time its index."""
        scene, reactions = self.scene, self.joint_forces
        rows = joints(scene, scene.initial, self.dt) if reactions.shape[1] else None
        names = [] if rows is None or rows.names is None else rows.names.tolist()
        columns = {name: reactions[:, k] for k, name in enumerate(names)}
        return notebook.data_frame({"t": self.t, **columns}, index="t")

    # --- diagnostics -------------------------------------------------------------------

    @property
    def diagnostics(self) -> Diagnostics:
        """Measurements of every step, by name."""
        return Diagnostics(self._store.header.columns, self._store.array("diagnostics"))

    @property
    def ok(self) -> bool:
        """Whether every certificate of every step is ok."""
        return bool(self.diagnostics["ok"].all())

    def _repr_html_(self) -> str:
        rows, final, name = self.diagnostics, self.final, self.scene.title or self.scene.name
        failed = int(np.count_nonzero(~rows["ok"]))
        forces = largest_forces(final.forces)
        largest = ", ".join(f"{key} {value:,.5g} N" for key, value in forces.items())
        overlap = np.nan_to_num(rows["overlap"]).max(initial=0.0)
        lines = [
            ("scene", f"{name or 'without a name'}, {self.scene.nb:,} bodies"),
            ("method", f"{self.method}, Δt = {self.dt:g} s"),
            ("frames", f"{len(self):,}, of {rows['step'][-1]:,} steps to {rows['time'][-1]:g} s"),
            ("certificates", "all hold" if not failed else f"{failed:,} steps NOT OK"),
            ("last frame", f"{final.nc:,} contacts, largest force: {largest}"),
            ("deepest overlap", f"{overlap:.3g} m"),
            ("kinetic energy", f"{rows['kinetic'][-1]:.4g} J at the end"),
            ("file", self.path or "in memory"),
        ]
        return notebook.table("Trajectory", ("", ""), lines, left=2)

    def __repr__(self) -> str:
        done = self.diagnostics
        verdict = "ok" if done["ok"].all() else f"{np.count_nonzero(~done['ok']):,} steps not ok"
        return (
            f"Trajectory({self.method}: {len(self):,} frames, {done['step'][-1]:,} steps to "
            f"t={done['time'][-1]:g} s, {verdict})"
        )
