"""The contacts of any MuJoCo model as a contact step: which of its forces are determined?

After ``model, data`` have come to rest, for example::

    step = cdopt.interop.mujoco.contact_step(model, data)
    print(cdopt.indeterminacy(step))

The step has the present qpos and qvel: MuJoCo detects the contacts again in a copy of the data, and
your objects do not change. With the Jacobians J and MuJoCo's bias force b,

- M is the joint-space inertia, v = qvel, and F_ext are all forces but those of constraints:
  applied, passive and actuator forces minus b, which includes gravity and Coriolis forces
  (``qfrc_smooth``);
- a contact's row of B is n·(J₂ − J₁) at the contact point, n from geom 1 to geom 2, and its gap is
  dist − includemargin, MuJoCo's residual r. Active limits of joints and tendons
  push in one direction like contacts, and are rows too; a hinge's gap is in rad, its force in N·m;
- body numbers are MuJoCo's; bodies welded together have the number of the topmost one, bodies
  welded to the world −1.

MuJoCo's contacts are soft, so that bodies at rest overlap. This overlap is elastic deformation;
rigid contacts would just touch. Therefore Φ = 0 there, unless ``keep_overlap`` is true.

By default the step is frictionless: it has only the normal rows of contacts with friction
(``LABEL``). With ``friction=True`` it has their sliding friction. MuJoCo's cones are pyramids
inside Coulomb's cone, or elliptic cones, and its law is the associated one with a compliance. In
cdopt cones are circular, and ``FrictionalCD`` selects the law. Equalities (connect, weld, joint,
tendon) are joints of the step: J v⁺ + rate = 0 with the rate −(J v + Δt a_ref), by which MuJoCo
corrects the error of the equality; with hard equalities, R → 0, v⁺ is that of MuJoCo. Other
constraints that pull (friction loss, adhesion) and contacts of flexes are not supported.
``SoftCD.from_mujoco`` is MuJoCo's step with all its rows.

**MuJoCo's springs.** A constraint obeys R f = a_ref − a, with a_ref = −b J v − k r. At rest f = K
|r| with K = k / R, a spring per contact; ``stiffness`` gives those K. With them the compatible
forces are the limit of MuJoCo's forces at rest for increasingly hard contacts.

MuJoCo documentation, chapters "Computation" (impedance, regulariser R, reference acceleration) and
"Modeling" (solref and solimp).
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import Unsupported
from cdopt._util.formatting import numbered
from cdopt._util.mujoco_state import current, images, name_of, sparse_rows
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.friction import Friction
from cdopt.problem.joints import Joints

LABEL = "derived frictionless problem: normal rows only; friction of the contacts is not used"
LOG = logging.getLogger("cdopt.interop.mujoco")

_IN_GAP = 1  # mjContact.exclude of a contact that is detected, but too far apart to act on


def contact_step(
    model: Any,
    data: Any,
    *,
    dt: float | None = None,
    margin: float = 0.0,
    keep_overlap: bool = False,
    stiffness: Any = None,
    friction: bool = False,
) -> ContactStep:
    """The contact step of a MuJoCo model in the state of its data.

    Contacts come first, in MuJoCo's order, active limits after them. Contact ids are names of geoms
    and a number among the contacts of those two, such as "floor/leg/0"; they do not change as long
    as MuJoCo lists the contacts of a pair in the same order.

    Parameters
    ----------
    model : a mujoco.MjModel. data : a mujoco.MjData of it; neither is written to.
    dt : Δt, s; by default the model's time step.
    margin : m. Contacts that MuJoCo detects but keeps inactive, those of geoms with a ``gap``,
        are rows too if they are at most this far from being active.
    keep_overlap : whether Φ is negative where contacts overlap. The step then pushes bodies apart
        at the speed |Φ|/Δt, with forces that can be far larger than the weight.
    stiffness : relative contact stiffness k̃, one number or (nc,); by default ones. The function
        ``stiffness`` gives that of MuJoCo.
    friction : whether the step has friction, with MuJoCo's sliding coefficients. Torsional and
        rolling friction (condim 4 and 6) is ignored, with a warning; limits have none.

    Returns
    -------
    ContactStep : without bodies, normals and points if a limit is active, which has none.

    Raises
    ------
    InvalidInput : a bad argument; data of another model; numbers that are not finite; a model
        without degrees of freedom; more contacts than MuJoCo has memory for.
    Unsupported : MuJoCo is not installed; or friction that depends on the direction, or an active
        constraint that is neither an equality nor a contact of rigid bodies. The message names it.
    """
    margin = checks.not_negative("margin", margin)
    keep_overlap = checks.flag("keep_overlap", keep_overlap)
    friction = checks.flag("friction", friction)
    engine, model, now = current(model, data)
    _refuse_what_pulls(engine, model, now)
    chosen, limits = _contacts(now, margin), _limits(engine, now)
    if not friction and np.any(now.contact.dim[chosen] > 1):
        _warn_once(f"contacts with friction: {LABEL}")
    gaps = np.append(
        (now.contact.dist - now.contact.includemargin)[chosen],
        (now.efc_pos - now.efc_margin)[limits],
    )
    pairs = now.contact.geom.reshape(-1, 2)[chosen]
    where: dict[str, Any] = {}
    if not limits.size:
        bodies = model.body_weldid[model.geom_bodyid[pairs]]  # of those welded together the topmost
        where["bodies"] = np.where(bodies == 0, -1, bodies)
        where["normals"] = now.contact.frame[chosen, :3]
        where["points"] = now.contact.pos[chosen]
    dt = float(model.opt.timestep) if dt is None else checks.positive("dt", dt)
    return ContactStep(
        M=sparse_rows(images(engine.mj_mulM, model, now, range(model.nv), model.nv), model.nv),
        B=_rows(engine, model, now, chosen, [0], limits),
        phi=gaps if keep_overlap else np.maximum(gaps, 0.0),
        v=now.qvel,
        F_ext=now.qfrc_smooth,
        dt=dt,
        stiffness=1.0 if stiffness is None else stiffness,
        contact_ids=_names(engine, model, now, pairs, limits),
        dof_body=model.dof_bodyid,
        body_names=numbered(
            [name_of(engine, model, engine.mjtObj.mjOBJ_BODY, k) for k in range(model.nbody)]
        ),
        friction=_friction(engine, model, now, chosen, limits) if friction else None,
        joints=_joints(engine, model, now, dt),
        **where,
    )


def contact_forces(model: Any, data: Any, *, margin: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """MuJoCo's forces in the rows of ``contact_step``: normal (nc,) and tangential (nc, 2), N.

    ``cdopt.audit(step, *contact_forces(model, data))`` checks them. Limits have no tangential
    forces; moments of torsional and rolling friction are ignored. Arguments and errors are those of
    ``contact_step``.
    """
    margin = checks.not_negative("margin", margin)
    engine, model, now = current(model, data)
    chosen, limits = _contacts(now, margin), _limits(engine, now)
    forces, wrench = np.zeros((chosen.size + limits.size, 3)), np.zeros(6)
    for row, contact in enumerate(chosen):
        engine.mj_contactForce(model, now, int(contact), wrench)
        forces[row] = wrench[:3]
    forces[chosen.size :, 0] = now.efc_force[limits]
    return forces[:, 0].copy(), forces[:, 1:].copy()


def stiffness(model: Any, data: Any) -> FloatArray:
    """The stiffness K (nc,) of MuJoCo's contacts at rest: f = K |r|, r the overlap.

    The rows are those of ``contact_step`` with no margin, as are arguments and errors. K is in N/m;
    of a hinge's limit in N·m/rad. Where the impedance changes with depth, K is the secant at the
    present overlap. With friction K applies to the normal force of a contact without a tangential
    force. K = k / R, where k includes the impedance; a pyramidal cone has one such spring per edge,
    in parallel.
    """
    engine, model, now = current(model, data)
    _refuse_what_pulls(engine, model, now)
    spring = now.efc_KBIP[:, 0] * now.efc_KBIP[:, 2] / now.efc_R
    chosen = _contacts(now, 0.0)
    first, dim = now.contact.efc_address[chosen], now.contact.dim[chosen]
    pyramid = model.opt.cone == engine.mjtCone.mjCONE_PYRAMIDAL
    edges = np.where(pyramid & (dim > 1), 2 * (dim - 1), 1)
    of_contacts = [spring[a : a + n].sum() for a, n in zip(first, edges, strict=True)]
    return read_only(np.concatenate([of_contacts, spring[_limits(engine, now)]]))


# --- the state -------------------------------------------------------------------------


def _refuse_what_pulls(engine: Any, model: Any, now: Any) -> None:
    """Raise an error for active constraints other than contacts between rigid bodies."""
    kinds, objects = engine.mjtConstraint, engine.mjtObj
    refused = {
        int(kinds.mjCNSTR_FRICTION_DOF): ("friction loss of joint", objects.mjOBJ_JOINT),
        int(kinds.mjCNSTR_FRICTION_TENDON): ("friction loss of tendon", objects.mjOBJ_TENDON),
    }
    for kind, number in zip(now.efc_type.tolist(), now.efc_id.tolist(), strict=True):
        if kind in refused:
            what, of = refused[kind]
            owner = model.dof_jntid[number] if of == objects.mjOBJ_JOINT else number
            name = name_of(engine, model, of, int(owner))
            raise Unsupported(f"{what} {name}", "it pulls both ways, a contact only pushes")
    geoms = now.contact.geom.reshape(-1, 2)
    if np.any(geoms < 0):
        raise Unsupported("contact of a flex", "it is no rigid body")
    sticky = np.flatnonzero(getattr(now.contact, "adhesion", np.zeros(len(geoms))) != 0.0)
    if sticky.size:
        name = "/".join(name_of(engine, model, objects.mjOBJ_GEOM, g) for g in geoms[sticky[0]])
        raise Unsupported(f"adhesion of contact {name}", "it pulls, a contact only pushes")


_warn_once = functools.cache(LOG.warning)


# --- rows ------------------------------------------------------------------------------


def _contacts(now: Any, margin: float) -> IntArray:
    """Numbers of the active contacts of MuJoCo, and of those at most ``margin`` from it."""
    gap = now.contact.dist - now.contact.includemargin
    waiting = (now.contact.exclude == _IN_GAP) & (gap <= margin) & (margin > 0.0)
    return np.flatnonzero((now.contact.efc_address >= 0) | waiting)


def _limits(engine: Any, now: Any) -> IntArray:
    """Constraint rows of active limits of joints and tendons."""
    kinds = engine.mjtConstraint
    limits = [int(kinds.mjCNSTR_LIMIT_JOINT), int(kinds.mjCNSTR_LIMIT_TENDON)]
    return np.flatnonzero(np.isin(now.efc_type, limits))


def _rows(
    engine: Any, model: Any, now: Any, contacts: IntArray, axes: list[int], limits: IntArray
) -> sp.csr_array:
    """a·(J₂ − J₁) for axes a (0 the normal) of each contact's frame, then the rows of limits."""

    def rows() -> Iterator[FloatArray]:
        """The rows in the order of the step's contacts; each is valid until the next."""
        first, second = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        bodies = model.geom_bodyid[now.contact.geom.reshape(-1, 2)]
        for k in contacts:
            point = now.contact.pos[k]
            engine.mj_jac(model, now, first, None, point, int(bodies[k, 0]))
            engine.mj_jac(model, now, second, None, point, int(bodies[k, 1]))
            yield from now.contact.frame[k].reshape(3, 3)[axes] @ (second - first)
        yield from images(engine.mj_mulJacTVec, model, now, limits, now.nefc)

    return sparse_rows(rows(), model.nv)


def _joints(engine: Any, model: Any, now: Any, dt: float) -> Joints | None:
    """MuJoCo's rows of equalities that move something; None without any."""
    kind = int(engine.mjtConstraint.mjCNSTR_EQUALITY)
    rows = np.flatnonzero(np.isin(now.efc_type, [kind]))
    J = sparse_rows(images(engine.mj_mulJacTVec, model, now, rows, now.nefc), model.nv)
    moves = np.flatnonzero(np.diff(J.indptr))
    if not moves.size:
        return None
    J, rows = sp.csr_array(J[moves]), rows[moves]
    owners = now.efc_id[rows].tolist()
    names = [name_of(engine, model, engine.mjtObj.mjOBJ_EQUALITY, k) for k in owners]
    rate = -(J @ now.qvel) - dt * np.array(now.efc_aref)[rows]
    return Joints(J, rate, names=_numbered(names))


def _friction(engine: Any, model: Any, now: Any, contacts: IntArray, limits: IntArray) -> Friction:
    """Sliding friction of the contacts; none of those with condim 1 and of limits."""
    dim, sliding = now.contact.dim[contacts], now.contact.friction[contacts, :2]
    uneven = np.flatnonzero((dim > 1) & (sliding[:, 0] != sliding[:, 1]))
    if uneven.size:
        pair = now.contact.geom.reshape(-1, 2)[contacts[uneven[0]]]
        name = "/".join(name_of(engine, model, engine.mjtObj.mjOBJ_GEOM, geom) for geom in pair)
        raise Unsupported(f"friction of contact {name}", "it differs by direction")
    if np.any(dim > 3):
        _warn_once("torsional or rolling friction (condim 4 or 6): only sliding is used")
    tangential = _rows(engine, model, now, contacts, [1, 2], limits[:0])
    none = sp.csr_array((2 * limits.size, model.nv))
    return Friction(
        mu=np.append(np.where(dim > 1, sliding[:, 0], 0.0), np.zeros(limits.size)),
        B_t=sp.vstack([tangential, none], format="csr"),
        tangents=None if limits.size else now.contact.frame[contacts].reshape(-1, 3, 3)[:, 1:],
    )


# --- names -----------------------------------------------------------------------------


def _names(engine: Any, model: Any, now: Any, pairs: IntArray, limits: IntArray) -> list[str]:
    """Distinct names of the rows."""
    objects, limited = engine.mjtObj, engine.mjtConstraint.mjCNSTR_LIMIT_JOINT
    name = functools.partial(name_of, engine, model)
    owners = ["/".join(name(objects.mjOBJ_GEOM, geom) for geom in pair) for pair in pairs]
    for row in limits:
        kind = objects.mjOBJ_JOINT if now.efc_type[row] == int(limited) else objects.mjOBJ_TENDON
        owners.append(f"limit/{name(kind, now.efc_id[row])}")
    return _numbered(owners)


def _numbered(owners: list[str]) -> list[str]:
    """Each name with its number among equal ones."""
    count = Counter[str]()
    names = []
    for owner in owners:
        names.append(f"{owner}/{count[owner]}")
        count[owner] += 1
    return names
