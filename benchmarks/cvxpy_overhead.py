"""What CVXPY costs beside the solver: the settled pyramid of n layers, Clarabel's own settings.

    python benchmarks/cvxpy_overhead.py [n]

Overhead is everything from matrices to a certified answer that is not Clarabel's own solve
time, as it reports it, in one process; memory is the peak of the whole process. Ratios of one
run, never single times, are what to quote.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time

import numpy as np

import cdopt

REPEATS = 3


def run(problem: cdopt.bank.BankProblem, form: str) -> tuple[float, float]:
    """Seconds in total and in Clarabel for one truss, from matrices to certificate."""
    step = problem.step
    started = time.perf_counter()
    truss = cdopt.NoTensionTruss(step.B, -step.F_ext, step.stiffness, problem.power, form)
    solution = truss.solve("clarabel")
    return time.perf_counter() - started, float(solution.raw.solve_time)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{'material':<10}{'form':<15}{'total':>9}{'Clarabel':>10}{'overhead':>10}")
    for material in ("hooke", "hertz"):
        problem = cdopt.bank.load(f"pyramid-{material}", n=n)
        for form in ("complementary", "potential"):
            runs = np.array([run(problem, form) for _ in range(REPEATS)])
            total, own = (statistics.median(column) for column in runs.T)
            share = statistics.median((runs[:, 0] - runs[:, 1]) / runs[:, 1])
            print(f"{material:<10}{form:<15}{total:8.2f}s{own:9.2f}s{share:10.1%}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
