"""Mass matrices: symmetric positive definite, sparse, solved block by block.

The M of rigid bodies is block diagonal with blocks of at most six rows, which are inverted all at
once. A matrix that couples many degrees of freedom is factorised as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, freeze, read_only, symmetric
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen

_SYMMETRY_TOL = 1e-10  # asymmetry beyond this share of the largest entry is no round-off
_PIVOT_TOL = 1e-14  # a pivot below this share of its diagonal entry is zero to round-off
_LARGEST_BLOCK = 32  # beyond it a sparse factorisation of the whole is cheaper and leaner
_DENSE = 100  # dofs up to which products are dense
_MOST_INVERTED = 1000  # rows of a matrix with large blocks whose inverse is computed as a whole


class MassMatrix:
    """A symmetric positive definite M (nv, nv) in kg and kg·m², else InvalidInput; and M⁻¹."""

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    def __init__(self, M: sp.csr_array) -> None:
        self.M = symmetric("M", M, _SYMMETRY_TOL)
        self.diagonal: FloatArray = read_only(self.M.diagonal())
        bad = np.flatnonzero(~(self.diagonal > 0.0))
        if bad.size:
            j = int(bad[0])
            raise InvalidInput(
                "M", f"diagonal entry {self.diagonal[j]:.6g} at row {j}", "a positive definite M"
            )
        self._factor = None
        if self.is_diagonal:
            self._label = np.arange(self.diagonal.size)
            self._blocks = [self._label[:, None]] if self._label.size else []
            self._inverses = list(map(self._invert, self._blocks))
            return
        self._label = connected_components(self.M, directed=False)[1]
        order, sizes = np.argsort(self._label, kind="stable"), np.bincount(self._label)
        starts = np.cumsum(sizes) - sizes
        self._blocks = [  # rows of each connected block, by block size: (blocks, size)
            order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)
        ]
        if sizes.max(initial=0) > _LARGEST_BLOCK:
            self._factor = self._sparse_factor()
        else:
            self._inverses = [self._invert(rows) for rows in self._blocks]

    @cached_property
    def is_diagonal(self) -> bool:
        """Whether M has no entry off its diagonal."""
        return int(self.M.nnz) == self.diagonal.size

    @cached_property
    def ties(self) -> sp.csr_array:
        """(nv, nv) couples each degree of freedom with the first of its block."""
        dofs = np.arange(self._label.size)
        first = np.zeros_like(dofs)
        first[self._label[::-1]] = dofs[::-1]
        entries = np.ones(dofs.size), first[self._label], np.arange(dofs.size + 1)
        return sp.csr_array(entries, shape=self.M.shape)

    def times(self, x: FloatArray) -> FloatArray:
        """M x for a vector x (nv,)."""
        return self.diagonal * x if self.is_diagonal else np.asarray(self._matrices[0] @ x)

    def times_size(self, x: FloatArray) -> FloatArray:
        """|M| |x| for a vector x (nv,)."""
        return self.diagonal * np.abs(x) if self.is_diagonal else self._matrices[1] @ np.abs(x)

    @cached_property
    def _matrices(self) -> tuple[Any, Any]:
        """M and |M|, for products."""
        return self._multiplied(self.M), self._multiplied(abs(self.M))

    @cached_property
    def _inverse(self) -> Any:
        """M⁻¹, for products."""
        return self._multiplied(self.inverse)

    def _multiplied(self, A: sp.csr_array) -> Any:
        """The matrix; of few dofs dense, as a sparse product takes longer to begin."""
        return A.toarray() if self.diagonal.size <= _DENSE else A

    def solve(self, x: FloatArray) -> FloatArray:
        """M⁻¹ x for x (nv,) or columns x (nv, k)."""
        if self.is_diagonal:
            return np.asarray((x.T / self.diagonal).T)
        if self._factor is not None:
            return np.asarray(self._factor.solve(x))
        return np.asarray(self._inverse @ x)

    def solve_sparse(self, X: sp.csr_array) -> sp.csr_array:
        """M⁻¹ X for a sparse X (nv, m)."""
        if self._factor is not None:
            return sp.csr_array(self._factor.solve(X.toarray()))
        return sp.csr_array(self.inverse @ X)

    @cached_property
    def inverse(self) -> sp.csr_array:
        """M⁻¹ with the block structure of M (nv, nv)."""
        if self._factor is not None:
            return freeze(sp.csr_array(self._factor.solve(np.eye(self.M.shape[0]))))
        pairs = list(zip(self._blocks, self._inverses, strict=True))
        if not pairs:
            return freeze(sp.csr_array(self.M.shape))
        rows, cols = _entries([index for index, _ in pairs])
        data = np.concatenate([inverse.ravel() for _, inverse in pairs])
        return freeze(sp.coo_array((data, (rows, cols)), shape=self.M.shape).tocsr())

    @cached_property
    def inverse_diagonal(self) -> FloatArray | None:
        """(M⁻¹)_jj (nv,); None of a matrix whose blocks are too large to invert."""
        if self.is_diagonal:
            return read_only(1.0 / self.diagonal)
        if self._factor is not None and self.diagonal.size > _MOST_INVERTED:
            return None
        return read_only(self.inverse.diagonal())

    def _invert(self, index: IntArray) -> FloatArray:
        """Inverses (nb, s, s) of all blocks of one size; ``index`` (nb, s) are their rows."""
        count, size = index.shape
        if size == 1:
            return (1.0 / self.diagonal[index])[:, :, None]
        dense = np.asarray(self.M[_entries([index])]).reshape(count, size, size)
        root = np.sqrt(self.diagonal[index])
        scaled = dense / (root[:, :, None] * root[:, None, :])
        smallest = np.linalg.eigvalsh(scaled)[:, 0]
        worst = int(np.argmin(smallest))
        if not smallest[worst] > _PIVOT_TOL * size:
            raise InvalidInput(
                "M",
                f"a singular or indefinite block at rows {index[worst].tolist()}",
                "a positive definite M",
            )
        return np.linalg.inv(scaled) / (root[:, :, None] * root[:, None, :])

    def _sparse_factor(self) -> Any:
        options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}
        try:
            factor = splu(self.M.tocsc(), **options, options={"SymmetricMode": True})
        except RuntimeError as error:
            raise InvalidInput("M", "a singular matrix", "a positive definite M") from error
        unpivoted = np.array_equal(factor.perm_r, factor.perm_c)
        least = _PIVOT_TOL * self.diagonal[np.argsort(factor.perm_c)]
        if not unpivoted or not np.all(factor.U.diagonal() > least):
            raise InvalidInput("M", "a singular or indefinite matrix", "a positive definite M")
        return factor


def _entries(blocks: list[IntArray]) -> tuple[IntArray, IntArray]:
    """Rows and columns of the entries of blocks, whose rows are (blocks, size)."""
    rows = [np.repeat(index, index.shape[1], axis=1).ravel() for index in blocks]
    columns = [np.tile(index, (1, index.shape[1])).ravel() for index in blocks]
    return np.concatenate(rows), np.concatenate(columns)
