"""Many cone programs over one bounded set of forces: min cᵀx, A x = b, x in Lorentz cones.

Only the cost c differs. All start at the analytic centre of the set, where x∘s = e for s = Aᵀy:
then (x, c + t Aᵀy) is feasible for both the program and its dual, once t is large enough for c, and
near the central path. Steps are Mehrotra's with the scaling of Nesterov and Todd (E. D. Andersen,
C. Roos & T. Terlaky, Math. Program. 95, 2003). The matrix A H Aᵀ of a step, H the scaling, has a
Cholesky factor within its band. Cones have three components: zeros are added to those of the plane
and to half-lines. Points of many programs side by side are arrays (3, cones, many).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba.extending import get_cython_function_address
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cdopt._util.checks import FloatArray
from cdopt.hyperstatic.centre import FLIP, analytic_centre, determinant, fall

_STEPS = 60  # of one program
_GAP = 1e-8  # of the value, or of the unit of forces if that is larger: where a program ends,
_STALLS = 3  # or after this many steps in turn without progress
_NEAR = 0.5  # share of the centre's s that a cost may change
_TO_BOUNDARY = 0.99
_PASSES = 2  # of a step's linear system, the second one refines
_RIDGE = 1e-14  # of the diagonal, for rows of A that depend on each other
_ROW, _COLUMN = np.triu_indices(3)  # the entries of a symmetric block


def _lapack(name: str, arguments: int) -> Any:
    """A routine of SciPy's LAPACK; SciPy's own interface would keep Python's lock."""
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


_FACTORISE, _SOLVE = _lapack("dpbtrf", 6), _lapack("dpbtrs", 9)


class ConePrograms:
    """Programs min cᵀx subject to A x = b and x in Lorentz cones, with one A and b.

    Parameters
    ----------
    A : (rows, cones · 3), the components of a cone side by side. b : (rows,).
    x : (cones, 3), a point inside the cones.
    """

    def __init__(self, A: sp.csr_array, b: FloatArray, x: FloatArray) -> None:
        touched = sp.csr_array(abs(A) @ sp.kron(sp.eye_array(len(x)), np.ones((3, 1))))
        order = reverse_cuthill_mckee(sp.csr_matrix(touched @ touched.T), symmetric_mode=True)
        by_component = np.arange(x.size).reshape(x.shape).T.ravel()
        self.A, self.b = sp.csr_array(A[order][:, by_component]), b[order]
        self.order, self.At = np.argsort(order), sp.csr_array(self.A.T)
        self._band = self._banded(sp.csc_array(touched[order]))
        x, y, _ = analytic_centre(A, b, x)
        s = (A.T @ y).reshape(x.shape)
        self.centre = x.T[..., None], s[:, 0] - np.linalg.norm(s[:, 1:], axis=1), y[order]

    def _banded(self, pattern: sp.csc_array) -> sp.csr_array:
        """The lower band of A H Aᵀ, column by column, from the six entries of each block of H.

        Its rows are those of the ``_places`` that are not always zero, a fifth of the band.
        """
        pattern.sort_indices()
        cones, first = pattern.shape[1], pattern.indptr[1:-1]
        cone = np.repeat(np.arange(cones), np.diff(pattern.indptr))
        entries = [self.A[pattern.indices, k * cones + cone] for k in range(3)]
        rows, blocks = np.split(pattern.indices, first), np.split(np.column_stack(entries), first)
        self.height = 1 + max((int(r[-1] - r[0]) for r in rows if r.size), default=0)
        places, values, columns = [], [], []
        for c, (r, V) in enumerate(zip(rows, blocks, strict=True)):
            i, j = np.tril_indices(r.size)
            both = V[i][:, _ROW] * V[j][:, _COLUMN]
            both += np.where(_ROW != _COLUMN, V[i][:, _COLUMN] * V[j][:, _ROW], 0.0)
            places.append(np.repeat(r[i] - r[j] + r[j] * self.height, 6))
            columns.append(np.tile(c + cones * np.arange(6), i.size))
            values.append(both.ravel())
        triplets = np.concatenate(values), (np.concatenate(places), np.concatenate(columns))
        result = sp.csr_array(triplets, shape=(self.b.size * self.height, 6 * cones))
        result.eliminate_zeros()
        self._places = np.flatnonzero(np.diff(result.indptr))
        return result[self._places]

    def solve(self, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x (3, cones, many) and multipliers (rows, many), feasible, of costs (3, cones, many)."""
        (x, room, y), many = self.centre, cost.shape[2]
        t = (np.linalg.norm(cost, axis=0) / room[:, None]).max(axis=0, initial=0.0) / _NEAR
        x, y = np.repeat(x, many, axis=2), y[:, None] * t
        best, least, stalls = (x.copy(), y.copy()), np.full(many, np.inf), np.zeros(many, int)
        left = np.arange(many)
        for _ in range(_STEPS):
            s = cost[..., left] + self._transposed(y)
            missed, gap = self.b[:, None] - self._product(x), (x * s).sum(axis=(0, 1))
            error = gap + np.abs(missed).max(axis=0)
            stalls[left] = np.where(error < 0.95 * least[left], 0, stalls[left] + 1)
            better = error < least[left]
            least[left[better]] = error[better]
            best[0][..., left[better]], best[1][:, left[better]] = x[..., better], y[:, better]
            enough = _GAP * np.maximum(np.abs((cost[..., left] * x).sum(axis=(0, 1))), 1.0)
            going = (gap > enough) & (gap < np.inf) & (stalls[left] < _STALLS)
            if not going.any():
                break
            if not going.all():
                x, s, y, missed = x[..., going], s[..., going], y[:, going], missed[:, going]
                left = left[going]
            x, y = self._stepped(x, y, s, missed)
        return best[0], best[1][self.order]

    def _product(self, x: FloatArray) -> FloatArray:
        """A x (rows, many) of x (3, cones, many)."""
        return np.asarray(self.A @ x.reshape(-1, x.shape[2]))

    def _transposed(self, y: FloatArray) -> FloatArray:
        """Aᵀy (3, cones, many) of y (rows, many)."""
        return np.asarray((self.At @ y).reshape(3, -1, y.shape[1]))

    def _stepped(
        self, x: FloatArray, y: FloatArray, s: FloatArray, missed: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """x and y after a step; not-a-number without a Cholesky factor."""
        one, other, inner = np.sqrt(determinant(x)), np.sqrt(determinant(s)), (x * s).sum(axis=0)
        w = (x / one + FLIP * (s / other)) / np.sqrt(2.0 + 2.0 * inner / (one * other))
        square = one / other  # H = square (2 w wᵀ − J) has H s = x, and H = W²
        H = 2.0 * w[_ROW] * w[_COLUMN] - np.diag(FLIP[:, 0, 0])[_ROW, _COLUMN, None, None]
        bands = np.zeros((x.shape[2], self.b.size * self.height))
        for band, blocks in zip(bands, (square * H).reshape(-1, x.shape[2]).T, strict=True):
            band[self._places] = self._band @ blocks
        bands[:, :: self.height] *= 1.0 + _RIDGE
        sizes = (self.b.size, self.height - 1, self.height, 1)
        n, below, height, single = (ctypes.byref(ctypes.c_int(k)) for k in sizes)
        failed = ctypes.c_int()
        for band in bands:
            _FACTORISE(b"L", n, below, band.ctypes.data, height, ctypes.byref(failed))
            band[0] = np.nan if failed.value else band[0]

        def step(h: FloatArray, left: FloatArray, passes: int) -> tuple[FloatArray, ...]:
            """dx, ds = Aᵀdy, dy with dx + H ds = h, A dx = missed; left = A h − missed."""
            dy = np.zeros(y.shape)
            for _ in range(passes):
                rights = np.asfortranarray(left).T
                for band, right in zip(bands, rights, strict=True):
                    data = band.ctypes.data, height, right.ctypes.data
                    _SOLVE(b"L", n, below, single, *data, n, ctypes.byref(failed))
                dy += rights.T
                ds = self._transposed(dy)
                dx = h - square * (2.0 * (w * ds).sum(axis=0) * w - FLIP * ds)
                left = self._product(dx) - missed
            return dx, ds, dy

        root, minus = np.sqrt(square), np.repeat(-self.b[:, None], x.shape[2], axis=1)
        dx, ds, _ = step(-x, minus, 1)
        a, b = np.minimum(1.0 / fall(x, dx), 1.0), np.minimum(1.0 / fall(s, ds), 1.0)
        gap, ahead = inner.sum(axis=0), ((x + a * dx) * (s + b * ds)).sum(axis=(0, 1))
        mu = gap / x.shape[1] * np.clip(ahead / gap, 0.0, 1.0) ** 3
        turned = root * _scaled(w, s)  # λ = W s = W⁻¹ x
        back = FLIP * _scaled(w, FLIP * dx) / root  # W⁻¹ dx, where W⁻¹ = J W J / square
        aim = _jordan(turned, turned) + _jordan(back, root * _scaled(w, ds))
        aim[0] -= mu
        head = turned[1] * aim[1] + turned[2] * aim[2] - turned[0] * aim[0]
        head = head / determinant(turned)
        z = -(aim + head * turned) / turned[0]  # λ∘z = μ e − λ∘λ − W⁻¹dx∘W ds
        z[0] = head
        h = root * _scaled(w, z)
        dx, ds, dy = step(h, self._product(h) - missed, _PASSES)
        a = np.minimum(_TO_BOUNDARY / fall(x, dx), 1.0)
        return x + a * dx, y + np.minimum(_TO_BOUNDARY / fall(s, ds), 1.0) * dy


def _jordan(x: FloatArray, y: FloatArray) -> FloatArray:
    """x∘y = (xᵀy, x₀ y_T + y₀ x_T)."""
    result = x[0] * y + y[0] * x
    result[0] = (x * y).sum(axis=0)
    return np.asarray(result)


def _scaled(w: FloatArray, v: FloatArray) -> FloatArray:
    """W v / √square, where H = W²."""
    head = (w * v).sum(axis=0)
    result = v + (head + v[0]) / (1.0 + w[0]) * w
    result[0] = head
    return np.asarray(result)
