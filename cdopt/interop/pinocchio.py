"""A Pinocchio model with frames in contact as a contact step: which foot forces are determined?

M is the joint-space inertia of ``crba``, F_ext = τ − h(q, v) with h of ``nonLinearEffects``
(gravity, Coriolis forces), and a contact's rows are those of its frame's Jacobian at the contact
point, along the normal and the tangents of the ground:

    M (v⁺ − v) = Δt (τ − h + Jᵀf)

If the joints of a robot are held by position control, their torques are unknown. With ``locked``
their rates are zero: they are joints of the step, and the torques are the reactions. The feet then
carry the weight together, but their shares are not determined.

Pinocchio's documentation, and J. Carpentier et al., *The Pinocchio C++ library*, SII 2019.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.problem.contact_list import tangents_of
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.friction import Friction
from cdopt.problem.joints import Joints

EXTRA = "pip install pin"
_FREE = 6  # degrees of freedom of a floating base


def why_unavailable() -> str | None:
    """Why Pinocchio is not available, with the remedy; None if it is."""
    there = importlib.util.find_spec("pinocchio")
    return None if there else f"pinocchio is not installed: {EXTRA}"


def contact_step(
    model: Any,
    q: Any,
    frames: Any,
    friction: float | None = None,
    *,
    v: Any = None,
    tau: Any = None,
    dt: float = 1e-3,
    normal: Any = (0.0, 0.0, 1.0),
    gaps: Any = 0.0,
    locked: bool | None = None,
) -> ContactStep:
    """The contact step of a Pinocchio model that stands on frames.

    Parameters
    ----------
    model : a pinocchio.Model; it is not written to.
    q : (model.nq,) configuration.
    frames : names of the frames in contact with the world; or contact points (n, 3), m, in each
        frame: {"left foot": [[0.1, 0.05, 0], …]}.
    friction : μ of all contacts; None for none.
    v : (model.nv,) velocity at the start; default rest.
    tau : (model.nv,) torques and forces of the joints; default none.
    dt : Δt, s.
    normal : (3,) or (nc, 3), of the ground towards the robot.
    gaps : m, one number or (nc,); by default all touch.
    locked : whether all joints are held except the first one, of six degrees of freedom; by default
        if no torques are given and the first joint is a floating base.

    Returns
    -------
    ContactStep : contacts named "frame" or "frame/0", …, bodies are Pinocchio's joints.

    Raises
    ------
    InvalidInput : a bad argument, or an unknown frame.
    Unsupported : Pinocchio is not installed.
    """
    reason = why_unavailable()
    if reason is not None:
        raise Unsupported("a Pinocchio model", reason)
    pin: Any = importlib.import_module("pinocchio")
    if not isinstance(model, pin.Model):
        raise InvalidInput("model", checks.describe(model), "a pinocchio.Model")
    nv = int(model.nv)
    place = np.array(checks.vector("q", q, int(model.nq)))
    speed = np.zeros(nv) if v is None else checks.vector("v", v, nv)
    torque = np.zeros(nv) if tau is None else checks.vector("tau", tau, nv)
    floating = model.njoints > 1 and int(model.joints[1].nv) == _FREE
    held = floating and tau is None if locked is None else checks.flag("locked", locked)
    data = model.createData()
    M = pin.crba(model, data, place)
    M = np.triu(M) + np.triu(M, 1).T
    force = torque - pin.nonLinearEffects(model, data, place, np.array(speed))
    pin.computeJointJacobians(model, data, place)
    pin.updateFramePlacements(model, data)
    rows, points, names, joints = [], [], [], []
    for name, offsets in _frames(frames):
        if not model.existFrame(name):
            known = ", ".join(frame.name for frame in list(model.frames)[:20])
            raise InvalidInput("frames", repr(name), f"one of the frames: {known}")
        number = model.getFrameId(name)
        at = data.oMf[number]
        aligned = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        J = np.array(pin.getFrameJacobian(model, data, number, aligned))
        for k, offset in enumerate(offsets):
            arm = at.rotation @ offset
            rows.append(J[:3] - np.cross(arm, J[3:], axisb=0, axisc=0))
            points.append(at.translation + arm)
            names.append(name if len(offsets) == 1 else f"{name}/{k}")
            joints.append((-1, int(model.frames[number].parentJoint)))
    nc = len(rows)
    n = np.broadcast_to(checks.real("normal", normal, "(3,) or (nc, 3)"), (nc, 3))
    n = n / np.linalg.norm(n, axis=1)[:, None]
    linear, t = np.array(rows), tangents_of(n)
    rough = None
    if friction is not None:
        B_t = np.einsum("ckx,cxv->ckv", t, linear).reshape(-1, nv)
        rough = Friction(friction, sp.csr_array(B_t), tangents=t)
    hold = None
    if held:
        if not floating:
            raise InvalidInput("locked", "True", "a model with a floating base")
        if nv > _FREE:
            hold = Joints(sp.eye_array(nv, format="csr")[_FREE:], names=_names(model)[_FREE:])
    return ContactStep(
        M=M,
        B=sp.csr_array(np.einsum("cx,cxv->cv", n, linear)),
        phi=np.full(nc, gaps) if np.ndim(gaps) == 0 else gaps,
        v=speed,
        F_ext=force,
        dt=dt,
        friction=rough,
        joints=hold,
        bodies=joints,
        normals=n,
        points=np.array(points),
        contact_ids=names,
    )


def _frames(frames: Any) -> list[tuple[str, FloatArray]]:
    """Names of frames with the contact points (n, 3) of each."""
    if isinstance(frames, Mapping):
        return [
            (checks.text("frames", name), checks.numbers(f"frames[{name!r}]", x, (None, 3), "m"))
            for name, x in frames.items()
        ]
    stated = [frames] if isinstance(frames, str) else list(frames)
    if not stated:
        raise InvalidInput("frames", "none", "names of frames in contact")
    return [(checks.text("frames", name), np.zeros((1, 3))) for name in stated]


def _names(model: Any) -> list[str]:
    """A name for each degree of freedom."""
    result = []
    for joint, name in zip(list(model.joints)[1:], list(model.names)[1:], strict=True):
        many = int(joint.nv)
        result += [name] if many == 1 else [f"{name}/{k}" for k in range(many)]
    return result
