"""Semismooth Newton on potentials: of trusses and elastic steps, and of rigid steps by multipliers.

The potential form of the no-tension truss is equation (32), corrected:

minimise over u  E(u) = Σ w(c) + F̃ᵀ u + ½ uᵀS u,  c = −B u − opening, where the inertia S is zero
for a truss. The gradient F̃ + S u − Bᵀ w′(c) is once semismooth; its generalised Hessian
S + Bᵀ diag(w″(c)) B loses rank when bodies without inertia lose all contacts, so a Levenberg shift
is added, small while steps succeed and raised when they do not. The line search finds where the
derivative along the direction vanishes: convex in one variable, it needs no product with B and
suffers no cancellation, however close to the minimum.

A rigid step is solved by an augmented Lagrangian over compliant steps:

minimise over w  ½ wᵀS w + (1/2σ) Σ (λ − σ(B w + p))₊²,  then  λ ← (λ − σ(B w + p))₊,  with
w = v⁺ − v* in scaled units. The inner problem is the truss's potential with inertia added. The
multipliers stay near where they are (a proximal point method in the forces: Rockafellar, Math.
Oper. Res. 1, 1976), and since the problem is piecewise quadratic a large enough σ ends it in a
few steps; σ grows whenever the residual falls too slowly, and systems that the growing σ makes
too stiff for conjugate gradients are factorised.

Elastic steps with sliders have their own potential:

minimise over v    ½ ‖v − v*‖²_M + Σ w(c) + (Δt/h) Σ ψ(s)

Its gradient is M(v − v*) − Δt (Bᵀw′(c) + B_tᵀf_t), once semismooth; the generalised Hessian has
w″ on open and closed contacts, and of a slider K (cap/‖y‖)(1 − yyᵀ/‖y‖²), or K where it sticks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.checks import BoolArray, FloatArray
from cdopt.backends import interior_point
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg import ContactNetwork
from cdopt.backends.linalg.network import System
from cdopt.backends.native import Outcome, Run
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.problem import ContactProblem
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.scaling import column_scale
from cdopt.problem.sliders import cut
from cdopt.problem.solution import Iterate

LOG = logging.getLogger("cdopt.backends.newton")

_SHIFT_START, _SHIFT_LEAST, _SHIFT_MOST = 1e-4, 1e-12, 1e4  # of the typical stiffness
_GROUND = 1e-8  # shift of the network that can also pull, and of the first step where few do
_START = 1e-4  # relative accuracy of that system
_LOOSEST, _SHARPEST, _FORCING = 0.1, 1e-10, 0.5  # relative accuracy of the linear systems
_STEEPEST = 1e8  # w″ beyond this multiple of its typical value is capped (p < 2 near c = 0)
_SEARCHES = 60  # secants of a line search
_NEAR_ENOUGH, _MUCH_SHORTER = 0.5, 0.1  # slopes at which a line search ends, of its first
_WINDOW, _NO_PROGRESS, _CLOSE = 6, 0.5, 1e4  # round-off reached: steps, gain, of the accuracy
_HANDED_OVER = 1e-9  # residual at which the interior point hands over
_REFINABLE, _REFINEMENTS = 1e-5, 4
_NEARLY = 10.0  # times the residual, to which refined forces are those of the overlaps
_FACTORISED = 8  # first steps by factors: a wall converges in four, and later steps change little
_PULLED = 1e-4  # share of the forces that may pull at the start of a solution in few steps
_UNDERWAY, _ARRIVING = 0.1, 1e-3  # of the first residual, from which few systems are left
_ALL_NEWTON = 20  # steps allowed below which Newton's method has them all


def minimise(
    problem: NetworkProblem,
    start: FloatArray | None,
    tol: float,
    limit: int,
    deadline: Deadline = NEVER,
) -> IterationResult:
    """Newton's method from ``start``, or from the network that can also pull.

    Systems are factorised where that takes few operations, and iterated where it does not. Where
    conjugate gradients then give up, or Newton's method does not arrive, the interior point takes
    over, and Newton's method ends what it began.
    """
    net, law = problem.net, law_of(problem)
    before = net.statistics.iterations
    first = _bilateral(problem, law) if start is None else start.copy()
    spent = net.statistics.iterations - before
    near = _hardly_pulls(law, problem.overlap(first))
    direct = near and spent < net.patience and net.cheaply_factorised(spent)
    shift = _GROUND if near else _SHIFT_START
    if direct and law.power != HOOKE:
        first, shift = _bilateral(problem, law, direct), _SHIFT_START
    share = limit if limit < _ALL_NEWTON or not net.factorisable else limit // 2
    factorised = _FACTORISED if direct else 0
    run = _newton(problem, law, first, tol, share, factorised, shift, deadline)
    left = limit - run.steps
    if not (run.converged or left <= 0 or not net.factorisable or deadline.passed):
        overlap = np.abs(problem.overlap(first))
        sizes = float(law.force(overlap).max(initial=0.0)), float(overlap.max(initial=0.0))
        begin = interior_point.far_start(problem, *sizes)
        inside = interior_point.solve(problem, begin, _HANDED_OVER, left, deadline)
        left -= inside.steps
        last = _newton(problem, law, inside.w, tol, left, left, _SHIFT_START, deadline)
        steps = run.steps + inside.steps + last.steps
        run = min(run, last, key=lambda candidate: candidate.residual)
        run.steps = steps
    return run if run.converged or deadline.passed else refined(problem, run, tol)


def law_of(problem: NetworkProblem) -> PowerLaw:
    """The contacts' law.

    Raises
    ------
    ValueError : the contacts are rigid.
    """
    if problem.law is None:
        raise ValueError("rigid contacts have no potential")
    return problem.law


def refined(problem: NetworkProblem, run: IterationResult, tol: float) -> IterationResult:
    """Forces brought into equilibrium where round-off of u keeps w′(c) from it.

    Between bodies that soft contacts let move far, a stiff contact's overlap is a small difference
    of large numbers. So the forces are corrected by those of a correction of u, f − D B δu: an
    iterative refinement, in which f is no function of u.
    """
    if not np.isfinite(run.residual) or run.residual > _REFINABLE:
        return run
    net, law = problem.net, law_of(problem)
    D = capped_tangent(law, problem.overlap(run.w))
    best, u, f = run, run.w, run.f
    for _ in range(_REFINEMENTS):
        uphill = problem.balance(u, f)
        d = _direction(net, D, _SHIFT_LEAST * _typical(D), -uphill, 1e-6, net.factorisable)
        if d is None:
            break
        u, f = u + d, np.maximum(f - D * net.gap(d), 0.0)
        size = _size(problem.balance(u, f))
        apart = _size(f - law.force(problem.overlap(u)))  # a loose body may have been moved far
        if not size < 0.5 * best.residual or not apart <= _NEARLY * run.residual:
            break
        history = [*best.history, size]
        best = IterationResult(u, f, size, run.steps, history, size <= tol)
        if best.converged:
            break
    return best


def _newton(
    problem: NetworkProblem,
    law: PowerLaw,
    u: FloatArray,
    tol: float,
    limit: int,
    factorised: int,
    shift: float,
    deadline: Deadline,
) -> IterationResult:
    """Newton's method from u, systems up to the step ``factorised`` by factors, then iterated.

    ``shift`` is that of the first step.
    """
    net = problem.net
    net.statistics.methods.append("Newton's method")
    c = problem.overlap(u)
    f = law.force(c)
    gradient = problem.balance(u, f)
    history = [_size(gradient)]
    cautious, norms, before = law.power < HOOKE, [_norm(gradient)], np.zeros(0)
    loosest = _LOOSEST
    for step in range(1, limit + 1):
        if history[-1] <= tol or deadline.passed or _stalled(history, tol):
            break
        direct = step <= factorised
        patience = 2 * net.patience if history[-1] <= _UNDERWAY * history[0] else net.patience
        D = capped_tangent(law, c)
        if cautious:  # w′(c)/c, for p < 2 stiffer than the tangent: slower, but no step overshoots
            D = D / (law.power - 1.0)
        last = law.power == HOOKE and np.array_equal(D, before)
        forcing, before = _forcing(norms, history[-1], tol, last, loosest), D
        d = _direction(net, D, shift * _typical(D), -gradient, forcing, direct, patience)
        if d is None and not direct:
            arriving = history[-1] <= _ARRIVING * history[0]
            if not arriving or not net.cheaply_factorised(patience):
                break
            factorised = limit
            continue
        t, size = 0.0, np.inf
        if d is not None:
            motion, kinetic = -net.gap(d), float(net.inertia(d) @ d)
            work = float((problem.load + net.inertia(u)) @ d)
            t = line_search(_slope(law.force, c, motion, work, kinetic))
            moved = c + t * motion
            force = law.force(moved)
            after = problem.balance(u + t * d, force)
            size = _size(after)
        if d is None or t == 0.0 or not np.isfinite(size):
            shift *= 100.0
            if shift > _SHIFT_MOST:
                break
            continue
        if law.power < HOOKE:
            cautious = size > (0.7 if cautious else 0.3) * history[-1]
        u, c, f, gradient = u + t * d, moved, force, after
        if not 0.5 <= t <= 2.0:  # the step foretold little: systems want solving more sharply
            loosest = max(0.1 * loosest, 1e-8)
        history.append(size)
        norms.append(_norm(gradient))
        LOG.info("truss step %d: residual %.2e, length %.3g, shift %.1e", step, size, t, shift)
        shift = max(shift * (0.1 if t > 0.3 else 10.0), _SHIFT_LEAST)
    return IterationResult(u, f, history[-1], len(history) - 1, history, history[-1] <= tol)


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


def _forcing(norms: list[float], residual: float, tol: float, last: bool, loosest: float) -> float:
    """How sharply to solve the next linear system, by how well the last step foretold this one.

    Eisenstat & Walker, SIAM J. Sci. Comput. 17 (1996), their second choice. Where the network is
    linear and no contact has opened or closed, it is the ``last`` system: it is solved out.
    """
    needed = min(max(0.1 * tol / residual, _SHARPEST), 1e-2)
    if last:
        return needed
    if len(norms) < 2:
        return loosest
    foretold = _FORCING * (norms[-1] / norms[-2]) ** 2
    return min(max(foretold, 0.3 * needed), loosest)


def _typical(D: FloatArray) -> float:
    """The mean of the stiffness of closed contacts, one without any."""
    return float(D[D > 0.0].mean()) if np.any(D > 0.0) else 1.0


def _norm(gradient: FloatArray) -> float:
    return float(np.linalg.norm(gradient))


def _size(gradient: FloatArray) -> float:
    return float(np.abs(gradient).max(initial=0.0))


def _stalled(history: list[float], tol: float) -> bool:
    """Round-off reached: no progress over the last steps, already close."""
    recent = history[-_WINDOW:]
    stuck = len(recent) == _WINDOW and min(recent[1:]) >= _NO_PROGRESS * recent[0]
    return stuck and recent[-1] < _CLOSE * tol


def _bilateral(problem: NetworkProblem, law: PowerLaw, direct: bool = False) -> FloatArray:
    """Start: the displacement of a linear network of the same stiffness that can also pull.

    For other powers each overlap is then of the right order: scaled forces are near one.
    """
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
    pulled, pushed = law.force(-c).sum(), law.force(c).sum()
    return bool(pulled <= _PULLED * pushed)


def capped_tangent(law: PowerLaw, c: FloatArray) -> FloatArray:
    """w″(c) (nc,), zero on open contacts, capped where it would be infinite."""
    D = law.tangent(c)
    if law.power < HOOKE and D.any():
        D = np.minimum(D, _STEEPEST * float(np.median(D[D > 0.0])))
    return D


def _slope(
    force: Callable[[FloatArray], FloatArray],
    c: FloatArray,
    motion: FloatArray,
    work: float,
    square: float,
) -> Callable[[float], float]:
    """φ′(t) = (F̃ + S u)ᵀd + t dᵀS d + Σ w′(c + t motion) motion, w′ the ``force``.

    ``work`` and ``square`` are the first two products.
    """
    return lambda t: work + t * square + float(force(c + t * motion) @ motion)


def line_search(
    slope: Callable[[float], float], whole: float = _NEAR_ENOUGH, share: float = _MUCH_SHORTER
) -> float:
    """t > 0 where a nondecreasing ``slope`` has vanished, or nearly; 0 if there is none.

    It ends at a ``share`` of the first slope, and at a step of 1, 4, 16 … at that of ``whole``:
    the secant between two ends, one that stays put counted half (Illinois).
    """
    initial = slope(0.0)
    if not initial < 0.0:
        return 0.0
    low, at_low, high, at_high = 0.0, initial, 1.0, slope(1.0)
    while at_high < -whole * abs(initial) and high < 1e6:
        low, at_low, high = high, at_high, 4.0 * high
        at_high = slope(high)
    if at_high <= whole * abs(initial):  # without end where the energy has no minimum
        return high
    last = 0.0
    for _ in range(_SEARCHES):
        t = low - at_low * (high - low) / (at_high - at_low)  # exact where no contact switches
        value = slope(t)
        if abs(value) <= share * abs(initial):
            return t
        if value < 0.0:
            low, at_low, at_high = t, value, at_high * (0.5 if last < 0.0 else 1.0)
        else:
            high, at_high, at_low = t, value, at_low * (0.5 if last > 0.0 else 1.0)
        last = value
    return low


# --- rigid steps -------------------------------------------------------------------------

_SIGMA_START, _SIGMA_WARM, _SIGMA_MOST = 1e2, 1e5, 1e8
_SPREAD_MOST = 1e8  # ratio of mobilities, by which the largest σ is raised
_SIGMA_SMALL = 1.0  # at the start, of dense systems; as it grows weak couplings lose digits
_SIGMA_ENOUGH = 1e4  # of dense systems: round-off of a gap times σ stays below 1e-12
_GROWTH, _GROWTH_HARD = 10.0, 3.0  # of σ, and where the last minimisation was hard
_EASY = 2  # Newton steps of a minimisation after which σ grows in any case, of dense systems
_HARD, _TOO_HARD = 8, 30  # Newton steps beyond which it was hard, and too hard to grow at all
_INNER = 60  # Newton steps at most of one minimisation
_WHOLE, _SHARE = 1e-6, 1e-3  # slopes at which a line search ends, of its first
_DIRECT_FROM = 1e4  # σ from which systems are factorised


Motion = tuple[FloatArray, FloatArray, FloatArray]  # w, its gaps B w + p, and S w


def solve_rigid(
    problem: NetworkProblem,
    start: FloatArray | None,
    tol: float,
    limit: int,
    deadline: Deadline = NEVER,
) -> IterationResult:
    """Multipliers and motion from scaled forces ``start`` (nc,), in ``limit`` updates at most.

    A start is expected to have most of the active set: the penalty then begins high.
    """
    problem.net.statistics.methods.append("augmented Lagrangian")
    f = np.zeros(problem.net.nc) if start is None else start.copy()
    small = problem.net.small
    least = _SIGMA_SMALL if small else _SIGMA_START
    rest, sigma = np.zeros(problem.net.m), least if start is None else _SIGMA_WARM
    at, last, history, steps = (rest, problem.p, rest), _LastSystem(problem.net), [np.inf], 0
    best = IterationResult(rest, f, np.inf, 0, history, False)
    for _ in range(limit):
        if deadline.passed:
            break
        inner = max(0.05 * min(history[-1], 1.0), 0.1 * tol)
        try:
            at, push, error, spent = _compliant(problem, f, sigma, at, inner, deadline, last)
        except ArithmeticError as reason:
            LOG.info("rigid step: %s", reason)
            break
        steps += spent
        if spent == _INNER and sigma > _SIGMA_START:  # too stiff to begin from here
            sigma = sigma / _GROWTH
            continue
        f = push
        residual = problem.residual(error, at[1], f)
        LOG.info("rigid step: residual %.2e, sigma %.0e, %d Newton steps", residual, sigma, steps)
        history.append(residual)
        if residual < best.residual:
            best = IterationResult(at[0], f, residual, steps, history, residual <= tol)
        if best.converged:
            break
        easy = small and spent <= _EASY and sigma < _SIGMA_ENOUGH
        if residual > 0.2 * history[-2] or easy:
            most = _SIGMA_MOST * (_spread(problem) if sigma >= _SIGMA_MOST else 1.0)
            if sigma >= most and residual > 0.5 * min(history[-9:-1]):
                break
            sigma = min(sigma * _growth(spent), most)
    best.steps = steps
    return best


def _spread(problem: NetworkProblem) -> float:
    """Ratio of the largest mobility of a body to the smallest, within limits.

    σ is in units of the lightest body of a contact: the force between heavy bodies that a light one
    separates gains σ m_light/m_heavy of what it lacks in an update.
    """
    net = problem.net
    mobility = column_scale(net.B) ** 2 / net.mass_diagonal
    bodies = mobility.reshape(-1, net.size).max(axis=1)
    least = float(bodies.min(where=bodies > 0.0, initial=np.inf))
    return float(np.clip(bodies.max(initial=0.0) / least, 1.0, _SPREAD_MOST))


def _growth(spent: int) -> float:
    """How much stiffer to become: the easier the last minimisation was, the more."""
    return _GROWTH if spent <= _HARD else _GROWTH_HARD if spent <= _TOO_HARD else 1.0


class _LastSystem:
    """The last system S + σ Bᵀ B of contacts that push: a full step leaves it as it is."""

    def __init__(self, net: ContactNetwork) -> None:
        self.net, self.key = net, (0.0, b"")
        self.system: System

    def of(self, sigma: float, pushing: BoolArray) -> System:
        """That of the contacts ``pushing`` (nc,)."""
        key = sigma, pushing.tobytes()
        if key != self.key:
            net, D = self.net, np.where(pushing, sigma, 0.0)
            direct = net.factored if sigma >= _DIRECT_FROM else net.system
            self.system, self.key = net.of_forces(D) if net.few else direct(D), key
        return self.system


def _compliant(
    problem: NetworkProblem,
    f: FloatArray,
    sigma: float,
    at: Motion,
    tol: float,
    deadline: Deadline,
    last: _LastSystem,
) -> tuple[Motion, FloatArray, float, int]:
    """The inner minimisation from a motion: where it ends, pushes, its error, Newton steps spent.

    Where the same contacts push before and after a full step, the energy is quadratic along it,
    and its end is the minimum.
    """
    net, (w, gap, inertia) = problem.net, at
    push, full, before = np.maximum(f - sigma * gap, 0.0), False, np.inf
    for step in range(_INNER + 1):
        force = net.load(push) - inertia
        error = problem.error(force)
        if step == _INNER or error <= tol or (full and error > 0.5 * before) or deadline.passed:
            break
        pushing, before = push > 0.0, error
        d = last.of(sigma, pushing).solve(force, 1e-12 if sigma >= _DIRECT_FROM else 1e-3)
        rate, kinetic = net.gap(d), net.inertia(d)
        t, ahead = 1.0, np.maximum(f - sigma * (gap + rate), 0.0)
        full = (ahead > 0.0).tobytes() == pushing.tobytes()
        if not full:
            linear, square = float(inertia @ d), float(kinetic @ d)
            slope = _slope(_pushed(sigma), f - sigma * gap, -sigma * rate, linear, square)
            t = line_search(slope, _WHOLE, _SHARE)
            if t == 0.0:
                break
            ahead = np.maximum(f - sigma * (gap + t * rate), 0.0)
        w, gap, inertia, push = w + t * d, gap + t * rate, inertia + t * kinetic, ahead
    return (w, gap, inertia), push, error, step


def _pushed(sigma: float) -> Callable[[FloatArray], FloatArray]:
    return lambda push: np.maximum(push, 0.0) / sigma


# --- elastic steps with sliders ------------------------------------------------------------

_ROUND_OFF = 16.0 * float(np.finfo(np.float64).eps)  # of the terms of the gradient


class Sliding:
    """The function that is minimised, of motions v (nv,) in m/s.

    Attributes
    ----------
    unit : (nv,) M_jj S_j of each dof, S its unit of speed: of the gradient, N s and N m s.
    """

    def __init__(self, data: ContactProblem) -> None:
        law, mass, sliders = data.compliance, data.inertia, data.sliders
        if law is None or mass is None or sliders is None:
            raise TypeError("no elastic step with sliders")
        self.data, self.dt, self.M, self.law, self.sliders = data, data.dt, mass.M, law, sliders
        self.start = data.rest
        self.unit = mass.diagonal * data.dof_speed

    def overlap(self, v: FloatArray) -> FloatArray:
        """c (nc,), m."""
        return self.data.overlap(v, np.zeros(self.data.nc))

    def gradient(self, v: FloatArray) -> FloatArray:
        """(nv,) N s."""
        forces = self.law.force(self.overlap(v))
        load = self.data.B.T @ forces + self.sliders.load(v)
        return np.asarray(self.M @ (v - self.start) - self.dt * load)

    def terms(self, v: FloatArray) -> FloatArray:
        """(nv,) N s, sizes of the terms of the gradient; of forces before they cancel."""
        data, size, sliders = self.data, np.abs(v), self.sliders
        B, B_t = abs(data.B), abs(sliders.B_t)
        growth = np.repeat(sliders.growth * sliders.duration, sliders.start.shape[1])
        tried = np.abs(sliders.start).ravel() + growth * (B_t @ size)
        pressed = self.stiffness(v) * self.dt * (np.abs(data.bias) + B @ size)
        moved = abs(self.M) @ (size + np.abs(self.start))
        return np.asarray(moved + self.dt * (B.T @ pressed + B_t.T @ tried))

    def stiffness(self, v: FloatArray) -> FloatArray:
        """w″ (nc,), N/m."""
        return capped_tangent(self.law, self.overlap(v))

    def hessian(self, v: FloatArray) -> sp.csc_array:
        """(nv, nv) kg and kg m²."""
        B, B_t = self.data.B, self.sliders.B_t
        H = self.M + B.T @ sp.csr_array(B * (self.dt**2 * self.stiffness(v))[:, None])
        if self.sliders.cap.size:
            H = H + B_t.T @ (self._slider_tangent(v) @ B_t)
        return sp.csc_array(H)

    def _slider_tangent(self, v: FloatArray) -> sp.bsr_array:
        """−Δt ∂f_t/∂(B_t v) (n m, n m)."""
        data, y = self.sliders, self.sliders.tried(v)
        (n, m), (_, share) = y.shape, cut(y, data.cap)
        size = np.linalg.norm(y, axis=1)
        way = y / np.where(size > 0.0, size, 1.0)[:, None]
        blocks = np.eye(m) - (share < 1.0)[:, None, None] * way[:, :, None] * way[:, None, :]
        blocks *= (self.dt * data.duration * data.growth * share)[:, None, None]
        return sp.bsr_array((blocks, np.arange(n), np.arange(n + 1)), shape=(n * m, n * m))


def solve_sliding(data: ContactProblem, run: Run, accuracy: float, max_steps: int) -> Outcome:
    """Solve an elastic step with sliders in at most ``max_steps`` Newton steps."""
    potential, start = Sliding(data), run.start
    v, history, met = np.array(potential.start), list[float](), False
    if start is not None and start.motion is not None and start.motion.shape == v.shape:
        v = np.array(start.motion)
    with run.iterating(data.nc, data.nv):
        for _ in range(max_steps + 1):
            gradient = potential.gradient(v)
            error, terms = np.abs(gradient), potential.terms(v)
            history.append(float((error / potential.unit).max(initial=0.0)))
            met = bool(np.all(error <= np.maximum(accuracy * potential.unit, _ROUND_OFF * terms)))
            if met or run.deadline.passed or not np.isfinite(history[-1]):
                break
            H = potential.hessian(v)
            unit = 1.0 / np.sqrt(H.diagonal())
            scaled = sp.csc_array(H * unit[:, None] * unit[None, :])
            way = -unit * splu(scaled).solve(unit * gradient)
            t = line_search(partial(_slope_of, potential, v, way))
            if t == 0.0:  # round-off
                break
            v = v + t * way
    steps = max(len(history) - 1, 0)
    how = f"Newton's method on elastic contacts with sliders, {steps:,} steps"
    run.report(f"{how}, residual {min(history):.1e}")
    status = f"stopped at residual {min(history):.1e}"
    iterate = Iterate(v, potential.law.force(potential.overlap(v)))
    return Outcome(iterate, met, steps, [np.array(history)], how, status)


def _slope_of(potential: Sliding, v: FloatArray, way: FloatArray, t: float) -> float:
    """The derivative along ``way`` (nv,) from v."""
    return float(potential.gradient(v + t * way) @ way)
