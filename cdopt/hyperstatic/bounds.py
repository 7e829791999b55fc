"""Bounds of linear quantities C f over the admissible forces, network by network.

Only networks whose forces can differ enter the programs. A quantity is the sum of what each network
contributes, and of the forces that are determined; bounds of a sum over independent networks are
the sums of the bounds. A component of a force is a row of the identity. In a network of half-lines
bounds are linear programs (``linear_bounds``), elsewhere cone programs (``cone_bounds``); both are
certified by their duals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, freeze, read_only
from cdopt._util.frozen import Frozen, frozen_rows
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.threads import threads_for
from cdopt.hyperstatic import cone_bounds, linear_bounds
from cdopt.hyperstatic.extremes import Extreme, Extremes
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.problem.scaling import distinct, product, scaled

_CHUNK = 200  # costs of one task of a thread
_BATCH = 4000  # the same of cone programs, times their cones


@dataclass(frozen=True, eq=False)
class Bounds(Frozen):
    """Least and largest values of q quantities."""

    # lower, upper: (q,) infinite where unbounded, not-a-number where unknown
    lower: FloatArray
    upper: FloatArray
    residual: FloatArray  # (q,) certificate of the bounds, in units of the network's forces
    load_sensitivity: FloatArray  # (q,) largest change of the bounds per unit of load on every dof
    scale: FloatArray  # (q,) what a change of all forces by their units may change at most
    failures: dict[int, str]  # quantities whose bounds are not certified, and why
    # forces (rows,) that load nothing, along which the admissible ones grow
    rays: tuple[FloatArray, ...]
    programs: int  # number of programs that were solved
    # (q, 2, rows) N, forces that attain the bounds, where requested; not-a-number where unbounded
    # or unknown
    witnesses: FloatArray


class _Costs(NamedTuple):
    """The costs of one network that differ, and what each quantity makes of them."""

    rows: sp.csr_array  # (k, n) costs, the entry of each that is largest being one
    # quantity, cost, factor: a quantity is factor times a cost
    quantity: IntArray
    cost: IntArray
    factor: FloatArray


def bounds_of(
    networks: Sequence[FreeNetwork],
    C: sp.csr_array,
    determined: FloatArray,
    jobs: int,
    progress: Callable[[int, int], None],
    deadline: Deadline,
    witnesses: bool = False,
) -> Bounds:
    """Bounds of quantities C f (q, rows) over the networks; ``determined`` (rows,) is fixed.

    ``jobs`` are threads, ``witnesses`` asks for forces that attain the bounds.
    """
    many, rows = C.shape
    lower = np.asarray(C @ determined)
    upper, residual, slope, scale = lower.copy(), *np.zeros((3, many))
    attained = np.full((many if witnesses else 0, 2, rows), np.nan)
    attained[:] = determined + sum(network.forces(network.force) for network in networks)
    rays: list[FloatArray] = []
    failures: dict[int, str] = {}
    costs = [_costs(C, network) for network in networks]
    done, total, programs = 0, sum(c.rows.shape[0] for c in costs), 0
    solvers = [_solver(network, witnesses, deadline) for network in networks]
    cones = not all(network.polyhedral for network in networks)
    threads = threads_for(total) if cones else contextlib.nullcontext()
    pool = ThreadPoolExecutor(jobs) if jobs > 1 else contextlib.nullcontext()
    with threads, pool as several:
        run: Callable[..., Iterator[Extremes]] = map if several is None else several.map
        searches = [
            run(solver, _chunks(c.rows, network, jobs))
            for network, solver, c in zip(networks, solvers, costs, strict=True)
        ]
        for network, extremes, c in zip(networks, searches, costs, strict=True):
            least, largest = [], []
            for one in extremes:
                least += one.least
                largest += one.largest
                rays += [network.forces(ray) for ray in one.rays]
                programs += one.programs
                done += len(one.least)
                progress(done, total)
            for q, k, factor in zip(c.quantity.tolist(), c.cost, c.factor, strict=True):
                low, high = (least[k], largest[k]) if factor > 0.0 else (largest[k], least[k])
                lower[q] += factor * low.value
                upper[q] += factor * high.value
                residual[q] = max(residual[q], low.residual, high.residual)
                slope[q] = max(slope[q], low.load_sensitivity, high.load_sensitivity)
                scale[q] += abs(factor)
                if low.failure or high.failure:
                    failures[q] = low.failure or high.failure
                for side, end in enumerate((low, high) if witnesses else ()):
                    attained[q, side] += network.forces(end.at) - network.forces(network.force)
    lost = [q for q in failures if np.isnan(lower[q] + upper[q])]
    lower[lost] = upper[lost] = np.nan
    rays = [read_only(ray / np.abs(ray).max()) for ray in rays]
    return Bounds(lower, upper, residual, slope, scale, failures, tuple(rays), programs, attained)


def _costs(C: sp.csr_array, network: FreeNetwork) -> _Costs:
    """Quantities as functions of the coordinates of a network; each different cost once."""
    own = scaled(freeze(product(C, network.G)), None, network.unit)
    entries = np.diff(own.indptr)
    used = np.flatnonzero(entries)
    if entries.max(initial=0) <= 1:  # of one coordinate each
        columns, cost = distinct(own.indices)
        single = np.ones(columns.size), columns, np.arange(columns.size + 1)
        rows = frozen_rows(*single, (columns.size, own.shape[1]))
        return _Costs(rows, used, cost, own.data)
    known: dict[bytes, int] = {}
    cost, factor = np.zeros(used.size, int), np.zeros(used.size)
    chosen: list[tuple[IntArray, FloatArray]] = []
    for k, q in enumerate(used.tolist()):
        part = slice(own.indptr[q], own.indptr[q + 1])
        indices, values = own.indices[part], own.data[part]
        factor[k] = values[np.argmax(np.abs(values))]
        values = values / factor[k]
        key = indices.tobytes() + values.tobytes()
        if key not in known:
            known[key] = len(chosen)
            chosen.append((indices, values))
        cost[k] = known[key]
    ends = np.cumsum([0, *(indices.size for indices, _ in chosen)])
    indices = np.concatenate([np.zeros(0, int), *(i for i, _ in chosen)])
    values = np.concatenate([np.zeros(0), *(v for _, v in chosen)])
    rows = sp.csr_array((values, indices, ends), shape=(len(chosen), own.shape[1]))
    return _Costs(rows, used, cost, factor)


def _solver(
    network: FreeNetwork, witnesses: bool, deadline: Deadline
) -> Callable[[sp.csr_array], Extremes]:
    """The solver of the extremes of costs (k, n) over a network."""
    if network.polyhedral:
        half_lines = linear_bounds.LinearSet(network)
        return lambda costs: half_lines.extremes(costs, deadline, witnesses)
    force_set = cone_bounds.ConeSet.of(network)
    force_set.prepare()

    def solve(costs: sp.csr_array) -> Extremes:
        if deadline.passed:
            missing = [Extreme(failure=TIME_LIMIT)] * costs.shape[0]
            return Extremes(missing, missing, force_set.rays, 0)
        return force_set.extremes(costs, witnesses)

    return solve


def _chunks(costs: sp.csr_array, network: FreeNetwork, jobs: int) -> list[sp.csr_array]:
    """Costs in pieces that keep the threads busy; at least one, which has the ray, of cones."""
    many = costs.shape[0]
    size = _CHUNK if network.polyhedral else max(1, _BATCH // network.sizes.size)
    pieces = min(max(4 * jobs if jobs > 1 else 1, -(-many // size)), max(many, 1))
    if pieces == 1:
        return [costs] if many or not network.polyhedral else []
    chunks = np.array_split(np.arange(many), pieces)
    return [costs[rows] for rows in chunks if rows.size or not network.polyhedral]
