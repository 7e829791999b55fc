"""Elastic contacts brought to rest, and how far their forces can be trusted.

Two things come between a computed force and that of equilibrium. *Noise*: overlaps are small
differences of large numbers, and a stiff contact turns the last digit of a place into force.
*Unrest*: a run in time ends before it is quite at rest. Both are measured here in the state
itself, so that what they spoil can be told from what stiffness does.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.frozen import Frozen
from cdopt.collision import Contacts, detect, external_forces, gap_gradient, move
from cdopt.dynamics import MarchingMethod, Run, VariationalSteps, VelocityVerletSteps, equilibrium
from cdopt.dynamics.relinearised import elastic
from cdopt.problem.contact_law import PowerLaw
from cdopt.scene import Scene, State

MARCHING: dict[str, tuple[MarchingMethod, float]] = {  # and steps in the time of a collision
    "variational": (VariationalSteps(), 16.0),
    "velocity-verlet": (VelocityVerletSteps(), 50.0),
}

ROUND_OFF, RESTLESS, FAILED, CLOSED = "round-off", "not at rest", "failed", "closed gaps"

SHARE = 1e-3  # of the error that is to be seen: what unrest may be when a run ends
_COLLISIONS = 8.0  # times of a collision between two looks at a run
_PATIENCE = 20  # looks in which unrest halves, or the run is stalled
_LOST = 10.0  # noise per step of a collision: a run's own, as a step moves less than a last digit
_RIDGE = 1e-9  # of the stiffest degree of freedom, holds bodies that nothing else holds
_BESIDE = 1e-2  # of the smallest half-width: an equilibrium further off is another one
_NEWTON = 30  # steps to it
_SHAKEN = 3  # states, each by up to one in the last digit of its places


@dataclass(frozen=True, eq=False)
class Rested(Frozen):
    """Forces of elastic contacts at rest, or nearly.

    Attributes
    ----------
    contact_ids : (n,) of contacts that overlap, as in Contacts. forces : (n,) w′(−Φ), N.
    noise : change of the forces, ‖δf‖/‖f‖, when places change by one in their last digit.
    unrest : likewise, when what is left out of balance is balanced.
    steps : time steps, or passes of the quasi-static equilibrium.
    seconds : wall-clock time.
    trouble : why it is not at rest, ROUND_OFF, RESTLESS or FAILED and how, "" where it is.
    """

    contact_ids: IntArray
    forces: FloatArray
    noise: float
    unrest: float
    steps: int
    seconds: float
    trouble: str


@dataclass(frozen=True, eq=False)
class Goal(Frozen):
    """What forces are compared with.

    Attributes
    ----------
    contact_ids : (nc,) ascending. forces : (nc,) N. apart : (nc,) whether the gap is open.
    """

    contact_ids: IntArray
    forces: FloatArray
    apart: BoolArray

    def onto(self, ids: IntArray, forces: FloatArray) -> tuple[FloatArray, float]:
        """Forces (n,) of contacts with other ids as (nc,), and the norm of those without place."""
        found = np.zeros(self.forces.size)
        at = np.minimum(np.searchsorted(self.contact_ids, ids), found.size - 1)
        known = self.contact_ids[at] == ids
        found[at[known]] = forces[known]
        return found, float(np.linalg.norm(forces[~known]))

    def bridged(self, ids: IntArray, forces: FloatArray) -> int:
        """How many contacts carry that are apart here, or not even near."""
        found, _ = self.onto(ids, forces)
        strange = np.count_nonzero(forces > 0.0) - np.count_nonzero(found > 0.0)
        return int(strange + np.count_nonzero(found[self.apart] > 0.0))

    def distance(self, ids: IntArray, forces: FloatArray) -> float:
        """‖f_other − f‖ / ‖f‖ over all contacts of both."""
        found, astray = self.onto(ids, forces)
        apart = float(np.linalg.norm(found - self.forces))
        return math.hypot(apart, astray) / float(np.linalg.norm(self.forces))


def settled(scene: Scene, state: State) -> Rested:
    """The quasi-static equilibrium, by minimising energy.

    Raises
    ------
    SolveFailed : nothing holds some body.
    """
    started = time.perf_counter()
    found = equilibrium(scene, state)
    seconds = time.perf_counter() - started
    look = _look(scene, found.state)
    return Rested(
        look.contacts.contact_ids, look.forces, _noise(scene, look), _response(scene, look)[0],
        found.passes, seconds, "",
    )  # fmt: skip


def marched(
    scene: Scene, state: State, name: str, collision: float, goal: Goal, limit: int
) -> Rested:
    """A method in time, from rest in ``state`` until unrest is a small share of the error.

    Parameters
    ----------
    scene : damped. name : of MARCHING. collision : time of one, s.
    goal : the error is the distance from it.
    limit : steps at most.
    """
    method, parts = MARCHING[name]
    h = collision / parts
    run = Run(scene, h)
    now = State(0.0, state.q, scene.dofs.scatter(np.zeros(scene.dofs.nv), np.zeros_like(state.v)))
    started = time.perf_counter()
    method.begin(run, now)
    steps, look, trouble = 0, _look(scene, now), ""
    unrests: list[float] = []
    while True:
        taken = method.march(run, now, max(1, round(_COLLISIONS * parts)))
        now, steps = taken.state, steps + taken.steps
        look = _look(scene, now)
        unrests.append(max(_response(scene, look)[0], _in_motion(scene, look)))
        error = goal.distance(look.contacts.contact_ids, look.forces)
        if unrests[-1] <= max(SHARE * error, _noise(scene, look)):
            break
        if taken.failure:
            trouble = f"{FAILED}: {taken.failure}"
        elif steps >= limit:
            trouble = f"{RESTLESS}: within {steps} steps"
        elif min(unrests[-_PATIENCE:]) > 0.5 * min(unrests[:-_PATIENCE], default=np.inf):
            lost = unrests[-1] <= _LOST * parts * _noise(scene, look)
            trouble = f"{ROUND_OFF if lost else RESTLESS}: comes no nearer after {steps} steps"
        if trouble:
            break
    seconds = time.perf_counter() - started
    return Rested(
        look.contacts.contact_ids, look.forces, _noise(scene, look),
        max(unrests[-1], _undone(scene, look)), steps, seconds, trouble,
    )  # fmt: skip


# --- what a state says -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Look:
    """Contacts of a state that overlap, and their forces."""

    state: State
    contacts: Contacts
    forces: FloatArray


def _look(scene: Scene, state: State) -> _Look:
    contacts = detect(scene, state, 0.0)
    forces, _ = elastic(contacts, scene.power, np.arange(contacts.nc))
    return _Look(state, contacts, forces)


def _goal(look: _Look) -> Goal:
    contacts = look.contacts
    return Goal(contacts.contact_ids, look.forces, contacts.phi > 0.0)


def _noise(scene: Scene, look: _Look) -> float:
    """‖δf‖/‖f‖ when every place changes by at most one in its last digit."""
    random = np.random.default_rng(0)
    last = np.spacing(np.abs(look.state.q))
    last[:, scene.dim :] = 0.0  # turns of spheres do not matter, and quaternions stay unit
    worst = 0.0
    goal = _goal(look)
    for _ in range(_SHAKEN):
        q = look.state.q + random.uniform(-1.0, 1.0, last.shape) * last
        other = _look(scene, State(look.state.t, q, look.state.v))
        worst = max(worst, goal.distance(other.contacts.contact_ids, other.forces))
    return worst


def _response(scene: Scene, look: _Look) -> tuple[float, FloatArray]:
    """What balances what is out of balance, to first order: ‖δf‖/‖f‖, and the motion u (nv,).

    No less than what is out of balance itself.
    """
    B = gap_gradient(scene, look.state, look.contacts)
    missing = B.T @ look.forces + external_forces(scene, look.state)
    size = float(np.linalg.norm(look.forces)) or 1.0
    slope = _slope(scene, look)
    K = sp.csc_array(B.T @ sp.diags_array(slope) @ B)
    K = K + _RIDGE * max(float(K.diagonal().max()), 1e-300) * sp.eye_array(K.shape[0])
    u = np.atleast_1d(spsolve(sp.csc_matrix(K), missing))
    change = float(np.linalg.norm(slope * (B @ u)))
    return max(change, float(np.linalg.norm(missing))) / size, u


def _in_motion(scene: Scene, look: _Look) -> float:
    """√(w″ m) times the rates of gaps over ‖f‖: the force that stops what still moves."""
    rate = gap_gradient(scene, look.state, look.contacts) @ scene.dofs.gather(look.state.v)
    mass = float(scene.bodies.mass[~scene.bodies.fixed].min())
    size = float(np.linalg.norm(look.forces)) or 1.0
    return float(np.linalg.norm(np.sqrt(_slope(scene, look) * mass) * rate)) / size


def _undone(scene: Scene, look: _Look) -> float:
    """‖δf‖/‖f‖ when the state goes on to the equilibrium beside it; infinite if there is none."""
    core = scene.bodies.core
    beside = _BESIDE * float(core[np.isfinite(core)].min())
    first, u = _response(scene, look)
    now, way, left = look, np.zeros_like(u), first
    for _ in range(_NEWTON):
        if left <= max(1e-2 * first, _noise(scene, now)):
            return _goal(look).distance(now.contacts.contact_ids, now.forces)
        way = way + u
        if not float(np.abs(way).max()) <= beside:
            break
        still = np.zeros_like(look.state.v)
        moved = move(look.state, scene.dofs.scatter(way, still), 1.0)
        now = _look(scene, State(look.state.t, moved, still))
        left, u = _response(scene, now)
    return np.inf


def _slope(scene: Scene, look: _Look) -> FloatArray:
    """w″ (n,) of contacts that overlap, N/m."""
    return PowerLaw(look.contacts.stiffness, scene.power).tangent(-look.contacts.phi)
