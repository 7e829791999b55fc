"""The analytic centre of forces in half-lines and Lorentz cones that deliver a load.

Points are arrays (cones, 3): half-lines are padded with zeros.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray, IntArray

_NEWTON = 100  # steps to the analytic centre
_CENTRED = 1e-9  # its residual, below which steps that gain nothing end the search
_DAMPING = 1e-14  # of its normal equations, whose rows may be redundant
_REFINED = 4  # passes, which take the damping out again
FLIP = np.array([1.0, -1.0, -1.0])[:, None, None]  # J


class ConeTable:
    """How coordinates x (n,) in cones of ``sizes`` are placed in a table (cones, 3).

    Where some cone is larger the table is as wide as the largest, its ``width``.
    """

    def __init__(self, sizes: IntArray) -> None:
        self.cones, self.width = sizes.size, max(3, int(sizes.max(initial=3)))
        first = np.cumsum(sizes) - sizes
        cone = np.repeat(np.arange(sizes.size), sizes)
        self.places = np.asarray(self.width * cone + np.arange(cone.size) - first[cone])

    def of(self, x: FloatArray) -> FloatArray:
        """(cones, 3) of x (n,)."""
        table = np.zeros((self.cones, self.width))
        table.flat[self.places] = x
        return table

    def back(self, table: FloatArray) -> FloatArray:
        """x (n,) of a table (cones, 3)."""
        return np.asarray(table.flat[self.places])

    def matrix(self, A: sp.csr_array) -> sp.csr_array:
        """A (m, n) for tables, (m, 3 cones)."""
        parts = A.data, self.places[A.indices], A.indptr
        return sp.csr_array(parts, shape=(A.shape[0], self.width * self.cones))


def determinant(x: FloatArray) -> FloatArray:
    """x₀² − ‖x_T‖² of x (3, …)."""
    size = np.sqrt(x[1] * x[1] + x[2] * x[2])
    return np.asarray((x[0] - size) * (x[0] + size))


def fall(x: FloatArray, change: FloatArray) -> FloatArray:
    """(many,) for each of ``many`` points x (3, cones, many): fastest approach over distance."""
    inner, c = x[0] * change[0] - x[1] * change[1] - x[2] * change[2], determinant(x)
    root = np.sqrt(np.maximum(inner * inner - determinant(change) * c, 0.0))
    return np.asarray(np.maximum(((root - inner) / c).max(axis=0, initial=0.0), 1e-200))


def curvature(x: FloatArray) -> FloatArray:
    """(cones, 3, 3) second derivative of the barrier −½ log det at x (cones, 3)."""
    det, J = determinant(x.T)[:, None], FLIP[:, 0, 0]
    turned = J * x / det
    return np.asarray(2.0 * turned[:, :, None] * turned[:, None] - np.diag(J) / det[:, :, None])


def analytic_centre(
    A: sp.csr_array, b: FloatArray, x: FloatArray, weight: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray, float]:
    """argmax Σ ½ w log det x over A x = b, its multipliers y with x∘Aᵀy = w e, and its residual.

    Newton's method from x (cones, 3) inside the cones, on w Jx/det = Aᵀy and A x = b, J = diag(1,
    −1, −1). The inverse of the barrier's curvature is (2 x xᵀ − det J)/w. On a half-line, padded
    with zeros, the barrier is w log x. ``weight`` is w, one number or (cones,). The residual stays
    large where the set has no bound.
    """
    best, least, eye = (x, np.zeros(b.size)), np.inf, sp.eye_array(b.size, format="csc")
    places, J = (np.arange(len(x)), np.arange(len(x) + 1)), FLIP[:, 0, 0]
    w = np.broadcast_to(weight, len(x))[:, None]
    for _ in range(_NEWTON if b.size else 0):
        det = determinant(x.T)[:, None]
        inverse = (2.0 * x[:, :, None] * x[:, None] - np.diag(J) * det[:, :, None]) / w[:, None]
        scaled = sp.csr_array(A @ sp.bsr_array((inverse, *places)))
        normal = sp.csc_matrix(scaled @ A.T)
        factors = splu(normal + _DAMPING * max(float(abs(normal).max()), 1e-200) * eye)
        balance = A @ x.ravel()
        right, y = 2.0 * balance - b, np.zeros(b.size)
        for _ in range(_REFINED):
            y += factors.solve(right - normal @ y)
        change = x - (scaled.T @ y).reshape(x.shape)
        slope = w * J * x / det - (A.T @ y).reshape(x.shape)
        decrement = np.sqrt(np.maximum(np.sum(change * slope, axis=1), 0.0))
        residual = max(float(decrement.max()), float(np.abs(b - balance).max()))
        if residual < least:
            best, least = (x, y), residual
        elif least <= _CENTRED or not residual < np.inf:
            break
        x = x + change * min(1.0, 0.9 / float(fall(x.T, change.T)))
    return *best, least if b.size else np.nan
