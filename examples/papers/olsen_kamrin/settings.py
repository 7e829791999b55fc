"""What is reproduced, and how large."""

from __future__ import annotations

from dataclasses import dataclass

from cdopt._util import checks
from cdopt._util.parameters import whole
from cdopt.problem.contact_law import HOOKE

HERTZ = 2.5
DT = 1e-3  # s, the paper's
PAPER_N = 20  # layers of the paper's pile
DURATION = 0.02  # s; that pile is static by 16 ms
DEM = ("auto", "lammps", "elastic")


@dataclass(frozen=True)
class Material:
    """One of the paper's three piles.

    Attributes
    ----------
    name, title : a word and a few words.
    kind : ``material`` of the pyramid's generators.
    power : p of the contact energy.
    """

    name: str
    title: str
    kind: str
    power: float


MATERIALS = (
    Material("hooke", "Hooke", "uniform", HOOKE),
    Material("species", "two species", "species", HOOKE),
    Material("hertz", "Hertz", "uniform", HERTZ),
)


@dataclass(frozen=True)
class Settings:
    """What a reproduction is made with.

    Parameters
    ----------
    n : spheres along a side of the pile's base; the paper's is 20.
    dt : time step, s.
    duration : length of the drop, s; by default 20 ms, longer in proportion for larger piles.
    seed : the first of the seeds of shuffled orders.
    dem : where the columns of the discrete element method come from: "lammps"; "elastic", the
        settled elastic network solved to 1e-12; or "auto", LAMMPS where it is installed.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    n: int = 20
    dt: float = DT
    duration: float | None = None
    seed: int = 0
    dem: str = "auto"

    def __post_init__(self) -> None:
        whole("n", self.n, 3, 60)
        whole("seed", self.seed, 0, 2**31)
        checks.scalar("dt", self.dt, above=0.0)
        if self.duration is not None:
            checks.scalar("duration", self.duration, at_least=0.016)
        checks.choice("dem", self.dem, DEM)

    @property
    def length(self) -> float:
        """Length of the drop, s."""
        return DURATION * max(1.0, self.n / PAPER_N) if self.duration is None else self.duration
