"""indeterminacy(): which forces of a contact step are determined, which not, and how far."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.backends.base import Backend
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.hyperstatic.admissible import Block, Verdict, blocks, judge
from cdopt.hyperstatic.bounds import bounds_of, free_networks
from cdopt.hyperstatic.report import Indeterminacy, Tolerances
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.exchange import exchange_of
from cdopt.problem.solution import StepSolution

_BLUR = 10.0  # forces below so many of the classic step's residuals cannot be told from zero
_DELIVERED = 1e-8  # share of what acts on a dof that forces may miss there, to be of use
_NOISE = 1e9  # errors of the classic answer, below which it cannot measure what acts
_SOLVER = "newton"  # of cdopt's own backends the sharpest, for forces that only just touch


def indeterminacy(
    step: ContactStep,
    classic: str | Backend | StepSolution | None = None,
    contacts: Any = None,
    tol: float = 1e-9,
    jobs: int = 1,
    progress: bool | ProgressCallback = False,
    *,
    closed_tol: float | None = None,
    time_limit: float | None = None,
) -> Indeterminacy:
    """What classic contact dynamics leaves undetermined, exactly.

    Parameters
    ----------
    step : the contact step.
    classic : a certified classic solution of it, or the backend that finds one; default newton.
    contacts : whose bounds are wanted: indices or a mask (nc,); a number k for k contacts evenly
        spread over those whose force is not unique; an empty list for none; default all.
    tol : share of what acts on a contact below which its force is zero, and of the largest singular
        value below which others are zero (at least 1e-7 for networks of over 500 dofs).
    jobs : threads for the linear programs.
    progress : True for a bar on stderr, or a function of (done, total).
    closed_tol : which contacts are closed, as in ``CompatibleCD``.
    time_limit : seconds for all of it; None for none. Bounds not certified by then are
        not-a-number and listed in ``failures`` as "time limit". The linear algebra of the rank is
        not interrupted.

    Returns
    -------
    Indeterminacy : rank, self-stress states, unique forces, and the bounds of the others.

    Raises
    ------
    InvalidInput : a bad argument, or a classic solution that is not certified.
    SolveFailed : the classic step has no certified answer, or no time was left for the rank after
        it; infeasible ones carry a proof.
    Unsupported : a network too large and too ill-conditioned for its rank.

    Notes
    -----
    Only null(Bᵀ) matters for counting, Olsen & Kamrin (2018), section 4; bounds are linear
    programs over the answers' face, certified by their duals (``linear_programs``). The load F̃
    is that of the classic answer: what its certificate leaves open (the force on a body beside
    one 1e10 times as heavy, or on a lever of 1e-5) the bounds inherit, so that a sharp classic
    answer is worth its time.

    >>> import cdopt
    >>> report = cdopt.indeterminacy(cdopt.bank.load("beam-uniform").step)
    >>> report.nullity, report.lower.round(6), report.upper.round(6)
    (1, array([0., 0., 0.]), array([ 5., 10.,  5.]))
    """
    clock = _Clock()
    problem = CompatibleCD(step, closed_tol=closed_tol)
    tol = checks.scalar("tol", tol, above=0.0, at_most=1e-3)
    threads = checks.scalar("jobs", jobs, at_least=1.0, at_most=1024.0)
    if threads != int(threads):
        raise InvalidInput("jobs", str(jobs), "a whole number")
    if time_limit is not None:
        time_limit = checks.scalar("time_limit", time_limit, at_least=0.0)
    deadline = Deadline.after(time_limit)
    first = _certified(problem, classic, deadline)
    clock.lap("classic")
    resolved = problem.solve(_SOLVER, classic=first, time_limit=deadline.time_limit)
    clock.lap("compatible")
    if deadline.passed:
        raise SolveFailed(
            "time limit: it passed before the rank of the network; the classic forces are in raw",
            backend=first.backend,
            status=TIME_LIMIT,
            problem=problem.classic_cd.data,
            raw=first,
        )
    network = problem.network(first)
    forces = network.forces
    if resolved.ok and resolved.f is not None and _delivers(step, first, resolved.f, network):
        forces = resolved.f
    parts, unit, floor = _parts_of(problem, first, network, tol)
    forces = np.where(forces > floor, forces, 0.0)
    verdict = judge(parts, forces, floor, tol)
    clock.lap("rank")
    networks = free_networks(parts, verdict, forces, unit)
    asked = _asked(contacts, ~verdict.tight)
    with progress_bar(progress, "forces bounded") as tell:
        mask = np.zeros(step.nc, dtype=bool)
        mask[asked] = True
        intervals = bounds_of(networks, forces, mask, int(threads), tell, deadline)
    clock.lap("bounds")

    return Indeterminacy(
        step=step,
        classic=first,
        network=network,
        force=read_only(np.array(forces)),
        verdict=verdict,
        intervals=intervals,
        tol=tol,
        contacts=read_only(asked),
        floor=read_only(floor),
        blocks=tuple(parts),
        free=tuple(networks),
        weigh=partial(_weighed, step, first, resolved.f, tol),
        seconds=clock.laps,
    )


def _certified(
    problem: CompatibleCD, classic: str | Backend | StepSolution | None, deadline: Deadline
) -> StepSolution:
    """A classic solution whose certificate holds."""
    given = isinstance(classic, StepSolution)
    if isinstance(classic, StepSolution):
        first = problem.certified_here(classic.classic or classic)
    else:
        backend = _SOLVER if classic is None else classic
        first = problem.classic_cd.solve(backend, time_limit=deadline.time_limit)
    if first.ok:
        return first
    held = first.certificate
    found = f"{first.backend} left a residual of {held.worst if held else np.nan:.1e}"
    if first.status.startswith(TIME_LIMIT):
        found += f" at its {first.status}"
    if given:
        raise InvalidInput("classic", found, "a certified classic solution of this step")
    raise SolveFailed(
        f"the classic step is not certified: {found}; what its forces may be is not known",
        backend=first.backend,
        status=first.status,
        problem=problem.classic_cd.data,
        raw=first.raw,
    )


def _carried(step: ContactStep, first: StepSolution) -> FloatArray | None:
    """(nv,) N and N·m: what a dof carries: contact forces, its load, its momentum over Δt.

    At least ``_NOISE`` times its imbalance. None for a step known by N and p alone.
    """
    M, B, v, load, f, after = step.M, step.B, step.v, step.F_ext, first.f, first.v_next
    if M is None or B is None or v is None or load is None or f is None or after is None:
        return None
    carried: FloatArray = abs(B).T @ np.abs(f) + np.abs(load) + abs(M) @ np.abs(v) / step.dt
    missed = M @ (after - v) / step.dt - load - B.T @ f
    return np.maximum(carried, _NOISE * np.abs(missed))


def _delivers(
    step: ContactStep, first: StepSolution, forces: FloatArray, network: ClosedNetwork
) -> bool:
    """Whether forces (nc,) deliver F̃ on every dof, measured by what that dof carries.

    Beside a body 1e8 times as heavy, forces that are right to 1e-13 of its weight are not.
    """
    carried = _carried(step, first)
    if step.B is None or carried is None:
        return True
    missed = np.abs(step.B.T @ forces - network.contact_load)
    return bool(np.all(missed <= _DELIVERED * carried))


def _parts_of(
    problem: CompatibleCD, first: StepSolution, network: ClosedNetwork, tol: float
) -> tuple[list[Block], FloatArray, FloatArray]:
    """The parts of the closed network, (nc,) what acts on each contact, and what is no force, N.

    Contacts that no motion opens or closes, which compatibility leaves unloaded, are added.
    """
    data, index = problem.classic_cd.data, network.contacts
    scale = np.full(problem.step.nc, np.inf)
    held = first.certificate
    tol = max(tol, _BLUR * held.worst) if held is not None else tol
    gradient = sp.csr_array((0, 1))
    if index.size:
        truss = problem.truss(network).data
        scale[index] = truss.force
        gradient = truss.scaled().B
    rows = data.step.N if data.B is None else data.B
    gap = np.full(problem.step.nc, np.inf) if first.gap is None else first.gap
    stuck = np.flatnonzero((np.diff(rows.indptr) == 0) & (gap <= network.gap_tol))
    scale[stuck] = data.force[stuck]
    exchange = exchange_of(data, first.v_next, np.asarray(first.f))
    acting = exchange.force()
    unit = np.where(acting > 0.0, np.minimum(acting, scale), scale)
    worst = 0.0 if held is None else held.worst
    blurred = _BLUR * worst * np.minimum(exchange.speed / data.mobility, scale)
    nothing = sp.csr_array((stuck.size, gradient.shape[1]))
    parts = blocks(sp.csr_array(sp.vstack([gradient, nothing])), np.append(index, stuck))
    return parts, unit, np.maximum(tol * unit, blurred)


def _asked(contacts: Any, free: Any) -> IntArray:
    """The contacts whose bounds are wanted, ascending."""
    nc = free.size
    if contacts is None:
        return np.arange(nc)
    if isinstance(contacts, int | np.integer) and not isinstance(contacts, bool):
        if contacts < 0:
            raise InvalidInput("contacts", str(contacts), "a number of contacts, or indices")
        loose = np.flatnonzero(free)
        place = np.linspace(0, max(loose.size - 1, 0), min(int(contacts), loose.size))
        return loose[np.unique(np.round(place).astype(np.int64))]
    index = checks.array("contacts", contacts, "indices, a mask or a number")
    if index.dtype.kind == "b" and index.shape == (nc,):
        return np.flatnonzero(index)
    if index.size == 0:
        return np.zeros(0, dtype=np.int64)
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise InvalidInput("contacts", checks.describe(contacts), "indices, a mask or a number")
    if index.min() < 0 or index.max() >= nc:
        raise InvalidInput("contacts", "an index out of range", f"0 to {nc - 1}")
    return np.unique(index.astype(np.int64))


def _weighed(
    step: ContactStep,
    first: StepSolution,
    forces: FloatArray | None,
    tol: float,
    closing: float,
    rank_tol: float,
) -> Tolerances:
    """The verdict at other tolerances."""
    problem = CompatibleCD(step, closed_tol=closing)
    network = problem.network(first)
    parts, _, floor = _parts_of(problem, first, network, tol)
    held = network.forces if forces is None else np.maximum(forces, network.forces)
    verdict: Verdict = judge(parts, held, floor, rank_tol)
    shut = int(np.count_nonzero(verdict.closed))
    unique = int(np.count_nonzero(verdict.closed & verdict.tight))
    return Tolerances(
        closing, rank_tol, shut, verdict.rank, verdict.nullity, verdict.dimension, unique
    )


class _Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._since = now - self._since, now
