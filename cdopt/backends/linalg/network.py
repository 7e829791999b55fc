"""B in the order in which products are cheapest, and the systems made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import threads_lost
from cdopt.backends.linalg import couples, dense, factor, rows
from cdopt.backends.linalg.base import System, Tally
from cdopt.backends.linalg.couples import LARGEST_BLOCK, Couples
from cdopt.backends.linalg.factor import Library
from cdopt.backends.linalg.factored import FactoredSystem
from cdopt.backends.linalg.iterated import CoupleSystem

DENSE_UP_TO = 240  # dofs; below it a dense factorisation beats any iteration
_FACTORISED_UP_TO = 150_000  # dofs; beyond it the factors of a network in space fill the memory
_FULL = 0.25  # share of entries that are not zero from which B is treated as dense
_DENSE_AT_MOST = 5_000
_FEWEST = 200
_ROUND_OFF = 1e-15


@dataclass(frozen=True, eq=False)
class Network:
    """A contact network: B with the dofs of each body together, and the inertia S.

    Attributes
    ----------
    B : (nc, m) CSR, columns in block order, rows in the order of ``contact``.
    place : (given,) where each of the given dofs stands among the m.
    size : dofs of a block; blocks with fewer are filled up with dofs that touch nothing.
    mass : (m, m) S of every system, ones on the dofs that fill up; None where S is zero, and
        every system has a shift instead.
    couples : the same B as couples of bodies; None where a contact touches more than two.
    contact : (nc,) which of the given contacts each row is; None where all stand as given.
    tally : what has been spent so far.
    """

    B: sp.csr_array
    place: IntArray
    size: int
    mass: sp.csr_array | None = None
    couples: Couples | None = None
    contact: IntArray | None = None
    tally: Tally = field(default_factory=Tally)

    @cached_property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.B.shape[0])

    @cached_property
    def m(self) -> int:
        """Number of dofs."""
        return int(self.B.shape[1])

    def arranged(self, x: FloatArray) -> FloatArray:
        """A vector x (m,) on the given dofs in the order of this network (m,)."""
        out = np.zeros(self.m)
        out[self.place] = x
        return out

    def in_rows(self, x: FloatArray) -> FloatArray:
        """Numbers x (nc,) of the given contacts in the order of the rows."""
        return x if self.contact is None else x[self.contact]

    def in_given_order(self, x: FloatArray) -> FloatArray:
        """Numbers x (nc,) of the rows in the order of the given contacts."""
        if self.contact is None:
            return x
        out = np.empty_like(x)
        out[self.contact] = x
        return out

    @cached_property
    def transposed(self) -> sp.csr_array:
        """Bᵀ (m, nc)."""
        return sp.csr_array(self.B.T)

    @cached_property
    def full(self) -> FloatArray:
        """B as a dense matrix (nc, m), for small networks."""
        return np.asarray(self.B.toarray())

    @cached_property
    def full_mass(self) -> FloatArray | None:
        """The inertia as a dense matrix (m, m), for small networks; None without one."""
        return None if self.mass is None else np.asarray(self.mass.toarray())

    @cached_property
    def small(self) -> bool:
        """Whether dense matrices are quickest."""
        dense = self.B.nnz > _FULL * self.nc * self.m and self.m <= _DENSE_AT_MOST
        return self.m <= DENSE_UP_TO or dense

    @property
    def factorisable(self) -> bool:
        """Whether a factorisation fits into memory."""
        return self.m <= _FACTORISED_UP_TO

    @property
    def patience(self) -> int:
        """Conjugate gradient iterations that cost about as much as a factorisation would.

        Of a network in space: factors cost m², an iteration m, and an interior point has two to
        four solutions of one factorisation. Measured on pyramids, with PARDISO.
        """
        return max(_FEWEST, self.m // 40)

    def gap(self, u: FloatArray) -> FloatArray:
        """B u (nc,)."""
        if self.small:
            return np.asarray(self.full @ u)
        return np.asarray(self.B @ u) if self.couples is None else self.couples.gap(u)

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (m,)."""
        if self.small:
            return np.asarray(self.full.T @ f)
        return np.asarray(self.transposed @ f) if self.couples is None else self.couples.load(f)

    def inertia(self, x: FloatArray) -> FloatArray:
        """S x (m,)."""
        return np.zeros(self.m) if self.mass is None else np.asarray(self.mass @ x)

    def motion(self, load: FloatArray) -> FloatArray:
        """S⁻¹ load (m,).

        Raises
        ------
        ArithmeticError : S is singular to working accuracy.
        """
        if self.blocks is None:
            return self.factored(np.zeros(self.nc)).solve(load, _ROUND_OFF)
        shape = (-1, self.size, 1)
        try:
            return np.asarray(np.linalg.solve(self.blocks, load.reshape(shape))).ravel()
        except np.linalg.LinAlgError as error:
            raise ArithmeticError(str(error)) from error

    @cached_property
    def mass_diagonal(self) -> FloatArray:
        """(m,) diagonal of the inertia, ones without one."""
        return np.ones(self.m) if self.mass is None else np.asarray(self.mass.diagonal())

    @cached_property
    def blocks(self) -> FloatArray | None:
        """The inertia by blocks (blocks, size, size); None where it ties blocks together."""
        out = np.zeros((self.m // self.size, self.size, self.size))
        if self.mass is None:
            return out
        entries = sp.coo_array(self.mass)
        row, column = entries.row // self.size, entries.col // self.size
        if np.any(row != column):
            return None
        out[row, entries.row % self.size, entries.col % self.size] = entries.data
        return out

    @cached_property
    def diagonal(self) -> bool:
        """Whether the inertia is diagonal, or zero."""
        return self.mass is None or _is_diagonal(self.mass)

    # --- systems -----------------------------------------------------------------------

    def system(self, D: FloatArray, shift: float = 0.0) -> System:
        """S + shift I + Bᵀ D B, D (nc,) ≥ 0: dense if small, else by conjugate gradients."""
        if self.small:
            return dense.DenseSystem(self.full, self.full_mass, D, shift, self.tally)
        if self.blocks is None or (threads_lost() and self.factorisable):
            return self.factored(D, shift)
        if self.couples is not None:
            base = np.zeros((0, self.size, self.size)) if self.diagonal else self.blocks
            return CoupleSystem(self.couples, base, self._diagonal(), D, shift, self.tally)
        return rows.RowSystem(self.B, self.transposed, self.blocks, D, shift, self.tally)

    def factored(self, D: FloatArray, shift: float = 0.0) -> System:
        """S + shift I + Bᵀ D B, D (nc,) ≥ 0, by a factorisation, whatever its condition."""
        if self.small:
            return self.system(D, shift)

        def product(x: FloatArray) -> FloatArray:
            return self.load(D * self.gap(x)) + self.inertia(x) + shift * x

        return FactoredSystem(self.library, product, D, shift, self.tally)

    @cached_property
    def library(self) -> Library:
        """What factorises the systems of this network."""
        return factor.library(self.B, self.mass, self.size)

    def _diagonal(self) -> FloatArray:
        return np.zeros(self.m) if self.mass is None else self.mass_diagonal


def network(B: sp.csr_array, body: IntArray | None, mass: sp.csr_array | None = None) -> Network:
    """The network of ``B`` (nc, m) with its dofs gathered into blocks.

    ``body`` (m,) is the body of each dof, ``mass`` (m, m) the inertia; either may be None. A block
    holds the dofs of one body, joined with those that the mass ties to them; where that makes more
    than six, every dof stands alone.
    """
    m = B.shape[1]
    if m <= DENSE_UP_TO:
        return Network(B, np.arange(m), 1, mass)
    block = _blocks(m, body, mass)
    sizes = np.bincount(block)
    if sizes.max() > LARGEST_BLOCK:
        block, sizes = np.arange(m), np.ones(m, dtype=np.int64)
    size = int(sizes.max())
    order = np.argsort(block, kind="stable")
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    place = np.empty(m, dtype=np.int64)
    place[order] = block[order] * size + np.arange(m) - first[block[order]]
    one, two, tidy = _ends(B, block, sizes.size)
    if tidy:
        better = couples.block_order(one, two, sizes.size)
        if better is not None:
            rank = np.empty(sizes.size, dtype=np.int64)
            rank[better] = np.arange(sizes.size)
            place = rank[place // size] * size + place % size
            rank = np.append(rank, sizes.size)
            one, two = rank[one], rank[two]
    arranged = _moved(B, place, sizes.size * size)
    held = contact = None
    if tidy and arranged.nnz and not threads_lost():  # couples' products run in threads
        one, two = np.minimum(one, two), np.maximum(one, two)
        contact = _row_order(one, two)
        if contact is not None:
            arranged, one, two = sp.csr_array(arranged[contact]), one[contact], two[contact]
        V = _rows_on(arranged, one, size)
        held = couples.couples(size, one, two, V, sizes.size)
    return Network(arranged, place, size, _filled(mass, place, arranged.shape[1]), held, contact)


def _row_order(one: IntArray, two: IntArray) -> IntArray | None:
    """The rows by their first blocks, then by their second ones; None where they stand so.

    Products then read the numbers of blocks and of rows in the order in which memory holds them.
    """
    key = one * (two.max(initial=0) + 1) + two
    if np.all(key[1:] >= key[:-1]):
        return None
    return np.argsort(key, kind="stable")


def _blocks(m: int, body: IntArray | None, mass: sp.csr_array | None) -> IntArray:
    """(m,) the block of each dof, numbered from 0 without a hole."""
    label = np.arange(m) if body is None else np.unique(body, return_inverse=True)[1]
    if mass is not None and not _is_diagonal(mass):
        member = sp.csr_array((np.ones(m), (np.arange(m), label)))
        tied = sp.block_array([[abs(mass), member], [member.T, None]], format="csr")
        tags = connected_components(tied, directed=False)[1][:m]
        label = np.unique(tags, return_inverse=True)[1]
    return np.asarray(label, dtype=np.int64)


def _ends(B: sp.csr_array, block: IntArray, count: int) -> tuple[IntArray, IntArray, bool]:
    """The least and the greatest block of each row, ``count`` for none, and if these are all."""
    nc = B.shape[0]
    counts = np.diff(B.indptr)
    filled = counts > 0
    touched = block[B.indices]
    one, two = np.zeros(nc, dtype=np.int64), np.full(nc, count)
    begin = B.indptr[:-1][filled]
    if begin.size:
        one[filled] = np.minimum.reduceat(touched, begin)
        greatest = np.maximum.reduceat(touched, begin)
        two[filled] = np.where(greatest > one[filled], greatest, count)
    row = np.repeat(np.arange(nc), counts)
    tidy = bool(np.all((touched == one[row]) | (touched == two[row])))
    return one, two, tidy


def _moved(B: sp.csr_array, place: IntArray, m: int) -> sp.csr_array:
    """B with its columns at their places."""
    moved = sp.csr_array((B.data.copy(), place[B.indices], B.indptr.copy()), shape=(B.shape[0], m))
    moved.sort_indices()
    return moved


def _rows_on(B: sp.csr_array, one: IntArray, size: int) -> FloatArray:
    """(nc, 2 size) each row of B on its first block and on its second."""
    V = np.zeros((B.shape[0], 2 * size))
    row = np.repeat(np.arange(B.shape[0]), np.diff(B.indptr))
    second = B.indices // size != one[row]
    V[row, second * size + B.indices % size] = B.data
    return V


def _filled(mass: sp.csr_array | None, place: IntArray, m: int) -> sp.csr_array | None:
    """The inertia at the dofs' places, ones on those that fill up blocks."""
    if mass is None:
        return None
    entries = sp.coo_array(mass)
    spare = np.ones(m, dtype=bool)
    spare[place] = False
    extra = np.flatnonzero(spare)
    data = np.concatenate([entries.data, np.ones(extra.size)])
    row = np.concatenate([place[entries.row], extra])
    column = np.concatenate([place[entries.col], extra])
    return sp.csr_array((data, (row, column)), shape=(m, m))


def _is_diagonal(matrix: sp.csr_array) -> bool:
    return bool(np.array_equal(*sp.coo_array(matrix).coords))
