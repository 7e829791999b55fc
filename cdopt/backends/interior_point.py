"""A proximal interior point method for steps and trusses, on the same linear systems as Newton's.

The conditions of optimality (``network_problem``) with g = s > 0 and f s = μ are followed to μ = 0
by Newton's method, predictor and corrector (Mehrotra, SIAM J. Optim. 2, 1992) and further
correctors (Gondzio, Comput. Optim. Appl. 6, 1996). A proximal term in f, centred on the current
forces (Schwan et al., *PIQP*, IEEE CDC 2023), bounds the stiffness D of every system S + BᵀDB and
leaves the solution as it is, so that the iteration ends at round-off also where forces are not
unique. Ten to thirty systems solved every pyramid tried, at rest, dropped and with random gaps;
early ones, with D of moderate range, by conjugate gradients.
"""

from __future__ import annotations

import logging

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.network import System
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.problem.contact_law import HOOKE

LOG = logging.getLogger("cdopt.backends.newton")

_PROXIMAL_LEAST, _PROXIMAL_MOST = 1e-9, 1e-6
_FRACTION = 0.995  # of the way to the boundary
_CORRECTORS = 2  # with factors at hand; to iterate for them costs more than they save
_GROWTH = 5.0  # of a force in one step at most, below p = 2, where c′(f) vanishes with f
_PREDICTOR = 1e-3  # accuracy of the predictor, which only sets how far to aim
_TINY = float(np.finfo(float).tiny)
_NEAR = 1e-2  # least force and gap, in scaled units, of a warm start
_FAR = 1e8  # scaled forces from which a warm start knows nothing of the step

Start = tuple[FloatArray, FloatArray, FloatArray]  # w, f > 0, s > 0


def solve(
    problem: NetworkProblem, start: Start, tol: float, limit: int, deadline: Deadline = NEVER
) -> IterationResult:
    """Follow the central path from ``start`` until the residual is within ``tol``."""
    (w, f, s), net, direct, history = start, problem.net, False, [np.inf]
    net.statistics.methods.append("interior point")
    if not f.size and net.mass is not None:  # the free motion
        w = net.motion(-problem.load)
    best = IterationResult(w, f, np.inf, 0, history, False)
    for step in range(limit + 1):
        c, slope = problem.compliant_gap(f)
        gap = net.gap(w) + problem.p + c
        balance = problem.balance(w, f)
        size, mu = problem.residual(problem.error(balance), gap, f), float(f @ s) / max(f.size, 1)
        history.append(size)
        LOG.info("interior point %d: residual %.2e, mu %.1e, direct %s", step, size, mu, direct)
        if size < best.residual:
            best = IterationResult(w, f, size, step, history, size <= tol)
        stalled = len(history) > 40 and min(history[-8:]) >= 0.5 * min(history[:-8])
        if best.converged or not np.isfinite(size) or stalled or deadline.passed or not f.size:
            break
        try:
            linear = _Step(problem, f, s, slope, balance, gap - s, mu, direct)
            dw, df, ds, length = linear.direction()
        except ArithmeticError as error:
            LOG.info("interior point: %s", error)
            break
        direct = linear.direct
        w, f, s = w + length * dw, f + length * df, s + length * ds
    best.steps = step
    return _tidied(problem, best, tol)


def _tidied(problem: NetworkProblem, run: IterationResult, tol: float) -> IterationResult:
    """Forces of open contacts, which are of the size of the residual, set to zero.

    Beside a wide gap even such a force does work. The motion is that of the forces left.
    """
    if problem.net.mass is None or not np.isfinite(run.residual):
        return run
    c, _ = problem.compliant_gap(run.f)
    gap = problem.net.gap(run.w) + problem.p + c
    f = np.where(problem.mobility * run.f < gap, 0.0, run.f)
    try:
        w = problem.net.motion(problem.net.load(f) - problem.load)
    except ArithmeticError:
        return run
    gap = problem.net.gap(w) + problem.p + np.where(f > 0.0, c, 0.0)
    size = problem.residual(problem.error(problem.balance(w, f)), gap, f)
    if size > max(tol, run.residual):
        return run
    return IterationResult(w, f, size, run.steps, [*run.history, size], size <= tol)


def far_start(problem: NetworkProblem, force: float = 0.0, gap: float = 0.0) -> Start:
    """w, f and s far from the boundary, of the sizes that forces and gaps are expected to have.

    No smaller than the units of the problem: from too small a force the path is not found.
    """
    nc = problem.p.size
    reach = max(gap, float(np.abs(problem.p).max(initial=0.0))) or 1.0
    return np.zeros(problem.net.m), np.full(nc, max(force, 1.0)), np.full(nc, reach)


def start_from(problem: NetworkProblem, forces: FloatArray | None) -> Start:
    """w, f and s near the forces of a similar step, such as the step before.

    Far from the boundary without forces, or where they are too large to be of use.
    """
    if forces is None or not forces.max(initial=0.0) < _FAR:
        return far_start(problem)
    w = problem.net.motion(problem.net.load(forces) - problem.load)
    gap = problem.net.gap(w) + problem.p
    return w, np.maximum(forces, _NEAR), np.maximum(gap, _NEAR)


class _Step:
    """One iterate and its linear system."""

    def __init__(
        self,
        problem: NetworkProblem,
        f: FloatArray,
        s: FloatArray,
        slope: FloatArray,
        balance: FloatArray,
        apart: FloatArray,
        mu: float,
        direct: bool,
    ) -> None:
        self.net, self.f, self.s, self.mu, self.direct = problem.net, f, s, mu, direct
        self.balance, self.apart = balance, apart
        self.near: tuple[FloatArray, FloatArray] | None = None
        self.hardening = problem.compliance is not None and problem.compliance.power < HOOKE
        self.give = slope + min(max(1e-2 * mu, _PROXIMAL_LEAST), _PROXIMAL_MOST)
        self.weight = 1.0 / (s + f * self.give)
        self.D = f * self.weight
        self.shift = 0.0 if problem.net.mass is not None else 1e-10 * float(self.D.mean())
        self.tol = min(max(1e-2 * mu, 1e-9), 1e-3)
        self.system: System = (
            self.net.factored(self.D, self.shift) if direct else self.net.system(self.D, self.shift)
        )

    def direction(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """dw, df, ds and how far to go: predictor, corrector, further correctors."""
        f, s, mu = self.f, self.s, self.mu
        dw, df, ds = self._newton(-f * s, _PREDICTOR)
        length = self._length(df, ds)
        ahead = float((f + length * df) @ (s + length * ds)) / max(f.size, 1)
        aim = mu * (ahead / mu) ** 3
        target = aim - f * s - df * ds
        dw, df, ds = self._newton(target, self.tol)
        length = min(1.0, _FRACTION * self._length(df, ds))
        for _ in range(_CORRECTORS if self.direct else 0):
            trial = min(1.0, 1.3 * length + 0.1)
            products = (f + trial * df) * (s + trial * ds)
            off = np.maximum(np.clip(products, 0.1 * aim, 10.0 * aim) - products, -10.0 * aim)
            other = self._newton(target + off, self.tol)
            reach = min(1.0, _FRACTION * self._length(*other[1:]))
            if reach < length + 0.01:
                break
            target, (dw, df, ds), length = target + off, other, reach
        return dw, df, ds, length

    def _newton(self, target: FloatArray, tol: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """dw, df, ds towards products f s changed by ``target`` and both residuals zero."""
        q = (target - self.f * self.apart) * self.weight
        dw = self._solved(q, tol)
        rate = self.net.gap(dw)
        self.near = dw, rate
        df = q - self.D * rate
        return dw, df, rate + self.apart + self.give * df

    def _solved(self, q: FloatArray, tol: float) -> FloatArray:
        """The motion under the impulses q, sought from the last one found."""
        rhs = self.net.load(q) - self.balance
        if self.near is None:
            return self._from_zero(rhs, tol)
        dw, rate = self.near
        left = rhs - self.net.load(self.D * rate) - self.net.inertia(dw) - self.shift * dw
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
            self.system = self.net.factored(self.D, self.shift)
            x = self.system.solve(rhs, tol)
        return x

    def _length(self, df: FloatArray, ds: FloatArray) -> float:
        reach = min(1.0, _to_boundary(self.f, df), _to_boundary(self.s, ds))
        return min(reach, _GROWTH * _to_boundary(self.f, -df)) if self.hardening else reach


def _to_boundary(x: FloatArray, dx: FloatArray) -> float:
    """How far x > 0 goes along dx before it meets zero."""
    steepest = float((dx / x).min(initial=0.0))
    return -1.0 / steepest if steepest < 0.0 else np.inf
