"""Sparse matrices by rows (CSR): their parts for compiled loops, and products with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import part

Indices = NDArray[np.uint32]  # a signed index is tested for being negative each time
Rows = tuple[Indices, Indices, FloatArray]  # row pointers, column indices, values
_DENSE = 20_000  # entries up to which a dense product takes as long as a sparse one takes to begin


def csr_parts(matrix: sp.csr_array | sp.csc_array) -> Rows:
    """The parts of the CSR matrix, or CSC transpose, of the type the loops are compiled for."""
    return (
        np.array(matrix.indptr, dtype=np.uint32),
        np.array(matrix.indices, dtype=np.uint32),
        np.array(matrix.data, dtype=np.float64),
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
def multiply_rows(first: int, last: int, rows: Rows, x: FloatArray, out: FloatArray) -> None:
    """Rows ``first`` to ``last`` of out = R x."""
    pointers, columns, values = rows
    for i in range(first, last):
        total = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total
