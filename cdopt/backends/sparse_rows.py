"""Sparse matrices as compiled loops take them: row pointers, column indices, values.

Indices are unsigned: a signed index is tested for being negative each time.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import part

Places = NDArray[np.uint32]
Rows = tuple[Places, Places, FloatArray]


def plain(matrix: sp.csr_array) -> Rows:
    """The CSR parts, contiguous, writable and of the one type the loops are compiled for."""
    return (
        np.array(matrix.indptr, dtype=np.uint32),
        np.array(matrix.indices, dtype=np.uint32),
        np.array(matrix.data, dtype=np.float64),
    )


def transposed(rows: Rows, m: int) -> Rows:
    """The rows of the transpose of a matrix with m columns, each in the order of the contacts."""
    pointers, columns, values = rows
    matrix = sp.csr_array((values, columns.astype(np.int64), pointers.astype(np.int64)),
                          shape=(pointers.size - 1, m))  # fmt: skip
    return plain(sp.csr_array(matrix.T))


@part()
def larger(worst: float, error: float) -> float:
    """The larger of the two; not-a-number once it has come."""
    return worst if error <= worst or worst != worst else error
