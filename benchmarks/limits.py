"""The limits of the machine, measured in the same run: memory bandwidth and dense arithmetic."""

from __future__ import annotations

import statistics
import time

import numpy as np
from numba import get_num_threads, njit, prange, set_num_threads
from scipy.linalg import blas
from threadpoolctl import threadpool_limits

from benchmarks.record import Row

LONG = 20_000_000  # entries: 160 MB a vector, above every cache
QUICK = 5_000_000
SQUARE, SMALL = 3000, 800  # rows of the matrices that dgemm multiplies
REPEATS = 5


@njit(cache=True)
def _triad(a, b, c, s):
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]


@njit(parallel=True, cache=True)
def _triad_threads(a, b, c, s):
    for i in prange(a.shape[0]):
        a[i] = b[i] + s * c[i]


def bandwidth(size: int, threads: int) -> float:
    """Bytes per second of a = b + s c: two vectors read, one read to be written, and written."""
    a, b, c = np.zeros(size), np.ones(size), np.ones(size)
    loop = _triad if threads == 1 else _triad_threads
    before = get_num_threads()
    passes = max(1, 2_000_000 // size)  # short vectors: as many passes as the clock needs
    set_num_threads(threads)
    try:
        loop(a, b, c, 0.5)
        seconds = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            for _ in range(passes):
                loop(a, b, c, 0.5)
            seconds.append((time.perf_counter() - started) / passes)
    finally:
        set_num_threads(before)
    return 4 * 8 * size / statistics.median(seconds)


def dgemm(size: int, threads: int) -> float:
    """Floating point operations per second of a product of square matrices by SciPy's BLAS."""
    random = np.random.default_rng(0)
    left, right = (np.asfortranarray(random.random((size, size))) for _ in range(2))
    with threadpool_limits(threads, user_api="blas"):
        blas.dgemm(1.0, left, right)
        seconds = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            blas.dgemm(1.0, left, right)
            seconds.append(time.perf_counter() - started)
    return 2.0 * size**3 / statistics.median(seconds)


def measure(quick: bool) -> list[Row]:
    """Both limits for one thread and for all."""
    rows: list[Row] = []
    for threads in sorted({1, get_num_threads()}):
        rate = bandwidth(QUICK if quick else LONG, threads)
        rows.append({"limit": "memory", "threads": threads, "per_second": rate})
        rate = dgemm(SMALL if quick else SQUARE, threads)
        rows.append({"limit": "dgemm", "threads": threads, "per_second": rate})
    return rows


def rate(rows: list[Row], limit: str, threads: int) -> float:
    """The measured limit for this many threads."""
    return float(
        next(r["per_second"] for r in rows if (r["limit"], r["threads"]) == (limit, threads))
    )
