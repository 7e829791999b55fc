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

from cdopt._util.checks import BoolArray, FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg import ContactNetwork
from cdopt.backends.linalg.network import System
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.backends.potential_newton import line_search
from cdopt.problem.scaling import column_scale

LOG = logging.getLogger("cdopt.backends.newton")

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
            slope = _slope(f, sigma, gap, rate, float(inertia @ d), float(kinetic @ d))
            t = line_search(slope, _WHOLE, _SHARE)
            if t == 0.0:
                break
            ahead = np.maximum(f - sigma * (gap + t * rate), 0.0)
        w, gap, inertia, push = w + t * d, gap + t * rate, inertia + t * kinetic, ahead
    return (w, gap, inertia), push, error, step


def _slope(
    f: FloatArray, sigma: float, gap: FloatArray, rate: FloatArray, linear: float, square: float
) -> Callable[[float], float]:
    """The slope along the direction: piecewise linear, nondecreasing."""
    return lambda t: (
        linear + t * square - float(np.maximum(f - sigma * (gap + t * rate), 0.0) @ rate)
    )
