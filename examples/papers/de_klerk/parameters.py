"""The parameters of De Klerk et al. (2021), in the units in which their code runs.

Lengths in sphere diameters d, densities in that of a sphere; k = 10⁶ in these units, speeds v = 1.
γ stands for γ_n, 1/s, as it is: γ = 30 is γ_n = 30.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cdopt._util import checks


@dataclass(frozen=True)
class Grain:
    """A sphere and its contacts.

    Attributes
    ----------
    diameter : m. mass : kg. stiffness : k of a pair and of a wall, N/m.
    gravity : m/s². damping : γ_n, 1/s.
    """

    diameter: float = 1.0
    mass: float = math.pi / 6.0
    stiffness: float = 1e6
    gravity: float = 0.0
    damping: float = 0.0

    @property
    def contact_time(self) -> float:
        """t_c = π √(m/2k), s, of an undamped collision of two; with a wall it is √2 longer."""
        return math.pi * math.sqrt(0.5 * self.mass / self.stiffness)


PAPER = Grain()
BOX = Grain(mass=1.0, stiffness=195_000.0, gravity=1.0, damping=30.0)  # units m = d = g = 1

SPEED = 1.0  # m/s, of each sphere
FINE, COARSE = 1e-5, (1e-4, 5e-4, 1e-3)  # time steps, s: t_c/160.7; t_c/16.07, /3.21, /1.61
SMALL_STEPS = ((0.0, 0.3), (30.0, 0.1), (100.0, 0.0))  # γ, Δy/d of figure 6
LARGE_STEPS = (30.0, 0.1)  # γ, Δy/d of figure 7
ANALYTIC = (0.0, 100.0, 300.0)  # γ of figure 8, head-on
WALL_STEPS = (1e-5, 5e-5)  # s, t_c/160.7 and t_c/32.1
WALL_DISTANCE = 1.01  # in diameters
BOND_STIFFNESS = (10.0, 0.1)  # k_B / k
BOND_OFFSETS = (0.0, 0.1)  # Δy/d
BOX_SIDE = 6.0  # in diameters
BOX_STEPS = ("16.1", "32", "160")  # time steps are t_c over this


@dataclass(frozen=True)
class Settings:
    """Settings of a reproduction.

    Parameters
    ----------
    peer : source of the curves of velocity-Verlet: "lammps"; "stored", the series that come with
        cdopt; or "auto", LAMMPS where it is installed.
    damping : how the variational integrator splits dissipation, "paper" or "forced".
    collisions : with the walls, figure 9.
    box_time : of the filling, in √(d/g), at most 16, where the stored series end.
    box_step : of the filling, t_c over "160", "32" or "16.1".

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    peer: str = "auto"
    damping: str = "paper"
    collisions: int = 250
    box_time: float = 16.0
    box_step: str = "16.1"

    def __post_init__(self) -> None:
        checks.choice("peer", self.peer, ("auto", "lammps", "stored"))
        checks.choice("damping", self.damping, ("paper", "forced"))
        checks.whole("collisions", self.collisions, 2, 10_000)
        checks.scalar("box_time", self.box_time, above=0.0, at_most=16.0)
        checks.choice("box_step", self.box_step, BOX_STEPS)
