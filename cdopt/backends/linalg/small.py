"""Products and dense Cholesky factors of small sparse matrices, for loops compiled as a whole.

With few dofs the calls from Python cost more than the arithmetic between them. What is here is
called from compiled code alone: no BLAS, and no threads.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.compiled import part

Rows = tuple[IntArray, IntArray, FloatArray]  # CSR parts of a sparse matrix


def rows(A: sp.csr_array, val: FloatArray | None = None) -> Rows:
    """Parts of a matrix as compiled loops take them, with other entries ``val`` if given.

    How wide indices are, and whether arrays may be written to, is part of their type: made alike,
    loops compile once.
    """
    return _alike(A.indptr), _alike(A.indices), A.data if val is None else val


def _alike(array: IntArray) -> IntArray:
    return read_only(array.astype(np.int32, copy=False).view())


@part()
def times(A: Rows, x: FloatArray) -> FloatArray:
    """A x."""
    ptr, idx, val = A
    out = np.zeros(ptr.size - 1)
    for i in range(out.size):
        for k in range(ptr[i], ptr[i + 1]):
            out[i] += val[k] * x[idx[k]]
    return out


@part()
def transposed_times(A: Rows, x: FloatArray, size: int) -> FloatArray:
    """Aᵀ x (size,)."""
    ptr, idx, val = A
    out = np.zeros(size)
    for i in range(x.size):
        for k in range(ptr[i], ptr[i + 1]):
            out[idx[k]] += val[k] * x[i]
    return out


@part()
def diagonal(A: Rows) -> FloatArray:
    """The diagonal of A."""
    ptr, idx, val = A
    out = np.zeros(ptr.size - 1)
    for i in range(out.size):
        for k in range(ptr[i], ptr[i + 1]):
            if idx[k] == i:
                out[i] += val[k]
    return out


@part()
def plus(x: FloatArray, t: float, y: FloatArray) -> FloatArray:
    """x + t y."""
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = x[i] + t * y[i]
    return out


@part()
def dot(x: FloatArray, y: FloatArray) -> float:
    """xᵀ y."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@part()
def fill(H: FloatArray, B: Rows, D: FloatArray, mass: Rows, shift: float) -> None:
    """The upper triangle of S + shift I + Bᵀ D B."""
    for j in range(H.shape[0]):
        for k in range(H.shape[1]):
            H[j, k] = 0.0
        H[j, j] = shift
    ptr, idx, val = B
    for i in range(D.size):
        if D[i] > 0.0:
            for k in range(ptr[i], ptr[i + 1]):
                weight = D[i] * val[k]
                for m in range(ptr[i], ptr[i + 1]):
                    if idx[m] >= idx[k]:
                        H[idx[k], idx[m]] += weight * val[m]
    ptr, idx, val = mass
    for j in range(ptr.size - 1):
        for k in range(ptr[j], ptr[j + 1]):
            if idx[k] >= j:
                H[j, idx[k]] += val[k]


@part()
def factorise(H: FloatArray) -> bool:
    """H = UᵀU with U in its place; False where a pivot is not positive and finite."""
    m = H.shape[0]
    for k in range(m):
        pivot = H[k, k]
        if not 0.0 < pivot < np.inf:
            return False
        root = np.sqrt(pivot)
        for j in range(k, m):
            H[k, j] /= root
        for i in range(k + 1, m):
            share = H[k, i]
            if share != 0.0:
                for j in range(i, m):
                    H[i, j] -= share * H[k, j]
    return True


@part()
def substitute(U: FloatArray, x: FloatArray) -> None:
    """(UᵀU)⁻¹ x in the place of x."""
    m = x.size
    for k in range(m):
        x[k] /= U[k, k]
        for i in range(k + 1, m):
            x[i] -= U[k, i] * x[k]
    for k in range(m - 1, -1, -1):
        for i in range(k + 1, m):
            x[k] -= U[k, i] * x[i]
        x[k] /= U[k, k]
