"""The elastic contact law: w(c) = (k/p) c₊ᵖ, its derivatives, and its convex conjugate w*.

The only place where these formulas stand, for numbers and for CVXPY expressions alike.
Hooke is p = 2, Hertz p = 5/2. Olsen & Kamrin (2018), section 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from cdopt._util.checks import FloatArray

HOOKE = 2.0
HERTZ = 2.5

_MAX_DENOM = 2**20  # exponents become fractions with at most this denominator: exact to 1e-12


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """Energy of each contact as a power of its overlap.

    Attributes
    ----------
    stiffness : k (nc,), positive, N/m^(p-1).
    power : p > 1.
    """

    stiffness: FloatArray
    power: float

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

    def energy_expression(self, c: cp.Expression, weight: FloatArray) -> cp.Expression:
        """Σ weight w(c) as a CVXPY expression; c must be constrained to c ≥ 0."""
        return _power_sum(c, weight * self.stiffness, self.power)

    def conjugate_expression(self, f: cp.Expression, weight: FloatArray) -> cp.Expression:
        """Σ weight w*(f) as a CVXPY expression; f must be constrained to f ≥ 0."""
        compliance = self.stiffness ** (-1.0 / (self.power - 1.0))
        return _power_sum(f, weight * compliance, self.conjugate_power)


def _power_sum(x: cp.Expression, weight: FloatArray, exponent: float) -> cp.Expression:
    """Σ (weight/exponent) x^exponent for x ≥ 0.

    The weight goes inside the power, where it spans fewer orders of magnitude; a quadratic
    keeps it outside, so that it lands on the diagonal of the solver's P with no new variable.
    """
    if exponent == 2.0:
        return (0.5 * weight) @ cp.square(x)
    inside = cp.multiply(weight ** (1.0 / exponent), x)
    return cp.sum(cp.power(inside, exponent, max_denom=_MAX_DENOM)) / exponent
