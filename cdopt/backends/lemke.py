"""Lemke's method on the complementarity problem (21) itself: 0 ≤ f ⟂ N f + p ≥ 0.

C. E. Lemke, *Bimatrix equilibrium points and mathematical programming*, Management Sci. 11
(1965); R. W. Cottle, J.-S. Pang, R. E. Stone, *The Linear Complementarity Problem* (1992),
algorithm 4.4.5 with the covering vector of ones and lexicographic ratio tests, which keep it
from cycling on the degenerate steps that piles at rest are. N is positive semidefinite, so the
method ends at a solution or on a ray; the ray is a proof that (21) has no solution: g ≥ 0 with
N g = 0 and pᵀg < 0 (section 4.4). It is an exact method for small problems: dense, n² numbers, all
of which a pivot changes.

On ``beam-uniform``, whose forces are unique only up to multiples of (1, −2, 1), it ends at a
vertex of the solutions, 0, 10 and 0 N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt._util.errors import Unsupported
from cdopt.backends.base import Claim
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.backends.native import NativeBackend, Run, listed, natural_residual
from cdopt.backends.network_problem import NetworkProblem
from cdopt.problem import HalfLines

_PIVOT = 1e-7  # entries of a column below this share of the largest of N are round-off
_TIE = 1e-13  # ratios this close, relative to the largest, are equal
_RAY = 1e-7  # N g of a ray, relative to pᵀg
_LOOK = 64  # pivots between two looks at the clock
_SOLVED, _ON_A_RAY, _LIMIT = 0, 1, 2
_INFEASIBLE, _TROUBLE = "infeasible: secondary ray", "numerical trouble"


@listed
@dataclass(frozen=True)
class LCP(NativeBackend):
    """Settings of Lemke's method.

    Parameters
    ----------
    max_contacts : larger problems raise an error, because the work grows with the cube of the size.
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

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
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
        return run.ended(problem.caused(forces), met, pivots, status=status, claim=claim)

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
    """Lemke's method on w − N z − z₀ = q, 0 ≤ w ⟂ z ≥ 0: outcome, pivots, basis and ray (n,).

    Variables are numbered w: 0 … n−1, z: n … 2n−1, z₀: 2n.
    """
    n, pivots = q.size, 0
    basis, ray = np.arange(n), np.zeros(n)
    if n == 0 or q.min() >= 0.0:
        return _SOLVED, 0, basis, ray
    table = np.column_stack([-N, -np.ones(n), q])  # outside the basis, and values
    slot = np.concatenate([np.full(n, -1), np.arange(n + 1)])  # of each variable in the table
    last = n - 1 - int(np.argmin(q[::-1]))  # the last of equals is the lexicographic least
    position, least = np.array([last, 2 * n]), _PIVOT * max(1.0, float(np.abs(N).max()))
    while pivots < max_pivots and not deadline.passed:
        most = min(_LOOK, max_pivots - pivots)
        outcome, done = pivoted(table, basis, slot, ray, position, least, most)
        pivots += done
        if outcome != _LIMIT:
            return outcome, pivots, basis, ray
    return _LIMIT, pivots, basis, ray


@compiled(allocates=True)
def pivoted(
    table: FloatArray,
    basis: IntArray,
    slot: IntArray,
    ray: FloatArray,
    position: IntArray,
    least: float,
    most: int,
) -> tuple[int, int]:
    """At most this many pivots from ``position``, row and entering variable; outcome and number."""
    n = basis.size
    row, entering = position[0], position[1]
    for k in range(most):
        leaving, place = basis[row], slot[entering]
        exchange(table, row, place)
        basis[row], slot[leaving], slot[entering] = entering, place, -1
        if leaving == 2 * n:
            return _SOLVED, k + 1
        entering = leaving + n if leaving < n else leaving - n
        column = table[:, slot[entering]].copy()
        row = leaving_row(table, basis, slot, column, least)
        if row < 0:
            for i in range(n):
                if n <= basis[i] < 2 * n:
                    ray[basis[i] - n] = -column[i]
            if entering >= n:
                ray[entering - n] = 1.0
            return _ON_A_RAY, k + 1
    position[0], position[1] = row, entering
    return _LIMIT, most


@part(allocates=True)
def exchange(table: FloatArray, row: int, place: int) -> None:
    """The variable of a column, at this ``place``, for that of a ``row``, by Gauss and Jordan."""
    scale, table[row, place] = table[row, place], 1.0
    for j in range(table.shape[1]):
        table[row, j] /= scale
    for i in range(table.shape[0]):
        factor = table[i, place]
        if i != row and factor != 0.0:
            table[i, place] = 0.0
            for j in range(table.shape[1]):
                table[i, j] -= factor * table[row, j]


@part(allocates=True)
def leaving_row(
    table: FloatArray, basis: IntArray, slot: IntArray, column: FloatArray, least: float
) -> int:
    """The row of the lexicographic ratio test, z₀ first of equals; −1 on a ray."""
    n, tied, count = basis.size, np.empty(basis.size, dtype=np.int64), 0
    for i in range(n):
        if column[i] > least:
            tied[count], count = i, count + 1
    for variable in range(-1, n):  # the values come first
        if count <= 1:
            break
        last, count = count, 0
        if variable >= 0 and slot[variable] < 0:  # a unit vector
            for i in tied[:last]:
                if basis[i] != variable:
                    tied[count], count = i, count + 1
            continue
        place = table.shape[1] - 1 if variable < 0 else slot[variable]
        lowest, largest = np.inf, 1.0
        for i in tied[:last]:
            ratio = table[i, place] / column[i]
            lowest, largest = min(lowest, ratio), max(largest, abs(ratio))
        for i in tied[:last]:
            if table[i, place] / column[i] <= lowest + _TIE * largest:
                tied[count], count = i, count + 1
                if variable < 0 and basis[i] == 2 * n:
                    return i
    return tied[0] if count else -1
