"""Warm starts for solvers that gain from them, from values written into the CVXPY problem.

CVXPY's own warm start repeats the last solve of the same problem object. A contact step is a
new problem every time, so the start is put together here from the variables: the primal point
x by name, and multipliers y from stationarity P x + q + Aᵀ y = 0 in the least-squares sense.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import osqp
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from cdopt.checks import FloatArray


def seed_cache(name: str, problem: cp.Problem, data: dict[str, Any], inverse: list[Any]) -> None:
    """Place the start where CVXPY's interface of the solver looks for it."""
    x = _primal(problem, data, inverse)
    if name == "scs":
        A, b = sp.csc_array(data["A"]), np.asarray(data["b"])
        y = _multipliers(data.get("P"), np.asarray(data["c"]), A, x, data["dims"].zero)
        problem._solver_cache["SCS"] = {"x": x, "y": y, "s": np.maximum(b - A @ x, 0.0)}
    elif name == "osqp":
        A = sp.csc_matrix(sp.vstack([data["A"], data["F"]]))
        y = _multipliers(data["P"], np.asarray(data["q"]), A, x, data["A"].shape[0])
        solver = osqp.OSQP()
        lower = np.concatenate([data["b"], np.full(data["G"].shape, -np.inf)])
        upper = np.concatenate([data["b"], data["G"]])
        solver.setup(sp.csc_matrix(data["P"]), data["q"], A, lower, upper, verbose=False)
        data = {**data, "Ax": A, "l": lower, "u": upper}
        start = SimpleNamespace(x=x, y=y, info=SimpleNamespace(status_val=1))
        problem._solver_cache["OSQP"] = (solver, data, start)


def _primal(problem: cp.Problem, data: dict[str, Any], inverse: list[Any]) -> FloatArray:
    """The canonical x: each variable's value where the canonical variable of its name lies."""
    values = {v.name(): v.value for v in problem.variables() if v.value is not None}
    stuffing = inverse[-2]
    x = np.zeros(stuffing.x_length)
    for key, variable in stuffing.id2var.items():
        value = values.get(variable.name())
        if value is not None and value.size == variable.size:
            offset = stuffing.var_offsets[key]
            x[offset : offset + variable.size] = value.ravel(order="F")
    return x


def _multipliers(P: Any, q: FloatArray, A: Any, x: FloatArray, equalities: int) -> FloatArray:
    """y of P x + q + Aᵀ y = 0, by least squares; nonnegative on inequality rows."""
    gradient = q if P is None else P @ x + q
    y = np.asarray(lsqr(sp.csr_array(A.T), -gradient, atol=1e-10, btol=1e-10)[0])
    y[equalities:] = np.maximum(y[equalities:], 0.0)
    return y
