"""Linear programs by SciPy's HiGHS, solved again without presolve before they count as infeasible.

The presolve of HiGHS in SciPy up to 1.17.0 calls feasible programs infeasible when a column has
coefficients of very different sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.optimize import linprog as _scipy

from cdopt._util.checks import FloatArray
from cdopt._util.errors import SolveFailed

_NO_SOLUTION = (2, 3, 4)  # of SciPy: infeasible, unbounded, numerical difficulties


def linprog(
    cost: Any, *, options: dict[str, float] | None = None, **program: Any
) -> OptimizeResult:
    """``scipy.optimize.linprog`` with HiGHS; its arguments and its result."""
    options = options or {}
    result = _scipy(cost, method="highs", options=options, **program)
    if result.status in _NO_SOLUTION:
        result = _scipy(cost, method="highs", options={**options, "presolve": False}, **program)
    return result


def solved_program(cost: Any, what: str, **program: Any) -> FloatArray:
    """The solution of a linear program that decides ``what``; other arguments as ``linprog``'s."""
    answer = linprog(cost, **program)
    if answer.x is None or answer.status != 0:
        raise SolveFailed(
            f"the linear program for {what} failed", backend="highs", status=str(answer.message)
        )
    return np.asarray(answer.x)
