"""The rigid step by an augmented Lagrangian over compliant steps, each solved by Newton.

minimise over w  ½ wᵀM w + (1/2σ) Σ (λ − σ(B w + p))₊²,  then  λ ← (λ − σ(B w + p))₊,  with
w = v⁺ − v* in scaled units. The inner problem is the truss's kernel with inertia added. The
multipliers stay near where they are (a proximal point method in the forces: Rockafellar, Math.
Oper. Res. 1, 1976), and since the problem is piecewise quadratic a large enough σ ends it in a
few steps; σ grows whenever the residual falls too slowly, and systems that the growing σ makes
too stiff for conjugate gradients are factorised.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg import Network

LOG = logging.getLogger("cdopt.backends.newton")

SIGMA_START, SIGMA_WARM, SIGMA_MOST = 1e2, 1e5, 1e8
GROWTH, GROWTH_HARD = 10.0, 3.0  # of σ, and where the last minimisation was hard
HARD, TOO_HARD = 8, 30  # Newton steps beyond which it was hard, and too hard to grow at all
INNER = 60  # Newton steps at most of one minimisation
SEARCHES = 60
_DIRECT_FROM = 1e4  # σ from which systems are factorised


@dataclass
class RigidRun:
    """Where the iteration stands: scaled motion w (m,), forces (nc,), residual, steps."""

    w: FloatArray
    f: FloatArray
    residual: float
    steps: int
    history: list[float]
    converged: bool


def solve(
    net: Network,
    mobility: FloatArray,
    p: FloatArray,
    start: FloatArray,
    tol: float,
    limit: int,
    warm: bool,
    deadline: Deadline = NEVER,
) -> RigidRun:
    """Multipliers and motion of the scaled step, from forces ``start``.

    A ``warm`` start is trusted to know most of the active set: the penalty begins high.

    The network carries the scaled mass; ``mobility`` (nc,) is the scaled N_ii, ``p`` (nc,) the
    scaled gap rates of the free motion.
    """
    net.tally.ways.append("augmented Lagrangian")
    f, w = start.copy(), np.zeros(net.m)
    sigma, history, steps = SIGMA_WARM if warm else SIGMA_START, [np.inf], 0
    best = RigidRun(w, f, np.inf, 0, history, False)
    for _ in range(limit):
        if deadline.passed:
            break
        inner = max(0.05 * min(history[-1], 1.0), 0.1 * tol)
        try:
            moved, gap, spent = _compliant(net, p, f, sigma, w, inner, deadline)
        except ArithmeticError as error:
            LOG.info("rigid step: %s", error)
            break
        steps += spent
        if spent == INNER and sigma > SIGMA_START:  # too stiff to begin from here
            sigma, w = sigma / GROWTH, moved
            continue
        w, f = moved, np.maximum(f - sigma * gap, 0.0)
        residual = _natural(net, mobility, gap, f, w)
        report(residual, sigma, steps)
        history.append(residual)
        if residual < best.residual:
            best = RigidRun(w, f, residual, steps, history, residual <= tol)
        if best.converged:
            break
        if residual > 0.2 * history[-2]:
            if sigma >= SIGMA_MOST and residual > 0.5 * min(history[-9:-1]):
                break
            sigma = min(sigma * _growth(spent), SIGMA_MOST)
    best.steps = steps
    return best


def report(residual: float, sigma: float, steps: int) -> None:
    """To the log, after each update of the multipliers."""
    LOG.info("rigid step: residual %.2e, sigma %.0e, %d Newton steps", residual, sigma, steps)


def _growth(spent: int) -> float:
    """How much stiffer to become: the easier the last minimisation was, the more."""
    return GROWTH if spent <= HARD else GROWTH_HARD if spent <= TOO_HARD else 1.0


def _natural(
    net: Network, mobility: FloatArray, gap: FloatArray, f: FloatArray, w: FloatArray
) -> float:
    """Largest of the natural residual |min(N_ii f_i, gap_i)| and the momentum error."""
    momentum = np.abs(net.inertia(w) - net.load(f)) / net.mass_diagonal
    contact = np.abs(np.minimum(mobility * f, gap)).max(initial=0.0)
    return float(max(contact, momentum.max(initial=0.0)))


def _compliant(
    net: Network, p: FloatArray, f: FloatArray, sigma: float, w: FloatArray,
    tol: float, deadline: Deadline,
) -> tuple[FloatArray, FloatArray, int]:  # fmt: skip
    """The inner minimisation from w: the motion, its gaps, and the Newton steps spent."""
    gap = net.gap(w) + p
    for step in range(INNER):
        pressed = f - sigma * gap
        push = np.maximum(pressed, 0.0)
        inertia = net.inertia(w)
        gradient = inertia - net.load(push)
        if np.abs(gradient / net.mass_diagonal).max(initial=0.0) <= tol:
            return w, gap, step
        D = np.where(pressed > 0.0, sigma, 0.0)
        direct = sigma >= _DIRECT_FROM
        system = net.factored(D) if direct else net.system(D)
        d = system.solve(-gradient, 1e-3 if not direct else 1e-12)
        rate, kinetic = net.gap(d), net.inertia(d)
        t = _search(f, sigma, gap, rate, float(inertia @ d), float(kinetic @ d))
        if t == 0.0 or deadline.passed:
            return w, gap, step
        w, gap = w + t * d, gap + t * rate
    return w, gap, INNER


def _search(
    f: FloatArray, sigma: float, gap: FloatArray, rate: FloatArray, linear: float, square: float
) -> float:
    """The t at which the slope along the direction vanishes: piecewise linear, nondecreasing."""

    def slope(t: float) -> float:
        push = np.maximum(f - sigma * (gap + t * rate), 0.0)
        return linear + t * square - float(push @ rate)

    initial = slope(0.0)
    if not initial < 0.0:
        return 0.0
    low, high, at_high = 0.0, 1.0, slope(1.0)
    if abs(at_high) <= 1e-6 * abs(initial):
        return 1.0
    while at_high < 0.0 and high < 1e6:
        low, high = high, 2.0 * high
        at_high = slope(high)
    at_low = slope(low)
    for _ in range(SEARCHES):
        t = low - at_low * (high - low) / (at_high - at_low)  # exact where no contact switches
        t = min(max(t, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        value = slope(t)
        if abs(value) <= 1e-3 * abs(initial):
            return t
        if value < 0.0:
            low, at_low = t, value
        else:
            high, at_high = t, value
    return low
