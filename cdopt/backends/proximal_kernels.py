"""Compiled, threaded loops of the accelerated proximal gradient iteration.

A step passes three times over its data: over the contacts to take over the last trial point x
and propose the next, with d = x − z; over y for Sᵀ d; and over the contacts for R y, whose sums
decide what follows.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.backends.kernels import Places, Rows, larger, multiply, proximal

THETA, LIPSCHITZ, BEST, LEAST_LIPSCHITZ = 0, 1, 2, 3  # places in the scalars of ``accelerate``
_SQUARED, _CURVATURE, _UPHILL, _WORST = 0, 1, 2, 3  # places in the sums of a chunk
_LINE = 8  # doubles in a cache line: the sums of two chunks never share one


@part()
def _propose_chunk(
    first: int,
    last: int,
    accept: bool,
    keep: bool,
    beta: float,
    length: float,
    h: FloatArray,
    compliance: FloatArray,
    exponent: float,
    state: FloatArray,
    trial: FloatArray,
    best: FloatArray,
    sums: FloatArray,
) -> None:
    """The trial point of the step before taken over if ``accept``, then a new one proposed."""
    f, z, product_f, product_z = state[0], state[1], state[2], state[3]
    x, d, product_d = trial[0], trial[1], trial[2]
    squared, rigid = 0.0, compliance.shape[0] == 0
    for i in range(first, last):
        if accept:
            product = product_z[i] + product_d[i]
            z[i] = x[i] + beta * (x[i] - f[i])
            product_z[i] = product + beta * (product - product_f[i])
            f[i], product_f[i] = x[i], product
            if keep:
                best[i] = x[i]
        target = z[i] - (product_z[i] + h[i]) / length
        if rigid:
            x[i] = target if target > 0.0 else 0.0
        else:
            x[i] = proximal(target, compliance[i] / length, exponent)
        d[i] = x[i] - z[i]
        squared += d[i] * d[i]
    sums[_SQUARED] = squared


@part(parallel=True)
def _propose(
    threaded: bool,
    edges: Places,
    accept: bool,
    keep: bool,
    beta: float,
    length: float,
    h: FloatArray,
    compliance: FloatArray,
    exponent: float,
    state: FloatArray,
    trial: FloatArray,
    best: FloatArray,
    sums: FloatArray,
) -> None:
    """Trial points x and d = x − z, chunk by chunk."""
    if threaded:
        for c in prange(edges.shape[0] - 1):
            _propose_chunk(
                edges[c], edges[c + 1], accept, keep, beta, length, h, compliance, exponent,
                state, trial, best, sums[c],
            )  # fmt: skip
    else:
        for c in range(edges.shape[0] - 1):
            _propose_chunk(
                edges[c], edges[c + 1], accept, keep, beta, length, h, compliance, exponent,
                state, trial, best, sums[c],
            )  # fmt: skip


@part()
def _judge_chunk(
    first: int,
    last: int,
    rows: Rows,
    own: FloatArray,
    h: FloatArray,
    compliance: FloatArray,
    exponent: float,
    state: FloatArray,
    trial: FloatArray,
    y: FloatArray,
    sums: FloatArray,
) -> None:
    """H d at the trial point, and what decides on it."""
    pointers, columns, values = rows
    f, product_z = state[0], state[3]
    x, d, product_d = trial[0], trial[1], trial[2]
    curvature, uphill, worst, rigid = 0.0, 0.0, 0.0, compliance.shape[0] == 0
    for i in range(first, last):
        total = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            total += values[k] * y[columns[k]]
        product_d[i] = total
        curvature += d[i] * total
        uphill -= d[i] * (x[i] - f[i])
        gradient = product_z[i] + total + h[i]
        if not rigid and compliance[i] > 0.0:
            gradient += compliance[i] * x[i] ** exponent
        worst = larger(worst, abs(min(gradient, own[i] * x[i])))
    sums[_CURVATURE], sums[_UPHILL], sums[_WORST] = curvature, uphill, worst


@part(parallel=True)
def _judge(
    threaded: bool,
    edges: Places,
    rows: Rows,
    own: FloatArray,
    h: FloatArray,
    compliance: FloatArray,
    exponent: float,
    state: FloatArray,
    trial: FloatArray,
    y: FloatArray,
    sums: FloatArray,
) -> None:
    """H d and the sums of each chunk."""
    if threaded:
        for c in prange(edges.shape[0] - 1):
            _judge_chunk(
                edges[c], edges[c + 1], rows, own, h, compliance, exponent, state, trial, y,
                sums[c],
            )  # fmt: skip
    else:
        for c in range(edges.shape[0] - 1):
            _judge_chunk(
                edges[c], edges[c + 1], rows, own, h, compliance, exponent, state, trial, y,
                sums[c],
            )  # fmt: skip


@part()
def _in_order(sums: FloatArray, place: int) -> float:
    """The sum over chunks, always in the same order."""
    total = 0.0
    for c in range(sums.shape[0]):
        total += sums[c, place]
    return total


@compiled()
def accelerate(
    threaded: bool,
    rows: Rows,
    columns: Rows,
    edges: tuple[Places, Places],
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

    ``columns`` are the rows of Sᵀ, ``edges`` the chunks of contacts and of y. ``state`` (4, nc)
    holds f, the extrapolated point z, H f and H z; ``scalars`` θ, the Lipschitz estimate L, the
    least residual so far and the floor of L; ``best`` the forces of that residual; ``y`` is room
    for the intermediate vector. ``trace`` receives the natural residual of each iterate; the loop
    ends early when it is within ``tolerance``. Returns the number of steps.

    A step passes three times over its data: over the contacts to take over the last trial point
    x and propose the next, L doubled until dᵀHd ≤ L dᵀd with d = x − z; over y for Sᵀ d; and over
    the contacts for R y, whose sums decide what follows.
    """
    contacts, dofs = edges
    trial, sums = np.empty((3, own.shape[0])), np.zeros((contacts.shape[0] - 1, _LINE))
    accept, keep, beta, taken = False, False, 0.0, 0
    for step in range(trace.shape[0]):
        length = scalars[LIPSCHITZ]
        for _ in range(100):
            _propose(
                threaded, contacts, accept, keep, beta, length, h, compliance, exponent,
                state, trial, best, sums,
            )  # fmt: skip
            accept = False
            multiply(threaded, dofs, columns, trial[1], y)
            _judge(threaded, contacts, rows, own, h, compliance, exponent, state, trial, y, sums)
            bound = length * _in_order(sums, _SQUARED) * (1.0 + 1e-12)
            if _in_order(sums, _CURVATURE) <= bound:
                break
            length *= 2.0
        theta = scalars[THETA]
        following = 0.5 * theta * (np.sqrt(theta * theta + 4.0) - theta)
        beta = theta * (1.0 - theta) / (theta * theta + following)
        if _in_order(sums, _UPHILL) > 0.0:  # the momentum points uphill: start it anew
            following, beta = 1.0, 0.0
        worst = 0.0
        for c in range(sums.shape[0]):
            worst = larger(worst, sums[c, _WORST])
        accept, keep, taken = True, worst < scalars[BEST], step + 1
        scalars[THETA] = following
        scalars[LIPSCHITZ] = max(0.9 * length, scalars[LEAST_LIPSCHITZ])
        scalars[BEST] = worst if keep else scalars[BEST]
        trace[step] = worst
        if worst <= tolerance:
            break
    if accept:  # the last step's own: what it would propose is left aside
        _propose(
            threaded, contacts, accept, keep, beta, scalars[LIPSCHITZ], h, compliance, exponent,
            state, trial, best, sums,
        )  # fmt: skip
    return taken
