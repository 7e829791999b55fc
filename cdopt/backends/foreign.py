"""Solvers that users bring: objects of CVXPY's solver classes, and functions of quadratic programs.

A function takes what those of qpsolvers take::

    f(P, q, G, h, A, b, lb, ub)    min ½ xᵀPx + qᵀx    with G x ≤ h, A x = b, lb ≤ x ≤ ub

and returns x, None for no answer, or an object with ``x`` and the multipliers ``y`` of A x = b and
``z`` of G x ≤ h, as ``qpsolvers.solve_problem`` does. Matrices are SciPy's, by columns; what a
problem does not have is None. With x alone it solves steps in force form; the others need
multipliers. Where it has a parameter ``accuracy``, it is given the requested accuracy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeGuard

import cvxpy.settings as keys
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints import SOC
from cvxpy.reductions.solution import Solution, failure_solution
from cvxpy.reductions.solvers import utilities
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
from cvxpy.reductions.solvers.qp_solvers.qp_solver import QpSolver
from cvxpy.reductions.solvers.solver import Solver

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.backends.base import Capability
from cdopt.backends.modelled import ThroughCVXPY

MATRICES = ("P", "q", "G", "h", "A", "b", "lb", "ub")  # arguments of a function, in this order


@dataclass(frozen=True)
class Foreign(ThroughCVXPY):
    """Settings of a solver object of CVXPY.

    Parameters
    ----------
    instance : of a subclass of CVXPY's ``QpSolver`` or ``ConicSolver``, with a name that no solver
        of CVXPY has. Use one object for all solves: CVXPY keeps what it compiled for it.
    options : settings that its ``solve_via_data`` is given.

    Raises
    ------
    InvalidInput : another object.
    """

    instance: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    accuracy: None = None

    def __post_init__(self) -> None:
        checks.instance("backend", self.instance, QpSolver, ConicSolver)
        options = dict(checks.mapping("options", self.options))
        object.__setattr__(self, "options", MappingProxyType(options))

    @property
    def name(self) -> str:  # type: ignore[override]
        """The solver's name, in lower case."""
        return str(self.instance.name()).lower()

    @property
    def solver(self) -> str:  # type: ignore[override]
        """The same."""
        return self.name

    @property
    def compiled_by(self) -> Any:
        return self.instance

    @property
    def capability(self) -> Capability:
        cones = SOC in self.instance.SUPPORTED_CONSTRAINTS
        quadratic = cones or self.instance.supports_quad_obj()
        return Capability(frozenset(["QP"] * quadratic + ["SOCP"] * cones))

    def _call(self, compiled: Any, start: Any, options: dict[str, Any], verbose: bool) -> Any:
        return self.instance.solve_via_data(compiled.data, False, verbose, options)


def takes_matrices(function: object) -> TypeGuard[Callable[..., Any]]:
    """Whether it is a function of (P, q, G, h, A, b, lb, ub)."""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [p for p in known if p.kind in positional]
    needed = [p for p in plain if p.default is inspect.Parameter.empty]
    return len(plain) >= len(MATRICES) and 2 <= len(needed) <= len(MATRICES)


def of_function(
    function: Callable[..., Any], accuracy: float | None = None, **options: Any
) -> Foreign:
    """The settings of a ``function`` of ``MATRICES`` and ``options``; InvalidInput for others."""
    if not takes_matrices(function):
        found = checks.describe(function)
        raise InvalidInput("backend", found, f"a function of ({', '.join(MATRICES)})")
    if accuracy is not None and "accuracy" in inspect.signature(function).parameters:
        options["accuracy"] = accuracy
    return Foreign(_instance(function), options)


@functools.cache
def _instance(function: Callable[..., Any]) -> _Function:
    """One object for each function, for which CVXPY keeps what it compiled."""
    return _Function(function)


def is_solver(candidate: object) -> bool:
    """Whether it is an object of CVXPY's solver classes."""
    return isinstance(candidate, Solver)


class _Function(QpSolver):  # type: ignore[misc]  # cvxpy has no types
    """A function as CVXPY's solver of quadratic programs."""

    MIP_CAPABLE = False
    BOUNDED_VARIABLES = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def name(self) -> str:
        """The function's name, as no solver of CVXPY is named."""
        return str(getattr(self.function, "__name__", "function"))

    def import_solver(self) -> None:
        """Nothing: it is installed."""

    def cite(self, data: Any) -> str:
        """Nothing to cite."""
        return ""

    def solve_via_data(
        self,
        data: dict[str, Any],
        warm_start: bool,
        verbose: bool,
        solver_opts: dict[str, Any],
        solver_cache: Any = None,
    ) -> Any:
        """What the function returns."""

        def rows(matrix: str, vector: str) -> tuple[Any, Any]:
            some = data[vector].size > 0
            return (sp.csc_matrix(data[matrix]), np.array(data[vector])) if some else (None, None)

        bounds = (None if data[k] is None else np.array(data[k]) for k in _BOUNDS)
        P, q = sp.csc_matrix(data[keys.P]), np.array(data[keys.Q])
        inequalities, equalities = rows(keys.F, keys.G), rows(keys.A, keys.B)
        return self.function(P, q, *inequalities, *equalities, *bounds, **solver_opts)

    def invert(self, solution: Any, inverse_data: Any) -> Solution:
        """The answer by CVXPY's variables and constraints."""
        x = getattr(solution, "x", solution)
        if x is None:
            return failure_solution(keys.SOLVER_ERROR, {})
        x = checks.real("answer", x, "x, or an object with x, y and z").astype(float).ravel()
        multipliers: dict[Any, Any] = {}
        for name, which in (("y", self.EQ_CONSTR), ("z", self.NEQ_CONSTR)):
            values = getattr(solution, name, None)
            if values is not None and np.size(values):
                read = utilities.extract_dual_value
                multipliers |= utilities.get_dual_values(
                    np.asarray(values, dtype=float).ravel(), read, inverse_data[which]
                )
        return Solution(keys.OPTIMAL, np.nan, {inverse_data[self.VAR_ID]: x}, multipliers, {})


_BOUNDS = (keys.LOWER_BOUNDS, keys.UPPER_BOUNDS)
