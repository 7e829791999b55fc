"""CVXPY's compilation of a problem for a solver, and reading the solver's answer back.

Warm starts are put together here: CVXPY's own repeats the last solve of the same problem.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import cvxpy.settings as keys
import numpy as np
import scipy.sparse as sp
from cvxpy.cvxcore.python.canonInterface import get_parameter_vector
from scipy.sparse.linalg import lsqr

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.sparse_rows import for_products
from cdopt.problem.scaling import with_values

Point = tuple[FloatArray, FloatArray]  # x and multipliers y


@dataclass(frozen=True)
class Compiled:
    """A problem as compiled by CVXPY: data for the solver, and how its answer is read back."""

    data: dict[str, Any]
    chain: Any
    inverse: Any

    def invert(self, raw: Any) -> Any:
        """CVXPY's reading of a solver's ``raw`` result."""
        return self.chain.invert(raw, self.inverse)

    @property
    def A(self) -> sp.csr_array:
        """All rows that the solver gets."""
        return sp.csr_array(
            sp.vstack([self.data[key] for key in (keys.A, keys.F) if key in self.data])
        )

    def places(self, count: tuple[int, int]) -> dict[int, tuple[IntArray, FloatArray]]:
        """Places and signs of each variable in x and each constraint in y, by id.

        CVXPY itself shows it: an answer of 1, 2, 3 … comes back in the variables and multipliers.
        ``count`` are the rows and columns of A.
        """
        y, x = (1.0 + np.arange(size) for size in count)
        about = {"status_val": 1, "iter": 0, "run_time": 0.0, "solve_time": 0.0}
        about |= {"setup_time": 0.0, "obj_val": 0.0, "pobj": 0.0}
        raw: Any = {"x": x, "y": y, "info": about}
        if self.chain.solver.name() == "OSQP":
            raw = SimpleNamespace(x=x, y=y, info=SimpleNamespace(**about))
        result, places = self.invert(raw), {}
        for values, size in ((result.primal_vars, x.size), (result.dual_vars, y.size)):
            for key, value in values.items():
                numbers = np.ravel(np.asarray(value, dtype=np.float64), order="F")
                index = np.abs(numbers).round().astype(np.int64) - 1
                whole = np.array_equal(np.abs(numbers), index + 1.0)
                if whole and np.all((index >= 0) & (index < size)):
                    places[key] = index, np.sign(numbers)
        return places

    def point(self, problem: cp.Problem) -> Point:
        """x and y of the values of the variables and multipliers of ``problem``.

        Multipliers of bounds that CVXPY added are those of stationarity P x + q + Aᵀ y = 0.
        """
        A, P = self.A, self.data.get(keys.P)
        q = np.asarray(self.data[keys.Q] if keys.Q in self.data else self.data[keys.C])
        places = self.places(A.shape)
        x, y, known = np.zeros(A.shape[1]), np.zeros(A.shape[0]), np.zeros(A.shape[0], dtype=bool)
        for variable in problem.variables():
            if variable.value is not None and variable.id in places:
                x[places[variable.id][0]] = np.ravel(variable.value, order="F")
        for constraint in problem.constraints:
            multipliers = _multipliers(constraint)
            if multipliers is not None and constraint.id in places:
                position, sign = places[constraint.id]
                y[position], known[position] = sign * multipliers, True
        if not known.all():
            gradient = (q if P is None else P @ x + q) + A.T @ y
            bounds = lsqr(sp.csr_array(A[~known].T), -gradient, atol=1e-10, btol=1e-10)[0]
            y[~known] = np.maximum(bounds, 0.0)
        return x, y


def _multipliers(constraint: cp.Constraint) -> FloatArray | None:
    """The multipliers of a constraint as solvers have them; of cones one after the other."""
    value = constraint.dual_value
    if not isinstance(value, list):
        return None if value is None else np.ravel(value, order="F")
    if not isinstance(constraint, cp.SOC) or value[0] is None:
        return None
    first, others = value
    others = np.asarray(others) if constraint.axis == 1 else np.transpose(others)
    return np.column_stack([np.ravel(first), others.reshape(np.size(first), -1)]).ravel()


def compiled_for(problem: cp.Problem, solver: Any, settings: Mapping[str, Any]) -> Compiled:
    """CVXPY's data for one solver, a name or an object; to be called under CVXPY's lock.

    The warning that powers become second-order cones is hidden. With some hundred parameters
    CVXPY's default takes three to six times as long as its backend for sparse tensors.
    """
    chosen = solver.upper() if isinstance(solver, str) else solver
    options: dict[str, Any] = {"solver_opts": dict(settings)}
    if problem.parameters():
        options["canon_backend"] = keys.COO_CANON_BACKEND
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Power atom with exponent")
        compiled = Compiled(*problem.get_problem_data(chosen, **options))
    program = compiled.data.get(keys.PARAM_PROB)
    if program is not None and program.parameters:
        _Affine.serves(program)
    return compiled


class _Affine:
    """CVXPY's ``ParamConeProg.apply_parameters`` as three products.

    The data of a ``program`` are affine in its parameters. CVXPY has these maps, but each time it
    makes a dozen sparse matrices of them, which takes longer than solving a small problem.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self.P, _, _, self.A, _ = program.apply_parameters(quad_obj=True)
        reduced = program.reduced_A.reduced_mat, program.reduced_P.reduced_mat
        self.maps = [for_products(sp.csr_array(one)) for one in (program.q, *reduced)]

    @staticmethod
    def serves(program: Any) -> None:
        """Replace the method of a ``program`` where the results are the same."""
        served = "apply_parameters" in vars(program) or program.P is None
        bounded = program.lb_tensor is not None or program.ub_tensor is not None
        if served or bounded or program.reduced_A.problem_data_index is None:
            return
        quick = _Affine(program)
        pairs = zip(program.apply_parameters(quad_obj=True), quick(quad_obj=True), strict=True)
        numbers = [[getattr(one, "data", one) for one in pair] for pair in pairs]
        if all(np.array_equal(*pair) for pair in numbers):
            program.apply_parameters = quick

    def __call__(self, *given: Any, quad_obj: bool = False, **others: Any) -> tuple[Any, ...]:
        program = self.program
        if given or any(others.values()):
            return type(program).apply_parameters(program, *given, quad_obj=quad_obj, **others)
        values = get_parameter_vector(
            program.total_param_size,
            program.param_id_to_col,
            program.param_id_to_size,
            lambda key: np.asarray(program.id_to_param[key].value),
        )
        q, entries, of_P = (one @ values for one in self.maps)
        rows, ends, shape = program.reduced_A.problem_data_index
        b = np.zeros(shape[0])
        b[rows[ends[-2] :]] = entries[ends[-2] :]
        A = with_values(self.A, entries[: ends[-2]])
        constraints = q[:-1], q[-1], A, b
        return (with_values(self.P, of_P), *constraints) if quad_obj else constraints
