"""Many cone programs over one bounded set of forces: min cᵀx, A x = b, x in Lorentz cones.

Only the cost c differs. All start at the analytic centre of the set, where x∘s = e for some
s = Aᵀy: then (x, c + t Aᵀy) is feasible for both the program and its dual, once t is large enough
for c, and near the central path. Steps are Mehrotra's with the scaling of Nesterov and Todd (E. D.
Andersen, C. Roos & T. Terlaky, Math. Program. 95, 2003). The matrix A H Aᵀ of a step is linear in
the scaling H, hence one sparse product; it has a Cholesky factor within its band. A half-line is a
Lorentz cone without tangential components.

Points x and s of several programs are (d, cones, programs), y is (rows, programs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpbtrf, dpbtrs
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cdopt._util.checks import FloatArray, IntArray

_STEPS = 60  # of one program
_CENTRED = 0.1  # largest ‖x∘s/μ − e‖ of a contact at the start
_GAP = 1e-8  # of the value, or of the unit of forces if that is larger: where a program ends,
_STALLS = 3  # or after so many steps in turn without progress
_NEAR = 0.5  # share of the centre's s that a cost may change
_TO_BOUNDARY = 0.99
_PASSES = 2  # of a step's linear system, the second one refines
_RIDGE = 1e-14  # of the diagonal, for rows of A that depend on each other
_NUMBERS = 4e6  # in the bands of one batch
_BATCH = 8


class _Points(NamedTuple):
    x: FloatArray
    s: FloatArray
    y: FloatArray

    def of(self, chosen: FloatArray | IntArray) -> _Points:
        """Those of some programs."""
        return _Points(*(array[..., chosen] for array in self))

    @property
    def gap(self) -> FloatArray:
        """(programs,) xᵀs."""
        return np.asarray((self.x * self.s).sum(axis=(0, 1)))


class ConePrograms:
    """Programs min cᵀx subject to A x = b and x in Lorentz cones, with one A and b.

    Parameters
    ----------
    A : (rows, d · cones), all first components before all second ones; columns of half-lines beyond
        the first component are zero.
    b : (rows,).
    x, y : (d, cones) and (rows,) with x and Aᵀy inside the cones.
    """

    def __init__(self, A: sp.csr_array, b: FloatArray, x: FloatArray, y: FloatArray) -> None:
        self.d, self.cones = x.shape
        touched = sp.csr_array(abs(A) @ sp.vstack([sp.eye_array(self.cones)] * self.d))
        graph = sp.csr_matrix(touched @ touched.T)
        order = reverse_cuthill_mckee(graph, symmetric_mode=True)
        self.A, self.b = sp.csr_array(A[order]), b[order][:, None]
        self.transposed = sp.csr_array(self.A.T)
        self.order = np.argsort(order)
        self._products()
        band = (self.width + 1) * self.b.size
        self.batch = int(max(1, min(_BATCH, _NUMBERS // max(band, 1))))
        self.centre = self._centred(x, y[order])

    def _products(self) -> None:
        """The map from the entries of H, upper triangles, to the band of A H Aᵀ."""
        columns = sp.csc_array(self.A)
        begin, end, d = columns.indptr[:-1], columns.indptr[1:], self.d
        self.upper = [(k, m) for k in range(d) for m in range(k, d)]
        rows, below, values, sources = [], [], [], []
        for number, (k, m) in enumerate(self.upper):
            for cone in range(self.cones):
                for one, other in {(k, m), (m, k)}:
                    p, q = one * self.cones + cone, other * self.cones + cone
                    mine, others = slice(begin[p], end[p]), slice(begin[q], end[q])
                    i, j = np.meshgrid(
                        columns.indices[mine], columns.indices[others], indexing="ij"
                    )
                    low = i >= j
                    rows.append(j[low].astype(np.int64))
                    below.append((i - j)[low].astype(np.int64))
                    values.append(np.outer(columns.data[mine], columns.data[others])[low])
                    sources.append(np.full(int(low.sum()), number * self.cones + cone))
        under = np.concatenate(below)
        self.width = int(under.max(initial=0))
        at = np.concatenate(rows) * (self.width + 1) + under, np.concatenate(sources)
        shape = (self.b.size * (self.width + 1), len(self.upper) * self.cones)
        self.assemble = sp.csr_array((np.concatenate(values), at), shape=shape)

    # --- solve -------------------------------------------------------------------------

    def solve(self, costs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x (d, cones, programs) and multipliers y (rows, programs) of costs (d, cones, programs).

        c + Aᵀy is in the cones and A x = b, up to round-off; the gap is as small as arithmetic
        allows, which the caller has to judge.
        """
        x, y = np.empty(costs.shape), np.empty((self.b.size, costs.shape[2]))
        with np.errstate(all="ignore"):  # points that leave the cones by round-off are not chosen
            for first in range(0, costs.shape[2], self.batch):
                part = slice(first, first + self.batch)
                points = self._solve(costs[..., part])
                x[..., part], y[:, part] = points.x, points.y[self.order]
        return x, y

    def _solve(self, costs: FloatArray) -> _Points:
        """The same for one batch."""
        x, s, y = self.centre
        room = s[0] - np.sqrt((s[1:] ** 2).sum(axis=0))
        t = (np.sqrt((costs**2).sum(axis=0)) / room).max(axis=0, initial=0.0) / _NEAR
        many = t.size
        points = _Points(np.repeat(x, many, axis=2), costs + t * s, t * y)
        best = _Points(*(array.copy() for array in points))
        least, stalls, active = np.full(many, np.inf), np.zeros(many, int), np.arange(many)
        for _ in range(_STEPS):
            missed = np.abs(self.b - self.A @ self._flat(points.x)).max(axis=0, initial=0.0)
            error = points.gap + missed
            better = error < least[active]
            stalls[active] = np.where(error < 0.95 * least[active], 0, stalls[active] + 1)
            for kept, new in zip(best, points, strict=True):
                kept[..., active[better]] = new[..., better]
            least[active[better]] = error[better]
            value = np.abs((costs[..., active] * points.x).sum(axis=(0, 1)))
            left = (points.gap > _GAP * np.maximum(value, 1.0)) & (stalls[active] < _STALLS)
            on = np.isfinite(error) & left
            if not on.any():
                break
            points, active = points.of(on), active[on]
            points = self._step(points, costs[..., active], None)
        return best

    def _step(self, at: _Points, costs: FloatArray, mu: FloatArray | None) -> _Points:
        """One step of predictor and corrector, or to the central path at a stated ``mu``."""
        x, s = at.x, at.s
        scaling = _Scaling(x, s)
        solve = self._system(scaling)
        missed = self.b - self.A @ self._flat(x)
        turned = scaling.W(s)  # λ = W s = W⁻¹ x
        aim = -_product(turned, turned)
        if mu is None:
            dx, ds, _ = solve(-x, missed, 1)
            a, c = np.minimum(_reach(x, dx), 1.0), np.minimum(_reach(s, ds), 1.0)
            ahead = ((x + a * dx) * (s + c * ds)).sum(axis=(0, 1))
            mu = at.gap / self.cones * np.clip(ahead / at.gap, 0.0, 1.0) ** 3
            aim -= _product(scaling.inverse(dx), scaling.W(ds))
        aim[0] += mu
        dx, ds, dy = solve(scaling.W(_divided(turned, aim)), missed, _PASSES)
        y = at.y + np.minimum(_TO_BOUNDARY * _reach(s, ds), 1.0) * dy
        dual = costs + (self.transposed @ y).reshape(x.shape)
        return _Points(x + np.minimum(_TO_BOUNDARY * _reach(x, dx), 1.0) * dx, dual, y)

    def _flat(self, x: FloatArray) -> FloatArray:
        return x.reshape(self.d * self.cones, -1)

    def _system(self, scaling: _Scaling) -> Callable[..., tuple[FloatArray, ...]]:
        """The function of (h, missed): dx, ds = Aᵀdy, dy with dx + H ds = h and A dx = missed."""
        entries = np.concatenate([scaling.entry(k, m) for k, m in self.upper])
        factors = []
        for column in entries.T:
            band = (self.assemble @ column).reshape(self.b.size, self.width + 1).T
            band[0] += _RIDGE * band[0].max(initial=0.0)
            factors.append(dpbtrf(band, lower=1, overwrite_ab=1))

        def solve(h: FloatArray, missed: FloatArray, passes: int) -> tuple[FloatArray, ...]:
            dx, ds, dy = h, np.zeros_like(h), np.zeros_like(missed)
            for _ in range(passes):
                left = self.A @ self._flat(dx) - missed
                for p, (factor, failed) in enumerate(factors):
                    dy[:, p] += np.nan if failed else dpbtrs(factor, left[:, p], lower=1)[0]
                ds = (self.transposed @ dy).reshape(h.shape)
                dx = h - scaling.H(ds)
            return dx, ds, dy

        return solve

    def _centred(self, x: FloatArray, y: FloatArray) -> _Points:
        """The analytic centre, scaled to x∘s = e."""
        cost, column = np.zeros((*x.shape, 1)), y[:, None]
        points = _Points(x[..., None], (self.transposed @ column).reshape(cost.shape), column)
        for _ in range(_STEPS):
            mu = points.gap / self.cones
            off = _product(points.x, points.s) / mu
            off[0] -= 1.0
            if np.abs(off).max(initial=0.0) <= _CENTRED:
                break
            points = self._step(points, cost, mu)
        mu = points.gap / self.cones
        return _Points(points.x, points.s / mu, points.y / mu)


# --- algebra of Lorentz cones, the first axis the components --------------------------------


class _Scaling:
    """W and H = W² with H s = x."""

    def __init__(self, x: FloatArray, s: FloatArray) -> None:
        one, other = np.sqrt(_determinant(x)), np.sqrt(_determinant(s))
        u, v = x / one, s / other
        half = np.sqrt(2.0 + 2.0 * (u * v).sum(axis=0))
        w = u - v
        w[0] = u[0] + v[0]
        self.w, self.square = w / half, one / other
        self.root, self.ahead = np.sqrt(self.square), 1.0 + self.w[0]

    def H(self, v: FloatArray) -> FloatArray:
        """H v."""
        result = (2.0 * (self.w * v).sum(axis=0)) * self.w + v
        result[0] -= 2.0 * v[0]
        result *= self.square
        return np.asarray(result)

    def W(self, v: FloatArray) -> FloatArray:
        """W v."""
        head = (self.w * v).sum(axis=0)
        result = v + self.w * ((head + v[0]) / self.ahead)
        result[0] = head
        result *= self.root
        return np.asarray(result)

    def inverse(self, v: FloatArray) -> FloatArray:
        """W⁻¹ v = J W J v / η²."""
        turned = -v
        turned[0] = v[0]
        result = self.W(turned)
        result[1:] *= -1.0
        result /= self.square
        return np.asarray(result)

    def entry(self, k: int, m: int) -> FloatArray:
        """(cones, programs) the entry k, m of H."""
        value = 2.0 * self.w[k] * self.w[m]
        if k == m:
            value += -1.0 if k == 0 else 1.0
        return np.asarray(self.square * value)


def _determinant(x: FloatArray) -> FloatArray:
    """x₀² − ‖x_T‖²."""
    size = np.sqrt((x[1:] ** 2).sum(axis=0))
    return np.asarray((x[0] - size) * (x[0] + size))


def _product(x: FloatArray, y: FloatArray) -> FloatArray:
    """x∘y = (xᵀy, x₀ y_T + y₀ x_T)."""
    result = x[0] * y + y[0] * x
    result[0] = (x * y).sum(axis=0)
    return np.asarray(result)


def _divided(x: FloatArray, y: FloatArray) -> FloatArray:
    """z with x∘z = y."""
    head = (x[0] * y[0] - (x[1:] * y[1:]).sum(axis=0)) / _determinant(x)
    result = (y - head * x) / x[0]
    result[0] = head
    return np.asarray(result)


def _reach(x: FloatArray, change: FloatArray) -> FloatArray:
    """(programs,) the largest step with x + step · change in all cones, at most 1e9."""
    a, c = _determinant(change), _determinant(x)
    b = x[0] * change[0] - (x[1:] * change[1:]).sum(axis=0)
    below = np.sqrt(np.maximum(b * b - a * c, 0.0)) - b
    return np.asarray((c / np.maximum(below, 1e-9 * c)).min(axis=0, initial=1e9))
