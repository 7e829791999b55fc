"""Warm starts of a new problem from the values that stand in its CVXPY variables.

CVXPY's own warm start repeats the last solve of the same problem object. A contact step is a new
problem every time, so the start is put together here and given to the solver by its own interface:
the primal point x from the variables, the multipliers y from the constraints, and those of bounds
that CVXPY added from stationarity P x + q + Aᵀ y = 0.

Where a variable stands in x, and a constraint in y, CVXPY says itself: an answer of 1, 2, 3 … comes
back in the variables and multipliers of the problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import cvxpy.settings as keys
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.kept import Compiled
from cdopt.backends.registry import SOLVERS, Point


def point(name: str, problem: cp.Problem, compiled: Compiled) -> Point:
    """x and y of the values that stand in the variables and multipliers of ``problem``."""
    data = compiled[0]
    A = sp.csr_array(sp.vstack([data[keys.A], data[keys.F]]) if keys.F in data else data[keys.A])
    q = np.asarray(data[keys.Q] if keys.Q in data else data[keys.C])
    columns, rows = positions(name, problem, compiled)
    x, y, known = np.zeros(A.shape[1]), np.zeros(A.shape[0]), np.zeros(A.shape[0], dtype=bool)
    for variable in problem.variables():
        if variable.value is not None and variable.id in columns:
            x[columns[variable.id][0]] = np.ravel(variable.value, order="F")
    for constraint in problem.constraints:
        multipliers = _flat(constraint)
        if multipliers is not None and constraint.id in rows:
            position, sign = rows[constraint.id]
            y[position] = sign * multipliers
            known[position] = True
    if not known.all():
        P = data.get(keys.P)
        gradient = (q if P is None else P @ x + q) + A.T @ y
        unknown = sp.csr_array(A[~known].T)
        bounds = np.asarray(lsqr(unknown, -gradient, atol=1e-10, btol=1e-10)[0])
        y[~known] = np.maximum(bounds, 0.0)
    return x, y


def _flat(constraint: cp.Constraint) -> FloatArray | None:
    """The multipliers of a constraint as solvers have them; of cones one after the other."""
    value = constraint.dual_value
    if not isinstance(value, list):
        return None if value is None else np.ravel(value, order="F")
    if not isinstance(constraint, cp.SOC) or value[0] is None:
        return None
    first, others = value
    others = np.asarray(others) if constraint.axis == 1 else np.transpose(others)
    return np.column_stack([np.ravel(first), others.reshape(np.size(first), -1)]).ravel()


def positions(
    name: str, problem: cp.Problem, compiled: Compiled
) -> tuple[dict[int, tuple[IntArray, FloatArray]], dict[int, tuple[IntArray, FloatArray]]]:
    """Of each variable in x and each constraint in y, by id: places, and signs."""
    data, chain, inverse = compiled
    answer = SOLVERS[name].answer
    if answer is None:
        raise NotImplementedError(f"no warm start for {name}")
    rows = data[keys.A].shape[0] + (data[keys.F].shape[0] if keys.F in data else 0)
    columns = data[keys.A].shape[1]
    solution = chain.invert(answer(1.0 + np.arange(columns), 1.0 + np.arange(rows)), inverse)
    return _places(solution.primal_vars, columns), _places(solution.dual_vars, rows)


def _places(values: Mapping[int, Any], count: int) -> dict[int, tuple[IntArray, FloatArray]]:
    """Places and signs of the values that are a number 1 … count each."""
    places = {}
    for key, value in values.items():
        numbers = np.ravel(np.asarray(value, dtype=np.float64), order="F")
        index = np.abs(numbers).round().astype(np.int64) - 1
        whole = np.array_equal(np.abs(numbers), index + 1.0)
        if whole and np.all((index >= 0) & (index < count)):
            places[key] = index, np.sign(numbers)
    return places
