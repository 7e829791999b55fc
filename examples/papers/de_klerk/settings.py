"""What is reproduced, and at what length."""

from __future__ import annotations

from dataclasses import dataclass

from cdopt._util import checks
from cdopt._util.parameters import whole

from .parameters import BOX_STEPS, COLLISIONS

PEERS = ("auto", "lammps", "stored")
SPLITS = ("paper", "forced")


@dataclass(frozen=True)
class Settings:
    """What a reproduction is made with.

    Parameters
    ----------
    peer : where the curves of velocity-Verlet come from: "lammps"; "stored", the series that come
        with cdopt; or "auto", LAMMPS where it is installed.
    damping : how the variational integrator splits dissipation, "paper" or "forced".
    collisions : with the walls, figure 8.
    box_time : of the filling, in √(d/g), at most 16, where the stored series end.
    box_step : of the filling, t_c over "160", "32" or "16.1".

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    peer: str = "auto"
    damping: str = "paper"
    collisions: int = COLLISIONS
    box_time: float = 16.0
    box_step: str = "16.1"

    def __post_init__(self) -> None:
        checks.choice("peer", self.peer, PEERS)
        checks.choice("damping", self.damping, SPLITS)
        whole("collisions", self.collisions, 2, 10_000)
        checks.scalar("box_time", self.box_time, above=0.0, at_most=16.0)
        checks.choice("box_step", self.box_step, BOX_STEPS)
