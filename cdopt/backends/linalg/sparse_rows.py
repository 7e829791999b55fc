"""Sparse matrices by rows (CSR) in compiled loops: their parts, and products with them.

SciPy's products take longer to begin than those of a small problem take to run.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part

Indices = NDArray[np.uint32]  # a signed index is tested for being negative each time
Rows = tuple[Indices, Indices, FloatArray]  # row pointers, column indices, values


def csr_parts(matrix: sp.csr_array) -> Rows:
    """The CSR parts, contiguous, writable and of the one type the loops are compiled for."""
    return (
        np.array(matrix.indptr, dtype=np.uint32),
        np.array(matrix.indices, dtype=np.uint32),
        np.array(matrix.data, dtype=np.float64),
    )


class SparseOperator:
    """Products with a CSR matrix (n, m)."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.parts = _unsigned(matrix.indptr), _unsigned(matrix.indices), matrix.data
        self.shape = int(matrix.shape[0]), int(matrix.shape[1])

    def times(self, x: FloatArray) -> FloatArray:
        """The matrix times x (m,)."""
        out = np.empty(self.shape[0])
        _times(*self.parts, np.ascontiguousarray(x, dtype=np.float64), out)
        return out

    def transposed_times(self, f: FloatArray) -> FloatArray:
        """The transpose times f (n,)."""
        out = np.zeros(self.shape[1])
        _add_transposed(*self.parts, np.ascontiguousarray(f, dtype=np.float64), out)
        return out


def _unsigned(indices: IntArray) -> Indices:
    """The same numbers, none of them negative, read as unsigned."""
    return indices.view(np.dtype(f"u{indices.dtype.itemsize}"))


@compiled()
def _times(ptr: Indices, idx: Indices, val: FloatArray, x: FloatArray, out: FloatArray) -> None:
    for i in range(out.size):
        total = 0.0
        for k in range(ptr[i], ptr[i + 1]):
            total += val[k] * x[idx[k]]
        out[i] = total


@compiled()
def _add_transposed(
    ptr: Indices, idx: Indices, val: FloatArray, f: FloatArray, out: FloatArray
) -> None:
    for i in range(f.size):
        force = f[i]
        for k in range(ptr[i], ptr[i + 1]):
            out[idx[k]] += val[k] * force


@part()
def larger(worst: float, error: float) -> float:
    """The larger of the two; not-a-number once it has come."""
    return worst if error <= worst or worst != worst else error
