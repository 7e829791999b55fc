"""Block Gauss–Seidel for steps with friction: "NSGS" of contact dynamics.

Contact after contact, in a fixed order, the d forces of a contact become those that solve its own
law while all others stay as they are. The small problem of one contact is solved by projection,

    f_i ← P_K(f_i − ρ g̃_i),    ρ = 1 / ‖N_ii‖,

repeated until it settles. M. Jean, *The non-smooth contact dynamics method*, Comput. Methods Appl.
Mech. Engrg. 177 (1999). Nothing guarantees that it converges; where forces are indeterminate the
answer depends on the order of the visits. After every ten sweeps Anderson's acceleration combines
the last results: most problems of the bank take a fraction of the sweeps, hardly any takes more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import clock, compiled, part
from cdopt._util.errors import InvalidInput
from cdopt.backends.cone_step import ConeStep
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import Outcome, Report, ScaledStep, in_pieces
from cdopt.backends.pgs import PGS
from cdopt.problem import FrictionalDelassusData, FrictionalStepData
from cdopt.problem import friction_cone as cone
from cdopt.problem.warm_start import WarmStart

_AGAIN = 10  # sweeps between two fresh sums of what the forces do, and two combinations
_WORSE = 2.0  # times the natural map before: combinations beyond it are refused
_INNER = 200  # projections of one contact's problem at most
_SETTLED = 1e-3  # it ends when a projection changes by this share of the first one


@dataclass(frozen=True)
class NSGS(PGS):
    """Settings of block Gauss–Seidel for steps with friction, of both laws.

    Parameters
    ----------
    order : "given", "reversed", "shuffled" (with ``seed``), or a permutation of the contacts.
    memory : how many results of ten sweeps Anderson's acceleration combines; 0 is Gauss–Seidel
        alone.
    seed, max_sweeps, history : as in ``PGS``; ``relaxation`` must be one.
    accuracy : the run is solved when the natural map of every contact, over the closing speed of
        its part, is at most this; and, down to 1e-10, when the certificate is.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "nsgs"
    kinds: ClassVar[frozenset[str]] = frozenset({"frictional step"})
    _orders: ClassVar[tuple[str, ...]] = ("given", "reversed", "shuffled")

    memory: int = 15

    def __post_init__(self) -> None:
        checks.whole("memory", self.memory, 0, 1000)
        super().__post_init__()
        if self.relaxation != 1.0:
            raise InvalidInput("relaxation", repr(self.relaxation), "1: blocks are not relaxed")

    def _solve(  # type: ignore[override]  # another kind of problem
        self,
        data: FrictionalStepData | FrictionalDelassusData,
        start: WarmStart | None,
        report: Report,
        deadline: Deadline,
    ) -> Outcome:
        step = ConeStep(data)
        order = np.asarray(self._visits(data.contacts), dtype=np.int64)
        blocks, f = _diagonal_blocks(step.step, data.d), step.start(start)
        prepared = clock()
        f, sweeps, met, residuals = self._sweeps(step, blocks, order, f, deadline)
        last = residuals[-1] if residuals else 0.0
        report(f"{'solved' if met else 'stopped'} after {sweeps} sweeps: natural map {last:.2e}")
        return step.outcome(f, met, sweeps, prepared, residuals)

    def _sweeps(
        self, step: ConeStep, blocks: FloatArray, order: IntArray, f: FloatArray, deadline: Deadline
    ) -> tuple[FloatArray, int, bool, list[float]]:
        """Forces (contacts, d), sweeps, whether the test was met, and the map at each check."""
        rows, spread = _arrays(step.step.rows), _arrays(step.step.spread)
        work, residuals, sweeps = np.empty((3, f.shape[1])), list[float](), 0
        mixing = AndersonAcceleration(np.sqrt(step.w)[:, None], self.memory)
        while True:
            y = step.effect(f)  # anew: round-off does not gather
            error = step.natural_map(f, y)
            if mixing.refuses(error):
                f = mixing.swept
                y = step.effect(f)
                error = step.natural_map(f, y)
            residuals.append(error)
            met = error <= self.accuracy
            if met or sweeps >= self.max_sweeps or deadline.passed:
                return f, sweeps, met, residuals
            before = f.copy()
            trace = np.zeros(min(_AGAIN, self.max_sweeps - sweeps))
            for piece in in_pieces(trace, rows[1].size, deadline):
                block_gauss_seidel(
                    *(rows, spread, step.step.p, blocks, step.mu, order),
                    *(step.coulomb, self.accuracy, f, y, piece, work),
                )
                if deadline.passed:
                    break
            done = int(np.count_nonzero(trace >= 0.0))
            sweeps += done
            if done == _AGAIN and self.memory:
                f = cone.project(mixing.mixed(before, f, error), step.mu)


class AndersonAcceleration:
    """Anderson's acceleration, of the map from forces to those some sweeps later.

    D. G. Anderson, J. ACM 12 (1965). The next forces are the combination of the last results of
    the map whose changes cancel best. It is refused where it increases the natural map: more than
    twofold, or a second time before the sweeps have reached a new least one.

    Attributes
    ----------
    swept : (contacts, d) forces before the last combination.
    """

    def __init__(self, weights: FloatArray, memory: int) -> None:
        """``weights`` (contacts, 1) make changes of forces at different contacts comparable."""
        self.weights, self.memory = weights, memory
        self.swept, self.before, self.least, self.may_increase = np.zeros(0), np.inf, np.inf, True
        self.results, self.changes = list[FloatArray](), list[FloatArray]()

    def mixed(self, before: FloatArray, after: FloatArray, error: float) -> FloatArray:
        """The combination, after the sweeps that began at ``before``, of natural map ``error``."""
        if error < self.least:
            self.least, self.may_increase = error, True
        self.swept, self.before = after, error
        self.results = [*self.results, after][-self.memory :]
        change = ((after - before) * self.weights).ravel()
        self.changes = [*self.changes, change][-self.memory :]
        differences = np.array([other - change for other in self.changes[:-1]])
        if not differences.size:
            return after
        gram = differences @ differences.T
        gram.flat[:: len(gram) + 1] += 1e-12 * np.trace(gram) / len(gram)
        shares = np.linalg.lstsq(gram, -differences @ change, rcond=None)[0]
        pairs = zip(shares, self.results, strict=False)  # the last result is ``after``
        return after + sum(share * (result - after) for share, result in pairs)

    def refuses(self, error: float) -> bool:
        """Whether the natural map of the combination is too large; then all is forgotten."""
        before, self.before = self.before, np.inf
        if error <= before:
            return False
        if self.may_increase and error <= _WORSE * before:
            self.may_increase = False
            return False
        self.results.clear()
        self.changes.clear()
        return True


def _arrays(A: sp.csr_array) -> tuple[IntArray, IntArray, FloatArray]:
    return A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data


def _diagonal_blocks(step: ScaledStep, d: int) -> FloatArray:
    """N_ii (contacts, d, d) in scaled units."""
    count = step.p.size // d
    blocks = np.empty((count, d, d))
    for k in range(d):
        for m in range(d):
            left, right = step.rows[k::d], step.spread[m::d]
            blocks[:, k, m] = np.asarray(left.multiply(right).sum(axis=1)).ravel()
    return blocks


@compiled()
def block_gauss_seidel(
    rows: tuple[IntArray, IntArray, FloatArray],
    spread: tuple[IntArray, IntArray, FloatArray],
    p: FloatArray,
    blocks: FloatArray,
    mu: FloatArray,
    order: IntArray,
    coulomb: bool,
    accuracy: float,
    f: FloatArray,
    y: FloatArray,
    trace: FloatArray,
    work: FloatArray,
) -> None:
    """Sweeps over the contacts, one for each entry of ``trace``; −1 marks those left out.

    ``work`` (3, d) is overwritten.
    """
    d = f.shape[1]
    rates, old, new = work[0], work[1], work[2]
    settled = False
    for sweep in range(trace.size):
        if settled:
            trace[sweep] = -1.0
            continue
        largest = 0.0
        for i in order:
            W, first = blocks[i], i * d
            size = 0.0
            for k in range(d):
                for m in range(d):
                    size += W[k, m] * W[k, m]
            if size == 0.0:
                continue
            for k in range(d):
                old[k] = f[i, k]
                rates[k] = p[first + k]
                for at in range(rows[0][first + k], rows[0][first + k + 1]):
                    rates[k] += rows[2][at] * y[rows[1][at]]
            change = solve_contact(W, rates, mu[i], coulomb, 1.0 / np.sqrt(size), f[i], new)
            change *= np.sqrt(size)
            largest = change if change > largest else largest
            for k in range(d):
                difference = f[i, k] - old[k]
                if difference != 0.0:
                    for at in range(spread[0][first + k], spread[0][first + k + 1]):
                        y[spread[1][at]] += spread[2][at] * difference
        trace[sweep] = largest
        settled = largest <= 0.1 * accuracy


@part()
def solve_contact(
    W: FloatArray,
    rates: FloatArray,
    mu: float,
    coulomb: bool,
    rho: float,
    f: FloatArray,
    new: FloatArray,
) -> float:
    """Solve one contact's law from its ``rates`` at forces ``f``; both end at the answer.

    ``new`` (d,) is overwritten. Returns the length of the first change.
    """
    d, first = f.size, -1.0
    for _ in range(_INNER):
        slip = 0.0
        for k in range(1, d):
            slip += rates[k] * rates[k]
        new[0] = f[0] - rho * (rates[0] + (mu * np.sqrt(slip) if coulomb else 0.0))
        size = 0.0
        for k in range(1, d):
            new[k] = f[k] - rho * rates[k]
            size += new[k] * new[k]
        size = np.sqrt(size)
        if mu * size <= -new[0]:
            for k in range(d):
                new[k] = 0.0
        elif size > mu * new[0]:
            edge = (new[0] + mu * size) / (1.0 + mu * mu)
            new[0] = edge
            for k in range(1, d):
                new[k] *= mu * edge / size
        change = 0.0
        for k in range(d):
            change += (new[k] - f[k]) ** 2
        change = np.sqrt(change)
        for k in range(d):
            for m in range(d):
                rates[k] += W[k, m] * (new[m] - f[m])
        for k in range(d):
            f[k] = new[k]
        if first < 0.0:
            first = change
        if change <= _SETTLED * first:
            break
    return first
