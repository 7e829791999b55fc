"""Cone programs by Clarabel: min cᵀx with A x = b, and R x + r in half-lines and Lorentz cones.

The only place that calls Clarabel without CVXPY. The caller checks the answer from the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray

ACCURACY = 1e-12  # default for gap and feasibility
_USEFUL = ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")
_INFEASIBLE = ("PrimalInfeasible", "AlmostPrimalInfeasible")
_UNBOUNDED = ("DualInfeasible", "AlmostDualInfeasible")


@dataclass(frozen=True)
class ConeAnswer:
    """Clarabel's iterate x, multipliers y of A x = b (c + Aᵀy − Rᵀz = 0), and its status."""

    x: FloatArray
    y: FloatArray
    status: str

    @property
    def useful(self) -> bool:
        """Whether the iterate is an answer, perhaps of reduced accuracy."""
        return self.status in _USEFUL and bool(np.isfinite(self.x).all())

    @property
    def infeasible(self) -> bool:
        """Whether Clarabel has a proof that no x is feasible; ``y`` is part of it."""
        return self.status in _INFEASIBLE

    @property
    def unbounded(self) -> bool:
        """Whether Clarabel has a proof that cᵀx has no lower bound; ``x`` is the direction."""
        return self.status in _UNBOUNDED


class ConeProgram:
    """min cᵀx subject to A x = b, R x + r ∈ K, in which c may change.

    Parameters
    ----------
    cost : c (n,). equal, right : A (m, n) and b (m,).
    rows, shift : R (k, n) and r (k,).
    sizes : of the cones, whose sum is k; 1 is a half-line, d > 1 a Lorentz cone, x₁ ≥ ‖(x₂ …)‖.
    accuracy : asked of the gap and of feasibility.
    seconds : time limit of a solve; None for none.
    """

    def __init__(
        self,
        cost: FloatArray,
        equal: Any,
        right: FloatArray,
        rows: Any,
        shift: FloatArray,
        sizes: Iterable[int],
        *,
        accuracy: float = ACCURACY,
        seconds: float | None = None,
    ) -> None:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.presolve_enable = False  # it forbids to change the cost
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
        if seconds is not None:
            settings.time_limit = seconds
        A = sp.csc_matrix(sp.vstack([equal, -sp.csr_array(rows)]))
        b = np.concatenate([right, shift])
        kinds = [clarabel.ZeroConeT(right.size)] if right.size else []
        kinds += [
            clarabel.NonnegativeConeT(1) if k == 1 else clarabel.SecondOrderConeT(int(k))
            for k in sizes
        ]
        self._equations, self._solver = right.size, None
        if all(np.isfinite(part).all() for part in (A.data, b, cost)):
            zero = sp.csc_matrix((cost.size, cost.size))
            self._solver = clarabel.DefaultSolver(zero, cost, A, b, kinds, settings)

    def solve(self, cost: FloatArray | None = None) -> ConeAnswer:
        """The answer to the program, with another ``cost`` (n,) if one is given."""
        if self._solver is None:
            return ConeAnswer(np.zeros(0), np.zeros(0), "not finite")
        if cost is not None:
            self._solver.update(q=cost)
        answer = self._solver.solve()
        multipliers = np.array(answer.z)[: self._equations]
        return ConeAnswer(np.array(answer.x), multipliers, str(answer.status))
