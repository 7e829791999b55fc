"""How bodies move and turn in a time step, by one of two updates of orientations, ``TURNINGS``.

They differ only for bodies in space with unequal moments of inertia. Below, q is an orientation,
ω an angular velocity, J(q) the inertia and L = J(q) ω the angular momentum about the centre.

"momentum" is of second order for a free body and keeps its angular momentum. Before the contact
problem is stated, free motion decides the middle of the step, v = J(q_m)⁻¹ L with
q_m = exp(½ Δt v) q. J(q_m) is the mass that contacts meet, the body turns by Δt v⁺ and ends at
ω⁺ = J(q⁺)⁻¹ J(q_m) v⁺; there is no gyroscopic term. Without contacts and loads the update is its
inverse under Δt → −Δt, and so the energy does not drift.

"plain" is the update of Olsen & Kamrin (2018), section 3: J(q), −ω × J ω among the loads, and v⁺
kept as it is. It is of first order, and angular momentum and energy drift.
"""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt.geometry.rotations import cross_matrices, matrices, turned
from cdopt.scene import Dofs, Scene, State
from cdopt.scene.bodies import Bodies

MOMENTUM, PLAIN = "momentum", "plain"
TURNINGS = (MOMENTUM, PLAIN)

_SETTLED = 1e-13  # change of ω from pass to pass, as a share, that ends the search for the middle
_PASSES = 40  # at a turn of 0.1 rad a step four or five, at 1 rad about ten


def move(state: State, v: FloatArray, dt: float) -> FloatArray:
    """q after dt at the constant velocities v of all bodies.

    Turns are exact and keep quaternions at unit length; to first order in dt this is
    q + dt q̇. A negative dt moves back.

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
    shape = checks.instance("state", state, State).v.shape
    return _moved(state, checks.numbers("v", v, shape, "m/s"), checks.scalar("dt", dt))


def _moved(state: State, v: FloatArray, dt: float) -> FloatArray:
    """``move`` at velocities that are not checked."""
    if state.dim == 2:
        return state.q + dt * v
    position = state.position + dt * v[:, :3]
    turning = v[:, 3:].any(axis=1)
    orientation = state.orientation.copy()
    orientation[turning] = turned(orientation[turning], dt * v[turning, 3:])
    return np.hstack([position, orientation])


def advance(
    scene: Scene,
    state: State,
    v_next: FloatArray,
    dt: float,
    *,
    turning: str = MOMENTUM,
    mean: FloatArray | None = None,
    dofs: Dofs | None = None,
) -> State:
    """The state one step on, q⁺ = q + Δt q̇ with exact turns; fixed bodies keep their v.

    Parameters
    ----------
    v_next : (nv,) v⁺ of the step's degrees of freedom, m/s and rad/s.
    dt : s. turning : both as in ``step``. With "momentum" the new angular velocities of
        bodies with unequal moments of inertia keep the angular momenta of v⁺; with "plain", and
        for all other bodies, the velocities are v⁺.
    mean : (nv,) mean velocity of the step, if bodies move by another one than v⁺, m/s and rad/s.
    dofs : of the step, as in ``step``.

    Raises
    ------
    InvalidInput : ``v_next`` or ``mean`` of another size or not finite, no such turning, or a state
        or degrees of freedom of another scene.

    Notes
    -----
    Olsen & Kamrin (2018), Algorithm 1.
    """
    checks.instance("scene", scene, Scene).check_state(state)
    chosen, dt = scene.check_dofs(scene.dofs if dofs is None else dofs), checks.positive("dt", dt)
    values = checks.vector("v_next", v_next, chosen.nv, "m/s")
    middle = halfway(scene, state, dt, turning, chosen)
    v = chosen.scatter(values, state.v)
    moving = v
    if mean is not None:
        velocities = checks.vector("mean", mean, chosen.nv, "m/s")
        moving = chosen.scatter(velocities, state.v)
    q = _moved(state, moving, dt)
    v = carried(scene, middle, q, v) if turning == MOMENTUM else v
    return State._of(t=state.t + dt, q=q, v=v)


def uneven(scene: Scene, dofs: Dofs) -> IntArray:
    """Bodies in space that can turn and have unequal moments of inertia."""
    if scene.dim == 2:
        return np.empty(0, dtype=np.int64)
    inertia = scene.bodies.inertia
    alike = (inertia == inertia[:, :1]).all(axis=1)
    return np.flatnonzero((dofs.number[:, 3] >= 0) & ~alike)


def inertia(bodies: Bodies, body: IntArray, orientation: FloatArray) -> FloatArray:
    """J (n, 3, 3) in the global frame of bodies (n,) in orientations (n, 4), kg·m²."""
    axes = body_axes(bodies, body, orientation)
    return np.asarray(np.einsum("nij,nj,nkj->nik", axes, bodies.inertia[body], axes))


def spins(bodies: Bodies, body: IntArray, orientation: FloatArray, omega: FloatArray) -> FloatArray:
    """J ω (n, 3) of bodies (n,) in orientations (n, 4), N m s."""
    axes = body_axes(bodies, body, orientation)
    along = bodies.inertia[body] * np.einsum("nji,nj->ni", axes, omega)
    return np.asarray(np.einsum("nij,nj->ni", axes, along))


def halfway(scene: Scene, state: State, dt: float, turning: str, dofs: Dofs) -> State:
    """The state at which M and v of a step are evaluated: present positions, mid-step turns.

    Uneven bodies have the orientation q_m and the angular velocity J(q_m)⁻¹ L of free motion in
    the middle of the step; with "plain", and without such bodies, it is the state itself. Where the
    iteration for q_m does not converge, its last iterate still conserves angular momentum.
    """
    if checks.choice("turning", turning, TURNINGS) == PLAIN:
        return state
    body = _turning(scene, dofs, state.v)
    if not body.size:
        return state
    q, v = np.array(state.q), np.array(state.v)
    q[body, 3:], v[body, 3:] = _middle(scene.bodies, body, state, dt)
    return State(state.t, q, v)


def carried(scene: Scene, middle: State, q: FloatArray, v: FloatArray) -> FloatArray:
    """Velocities (nb, 6) at q⁺ (nb, 7) with the angular momenta J(q_m) v⁺ of the ``middle``."""
    body = _turning(scene, scene.dofs, v)
    if not body.size:
        return v
    spin = spins(scene.bodies, body, middle.orientation[body], v[body, 3:])
    result = np.array(v)
    result[body, 3:] = rates(scene.bodies, body, q[body, 3:], spin)
    return result


def _turning(scene: Scene, dofs: Dofs, v: FloatArray) -> IntArray:
    """Uneven bodies that turn at velocities (nb, 3 or 6)."""
    body = uneven(scene, dofs)
    return body[v[body, scene.dim :].any(axis=1)]


def _middle(
    bodies: Bodies, body: IntArray, state: State, dt: float
) -> tuple[FloatArray, FloatArray]:
    """q_m (n, 4) and J(q_m)⁻¹ L (n, 3), by Newton's method along each body's own axes.

    With V and Λ the parts of v and L along the principal axes at q, q_m = exp(½ Δt v) q reads
    J₀ V = exp(−½ Δt V) Λ, where exp turns by a rotation vector.
    """
    start, half = state.orientation[body], 0.5 * dt
    axes, moments = body_axes(bodies, body, start), bodies.inertia[body]
    omega = np.einsum("nji,nj->ni", axes, state.angular_velocity[body])
    spin, left = moments * omega, np.arange(body.size)
    for _ in range(_PASSES):
        change = _correction(moments[left], spin[left], omega[left], half)
        omega[left] += change
        size = np.abs(omega[left]).max(axis=1)
        left = left[np.abs(change).max(axis=1) > _SETTLED * size]
        if not left.size:
            break
    middle = turned(start, half * np.einsum("nij,nj->ni", axes, omega))
    return middle, rates(bodies, body, middle, np.einsum("nij,nj->ni", axes, spin))


def _correction(
    moments: FloatArray, spin: FloatArray, omega: FloatArray, half: float
) -> FloatArray:
    """Newton's change (n, 3) of V towards J₀ V = exp(−a) Λ, a = ½ Δt V.

    The derivative of exp is taken to second order in a, so that convergence is linear, fast.
    """
    angle = half * np.linalg.norm(omega, axis=1)[:, None, None]
    cross = cross_matrices(half * omega)
    first, second = np.sinc(angle / np.pi), 0.5 * np.sinc(angle / (2.0 * np.pi)) ** 2
    back = np.eye(3) - first * cross + second * (cross @ cross)
    spun = np.einsum("nij,nj->ni", back, spin)
    slope = -half * cross_matrices(spun) @ (np.eye(3) - second * cross)
    slope[:, range(3), range(3)] += moments
    return np.linalg.solve(slope, (spun - moments * omega)[:, :, None])[:, :, 0]


def rates(bodies: Bodies, body: IntArray, orientation: FloatArray, spin: FloatArray) -> FloatArray:
    """J⁻¹ L (n, 3) of bodies (n,) in orientations (n, 4), rad/s.

    Solved with J rather than multiplied by an inverse, whose round-off would have the same sign in
    every step of a run and let L drift.
    """
    J = inertia(bodies, body, orientation)
    return np.asarray(np.linalg.solve(J, spin[:, :, None])[:, :, 0])


def body_axes(bodies: Bodies, body: IntArray, orientation: FloatArray) -> FloatArray:
    """Principal axes (n, 3, 3) by columns, in the global frame, of bodies in orientations."""
    return np.asarray(matrices(orientation) @ matrices(bodies.principal[body]))
