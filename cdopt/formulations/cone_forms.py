"""How CVXPY states that forces are in the cones K, or rates in the dual cones K*.

A further kind of cone needs one more entry of ``_FORMS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.formulations.printing import Term
from cdopt.problem import Cones, FrictionCones, HalfLines


class ConeForm(ABC):
    """The cones of a problem in CVXPY; ``signed`` says whether forces may be negative."""

    signed = True

    def __init__(self, cones: Any) -> None:
        self.cones = cones

    @abstractmethod
    def holds(self, f: cp.Variable) -> list[Term]:
        """f ∈ K, for a variable (rows,)."""

    @abstractmethod
    def dual(
        self, B: sp.csr_array, w: cp.Variable, rest: list[tuple[str, Any]], names: str
    ) -> Term:
        """B w + rest ∈ K*; ``rest`` are more addends (rows,) with their names."""

    @abstractmethod
    def multipliers(self, constraint: cp.Constraint) -> FloatArray | None:
        """(rows,) multipliers of ``dual``."""

    @abstractmethod
    def seed(self, constraint: cp.Constraint, f: FloatArray) -> None:
        """Write forces f (rows,) as multipliers of ``dual``."""


class HalfLineForm(ConeForm):
    """f ≥ 0 as the sign of the variable; g ≥ 0."""

    signed = False

    def holds(self, f: cp.Variable) -> list[Term]:
        """Nothing more than the sign of f."""
        return [Term("f ≥ 0", None)]

    def dual(
        self, B: sp.csr_array, w: cp.Variable, rest: list[tuple[str, Any]], names: str
    ) -> Term:
        """B w + rest ≥ 0."""
        g = cp.Constant(B, name="B") @ w
        for _, addend in rest:
            g = g + addend
        return Term(f"{names} ≥ 0", g >= 0)

    def multipliers(self, constraint: cp.Constraint) -> FloatArray | None:
        """(nc,) multipliers of g ≥ 0."""
        value = constraint.dual_value
        return None if value is None else np.asarray(value)

    def seed(self, constraint: cp.Constraint, f: FloatArray) -> None:
        """Write forces f (nc,)."""
        seed_dual(constraint, f)


class FrictionForm(ConeForm):
    """‖f_T‖ ≤ μ f_n, and μ‖g_T‖ ≤ g_n, as second-order cones."""

    cones: FrictionCones

    def holds(self, f: cp.Variable) -> list[Term]:
        """‖f_T‖ ≤ μ f_n; of μ = 0 the sign of f_n is left."""
        nc, d = self.cones.nc, self.cones.d
        columns = cp.reshape(f, (nc, d), order="C")
        normal = columns[:, 0]
        bound = cp.multiply(cp.Constant(self.cones.mu, name="μ"), normal)
        return [
            Term("‖f_T‖ ≤ μ f_n", cp.SOC(bound, columns[:, 1:], axis=1)),
            Term("f_n ≥ 0", normal >= 0),
        ]

    def dual(
        self, B: sp.csr_array, w: cp.Variable, rest: list[tuple[str, Any]], names: str
    ) -> Term:
        """μ‖(B w + rest)_T‖ ≤ (B w + rest)_n."""
        nc, d = self.cones.nc, self.cones.d
        tangential = np.arange(nc * d) % d > 0
        normal, sliding = (cp.Constant(sp.csr_array(B[at])) @ w for at in (~tangential, tangential))
        for _, addend in rest:
            normal, sliding = normal + addend[::d], sliding + addend[np.flatnonzero(tangential)]
        mu = np.repeat(self.cones.mu[:, None], d - 1, axis=1)
        sliding = cp.multiply(mu, cp.reshape(sliding, (nc, d - 1), order="C"))
        return Term(f"μ ‖({names})_T‖ ≤ ({names})_n", cp.SOC(normal, sliding, axis=1))

    def multipliers(self, constraint: cp.Constraint) -> FloatArray | None:
        """(rows,) forces from the multipliers (f_n, f_T/μ) of the cones."""
        value = constraint.dual_value
        if value is None or value[0] is None:
            return None
        nc, mu = self.cones.nc, self.cones.mu[:, None]
        sliding = mu * np.reshape(np.asarray(value[1], dtype=float), (nc, self.cones.d - 1))
        return np.column_stack([np.ravel(value[0]), sliding]).ravel()

    def seed(self, constraint: cp.Constraint, f: FloatArray) -> None:
        """Write forces f (rows,) as (f_n, f_T/μ)."""
        table, mu = self.cones.table(f), self.cones.mu
        sliding = table[:, 1:] / np.where(mu > 0.0, mu, np.inf)[:, None]
        seed_dual(constraint, table[:, 0], sliding)


_FORMS: dict[type[Cones], type[ConeForm]] = {
    HalfLines: HalfLineForm,
    FrictionCones: FrictionForm,
}


def form_of(cones: Cones) -> ConeForm:
    """How CVXPY states these cones."""
    return _FORMS[type(cones)](cones)


def seed_dual(constraint: cp.Constraint, *values: FloatArray) -> None:
    """Write the multiplier of a constraint; two of a second-order cone."""
    for variable, value in zip(constraint.dual_variables, values, strict=True):
        variable.save_value(value)
