"""Blocks of dofs where nobody has named the bodies: dofs that occur together in rows of B.

A partition is of use where no row touches more than two blocks and no block has more dofs than a
rigid body: rows are then pairs of blocks, as with named bodies. Runs of equal length are tried
first, then dofs are joined by the rows that they share. Every partition is checked against B.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import IntArray
from cdopt.problem.scaling import rows_of

_ROUNDS = 40  # of joining blocks


def dof_blocks(B: sp.csr_array, tied: IntArray, index: IntArray, most: int) -> IntArray:
    """(m,) the block of each dof; ``tied`` where no partition was found.

    Parameters
    ----------
    B : (nc, m), without stored zeros.
    tied : (m,) labels from 0 without a hole; dofs with the same one belong together.
    index : (m,) ascending numbers of the dofs, among which runs are looked for.
    most : dofs of a block.
    """
    widest = int(np.diff(B.indptr).max(initial=0))
    sizes = np.bincount(tied)
    if widest > 2 * most or sizes.max(initial=0) > most:
        return tied
    if _two_a_row(B, tied):
        return tied
    least = max((widest + 1) // 2, int(sizes.max()), 2)
    for length in range(least, most + 1):
        run = index // length
        of_tied = np.empty(sizes.size, dtype=np.int64)
        of_tied[tied] = run
        if np.array_equal(of_tied[tied], run) and _two_a_row(B, run):
            return np.unique(run, return_inverse=True)[1]
    groups = sp.csr_array((np.ones(B.nnz), tied[B.indices], B.indptr), (B.shape[0], sizes.size))
    for length in range(least, most + 1):
        label = _joined(groups, _alike(groups, sizes, length), sizes, length)
        if label is not None:
            return label[tied]
    return tied


def _alike(groups: sp.csr_array, sizes: IntArray, most: int) -> IntArray:
    """(groups,) labels of groups with the same rows, hardly any of more than ``most`` dofs.

    Rows have random numbers: groups with the same entries have the same sum. Labels count in the
    order in which rows first touch them, which keeps neighbours close in memory.
    """
    number = np.random.default_rng(0).random(groups.shape[0])
    total = np.bincount(groups.indices, number[rows_of(groups)], sizes.size)
    order = np.argsort(total, kind="stable")
    fresh = np.concatenate([[True], np.diff(total[order]) != 0.0])
    dofs = np.cumsum(sizes[order])
    before = np.maximum.accumulate(np.where(fresh, dofs - sizes[order], 0))
    share = (dofs - before - 1) // most
    fresh[1:] |= share[1:] != share[:-1]
    label = np.empty(sizes.size, dtype=np.int64)
    label[order] = np.cumsum(fresh) - 1
    first = np.full(int(label.max(initial=-1)) + 1, groups.nnz)
    first[label[groups.indices[::-1]]] = np.arange(groups.nnz)[::-1]
    rank = np.empty_like(first)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    return np.asarray(rank[label])


def _joined(groups: sp.csr_array, label: IntArray, sizes: IntArray, most: int) -> IntArray | None:
    """Labels (groups,), joined until no row touches more than two; None where that fails.

    Of the labels that meet in a row with more than two, those are joined that share the largest
    part of their rows, each for both the best; of equals the closest numbers.
    """
    for _ in range(_ROUNDS):
        dofs = np.bincount(label, sizes).astype(np.int64)
        names = np.arange(dofs.size)
        entries = (np.ones(groups.nnz), label[groups.indices], groups.indptr.copy())
        touched = sp.csr_array(entries, shape=(groups.shape[0], dofs.size))
        touched.sum_duplicates()
        touched.data[:] = 1.0  # each label once a row
        crowded = touched[np.diff(touched.indptr) > 2]
        if not crowded.shape[0]:
            return label
        a, b = (crowded.T @ crowded).nonzero()
        fit = (a != b) & (dofs[a] + dofs[b] <= most)
        a, b = a[fit], b[fit]
        if not a.size:
            return None
        common = sp.csr_array(touched.T @ touched)
        shared, each = common[a, b], common.diagonal()
        score = shared / (each[a] + each[b] - shared)
        order = np.lexsort((b, np.abs(a - b), -score, a))
        best, first = np.unique(a[order], return_index=True)
        partner = np.full(dofs.size, -1)
        partner[best] = b[order][first]
        mutual = (partner >= 0) & (partner[partner] == names)
        if not mutual.any():
            return None
        label = np.where(mutual, np.minimum(names, partner), names)[label]
        label = (np.cumsum(np.bincount(label, minlength=dofs.size) > 0) - 1)[label]
    return None


def _two_a_row(B: sp.csr_array, label: IntArray) -> bool:
    """Whether no row touches more than two labels."""
    return row_ends(B.indptr, B.indices, label, int(label.max(initial=-1)) + 1)[2]


def row_ends(
    pointers: IntArray, columns: IntArray, block: IntArray, count: int
) -> tuple[IntArray, IntArray, bool]:
    """The least and the greatest block of each contact, ``count`` for none, and if these are all.

    The entries of contact i are those from ``pointers``[i] to ``pointers``[i + 1].
    """
    nc = pointers.size - 1
    counts = np.diff(pointers)
    filled = counts > 0
    touched = block[columns]
    first, second = np.zeros(nc, dtype=np.int64), np.full(nc, count)
    begin = pointers[:-1][filled]
    if begin.size:
        first[filled] = np.minimum.reduceat(touched, begin)
        greatest = np.maximum.reduceat(touched, begin)
        second[filled] = np.where(greatest > first[filled], greatest, count)
    row = np.repeat(np.arange(nc), counts)
    tidy = bool(np.all((touched == first[row]) | (touched == second[row])))
    return first, second, tidy
