"""From a scene in a state to the contact step that the formulations take."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt.checks import FloatArray, IntArray
from cdopt.contact.contacts import Contacts
from cdopt.contact.gradient import gap_gradient
from cdopt.scene import Dofs, Scene, State
from cdopt.scene.rotations import matrices
from cdopt.step import ContactStep


def mass_matrix(scene: Scene, state: State, dofs: Dofs | None = None) -> sp.csr_array:
    """M (nv, nv) in kg and kg·m², the blocks of turns in the global frame, J = R J₀ Rᵀ.

    Spheres and cubes, alike about all axes, have diagonal blocks.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.
    """
    chosen, b = scene.dofs if dofs is None else dofs, scene.bodies
    if scene.dim == 2:
        per_entry = np.column_stack([b.mass, b.mass, b.inertia])
        return sp.csr_array(sp.diags_array(chosen.gather(per_entry)))
    uneven = _uneven_turning(scene, chosen)
    alone = np.ones(chosen.number.shape, dtype=bool)
    alone[uneven, 3:] = False
    entry = np.flatnonzero(alone[chosen.body, chosen.column])
    turn = chosen.number[uneven, 3:]
    rows = np.concatenate([entry, np.repeat(turn, 3, axis=1).ravel()])
    cols = np.concatenate([entry, np.tile(turn, (1, 3)).ravel()])
    diagonal = np.hstack([np.repeat(b.mass[:, None], 3, axis=1), b.inertia])
    data = np.concatenate([chosen.gather(diagonal)[entry], _inertia(scene, state, uneven).ravel()])
    return sp.coo_array((data, (rows, cols)), shape=(chosen.nv, chosen.nv)).tocsr()


def external_forces(scene: Scene, state: State, dofs: Dofs | None = None) -> FloatArray:
    """F_ext (nv,) in N and N·m: gravity, applied loads and, in space, the gyroscopic −ω × J ω.

    The last is zero for spheres.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.
    """
    b, chosen = scene.bodies, scene.dofs if dofs is None else dofs
    heavy = np.where(b.fixed, 0.0, b.mass)
    force = heavy[:, None] * scene.gravity + b.force
    torque = b.torque[:, None] if scene.dim == 2 else b.torque.copy()
    if scene.dim == 3:
        uneven = _uneven_turning(scene, chosen)
        omega = state.angular_velocity[uneven]
        spin = np.einsum("nij,nj->ni", _inertia(scene, state, uneven), omega)
        torque[uneven] -= np.cross(omega, spin)
    return chosen.gather(np.hstack([force, torque]))


def step(
    scene: Scene, state: State, contacts: Contacts, dt: float, *, v_min: float = 0.0,
    dofs: Dofs | None = None,
) -> ContactStep:  # fmt: skip
    """The contact step of a scene in a state, with the contacts that were detected in it.

    Fixed bodies carry no degrees of freedom; ``body_forces`` of the step gives the reactions.

    Parameters
    ----------
    dt : Δt, s.
    v_min : approach speed below which restitution does not act, m/s.
    dofs : the degrees of freedom, by default ``scene.dofs``.

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
    chosen = scene.dofs if dofs is None else dofs
    return ContactStep(
        M=mass_matrix(scene, state, chosen),
        B=gap_gradient(scene, state, contacts, chosen),
        phi=contacts.phi,
        v=chosen.gather(state.v),
        F_ext=external_forces(scene, state, chosen),
        dt=dt,
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


def _uneven_turning(scene: Scene, dofs: Dofs) -> IntArray:
    """Bodies in space that turn as degrees of freedom and are not alike about all axes."""
    inertia = scene.bodies.inertia
    alike = (inertia == inertia[:, :1]).all(axis=1)
    return np.flatnonzero((dofs.number[:, 3] >= 0) & ~alike)


def _inertia(scene: Scene, state: State, body: IntArray) -> FloatArray:
    """J (n, 3, 3) of bodies in the global frame, kg·m²."""
    frame = matrices(state.orientation[body])
    own = scene.bodies.inertia[body]
    return np.asarray(np.einsum("nij,nj,nkj->nik", frame, own, frame))
