"""Unit forces at contact points, as forces and torques on bodies.

Their products with velocities are gap rates: this one formula serves B and moving walls.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.scene import Scene, State


def prescribed_rate(
    scene: Scene, state: State, pairs: IntArray, normals: FloatArray, points: FloatArray
) -> FloatArray:
    """Rate (nc,) of the gaps from the velocities that fixed bodies have in this state, m/s."""
    rate = np.zeros(pairs.shape[0])
    moving = scene.bodies.fixed & state.v.any(axis=1)
    for side, sign in ((0, -1.0), (1, 1.0)):
        k = np.flatnonzero(moving[pairs[:, side]])
        body = pairs[k, side]
        rate[k] += sign * (wrench(state, body, normals[k], points[k]) * state.v[body]).sum(axis=1)
    return rate


def wrench(state: State, body: IntArray, normals: FloatArray, points: FloatArray) -> FloatArray:
    """Force n and torque r × n (n, 3 or 6) of unit forces at points on bodies."""
    arm = points - state.position[body]
    if state.dim == 2:
        turn = (arm[:, 0] * normals[:, 1] - arm[:, 1] * normals[:, 0])[:, None]
    else:
        turn = np.cross(arm, normals)
    return np.hstack([normals, turn])
