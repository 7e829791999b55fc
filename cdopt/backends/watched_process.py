"""The process of ``watched``: it runs backends, one after the other, until its stdin ends.

``python -m cdopt.backends.watched_process MEMORY``, with a limit in MB, or empty for none. It reads
pickled orders (backend, problem or None for the last one, start, verbose) from its stdin and writes
pickled results to its stdout; what solvers print goes to stderr when asked for.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import sys

import cvxpy as cp
import numpy as np

from cdopt._util.errors import CdoptError, portable
from cdopt._util.memory import die_with_parent, limit_memory
from cdopt.backends.base import RunResult


def main() -> None:
    """Run backends until the orders end."""
    die_with_parent()
    channel = os.fdopen(os.dup(1), "wb")
    silence, loud = os.open(os.devnull, os.O_WRONLY), os.dup(2)
    os.dup2(silence, 1)
    if sys.argv[1]:
        limit_memory(float(sys.argv[1]))
    warm_up()

    def send(content: object) -> None:
        pickle.dump(content, channel)
        channel.flush()

    send(True)
    posed = None
    while True:
        try:
            backend, sent, start, verbose = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        posed = posed if sent is None else sent
        os.dup2(loud if verbose else silence, 1)
        try:
            send(_portable(backend.run(posed, start, verbose)))
        except MemoryError as error:
            send(RunResult(f"MemoryError: {error}", "failed", None, {}))
        except CdoptError as error:
            send(error)


def warm_up() -> None:
    """State and compile a small problem, so that CVXPY has imported all it needs."""
    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.quad_form(x, np.eye(2)) - cp.sum(x)), [x[0] == x[1]])
    for name in ("CLARABEL", "OSQP"):  # a conic solver and a quadratic one
        problem.get_problem_data(name)


def _portable(result: RunResult) -> RunResult:
    return dataclasses.replace(result, raw=portable(result.raw))


if __name__ == "__main__":
    main()
