"""Extremes of costs over a network of half-lines: linear programs, with certificates.

max cᵀx subject to Bᵀx = F, x ≥ 0 has the dual min Fᵀu subject to B u ≥ c: of a cost that is one
contact's force, a motion that opens it by one and closes none. The pair (x, u) certifies the bound
and is checked here from the data, whatever the solver reports. HiGHS solves the programs in u by
dual simplex, each from the last one's basis, which stays dual feasible because only B u ≥ c
changes. It takes a fifth to a third of the steps of primal simplex on the programs in x, which is
tried next. Small networks with one self-stress state need no program: their forces are a segment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.formatting import against
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.hyperstatic.extremes import Extreme, Extremes
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.problem.scaling import rows_of, times, transposed_times

CERTIFIED = 1e-8  # worst residual of a bound that counts, in units of its network's largest force
_FEASIBLE = 1e-10  # HiGHS's tolerances, the sharpest that it accepts
_ENDLESS = highspy.kHighsInf
_SECONDS = 300.0  # of one linear program
_ZERO = 1e-9  # a force of at most this share of its network's largest is idle
_ALONG = 1e-3  # a ray grows the forces whose entries are above this share of its largest

_SEGMENT = 2_000  # entries of B, zeros included, up to which a segment is looked for
_NOISE = 1e-12  # shares of a self-stress state, and of the largest singular value, that are zero

_DUAL, _PRIMAL = 1, 4  # simplex strategies of HiGHS


class LinearSet:
    """{x ≥ 0, Bᵀx = load} of a ``network``; several threads may search it at once."""

    def __init__(self, network: FreeNetwork) -> None:
        self.network = network
        # programs that no thread uses, each at its last basis
        self._idle: list[_OverMotions | _Segment] = []

    def extremes(self, costs: sp.csr_array, deadline: Deadline, witnesses: bool) -> Extremes:
        """The least and largest value of each cost (k, n); with ``witnesses`` where they are."""
        try:
            motions = self._idle.pop()
        except IndexError:
            motions = _segment(self.network) or _OverMotions(self.network)
        search = _Search(self.network, motions, costs, deadline, witnesses)
        self._idle.append(motions)
        return Extremes(search.least, search.largest, search.rays, search.programs)


class _Search:
    """Extremes of costs over one network {x ≥ 0, Bᵀx = F}.

    A cost without negative entries that is zero in an admissible answer found earlier has the lower
    bound zero; one that grows along a ray found earlier has no bound there. The largest values come
    first: their vertices settle most of the least ones. With ``witnesses`` each program is solved.
    """

    def __init__(
        self,
        network: FreeNetwork,
        motions: _OverMotions | _Segment,
        costs: sp.csr_array,
        deadline: Deadline,
        witnesses: bool,
    ) -> None:
        self.B, self.row, self.load = network.B, rows_of(network.B), network.load
        self.deadline = deadline
        self.costs, self.witnesses = costs, witnesses
        self.rays: list[FloatArray] = []
        self.programs, many = 0, costs.shape[0]
        self._motions = motions
        # residuals of the proofs that the least value is zero, and that there is no end
        self._idle, self._low, self._high = np.full((3, many), np.inf)
        negative = rows_of(costs)[costs.data < 0.0]
        self._positive = np.bincount(negative, minlength=many) == 0
        self._remember(network.force, 0.0)
        self.largest = [self._extreme(k, -1.0) for k in range(many)]
        self.least = [self._extreme(k, 1.0) for k in range(many)]

    def _remember(self, x: FloatArray, residual: float) -> None:
        values = self._values(x)
        idle = self._positive & (values <= _ZERO)
        proof = np.maximum(residual, np.abs(values[idle]))
        self._idle[idle] = np.minimum(self._idle[idle], proof)

    def _remember_ray(self, ray: FloatArray, residual: float) -> None:
        self.rays.append(ray)
        for proofs, sign in ((self._high, 1.0), (self._low, -1.0)):
            share = sign * self._values(ray / ray.max())
            along = share > _ALONG
            proofs[along] = np.minimum(proofs[along], residual / np.minimum(share[along], 1.0))

    def _values(self, x: FloatArray) -> FloatArray:
        """(costs,) the value of each cost at x (n,)."""
        if self.costs.nnz == self.costs.shape[0]:  # of one coordinate each
            return self.costs.data * x[self.costs.indices]
        return np.asarray(self.costs @ x)

    def _row(self, k: int) -> tuple[IntArray, FloatArray]:
        """The entries of a cost."""
        part = slice(self.costs.indptr[k], self.costs.indptr[k + 1])
        return self.costs.indices[part], self.costs.data[part]

    def _extreme(self, k: int, sense: float) -> Extreme:
        """The least (sense 1) or largest (sense −1) value of a cost."""
        endless = float((self._low if sense > 0.0 else self._high)[k])
        if endless <= CERTIFIED:
            return Extreme(-sense * np.inf, endless)
        if sense > 0.0 and self._idle[k] <= CERTIFIED and not self.witnesses:
            return Extreme(0.0, float(self._idle[k]))
        columns, values = self._row(k)
        self.programs += 1
        if columns.size == 1 and sense * values[0] < 0.0:
            column = int(columns[0])
            if self.B.indptr[column] == self.B.indptr[column + 1]:  # nothing opens or closes it
                self._remember_ray(np.eye(1, self.B.shape[0], column)[0], 0.0)
                return Extreme(-sense * np.inf, 0.0)
        best = Extreme(failure=TIME_LIMIT)
        if not self.deadline.passed:
            best = self._judged(k, sense, self._motions.solve(columns, sense * values, self._left))
        if best.residual > CERTIFIED and not self.deadline.passed:
            result = self._judged(k, sense, self._in_forces(columns, sense * values))
            best = best if best.residual < result.residual else result
        if best.residual <= CERTIFIED:
            return best._replace(failure="")
        return best._replace(value=np.nan)

    @property
    def _left(self) -> float:
        """Seconds for the next program."""
        return min(_SECONDS, self.deadline.left)

    @cached_property
    def _highs(self) -> Any:
        """The program in x, by primal simplex."""
        highs = _program(self.B, self.load)
        highs.setOptionValue("simplex_strategy", _PRIMAL)
        highs.setOptionValue("presolve", "off")
        return highs

    def _in_forces(self, columns: IntArray, cost: FloatArray) -> _FromHighs:
        """An answer to the program in x of a cost with these entries, from the last one's basis."""
        highs = self._highs
        for column, value in zip(columns.tolist(), cost.tolist(), strict=True):
            highs.changeColCost(column, value)
        status = _solved(highs, self._left)
        if highs.getModelStatus() == highspy.HighsModelStatus.kUnbounded:
            _, exists, ray = highs.getPrimalRay()
            answer = _FromHighs(status, ray=np.asarray(ray if exists else [], dtype=np.float64))
        else:
            solution = highs.getSolution()
            x, y = np.asarray(solution.col_value), np.asarray(solution.row_dual)
            answer = _FromHighs(status, x, y)
        for column in columns.tolist():
            highs.changeColCost(column, 0.0)
        return answer

    def _judged(self, k: int, sense: float, answer: _FromHighs) -> Extreme:
        """A bound with its residual: feasibility of x and of its dual, and the gap."""
        x, y, status = answer.x, answer.y, answer.status
        if answer.ray is not None:
            return self._ray(k, sense, answer.ray, status)
        if x.shape != (self.B.shape[0],) or y.shape != (self.B.shape[1],):
            return _failed(np.inf, status)
        columns, values = self._row(k)
        reduced = -times(self.B, y, self.row)
        reduced[columns] += sense * values
        value = float(values @ x[columns])
        gap = abs(sense * value - float(self.load @ y)) / max(1.0, abs(value))
        unbalanced = float(
            np.abs(transposed_times(self.B, x, self.row) - self.load).max(initial=0.0)
        )
        worst = max(unbalanced, -float(min(x.min(), reduced.min())), gap)
        worst = worst if np.isfinite(worst) else np.inf
        if worst <= CERTIFIED:
            self._remember(x, worst)
        value = max(value, 0.0) if self._positive[k] else value
        return _failed(worst, status)._replace(
            value=value, load_sensitivity=float(np.abs(y).sum()), at=x if self.witnesses else None
        )

    def _ray(self, k: int, sense: float, ray: FloatArray, status: str) -> Extreme:
        """A direction of forces that load nothing, along which the value grows."""
        if ray.shape != (self.B.shape[0],):
            return _failed(np.inf, status)
        columns, cost = self._row(k)
        growth = -sense * float(cost @ ray[columns])
        if not growth > 0.0:
            return _failed(np.inf, status)
        ray = ray / growth
        unbalanced = float(np.abs(transposed_times(self.B, ray, self.row)).max(initial=0.0))
        worst = max(unbalanced, -float(ray.min())) / max(1.0, float(ray.max()))
        if worst <= CERTIFIED:
            self._remember_ray(ray, worst)
        return _failed(worst, status)._replace(value=-sense * np.inf)


class _FromHighs(NamedTuple):
    """Result of HiGHS: forces x (n,) and multipliers y (m,) of Bᵀx = F, or a ray (n,)."""

    status: str
    x: FloatArray = np.zeros(0)
    y: FloatArray = np.zeros(0)
    ray: FloatArray | None = None


class _OverMotions:
    """The programs min Fᵀu subject to B u ≥ −c, whose multipliers are the forces x of least cᵀx."""

    def __init__(self, network: FreeNetwork) -> None:
        self.B, self.load = network.B, network.load
        self._highs: Any = None

    def _start(self, seconds: float) -> Any:
        """HiGHS at the basis of an admissible answer, which presolve and dual simplex find."""
        (n, m), highs = self.B.shape, _with_options()
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = m, n
        model.col_cost_ = np.asarray(self.load, dtype=np.float64)
        model.col_lower_, model.col_upper_ = np.full(m, -_ENDLESS), np.full(m, _ENDLESS)
        model.row_lower_, model.row_upper_ = np.zeros(n), np.full(n, _ENDLESS)
        _fill(model, self.B, highspy.MatrixFormat.kRowwise)
        highs.passModel(model)
        forces = _program(self.B, self.load)
        forces.setOptionValue("simplex_strategy", _DUAL)
        _solved(forces, seconds)
        basis, kind = forces.getBasis(), highspy.HighsBasisStatus
        if basis.valid:
            there = highspy.HighsBasis()
            there.valid = True
            there.row_status = [_other(s, kind.kLower) for s in basis.col_status]
            there.col_status = [_other(s, kind.kZero) for s in basis.row_status]
            highs.setBasis(there)
        highs.setOptionValue("presolve", "off")
        highs.setOptionValue("simplex_strategy", _DUAL)
        return highs

    def solve(self, columns: IntArray, cost: FloatArray, seconds: float) -> _FromHighs:
        """An answer to the program of a cost with these entries, from the last one's basis."""
        highs = self._highs = self._highs or self._start(seconds)
        for column, value in zip(columns.tolist(), cost.tolist(), strict=True):
            highs.changeRowBounds(column, -value, _ENDLESS)
        status = _solved(highs, seconds)
        if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            _, exists, ray = highs.getDualRay()
            answer = _FromHighs(status, ray=np.asarray(ray if exists else [], dtype=np.float64))
        else:
            solution = highs.getSolution()
            x, y = np.asarray(solution.row_dual), -np.asarray(solution.col_value)
            answer = _FromHighs(status, x, y)
        for column in columns.tolist():
            highs.changeRowBounds(column, 0.0, _ENDLESS)
        return answer


class _Segment(NamedTuple):
    """The same programs where forces are x + t s ≥ 0, with one self-stress state s."""

    start: FloatArray  # x (n,), with the load
    state: FloatArray  # s (n,), of length one
    inverse: FloatArray  # (m, n) generalised inverse of B

    def solve(self, columns: IntArray, cost: FloatArray, seconds: float) -> _FromHighs:
        """The end of the segment where the cost is least: there one force vanishes."""
        c = np.zeros(self.start.size)
        c[columns] = cost
        slope = float(c @ self.state)
        if abs(slope) <= _NOISE * np.abs(c).max():
            return _FromHighs("", self.start, self.inverse @ c)
        way = -np.sign(slope) * self.state
        falls = np.flatnonzero(way < -_NOISE)
        if not falls.size:
            return _FromHighs("", ray=np.maximum(way, 0.0))
        lengths = self.start[falls] / -way[falls]
        first = falls[lengths.argmin()]
        x = np.maximum(self.start + lengths.min() * way, 0.0)
        x[first] = 0.0
        c[first] += abs(slope) / way[first]  # what the bound of this force takes
        return _FromHighs("", x, self.inverse @ c)


def _segment(network: FreeNetwork) -> _Segment | None:
    """The segment of the forces of a small network; None without exactly one self-stress state."""
    n, m = network.B.shape
    if not 0 < n <= m + 1 or n * m > _SEGMENT:
        return None
    U, sizes, V = np.linalg.svd(network.B.toarray())
    rank = np.count_nonzero(sizes > _NOISE * sizes.max(initial=0.0))
    if rank != n - 1:
        return None
    state, inverse = U[:, rank], (V[:rank].T / sizes[:rank]) @ U[:, :rank].T
    start = inverse.T @ network.load + float(state @ network.force) * state
    return _Segment(start, state, inverse)


def _other(status: Any, nonbasic: Any) -> Any:
    """In the dual program: basic, of what is not, and ``nonbasic`` of what is."""
    basic = highspy.HighsBasisStatus.kBasic
    return nonbasic if status == basic else basic


def _solved(highs: Any, seconds: float) -> str:
    """Run HiGHS for at most this time; its status."""
    highs.setOptionValue("time_limit", highs.getRunTime() + seconds)  # its clock runs on
    highs.run()
    return str(highs.modelStatusToString(highs.getModelStatus()))


def _failed(residual: float, status: str) -> Extreme:
    """A bound with this residual; its failure is the status of HiGHS."""
    shown = against(residual, CERTIFIED, 1)
    why = f"HiGHS: {status}; certificate {shown}, above {CERTIFIED:g}"
    return Extreme(residual=residual, failure=why)


def _program(B: sp.csr_array, load: FloatArray) -> Any:
    """HiGHS with the rows Bᵀf = F, f ≥ 0: the rows of B are the columns of Bᵀ."""
    n, m = B.shape
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n, m
    model.col_cost_ = np.zeros(n)
    model.col_lower_, model.col_upper_ = np.zeros(n), np.full(n, _ENDLESS)
    model.row_lower_ = model.row_upper_ = np.asarray(load, dtype=np.float64)
    _fill(model, B, highspy.MatrixFormat.kColwise)
    highs = _with_options()
    highs.passModel(model)
    return highs


def _fill(model: Any, B: sp.csr_array, layout: Any) -> None:
    """The matrix of a model: B by rows, or Bᵀ by columns."""
    model.a_matrix_.format_ = layout
    model.a_matrix_.start_, model.a_matrix_.index_ = B.indptr, B.indices
    model.a_matrix_.value_ = B.data


def _with_options() -> Any:
    """HiGHS without output, in one thread, at its sharpest."""
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {"output_flag": False, "small_matrix_value": 1e-12, "threads": 1}
    options |= dict.fromkeys(
        ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), _FEASIBLE
    )
    for name, value in options.items():
        highs.setOptionValue(name, value)
    return highs
