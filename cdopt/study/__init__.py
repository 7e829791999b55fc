"""Studies: one problem by several solvers, or many problems with a separate process for each run.

::

    cdopt.study.compare(step, ["clarabel", "newton"])   # one table, in this process

    plan = cdopt.study.Plan(["beam-uniform", "pyramid-hooke:n=4"], ["newton", "osqp"])
    cdopt.study.run(plan, out="my-study")               # each run in a separate process
    cdopt.study.read("my-study")                        # the records of a study
"""

import lazy_loader

from cdopt.study.comparison import REFERENCE_BACKEND, choose_backends, compare, solve_named
from cdopt.study.named_problem import RUN_SUFFIX as RUN_SUFFIX
from cdopt.study.named_problem import NamedProblem, ProblemSource, open_problem, problems
from cdopt.study.named_problem import is_scene as is_scene
from cdopt.study.plan import Plan, StudyRun
from cdopt.study.record import Record, read
from cdopt.study.record import records_file as records_file
from cdopt.study.runner import Study, dask_executor, run
from cdopt.study.solution_set import COLUMNS as COLUMNS
from cdopt.study.solution_set import Comparison, Row, SolutionSet
from cdopt.study.solution_set import failure as failure
from cdopt.study.solution_set import proof_text as proof_text
from cdopt.study.solution_set import verdict as verdict
from cdopt.study.table import Table

__all__ = [
    "REFERENCE_BACKEND",
    "Comparison",
    "NamedProblem",
    "Plan",
    "ProblemSource",
    "Record",
    "Row",
    "SolutionSet",
    "Study",
    "StudyRun",
    "Table",
    "choose_backends",
    "compare",
    "dask_executor",
    "open_problem",
    "problems",
    "read",
    "run",
    "solve_named",
]

# imported on first use: all but bounds need pandas
__getattr__, _, _ = lazy_loader.attach(
    __name__,
    submodules=["bounds", "leaderboard", "network_labels", "results", "tables"],
    submod_attrs={"results": ["Results"]},
)
