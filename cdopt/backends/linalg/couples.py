"""Contacts as couples of bodies: the layout in which products with B cost the least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import side_by_side
from cdopt.backends.linalg import couple_kernels

LARGEST_BLOCK = 6  # dofs of a rigid body in space
_PER_CHUNK, _MOST_CHUNKS = 8192, 16  # bodies
_SCATTERED = 0.25  # share of contacts between chunks from which bodies are put in a better order


Places = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Couples:
    """B with at most two blocks to a row, all blocks of one size, bodies in chunks.

    Attributes
    ----------
    size : dofs of a block; missing ones are filled up with dofs that touch nothing.
    one, two : (nc,) the blocks of each contact; ``count`` stands for the fixed world.
    V : (nc, 2 size) the rows of B on these blocks.
    start : (chunks + 1,) first block of each chunk.
    begin, middle, end : (count,) the entries of each block, as ``couple_kernels`` tells.
    contact, other, entry : contact, second block and row of each entry.
    """

    size: int
    one: Places
    two: Places
    V: FloatArray
    start: Places
    begin: Places
    middle: Places
    end: Places
    contact: Places
    other: Places
    entry: FloatArray

    @property
    def count(self) -> int:
        """Number of blocks."""
        return int(self.begin.size)

    @property
    def m(self) -> int:
        """Number of dofs, those that fill up blocks included."""
        return self.count * self.size

    @property
    def shape(self) -> tuple[int, ...]:
        """What tells compiled loops the size of a block."""
        return (0,) * self.size

    def gap(self, x: FloatArray) -> FloatArray:
        """B x (nc,)."""
        out = np.empty(self.one.size)
        padded = np.zeros((self.count + 1, self.size))  # the last block: the fixed world
        padded[:-1] = x.reshape(-1, self.size)
        side_by_side(couple_kernels.gaps, self.one, self.two, self.V, padded, out, self.shape)
        return out

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (m,)."""
        out = np.empty((self.count, self.size))
        side_by_side(
            couple_kernels.loads,
            self.begin, self.middle, self.end, self.contact, self.other, self.entry, self.start,
            np.ascontiguousarray(f), out, self.shape,
        )  # fmt: skip
        return out.ravel()


def block_order(one: IntArray, two: IntArray, count: int) -> IntArray | None:
    """An order in which neighbours stand together, or None where they do already.

    Reverse Cuthill–McKee (Liu & Sherman, SIAM J. Numer. Anal. 13, 1976).
    """
    inner = (one < count) & (two < count)
    a, b = one[inner], two[inner]
    edges = _chunk_starts(np.bincount(a, minlength=count) + np.bincount(b, minlength=count))
    apart = np.searchsorted(edges, a, side="right") != np.searchsorted(edges, b, side="right")
    if edges.size <= 2 or a.size == 0 or apart.mean() < _SCATTERED:
        return None
    graph = sp.csr_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(count, count))
    return np.asarray(reverse_cuthill_mckee(sp.csr_array(graph + graph.T), symmetric_mode=True))


def couples(size: int, one: IntArray, two: IntArray, V: FloatArray, count: int) -> Couples:
    """The layout, from blocks ``one`` < ``two`` (``count`` for none) and rows V (nc, 2 size)."""
    inner = two < count
    degree = np.bincount(one, minlength=count) + np.bincount(two[inner], minlength=count)
    start = _chunk_starts(degree)
    across = np.searchsorted(start, one, side="right") != np.searchsorted(start, two, side="right")
    back = np.flatnonzero(across & inner)  # these stand a second time, with their second body
    contact = np.concatenate([np.arange(one.size), back])
    turned = np.arange(contact.size) >= one.size
    left = np.concatenate([one, two[back]])
    key = 2 * left + np.concatenate([across, across[back]])
    order = np.argsort(key, kind="stable")
    contact, turned, key = contact[order], turned[order], key[order]
    entry = V[contact]
    entry[turned] = np.roll(entry[turned], size, axis=1)
    edges = np.searchsorted(key, np.arange(2 * count + 1))
    return Couples(
        size=size,
        one=_places(one),
        two=_places(two),
        V=V,
        start=start.astype(np.uint64),
        begin=edges[0:-1:2].astype(np.uint64),
        middle=edges[1::2].astype(np.uint64),
        end=edges[2::2].astype(np.uint64),
        contact=_places(contact),
        other=_places(np.where(turned, one[contact], two[contact])),
        entry=entry,
    )


def _places(numbers: IntArray) -> Places:
    return numbers.astype(np.uint32)


def _chunk_starts(degree: IntArray) -> IntArray:
    """First block of each chunk, chunks of about equal work; a power of two, at most sixteen."""
    count = degree.size
    wanted = 1 if count < 512 else 2
    while wanted < _MOST_CHUNKS and count > wanted * _PER_CHUNK:
        wanted *= 2
    work = np.concatenate([[0], np.cumsum(degree + 1)])
    inside = np.searchsorted(work, work[-1] * np.arange(1, wanted) / wanted)
    return np.unique(np.concatenate([[0], inside, [count]])).astype(np.int64)
