"""Contacts as pairs of bodies: the layout in which conjugate gradients cost the least.

Bodies stand in chunks of about equal work, one for each thread. The entries of body a are
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
_SPHERE = 3  # dofs
_PER_CHUNK, _MOST_CHUNKS = 8192, 16  # bodies
_SCATTERED = 0.25  # share of contacts between chunks from which bodies are put in a better order
_MATH = {"contract", "reassoc", "nsz"}

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
    ``factors`` F with D = FᵀF. Preconditioned with the inverse of each body's diagonal block.
    ``mass_blocks`` (blocks, size, size) holds S where it is not diagonal, and is empty where it is.
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
        self.diagonal = mass_diagonal.reshape(count, size) + shift
        self.blocks = mass_blocks + shift * unit if mass_blocks.size else mass_blocks
        self.inverse = self.blocks.copy() if mass_blocks.size else self.diagonal[:, :, None] * unit
        factors = np.sqrt(D) if D.ndim == 1 else D
        arguments = pairs, factors, self.active, self.inverse, self.shape
        if self._threads is None:
            _prepare_alone(*arguments)
        else:
            side_by_side(_prepare, *arguments)

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x with its preconditioned residual reduced by ``tol``."""
        most = 20 * rhs.size if limit is None else limit
        count, size = self.diagonal.shape
        x, room = np.zeros((count, size)), np.zeros((3, count + 1, size))
        system = self.active, self.diagonal, self.blocks, self.inverse
        vectors = rhs.reshape(count, size).copy(), x, room
        arguments = (self._threads, *system, *vectors, self._sums, tol, most, self.shape)
        if self._threads is None:
            spent = _conjugate_gradients(*arguments)
        else:
            spent = side_by_side(_conjugate_gradients, *arguments)
        self.statistics.iterations += spent
        self.gave_up = spent == most
        return x.ravel()


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
    """First block of each chunk, chunks of about equal work; a power of two, at most sixteen."""
    count = degree.size
    chunks = 1 if count < 512 else 2
    while chunks < _MOST_CHUNKS and count > chunks * _PER_CHUNK:
        chunks *= 2
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
def _scale_chunk(
    c: Any, pairs: BlockPairs, root: FloatArray, out: BlockPairs, shape: Shape
) -> None:
    """The entries with ``root`` > 0 moved together, their rows times ``root``."""
    size = len(shape)
    start, begin, middle, end, second, rows, contact = pairs
    _, begin_out, middle_out, end_out, second_out, rows_out, _ = out
    at = begin[start[c]]
    for a in range(start[c], start[c + 1]):
        begin_out[a] = at
        for k in range(begin[a], end[a]):
            if k == middle[a]:
                middle_out[a] = at
            factor = root[contact[k]]
            if factor > 0.0:
                second_out[at] = second[k]
                for j in range(2 * size):
                    rows_out[at, j] = factor * rows[k, j]
                at += np.uint64(1)
        if middle[a] == end[a]:
            middle_out[a] = at
        end_out[a] = at


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
def _multiply_chunk(
    c: Any, pairs: BlockPairs, p: FloatArray, out: FloatArray, shape: Shape
) -> float:
    """out += WᵀW p; pᵀ out."""
    size = len(shape)
    start, begin, middle, end, second, rows, _ = pairs
    total = 0.0
    for a in range(start[c], start[c + 1]):
        for k in range(begin[a], end[a]):
            b, q = second[k], 0.0
            for j in range(size):
                q += rows[k, j] * p[a, j] + rows[k, size + j] * p[b, j]
            for j in range(size):
                out[a, j] += rows[k, j] * q
            if k < middle[a]:
                for j in range(size):
                    out[b, j] += rows[k, size + j] * q
        for j in range(size):
            total += out[a, j] * p[a, j]  # nothing is added to body a after this
    return total


@part(fastmath=_MATH)
def _multiply_chunk_of_three(
    c: Any, pairs: BlockPairs, p: FloatArray, out: FloatArray, shape: Shape
) -> float:
    """The same for blocks of three, those of spheres, kept in registers: 1.5 times as fast."""
    start, begin, middle, end, second, rows, _ = pairs
    total = 0.0
    for a in range(start[c], start[c + 1]):
        p0, p1, p2 = p[a, 0], p[a, 1], p[a, 2]
        s0, s1, s2 = 0.0, 0.0, 0.0
        for k in range(begin[a], end[a]):
            b = second[k]
            w0, w1, w2 = rows[k, 0], rows[k, 1], rows[k, 2]
            w3, w4, w5 = rows[k, 3], rows[k, 4], rows[k, 5]
            q = (w0 * p0 + w1 * p1 + w2 * p2) + (w3 * p[b, 0] + w4 * p[b, 1] + w5 * p[b, 2])
            s0 += w0 * q
            s1 += w1 * q
            s2 += w2 * q
            if k < middle[a]:
                out[b, 0] += w3 * q
                out[b, 1] += w4 * q
                out[b, 2] += w5 * q
        s0 += out[a, 0]
        s1 += out[a, 1]
        s2 += out[a, 2]
        out[a, 0], out[a, 1], out[a, 2] = s0, s1, s2
        total += s0 * p0 + s1 * p1 + s2 * p2
    return total


@part(fastmath=_MATH)
def _advance_chunk(
    c: Any,
    alpha: float,
    start: Indices,
    inverse: FloatArray,
    p: FloatArray,
    image: FloatArray,
    x: FloatArray,
    r: FloatArray,
    z: FloatArray,
    shape: Shape,
) -> float:
    """x += α p, r −= α image, z = P⁻¹ r in one pass; rᵀ z."""
    size = len(shape)
    total = 0.0
    for a in range(start[c], start[c + 1]):
        for j in range(size):
            x[a, j] += alpha * p[a, j]
            r[a, j] -= alpha * image[a, j]
        for i in range(size):
            value = 0.0
            for j in range(size):
                value += inverse[a, i, j] * r[a, j]
            z[a, i] = value
            total += value * r[a, i]
    return total


@part(fastmath=_MATH)
def _redirect_chunk(
    c: Any,
    beta: float,
    start: Indices,
    diagonal: FloatArray,
    blocks: FloatArray,
    z: FloatArray,
    p: FloatArray,
    out: FloatArray,
    shape: Shape,
) -> None:
    """p = z + β p and out = S p, S by its diagonal or, if there are any, its blocks."""
    size = len(shape)
    for a in range(start[c], start[c + 1]):
        for j in range(size):
            p[a, j] = z[a, j] + beta * p[a, j]
            out[a, j] = diagonal[a, j] * p[a, j]
        if blocks.size > 0:
            for i in range(size):
                value = 0.0
                for j in range(size):
                    value += blocks[a, i, j] * p[a, j]
                out[a, i] = value


@compiled()
def _prepare_alone(
    pairs: BlockPairs, factors: FloatArray, out: BlockPairs, inverse: FloatArray, shape: Shape
) -> None:
    """The active rows, and the inverse of each diagonal block; ``factors`` as in a PairSystem."""
    for c in range(pairs.start.size - 1):
        if factors.ndim == 1:  # decided while compiling
            _scale_chunk(c, pairs, factors, out, shape)
        else:
            _mix_chunk(c, pairs, factors, out, shape)
        _invert_chunk(c, out, out.rows, inverse, shape)


@compiled(parallel=True)
def _prepare(
    pairs: BlockPairs, factors: FloatArray, out: BlockPairs, inverse: FloatArray, shape: Shape
) -> None:
    """The same in threads."""
    for c in prange(pairs.start.size - 1):
        if factors.ndim == 1:
            _scale_chunk(np.int64(c), pairs, factors, out, shape)
        else:
            _mix_chunk(np.int64(c), pairs, factors, out, shape)
        _invert_chunk(np.int64(c), out, out.rows, inverse, shape)


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
def _multiply(
    sums: FloatArray, pairs: BlockPairs, p: FloatArray, out: FloatArray, shape: Shape
) -> None:
    for c in prange(sums.size):
        sums[c] = _multiply_chunk(np.int64(c), pairs, p, out, shape)


@part(parallel=True)
def _multiply_of_three(
    sums: FloatArray, pairs: BlockPairs, p: FloatArray, out: FloatArray, shape: Shape
) -> None:
    for c in prange(sums.size):
        sums[c] = _multiply_chunk_of_three(np.int64(c), pairs, p, out, shape)


@part(parallel=True)
def _advance(
    sums: FloatArray,
    alpha: float,
    start: Indices,
    inverse: FloatArray,
    p: FloatArray,
    image: FloatArray,
    x: FloatArray,
    r: FloatArray,
    z: FloatArray,
    shape: Shape,
) -> None:
    for c in prange(sums.size):
        sums[c] = _advance_chunk(np.int64(c), alpha, start, inverse, p, image, x, r, z, shape)


@part(parallel=True)
def _redirect(
    sums: FloatArray,
    beta: float,
    start: Indices,
    diagonal: FloatArray,
    blocks: FloatArray,
    z: FloatArray,
    p: FloatArray,
    out: FloatArray,
    shape: Shape,
) -> None:
    for c in prange(sums.size):
        _redirect_chunk(np.int64(c), beta, start, diagonal, blocks, z, p, out, shape)


@compiled()
def _conjugate_gradients(
    threads: bool | None,
    pairs: BlockPairs,
    diagonal: FloatArray,
    blocks: FloatArray,
    inverse: FloatArray,
    r: FloatArray,
    x: FloatArray,
    room: FloatArray,
    sums: FloatArray,
    tol: float,
    limit: int,
    shape: Shape,
) -> int:
    """Solve (S + WᵀW) x = r from x = 0, r used up; the iterations spent.

    Ends where rᵀz has fallen by ``tol``², or where the curvature along a direction is lost to
    round-off. ``room`` (3, blocks + 1, size) is zero; its last block stands for the fixed world.
    ``sums`` (chunks,) is room too. ``threads`` is None where one thread goes from chunk to chunk.
    """
    p, image, z = room[0], room[1], room[2]
    alpha, rz, target = 0.0, 0.0, 0.0
    for iteration in range(limit + 1):
        if threads is None:  # decided while compiling, and so is the size of blocks
            for c in range(sums.size):
                vectors = p, image, x, r, z
                sums[c] = _advance_chunk(c, alpha, pairs.start, inverse, *vectors, shape)
        else:
            _advance(sums, alpha, pairs.start, inverse, p, image, x, r, z, shape)
        following = _total(sums)
        beta, rz = following / rz if iteration > 0 else 0.0, following
        if iteration == 0:
            target = rz * tol * tol
        if iteration == limit or not rz > target:
            return iteration
        directions = beta, pairs.start, diagonal, blocks, z, p, image, shape
        product = pairs, p, image, shape
        if threads is None:
            for c in range(sums.size):
                _redirect_chunk(c, *directions)
            for c in range(sums.size):
                if len(shape) == _SPHERE:
                    sums[c] = _multiply_chunk_of_three(c, *product)
                else:
                    sums[c] = _multiply_chunk(c, *product)
        else:
            _redirect(sums, *directions)
            if len(shape) == _SPHERE:
                _multiply_of_three(sums, *product)
            else:
                _multiply(sums, *product)
        curvature = _total(sums)
        if not curvature > 0.0:
            return iteration
        alpha = rz / curvature
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
