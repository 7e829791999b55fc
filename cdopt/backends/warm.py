"""Warm starts for solvers that gain from them, from values written into the CVXPY problem.

CVXPY's own warm start repeats the last solve of the same problem object. A contact step is a
new problem every time, so the start is put together here: the primal point x from the
variables by name, the multipliers y from the constraints by identity, and what CVXPY added on
its own (bounds) from stationarity P x + q + Aᵀ y = 0.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import osqp
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from cdopt._util.checks import FloatArray


def seed_cache(
    name: str, problem: cp.Problem, data: dict[str, Any], inverse: list[Any], cache: dict[str, Any]
) -> None:
    """Place the start into ``cache``, where CVXPY's interface of the solver looks for it."""
    x = primal(problem, inverse)
    if name == "scs":
        A, b = sp.csc_array(data["A"]), np.asarray(data["b"])
        y = multipliers(problem, inverse, data.get("P"), np.asarray(data["c"]), A, x)
        cache["SCS"] = {"x": x, "y": y, "s": np.maximum(b - A @ x, 0.0)}
    elif name == "osqp":
        A = sp.csc_matrix(sp.vstack([data["A"], data["F"]]))
        y = multipliers(problem, inverse, data["P"], np.asarray(data["q"]), A, x)
        solver = osqp.OSQP()
        lower = np.concatenate([data["b"], np.full(data["G"].shape, -np.inf)])
        upper = np.concatenate([data["b"], data["G"]])
        solver.setup(sp.csc_matrix(data["P"]), data["q"], A, lower, upper, verbose=False)
        data = {**data, "Ax": A, "l": lower, "u": upper}
        start = SimpleNamespace(x=x, y=y, info=SimpleNamespace(status_val=1))
        cache["OSQP"] = (solver, data, start)


def primal(problem: cp.Problem, inverse: list[Any]) -> FloatArray:
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


def multipliers(
    problem: cp.Problem, inverse: list[Any], P: Any, q: FloatArray, A: Any, x: FloatArray
) -> FloatArray:
    """y row by row: known multipliers first, the others by least squares and never negative."""
    given = {_canonical(c.id, inverse): c.dual_value for c in problem.constraints}
    rows = [*inverse[-1]["eq_constr"], *inverse[-1]["other_constr"]]
    y, known, offset = np.zeros(A.shape[0]), np.zeros(A.shape[0], dtype=bool), 0
    for constraint in rows:
        value, end = given.get(constraint.id), offset + constraint.size
        if value is not None and np.size(value) == constraint.size:
            y[offset:end], known[offset:end] = np.ravel(value, order="F"), True
        offset = end
    gradient = (q if P is None else P @ x + q) + A.T @ y
    if not known.all():
        unknown = sp.csr_array(sp.csr_array(A)[~known].T)
        rest = np.asarray(lsqr(unknown, -gradient, atol=1e-10, btol=1e-10)[0])
        y[~known] = np.maximum(rest, 0.0)
    return y


def _canonical(key: int, inverse: list[Any]) -> int:
    """The canonical constraint that one of the problem's has become."""
    for stage in inverse[:-1]:
        parts = stage if isinstance(stage, tuple) else (getattr(stage, "cons_id_map", None),)
        renamed = parts[-1] if parts and isinstance(parts[-1], dict) else {}
        key = renamed.get(key, key)
    return key
