"""From a scene in a state to the contact step that the formulations take."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt.checks import FloatArray
from cdopt.contact.contacts import Contacts
from cdopt.contact.gradient import gap_gradient
from cdopt.scene import Scene, State
from cdopt.scene.rotations import matrices
from cdopt.step import ContactStep


def mass_matrix(scene: Scene, state: State) -> sp.csr_array:
    """M (nv, nv) in kg and kg·m², the blocks of turns in the global frame, J = R J₀ Rᵀ."""
    dofs, b = scene.dofs, scene.bodies
    if scene.dim == 2:
        per_entry = np.column_stack([b.mass, b.mass, b.inertia])
        return sp.csr_array(sp.diags_array(dofs.gather(per_entry)))
    moving = np.flatnonzero(dofs.number[:, 3] >= 0)
    entry = dofs.column < 3
    place = np.arange(dofs.nv)[entry]
    turn = dofs.number[moving, 3:]
    rows = np.concatenate([place, np.repeat(turn, 3, axis=1).ravel()])
    cols = np.concatenate([place, np.tile(turn, (1, 3)).ravel()])
    data = np.concatenate([b.mass[dofs.body[entry]], _inertia(scene, state, moving).ravel()])
    return sp.coo_array((data, (rows, cols)), shape=(dofs.nv, dofs.nv)).tocsr()


def external_forces(scene: Scene, state: State) -> FloatArray:
    """F_ext (nv,) in N and N·m: gravity, applied loads and, in space, the gyroscopic −ω × J ω."""
    b, dofs = scene.bodies, scene.dofs
    heavy = np.where(b.fixed, 0.0, b.mass)
    force = heavy[:, None] * scene.gravity + b.force
    torque = b.torque[:, None] if scene.dim == 2 else b.torque.copy()
    if scene.dim == 3:
        turning = np.flatnonzero(dofs.number[:, 3] >= 0)
        omega = state.angular_velocity[turning]
        spin = np.einsum("nij,nj->ni", _inertia(scene, state, turning), omega)
        torque[turning] -= np.cross(omega, spin)
    return dofs.gather(np.hstack([force, torque]))


def step(
    scene: Scene, state: State, contacts: Contacts, dt: float, *, v_min: float = 0.0
) -> ContactStep:
    """The contact step of a scene in a state, with the contacts that were detected in it.

    Fixed bodies carry no degrees of freedom; ``body_forces`` of the step gives the reactions.

    Parameters
    ----------
    dt : Δt, s.
    v_min : approach speed below which restitution does not act, m/s.

    Raises
    ------
    InvalidInput : dt or v_min out of range.

    >>> import cdopt
    >>> scene = cdopt.scene.beam()
    >>> contacts = cdopt.contact.detect(scene, scene.initial)
    >>> cdopt.contact.step(scene, scene.initial, contacts, dt=1e-3)
    ContactStep(3 contacts, 3 degrees of freedom, dt=0.001 s)

    Notes
    -----
    Olsen & Kamrin (2018), section 3.
    """
    return ContactStep(
        M=mass_matrix(scene, state),
        B=gap_gradient(scene, state, contacts),
        phi=contacts.phi,
        v=scene.dofs.gather(state.v),
        F_ext=external_forces(scene, state),
        dt=dt,
        stiffness=contacts.stiffness,
        restitution=contacts.restitution,
        gap_rate=contacts.gap_rate,
        v_min=v_min,
        bodies=contacts.bodies,
        normals=contacts.normals,
        points=contacts.points,
        contact_ids=contacts.contact_ids,
        dof_body=scene.dofs.body,
    )


def _inertia(scene: Scene, state: State, body: np.ndarray) -> FloatArray:
    """J (n, 3, 3) of bodies in the global frame, kg·m²."""
    frame = matrices(state.orientation[body])
    own = scene.bodies.inertia[body]
    return np.asarray(np.einsum("nij,nj,nkj->nik", frame, own, frame))
