"""indeterminacy(): which forces of a contact step are unique, and the range of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.backends.base import Backend
from cdopt.backends.deadline import Deadline
from cdopt.formulations.friction_network import OPEN, RESTING, SLIDING
from cdopt.hyperstatic.admissible import admissible_forces, contacts_of, parts_of
from cdopt.hyperstatic.bounds import Bounds, bounds_of
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.hyperstatic.network import STIFF
from cdopt.hyperstatic.quantities import Quantity, stated_quantities
from cdopt.hyperstatic.reduction import Reduced, reduce
from cdopt.hyperstatic.report import NARROW, Indeterminacy
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.problem.step_problems import LAWS

_STAGES = ("solve", "dimension", "bounds")


def indeterminacy(
    step: Step,
    law: str | None = None,
    quantities: Any = None,
    *,
    solution: str | Backend | StepSolution | None = None,
    contacts: Any = None,
    tol: float = 1e-9,
    jobs: int = 1,
    progress: bool | ProgressCallback = False,
    closed_tol: float | None = None,
    time_limit: float | None = None,
) -> Indeterminacy:
    """What contact dynamics leaves undetermined, exactly.

    Parameters
    ----------
    step : the contact step.
    law : of a step with friction, "coulomb" or "associated"; None for a step without.
    quantities : rows C (m, nc d) of numbers C f by name, to bound as well; such as
        ``cdopt.wrench``. The d components of each contact's force stand together, the normal one
        first.
    solution : a certified answer to the step, of ``ClassicCD``, or of ``FrictionalCD`` with a law;
        or the backend that finds one; default newton.
    contacts : whose bounds to compute: indices or a mask (nc,); a number k for k contacts evenly
        spread over those whose force is not unique; an empty list for none; default all.
    tol : share of what acts on a contact below which its force is zero, and of the largest singular
        value below which others are zero (at least 1e-7 for networks of over 500 dofs). Results at
        other ``tol`` and ``closed_tol`` show how far they depend on these.
    jobs : threads for the linear or cone programs.
    progress : True for a bar on stderr, or a function of (done, total).
    closed_tol : which contacts are closed, as in ``CompatibleCD``; with a law the share of the
        speed of what acts at a contact below which its rates are zero.
    time_limit : seconds for all of it; None for none. Bounds not certified by then are
        not-a-number and listed in ``failures`` as "time limit". The linear algebra of the rank is
        not interrupted.

    Returns
    -------
    Indeterminacy : rank, self-stress states, unique forces, and the bounds of the others.

    Raises
    ------
    InvalidInput : a bad argument, or a solution that is not certified.
    SolveFailed : the step has no certified answer, or no time was left for the rank after it;
        infeasible ones carry a proof.
    Unsupported : a network too large and too ill-conditioned for its rank; a step with friction
        without a law.

    Notes
    -----
    Only null(Bᵀ) matters for counting, Olsen & Kamrin (2018), section 4; with friction so counts
    the space of forces on the faces of the cones. Bounds are linear programs where all faces are
    rays or cones of the plane, elsewhere cone programs, certified by their duals to 1e-8 and 1e-6
    of the largest force. The load F̃ is that of the solution. The bounds inherit what its
    certificate leaves open (the force on a body beside one 1e10 times as heavy, or on a lever of
    1e-5), so that a sharp solution is worth its time.

    >>> import cdopt
    >>> report = cdopt.indeterminacy(cdopt.bank.load("beam-uniform").step)
    >>> report.nullity, report.lower.round(6), report.upper.round(6)
    (1, array([0., 0., 0.]), array([ 5., 10.,  5.]))
    """
    checks.instance("step", step, Step)
    if law is not None:
        checks.choice("law", law, LAWS)
    elif step.friction is not None and np.any(step.friction.mu > 0.0):
        instead = ('law="coulomb"', "without it, step.without_friction()")
        raise Unsupported("indeterminacy without law", "the step has friction", instead)
    tol = checks.scalar("tol", tol, above=0.0, at_most=1e-3)
    jobs = checks.whole("jobs", jobs, 1, 1024)
    if closed_tol is not None:
        closed_tol = checks.scalar("closed_tol", closed_tol, above=0.0, at_most=1.0)
    if time_limit is not None:
        time_limit = checks.scalar("time_limit", time_limit, at_least=0.0)
    deadline, times, nc = Deadline.after(time_limit), [clock()], step.nc
    rows = nc * (1 if step.friction is None else step.friction.d)
    asked_for = stated_quantities(quantities, nc, 1 if law is None else rows // max(nc, 1), rows)
    found = admissible_forces(step, law, solution, closed_tol, tol, deadline)
    d = found.faces.ray.shape[1]
    times.append(clock())
    parts = parts_of(found)
    less = reduce(parts, tol)
    loose = _looseness(less, nc, d)
    status = _status(less, nc, d)
    determined = _determined(less, nc * d)
    times.append(clock())
    asked = _asked(contacts, loose > STIFF)
    chosen = (asked[:, None] * d + np.arange(d)).ravel()
    wanted = [sp.eye_array(nc * d, format="csr")[chosen]]
    with progress_bar(progress, "forces bounded") as update:
        bounds = bounds_of(less.free, sp.csr_array(wanted[0]), determined, jobs, update, deadline)
    named = {
        name: _bounded(name, C, less.free, determined, jobs, deadline)
        for name, C in asked_for.items()
    }
    times.append(clock())
    lower, upper = (determined.copy() for _ in range(2))
    for network in less.free:
        moves = np.diff(network.G.indptr) > 0
        lower[moves] = upper[moves] = np.nan
    residual, pull = np.zeros((2, nc * d))
    lower[chosen], upper[chosen] = bounds.lower, bounds.upper
    residual[chosen], pull[chosen] = bounds.residual, bounds.pull
    force = determined.copy()
    for network in less.free:
        force += network.forces(network.force)
    tables = [x.reshape(nc, d) for x in (force, lower, upper)]
    normal = [read_only(table[:, 0].copy()) for table in tables]
    sideways = [None if law is None else read_only(table[:, 1:].copy()) for table in tables]
    return Indeterminacy(
        step=step,
        law=law,
        solution=found.solution,
        faces=found.faces,
        rank=less.rank,
        nullity=less.nullity,
        dimension=less.dimension,
        reduced=read_only(status),
        looseness=read_only(loose),
        rank_tol=tol,
        force=normal[0],
        lower=normal[1],
        upper=normal[2],
        force_t=sideways[0],
        lower_t=sideways[1],
        upper_t=sideways[2],
        residual=residual,
        pull=pull,
        rays=bounds.rays,
        failures={int(asked[q // d]): why for q, why in bounds.failures.items()},
        quantities=named,
        programs=bounds.programs,
        tol=tol,
        contacts=asked,
        floor=found.floor,
        parts=tuple(parts),
        free=less.free,
        determined=determined,
        seconds=dict(zip(_STAGES, np.diff(times).tolist(), strict=True)),
    )


def _looseness(less: Reduced, nc: int, d: int) -> FloatArray:
    """(nc,) of the loosest coordinate of each contact."""
    loose = np.zeros(nc)
    for part, moves in zip(less.parts, less.loose, strict=True):
        np.maximum.at(loose, contacts_of(part.G, d), moves)
    return loose


def _status(less: Reduced, nc: int, d: int) -> IntArray:
    """(nc,) OPEN without coordinates, RESTING with as many as components, else SLIDING."""
    many = np.zeros(nc, dtype=np.int64)
    for part in less.parts:
        np.add.at(many, contacts_of(part.G, d), 1)
    return np.where(many == 0, OPEN, np.where((many == d) & (d > 1), RESTING, SLIDING))


def _determined(less: Reduced, rows: int) -> FloatArray:
    """(rows,) N, forces of the coordinates that belong to no free network."""
    moves = np.concatenate([np.zeros(0, np.int64), *(n.index for n in less.free)])
    forces = np.zeros(rows)
    for part in less.parts:
        forces += part.G @ np.where(np.isin(part.index, moves), 0.0, part.z)
    return forces


def _bounded(
    name: str,
    C: sp.csr_array,
    free: Sequence[FreeNetwork],
    determined: FloatArray,
    jobs: int,
    deadline: Deadline,
) -> Quantity:
    """The bounds of a quantity, with forces that attain them."""
    bounds: Bounds = bounds_of(free, C, determined, jobs, lambda *_: None, deadline, True)
    with np.errstate(invalid="ignore"):
        narrow = bounds.upper - bounds.lower <= NARROW * bounds.scale
    return Quantity(
        name,
        C,
        read_only(bounds.lower),
        read_only(bounds.upper),
        read_only(narrow),
        read_only(bounds.residual),
        read_only(bounds.witnesses),
        bounds.failures,
    )


def _asked(contacts: Any, free: Any) -> IntArray:
    """The contacts whose bounds were asked for, ascending."""
    nc = free.size
    if contacts is None:
        return np.arange(nc)
    if isinstance(contacts, int | np.integer) and not isinstance(contacts, bool):
        if contacts < 0:
            raise InvalidInput("contacts", str(contacts), "a number of contacts, or indices")
        loose = np.flatnonzero(free)
        spread = np.linspace(0, max(loose.size - 1, 0), min(int(contacts), loose.size))
        return loose[np.unique(np.round(spread).astype(np.int64))]
    return np.unique(checks.positions("contacts", contacts, nc))
