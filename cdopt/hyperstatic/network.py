"""The network of closed contacts: rank, contacts that can carry force, local self-stress states.

The admissible forces are {f ≥ 0, Bᵀf = F̃, f = 0 on open contacts}. A contact is *closed* when its
gap is zero at the end of the step, *loaded* when it carries force in the given answer, and
*loadable* when it carries force in some admissible answer. Only on loadable contacts does a
self-stress state, a vector of null(Bᵀ), mean that forces can differ. A closed contact that no
motion opens or closes, between two fixed bodies, is itself a self-stress state.

B (nc, nv) is *equilibrated*: its columns are in units of their levers and its rows of unit length,
so that neither units nor long levers decide what counts as zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt._util.linear_program import solved_program
from cdopt.problem.scaling import column_scale, rows_of, scaled, total_by

STIFF = 1e-7  # a force this tight counts as unique, unless its bounds show otherwise
SILENT = 1e-12  # looseness below this is plain round-off
DENSE_LIMIT = 500  # the smaller side of B, up to which its singular values are computed
_DENSE_LAST = 6000  # the same where the sparse count is in doubt
SPARSE_TOL = 1e-7  # smaller singular values are round-off in the Gram matrix, which squares them
_PROBES = 16  # random vectors that estimate the looseness of large networks
_SEED = 1805
_DAMPING = 1e-12  # of the Gram matrix, whose motions may be singular
_PASSES = 25
_CLEAN = 1e-14
_RADII = (1, 2)  # of the neighbourhoods of self-stress states, counted in contacts
_LEFT = 1e-7  # of a state's largest force: the load that it may leave, rows of B being unit
_DIGITS = 14  # of the states' entries; what is beyond them is round-off
_NOISE = 1e-9  # coefficients below this share of the largest are round-off
_DEPENDENT = 1e-8  # a row this close to the span of others depends on them


def loadable_of(
    B: sp.csr_array, loaded: BoolArray, rank_tol: float, full: int | None = None
) -> tuple[BoolArray, int]:
    """Which contacts can carry force, and the rank of their rows.

    Contact i cannot carry force if and only if some motion u keeps all loaded contacts closed,
    closes no other contact, and opens i: its force would do work. If the loaded contacts already
    have the ``full`` rank of B (n, m), no motion opens any. The linear program max Σ s, 0 ≤ s ≤ 1,
    closed u = 0, idle u ≥ s has s in {0, 1} at its optimum.
    """
    full = rank_of(B, rank_tol) if full is None else full
    if loaded.all():
        return loaded, full
    closed, idle = sp.csr_array(B[loaded]), sp.csr_array(B[~loaded])
    if rank_of(closed, rank_tol) == full:
        return np.ones_like(loaded), full
    nu, ni = B.shape[1], idle.shape[0]
    answer = solved_program(
        np.concatenate([np.zeros(nu), -np.ones(ni)]),
        "the contacts that can carry force",
        A_ub=sp.hstack([-idle, sp.eye_array(ni)], format="csr"),
        b_ub=np.zeros(ni),
        A_eq=sp.hstack([closed, sp.csr_array((closed.shape[0], ni))], format="csr"),
        b_eq=np.zeros(closed.shape[0]),
        bounds=[(None, None)] * nu + [(0.0, 1.0)] * ni,
    )
    can = loaded.copy()
    can[~loaded] = answer[nu:] <= 0.5
    return can, rank_of(sp.csr_array(B[can]), rank_tol)


# --- rank and looseness ------------------------------------------------------------------------


def equilibrated(B: sp.csr_array) -> tuple[sp.csr_array, FloatArray]:
    """B with columns in units of their levers and rows of unit length, and the lengths (nc,)."""
    lever = column_scale(B)
    levered = scaled(B, None, 1.0 / np.where(lever > 0.0, lever, 1.0))
    length = np.sqrt(total_by(rows_of(levered), levered.data**2, B.shape[0]))
    length = np.where(length > 0.0, length, 1.0)
    return scaled(levered, 1.0 / length), length


def rank_of(B: sp.csr_array, tol: float) -> int:
    """Number of singular values of an equilibrated B above a share ``tol`` of the largest.

    Large matrices count the eigenvalues of their Gram matrix by the inertia of a sparse
    factorisation, by Sylvester's law, which sees no share below ``SPARSE_TOL``.
    """
    if min(B.shape) == 0 or B.nnz == 0:
        return 0
    if min(B.shape) > DENSE_LIMIT:
        gram = (B.T @ B if B.shape[1] <= B.shape[0] else B @ B.T).tocsc()
        factors = _factorised(gram, -(max(tol, SPARSE_TOL) ** 2))
        if factors is not None and np.array_equal(factors.perm_r, factors.perm_c):
            return int(np.count_nonzero(factors.U.diagonal() > 0.0))
        if min(B.shape) > _DENSE_LAST:
            why = f"a factorisation of its {B.shape[0]:,} contacts needs pivoting"
            what = "the rank of this network"
            raise Unsupported(what, f"{why}, and it is too large for singular values")
    values = np.linalg.svd(B.toarray(), compute_uv=False)
    return int(np.count_nonzero(values > tol * values[0]))


def _factorised(gram: sp.csc_array, shift: float) -> splu | None:
    """L U of a Gram matrix with a shifted diagonal, without pivoting; None if singular."""
    top = float(abs(gram).sum(axis=0).max())
    shifted = gram + shift * top * sp.eye_array(gram.shape[0], format="csc")
    order = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}
    try:
        return splu(sp.csc_matrix(shifted), **order, options={"SymmetricMode": True})
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
    if min(B.shape) > DENSE_LIMIT:
        probes = np.random.default_rng(_SEED).standard_normal((nc, _PROBES))
        return np.minimum(np.sqrt(np.mean(Projection(B).split(probes)[1] ** 2, axis=1)), 1.0)
    U, values, _ = np.linalg.svd(B.toarray(), full_matrices=False)
    U = U[:, values > rank_tol * values[0]]
    left = 1.0 - np.einsum("ij,ij->i", U, U)
    result = np.sqrt(np.clip(left, 0.0, 1.0))
    doubtful = np.flatnonzero(left < 1e-6)  # 1 − leverage has lost its digits
    for block in np.array_split(doubtful, -(-doubtful.size // 256)) if doubtful.size else ():
        unit = np.zeros((nc, block.size))
        unit[block, np.arange(block.size)] = 1.0
        result[block] = np.linalg.norm(unit - U @ U[block].T, axis=0)
    return result


class Projection:
    """Vectors (n, k) split into B y and a rest in null(Bᵀ), by damped normal equations, repeated.

    Raises
    ------
    Unsupported : the Gram matrix of B (n, m) is singular in spite of its damping.
    """

    def __init__(self, B: sp.csr_array) -> None:
        gram = (B.T @ B).tocsc()
        self._B, self._top = B, float(abs(gram).sum(axis=0).max())
        factors = _factorised(gram, _DAMPING)
        if factors is None:
            raise Unsupported("the unique forces of this network", "its Gram matrix is singular")
        self._factors = factors

    def split(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """y (m, k), and the rest (n, k)."""
        y = np.zeros((self._B.shape[1], vectors.shape[1]))
        for _ in range(_PASSES):
            left = self._B.T @ vectors
            if float(np.abs(left).max(initial=0.0)) <= _CLEAN * self._top:
                break
            change = self._factors.solve(left)
            y, vectors = y + change, vectors - self._B @ change
        return y, vectors


def null_states(B: sp.csr_array, rank_tol: float) -> FloatArray | None:
    """Orthonormal basis (nc, k) of an equilibrated B's null(Bᵀ); None when B is too large."""
    if min(B.shape) > DENSE_LIMIT or max(B.shape) > _DENSE_LAST:
        return None
    return np.asarray(scipy.linalg.null_space(B.toarray().T, rcond=rank_tol))


# --- self-stress states ------------------------------------------------------------------------

State = tuple[IntArray, FloatArray]  # rows, and their coefficients; the last row's is one


def self_stress_states(
    parts: Sequence[tuple[IntArray, sp.csr_array, FloatArray]], n: int, rank_tol: float
) -> sp.csr_array:
    """Self-stress states (nullity, n) of the parts of a network, largest entry one.

    A part is its rows among the n of the network, its equilibrated B, and what its rows were
    divided by.

    This is the turnback algorithm of structural mechanics, with neighbourhoods for bands. Where a
    row of B depends on others in a neighbourhood of its contact, the coefficients are a state. The
    contact is then left out of later states, so that the states are independent; as many as the
    nullity are a basis. Small neighbourhoods give nearly all, one factorisation the others.
    """
    columns, values, starts = [np.zeros(0, np.int64)], [np.zeros(0)], [0]
    for index, B, length in parts:
        for rows, force in _states_of(B, rank_tol):
            left = np.abs(B[rows].T @ force).max(initial=0.0)
            if not left <= _LEFT * np.abs(force).max():
                why = f"one of them leaves a load of {left:.1e}"
                raise Unsupported("the self-stress states", why)
            forces = force / length[rows]
            columns.append(index[rows])
            values.append(np.round(forces / forces[np.argmax(np.abs(forces))], _DIGITS))
            starts.append(starts[-1] + rows.size)
    entries = (np.concatenate(values), np.concatenate(columns), starts)
    return sp.csr_array(entries, shape=(len(starts) - 1, n))


def _states_of(B: sp.csr_array, rank_tol: float) -> list[State]:
    """The states of one part, those of the smallest neighbourhoods first."""
    nullity, Bt = B.shape[0] - rank_of(B, rank_tol), sp.csr_array(B.T)
    left = np.ones(B.shape[0], dtype=bool)  # rows that a later state may involve
    result: list[State] = []
    for radius in _RADII:
        for row in np.flatnonzero(left) if len(result) < nullity else ():
            ball = _ball(B, Bt, left, int(row), radius)
            states = _of_last(B, np.append(ball[ball != row], row))
            result += states
            left[row] = not states
            if len(result) == nullity:
                return result
        if len(result) < nullity:  # rows that no state of the remaining ones involves
            rows = np.flatnonzero(left)
            left[rows[looseness(sp.csr_array(B[rows]), rank_tol) <= SILENT]] = False
    if len(result) < nullity:
        rows = np.flatnonzero(left)
        rest = sp.csr_array(B[rows])
        rest = sp.csr_array(rest[:, np.unique(rest.indices)])
        result += [(rows[i], force) for i, force in _of_all(rest, nullity - len(result))]
    return result


def _ball(B: sp.csr_array, Bt: sp.csr_array, left: BoolArray, row: int, radius: int) -> IntArray:
    """Remaining rows whose dofs all lie within ``radius`` contacts of the row's dofs."""
    inside = np.zeros(B.shape[1], dtype=bool)
    inside[B[[row]].indices] = True
    for _ in range(radius):
        near = Bt[np.flatnonzero(inside)].indices
        inside[B[near[left[near]]].indices] = True
    near = np.unique(Bt[np.flatnonzero(inside)].indices)
    near = near[left[near]]
    return np.asarray(near[abs(B[near]) @ ~inside == 0.0], dtype=np.int64)


def _of_last(B: sp.csr_array, ball: IntArray) -> list[State]:
    """A dependence of the last row of a neighbourhood on its others, if there is one."""
    rows = B[ball]
    columns = rows[:, np.unique(rows.indices)].toarray().T
    if not np.any(columns[:, -1]):  # moved by nothing
        return [_state(ball, int(ball[-1]), np.zeros(0))]
    if columns.shape[1] < 2:
        return []
    Q, R, order = scipy.linalg.qr(columns[:, :-1], mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int(np.count_nonzero(diagonal > _DEPENDENT * diagonal[0]))
    Q, R, last = Q[:, :rank], R[:rank, :rank], columns[:, -1]
    if np.linalg.norm(last - Q @ (Q.T @ last)) > _DEPENDENT:
        return []
    weight = scipy.linalg.solve_triangular(R, Q.T @ last)
    return [_state(ball[order[:rank]], int(ball[-1]), weight)]


def _of_all(B: sp.csr_array, count: int) -> list[State]:
    """Dependences of all rows that depend on a basis of the others, by sparse factors.

    Partial pivoting picks a basis among the rows of [[B, R], [S, 0]], random R and S making up
    for the rows that depend on others, and for the motions that B does not resist.
    """
    n, m = B.shape
    motions = m - (n - count)
    random = np.random.default_rng(_SEED)
    fill = sp.csr_array(random.standard_normal((n, count)))
    tie = sp.csr_array(random.standard_normal((motions, m)))
    system = sp.csc_matrix(sp.block_array([[B, fill], [tie, sp.csr_array((motions, count))]]))
    factors = splu(system, permc_spec="COLAMD")  # most often leaves the full columns for last
    if np.any(np.asarray(factors.perm_c)[m:] < m):
        order = np.append(reverse_cuthill_mckee(sp.csr_matrix(B.T @ B), True), m + np.arange(count))
        factors = splu(system[:, order], permc_spec="NATURAL")
    pivot = np.asarray(factors.perm_r)[:n]
    basis, others = np.flatnonzero(pivot < m), np.flatnonzero(pivot >= m)
    square = splu(sp.csc_matrix(sp.vstack([B[basis], tie]).T))
    weights = square.solve(B[others].toarray().T)[: basis.size]
    return [_state(basis, int(row), w) for row, w in zip(others, weights.T, strict=True)]


def _state(basis: IntArray, row: int, weight: FloatArray) -> State:
    """The row's coefficient is one, and those of the basis rows balance it."""
    large = np.abs(weight) > _NOISE * max(float(np.abs(weight).max(initial=0.0)), 1.0)
    return np.append(basis[: large.size][large], row), np.append(-weight[large], 1.0)
