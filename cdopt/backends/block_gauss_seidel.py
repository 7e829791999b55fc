"""Gauss–Seidel on contacts with friction, contact after contact: "NSGS" of contact dynamics.

The d forces of a contact become those that solve its law while all others stay as they are. That it
opens or sticks, and in the plane that it slides, is a small linear system. Else the problem of one
contact is solved by projection,

    f_i ← P_K(f_i − ρ g̃_i),    ρ = 1 / ‖N_ii‖,

repeated until it settles. Nothing guarantees that the sweeps converge. After every ten of them
Anderson's acceleration combines the last results: most problems of the bank take a fraction of the
sweeps, hardly any takes more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt._util.errors import InvalidInput
from cdopt.backends.gauss_seidel import PGS, Sweeps
from cdopt.backends.native import Run, listed, promising
from cdopt.backends.network_problem import STEEP, NetworkProblem
from cdopt.problem.cone_rules import FREE, Rules, project_rows, shift_of_rows
from cdopt.problem.cones import RULED

_AGAIN = 10  # sweeps between two fresh sums of what the forces do, and two combinations
_SINGULAR = 1e-10  # determinant of N_ii over its size cubed, from which it counts as singular
_INNER = 200  # projections of one contact's problem at most
_SETTLED = 1e-3  # it ends when a projection changes by this share of the first one
_WORSE = 2.0  # times the natural map before: combinations beyond it are refused


@listed
@dataclass(frozen=True)
class NSGS(PGS):
    """Settings of block Gauss–Seidel for steps with friction, of both laws.

    Parameters
    ----------
    order : "given", "reversed", "shuffled" (with ``seed``), or a permutation of the contacts.
    memory : number of previous results that Anderson acceleration combines, one every ten sweeps; 0
        is plain Gauss–Seidel.
    further : additional sweeps as long as convergence to ``accuracy`` is likely.
    seed, max_sweeps, history : as in ``PGS``; ``relaxation`` must be one.
    accuracy : the run is solved when the natural map of every contact, over the closing speed of
        its part, is at most this; and, down to 1e-10, when the certificate is.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "nsgs"
    cones: ClassVar[frozenset[str]] = frozenset({RULED})
    kinds: ClassVar[frozenset[str]] = frozenset({"frictional step", "soft step"})
    _orders: ClassVar[tuple[str, ...]] = ("given", "reversed", "shuffled")

    memory: int = 15
    further: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(further=checks.whole("further", self.further, 0))
        self._set(memory=checks.whole("memory", self.memory, 0, 1000))
        if self.relaxation != 1.0:
            raise InvalidInput("relaxation", repr(self.relaxation), "1: blocks are not relaxed")

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        order = np.asarray(self._visits(problem.nc), dtype=np.int64)
        sweeps = BlockSweeps(self, problem, order, problem.acting_start(run.start))
        dofs = max(problem.factors.spread.shape[1], self.memory)  # entries of products by BLAS
        with run.iterating(problem.rows, dofs):
            unmet, count, residuals = self._swept(sweeps, run)
        return run.ended(problem.caused(sweeps.f), not unmet, count, residuals, status=unmet)


class BlockSweeps(Sweeps):
    """Contacts with d rows, visited in an ``order``."""

    batch, traced = _AGAIN, False

    def __init__(
        self, settings: NSGS, problem: NetworkProblem, order: IntArray, f: FloatArray
    ) -> None:
        self.problem, self.order, self.f, self.memory = problem, order, f, settings.memory
        if settings.name not in problem.cache:
            problem.cache[settings.name] = Blocks.of(problem)
        blocks: Blocks = problem.cache[settings.name]
        p = np.zeros(blocks.p.shape)
        p[:, : problem.d] = problem.table(problem.p)
        self.blocks = blocks._replace(p=p)
        self.entries, self.y, self.error = int(problem.factors.rows.nnz), np.zeros(0), np.inf
        weights = np.sqrt(np.repeat(problem.weight[:, None], problem.d, axis=1))
        self.mixing = AndersonAcceleration(weights, settings.memory)
        self.laws = (problem.coulomb, problem.d == 2, settings.accuracy)
        self.sure, self.least = settings.max_sweeps, list[float]()
        self.most = self.sure + settings.further
        self.before, self.wide = f, np.zeros(self.blocks.p.shape)

    def renewed(self) -> float:
        """The natural map; a combination that increases it is undone."""
        error = self._natural()
        if self.mixing.refuses(error):
            self.f = self.mixing.swept
            error = self._natural()
        self.before, self.error = self.f, error
        self.least.append(min([error, *self.least[1:][-1:]]))
        self.wide[:, : self.problem.d] = self.f
        return error

    def left(self, count: int) -> int:
        """Further ones only as long as the errors so far promise the accuracy."""
        sure = count < self.sure or promising(self.least[1:], self.laws[2], self.most // _AGAIN)
        return super().left(count) if sure else 0

    def _natural(self) -> float:
        self.y = self.problem.effect(self.f)
        return self.problem.natural_map(self.f, self.problem.rates_of(self.y))

    def sweep(self, trace: FloatArray) -> tuple[int, bool]:
        """They end when forces hardly change."""
        blocks, state = self.blocks, (self.wide, self.y, trace)
        if self.problem.rules[0].size:
            rules = self.problem.rules_of_answers
            room = np.zeros((5, self.problem.d))
            swept = ruled_gauss_seidel(blocks, self.order, rules, self.laws, room, *state)
        else:
            swept = block_gauss_seidel(blocks, self.order, self.problem.mu, self.laws, *state)
        return int(swept), bool(swept < trace.size)

    def combine(self, done: int) -> None:
        """After a whole batch the results are combined by Anderson's acceleration."""
        self.f = self.wide[:, : self.problem.d].copy()
        if done == _AGAIN and self.memory:
            mixed = self.mixing.mixed(self.before, self.f, self.error)
            self.f = self.problem.project(mixed)


Grouped = tuple[IntArray, IntArray, FloatArray]  # entries by contact: first, column, (entries, m)
Three = tuple[float, float, float]  # in the plane the last one is zero


Law = tuple[float, bool, bool]  # μ, whether the law is Coulomb's, whether in the plane


class Blocks(NamedTuple):
    """A scaled step contact by contact, with m rows each.

    Of friction cones m is three: in the plane the last row is zero.
    """

    # rows, spread: R and S of the step, their entries (entries, m) grouped by contact and column
    rows: Grouped
    spread: Grouped
    p: FloatArray  # (contacts, m)
    matrix: FloatArray  # (contacts, m, m) N_ii
    inverse: FloatArray  # of it, not-a-number without one

    @classmethod
    def of(cls, problem: NetworkProblem) -> Blocks:
        """The blocks of N = R Sᵀ, with zeros for p."""
        R, S, d, count = problem.factors.rows, problem.factors.spread, problem.d, problem.nc
        m = d if problem.rules[0].size else 3
        rows = _grouped(R, d, m)
        spread = rows if S is R else _grouped(S, d, m)
        p, matrix = np.zeros((count, m)), np.zeros((count, m, m))
        if S is R:
            first, _, values = rows
            for k in range(d):
                for j in range(k + 1):
                    shared = _sums(values[:, k] * values[:, j], first)
                    matrix[:, k, j] = matrix[:, j, k] = shared
        else:
            for k in range(d):
                for j in range(d):
                    left, right = R[k::d], S[j::d]
                    matrix[:, k, j] = np.asarray(left.multiply(right).sum(axis=1)).ravel()
        mobility = np.trace(matrix, axis1=1, axis2=2) / d
        full, missing = matrix.copy(), np.ones((count, m), dtype=bool)
        missing[:, :d] = False if problem.filled is None else problem.filled.empty.reshape(count, d)
        mobility = np.where(mobility > 0.0, mobility, 1.0)
        contact, row = np.nonzero(missing)
        full[contact, row, row] = mobility[contact]
        size = np.linalg.norm(full, axis=(1, 2))
        regular = np.abs(np.linalg.det(full)) > _SINGULAR * size**m
        inverse = np.full_like(full, np.nan)
        inverse[regular] = np.linalg.inv(full[regular])
        return cls(rows, spread, p, matrix, inverse)


def _sums(values: FloatArray, first: IntArray) -> FloatArray:
    """(contacts,) sums of the ``values`` of entries, in the order of sparse matrices: no zeros."""
    used, result = values != 0.0, np.zeros(first.size - 1)
    begins = np.concatenate([[0], np.cumsum(used)])[first]
    some = np.flatnonzero(np.diff(begins))
    if some.size:
        result[some] = np.add.reduceat(values[used], begins[some])
    return result


def _grouped(A: sp.csr_array, d: int, m: int) -> Grouped:
    """The entries of A, d rows a contact, by contact and column, filled up to m."""
    blocks = sp.csr_array(A).tobsr(blocksize=(d, 1))
    blocks.sort_indices()
    values = np.zeros((blocks.data.shape[0], m))
    values[:, :d] = blocks.data[:, :, 0]
    return blocks.indptr.astype(np.int64), blocks.indices.astype(np.int64), values


@part()
def _times(W: FloatArray, f: Three) -> Three:
    """W f."""
    return (
        W[0, 0] * f[0] + W[0, 1] * f[1] + W[0, 2] * f[2],
        W[1, 0] * f[0] + W[1, 1] * f[1] + W[1, 2] * f[2],
        W[2, 0] * f[0] + W[2, 1] * f[1] + W[2, 2] * f[2],
    )


@compiled()
def block_gauss_seidel(
    blocks: Blocks,
    order: IntArray,
    mu: FloatArray,
    laws: tuple[bool, bool, float],
    f: FloatArray,
    y: FloatArray,
    trace: FloatArray,
) -> int:
    """Sweeps, one for each entry of ``trace``, until forces hardly change; their number."""
    first, column, R = blocks.rows
    other_first, other_column, S = blocks.spread
    coulomb, planar, accuracy = laws
    p, matrix, inverse = blocks.p, blocks.matrix, blocks.inverse
    for sweep in range(trace.size):
        largest = 0.0
        for i in order:
            size = 0.0
            for k in range(3):
                for m in range(3):
                    size += matrix[i, k, m] ** 2
            if size == 0.0:
                continue
            r0, r1, r2 = p[i, 0], p[i, 1], p[i, 2]
            for at in range(first[i], first[i + 1]):
                speed = y[column[at]]
                r0 += R[at, 0] * speed
                r1 += R[at, 1] * speed
                r2 += R[at, 2] * speed
            f0, f1, f2 = f[i, 0], f[i, 1], f[i, 2]
            law, rho = (mu[i], coulomb, planar), 1.0 / np.sqrt(size)
            new = solve_contact(matrix[i], inverse[i], (r0, r1, r2), (f0, f1, f2), law, rho)
            f[i, 0], f[i, 1], f[i, 2] = new
            n0, n1, n2 = new[0] - f0, new[1] - f1, new[2] - f2
            change = (n0 * n0 + n1 * n1 + n2 * n2) * size
            if change == 0.0:
                continue
            largest = change if change > largest else largest
            for at in range(other_first[i], other_first[i + 1]):
                y[other_column[at]] += S[at, 0] * n0 + S[at, 1] * n1 + S[at, 2] * n2
        largest = np.sqrt(largest)
        trace[sweep] = largest
        if largest <= 0.1 * accuracy:
            return sweep + 1
    return int(trace.size)


@part()
def solve_contact(
    W: FloatArray, inverse: FloatArray, r: Three, f: Three, law: Law, rho: float
) -> Three:
    """The forces that solve one contact's law, from its rates r at f; of several the nearest."""
    mu, coulomb, planar = law
    if coulomb and W[0, 0] <= mu * np.sqrt(W[0, 1] ** 2 + W[0, 2] ** 2):
        return _projected(W, r, f, mu, coulomb, rho)
    own = _times(W, f)
    q0, q1, q2 = r[0] - own[0], r[1] - own[1], r[2] - own[2]  # rates without forces
    if q0 >= (0.0 if coulomb else mu * np.sqrt(q1 * q1 + q2 * q2)):
        return 0.0, 0.0, 0.0
    n0, n1, n2 = _times(inverse, (-q0, -q1, -q2))
    if n1 * n1 + n2 * n2 <= (mu * n0) ** 2 and n0 >= 0.0:
        return n0, n1, n2
    if planar:
        for slope in (mu, -mu):
            up = W[0, 0] + slope * W[0, 1]  # rates of a normal force of one that slides
            along = W[1, 0] + slope * W[1, 1]
            drive = q0
            if not coulomb:
                up, drive = up + slope * along, q0 + slope * q1
            n0 = -drive / up
            if up > 0.0 and n0 >= 0.0 and slope * (q1 + along * n0) <= 0.0:
                return n0, slope * n0, 0.0
    return _projected(W, r, f, mu, coulomb, rho)


@part()
def _projected(W: FloatArray, r: Three, f: Three, mu: float, coulomb: bool, rho: float) -> Three:
    """The same by projections, which need not end at an answer; for large μ without the shift."""
    first, cut = -1.0, coulomb and mu > STEEP
    for _ in range(_INNER):
        slip = mu * np.sqrt(r[1] * r[1] + r[2] * r[2]) if coulomb and not cut else 0.0
        n0, n1, n2 = f[0] - rho * (r[0] + slip), f[1] - rho * r[1], f[2] - rho * r[2]
        size = np.sqrt(n1 * n1 + n2 * n2)
        if (n0 <= 0.0) if cut else (mu * size <= -n0):
            n0, n1, n2 = 0.0, 0.0, 0.0
        elif size > mu * n0 and cut:
            n1, n2 = n1 * mu * n0 / size, n2 * mu * n0 / size
        elif size > mu * n0:
            n0 = (n0 + mu * size) / (1.0 + mu * mu)
            n1, n2 = n1 * mu * n0 / size, n2 * mu * n0 / size
        c0, c1, c2 = n0 - f[0], n1 - f[1], n2 - f[2]
        more = _times(W, (c0, c1, c2))
        r, f = (r[0] + more[0], r[1] + more[1], r[2] + more[2]), (n0, n1, n2)
        change = np.sqrt(c0 * c0 + c1 * c1 + c2 * c2)
        if first < 0.0:
            first = change
        if change <= _SETTLED * first:
            break
    return f


# --- acceleration ------------------------------------------------------------------------


class AndersonAcceleration:
    """Anderson's acceleration, of the map from forces to those some sweeps later.

    D. G. Anderson, J. ACM 12 (1965). The next forces are the combination of the last results of
    the map whose changes cancel best. It is refused where it increases the natural map: more than
    twofold, or a second time before the sweeps have reached a new least one. ``swept`` are the
    forces before the last combination.
    """

    def __init__(self, weights: FloatArray, memory: int) -> None:
        """``weights`` (contacts, d) make changes of forces at different contacts comparable."""
        self.weights, self.memory = weights, memory
        self.swept, self.before, self.least, self.may_increase = np.zeros(0), np.inf, np.inf, True
        self.results, self.changes = np.zeros((2, memory, weights.size))
        self.count = 0  # of the results

    def mixed(self, before: FloatArray, after: FloatArray, error: float) -> FloatArray:
        """The combination, after the sweeps that began at ``before``, of natural map ``error``."""
        if error < self.least:
            self.least, self.may_increase = error, True
        self.swept, self.before = after, error
        last = self.count % self.memory
        self.count += 1
        size = min(self.count, self.memory)
        self.results[last] = after.ravel()
        self.changes[last] = ((after - before) * self.weights).ravel()
        if size == 1:
            return after
        others = np.delete(np.arange(size), last)
        differences = self.changes[others] - self.changes[last]
        gram = differences @ differences.T
        gram.flat[::size] += 1e-12 * np.trace(gram) / (size - 1)
        shares = np.zeros(size)
        shares[others] = np.linalg.lstsq(gram, -differences @ self.changes[last], rcond=None)[0]
        shares[last] = 1.0 - shares.sum()
        return np.asarray(shares @ self.results[:size]).reshape(after.shape)

    def refuses(self, error: float) -> bool:
        """Whether the natural map of the combination is too large; then the memory is cleared."""
        before, self.before = self.before, np.inf
        if error <= before:
            return False
        if self.may_increase and error <= _WORSE * before:
            self.may_increase = False
            return False
        self.count = 0
        return True


# --- blocks with cones by rules ----------------------------------------------------------


@compiled()
def ruled_gauss_seidel(
    blocks: Blocks,
    order: IntArray,
    cones: tuple[Rules, FloatArray],
    laws: tuple[bool, bool, float],
    room: FloatArray,
    f: FloatArray,
    y: FloatArray,
    trace: FloatArray,
) -> int:
    """``block_gauss_seidel`` for ``cones`` by rules and coefficients; ``room`` is (5, d)."""
    first, column, R = blocks.rows
    other_first, other_column, S = blocks.spread
    (rules, coefficients), (coulomb, _, accuracy) = cones, laws
    p, matrix, inverse = blocks.p, blocks.matrix, blocks.inverse
    d, r, new = p.shape[1], room[0], room[1]
    for sweep in range(trace.size):
        largest = 0.0
        for i in order:
            size = 0.0
            for k in range(d):
                for m in range(d):
                    size += matrix[i, k, m] ** 2
            if size == 0.0:
                continue
            for k in range(d):
                r[k] = p[i, k]
            for at in range(first[i], first[i + 1]):
                for k in range(d):
                    r[k] += R[at, k] * y[column[at]]
            law = rules[i], coefficients[i], coulomb
            _solve_rows(matrix[i], inverse[i], f[i], law, 1.0 / np.sqrt(size), room)
            change = 0.0
            for k in range(d):
                r[k] = new[k] - f[i, k]
                f[i, k] = new[k]
                change += r[k] * r[k] * size
            if change == 0.0:
                continue
            largest = change if change > largest else largest
            for at in range(other_first[i], other_first[i + 1]):
                for k in range(d):
                    y[other_column[at]] += S[at, k] * r[k]
        largest = np.sqrt(largest)
        trace[sweep] = largest
        if largest <= 0.1 * accuracy:
            return sweep + 1
    return int(trace.size)


@part()
def _solve_rows(
    W: FloatArray, inverse: FloatArray, f: FloatArray, law: Any, rho: float, room: FloatArray
) -> None:
    """room[1]: the forces that solve one contact's law, from its rates room[0] at forces f."""
    rule, mu, coulomb = law
    r, new, q, tried, before = room[0], room[1], room[2], room[3], room[4]
    d = f.size
    if not (coulomb and rule[0] != FREE and W[0, 0] <= shift_of_rows(W[0], rule, mu)):
        for k in range(d):  # rates without forces
            q[k] = r[k]
            for m in range(d):
                q[k] -= W[k, m] * f[m]
        if rule[0] != FREE and q[0] >= (0.0 if coulomb else shift_of_rows(q, rule, mu)):
            for k in range(d):
                new[k] = 0.0
            return
        for k in range(d):
            new[k] = 0.0
            for m in range(d):
                new[k] -= inverse[k, m] * q[m]
            tried[k] = new[k]
        project_rows(tried, rule, mu)
        inside = True
        for k in range(d):
            inside = inside and tried[k] == new[k]
        if inside:
            return
    first = -1.0
    for k in range(d):
        new[k] = f[k]
    for _ in range(_INNER):
        for k in range(d):
            before[k] = new[k]
            new[k] -= rho * r[k]
        if coulomb and rule[0] != FREE:
            new[0] -= rho * shift_of_rows(r, rule, mu)
        project_rows(new, rule, mu)
        change = 0.0
        for m in range(d):
            step = new[m] - before[m]
            change += step * step
            for k in range(d):
                r[k] += W[k, m] * step
        change = np.sqrt(change)
        if first < 0.0:
            first = change
        if change <= _SETTLED * first:
            break
