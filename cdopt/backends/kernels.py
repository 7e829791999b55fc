"""Compiled loops of the papers' own solvers, on plain sparse rows and in scaled units.

Every problem here is ½ fᵀ H f + hᵀ f + Σ e(f) over f ≥ 0 with H = R Sᵀ: ``rows`` R gathers
from an intermediate vector y what ``spread`` Sᵀ scatters into it, so that H is never formed. A
sparse matrix is the tuple (row pointers, column indices, values) of its CSR form. The separable
energy e has the derivative e′(f) = a f^s, a ≥ 0 (``compliance``), s > 0 (``exponent``); zero for
rigid contacts, (f/k)^{1/(p−1)} for elastic ones.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from cdopt.checks import FloatArray

Rows = tuple[NDArray[np.int32], NDArray[np.int32], FloatArray]
THETA, LIPSCHITZ, BEST, LEAST_LIPSCHITZ = 0, 1, 2, 3  # places in the scalars of ``accelerate``


def plain(matrix: sp.csr_array) -> Rows:
    """The CSR parts, contiguous, writable and of the one type the loops are compiled for."""
    return (
        np.array(matrix.indptr, dtype=np.int32),
        np.array(matrix.indices, dtype=np.int32),
        np.array(matrix.data, dtype=np.float64),
    )


@njit(cache=True)
def scatter(spread: Rows, f: FloatArray, y: FloatArray) -> None:
    """y = Sᵀ f."""
    pointers, columns, values = spread
    y[:] = 0.0
    for i in range(f.shape[0]):
        if f[i] != 0.0:
            for k in range(pointers[i], pointers[i + 1]):
                y[columns[k]] += values[k] * f[i]


@njit(cache=True)
def gather(rows: Rows, y: FloatArray, out: FloatArray) -> None:
    """out = R y."""
    pointers, columns, values = rows
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            total += values[k] * y[columns[k]]
        out[i] = total


@njit(cache=True)
def natural_residual(own: FloatArray, gradient: FloatArray, f: FloatArray) -> float:
    """max |min(H_ii f_i, gradient_i)|: zero exactly at a solution; not-a-number spreads."""
    worst = 0.0
    for i in range(f.shape[0]):
        error = abs(min(own[i] * f[i], gradient[i]))
        if not error <= worst:
            worst = error
    return worst


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def backtrack(
    rows: Rows,
    spread: Rows,
    h: FloatArray,
    compliance: FloatArray,
    exponent: float,
    length: float,
    z: FloatArray,
    product_z: FloatArray,
    x: FloatArray,
    d: FloatArray,
    product_d: FloatArray,
    y: FloatArray,
) -> float:
    """One step from z to x with d = x − z, L doubled until dᵀHd ≤ L dᵀd; returns L."""
    for _ in range(100):
        squared = 0.0
        for i in range(z.shape[0]):
            target = z[i] - (product_z[i] + h[i]) / length
            x[i] = proximal(target, compliance[i] / length, exponent)
            d[i] = x[i] - z[i]
            squared += d[i] * d[i]
        scatter(spread, d, y)
        gather(rows, y, product_d)
        curvature = 0.0
        for i in range(z.shape[0]):
            curvature += d[i] * product_d[i]
        if curvature <= length * squared * (1.0 + 1e-12):
            break
        length *= 2.0
    return length


@njit(cache=True)
def accelerate(
    rows: Rows,
    spread: Rows,
    own: FloatArray,
    h: FloatArray,
    compliance: FloatArray,
    exponent: float,
    tolerance: float,
    state: FloatArray,
    scalars: FloatArray,
    best: FloatArray,
    y: FloatArray,
    trace: FloatArray,
) -> int:
    """Accelerated proximal gradient steps, one for each entry of ``trace`` at most.

    ``state`` (4, nc) holds f, the extrapolated point z, H f and H z; ``scalars`` θ, the
    Lipschitz estimate L, the least residual so far and the floor of L; ``best`` the forces of
    that residual; ``y`` is room for the intermediate vector. ``trace`` receives the natural
    residual of each iterate; the loop ends early when it is within ``tolerance``. Returns the
    number of steps.
    """
    f, z, product_f, product_z = state[0], state[1], state[2], state[3]
    nc = f.shape[0]
    x, d, product_d = np.empty(nc), np.empty(nc), np.empty(nc)
    for step in range(trace.shape[0]):
        length = backtrack(
            rows, spread, h, compliance, exponent, scalars[LIPSCHITZ], z, product_z,
            x, d, product_d, y,
        )  # fmt: skip
        worst, uphill = 0.0, 0.0
        for i in range(nc):
            product = product_z[i] + product_d[i]
            elastic = compliance[i] * x[i] ** exponent if compliance[i] > 0.0 else 0.0
            error = abs(min(own[i] * x[i], product + h[i] + elastic))
            if not error <= worst:
                worst = error
            uphill -= d[i] * (x[i] - f[i])
        theta = scalars[THETA]
        following = 0.5 * theta * (np.sqrt(theta * theta + 4.0) - theta)
        beta = theta * (1.0 - theta) / (theta * theta + following)
        if uphill > 0.0:  # the momentum points uphill: start it anew
            following, beta = 1.0, 0.0
        for i in range(nc):
            product = product_z[i] + product_d[i]
            z[i] = x[i] + beta * (x[i] - f[i])
            product_z[i] = product + beta * (product - product_f[i])
            f[i], product_f[i] = x[i], product
        scalars[THETA] = following
        scalars[LIPSCHITZ] = max(0.9 * length, scalars[LEAST_LIPSCHITZ])
        if worst < scalars[BEST]:
            scalars[BEST] = worst
            best[:] = f
        trace[step] = worst
        if worst <= tolerance:
            return step + 1
    return trace.shape[0]
