"""Studies: several solvers on one problem, their answers side by side."""

from cdopt.study.compare import Comparison, compare
from cdopt.study.solutions import Row, SolutionSet, attempt, choose_backends

__all__ = ["Comparison", "Row", "SolutionSet", "attempt", "choose_backends", "compare"]
