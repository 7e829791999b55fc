"""Preconditioners for contact networks: iterations, and products that one iteration costs.

The settled pyramid of n layers, on the contacts that carry force: conjugate gradients to 1e-8
with each body's block, with block SSOR as newton has it, with clusters of bodies that move as one
(an exact second level, which is the best that multigrid over such clusters could do), and with
incomplete factors. Neither of the last two pays, because what is soft in such a network is no rigid
motion of clusters. Loaded contacts stand in straight lines, and whole planes slide at next to no
cost.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spilu, splu

import cdopt
from benchmarks.record import Row
from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.linalg import ContactNetwork, network

Apply = Callable[[FloatArray], FloatArray]
SHIFT, TOL, MOST = 1e-10, 1e-8, 2000


def loaded(n: int) -> tuple[ContactNetwork, FloatArray, FloatArray]:
    """The network, the stiffness of its loaded contacts at the solution, and the load."""
    problem = cdopt.bank.load("pyramid-hooke", n=n)
    step = problem.step
    truss = cdopt.NoTensionTruss(
        step.B, -step.F_ext, step.stiffness, 2.0, "potential", dof_body=step.dof_body
    )
    scaled, f = truss.data.scales, truss.solve("newton").f
    net = network(scaled.B, step.dof_body[scaled.used])
    D = np.where(f > 1e-9 * f.max(), scaled.elastic_law.stiffness, 0.0)
    return net, D, net.arranged(scaled.load)


def iterations(H: sp.csr_array, rhs: FloatArray, precondition: Apply) -> int:
    """Conjugate gradient iterations until the preconditioned residual has fallen by TOL."""
    r = rhs.copy()
    z = precondition(r)
    p, rz = z.copy(), float(r @ z)
    target = rz * TOL * TOL
    for count in range(MOST):
        if rz <= target:
            return count
        image = H @ p
        alpha = rz / float(p @ image)
        r = r - alpha * image
        z = precondition(r)
        rz, before = float(r @ z), rz
        p = z + (rz / before) * p
    return MOST


def block_inverses(H: sp.csr_array, size: int) -> Apply:
    """Each body's own block."""
    entries = sp.coo_array(H)
    inside = entries.row // size == entries.col // size
    blocks = np.zeros((H.shape[0] // size, size, size))
    row, column = entries.row[inside], entries.col[inside]
    blocks[row // size, row % size, column % size] = entries.data[inside]
    inverse = np.linalg.inv(blocks)
    return lambda r: np.einsum("bij,bj->bi", inverse, r.reshape(-1, size)).ravel()


def clusters(H: sp.csr_array, size: int) -> IntArray:
    """Greedy: a body none of whose neighbours is taken, with its neighbours; then the rest."""
    entries = sp.coo_array(H)
    count = H.shape[0] // size
    graph = sp.csr_array(
        (np.ones(H.nnz), (entries.row // size, entries.col // size)), shape=(count, count)
    )
    label = np.full(count, -1)
    made = 0
    for body in range(count):
        near = graph.indices[graph.indptr[body] : graph.indptr[body + 1]]
        if np.all(label[near] < 0):
            label[near] = made
            made += 1
    for body in np.flatnonzero(label < 0):
        near = label[graph.indices[graph.indptr[body] : graph.indptr[body + 1]]]
        known = near[near >= 0]
        label[body] = np.bincount(known).argmax() if known.size else made
        made += not known.size
    return label


def two_levels(H: sp.csr_array, size: int, smooth: Apply, sweeps: int) -> Apply:
    """Clusters that move as one, solved exactly, between damped sweeps over the bodies."""
    label = clusters(H, size)
    m = H.shape[0]
    column = size * np.repeat(label, size) + np.tile(np.arange(size), m // size)
    P = sp.csr_array((np.ones(m), (np.arange(m), column)))
    coarse = splu(sp.csc_array(P.T @ H @ P))
    damping = 4.0 / (3.0 * largest(H, smooth))

    def apply(r: FloatArray) -> FloatArray:
        x = damping * smooth(r)
        for _ in range(sweeps - 1):
            x = x + damping * smooth(r - H @ x)
        x = x + P @ coarse.solve(P.T @ (r - H @ x))
        for _ in range(sweeps):
            x = x + damping * smooth(r - H @ x)
        return x

    return apply


def largest(H: sp.csr_array, smooth: Apply) -> float:
    """Largest eigenvalue of the smoothed matrix, by the power method."""
    v = np.random.default_rng(0).normal(size=H.shape[0])
    size = 1.0
    for _ in range(30):
        v = smooth(H @ v)
        size = float(np.linalg.norm(v))
        v /= size
    return size


def preconditioners(problem: str) -> list[Row]:
    """Iterations of each, and what one costs in products with the matrix."""
    n = int(problem.partition("n=")[2])
    net, D, load = loaded(n)
    B = net.B[D > 0.0]
    H = sp.csr_array(B.T @ (B * D[D > 0.0][:, None]) + SHIFT * sp.eye_array(net.m, format="csr"))
    own = block_inverses(H, net.size)
    before = net.iterations
    net.system(D, SHIFT).solve(load, TOL, MOST)
    swept = net.iterations - before
    rows: list[Row] = [
        _row("each body's block", iterations(H, load, own), 1.0),
        _row("block SSOR, by Eisenstat's trick", swept, 1.0),
    ]
    for sweeps in (1, 2):
        both = two_levels(H, net.size, own, sweeps)
        title = f"clusters that move as one, {sweeps} + {sweeps} sweeps"
        rows.append(_row(title, iterations(H, load, both), 2.0 * sweeps + 1.0))
    scale = 1.0 / np.sqrt(H.diagonal())
    for drop in (1e-1, 3e-2, 1e-2):
        factors = spilu(
            sp.csc_array(H * scale[:, None] * scale[None, :]),
            drop_tol=drop,
            fill_factor=10,
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        count = iterations(H, load, lambda r, held=factors: scale * held.solve(scale * r))
        cost = 1.0 + (factors.L.nnz + factors.U.nnz) / H.nnz
        rows.append(_row(f"incomplete factors, drop {drop:g}", count, cost))
    return [{"contacts": net.rows, "dofs": net.m, **row} for row in rows]


def _row(name: str, count: int, products: float) -> Row:
    row: Row = {"preconditioner": name, "products": products}
    if count >= MOST:
        return row | {"failed": f"not within {MOST:,} iterations: not positive definite"}
    return row | {"iterations": count}
