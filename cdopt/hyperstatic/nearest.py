"""The nearest admissible forces to those in question, and those that elastic contacts would carry.

Both are forces of an elastic network on the faces of the cones at the motion: with equal springs
and the forces in question as trial forces, min ‖f − f′‖ over A(v⁺); and with the springs of the
step from no forces.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, freeze, read_only
from cdopt._util.cone_program import ConeProgram
from cdopt._util.errors import SolveFailed
from cdopt.formulations import ClassicCD, FrictionalCD, NoTensionTruss
from cdopt.formulations.faces import Faces
from cdopt.formulations.friction_network import FrictionNetwork, faces_of
from cdopt.formulations.rolling_faces import RollingFaces
from cdopt.hyperstatic.admissible import coordinates
from cdopt.problem.cones import OPEN
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_problem import ContactProblem
from cdopt.problem.scales import step_scales
from cdopt.problem.scaling import column_scale
from cdopt.problem.solution import StepSolution
from cdopt.problem.step_problems import truss_data

_DELIVERED = 1e-6  # of the largest local load: what nearest forces may miss
_SAME = 10.0  # residuals of an answer up to which its rates are zero
_LEAST = 1e-7  # share of local speeds below which rates of a reference are zero, at least
_LARGE = 5000  # contacts with friction up to which compatible forces are computed
_LARGEST = 20_000  # and up to which the nearest admissible forces are searched


class AtMotion(NamedTuple):
    """Data of a given motion: faces of the cones, load F̃ (nv,) N, and local loads (nc,) N."""

    faces: Faces
    load: FloatArray
    local_load: FloatArray

    @staticmethod
    def of(
        problem: ClassicCD | FrictionalCD,
        motion: FloatArray,
        solution: StepSolution | None,
        faces: Faces | None,
        tol: float,
    ) -> AtMotion:
        """From given ``faces``, from a certified solution, or from a motion (nv,) alone."""
        data, known = problem.data, np.zeros(problem.data.rows)
        if faces is not None:
            known, load = faces.forces.ravel(), faces.load
        elif solution is not None and solution.iterate and solution.certificate:
            known = solution.iterate.forces
            faces = faces_of(data, motion, known, max(_LEAST, _SAME * solution.certificate.worst))
            load = faces.load
        else:
            faces = faces_of(data, motion, known, max(_LEAST, tol))
            change = motion - data.free_motion
            load = data.inertia.times(change) / data.dt if data.inertia else faces.load
            load = np.where(np.bincount(data.B.indices, minlength=load.size) > 0, load, 0.0)
        local_load = step_scales(data).acting_force(data.scales.local(motion, known))
        return AtMotion(faces, load, local_load)


class Nearest(NamedTuple):
    """The nearest admissible forces (nc, d) and the compatible ones, N; None where not found.

    ``distance`` (nc,) N is how far the forces are, and ``beyond`` how far outside their faces.
    """

    nearest: FloatArray | None
    compatible: FloatArray | None
    distance: FloatArray
    beyond: FloatArray
    failure: str = ""


def nearest_forces(
    problem: ClassicCD | FrictionalCD, at: AtMotion, forces: FloatArray, allowed: FloatArray | None
) -> Nearest:
    """The nearest admissible forces to ``forces`` (nc, d), and the compatible ones.

    ``allowed`` (nc,) N is how far forces that balance the load may lie outside their faces; None if
    they do not balance. Within it, where the nearest forces for F̃ itself are farther than allowed
    (nearly redundant contacts), the projections on the faces are returned: they balance Bᵀ times
    themselves instead of F̃. Large networks with friction return projections without a search and
    no compatible forces; the largest are not searched at all.
    """
    data, step, faces, load = problem.data, problem.step, at.faces, at.load
    projected = faces.nearest(data.cones, forces)  # each contact by itself
    beyond = _apart(data, forces, projected)
    fits = allowed is not None and bool((beyond <= allowed).all())
    large = data.d > 1 and data.nc > _LARGE
    if large and fits:
        return Nearest(projected, None, beyond, beyond)
    unknown = np.full(data.nc, np.nan)
    if large and data.nc > _LARGEST:
        why = f"networks of more than {_LARGEST:,} contacts with friction are not searched"
        return Nearest(None, None, unknown, beyond, why)
    nearest, why, far = None, "", unknown
    try:
        nearest = _searched(data, faces, load, forces)
        far = _apart(data, forces, nearest)
    except SolveFailed as error:
        why = f"no forces have this motion: {error}"
    if fits and not (far <= allowed).all():
        nearest, far, why, load = projected, beyond, "", data.load(projected.ravel())
    compatible: FloatArray | None = None
    if nearest is not None and not large and not isinstance(faces, RollingFaces):
        ratio = 1.0 if step.friction is None else step.friction.stiffness_ratio
        springs = step.stiffness, ratio, step.power
        with contextlib.suppress(SolveFailed):
            compatible = _on_faces(data, faces, load, np.zeros_like(forces), *springs)
    return Nearest(nearest, compatible, far, beyond, why)


def _apart(data: ContactProblem, one: FloatArray, other: FloatArray) -> FloatArray:
    """(nc,) N between forces (nc, d); moments count over the arms of contacts."""
    arm = np.broadcast_to(np.asarray(data.scales.lever), (data.rows,)).reshape(one.shape)
    return np.linalg.norm((one - other) / arm, axis=1)


def _searched(
    data: ContactProblem, faces: Faces, load: FloatArray, forces: FloatArray
) -> FloatArray:
    """(nc, d) N, the nearest forces on the faces that deliver the load."""
    if isinstance(faces, RollingFaces):
        return _with_moments(data, faces, load, forces)
    return _on_faces(data, faces, load, forces, np.ones(data.nc), 1.0, HOOKE)


def _with_moments(
    data: ContactProblem, faces: RollingFaces, load: FloatArray, forces: FloatArray
) -> FloatArray:
    """Nearest forces of contacts with moments, by a cone program; moments over arms of contacts.

    In coordinates z of the faces, f = G z, it is min t with ‖G z − forces‖ ≤ t. Elastic contacts
    with moments are not known.
    """
    G, sizes, ties = coordinates(faces)
    arm = np.broadcast_to(np.asarray(data.scales.lever), (data.rows,))
    lever = column_scale(data.B)
    used = np.flatnonzero(lever > 0.0)
    unit = float(np.abs(load[used] / lever[used]).max(initial=0.0)) or 1.0
    balance = sp.csr_array(sp.csr_array(data.B[:, used] * (1.0 / lever[used])[None, :]).T @ G)
    n, zero = G.shape[1], np.zeros(ties.shape[0])
    equal = sp.hstack([sp.vstack([balance, ties]), sp.csr_array((used.size + zero.size, 1))])
    even = sp.csr_array(sp.diags_array(1.0 / arm) @ G)
    last = sp.csr_array(([1.0], ([0], [n])), shape=(1, n + 1))
    rows = sp.vstack(
        [
            sp.eye_array(n, n + 1, format="csr"),
            last,
            sp.hstack([even, sp.csr_array((data.rows, 1))]),
        ]
    )
    shift = np.concatenate([np.zeros(n + 1), -forces.ravel() / arm / unit])
    right = np.append(load[used] / lever[used] / unit, zero)
    cost = np.append(np.zeros(n), 1.0)
    program = ConeProgram(cost, equal, right, rows, shift, [*sizes.tolist(), 1 + data.rows])
    answer = program.solve()
    missed = equal @ answer.x - right
    if not answer.useful or np.abs(missed).max(initial=0.0) > _DELIVERED:
        message = "the network of closed contacts with moments is not certified"
        raise SolveFailed(message, backend="clarabel", status=answer.status, problem=data)
    return data.cones.table(unit * (G @ answer.x[:n]))


def _on_faces(
    data: ContactProblem,
    faces: Faces,
    load: FloatArray,
    trial: FloatArray,
    stiffness: FloatArray,
    ratio: Any,
    power: float,
) -> FloatArray:
    """(nc, d) N, of elastic contacts on the faces, which start from ``trial`` forces (nc, d), N."""
    B, label = data.B, data.bodies
    if data.d > 1:
        normal = np.arange(data.rows) % data.d == 0
        sides = sp.csr_array(B[normal]), sp.csr_array(B[~normal])
        springs = stiffness, ratio, faces, trial, "associated"
        network = FrictionNetwork(*sides, load, faces.mu, *springs, dof_body=label).solve()
        return np.column_stack([network.f, network.f_t])
    closed = np.flatnonzero(faces.status != OPEN)
    law = PowerLaw(read_only(stiffness[closed]), power)
    gaps = read_only(-law.overlap(trial[closed, 0]))
    truss = truss_data(freeze(sp.csr_array(B[closed])), load, law, gaps, dof_body=label)
    solution = NoTensionTruss.of(truss, "potential").solve("newton")
    if solution.f is None or not solution.ok:
        message = "the network of closed contacts is not certified"
        raise SolveFailed(message, backend=solution.backend, status=solution.status, problem=truss)
    forces = np.zeros((data.nc, 1))
    forces[closed, 0] = solution.f
    return forces
