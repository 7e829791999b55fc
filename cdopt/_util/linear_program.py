"""Linear programs by HiGHS as SciPy brings it, with a second run where presolve may have erred.

The presolve of HiGHS in SciPy up to 1.17.0 calls feasible programs infeasible when a column holds
coefficients of very different sizes. A verdict against a solution therefore counts only when the
simplex method reaches it without presolve.
"""

from __future__ import annotations

from typing import Any

from scipy.optimize import OptimizeResult
from scipy.optimize import linprog as _scipy

_NO_SOLUTION = (2, 3, 4)  # of SciPy: infeasible, unbounded, numerical difficulties


def linprog(
    cost: Any, *, options: dict[str, float] | None = None, **program: Any
) -> OptimizeResult:
    """``scipy.optimize.linprog`` with HiGHS; its arguments and its result."""
    given = options or {}
    answer = _scipy(cost, method="highs", options=given, **program)
    if answer.status in _NO_SOLUTION:
        answer = _scipy(cost, method="highs", options={**given, "presolve": False}, **program)
    return answer
