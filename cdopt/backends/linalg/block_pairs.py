"""Contacts as pairs of bodies: the layout in which conjugate gradients cost the least.

Bodies are in two chunks of about equal work, or in one if they are few. The entries of a body are
[begin, middle), contacts with a later body of the same chunk, which act on both; and [middle, end),
contacts with bodies of other chunks and with the fixed world, which act only on a. A contact
between chunks is stored with both of its bodies. So no two threads write to the same entry, sums
are taken chunk by chunk, and results do not depend on the number of threads.

Indices are unsigned, which spares compiled code the test for negative ones, half of its time.
``shape`` is a tuple with as many numbers as a block has dofs: its length is part of its type, so
that loops are compiled for each block size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import prange
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, compiled_twice, part
from cdopt.backends.linalg.factorisation import Counted
from cdopt.backends.threads import several

LARGEST_BLOCK = 6  # dofs of a rigid body in space
_OMEGA = 1.4  # relaxation, the best or nearly so on pyramids, packings, crystals and walls
_LEAST_PIVOT = 1e-15  # of a body's block, relative to its diagonal
_IN_TWO = 512  # bodies from which there are two chunks: more make the preconditioner worse
_SCATTERED = 0.25  # share of contacts between chunks from which bodies are put in a better order
_MATH = {"contract", "nsz"}  # with "reassoc" a loop just compiled and one from disk would differ

Indices = NDArray[np.unsignedinteger[Any]]
Shape = tuple[int, ...]


class BlockPairs(NamedTuple):
    """B with at most two blocks to a row, all blocks of one size, its entries by body."""

    start: Indices  # (chunks + 1,) first block of each chunk
    # begin, middle, end: (blocks,) the entries of each block
    begin: Indices
    middle: Indices
    end: Indices
    second: Indices  # (entries,) the other block; the number of blocks is the fixed world
    # (entries, 2 size) the row of B on this block and on the other; the rows of one contact are
    # adjacent
    rows: FloatArray
    contact: Indices  # (entries,) the row of B of each entry

    def room(self) -> BlockPairs:
        """The same layout with workspace for other entries, at most as many."""
        names = ("begin", "middle", "end", "second", "rows")
        return self._replace(**{name: np.empty_like(getattr(self, name)) for name in names})


class PairSystem:
    """S + shift I + Bᵀ D B by conjugate gradients, only its contacts with D > 0 kept.

    D is diagonal, or has blocks (contacts, d, d) between the d rows of a contact, given by their
    ``factors`` F with D = FᵀF. ``mass`` (blocks, size, size) has the blocks of S.

    Preconditioned by block SSOR within each chunk, with Eisenstat's trick (SIAM J. Sci. Stat.
    Comput. 2, 1981): the product and the preconditioner together take two triangular solutions.
    In units in which each body's own block is the identity, ω H = ω I + L + Lᵀ + C, L between the
    bodies of a chunk and C between chunks, and conjugate gradients solve with
    (I + L)⁻¹ ω H (I + Lᵀ)⁻¹.
    """

    def __init__(
        self,
        pairs: BlockPairs,
        mass: FloatArray,
        D: FloatArray,
        shift: float,
        net: Counted,
    ) -> None:
        self.net, self.gave_up = net, False
        size, self.active = mass.shape[1], pairs.room()
        self.shape = (0,) * size
        self.root = mass + shift * np.eye(size)
        self.sums = np.empty(pairs.start.size - 1)
        self.threads = self.sums.size > 1 and several()
        factors = np.sqrt(D)[:, None, None] if D.ndim == 1 else D
        _prepare[self.threads](pairs, factors, self.active, self.root, self.shape)

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x (m,) for rhs (m,), preconditioned residual reduced by ``tol``; else ``gave_up``."""
        most = 20 * rhs.size if limit is None else limit
        count, size = self.root.shape[:2]
        room = np.zeros((5, count + 1, size))
        room[1, :count] = _OMEGA * np.einsum("aij,aj->ai", self.root, rhs.reshape(count, size))
        data = self.active, room, self.sums, tol, most, self.shape
        spent = _conjugate_gradients[self.threads](*data)
        self.net.iterations += spent
        self.gave_up = spent == most
        return np.einsum("aji,aj->ai", self.root, room[0, :count]).ravel()


class UnsymmetricPairSystem:
    """S + Bᵀ D B by BiCGSTAB, D with blocks between the d rows of a contact, D = FᵀG.

    H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992). Preconditioned with the inverse of
    each body's diagonal block; in one thread. ``left`` F and ``right`` G are (contacts, d, d), and
    the same rows of both are zero. ``mass`` is that of a ``PairSystem``.
    """

    def __init__(
        self,
        pairs: BlockPairs,
        mass: FloatArray,
        left: FloatArray,
        right: FloatArray,
        net: Counted,
    ) -> None:
        self.net, self.gave_up = net, False
        self.left, self.right, self.mass = pairs.room(), pairs.room(), mass
        self.shape, self.inverse = (0,) * mass.shape[1], mass.copy()
        sides = left, right, self.left, self.right
        _prepare_unsymmetric(pairs, *sides, self.inverse, self.shape)

    def solve(self, rhs: FloatArray, tol: float, limit: int) -> FloatArray:
        """x (m,) for rhs (m,), its residual reduced by ``tol``; else ``gave_up`` is set."""
        count, size = self.mass.shape[:2]
        x, room = np.zeros((count + 1, size)), np.zeros((7, count + 1, size))
        room[:2, :count] = rhs.reshape(count, size)
        system = self.left, self.right.rows, self.mass, self.inverse
        spent = _stabilised_gradients(system, x, room, tol, limit, self.shape)
        self.net.iterations += spent
        self.gave_up = spent >= limit
        return x[:count].ravel()


# --- building the layout -----------------------------------------------------------------


def block_order(first: IntArray, second: IntArray, count: int) -> IntArray | None:
    """An order in which neighbours are adjacent, or None: reverse Cuthill–McKee."""
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
    """The layout of bodies ``first`` < ``second`` (nc,) of ``count``; rows (nc d, 2 size)."""
    inner = second < count
    degree = np.bincount(first, minlength=count) + np.bincount(second[inner], minlength=count)
    start = _chunk_starts(degree)
    across = np.searchsorted(start, first, side="right") != np.searchsorted(
        start, second, side="right"
    )
    repeated = np.flatnonzero(across & inner)  # these are repeated, with their second body
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
def _root_chunk(c: Any, pairs: BlockPairs, out: FloatArray, shape: Shape) -> None:
    """Add the diagonal blocks of WᵀW to ``out`` and put R⁻¹ in its place, where it is R Rᵀ."""
    size = len(shape)
    start, begin, middle, end, second, rows, _ = pairs
    for a in range(start[c], start[c + 1]):
        block = out[a]
        for k in range(begin[a], end[a]):
            for i in range(size):
                for j in range(i + 1):
                    block[i, j] += rows[k, i] * rows[k, j]
        for k in range(begin[a], middle[a]):
            b = second[k]
            for i in range(size):
                for j in range(i + 1):
                    out[b, i, j] += rows[k, size + i] * rows[k, size + j]
    for a in range(start[c], start[c + 1]):
        block = out[a]
        for j in range(size):  # Cholesky in place
            pivot, least = block[j, j], _LEAST_PIVOT * block[j, j]
            for m in range(j):
                pivot -= block[j, m] * block[j, m]
            pivot = np.sqrt(least if least > pivot else pivot)
            block[j, j] = pivot
            for i in range(j + 1, size):
                value = block[i, j]
                for m in range(j):
                    value -= block[i, m] * block[j, m]
                block[i, j] = value / pivot
        for j in range(size):  # its inverse
            block[j, j] = 1.0 / block[j, j]
            for i in range(j + 1, size):
                value = 0.0
                for m in range(j, i):
                    value += block[i, m] * block[m, j]
                block[i, j] = -value / block[i, i]
                block[j, i] = 0.0


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
def _back_chunk(c: Any, beta: float, pairs: BlockPairs, room: FloatArray, shape: Shape) -> None:
    """p = r + β p, t = (I + Lᵀ)⁻¹ p, and ``image`` zero."""
    size = len(shape)
    start, begin, middle, _, second, rows, _ = pairs
    p, r, t, image = room[1], room[2], room[3], room[4]
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
def _forth_chunk(c: Any, pairs: BlockPairs, room: FloatArray, shape: Shape) -> float:
    """image = t + (I + L)⁻¹ (p + (ω − 2) t + C t), from an ``image`` of zero; pᵀ image."""
    size = len(shape)
    start, begin, middle, end, second, rows, _ = pairs
    p, t, image = room[1], room[3], room[4]
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
def _advance_chunk(c: Any, alpha: float, start: Indices, room: FloatArray, shape: Shape) -> float:
    """x += α t, r −= α image in one pass; rᵀ r."""
    x, r, t, image = room[0], room[2], room[3], room[4]
    total = 0.0
    for a in range(start[c], start[c + 1]):
        for j in range(len(shape)):
            x[a, j] += alpha * t[a, j]
            r[a, j] -= alpha * image[a, j]
            total += r[a, j] * r[a, j]
    return total


@part()
def _total(sums: FloatArray) -> float:
    """The sum over chunks, always in the same order."""
    total = 0.0
    for c in range(sums.size):
        total += sums[c]
    return total


# Loops over all chunks: one for a thread alone, one for several.


@compiled_twice
def _prepare(
    pairs: BlockPairs, factors: FloatArray, out: BlockPairs, root: FloatArray, shape: Shape
) -> None:
    """The active rows in the units of each body, and these."""
    for c in prange(pairs.start.size - 1):
        _mix_chunk(np.int64(c), pairs, factors, out, shape)
        _root_chunk(np.int64(c), out, root, shape)
    for c in prange(pairs.start.size - 1):
        _normalise_chunk(np.int64(c), out, root, shape)


@compiled_twice
def _conjugate_gradients(
    pairs: BlockPairs, room: FloatArray, sums: FloatArray, tol: float, limit: int, shape: Shape
) -> int:
    """Solve ω H x = room[1] for x = room[0] in the units of each body; the iterations spent.

    Ends where the residual has fallen by ``tol``, or where the curvature along a direction is lost
    to round-off. ``room`` (5, blocks + 1, size) is zero but for the right-hand side; its last block
    is the fixed world. ``sums`` (chunks,) is workspace too.
    """
    square, target = 0.0, 0.0
    for iteration in range(limit + 1):
        for c in prange(sums.size):
            sums[c] = _forth_chunk(np.int64(c), pairs, room, shape)
        curvature = _total(sums)
        if not curvature > 0.0:
            return iteration - 1 if iteration > 0 else 0
        alpha = square / curvature if iteration > 0 else -1.0  # at first r is the image itself
        for c in prange(sums.size):
            sums[c] = _advance_chunk(np.int64(c), alpha, pairs.start, room, shape)
        following = _total(sums)
        beta, square = following / square if iteration > 0 else 0.0, following
        if iteration == 0:
            target = square * tol * tol
        if iteration == limit or not square > target:
            return iteration
        for c in prange(sums.size):
            _back_chunk(np.int64(c), beta, pairs, room, shape)
    return limit


# Matrices that are not symmetric, in one thread.


@compiled(fastmath=_MATH)
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
    size, count = len(shape), pairs.begin.size
    for c in range(pairs.start.size - 1):
        _mix_chunk(c, pairs, left, left_out, shape)
        _mix_chunk(c, pairs, right, right_out, shape)
    F, G = left_out.rows, right_out.rows
    for a in range(count):
        for k in range(left_out.begin[a], left_out.end[a]):
            b = left_out.second[k]
            for i in range(size):
                for j in range(size):
                    inverse[a, i, j] += F[k, i] * G[k, j]
                    if k < left_out.middle[a]:
                        inverse[b, i, j] += F[k, size + i] * G[k, size + j]
    for a in range(count):
        for i in range(size):  # Gauss–Jordan in place
            pivot = 1.0 / inverse[a, i, i]
            inverse[a, i, i] = 1.0
            for j in range(size):
                inverse[a, i, j] *= pivot
            for r in range(size):
                if r != i:
                    factor = inverse[a, r, i]
                    inverse[a, r, i] = 0.0
                    for j in range(size):
                        inverse[a, r, j] -= factor * inverse[a, i, j]


@part(fastmath=_MATH)
def _apply(system: Any, p: FloatArray, z: FloatArray, out: FloatArray, shape: Shape) -> None:
    """z = P⁻¹ p and out = (S + FᵀG) z."""
    size = len(shape)
    pairs, G, mass, inverse = system
    _, begin, middle, end, second, F, _ = pairs
    for a in range(begin.size):
        for i in range(size):
            z[a, i] = 0.0
            for j in range(size):
                z[a, i] += inverse[a, i, j] * p[a, j]
        for i in range(size):
            out[a, i] = 0.0
            for j in range(size):
                out[a, i] += mass[a, i, j] * z[a, j]
    for a in range(begin.size):
        for k in range(begin[a], end[a]):
            b, q = second[k], 0.0
            for j in range(size):
                q += G[k, j] * z[a, j] + G[k, size + j] * z[b, j]
            for j in range(size):
                out[a, j] += F[k, j] * q
            if k < middle[a]:
                for j in range(size):
                    out[b, j] += F[k, size + j] * q


@part(fastmath=_MATH)
def _dot(a: FloatArray, b: FloatArray) -> float:
    """The sum of a b."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * b[i, j]
    return total


@part(fastmath=_MATH)
def _add(a: FloatArray, factor: float, b: FloatArray) -> None:
    """a += factor b."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] += factor * b[i, j]


@compiled(fastmath=_MATH)
def _stabilised_gradients(
    system: Any, x: FloatArray, room: FloatArray, tol: float, limit: int, shape: Shape
) -> int:
    """Solve for x from zero; the iterations spent, ``limit`` if not solved.

    ``system`` has the layout with F, the rows of G, S and P⁻¹. ``room`` (7, blocks, size) begins
    with the right-hand side, and again; the rest is zero. The last block of vectors is the fixed
    world.
    """
    r, fixed, p, image, z = room[0], room[1], room[2], room[3], room[4]
    other, t = room[5], room[6]
    rho, alpha, omega = 1.0, 1.0, 1.0
    target = tol * tol * _dot(r, r)
    for iteration in range(limit):
        before, rho = rho, _dot(fixed, r)
        share = rho / before * alpha / omega
        for i in range(p.shape[0]):
            for j in range(p.shape[1]):
                p[i, j] = r[i, j] + share * (p[i, j] - omega * image[i, j])
        _apply(system, p, z, image, shape)
        alpha = rho / _dot(fixed, image)
        _add(r, -alpha, image)
        _add(x, alpha, z)
        if _dot(r, r) <= target:
            return iteration + 1
        _apply(system, r, other, t, shape)
        omega = _dot(t, r) / _dot(t, t)
        _add(r, -omega, t)
        _add(x, omega, other)
        square = _dot(r, r)
        if square <= target:
            return iteration + 1
        if not square < np.inf:
            return limit
    return limit
    return limit
