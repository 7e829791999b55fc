"""A sparse matrix entry by entry: scaled, or summed over its columns, with no other matrix made.

A product of two sparse matrices takes longer than a small problem takes to solve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.problem import kernels


@dataclass(frozen=True, eq=False)
class Entries:
    """A sparse matrix (n, m) entry by entry.

    Attributes
    ----------
    matrix : the matrix.
    """

    matrix: sp.csr_array

    def times(self, x: FloatArray) -> FloatArray:
        """The matrix times x (m,).

        Raises
        ------
        InvalidInput : x has the wrong length.
        """
        A = self.matrix
        return kernels.times(A.indptr, A.indices, A.data, _vector(x, A.shape[1]))

    def times_size(self, x: FloatArray) -> FloatArray:
        """(n,) the same sums with the absolute value of each term.

        Raises
        ------
        InvalidInput : x has the wrong length.
        """
        A = self.matrix
        return kernels.times_size(A.indptr, A.indices, A.data, _vector(x, A.shape[1]))

    def load(self, f: FloatArray) -> FloatArray:
        """The transpose times f (n,).

        Raises
        ------
        InvalidInput : f has the wrong length.
        """
        A = self.matrix
        f = _vector(f, A.shape[0])
        return kernels.transposed_times(A.indptr, A.indices, A.data, f, A.shape[1])

    def load_size(self, f: FloatArray) -> FloatArray:
        """(m,) the same sums with the absolute value of each term.

        Raises
        ------
        InvalidInput : f has the wrong length.
        """
        A = self.matrix
        size = np.abs(A.data), np.abs(_vector(f, A.shape[0]))
        return kernels.transposed_times(A.indptr, A.indices, *size, A.shape[1])


def _vector(values: FloatArray, size: int) -> FloatArray:
    """The values as the compiled loops take them, which look at no length."""
    vector = np.ascontiguousarray(values, dtype=np.float64)
    if vector.shape != (size,):
        raise InvalidInput("vector", f"shape {vector.shape}", f"shape ({size},)")
    return vector
