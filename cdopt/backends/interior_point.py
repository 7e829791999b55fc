"""A proximal interior point method for half-lines and second-order cones.

The conditions of optimality (``network_problem``) with g̃ = s inside the cones and f ∘ s = μ e
(f s = μ for half-lines) are followed to μ = 0 by Newton's method, predictor and corrector
(Mehrotra, SIAM J. Optim. 2, 1992) and, for half-lines, further correctors (Gondzio, Comput. Optim.
Appl. 6, 1996). A proximal term in f, centred on the current forces (Schwan et al., *PIQP*, IEEE CDC
2023), bounds the stiffness D of every system S + GᵀDG and
leaves the solution as it is, so that the iteration ends at round-off also where forces are not
unique. Linear systems are those of Newton's method: ten to thirty solved every pyramid tried, at
rest, dropped and with random gaps; early ones, with D of moderate range, by conjugate gradients.

For Coulomb's law the shift μ‖g_T‖ in g̃ is that of the iterate and its derivative is in the system,
which is then not symmetric (V. Acary, P. Armand, H. M. Nguyen, M. Shpakovych, *Second-order cone
programming for frictional contact mechanics using interior point algorithm*, Optim. Methods Softw.
39, 2024). Products of cones are kept central: where a step would bring the lesser eigenvalue of
f ∘ s too far below the mean, it is shortened, or aims higher. Far from the path pairs of forces and
rates are not parallel, and the natural map is the root of their product.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.cone_algebra import ConeScaling, HalfLineScaling, to_zero
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.network import System
from cdopt.backends.linalg.tied_blocks import TiedSystem
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point
from cdopt.problem import FrictionCones
from cdopt.problem.contact_law import HOOKE

LOG = logging.getLogger("cdopt.backends.newton")

_PROXIMAL_LEAST, _PROXIMAL_MOST = 1e-9, 1e-6
_FRACTION = 0.995  # of the way to the boundary
_SHORT = 0.5  # length of a step of cones below which it aims higher:
_AGAIN, _BACK = 0.1, 3.0  # at least at this share of the mean product, growing by this factor
_FREE = 0.3  # length of a step after which the derivative of Coulomb's shift is of use
_CORRECTORS = 2  # with factors at hand; to iterate for them costs more than they save
_GROWTH = 5.0  # of a force in one step at most, below p = 2, where c′(f) vanishes with f
_PREDICTOR = 1e-3  # accuracy of the predictor, which only sets how far to aim
_PATIENT, _PATIENT_CONES = 40, 12  # steps before it may have stalled, at least,
_PER_DECADE = 8  # and for cones for each decade that mobilities range over
_TINY = float(np.finfo(float).tiny)
_NEAR = 1e-2  # least force and gap, in scaled units, of a warm start
_PUSH = 10.0  # scaled forces of cones at the start, over the root of the range of mobilities
_FAR = 1e8  # scaled forces from which a warm start knows nothing of the step

Start = tuple[FloatArray, FloatArray, FloatArray]  # w, and f and s inside the cones


class Units:
    """Forces a f̂ and rates ĝ/a, of f̂ and ĝ in symmetric cones (``cone_algebra``).

    ``load`` is what forces f̂ (rows,) do, ``rate`` the change of ĝ (rows,).
    """

    def __init__(self, problem: NetworkProblem) -> None:
        net = problem.operator
        self.problem, self.net, self.cones = problem, net, problem.has_cones
        self.a: FloatArray | float = 1.0
        self.load: Callable[[FloatArray], FloatArray] = net.load
        self.rate: Callable[[FloatArray], FloatArray] = net.gap
        self.lines = problem.K.bilateral if problem.K.bilateral.any() else problem.lines
        if self.cones:
            a = problem.K.stretch
            if problem.K.kinds.keys() == {FrictionCones.name}:  # times 1/μ
                a = np.repeat((problem.mu > 0.0).astype(np.float64), problem.d)
                a[:: problem.d] = 1.0 / np.where(problem.mu > 0.0, problem.mu, 1.0)
            self.a = a
            self.load = lambda f: net.load(a * f)
            self.rate = lambda dw: np.asarray(a * net.gap(dw))

    def scaling(self, f: FloatArray, s: FloatArray) -> ConeScaling | HalfLineScaling:
        """The scaling at f̂ and ŝ (rows,)."""
        if self.cones:
            return ConeScaling(f, s, self.problem.d, self.lines)
        return HalfLineScaling(f, s, self.lines)

    def without_lines(self, x: FloatArray) -> FloatArray:
        """The same (rows,), zero on the rows of lines."""
        if self.lines is None:
            return x
        return np.where(self.lines.repeat(self.problem.d), 0.0, x)

    def law(self, gap: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """g̃ of gaps or rates (rows,), in the cones' units, and the derivative of g̃ by g.

        The derivative is (nc, d, d) for Coulomb's law, whose shift depends on g; else None.
        """
        if not (self.cones and self.problem.coulomb):
            return self.a * gap if self.cones else gap, None
        K, d = self.problem.K, self.problem.d
        turn = np.tile(np.eye(d), (self.problem.nc, 1, 1))
        turn[:, 0] += K.shift_gradient(gap)
        return np.asarray(self.a * K.shifted(gap)), turn

    def inside(self, x: FloatArray) -> FloatArray:
        """The same, moved inside the cones where it is not."""
        if not self.cones:
            return np.maximum(x, self.problem.floor + _NEAR)
        table = self.problem.table(x.copy())
        table[:, 0] = np.maximum(table[:, 0], np.linalg.norm(table[:, 1:], axis=1) + _NEAR)
        return table.ravel()


def solve(
    problem: NetworkProblem, start: Start, tol: float, limit: int, deadline: Deadline = NEVER
) -> Point:
    """Follow the central path from ``start`` until the residual is within ``tol``."""
    (w, f, s), net, history = start, problem.operator, [np.inf]
    direct = problem.has_cones and net.quickly_factorised
    net.methods.append("interior point")
    if not f.size and not problem.static:  # the free motion
        w = net.motion(-problem.load)
    units = Units(problem)
    decades = int(_PER_DECADE * np.log10(mobility_range(problem)))
    patient = max(_PATIENT_CONES, decades) if units.cones else _PATIENT
    best = Point(w, units.a * f, np.inf, 0, history, False)
    products, length = list[float](), 1.0
    for step in range(limit + 1):
        c, slope = problem.compliant_gap(f)
        gap, force = net.gap(w) + problem.p + c, units.a * f if units.cones else f
        balance, at = problem.balance(w, force), units.scaling(f, s)
        mu = float(f @ s) / at.degree
        size = problem.residual(problem.error(balance), gap, force)
        history.append(size)
        LOG.info("interior point %d: residual %.2e, mu %.1e, direct %s", step, size, mu, direct)
        if size < best.error:
            best = Point(w, force, size, step, history, size <= tol)
        products.append(mu)
        stalled = len(history) > patient and min(history[-8:]) >= 0.5 * min(history[:-8])
        if units.cones:  # whose residual falls late, unless the end is near
            stalled = stalled and min(products[-8:]) >= 0.5 * min(products[:-8])
        if best.converged or not np.isfinite(size) or stalled or deadline.passed or not f.size:
            break
        try:
            rates, turn = units.law(gap)
            turn = turn if length > _FREE else None  # else with the shift of the iterate
            linear = _Step(units, (f, s), at, slope, (balance, rates - s), turn, mu, direct)
            dw, df, ds, length = linear.direction()
        except ArithmeticError as error:
            LOG.info("interior point: %s", error)
            break
        direct = linear.direct
        w, f, s = w + length * dw, f + length * df, units.without_lines(s + length * ds)
    best.steps = step
    return _tidied(problem, best, tol)


def _tidied(problem: NetworkProblem, run: Point, tol: float) -> Point:
    """Forces of open contacts set to zero: at a wide gap even the residual's do work."""
    net = problem.operator
    if problem.static or not np.isfinite(run.error):
        return run
    c, _ = problem.compliant_gap(run.f)
    gap = net.gap(run.w) + problem.p + c
    f = problem.acting(run.f, gap)
    try:
        w = net.motion(net.load(f) - problem.load)
    except ArithmeticError:
        return run
    gap = net.gap(w) + problem.p + np.where(f != 0.0, c, 0.0)
    size = problem.residual(problem.error(problem.balance(w, f)), gap, f)
    if size > max(tol, run.error):
        return run
    return Point(w, f, size, run.steps, [*run.history, size], size <= tol)


def mobility_range(problem: NetworkProblem) -> float:
    """The largest mobility of a contact over the smallest of those that move anything."""
    w = problem.weight[(problem.weight > 0.0) & np.isfinite(problem.weight)]
    with np.errstate(over="ignore"):
        ratio = w.max() / w.min() if w.size else 1.0
    return float(min(ratio, np.finfo(float).max))


def far_start(problem: NetworkProblem, force: float = 0.0, gap: float = 0.0) -> Start:
    """w, f and s far from the boundary, of the sizes expected, at least the problem's units.

    Forces of cones are larger, the more the mobilities of contacts differ: a light body between
    heavy ones transmits forces that are large in its own units.
    """
    units = Units(problem)
    reach = max(gap, float(np.abs(problem.p).max(initial=0.0))) or 1.0
    ones = np.ones(problem.rows)
    if units.cones:
        problem.table(ones)[:, 1:] = 0.0
        force = max(force, _PUSH * float(np.sqrt(mobility_range(problem))))
    ones = units.without_lines(ones)
    return np.zeros(problem.operator.m), max(force, 1.0) * ones, reach * ones


def start_from(problem: NetworkProblem, forces: FloatArray | None) -> Start:
    """w, f and s near the forces of a similar step; far from the boundary without useful ones."""
    if forces is None or not np.abs(forces).max(initial=0.0) < _FAR:
        return far_start(problem)
    units, net, forces = Units(problem), problem.operator, forces.ravel()
    w = net.motion(net.load(forces) - problem.load)
    gap, _ = units.law(net.gap(w) + problem.p)
    pushed = forces if not units.cones else forces / np.where(units.a, units.a, np.inf)
    return w, units.inside(pushed), units.without_lines(units.inside(gap))


class _Step:
    """One iterate and its linear system."""

    def __init__(
        self,
        units: Units,
        pair: tuple[FloatArray, FloatArray],
        at: ConeScaling | HalfLineScaling,
        slope: FloatArray,
        left: tuple[FloatArray, FloatArray],
        turn: FloatArray | None,
        mu: float,
        direct: bool,
    ) -> None:
        problem = units.problem
        self.units, self.net, self.at, self.mu, self.direct = units, units.net, at, mu, direct
        (self.f, self.s), (self.balance, self.apart), self.turn = pair, left, turn
        self.near: tuple[FloatArray, FloatArray] | None = None
        self.hardening = problem.compliance is not None and problem.compliance.power < HOOKE
        self.give = slope + min(max(1e-2 * mu, _PROXIMAL_LEAST), _PROXIMAL_MOST)
        at.soften(self.give)
        self.stiff, self.shift = at.stiff, 0.0
        if problem.static and isinstance(at, HalfLineScaling):
            self.shift = 1e-10 * float(at.D.mean())
        self.tol = min(max(1e-2 * mu, 1e-9), 1e-3)
        self.system = self._system()

    def _system(self) -> System | TiedSystem:
        if isinstance(self.at, ConeScaling):
            root = self.at.root()
            left = right = root * np.reshape(self.units.a, (len(root), 1, -1))
            if self.turn is not None:
                right = left @ self.turn
            return self.net.block_system(left, right, self.direct)
        net = self.units.problem.net
        make = net.factored if self.direct else net.system
        return make(self.at.D, self.shift)

    def direction(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """dw, df, ds and how far to go: predictor, corrector, further correctors."""
        at, f, s, mu = self.at, self.f, self.s, self.mu
        dw, df, ds = self._newton(-at.products, _PREDICTOR)
        length = self._length(df, ds)
        ahead = float((f + length * df) @ (s + length * ds)) / at.degree
        aim = mu * (ahead / mu) ** 3 if mu > 0.0 else 0.0  # of lines alone there is no path
        second = at.second(df, ds)
        target = at.identity(aim) - at.products - second
        dw, df, ds = self._newton(target, self.tol)
        length = self._inside(df, ds)
        while length < _SHORT and self.units.cones and aim < mu:  # far from the path: back to it
            aim, second = min(max(_BACK * aim, _AGAIN * mu), mu), 0.0 * second
            target = at.identity(aim) - at.products - second
            other = self._newton(target, self.tol)
            reach = self._inside(*other[1:])
            if reach > length:
                (dw, df, ds), length = other, reach
        if length == 0.0:
            raise ArithmeticError("no step stays inside the cones")
        for _ in range(_CORRECTORS if self.direct and not self.units.cones else 0):
            trial = min(1.0, 1.3 * length + 0.1)
            products = (f + trial * df) * (s + trial * ds)
            off = np.maximum(np.clip(products, 0.1 * aim, 10.0 * aim) - products, -10.0 * aim)
            other = self._newton(target + off, self.tol)
            reach = self._inside(*other[1:])
            if reach < length + 0.01:
                break
            target, (dw, df, ds), length = target + off, other, reach
        return dw, df, ds, length

    def _newton(self, target: FloatArray, tol: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """dw, df, ds towards products f ∘ s changed by ``target`` and both residuals zero."""
        q = self.stiff(self.at.aimed(target) - self.apart)
        dw = self._solved(q, tol)
        rate = self._rate(dw)
        self.near = dw, rate
        df = q - self.stiff(rate)
        return dw, df, rate + self.apart + self.give * df

    def _rate(self, dw: FloatArray) -> FloatArray:
        """The change of g̃ (rows,), to first order."""
        if self.turn is None:
            return self.units.rate(dw)
        rate = self.net.gap(dw).reshape(len(self.turn), -1, 1)
        return np.asarray(self.units.a * (self.turn @ rate).ravel())

    def _solved(self, q: FloatArray, tol: float) -> FloatArray:
        """The motion under the impulses q, sought from the last one found."""
        rhs = self.units.load(q) - self.balance
        if self.near is None:
            return self._from_zero(rhs, tol)
        dw, rate = self.near
        left = rhs - self.units.load(self.stiff(rate))
        left -= self.net.inertia(dw) + self.shift * dw
        part = float(np.linalg.norm(left)) / max(float(np.linalg.norm(rhs)), _TINY)
        if part < tol:
            return dw
        if part < 1.0:
            return dw + self._from_zero(left, tol / part)
        return self._from_zero(rhs, tol)

    def _from_zero(self, rhs: FloatArray, tol: float) -> FloatArray:
        x = self.system.solve(rhs, tol, self.net.patience)
        if self.system.gave_up and not self.direct and self.net.factorisable:
            self.direct = True
            if not self.units.cones:  # whose system has its factors already
                self.system = self._system()
                x = self.system.solve(rhs, tol)
        return x

    def _inside(self, df: FloatArray, ds: FloatArray) -> float:
        """How far to go along df and ds."""
        return self.at.central(df, ds, min(1.0, _FRACTION * self._length(df, ds)))

    def _length(self, df: FloatArray, ds: FloatArray) -> float:
        reach = min(1.0, self.at.length(df, ds))
        return min(reach, _GROWTH * to_zero(self.f, -df)) if self.hardening else reach
