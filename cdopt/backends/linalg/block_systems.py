"""Systems S + Gᵀ H G with a block of H for the d rows of each contact, symmetric or not.

``ContactNetwork.block_system`` makes them of a network with matrices. ``DelassusNetwork`` is the
network of a step known only by N and p, whose unknowns x are the forces themselves: its rates are
N x, the forces that balance x are x, and its systems are I + H N.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.linalg.block_pairs import PairSystem, UnsymmetricPairSystem
from cdopt.backends.linalg.factorisation import (
    DENSE,
    SMALL,
    Counted,
    DenseFactors,
    MatrixFactors,
    sparse_solve,
)
from cdopt.problem.scaling import rows_of, times

ITERATIONS = 500  # of iterated systems; then a factorisation
_FULL = 0.1  # share of entries of N from which it is dense


def diagonal_blocks(H: FloatArray) -> sp.csr_array:
    """Blocks (nc, d, d) on the diagonal of a sparse matrix."""
    nc, d, _ = H.shape
    return sp.csr_array(sp.bsr_array((H, np.arange(nc), np.arange(nc + 1)), shape=(nc * d, nc * d)))


class BlockPattern:
    """S + Bᵀ H C, with the places of its entries found once for all blocks H (nc, d, d)."""

    def __init__(self, B: sp.csr_array, C: sp.csr_array, S: sp.csr_array, d: int) -> None:
        """For B and C (nc d, m); S is (m, m)."""
        m, (rows, self.left) = B.shape[1], _of_contacts(B, d)
        columns, self.right = (rows, self.left) if C is B else _of_contacts(C, d)
        rest = sp.coo_array(S)
        both = (columns[:, None, :] * m + rows[:, :, None]).ravel()  # column by column
        keys, places = np.unique(
            np.append(both, rest.col.astype(np.int64) * m + rest.row), return_inverse=True
        )
        self.places = places[: both.size]
        self.rest = np.bincount(places[both.size :], rest.data, keys.size)
        self.keys = keys
        pointers = np.searchsorted(keys, np.arange(m + 1) * m).astype(np.int32)
        self.parts, self.shape = ((keys % m).astype(np.int32), pointers), (m, m)

    def factors(self, H: FloatArray) -> MatrixFactors:
        """Factors of the matrix for blocks H (nc, d, d)."""
        products = self.left.transpose(0, 2, 1) @ (H @ self.right)
        values = self.rest + np.bincount(self.places, products.ravel(), self.rest.size)
        if self.shape[0] <= SMALL:  # what ``sparse_solve`` would do, without a sparse matrix
            dense = np.zeros(self.shape[0] ** 2)
            dense[self.keys] = values
            return DenseFactors(dense.reshape(self.shape).T)
        J = sp.csc_array((values, *(part.copy() for part in self.parts)), shape=self.shape)
        J.eliminate_zeros()
        return sparse_solve(J)


def _of_contacts(B: sp.csr_array, d: int) -> tuple[IntArray, FloatArray]:
    """Dofs (nc, width) that the d rows of a contact touch, and the rows (nc, d, width) on these."""
    (rows, m), row = B.shape, rows_of(B)
    known, entry = np.unique(row // d * m + B.indices, return_inverse=True)
    contact, dof = known // m, known % m
    width = np.bincount(contact, minlength=rows // d)
    place = np.arange(known.size) - (np.cumsum(width) - width)[contact]
    dofs = np.zeros((width.size, int(width.max(initial=0))), dtype=np.int64)
    dofs[contact, place] = dof
    local = np.zeros((width.size, d, dofs.shape[1]))
    local[row // d, row % d, place[entry]] = B.data
    return dofs, local


class BlockSystem:
    """One system: by an iteration where there is one, or else, and where that gives up, by factors.

    Attributes
    ----------
    factorise : makes the factors. iterated : the same system by an iteration, or None.
    most : iterations that take as long as the factors.
    """

    gave_up = False

    def __init__(
        self,
        factorise: Callable[[], MatrixFactors],
        iterated: PairSystem | UnsymmetricPairSystem | None = None,
        most: int = ITERATIONS,
    ) -> None:
        self.factorise, self.iterated, self.most, self.gave_up = factorise, iterated, most, False
        self.factors = factorise() if iterated is None else None

    @property
    def sign(self) -> float:
        """The sign of its determinant, which takes the factors."""
        if self.factors is None:
            self.factors = self.factorise()
        return self.factors.sign

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x (m,) for rhs (m,), residual reduced by ``tol`` in ``limit`` iterations, or factors."""
        if self.factors is not None:
            return self.factors(rhs)
        if self.iterated is not None:
            x = self.iterated.solve(rhs, tol, self.most if limit is None else limit)
            if not self.iterated.gave_up and np.isfinite(x).all():
                return np.asarray(x)
        self.factors, self.gave_up = self.factorise(), True
        return self.factors(rhs)


class DelassusNetwork(Counted):
    """The network of a step known only by N (rows, rows), with the methods of a network.

    Attributes
    ----------
    d : rows a contact. m, rows : of N. weight : (m,) of the square of each imbalance.
    mass_diagonal : (m,) its inverse, ones where it is zero. full : whether systems are dense.
    """

    factorisable, patience = True, ITERATIONS
    quickly_factorised = True  # the only choice

    def __init__(self, N: sp.csr_array, d: int) -> None:
        super().__init__()
        self.d = d
        self.m = self.rows = int(N.shape[0])
        self.full = self.m <= DENSE or N.nnz > _FULL * self.m**2
        self._full = N.toarray() if self.full else None
        self._N = N
        self._times = partial(times, N) if self._full is None else self._full.__matmul__
        self.weight = N.diagonal()
        self.mass_diagonal = 1.0 / np.where(self.weight > 0.0, self.weight, 1.0)

    def gap(self, x: FloatArray) -> FloatArray:
        """N x (rows,)."""
        return np.asarray(self._times(x))

    def load(self, f: FloatArray) -> FloatArray:
        """What forces f do: f itself."""
        return f

    def inertia(self, x: FloatArray) -> FloatArray:
        """What balances x: x itself."""
        return x

    def motion(self, load: FloatArray) -> FloatArray:
        """The x in balance with a ``load``."""
        return load.copy()

    def work(self, inertia: FloatArray, d: FloatArray, rate: FloatArray) -> float:
        """xᵀ N d, of the ``inertia`` of x and the ``rate`` N d of d."""
        return float(inertia @ rate)

    def arranged(self, x: FloatArray) -> FloatArray:
        """x itself: the unknowns keep their order."""
        return x

    def block_system(self, left: FloatArray, right: FloatArray, direct: bool = True) -> BlockSystem:
        """I + H N, H of blocks ``left``ᵀ ``right``, both (contacts, d, d); always ``direct``."""
        return BlockSystem(lambda: self._factors(left.transpose(0, 2, 1) @ right))

    @cached_property
    def _pattern(self) -> BlockPattern:
        ones = sp.csr_array(sp.eye_array(self.m))
        return BlockPattern(ones, self._N, ones, self.d)

    def _factors(self, H: FloatArray) -> MatrixFactors:
        n = self.m
        if self._full is None:
            return self._pattern.factors(H)
        J = (H @ self._full.reshape(-1, self.d, n)).reshape(n, n)
        J.flat[:: n + 1] += 1.0
        return DenseFactors(J)
