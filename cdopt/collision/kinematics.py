"""How bodies move and turn: the map L(q) of q̇ = L(q) v, and the motion of a time step."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt.collision.turning import MOMENTUM, carried, halfway
from cdopt.geometry.rotations import rate_maps, turned
from cdopt.scene import Scene, State


def configuration_map(state: State) -> sp.csr_array:
    """L(q): q̇ = L(q) v for all bodies, State.q and State.v taken row by row.

    Returns
    -------
    (3 nb, 3 nb) identity in the plane; (7 nb, 6 nb) in space, ½ (0, ω) q for the quaternions.
    """
    if state.dim == 2:
        return sp.csr_array(sp.eye_array(state.q.size))
    nb = state.nb
    blocks = np.zeros((nb, 7, 6))
    blocks[:, :3, :3] = np.eye(3)
    blocks[:, 3:, 3:] = rate_maps(state.orientation)
    return sp.csr_array(sp.bsr_array((blocks, np.arange(nb), np.arange(nb + 1))))


def move(state: State, v: FloatArray, dt: float) -> FloatArray:
    """q after dt at the constant velocities v of all bodies.

    Turns are exact and keep quaternions at unit length; to first order in dt this is
    q + dt L(q) v. A negative dt moves back.

    Parameters
    ----------
    v : (nb, 3) or (nb, 6), like State.v.

    Returns
    -------
    like State.q.

    Raises
    ------
    InvalidInput : velocities of another shape.
    """
    v = checks.numbers("v", v, state.v.shape, "m/s")
    if state.dim == 2:
        return state.q + dt * v
    place = state.position + dt * v[:, :3]
    turning = v[:, 3:].any(axis=1)
    orientation = state.orientation.copy()
    orientation[turning] = turned(orientation[turning], dt * v[turning, 3:])
    return np.hstack([place, orientation])


def advance(
    scene: Scene, state: State, v_next: FloatArray, dt: float, *, turning: str = MOMENTUM
) -> State:
    """The state one step on, q⁺ = q + Δt L(q) v⁺ with exact turns; fixed bodies keep their v.

    Parameters
    ----------
    v_next : (nv,) v⁺ of the step's degrees of freedom, m/s and rad/s.
    dt : s. turning : both as in ``step``. With "momentum" the angular velocities of bodies that
        are not alike about all axes become those which carry on the angular momenta of v⁺; with
        "plain", and for all others, the velocities are v⁺.

    Raises
    ------
    InvalidInput : ``v_next`` of another size or not finite, dt not positive, no such turning, or a
        state of another scene.

    Notes
    -----
    Olsen & Kamrin (2018), Algorithm 1.
    """
    scene.check_state(state)
    h = checks.scalar("dt", dt, above=0.0)
    values = checks.vector("v_next", v_next, scene.dofs.nv, "m/s")
    middle = halfway(scene, state, h, turning, scene.dofs)
    v = scene.dofs.scatter(values, state.v)
    q = move(state, v, h)
    return State(state.t + h, q, carried(scene, middle, q, v) if turning == MOMENTUM else v)
