"""Newton's method on the truss of few dofs, in one compiled run: ``newton_truss``, step for step.

Up to the size at which systems are dense, the calls from Python cost more than the arithmetic
between them. Powers below two are left to the general way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.backends.linalg import Network
from cdopt.backends.linalg.network import DENSE_UP_TO
from cdopt.backends.linalg.small import (
    Rows,
    dot,
    factorise,
    fill,
    plus,
    rows,
    substitute,
    times,
    transposed_times,
)
from cdopt.problem.contact_law import HOOKE, PowerLaw

SHIFT_START, SHIFT_LEAST, SHIFT_MOST = 1e-4, 1e-12, 1e4  # of the typical stiffness
GROUND = 1e-8  # shift of the first system, of the typical stiffness
SEARCHES = 60  # bisections of a line search
NEAR_ENOUGH, MUCH_SHORTER = 0.5, 0.1  # slopes at which a line search ends, of its first
WINDOW, NO_PROGRESS, CLOSE = 6, 0.5, 1e4  # round-off reached: so many steps, gain, of the accuracy
_MOST_STEPS = 1000  # beyond it the general way goes on
_NO_MASS = rows(sp.csr_array((0, 0)))


class Descent(NamedTuple):
    """Where the steps have led.

    Attributes
    ----------
    u, f : (m,) scaled displacement and (nc,) its forces.
    history : (steps + 1, 3) residual, length and shift of each step.
    rejected : refused steps.
    factors : factorisations.
    """

    u: FloatArray
    f: FloatArray
    history: FloatArray
    rejected: int
    factors: int


def takes(net: Network, law: PowerLaw, limit: int = 0) -> bool:
    """Whether dofs and steps are few enough, and the energy's curvature is bounded."""
    return net.m <= DENSE_UP_TO and law.power >= HOOKE and limit <= _MOST_STEPS


def descend(
    net: Network, load: FloatArray, opening: FloatArray, law: PowerLaw,
    u: FloatArray, tol: float, limit: int,
) -> Descent | None:  # fmt: skip
    """Newton's method from u (m,); None where a factorisation breaks down."""
    u, f, history, rejected, factors = _descend(
        *_matrices(net), load, opening, law.stiffness, law.power, u, tol, limit
    )
    return None if rejected < 0 else Descent(u, f, history, rejected, factors)


def bilateral(
    net: Network, load: FloatArray, opening: FloatArray, law: PowerLaw
) -> FloatArray | None:
    """u (m,) of a linear network that can also pull; None where a factorisation breaks down."""
    u, found = _bilateral(*_matrices(net), load, opening, law.stiffness, law.power)
    return u if found else None


def _matrices(net: Network) -> tuple[Rows, Rows]:
    """B and the inertia, without entries where there is none."""
    return rows(net.B), _NO_MASS if net.mass is None else rows(net.mass)


@compiled()
def _bilateral(
    B: Rows, mass: Rows, load: FloatArray, opening: FloatArray, k: FloatArray, power: float
) -> tuple[FloatArray, bool]:
    """The displacement, and whether there is one."""
    D, total = np.empty(k.size), 0.0
    for i in range(k.size):
        D[i] = _raised(k[i], 1.0 / (power - 1.0))
        total += D[i]
    shift = GROUND * total / k.size if k.size > 0 else GROUND
    H = np.empty((load.size, load.size))
    fill(H, B, D, mass, shift)
    u = -plus(load, 1.0, transposed_times(B, D * opening, load.size))
    found = factorise(H)
    if found:
        substitute(H, u)
    return u, found


@compiled()
def _descend(
    B: Rows, mass: Rows, load: FloatArray, opening: FloatArray, k: FloatArray, power: float,
    u: FloatArray, tol: float, limit: int,
) -> tuple[FloatArray, FloatArray, FloatArray, int, int]:  # fmt: skip
    """Displacement, forces, the record, refused steps (−1: no factorisation), factorisations."""
    c = _overlap(B, u, opening)
    f = _force(k, power, c)
    gradient = _gradient(B, mass, load, u, f)
    H, shift = np.empty((u.size, u.size)), SHIFT_START
    record, count, rejected, factors = np.zeros((limit + 1, 3)), 0, 0, 0
    record[0, 0] = _size(gradient)
    for _ in range(limit):
        if record[count, 0] <= tol:
            break
        D, typical = _tangent(k, power, c)
        factors += 1
        fill(H, B, D, mass, shift * typical)
        if not factorise(H):
            return u, f, record[:1], -1, factors
        d = -gradient
        substitute(H, d)
        motion, kinetic = -times(B, d), _product(mass, d)
        work = dot(load, d) + dot(_product(mass, u), d)
        t = _search(k, power, c, motion, work, dot(kinetic, d))
        there = plus(u, t, d)
        moved = plus(c, t, motion)
        force = _force(k, power, moved)
        after = _gradient(B, mass, load, there, force)
        size = _size(after)
        if t == 0.0 or not size < np.inf:
            rejected, shift = rejected + 1, shift * 100.0
            if shift > SHIFT_MOST:
                break
            continue
        u, c, f, gradient = there, moved, force, after
        count += 1
        record[count, 0], record[count, 1], record[count, 2] = size, t, shift
        shift = max(shift * (0.1 if t > 0.3 else 10.0), SHIFT_LEAST)
        if _stalled(record, count, tol):
            break
    return u, f, record[: count + 1], rejected, factors


@part()
def _product(mass: Rows, x: FloatArray) -> FloatArray:
    """S x (m,), zero without a mass."""
    return times(mass, x) if mass[0].size > 1 else np.zeros(x.size)


@part()
def _overlap(B: Rows, u: FloatArray, opening: FloatArray) -> FloatArray:
    """c = −B u − opening (nc,)."""
    return -times(B, u) - opening


@part()
def _gradient(
    B: Rows, mass: Rows, load: FloatArray, u: FloatArray, f: FloatArray
) -> FloatArray:  # fmt: skip
    """F̃ + S u − Bᵀ f (m,)."""
    return plus(plus(load, 1.0, _product(mass, u)), -1.0, transposed_times(B, f, u.size))


@part()
def _raised(c: float, exponent: float) -> float:
    """c to the exponent, without the call where it is one or zero."""
    if exponent == 1.0:
        return c
    return 1.0 if exponent == 0.0 else c**exponent


@part()
def _force(k: FloatArray, power: float, c: FloatArray) -> FloatArray:
    """w′(c) (nc,)."""
    out = np.zeros(c.size)
    for i in range(c.size):
        if not c[i] <= 0.0:
            out[i] = k[i] * _raised(c[i], power - 1.0)
    return out


@part()
def _tangent(k: FloatArray, power: float, c: FloatArray) -> tuple[FloatArray, float]:
    """w″(c) (nc,), zero on open contacts, and its mean over the others."""
    D, total, closed = np.zeros(c.size), 0.0, 0
    for i in range(c.size):
        if c[i] > 0.0:
            D[i] = k[i] * (power - 1.0) * _raised(c[i], power - 2.0)
            if D[i] > 0.0:
                total, closed = total + D[i], closed + 1
    return D, total / closed if closed > 0 else 1.0


@part()
def _slope(
    k: FloatArray, power: float, c: FloatArray, motion: FloatArray, work: float, square: float,
    t: float,
) -> float:  # fmt: skip
    """Of E along the direction, at t."""
    push = 0.0
    for i in range(c.size):
        moved = c[i] + t * motion[i]
        if not moved <= 0.0:
            push += k[i] * _raised(moved, power - 1.0) * motion[i]
    return work + t * square + push


@part()
def _search(
    k: FloatArray, power: float, c: FloatArray, motion: FloatArray, work: float, square: float
) -> float:
    """t > 0 where the slope of E along the direction has vanished, or nearly; 0 if none."""
    initial = _slope(k, power, c, motion, work, square, 0.0)
    if not initial < 0.0:
        return 0.0
    low, high, at_high = 0.0, 1.0, _slope(k, power, c, motion, work, square, 1.0)
    while abs(at_high) > NEAR_ENOUGH * abs(initial) and at_high < 0.0 and high < 1e6:
        low, high = high, 4.0 * high
        at_high = _slope(k, power, c, motion, work, square, high)
    if abs(at_high) <= NEAR_ENOUGH * abs(initial):
        return high
    for _ in range(SEARCHES):
        middle = 0.5 * (low + high)
        value = _slope(k, power, c, motion, work, square, middle)
        if abs(value) <= MUCH_SHORTER * abs(initial):
            return middle
        if value < 0.0:
            low = middle
        else:
            high = middle
    return low


@part()
def _size(gradient: FloatArray) -> float:
    """Largest |entry|, zero for none; not-a-number spreads."""
    largest = 0.0
    for value in gradient:
        largest = np.maximum(largest, abs(value))
    return largest


@part()
def _stalled(record: FloatArray, count: int, tol: float) -> bool:
    """Round-off reached: no progress over the last steps, already close."""
    first = count + 1 - WINDOW
    if first < 0 or not record[count, 0] < CLOSE * tol:
        return False
    least = np.inf
    for i in range(first + 1, count + 1):
        least = min(least, record[i, 0])
    return least >= NO_PROGRESS * record[first, 0]
