"""Systems solved by factors of a sparse matrix, and conjugate gradients over them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.linalg.base import Tally
from cdopt.backends.linalg.factor import Library

_MOST = 30  # iterations; the factors are those of the matrix or close to it


class FactoredSystem:
    """S + shift I + Bᵀ D B by its factors, made better by conjugate gradients."""

    def __init__(
        self, library: Library, product: Callable[[FloatArray], FloatArray], D: FloatArray,
        shift: float, tally: Tally,
    ) -> None:  # fmt: skip
        self.product, self.gave_up = product, False
        self.factor = library.factorise(D, shift)
        tally.factorisations += 1
        tally.library = library.name

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x, its residual reduced by ``tol`` as the factors measure it, or as far as it goes."""
        x, r = np.zeros_like(rhs), rhs.copy()
        z = self.factor.solve(r)
        p, rz = z, float(r @ z)
        target, best = rz * tol * tol, x
        least = rz
        for _ in range(_MOST if limit is None else min(limit, _MOST)):
            image = self.product(p)
            curvature = float(p @ image)
            if not (curvature > 0.0 and rz > 0.0):
                break
            x, r = x + (rz / curvature) * p, r - (rz / curvature) * image
            z = self.factor.solve(r)
            following = float(r @ z)
            if following < least:
                least, best = following, x
            if not following > target or following > 1e4 * least:
                break
            p, rz = z + (following / rz) * p, following
        self.gave_up = not least <= max(target, 1e-12 * abs(rz))
        return best
