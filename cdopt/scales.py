"""Characteristic scales, one set for each independent part of a contact network.

Parts that share no degree of freedom are separate problems: each is measured in its own units,
so that a grain of sand is certified as sharply as the millstone beside it. Every scale is
homogeneous in the data: a change of units multiplies it, and scaled problems see no units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cdopt.checks import FloatArray, IntArray, read_only


@dataclass(frozen=True, eq=False)
class Parts:
    """The independent parts of a contact network.

    Attributes
    ----------
    contact : (nc,) part of each contact.
    dof : (nv,) part of each degree of freedom.
    count : number of parts.
    """

    contact: IntArray
    dof: IntArray
    count: int

    def largest(self, label: IntArray, values: FloatArray) -> FloatArray:
        """(count,) largest value in each part, zero for none; not-a-number spreads."""
        result = np.zeros(self.count)
        np.maximum.at(result, label, values)
        return result

    def total(self, label: IntArray, values: FloatArray) -> FloatArray:
        """(count,) sum of the values in each part."""
        return np.bincount(label, weights=values, minlength=self.count).astype(np.float64)

    def geometric_mean(self, values: FloatArray) -> FloatArray:
        """(count,) geometric mean of the contacts' positive values; elsewhere that of all."""
        positive = values > 0.0
        logs = np.log(np.where(positive, values, 1.0))
        overall = float(np.mean(logs[positive])) if positive.any() else 0.0
        number = self.total(self.contact, positive.astype(float))
        mean = self.total(self.contact, logs) / np.maximum(number, 1.0)
        return np.exp(np.where(number > 0.0, mean, overall))


def network_parts(B: sp.csr_array, coupling: sp.csr_array | None = None) -> Parts:
    """Parts of the graph in which contact i meets dof j where B_ij ≠ 0.

    ``coupling`` (nv, nv) adds ties between dofs, such as a mass matrix makes.
    """
    nc, nv = B.shape
    corner: Any = sp.csr_array((nv, nv)) if coupling is None else coupling
    graph = sp.block_array([[sp.csr_array((nc, nc)), B], [B.T, corner]], format="csr")
    count, label = connected_components(graph, directed=False)
    label = label.astype(np.int64)
    return Parts(read_only(label[:nc]), read_only(label[nc:]), int(count))


def matrix_parts(N: sp.csr_array) -> Parts:
    """Parts of contacts that a Delassus matrix N (nc, nc) couples."""
    count, label = connected_components(N, directed=False)
    return Parts(read_only(label.astype(np.int64)), np.zeros(0, dtype=np.int64), int(count))


def column_scale(B: sp.csr_array) -> FloatArray:
    """β_j = max_i |B_ij| (nv,): what one unit of a degree of freedom does to a gap, at most."""
    result = np.zeros(B.shape[1])
    np.maximum.at(result, B.indices, np.abs(B.data))
    return result
