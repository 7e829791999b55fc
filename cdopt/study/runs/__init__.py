"""Studies of many solvers: a plan of runs, each in a process of its own, kept line by line.

    from cdopt.study.runs import Plan, conduct

    plan = Plan(["beam-uniform", "pyramid-hooke:n=4"], ["newton", "osqp"], tolerances=[None, 1e-9])
    study = conduct(plan, out="my-study")
    [(r.run.label, r.outcome, r.seconds) for r in study.records]

What a line of the file holds is told in ``cdopt.study.runs.record``.
"""

from cdopt.study.runs.conduct import Study, conduct
from cdopt.study.runs.plan import Plan
from cdopt.study.runs.record import Record
from cdopt.study.runs.run import Problem, Run
from cdopt.study.runs.sources import problems
from cdopt.study.runs.store import read

__all__ = ["Plan", "Problem", "Record", "Run", "Study", "conduct", "problems", "read"]
