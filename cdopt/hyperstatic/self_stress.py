"""Local self-stress states: sparse, independent vectors of null(Bᵀ).

This is the turnback algorithm of structural mechanics, with neighbourhoods for bands. Where a row
of B depends on others in a neighbourhood of its contact, the coefficients are a self-stress state.
The contact is then left out of later states, so that the states are independent; as many as the
nullity are a basis. Small neighbourhoods give nearly all states, and one factorisation of the
remaining rows the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.hyperstatic.admissible import SILENT, Block
from cdopt.hyperstatic.rank import looseness, rank_of

_RADII = (1, 2)  # of the neighbourhoods, counted in contacts
_SEED = 1805
_CLEAN = 1e-7  # of a state's largest force: the load that it may leave, rows of B being unit
_DIGITS = 14  # of the states' entries; what is beyond them is round-off
_NOISE = 1e-9  # coefficients below this share of the largest are round-off
_DEPENDENT = 1e-8  # a row this close to the span of others depends on them


State = tuple[IntArray, FloatArray]  # rows, and their coefficients; the last row's is one


def self_stress_states(parts: Sequence[Block], nc: int, rank_tol: float) -> sp.csr_array:
    """Self-stress states (nullity, nc) of the parts of a network, largest entry one.

    Raises
    ------
    Unsupported : the states found do not come to the nullity.
    """
    columns, values, starts = [], [], [0]
    for part in parts:
        states = _Turnback(part, rank_tol).states()
        _require_states(part, states)
        for rows, force in states:
            forces = force / part.length[rows]
            peak = int(np.argmax(np.abs(forces)))
            columns.append(part.contacts[rows])
            values.append(np.round(forces / forces[peak], _DIGITS))
            starts.append(starts[-1] + rows.size)
    shape = (len(columns), nc)
    if not columns:
        return sp.csr_array(shape)
    return sp.csr_array((np.concatenate(values), np.concatenate(columns), starts), shape=shape)


def _require_states(part: Block, states: list[State]) -> None:
    """Refuse states that load anything."""
    for rows, force in states:
        left = np.abs(part.B[rows].T @ force).max(initial=0.0)
        if not left <= _CLEAN * np.abs(force).max():
            raise Unsupported("the self-stress states", f"one of them leaves a load of {left:.1e}")


class _Turnback:
    """The states of one independent part."""

    def __init__(self, part: Block, rank_tol: float) -> None:
        self.B, self.Bt = part.B, sp.csr_array(part.B.T)
        self.rank_tol = rank_tol
        self.nullity = part.B.shape[0] - rank_of(part.B, rank_tol)
        self.left = np.ones(part.B.shape[0], dtype=bool)  # rows that a later state may involve

    def states(self) -> list[State]:
        """Rows and coefficients of every state, those of the smallest neighbourhoods first."""
        result: list[State] = []
        for radius in _RADII:
            for row in np.flatnonzero(self.left) if len(result) < self.nullity else ():
                ball = self._ball(int(row), radius)
                states = _of_last(self.B, np.append(ball[ball != row], row))
                result += states
                self.left[row] = not states
                if len(result) == self.nullity:
                    break
            if len(result) < self.nullity:
                self._drop_tight()
        if len(result) < self.nullity:
            rows = np.flatnonzero(self.left)
            B = sp.csr_array(self.B[rows])
            B = sp.csr_array(B[:, np.unique(B.indices)])
            missing = self.nullity - len(result)
            result += [(rows[index], force) for index, force in _of_all(B, missing)]
        return result

    def _drop_tight(self) -> None:
        """Leave out rows that no state of the remaining rows involves."""
        rows = np.flatnonzero(self.left)
        tight = looseness(sp.csr_array(self.B[rows]), self.rank_tol) <= SILENT
        self.left[rows[tight]] = False

    def _ball(self, row: int, radius: int) -> IntArray:
        """Remaining rows whose dofs all lie within ``radius`` contacts of the row's dofs."""
        inside = np.zeros(self.B.shape[1], dtype=bool)
        inside[self.B[[row]].indices] = True
        for _ in range(radius):
            near = self.Bt[np.flatnonzero(inside)].indices
            inside[self.B[near[self.left[near]]].indices] = True
        near = np.unique(self.Bt[np.flatnonzero(inside)].indices)
        near = near[self.left[near]]
        rows = self.B[near]
        return np.asarray(near[abs(rows) @ ~inside == 0.0], dtype=np.int64)


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
    corner = sp.csr_array((motions, count))
    system = sp.csc_matrix(sp.block_array([[B, fill], [tie, corner]]))
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
