"""Compiled loops of the papers' own solvers, on plain sparse rows and in scaled units.

Every problem here is ½ fᵀ H f + hᵀ f + Σ e(f) over f ≥ 0 with H = R Sᵀ: ``rows`` R gathers
from an intermediate vector y what ``spread`` Sᵀ scatters into it, so that H is never formed. A
sparse matrix is the tuple (row pointers, column indices, values) of its CSR form. The separable
energy e has the derivative e′(f) = a f^s, a ≥ 0 (``compliance``), s > 0 (``exponent``); zero for
rigid contacts, (f/k)^{1/(p−1)} for elastic ones.

Threads change no result. A loop that writes its own entries gives each thread a share of them; a
sum is taken over chunks whose number depends on the problem alone, and the chunks are added in
order. Each loop runs threaded or not, as its first argument says, on the same code.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import prange
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part

Places = NDArray[np.uint32]  # unsigned: a signed index is looked at for being negative each time
Rows = tuple[Places, Places, FloatArray]
CHUNKS, LEAST_CHUNK = 64, 256  # chunks of a loop at most, entries of a chunk at least


def plain(matrix: sp.csr_array) -> Rows:
    """The CSR parts, contiguous, writable and of the one type the loops are compiled for."""
    return (
        np.array(matrix.indptr, dtype=np.uint32),
        np.array(matrix.indices, dtype=np.uint32),
        np.array(matrix.data, dtype=np.float64),
    )


def chunks(n: int) -> Places:
    """(chunks + 1,) where each chunk of a loop over n entries begins, and n; at least one chunk."""
    count = max(1, min(CHUNKS, n // LEAST_CHUNK))
    return (np.arange(count + 1) * n // count).astype(np.uint32)


@compiled()
def transposed(rows: Rows, m: int) -> Rows:
    """The rows of the transpose of a matrix with m columns, each in the order of the contacts."""
    pointers, columns, values = rows
    out_pointers = np.zeros(m + 1, dtype=np.uint32)
    out_columns, out_values = np.empty_like(columns), np.empty_like(values)
    for k in range(pointers[pointers.shape[0] - 1]):
        out_pointers[columns[k] + 1] += 1
    for j in range(m):
        out_pointers[j + 1] += out_pointers[j]
    place = out_pointers.copy()
    for i in range(pointers.shape[0] - 1):
        for k in range(pointers[i], pointers[i + 1]):
            j = columns[k]
            out_columns[place[j]], out_values[place[j]] = i, values[k]
            place[j] += 1
    return out_pointers, out_columns, out_values


@compiled()
def scatter(spread: Rows, f: FloatArray, y: FloatArray) -> None:
    """y = Sᵀ f."""
    pointers, columns, values = spread
    y[:] = 0.0
    for i in range(f.shape[0]):
        if f[i] != 0.0:
            for k in range(pointers[i], pointers[i + 1]):
                y[columns[k]] += values[k] * f[i]


@compiled()
def gather(rows: Rows, y: FloatArray, out: FloatArray) -> None:
    """out = R y."""
    pointers, columns, values = rows
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            total += values[k] * y[columns[k]]
        out[i] = total


@part()
def _multiply_chunk(first: int, last: int, rows: Rows, x: FloatArray, out: FloatArray) -> None:
    pointers, columns, values = rows
    for i in range(first, last):
        total = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total


@compiled(parallel=True)
def multiply(threaded: bool, edges: Places, rows: Rows, x: FloatArray, out: FloatArray) -> None:
    """out = R x in the chunks of ``edges``."""
    if threaded:
        for c in prange(edges.shape[0] - 1):
            _multiply_chunk(edges[c], edges[c + 1], rows, x, out)
    else:
        _multiply_chunk(edges[0], edges[edges.shape[0] - 1], rows, x, out)


@part()
def larger(worst: float, error: float) -> float:
    """The larger of the two; not-a-number once it has come."""
    return worst if error <= worst or worst != worst else error


@compiled()
def natural_residual(own: FloatArray, gradient: FloatArray, f: FloatArray) -> float:
    """max |min(H_ii f_i, gradient_i)|: zero exactly at a solution; not-a-number spreads."""
    worst = 0.0
    for i in range(f.shape[0]):
        worst = larger(worst, abs(min(gradient[i], own[i] * f[i])))
    return worst


@compiled()
def gauss_seidel(
    rows: Rows,
    spread: Rows,
    p: FloatArray,
    own: FloatArray,
    inverse: FloatArray,
    relaxation: float,
    tolerance: float,
    f: FloatArray,
    y: FloatArray,
    trace: FloatArray,
) -> int:
    """Projected Gauss–Seidel sweeps in place, one for each entry of ``trace`` at most.

    ``trace`` receives the largest |min(N_ii f_i, gap_i)| that a sweep met on its way, each at
    the moment of the visit; sweeps end early when it is within ``tolerance``. Contacts whose
    ``inverse`` (1 / N_ii) is zero are passed over. Returns the number of sweeps.
    """
    pointers, columns, values = rows
    out_pointers, out_columns, out_values = spread
    for sweep in range(trace.shape[0]):
        worst = 0.0
        for i in range(f.shape[0]):
            if inverse[i] == 0.0:
                continue
            gap = p[i]
            for k in range(pointers[i], pointers[i + 1]):
                gap += values[k] * y[columns[k]]
            newton = gap * inverse[i]
            error = own[i] * abs(min(f[i], newton))
            if not error <= worst:
                worst = error
            change = -min(f[i], relaxation * newton)
            if change != 0.0:
                f[i] += change
                for k in range(out_pointers[i], out_pointers[i + 1]):
                    y[out_columns[k]] += out_values[k] * change
        trace[sweep] = worst
        if worst <= tolerance:
            return sweep + 1
    return trace.shape[0]


@compiled()
def proximal(z: float, a: float, s: float) -> float:
    """The x ≥ 0 with x + a x^s = z, or zero for z ≤ 0: the minimiser of ½(x − z)² + e(x).

    Newton's method from the side on which it is monotone; for a = 0 the projection.
    """
    if not z > 0.0:
        return 0.0
    if a == 0.0:
        return z
    if s == 1.0:
        return z / (1.0 + a)
    low = min(0.5 * z, (0.5 * z / a) ** (1.0 / s))
    x = low if s < 1.0 else min(z, (z / a) ** (1.0 / s))
    for _ in range(60):
        if x == 0.0:
            return 0.0
        elastic = a * x**s
        step = (x + elastic - z) / (1.0 + s * elastic / x)
        x = max(x - step, 0.0)
        if abs(step) <= 2e-16 * x:
            break
    return x
