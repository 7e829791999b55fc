"""Lemke's method on the complementarity problem (21) itself: 0 ≤ f ⟂ N f + p ≥ 0.

C. E. Lemke, *Bimatrix equilibrium points and mathematical programming*, Management Sci. 11
(1965); R. W. Cottle, J.-S. Pang, R. E. Stone, *The Linear Complementarity Problem* (1992),
algorithm 4.4.5 with the covering vector of ones and lexicographic ratio tests, which keep it
from cycling on the degenerate steps that piles at rest are. N is positive semidefinite, so the
method ends at a solution or on a ray; the ray is a proof that (21) has no solution: g ≥ 0 with
N g = 0 and pᵀg < 0 (section 4.4). It is an exact method for small problems: dense, (2n)² numbers.

On ``beam-uniform``, whose forces are unique only up to multiples of (1, −2, 1), it ends at a
vertex of the solutions, 0, 10 and 0 N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import clock, compiled, part
from cdopt._util.errors import Unsupported
from cdopt.backends.base import Claim
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.backends.native import (
    NativeBackend,
    Outcome,
    Report,
    check_count,
    natural_residual,
    scaled_step,
)
from cdopt.problem import DelassusStepData, RigidStepData
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

_PIVOT = 1e-7  # entries of a column below this share of the largest of N are round-off
_TIE = 1e-13  # ratios this close, beside the largest, are equal
_RAY = 1e-7  # N g of a ray, beside pᵀg
_PIVOTS = 100  # between two looks at the clock
_SOLVED, _ON_A_RAY, _LIMIT = 0, 1, 2
_INACCURATE: Claim = "inaccurate"
_INFEASIBLE: Claim = "infeasible"


@dataclass(frozen=True)
class LCP(NativeBackend):
    """Settings of Lemke's method.

    Parameters
    ----------
    max_contacts : larger problems are refused; the work grows with the cube of their size.
    max_pivots : pivots at most.
    accuracy : the run is solved when max_i |min(N_ii f_i, (N f + p)_i)| / V ≤ accuracy at the
        forces of the final basis, solved anew; V is the closing speed of the contact's part.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "lcp"
    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step"})
    warm_starts: ClassVar[bool] = False  # the method prescribes its start

    max_contacts: int = 500
    max_pivots: int = 10_000
    accuracy: float = 1e-8

    def __post_init__(self) -> None:
        check_count("max_contacts", self.max_contacts)
        check_count("max_pivots", self.max_pivots)
        checks.scalar("accuracy", self.accuracy, above=0.0, at_most=1.0)

    def _solve(
        self,
        data: RigidStepData | DelassusStepData,
        start: WarmStart | None,
        report: Report,
        deadline: Deadline,
    ) -> Outcome:
        if data.nc > self.max_contacts:
            raise Unsupported(
                f"lcp for {data.nc} contacts",
                f"dense pivoting is for at most {self.max_contacts} (its setting max_contacts)",
                ("pgs", "apgd"),
            )
        step = scaled_step(data)
        acting = np.flatnonzero(step.diagonal > 0.0)
        N = np.asarray((step.rows @ step.spread.T).todense())
        N = 0.5 * (N + N.T)
        prepared = clock()
        outcome, pivots, forces = self._pivot(N, step.p, acting, deadline)
        residual = natural_residual(step.diagonal, N @ forces + step.p, forces)
        met = outcome == "complementary basis" and residual <= self.accuracy
        status, claim = outcome, _INACCURATE
        if outcome == "ray":
            status, claim = "infeasible: secondary ray", _INFEASIBLE
        elif outcome == "complementary basis":
            status = "solved" if met else "numerical trouble"
        report(f"{status} after {pivots} pivots: residual {residual:.2e}")
        solved = clock()
        physical = step.force * forces
        return Outcome(
            Iterate(data.velocity(physical), physical),
            met,
            pivots,
            prepared,
            solved,
            status=status,
            claim=claim,
        )

    def _pivot(
        self, N: FloatArray, p: FloatArray, acting: IntArray, deadline: Deadline
    ) -> tuple[str, int, FloatArray]:
        """Outcome, pivots and scaled forces (nc,); contacts that act on nothing get zero."""
        forces = np.zeros(p.size)
        idle = np.ones(p.size, dtype=bool)
        idle[acting] = False
        if np.any(p[idle] < -self.accuracy):
            return "ray", 0, forces
        small, q = np.ascontiguousarray(N[np.ix_(acting, acting)]), p[acting]
        outcome, pivots, basis, ray = lemke(small, q, self.max_pivots, deadline)
        if outcome == _ON_A_RAY:
            g = np.maximum(ray, 0.0)
            drop = float(q @ g)
            proven = drop < 0.0 and float(np.abs(small @ g).max()) <= -_RAY * drop
            return ("ray" if proven else "numerical trouble"), int(pivots), forces
        if outcome == _LIMIT:
            late = pivots < self.max_pivots
            return TIME_LIMIT if late else "pivot limit", int(pivots), forces
        loaded = np.sort(basis[(basis >= q.size) & (basis < 2 * q.size)] - q.size)
        block = small[np.ix_(loaded, loaded)]
        exact = np.linalg.lstsq(block, -q[loaded], rcond=None)[0]
        forces[acting[loaded]] = np.maximum(exact, 0.0)  # below zero only by round-off: tested
        return "complementary basis", int(pivots), forces


def lemke(
    N: FloatArray, q: FloatArray, max_pivots: int, deadline: Deadline = NEVER
) -> tuple[int, int, IntArray, FloatArray]:
    """Lemke's method on w − N z = q, 0 ≤ w ⟂ z ≥ 0 with w − N z − z₀ = q in between.

    Variables are numbered w: 0 … n−1, z: n … 2n−1, z₀: 2n. Returns the outcome, the number of
    pivots, the basis (n,) and the z part of the ray (n,).
    """
    n = q.size
    table, basis, ray = np.zeros((n, 2 * n + 2)), np.arange(n), np.zeros(n)
    position = np.array([_first_row(N, q, table), 2 * n])
    if position[0] < 0:
        return _SOLVED, 0, basis, ray
    scale, pivots, tied = max(1.0, float(np.abs(N).max())), 0, np.empty(n, dtype=np.int64)
    while pivots < max_pivots:
        most = max_pivots - pivots if deadline == NEVER else min(_PIVOTS, max_pivots - pivots)
        outcome, done = _pivoted(table, basis, ray, tied, position, scale, most)
        pivots += done
        if outcome != _LIMIT or deadline.passed:
            return outcome, pivots, basis, ray
    return _LIMIT, max_pivots, basis, ray


@compiled()
def _first_row(N: FloatArray, q: FloatArray, table: FloatArray) -> int:
    """Fill the table; the row that z₀ enters, or −1 where q ≥ 0 already."""
    n = q.shape[0]
    row = 0
    for i in range(n):
        table[i, i], table[i, 2 * n], table[i, 2 * n + 1] = 1.0, -1.0, q[i]
        for j in range(n):
            table[i, n + j] = -N[i, j]
        if q[i] <= q[row]:  # the last of equals is the lexicographic least
            row = i
    return -1 if n == 0 or q[row] >= 0.0 else row


@compiled()
def _pivoted(
    table: FloatArray,
    basis: IntArray,
    ray: FloatArray,
    tied: IntArray,
    position: IntArray,
    scale: float,
    most: int,
) -> tuple[int, int]:
    """At most so many pivots from ``position``, row and column; the outcome and their number."""
    n = table.shape[0]
    row, entering = position[0], position[1]
    for pivots in range(1, most + 1):
        pivot(table, row, entering)
        leaving = basis[row]
        basis[row] = entering
        if leaving == 2 * n:
            return _SOLVED, pivots
        entering = leaving + n if leaving < n else leaving - n
        row = leaving_row(table, basis, tied, entering, scale)
        if row < 0:
            for i in range(n):
                if basis[i] >= n and basis[i] < 2 * n:
                    ray[basis[i] - n] = -table[i, entering]
            if entering >= n:
                ray[entering - n] = 1.0
            return _ON_A_RAY, pivots
    position[0], position[1] = row, entering
    return _LIMIT, most


@part()
def pivot(table: FloatArray, row: int, column: int) -> None:
    """Make a column of the table the unit vector of a row."""
    scale = table[row, column]
    for j in range(table.shape[1]):
        table[row, j] /= scale
    for i in range(table.shape[0]):
        factor = table[i, column]
        if i != row and factor != 0.0:
            for j in range(table.shape[1]):
                table[i, j] -= factor * table[row, j]
            table[i, column] = 0.0


@part()
def leaving_row(
    table: FloatArray, basis: IntArray, tied: IntArray, entering: int, scale: float
) -> int:
    """The row of the lexicographic ratio test, z₀ first among equals; −1 on a ray.

    ``tied`` (n,) is room for rows.
    """
    n = table.shape[0]
    count = 0
    for i in range(n):
        if table[i, entering] > _PIVOT * scale:
            tied[count] = i
            count += 1
    if count == 0:
        return -1
    for k in range(-1, n):
        column = 2 * n + 1 if k < 0 else k
        least, largest = np.inf, 1.0
        for m in range(count):
            ratio = table[tied[m], column] / table[tied[m], entering]
            least, largest = min(least, ratio), max(largest, abs(ratio))
        remaining = 0
        for m in range(count):
            i = tied[m]
            if table[i, column] / table[i, entering] <= least + _TIE * largest:
                if k < 0 and basis[i] == 2 * n:
                    return i
                tied[remaining] = i
                remaining += 1
        count = remaining
        if count == 1:
            break
    return tied[0]
