"""Common base of backends: declared capability, run, result type, one lock for CVXPY.

CVXPY numbers its variables by a counter without a lock, keeps the last compilation in the problem
and answers in the variables. Two Python threads that state or compile at once, or that solve one
problem, would mix these up. So stating, compiling and reading back are done under ``CVXPY_LOCK``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import cvxpy as cp

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt._util.forking import in_child
from cdopt.problem import Cones, ContactProblem
from cdopt.problem.certificate import Certificate
from cdopt.problem.solution import Iterate, WarmStart

ProblemClass = Literal["QP", "SOCP"]
Claim = Literal["solved", "inaccurate", "infeasible", "unbounded", "failed"]

CVXPY_LOCK = threading.RLock()
in_child(CVXPY_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


if TYPE_CHECKING:
    from cdopt.backends.compiling import Compiled

    computed_once = cached_property
else:

    class computed_once(cached_property):  # noqa: N801
        """A cached property that is computed once, whatever the number of Python threads.

        ``func`` computes it.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            """The value of ``instance``, of class ``owner``, computed under the lock."""
            with CVXPY_LOCK:  # another thread may have computed it meanwhile
                known = {} if instance is None else vars(instance)
                name = self.attrname
                return known[name] if name in known else super().__get__(instance, owner)


@dataclass(frozen=True)
class Capability:
    """Capabilities of a backend.

    Attributes
    ----------
    classes : problem classes of modelled problems: "QP" (quadratic objective, linear
        constraints), "SOCP" (second-order cones, which powers p ≠ 2 need).
    structured : kinds of problems that it solves without CVXPY ("rigid step", "elastic step",
        "truss").
    warm_start : whether a previous solution can start it.
    laws : of friction that it supports without CVXPY.
    cones : that it supports without CVXPY, by name or trait as in ``cdopt.problem.cones``; None for
        all.
    """

    classes: frozenset[str] = frozenset()
    structured: frozenset[str] = frozenset()
    warm_start: bool = False
    laws: frozenset[str] = frozenset({"associated", "coulomb"})
    cones: frozenset[str] | None = None

    def consumes(self, data: ContactProblem) -> bool:
        """Whether it solves the problem of these ``data`` without CVXPY."""
        checks.instance("data", data, ContactProblem)
        return data.kind in self.structured and not self.lacks(data)

    def lacks(self, data: ContactProblem) -> str:
        """The law or cones of ``data`` that it does not support; empty if it supports them."""
        checks.instance("data", data, ContactProblem)
        if data.law not in self.laws:
            return f"the {data.law} law"
        if data.kind == "soft step" and data.d == 1 and "rigid step" not in self.structured:
            return "contacts of one row"
        return " and ".join(self.unknown_cones(data.cones))

    def unknown_cones(self, cones: Cones) -> list[str]:
        """Names of the kinds of cones that it does not support."""
        checks.instance("cones", cones, Cones)
        if self.cones is None:
            return []
        takes, kinds = self.cones, cones.kinds.items()
        return sorted([k for k, traits in kinds if k not in takes and takes.isdisjoint(traits)])


class Problem(Protocol):
    """A formulation, as backends see it."""

    @property
    def problem(self) -> cp.Problem:
        """The CVXPY problem."""

    @property
    def data(self) -> ContactProblem:
        """The plain data."""

    @property
    def problem_class(self) -> ProblemClass:
        """The class of solver that the CVXPY problem needs."""

    @property
    def extended(self) -> bool:
        """Whether the user added constraints."""

    def for_solver(self, backend: Any) -> Problem:
        """This problem, or the same on variables that similar small ones share."""

    def compiled(self, backend: Any) -> Compiled:
        """CVXPY's data for a solver."""

    def unpack(self, answer: Any) -> Iterate | None:
        """Write CVXPY's ``answer`` into its variables; the pair, in physical units."""

    def certify(self, iterate: Iterate, tol: float) -> Certificate:
        """The certificate of an ``iterate`` at ``tol``."""

    def seed(self, start: WarmStart) -> None:
        """Write a previous solution into the CVXPY variables."""


@dataclass
class RunResult:
    """One run of one backend: its status and its iterate.

    Attributes
    ----------
    status : the solver's status text.
    claim : its meaning: "solved", "inaccurate", "infeasible", "unbounded" or "failed".
    iterate : the last primal–dual pair, in physical units; None when there is none.
    timings : seconds of "compile", "solve", "read".
    iterations : the solver's count, or None.
    raw : the result object of the solver.
    settings : as given to the solver.
    how : the methods that a backend chose, and their iterations, as text.
    threads : of cdopt's loops; None where another solver ran.
    out_of_time : whether the time limit ended the run.
    limited : how the time limit was enforced, as text; empty without one.
    certificate : of the iterate, by ``Formulation.solve``; backends leave it None.
    """

    status: str
    claim: Claim
    iterate: Iterate | None
    timings: Mapping[str, float] = field(default_factory=dict)
    iterations: int | None = None
    raw: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    threads: int | None = None
    out_of_time: bool = False
    limited: str = ""
    certificate: Certificate | None = None

    @property
    def forces(self) -> FloatArray:
        """(rows,) N, of the iterate, which there must be."""
        if self.iterate is None:
            raise ValueError(f"no iterate: {self.status}")
        return self.iterate.forces


def check_run(
    formulation: Problem, warm_start: WarmStart | None, verbose: bool, time_limit: float | None
) -> None:
    """Raise InvalidInput for a bad argument of ``Backend.run``."""
    checks.provides("formulation", formulation, Problem)
    if warm_start is not None:
        checks.instance("warm_start", warm_start, WarmStart)
    checks.flag("verbose", verbose)
    if time_limit is not None:
        checks.not_negative("time_limit", time_limit)


@runtime_checkable
class Backend(Protocol):
    """An immutable set of settings that can solve formulations."""

    @property
    def name(self) -> str:
        """The backend's registered name."""

    @property
    def capability(self) -> Capability:
        """The problems that it can solve."""

    def run(
        self,
        formulation: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Solve the problem of a ``formulation`` once.

        ``warm_start`` is a solution to start from, or None; ``verbose`` lets the solver print;
        after ``time_limit`` seconds it ends with its current iterate and sets ``out_of_time``.
        Raises InvalidInput for a bad argument, Unsupported for a problem that it cannot solve.
        """
