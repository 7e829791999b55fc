"""One projected Gauss–Seidel sweep against the memory bandwidth of the same process.

The bound is the number of bytes that a sweep must move at least once over the bandwidth of a
triad on arrays far beyond every cache. The sweep's data may fit a cache, so a ratio below one
would be no error.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from benchmarks.limits import LONG, QUICK, bandwidth
from benchmarks.problems import build
from benchmarks.record import Row
from cdopt._util.sparse_rows import csr_parts
from cdopt.backends.gauss_seidel import Visits, gauss_seidel
from cdopt.backends.network_problem import network_problem
from cdopt.problem import rigid_data

REPEATS, SWEEPS = 7, 50


def sweep(problem: str, quick: bool = False) -> list[Row]:
    """Seconds of one sweep, and the bytes it must move: every array once, forces and y twice."""
    step = build(problem).step
    memory = bandwidth(QUICK if quick else LONG, 1)
    given = network_problem(rigid_data(step))
    scaled, p = given.factors, given.p
    rows = csr_parts(scaled.rows)
    spread = rows if scaled.spread is scaled.rows else csr_parts(scaled.spread)
    inverse = 1.0 / scaled.diagonal
    arrays = {id(array): array.nbytes for array in (*rows, *spread, p, scaled.diagonal, inverse)}
    f, y = np.zeros(step.nc), np.zeros(scaled.rows.shape[1])
    moved = sum(arrays.values()) + 2 * (f.nbytes + y.nbytes)
    visits = Visits(*rows, *spread, p, scaled.diagonal, inverse, np.zeros(step.nc), 1.0)
    edges, seconds = np.zeros(1, dtype=np.uint32), []
    for _ in range(REPEATS + 1):
        f[:], y[:] = 0.0, 0.0
        trace = np.zeros(SWEEPS)
        started = time.perf_counter()
        done = gauss_seidel(None, edges, visits, 0.0, f, y, trace)
        seconds.append((time.perf_counter() - started) / done)
    spent = statistics.median(seconds[1:])  # the first run compiles
    return [{
        "contacts": step.nc, "seconds": spent, "bytes": moved, "bound": moved / memory,
        "ratio": spent * memory / moved,
    }]  # fmt: skip
