"""Characteristic scales, one set for each independent part of a contact network.

Parts that share no degree of freedom are separate problems: each is measured in its own units,
so that a grain of sand is certified as sharply as the millstone beside it. Every scale is
homogeneous in the data: a change of units multiplies it, and scaled problems see no units.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.compiled import compiled, part
from cdopt.problem.contact_law import PowerLaw


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
        sums: FloatArray = np.bincount(label, values, self.count).astype(np.float64, copy=False)
        return sums

    def geometric_mean(self, values: FloatArray) -> FloatArray:
        """(count,) geometric mean of the contacts' positive values; elsewhere that of all."""
        logs, number = _logarithms(self.contact, values, self.count)
        if number.all():
            return np.exp(logs / number)
        overall = float(logs.sum() / max(number.sum(), 1.0))
        return np.exp(np.where(number > 0.0, logs / np.maximum(number, 1.0), overall))


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


@compiled()
def _logarithms(label: IntArray, values: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """(count,) sum of the logarithms of positive values under each label, and how many."""
    logs, number = np.zeros(count), np.zeros(count)
    for i in range(values.size):
        if values[i] > 0.0:
            logs[label[i]] += np.log(values[i])
            number[label[i]] += 1.0
    return logs, number


def network_parts(
    B: sp.csr_array, coupling: sp.csr_array | None = None, tied: BoolArray | None = None
) -> Parts:
    """Parts of the graph in which contact i meets dof j where B_ij is stored.

    ``coupling`` (nv, nv) adds ties between dofs, such as a mass matrix makes. ``tied`` (nv,) says
    which dofs tie contacts together; default all.
    """
    nc, nv = B.shape
    leader, every = np.arange(nc + nv), np.ones(nv, dtype=bool)
    join(leader, B.indptr, B.indices, 0, nc, every if tied is None else tied)
    if coupling is not None:
        join(leader, coupling.indptr, coupling.indices, nc, nc, every)
    count = number(leader)
    return Parts(read_only(leader[:nc]), read_only(leader[nc:]), count)


def matrix_parts(N: sp.csr_array) -> Parts:
    """Parts of contacts that a Delassus matrix N (nc, nc) couples."""
    nc = N.shape[0]
    leader = np.arange(nc)
    join(leader, N.indptr, N.indices, 0, 0, np.ones(nc, dtype=bool))
    count = number(leader)
    return Parts(read_only(leader), np.zeros(0, dtype=np.int64), count)


@compiled()
def join(
    leader: IntArray, ptr: IntArray, idx: IntArray, rows: int, columns: int, tied: BoolArray
) -> None:
    """Put row i and column j of each entry into one set: nodes rows + i and columns + j.

    ``leader`` (nodes,) points from each node towards the first node of its set. Columns that are
    not ``tied`` are left out.
    """
    for i in range(ptr.size - 1):
        top = first(leader, rows + i)
        for k in range(ptr[i], ptr[i + 1]):
            if tied[idx[k]]:
                other = first(leader, columns + idx[k])
                leader[max(top, other)] = top = min(top, other)


@part()
def first(leader: IntArray, node: int) -> int:
    """The first node of the node's set; halves the way there for the next who asks."""
    while leader[node] != node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


@compiled()
def number(leader: IntArray) -> int:
    """Replace leaders by numbers of their sets, in order of first nodes; returns how many."""
    count = 0
    for node in range(leader.size):
        if leader[node] == node:
            leader[node] = count
            count += 1
        else:
            leader[node] = leader[leader[node]]
    return count


def column_scale(B: sp.csr_array) -> FloatArray:
    """β_j = max_i |B_ij| (nv,): what one unit of a degree of freedom does to a gap, at most."""
    return largest_by(B.indices, np.abs(B.data), B.shape[1])


@compiled()
def largest_by(label: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) the largest value under each label, zero for none; not-a-number spreads."""
    result = np.zeros(count)
    for i in range(values.size):
        result[label[i]] = np.maximum(result[label[i]], values[i])
    return result


def scaled(
    A: sp.csr_array, rows: FloatArray | None = None, columns: FloatArray | None = None
) -> sp.csr_array:
    """diag(rows) · A · diag(columns), on the indices of A."""
    values = A.data
    if rows is not None:
        values = values * np.repeat(rows, np.diff(A.indptr))
    if columns is not None:
        values = values * columns[A.indices]
    result = copy.copy(A)  # the checks of a constructor take longer than the products
    result.data = values
    return result
