"""Rank, null space and leverages of a contact network.

All are computed from the gap gradient B (nc, nv), its columns in units of their levers and its rows
of unit length, so that neither units nor long levers decide what counts as zero.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray
from cdopt._util.errors import Unsupported
from cdopt.problem.scaling import column_scale

DENSE_LIMIT = 500  # the smaller side of B, up to which its singular values are computed
_DENSE_LAST = 6000  # the same where the sparse count is in doubt
SPARSE_TOL = 1e-7  # smaller singular values are round-off in the Gram matrix, which squares them
_PROBES = 16  # random vectors that estimate the looseness of large networks
_SEED = 1805
_DAMPING = 1e-12  # of the Gram matrix, whose motions may be singular
_PASSES = 25
_CLEAN = 1e-14


def equilibrated(B: sp.csr_array) -> tuple[sp.csr_array, FloatArray]:
    """B with columns in units of their levers and rows of unit length, and the lengths (nc,)."""
    lever = column_scale(B)
    scaled = sp.csr_array(B * (1.0 / np.where(lever > 0.0, lever, 1.0))[None, :])
    length = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
    length = np.where(length > 0.0, length, 1.0)
    return sp.csr_array(scaled * (1.0 / length)[:, None]), length


def rank_of(B: sp.csr_array, tol: float) -> int:
    """Number of singular values of an equilibrated B above a share ``tol`` of the largest.

    Large matrices count the eigenvalues of their Gram matrix by the inertia of a sparse
    factorisation, which sees no share below ``SPARSE_TOL``.

    Raises
    ------
    Unsupported : large, and the factorisation needs pivoting.
    """
    if min(B.shape) == 0 or B.nnz == 0:
        return 0
    if min(B.shape) > DENSE_LIMIT:
        gram = (B.T @ B if B.shape[1] <= B.shape[0] else B @ B.T).tocsc()
        top = float(abs(gram).sum(axis=0).max())  # no eigenvalue is larger
        count = _count_above(gram, max(tol, SPARSE_TOL) ** 2 * top)
        if count is not None:
            return count
        if min(B.shape) > _DENSE_LAST:
            raise Unsupported(
                "the rank of this network",
                f"a factorisation of its {B.shape[0]:,} contacts needs pivoting, and it is too "
                "large for singular values",
            )
    values = np.linalg.svd(B.toarray(), compute_uv=False)
    return int(np.count_nonzero(values > tol * values[0]))


def _count_above(gram: sp.csc_array, level: float) -> int | None:
    """Eigenvalues of a Gram matrix above a level, by Sylvester's law; None when in doubt."""
    size = gram.shape[0]
    factors = _factorised(gram - level * sp.eye_array(size, format="csc"))
    if factors is None or not np.array_equal(factors.perm_r, factors.perm_c):
        return None
    return int(np.count_nonzero(factors.U.diagonal() > 0.0))


def _factorised(matrix: sp.csc_array) -> splu | None:
    """L U of a symmetric matrix, pivots on its diagonal; None when one of them is zero."""
    try:
        return splu(
            sp.csc_matrix(matrix),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # exactly singular
        return None


def looseness(B: sp.csr_array, rank_tol: float) -> FloatArray:
    """√(1 − leverage) of each row of an equilibrated B: (nc,) in [0, 1].

    The length of the i-th unit force projected onto null(Bᵀ): zero when no self-stress state
    involves contact i, so that its force is fixed by Bᵀf. For networks whose smaller side
    exceeds ``DENSE_LIMIT`` it is estimated from random vectors of a fixed seed: zeros are sharp,
    the other values good to about a fifth.
    """
    nc = B.shape[0]
    if min(B.shape) == 0 or B.nnz == 0:
        return np.ones(nc)
    if min(B.shape) <= DENSE_LIMIT:
        return _dense_looseness(B, rank_tol)
    probes = np.random.default_rng(_SEED).standard_normal((nc, _PROBES))
    return np.minimum(np.sqrt(np.mean(_projected(B, probes) ** 2, axis=1)), 1.0)


def states(B: sp.csr_array, rank_tol: float) -> FloatArray | None:
    """Orthonormal basis (nc, k) of an equilibrated B's null(Bᵀ); None when B is too large."""
    if min(B.shape) > DENSE_LIMIT or max(B.shape) > _DENSE_LAST:
        return None
    return np.asarray(scipy.linalg.null_space(B.toarray().T, rcond=rank_tol))


def _dense_looseness(B: sp.csr_array, rank_tol: float) -> FloatArray:
    U, values, _ = np.linalg.svd(B.toarray(), full_matrices=False)
    U = U[:, values > rank_tol * values[0]]
    left = 1.0 - np.einsum("ij,ij->i", U, U)
    result = np.sqrt(np.clip(left, 0.0, 1.0))
    doubtful = np.flatnonzero(left < 1e-6)  # 1 − leverage has lost its digits
    for block in np.array_split(doubtful, max(doubtful.size // 256, 1)):
        unit = np.zeros((B.shape[0], block.size))
        unit[block, np.arange(block.size)] = 1.0
        result[block] = np.linalg.norm(unit - U @ U[block].T, axis=0)
    return result


def _projected(B: sp.csr_array, vectors: FloatArray) -> FloatArray:
    """Vectors (nc, k) projected onto null(Bᵀ), by damped normal equations, repeated."""
    gram = (B.T @ B).tocsc()
    top = float(abs(gram).sum(axis=0).max())
    size = gram.shape[0]
    factors = _factorised(gram + _DAMPING * top * sp.eye_array(size, format="csc"))
    if factors is None:
        raise Unsupported("the unique forces of this network", "its Gram matrix is singular")
    for _ in range(_PASSES):
        left = B.T @ vectors
        if float(np.abs(left).max(initial=0.0)) <= _CLEAN * top:
            break
        vectors = vectors - B @ factors.solve(left)
    return vectors
