"""Compiled, threaded loops on sparse rows, for B of any pattern.

A matrix comes as its CSR parts (ptr, idx, val); B and Bᵀ are both kept, so that each product
writes its own rows and no two threads meet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import prange

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt.backends.linalg.couples import LARGEST_BLOCK


class Rows(NamedTuple):
    """CSR parts of a sparse matrix."""

    ptr: IntArray
    idx: IntArray
    val: FloatArray


def rows_of(matrix: sp.csr_array) -> Rows:
    """The CSR parts, contiguous and of the types that the loops were compiled for."""
    csr = sp.csr_array(matrix)
    csr.sort_indices()
    return Rows(
        np.ascontiguousarray(csr.indptr, dtype=np.int64),
        np.ascontiguousarray(csr.indices, dtype=np.int64),
        np.ascontiguousarray(csr.data, dtype=np.float64),
    )


@part(parallel=True)
def multiply(A: Rows, x: FloatArray, out: FloatArray) -> None:
    """out = A x."""
    for i in prange(out.size):
        total = 0.0
        for k in range(A.ptr[i], A.ptr[i + 1]):
            total += A.val[k] * x[A.idx[k]]
        out[i] = total


@compiled(parallel=True)
def block_inverses(
    T: Rows, D: FloatArray, base: FloatArray, start: IntArray, out: FloatArray
) -> None:
    """Inverses of the diagonal blocks of base + Bᵀ D B.

    T holds the rows of Bᵀ, base (nb, 6, 6) what is added to each block, start (nb + 1) the
    first dof of each block, out (nb, 6, 6).
    """
    for b in prange(start.size - 1):
        first = start[b]
        size = start[b + 1] - first
        block = np.zeros((LARGEST_BLOCK, LARGEST_BLOCK))
        for i in range(size):
            for j in range(i, size):
                k, k_end = T.ptr[first + i], T.ptr[first + i + 1]
                m, m_end = T.ptr[first + j], T.ptr[first + j + 1]
                total = base[b, i, j]
                while k < k_end and m < m_end:
                    if T.idx[k] < T.idx[m]:
                        k += 1
                    elif T.idx[k] > T.idx[m]:
                        m += 1
                    else:
                        total += D[T.idx[k]] * T.val[k] * T.val[m]
                        k += 1
                        m += 1
                block[i, j] = total
                block[j, i] = total
        _invert(block, size, out[b])


@part()
def _invert(block: FloatArray, size: int, out: FloatArray) -> None:
    """Gauss–Jordan on a small symmetric positive definite block."""
    for i in range(size):
        for j in range(size):
            out[i, j] = 1.0 if i == j else 0.0
    for i in range(size):
        pivot = block[i, i]
        for j in range(size):
            block[i, j] /= pivot
            out[i, j] /= pivot
        for r in range(size):
            if r != i:
                factor = block[r, i]
                for j in range(size):
                    block[r, j] -= factor * block[i, j]
                    out[r, j] -= factor * out[i, j]


@part(parallel=True)
def _precondition(
    inverse: FloatArray, start: IntArray, r: FloatArray, z: FloatArray, share: FloatArray
) -> None:
    """z = P⁻¹ r; ``share`` receives each block's part of rᵀ z."""
    for b in prange(start.size - 1):
        first = start[b]
        size = start[b + 1] - first
        part = 0.0
        for i in range(size):
            value = 0.0
            for j in range(size):
                value += inverse[b, i, j] * r[first + j]
            z[first + i] = value
            part += value * r[first + i]
        share[b] = part


@part(parallel=True)
def _curvature(
    B: Rows, T: Rows, D: FloatArray, base: FloatArray, start: IntArray,
    p: FloatArray, q: FloatArray, out: FloatArray, share: FloatArray,
) -> None:  # fmt: skip
    """out = (base + Bᵀ D B) p; ``share`` receives each block's part of pᵀ out."""
    for i in prange(q.size):
        total = 0.0
        if D[i] != 0.0:
            for k in range(B.ptr[i], B.ptr[i + 1]):
                total += B.val[k] * p[B.idx[k]]
        q[i] = D[i] * total
    for b in prange(start.size - 1):
        first = start[b]
        size = start[b + 1] - first
        part = 0.0
        for i in range(size):
            value = 0.0
            for j in range(size):
                value += base[b, i, j] * p[first + j]
            for k in range(T.ptr[first + i], T.ptr[first + i + 1]):
                value += T.val[k] * q[T.idx[k]]
            out[first + i] = value
            part += value * p[first + i]
        share[b] = part


@part()
def _total(share: FloatArray) -> float:
    """The sum, in order: it does not depend on the number of threads."""
    total = 0.0
    for b in range(share.size):
        total += share[b]
    return total


@compiled()
def conjugate_gradients(
    B: Rows, T: Rows, D: FloatArray, base: FloatArray, start: IntArray, inverse: FloatArray,
    rhs: FloatArray, x: FloatArray, tol: float, limit: int,
) -> int:  # fmt: skip
    """Solve (base + Bᵀ D B) x = rhs from x = 0; returns the iterations spent.

    Preconditioned with the inverse diagonal blocks; stops when the preconditioned residual has
    fallen by ``tol``, or when the curvature along a direction is lost to round-off.
    """
    x[:] = 0.0
    r = rhs.copy()
    z = np.empty_like(r)
    q = np.empty(D.size)
    image = np.empty_like(r)
    share = np.empty(start.size - 1)
    _precondition(inverse, start, r, z, share)
    rz = _total(share)
    p = z.copy()
    target = rz * tol * tol
    for iteration in range(limit):
        if not rz > target:
            return iteration
        _curvature(B, T, D, base, start, p, q, image, share)
        curvature = _total(share)
        if not curvature > 0.0:
            return iteration
        alpha = rz / curvature
        for i in range(r.size):
            x[i] += alpha * p[i]
            r[i] -= alpha * image[i]
        _precondition(inverse, start, r, z, share)
        following = _total(share)
        beta = following / rz
        rz = following
        for i in range(r.size):
            p[i] = z[i] + beta * p[i]
    return limit
