"""One contact network: products with B, Bᵀ and the inertia S, and the systems made of them.

Dofs are gathered into blocks, those of a body, or where bodies have no names, runs of equal length
if no row of B touches more than two of them. Rows that touch two blocks at most are pairs of bodies
(``block_pairs``), in which conjugate gradients cost the least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, dijkstra

from cdopt._util.cached import cached_property, twin
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import threads_lost
from cdopt._util.sparse_rows import for_products
from cdopt.backends.linalg import factorisation
from cdopt.backends.linalg.block_pairs import (
    LARGEST_BLOCK,
    BlockPairs,
    PairSystem,
    UnsymmetricPairSystem,
    block_order,
    block_pairs,
)
from cdopt.backends.linalg.block_systems import (
    ITERATIONS,
    BlockPattern,
    BlockSystem,
    diagonal_blocks,
)
from cdopt.backends.linalg.factorisation import Counted, DenseSystem, IteratedSystem
from cdopt.problem.scaling import components, rows_of

DENSE_UP_TO = 240  # dofs; below it a dense factorisation beats any iteration
_FEW = 600  # contacts up to which a dense system of their forces beats those of more dofs
_FACTORISED_UP_TO = 150_000  # dofs; beyond it the factors of a network in space fill the memory
_FULL = 0.25  # share of entries that are not zero from which B is treated as dense
_DENSE_AT_MOST = 5_000
_FEWEST = 200
_FULL_BLOCKS = 60  # dofs up to which systems of blocks are made of dense matrices
_EASY = 20  # iterations of a loose solution up to which all are cheap
_WORTH = 100.0  # a factorisation may take the operations of as many times the iterations
_PRODUCTS = 5_000_000  # of entries of B of one contact, up to which their places are kept
_QUICK = 1e8  # operations that take some milliseconds,
_FEW_ITERATIONS = 60  # as do as many iterations
_SEPARATED = 10.0  # operations for the cube of the widest level, of networks in the plane
_ROUND_OFF = 1e-15
_REFINEMENTS, _DIVERGED = 30, 1e4  # iterations over factors close to the matrix; growth at the end


class ContactSystem:
    """S + Bᵀ D B by a dense system of the forces of the contacts with D > 0.

    (S + BᵀDB)⁻¹ = S⁻¹ − S⁻¹Bᵀ (D⁻¹ + B S⁻¹ Bᵀ)⁻¹ B S⁻¹ (Sherman, Morrison and Woodbury).
    """

    gave_up = False

    def __init__(self, net: ContactNetwork, D: FloatArray) -> None:
        self.net, self.stiff = net, np.flatnonzero(D)
        N = net.delassus[self.stiff].take(self.stiff, axis=1)
        N.flat[:: self.stiff.size + 1] += 1.0 / D[self.stiff]
        self.dense = DenseSystem(N, net)

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x (m,) for rhs (m,), to round-off; an ArithmeticError if numbers overflow."""
        free, forces = self.net.motion(rhs), np.zeros(self.net.rows)
        forces[self.stiff] = self.dense.solve(self.net.gap(free)[self.stiff], tol)
        return free - self.net.motion(self.net.load(forces))


# One symmetric positive definite system, to be solved for several right-hand sides.
System = DenseSystem | ContactSystem | PairSystem | IteratedSystem | BlockSystem


@dataclass(eq=False)
class ContactNetwork(Counted):
    """A contact network: B with the dofs of each body together, and the inertia S.

    Attributes
    ----------
    B : (nc, m) CSR, columns in block order.
    position : (given,) the position of each of the given dofs among the m.
    size : dofs of a block; blocks with fewer are filled up with dofs that touch nothing.
    mass : (m, m) S of every system, ones on the dofs that fill up; None where S is zero, and
        every system has a shift instead.
    pairs : the same B as pairs of bodies; None where a contact touches more than two.
    """

    B: sp.csr_array
    position: IntArray
    size: int
    mass: sp.csr_array | None = None
    pairs: BlockPairs | None = None

    @property
    def rows(self) -> int:
        """Number of rows of B."""
        return int(self.B.shape[0])

    @property
    def m(self) -> int:
        """Number of dofs."""
        return int(self.B.shape[1])

    def arranged(self, x: FloatArray) -> FloatArray:
        """A vector x on the given dofs in the order of this network (m,)."""
        out = np.zeros(self.m)
        out[self.position] = x
        return out

    def uncounted(self) -> ContactNetwork:
        """The same network with all that was made of it, whose systems have cost nothing."""
        other = twin(self)
        Counted.__init__(other)
        return other

    # --- products ----------------------------------------------------------------------

    @cached_property
    def _rows(self) -> Any:
        return for_products(self.B)

    @cached_property
    def _columns(self) -> Any:
        return self._rows.T

    @cached_property
    def _inertia(self) -> Any:
        return for_products(self.mass)

    def gap(self, u: FloatArray) -> FloatArray:
        """B u (nc,)."""
        return np.asarray(self._rows.dot(u))  # of few numbers half the time of @

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (m,)."""
        return np.asarray(self._columns.dot(f))

    def inertia(self, x: FloatArray) -> FloatArray:
        """S x (m,)."""
        if self._is_diagonal:
            return np.zeros(self.m) if self.mass is None else np.asarray(self.mass_diagonal * x)
        return np.asarray(self._inertia @ x)

    def work(self, inertia: FloatArray, d: FloatArray, rate: FloatArray) -> float:
        """xᵀ S d, of the ``inertia`` of x; ``rate`` is B d."""
        return float(inertia.dot(d))

    def motion(self, load: FloatArray) -> FloatArray:
        """S⁻¹ load (m,); an ArithmeticError where S is singular to working accuracy."""
        if self.mass is not None and self._is_diagonal:
            return np.asarray(load / self.mass_diagonal)
        if self.blocks is None:
            return self._inertial.solve(load, _ROUND_OFF)
        return np.asarray(self._mobility @ load)

    @cached_property
    def _inertial(self) -> System:
        """S itself, which ties blocks together, as a system."""
        return self.factored(np.zeros(self.rows))

    @cached_property
    def _mobility(self) -> sp.bsr_array:
        """S⁻¹ (m, m) by blocks."""
        inverse = _inverse(np.asarray(self.blocks))
        blocks = inverse, np.arange(len(inverse)), np.arange(len(inverse) + 1)
        return sp.bsr_array(blocks, shape=(self.m, self.m))

    @cached_property
    def delassus(self) -> FloatArray:
        """B S⁻¹ Bᵀ (nc, nc), dense."""
        return np.asarray((self.B @ (self._mobility @ self.B.T)).toarray())

    @cached_property
    def mass_diagonal(self) -> FloatArray:
        """(m,) diagonal of the inertia, ones without one."""
        return np.ones(self.m) if self.mass is None else np.asarray(self.mass.diagonal())

    @cached_property
    def mass_size(self) -> sp.csr_array:
        """|S| (m, m)."""
        return sp.csr_array((self.m, self.m)) if self.mass is None else abs(self.mass)

    @cached_property
    def weight(self) -> FloatArray:
        """(m,) weight of the square of each imbalance: a mobility."""
        return 1.0 / self.mass_diagonal

    @cached_property
    def _is_diagonal(self) -> bool:
        S = self.mass
        return S is None or (S.nnz == self.m and bool((rows_of(S) == S.indices).all()))

    @cached_property
    def blocks(self) -> FloatArray | None:
        """The inertia by blocks (blocks, size, size); None where it ties blocks together."""
        matrix = sp.coo_array((self.m, self.m)) if self.mass is None else sp.coo_array(self.mass)
        apart = np.any(matrix.row // self.size != matrix.col // self.size)
        return None if apart else self._diagonal_blocks(matrix)

    def _diagonal_blocks(self, matrix: sp.coo_array) -> FloatArray:
        """The diagonal blocks (blocks, size, size) of a matrix (m, m)."""
        out, size = np.zeros((self.m // self.size, self.size, self.size)), self.size
        inside = matrix.row // size == matrix.col // size
        row, column = matrix.row[inside], matrix.col[inside]
        out[row // size, row % size, column % size] = matrix.data[inside]
        return out

    # --- systems -----------------------------------------------------------------------

    @cached_property
    def small(self) -> bool:
        """Whether systems are factorised as dense matrices."""
        return self.m <= DENSE_UP_TO or (self._is_full and self.m <= _DENSE_AT_MOST)

    @cached_property
    def few(self) -> bool:
        """Whether there are few contacts, and ``of_forces`` is the quickest system."""
        few = self.mass is not None and _few_contacts(self.rows, self.m)
        return few and self.blocks is not None

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

    def system(self, D: FloatArray, shift: float = 0.0) -> System:
        """S + shift I + Bᵀ D B, D (nc,) ≥ 0: dense if small, else by conjugate gradients."""
        if self.small:
            return DenseSystem(self._dense(D, shift), self)
        if self.blocks is None or (threads_lost() and self.factorisable):
            return self.factored(D, shift)
        if self.pairs is not None:
            return PairSystem(self.pairs, self.blocks, D, shift, self)
        stiff = self._diagonal_blocks(sp.coo_array(self.B.T @ sp.csr_array(self.B * D[:, None])))
        inverse = _inverse(stiff + self.blocks + shift * np.eye(self.size))

        def precondition(r: FloatArray) -> FloatArray:
            return np.asarray(np.matmul(inverse, r.reshape(-1, self.size, 1))).ravel()

        return self._iterated(D, shift, precondition, net=self)

    def of_forces(self, D: FloatArray) -> ContactSystem:
        """S + Bᵀ D B by a dense system of the forces of few contacts."""
        return ContactSystem(self, D)

    def block_system(
        self, left: FloatArray, right: FloatArray, direct: bool = False
    ) -> BlockSystem:
        """S + Bᵀ H B, H of blocks ``left``ᵀ ``right``, both (contacts, d, d), of d rows a contact.

        One array where H is symmetric. By conjugate gradients, or BiCGSTAB, of pairs of bodies
        whose inertia ties no others together, else, and if ``direct``, by factors.
        """
        if self.m <= _FULL_BLOCKS or (self._is_full and self.m <= _DENSE_AT_MOST):
            return BlockSystem(lambda: factorisation.DenseFactors(self._full_system(left, right)))
        pairs, blocks = (None, None) if direct else (self.pairs, self.blocks)

        def factorise() -> factorisation.MatrixFactors:
            H = left.transpose(0, 2, 1) @ right
            if len(H) * self._widest**2 > _PRODUCTS:
                products = self.B.T @ (diagonal_blocks(H) @ self.B)
                return factorisation.sparse_solve(sp.csr_array(self.mass + products))
            if H.shape[1] not in self._patterns:
                self._patterns[H.shape[1]] = BlockPattern(self.B, self.B, self.mass, H.shape[1])
            return self._patterns[H.shape[1]].factors(H)

        if pairs is None or blocks is None:
            return BlockSystem(factorise)
        system: PairSystem | UnsymmetricPairSystem
        if left is right:
            system = PairSystem(pairs, blocks, left, 0.0, self)
        else:
            system = UnsymmetricPairSystem(pairs, blocks, left, right, self)
        return BlockSystem(
            factorise, system, _FEW_ITERATIONS if self.quickly_factorised else ITERATIONS
        )

    def _full_system(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """S + Bᵀ H B as a dense matrix (m, m)."""
        B = self._dense_B.reshape(*left.shape[:2], self.m)
        used = np.flatnonzero(left.any(axis=2) & right.any(axis=2))
        L = (left @ B).reshape(-1, self.m)[used]
        R = L if right is left else (right @ B).reshape(-1, self.m)[used]
        return np.asarray(self._dense_mass + L.T @ R)

    def factored(self, D: FloatArray, shift: float = 0.0) -> System:
        """S + shift I + Bᵀ D B, D (nc,) ≥ 0, by a factorisation, whatever its condition.

        Conjugate gradients over the factors refine the solution. An ArithmeticError where it is
        singular, or not positive definite, to working accuracy.
        """
        if self.small:
            return self.system(D, shift)
        solve = self.library.factorise(D, shift)
        self.factorised(self.library.name)
        return self._iterated(D, shift, solve, most=_REFINEMENTS, growth=_DIVERGED)

    def _iterated(
        self, D: FloatArray, shift: float, precondition: factorisation.Solve, **limits: Any
    ) -> IteratedSystem:
        def product(x: FloatArray) -> FloatArray:
            return self.load(D * self.gap(x)) + self.inertia(x) + shift * x

        return IteratedSystem(product, precondition, **limits)

    @cached_property
    def library(self) -> factorisation.SuperLU | factorisation.Pardiso:
        """What factorises the sparse systems of this network."""
        return factorisation.library(self.B, self.mass, self.size)

    def cheaply_factorised(self, iterations: int) -> bool:
        """Whether to factorise after a loose solution took that number of iterations.

        The operations are guessed: few for walls and crystals, whose factors are sparse and which
        need many iterations; many for random packings in space.
        """
        if self.small or not self.factorisable or iterations < _EASY:
            return False
        return self.operations <= _WORTH * iterations * 2.0 * self.B.nnz

    @cached_property
    def quickly_factorised(self) -> bool:
        """Whether factors of sparse systems take some milliseconds."""
        return self.m <= factorisation.DENSE or self.operations <= _QUICK

    @cached_property
    def operations(self) -> float:
        """A guess of the operations for sparse factors, from the widest level of the network."""
        return (
            _SEPARATED
            * (self.size * widest_level(factorisation.block_graph(self.B, self.size))) ** 3
        )

    @cached_property
    def _patterns(self) -> dict[int, BlockPattern]:
        return {}

    @cached_property
    def _widest(self) -> int:
        return int(np.diff(self.B.indptr).max(initial=0))

    @cached_property
    def _is_full(self) -> bool:
        return bool(self.B.nnz > _FULL * self.rows * self.m)

    def _dense(self, D: FloatArray, shift: float) -> FloatArray:
        """S + shift I + Bᵀ D B as a dense matrix (m, m), right in its upper triangle."""
        if self._is_full:
            B = self._dense_B
            H = self._dense_mass + (B.T * D).dot(B)
        else:
            H = self._dense_mass + (self._products @ D).reshape(self.m, self.m)
        if shift:
            H.flat[:: self.m + 1] += shift
        return H

    @cached_property
    def _dense_B(self) -> FloatArray:
        return np.asarray(self.B.toarray())

    @cached_property
    def _dense_mass(self) -> FloatArray:
        return np.zeros((self.m, self.m)) if self.mass is None else np.asarray(self.mass.toarray())

    @cached_property
    def _products(self) -> sp.csc_array:
        return factorisation.upper_products(self.B)


def _inverse(blocks: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.inv(blocks), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise ArithmeticError(str(error)) from error


def _few_contacts(nc: int, m: int) -> bool:
    return m > DENSE_UP_TO and 2 * nc <= min(2 * _FEW, m)


def widest_level(graph: sp.csr_array) -> int:
    """The most nodes at one distance from a node at the edge of a graph's largest part."""
    label = connected_components(graph, directed=False)[1]
    first = int(np.argmax(label == np.argmax(np.bincount(label))))
    last = breadth_first_order(graph, first, directed=False, return_predecessors=False)[-1]
    distance = dijkstra(graph, indices=last, unweighted=True)
    return int(np.bincount(distance[np.isfinite(distance)].astype(int)).max())


# --- putting a network in order ----------------------------------------------------------


def network(
    B: sp.csr_array,
    body: IntArray | None,
    mass: sp.csr_array | None = None,
    index: IntArray | None = None,
    d: int = 1,
) -> ContactNetwork:
    """The network of ``B`` (nc, m) with its dofs gathered into blocks.

    ``body`` (m,) is the body of each dof, ``mass`` (m, m) the inertia; either may be None. A block
    has the dofs of one body, joined with those that the mass ties to them; where that makes more
    than six, every dof is a block. Without ``body`` runs of equal length are tried as blocks;
    ``index`` (m,) are then the numbers that the dofs had before others were left out. The rows of
    B come in groups of ``d``, one for each contact.
    """
    m = B.shape[1]
    if m <= DENSE_UP_TO:
        return ContactNetwork(B, np.arange(m), 1, mass)
    block = _tied(np.arange(m) if body is None else np.unique(body, return_inverse=True)[1], mass)
    if body is None:
        block = _in_runs(B, block, np.arange(m) if index is None else index)
    sizes = np.bincount(block)
    if sizes.max() > LARGEST_BLOCK:
        block, sizes = np.arange(m), np.ones(m, dtype=np.int64)
    size, count = int(sizes.max()), sizes.size
    order = np.argsort(block, kind="stable")
    offset = np.cumsum(sizes) - sizes
    position = np.empty(m, dtype=np.int64)
    position[order] = block[order] * size + np.arange(m) - offset[block[order]]
    first, second, in_pairs = _ends(B.indptr[::d], B.indices, block, count)
    few = mass is not None and _few_contacts(B.shape[0], m)  # whose order hardly matters
    better = block_order(first, second, count) if in_pairs and not few else None
    if better is not None:
        rank = np.empty(count + 1, dtype=np.int64)
        rank[better], rank[count] = np.arange(count), count
        position = rank[position // size] * size + position % size
        first, second = rank[first], rank[second]
    m = count * size
    if position.size == m and np.array_equal(position, np.arange(m)):
        arranged, inertia = B, mass
    else:
        columns = position[B.indices]
        arranged = sp.csr_array((B.data, columns, B.indptr), shape=(B.shape[0], m), copy=True)
        arranged.sort_indices()
        inertia = None if mass is None else _filled(mass, position, m)
    pairs = None
    if in_pairs and arranged.nnz and not threads_lost():  # products of pairs run in threads
        first, second = np.minimum(first, second), np.maximum(first, second)
        row = rows_of(arranged)
        on_second = arranged.indices // size != first[row // d]
        rows = np.zeros((B.shape[0], 2 * size))
        rows[row, on_second * size + arranged.indices % size] = arranged.data
        pairs = block_pairs(size, first, second, rows, count, d)
    return ContactNetwork(arranged, position, size, inertia, pairs)


def _in_runs(B: sp.csr_array, tied: IntArray, index: IntArray) -> IntArray:
    """(m,) blocks that are runs of equal length among the numbers ``index``; else those ``tied``.

    A run is of neighbouring dofs, or every n-th dof: all first, then all second dofs of the bodies.
    Blocks are of use where no row touches more than two; ``tied`` dofs stay together.
    """
    count, widest = int(tied.max(initial=-1)) + 1, int(np.diff(B.indptr).max(initial=0))
    if _ends(B.indptr, B.indices, tied, count)[2]:
        return tied
    for length in range(max((widest + 1) // 2, 2), LARGEST_BLOCK + 1):
        for run in (index // length, index % max((int(index[-1]) + 1) // length, 1)):
            block, of_tied = np.unique(run, return_inverse=True)[1], np.empty(count, dtype=np.int64)
            of_tied[tied] = block
            fits = np.array_equal(of_tied[tied], block)
            if fits and _ends(B.indptr, B.indices, block, int(block.max()) + 1)[2]:
                return block
    return tied


def _tied(label: IntArray, mass: sp.csr_array | None) -> IntArray:
    """(m,) the labels, joined where the mass couples dofs, numbered from 0 without a hole."""
    if mass is not None:
        left, right = label[rows_of(mass)], label[mass.indices]
        apart = left != right
        if apart.any():
            label = components(left[apart], right[apart], int(label.max()) + 1)[0][label]
    return np.asarray(label, dtype=np.int64)


def _ends(
    pointers: IntArray, columns: IntArray, block: IntArray, count: int
) -> tuple[IntArray, IntArray, bool]:
    """The least and the greatest block of each contact, ``count`` for none; if these are all."""
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


def _filled(mass: sp.csr_array, position: IntArray, m: int) -> sp.csr_array:
    """The inertia at the dofs' places, ones on those that fill up blocks."""
    entries = sp.coo_array(mass)
    extra = np.setdiff1d(np.arange(m), position)
    data = np.concatenate([entries.data, np.ones(extra.size)])
    row = np.concatenate([position[entries.row], extra])
    column = np.concatenate([position[entries.col], extra])
    return sp.csr_array((data, (row, column)), shape=(m, m))
