"""The linear systems of the Newton backend: (S + λ I + Bᵀ D B) d = r, solved by size.

Small systems are factorised densely; large ones are solved matrix-free by conjugate gradients,
preconditioned with the diagonal block of each body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from cdopt.backends import newton_kernels as kernels
from cdopt.backends.newton_kernels import LARGEST_BLOCK, Rows, rows_of
from cdopt.checks import FloatArray, IntArray

DENSE_UP_TO = 240  # dofs; below it a dense factorisation beats any iteration


@dataclass
class Network:
    """B in an order in which the dofs of each body stand together, with its transpose.

    Attributes
    ----------
    B : (nc, m) CSR, columns in block order.
    order : (m,) the original dof behind each column.
    start : (blocks + 1,) first dof of each block.
    mass : (m, m) added to every system, in the same order; None for a truss.
    iterations : conjugate gradient iterations spent so far; ``factorisations`` likewise.
    """

    B: sp.csr_array
    order: IntArray
    start: IntArray
    mass: sp.csr_array | None = None
    dense: FloatArray | None = None
    rows: Rows = field(init=False)
    transposed: Rows = field(init=False)
    blocks: FloatArray = field(init=False)
    blockwise: bool = field(init=False)
    iterations: int = 0
    factorisations: int = 0

    def __post_init__(self) -> None:
        self.rows = rows_of(self.B)
        self.transposed = rows_of(sp.csr_array(self.B.T))
        if self.B.shape[1] <= DENSE_UP_TO:
            self.dense = self.B.toarray()
        self.blocks, self.blockwise = self._mass_blocks()

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.B.shape[0])

    @property
    def m(self) -> int:
        """Number of dofs."""
        return int(self.B.shape[1])

    def gap(self, u: FloatArray) -> FloatArray:
        """B u (nc,)."""
        if self.dense is not None:
            return np.asarray(self.dense @ u)
        out = np.empty(self.nc)
        kernels.multiply(self.rows, u, out)
        return out

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (m,)."""
        if self.dense is not None:
            return np.asarray(self.dense.T @ f)
        out = np.empty(self.m)
        kernels.multiply(self.transposed, f, out)
        return out

    def solve(
        self,
        D: FloatArray,
        shift: float,
        rhs: FloatArray,
        tol: float,
        direct: bool = False,
    ) -> FloatArray:
        """d with (mass + shift I + Bᵀ D B) d = rhs, to a relative ``tol`` if iterative.

        ``direct`` asks for a factorisation; small systems, and masses that couple more than a
        body's dofs, get one anyway.
        """
        if self.dense is not None:
            return self._dense_solve(D, shift, rhs)
        if direct or not self.blockwise:
            return self._sparse_solve(D, shift, rhs)
        base = self._base(shift)
        inverse = np.empty_like(base)
        kernels.block_inverses(self.transposed, D, base, self.start, inverse)
        x = np.empty(self.m)
        self.iterations += kernels.conjugate_gradients(
            self.rows, self.transposed, D, base, self.start, inverse, rhs, x, tol, 20 * self.m
        )
        return x

    @cached_property
    def mass_diagonal(self) -> FloatArray:
        """(m,) diagonal of the mass, ones without one."""
        return np.ones(self.m) if self.mass is None else np.asarray(self.mass.diagonal())

    def inertia(self, x: FloatArray) -> FloatArray:
        """mass x (m,)."""
        return np.zeros(self.m) if self.mass is None else np.asarray(self.mass @ x)

    def _mass_blocks(self) -> tuple[FloatArray, bool]:
        """The mass by blocks (blocks, 6, 6), and whether the blocks hold all of it."""
        out = np.zeros((self.start.size - 1, LARGEST_BLOCK, LARGEST_BLOCK))
        if self.mass is None:
            return out, True
        entries = sp.coo_array(self.mass)
        block = np.searchsorted(self.start, entries.row, side="right") - 1
        column = entries.col - self.start[block]
        inside = (column >= 0) & (entries.col < self.start[block + 1])
        b, i, j = block[inside], (entries.row - self.start[block])[inside], column[inside]
        out[b, i, j] = entries.data[inside]
        return out, bool(inside.all())

    def _base(self, shift: float) -> FloatArray:
        base = self.blocks.copy()
        diagonal = np.arange(LARGEST_BLOCK)
        base[:, diagonal, diagonal] += shift
        return base

    def _sparse_solve(self, D: FloatArray, shift: float, rhs: FloatArray) -> FloatArray:
        H = sp.csc_array(self.B.T @ sp.csr_array(self.B * D[:, None]))
        H = H + shift * sp.eye_array(self.m, format="csc")
        if self.mass is not None:
            H = H + sp.csc_array(self.mass)
        factor = splu(
            sp.csc_array(H),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        self.factorisations += 1
        d = np.asarray(factor.solve(rhs))
        return d + np.asarray(factor.solve(rhs - H @ d))

    def _dense_solve(self, D: FloatArray, shift: float, rhs: FloatArray) -> FloatArray:
        if self.dense is None:
            return rhs
        H = (self.dense.T * D) @ self.dense
        H[np.diag_indices_from(H)] += shift
        if self.mass is not None:
            H += self.mass.toarray()
        self.factorisations += 1
        try:
            return np.asarray(cho_solve(cho_factor(H), rhs))
        except LinAlgError:
            return np.asarray(np.linalg.lstsq(H, rhs, rcond=None)[0])


def network(B: sp.csr_array, body: IntArray | None, mass: sp.csr_array | None = None) -> Network:
    """The network with its dofs gathered into blocks.

    A block holds the dofs of one body, joined with those that the mass ties to them; where that
    makes more than six, its dofs stand alone.
    """
    m = B.shape[1]
    label = np.arange(m) if body is None else np.unique(body, return_inverse=True)[1]
    if mass is not None:
        member = sp.csr_array((np.ones(m), (np.arange(m), label)), shape=(m, m))
        label = connected_components(member @ member.T + abs(mass), directed=False)[1]
    order = np.argsort(label, kind="stable")
    counts = np.unique(label, return_counts=True)[1]
    sizes = [np.array([n]) if n <= LARGEST_BLOCK else np.ones(n, dtype=np.int64) for n in counts]
    start = np.concatenate([[0], np.cumsum(np.concatenate([*sizes, np.zeros(0)]))])
    ordered = None if mass is None else sp.csr_array(mass[order][:, order])
    return Network(sp.csr_array(B[:, order]), order, start.astype(np.int64), ordered)
