"""The rigid step of few dofs, in one compiled run: the method of ``newton_rigid``, step for step.

Up to the size at which systems are dense, the calls from Python cost more than the arithmetic
between them. Here the whole iteration is compiled, on the CSR parts of B and of the mass.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.base import Tally
from cdopt.backends.linalg.network import DENSE_UP_TO
from cdopt.backends.linalg.small import (
    Rows,
    diagonal,
    dot,
    factorise,
    fill,
    plus,
    rows,
    substitute,
    times,
    transposed_times,
)
from cdopt.backends.newton_rigid import (
    GROWTH,
    GROWTH_HARD,
    HARD,
    INNER,
    SEARCHES,
    SIGMA_MOST,
    SIGMA_START,
    SIGMA_WARM,
    TOO_HARD,
    RigidRun,
    report,
)
from cdopt.problem import RigidStepData
from cdopt.problem.scaling import scaled

_SIGMA, _BEFORE, _BEST, _STEPS, _FACTORS, _COUNT, _DONE, _PLACES = range(8)  # of the state
_MOST_UPDATES = 1000  # of the multipliers; beyond it the general way goes on


def takes(data: RigidStepData) -> bool:
    """Whether the step has few enough dofs."""
    return data.nv <= DENSE_UP_TO


def solve(
    data: RigidStepData, start: FloatArray, tol: float, limit: int, warm: bool, tally: Tally,
    deadline: Deadline = NEVER,
) -> RigidRun | None:  # fmt: skip
    """As ``newton_rigid.solve``, from scaled forces ``start`` (nc,).

    Where the deadline passes, the best iterate. None where the accuracy is not reached, a
    factorisation breaks down or a number overflows: all that is judged by the general way.
    """
    slowness, unit = 1.0 / data.speed, data.dof_speed
    motions, forces = np.zeros((2, data.dof_speed.size)), np.stack([start, start])
    state, record = np.zeros(_PLACES), np.empty((min(limit, _MOST_UPDATES), 3))
    state[_SIGMA] = SIGMA_WARM if warm else SIGMA_START
    state[[_BEFORE, _BEST]] = np.inf
    posed = (
        _scaled(data.B, slowness, unit), _scaled(data.mass.M, unit / data.dof_energy, unit),
        data.mobility * data.force / data.speed, data.step.p_vec / data.speed,
    )  # fmt: skip
    updates = len(record) if deadline == NEVER else 1  # between two looks at the clock
    for _ in range(0, len(record), updates):
        _iterate(*posed, tol, updates, motions, forces, state, record)
        if state[_DONE] or deadline.passed:
            break
    residual = float(state[_BEST])
    if not (residual <= tol or deadline.passed):
        return None
    tally.ways.append("augmented Lagrangian")
    tally.factorisations += int(state[_FACTORS])
    tally.library = "dense matrices"
    history = record[: int(state[_COUNT])].tolist()
    for row in history:
        report(row[0], row[1], int(row[2]))
    return RigidRun(
        motions[1], forces[1], residual, int(state[_STEPS]),
        [np.inf, *(row[0] for row in history)], residual <= tol,
    )  # fmt: skip


def _scaled(A: sp.csr_array, left: FloatArray, right: FloatArray) -> Rows:
    """diag(left) · A · diag(right)."""
    return rows(A, scaled(A, left, right).data)


@compiled()
def _iterate(
    B: Rows, mass: Rows, mobility: FloatArray, p: FloatArray, tol: float, updates: int,
    motions: FloatArray, forces: FloatArray, state: FloatArray, record: FloatArray,
) -> None:  # fmt: skip
    """So many updates of the multipliers, from where ``state`` stands.

    ``motions`` (2, m) and ``forces`` (2, nc) hold the iterate and the best one so far. The record
    has one row for each update: residual, σ, Newton steps so far.
    """
    own = diagonal(mass)
    w, f, sigma, before = motions[0].copy(), forces[0].copy(), state[_SIGMA], state[_BEFORE]
    for _ in range(updates):
        inner = max(0.05 * min(before, 1.0), 0.1 * tol)
        moved, gap, spent, made = _compliant(B, mass, own, p, f, sigma, w, inner)
        if spent < 0:
            state[_DONE] = 1.0
            break
        state[_STEPS] += spent
        state[_FACTORS] += made
        if spent == INNER and sigma > SIGMA_START:  # too stiff to begin from here
            sigma, w = sigma / GROWTH, moved
            continue
        w, f = moved, _pushed(f, sigma, gap)
        residual = _natural(B, mass, own, mobility, gap, f, w)
        count = int(state[_COUNT])
        record[count, 0], record[count, 1], record[count, 2] = residual, sigma, state[_STEPS]
        count += 1
        state[_COUNT] = count
        if residual < state[_BEST]:
            motions[1], forces[1], state[_BEST] = w, f, residual
        if state[_BEST] <= tol or not residual < np.inf:
            state[_DONE] = 1.0
            break
        if residual > 0.2 * before:
            least = np.inf
            for k in range(max(count - 9, 0), count - 1):
                least = min(least, record[k, 0])
            if sigma >= SIGMA_MOST and residual > 0.5 * least:
                state[_DONE] = 1.0
                break
            growth = GROWTH if spent <= HARD else GROWTH_HARD if spent <= TOO_HARD else 1.0
            sigma = min(sigma * growth, SIGMA_MOST)
        before = residual
    motions[0], forces[0], state[_SIGMA], state[_BEFORE] = w, f, sigma, before


@part()
def _natural(
    B: Rows, mass: Rows, own: FloatArray, mobility: FloatArray,
    gap: FloatArray, f: FloatArray, w: FloatArray,
) -> float:  # fmt: skip
    """Largest of the natural residual |min(N_ii f_i, gap_i)| and the momentum error."""
    momentum = plus(times(mass, w), -1.0, transposed_times(B, f, own.size))
    largest = _largest(momentum, own)
    for i in range(f.size):
        largest = np.maximum(largest, abs(np.minimum(mobility[i] * f[i], gap[i])))
    return largest


@part()
def _compliant(
    B: Rows, mass: Rows, own: FloatArray, p: FloatArray, f: FloatArray, sigma: float,
    w: FloatArray, tol: float,
) -> tuple[FloatArray, FloatArray, int, int]:  # fmt: skip
    """The inner minimisation from w: the motion, its gaps, Newton steps and factorisations.

    Steps of −1: a factorisation broke down.
    """
    gap = plus(p, 1.0, times(B, w))
    H = np.empty((own.size, own.size))
    for step in range(INNER):
        push, inertia = _pushed(f, sigma, gap), times(mass, w)
        d = plus(transposed_times(B, push, own.size), -1.0, inertia)  # minus the gradient
        if _largest(d, own) <= tol:
            return w, gap, step, step
        fill(H, B, _stiffness(push, sigma), mass, 0.0)
        if not factorise(H):
            return w, gap, -1, step
        substitute(H, d)
        rate = times(B, d)
        t = _search(f, sigma, gap, rate, dot(inertia, d), dot(times(mass, d), d))
        if t == 0.0:
            return w, gap, step, step + 1
        w, gap = plus(w, t, d), plus(gap, t, rate)
    return w, gap, INNER, INNER


@part()
def _pushed(f: FloatArray, sigma: float, gap: FloatArray) -> FloatArray:
    """(f − σ gap)₊ (nc,): the forces that these gaps call for."""
    out = np.empty(f.size)
    for i in range(f.size):
        out[i] = max(f[i] - sigma * gap[i], 0.0)
    return out


@part()
def _stiffness(push: FloatArray, sigma: float) -> FloatArray:
    """σ (nc,) on the contacts that push."""
    out = np.zeros(push.size)
    for i in range(push.size):
        if push[i] > 0.0:
            out[i] = sigma
    return out


@part()
def _slope(
    f: FloatArray, sigma: float, gap: FloatArray, rate: FloatArray, linear: float, square: float,
    t: float,
) -> float:  # fmt: skip
    """Of the augmented Lagrangian along the direction, at t."""
    push = 0.0
    for i in range(f.size):
        push += max(f[i] - sigma * (gap[i] + t * rate[i]), 0.0) * rate[i]
    return linear + t * square - push


@part()
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
    for _ in range(SEARCHES):
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


@part()
def _largest(x: FloatArray, unit: FloatArray) -> float:
    """Largest |x| / unit, zero for none; not-a-number spreads."""
    largest = 0.0
    for i in range(x.size):
        largest = np.maximum(largest, abs(x[i]) / unit[i])
    return largest
