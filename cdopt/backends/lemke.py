"""Lemke's method on the complementarity problem (21) itself: 0 ≤ f ⟂ N f + p ≥ 0.

C. E. Lemke, *Bimatrix equilibrium points and mathematical programming*, Management Sci. 11
(1965); R. W. Cottle, J.-S. Pang, R. E. Stone, *The Linear Complementarity Problem* (1992),
algorithm 4.4.5 with the covering vector of ones and lexicographic ratio tests, which keep it
from cycling on the degenerate steps that piles at rest are. N is positive semidefinite, so the
method ends at a solution or on a ray; the ray is a proof that (21) has no solution: g ≥ 0 with
N g = 0 and pᵀg < 0 (section 4.4). It is an exact method for small problems, on dense matrices.

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
from cdopt.backends.native import (
    NativeBackend,
    Outcome,
    Run,
    natural_residual,
    outcome_of,
    scaled_step,
)
from cdopt.problem import DelassusStepData, RigidStepData

_PIVOT = 1e-7  # entries of a column below this share of the largest of N are round-off
_TIE = 1e-13  # ratios this close, beside the largest, are equal
_RAY = 1e-7  # N g of a ray, beside pᵀg
_BETWEEN_LOOKS = 32  # pivots between two looks at the clock
_SOLVED, _ON_A_RAY, _LIMIT = 0, 1, 2
_INFEASIBLE, _TROUBLE = "infeasible: secondary ray", "numerical trouble"


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

    max_contacts: checks.Count = 500
    max_pivots: checks.Count = 10_000
    accuracy: checks.Tolerance = 1e-8

    def _solve(self, data: RigidStepData | DelassusStepData, run: Run) -> Outcome:
        if data.nc > self.max_contacts:
            raise Unsupported(
                f"lcp for {data.nc:,} contacts",
                f"dense pivoting is for at most {self.max_contacts} (its setting max_contacts)",
                ("pgs", "apgd"),
            )
        step = scaled_step(data)
        acting = np.flatnonzero(step.diagonal > 0.0)
        N = np.asarray((step.rows @ step.spread.T).todense())
        N = 0.5 * (N + N.T)
        with run.iterating(data.nc, data.nc):
            status, pivots, forces = self._pivot(N, step.p, acting, run.deadline)
        residual = natural_residual(step.diagonal, N @ forces + step.p, forces)
        met = status == "solved" and residual <= self.accuracy
        if status == "solved" and not met:
            status = _TROUBLE
        claim: Claim = "infeasible" if status == _INFEASIBLE else "inaccurate"
        run.report(f"{status} after {pivots} pivots: residual {residual:.2e}")
        return outcome_of(data, step.force * forces, met, pivots, status=status, claim=claim)

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
    table = np.full((n, n + 1), -1.0)
    np.negative(N, out=table[:, :n])
    slot = np.concatenate([np.full(n, -1), np.arange(n + 1)])
    room, tied = np.full((3, n + 1), -1.0), np.empty(n, dtype=np.int64)
    least = n - 1 - int(np.argmin(q[::-1]))  # the last of equals is the lexicographic least
    position = np.array([least, 2 * n])
    data = table, q.copy(), basis, slot, room, tied, position, float(np.abs(N).max())
    pivots, outcome = 0, _LIMIT
    while pivots < max_pivots and not deadline.passed:
        outcome, done = _pivoted(*data, min(_BETWEEN_LOOKS, max_pivots - pivots))
        pivots += done
        if outcome != _LIMIT:
            break
    if outcome == _ON_A_RAY:
        parts = (basis >= n) & (basis < 2 * n)
        ray[basis[parts] - n] = -room[0, :-1][parts]
        if position[1] >= n:
            ray[position[1] - n] = 1.0
    return outcome, pivots, basis, ray


@compiled(fastmath={"contract", "nsz"})
def _pivoted(
    table: FloatArray,
    q: FloatArray,
    basis: IntArray,
    slot: IntArray,
    room: FloatArray,
    tied: IntArray,
    position: IntArray,
    scale: float,
    most: int,
) -> tuple[int, int]:
    """At most so many pivots from ``position``, a row and the variable that enters there.

    The outcome and their number. ``table`` (n, n + 1) has the columns of the variables outside the
    basis, ``slot`` (2n + 1,) the column of each, −1 in the basis; ``basis`` (n,) the variable of
    each row and ``q`` (n,) its value. The first row of ``room`` is the column that enters.
    """
    column, ratios, source, n = room[0, :-1], room[1], room[2], q.size
    for done in range(1, most + 1):
        row, entering = position
        leaving, place = basis[row], slot[entering]
        for i in range(n):
            table[i, place] = 1.0 if i == row else 0.0
        pivot = column[row]
        q[row] /= pivot
        for j in range(n + 1):
            table[row, j] /= pivot
            source[j] = table[row, j]
        for i in range(n):
            if i != row and column[i] != 0.0:
                target, factor = table[i], column[i]
                q[i] -= factor * q[row]
                for j in range(source.size):
                    target[j] -= factor * source[j]
        basis[row], slot[leaving], slot[entering] = entering, place, -1
        if leaving == 2 * n:
            return _SOLVED, done
        position[1] = leaving + n if leaving < n else leaving - n
        count = 0
        for i in range(n):
            column[i] = table[i, slot[position[1]]]
            if column[i] > _PIVOT * scale:
                tied[count] = i
                count += 1
        if count == 0:
            return _ON_A_RAY, done
        position[0] = _leaving_row(table, q, basis, slot, column, tied[:count], ratios)
    return _LIMIT, most


@part()
def _leaving_row(
    table: FloatArray,
    q: FloatArray,
    basis: IntArray,
    slot: IntArray,
    column: FloatArray,
    tied: IntArray,
    ratios: FloatArray,
) -> int:
    """Of the ``tied`` rows that of the lexicographic ratio test, z₀ first among equals.

    The ratios are those of q, then of the columns of w; what is in the basis has unit columns.
    """
    n, count = q.size, tied.size
    for variable in range(-1, n):
        least, largest = np.inf, 1.0
        for m in range(count):
            i = tied[m]
            if variable < 0:
                value = q[i]
            elif slot[variable] >= 0:
                value = table[i, slot[variable]]
            else:
                value = 1.0 if basis[i] == variable else 0.0
            ratios[m] = value / column[i]
            least, largest = min(least, ratios[m]), max(largest, abs(ratios[m]))
        kept = 0
        for m in range(count):
            if ratios[m] <= least + _TIE * largest:
                tied[kept] = tied[m]
                kept += 1
                if variable < 0 and basis[tied[m]] == 2 * n:
                    return tied[m]
        count = kept
        if count == 1:
            break
    return tied[0]
