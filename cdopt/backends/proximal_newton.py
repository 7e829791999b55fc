"""Newton's method on multipliers: rigid steps, and steps with friction of both laws.

A proximal point method on the forces (R. T. Rockafellar, Math. Oper. Res. 1, 1976), which is an
augmented Lagrangian over compliant steps. Each outer step solves the step with compliance 1/r added
at the contacts,

    S w = Gᵀ f,    f = P_K(f_k − r g̃(w)),

by a semismooth Newton method in w (in the forces where only N is known), and r grows. Without
friction P_K(y) is y₊, the inner problem is the truss's potential with inertia added, and since it
is piecewise quadratic a large enough r ends it in a few steps; systems that the growing r makes too
stiff for conjugate gradients are factorised.

With the associated law the inner problem is the minimum of a convex function, too. Coulomb's law is
solved in two phases. In the first, the shift μ‖g_T‖ is that of the last outer step, which makes
inner problems convex; it brings the forces near a solution, or ends where the shift does not
settle. In the second the system is that of the law itself, which is not symmetric; where Newton's
step does not reduce the residual, convex steps with the shift of the last iterate replace it; with
few Newton steps at hand, some of them may raise it instead.
For large μ a phase without the shift comes first (``CutNewton``). Round-off in the rates enters the
forces r times magnified, so r is reduced again at the end.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.network import System
from cdopt.backends.native import Run
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point, SemismoothNewton, loosened
from cdopt.problem.residual import EPS
from cdopt.problem.scaling import column_scale

LOG = logging.getLogger("cdopt.backends.newton")

# --- half-lines --------------------------------------------------------------------------

_SIGMA_START, _SIGMA_WARM, _SIGMA_MOST = 1e2, 1e5, 1e8
_SPREAD_MOST = 1e8  # ratio of mobilities, by which the largest σ is raised
_SIGMA_SMALL = 1.0  # at the start, of dense systems; as it grows weak couplings lose digits
_SIGMA_ENOUGH = 1e4  # of dense systems: round-off of a gap times σ stays below 1e-12
_SIGMA_GROWTH, _SIGMA_GROWTH_HARD = 10.0, 3.0  # and where the last minimisation was hard
_EASY = 2  # Newton steps of a minimisation after which σ grows in any case, of dense systems
_HARD, _TOO_HARD = 8, 30  # Newton steps beyond which it was hard, and too hard to grow at all
_MOST = 60  # Newton steps at most of one minimisation
_DIRECT_FROM = 1e4  # σ from which systems are factorised


def solve_rigid(
    problem: NetworkProblem,
    start: FloatArray | None,
    tol: float,
    limit: int,
    deadline: Deadline = NEVER,
) -> Point:
    """Multipliers and motion from scaled forces ``start`` (nc,), in ``limit`` updates at most.

    A start is expected to have most of the active set: the penalty then begins high.
    """
    problem.net.methods.append("augmented Lagrangian")
    f = np.zeros(problem.nc) if start is None else start.copy()
    small = problem.net.small
    least = _SIGMA_SMALL if small else _SIGMA_START
    rest, sigma = np.zeros(problem.net.m), least if start is None else _SIGMA_WARM
    w, inertia, g = rest, rest, problem.p
    history, steps, newton = [np.inf], 0, _Pushes(problem, tol, deadline)
    best = Point(rest, f, np.inf, 0, history)
    for _ in range(limit):
        if deadline.passed:
            break
        newton.begin(max(0.05 * min(history[-1], 1.0), 0.1 * tol), f, sigma)
        try:
            at = newton.run(newton.point(w, inertia, g), _MOST)
        except ArithmeticError as reason:
            LOG.info("rigid step: %s", reason)
            break
        w, inertia, g, spent = at.w, at.inertia, at.g, newton.steps
        steps += spent
        if spent == _MOST and sigma > _SIGMA_START:  # too stiff to begin from here
            sigma = sigma / _SIGMA_GROWTH
            continue
        f = at.f
        residual = problem.residual(at.error, g, f)
        LOG.info("rigid step: residual %.2e, sigma %.0e, %d Newton steps", residual, sigma, steps)
        history.append(residual)
        if residual < best.error:
            best = Point(w, f, residual, steps, history, residual <= tol)
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
    return _SIGMA_GROWTH if spent <= _HARD else _SIGMA_GROWTH_HARD if spent <= _TOO_HARD else 1.0


class _Pushes(SemismoothNewton):
    """Compliant contacts (f_k − σ g)₊.

    Where the same contacts push before and after a full step, the energy is quadratic along it,
    and its end is the minimum; the system S + σ Gᵀ G of these contacts is kept.
    """

    whole, share = 1e-6, 1e-3
    system: System  # the last one
    key = 0.0, b""  # σ and the contacts that push there

    def begin(self, tol: float, f: FloatArray, sigma: float) -> None:
        """Begin a minimisation at f (nc,) and σ."""
        self.tol, self.f, self.sigma, self.full = tol, f, sigma, False
        self.steps, self.history = 0, []

    def force(self, g: FloatArray) -> FloatArray:
        return np.maximum(self.f - self.sigma * g, self.problem.floor)

    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
        return self.problem.error(balance)

    def stalled(self) -> bool:
        """Whether a full step, whose end is the minimum, did not even halve the error."""
        return self.full and self.history[-1] > 0.5 * self.history[-2]

    def direction(self, at: Point) -> FloatArray:
        tol = 1e-12 if self.sigma >= _DIRECT_FROM else 1e-3
        pushing = at.f > self.problem.floor
        key = self.sigma, pushing.tobytes()
        if key != self.key:
            net, D = self.problem.net, np.where(pushing, self.sigma, 0.0)
            direct = net.factored if self.sigma >= _DIRECT_FROM else net.system
            self.system, self.key = net.of_forces(D) if net.few else direct(D), key
        return self.system.solve(-at.balance, tol)

    def step(self, at: Point, d: FloatArray) -> tuple[float, Point]:
        """A full step where there is one."""
        rate, pushed = self.net.gap(d), self.net.inertia(d)
        g = at.g + rate
        f = self.force(g)
        self.full = (f > self.problem.floor).tobytes() == self.key[1]
        if self.full:
            return 1.0, self.point(at.w + d, at.inertia + pushed, g, f)
        t = self.length(at, d, rate, pushed)
        return t, self.moved(at, t, d, rate, pushed) if t else at


# --- cones -------------------------------------------------------------------------------

_FIRST = 16.0  # r w of the first outer step
_LONG, _FIRST_MOST = 0.005, 4096.0  # r w over the natural map there, if that is more; at most
_GROWTH = 4.0  # of r, from one outer step to the next
_LARGEST = 1e8  # r w at most
_SHARPER = 0.1  # of a natural map whose certificate misses the accuracy, the next one at least
_INNER, _SOON = 20, 10  # Newton steps of one outer step, and where there are few
_NEWTON = 10_000  # Newton steps of all, at most
_HOPELESS = 3  # share of all Newton steps that one outer step may take
_FEW, _UPHILL = 100, 3  # Newton steps below which a few on Coulomb's law may be uphill,
_BY_NOW, _HALF = 20, 0.5  # and it ends where as many left more than this share of the natural map,
_WORSE = 10.0  # or after half as many a proximal step raised it by this factor
_FELL = 1e-2  # share of the natural map from which there are convex steps with few, too
_TRIALS = 4  # of Newton on Coulomb's law, each after convex steps
_LAGGED = 2  # convex steps between two trials
_NEAR = 1e-2  # natural map at which the first phase of Coulomb's law ends
_SETTLING = 0.3  # or where two outer steps leave more than this share of it
_LOOSE = 1e-2  # accuracy of the first inner problem
_SHARE = 1e-2  # of the natural map, the accuracy of the next inner problem
_LINEAR = 1e-6, 1e-2  # relative residual of iterative solves, at least and at most
REACHABLE = 1e-10  # natural map that counts as solved, even if a higher accuracy is requested
ROUNDED = 1e-8  # certificate of forces without shift, of which the rest is round-off times μ
_ROUND_OFF = 64.0  # times EPS w f: natural maps that count as solved, where forces are huge
_NOISE = 1e4  # times EPS r w: natural maps which may stall for round-off
_FLOOR = 100.0  # times EPS r w: natural maps that round-off stalls soon, so that r is reduced,
_QUICK = 0.02  # where the last step left at most this share of it: smaller r will do
_PROGRESS = 0.5  # a natural map above this share of the best one has stalled
_STALLS = 3  # stalled outer steps before r is changed
_REDUCTION = 8.0  # of r, where round-off has been reached


def solve_cones(
    problem: NetworkProblem, run: Run, accuracy: float, max_steps: int, newton_steps: int
) -> Run:
    """Solve a step with friction; ``max_steps`` bounds the outer steps."""
    f = problem.starting_forces(run.start)
    with run.iterating(problem.rows, problem.operator.m):
        proximal = Proximal(problem, run.deadline, accuracy, newton_steps)
        f, residuals = proximal.solve(f, max_steps)
    return outcome(problem, f, residuals, accuracy, str(proximal), run, proximal.error)


def outcome(
    problem: NetworkProblem,
    f: FloatArray,
    residuals: list[float],
    accuracy: float,
    how: str,
    run: Run,
    left: float | None = None,
) -> Run:
    """The outcome of forces f (nc, d) after these natural maps; ``left`` is their own, if known."""
    least = min(residuals, default=0.0) if left is None else left
    push = float(np.abs(problem.weight[:, None] * f).max(initial=0.0))
    met = least <= max(accuracy, REACHABLE, _ROUND_OFF * EPS * push)
    run.report(f"{how}, natural map {least:.1e}")
    status = f"stopped at natural map {least:.1e}"
    return run.ended(problem.caused(f), met, len(residuals), residuals, how, status)


class ConeNewton(SemismoothNewton):
    """Compliant contacts P_K(f_k − r g̃), with the shift of Coulomb's law fixed or their own.

    Attributes
    ----------
    best : the point of least imbalance. since : steps taken from it.
    uphill : steps from it with which Coulomb's law ends.
    """

    best: Point

    whole, share = 0.5, 0.1

    def __init__(
        self,
        problem: NetworkProblem,
        tol: float,
        deadline: Deadline,
        f: FloatArray,
        r: FloatArray,
        shift: FloatArray | None,
    ) -> None:
        """Forces f (nc, d), penalties r (nc,); ``shift`` (nc,), or None for Coulomb's law."""
        super().__init__(problem, tol, deadline)
        self.f, self.r, self.root_r, self.shift = f, r[:, None], np.sqrt(r)[:, None], shift
        self.cones, self.weight, self.last = problem.K, self.net.weight, (f, f)
        self.uphill, self.since = 1, 0

    def _aimed(self, g: FloatArray) -> FloatArray:
        """f_k − r g̃ (nc, d)."""
        if g is not self.last[0]:
            rates = self.cones.shifted(g) if self.shift is None else g
            y = self.f - self.r * rates.reshape(self.f.shape)
            if self.shift is not None:
                y[:, 0] -= self.r[:, 0] * self.shift
            self.last = g, y
        return self.last[1]

    def force(self, g: FloatArray) -> FloatArray:
        return self.cones.project(self._aimed(g).ravel())

    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
        return math.sqrt((balance * balance) @ self.weight)

    def direction(self, at: Point) -> FloatArray | None:
        """With a block for each contact, symmetric where the shift is fixed."""
        left, right = self.blocks(at.g)
        reduction = 1.0
        if len(self.history) > 1:
            reduction = min(self.history[-1] / self.history[-2], 1.0)
        tol = loosened(reduction, 0.1 * self.tol / at.error, 0.1, *_LINEAR)
        try:
            return self.net.block_system(left, right).solve(-at.balance, tol)
        except ArithmeticError:
            return None

    def blocks(self, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``left`` and ``right`` (nc, d, d), leftᵀ right = −df/dg; one array if symmetric."""
        root = self.cones.projection_root(self._aimed(g).ravel())
        left = self.root_r[:, :, None] * root
        if self.shift is not None:
            return left, left
        # times I + e_n ∇shift, the derivative of the shifted rates
        return left, left + left[:, :, :1] * self.cones.shift_gradient(g)[:, None, :]

    def run(self, at: Point, limit: int) -> Point:
        """Where it ends; for Coulomb's law, whose imbalance may rise, the best point."""
        self.best = at
        last = super().run(at, limit)
        return last if self.shift is not None else self.best

    def step(self, at: Point, d: FloatArray) -> tuple[float, Point]:
        """By the potential, or for Coulomb's law as far as the imbalance falls, or rises least."""
        return self.backtracked(at, d) if self.shift is None else super().step(at, d)

    def accepted(self, before: Point, at: Point, t: float) -> None:
        self.since += 1
        if at.error < self.best.error:
            self.best, self.since = at, 0

    def stalled(self) -> bool:
        return self.shift is None and self.since >= self.uphill

    def power(self, at: Point, rate: FloatArray) -> Callable[[float], float]:
        y = (self._aimed(at.g) / self.root_r).ravel()
        change = (-self.root_r * rate.reshape(self.f.shape)).ravel()
        return lambda t: self.cones.projected_work(y, change, t)


class CutNewton(ConeNewton):
    """Contacts of Coulomb's law without a shift, f = ``frictional_cut``(f_k − r g).

    P. Alart & A. Curnier, Comput. Methods Appl. Mech. Eng. 92 (1991) 353. No rate is multiplied
    by μ.
    """

    def _aimed(self, g: FloatArray) -> FloatArray:
        if g is not self.last[0]:
            self.last = g, self.f - self.r * g.reshape(self.f.shape)
        return self.last[1]

    def force(self, g: FloatArray) -> FloatArray:
        return self.cones.frictional_cut(self._aimed(g).ravel())

    def blocks(self, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        """√r of each row, and √r times the derivative of the cut."""
        slope = self.cones.cut_derivative(self._aimed(g).ravel())
        root = self.root_r[:, :, None]
        return root * np.broadcast_to(np.eye(slope.shape[1]), slope.shape), root * slope


class Proximal:
    """The proximal steps and their inner problems.

    Attributes
    ----------
    accuracy : of the natural map, at which forces are tested by their certificate.
    lagged : whether Coulomb's shift is that of the last outer step.
    cut : whether the law is solved without a shift.
    error : natural map of the best forces.
    steps, newton_steps, convex_steps : taken so far; the last are inner problems with a lagged
        shift.
    """

    def __init__(
        self, problem: NetworkProblem, deadline: Deadline, accuracy: float, most: int = _NEWTON
    ) -> None:
        """``most`` Newton steps in all; it ends, too, where one proximal step takes a third.

        With few of them it ends where Newton's method on the law does, unless natural maps have
        fallen: then there are convex steps.
        """
        self.problem, self.net, self.w = problem, problem.operator, problem.weight
        self.coulomb, self.deadline, self.accuracy = problem.coulomb, deadline, accuracy
        self.lagged, self.steps, self.newton_steps, self.convex_steps = False, 0, 0, 0
        self.cut, self.error, self.most, self.limit = False, np.inf, most, most
        self.few, self.given, self.least = most < _FEW, 0.0, np.inf

    def __str__(self) -> str:
        how = f"{self.steps:,} proximal steps, {self.newton_steps:,} Newton steps"
        return how + (f", {self.convex_steps} convex steps" if self.convex_steps else "")

    def solve(self, f: FloatArray, max_steps: int) -> tuple[FloatArray, list[float]]:
        """The best forces, and the natural map after each proximal step."""
        steep, history = self.problem.steep, list[float]()
        enough = ROUNDED if steep else max(self.accuracy, REACHABLE)
        cut, first = [(f, False, True)] if steep else [], (f, self.coulomb, False)
        again = [(None, False, False), (f, False, False)] if self.coulomb else []
        best, worst, last = f, np.inf, f
        self.given = self.least = self.natural(f)
        for start, self.lagged, self.cut in (*cut, first, *again):
            if history and (worst <= enough or len(history) >= max_steps or self.over):
                break
            start = last if start is None else start  # from where the phase before ended
            last, left, more = self.phase(start, max_steps - len(history))
            if left < worst or not history:
                worst, best = left, last
            history += more
        self.steps, self.error = len(history), self.natural(best)  # others may have had a smaller
        return best, history

    @property
    def over(self) -> bool:
        """Whether its Newton steps or its time are spent."""
        return self.newton_steps >= self.limit or self.deadline.passed

    def phase(
        self, f: FloatArray, max_steps: int, short: bool = False
    ) -> tuple[FloatArray, float, list[float]]:
        """The best forces from f (nc, d), f among them, their worst residual, the natural maps.

        The first steps may be ``short`` even from near forces, as at the end of a path.
        """
        net, problem = self.net, self.problem
        x = net.motion(net.load(f.ravel()))
        free = problem.p / np.repeat(self.w, problem.d)
        impulse = float(np.sqrt(np.sum(net.load(free) ** 2 * net.weight))) or 1.0
        best, error, enough = f, self.natural(f), max(self.accuracy, REACHABLE)
        least_worst = problem.worst(f, enough) if error <= self.accuracy else np.inf
        if least_worst <= enough:
            return f, least_worst, [error]
        least = error if np.isfinite(error) else np.inf  # what it is given is never made worse
        penalty, due = Penalty() if short else begun(error), self.accuracy
        inner, history = min(_LOOSE, _SHARE * error), list[float]()
        for _ in range(max_steps):
            tol = impulse * max(inner, EPS * penalty.value)
            x, f = self.step(x, f, penalty.value / self.w, tol)
            error = self.natural(f)
            history.append(error)
            worst = problem.worst(f, enough) if error <= due else np.inf
            if worst < least_worst or (error < least and least_worst == np.inf):
                least, least_worst, best = error, worst, f
            self.least = min(error, self.least)
            if self.few and self._in_vain(least, error, penalty.value):
                self.limit = 0
            if self.over or worst <= enough:
                break
            due = min(due, error * max(_SHARPER, enough / worst)) if error <= due else due
            unsettled = len(history) > 4 and history[-1] > _SETTLING * history[-3]
            if self.lagged and (error <= _NEAR or unsettled):
                break
            if not penalty.after(error):
                break
            inner = max(min(0.1 * inner, _SHARE * error), EPS)
        if least_worst == np.inf:
            least_worst = problem.worst(best, enough)
        elif history and error < least:  # it has no certificate yet
            worst = problem.worst(f, enough)
            best, least_worst = (f, worst) if worst < least_worst else (best, least_worst)
        return best, least_worst, history

    def _in_vain(self, least: float, error: float, penalty: float) -> bool:
        """Whether natural maps so far, the last one ``error``, do not promise a solution."""
        if 2 * self.newton_steps < _BY_NOW:
            return False
        slow = self.newton_steps >= _BY_NOW and least > _HALF * self.given
        return slow or error > max(_WORSE * least, _NOISE * EPS * penalty)

    def rates(self, x: FloatArray) -> FloatArray:
        """Rates (nc, d) of a motion."""
        return self.problem.table(self.net.gap(x) + self.problem.p)

    def natural(self, f: FloatArray) -> float:
        """The largest natural map of forces (nc, d)."""
        return self.problem.natural_map(f, self.rates(self.net.motion(self.net.load(f.ravel()))))

    def step(
        self, x: FloatArray, f: FloatArray, r: FloatArray, tol: float
    ) -> tuple[FloatArray, FloatArray]:
        """x and f (nc, d) after the inner problem from f, with penalties r (nc,)."""
        shift = None if self.coulomb and not self.lagged else self.problem.shift(self.rates(x))
        kind = CutNewton if self.cut else ConeNewton
        share = self.most if self.few else self.most // _HOPELESS
        self.limit = min(self.most, self.newton_steps + 1 + share)
        newton = kind(self.problem, tol, self.deadline, f, r, None if self.cut else shift)
        newton.uphill = _UPHILL if self.few else 1
        x, met = self._inner(x, newton)
        for trial in range(1, _TRIALS * (_LAGGED + 1)):  # convex steps between two trials
            if self.cut or shift is not None or met or self.over:
                break
            if self.few and self.least > _FELL * self.given:
                self.limit = 0
                break
            convex = trial % (_LAGGED + 1) > 0
            lagged = self.problem.shift(self.rates(x)) if convex else None
            x, met = self._inner(x, ConeNewton(self.problem, tol, self.deadline, f, r, lagged))
            met, self.convex_steps = met and not convex, self.convex_steps + convex
        g = self.net.gap(x) + self.problem.p  # computed again: r magnifies its round-off
        return x, self.problem.table(newton.force(g))

    def _inner(self, x: FloatArray, newton: ConeNewton) -> tuple[FloatArray, bool]:
        """The motion where Newton's method ends, and whether it has converged."""
        most = _SOON if self.few else _INNER
        at = newton.run(newton.at(x), min(most, self.limit - self.newton_steps))
        self.newton_steps += newton.steps
        return at.w, at.error <= newton.tol


@dataclass
class Penalty:
    """r w of the proximal steps: it grows, and is reduced where round-off has been reached.

    If that does not help, it grows further, and is reduced once more at the end.
    """

    value: float = _FIRST
    peak: float = _FIRST
    reducing: bool = False
    stalls: int = 0
    patience: int = 1
    best: float = np.inf
    last: float = np.inf

    def after(self, error: float) -> bool:
        """The next value, after a natural map; whether to go on."""
        stalled = error > _PROGRESS * self.best
        self.stalls = self.stalls + 1 if stalled else 0
        noisy = error <= _NOISE * EPS * self.value
        enough = error <= _FLOOR * EPS * self.value and error <= _QUICK * self.last
        self.best, self.last = min(self.best, error), error
        once_more = self.patience > 1
        if self.reducing:
            in_vain = self.value == 1.0 or (self.stalls >= _STALLS and not once_more)
            if stalled and in_vain:
                if once_more:
                    return False
                self.reducing, self.stalls, self.patience = False, 0, _STALLS
                self.value = min(_GROWTH * self.peak, _LARGEST)
                return True
        elif not enough and not (
            self.stalls >= self.patience and (noisy or self.value == _LARGEST)
        ):
            if not noisy or once_more:
                self.value = min(_GROWTH * self.value, _LARGEST)
            return True
        self.reducing, self.peak = True, max(self.peak, self.value)
        if stalled or enough:
            self.value = max(self.value / _REDUCTION, 1.0)
        return True


def begun(error: float) -> Penalty:
    """The first penalty from forces with this natural map: steps from near ones may be long."""
    first = float(np.clip(_LONG / max(error, EPS), _FIRST, _FIRST_MOST))
    return Penalty(first, first)
