"""Viscous damping of contacts: forces −C v + drive on the degrees of freedom.

At its contact point a pair dissipates through two dashpots: γ_n m_eff against the rate of its
gap and γ_t m_eff against the sliding P (u_j − u_i), P = I − n nᵀ and u the velocities of the two
bodies at the point. There is no Coulomb cap. De Klerk et al. (2021), (20)–(25).

The point of two spheres is halfway between their centres, as in the papers' torques with lever
|r|/2: any rigid motion of the pair is free of damping and angular momentum is kept. Of a sphere
and a fixed body of another shape it is the point of that body nearest to the centre, with the
whole distance |r| as lever, as of a fixed sphere of the same size behind a wall: what rolls on a
wall is not slowed down. LAMMPS has that lever too. The paper's figure 11 at t = 0.5 has a mean
kinetic energy of 0.7452 to 0.7493 m g d in LAMMPS, 0.7465 with |r| and 0.7391 with |r|/2. All
other pairs meet at ``Contacts.points``.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.collision.contacts import Contacts, approach_rows, effective_mass, without_idle_turns
from cdopt.scene import SHAPES, Dofs, Scene, Sphere, State


def damping_matrix(
    scene: Scene,
    state: State,
    contacts: Contacts,
    damped: BoolArray | None = None,
    dofs: Dofs | None = None,
) -> sp.csr_array:
    """C (nv, nv) in kg/s, kg·m/s and kg·m²/s: symmetric, positive semidefinite.

    C = Σ γ_n m_eff bᵀb + γ_t m_eff TᵀT over damped contacts, b the row of B and T v the sliding.
    Rigid motions of free bodies together are in its null space.

    Parameters
    ----------
    contacts : detected in this state.
    damped : (nc,) which contacts dissipate; default those that overlap and bonds.
    dofs : the degrees of freedom, by default ``scene.full_dofs``: sliding turns spheres.

    Raises
    ------
    InvalidInput : ``damped`` is not one flag for each contact; a state, contacts or degrees of
        freedom of another scene.

    Notes
    -----
    De Klerk et al. (2021), (20)–(25).
    """
    checks.instance("scene", scene, Scene).check_state(state)
    chosen = scene.check_dofs(scene.full_dofs if dofs is None else dofs)
    index = _damped(scene, contacts, damped)
    rows = _dashpots(scene, state, contacts, index, chosen.number, chosen.nv)
    C = sp.csr_array(rows.T @ rows)
    C.eliminate_zeros()
    C.sort_indices()
    return C


def damping_drive(
    scene: Scene,
    state: State,
    contacts: Contacts,
    damped: BoolArray | None = None,
    dofs: Dofs | None = None,
) -> FloatArray:
    """Force (nv,) through the dashpots from prescribed motion, such as moving walls, N and N·m.

    Prescribed velocities of fixed bodies are those of ``state``.
    The damping force of all contacts on the degrees of freedom is −C v + drive.

    Parameters
    ----------
    contacts, damped, dofs : as in ``damping_matrix``. With ``dofs`` that leave out the turns of
        spheres, these count among the prescribed.

    Raises
    ------
    InvalidInput : ``damped`` is not one flag for each contact; a state, contacts or degrees of
        freedom of another scene.
    """
    checks.instance("scene", scene, Scene).check_state(state)
    chosen = scene.check_dofs(scene.full_dofs if dofs is None else dofs)
    index = _damped(scene, contacts, damped)
    prescribed = chosen.scatter(np.zeros(chosen.nv), state.v)
    moving = np.asarray(prescribed.any(axis=1))
    index = index[moving[contacts.bodies[index]].any(axis=1)]
    if not index.size:
        return np.zeros(chosen.nv)
    every = np.arange(state.v.size).reshape(state.v.shape)
    rates = _dashpots(scene, state, contacts, index, every, state.v.size) @ prescribed.ravel()
    rows = _dashpots(scene, state, contacts, index, chosen.number, chosen.nv)
    return np.asarray(-(rows.T @ rates))


def _damped(scene: Scene, contacts: Contacts, damped: BoolArray | None) -> IntArray:
    """Numbers of the contacts that dissipate; none in a scene without damping."""
    checks.instance("contacts", contacts, Contacts).check_scene(scene)
    scene.require_no_box("damping of contacts")
    flags = contacts.bonded | (contacts.phi < 0.0)
    if damped is not None:
        flags = checks.flags("damped", damped, (contacts.nc,))
    if scene.damping == 0.0 and scene.gamma_t == 0.0:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(flags)


def _dashpots(
    scene: Scene, state: State, contacts: Contacts, index: IntArray, number: IntArray, width: int
) -> sp.csr_array:
    """Rows (n (1 + dim), width) D with C = Dᵀ D: √(γ m_eff) times b, and times the rows of T."""
    dim, n = scene.dim, index.size
    pairs, normals = contacts.bodies[index], contacts.normals[index]
    mass = effective_mass(scene, pairs)
    in_line = without_idle_turns(scene, number)
    squeeze = approach_rows(state, pairs, normals, contacts.points[index], in_line)
    # row k of P for every contact
    across = (np.eye(dim) - normals[:, :, None] * normals[:, None, :]).reshape(n * dim, dim)
    points = np.repeat(_acting_points(scene, state, contacts, index), dim, axis=0)
    slide = approach_rows(state, np.repeat(pairs, dim, axis=0), across, points, number)
    sizes = np.concatenate([scene.damping * mass, scene.gamma_t * np.repeat(mass, dim)])
    rows = sp.vstack(
        [sp.csr_array(squeeze, shape=(n, width)), sp.csr_array(slide, shape=(n * dim, width))]
    )
    return sp.csr_array(sp.diags_array(np.sqrt(sizes)) @ rows)


def _acting_points(scene: Scene, state: State, contacts: Contacts, index: IntArray) -> FloatArray:
    """(n, dim) where the dashpots of contacts act, m."""
    pairs = contacts.bodies[index]
    both = (scene.bodies.kind[pairs] == SHAPES.index(Sphere)).all(axis=1)
    between = state.position[pairs].mean(axis=1)
    return np.where(both[:, None], between, surface_points(scene, contacts)[index])


def surface_points(scene: Scene, contacts: Contacts) -> FloatArray:
    """(nc, dim) ``Contacts.points``, of spheres with fixed bodies on the surface of these, m."""
    sphere = scene.bodies.kind[contacts.bodies] == SHAPES.index(Sphere)
    fixed = scene.bodies.fixed[contacts.bodies] & ~sphere
    shift = np.where(fixed[:, 1] & sphere[:, 0], 0.5, 0.0)
    shift -= np.where(fixed[:, 0] & sphere[:, 1], 0.5, 0.0)
    return contacts.points + (shift * contacts.phi)[:, None] * contacts.normals
