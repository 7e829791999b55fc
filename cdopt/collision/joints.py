"""The joints of a scene in a state, as bilateral rows of a step.

The gap g of a row is the error of the joint: g + Δt J v = 0 at the end of the step, so that errors
of the time step do not accumulate. Points of pins are compared along the global axes; sliders along
directions of the first body, in which its velocity counts at the second one's point. Orientations
are compared by the rotation vector between them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, freeze, read_only
from cdopt._util.formatting import numbered
from cdopt.geometry.polytope import cross
from cdopt.geometry.rotations import matrices
from cdopt.problem.joints import Joints
from cdopt.scene import Dofs, Scene, State
from cdopt.scene.joint import PlacedJoint

_AXES = "xyz"


class _JointRow(NamedTuple):
    """One row: its name, gap, and the entries of both bodies' velocities (3,) or (6,)."""

    name: str
    gap: float
    first: FloatArray
    second: FloatArray


def joints(scene: Scene, state: State, dt: float, dofs: Dofs | None = None) -> Joints | None:
    """The joints of a scene in this state, for a step of Δt; None where it has none.

    Parameters
    ----------
    dt : Δt, s: rates are gaps over it, and those of bodies whose motion is prescribed.
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : a state or degrees of freedom of another scene.

    >>> import cdopt
    >>> ball, dim = cdopt.scene.Body(cdopt.scene.Sphere(0.1), (0.0, -1.0), mass=1.0), 2
    >>> pin = cdopt.scene.Joint(kind="pin", bodies=(0, "world"), point=(0.0, 0.0))
    >>> pendulum = cdopt.scene.Scene([ball], dim=dim, joints=[pin])
    >>> cdopt.collision.joints(pendulum, pendulum.initial, dt=1e-3).J.toarray()
    array([[-1.,  0.,  1.],
           [ 0., -1.,  0.]])
    """
    checks.instance("scene", scene, Scene).check_state(state)
    dt, chosen = checks.positive("dt", dt), scene.check_dofs(scene.dofs if dofs is None else dofs)
    if not scene.joints:
        return None
    data, column, ends, rates, names = [np.zeros(0)], [np.zeros(0, np.int64)], [0], [], []
    for joint in scene.placed_joints:
        for row in _rows(joint, state):
            rate = row.gap / dt
            for body, entries in zip(joint.bodies.tolist(), (row.first, row.second), strict=True):
                if body < 0:
                    continue
                number = chosen.number[body]
                moves = number >= 0
                data.append(entries[moves])
                column.append(number[moves])
                if scene.bodies.fixed[body]:
                    rate += float(entries @ state.v[body])
            ends.append(sum(part.size for part in data))
            rates.append(rate)
            names.append(f"{joint.name} {row.name}")
    shape = (len(rates), chosen.nv)
    J = sp.csr_array((np.concatenate(data), np.concatenate(column), ends), shape=shape)
    return Joints(freeze(J), read_only(np.array(rates)), names=numbered(names))


def joint_gaps(scene: Scene, state: State) -> FloatArray:
    """(nj,) m and rad, the errors of the rows of a scene's joints in a ``state``.

    Raises
    ------
    InvalidInput : a state of another scene.
    """
    checks.instance("scene", scene, Scene).check_state(state)
    rows = [row for joint in scene.placed_joints for row in _rows(joint, state)]
    return read_only(np.array([row.gap for row in rows], dtype=np.float64))


def _rows(joint: PlacedJoint, state: State) -> list[_JointRow]:
    """The rows of one joint."""
    dim = state.dim
    turns, points, arms = [], [], []
    for body, arm in zip(joint.bodies.tolist(), joint.arms, strict=True):
        turn = np.eye(dim) if body < 0 else matrices(state.orientation[[body]])[0]
        centre = np.zeros(dim) if body < 0 else state.position[body]
        turns.append(turn)
        arms.append(turn @ arm)
        points.append(centre + arms[-1])
    apart, rows = points[1] - points[0], []
    frame = joint.frame @ turns[0].T  # rows in the global frame
    if joint.kind == "slider":
        for k, n in enumerate(frame[1:]):
            entries = -_wrench(n, arms[0] + apart), _wrench(n, arms[1])
            rows.append(_JointRow(f"across {k + 1}", float(n @ apart), *entries))
    else:
        for k, n in enumerate(np.eye(dim)):
            rows.append(
                _JointRow(_AXES[k], float(apart[k]), -_wrench(n, arms[0]), _wrench(n, arms[1]))
            )
    if joint.kind == "pin":
        return rows
    off = _turn(turns[1] @ (turns[0] @ joint.relative).T)
    if dim == 2:
        turn = np.array([0.0, 0.0, 1.0])
        return [*rows, _JointRow("turn", float(off[0]), -turn, turn)]
    if joint.kind == "hinge":  # both axes along each other
        other = joint.frame[0] @ joint.relative @ turns[1].T
        across = np.cross(frame[0], other)
        held = [(f"turn {k + 1}", t, float(t @ across)) for k, t in enumerate(frame[1:])]
    else:
        held = [(f"turn {_AXES[k]}", t, float(off[k])) for k, t in enumerate(np.eye(3))]
    for name, t, gap in held:
        turning = np.append(np.zeros(3), t)
        rows.append(_JointRow(name, gap, -turning, turning))
    return rows


def _wrench(n: FloatArray, arm: FloatArray) -> FloatArray:
    """(3,) or (6,) a unit force n at an arm, and its moment."""
    return np.append(n, cross(arm, n))


def _turn(R: FloatArray) -> FloatArray:
    """The angle (1,) or rotation vector (3,) of a rotation matrix, rad."""
    if len(R) == 2:
        return np.array([np.arctan2(R[1, 0], R[0, 0])])
    axis = 0.5 * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    sine = float(np.linalg.norm(axis))
    angle = np.arctan2(sine, 0.5 * (np.trace(R) - 1.0))
    return axis * (angle / sine) if sine > 0.0 else axis
