"""The rigid step by an augmented Lagrangian over compliant steps, each solved by Newton.

minimise over w  ½ wᵀS w + (1/2σ) Σ (λ − σ(B w + p))₊²,  then  λ ← (λ − σ(B w + p))₊,  with
w = v⁺ − v* in scaled units. The inner problem is the truss's potential with inertia added. The
multipliers stay near where they are (a proximal point method in the forces: Rockafellar, Math.
Oper. Res. 1, 1976), and since the problem is piecewise quadratic a large enough σ ends it in a
few steps; σ grows whenever the residual falls too slowly, and systems that the growing σ makes
too stiff for conjugate gradients are factorised. Up to 240 dofs it is one compiled loop on dense
systems.
"""

from __future__ import annotations

import logging

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.network import DENSE_UP_TO
from cdopt.backends.linalg.sparse_rows import larger
from cdopt.backends.network_problem import IterationResult, NetworkProblem

LOG = logging.getLogger("cdopt.backends.newton")

_SIGMA_START, _SIGMA_WARM, _SIGMA_MOST = 1e2, 1e5, 1e8
_GROWTH, _GROWTH_HARD = 10.0, 3.0  # of σ, and where the last minimisation was hard
_HARD, _TOO_HARD = 8, 30  # Newton steps beyond which it was hard, and too hard to grow at all
_INNER = 60  # Newton steps at most of one minimisation
_SEARCHES = 60
_DIRECT_FROM = 1e4  # σ from which systems are factorised
_CONVERGED, _UNDERWAY, _STUCK, _SINGULAR = range(4)  # how the compiled loop ended


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
    if problem.net.m <= DENSE_UP_TO:
        result = _solve_dense(problem, start, tol, limit, deadline)
        if result is not None:
            return result
    f = np.zeros(problem.net.nc) if start is None else start.copy()
    w, sigma = np.zeros(problem.net.m), _SIGMA_START if start is None else _SIGMA_WARM
    history, steps = [np.inf], 0
    best = IterationResult(w, f, np.inf, 0, history, False)
    for _ in range(limit):
        if deadline.passed:
            break
        inner = max(0.05 * min(history[-1], 1.0), 0.1 * tol)
        try:
            moved, gap, spent = _compliant(problem, f, sigma, w, inner, deadline)
        except ArithmeticError as error:
            LOG.info("rigid step: %s", error)
            break
        steps += spent
        if spent == _INNER and sigma > _SIGMA_START:  # too stiff to begin from here
            sigma, w = sigma / _GROWTH, moved
            continue
        w, f = moved, np.maximum(f - sigma * gap, 0.0)
        residual = problem.residual(problem.balance(w, f), gap, f)
        LOG.info("rigid step: residual %.2e, sigma %.0e, %d Newton steps", residual, sigma, steps)
        history.append(residual)
        if residual < best.residual:
            best = IterationResult(w, f, residual, steps, history, residual <= tol)
        if best.converged:
            break
        if residual > 0.2 * history[-2]:
            if sigma >= _SIGMA_MOST and residual > 0.5 * min(history[-9:-1]):
                break
            sigma = min(sigma * _growth(spent), _SIGMA_MOST)
    best.steps = steps
    return best


def _solve_dense(
    problem: NetworkProblem,
    start: FloatArray | None,
    tol: float,
    limit: int,
    deadline: Deadline,
) -> IterationResult | None:
    """The same in one compiled loop; None where a system is singular to working accuracy."""
    net, nc, m = problem.net, problem.net.nc, problem.net.m
    if nc == 0 or m == 0:
        return None
    f, w, best_f, best_w = np.zeros(nc), np.zeros(m), np.zeros(nc), np.zeros(m)
    if start is not None:
        f[:] = start
    history = np.full(limit + 1, np.inf)
    state = np.array([_SIGMA_START if start is None else _SIGMA_WARM, np.inf, 0.0, 0.0, 0.0])
    gap, rate = np.empty(nc), np.empty(nc)
    d, inertia, kinetic, downhill = (np.empty(m) for _ in range(4))
    system, size, ended = np.empty((m, m)), limit if deadline == NEVER else 1, _UNDERWAY
    B, mass, p, mobility = net.dense_B, net.dense_mass, problem.p, problem.mobility
    for _ in range(0, limit, size):
        ended = _update_dense(
            *(B, mass, p, mobility, f, w, best_f, best_w, history, state),
            *(gap, rate, d, inertia, kinetic, downhill, system, tol, size),
        )
        if ended != _UNDERWAY or deadline.passed:
            break
    if ended == _SINGULAR:
        return None
    _, residual, steps, factorisations, updates = state.tolist()
    net.statistics.factorisations += int(factorisations)
    net.statistics.library = "dense matrices"
    LOG.info("rigid step: residual %.2e, %d updates, %d Newton steps", residual, updates, steps)
    seen = history[: int(updates) + 1].tolist()
    return IterationResult(best_w, best_f, residual, int(steps), seen, ended == _CONVERGED)


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
) -> tuple[FloatArray, FloatArray, int]:
    """The inner minimisation from w: the motion, its gaps, and the Newton steps spent."""
    net, direct = problem.net, sigma >= _DIRECT_FROM
    gap, inertia = net.gap(w) + problem.p, net.inertia(w)
    for step in range(_INNER):
        push = np.maximum(f - sigma * gap, 0.0)
        downhill = net.load(push) - inertia
        if np.abs(downhill / net.mass_diagonal).max(initial=0.0) <= tol:
            return w, gap, step
        D = np.where(push > 0.0, sigma, 0.0)
        system = net.factored(D) if direct else net.system(D)
        d = system.solve(downhill, 1e-12 if direct else 1e-3)
        rate, kinetic = net.gap(d), net.inertia(d)
        t = _search(f, sigma, gap, rate, float(inertia @ d), float(kinetic @ d))
        if t == 0.0 or deadline.passed:
            return w, gap, step
        w, gap, inertia = w + t * d, gap + t * rate, inertia + t * kinetic
    return w, gap, _INNER


@part()
def _slope(
    f: FloatArray,
    sigma: float,
    gap: FloatArray,
    rate: FloatArray,
    linear: float,
    square: float,
    t: float,
) -> float:
    """Of the augmented Lagrangian along the direction, at t."""
    push = 0.0
    for i in range(f.size):
        push += max(f[i] - sigma * (gap[i] + t * rate[i]), 0.0) * rate[i]
    return linear + t * square - push


@compiled()
def _search(
    f: FloatArray, sigma: float, gap: FloatArray, rate: FloatArray, linear: float, square: float
) -> float:
    """The t at which the slope along the direction vanishes: piecewise linear, nondecreasing."""
    initial = _slope(f, sigma, gap, rate, linear, square, 0.0)
    if not initial < 0.0:
        return 0.0
    low, at_low, high = 0.0, initial, 1.0
    at_high = _slope(f, sigma, gap, rate, linear, square, high)
    if abs(at_high) <= 1e-6 * abs(initial):
        return 1.0
    while at_high < 0.0 and high < 1e6:
        low, at_low, high = high, at_high, 2.0 * high
        at_high = _slope(f, sigma, gap, rate, linear, square, high)
    for _ in range(_SEARCHES):
        t = low - at_low * (high - low) / (at_high - at_low)  # exact where no contact switches
        t = min(max(t, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        value = _slope(f, sigma, gap, rate, linear, square, t)
        if abs(value) <= 1e-3 * abs(initial):
            return t
        if value < 0.0:
            low, at_low = t, value
        else:
            high, at_high = t, value
    return low


# --- small steps ---------------------------------------------------------------------------


@compiled()
def _update_dense(
    B: FloatArray,
    mass: FloatArray,
    p: FloatArray,
    mobility: FloatArray,
    f: FloatArray,
    w: FloatArray,
    best_f: FloatArray,
    best_w: FloatArray,
    history: FloatArray,
    state: FloatArray,
    gap: FloatArray,
    rate: FloatArray,
    d: FloatArray,
    inertia: FloatArray,
    kinetic: FloatArray,
    downhill: FloatArray,
    system: FloatArray,
    tol: float,
    updates: int,
) -> int:
    """Up to so many ``updates`` of the multipliers, as in ``solve``; returns how they ended.

    ``f`` (nc,) and ``w`` (m,) are the current answer, ``history`` the residuals after an infinity.
    ``state`` holds σ, the best residual, Newton steps, factorisations and updates so far. From
    ``gap`` to ``system`` it is work space.
    """
    nc, m = B.shape
    for _ in range(updates):
        sigma, count = state[0], int(state[4])
        inner = max(0.05 * min(history[count], 1.0), 0.1 * tol)
        _multiply(B, mass, w, gap, inertia)
        for i in range(nc):
            gap[i] += p[i]
        spent = _INNER
        for step in range(_INNER):
            error = _downhill(B, mass, f, sigma, gap, inertia, downhill)
            if error <= inner:
                spent = step
                break
            state[3] += 1.0
            if not error < np.inf or not _direction(B, mass, f, sigma, gap, downhill, system, d):
                return _SINGULAR
            _multiply(B, mass, d, rate, kinetic)
            linear, square = 0.0, 0.0
            for j in range(m):
                linear += inertia[j] * d[j]
                square += kinetic[j] * d[j]
            t = _search(f, sigma, gap, rate, linear, square)
            if t == 0.0:
                spent = step
                break
            for j in range(m):
                w[j] += t * d[j]
                inertia[j] += t * kinetic[j]
            for i in range(nc):
                gap[i] += t * rate[i]
        state[2] += spent
        if spent == _INNER and sigma > _SIGMA_START:  # too stiff to begin from here
            state[0] = sigma / _GROWTH
            continue
        residual = _downhill(B, mass, f, sigma, gap, inertia, downhill)
        for i in range(nc):
            f[i] = max(f[i] - sigma * gap[i], 0.0)
            residual = larger(residual, abs(min(mobility[i] * f[i], gap[i])))
        count += 1
        state[4], history[count] = count, residual
        if residual < state[1]:
            state[1] = residual
            for i in range(nc):
                best_f[i] = f[i]
            for j in range(m):
                best_w[j] = w[j]
        if residual <= tol:
            return _CONVERGED
        if residual > 0.2 * history[count - 1]:
            least = np.inf
            for k in range(max(count - 8, 0), count):
                least = min(least, history[k])
            if sigma >= _SIGMA_MOST and residual > 0.5 * least:
                return _STUCK
            growth = _GROWTH if spent <= _HARD else _GROWTH_HARD if spent <= _TOO_HARD else 1.0
            state[0] = min(sigma * growth, _SIGMA_MOST)
    return _UNDERWAY


@part()
def _multiply(
    B: FloatArray, mass: FloatArray, x: FloatArray, gap: FloatArray, inertia: FloatArray
) -> None:
    """B x and S x."""
    for i in range(gap.size):
        total = 0.0
        for k in range(x.size):
            total += B[i, k] * x[k]
        gap[i] = total
    for i in range(x.size):
        total = 0.0
        for k in range(x.size):
            total += mass[i, k] * x[k]
        inertia[i] = total


@part()
def _downhill(
    B: FloatArray,
    mass: FloatArray,
    f: FloatArray,
    sigma: float,
    gap: FloatArray,
    inertia: FloatArray,
    out: FloatArray,
) -> float:
    """Bᵀ(f − σ gap)₊ − S w; the largest, each over its mass."""
    for j in range(out.size):
        out[j] = -inertia[j]
    for i in range(gap.size):
        push = f[i] - sigma * gap[i]
        if not push <= 0.0:
            for j in range(out.size):
                out[j] += B[i, j] * push
    error = 0.0
    for j in range(out.size):
        error = larger(error, abs(out[j]) / mass[j, j])
    return error


@part()
def _direction(
    B: FloatArray,
    mass: FloatArray,
    f: FloatArray,
    sigma: float,
    gap: FloatArray,
    rhs: FloatArray,
    system: FloatArray,
    x: FloatArray,
) -> bool:
    """x of (S + σ Bᵀ B) x = rhs, B of the contacts that push; False if the matrix is singular.

    By Cholesky's factors in the upper triangle, zeros skipped.
    """
    m = x.size
    for j in range(m):
        x[j] = rhs[j]
        for k in range(j, m):
            system[j, k] = mass[j, k]
    for i in range(gap.size):
        if f[i] - sigma * gap[i] > 0.0:
            for j in range(m):
                weight = sigma * B[i, j]
                if weight != 0.0:
                    for k in range(j, m):
                        system[j, k] += weight * B[i, k]
    for i in range(m):
        if not 0.0 < system[i, i] < np.inf:
            return False
        pivot = 1.0 / np.sqrt(system[i, i])
        for k in range(i, m):
            system[i, k] *= pivot
        x[i] *= pivot
        for j in range(i + 1, m):
            factor = system[i, j]
            if factor != 0.0:
                x[j] -= factor * x[i]
                for k in range(j, m):
                    system[j, k] -= factor * system[i, k]
    for i in range(m - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, m):
            total -= system[i, k] * x[k]
        x[i] = total / system[i, i]
    return True
