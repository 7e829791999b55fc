"""Least and largest values of single forces over admissible ones, each with its certificate.

max f_i subject to Bᵀf = F, f ≥ 0 has the dual min Fᵀu subject to B u ≥ e_i: a motion that opens
contact i by one and closes none. The pair (f, u) certifies the bound, and is checked here from
the data, whatever the solver says. HiGHS solves them by primal simplex, each from the last one's
vertex, which stays feasible as only the objective changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline

CERTIFIED = 1e-8  # worst residual of a bound that counts, in units of its network's largest force
_FEASIBLE = 1e-10  # HiGHS's own tolerances, the sharpest it takes
_SECONDS = 300.0  # of one linear program

# What is tried, in turn, until a bound is certified: HiGHS options, and whether to start afresh.
_WAYS: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"simplex_strategy": 4, "solver": "simplex", "presolve": "off"}, False),
    ({"simplex_strategy": 4, "solver": "simplex", "presolve": "off"}, True),
    ({"simplex_strategy": 1, "solver": "simplex", "presolve": "on"}, True),
    ({"simplex_strategy": 1, "solver": "simplex", "presolve": "off"}, True),
    ({"simplex_strategy": 1, "solver": "ipm", "presolve": "off"}, True),
)


@dataclass(frozen=True, eq=False)
class Extreme:
    """One bound.

    Attributes
    ----------
    value : the least or largest force, infinite when unbounded.
    residual : the worst of f's and u's infeasibility and their gap, or of the ray's.
    forces : f (n,) that attains it; when unbounded, the ray f ≥ 0, Bᵀf = 0, its entry one.
    words : HiGHS's own, of the run that the bound is from.
    pull : Σ|u|: how far the bound moves, at most, with one unit of load on every dof.
    """

    value: float
    residual: float
    forces: FloatArray
    words: str
    pull: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the bound is certified."""
        return self.residual <= CERTIFIED


class ForceRange:
    """The linear programs of one set {f ≥ 0, Bᵀf = F}, its forces of order one.

    Parameters
    ----------
    B : (n, m), entries of order one. load : F (m,).
    deadline : when the last linear program must end.
    """

    def __init__(self, B: sp.csr_array, load: FloatArray, deadline: Deadline = NEVER) -> None:
        self.B, self.load, self.deadline = B, load, deadline
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in (
            ("output_flag", False),
            ("small_matrix_value", 1e-12),
            ("threads", 1),
            ("primal_feasibility_tolerance", _FEASIBLE),
            ("dual_feasibility_tolerance", _FEASIBLE),
        ):
            self._highs.setOptionValue(name, value)
        self._highs.passModel(_model(B, load))
        self._priced: int | None = None

    def least(self, column: int) -> Extreme:
        """The least force of a contact."""
        return self._extreme(column, 1.0)

    def largest(self, column: int) -> Extreme:
        """The largest force of a contact."""
        if self.B.indptr[column] == self.B.indptr[column + 1]:  # it acts on nothing
            alone = np.zeros(self.B.shape[0])
            alone[column] = 1.0
            return Extreme(np.inf, 0.0, alone, "no motion opens or closes it")
        return self._extreme(column, -1.0)

    def _extreme(self, column: int, sense: float) -> Extreme:
        if self.deadline.passed:
            return Extreme(np.nan, np.inf, np.zeros(self.B.shape[0]), TIME_LIMIT)
        self._price(column, sense)
        best: Extreme | None = None
        for options, afresh in _WAYS:
            found = self._run(column, sense, options, afresh)
            if best is None or not found.residual >= best.residual:
                best = found
            if best.ok or self.deadline.passed:
                break
        return best if best is not None else Extreme(np.nan, np.inf, np.zeros(0), "")

    def _price(self, column: int, sense: float) -> None:
        if self._priced is not None:
            self._highs.changeColCost(self._priced, 0.0)
        self._highs.changeColCost(column, sense)
        self._priced = column

    def _run(self, column: int, sense: float, options: dict[str, Any], afresh: bool) -> Extreme:
        highs = self._highs
        for name, value in options.items():
            highs.setOptionValue(name, value)
        if afresh:
            highs.clearSolver()
        seconds = min(_SECONDS, self.deadline.left)
        highs.setOptionValue("time_limit", highs.getRunTime() + seconds)  # its clock runs on
        highs.run()
        status = highs.getModelStatus()
        words = str(highs.modelStatusToString(status))
        if status == highspy.HighsModelStatus.kUnbounded and sense < 0.0:
            return self._ray(column, words)
        solution = highs.getSolution()
        f, y = np.asarray(solution.col_value), np.asarray(solution.row_dual)
        if f.shape != (self.B.shape[0],) or y.shape != (self.B.shape[1],):
            return Extreme(np.nan, np.inf, np.zeros(self.B.shape[0]), words)
        return self._certified(column, sense, f, y, words)

    def _certified(
        self, column: int, sense: float, f: FloatArray, y: FloatArray, words: str
    ) -> Extreme:
        """A bound with its residual: feasibility of f and of its dual, and the gap."""
        reduced = -(self.B @ y)
        reduced[column] += sense
        value = float(f[column])
        gap = abs(sense * value - float(self.load @ y)) / max(1.0, abs(value))
        tension = -float(f.min(initial=0.0))
        closing = -float(reduced.min(initial=0.0))
        worst = max(self._unbalanced(f, self.load), tension, closing, gap)
        worst = worst if np.isfinite(worst) else np.inf
        return Extreme(max(value, 0.0), worst, f, words, float(np.abs(y).sum()))

    def _ray(self, column: int, words: str) -> Extreme:
        """A direction of forces that load nothing, along which the contact's force grows."""
        _, found, values = self._highs.getPrimalRay()
        ray = np.asarray(values, dtype=np.float64)
        if not found or ray.shape != (self.B.shape[0],) or not ray[column] > 0.0:
            return Extreme(np.inf, np.inf, np.zeros(self.B.shape[0]), words)
        ray = ray / ray[column]
        tension = -float(ray.min(initial=0.0))
        worst = max(self._unbalanced(ray, np.zeros_like(self.load)), tension)
        return Extreme(np.inf, worst / max(1.0, float(ray.max())), ray, words)

    def _unbalanced(self, f: FloatArray, load: FloatArray) -> float:
        return float(np.abs(self.B.T @ f - load).max(initial=0.0))


def _model(B: sp.csr_array, load: FloatArray) -> highspy.HighsLp:
    """Bᵀf = F, f ≥ 0 in HiGHS's words: the rows of B are the columns of Bᵀ."""
    n, m = B.shape
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n, m
    model.col_cost_ = np.zeros(n)
    model.col_lower_, model.col_upper_ = np.zeros(n), np.full(n, highspy.kHighsInf)
    model.row_lower_ = model.row_upper_ = np.asarray(load, dtype=np.float64)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = B.indptr
    model.a_matrix_.index_ = B.indices
    model.a_matrix_.value_ = B.data
    return model
