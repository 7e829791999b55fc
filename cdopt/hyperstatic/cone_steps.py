"""Compiled loops over the cones of many programs side by side, for ``cone_programs``.

Points are arrays (many, cones, 3), J = diag(1, −1, −1). Each loop works on the ``programs`` with
these numbers; its results for one do not depend on the others.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part

_LEAST = 0.5
_MOST = 5.0  # times μ: a step should take eigenvalues of x∘s between these
_LONGER = 0.4  # by how much correctors try to lengthen a step
_BOLD = 0.1  # times Mehrotra's μ: correctors make steps long enough for it
_RIDGE = 1e-14  # of the diagonal, for rows of A that depend on each other

Vector = tuple[float, float, float]


class Rows(NamedTuple):
    """A by cones."""

    first: IntArray  # (cones + 1,) where the entries of each cone begin
    row: IntArray  # (entries,) ascending within a cone
    value: FloatArray  # (entries, 3)

    @staticmethod
    def of(A: sp.csr_array, touched: sp.csc_array) -> Rows:
        """Of A (rows, cones · 3); ``touched`` (rows, cones) are the places of its entries."""
        touched.sort_indices()
        first, row = touched.indptr.astype(np.int64), touched.indices.astype(np.int64)
        cone = np.repeat(np.arange(touched.shape[1]), np.diff(first))
        value = np.column_stack([A[row, 3 * cone + k] for k in range(3)])
        return Rows(first, row, np.ascontiguousarray(value, dtype=np.float64))


class Points(NamedTuple):
    """Points of programs, and their scaling H = W² = square (2 w wᵀ − J), with H s = x."""

    # cost, x, s, w: (many, cones, 3), s = cost + Aᵀy
    cost: FloatArray
    x: FloatArray
    s: FloatArray
    w: FloatArray
    square: FloatArray  # (many, cones)
    # y, missed: (many, rows), missed = b − A x
    y: FloatArray
    missed: FloatArray
    b: FloatArray  # (rows,)

    @staticmethod
    def of(cost: FloatArray, b: FloatArray) -> Points:
        """At the origin."""
        (x, s, w), (y, missed) = np.zeros((3, *cost.shape)), np.zeros((2, len(cost), b.size))
        return Points(cost, x, s, w, np.zeros(cost.shape[:2]), y, missed, b)


class Steps(NamedTuple):
    """Steps: dx + H ds = h, A dx = missed, for h = −W z, λ∘z = aim, λ = W s."""

    # aim, h, dx, ds: (steps, cones, 3)
    aim: FloatArray
    h: FloatArray
    dx: FloatArray
    ds: FloatArray
    # dy, left: (steps, rows), left = A dx − missed, or what solves the system for it
    dy: FloatArray
    left: FloatArray
    reach: FloatArray  # (steps, 2) the longest steps of x and of s, at most two

    @staticmethod
    def of(steps: int, cones: int, rows: int) -> Steps:
        """Room for a number of ``steps``."""
        aim, h, dx, ds = np.zeros((4, steps, cones, 3))
        dy, left = np.zeros((2, steps, rows))
        return Steps(aim, h, dx, ds, dy, left, np.zeros((steps, 2)))


@part()
def _vector(x: FloatArray, c: int) -> Vector:
    return x[c, 0], x[c, 1], x[c, 2]


@part()
def _inner(x: Vector, y: Vector) -> float:
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


@part()
def _determinant(x: Vector) -> float:
    """x₀² − ‖x_T‖²."""
    size = math.sqrt(x[1] * x[1] + x[2] * x[2])
    return (x[0] - size) * (x[0] + size)


@part()
def _jordan(x: Vector, y: Vector) -> Vector:
    """x∘y = (xᵀy, x₀ y_T + y₀ x_T)."""
    return _inner(x, y), x[0] * y[1] + y[0] * x[1], x[0] * y[2] + y[0] * x[2]


@part()
def _scaled(w: Vector, root: float, v: Vector) -> Vector:
    """W v, where W² = root² (2 w wᵀ − J)."""
    head = _inner(w, v)
    ahead = (head + v[0]) / (1.0 + w[0])
    return root * head, root * (v[1] + w[1] * ahead), root * (v[2] + w[2] * ahead)


@part()
def _unscaled(w: Vector, root: float, v: Vector) -> Vector:
    """W⁻¹ v = J W J v / root²."""
    x, y, z = _scaled(w, 1.0 / root, (v[0], -v[1], -v[2]))
    return x, -y, -z


@part()
def _reach(x: FloatArray, change: FloatArray) -> float:
    """The longest step with x + step · change in all cones, at most two."""
    reach = 2.0
    for c in range(x.shape[0]):
        at, way = _vector(x, c), _vector(change, c)
        room, a = _determinant(at), _determinant(way)
        b = at[0] * way[0] - at[1] * way[1] - at[2] * way[2]
        below = math.sqrt(max(b * b - a * room, 0.0)) - b
        if below * reach > room:
            reach = room / below
    return reach


@part()
def _transposed(rows: Rows, y: FloatArray, c: int) -> Vector:
    """Aᵀy of one cone."""
    x0 = x1 = x2 = 0.0
    for p in range(rows.first[c], rows.first[c + 1]):
        factor = y[rows.row[p]]
        x0 += rows.value[p, 0] * factor
        x1 += rows.value[p, 1] * factor
        x2 += rows.value[p, 2] * factor
    return x0, x1, x2


@part()
def _add_product(rows: Rows, c: int, x: Vector, result: FloatArray) -> None:
    """Add A x of one cone."""
    for p in range(rows.first[c], rows.first[c + 1]):
        result[rows.row[p]] += _inner(_vector(rows.value, p), x)


@compiled(nogil=True)
def assemble(rows: Rows, programs: IntArray, at: Points, bands: FloatArray) -> None:
    """The scaling, and the lower bands of A H Aᵀ (many, rows · height), column by column."""
    below = bands.shape[1] // at.b.size - 1
    for m in programs:
        x, s, w, square, band = at.x[m], at.s[m], at.w[m], at.square[m], bands[m]
        for i in range(band.size):
            band[i] = 0.0
        for c in range(x.shape[0]):
            u, v = _vector(x, c), _vector(s, c)
            one, other = math.sqrt(_determinant(u)), math.sqrt(_determinant(v))
            half = math.sqrt(2.0 + 2.0 * (_inner(u, v) / one / other))
            w0 = (u[0] / one + v[0] / other) / half
            w1 = (u[1] / one - v[1] / other) / half
            w2 = (u[2] / one - v[2] / other) / half
            w[c, 0], w[c, 1], w[c, 2], square[c] = w0, w1, w2, one / other
            for p in range(rows.first[c], rows.first[c + 1]):
                a, i = _vector(rows.value, p), rows.row[p]  # of entries (i, j), i ≥ j
                head = 2.0 * _inner((w0, w1, w2), a)
                g0 = square[c] * (head * w0 - a[0])
                g1 = square[c] * (head * w1 + a[1])
                g2 = square[c] * (head * w2 + a[2])
                for q in range(rows.first[c], p + 1):
                    entry = _inner((g0, g1, g2), _vector(rows.value, q))
                    band[rows.row[q] * below + i] += entry
        for i in range(0, band.size, below + 1):
            band[i] *= 1.0 + _RIDGE


@compiled(nogil=True)
def correct(programs: IntArray, at: Points, steps: Steps, mu: FloatArray) -> None:
    """Mehrotra's μ (many,) and aim, after his predictor."""
    for m in programs:
        x, s, w, dx, ds, aim = at.x[m], at.s[m], at.w[m], steps.dx[m], steps.ds[m], steps.aim[m]
        a, b = min(steps.reach[m, 0], 1.0), min(steps.reach[m, 1], 1.0)
        gap = ahead = 0.0
        for c in range(x.shape[0]):
            for k in range(3):
                gap += x[c, k] * s[c, k]
                ahead += (x[c, k] + a * dx[c, k]) * (s[c, k] + b * ds[c, k])
        mu[m] = gap / x.shape[0] * min(max(ahead / gap, 0.0), 1.0) ** 3 * _BOLD
        for c in range(x.shape[0]):
            around, root = _vector(w, c), math.sqrt(at.square[m, c])
            turned = _scaled(around, root, _vector(s, c))
            one = _jordan(turned, turned)
            back = _unscaled(around, root, _vector(dx, c))
            other = _jordan(back, _scaled(around, root, _vector(ds, c)))
            aim[c, 0] = one[0] + other[0] - mu[m]
            aim[c, 1], aim[c, 2] = one[1] + other[1], one[2] + other[2]


@compiled(nogil=True)
def lengthen(
    programs: IntArray, at: Points, steps: Steps, places: IntArray, mu: FloatArray, trials: IntArray
) -> None:
    """Aims of ``trials`` that may be longer than the steps at ``places``: J. Gondzio's correction.

    The eigenvalues of x∘s at the end of a step somewhat longer are moved to where they should be.
    """
    for i in range(programs.size):
        m, n, t = programs[i], places[i], trials[i]
        s, w, dx, ds = at.s[m], at.w[m], steps.dx[n], steps.ds[n]
        a, b = min(steps.reach[n, 0] + _LONGER, 1.0), min(steps.reach[n, 1] + _LONGER, 1.0)
        least, most = _LEAST * mu[m], _MOST * mu[m]
        for c in range(s.shape[0]):
            around, root = _vector(w, c), math.sqrt(at.square[m, c])
            turned = _scaled(around, root, _vector(s, c))
            one = _unscaled(around, root, _vector(dx, c))
            two = _scaled(around, root, _vector(ds, c))
            one = turned[0] + a * one[0], turned[1] + a * one[1], turned[2] + a * one[2]
            two = turned[0] + b * two[0], turned[1] + b * two[1], turned[2] + b * two[2]
            v = _jordan(one, two)
            size = math.sqrt(v[1] * v[1] + v[2] * v[2])
            low, high = v[0] - size, v[0] + size
            low = max(min(max(low, least), most) - low, -most)
            high = max(min(max(high, least), most) - high, -most)
            share = 0.5 * (high - low) / size if size > 0.0 else 0.0
            steps.aim[t, c, 0] = steps.aim[n, c, 0] - 0.5 * (low + high)
            steps.aim[t, c, 1] = steps.aim[n, c, 1] - share * v[1]
            steps.aim[t, c, 2] = steps.aim[n, c, 2] - share * v[2]


@compiled(nogil=True)
def direct(rows: Rows, programs: IntArray, at: Points, steps: Steps, places: IntArray) -> None:
    """h and ``left`` of the aims of the steps at ``places``."""
    for k in range(programs.size):
        m, n = programs[k], places[k]
        s, w, square, aim, h = at.s[m], at.w[m], at.square[m], steps.aim[n], steps.h[n]
        left, dy = steps.left[n], steps.dy[n]
        for i in range(left.size):
            left[i], dy[i] = -at.missed[m, i], 0.0
        for c in range(s.shape[0]):
            around, root, target = _vector(w, c), math.sqrt(square[c]), _vector(aim, c)
            turned = _scaled(around, root, _vector(s, c))
            head = turned[0] * target[0] - turned[1] * target[1] - turned[2] * target[2]
            head /= _determinant(turned)
            z1 = (target[1] - head * turned[1]) / turned[0]
            z2 = (target[2] - head * turned[2]) / turned[0]
            h[c, 0], h[c, 1], h[c, 2] = _scaled(around, -root, (head, z1, z2))
            _add_product(rows, c, _vector(h, c), left)


@compiled(nogil=True)
def follow(rows: Rows, programs: IntArray, at: Points, steps: Steps, places: IntArray) -> None:
    """Add to dy what solves the system for ``left``; then ds = Aᵀdy, dx, ``left`` and the reach."""
    for k in range(programs.size):
        m, n = programs[k], places[k]
        w, square, h, dx, ds = at.w[m], at.square[m], steps.h[n], steps.dx[n], steps.ds[n]
        dy, left = steps.dy[n], steps.left[n]
        for i in range(left.size):
            dy[i] += left[i]
            left[i] = -at.missed[m, i]
        for c in range(h.shape[0]):
            d0, d1, d2 = _transposed(rows, dy, c)
            head = 2.0 * _inner(_vector(w, c), (d0, d1, d2))
            ds[c, 0], ds[c, 1], ds[c, 2] = d0, d1, d2
            dx[c, 0] = h[c, 0] - square[c] * (head * w[c, 0] - d0)
            dx[c, 1] = h[c, 1] - square[c] * (head * w[c, 1] + d1)
            dx[c, 2] = h[c, 2] - square[c] * (head * w[c, 2] + d2)
            _add_product(rows, c, _vector(dx, c), left)
        steps.reach[n, 0], steps.reach[n, 1] = _reach(at.x[m], dx), _reach(at.s[m], ds)


@compiled(nogil=True)
def advance(
    rows: Rows,
    programs: IntArray,
    at: Points,
    steps: Steps,
    places: IntArray,
    share: float,
    ends: FloatArray,
) -> None:
    """Take ``share`` of the longest steps at ``places``, at most whole ones.

    ``ends`` (many, 3) are the gap xᵀs, the largest entry of b − A x, and the value.
    """
    for k in range(programs.size):
        m, n = programs[k], places[k]
        x, y, s, missed = at.x[m], at.y[m], at.s[m], at.missed[m]
        a, b = min(share * steps.reach[n, 0], 1.0), min(share * steps.reach[n, 1], 1.0)
        for i in range(y.size):
            y[i] += b * steps.dy[n, i]
            missed[i] = -at.b[i]
        gap = most = value = 0.0
        for c in range(x.shape[0]):
            d = _transposed(rows, y, c)
            for i in range(3):
                x[c, i] += a * steps.dx[n, c, i]
                s[c, i] = at.cost[m, c, i] + d[i]
                value += at.cost[m, c, i] * x[c, i]
            gap += _inner(_vector(x, c), _vector(s, c))
            _add_product(rows, c, _vector(x, c), missed)
        for i in range(y.size):
            missed[i] = -missed[i]
            most = max(most, abs(missed[i]))
        ends[m, 0], ends[m, 1], ends[m, 2] = gap, most, value
