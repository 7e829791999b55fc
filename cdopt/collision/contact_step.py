"""The contact step of a scene in a state."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import visible
from cdopt._util.frozen import frozen_rows
from cdopt.collision.contacts import Contacts, approach_rows, from_start, gap_rows, prescribed_rate
from cdopt.collision.joints import joints
from cdopt.collision.motion import MOMENTUM, halfway, inertia, spins, uneven
from cdopt.problem.contact_list import tangents_of
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.friction import Friction
from cdopt.problem.mass import MassMatrix
from cdopt.problem.step import Origin
from cdopt.scene import Dofs, Scene, State
from cdopt.scene.scene import OVERLAPS, deepest, overlapping

_MASSES: WeakKeyDictionary[Scene, tuple[Dofs, MassMatrix]] = WeakKeyDictionary()
LOG = logging.getLogger("cdopt.collision")
TOUCHING, PUSHED = "count as touching", "are pushed apart, which takes force"
_WARNING = (
    "%d overlaps, the deepest %.3g m, of %s and %s, %s (overlaps='touching', 'resolve' or 'refuse')"
)


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
    checks.instance("scene", scene, Scene).check_state(state)
    chosen = scene.check_dofs(scene.dofs if dofs is None else dofs)
    body = uneven(scene, chosen)
    if body.size:
        return with_turns(scene, chosen, body, inertia(scene.bodies, body, state.orientation[body]))
    each = np.arange(chosen.nv + 1)
    return frozen_rows(_diagonal(scene, chosen), each[:-1], each, (chosen.nv, chosen.nv))


def with_turns(scene: Scene, dofs: Dofs, body: IntArray, blocks: FloatArray) -> sp.csr_array:
    """M (nv, nv) with the ``blocks`` (n, 3, 3) of the turns of the uneven bodies ``body`` (n,)."""
    nv, turn = dofs.nv, dofs.number[body, 3:]
    wide = np.ones(nv, dtype=np.int64)
    wide[turn] = 3
    ends = np.append(0, wide.cumsum())
    data, column = _diagonal(scene, dofs).repeat(wide), np.arange(nv).repeat(wide)
    at = ends[turn][:, :, None] + np.arange(3)
    data[at], column[at] = blocks, turn[:, None, :]
    used = data != 0.0
    ends = np.append(0, used.cumsum())[ends]
    return frozen_rows(data[used], column[used], ends, (nv, nv))


def _diagonal(scene: Scene, dofs: Dofs) -> FloatArray:
    """(nv,) masses and moments of inertia, kg and kg·m²."""
    b = scene.bodies
    masses = np.repeat(b.mass[:, None], scene.dim, axis=1)
    return dofs.gather(np.hstack([masses, b.inertia.reshape(b.nb, -1)]))


def applied_loads(scene: Scene, dofs: Dofs | None = None) -> FloatArray:
    """Gravity and applied loads (nv,), N and N·m.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : degrees of freedom of another scene.
    """
    checks.instance("scene", scene, Scene)
    b, chosen = scene.bodies, scene.check_dofs(scene.dofs if dofs is None else dofs)
    heavy = np.where(b.fixed, 0.0, b.mass)
    force = heavy[:, None] * scene.gravity + b.force
    torque = b.torque[:, None] if scene.dim == 2 else b.torque
    return chosen.gather(np.hstack([force, torque]))


def external_forces(scene: Scene, state: State, dofs: Dofs | None = None) -> FloatArray:
    """F_ext (nv,) in N and N·m: ``applied_loads`` and, in space, the gyroscopic −ω × J ω.

    The last is zero for spheres, and not part of a step that conserves angular momentum.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : a state or degrees of freedom of another scene.
    """
    checks.instance("scene", scene, Scene).check_state(state)
    chosen = scene.check_dofs(scene.dofs if dofs is None else dofs)
    force, body = applied_loads(scene, chosen), uneven(scene, chosen)
    if body.size:
        omega = state.angular_velocity[body]
        spin = spins(scene.bodies, body, state.orientation[body], omega)
        force[chosen.number[body, 3:]] -= np.cross(omega, spin)
    return force


def tangents(normals: FloatArray) -> FloatArray:
    """Orthonormal tangents (nc, dim − 1, dim) of unit normals (nc, dim).

    In the plane the normal turned by a quarter counterclockwise. In space the first tangent is
    that coordinate axis, made orthogonal, which is farthest from the normal.

    Raises
    ------
    InvalidInput : other shapes.
    """
    many = np.shape(checks.array("normals", normals, "an array of shape (nc, 2) or (nc, 3)"))
    return tangents_of(checks.table("normals", normals, many[0] if many else 0))


def friction(
    scene: Scene, state: State, contacts: Contacts, mu: Any = True, dofs: Dofs | None = None
) -> Friction:
    """Friction of contacts that were detected in this state.

    Parameters
    ----------
    mu : friction coefficient μ ≥ 0, one number or (nc,); True for those of the scene's
        materials (``Scene.contact_friction``).
    dofs : the degrees of freedom, by default ``scene.full_dofs``: friction turns spheres.

    Raises
    ------
    InvalidInput : μ negative, or True where nothing states it; a state, contacts or degrees of
        freedom of another scene.
    """
    checks.instance("scene", scene, Scene).check_state(state)
    checks.instance("contacts", contacts, Contacts).check_scene(scene)
    chosen = scene.check_dofs(scene.full_dofs if dofs is None else dofs)
    values = _coefficients(scene, contacts, mu, "mu")
    return _friction(scene, state, contacts, values, chosen)


def _coefficients(scene: Scene, contacts: Contacts, mu: Any, name: str) -> FloatArray:
    """μ (nc,) of contacts, of one number, (nc,) or True; ``name`` is that of the argument."""
    if mu is True:
        mu = scene.contact_friction(contacts.bodies)
    return checks.per_contact(name, mu, contacts.nc, at_least=0.0)


def _friction(
    scene: Scene, state: State, contacts: Contacts, mu: FloatArray, dofs: Dofs
) -> Friction:
    """``friction`` with μ (nc,), of arguments that were checked."""
    directions = tangents_of(contacts.normals)
    many = scene.dim - 1
    flat = directions.reshape(-1, scene.dim)
    pairs = np.repeat(contacts.bodies, many, axis=0)
    points = np.repeat(contacts.points, many, axis=0)
    rows = approach_rows(state, pairs, flat, points, dofs.number, scene.box)
    return Friction(
        mu,
        frozen_rows(*rows, (contacts.nc * many, dofs.nv)),
        read_only(prescribed_rate(scene, state, pairs, flat, points).reshape(contacts.nc, many)),
        read_only(np.ones(contacts.nc)),
        read_only(directions),
        **_moments(scene, state, contacts, directions, dofs),
    )


def resisted_turns(scene: Scene) -> tuple[bool, bool]:
    """Whether some material of a scene resists rolling, and whether one resists spinning."""
    materials = checks.instance("scene", scene, Scene).materials
    spins = scene.dim == 3 and any(material.spinning_friction for material in materials)
    return any(material.rolling_friction for material in materials), spins


def _moments(
    scene: Scene, state: State, contacts: Contacts, tangential: FloatArray, dofs: Dofs
) -> dict[str, Any]:
    """The moments of ``Friction``: coefficients μ_r R in m, B_r, the prescribed spin.

    1/R is the sum of the curvatures; surfaces without one, such as those of boxes, do not roll.
    A row exists if some material of the scene states a coefficient.
    """
    nc, dim = contacts.nc, scene.dim
    rolls, spins = resisted_turns(scene)
    if not (rolls or spins):
        return {"spin": read_only(np.zeros((nc, 0)))}
    curved = scene.bodies.curvature[contacts.bodies].sum(axis=1)
    with np.errstate(divide="ignore"):
        radius = np.where(curved > 0.0, 1.0 / curved, 0.0)
    rolling, torsion = scene.contact_resistance(contacts.bodies) * radius
    if dim == 2:
        axes = np.ones((nc, 1, 1))
    else:
        parts = [contacts.normals[:, None, :]] if spins else []
        axes = np.concatenate([*parts, *([tangential] if rolls else [])], axis=1)
    many = axes.shape[1]
    flat, pairs = axes.reshape(nc * many, -1), np.repeat(contacts.bodies, many, axis=0)
    columns = dofs.number[:, dim:][pairs].reshape(nc * many, -1)  # of body i, then of j
    entries, used = np.hstack([-flat, flat]), columns >= 0
    used &= entries != 0.0
    indptr = np.append(0, np.cumsum(np.count_nonzero(used, axis=1)))
    turning = np.where(scene.bodies.fixed[:, None], state.v[:, dim:], 0.0)[pairs]
    spin = np.sum(flat * (turning[:, 1] - turning[:, 0]), axis=1).reshape(nc, many)
    return {
        "torsion": read_only(torsion if spins else np.zeros(nc)),
        "rolling": read_only(rolling if rolls else np.zeros(nc)),
        "B_r": frozen_rows(entries[used], columns[used], indptr, (nc * many, dofs.nv)),
        "spin": read_only(spin),
    }


def step(
    scene: Scene,
    state: State,
    contacts: Contacts,
    dt: float,
    *,
    v_min: float = 0.0,
    turning: str = MOMENTUM,
    dofs: Dofs | None = None,
    overlaps: str | None = None,
    friction: float | FloatArray | bool | None = None,
) -> ContactStep:
    """The contact step of a scene in a state, with the contacts that were detected in it.

    Fixed bodies carry no degrees of freedom; ``body_forces`` of the step gives the reactions.

    Parameters
    ----------
    dt : Δt, s.
    v_min : approach speed below which restitution does not act, m/s.
    turning : "momentum" conserves the angular momentum of free bodies: M of bodies with unequal
        moments of inertia and the v of their turns are those of free motion in the middle of the
        step, and restitution acts on the approach B v at that v. "plain" is the paper's: M, v and
        the gyroscopic term at the start. Give ``advance`` the same.
    dofs : the degrees of freedom, by default ``scene.dofs``; with friction ``scene.full_dofs``.
    overlaps : treatment of bodies that overlap in this state by more than round-off, 1e-6 of
        the smaller one's half-width. "touching": they count as touching, and the overlap causes no
        force. "resolve": the step pushes them apart, which takes the force m Φ/Δt². "refuse":
        raise. None: overlaps of the scene's initial state by ``scene.overlaps``, others are
        pushed apart. The default logs a warning, with the number of overlaps and the deepest.
    friction : friction coefficient μ of the contacts, one number or (nc,), for ``FrictionalCD``;
        True for those of the scene's materials (``Scene.contact_friction``); None or False for
        none.

    Raises
    ------
    InvalidInput : no such turning, a state, contacts or degrees of freedom of another scene, or
        overlaps that are refused.

    >>> import cdopt
    >>> scene = cdopt.scene.beam()
    >>> contacts = cdopt.collision.detect(scene, scene.initial)
    >>> cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)
    ContactStep(3 contacts, 3 degrees of freedom, dt=0.001 s)

    Notes
    -----
    Olsen & Kamrin (2018), section 3.
    """
    if overlaps is not None:
        checks.choice("overlaps", overlaps, OVERLAPS)
    if friction is False:
        friction = None
    checks.instance("scene", scene, Scene).check_state(state)
    checks.instance("contacts", contacts, Contacts).check_scene(scene)
    dt = checks.positive("dt", dt)
    usual = scene.dofs if friction is None else scene.full_dofs
    chosen = scene.check_dofs(usual if dofs is None else dofs)
    contacts = _without_overlaps(scene, contacts, overlaps)
    mu = None if friction is None else _coefficients(scene, contacts, friction, "friction")
    arguments = arguments_of_step(scene, state, contacts, chosen, dt, turning, mu)
    return ContactStep(**arguments, v_min=v_min)


def arguments_of_step(
    scene: Scene,
    state: State,
    contacts: Contacts,
    dofs: Dofs,
    dt: float,
    turning: str,
    mu: FloatArray | None,
) -> dict[str, Any]:
    """Arguments of ``ContactStep`` but ``v_min``, of ``detect``'s contacts with μ or None."""
    middle, keeps = halfway(scene, state, dt, turning, dofs), turning == MOMENTUM
    rows = None if mu is None else _friction(scene, state, contacts, mu, dofs)
    names = ("phi", "stiffness", "restitution", "gap_rate", "bodies", "normals", "points")
    return {
        **{name: getattr(contacts, name) for name in (*names, "contact_ids")},
        "M": _mass(scene, middle, dofs),
        "B": frozen_rows(*gap_rows(scene, state, contacts, dofs), (contacts.nc, dofs.nv)),
        "v": dofs.gather(middle.v),
        "F_ext": applied_loads(scene, dofs) if keeps else external_forces(scene, state, dofs),
        "dt": dt,
        "dof_body": dofs.body,
        "power": scene.power,
        "origin": Origin._of(
            scene=scene, t=state.t, q=state.q, v=state.v, names=scene.bodies.names
        ),
        "friction": rows,
        "joints": joints(scene, state, dt, dofs),
    }


def _mass(scene: Scene, state: State, dofs: Dofs) -> MassMatrix:
    """M of a step, which no orientation changes where bodies have equal moments: made once then."""
    last = _MASSES.get(scene)
    if last is not None and last[0] is dofs:
        return last[1]
    mass = MassMatrix(mass_matrix(scene, state, dofs))
    if not uneven(scene, dofs).size:
        _MASSES[scene] = dofs, mass
    return mass


def _without_overlaps(scene: Scene, contacts: Contacts, overlaps: str | None) -> Contacts:
    """The contacts with the gaps that a step takes, by the policy of ``overlaps``."""
    deep = overlapping(scene.bodies, contacts.bodies, contacts.phi)
    deep = deep[~contacts.bonded[deep]]
    pairs, phi = contacts.bodies[deep], contacts.phi[deep]
    if overlaps is None:
        touching = from_start(scene, contacts)
        pushed = np.isin(deep, overlapping(scene.bodies, contacts.bodies, touching.phi))
        for chosen, what in ((~pushed, TOUCHING), (pushed, PUSHED)):
            warn_of_overlaps(scene, pairs[chosen], phi[chosen], what)
        return touching
    if overlaps == "resolve" or not deep.size:
        return contacts
    if overlaps == "refuse":
        (i, j), depth = deepest(pairs, phi)
        found = f"{deep.size:,} overlaps, the deepest {depth:.3g} m, of bodies {i} and {j}"
        raise InvalidInput("contacts", found, "bodies apart, or overlaps='touching' or 'resolve'")
    gaps = contacts.phi.copy()
    gaps[deep] = 0.0
    return contacts._at_gaps(gaps)


def warn_of_overlaps(scene: Scene, pairs: IntArray, phi: FloatArray, what: str) -> None:
    """Report how many pairs (nc, 2) overlap, by how much, and what is done with them."""
    if phi.size:
        (i, j), depth = deepest(pairs, phi)
        first, second = visible(scene.bodies.label(i)), visible(scene.bodies.label(j))
        LOG.warning(_WARNING, phi.size, depth, first, second, what)
