"""A proximal interior point method for steps and trusses, on the same linear systems.

The conditions of optimality of a rigid step, an elastic step and a truss are one set::

    F̃ + S w − Bᵀ f = 0,    g = B w + p + c(f),    f ≥ 0,    g ≥ 0,    fᵀ g = 0

with the contacts' compliance c(f) = (f/k)^{1/(p−1)}, zero for rigid ones. With g = s > 0 and
f s = μ they are followed to μ = 0 by Newton's method, predictor and corrector (Mehrotra, SIAM J.
Optim. 2, 1992) and further correctors (Gondzio, Comput. Optim. Appl. 6, 1996). A proximal term in
f, which each step draws towards where it stands (Schwan et al., *PIQP*, IEEE CDC 2023), bounds
the stiffness D of every system S + BᵀDB and leaves the solution as it is, so that the iteration
ends at round-off also where forces are not unique. Ten to thirty systems solved every pyramid
tried, at rest, dropped and with random gaps; early ones, with D of moderate range, by conjugate
gradients.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg import Network
from cdopt.backends.linalg.base import System
from cdopt.backends.newton_rigid import RigidRun
from cdopt.problem.contact_law import HOOKE, PowerLaw

LOG = logging.getLogger("cdopt.backends.newton")

_PROXIMAL_LEAST, _PROXIMAL_MOST = 1e-9, 1e-6
_FRACTION = 0.995  # of the way to the boundary
_CORRECTORS = 2  # with factors at hand; to iterate for them costs more than they save
_GROWTH = 5.0  # of a force in one step at most, below p = 2, where c′(f) vanishes with f
_FORESEEN = 1e-3  # accuracy of the predictor, which only tells how far to aim
_TINY = float(np.finfo(float).tiny)
_NEAR = 1e-2  # least force and gap, in scaled units, of a warm start


@dataclass(frozen=True)
class Conditions:
    """The conditions of optimality, in scaled units.

    Attributes
    ----------
    load : F̃ (m,).
    p : (nc,) gaps, or gap rates, where nothing moves.
    mobility : (nc,) weight of a force beside a gap in the natural residual.
    law : of the contacts; None for rigid ones.
    """

    net: Network
    load: FloatArray
    p: FloatArray
    mobility: FloatArray
    law: PowerLaw | None = None

    def compliance(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """c(f) and c′(f) (nc,)."""
        if self.law is None:
            return np.zeros_like(f), np.zeros_like(f)
        c = self.law.overlap(f)
        return c, c / ((self.law.power - 1.0) * f)

    def residual(self, balance: FloatArray, gap: FloatArray, f: FloatArray) -> float:
        """Largest of the balance's error and the natural residual |min(N_ii f_i, g_i)|."""
        natural = np.abs(np.minimum(self.mobility * f, gap)).max(initial=0.0)
        error = np.abs(balance) / self.net.mass_diagonal
        return float(max(natural, error.max(initial=0.0)))


def solve(
    posed: Conditions, w: FloatArray, f: FloatArray, s: FloatArray, tol: float, limit: int,
    deadline: Deadline = NEVER,
) -> RigidRun:  # fmt: skip
    """Follow the central path from w, f > 0, s > 0 until the residual is within ``tol``."""
    posed.net.tally.ways.append("interior point")
    if posed.p.size == 0:
        return _without_contacts(posed, tol)
    net, direct, history = posed.net, False, [np.inf]
    best = RigidRun(w, f, np.inf, 0, history, False)
    for step in range(limit + 1):
        c, slope = posed.compliance(f)
        gap = net.gap(w) + posed.p + c
        balance = posed.load + net.inertia(w) - net.load(f)
        size, mu = posed.residual(balance, gap, f), float(f @ s) / max(f.size, 1)
        history.append(size)
        LOG.info("interior point %d: residual %.2e, mu %.1e, direct %s", step, size, mu, direct)
        if size < best.residual:
            best = RigidRun(w, f, size, step, history, size <= tol)
        if best.converged or not np.isfinite(size) or _stalled(history) or deadline.passed:
            break
        try:
            state = _State(posed, w, f, s, slope, balance, gap - s, mu, direct)
            dw, df, ds, length = state.direction()
        except ArithmeticError as error:
            LOG.info("interior point: %s", error)
            break
        direct = state.direct
        w, f, s = w + length * dw, f + length * df, s + length * ds
    best.steps = step
    return _tidied(posed, best, tol)


def _without_contacts(posed: Conditions, tol: float) -> RigidRun:
    """The free motion, if there is inertia to balance the load."""
    w, f = np.zeros(posed.net.m), np.zeros(0)
    if posed.net.mass is not None:
        w = posed.net.motion(-posed.load)
    size = posed.residual(posed.load + posed.net.inertia(w), f, f)
    return RigidRun(w, f, size, 0, [size], size <= tol)


def _tidied(posed: Conditions, run: RigidRun, tol: float) -> RigidRun:
    """Forces of open contacts, which are of the size of the residual, set to zero.

    Beside a wide gap even such a force does work. The motion is that of the forces left.
    """
    if posed.net.mass is None or not np.isfinite(run.residual):
        return run
    c, _ = posed.compliance(run.f)
    gap = posed.net.gap(run.w) + posed.p + c
    f = np.where(posed.mobility * run.f < gap, 0.0, run.f)
    try:
        w = posed.net.motion(posed.net.load(f) - posed.load)
    except ArithmeticError:
        return run
    gap = posed.net.gap(w) + posed.p + np.where(f > 0.0, c, 0.0)
    size = posed.residual(posed.load + posed.net.inertia(w) - posed.net.load(f), gap, f)
    if size > max(tol, run.residual):
        return run
    return RigidRun(w, f, size, run.steps, [*run.history, size], size <= tol)


def begun(
    posed: Conditions, force: float = 0.0, gap: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """w, f and s far from the boundary, of the sizes that forces and gaps are expected to have.

    No smaller than the units of the problem: from too small a force the path is not found.
    """
    nc = posed.p.size
    reach = max(gap, float(np.abs(posed.p).max(initial=0.0))) or 1.0
    return np.zeros(posed.net.m), np.full(nc, max(force, 1.0)), np.full(nc, reach)


def begun_near(posed: Conditions, forces: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """w, f and s near forces that are nearly those of a step, such as those of the step before."""
    w = posed.net.motion(posed.net.load(forces) - posed.load)
    gap = posed.net.gap(w) + posed.p
    return w, np.maximum(forces, _NEAR), np.maximum(gap, _NEAR)


def _stalled(history: list[float]) -> bool:
    return len(history) > 40 and min(history[-8:]) >= 0.5 * min(history[:-8])


class _State:
    """One iterate and its linear system."""

    def __init__(
        self, posed: Conditions, w: FloatArray, f: FloatArray, s: FloatArray, slope: FloatArray,
        balance: FloatArray, apart: FloatArray, mu: float, direct: bool,
    ) -> None:  # fmt: skip
        self.net, self.f, self.s, self.mu, self.direct = posed.net, f, s, mu, direct
        self.balance, self.apart = balance, apart
        self.near: tuple[FloatArray, FloatArray] | None = None
        self.hardening = posed.law is not None and posed.law.power < HOOKE
        self.give = slope + min(max(1e-2 * mu, _PROXIMAL_LEAST), _PROXIMAL_MOST)
        self.weight = 1.0 / (s + f * self.give)
        self.D = f * self.weight
        self.shift = 0.0 if posed.net.mass is not None else 1e-10 * float(self.D.mean())
        self.tol = float(np.clip(1e-2 * mu, 1e-9, 1e-3))
        self.system: System = (
            self.net.factored(self.D, self.shift) if direct else self.net.system(self.D, self.shift)
        )

    def direction(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """dw, df, ds and how far to go: predictor, corrector, further correctors."""
        f, s, mu = self.f, self.s, self.mu
        dw, df, ds = self._newton(-f * s, _FORESEEN)
        length = self._length(df, ds)
        ahead = float((f + length * df) @ (s + length * ds)) / max(f.size, 1)
        aim = mu * (ahead / mu) ** 3
        wanted = aim - f * s - df * ds
        dw, df, ds = self._newton(wanted, self.tol)
        length = min(1.0, _FRACTION * self._length(df, ds))
        for _ in range(_CORRECTORS if self.direct else 0):
            trial = min(1.0, 1.3 * length + 0.1)
            products = (f + trial * df) * (s + trial * ds)
            off = np.maximum(np.clip(products, 0.1 * aim, 10.0 * aim) - products, -10.0 * aim)
            other = self._newton(wanted + off, self.tol)
            reach = min(1.0, _FRACTION * self._length(*other[1:]))
            if reach < length + 0.01:
                break
            wanted, (dw, df, ds), length = wanted + off, other, reach
        return dw, df, ds, length

    def _newton(self, wanted: FloatArray, tol: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """dw, df, ds towards products f s changed by ``wanted`` and both residuals zero."""
        q = (wanted - self.f * self.apart) * self.weight
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
