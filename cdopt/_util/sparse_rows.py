"""Sparse matrices by rows (CSR): their parts for compiled loops, and products with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import part
from cdopt._util.frozen import transposed

Indices = NDArray[np.uint32]  # a signed index is tested for being negative each time
# Row pointers, column indices and values (entries,). Or by threes: values (entries, 3) of three
# columns each, from the given ones on, or (entries, 3, 1) of three rows each.
Rows = tuple[Indices, Indices, FloatArray]
_MANY, _FULL = 20_000, 0.6  # entries from which products are by threes, and their share of these
_DENSE = 20_000  # entries up to which a dense product takes as long as a sparse one takes to begin


def csr_parts(matrix: sp.csr_array | sp.csc_array) -> Rows:
    """The parts of the CSR matrix, or CSC transpose, of the type the loops are compiled for."""
    return _parts(matrix.indptr, matrix.indices, matrix.data)


def factor_parts(R: sp.csr_array, S: sp.csr_array) -> tuple[Rows, Rows]:
    """The rows of R and of Sᵀ: those of large matrices by threes of columns, if these are full."""
    by_threes = _by_threes(R)
    others = by_threes if S is R or by_threes is None else _by_threes(S)
    if by_threes is None or others is None:
        return csr_parts(R), csr_parts(transposed(S))
    columns = others.T
    return (
        _parts(by_threes.indptr, 3 * by_threes.indices, by_threes.data[:, 0, :]),
        _parts(columns.indptr, columns.indices, columns.data),
    )


def _by_threes(matrix: sp.csr_array) -> sp.bsr_array | None:
    if matrix.nnz < _MANY or matrix.shape[1] % 3:
        return None
    blocks = matrix.tobsr((1, 3))
    return blocks if matrix.nnz >= _FULL * blocks.data.size else None


def _parts(pointers: Any, columns: Any, values: Any) -> Rows:
    return (
        np.array(pointers, dtype=np.uint32),
        np.array(columns, dtype=np.uint32),
        np.array(values, dtype=np.float64),
    )


def for_products(matrix: sp.csr_array) -> Any:
    """The matrix (n, m) as products with it are quickest: a small one dense."""
    if matrix.shape[0] * matrix.shape[1] <= _DENSE:
        return matrix.toarray()
    if matrix.indices.dtype == np.int32:
        return matrix
    parts = (a.astype(np.int32) for a in (matrix.indices, matrix.indptr))  # half of the traffic
    return sp.csr_array((matrix.data, *parts), shape=matrix.shape)


@part()
def larger(worst: float, error: float) -> float:
    """The larger of the two; not-a-number once it has come."""
    return worst if error <= worst or worst != worst else error


@part()
def row_times(
    i: int, pointers: Indices, columns: Indices, values: FloatArray, x: FloatArray
) -> float:
    """Row i of R x."""
    total = 0.0
    for k in range(pointers[i], pointers[i + 1]):
        c = columns[k]
        if values.ndim == 1:  # decided while compiling, as for any argument of a loop
            total += values[k] * x[c]
        else:
            total += values[k, 0] * x[c]
            total += values[k, 1] * x[c + np.uint32(1)]
            total += values[k, 2] * x[c + np.uint32(2)]
    return total


@part()
def multiply_rows(
    first: np.uint32,
    last: np.uint32,
    x: FloatArray,
    out: FloatArray,
    pointers: Indices,
    columns: Indices,
    values: FloatArray,
) -> None:
    """Rows ``first`` to ``last`` of out = R x, or threes of them."""
    for i in range(first, last):
        if values.ndim == 3:
            a, b, c = 0.0, 0.0, 0.0
            for k in range(pointers[i], pointers[i + 1]):
                times = x[columns[k]]
                a += values[k, 0, 0] * times
                b += values[k, 1, 0] * times
                c += values[k, 2, 0] * times
            at = np.uint32(3) * i
            out[at], out[at + np.uint32(1)], out[at + np.uint32(2)] = a, b, c
        else:
            out[i] = row_times(i, pointers, columns, values, x)
