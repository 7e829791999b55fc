"""The faces of the friction cones that a motion leaves to the forces.

A step with friction determines the motion v⁺ and the load F̃ = Bᵀf, but rarely the forces. Given
the contact rates g of v⁺, under either law, the forces that have it are a convex set:

    A(v⁺) = {Bᵀf = F̃;  f ∈ K_μ at rest;  f = α (1, −μ g_T/‖g_T‖), α ≥ 0, sliding;  f = 0 open}

Without the faces, Bᵀf = F̃ alone would load open contacts and turn friction against sliding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.formulations.frictional_cd import FrictionalCD
from cdopt.problem import FrictionalData
from cdopt.problem import friction_cone as cone
from cdopt.problem.solution import StepSolution

OPEN, SLIDING, RESTING = 0, 1, 2
_LEAST, _FACTOR = 1e-7, 10.0  # rates are zero within this, or so many residuals, of what acts


@dataclass(frozen=True, eq=False)
class Faces(Frozen):
    """Which forces each contact may carry.

    Attributes
    ----------
    status : (nc,) OPEN 0, SLIDING 1 or RESTING 2.
    ray : (nc, d) the force of a sliding contact per unit of its normal force, (1, −μ g_T/‖g_T‖);
        (1, 0) where μ = 0; zero at the others.
    mu : (nc,) friction coefficients.
    forces : (nc, d) N, the nearest forces on the faces to those of the answer.
    load : F̃ (nv,) = Bᵀ forces, or N forces in m/s with N alone.
    projected : size of what the faces left out of Bᵀf, relative to the largest |B|ᵀ|f|.
    tol : share of the speed of what acts at a contact below which its rates are zero.
    """

    status: IntArray
    ray: FloatArray
    mu: FloatArray
    forces: FloatArray
    load: FloatArray
    projected: float
    tol: float

    @property
    def generators(self) -> sp.csr_array:
        """G (nc d, columns): forces are G z, a column for a sliding contact and d for a resting."""
        nc, d = self.ray.shape
        width = np.where(self.status == RESTING, d, np.where(self.status == SLIDING, 1, 0))
        first = np.cumsum(width) - width
        slides, rests = (np.flatnonzero(self.status == s) for s in (SLIDING, RESTING))
        rows = np.concatenate([_rows(slides, d), _rows(rests, d)])
        columns = np.concatenate([np.repeat(first[slides], d), _rows(rests, d, first)])
        values = np.concatenate([self.ray[slides].ravel(), np.ones(rests.size * d)])
        return sp.csr_array((values, (rows, columns)), shape=(nc * d, int(width.sum())))


def _rows(contacts: IntArray, d: int, first: IntArray | None = None) -> IntArray:
    start = contacts * d if first is None else first[contacts]
    return np.asarray((start[:, None] + np.arange(d)).ravel(), dtype=np.int64)


def faces_of(data: FrictionalData, motion: FloatArray | None, f: FloatArray, tol: float) -> Faces:
    """Faces of an answer v⁺ (nv,) and f (nc d,); rates within ``tol`` of what acts are zero.

    A contact whose force is inside its cone, by more than the tolerance, rests whatever its rate;
    one that carries force is not open. So the load stays within reach of the faces.
    """
    mu, w = data.friction.mu, data.mobility[:: data.d]
    exchange = data.exchange(motion, f)
    rows = data.gap(motion, f)
    forces, rates = data.table(f), data.table(rows)
    small = tol * data.table(exchange.speed).max(axis=1, initial=0.0)
    small += np.linalg.norm(data.table(exchange.gap_round_off), axis=1)
    inside = w * (mu * forces[:, 0] - np.linalg.norm(forces[:, 1:], axis=1)) > small
    closed = (data.normal(rows)[:: data.d] <= small) | (w * forces[:, 0] > small)
    speed = np.linalg.norm(rates[:, 1:], axis=1)
    slides = closed & (((speed > small) & ~inside) | (mu == 0.0))
    status = np.where(slides, SLIDING, np.where(closed, RESTING, OPEN))
    ray = np.zeros_like(rates)
    ray[slides, 0] = 1.0
    moving = slides & (speed > small)
    ray[moving, 1:] = -(mu[moving] / speed[moving])[:, None] * rates[moving, 1:]
    nearest = np.where(status[:, None] == RESTING, cone.project(forces, mu), 0.0)
    along = np.sum(forces * ray, axis=1) / np.maximum(np.sum(ray**2, axis=1), 1.0)
    nearest[slides] = (np.maximum(along, 0.0)[:, None] * ray)[slides]
    missed = data.products @ (nearest.ravel() - f)
    size = float((abs(data.products) @ np.abs(f)).max(initial=0.0)) or 1.0
    load = data.products @ nearest.ravel()
    projected = float(np.abs(missed).max(initial=0.0)) / size
    return Faces(status, ray, mu, nearest, load, projected, tol)


def solved_faces(
    problem: FrictionalCD,
    solution: str | Backend | StepSolution | None,
    tol: float | None = None,
    time_limit: float | None = None,
) -> tuple[StepSolution, Faces]:
    """A certified answer to a step with friction, and its faces.

    Parameters
    ----------
    solution : of this step, or the backend that finds one; default newton.
    tol : as in ``faces_of``; by default ten times the worst residual, at least 1e-7.
    time_limit : seconds for the backend; None for none.

    Raises
    ------
    InvalidInput : a solution that is not certified, or of other contacts.
    SolveFailed : the backend found no certified answer.
    """
    if isinstance(solution, StepSolution):
        if not solution.ok or solution.iterate is None or solution.f_t is None:
            raise InvalidInput("solution", repr(solution), "a certified solution with friction")
        answer = solution
    else:
        answer = problem.solve(solution or "newton", time_limit=time_limit)
        if not answer.ok or answer.iterate is None:
            raise SolveFailed(
                f"the step with friction is not certified: {answer.certificate}",
                backend=answer.backend,
                status=answer.status,
                problem=problem.data,
            )
    iterate, certificate = answer.iterate, answer.certificate
    if iterate is None or iterate.forces.size != problem.data.nc:
        raise InvalidInput("solution", "forces of other contacts", "a solution of this step")
    worst = 0.0 if certificate is None else certificate.worst
    share = max(_LEAST, _FACTOR * worst) if tol is None else tol
    return answer, faces_of(problem.data, iterate.motion, iterate.forces, share)
