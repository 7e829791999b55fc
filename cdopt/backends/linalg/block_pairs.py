"""Contacts as pairs of bodies: the layout in which conjugate gradients cost the least.

Bodies stand in two chunks of about equal work, or in one if they are few. The entries of a body are
[begin, middle), contacts with a later body of the same chunk, which act on both; and [middle, end),
contacts with bodies of other chunks and with the fixed world, which act on a alone. A contact
between chunks is stored with both of its bodies. So no two threads write to the same entry, sums
are taken chunk by chunk, and results do not depend on the number of threads.

On pyramids of 1,620 and 14,440 contacts, an iteration of conjugate gradients takes a seventh and a
third of its time with SciPy's products.

Indices are unsigned, which spares compiled code the test for negative ones, half of its time.
``shape`` is a tuple with as many numbers as a block has dofs: its length is part of its type, so
that loops are compiled for each block size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import prange
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part, side_by_side
from cdopt.backends.linalg.iteration import IterationStatistics
from cdopt.backends.threads import several

LARGEST_BLOCK = 6  # dofs of a rigid body in space
_OMEGA = 1.4  # relaxation, the best or nearly so on pyramids, packings, crystals and walls
_LEAST_PIVOT = 1e-15  # of a body's block, beside its diagonal
_IN_TWO = 512  # bodies from which there are two chunks: more make the preconditioner worse
_SCATTERED = 0.25  # share of contacts between chunks from which bodies are put in a better order
_MATH = {"contract", "nsz"}  # with "reassoc" a loop just compiled and one from disk would differ

Indices = NDArray[np.unsignedinteger[Any]]
Shape = tuple[int, ...]
Loop = Callable[..., Any]


class BlockPairs(NamedTuple):
    """B with at most two blocks to a row, all blocks of one size, its entries by body.

    Attributes
    ----------
    start : (chunks + 1,) first block of each chunk.
    begin, middle, end : (blocks,) the entries of each block.
    second : (entries,) the other block; the number of blocks stands for the fixed world.
    rows : (entries, 2 size) the row of B on this block and on the other; the rows of one contact
        stand together.
    contact : (entries,) the row of B of each entry.
    """

    start: Indices
    begin: Indices
    middle: Indices
    end: Indices
    second: Indices
    rows: FloatArray
    contact: Indices


class PairSystem:
    """S + shift I + Bᵀ D B by conjugate gradients, only its contacts with D > 0 kept.

    D is diagonal, or has blocks (contacts, d, d) between the d rows of a contact, given by their
    ``factors`` F with D = FᵀF. ``mass_blocks`` (blocks, size, size) holds S where it is not
    diagonal, and is empty where it is.

    Preconditioned by block SSOR within each chunk, with Eisenstat's trick (SIAM J. Sci. Stat.
    Comput. 2, 1981): the product and the preconditioner together take two triangular solutions.
    In units in which each body's own block is the identity, ω H = ω I + L + Lᵀ + C, L between the
    bodies of a chunk and C between chunks, and conjugate gradients solve with
    (I + L)⁻¹ ω H (I + Lᵀ)⁻¹.
    """

    def __init__(
        self,
        pairs: BlockPairs,
        mass_blocks: FloatArray,
        mass_diagonal: FloatArray,
        D: FloatArray,
        shift: float,
        statistics: IterationStatistics,
    ) -> None:
        self.statistics, self.gave_up = statistics, False
        count, size = pairs.begin.size, pairs.rows.shape[1] // 2
        self.shape, unit = (0,) * size, np.eye(size)
        self.active = _room(pairs)
        self._sums = np.empty(pairs.start.size - 1)
        self._threads = True if self._sums.size > 1 and several() else None  # two types: two loops
        if mass_blocks.size:
            self.root = mass_blocks + shift * unit
        else:
            self.root = (mass_diagonal.reshape(count, size) + shift)[:, :, None] * unit
        factors = np.sqrt(D)[:, None, None] if D.ndim == 1 else D
        arguments = pairs, factors, self.active, self.root, self.shape
        if self._threads is None:
            _prepare_alone(*arguments)
        else:
            side_by_side(_prepare, *arguments)

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x with its preconditioned residual reduced by ``tol``."""
        most = 20 * rhs.size if limit is None else limit
        count, size = self.root.shape[:2]
        x, room = np.zeros((count, size)), np.zeros((4, count + 1, size))
        room[0, :count] = _OMEGA * np.einsum("aij,aj->ai", self.root, rhs.reshape(count, size))
        arguments = self._threads, self.active, x, room, self._sums, tol, most, self.shape
        if self._threads is None:
            spent = _conjugate_gradients(*arguments)
        else:
            spent = side_by_side(_conjugate_gradients, *arguments)
        self.statistics.iterations += spent
        self.gave_up = spent == most
        return np.einsum("aji,aj->ai", self.root, x).ravel()


class UnsymmetricPairSystem:
    """S + Bᵀ D B by BiCGSTAB, D with blocks between the d rows of a contact, D = FᵀG.

    H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992). Preconditioned with the inverse of
    each body's diagonal block; in one thread. ``left`` F and ``right`` G are (contacts, d, d), and
    the same rows of both are zero.
    """

    def __init__(
        self,
        pairs: BlockPairs,
        mass_blocks: FloatArray,
        mass_diagonal: FloatArray,
        left: FloatArray,
        right: FloatArray,
        statistics: IterationStatistics,
    ) -> None:
        self.statistics, self.gave_up = statistics, False
        count, size = pairs.begin.size, pairs.rows.shape[1] // 2
        self.shape = (0,) * size
        self.left, self.right = _room(pairs), _room(pairs)
        self.diagonal, self.blocks = mass_diagonal.reshape(count, size), mass_blocks
        self.inverse = self.blocks.copy()
        if not mass_blocks.size:
            self.inverse = self.diagonal[:, :, None] * np.eye(size)
        mixed = left, right, self.left, self.right
        _prepare_unsymmetric(pairs, *mixed, self.inverse, self.shape)

    def solve(self, rhs: FloatArray, tol: float, limit: int) -> FloatArray:
        """x with its residual reduced by ``tol``."""
        count, size = self.diagonal.shape
        x, room = np.zeros((count, size)), np.zeros((7, count + 1, size))
        room[0, :count] = rhs.reshape(count, size)
        system = self.left, self.right.rows, self.diagonal, self.blocks, self.inverse
        spent = _stabilised_gradients(*system, x, room, tol, limit, self.shape)
        self.statistics.iterations += spent
        self.gave_up = spent >= limit
        return x.ravel()


def _room(pairs: BlockPairs) -> BlockPairs:
    """The same layout with room for other entries, at most as many."""
    return pairs._replace(
        begin=np.empty_like(pairs.begin),
        middle=np.empty_like(pairs.middle),
        end=np.empty_like(pairs.end),
        second=np.empty_like(pairs.second),
        rows=np.empty_like(pairs.rows),
    )


# --- building the layout -----------------------------------------------------------------


def block_order(first: IntArray, second: IntArray, count: int) -> IntArray | None:
    """An order in which neighbours stand together, or None where they do already.

    Reverse Cuthill–McKee (Liu & Sherman, SIAM J. Numer. Anal. 13, 1976).
    """
    inner = (first < count) & (second < count)
    a, b = first[inner], second[inner]
    edges = _chunk_starts(np.bincount(a, minlength=count) + np.bincount(b, minlength=count))
    apart = np.searchsorted(edges, a, side="right") != np.searchsorted(edges, b, side="right")
    if edges.size <= 2 or a.size == 0 or apart.mean() < _SCATTERED:
        return None
    graph = sp.csr_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(count, count))
    return np.asarray(reverse_cuthill_mckee(sp.csr_array(graph + graph.T), symmetric_mode=True))


def block_pairs(
    size: int, first: IntArray, second: IntArray, rows: FloatArray, count: int, d: int = 1
) -> BlockPairs:
    """The layout, from the blocks ``first`` < ``second`` (``count`` for none) of each contact.

    ``rows`` (nc d, 2 size) holds the d rows of a contact one after the other.
    """
    inner = second < count
    degree = np.bincount(first, minlength=count) + np.bincount(second[inner], minlength=count)
    start = _chunk_starts(degree)
    across = np.searchsorted(start, first, side="right") != np.searchsorted(
        start, second, side="right"
    )
    repeated = np.flatnonzero(across & inner)  # these stand a second time, with their second body
    contact = np.concatenate([np.arange(first.size), repeated])
    swapped = np.arange(contact.size) >= first.size
    left = np.concatenate([first, second[repeated]])
    key = 2 * left + np.concatenate([across, across[repeated]])
    order = np.argsort(key, kind="stable")
    contact, swapped, key = contact[order], swapped[order], key[order]
    row = (d * contact[:, None] + np.arange(d)).ravel()
    entries, turned = rows[row], np.repeat(swapped, d)
    entries[turned] = np.roll(entries[turned], size, axis=1)
    edges = d * np.searchsorted(key, np.arange(2 * count + 1)).astype(np.uint64)
    other = np.repeat(np.where(swapped, first[contact], second[contact]), d)
    return BlockPairs(
        start=start.astype(np.uint64),
        begin=edges[0:-1:2].copy(),
        middle=edges[1::2].copy(),
        end=edges[2::2].copy(),
        second=other.astype(np.uint32),
        rows=entries,
        contact=row.astype(np.uint32),
    )


def _chunk_starts(degree: IntArray) -> IntArray:
    """First block of each chunk, two chunks of about equal work, or one."""
    count = degree.size
    chunks = 1 if count < _IN_TWO else 2
    work = np.concatenate([[0], np.cumsum(degree + 1)])
    inside = np.searchsorted(work, work[-1] * np.arange(1, chunks) / chunks)
    return np.unique(np.concatenate([[0], inside, [count]])).astype(np.int64)


# --- compiled loops ----------------------------------------------------------------------
#
# Loops over one chunk c, and over all chunks in threads, which take as long again to compile and
# are compiled only for problems large enough for several threads.


@part()
def _total(sums: FloatArray) -> float:
    """The sum over chunks, always in the same order."""
    total = 0.0
    for c in range(sums.size):
        total += sums[c]
    return total


@part()
def _mix_chunk(
    c: Any, pairs: BlockPairs, factors: FloatArray, out: BlockPairs, shape: Shape
) -> None:
    """The rows of each contact times its block of ``factors`` (contacts, d, d), without zeros."""
    size = len(shape)
    start, begin, middle, end, second, rows, contact = pairs
    _, begin_out, middle_out, end_out, second_out, rows_out, _ = out
    d = np.uint64(factors.shape[1])
    at = begin[start[c]]
    for a in range(start[c], start[c + 1]):
        begin_out[a] = at
        for group in range((end[a] - begin[a]) // d):
            k = begin[a] + group * d
            if k == middle[a]:
                middle_out[a] = at
            i = contact[k] // d
            for m in range(d):
                norm = 0.0
                for n in range(d):
                    norm += abs(factors[i, m, n])
                if norm != 0.0:
                    second_out[at] = second[k]
                    for j in range(2 * size):
                        rows_out[at, j] = 0.0
                    for n in range(d):
                        for j in range(2 * size):
                            rows_out[at, j] += factors[i, m, n] * rows[k + n, j]
                    at += np.uint64(1)
        if middle[a] == end[a]:
            middle_out[a] = at
        end_out[a] = at


@part(fastmath=_MATH)
def _invert_chunk(
    c: Any, pairs: BlockPairs, right: FloatArray, out: FloatArray, shape: Shape
) -> None:
    """Add the diagonal blocks of Wᵀ ``right`` to ``out`` (blocks, size, size) and invert each."""
    size = len(shape)
    start, begin, middle, end, second, rows, _ = pairs
    for a in range(start[c], start[c + 1]):
        for k in range(begin[a], end[a]):
            for i in range(size):
                for j in range(size):
                    out[a, i, j] += rows[k, i] * right[k, j]
        for k in range(begin[a], middle[a]):
            b = second[k]
            for i in range(size):
                for j in range(size):
                    out[b, i, j] += rows[k, size + i] * right[k, size + j]
    for a in range(start[c], start[c + 1]):
        for i in range(size):  # Gauss–Jordan in place
            pivot = 1.0 / out[a, i, i]
            out[a, i, i] = 1.0
            for j in range(size):
                out[a, i, j] *= pivot
            for r in range(size):
                if r != i:
                    factor = out[a, r, i]
                    out[a, r, i] = 0.0
                    for j in range(size):
                        out[a, r, j] -= factor * out[a, i, j]


@part(fastmath=_MATH)
def _root_chunk(c: Any, pairs: BlockPairs, out: FloatArray, shape: Shape) -> None:
    """Add the diagonal blocks of WᵀW to ``out`` and put R⁻¹ in its place, where it is R Rᵀ."""
    size = len(shape)
    start, begin, middle, end, second, rows, _ = pairs
    for a in range(start[c], start[c + 1]):
        for k in range(begin[a], end[a]):
            for i in range(size):
                for j in range(i + 1):
                    out[a, i, j] += rows[k, i] * rows[k, j]
        for k in range(begin[a], middle[a]):
            b = second[k]
            for i in range(size):
                for j in range(i + 1):
                    out[b, i, j] += rows[k, size + i] * rows[k, size + j]
    for a in range(start[c], start[c + 1]):
        for j in range(size):  # Cholesky in place
            pivot, least = out[a, j, j], _LEAST_PIVOT * out[a, j, j]
            for m in range(j):
                pivot -= out[a, j, m] * out[a, j, m]
            pivot = np.sqrt(max(pivot, least))
            out[a, j, j] = pivot
            for i in range(j + 1, size):
                value = out[a, i, j]
                for m in range(j):
                    value -= out[a, i, m] * out[a, j, m]
                out[a, i, j] = value / pivot
        for j in range(size):  # its inverse
            out[a, j, j] = 1.0 / out[a, j, j]
            for i in range(j + 1, size):
                value = 0.0
                for m in range(j, i):
                    value += out[a, i, m] * out[a, m, j]
                out[a, i, j] = -value / out[a, i, i]
                out[a, j, i] = 0.0


@part(fastmath=_MATH)
def _normalise_chunk(c: Any, pairs: BlockPairs, root: FloatArray, shape: Shape) -> None:
    """The rows in units in which each body's own block is the identity, times √ω."""
    size = len(shape)
    start, begin, _, end, second, rows, _ = pairs
    unit = np.sqrt(_OMEGA)
    for a in range(start[c], start[c + 1]):
        for k in range(begin[a], end[a]):
            b = second[k]
            for i in range(size - 1, -1, -1):
                value = 0.0
                for j in range(i + 1):
                    value += root[a, i, j] * rows[k, j]
                rows[k, i] = unit * value
                value = 0.0
                if b < root.shape[0]:
                    for j in range(i + 1):
                        value += root[b, i, j] * rows[k, size + j]
                rows[k, size + i] = unit * value


@part(fastmath=_MATH)
def _back_chunk(
    c: Any,
    beta: float,
    pairs: BlockPairs,
    r: FloatArray,
    p: FloatArray,
    t: FloatArray,
    image: FloatArray,
    shape: Shape,
) -> None:
    """p = r + β p, t = (I + Lᵀ)⁻¹ p, and ``image`` zero."""
    size = len(shape)
    start, begin, middle, _, second, rows, _ = pairs
    for backward in range(start[c + 1] - start[c]):
        a = start[c + 1] - np.uint64(1) - backward
        for j in range(size):
            p[a, j] = r[a, j] + beta * p[a, j]
            image[a, j] = 0.0
            t[a, j] = p[a, j]
        for k in range(begin[a], middle[a]):
            b, q = second[k], 0.0
            for j in range(size):
                q += rows[k, size + j] * t[b, j]
            for j in range(size):
                t[a, j] -= rows[k, j] * q


@part(fastmath=_MATH)
def _forth_chunk(
    c: Any, pairs: BlockPairs, p: FloatArray, t: FloatArray, image: FloatArray, shape: Shape
) -> float:
    """image = t + (I + L)⁻¹ (p + (ω − 2) t + C t), from an ``image`` of zero; pᵀ image."""
    size = len(shape)
    start, begin, middle, end, second, rows, _ = pairs
    total = 0.0
    for a in range(start[c], start[c + 1]):
        for j in range(size):
            image[a, j] = p[a, j] + (_OMEGA - 2.0) * t[a, j] - image[a, j]
        for k in range(middle[a], end[a]):
            b, q = second[k], 0.0
            for j in range(size):
                q += rows[k, size + j] * t[b, j]
            for j in range(size):
                image[a, j] += rows[k, j] * q
        for k in range(begin[a], middle[a]):
            b, q = second[k], 0.0
            for j in range(size):
                q += rows[k, j] * image[a, j]
            for j in range(size):
                image[b, j] += rows[k, size + j] * q
        for j in range(size):
            image[a, j] += t[a, j]
            total += p[a, j] * image[a, j]
    return total


@part(fastmath=_MATH)
def _advance_chunk(
    c: Any,
    alpha: float,
    start: Indices,
    t: FloatArray,
    image: FloatArray,
    x: FloatArray,
    r: FloatArray,
    shape: Shape,
) -> float:
    """x += α t, r −= α image in one pass; rᵀ r."""
    total = 0.0
    for a in range(start[c], start[c + 1]):
        for j in range(len(shape)):
            x[a, j] += alpha * t[a, j]
            r[a, j] -= alpha * image[a, j]
            total += r[a, j] * r[a, j]
    return total


@compiled()
def _prepare_alone(
    pairs: BlockPairs, factors: FloatArray, out: BlockPairs, root: FloatArray, shape: Shape
) -> None:
    """The active rows in the units of each body, and these; ``factors`` as in a PairSystem."""
    for c in range(pairs.start.size - 1):
        _mix_chunk(c, pairs, factors, out, shape)
        _root_chunk(c, out, root, shape)
    for c in range(pairs.start.size - 1):
        _normalise_chunk(c, out, root, shape)


@compiled(parallel=True)
def _prepare(
    pairs: BlockPairs, factors: FloatArray, out: BlockPairs, root: FloatArray, shape: Shape
) -> None:
    """The same in threads."""
    for c in prange(pairs.start.size - 1):
        _mix_chunk(np.int64(c), pairs, factors, out, shape)
        _root_chunk(np.int64(c), out, root, shape)
    _normalise(out, root, shape)


@part(parallel=True)
def _normalise(pairs: BlockPairs, root: FloatArray, shape: Shape) -> None:
    """A loop of its own: numba would fuse it with the one before, whose roots it needs."""
    for c in prange(pairs.start.size - 1):
        _normalise_chunk(np.int64(c), pairs, root, shape)


@compiled()
def _prepare_unsymmetric(
    pairs: BlockPairs,
    left: FloatArray,
    right: FloatArray,
    left_out: BlockPairs,
    right_out: BlockPairs,
    inverse: FloatArray,
    shape: Shape,
) -> None:
    """The active rows of both sides, and the inverse of each diagonal block."""
    for c in range(pairs.start.size - 1):
        _mix_chunk(c, pairs, left, left_out, shape)
        _mix_chunk(c, pairs, right, right_out, shape)
        _invert_chunk(c, left_out, right_out.rows, inverse, shape)


@part(parallel=True)
def _back(
    sums: FloatArray,
    beta: float,
    pairs: BlockPairs,
    r: FloatArray,
    p: FloatArray,
    t: FloatArray,
    image: FloatArray,
    shape: Shape,
) -> None:
    for c in prange(sums.size):
        _back_chunk(np.int64(c), beta, pairs, r, p, t, image, shape)


@part(parallel=True)
def _forth(
    sums: FloatArray,
    pairs: BlockPairs,
    p: FloatArray,
    t: FloatArray,
    image: FloatArray,
    shape: Shape,
) -> None:
    for c in prange(sums.size):
        sums[c] = _forth_chunk(np.int64(c), pairs, p, t, image, shape)


@part(parallel=True)
def _advance(
    sums: FloatArray,
    alpha: float,
    start: Indices,
    t: FloatArray,
    image: FloatArray,
    x: FloatArray,
    r: FloatArray,
    shape: Shape,
) -> None:
    for c in prange(sums.size):
        sums[c] = _advance_chunk(np.int64(c), alpha, start, t, image, x, r, shape)


@compiled()
def _conjugate_gradients(
    threads: bool | None,
    pairs: BlockPairs,
    x: FloatArray,
    room: FloatArray,
    sums: FloatArray,
    tol: float,
    limit: int,
    shape: Shape,
) -> int:
    """Solve ω H x = room[0] from x = 0 in the units of each body; the iterations spent.

    Ends where the residual has fallen by ``tol``, or where the curvature along a direction is lost
    to round-off. ``room`` (4, blocks + 1, size) is zero beyond the right-hand side; its last block
    stands for the fixed world. ``sums`` (chunks,) is room too. ``threads`` is None for one thread.
    """
    p, r, t, image = room[0], room[1], room[2], room[3]
    square, target = 0.0, 0.0
    for iteration in range(limit + 1):
        if threads is None:  # decided while compiling, and so is the size of blocks
            for c in range(sums.size):
                sums[c] = _forth_chunk(c, pairs, p, t, image, shape)
        else:
            _forth(sums, pairs, p, t, image, shape)
        curvature = _total(sums)
        if not curvature > 0.0:
            return max(iteration - 1, 0)
        alpha = square / curvature if iteration > 0 else -1.0  # at first r is the image itself
        if threads is None:
            for c in range(sums.size):
                sums[c] = _advance_chunk(c, alpha, pairs.start, t, image, x, r, shape)
        else:
            _advance(sums, alpha, pairs.start, t, image, x, r, shape)
        following = _total(sums)
        beta, square = following / square if iteration > 0 else 0.0, following
        if iteration == 0:
            target = square * tol * tol
        if iteration == limit or not square > target:
            return iteration
        if threads is None:
            for c in range(sums.size):
                _back_chunk(c, beta, pairs, r, p, t, image, shape)
        else:
            _back(sums, beta, pairs, r, p, t, image, shape)
    return limit


@part(fastmath=_MATH)
def _multiply_unsymmetric(
    pairs: BlockPairs,
    right: FloatArray,
    diagonal: FloatArray,
    blocks: FloatArray,
    p: FloatArray,
    out: FloatArray,
    shape: Shape,
) -> None:
    """out = (S + Wᵀ ``right``) p, S by its diagonal or, if there are any, its blocks."""
    size = len(shape)
    _, begin, middle, end, second, rows, _ = pairs
    for a in range(begin.size):
        for i in range(size):
            value = diagonal[a, i] * p[a, i]
            if blocks.size > 0:
                value = 0.0
                for j in range(size):
                    value += blocks[a, i, j] * p[a, j]
            out[a, i] = value
    for a in range(begin.size):
        for k in range(begin[a], end[a]):
            b, q = second[k], 0.0
            for j in range(size):
                q += right[k, j] * p[a, j] + right[k, size + j] * p[b, j]
            for j in range(size):
                out[a, j] += rows[k, j] * q
            if k < middle[a]:
                for j in range(size):
                    out[b, j] += rows[k, size + j] * q


@part(fastmath=_MATH)
def _precondition(inverse: FloatArray, r: FloatArray, out: FloatArray, shape: Shape) -> None:
    """out = P⁻¹ r, block by block."""
    size = len(shape)
    for a in range(inverse.shape[0]):
        for i in range(size):
            value = 0.0
            for j in range(size):
                value += inverse[a, i, j] * r[a, j]
            out[a, i] = value


@part(fastmath=_MATH)
def _product(x: FloatArray, y: FloatArray, count: int, shape: Shape) -> float:
    size = len(shape)
    total = 0.0
    for a in range(count):
        for j in range(size):
            total += x[a, j] * y[a, j]
    return total


@compiled(fastmath=_MATH)
def _stabilised_gradients(
    pairs: BlockPairs,
    right: FloatArray,
    diagonal: FloatArray,
    blocks: FloatArray,
    inverse: FloatArray,
    x: FloatArray,
    room: FloatArray,
    tol: float,
    limit: int,
    shape: Shape,
) -> int:
    """Solve (S + Wᵀ ``right``) x = room[0] from x = 0; the iterations spent, ``limit`` if in vain.

    ``room`` (7, blocks + 1, size) is zero beyond the right-hand side; its last block stands for
    the fixed world.
    """
    size = len(shape)
    r, fixed, p, image, z, other, t = room[0], room[1], room[2], room[3], room[4], room[5], room[6]
    count = x.shape[0]
    for a in range(count):
        for j in range(size):
            fixed[a, j] = r[a, j]
    rho, alpha, omega = 1.0, 1.0, 1.0
    target = tol * tol * _product(r, r, count, shape)
    for iteration in range(limit):
        before, rho = rho, _product(fixed, r, count, shape)
        beta = rho / before * alpha / omega
        for a in range(count):
            for j in range(size):
                p[a, j] = r[a, j] + beta * (p[a, j] - omega * image[a, j])
        _precondition(inverse, p, z, shape)
        _multiply_unsymmetric(pairs, right, diagonal, blocks, z, image, shape)
        alpha = rho / _product(fixed, image, count, shape)
        for a in range(count):
            for j in range(size):
                r[a, j] -= alpha * image[a, j]
                x[a, j] += alpha * z[a, j]
        if _product(r, r, count, shape) <= target:
            return iteration + 1
        _precondition(inverse, r, other, shape)
        _multiply_unsymmetric(pairs, right, diagonal, blocks, other, t, shape)
        omega = _product(t, r, count, shape) / _product(t, t, count, shape)
        for a in range(count):
            for j in range(size):
                r[a, j] -= omega * t[a, j]
                x[a, j] += omega * other[a, j]
        square = _product(r, r, count, shape)
        if square <= target:
            return iteration + 1
        if not square < np.inf:
            return limit
    return limit
