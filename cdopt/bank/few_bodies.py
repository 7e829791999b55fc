"""One or two bodies: flight, impact, moving floors, degenerate matrices and jams."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt.problem.contact_step import ContactStep

GRAVITY = 9.81  # m/s²
DT = 1e-3  # s
_WORLD_TO_BODY = [[-1, 0]]
_UP = [[0.0, 0.0, 1.0]]


def ball(height: float = 0.0, speed: float = 0.0, floor_speed: float = 0.0) -> ContactStep:
    """A ball of 1 kg and radius 0.1 m above or on a floor, falling at ``speed``.

    ``height`` (m) is the gap, ``speed`` (m/s) counts downwards, ``floor_speed`` (m/s) upwards.
    Degrees of freedom: the three translations. Unique in every respect: nullity 0.
    Source: cdopt.

    Raises
    ------
    InvalidInput : a number that is not finite, or a negative height.
    """
    gap = checks.scalar("height", height, at_least=0.0)
    return ContactStep(
        M=np.eye(3),
        B=_UP,
        phi=[gap],
        v=[0.0, 0.0, -checks.scalar("speed", speed)],
        F_ext=[0.0, 0.0, -GRAVITY],
        dt=DT,
        gap_rate=-checks.scalar("floor_speed", floor_speed),
        bodies=_WORLD_TO_BODY,
        normals=_UP,
        points=[[0.0, 0.0, 0.0]],
        dof_body=[0, 0, 0],
    )


def zero_contacts() -> ContactStep:
    """A ball of 1 kg in free fall and no contact at all: B is (0, 3), every contact array empty."""
    return ball().select(np.zeros(0, dtype=np.int64))


def impact(restitution: float = 0.5, speed: float = 1.0) -> ContactStep:
    """Two discs of 1 kg and diameter 1 m that meet head-on, each at ``speed`` (m/s).

    The gap is 0.6 of the way they close in the step, so that they touch within it. Degrees of
    freedom: two translations each. They part at restitution × their approach: each keeps
    −restitution × speed, and the contact force is (1 + restitution) × 1 kg × speed / dt.
    Source: cdopt; Newton's law of restitution.

    Raises
    ------
    InvalidInput : restitution not in [0, 1], or a speed that is not positive.
    """
    e = checks.scalar("restitution", restitution, at_least=0.0, at_most=1.0)
    fast = checks.scalar("speed", speed, above=0.0)
    gap = 0.6 * 2.0 * fast * DT
    return ContactStep(
        M=np.eye(4),
        B=[[-1.0, 0.0, 1.0, 0.0]],
        phi=[gap],
        v=[fast, 0.0, -fast, 0.0],
        F_ext=np.zeros(4),
        dt=DT,
        restitution=e,
        bodies=[[0, 1]],
        normals=[[1.0, 0.0]],
        points=[[0.5 + 0.5 * gap, 0.0]],
        dof_body=[0, 0, 1, 1],
    )


def rank_deficient() -> ContactStep:
    """Two balls of 1 kg stacked on a floor, posed as carelessly as possible.

    B (5, 12) has six columns of zeros (the balls' rotations, which frictionless contact does not
    turn), the ball–ball contact twice, the floor contact twice with the second one scaled to
    half its speed (as a lever arm would), and a row of zeros (a contact between two fixed
    things). nullity 3. Source: cdopt.
    """
    floor = np.zeros(12)
    floor[2] = 1.0
    pair = np.zeros(12)
    pair[[2, 8]] = [-1.0, 1.0]
    radius, inertia = 0.1, 0.4 * 0.1**2  # m, kg·m²
    load = np.zeros(12)
    load[[2, 8]] = -GRAVITY
    return ContactStep(
        M=np.diag(np.tile([1.0, 1.0, 1.0, inertia, inertia, inertia], 2)),
        B=[floor, 0.5 * floor, pair, pair, np.zeros(12)],
        phi=np.zeros(5),
        v=np.zeros(12),
        F_ext=load,
        dt=DT,
        points=[[0.0, 0.0, z * radius] for z in (0.0, 0.0, 2.0, 2.0, 0.0)],
        dof_body=np.repeat([0, 1], 6),
    )


def squeezed(overlap: float = 0.01) -> ContactStep:
    """A disc of 1 kg between two fixed walls, in penetration (m) with both: jammed.

    It cannot leave both walls at once: the multipliers g = (1, 1) have Bᵀg = 0 and gᵀΦ < 0, and
    no motion exists that (22) could choose. Degrees of freedom: two translations.
    Source: cdopt.

    Raises
    ------
    InvalidInput : the overlap is not positive.
    """
    depth = checks.scalar("overlap", overlap, above=0.0, at_most=0.5)
    return ContactStep(
        M=np.eye(2),
        B=[[1.0, 0.0], [-1.0, 0.0]],
        phi=[-depth, -depth],
        v=np.zeros(2),
        F_ext=[0.0, -GRAVITY],
        dt=DT,
        bodies=[[-1, 0], [-1, 0]],
        normals=[[1.0, 0.0], [-1.0, 0.0]],
        points=[[depth - 0.5, 0.0], [0.5 - depth, 0.0]],
        dof_body=[0, 0],
    )
