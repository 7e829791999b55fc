"""The elastic contact law: w(c) = (k/p) c₊ᵖ, its derivatives, and its convex conjugate w*.

Hooke is p = 2, Hertz p = 5/2. Olsen & Kamrin (2018), section 6. ``formulations.statement``
writes w and w* as CVXPY expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput

HOOKE = 2.0
HERTZ = 2.5
_LEAST = 1e-12  # of the unit of forces, below which a two-sided law keeps its slope


def force_and_tangent(k: float, c: float, power: float) -> tuple[float, float]:
    """w′(c) in N and w″(c) in N/m of one contact: ``PowerLaw`` for compiled loops."""
    if c <= 0.0:
        return 0.0, 0.0
    if power == HOOKE:
        return k * c, k
    slope = k * c ** (power - 2.0)
    return slope * c, (power - 1.0) * slope


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """Energy of each contact as a power of its overlap."""

    stiffness: FloatArray  # k (nc,), positive, N/m^(p−1)
    power: float  # p > 1

    pulls: ClassVar[bool] = False  # whether forces may be negative, so that only a cone bounds them

    @property
    def conjugate_power(self) -> float:
        """q = p/(p−1), the exponent of w*."""
        return self.power / (self.power - 1.0)

    def energy(self, c: FloatArray) -> FloatArray:
        """w(c) = (k/p) c₊ᵖ in J, for overlaps c (nc,) in m."""
        return self.stiffness / self.power * np.maximum(c, 0.0) ** self.power

    def force(self, c: FloatArray) -> FloatArray:
        """w′(c) = k c₊^(p−1) in N."""
        return self.stiffness * np.maximum(c, 0.0) ** (self.power - 1.0)

    def tangent(self, c: FloatArray) -> FloatArray:
        """w″(c) = (p−1) k c₊^(p−2) in N/m; zero where c ≤ 0."""
        closed = c > 0.0
        safe = np.where(closed, c, 1.0) ** (self.power - 2.0)
        return np.where(closed, (self.power - 1.0) * self.stiffness * safe, 0.0)

    def conjugate(self, f: FloatArray) -> FloatArray:
        """w*(f) = ((p−1)/p) k^{1/(1−p)} f^{p/(p−1)} in J, for forces f₊ (nc,) in N."""
        return np.maximum(f, 0.0) * self.overlap(f) / self.conjugate_power

    def overlap(self, f: FloatArray) -> FloatArray:
        """w*′(f) = (f₊/k)^{1/(p−1)} in m, the inverse of ``force``."""
        return (np.maximum(f, 0.0) / self.stiffness) ** (1.0 / (self.power - 1.0))

    def slope(self, f: FloatArray, c: FloatArray) -> FloatArray:
        """w*″(f) = c / ((p − 1) f) in m/N, at forces f > 0 and their overlaps c."""
        return c / ((self.power - 1.0) * f)


@dataclass(frozen=True, eq=False)
class TwoSidedLaw(PowerLaw):
    """A power law of which some contacts also pull: f = k |c|^(p−1) sign c.

    They are the two-sided members of a truss, and joints of finite stiffness.
    """

    both: BoolArray  # (nc,) which

    def _signed(self, law: Callable[[FloatArray], FloatArray], x: FloatArray) -> FloatArray:
        """An odd function, given where x is positive; zero below zero of one-sided contacts."""
        return np.where(self.both, np.sign(x) * law(np.abs(x)), law(x))

    def _even(self, law: Callable[[FloatArray], FloatArray], x: FloatArray) -> FloatArray:
        """An even function, given where x is positive; as it is for one-sided contacts."""
        return np.where(self.both, law(np.abs(x)), law(x))

    def energy(self, c: FloatArray) -> FloatArray:
        return self._even(super().energy, c)

    def force(self, c: FloatArray) -> FloatArray:
        return self._signed(super().force, c)

    def tangent(self, c: FloatArray) -> FloatArray:
        """(p−1) k |c|^(p−2) in N/m; k for p = 2."""
        if self.power == HOOKE:
            return np.where(self.both, self.stiffness, super().tangent(c))
        return self._even(super().tangent, c)

    def conjugate(self, f: FloatArray) -> FloatArray:
        return self._even(super().conjugate, f)

    def overlap(self, f: FloatArray) -> FloatArray:
        return self._signed(super().overlap, f)

    def slope(self, f: FloatArray, c: FloatArray) -> FloatArray:
        """w*″ in m/N; for tiny f, where it is unbounded, that of a small force."""
        size = np.where(self.both, np.maximum(np.abs(f), _LEAST), f)
        return super().slope(size, np.where(self.both, PowerLaw.overlap(self, size), c))


@dataclass(frozen=True, eq=False)
class RowSprings(PowerLaw):
    """Linear springs of single rows, which also pull: f = k c.

    The cone, not the law, keeps normal forces positive.
    """

    power: float = HOOKE

    pulls: ClassVar[bool] = True

    def energy(self, c: FloatArray) -> FloatArray:
        return 0.5 * self.stiffness * c * c

    def force(self, c: FloatArray) -> FloatArray:
        return self.stiffness * c

    def tangent(self, c: FloatArray) -> FloatArray:
        return np.broadcast_to(self.stiffness, c.shape).copy()

    def conjugate(self, f: FloatArray) -> FloatArray:
        return 0.5 * f * f / self.stiffness

    def overlap(self, f: FloatArray) -> FloatArray:
        return f / self.stiffness


class Compliant:
    """Base of problems whose contacts may yield by a law."""

    @property
    def compliance(self) -> PowerLaw | None:
        """The law; None of rigid contacts."""
        return None

    @property
    def elastic_law(self) -> PowerLaw:
        """``compliance``; raises InvalidInput for rigid contacts."""
        if self.compliance is None:
            raise InvalidInput("problem", "rigid contacts", "elastic ones, which have a law")
        return self.compliance
