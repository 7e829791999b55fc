"""Compiled loops on couples of bodies, made for one size of block at a time.

Each body has its entries: [begin, middle) with bodies of its own chunk that come after it, which
push both, and [middle, end) with bodies of other chunks and with the fixed world, which push it
alone: a couple across chunks stands with both its bodies. So no two threads write to one place,
and sums are taken chunk by chunk: results do not depend on the number of threads. Places are
unsigned, which spares the compiled code the test for negative ones: half of its time.

``shape`` is a tuple of as many numbers as a block has dofs. Its length is part of its type, so that
the loops are compiled for each size, and what is compiled is found again by the next process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange
from numba.extending import overload

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part

_MATH = {"contract", "reassoc", "nsz"}
_SPHERE = 3  # dofs
Places = Any  # unsigned integers
Shape = tuple[int, ...]


@compiled(parallel=True, fastmath=_MATH)
def gaps(
    one: Places, two: Places, V: FloatArray, x: FloatArray, out: FloatArray, shape: Shape
) -> None:
    """out = B x; V (nc, 2 size) holds the rows on their two bodies."""
    for i in prange(out.size):
        a, b, total = one[i], two[i], 0.0
        for j in range(len(shape)):
            total += V[i, j] * x[a, j] + V[i, len(shape) + j] * x[b, j]
        out[i] = total


@compiled(parallel=True, fastmath=_MATH)
def loads(
    begin: Places, middle: Places, end: Places, contact: Places, two: Places,
    V: FloatArray, start: Places, f: FloatArray, out: FloatArray, shape: Shape,
) -> None:  # fmt: skip
    """out = Bᵀ f; ``contact`` tells the contact of each entry, V (entries, 2 size)."""
    for c in prange(start.size - 1):
        for a in range(start[c], start[c + 1]):
            for j in range(len(shape)):
                out[a, j] = 0.0
        for a in range(start[c], start[c + 1]):
            for k in range(begin[a], middle[a]):
                push, b = f[contact[k]], two[k]
                for j in range(len(shape)):
                    out[a, j] += V[k, j] * push
                    out[b, j] += V[k, len(shape) + j] * push
            for k in range(middle[a], end[a]):
                push = f[contact[k]]
                for j in range(len(shape)):
                    out[a, j] += V[k, j] * push


@compiled(parallel=True)
def compress(
    begin: Places, middle: Places, end: Places, contact: Places, two: Places,
    V: FloatArray, start: Places, root: FloatArray,
    begin_out: Places, middle_out: Places, end_out: Places, two_out: Places, W: FloatArray,
    shape: Shape,
) -> None:  # fmt: skip
    """The entries with D > 0 moved together in each chunk, their rows times √D (``root``)."""
    for c in prange(start.size - 1):
        at = begin[start[c]]
        for a in range(start[c], start[c + 1]):
            begin_out[a] = at
            for k in range(begin[a], end[a]):
                if k == middle[a]:
                    middle_out[a] = at
                factor = root[contact[k]]
                if factor > 0.0:
                    two_out[at] = two[k]
                    for j in range(2 * len(shape)):
                        W[at, j] = factor * V[k, j]
                    at += np.uint64(1)
            if middle[a] == end[a]:
                middle_out[a] = at
            end_out[a] = at


@compiled(parallel=True, fastmath=_MATH)
def blocks(
    begin: Places, middle: Places, end: Places, two: Places, W: FloatArray, start: Places,
    out: FloatArray, shape: Shape,
) -> None:  # fmt: skip
    """Add the diagonal blocks of Wᵀ W to ``out`` (blocks, size, size) and invert each."""
    for c in prange(start.size - 1):
        for a in range(start[c], start[c + 1]):
            for k in range(begin[a], end[a]):
                for i in range(len(shape)):
                    for j in range(len(shape)):
                        out[a, i, j] += W[k, i] * W[k, j]
            for k in range(begin[a], middle[a]):
                b = two[k]
                for i in range(len(shape)):
                    for j in range(len(shape)):
                        out[b, i, j] += W[k, len(shape) + i] * W[k, len(shape) + j]
        for a in range(start[c], start[c + 1]):
            for i in range(len(shape)):  # Gauss–Jordan in place
                pivot = 1.0 / out[a, i, i]
                out[a, i, i] = 1.0
                for j in range(len(shape)):
                    out[a, i, j] *= pivot
                for r in range(len(shape)):
                    if r != i:
                        factor = out[a, r, i]
                        out[a, r, i] = 0.0
                        for j in range(len(shape)):
                            out[a, r, j] -= factor * out[a, i, j]


@compiled(parallel=True, fastmath=_MATH)
def general_product(
    begin: Places, middle: Places, end: Places, two: Places, W: FloatArray, start: Places,
    diagonal: FloatArray, base: FloatArray, p: FloatArray, out: FloatArray, part: FloatArray,
    shape: Shape,
) -> float:  # fmt: skip
    """out = (S + Wᵀ W) p, S by its diagonal or, if there are any, its blocks; pᵀ out."""
    for c in prange(part.size):
        for a in range(start[c], start[c + 1]):
            for i in range(len(shape)):
                value = diagonal[a, i] * p[a, i]
                if base.size > 0:
                    value = 0.0
                    for j in range(len(shape)):
                        value += base[a, i, j] * p[a, j]
                out[a, i] = value
        total = 0.0
        for a in range(start[c], start[c + 1]):
            for k in range(begin[a], middle[a]):
                b, q = two[k], 0.0
                for j in range(len(shape)):
                    q += W[k, j] * p[a, j] + W[k, len(shape) + j] * p[b, j]
                for j in range(len(shape)):
                    out[a, j] += W[k, j] * q
                    out[b, j] += W[k, len(shape) + j] * q
            for k in range(middle[a], end[a]):
                b, q = two[k], 0.0
                for j in range(len(shape)):
                    q += W[k, j] * p[a, j] + W[k, len(shape) + j] * p[b, j]
                for j in range(len(shape)):
                    out[a, j] += W[k, j] * q
            for j in range(len(shape)):
                total += out[a, j] * p[a, j]  # nothing is added to body a after this
        part[c] = total
    total = 0.0
    for c in range(part.size):
        total += part[c]
    return total


@compiled(parallel=True, fastmath=_MATH)
def product_of_three(
    begin: Places, middle: Places, end: Places, two: Places, W: FloatArray, start: Places,
    diagonal: FloatArray, base: FloatArray, p: FloatArray, out: FloatArray, part: FloatArray,
    shape: Shape,
) -> float:  # fmt: skip
    """The same for blocks of three, which spheres have, kept in registers."""
    for c in prange(part.size):
        for a in range(start[c], start[c + 1]):
            p0, p1, p2 = p[a, 0], p[a, 1], p[a, 2]
            if base.size > 0:
                for i in range(3):
                    out[a, i] = base[a, i, 0] * p0 + base[a, i, 1] * p1 + base[a, i, 2] * p2
            else:
                out[a, 0] = diagonal[a, 0] * p0
                out[a, 1] = diagonal[a, 1] * p1
                out[a, 2] = diagonal[a, 2] * p2
        total = 0.0
        for a in range(start[c], start[c + 1]):
            p0, p1, p2 = p[a, 0], p[a, 1], p[a, 2]
            s0, s1, s2 = 0.0, 0.0, 0.0
            for k in range(begin[a], middle[a]):
                b = two[k]
                w0, w1, w2, w3, w4, w5 = W[k, 0], W[k, 1], W[k, 2], W[k, 3], W[k, 4], W[k, 5]
                q = (w0 * p0 + w1 * p1 + w2 * p2) + (w3 * p[b, 0] + w4 * p[b, 1] + w5 * p[b, 2])
                s0 += w0 * q
                s1 += w1 * q
                s2 += w2 * q
                out[b, 0] += w3 * q
                out[b, 1] += w4 * q
                out[b, 2] += w5 * q
            for k in range(middle[a], end[a]):
                b = two[k]
                w0, w1, w2, w3, w4, w5 = W[k, 0], W[k, 1], W[k, 2], W[k, 3], W[k, 4], W[k, 5]
                q = (w0 * p0 + w1 * p1 + w2 * p2) + (w3 * p[b, 0] + w4 * p[b, 1] + w5 * p[b, 2])
                s0 += w0 * q
                s1 += w1 * q
                s2 += w2 * q
            s0 += out[a, 0]
            s1 += out[a, 1]
            s2 += out[a, 2]
            out[a, 0], out[a, 1], out[a, 2] = s0, s1, s2
            total += s0 * p0 + s1 * p1 + s2 * p2
        part[c] = total
    total = 0.0
    for c in range(part.size):
        total += part[c]
    return total


def product(*arguments: Any) -> float:
    """``product_of_three`` or ``general_product``, whichever suits ``shape``; in compiled loops."""
    raise NotImplementedError


@overload(product)
def _chosen(
    begin: Any, middle: Any, end: Any, two: Any, W: Any, start: Any, diagonal: Any, base: Any,
    p: Any, out: Any, part: Any, shape: Any,
) -> Callable[..., float]:  # fmt: skip
    chosen = product_of_three if len(shape) == _SPHERE else general_product

    def run(
        begin: Any, middle: Any, end: Any, two: Any, W: Any, start: Any, diagonal: Any, base: Any,
        p: Any, out: Any, part: Any, shape: Any,
    ) -> float:  # fmt: skip
        return chosen(begin, middle, end, two, W, start, diagonal, base, p, out, part, shape)

    return run


@part(parallel=True, fastmath=_MATH)
def advance(
    alpha: float, start: Places, inverse: FloatArray, p: FloatArray, image: FloatArray,
    x: FloatArray, r: FloatArray, z: FloatArray, part: FloatArray, shape: Shape,
) -> float:  # fmt: skip
    """x += α p, r −= α image, z = P⁻¹ r in one pass; rᵀ z."""
    for c in prange(part.size):
        total = 0.0
        for a in range(start[c], start[c + 1]):
            for j in range(len(shape)):
                x[a, j] += alpha * p[a, j]
                r[a, j] -= alpha * image[a, j]
            for i in range(len(shape)):
                value = 0.0
                for j in range(len(shape)):
                    value += inverse[a, i, j] * r[a, j]
                z[a, i] = value
                total += value * r[a, i]
        part[c] = total
    total = 0.0
    for c in range(part.size):
        total += part[c]
    return total


@part(parallel=True, fastmath=_MATH)
def redirect(beta: float, start: Places, z: FloatArray, p: FloatArray, shape: Shape) -> None:
    """p = z + β p."""
    for c in prange(start.size - 1):
        for a in range(start[c], start[c + 1]):
            for j in range(len(shape)):
                p[a, j] = z[a, j] + beta * p[a, j]


@compiled()
def conjugate_gradients(
    begin: Places, middle: Places, end: Places, two: Places, W: FloatArray, start: Places,
    diagonal: FloatArray, base: FloatArray, inverse: FloatArray, r: FloatArray,
    x: FloatArray, work: FloatArray, part: FloatArray, tol: float, limit: int, shape: Shape,
) -> int:  # fmt: skip
    """Solve (S + Wᵀ W) x = r from x = 0, r used up; the iterations spent.

    Preconditioned with the inverse diagonal blocks; stops when the preconditioned residual
    has fallen by ``tol``, or when the curvature along a direction is lost to round-off.
    ``work`` (3, blocks + 1, size) is room, zero; its last block stands for the fixed world.
    """
    p, image, z = work[0], work[1], work[2]
    rz = advance(0.0, start, inverse, p, image, x, r, z, part, shape)
    redirect(0.0, start, z, p, shape)
    target = rz * tol * tol
    for iteration in range(limit):
        if not rz > target:
            return iteration
        curvature = product(
            begin, middle, end, two, W, start, diagonal, base, p, image, part, shape
        )
        if not curvature > 0.0:
            return iteration
        following = advance(rz / curvature, start, inverse, p, image, x, r, z, part, shape)
        redirect(following / rz, start, z, p, shape)
        rz = following
    return limit
