"""A sparse matrix as an operator: products with it and its transpose, in compiled loops.

SciPy's products take longer to begin than those of a small problem take to run.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled


class SparseOperator:
    """Products with a CSR matrix (n, m)."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.parts = matrix.indptr, matrix.indices, matrix.data
        self.columns = int(matrix.shape[1])

    def times(self, x: FloatArray) -> FloatArray:
        """The matrix times x (m,)."""
        return _times(*self.parts, np.ascontiguousarray(x, dtype=np.float64))

    def transposed_times(self, f: FloatArray) -> FloatArray:
        """The transpose times f (n,)."""
        return _transposed(*self.parts, np.ascontiguousarray(f, dtype=np.float64), self.columns)


@compiled()
def _times(ptr: IntArray, idx: IntArray, val: FloatArray, x: FloatArray) -> FloatArray:
    out = np.zeros(ptr.size - 1)
    for i in range(out.size):
        for k in range(ptr[i], ptr[i + 1]):
            out[i] += val[k] * x[idx[k]]
    return out


@compiled()
def _transposed(
    ptr: IntArray, idx: IntArray, val: FloatArray, f: FloatArray, size: int
) -> FloatArray:
    out = np.zeros(size)
    for i in range(f.size):
        for k in range(ptr[i], ptr[i + 1]):
            out[idx[k]] += val[k] * f[i]
    return out
