"""Studies: several solvers on one problem, side by side; or many problems, each run on its own.

cdopt.study.compare(step, ["clarabel", "newton"])           one table, in this process
cdopt.study.conduct(cdopt.study.plans("quick")[0], "study") each run in a process of its own
cdopt.study.read("study")                                   the records of a study
"""

from cdopt._util.arguments import guard
from cdopt.study.bridge import bridge
from cdopt.study.compare import Comparison, compare
from cdopt.study.named_problem import NamedProblem, open_problem
from cdopt.study.plans import plans
from cdopt.study.runs import Plan, Problem, Record, Run, Study, conduct, problems, read
from cdopt.study.solutions import Row, SolutionSet, attempt, choose_backends

__all__ = [
    "Comparison",
    "NamedProblem",
    "Plan",
    "Problem",
    "Record",
    "Row",
    "Run",
    "SolutionSet",
    "Study",
    "attempt",
    "bridge",
    "choose_backends",
    "compare",
    "conduct",
    "open_problem",
    "plans",
    "problems",
    "read",
]

guard(globals())
