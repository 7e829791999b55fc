"""Where a trajectory is kept while it is made and read: what all stores share, and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray, IntArray
from cdopt.dynamics.frame import Frame
from cdopt.scene import Scene, State


@dataclass(frozen=True)
class Header:
    """What a run is: resuming it takes the same.

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
    """Where a run stands: its state after ``step`` steps, and what the method remembers."""

    step: int
    state: State
    memory: Mapping[str, NDArray[Any]]


class Store(Protocol):
    """Frames and diagnostics, one after the other."""

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

    # --- writing -----------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Bytes that a commit would write: none."""
        return 0

    def add_frame(self, frame: Frame) -> None:
        """Keep a frame."""
        self._frames.append(frame)

    def add_row(self, row: Sequence[float]) -> None:
        """Keep a row of diagnostics."""
        self._rows.append(row)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Nothing is safer for it."""

    def close(self) -> None:
        """Nothing to close."""
