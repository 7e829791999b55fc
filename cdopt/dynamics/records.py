"""What a run records: frames, diagnostics and checkpoints, and a store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.frozen import Frozen
from cdopt.collision.contacts import FEATURES
from cdopt.scene import Scene, State


@dataclass(frozen=True, eq=False)
class Frame(Frozen):
    """One recorded state; arrays are read-only.

    With rigid contacts, these are those that the step which led to this state found at its start,
    with the forces that act throughout that step; the first frame, the initial state, has none.
    With elastic contacts, they are overlaps and bonds of this very state, and their elastic forces.

    Attributes
    ----------
    step : how many steps led here.
    state : State, with t, q and v of all bodies.
    contact_ids : (nc,) numbers that a contact keeps from step to step.
    phi : (nc,) their gaps, m.
    normals : (nc, dim) from the first body to the second. points : (nc, dim) m.
    forces : by name, each (nc,) in N: "f" of the method, and "f_classic" of the first problem of
        compatible contact dynamics. Not a number where a failed step gave none.
    """

    step: int
    state: State
    contact_ids: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    forces: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        super().__post_init__()
        for values in self.forces.values():
            read_only(values)

    @property
    def t(self) -> float:
        """Time, s."""
        return self.state.t

    @property
    def q(self) -> FloatArray:
        """Positions (nb, 3 or 7), as in State."""
        return self.state.q

    @property
    def v(self) -> FloatArray:
        """Velocities (nb, 3 or 6), as in State."""
        return self.state.v

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.phi.size)

    @property
    def bodies(self) -> IntArray:
        """(nc, 2) numbers i < j of the bodies in contact."""
        return np.stack(np.divmod(self.contact_ids // FEATURES, self.state.nb), axis=1)

    @property
    def f(self) -> FloatArray:
        """Contact forces (nc,) of the method, N."""
        return self.forces["f"]

    @property
    def f_classic(self) -> FloatArray:
        """Contact forces (nc,) of classic contact dynamics, N: not unique in general."""
        return self.forces.get("f_classic", self.forces["f"])

    def body_forces(self, name: str = "f") -> FloatArray:
        """Total contact force (nb, dim) on every body, N; minus the reactions of fixed bodies.

        Raises
        ------
        InvalidInput : the method gives no forces of this name.
        """
        vectors = self.forces[checks.choice("name", name, self.forces)][:, None] * self.normals
        total = np.zeros((self.state.nb, self.state.dim))
        for column, sign in ((0, -1.0), (1, 1.0)):
            np.add.at(total, self.bodies[:, column], sign * vectors)
        return total

    def __repr__(self) -> str:
        return f"Frame(step {self.step}, t={self.t:g} s, {self.nc} contacts)"


@dataclass(frozen=True, eq=False)
class ContactState(Frozen):
    """Overlaps and bonds of a state; arrays are read-only.

    Attributes
    ----------
    contact_ids : (nc,) ascending, as in Contacts.
    phi : (nc,) gaps, m. normals : (nc, dim) from the first body to the second.
    points : (nc, dim) m.
    forces : (nc,) elastic forces w′(−Φ), of bonds k_B times the overlap, N.
    energy : stored in all of them, J.
    """

    contact_ids: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    forces: FloatArray
    energy: float

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.phi.size)


@dataclass(frozen=True)
class Header:
    """What identifies a run; a resumed run must have the same.

    Attributes
    ----------
    scene : the scene. settings : method, dt, backends and so on, as plain values.
    forces : names of the forces in each frame. columns : names of the diagnostics.
    """

    scene: Scene
    settings: Mapping[str, Any]
    forces: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: the state after ``step`` steps, and arrays that the method remembers."""

    step: int
    state: State
    memory: Mapping[str, NDArray[Any]]


class Store(Protocol):
    """Frames and diagnostics that can be read."""

    header: Header

    def __len__(self) -> int:
        """Number of frames."""

    @property
    def times(self) -> FloatArray:
        """Of the frames, s."""

    @property
    def steps(self) -> IntArray:
        """Of the frames."""

    def table(self) -> FloatArray:
        """Diagnostics, a row per step and a column for each of ``header.columns``."""

    def motion(self, name: str) -> FloatArray:
        """q or v of all frames."""

    def frame(self, k: int) -> Frame:
        """Frame k ≥ 0."""


class MemoryStore:
    """Frames and diagnostics in memory."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self._frames: list[Frame] = []
        self._rows: list[Sequence[float]] = []

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def times(self) -> FloatArray:  # noqa: D102
        return np.array([frame.t for frame in self._frames])

    @property
    def steps(self) -> IntArray:  # noqa: D102
        return np.array([frame.step for frame in self._frames], dtype=np.int64)

    def table(self) -> FloatArray:  # noqa: D102
        return np.array(self._rows).reshape(len(self._rows), len(self.header.columns))

    def motion(self, name: str) -> FloatArray:  # noqa: D102
        return np.stack([getattr(frame.state, name) for frame in self._frames])

    def frame(self, k: int) -> Frame:  # noqa: D102
        return self._frames[k]

    def add(self, row: Sequence[float], frame: Frame | None = None) -> None:
        """Keep the diagnostics of a step and, where it is recorded, its frame."""
        self._rows.append(row)
        if frame is not None:
            self._frames.append(frame)

    def commit(self, checkpoint: Checkpoint, final: bool = False) -> None:
        """Nothing to do: memory does not outlive the process."""
