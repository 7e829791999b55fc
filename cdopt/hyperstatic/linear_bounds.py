"""Extremes of costs over a network of half-lines: linear programs, with certificates.

max cᵀx subject to Bᵀx = F, x ≥ 0 has the dual min Fᵀu subject to B u ≥ c: of a cost that is one
contact's force, a motion that opens it by one and closes none. The pair (x, u) certifies the bound
and is checked here from the data, whatever the solver reports. HiGHS solves the programs by primal
simplex, each from the last one's vertex, which stays feasible because only the objective changes.
"""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.formatting import against
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.hyperstatic.extremes import Extreme, Extremes
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.problem.scaling import rows_of

CERTIFIED = 1e-8  # worst residual of a bound that counts, in units of its network's largest force
_FEASIBLE = 1e-10  # HiGHS's own tolerances, the sharpest it takes
_SECONDS = 300.0  # of one linear program
_ZERO = 1e-9  # a force of at most this share of its network's largest is idle
_ALONG = 1e-3  # a ray grows the forces whose entries are above this share of its largest

# Tried until a bound is certified: strategy (4 primal, 1 dual), solver and presolve of HiGHS, and
# whether to start from nothing.
_ATTEMPTS = (
    (4, "simplex", "off", False),
    (4, "simplex", "off", True),
    (1, "simplex", "on", True),
    (1, "simplex", "off", True),
    (1, "ipm", "off", True),
)


def extremes(
    network: FreeNetwork, costs: sp.csr_array, deadline: Deadline, witnesses: bool
) -> Extremes:
    """The least and largest value of each cost (k, n); with ``witnesses`` where they are."""
    search = _Search(network, costs, deadline, witnesses)
    return Extremes(search.least, search.largest, search.rays, search.programs)


class _Search:
    """Extremes of costs over one network {x ≥ 0, Bᵀx = F}.

    A cost without negative entries that is zero in an admissible answer found earlier has the lower
    bound zero; one that grows along a ray found earlier has no bound there. The largest values come
    first: their vertices settle most of the least ones. With ``witnesses`` each program is solved.
    """

    def __init__(
        self, network: FreeNetwork, costs: sp.csr_array, deadline: Deadline, witnesses: bool
    ) -> None:
        self.B, self.load, self.deadline = network.B, network.load, deadline
        self.costs, self.witnesses = costs, witnesses
        self.rays: list[FloatArray] = []
        self.programs, many = 0, costs.shape[0]
        self._highs = _program(network.B, network.load)
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
        """Of the costs, at x (n,)."""
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
        self._change(columns, sense * values)
        for attempt in _ATTEMPTS:
            if best.residual <= CERTIFIED or self.deadline.passed:
                break
            result = self._run(k, sense, *attempt)
            best = best if best.residual < result.residual else result
        self._change(columns, 0.0 * values)
        if best.residual <= CERTIFIED:
            return best._replace(failure="")
        return best._replace(value=np.nan)

    def _change(self, columns: IntArray, values: FloatArray) -> None:
        for column, value in zip(columns.tolist(), values.tolist(), strict=True):
            self._highs.changeColCost(column, value)

    def _run(
        self, k: int, sense: float, strategy: int, solver: str, presolve: str, afresh: bool
    ) -> Extreme:
        """A bound with its residual: feasibility of x and of its dual, and the gap."""
        highs = self._highs
        highs.setOptionValue("simplex_strategy", strategy)
        highs.setOptionValue("solver", solver)
        highs.setOptionValue("presolve", presolve)
        if afresh:
            highs.clearSolver()
        seconds = min(_SECONDS, self.deadline.left)
        highs.setOptionValue("time_limit", highs.getRunTime() + seconds)  # its clock runs on
        highs.run()
        status = str(highs.modelStatusToString(highs.getModelStatus()))
        if highs.getModelStatus() == highspy.HighsModelStatus.kUnbounded:
            return self._ray(k, sense, status)
        solution = highs.getSolution()
        x, y = np.asarray(solution.col_value), np.asarray(solution.row_dual)
        if x.shape != (self.B.shape[0],) or y.shape != (self.B.shape[1],):
            return _failed(np.inf, status)
        columns, values = self._row(k)
        reduced = -(self.B @ y)
        reduced[columns] += sense * values
        value = float(values @ x[columns])
        gap = abs(sense * value - float(self.load @ y)) / max(1.0, abs(value))
        unbalanced = float(np.abs(self.B.T @ x - self.load).max(initial=0.0))
        worst = max(unbalanced, -float(min(x.min(), reduced.min())), gap)
        worst = worst if np.isfinite(worst) else np.inf
        if worst <= CERTIFIED:
            self._remember(x, worst)
        value = max(value, 0.0) if self._positive[k] else value
        return _failed(worst, status)._replace(
            value=value, pull=float(np.abs(y).sum()), at=x if self.witnesses else None
        )

    def _ray(self, k: int, sense: float, status: str) -> Extreme:
        """A direction of forces that load nothing, along which the value grows."""
        _, exists, values = self._highs.getPrimalRay()
        ray = np.asarray(values, dtype=np.float64)
        if not exists or ray.shape != (self.B.shape[0],):
            return _failed(np.inf, status)
        columns, cost = self._row(k)
        growth = -sense * float(cost @ ray[columns])
        if not growth > 0.0:
            return _failed(np.inf, status)
        ray = ray / growth
        unbalanced = float(np.abs(self.B.T @ ray).max(initial=0.0))
        worst = max(unbalanced, -float(ray.min())) / max(1.0, float(ray.max()))
        if worst <= CERTIFIED:
            self._remember_ray(ray, worst)
        return _failed(worst, status)._replace(value=-sense * np.inf)


def _failed(residual: float, status: str) -> Extreme:
    """A bound with this residual, whose failure repeats what HiGHS said."""
    shown = against(residual, CERTIFIED, 1)
    why = f"HiGHS: {status}; certificate {shown}, above {CERTIFIED:g}"
    return Extreme(residual=residual, failure=why)


def _program(B: sp.csr_array, load: FloatArray) -> Any:
    """HiGHS with the rows Bᵀf = F, f ≥ 0: the rows of B are the columns of Bᵀ."""
    n, m = B.shape
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n, m
    model.col_cost_ = np.zeros(n)
    model.col_lower_, model.col_upper_ = np.zeros(n), np.full(n, highspy.kHighsInf)
    model.row_lower_ = model.row_upper_ = np.asarray(load, dtype=np.float64)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = B.indptr, B.indices
    model.a_matrix_.value_ = B.data
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {"output_flag": False, "small_matrix_value": 1e-12, "threads": 1}
    options |= dict.fromkeys(
        ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), _FEASIBLE
    )
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(model)
    return highs
