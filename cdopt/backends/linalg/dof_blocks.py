"""Blocks of dofs where the bodies have no names: dofs that occur together in rows of B.

A partition is of use where no row touches more than two blocks and no block has more dofs than a
rigid body: rows are then pairs of blocks, as with named bodies. Runs of equal length are tried
first, of neighbouring dofs and of all first, all second dofs and so on; then dofs are joined by the
rows that they share. Every partition is checked against B.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import IntArray
from cdopt._util.compiled import compiled, part

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
    indptr, indices = B.indptr.astype(np.int64), B.indices.astype(np.int64)
    if _two_a_row(indptr, indices, tied):
        return tied
    least = max((widest + 1) // 2, int(sizes.max()), 2)
    for length in range(least, most + 1):
        for run in (index // length, index % max((int(index[-1]) + 1) // length, 1)):
            of_tied = np.empty(sizes.size, dtype=np.int64)
            of_tied[tied] = run
            fits = np.array_equal(of_tied[tied], run) and np.bincount(run).max() <= most
            if fits and _two_a_row(indptr, indices, run):
                return np.unique(run, return_inverse=True)[1]
    groups = tied[indices]
    for length in range(least, most + 1):
        label = _joined(indptr, groups, _alike(indptr, groups, sizes, length), sizes, length)
        if label is not None:
            return label[tied]
    return tied


def _alike(indptr: IntArray, groups: IntArray, sizes: IntArray, most: int) -> IntArray:
    """(groups,) labels of groups with the same rows, hardly any of more than ``most`` dofs.

    Rows have random numbers: groups with the same entries have the same sum. Labels count in the
    order in which rows first touch them, which keeps neighbours close in memory.
    """
    number = np.random.default_rng(0).random(indptr.size - 1)
    total = np.bincount(groups, np.repeat(number, np.diff(indptr)), sizes.size)
    order = np.argsort(total, kind="stable")
    fresh = np.concatenate([[True], np.diff(total[order]) != 0.0])
    dofs = np.cumsum(sizes[order])
    before = np.maximum.accumulate(np.where(fresh, dofs - sizes[order], 0))
    share = (dofs - before - 1) // most
    fresh[1:] |= share[1:] != share[:-1]
    label = np.empty(sizes.size, dtype=np.int64)
    label[order] = np.cumsum(fresh) - 1
    first = np.full(int(label.max(initial=-1)) + 1, groups.size)
    first[label[groups[::-1]]] = np.arange(groups.size)[::-1]
    rank = np.empty_like(first)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    return np.asarray(rank[label])


def _joined(
    indptr: IntArray, groups: IntArray, label: IntArray, sizes: IntArray, most: int
) -> IntArray | None:
    """Labels (groups,), joined until no row touches more than two; None where that fails.

    Of the labels that meet in a row with more than two, those are joined that share the largest
    part of their rows, each for both the best.
    """
    entries = np.empty((2, groups.size), dtype=np.int64)
    distinct = np.empty(indptr.size, dtype=np.int64)
    for _ in range(_ROUNDS):
        dofs = np.bincount(label, sizes).astype(np.int64)
        names, room = np.arange(dofs.size), np.empty((6, dofs.size + 1), dtype=np.int64)
        if not _partners(indptr, groups, label, dofs, most, entries, distinct, room):
            return label
        partner = room[0, :-1]
        mutual = (partner >= 0) & (partner[partner] == names)
        if not mutual.any():
            return None
        label = np.where(mutual, np.minimum(names, partner), names)[label]
        label = (np.cumsum(np.bincount(label, minlength=dofs.size) > 0) - 1)[label]
    return None


@compiled()
def _two_a_row(indptr: IntArray, indices: IntArray, label: IntArray) -> bool:
    """Whether no row touches more than two labels."""
    for i in range(indptr.size - 1):
        first, second = -1, -1
        for k in range(indptr[i], indptr[i + 1]):
            touched = label[indices[k]]
            if first < 0:
                first = touched
            elif touched != first:
                if second < 0:
                    second = touched
                elif touched != second:
                    return False
    return True


@compiled()
def _partners(
    indptr: IntArray,
    groups: IntArray,
    label: IntArray,
    dofs: IntArray,
    most: int,
    entries: IntArray,
    distinct: IntArray,
    room: IntArray,
) -> int:
    """How many rows touch more than two labels; ``room[0]``: the label that suits each, or −1.

    Workspace: ``entries`` (2, stored), ``distinct`` (rows + 1,) and ``room`` (6, labels + 1).
    """
    touched, rows = entries[0], entries[1]
    partner, begin, shared, tight, near, seen = room[0], room[1], room[2], room[3], room[4], room[5]
    count, crowded = dofs.size, 0
    begin[:], seen[:] = 0, -1
    for i in range(indptr.size - 1):
        n = 0
        for k in range(indptr[i], indptr[i + 1]):
            a = label[groups[k]]
            if seen[a] != i:
                seen[a] = i
                touched[indptr[i] + n] = a
                begin[a + 1] += 1
                n += 1
        distinct[i] = n
        crowded += n > 2
    if crowded == 0:
        return 0
    for a in range(count):
        begin[a + 1] += begin[a]
        shared[a] = begin[a]
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i] + distinct[i]):
            rows[shared[touched[k]]] = i
            shared[touched[k]] += 1
    shared[:] = 0
    for a in range(count):
        n = 0
        for r in range(begin[a], begin[a + 1]):
            i = rows[r]
            for k in range(indptr[i], indptr[i] + distinct[i]):
                b = touched[k]
                if b == a:
                    continue
                if shared[b] == 0:
                    near[n], tight[b] = b, 0
                    n += 1
                shared[b] += 1
                if distinct[i] > 2:
                    tight[b] = 1
        partner[a] = _best(a, near[:n], begin, shared, tight, dofs, most)
        for k in range(n):
            shared[near[k]] = 0
    return crowded


@part()
def _best(
    a: int,
    near: IntArray,
    begin: IntArray,
    shared: IntArray,
    tight: IntArray,
    dofs: IntArray,
    most: int,
) -> int:
    """The label that shares the largest part of its rows with a; of equals the closest number.

    Pairs have one order, the same from both sides: the first of all is the best of both.
    """
    best, score = -1, 0.0
    for b in near:
        if tight[b] == 0 or dofs[a] + dofs[b] > most:
            continue
        either = begin[a + 1] - begin[a] + begin[b + 1] - begin[b] - shared[b]
        part_shared = shared[b] / either
        closer = abs(a - b) < abs(a - best) or (abs(a - b) == abs(a - best) and b < best)
        if part_shared > score or (part_shared == score and closer):
            best, score = b, part_shared
    return best
