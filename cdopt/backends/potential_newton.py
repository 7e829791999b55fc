"""Newton's method on the potential of elastic contacts: trusses, elastic steps, frozen friction.

The potential form of the no-tension truss is equation (32), corrected:

minimise over u  E(u) = Σ w(c) + F̃ᵀ u + ½ uᵀS u,  c = −G u − p, where the inertia S is zero for a
truss. The gradient F̃ + S u − Gᵀ w′(c) is once semismooth; its generalised Hessian
S + Gᵀ diag(w″(c)) G loses rank when bodies without inertia lose all contacts, so a Levenberg shift
is added, small while steps succeed and raised when they do not.

With friction frozen beforehand each contact has tangential springs, too, whose force is cut to a
cap: E(u) has Huber's function of their stretch, and the Hessian of a slider is
κ (cap/‖y‖)(1 − yyᵀ/‖y‖²), or κ where it sticks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends import interior_point
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg import ContactNetwork
from cdopt.backends.network_problem import FrozenFriction, NetworkProblem
from cdopt.backends.semismooth import Point, SemismoothNewton, loosened
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.residual import largest
from cdopt.problem.sliders import cut

LOG = logging.getLogger("cdopt.backends.newton")

_SHIFT_START, _SHIFT_LEAST, _SHIFT_MOST = 1e-4, 1e-12, 1e4  # of the typical stiffness
_GROUND = 1e-8  # shift of the network that can also pull, and of the first step where few do
_START = 1e-4  # relative accuracy of that system
_LOOSEST, _SHARPEST, _FORCING = 0.1, 1e-10, 0.5  # relative accuracy of the linear systems
_STEEPEST = 1e8  # w″ beyond this multiple of its typical value is capped (p < 2 near c = 0)
_WINDOW, _NO_PROGRESS, _CLOSE = 6, 0.5, 1e4  # round-off reached: steps, gain, of the accuracy
_HANDED_OVER = 1e-9  # residual at which the interior point hands over
_REFINABLE, _REFINEMENTS = 1e-5, 4
_NEARLY = 10.0  # times the residual, to which refined forces are those of the overlaps
_FACTORISED = 8  # first steps by factors: a wall converges in four, and later steps change little
_PULLED = 1e-4  # share of the forces that may pull at the start of a solution in few steps
_UNDERWAY, _ARRIVING = 0.1, 1e-3  # of the first residual, from which few systems are left
_ALL_NEWTON = 20  # steps allowed below which Newton's method has them all
_ROUND_OFF = 16.0 * float(np.finfo(np.float64).eps)  # of the terms of a gradient


def minimise(
    problem: NetworkProblem,
    start: FloatArray | None,
    tol: float,
    limit: int,
    deadline: Deadline = NEVER,
) -> Point:
    """Newton's method from ``start``, or from the network that can also pull.

    Systems are factorised where that takes few operations, else iterated. Where
    conjugate gradients then give up, or Newton's method does not arrive, the interior point takes
    over, and Newton's method completes its solution. Frozen friction starts from the free motion,
    and has no other method.
    """
    net, law = problem.net, problem.elastic_law
    if problem.sliders is not None:
        sliding = SlidingNewton(problem, tol, deadline, problem.sliders)
        first = net.motion(-problem.load) if start is None else start
        last = sliding.result(sliding.at(first), limit)
        last.f = problem.table(last.f)[:, 0].copy()  # the normal ones
        return last
    before = net.iterations
    first = _bilateral(problem, law) if start is None else start.copy()
    spent = net.iterations - before
    near = _hardly_pulls(law, problem.overlap(first))
    direct = near and spent < net.patience and net.cheaply_factorised(spent)
    shift = _GROUND if near else _SHIFT_START
    if direct and law.power != HOOKE:
        first, shift = _bilateral(problem, law, direct), _SHIFT_START
    share = limit if limit < _ALL_NEWTON or not net.factorisable else limit // 2
    newton = ElasticNewton(problem, tol, deadline, _FACTORISED if direct else 0, shift)
    run = newton.result(newton.at(first), share)
    left = limit - run.steps
    if not (run.converged or left <= 0 or not net.factorisable or deadline.passed):
        overlap = np.abs(problem.overlap(first))
        sizes = float(law.force(overlap).max(initial=0.0)), float(overlap.max(initial=0.0))
        begin = interior_point.far_start(problem, *sizes)
        inside = interior_point.solve(problem, begin, _HANDED_OVER, left, deadline)
        left -= inside.steps
        newton = ElasticNewton(problem, tol, deadline, left)
        last = newton.result(newton.at(inside.w), left)
        steps = run.steps + inside.steps + last.steps
        run = min(run, last, key=lambda candidate: candidate.error)
        run.steps = steps
    return run if run.converged or deadline.passed else refined(problem, run, tol)


class ElasticNewton(SemismoothNewton):
    """Elastic contacts f = w′(c), with a Levenberg shift.

    Parameters
    ----------
    factorised : systems up to this step are factorised, later ones iterated.
    shift : of the first step, of the typical stiffness.
    """

    def __init__(
        self,
        problem: NetworkProblem,
        tol: float,
        deadline: Deadline,
        factorised: int = 0,
        shift: float = _SHIFT_START,
    ) -> None:
        super().__init__(problem, tol, deadline)
        self.law, self.factorised, self.shift = problem.elastic_law, factorised, shift
        self.cautious, self.gave_up, self.loosest = self.law.power < HOOKE, False, _LOOSEST
        self.norms, self.stiffness = list[float](), np.zeros(0)

    def force(self, g: FloatArray) -> FloatArray:
        return self.law.force(-g)

    def power(self, at: Point, rate: FloatArray) -> Callable[[float], float]:
        force, c, motion = self.law.force, -at.g, -rate
        return lambda t: float(force(c + t * motion) @ motion)

    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
        return _size(balance)

    def direction(self, at: Point) -> FloatArray | None:
        """By factors, or by conjugate gradients for as long as they are patient."""
        net, first, direct = self.problem.net, self.history[0], self.steps <= self.factorised
        patience = 2 * net.patience if at.error <= _UNDERWAY * first else net.patience
        D = capped_tangent(self.law, -at.g)
        if self.cautious:  # w′(c)/c, for p < 2 stiffer than the tangent, so that no step overshoots
            D = D / (self.law.power - 1.0)
        last = self.law.power == HOOKE and np.array_equal(D, self.stiffness)
        self.stiffness = D
        tol = self._forcing(at, last)
        d = _direction(net, D, self.shift * _typical(D), -at.balance, tol, direct, patience)
        self.gave_up = d is None and not direct
        if self.gave_up and at.error <= _ARRIVING * first and net.cheaply_factorised(patience):
            self.gave_up, self.factorised = False, np.iinfo(np.int64).max
            return self.direction(at)
        return d

    def _forcing(self, at: Point, last: bool) -> float:
        """How sharply to solve the next system; out for the ``last`` of a linear network."""
        needed = min(max(0.1 * self.tol / at.error, _SHARPEST), 1e-2)
        if len(self.norms) < len(self.history):
            self.norms.append(float(np.linalg.norm(at.balance)))
        if last or len(self.norms) < 2:
            return needed if last else self.loosest
        reduction = self.norms[-1] / self.norms[-2]
        return loosened(reduction, 0.3 * needed, _FORCING, 0.0, self.loosest)

    def refused(self) -> bool:
        """The shift is raised, unless conjugate gradients gave up."""
        self.shift *= 100.0
        return not self.gave_up and self.shift <= _SHIFT_MOST

    def accepted(self, before: Point, at: Point, t: float) -> None:
        """Less caution and less shift where steps succeed."""
        if self.law.power < HOOKE:
            self.cautious = at.error > (0.7 if self.cautious else 0.3) * before.error
        if not 0.5 <= t <= 2.0:  # the step predicted little: solve the systems more accurately
            self.loosest = max(0.1 * self.loosest, 1e-8)
        LOG.info("truss step %d: residual %.2e, length %.3g", self.steps, at.error, t)
        self.shift = max(self.shift * (0.1 if t > 0.3 else 10.0), _SHIFT_LEAST)

    def stalled(self) -> bool:
        """Round-off reached: no progress over the last steps, already close."""
        recent = self.history[-_WINDOW:]
        stuck = len(recent) == _WINDOW and min(recent[1:]) >= _NO_PROGRESS * recent[0]
        return stuck and recent[-1] < _CLOSE * self.tol


class SlidingNewton(ElasticNewton):
    """Elastic contacts with friction frozen beforehand: the normal row first, then the sliders."""

    def __init__(
        self, problem: NetworkProblem, tol: float, deadline: Deadline, sliders: FrozenFriction
    ) -> None:
        super().__init__(problem, tol, deadline)
        self.sliders = sliders

    def power(self, at: Point, rate: FloatArray) -> Callable[[float], float]:
        return SemismoothNewton.power(self, at, rate)

    def _tried(self, g: FloatArray) -> FloatArray:
        """−κ g_T (nc, d − 1), the forces of springs without a cap."""
        return -self.sliders.growth[:, None] * self.problem.table(g)[:, 1:]

    def force(self, g: FloatArray) -> FloatArray:
        f = np.empty((self.problem.nc, self.problem.d))
        f[:, 0] = self.law.force(-self.problem.table(g)[:, 0])
        f[:, 1:] = cut(self._tried(g), self.sliders.cap)[0]
        return f.ravel()

    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
        """The largest entry of the balance over the inertia there; round-off is 0."""
        problem, net = self.problem, self.problem.net
        reach = problem.table(np.abs(problem.p) + abs(net.B) @ np.abs(w))
        reach[:, 0] *= capped_tangent(self.law, -problem.table(g)[:, 0])
        reach[:, 1:] *= self.sliders.growth[:, None]
        terms = net.mass_size @ np.abs(w) + np.abs(problem.load) + abs(net.B).T @ reach.ravel()
        noise = _ROUND_OFF * terms / (self.tol * net.mass_diagonal)
        return problem.error(balance / np.maximum(noise, 1.0))

    def direction(self, at: Point) -> FloatArray | None:
        y, (nc, d) = self._tried(at.g), (self.problem.nc, self.problem.d)
        length, share = np.linalg.norm(y, axis=1), cut(y, self.sliders.cap)[1]
        way = y / np.where(length > 0.0, length, 1.0)[:, None]
        root = np.zeros((nc, d, d))
        normal = capped_tangent(self.law, -self.problem.table(at.g)[:, 0])
        root[:, 0, 0] = np.sqrt(normal)
        across = np.eye(d - 1) - (share < 1.0)[:, None, None] * way[:, :, None] * way[:, None, :]
        root[:, 1:, 1:] = np.sqrt(self.sliders.growth * share)[:, None, None] * across
        try:
            return self.net.block_system(root, root).solve(-at.balance, self._forcing(at, False))
        except ArithmeticError:
            return None

    def moved(
        self, at: Point, t: float, d: FloatArray, rate: FloatArray, pushed: FloatArray
    ) -> Point:
        """With rates computed again: those of the free motion are far larger than those at rest."""
        return self.at(at.w + t * d)

    def refused(self) -> bool:
        return False

    def stalled(self) -> bool:
        """A step without length ends the run."""
        return False


def refined(problem: NetworkProblem, run: Point, tol: float) -> Point:
    """Forces brought into equilibrium where round-off of u keeps w′(c) from it.

    Between bodies that soft contacts let move far, a stiff contact's overlap is a small difference
    of large numbers. So the forces are corrected by those of a correction of u, f − D G δu: an
    iterative refinement, in which f is no function of u.
    """
    if not np.isfinite(run.error) or run.error > _REFINABLE:
        return run
    net, law = problem.net, problem.elastic_law
    D = capped_tangent(law, problem.overlap(run.w))
    best, u, f = run, run.w, run.f
    for _ in range(_REFINEMENTS):
        uphill = problem.balance(u, f)
        d = _direction(net, D, _SHIFT_LEAST * _typical(D), -uphill, 1e-6, net.factorisable)
        if d is None:
            break
        u, f = u + d, np.maximum(f - D * net.gap(d), problem.floor)
        size = _size(problem.balance(u, f))
        apart = _size(f - law.force(problem.overlap(u)))  # a loose body may have been moved far
        if not size < 0.5 * best.error or not apart <= _NEARLY * run.error:
            break
        history = [*best.history, size]
        best = Point(u, f, size, run.steps, history, size <= tol)
        if best.converged:
            break
    return best


def _direction(
    net: ContactNetwork,
    D: FloatArray,
    shift: float,
    rhs: FloatArray,
    tol: float,
    direct: bool,
    patience: int = 0,
) -> FloatArray | None:
    """The Newton direction; None where the matrix cannot be factorised, or iterating is dear."""
    try:
        if not direct:
            system = net.system(D, shift)
            x = system.solve(rhs, tol, patience or net.patience if net.factorisable else None)
            return None if system.gave_up and net.factorisable else x
        return net.factored(D, shift).solve(rhs, tol)
    except ArithmeticError:
        return None


def _typical(D: FloatArray) -> float:
    """The mean of the stiffness of closed contacts, one without any."""
    closed = D[D > 0.0]
    return float(closed.sum()) / closed.size if closed.size else 1.0


def _size(gradient: FloatArray) -> float:
    return largest(np.abs(gradient))


def _bilateral(problem: NetworkProblem, law: PowerLaw, direct: bool = False) -> FloatArray:
    """The displacement of a linear network of the same stiffness that can also pull."""
    net = problem.net
    k = law.stiffness ** (1.0 / (law.power - 1.0)) if law.power != HOOKE else law.stiffness
    shift, pulled = _GROUND * _typical(k), -(problem.load + net.load(k * problem.p))
    try:
        if direct:
            return net.factored(k, shift).solve(pulled, _SHARPEST)
        return net.system(k, shift).solve(pulled, _START, net.patience)
    except ArithmeticError:
        return np.zeros(net.m)


def _hardly_pulls(law: PowerLaw, c: FloatArray) -> bool:
    """Whether almost all force of the network that can also pull is pressure: few contacts open."""
    pulled, pushed = (np.maximum(law.force(x), 0.0).sum() for x in (-c, c))
    return bool(pulled <= _PULLED * pushed)


def capped_tangent(law: PowerLaw, c: FloatArray) -> FloatArray:
    """w″(c) (nc,), zero on open contacts, capped where it would be infinite."""
    D = law.tangent(c)
    if law.power < HOOKE and D.any():
        D = np.minimum(D, _STEEPEST * float(np.median(D[D > 0.0])))
    return D
