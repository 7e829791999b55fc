"""The upper triangle of S + λ I + Bᵀ D B, its pattern made once for all D."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled


class UpperPattern:
    """Where each contact's products stand among the values of the upper triangle.

    Attributes
    ----------
    upper : (m, m) CSR matrix, the last one filled.
    """

    def __init__(self, B: sp.csr_array, mass: sp.csr_array | None) -> None:
        m = B.shape[1]
        B = sp.csr_array(B)
        B.sort_indices()
        lengths = np.diff(B.indptr)
        products = lengths * (lengths + 1) // 2
        first = np.concatenate([[0], np.cumsum(products)])
        keys = np.empty(first[-1], dtype=np.int64)
        _pair_keys(B.indptr, B.indices, first, m, keys)
        own = sp.coo_array((m, m)) if mass is None else sp.coo_array(sp.triu(mass))
        inertia = own.row.astype(np.int64) * m + own.col
        diagonal = np.arange(m, dtype=np.int64) * (m + 1)
        known, where = np.unique(np.concatenate([keys, inertia, diagonal]), return_inverse=True)
        self.slot, rest = where[: keys.size], where[keys.size :]
        self.B, self.first, self.diagonal = B, first, rest[inertia.size :]
        self.inertia = np.zeros(known.size)
        np.add.at(self.inertia, rest[: inertia.size], own.data)
        pointers = np.searchsorted(known, np.arange(m + 1, dtype=np.int64) * m)
        self.upper: Any = sp.csr_matrix(
            (self.inertia.copy(), (known % m).astype(np.int32), pointers.astype(np.int32)),
            shape=(m, m),
        )

    def filled(self, D: FloatArray, shift: float) -> Any:
        """The upper triangle for this D; the one given before is overwritten."""
        values = self.upper.data
        values[:] = self.inertia
        values[self.diagonal] += shift
        _add_products(self.B.indptr, self.B.data, self.first, self.slot, D, values)
        return self.upper


@compiled()
def _pair_keys(
    pointers: IntArray, columns: IntArray, first: IntArray, m: int, keys: IntArray
) -> None:
    """Row times m plus column of each product of a row of B with itself."""
    for i in range(pointers.size - 1):
        at = first[i]
        for k in range(pointers[i], pointers[i + 1]):
            for j in range(k, pointers[i + 1]):
                keys[at] = np.int64(columns[k]) * m + columns[j]
                at += 1


@compiled()
def _add_products(
    pointers: IntArray, data: FloatArray, first: IntArray, slot: IntArray, D: FloatArray,
    values: FloatArray,
) -> None:  # fmt: skip
    """values += the products of each row with itself, times its D."""
    for i in range(pointers.size - 1):
        if D[i] != 0.0:
            at = first[i]
            for k in range(pointers[i], pointers[i + 1]):
                scaled = D[i] * data[k]
                for j in range(k, pointers[i + 1]):
                    values[slot[at]] += scaled * data[j]
                    at += 1
