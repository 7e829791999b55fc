"""Elastic contacts brought to rest, and how accurate their forces are.

Two errors separate a computed force from that of equilibrium. *Noise*: overlaps are small
differences of large numbers, and a stiff contact turns the last digit of a position into force.
*Unrest*: a simulation ends before it is quite at rest. Both are measured in the final state, so
that they can be told apart from the error of finite stiffness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import clock
from cdopt._util.frozen import Frozen
from cdopt.collision import Contacts, detect, external_forces, gap_gradient, move
from cdopt.dynamics import (
    Method,
    StepContext,
    VariationalSteps,
    VelocityVerletSteps,
    equilibrium,
)
from cdopt.dynamics.configuration import elastic_forces, slope
from cdopt.scene import Scene, State

INTEGRATORS: dict[str, tuple[Method, float]] = {  # and steps in the time of a collision
    "variational": (VariationalSteps(), 16.0),
    "velocity-verlet": (VelocityVerletSteps(), 50.0),
}

ROUND_OFF, RESTLESS, FAILED, CLOSED = "round-off", "not at rest", "failed", "closed gaps"

SHARE = 1e-3  # of the error of finite stiffness: the unrest at which a run ends
_COLLISIONS = 8.0  # times of a collision between two checks of a run
_PATIENCE = 20  # checks in which unrest must halve, or the run has stalled
_STEP_NOISE = 10.0  # noise per step of a collision below which a stalled run is at round-off
_RIDGE = 1e-9  # of the stiffest degree of freedom, holds bodies that nothing else holds
_NEAR = 1e-2  # of the smallest half-width: an equilibrium further off is another one
_NEWTON = 30  # steps to it
_SHAKEN = 3  # states that measure the noise


class Point(NamedTuple):
    """Forces at one stiffness or compliance, compared with those of the limit.

    Attributes
    ----------
    forces : (nc,) N on the contacts of the limit; not-a-number where the method failed.
    error : ‖f − f_limit‖ / ‖f_limit‖ over the contacts of both.
    noise : relative change of the forces when positions change by one in their last digit.
    unrest : relative change of the forces when what is left out of balance is balanced.
    trouble : why it is not at rest, or not comparable with the limit; "" where neither.
    steps : time steps, passes or iterations. seconds : wall-clock time.
    """

    forces: FloatArray
    error: float = math.nan
    noise: float = math.nan
    unrest: float = math.nan
    trouble: str = ""
    steps: float = math.nan
    seconds: float = math.nan


@dataclass(frozen=True, eq=False)
class ReferenceForces(Frozen):
    """Forces that others are compared with, contact by contact.

    Attributes
    ----------
    contact_ids : (nc,) unique. forces : (nc,) N. gaps : (nc,) whether the contact is open.
    """

    contact_ids: IntArray
    forces: FloatArray
    gaps: BoolArray

    def matched(self, ids: IntArray, forces: FloatArray) -> tuple[FloatArray, float]:
        """Forces (n,) of contacts with other ids as (nc,), and the norm of those not found."""
        _, here, there = np.intersect1d(self.contact_ids, ids, return_indices=True)
        result = np.zeros(self.forces.size)
        result[here] = forces[there]
        return result, float(np.linalg.norm(np.delete(forces, there)))

    def distance(self, ids: IntArray, forces: FloatArray) -> float:
        """‖f_other − f‖ / ‖f‖ over all contacts of both."""
        matched, missing = self.matched(ids, forces)
        apart = float(np.linalg.norm(matched - self.forces))
        return math.hypot(apart, missing) / (float(np.linalg.norm(self.forces)) or 1.0)

    def closed_gaps(self, ids: IntArray, forces: FloatArray) -> int:
        """Number of contacts with force whose gap is open here, or that are not known here."""
        matched, _ = self.matched(ids, forces)
        unknown = np.count_nonzero(forces > 0.0) - np.count_nonzero(matched > 0.0)
        return int(unknown + np.count_nonzero(matched[self.gaps] > 0.0))


def equilibrium_at(scene: Scene, state: State, reference: ReferenceForces) -> Point:
    """The quasi-static equilibrium, by minimising energy.

    Raises
    ------
    SolveFailed : some body is not supported.
    """
    started = clock()
    answer = equilibrium(scene, state)
    seconds = clock() - started
    end = _Forces.at(scene, answer.state)
    return _point(end, end.response()[0], "", answer.passes, seconds, reference)


def integrated(
    scene: Scene, state: State, name: str, collision: float, reference: ReferenceForces, limit: int
) -> Point:
    """A method in time, from rest in ``state`` until unrest is a small share of the error.

    Parameters
    ----------
    scene : damped. name : of INTEGRATORS. collision : time of one, s.
    limit : steps at most.
    """
    method, parts = INTEGRATORS[name]
    stepper = method.start(StepContext(scene, collision / parts))
    now = State(0.0, state.q, scene.dofs.scatter(np.zeros(scene.dofs.nv), np.zeros_like(state.v)))
    started = clock()
    snapshot, trouble = stepper.begin(now).snapshot, ""
    unrests: list[float] = []
    while not trouble:
        taken = stepper.advance(snapshot, max(1, round(_COLLISIONS * parts)))
        snapshot, steps = taken.snapshot, taken.snapshot.step
        here = _Forces.at(scene, snapshot.state)
        noise = here.noise()
        unrests.append(max(here.response()[0], here.motion()))
        error = reference.distance(here.contacts.contact_ids, here.forces)
        if unrests[-1] <= max(SHARE * error, noise):
            break
        if taken.failure is not None:
            trouble = f"{FAILED}: {taken.failure.why}"
        elif steps >= limit:
            trouble = f"{RESTLESS}: within {steps:,} steps"
        elif min(unrests[-_PATIENCE:]) > 0.5 * min(unrests[:-_PATIENCE], default=np.inf):
            reason = ROUND_OFF if unrests[-1] <= _STEP_NOISE * parts * noise else RESTLESS
            trouble = f"{reason}: comes no nearer after {steps:,} steps"
    seconds = clock() - started
    unrest = max(unrests[-1], here.distance_to_rest())
    return _point(here, unrest, trouble, steps, seconds, reference)


def _point(
    end: _Forces,
    unrest: float,
    trouble: str,
    steps: int,
    seconds: float,
    reference: ReferenceForces,
) -> Point:
    contacts = (end.contacts.contact_ids, end.forces)
    closed = reference.closed_gaps(*contacts)
    if closed:
        trouble = f"{CLOSED}: {closed} open in the limit"
    forces, error = reference.matched(*contacts)[0], reference.distance(*contacts)
    return Point(forces, error, end.noise(), unrest, trouble, steps, seconds)


@dataclass(frozen=True, eq=False)
class _Forces:
    """The contacts of a state that overlap, and their elastic forces (n,), N."""

    scene: Scene
    state: State
    contacts: Contacts
    forces: FloatArray

    @staticmethod
    def at(scene: Scene, state: State) -> _Forces:
        contacts = detect(scene, state, 0.0)
        forces, _ = elastic_forces(contacts, scene.power)
        return _Forces(scene, state, contacts, forces)

    @property
    def size(self) -> float:
        """‖f‖, N, to divide by."""
        return float(np.linalg.norm(self.forces)) or 1.0

    def change(self, other: _Forces) -> float:
        """‖f_other − f‖ / ‖f‖ over the contacts of both."""
        ids = self.contacts.contact_ids
        reference = ReferenceForces(ids, self.forces, np.zeros(ids.size, dtype=bool))
        return reference.distance(other.contacts.contact_ids, other.forces)

    def noise(self) -> float:
        """‖δf‖/‖f‖ when every position changes by at most one in its last digit."""
        random = np.random.default_rng(0)
        last = np.spacing(np.abs(self.state.q))
        last[:, self.scene.dim :] = 0.0  # turns of spheres do not matter; quaternions stay unit
        worst = 0.0
        for _ in range(_SHAKEN):
            q = self.state.q + random.uniform(-1.0, 1.0, last.shape) * last
            shaken = State(self.state.t, q, self.state.v)
            worst = max(worst, self.change(_Forces.at(self.scene, shaken)))
        return worst

    def response(self) -> tuple[float, FloatArray]:
        """‖δf‖/‖f‖ that balances the loads, to first order, and the motion u (nv,) to it.

        No less than the imbalance itself.
        """
        B = gap_gradient(self.scene, self.state, self.contacts)
        missing = B.T @ self.forces + external_forces(self.scene, self.state)
        stiff = slope(self.contacts, self.scene.power)
        K = sp.csc_array(B.T @ sp.diags_array(stiff) @ B)
        K = K + _RIDGE * max(float(K.diagonal().max()), 1e-300) * sp.eye_array(K.shape[0])
        u = np.atleast_1d(spsolve(sp.csc_matrix(K), missing))
        change = float(np.linalg.norm(stiff * (B @ u)))
        return max(change, float(np.linalg.norm(missing))) / self.size, u

    def motion(self) -> float:
        """√(w″ m) times the rates of gaps over ‖f‖: the force that stops what still moves."""
        B = gap_gradient(self.scene, self.state, self.contacts)
        rate = B @ self.scene.dofs.gather(self.state.v)
        impedance = np.sqrt(slope(self.contacts, self.scene.power) * lightest(self.scene))
        return float(np.linalg.norm(impedance * rate)) / self.size

    def distance_to_rest(self) -> float:
        """‖δf‖/‖f‖ to the equilibrium nearby, by Newton's method; infinite if there is none."""
        limit = _NEAR * half_width(self.scene)
        first, u = self.response()
        now, way, left = self, np.zeros_like(u), first
        still = np.zeros_like(self.state.v)
        for _ in range(_NEWTON):
            if left <= max(1e-2 * first, now.noise()):
                return self.change(now)
            way = way + u
            if not float(np.abs(way).max()) <= limit:
                break
            moved = move(self.state, self.scene.dofs.scatter(way, still), 1.0)
            now = _Forces.at(self.scene, State(self.state.t, moved, still))
            left, u = now.response()
        return np.inf


def half_width(scene: Scene) -> float:
    """The smallest half-width of a body, m."""
    core = scene.bodies.core
    return float(core[np.isfinite(core)].min())


def lightest(scene: Scene) -> float:
    """The smallest mass of a body that can move, kg."""
    return float(scene.bodies.mass[~scene.bodies.fixed].min())
