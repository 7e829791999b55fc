"""The admissible forces of a step: faces of its cones at the motion, and their coordinates.

Given the motion v⁺, the forces that have it are a convex set,

    A(v⁺) = {Bᵀf = F̃;  f in the cone at rest;  f = α r, α ≥ 0, sliding;  f = 0 open}

A contact without friction is a half-line. In coordinates, f = G z with z in half-lines and Lorentz
cones: one coordinate for a half-line and for a ray. A cone in the plane has two, its edges; in
space it is a Lorentz cone of three. Where there is none of these the set is a polyhedron. The rest
of this package uses only G, the balance of z, and the sizes of the cones.

Only this module reads the data of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, freeze
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.frozen import Frozen, frozen_rows, transposed
from cdopt.backends.base import Backend
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.formulations import CompatibleCD, FrictionalCD, NoTensionTruss
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.formulations.faces import Faces
from cdopt.formulations.friction_network import solved_faces
from cdopt.formulations.rolling_faces import RollingFaces
from cdopt.hyperstatic.network import equilibrated
from cdopt.problem import ContactProblem
from cdopt.problem.active_set import delivering
from cdopt.problem.cones import OPEN, RESTING, SLIDING
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.joint_elimination import Eliminated
from cdopt.problem.scales import step_scales
from cdopt.problem.scaling import (
    by_label,
    chosen_columns,
    chosen_rows,
    network_parts,
    product,
    rows_of,
    total_by,
    transposed_times,
    used_columns,
)
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step

_BLUR = 10.0  # forces below this many residuals of the answer may be zero
_DELIVERED = 1e-8  # share of the local load of a dof that forces may miss there, to be of use
_NOISE = 1e9  # errors of the classic answer, below which it cannot measure local loads
_KNOWN = 1e-6  # of the local load: forces uncertain by less are known
_SOLVER = "auto"  # Newton's method; with friction several methods in turn


@dataclass(frozen=True, eq=False)
class Admissible(Frozen):
    """Data of the set of admissible forces; rows are the components of forces."""

    step: Step
    law: str | None  # of its friction, "coulomb" or "associated"; None without friction
    solution: StepSolution  # the certified answer whose motion fixes the faces
    faces: Faces  # which forces each contact may carry, and the load F̃
    # (nc, d) N, admissible: as many contacts as can be are loaded, as far as is known
    force: FloatArray
    balance: sp.csr_array  # (nc d, m) whose transpose maps forces to loads, in some units
    local_load: FloatArray  # (nc,) N, the local load of each contact, or the largest force of all
    floor: FloatArray  # (nc,) N, below which a force is zero
    joints: Eliminated | None  # eliminated from the step; None without any
    # (nc,) N, what errors of the answer may do to the forces that are determined; zero where that
    # is a small share of the local load, or not known
    uncertain: FloatArray

    @cached_property
    def coordinates(self) -> tuple[sp.csr_array, IntArray, sp.csr_array]:
        """The coordinates of its forces, as of the function of this name."""
        return coordinates(self.faces)


@dataclass(frozen=True, eq=False)
class ForcePart(Frozen):
    """An independent part of the admissible forces, in n coordinates z."""

    index: IntArray  # (n,) which of the coordinates of all closed contacts
    G: sp.csr_array  # (nc d, n) forces are G z
    sizes: IntArray  # (cones,) of the cones that z is in, in turn: 1 for a half-line
    # (n, m) balance, equilibrated: columns in units of their levers, rows of unit length
    B: sp.csr_array
    # (n,) what the rows were divided by; an entry of null(Bᵀ) over it is a change of z
    length: FloatArray
    z: FloatArray  # (n,) N, admissible
    # local_load, floor: (n,) N, as in ``Admissible``
    local_load: FloatArray
    floor: FloatArray

    @property
    def polyhedral(self) -> bool:
        """Whether all cones are half-lines."""
        return bool((self.sizes == 1).all())

    def select(self, rows: IntArray) -> ForcePart:
        """The coordinates ``rows`` of a polyhedral part alone."""
        return ForcePart(
            self.index[rows],
            sp.csr_array(self.G[:, rows]),
            self.sizes[rows],
            freeze(sp.csr_array(self.B[rows])),
            self.length[rows],
            self.z[rows],
            self.local_load[rows],
            self.floor[rows],
        )

    def mapped(self, E: sp.csr_array, sizes: IntArray, z: FloatArray) -> list[ForcePart]:
        """The parts of Eᵀy: other coordinates y, ``z`` at present, in cones of ``sizes``."""
        gradient = sp.csr_array(E @ sp.csr_array(self.B * self.length[:, None]))
        first = E.indices[E.indptr[:-1]]
        own = self.index[first], z, self.local_load[first], self.floor[first]
        return _split(sp.csr_array(self.G @ E.T), sizes, gradient, *own)


# --- coordinates ---------------------------------------------------------------------------


def parts_of(admissible: Admissible) -> list[ForcePart]:
    """The independent parts of a set, before any reduction."""
    G, sizes, ties = admissible.coordinates
    d = admissible.faces.ray.shape[1]
    contact = contacts_of(G, d)
    gradient = product(transposed(G), admissible.balance)
    if ties.shape[0]:
        gradient = sp.csr_array(sp.hstack([gradient, ties.T]))
    z = coordinates_of(G, admissible.force.ravel(), ties)
    floor, local_load = admissible.floor[contact], admissible.local_load[contact]
    z = np.where((z > floor) | (np.repeat(sizes, sizes) > 1), z, 0.0)
    return _split(G, sizes, gradient, np.arange(z.size), z, local_load, floor)


def coordinates(faces: Faces) -> tuple[sp.csr_array, IntArray, sp.csr_array]:
    """G (nc d, n), the sizes of the cones that coordinates are in, and T (t, n) with T z = 0."""
    if isinstance(faces, RollingFaces):
        return _with_moments(faces)
    nc, d = faces.ray.shape
    rests, slides = faces.status == RESTING, faces.status == SLIDING
    blocks = np.zeros((nc, d, d))
    blocks[slides, :, 0] = faces.ray[slides]
    blocks[rests] = np.eye(d)
    many = np.where(rests, d, np.where(slides, 1, 0))
    if d == 2:  # a cone is spanned by its edges
        blocks[rests, 0], blocks[rests, 1] = 1.0, faces.mu[rests, None] * [1.0, -1.0]
        sizes = np.ones(int(many.sum()), dtype=np.int64)
    else:
        blocks[rests, 1:] *= faces.mu[rests, None, None]
        sizes = many[many > 0]
    place = np.cumsum(many) - many
    contact, row, column = np.nonzero(blocks)
    entries = blocks[contact, row, column], (contact * d + row, place[contact] + column)
    value, (row, column) = entries  # in the order of rows
    ends, shape = np.searchsorted(row, np.arange(nc * d + 1)), (nc * d, int(many.sum()))
    none = frozen_rows(np.zeros(0), np.zeros(0, np.int64), np.zeros(1, np.int64), (0, shape[1]))
    return frozen_rows(value, column, ends, shape), sizes, none


def _with_moments(faces: RollingFaces) -> tuple[sp.csr_array, IntArray, sp.csr_array]:
    """Coordinates of contacts with moments: a cone for each free group of rows.

    Each has its copy of the normal force, whose mean the normal force is; T z = 0 makes them equal.
    Groups of one row each, as in the plane, are spanned by their edges.
    """
    nc, d = faces.ray.shape
    flat, groups, columns, sizes, ties = max(faces.widths) == 1, faces.groups, [], list[int](), []
    for i in np.flatnonzero(faces.status != OPEN).tolist():
        free = np.flatnonzero(faces.free[i]).tolist()
        heads = []
        along = faces.ray[i] / max(len(free), 1)
        if not free:
            columns.append((i, along))
            sizes.append(1)
        for k in free:
            rows = np.arange(groups[k].start, groups[k].stop)
            limit = faces.limits[i, rows - 1]
            own = [limit[j] * np.eye(d)[rows[j]] for j in np.flatnonzero(limit).tolist()]
            first = len(columns)
            if flat:
                columns += [(i, along + own[0]), (i, along - own[0])]
                sizes += [1, 1]
                heads.append([first, first + 1])
            else:
                columns += [(i, along), *((i, one) for one in own)]
                sizes.append(1 + len(own))
                heads.append([first])
        ties += [(heads[0], other) for other in heads[1:]]
    row = [i * d + np.flatnonzero(c) for i, c in columns]
    column = [np.full(r.size, k) for k, r in enumerate(row)]
    value = [c[np.flatnonzero(c)] for _, c in columns]
    joined = [np.concatenate([np.zeros(0, kind), *x]) for x, kind in ((row, int), (column, int))]
    values = np.concatenate([np.zeros(0), *value])
    G = sp.csr_array((values, tuple(joined)), shape=(nc * d, len(columns)))
    T = sp.lil_array((len(ties), len(columns)))
    for t, (one, other) in enumerate(ties):
        T[t, one], T[t, other] = 1.0, -1.0
    return G, np.array(sizes, dtype=np.int64), sp.csr_array(T)


def contacts_of(G: sp.csr_array, d: int) -> IntArray:
    """(n,) the contact of each coordinate."""
    contact = np.zeros(G.shape[1], dtype=np.int64)
    contact[G.indices] = rows_of(G) // d
    return contact


def coordinates_of(
    G: sp.csr_array, forces: FloatArray, ties: sp.csr_array | None = None
) -> FloatArray:
    """z (n, …) with G z nearest to forces (nc d, …), and ``ties`` (t, n) at zero."""
    if ties is not None and ties.shape[0]:
        both = sp.csc_array(sp.vstack([G, ties]))
        return np.asarray(splu(sp.csc_array(both.T @ both)).solve(np.asarray(G.T @ forces)))
    right = transposed_times(G, forces) if forces.ndim == 1 else np.asarray(G.T @ forces)
    if np.diff(G.indptr).max(initial=0) <= 1:  # no two coordinates share a row
        return np.asarray((right.T / total_by(G.indices, G.data**2, G.shape[1])).T)
    return np.asarray(splu(sp.csc_array(G.T @ G)).solve(right))


def _split(
    G: sp.csr_array,
    sizes: IntArray,
    gradient: sp.csr_array,
    index: IntArray,
    z: FloatArray,
    local_load: FloatArray,
    floor: FloatArray,
) -> list[ForcePart]:
    """The independent parts of coordinates with this ``gradient`` (n, m) of the balance."""
    cone, of_cone = np.repeat(np.arange(sizes.size), sizes), gradient
    if sizes.size < z.size:  # the coordinates of a cone belong together
        tied = sp.csr_array((np.ones(z.size), (cone, np.arange(z.size))), (sizes.size, z.size))
        of_cone = sp.csr_array(tied @ abs(gradient))
    label = network_parts(of_cone).contact
    count = int(label.max(initial=-1)) + 1
    columns, result = G if count == 1 else sp.csc_array(G), []
    for rows, cones in zip(by_label(label[cone], count), by_label(label, count), strict=True):
        B, length = equilibrated(used_columns(chosen_rows(gradient, rows)))
        part = ForcePart._of(
            index=index[rows],
            G=chosen_columns(columns, rows),
            sizes=sizes[cones],
            B=freeze(B),
            length=length,
            z=z[rows],
            local_load=local_load[rows],
            floor=floor[rows],
        )
        result.append(part)
    return result


# --- reading a step --------------------------------------------------------------------------


def admissible_forces(
    step: Step,
    law: str | None,
    solution: str | Backend | StepSolution | None,
    closed_tol: float | None,
    tol: float,
    deadline: Deadline,
) -> Admissible:
    """The admissible forces of a step, with a law of friction or None, from a ``solution``.

    A certified answer, or the backend that computes one; tolerances as of ``indeterminacy``.
    """
    if law is not None:
        return _with_friction(step, law, solution, closed_tol, tol, deadline)
    problem = CompatibleCD(step, closed_tol=closed_tol)
    first = _certified(problem, solution, deadline)
    closed = problem.network(first)
    truss = problem.truss(closed)
    forces = _compatible(problem, truss, first, closed, deadline)
    return _without_friction(problem, truss.data, first, closed, forces, tol)


def _with_friction(
    step: Step,
    law: str,
    solution: str | Backend | StepSolution | None,
    closed_tol: float | None,
    tol: float,
    deadline: Deadline,
) -> Admissible:
    problem = FrictionalCD(step, law)
    answer, faces = solved_faces(problem, solution, closed_tol, deadline.time_limit)
    data, iterate = problem.data, answer.iterate
    balance = sp.csr_array(data.products.T)
    largest = float(np.linalg.norm(faces.forces, axis=1).max(initial=0.0)) or 1.0
    local_load = np.full(step.nc, largest)
    if iterate is not None:
        local = data.scales.local(iterate.motion, iterate.forces)
        here = step_scales(data).acting_force(local)
        local_load = np.where(here > 0.0, np.minimum(here, largest), largest)
    worst = answer.certificate.worst if answer.certificate else 0.0
    floor = max(tol, _BLUR * worst) * local_load
    magnified = np.where(faces.uncertain > _KNOWN * local_load, faces.uncertain, 0.0)
    of_step = problem.joints, magnified
    return Admissible(step, law, answer, faces, faces.forces, balance, local_load, floor, *of_step)


def _certified(
    problem: CompatibleCD, solution: str | Backend | StepSolution | None, deadline: Deadline
) -> StepSolution:
    """A classic solution whose certificate holds."""
    if isinstance(solution, StepSolution):
        first = problem.certified_here(solution.classic or solution)
    else:
        first = problem.classic_cd.solve(solution or _SOLVER, time_limit=deadline.time_limit)
    if first.ok:
        return first
    worst = first.certificate.shown if first.certificate else "nan"
    outcome = f"{first.backend} left a residual of {worst}, {first.status}"
    if isinstance(solution, StepSolution):
        raise InvalidInput("solution", outcome, "a certified classic solution of this step")
    message = f"the classic step is not certified: {outcome}; its admissible forces are not known"
    data, backend = problem.classic_cd.data, first.backend
    raise SolveFailed(message, backend=backend, status=first.status, problem=data, raw=first.raw)


def _compatible(
    problem: CompatibleCD,
    truss: NoTensionTruss,
    first: StepSolution,
    network: ClosedNetwork,
    deadline: Deadline,
) -> FloatArray:
    """Compatible forces (nc,) where they are certified and deliver F̃; else the classic ones.

    Compatible forces load as many contacts as can be, so that less is left to linear programs. They
    must deliver F̃ on every dof by its local load: contact forces, its load and its
    momentum over Δt, at least ``_NOISE`` times its imbalance. Next to a body 1e8 times as heavy,
    forces right to 1e-13 of its weight are not enough.
    """
    compatible = truss.solve(_SOLVER, time_limit=deadline.time_limit)
    if deadline.passed:
        raise SolveFailed(
            "time limit: it passed before the rank of the network; the classic forces are in raw",
            backend=first.backend,
            status=TIME_LIMIT,
            problem=problem.classic_cd.data,
            raw=first,
        )
    step, f, after = problem.step, first.f, problem.classic_cd.motion_of(first)
    if not compatible.ok or compatible.f is None:
        return network.forces
    forces = np.zeros(step.nc)
    forces[network.contacts] = compatible.f
    if not isinstance(step, ContactStep) or f is None or after is None:
        return forces
    data, mass, v, load = problem.classic_cd.data, step.mass, step.v, step.F_ext
    local_load = data.load_size(f) + np.abs(load) + mass.times_size(v) / step.dt
    imbalance = mass.times(after - v) / step.dt - load - data.load(f)
    local_load = np.maximum(local_load, _NOISE * np.abs(imbalance))
    missed = np.abs(data.load(forces) - network.contact_load)
    if not np.all(missed <= _DELIVERED * local_load):
        return network.forces
    return delivering(data.B, forces, network.contact_load, data.cache)


def _without_friction(
    problem: CompatibleCD,
    truss: ContactProblem,
    first: StepSolution,
    network: ClosedNetwork,
    forces: FloatArray,
    tol: float,
) -> Admissible:
    """The half-lines of closed contacts, with unloaded ones that no motion opens or closes."""
    data, index, nc = problem.classic_cd.data, network.contacts, problem.step.nc
    largest = np.full(nc, np.inf)
    worst = first.certificate.worst if first.certificate else 0.0
    if index.size:
        largest[index] = truss.force
    gradient = truss.scales.B if index.size else sp.csr_array((0, 1))
    rows = data.B if data.N is None else data.N
    gap = np.full(nc, np.inf) if first.gap is None else first.gap
    stuck = np.flatnonzero((np.diff(rows.indptr) == 0) & (gap <= network.gap_tol))
    largest[stuck] = data.force[stuck]
    local = data.scales.local(problem.classic_cd.motion_of(first), np.asarray(first.f))
    local_load = step_scales(data).acting_force(local)
    unit = np.where(local_load > 0.0, np.minimum(local_load, largest), largest)
    uncertain = _BLUR * worst * np.minimum(local.speed / data.mobility, largest)
    floor = np.maximum(max(tol, _BLUR * worst) * unit, uncertain)
    status = np.full(nc, OPEN)
    status[index] = status[stuck] = SLIDING
    faces = Faces._of(
        status=status,
        ray=(status == SLIDING).astype(np.float64)[:, None],
        mu=np.zeros(nc),
        forces=network.forces[:, None],
        load=network.contact_load,
        projected=network.projected,
        tol=network.tol,
        uncertain=network.uncertain,
    )
    ends = gradient.indptr[np.searchsorted(index, np.arange(nc + 1))]
    shape = nc, gradient.shape[1]
    return Admissible._of(
        step=problem.step,
        law=None,
        solution=first,
        faces=faces,
        force=np.where(forces > floor, forces, 0.0)[:, None],
        balance=frozen_rows(gradient.data, gradient.indices, ends, shape),
        local_load=unit,
        floor=floor,
        joints=problem.joints,
        uncertain=np.where(network.uncertain > _KNOWN * unit, network.uncertain, 0.0),
    )
