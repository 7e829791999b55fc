"""Systems for B of any pattern, by conjugate gradients on its rows and columns."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import side_by_side
from cdopt.backends.linalg import row_kernels as kernels
from cdopt.backends.linalg.base import Tally


class RowSystem:
    """S + shift I + Bᵀ D B matrix-free, preconditioned with its diagonal blocks."""

    def __init__(
        self, B: sp.csr_array, transposed: sp.csr_array, blocks: FloatArray, D: FloatArray,
        shift: float, tally: Tally,
    ) -> None:  # fmt: skip
        count, size, _ = blocks.shape
        self.B, self.T = kernels.rows_of(B), kernels.rows_of(transposed)
        self.D, self.tally = D, tally
        self.start = size * np.arange(count + 1)
        self.base = blocks + shift * np.eye(size)
        self.inverse = np.empty_like(self.base)
        side_by_side(kernels.block_inverses, self.T, D, self.base, self.start, self.inverse)
        self.gave_up = False

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x, its preconditioned residual reduced by ``tol``."""
        x, most = np.empty_like(rhs), 20 * rhs.size if limit is None else limit
        spent = side_by_side(
            kernels.conjugate_gradients,
            self.B,
            self.T,
            self.D,
            self.base,
            self.start,
            self.inverse,
            rhs,
            x,
            tol,
            most,
        )
        self.tally.iterations += spent
        self.gave_up = spent == most
        return x
