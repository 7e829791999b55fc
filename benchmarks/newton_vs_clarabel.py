"""newton from matrices to certified forces, against Clarabel (faer) called directly.

    python benchmarks/newton_vs_clarabel.py [n]

The settled pyramid of n layers, Hooke and Hertz, medians of five runs in one process, compiled
code warmed. Clarabel gets the same scaled problem through its own interface, compiled by CVXPY
beforehand and not counted; only its own solve is timed. Quote the ratio, never the times.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings

import clarabel
import cvxpy.settings as words
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

import cdopt

REPEATS = 5


def newton(problem: cdopt.bank.BankProblem) -> tuple[float, cdopt.StepSolution]:
    step = problem.step
    started = time.perf_counter()
    truss = cdopt.NoTensionTruss(
        step.B, -step.F_ext, step.stiffness, problem.power, "potential", dof_body=step.dof_body
    )
    solution = truss.solve("newton")
    return time.perf_counter() - started, solution


def direct(problem: cdopt.bank.BankProblem, form: str) -> float:
    """Median seconds of Clarabel alone on CVXPY's data, linear algebra by faer."""
    step = problem.step
    truss = cdopt.NoTensionTruss(step.B, -step.F_ext, step.stiffness, problem.power, form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, _, _ = truss.problem.get_problem_data("CLARABEL", solver_opts={})
    A, q = data[words.A], data[words.C]
    P = sp.triu(data[words.P]).tocsc() if words.P in data else sp.csc_array((q.size, q.size))
    cones = dims_to_solver_cones(data["dims"])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method = "faer"
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        clarabel.DefaultSolver(P, q, A, data[words.B], cones, settings).solve()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{'material':<10}{'newton':>9}{'residual':>11}{'Clarabel':>10}{'ratio':>8}")
    for material in ("hooke", "hertz"):
        problem = cdopt.bank.load(f"pyramid-{material}", n=n)
        newton(problem)
        runs = [newton(problem) for _ in range(REPEATS)]
        ours = statistics.median(seconds for seconds, _ in runs)
        worst = max(solution.certificate.worst for _, solution in runs)
        theirs = min(direct(problem, form) for form in ("complementary", "potential"))
        row = f"{material:<10}{ours:8.3f}s{worst:11.1e}{theirs:9.2f}s{theirs / ours:8.1f}"
        print(row)
    print(f"numpy {np.__version__}, clarabel {clarabel.__version__}")


if __name__ == "__main__":
    main()
