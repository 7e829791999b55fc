"""One projected Gauss–Seidel sweep against the memory bandwidth of the same run.

    python benchmarks/pgs_sweep.py [n]

The settled pyramid of n layers (default 20: 14,440 contacts). The bound is the number of bytes
that a sweep must move at least once, over the bandwidth of a triad a = b + s c on arrays far
beyond every cache, compiled by the same compiler and measured just before. The sweep's data may
fit a cache, so a ratio below one would be no error. Quote the ratio, never the times.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
from numba import njit

import cdopt
from cdopt.backends import kernels
from cdopt.backends.structured import scaled_step
from cdopt.data import RigidStepData

REPEATS = 7
SWEEPS = 50
LONG = 20_000_000  # 160 MB a vector


@njit
def triad(a, b, c, s):
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]


def bandwidth() -> float:
    """Bytes per second of a triad: two vectors read, one written (and read to be written)."""
    a, b, c = np.zeros(LONG), np.ones(LONG), np.ones(LONG)
    triad(a, b, c, 0.5)
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        triad(a, b, c, 0.5)
        seconds.append(time.perf_counter() - started)
    return 4 * 8 * LONG / statistics.median(seconds)


def sweep(step: cdopt.ContactStep) -> tuple[float, int]:
    """Seconds of one sweep, and the bytes it must move: every array once, forces and y twice."""
    scaled = scaled_step(RigidStepData(step))
    rows = kernels.plain(scaled.rows)
    spread = rows if scaled.spread is scaled.rows else kernels.plain(scaled.spread)
    inverse = 1.0 / scaled.own
    held = {id(array): array.nbytes for array in (*rows, *spread, scaled.p, scaled.own, inverse)}
    f, y = np.zeros(step.nc), np.zeros(scaled.rows.shape[1])
    moved = sum(held.values()) + 2 * (f.nbytes + y.nbytes)
    seconds = []
    for _ in range(REPEATS + 1):
        f[:], y[:] = 0.0, 0.0
        trace = np.zeros(SWEEPS)
        started = time.perf_counter()
        done = kernels.gauss_seidel(
            rows, spread, scaled.p, scaled.own, inverse, 1.0, 0.0, f, y, trace
        )
        seconds.append((time.perf_counter() - started) / done)
    return statistics.median(seconds[1:]), moved  # the first run compiles


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    step = cdopt.bank.load("pyramid-hooke", n=n).step
    speed = bandwidth()
    seconds, moved = sweep(step)
    bound = moved / speed
    print(f"{step.nc} contacts, {moved / 1e6:.2f} MB a sweep, triad {speed / 1e9:.1f} GB/s")
    print(f"sweep {seconds * 1e6:.0f} µs, bound {bound * 1e6:.0f} µs: ratio {seconds / bound:.2f}")


if __name__ == "__main__":
    main()
