"""Strength of joints beyond friction: cohesion, tension and crushing, as a convex set of forces.

A contact with area A carries ‖f_T‖ ≤ μ f_n + c A and −t A ≤ f_n ≤ s A. What it does at most in a
motion with rates g, the support function of that set, bounds limit loads from above:

    D(g) = sup −f·g = c A ‖g_T‖ + max( s A (μ‖g_T‖ − g_n),  t A (g_n − μ‖g_T‖) )

With c = t = 0 and s = ∞ that is the cone, and D is zero in the dual cone and infinite elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.formulations.cone_forms import form_of
from cdopt.problem import Cones
from cdopt.problem import friction_cone as cone


@dataclass(frozen=True, eq=False)
class Strength(Frozen):
    """Strength of joints in addition to friction.

    Parameters
    ----------
    cohesion : c, Pa: friction is at most μ f_n + c A.
    tension : t, Pa, at most c/μ, at which the friction limit is zero.
    compression : s, Pa; by default infinite.

    In a block model contacts are corners of interfaces, and each has a share A of the area; the
    strength limits the forces at the corners. In steps and scenes A is 1 and the numbers are in N,
    one for all contacts or (nc,).

    Raises
    ------
    InvalidInput : negative or undefined numbers.
    """

    cohesion: Any = 0.0
    tension: Any = 0.0
    compression: Any = np.inf

    def __post_init__(self) -> None:
        expected = "numbers of zero or more"
        for name in ("cohesion", "tension", "compression"):
            value = checks.real(name, getattr(self, name), expected)
            if value.ndim > 1 or not (value >= 0.0).all():
                raise InvalidInput(name, checks.describe(getattr(self, name)), expected)
            self.__dict__[name] = value.astype(np.float64)
        super().__post_init__()

    @property
    def friction_alone(self) -> bool:
        """Whether joints have only friction, and no limit in compression."""
        weak = np.isfinite(self.compression).any()
        return not (weak or np.any(self.cohesion) or np.any(self.tension))


@dataclass(frozen=True, eq=False)
class JointStrength(Frozen):
    """Strength in N of nc contacts with coefficients ``mu``."""

    mu: FloatArray
    cohesion: FloatArray
    tension: FloatArray
    compression: FloatArray

    def constraints(self, f: cp.Variable, unit: FloatArray) -> list[cp.Constraint]:
        """Constraints on forces f (nc, d) in units (nc,) of N."""
        most = cp.multiply(self.mu, f[:, 0]) + self.cohesion / unit
        result = [in_cones(most, f[:, 1:]), f[:, 0] >= -self.tension / unit]
        weak = np.flatnonzero(np.isfinite(self.compression))
        if weak.size:
            result.append(f[weak, 0] <= (self.compression / unit)[weak])
        return result

    def rests(self, rows: sp.csr_array, speed: cp.Variable, d: int) -> list[cp.Constraint]:
        """That the rates ``rows`` @ ``speed`` (nc d,) are in the dual cones of friction."""
        rates = cp.reshape(rows @ speed, (self.mu.size, d), order="C")
        return [in_cones(rates[:, 0], cp.multiply(self.mu[:, None], rates[:, 1:]))]

    def nearest(self, f: FloatArray) -> FloatArray:
        """Forces (nc, d) within the strength, equal to those that are."""
        if self.plain:
            return cone.project(f, self.mu)
        normal = np.clip(f[:, 0], -self.tension, self.compression)
        most = np.maximum(self.mu * normal + self.cohesion, 0.0)
        size = np.linalg.norm(f[:, 1:], axis=1)
        share = np.minimum(1.0, most / np.where(size > 0.0, size, 1.0))
        return np.asarray(np.column_stack([normal, share[:, None] * f[:, 1:]]))

    def outside(self, f: FloatArray) -> float:
        """N, how far forces (nc, d) are from it at most."""
        return float(np.linalg.norm(f - self.nearest(f), axis=1).max(initial=0.0))

    def power(self, rates: FloatArray) -> FloatArray:
        """(nc,) W, D of rates (nc, d); of contacts that never crush without their violation."""
        sliding = np.linalg.norm(rates[:, 1:], axis=1)
        closing = self.mu * sliding - rates[:, 0]
        crushed = np.where(np.isfinite(self.compression), self.compression, 0.0) * closing
        return np.asarray(self.cohesion * sliding + np.maximum(crushed, -self.tension * closing))

    def violation(self, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, how far rates of contacts that never crush are from the dual cone."""
        closing = self.mu * np.linalg.norm(rates[:, 1:], axis=1) - rates[:, 0]
        outside = np.maximum(closing, 0.0) / np.sqrt(1.0 + self.mu**2)
        return np.where(np.isfinite(self.compression), 0.0, outside)

    def speed(self, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, the size of rates (nc, d)."""
        return np.asarray(np.linalg.norm(rates, axis=1))

    @property
    def plain(self) -> bool:
        """Whether it is friction alone."""
        endless = not np.isfinite(self.compression).any()
        return bool(endless and not self.cohesion.any() and not self.tension.any())


@dataclass(frozen=True, eq=False)
class ResistingCones(Frozen):
    """Strength by friction alone of contacts that resist turns: forces in ``cones``."""

    cones: Cones

    def constraints(self, f: cp.Variable, unit: FloatArray) -> list[cp.Constraint]:
        """Constraints on forces f (nc, d) in units (nc,) of N, moments in these times a metre."""
        stated = form_of(self.cones).holds(cp.vec(f, order="C"))
        return [term.object for term in stated]

    def rests(self, rows: sp.csr_array, speed: cp.Variable, d: int) -> list[cp.Constraint]:
        """That the rates ``rows`` @ ``speed`` (nc d,) are in the dual cones."""
        return [term.object for term in form_of(self.cones).dual(cp.Constant(rows) @ speed, "B v")]

    def nearest(self, f: FloatArray) -> FloatArray:
        """Forces (nc, d) in the cones, equal to those that are."""
        return self.cones.table(self.cones.project(f.ravel()))

    def outside(self, f: FloatArray) -> float:
        """N, how far forces (nc, d) are from it at most."""
        return float(np.linalg.norm(f - self.nearest(f), axis=1).max(initial=0.0))

    def power(self, rates: FloatArray) -> FloatArray:
        """(nc,) W, zero at rates (nc, d) in the dual cones."""
        return np.zeros(self.cones.nc)

    def violation(self, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, what rates (nc, d) lack of opening by the shift."""
        return np.maximum(self.cones.shift(rates.ravel()) - rates[:, 0], 0.0)

    def speed(self, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, the size of rates (nc, d), each in proportion to its coefficient."""
        return np.abs(rates[:, 0]) + self.cones.shift(rates.ravel())

    @property
    def plain(self) -> bool:
        """True: it is friction alone."""
        return True


def in_newtons(strength: Strength, areas: FloatArray, mu: FloatArray) -> JointStrength:
    """The strength of contacts, areas (nc,) m², μ (nc,); raises InvalidInput for other counts."""
    parts = []
    for name in ("cohesion", "tension", "compression"):
        value = np.asarray(getattr(strength, name), dtype=np.float64)
        if value.size not in (1, areas.size):
            raise InvalidInput(name, f"{value.size:,} numbers", f"one, or {areas.size:,}")
        parts.append(value * areas)
    cohesion, tension, compression = parts
    with np.errstate(divide="ignore", invalid="ignore"):
        apex = np.where(mu > 0.0, cohesion / mu, np.inf)
    return JointStrength(mu, cohesion, np.minimum(tension, apex), compression)


def friction_alone(mu: FloatArray) -> JointStrength:
    """No cohesion and no tension, and stone that does not crush."""
    zero = read_only(np.zeros(mu.size))
    return JointStrength(mu, zero, zero, read_only(np.full(mu.size, np.inf)))


def in_cones(most: cp.Expression, tangential: cp.Expression) -> cp.Constraint:
    """‖tangential‖ ≤ most, row by row; linear in the plane."""
    if tangential.shape[1] == 1:
        return cp.abs(tangential[:, 0]) <= most
    return cp.SOC(most, tangential, axis=1)
