"""indeterminacy(): which forces of a contact step are unique, and the range of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import frozen_rows
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.backends.base import Backend
from cdopt.backends.deadline import Deadline
from cdopt.hyperstatic.admissible import admissible_forces, contacts_of, parts_of
from cdopt.hyperstatic.bounds import Bounds, bounds_of
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.hyperstatic.joint_reactions import JointReactions
from cdopt.hyperstatic.network import STIFF
from cdopt.hyperstatic.quantities import Quantity, stated_quantities
from cdopt.hyperstatic.reduction import Reduced, reduce
from cdopt.hyperstatic.report import NARROW, Indeterminacy
from cdopt.problem.cones import OPEN, RESTING, SLIDING
from cdopt.problem.scaling import times
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
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
    """The forces that contact dynamics leaves undetermined, with exact bounds.

    Parameters
    ----------
    step : the contact step.
    law : of a step with friction, "coulomb" or "associated"; None for a step without.
    quantities : rows C (m, nc d) of numbers C f by name, to bound as well; such as
        ``cdopt.wrench``. The d components of each contact's force are adjacent, the normal one
        first. Of a step with joints they may have a column more for each row of J, for its
        reaction: (m, nc d + nj).
    solution : a certified answer to the step, of ``ClassicCD``, or of ``FrictionalCD`` with a law;
        or the backend that computes one; default auto.
    contacts : those with bounds: indices or a mask (nc,); a number k for k contacts evenly spread
        over those whose force is not unique; an empty list for none; default all.
    tol : forces below this share of the local load count as zero, and singular values below this
        share of the largest (at least 1e-7 for networks of over 500 dofs). Vary ``tol`` and
        ``closed_tol`` to see whether results depend on them.
    jobs : threads for the linear or cone programs.
    progress : True for a bar on stderr, or a function of (done, total).
    closed_tol : tolerance of closed contacts, as in ``CompatibleCD``; with a law, rates below this
        share of the local speed count as zero.
    time_limit : seconds in total; None for no limit. Bounds not certified by then are NaN and
        listed in ``failures`` as "time limit". The computation of the rank is not interrupted.

    Returns
    -------
    Indeterminacy : rank, self-stress states, unique forces, and the bounds of the others.

    Raises
    ------
    InvalidInput : a bad argument, or a solution that is not certified.
    SolveFailed : the step has no certified answer, perhaps with a proof of infeasibility, or the
        time limit was reached before the rank.
    Unsupported : a network too large and too ill-conditioned for its rank; a step with friction
        without a law.

    Notes
    -----
    The nullity is the dimension of null(Bᵀ), Olsen & Kamrin (2018), section 4; with friction, of
    the self-balanced forces on the faces of the cones. Bounds are linear programs if all faces are
    rays or plane cones, otherwise cone programs, certified by their duals to 1e-8 and 1e-6 of the
    largest force. The load F̃ is that of the solution, so that errors of the solution enter the
    bounds.

    >>> import cdopt
    >>> report = cdopt.indeterminacy(cdopt.bank.load("beam-uniform").step)
    >>> report.nullity, report.lower.round(6), report.upper.round(6)
    (1, array([0., 0., 0.]), array([ 5., 10.,  5.]))
    """
    checks.instance("step", step, Step)
    if law is not None:
        checks.choice("law", law, LAWS)
    elif step.friction is not None and np.any(step.friction.mu > 0.0):
        instead = ('law="coulomb"', "step.without_friction() to ignore it")
        raise Unsupported("indeterminacy without law", "the step has friction", instead)
    tol, jobs = (
        checks.scalar("tol", tol, above=0.0, at_most=1e-3),
        checks.whole("jobs", jobs, 1, 1024),
    )
    closed_tol = checks.optional(checks.tolerance, "closed_tol", closed_tol)
    deadline = Deadline.after(checks.optional(checks.not_negative, "time_limit", time_limit))
    matrices = stated_quantities(quantities, step, law is not None)
    times = [clock()]
    admissible = admissible_forces(step, law, solution, closed_tol, tol, deadline)
    times.append(clock())
    parts = parts_of(admissible)
    less = reduce(parts, tol)
    times.append(clock())
    nc, d = admissible.force.shape
    loose = _looseness(less, nc, d)
    asked = _asked(contacts, loose > STIFF)
    determined = _determined(less, nc * d)
    rows = (asked[:, None] * d + np.arange(d)).ravel()
    C = frozen_rows(np.ones(rows.size), rows, np.arange(rows.size + 1), (rows.size, nc * d))
    with progress_bar(progress, "forces bounded") as update:
        bounds = bounds_of(less.free, C, determined, jobs, update, deadline)
    reactions = None
    if admissible.joints is not None:
        reactions = JointReactions.of(admissible.joints, admissible.solution, d)

    def bounded(name: str, rows: sp.csr_array) -> Quantity:
        """The bounds of a quantity."""
        own, constant, endless = rows, np.zeros(rows.shape[0]), np.zeros(rows.shape[0], bool)
        if reactions is not None and rows.shape[1] > nc * d:
            own, constant, endless = reactions.on_contacts(rows)
        ends = bounds_of(less.free, own, determined, jobs, lambda *_: None, deadline, True)
        return Quantity.of(name, rows, ends, NARROW, constant, endless)

    named = {name: bounded(name, rows) for name, rows in matrices.items()}
    of_joints, idle = None, 0
    ties = admissible.coordinates[2].shape[0]  # which count in the rank of coordinates
    if reactions is not None:
        many, idle = reactions.count, reactions.idle.shape[1]
        alone = sp.hstack([sp.csr_array((many, nc * d)), sp.eye_array(many)])
        of_joints = bounded("joints", sp.csr_array(alone))
    times.append(clock())
    return Indeterminacy(
        step=step,
        law=law,
        solution=admissible.solution,
        faces=admissible.faces,
        rank=less.rank - ties + (0 if reactions is None else reactions.rank),
        nullity=less.nullity + idle,
        dimension=less.dimension + idle,
        reduced=_status(less, nc, d),
        looseness=loose,
        rank_tol=tol,
        rays=bounds.rays,
        failures={int(asked[q // d]): why for q, why in bounds.failures.items()},
        quantities=named,
        programs=bounds.programs,
        tol=tol,
        contacts=asked,
        floor=admissible.floor,
        uncertain=admissible.uncertain,
        parts=tuple(parts),
        free=less.free,
        determined=determined,
        joints=of_joints,
        reactions=reactions,
        seconds=dict(zip(_STAGES, np.diff(times).tolist(), strict=True)),
        **_forces(less.free, determined, bounds, asked, (nc, d), admissible.uncertain),
    )


def resting_inside(step: Step, law: str, solution: StepSolution, tol: float) -> BoolArray:
    """(nc,) contacts that rest inside their cone, their forces undetermined, in some answer."""
    admissible = admissible_forces(step, law, solution, None, tol, Deadline.after(None))
    less, (nc, d) = reduce(parts_of(admissible), tol), admissible.force.shape
    return (_status(less, nc, d) == RESTING) & (_looseness(less, nc, d) > STIFF)


def _forces(
    free: Sequence[FreeNetwork],
    determined: FloatArray,
    bounds: Bounds,
    asked: IntArray,
    shape: tuple[int, int],
    uncertain: FloatArray,
) -> dict[str, Any]:
    """Admissible forces, and the requested bounds, wider by what is ``uncertain`` (nc,)."""
    force, moves = determined.copy(), np.zeros(determined.size, dtype=bool)
    for network in free:
        force += network.forces(network.force)
        moves |= np.diff(network.G.indptr) > 0
    sides = {"force": force}
    for name in ("lower", "upper"):
        sides[name] = np.where(moves, np.nan, determined)
        sides[name].reshape(shape)[asked] = getattr(bounds, name).reshape(-1, shape[1])
    sides["lower"] = sides["lower"] - np.repeat(uncertain, shape[1])
    sides["upper"] = sides["upper"] + np.repeat(uncertain, shape[1])
    blurred = (uncertain > 0.0) & (sides["lower"][:: shape[1]] < 0.0)
    sides["lower"][:: shape[1]][blurred] = 0.0  # no normal force pulls
    result: dict[str, Any] = {}
    for name, rows in sides.items():
        table = rows.reshape(shape)
        result[name] = read_only(table[:, 0].copy())
        result[f"{name}_t"] = read_only(table[:, 1:].copy()) if shape[1] > 1 else None
    for name in ("residual", "load_sensitivity"):
        rows = np.zeros(shape)
        rows[asked] = getattr(bounds, name).reshape(-1, shape[1])
        result[name] = read_only(rows.ravel())
    return result


def _looseness(less: Reduced, nc: int, d: int) -> FloatArray:
    """(nc,) of the loosest coordinate of each contact."""
    loose = np.zeros(nc)
    for part, moves in zip(less.parts, less.loose, strict=True):
        np.maximum.at(loose, contacts_of(part.G, d), moves)
    return read_only(loose)


def _status(less: Reduced, nc: int, d: int) -> IntArray:
    """(nc,) OPEN without coordinates, RESTING with as many as components, else SLIDING."""
    many = np.zeros(nc, dtype=np.int64)
    for part in less.parts:
        np.add.at(many, contacts_of(part.G, d), 1)
    status = np.where(many == 0, OPEN, np.where((many >= d) & (d > 1), RESTING, SLIDING))
    return read_only(status)


def _determined(less: Reduced, rows: int) -> FloatArray:
    """(rows,) N, forces of the coordinates that belong to no free network."""
    most = max((int(part.index.max(initial=-1)) for part in less.parts), default=-1)
    moves, forces = np.zeros(most + 1, dtype=bool), np.zeros(rows)
    for network in less.free:
        moves[network.index] = True
    for part in less.parts:
        forces += times(part.G, np.where(moves[part.index], 0.0, part.z))
    return forces


def _asked(contacts: Any, free: Any) -> IntArray:
    """The contacts with requested bounds, ascending."""
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
