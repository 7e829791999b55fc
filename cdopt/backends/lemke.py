"""Lemke's method on the complementarity problem (21) itself: 0 ≤ f ⟂ N f + p ≥ 0.

C. E. Lemke, *Bimatrix equilibrium points and mathematical programming*, Management Sci. 11
(1965); R. W. Cottle, J.-S. Pang, R. E. Stone, *The Linear Complementarity Problem* (1992),
algorithm 4.4.5 with the covering vector of ones and lexicographic ratio tests, which keep it
from cycling on the degenerate steps that piles at rest are. N is positive semidefinite, so the
method ends at a solution or on a ray; the ray is a proof that (21) has no solution: g ≥ 0 with
N g = 0 and pᵀg < 0 (section 4.4). It is an exact method for small problems: dense, n² numbers, of
which a pivot changes one row and one column; the rest is multiplied out panel by panel.

On ``beam-uniform``, whose forces are unique only up to multiples of (1, −2, 1), it ends at a
vertex of the solutions, 0, 10 and 0 N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dgemm

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt._util.errors import Unsupported
from cdopt.backends.base import Claim
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.backends.native import NativeBackend, Outcome, Run, listed, natural_residual, outcome_of
from cdopt.backends.network_problem import NetworkProblem
from cdopt.problem import HalfLines

_PIVOT = 1e-7  # entries of a column below this share of the largest of N are round-off
_TIE = 1e-13  # ratios this close, relative to the largest, are equal
_RAY = 1e-7  # N g of a ray, relative to pᵀg
_PANEL = 32  # pivots between two products with the whole table, and two looks at the clock
_MATH = {"contract", "nsz"}  # the same bits whether just compiled or from disk
_SOLVED, _ON_A_RAY, _LIMIT = 0, 1, 2
_INFEASIBLE, _TROUBLE = "infeasible: secondary ray", "numerical trouble"


@listed
@dataclass(frozen=True)
class LCP(NativeBackend):
    """Settings of Lemke's method.

    Parameters
    ----------
    max_contacts : larger problems are refused; the work grows with the cube of their size.
    max_pivots : pivots at most.
    accuracy : the run is solved when max_i |min(N_ii f_i, (N f + p)_i)| / V ≤ accuracy at the
        forces of the final basis, solved again; V is the closing speed of the contact's part.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "lcp"
    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step", "soft step"})
    cones: ClassVar[frozenset[str]] = frozenset({HalfLines.name})
    warm_starts: ClassVar[bool] = False  # the method prescribes its start

    max_contacts: int = 500
    max_pivots: int = 10_000
    accuracy: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(max_contacts=checks.count("max_contacts", self.max_contacts))
        self._set(max_pivots=checks.count("max_pivots", self.max_pivots))

    def _solve(self, problem: NetworkProblem, run: Run) -> Outcome:
        if problem.nc > self.max_contacts:
            raise Unsupported(
                f"lcp for {problem.nc:,} contacts",
                f"dense pivoting is for at most {self.max_contacts} (its setting max_contacts)",
                ("pgs", "apgd"),
            )
        diagonal, N = problem.factors.diagonal, problem.factors.dense()
        acting = np.flatnonzero(diagonal > 0.0)
        with run.iterating(problem.nc, problem.nc):
            status, pivots, forces = self._pivot(N, problem.p, acting, run.deadline)
        residual = natural_residual(diagonal, N @ forces + problem.p, forces)
        met = status == "solved" and residual <= self.accuracy
        if status == "solved" and not met:
            status = _TROUBLE
        claim: Claim = "infeasible" if status == _INFEASIBLE else "inaccurate"
        run.report(f"{status} after {pivots} pivots: residual {residual:.2e}")
        return outcome_of(problem, forces, met, pivots, status=status, claim=claim)

    def _pivot(
        self, N: FloatArray, p: FloatArray, acting: IntArray, deadline: Deadline
    ) -> tuple[str, int, FloatArray]:
        """Status, pivots and scaled forces (nc,); contacts that act on nothing get zero."""
        forces = np.zeros(p.size)
        idle = np.ones(p.size, dtype=bool)
        idle[acting] = False
        if np.any(p[idle] < -self.accuracy):
            return _INFEASIBLE, 0, forces
        small, q = np.ascontiguousarray(N[np.ix_(acting, acting)]), p[acting]
        outcome, pivots, basis, ray = lemke(small, q, self.max_pivots, deadline)
        if outcome == _ON_A_RAY:
            g = np.maximum(ray, 0.0)
            drop = float(q @ g)
            proven = drop < 0.0 and float(np.abs(small @ g).max()) <= -_RAY * drop
            return (_INFEASIBLE if proven else _TROUBLE), int(pivots), forces
        if outcome == _LIMIT:
            late = pivots < self.max_pivots
            return TIME_LIMIT if late else "pivot limit", int(pivots), forces
        loaded = np.sort(basis[(basis >= q.size) & (basis < 2 * q.size)] - q.size)
        block = small[np.ix_(loaded, loaded)]
        try:
            exact = cho_solve(cho_factor(block), -q[loaded]) if loaded.size else np.zeros(0)
        except np.linalg.LinAlgError:  # singular to working accuracy
            exact = np.linalg.lstsq(block, -q[loaded], rcond=None)[0]
        forces[acting[loaded]] = np.maximum(exact, 0.0)  # below zero only by round-off: tested
        return "solved", int(pivots), forces


def lemke(
    N: FloatArray, q: FloatArray, max_pivots: int, deadline: Deadline = NEVER
) -> tuple[int, int, IntArray, FloatArray]:
    """Lemke's method on w − N z = q, 0 ≤ w ⟂ z ≥ 0 with w − N z − z₀ = q in between.

    Variables are numbered w: 0 … n−1, z: n … 2n−1, z₀: 2n. Returns the outcome, the number of
    pivots, the basis (n,) and the z part of the ray (n,).
    """
    n = q.size
    basis, ray = np.arange(n), np.zeros(n)
    if n == 0 or q.min() >= 0.0:
        return _SOLVED, 0, basis, ray
    columns = np.full((n, n + 1), -1.0)
    np.negative(N, out=columns[:, :n])
    slot = np.concatenate([np.full(n, -1), np.arange(n + 1)])
    table = _Table(columns, np.zeros((n, _PANEL)), np.zeros((_PANEL, n + 1)), q.copy(), basis, slot)
    column, ratios, tied = -np.ones(n), np.empty(n), np.empty(n, dtype=np.int64)
    least = n - 1 - int(np.argmin(q[::-1]))  # the last of equals is the lexicographic least
    position, scale, pivots = np.array([least, 2 * n]), max(1.0, float(np.abs(N).max())), 0
    while pivots < max_pivots and not deadline.passed:
        most = min(_PANEL, max_pivots - pivots)
        outcome, done = _pivoted(table, column, ray, tied, ratios, position, scale, most)
        pivots += done
        if outcome != _LIMIT:
            return outcome, pivots, basis, ray
        columns = dgemm(1.0, table.V.T, table.U.T, 1.0, table.columns.T, overwrite_c=1).T
        table = table._replace(columns=columns)
        table.U[:], table.V[:] = 0.0, 0.0
    return _LIMIT, pivots, basis, ray


class _Table(NamedTuple):
    """The table of the variables outside the basis, its last pivots not yet multiplied out.

    Attributes
    ----------
    columns : (n, n + 1) to which U V (n, _PANEL) (_PANEL, n + 1) is to be added.
    U, V : one column and one row for each pivot since.
    q : (n,) the values of the basis.
    basis : (n,) the variable of each row.
    slot : (2n + 1,) the column of each variable, −1 in the basis.
    """

    columns: FloatArray
    U: FloatArray
    V: FloatArray
    q: FloatArray
    basis: IntArray
    slot: IntArray


@compiled(fastmath=_MATH)
def _pivoted(
    table: _Table,
    column: FloatArray,
    ray: FloatArray,
    tied: IntArray,
    ratios: FloatArray,
    position: IntArray,
    scale: float,
    most: int,
) -> tuple[int, int]:
    """At most ``most`` pivots from ``position``, row and entering variable, of this ``column``.

    The outcome and their number.
    """
    basis, slot, n = table.basis, table.slot, column.size
    row, entering = position[0], position[1]
    for k in range(most):
        leaving, place = basis[row], slot[entering]
        pivot(table, column, row, place, k)
        basis[row], slot[leaving], slot[entering] = entering, place, -1
        if leaving == 2 * n:
            return _SOLVED, k + 1
        entering = leaving + n if leaving < n else leaving - n
        for i in range(n):
            column[i] = entry(table, i, slot[entering], k + 1)
        row = leaving_row(table, column, tied, ratios, scale, k + 1)
        if row < 0:
            for i in range(n):
                if basis[i] >= n and basis[i] < 2 * n:
                    ray[basis[i] - n] = -column[i]
            if entering >= n:
                ray[entering - n] = 1.0
            return _ON_A_RAY, k + 1
    position[0], position[1] = row, entering
    return _LIMIT, most


@part(fastmath=_MATH)
def entry(table: _Table, i: int, j: int, k: int) -> float:
    """The entry of row i and column j after the first k pivots of U and V."""
    value = table.columns[i, j]
    for m in range(k):
        value += table.U[i, m] * table.V[m, j]
    return value


@part(fastmath=_MATH)
def pivot(table: _Table, column: FloatArray, row: int, place: int, k: int) -> None:
    """The k-th pivot: ``column``, at this ``place``, enters by ``row``, what leaves takes it."""
    columns, U, V, q, _, _ = table
    scale = column[row]
    for j in range(columns.shape[1]):
        V[k, j] = columns[row, j]
        columns[row, j] = 0.0
    for m in range(k):
        factor, U[row, m] = U[row, m], 0.0
        for j in range(columns.shape[1]):
            V[k, j] += factor * V[m, j]
        V[m, place] = 0.0
    V[k, place] = 1.0
    value = q[row] / scale
    for i in range(q.size):
        columns[i, place] = 0.0
        U[i, k] = -column[i] / scale
        q[i] -= column[i] * value
    q[row], U[row, k] = value, 1.0 / scale


@part()
def leaving_row(
    table: _Table, column: FloatArray, tied: IntArray, ratios: FloatArray, scale: float, k: int
) -> int:
    """The row of the lexicographic ratio test, z₀ first among equals; −1 on a ray.

    ``tied`` and ``ratios`` (n,) are room for rows; U and V hold k pivots.
    """
    n = column.size
    count = 0
    for i in range(n):
        if column[i] > _PIVOT * scale:
            tied[count] = i
            count += 1
    if count == 0:
        return -1
    for variable in range(-1, n):
        if variable >= 0 and table.slot[variable] < 0:  # a unit vector
            remaining = 0
            for m in range(count):
                if table.basis[tied[m]] != variable:
                    tied[remaining] = tied[m]
                    remaining += 1
            count = remaining
        else:
            count = _least_of(table, column, tied[:count], ratios, variable, k)
            if variable < 0:
                for m in range(count):
                    if table.basis[tied[m]] == 2 * n:
                        return tied[m]
        if count == 1:
            break
    return tied[0]


@part()
def _least_of(
    table: _Table,
    column: FloatArray,
    tied: IntArray,
    ratios: FloatArray,
    variable: int,
    k: int,
) -> int:
    """Those of the ``tied`` rows moved together whose ratio is the least; their number.

    Of the values of the rows, for a ``variable`` below zero, or of its entries.
    """
    least, largest = np.inf, 1.0
    for m in range(tied.size):
        i = tied[m]
        value = table.q[i] if variable < 0 else entry(table, i, table.slot[variable], k)
        ratios[m] = value / column[i]
        least, largest = min(least, ratios[m]), max(largest, abs(ratios[m]))
    remaining = 0
    for m in range(tied.size):
        if ratios[m] <= least + _TIE * largest:
            tied[remaining] = tied[m]
            remaining += 1
    return remaining
