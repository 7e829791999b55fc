"""Products with B and factorisations of newton's systems, compared with the limits of the machine.

A product's bound is the bytes it must move, whatever the layout, over the bandwidth of a triad on
arrays far above the caches: the entries of B, two body numbers to a contact, and every vector
once. B may fit a cache, so that a ratio below one is no error: the triad on as many bytes is given
next to it. A factorisation's bound is the operations that its factor needs, over what dgemm does on
as many threads.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.limits import LONG, QUICK, SMALL, SQUARE, bandwidth, dgemm
from benchmarks.problems import build
from benchmarks.record import Row
from cdopt._util.checks import FloatArray
from cdopt.backends.linalg import ContactNetwork, network
from cdopt.backends.linalg.factorisation import SuperLU

REPEATS, AT_LEAST = 7, 0.02  # runs, and seconds that each of them takes
LONGEST = 10.0  # s for all runs of one product
MANY = 100  # iterations of conjugate gradients in one go
VECTORS = 10  # that an iteration reads or writes: p, S p, x twice, r twice, z twice, p twice


def products(problem: str, quick: bool = False) -> list[Row]:
    """B u, Bᵀ f and an iteration of conjugate gradients, on one thread and on all."""
    net = _network(problem)
    rows: list[Row] = []
    most = numba.get_num_threads()
    for threads in sorted({1, most}):
        memory = bandwidth(QUICK if quick else LONG, threads)
        numba.set_num_threads(threads)
        for name, seconds, moved in _measured(net):
            rows.append({
                "product": name, "threads": threads, "contacts": net.rows, "dofs": net.m,
                "seconds": seconds, "bytes": moved, "bound": moved / memory,
                "ratio": seconds * memory / moved,
                "ratio_same_size": seconds * bandwidth(max(1, moved // 32), threads) / moved,
            })  # fmt: skip
        numba.set_num_threads(most)
    return rows


def _measured(net: ContactNetwork) -> list[tuple[str, float, int]]:
    """Each product, its seconds, and the bytes that it must move."""
    random = np.random.default_rng(0)
    u, f, rhs = random.random(net.m), random.random(net.rows), random.random(net.m)
    matrix = net.B.data.nbytes + 8 * net.rows
    once = matrix + u.nbytes + f.nbytes
    measured = [
        ("B u", _median(lambda: net.gap(u)), once),
        ("Bᵀ f", _median(lambda: net.load(f)), once),
    ]
    if net.small or net.blocks is None:
        return measured
    system: Any = net.system(np.ones(net.rows), 1e-6)
    before = net.iterations
    system.solve(rhs, 0.0, MANY)
    spent = net.iterations - before
    seconds = _median(lambda: system.solve(rhs, 0.0, MANY)) / spent
    moved = matrix + 8 * net.size * net.m + VECTORS * u.nbytes
    measured.append(("iteration", seconds, moved))
    return measured


def factorisation(problem: str, quick: bool = False) -> list[Row]:
    """One factorisation of newton's matrix, all contacts closed, as newton repeats it."""
    net = _network(problem)
    if net.small:
        return [{"failed": "small systems are factorised as dense matrices"}]
    D, library = np.ones(net.rows), net.library
    entries, flops = _factor_size(net, D)
    rows: list[Row] = []
    for threads in sorted({1, numba.get_num_threads()}):
        peak = dgemm(SMALL if quick else SQUARE, threads)
        with threadpool_limits(threads, user_api="blas"):
            seconds = _median(lambda: library.factorise(D, 1e-6))
        rows.append({
            "library": library.name, "threads": threads, "contacts": net.rows, "dofs": net.m,
            "seconds": seconds, "dgemm": peak, "factor_entries": entries, "flops": flops,
            "bound": flops / peak, "ratio": seconds * peak / flops,
        })  # fmt: skip
    return rows


def _factor_size(net: ContactNetwork, D: FloatArray) -> tuple[int, float]:
    """Entries of the factor and the operations it takes: squares of its column counts summed."""
    if not isinstance(net.library, SuperLU):
        return _counted_by_pardiso(net)
    columns = np.diff(net.library.factors(D, 1e-6).L.indptr).astype(float)
    return int(columns.sum()), float((columns**2).sum())


def _counted_by_pardiso(net: ContactNetwork) -> tuple[int, float]:
    """What PARDISO's analysis says of its factor, in its own nested dissection order."""
    mass = sp.csr_array((net.m, net.m)) if net.mass is None else net.mass
    own = sp.eye_array(net.m, format="csr")
    upper = sp.csr_matrix(sp.triu(net.B.T @ net.B + mass + own, format="csr"))
    upper.sort_indices()
    solver = importlib.import_module("pypardiso").PyPardisoSolver(mtype=2)
    for place, value in ((1, 1), (2, 2), (10, 8), (18, -1), (19, -1), (21, 1)):
        solver.set_iparm(place, value)  # PARDISO's defaults, and asking for 18 and 19
    zero = np.zeros((net.m, 1))
    solver.set_phase(11)
    solver._call_pardiso(upper, zero)
    entries, millions = solver.get_iparm(18), solver.get_iparm(19)
    solver.set_phase(-1)
    solver._call_pardiso(upper, zero)
    return int(entries), 1e6 * max(1.0, float(millions))


def _network(problem: str) -> ContactNetwork:
    step = build(problem).step
    return network(step.B, step.dof_body)


def _median(run: Callable[[], Any]) -> float:
    """Seconds of one run, each timed as often as the clock needs."""
    run()
    begun = time.perf_counter()
    run()
    often = max(1, round(AT_LEAST / max(time.perf_counter() - begun, 1e-7)))
    seconds: list[float] = []
    while len(seconds) < REPEATS and (not seconds or time.perf_counter() - begun < LONGEST):
        started = time.perf_counter()
        for _ in range(often):
            run()
        seconds.append((time.perf_counter() - started) / often)
    return statistics.median(seconds)
