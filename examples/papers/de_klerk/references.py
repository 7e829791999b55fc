"""References of the figures: stored series of LAMMPS, and the closed form of a head-on impact.

Source, units and columns of the series are in ``data/README.md``, next to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from cdopt import InvalidInput
from cdopt._util import checks

FOLDER = Path(__file__).with_name("data")


@cache
def stored(kind: str) -> Mapping[str, np.ndarray]:
    """All arrays of "impact", "walls" or "box", by key, in double precision and read-only.

    Raises
    ------
    InvalidInput : no such kind.
    """
    name = checks.choice("kind", kind, ("impact", "walls", "box"))
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        series = {key: file[key].astype(np.float64) for key in file.files}
    for values in series.values():
        values.setflags(write=False)
    return MappingProxyType(series)


@dataclass(frozen=True)
class HeadOn:
    """Two spheres of ``mass`` kg that meet head-on, each at ``speed`` m/s.

    The overlap δ obeys δ̈ + γ_n δ̇ + (2k/m) δ = 0 with δ = 0, δ̇ = 2 v₀ at t = 0, first touch.
    With ξ = γ_n/2 and ω² = 2k/m − ξ² it is δ = (2v₀/ω) e^(−ξt) sin ωt, and contact lasts until
    δ = 0 again. The force then is −γ_n m_eff δ̇ < 0: (20)–(25) pull a little at the end.
    De Klerk et al. (2021), equations (32)–(34), with one convention of γ.

    Parameters
    ----------
    mass : m, kg. stiffness : k, N/m. damping : γ_n, 1/s. speed : v₀, m/s.

    Raises
    ------
    InvalidInput : a number out of range, or damping so strong that the spheres do not part.
    """

    mass: float
    stiffness: float
    damping: float = 0.0
    speed: float = 1.0

    def __post_init__(self) -> None:
        for name in ("mass", "stiffness", "speed"):
            checks.scalar(name, getattr(self, name), above=0.0)
        checks.scalar("damping", self.damping, at_least=0.0)
        critical = 2.0 * math.sqrt(2.0 * self.stiffness / self.mass)
        if not self.damping < critical:
            raise InvalidInput("damping", f"{self.damping:g}", f"less than critical, {critical:g}")

    @property
    def xi(self) -> float:
        """ξ = γ_n/2, 1/s."""
        return 0.5 * self.damping

    @property
    def omega(self) -> float:
        """ω, 1/s."""
        return math.sqrt(2.0 * self.stiffness / self.mass - self.xi**2)

    @property
    def duration(self) -> float:
        """π/ω, s; without damping t_c = π √(m/2k)."""
        return math.pi / self.omega

    @property
    def restitution(self) -> float:
        """e = exp(−ξ π/ω)."""
        return math.exp(-self.xi * self.duration)

    def overlap(self, t: np.ndarray) -> np.ndarray:
        """δ (as t), m, at times t, s, from first touch; zero outside the contact."""
        inside = (t >= 0.0) & (t <= self.duration)
        swing = 2.0 * self.speed / self.omega * np.exp(-self.xi * t) * np.sin(self.omega * t)
        return np.where(inside, swing, 0.0)

    def velocity(self, t: np.ndarray) -> np.ndarray:
        """Velocity (as t), m/s, of the sphere that comes at −v₀.

        v = v₀ e^(−ξt) [(ξ/ω) sin ωt − cos ωt] during contact, −v₀ before and e v₀ after.
        """
        now = np.clip(t, 0.0, self.duration)
        turn = self.omega * now
        swing = self.xi / self.omega * np.sin(turn) - np.cos(turn)
        return np.asarray(self.speed * np.exp(-self.xi * now) * swing)

    def kinetic_share(self, t: np.ndarray) -> np.ndarray:
        """Kinetic energy over that at first touch (as t)."""
        return np.asarray((self.velocity(t) / self.speed) ** 2)
