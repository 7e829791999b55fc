"""Elastic contacts brought to rest, and the accuracy of their forces.

Two things separate a computed force from that of equilibrium. *Noise*: overlaps are small
differences of large numbers, and a stiff contact turns the last digit of a position into force.
*Unrest*: a run in time ends before it is quite at rest. Both are measured in the state itself, so
that their part of an error can be separated from that of finite stiffness.
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
from cdopt.dynamics import Integrator, Run, VariationalSteps, VelocityVerletSteps, equilibrium
from cdopt.dynamics.elastic_energy import elastic_forces, slope
from cdopt.scene import Scene, State

INTEGRATORS: dict[str, tuple[Integrator, float]] = {  # and steps in the time of a collision
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
class RestState(Frozen):
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
class Reference(Frozen):
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

    def closed_gaps(self, ids: IntArray, forces: FloatArray) -> int:
        """How many contacts carry that are apart here, or not even near."""
        found, _ = self.onto(ids, forces)
        strange = np.count_nonzero(forces > 0.0) - np.count_nonzero(found > 0.0)
        return int(strange + np.count_nonzero(found[self.apart] > 0.0))

    def distance(self, ids: IntArray, forces: FloatArray) -> float:
        """‖f_other − f‖ / ‖f‖ over all contacts of both."""
        found, astray = self.onto(ids, forces)
        apart = float(np.linalg.norm(found - self.forces))
        return math.hypot(apart, astray) / float(np.linalg.norm(self.forces))


def equilibrium_at(scene: Scene, state: State) -> RestState:
    """The quasi-static equilibrium, by minimising energy.

    Raises
    ------
    SolveFailed : nothing holds some body.
    """
    started = time.perf_counter()
    found = equilibrium(scene, state)
    seconds = time.perf_counter() - started
    here = _evaluate(scene, found.state)
    return RestState(
        here.contacts.contact_ids, here.forces, _noise(scene, here), _response(scene, here)[0],
        found.passes, seconds, "",
    )  # fmt: skip


def integrated(
    scene: Scene, state: State, name: str, collision: float, reference: Reference, limit: int
) -> RestState:
    """A method in time, from rest in ``state`` until unrest is a small share of the error.

    Parameters
    ----------
    scene : damped. name : of INTEGRATORS. collision : time of one, s.
    reference : the error is the distance from it.
    limit : steps at most.
    """
    method, parts = INTEGRATORS[name]
    h = collision / parts
    run = Run(scene, h)
    now = State(0.0, state.q, scene.dofs.scatter(np.zeros(scene.dofs.nv), np.zeros_like(state.v)))
    started = time.perf_counter()
    method.begin(run, now)
    steps, here, trouble = 0, _evaluate(scene, now), ""
    unrests: list[float] = []
    while True:
        taken = method.integrate(run, now, max(1, round(_COLLISIONS * parts)))
        now, steps = taken.state, steps + taken.steps
        here = _evaluate(scene, now)
        unrests.append(max(_response(scene, here)[0], _motion(scene, here)))
        error = reference.distance(here.contacts.contact_ids, here.forces)
        if unrests[-1] <= max(SHARE * error, _noise(scene, here)):
            break
        if taken.failure:
            trouble = f"{FAILED}: {taken.failure}"
        elif steps >= limit:
            trouble = f"{RESTLESS}: within {steps} steps"
        elif min(unrests[-_PATIENCE:]) > 0.5 * min(unrests[:-_PATIENCE], default=np.inf):
            lost = unrests[-1] <= _LOST * parts * _noise(scene, here)
            trouble = f"{ROUND_OFF if lost else RESTLESS}: comes no nearer after {steps} steps"
        if trouble:
            break
    seconds = time.perf_counter() - started
    return RestState(
        here.contacts.contact_ids, here.forces, _noise(scene, here),
        max(unrests[-1], _distance_to_rest(scene, here)), steps, seconds, trouble,
    )  # fmt: skip


# --- what a state says -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """Contacts of a state that overlap, and their forces."""

    state: State
    contacts: Contacts
    forces: FloatArray


def _evaluate(scene: Scene, state: State) -> _Evaluation:
    contacts = detect(scene, state, 0.0)
    forces, _ = elastic_forces(contacts, scene.power, np.arange(contacts.nc))
    return _Evaluation(state, contacts, forces)


def _reference(here: _Evaluation) -> Reference:
    contacts = here.contacts
    return Reference(contacts.contact_ids, here.forces, contacts.phi > 0.0)


def _noise(scene: Scene, here: _Evaluation) -> float:
    """‖δf‖/‖f‖ when every place changes by at most one in its last digit."""
    random = np.random.default_rng(0)
    last = np.spacing(np.abs(here.state.q))
    last[:, scene.dim :] = 0.0  # turns of spheres do not matter, and quaternions stay unit
    worst = 0.0
    reference = _reference(here)
    for _ in range(_SHAKEN):
        q = here.state.q + random.uniform(-1.0, 1.0, last.shape) * last
        other = _evaluate(scene, State(here.state.t, q, here.state.v))
        worst = max(worst, reference.distance(other.contacts.contact_ids, other.forces))
    return worst


def _response(scene: Scene, here: _Evaluation) -> tuple[float, FloatArray]:
    """What balances what is out of balance, to first order: ‖δf‖/‖f‖, and the motion u (nv,).

    No less than what is out of balance itself.
    """
    B = gap_gradient(scene, here.state, here.contacts)
    missing = B.T @ here.forces + external_forces(scene, here.state)
    size = float(np.linalg.norm(here.forces)) or 1.0
    stiff = slope(here.contacts, scene.power)
    K = sp.csc_array(B.T @ sp.diags_array(stiff) @ B)
    K = K + _RIDGE * max(float(K.diagonal().max()), 1e-300) * sp.eye_array(K.shape[0])
    u = np.atleast_1d(spsolve(sp.csc_matrix(K), missing))
    change = float(np.linalg.norm(stiff * (B @ u)))
    return max(change, float(np.linalg.norm(missing))) / size, u


def _motion(scene: Scene, here: _Evaluation) -> float:
    """√(w″ m) times the rates of gaps over ‖f‖: the force that stops what still moves."""
    rate = gap_gradient(scene, here.state, here.contacts) @ scene.dofs.gather(here.state.v)
    mass = float(scene.bodies.mass[~scene.bodies.fixed].min())
    size = float(np.linalg.norm(here.forces)) or 1.0
    return float(np.linalg.norm(np.sqrt(slope(here.contacts, scene.power) * mass) * rate)) / size


def _distance_to_rest(scene: Scene, here: _Evaluation) -> float:
    """‖δf‖/‖f‖ when the state goes on to the equilibrium beside it; infinite if there is none."""
    core = scene.bodies.core
    beside = _BESIDE * float(core[np.isfinite(core)].min())
    first, u = _response(scene, here)
    now, way, left = here, np.zeros_like(u), first
    for _ in range(_NEWTON):
        if left <= max(1e-2 * first, _noise(scene, now)):
            return _reference(here).distance(now.contacts.contact_ids, now.forces)
        way = way + u
        if not float(np.abs(way).max()) <= beside:
            break
        still = np.zeros_like(here.state.v)
        moved = move(here.state, scene.dofs.scatter(way, still), 1.0)
        now = _evaluate(scene, State(here.state.t, moved, still))
        left, u = _response(scene, now)
    return np.inf
