"""From a scene in a state to the contact step that the formulations take."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt.collision.contacts import Contacts, gap_gradient
from cdopt.collision.motion import MOMENTUM, halfway, inertia, spins, uneven
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Dofs, Scene, State


def mass_matrix(scene: Scene, state: State, dofs: Dofs | None = None) -> sp.csr_array:
    """M (nv, nv) in kg and kg·m², the blocks of turns in the global frame, J = R J₀ Rᵀ.

    Spheres and cubes have equal moments about all axes, and diagonal blocks.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : a state or degrees of freedom of another scene.
    """
    chosen, b = scene.check_dofs(scene.dofs if dofs is None else dofs), scene.bodies
    scene.check_state(state)
    masses = np.repeat(b.mass[:, None], scene.dim, axis=1)
    diagonal = np.hstack([masses, b.inertia.reshape(b.nb, -1)])
    body = uneven(scene, chosen)
    diagonal[body, scene.dim :] = 0.0
    M = sp.csr_array(sp.diags_array(chosen.gather(diagonal)))
    if not body.size:
        return M
    turn = chosen.number[body, 3:]
    entries = np.repeat(turn, 3, axis=1).ravel(), np.tile(turn, (1, 3)).ravel()
    blocks = inertia(b, body, state.orientation[body]).ravel()
    return sp.csr_array(M + sp.coo_array((blocks, entries), shape=M.shape).tocsr())


def applied_loads(scene: Scene, dofs: Dofs | None = None) -> FloatArray:
    """Gravity and applied loads (nv,), N and N·m.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : degrees of freedom of another scene.
    """
    b, chosen = scene.bodies, scene.check_dofs(scene.dofs if dofs is None else dofs)
    heavy = np.where(b.fixed, 0.0, b.mass)
    force = heavy[:, None] * scene.gravity + b.force
    torque = b.torque[:, None] if scene.dim == 2 else b.torque
    return chosen.gather(np.hstack([force, torque]))


def external_forces(scene: Scene, state: State, dofs: Dofs | None = None) -> FloatArray:
    """F_ext (nv,) in N and N·m: ``applied_loads`` and, in space, the gyroscopic −ω × J ω.

    The last is zero for spheres, and no part of a step that keeps angular momentum.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : a state or degrees of freedom of another scene.
    """
    scene.check_state(state)
    chosen = scene.check_dofs(scene.dofs if dofs is None else dofs)
    force, body = applied_loads(scene, chosen), uneven(scene, chosen)
    if body.size:
        omega = state.angular_velocity[body]
        spin = spins(scene.bodies, body, state.orientation[body], omega)
        force[chosen.number[body, 3:]] -= np.cross(omega, spin)
    return force


def step(
    scene: Scene,
    state: State,
    contacts: Contacts,
    dt: float,
    *,
    v_min: float = 0.0,
    turning: str = MOMENTUM,
    dofs: Dofs | None = None,
) -> ContactStep:
    """The contact step of a scene in a state, with the contacts that were detected in it.

    Fixed bodies carry no degrees of freedom; ``body_forces`` of the step gives the reactions.

    Parameters
    ----------
    dt : Δt, s.
    v_min : approach speed below which restitution does not act, m/s.
    turning : "momentum" keeps the angular momentum of free bodies: M of bodies with unequal
        moments of inertia and the v of their turns are those of free motion in the middle of the
        step, and restitution acts on the approach B v at that v. "plain" is the paper's: M, v and
        the gyroscopic term at the start. Give ``advance`` the same.
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : dt or v_min out of range, no such turning, or a state, contacts or degrees of
        freedom of another scene.

    >>> import cdopt
    >>> scene = cdopt.scene.beam()
    >>> contacts = cdopt.collision.detect(scene, scene.initial)
    >>> cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)
    ContactStep(3 contacts, 3 degrees of freedom, dt=0.001 s)

    Notes
    -----
    Olsen & Kamrin (2018), section 3.
    """
    chosen, h = scene.dofs if dofs is None else dofs, checks.scalar("dt", dt, above=0.0)
    scene.check_dofs(chosen)
    scene.check_state(state)
    middle = halfway(scene, state, h, turning, chosen)
    keeps = turning == MOMENTUM
    return ContactStep(
        M=mass_matrix(scene, middle, chosen),
        B=gap_gradient(scene, state, contacts, chosen),
        phi=contacts.phi,
        v=chosen.gather(middle.v),
        F_ext=applied_loads(scene, chosen) if keeps else external_forces(scene, state, chosen),
        dt=h,
        stiffness=contacts.stiffness,
        restitution=contacts.restitution,
        gap_rate=contacts.gap_rate,
        v_min=v_min,
        bodies=contacts.bodies,
        normals=contacts.normals,
        points=contacts.points,
        contact_ids=contacts.contact_ids,
        dof_body=chosen.body,
    )
