"""Many cone programs over one bounded set of forces: min cᵀx, A x = b, x in Lorentz cones.

Only the cost c differs. All start at the analytic centre of the set, where x∘s = e for s = Aᵀy:
then (x, c + t Aᵀy) is feasible for both the program and its dual, once t is large enough for c, and
near the central path. Steps are Mehrotra's with the scaling of Nesterov and Todd (E. D. Andersen,
C. Roos & T. Terlaky, Math. Program. 95, 2003). The matrix A H Aᵀ of a step, H the scaling, has a
Cholesky factor within its band. Cones have three components: zeros are added to those of the plane
and to half-lines.

Loops and LAPACK run without Python's lock, so that programs run side by side in threads.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba.extending import get_cython_function_address
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part

_STEPS = 60  # of one program
_NEWTON = 100  # steps to the analytic centre
_CENTRED = 1e-9  # its residual, below which steps that gain nothing end the search
_DAMPING = 1e-14  # of its normal equations, whose rows may be redundant
_REFINED = 4  # passes, which take the damping out again
_FLIP = np.array([1.0, -1.0, -1.0])
_GAP = 1e-8  # of the value, or of the unit of forces if that is larger: where a program ends,
_STALLS = 3  # or after so many steps in turn without progress
_NEAR = 0.5  # share of the centre's s that a cost may change
_TO_BOUNDARY = 0.99
_PASSES = 2  # of a step's linear system, the second one refines
_RIDGE = 1e-14  # of the diagonal, for rows of A that depend on each other


def _lapack(name: str, arguments: int) -> Any:
    """A routine of SciPy's LAPACK; SciPy's own interface would keep Python's lock."""
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


_FACTORISE, _SOLVE = _lapack("dpbtrf", 6), _lapack("dpbtrs", 9)
_ONE = ctypes.byref(ctypes.c_int(1))


class _Rows(NamedTuple):
    """A by cones.

    Attributes
    ----------
    first : (cones + 1,) where the entries of each cone begin.
    row : (entries,) ascending within a cone. value : (entries, 3).
    """

    first: IntArray
    row: IntArray
    value: FloatArray


class _Arrays(NamedTuple):
    """A point of one program, the step from it, and room for its linear system.

    Attributes
    ----------
    x, s, dx, ds : (cones, 3). y, dy : (rows,). missed : (rows,) b − A x.
    h, left : (cones, 3) and (rows,), right sides. w, square : (cones, 3) and (cones,), the scaling.
    band : (rows, width + 1) lower triangle of A H Aᵀ, column by column, or its factor.
    """

    x: FloatArray
    s: FloatArray
    dx: FloatArray
    ds: FloatArray
    h: FloatArray
    w: FloatArray
    square: FloatArray
    y: FloatArray
    dy: FloatArray
    missed: FloatArray
    left: FloatArray
    band: FloatArray


# --- the analytic centre -----------------------------------------------------------------------


def determinant(x: FloatArray) -> FloatArray:
    """x₀² − ‖x_T‖² of x (cones, 3)."""
    size = np.linalg.norm(x[:, 1:], axis=1)
    return np.asarray((x[:, 0] - size) * (x[:, 0] + size))


def fall(x: FloatArray, change: FloatArray) -> float:
    """The fastest that x (cones, 3) nears its cones' surface along a change, per its distance."""
    inner, c = np.sum(_FLIP * x * change, axis=1), determinant(x)
    root = np.sqrt(np.maximum(inner**2 - determinant(change) * c, 0.0))
    return max(float(((root - inner) / c).max(initial=0.0)), 0.0)


def curvature(x: FloatArray) -> FloatArray:
    """(cones, 3, 3) second derivative of the barrier −½ log det at x (cones, 3)."""
    det = determinant(x)[:, None]
    turned = _FLIP * x / det
    return np.asarray(2.0 * turned[:, :, None] * turned[:, None] - np.diag(_FLIP) / det[:, :, None])


def analytic_centre(
    A: sp.csr_array, b: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """argmax Σ ½ log det x over A x = b, its multipliers y with x∘Aᵀy = e, and its residual.

    Newton's method from x (cones, 3) inside the cones, on Jx/det = Aᵀy and A x = b, J = diag(1, −1,
    −1). The inverse of the barrier's curvature is 2 x xᵀ − det J. On a half-line, padded with
    zeros, the barrier is log x. The residual stays large where the set has no bound.
    """
    best, least, eye = (x, np.zeros(b.size)), np.inf, sp.eye_array(b.size, format="csc")
    places = (np.arange(len(x)), np.arange(len(x) + 1))
    for _ in range(_NEWTON if b.size else 0):
        det = determinant(x)[:, None]
        inverse = 2.0 * x[:, :, None] * x[:, None] - np.diag(_FLIP) * det[:, :, None]
        scaled = sp.csr_array(A @ sp.bsr_array((inverse, *places)))
        normal = sp.csc_matrix(scaled @ A.T)
        factors = splu(normal + _DAMPING * max(float(abs(normal).max()), 1e-200) * eye)
        balance = A @ x.ravel()
        right, y = 2.0 * balance - b, np.zeros(b.size)
        for _ in range(_REFINED):
            y += factors.solve(right - normal @ y)
        change = x - (scaled.T @ y).reshape(x.shape)
        slope = _FLIP * x / det - (A.T @ y).reshape(x.shape)
        decrement = np.sqrt(np.maximum(np.sum(change * slope, axis=1), 0.0))
        residual = max(float(decrement.max()), float(np.abs(b - balance).max()))
        if residual < least:
            best, least = (x, y), residual
        elif least <= _CENTRED or not residual < np.inf:
            break
        fastest = fall(x, change)
        x = x + change * min(1.0, 0.9 / fastest if fastest > 0.0 else 1.0)
    return *best, least if b.size else np.nan


# --- programs ----------------------------------------------------------------------------------


class ConePrograms:
    """Programs min cᵀx subject to A x = b and x in Lorentz cones, with one A and b.

    Parameters
    ----------
    A : (rows, cones · 3), the components of a cone side by side. b : (rows,).
    x : (cones, 3), a point inside the cones.
    """

    def __init__(self, A: sp.csr_array, b: FloatArray, x: FloatArray) -> None:
        cones = len(x)
        touched = sp.csr_array(abs(A) @ sp.kron(sp.eye_array(cones), np.ones((3, 1))))
        order = reverse_cuthill_mckee(sp.csr_matrix(touched @ touched.T), symmetric_mode=True)
        self.order = np.argsort(order)
        pattern = sp.csc_array(touched[order])
        pattern.sort_indices()
        row, cone = pattern.indices, np.repeat(np.arange(cones), np.diff(pattern.indptr))
        value = np.stack([A[order[row], 3 * cone + k] for k in range(3)], axis=1)
        first = pattern.indptr.astype(np.int64)
        self.rows = _Rows(first, row.astype(np.int64), np.ascontiguousarray(value))
        full = np.diff(first) > 0
        ends = row[first[1:][full] - 1] - row[first[:-1][full]]
        self.b, self.width = b[order], int(ends.max(initial=0))
        x, y, self.residual = analytic_centre(A, b, x)
        s = (A.T @ y).reshape(x.shape)
        self.centre = x, s[:, 0] - np.linalg.norm(s[:, 1:], axis=1), y[order]

    def solve(self, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x (cones, 3) and multipliers y (rows,) of a cost (cones, 3).

        c + Aᵀy is in the cones and A x = b, up to round-off; the gap is as small as arithmetic
        allows, which the caller has to judge.
        """
        x, room, y = self.centre
        t = float((np.linalg.norm(cost, axis=1) / room).max(initial=0.0)) / _NEAR
        point = _Program(self, cost, x, t * y)
        best, least, stalls = (x, t * y), np.inf, 0
        for _ in range(_STEPS):
            error = point.gap + point.off
            stalls = 0 if error < 0.95 * least else stalls + 1
            if error < least:
                best, least = (point.at.x.copy(), point.at.y.copy()), error
            enough = _GAP * max(abs(float((cost * point.at.x).sum())), 1.0)
            if not (enough < point.gap < np.inf) or stalls >= _STALLS or not point.step():
                break
        return best[0], best[1][self.order]


class _Program:
    """A point of one program and its steps; ``gap`` is xᵀs, ``off`` the largest of b − A x."""

    def __init__(
        self, programs: ConePrograms, cost: FloatArray, x: FloatArray, y: FloatArray
    ) -> None:
        self.rows, self.b, self.cost, height = programs.rows, programs.b, cost, programs.width + 1
        s, dx, ds, h, w = np.zeros((5, *x.shape))
        (dy, missed, left), square = np.zeros((3, y.size)), np.empty(len(x))
        band = np.empty((y.size, height))
        self.at = _Arrays(x.copy(), s, dx, ds, h, w, square, y.copy(), dy, missed, left, band)
        self._sizes = [ctypes.byref(ctypes.c_int(k)) for k in (y.size, height - 1, height)]
        self._factor, self._right = band.ctypes.data, left.ctypes.data
        self.gap, self.off = _moved(self.rows, self.b, cost, self.at)

    def step(self) -> bool:
        """One step of predictor and corrector; False without a Cholesky factor."""
        (n, below, height), failed = self._sizes, ctypes.c_int()
        _assemble(self.rows, self.at)
        _FACTORISE(b"L", n, below, self._factor, height, ctypes.byref(failed))
        if failed.value:
            return False
        np.negative(self.at.x, out=self.at.h)
        np.negative(self.b, out=self.at.left)
        self._solve(1)
        _correct(self.rows, self.at)
        self._solve(_PASSES)
        self.gap, self.off = _moved(self.rows, self.b, self.cost, self.at)
        return True

    def _solve(self, passes: int) -> None:
        """dx, ds = Aᵀdy and dy with dx + H ds = h, A dx = missed, from left = A h − missed."""
        (n, below, height), failed = self._sizes, ctypes.byref(ctypes.c_int())
        self.at.dy[:] = 0.0
        for _ in range(passes):
            _SOLVE(b"L", n, below, _ONE, self._factor, height, self._right, n, failed)
            _follow(self.rows, self.at)


# --- loops over the cones ------------------------------------------------------------------

Vector = tuple[float, float, float]


@part()
def _vector(x: FloatArray, c: int) -> Vector:
    return x[c, 0], x[c, 1], x[c, 2]


@part()
def _determinant(x: Vector) -> float:
    """x₀² − ‖x_T‖²."""
    size = math.sqrt(x[1] * x[1] + x[2] * x[2])
    return (x[0] - size) * (x[0] + size)


@part()
def _inner(x: Vector, y: Vector) -> float:
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


@part()
def _product(x: Vector, y: Vector) -> Vector:
    """x∘y = (xᵀy, x₀ y_T + y₀ x_T)."""
    return _inner(x, y), x[0] * y[1] + y[0] * x[1], x[0] * y[2] + y[0] * x[2]


@part()
def _scaled(w: Vector, root: float, v: Vector) -> Vector:
    """W v, where H = W²."""
    head = _inner(w, v)
    ahead = (head + v[0]) / (1.0 + w[0])
    return root * head, root * (v[1] + w[1] * ahead), root * (v[2] + w[2] * ahead)


@part()
def _reach(x: FloatArray, change: FloatArray) -> float:
    """The largest step with x + step · change in all cones, at most two."""
    reach = 2.0
    for c in range(x.shape[0]):
        at, way = _vector(x, c), _vector(change, c)
        room, a = _determinant(at), _determinant(way)
        b = at[0] * way[0] - at[1] * way[1] - at[2] * way[2]
        below = math.sqrt(max(b * b - a * room, 0.0)) - b
        if below * reach > room:
            reach = room / below
    return reach


@compiled(nogil=True)
def _assemble(rows: _Rows, at: _Arrays) -> None:
    """The scaling H = square (2 w wᵀ − J) with H s = x, and the band of A H Aᵀ."""
    x, s, w, square, band = at.x, at.s, at.w, at.square, at.band
    for i in range(band.shape[0]):
        for j in range(band.shape[1]):
            band[i, j] = 0.0
    for c in range(x.shape[0]):
        u, v = _vector(x, c), _vector(s, c)
        one, other = math.sqrt(_determinant(u)), math.sqrt(_determinant(v))
        half = math.sqrt(2.0 + 2.0 * (_inner(u, v) / one / other))
        w[c, 0] = (u[0] / one + v[0] / other) / half
        for k in range(1, 3):
            w[c, k] = (u[k] / one - v[k] / other) / half
        square[c], around = one / other, _vector(w, c)
        for p in range(rows.first[c], rows.first[c + 1]):
            a = _vector(rows.value, p)
            head = 2.0 * _inner(around, a)
            g0 = square[c] * (head * around[0] - a[0])
            g1 = square[c] * (head * around[1] + a[1])
            g2 = square[c] * (head * around[2] + a[2])
            for q in range(rows.first[c], p + 1):
                entry = _inner((g0, g1, g2), _vector(rows.value, q))
                band[rows.row[q], rows.row[p] - rows.row[q]] += entry
    top = 0.0
    for i in range(band.shape[0]):
        top = max(top, band[i, 0])
    for i in range(band.shape[0]):
        band[i, 0] += _RIDGE * top


@compiled(nogil=True)
def _follow(rows: _Rows, at: _Arrays) -> None:
    """Add left to dy; then ds = Aᵀdy, dx = h − H ds and left = A dx − missed."""
    w, square, h, dx, ds, dy, left = at.w, at.square, at.h, at.dx, at.ds, at.dy, at.left
    for i in range(dy.size):
        dy[i] += left[i]
        left[i] = -at.missed[i]
    for c in range(h.shape[0]):
        d0, d1, d2 = _transposed(rows, dy, c)
        ds[c, 0], ds[c, 1], ds[c, 2] = d0, d1, d2
        head = 2.0 * _inner(_vector(w, c), (d0, d1, d2))
        dx[c, 0] = h[c, 0] - square[c] * (head * w[c, 0] - d0)
        dx[c, 1] = h[c, 1] - square[c] * (head * w[c, 1] + d1)
        dx[c, 2] = h[c, 2] - square[c] * (head * w[c, 2] + d2)
        _add_product(rows, _vector(dx, c), c, 1.0, left)


@part()
def _transposed(rows: _Rows, y: FloatArray, c: int) -> Vector:
    """Aᵀy of one cone."""
    d0 = d1 = d2 = 0.0
    for p in range(rows.first[c], rows.first[c + 1]):
        value = y[rows.row[p]]
        d0 += rows.value[p, 0] * value
        d1 += rows.value[p, 1] * value
        d2 += rows.value[p, 2] * value
    return d0, d1, d2


@part()
def _add_product(rows: _Rows, x: Vector, c: int, sign: float, result: FloatArray) -> None:
    """result += sign A x of one cone."""
    for p in range(rows.first[c], rows.first[c + 1]):
        result[rows.row[p]] += sign * _inner(_vector(rows.value, p), x)


@compiled(nogil=True)
def _correct(rows: _Rows, at: _Arrays) -> None:
    """h of Mehrotra's step after his predictor (dx, ds), and left = A h − missed."""
    x, s, w, square, dx, ds, h, left = at.x, at.s, at.w, at.square, at.dx, at.ds, at.h, at.left
    a, b = min(_reach(x, dx), 1.0), min(_reach(s, ds), 1.0)
    gap, ahead = 0.0, 0.0
    for c in range(x.shape[0]):
        for k in range(3):
            gap += x[c, k] * s[c, k]
            ahead += (x[c, k] + a * dx[c, k]) * (s[c, k] + b * ds[c, k])
    mu = gap / x.shape[0] * min(max(ahead / gap, 0.0), 1.0) ** 3
    for i in range(left.size):
        left[i] = -at.missed[i]
    for c in range(x.shape[0]):
        around, root = _vector(w, c), math.sqrt(square[c])
        turned = _scaled(around, root, _vector(s, c))  # λ = W s = W⁻¹ x
        primal = _scaled(around, 1.0 / root, (dx[c, 0], -dx[c, 1], -dx[c, 2]))
        back = (primal[0], -primal[1], -primal[2])  # W⁻¹ dx, where W⁻¹ = J W J / square
        first = _product(turned, turned)
        second = _product(back, _scaled(around, root, _vector(ds, c)))
        aim0, aim1, aim2 = first[0] + second[0] - mu, first[1] + second[1], first[2] + second[2]
        head = -(turned[0] * aim0 - turned[1] * aim1 - turned[2] * aim2) / _determinant(turned)
        z1 = (-aim1 - head * turned[1]) / turned[0]
        z2 = (-aim2 - head * turned[2]) / turned[0]  # λ∘z = μ e − λ∘λ − W⁻¹dx∘W ds
        h[c, 0], h[c, 1], h[c, 2] = _scaled(around, root, (head, z1, z2))
        _add_product(rows, _vector(h, c), c, 1.0, left)


@compiled(nogil=True)
def _moved(rows: _Rows, b: FloatArray, cost: FloatArray, at: _Arrays) -> tuple[float, float]:
    """Move along (dx, dy) while inside the cones; xᵀs and the largest entry of missed = b − A x."""
    x, s, y, dx, missed = at.x, at.s, at.y, at.dx, at.missed
    primal, dual = min(_TO_BOUNDARY * _reach(x, dx), 1.0), min(_TO_BOUNDARY * _reach(s, at.ds), 1.0)
    for i in range(y.size):
        y[i] += dual * at.dy[i]
        missed[i] = b[i]
    gap, most = 0.0, 0.0
    for c in range(x.shape[0]):
        d0, d1, d2 = _transposed(rows, y, c)
        s[c, 0], s[c, 1], s[c, 2] = cost[c, 0] + d0, cost[c, 1] + d1, cost[c, 2] + d2
        for k in range(3):
            x[c, k] += primal * dx[c, k]
        _add_product(rows, _vector(x, c), c, -1.0, missed)
        gap += _inner(_vector(x, c), _vector(s, c))
    for i in range(y.size):
        most = max(most, abs(missed[i]))
    return gap, most
