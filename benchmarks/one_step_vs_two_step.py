"""Compatible forces in one step against two, by the same backend.

    python benchmarks/one_step_vs_two_step.py [BACKEND] [n ...]

The settled pyramid of n layers (default 5, 10, 20), of equal spheres and of two species, Hooke and
Hertz. Medians of five solves in one process, the statement of the problem included, compiled code
warmed. ``off`` is the distance ‖f − f₂‖ / ‖f₂‖ of the one-step force at its default ε from the
two-step one; ``ok`` and ``not ok`` are the one-step certificate's verdict. Quote the ratio, never
the times.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

import cdopt

REPEATS = 5


def solved(problem: cdopt.bank.BankProblem, method: str, backend: str) -> cdopt.StepSolution:
    own = cdopt.CompatibleCD(problem.step, problem.power, method=method)
    return own.solve(backend, check=False)


def timed(
    problem: cdopt.bank.BankProblem, method: str, backend: str
) -> tuple[float, cdopt.StepSolution]:
    """Median seconds, and the last solution."""
    found = solved(problem, method, backend)
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        found = solved(problem, method, backend)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), found


def main() -> None:
    backend = sys.argv[1] if len(sys.argv) > 1 else "newton"
    sizes = [int(word) for word in sys.argv[2:]] or [5, 10, 20]
    print(f"{backend}\n{'pyramid':<16}{'one step':>10}{'two steps':>11}{'ratio':>7}{'off':>10}")
    for n in sizes:
        for material in ("hooke", "species", "hertz"):
            problem = cdopt.bank.load(f"pyramid-{material}", n=n)
            one, once = timed(problem, "one-step", backend)
            two, twice = timed(problem, "two-step", backend)
            forces = once.f if once.iterate is None else once.iterate.forces
            if forces is None or twice.f is None:
                print(f"{material} {n:<8}{one:9.3f}s{two:10.3f}s  no forces: {once.status}")
                continue
            off = np.linalg.norm(forces - twice.f) / np.linalg.norm(twice.f)
            print(
                f"{f'{material} {n}':<16}{one:9.3f}s{two:10.3f}s{one / two:7.2f}{off:10.1e}"
                f"   {'ok' if once.ok else 'not ok'}"
            )


if __name__ == "__main__":
    main()
