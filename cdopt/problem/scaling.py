"""Independent parts of a contact network, scaled problems, and sums over sparse entries.

Parts that share no degree of freedom are separate problems. Each is measured in its own units.
Every scale is homogeneous in the data: a change of units multiplies it, and a scaled problem does
not depend on the units.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt.problem.contact_law import PowerLaw

_DENSE_PART = 3000  # contacts of one part, beyond which its rows of N stay as they are
_FEW = 300  # ties up to which plain Python finds components in less time than SciPy


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
        return largest_by(label, values, self.count)

    def total(self, label: IntArray, values: FloatArray) -> FloatArray:
        """(count,) sum of the values in each part."""
        return total_by(label, values, self.count)

    def geometric_mean(self, values: FloatArray) -> FloatArray:
        """(count,) geometric mean of the contacts' positive values; elsewhere that of all."""
        used = values > 0.0
        number = np.bincount(self.contact[used], minlength=self.count)
        logs = self.total(self.contact[used], np.log(values[used]))
        if number.all():
            return np.exp(logs / number)
        overall = float(logs.sum() / max(number.sum(), 1))
        return np.exp(np.where(number > 0, logs / np.maximum(number, 1), overall))


@dataclass(frozen=True, eq=False)
class ScaledDynamics:
    """A step in units of its parts: speeds, forces and energies of order one, and Δt = 1.

    In these units it is again a step: M w = Bᵀf with w = v⁺ − v*, and gaps B w + p.

    Attributes
    ----------
    M, B : mass matrix (nv, nv) and gap gradient (nc, nv).
    p : (nc,) gap rate of the free motion.
    law : of the contacts, between forces and overlaps −(B w + p); None where they are rigid.
    """

    M: sp.csr_array
    B: sp.csr_array
    p: FloatArray
    law: PowerLaw | None = None


@dataclass(frozen=True, eq=False)
class ScaledDelassus:
    """A step known by N and p alone, in units of its parts.

    Attributes
    ----------
    N : (nc, nc) Delassus matrix.
    p : (nc,) gap rate of the free motion.
    """

    N: sp.csr_array
    p: FloatArray


def network_parts(
    B: sp.csr_array, coupling: sp.csr_array | None = None, tied: BoolArray | None = None
) -> Parts:
    """Parts of the graph in which contact i meets dof j where B_ij is stored.

    ``coupling`` (nv, nv) adds ties between dofs, such as a mass matrix makes. ``tied`` (nv,) says
    which dofs tie contacts together; default all.
    """
    nc, nv = B.shape
    rows, columns = rows_of(B), B.indices
    if tied is not None:
        rows, columns = rows[tied[columns]], columns[tied[columns]]
    if coupling is not None:
        rows = np.concatenate([rows, nc + rows_of(coupling)])
        columns = np.concatenate([columns, coupling.indices])
    label, count = components(rows, nc + columns, nc + nv)
    return Parts(read_only(label[:nc]), read_only(label[nc:]), count)


def matrix_parts(N: sp.csr_array) -> Parts:
    """Parts of contacts that a Delassus matrix N (nc, nc) couples."""
    label, count = components(rows_of(N), N.indices, N.shape[0])
    return Parts(read_only(label), np.zeros(0, dtype=np.int64), count)


def delassus_root(N: sp.csr_array, rank_tol: float) -> sp.csr_array:
    """L (nc, r) with N = L Lᵀ up to eigenvalues below ``rank_tol`` of their part's largest.

    Each independent part is factorised by itself, so that a heavy part does not hide a light one.
    A part too large for a dense factorisation keeps its rows of N: then L Lᵀ is not N, but
    Lᵀf = Lᵀg still means N f = N g.
    """
    label = matrix_parts(N).contact
    pieces = []
    for part in range(int(label.max(initial=-1)) + 1):
        index = np.flatnonzero(label == part)
        block = sp.csr_array(N[index][:, index])
        ones = np.ones(index.size)
        scatter = sp.csr_array((ones, (index, np.arange(index.size))), (N.shape[0], index.size))
        pieces.append(
            scatter @ (block if index.size > _DENSE_PART else _dense_root(block, rank_tol))
        )
    if not pieces:
        return sp.csr_array((N.shape[0], 1))
    return sp.csr_array(sp.hstack(pieces))


def _dense_root(block: sp.csr_array, rank_tol: float) -> sp.csr_array:
    """The root of one part, its contacts in units of their own mobility."""
    scale = np.sqrt(np.maximum(block.diagonal(), 0.0))
    unit = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(block.toarray() / np.outer(unit, unit))
    significant = values > rank_tol * max(float(values[-1]), 0.0)
    return sp.csr_array(vectors[:, significant] * np.sqrt(values[significant]) * unit[:, None])


def components(left: IntArray, right: IntArray, nodes: int) -> tuple[IntArray, int]:
    """The connected component (nodes,) of each node, and how many there are.

    They are numbered in the order of their first nodes.
    """
    if left.size <= _FEW:
        return _few_components(left.tolist(), right.tolist(), nodes)
    ties = np.ones(left.size, dtype=bool)
    graph = sp.csr_array((ties, (left, right)), shape=(nodes, nodes))
    count, label = connected_components(graph, connection="weak")
    return label.astype(np.int64), count


def _few_components(left: list[int], right: list[int], nodes: int) -> tuple[IntArray, int]:
    """The same by union-find: a small problem does not wait for a sparse matrix."""
    parent = list(range(nodes))
    for a, b in zip(left, right, strict=True):
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    label, count = np.empty(nodes, dtype=np.int64), 0
    for i in range(nodes):  # a parent stands before its children
        if parent[i] == i:
            label[i], count = count, count + 1
        else:
            label[i] = label[parent[i]]
    return label, count


def rows_of(A: sp.csr_array) -> IntArray:
    """The row of each stored entry."""
    return np.arange(A.shape[0]).repeat(A.indptr[1:] - A.indptr[:-1])


class Entries:
    """The entries of a sparse matrix A (n, m) one by one, for products with small overhead.

    Attributes
    ----------
    row, column, value : of each entry.
    shape : of A.
    """

    def __init__(self, A: sp.csr_array) -> None:
        self.row, self.column, self.value = rows_of(A), A.indices, A.data
        self.shape = A.shape

    def times(self, x: FloatArray) -> FloatArray:
        """A x (n,)."""
        return total_by(self.row, self.value * x[self.column], self.shape[0])

    def times_size(self, x: FloatArray) -> FloatArray:
        """|A| |x| (n,)."""
        return total_by(self.row, np.abs(self.value * x[self.column]), self.shape[0])

    def load(self, f: FloatArray) -> FloatArray:
        """Aᵀ f (m,)."""
        return total_by(self.column, self.value * f[self.row], self.shape[1])

    def load_size(self, f: FloatArray) -> FloatArray:
        """|A|ᵀ |f| (m,)."""
        return total_by(self.column, np.abs(self.value * f[self.row]), self.shape[1])


def column_scale(B: sp.csr_array) -> FloatArray:
    """β_j = max_i |B_ij| (nv,): what one unit of a degree of freedom does to a gap, at most."""
    return largest_by(B.indices, np.abs(B.data), B.shape[1])


def total_by(label: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) sum of the values under each label."""
    return np.bincount(label, values, count).astype(np.float64, copy=False)


def largest_by(label: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) the largest value under each label, at least zero; not-a-number spreads."""
    result = np.zeros(count)
    np.maximum.at(result, label, values)
    return result


def smallest_by(label: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) the smallest value under each label; zero where there is none."""
    result = np.full(count, np.inf)
    np.minimum.at(result, label, values)
    return np.where(result < np.inf, result, 0.0)


def scaled(
    A: sp.csr_array, rows: FloatArray | None = None, columns: FloatArray | None = None
) -> sp.csr_array:
    """diag(rows) · A · diag(columns), on the indices of A."""
    values = A.data
    if rows is not None:
        values = values * rows.repeat(A.indptr[1:] - A.indptr[:-1])
    if columns is not None:
        values = values * columns[A.indices]
    result = copy.copy(A)  # the checks of a constructor take longer than the products
    result.data = values
    return result
