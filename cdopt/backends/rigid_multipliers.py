"""The rigid step by an augmented Lagrangian over compliant steps, each solved by Newton.

minimise over w  ½ wᵀS w + (1/2σ) Σ (λ − σ(B w + p))₊²,  then  λ ← (λ − σ(B w + p))₊,  with
w = v⁺ − v* in scaled units. The inner problem is the truss's potential with inertia added. The
multipliers stay near where they are (a proximal point method in the forces: Rockafellar, Math.
Oper. Res. 1, 1976), and since the problem is piecewise quadratic a large enough σ ends it in a
few steps; σ grows whenever the residual falls too slowly, and systems that the growing σ makes
too stiff for conjugate gradients are factorised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.backends.potential_newton import line_search
from cdopt.problem.scaling import column_scale

LOG = logging.getLogger("cdopt.backends.newton")

_SIGMA_START, _SIGMA_WARM, _SIGMA_MOST = 1e2, 1e5, 1e8
_SPREAD_MOST = 1e8  # ratio of mobilities, by which the largest σ is raised
_SIGMA_SMALL = 1.0  # at the start, of dense systems; as it grows weak couplings lose digits
_GROWTH, _GROWTH_HARD = 10.0, 3.0  # of σ, and where the last minimisation was hard
_EASY = 2  # Newton steps of a minimisation after which σ grows in any case, of dense systems
_HARD, _TOO_HARD = 8, 30  # Newton steps beyond which it was hard, and too hard to grow at all
_INNER = 60  # Newton steps at most of one minimisation
_WHOLE, _SHARE = 1e-6, 1e-3  # slopes at which a line search ends, of its first
_DIRECT_FROM = 1e4  # σ from which systems are factorised


def solve(
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
    least, most = _SIGMA_SMALL if small else _SIGMA_START, _SIGMA_MOST * _spread(problem)
    w, sigma = np.zeros(problem.net.m), least if start is None else _SIGMA_WARM
    history, steps = [np.inf], 0
    best = IterationResult(w, f, np.inf, 0, history, False)
    for _ in range(limit):
        if deadline.passed:
            break
        inner = max(0.05 * min(history[-1], 1.0), 0.1 * tol)
        try:
            moved, gap, push, force, spent = _compliant(problem, f, sigma, w, inner, deadline)
        except ArithmeticError as error:
            LOG.info("rigid step: %s", error)
            break
        steps += spent
        if spent == _INNER and sigma > _SIGMA_START:  # too stiff to begin from here
            sigma, w = sigma / _GROWTH, moved
            continue
        w, f = moved, push
        residual = problem.residual(force, gap, f)
        LOG.info("rigid step: residual %.2e, sigma %.0e, %d Newton steps", residual, sigma, steps)
        history.append(residual)
        if residual < best.residual:
            best = IterationResult(w, f, residual, steps, history, residual <= tol)
        if best.converged:
            break
        if residual > 0.2 * history[-2] or (small and spent <= _EASY):
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


def _compliant(
    problem: NetworkProblem,
    f: FloatArray,
    sigma: float,
    w: FloatArray,
    tol: float,
    deadline: Deadline,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
    """The inner minimisation from w: motion, gaps, pushes, the force left, Newton steps spent."""
    net, direct = problem.net, sigma >= _DIRECT_FROM
    gap, inertia = net.gap(w) + problem.p, net.inertia(w)
    for step in range(_INNER + 1):
        push = np.maximum(f - sigma * gap, 0.0)
        force = net.load(push) - inertia
        if step == _INNER or np.abs(force / net.mass_diagonal).max(initial=0.0) <= tol:
            break
        D = np.where(push > 0.0, sigma, 0.0)
        system = net.of_forces(D) if net.few else net.factored(D) if direct else net.system(D)
        d = system.solve(force, 1e-12 if direct else 1e-3)
        rate, kinetic = net.gap(d), net.inertia(d)
        slope = _slope(f, sigma, gap, rate, float(inertia @ d), float(kinetic @ d))
        t = line_search(slope, _WHOLE, _SHARE)
        if t == 0.0 or deadline.passed:
            break
        w, gap, inertia = w + t * d, gap + t * rate, inertia + t * kinetic
    return w, gap, push, force, step


def _slope(
    f: FloatArray, sigma: float, gap: FloatArray, rate: FloatArray, linear: float, square: float
) -> Callable[[float], float]:
    """The slope along the direction: piecewise linear, nondecreasing."""
    return lambda t: (
        linear + t * square - float(np.maximum(f - sigma * (gap + t * rate), 0.0) @ rate)
    )
