"""cdopt's second-order solvers as backends: Newton and the interior point.

Trusses and elastic steps are minimised in potential form by a semismooth Newton method
(``potential_newton``); the interior point takes over where it does not converge. Rigid steps go to
an augmented Lagrangian over compliant steps (``proximal_newton``) where systems are small, to
the interior point where they are large, and to the other of the two where the first does not
reach the accuracy. Steps with friction go to the proximal method with cones, springs in cones
to ``spring_newton``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt.backends import (
    interior_point,
    potential_newton,
    proximal_newton,
    spring_newton,
)
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import NativeBackend, Run, listed
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point
from cdopt.backends.tied_cones import copied, tied
from cdopt.problem.cones import SYMMETRIC
from cdopt.problem.rolling_cones import RollingCones

_HANDED_OVER = 1e-8  # residual at which an interior point of cones hands over
_LIMITED = 100  # Newton steps at most that end an interior point only if it has come near
_NEAR = 1e-4  # residual from which an interior point is the start of the method on multipliers


@dataclass(frozen=True)
class SecondOrder(NativeBackend):
    """Settings of the backends that solve linear systems of the network.

    Parameters
    ----------
    accuracy : a truss is solved when its scaled equilibrium residual, a rigid step when its
        scaled natural residual and momentum error, are at most this; and, down to 1e-10, when
        the certificate is.
    max_steps : Newton steps of a truss, outer iterations of a rigid step, at most.
    history : keep the residual of each step in ``raw.residuals``.
    newton_steps : Newton steps at most of the proximal steps of a step with friction.

    Notes
    -----
    ``StepSolution.provenance["how"]`` names the methods and the linear algebra that were used,
    ``provenance["threads"]`` is the number of threads.

    Powers from 1.2 on, without an upper limit: below, u in double precision does not hold the
    overlaps of small forces. Few such answers are certified; the certificate states its resolution.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step", "elastic step", "truss"})
    limit: ClassVar[str] = "max_steps"

    accuracy: float = 1e-12
    max_steps: int = 200
    history: bool = False
    newton_steps: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(newton_steps=checks.count("newton_steps", self.newton_steps))

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        return solve_network(problem, run, self._iterate)

    @abstractmethod
    def _iterate(self, problem: NetworkProblem, forces: FloatArray | None, run: Run) -> Point:
        """Solve, from scaled forces of a rigid step, or else from the run's start."""


def solve_network(problem: NetworkProblem, run: Run, iterate: Callable[..., Point]) -> Run:
    """``iterate`` on a problem without cones, and return to physical units."""
    net, law = problem.net, problem.compliance
    net.restart()
    forces = None
    if run.start is not None and law is None:
        forces = problem.starting_forces(run.start)
    with run.iterating(problem.nc, net.m):
        last = iterate(problem, forces, run)
    least = min(last.history, default=0.0)
    run.report(f"{last.steps:,} steps, {net.cost}, residual {least:.1e}")
    return run.ended(
        problem.iterate(last.w, last.f),
        last.converged,
        last.steps,
        last.history,
        net.cost,
        f"stopped at residual {least:.1e}",
    )


@listed
class InteriorPoint(SecondOrder):
    """Settings of the proximal interior point method, for steps and trusses of every power.

    If forces are on the surface of their cones and contacts hardly slip, an interior-point method
    cannot reach round-off; Newton's method on multipliers then completes the solution. Convergence
    is not guaranteed for Coulomb's law, whose shift is updated in each iteration.

    Its parameters are those of ``Newton``.
    """

    name: ClassVar[str] = "interior-point"
    kinds: ClassVar[frozenset[str]] = SecondOrder.kinds | {"frictional step", "soft step"}
    cones: ClassVar[frozenset[str]] = frozenset({SYMMETRIC, RollingCones.name})

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        if not problem.has_cones:
            return super()._solve(problem, run)
        given = None if run.start is None else problem.starting_forces(run.start)
        near = max(self.accuracy, _HANDED_OVER)
        problem.operator.restart()
        with run.iterating(problem.rows, problem.operator.m):
            inside = _inside(problem, given, near, self.max_steps, run.deadline)
            left = max(self.max_steps - inside.steps, 1)
            limits = run.deadline, self.accuracy, self.newton_steps
            proximal = proximal_newton.Proximal(problem, *limits)
            if self.newton_steps <= _LIMITED and inside.error > _NEAR:  # they would not suffice
                left = 0
            f, residuals = proximal.solve(problem.table(inside.f), left)
        how = f"{problem.operator.cost} in {inside.steps} steps → {proximal}"
        history = [*inside.history[1:], *residuals]
        return proximal_newton.outcome(problem, f, history, self.accuracy, how, run, proximal.error)

    def _iterate(self, problem: NetworkProblem, forces: FloatArray | None, run: Run) -> Point:
        start = interior_point.start_from(problem, forces)
        return interior_point.solve(problem, start, self.accuracy, self.max_steps, run.deadline)


def _inside(
    problem: NetworkProblem, given: FloatArray | None, tol: float, limit: int, deadline: Deadline
) -> Point:
    """The interior point on cones, which share normal forces by copies, from forces ``given``."""
    copies = tied(problem)
    if copies is None:
        start = interior_point.start_from(problem, given)
        return interior_point.solve(problem, start, tol, limit, deadline)
    net = copies.operator
    start = interior_point.start_from(copies, None if given is None else copied(net, given))
    run = interior_point.solve(copies, start, tol, limit, deadline)
    return replace(run, w=run.w[: net.base.m], f=net.forces(run.f))


@listed
class Newton(SecondOrder):
    """Settings of Newton's method for trusses, elastic steps and steps with friction.

    Rigid steps, which have no smooth potential, are solved as by ``auto``. A step with friction is
    solved when its natural map over the closing speed of the part is at most ``accuracy``, or
    1e-10 where that is more; ``max_steps`` bounds its proximal steps.
    """

    name: ClassVar[str] = "newton"
    kinds: ClassVar[frozenset[str]] = SecondOrder.kinds | {
        "frictional step",
        "elastic step with sliders",
        "soft step",
        "friction network",
    }
    springs: ClassVar[bool] = True

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        if problem.has_cones and problem.compliance is not None:
            return spring_newton.solve_springs(problem, run, self.accuracy, self.max_steps)
        if problem.has_cones:
            limits = self.accuracy, self.max_steps, self.newton_steps
            return proximal_newton.solve_cones(problem, run, *limits)
        return super()._solve(problem, run)

    def _iterate(self, problem: NetworkProblem, forces: FloatArray | None, run: Run) -> Point:
        limits = self.accuracy, self.max_steps, run.deadline
        if problem.is_soft:
            return spring_newton.minimise(problem, *limits)
        if problem.compliance is not None:
            return potential_newton.minimise(problem, problem.scaled_motion(run.start), *limits)
        tried: list[Point] = []
        for dense in (True, False) if problem.net.small or problem.net.few else (False, True):
            if dense:
                near = tried[-1].f if tried and tried[-1].error <= _NEAR else forces
                tried.append(proximal_newton.solve_rigid(problem, near, *limits))
            else:
                start = interior_point.start_from(problem, forces)
                tried.append(interior_point.solve(problem, start, *limits))
            if tried[-1].converged or run.deadline.passed:
                return tried[-1]
        return min(tried, key=lambda result: result.error)
