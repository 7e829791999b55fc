"""Scenes of one or two bodies: bounces, collisions, and what one wants to check by hand."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import Dim, FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import Box, HalfSpace, Sphere


def bouncing_ball(
    restitution: float = 0.5, *, height: float = 1.0, radius: float = 0.1, dim: Dim = 2
) -> Scene:
    """A ball of 1 kg falls from ``height`` m of clearance onto a floor; apexes follow e²ⁿ.

    ``restitution`` is Newton's e, ``radius`` in m.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    h = checks.scalar("height", height, at_least=0.0)
    ball = Body(Sphere(radius), _up(dim, h + radius), mass=1.0, name="ball")
    return Scene(
        [floor(dim), ball],
        dim=dim,
        restitution=restitution,
        name="bouncing-ball",
        title="A ball that bounces on a floor",
    )


def sphere_on_floor(
    *, radius: float = 0.1, mass: float = 1.0, gap: float = 0.0, floor_speed: float = 0.0,
    restitution: float = 0.0, dim: Dim = 2,
) -> Scene:  # fmt: skip
    """A sphere ``gap`` m over a floor, which may rise at ``floor_speed`` m/s.

    ``radius`` in m, ``mass`` in kg, ``restitution`` Newton's e.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    ball = Body(Sphere(radius), _up(dim, radius + gap), mass=mass, name="ball")
    return Scene(
        [floor(dim, floor_speed), ball],
        dim=dim,
        restitution=restitution,
        name="sphere-on-floor",
        title="A sphere on a floor",
    )


def box_on_floor(
    *,
    size: object = None,
    angle: float = 0.3,
    gap: float = 0.01,
    mass: float = 1.0,
    dim: Dim = 2,
) -> Scene:
    """A box, turned by ``angle`` rad in the x-z (in the plane x-y) plane, ``gap`` m over a floor.

    ``size`` (dim,) in m; by default 0.4 × 0.2, in space 0.4 × 0.3 × 0.2. ``mass`` in kg.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    edges = checks.vector("size", [0.4, 0.3, 0.2][: 3 : 4 - dim] if size is None else size, dim)
    turn = checks.scalar("angle", angle)
    lowest = 0.5 * (edges[0] * abs(np.sin(turn)) + edges[-1] * abs(np.cos(turn)))
    # a turn from x to z is about −y
    in_space = [np.cos(0.5 * turn), 0.0, -np.sin(0.5 * turn), 0.0]
    box = Body(
        Box(edges),
        _up(dim, float(lowest) + gap),
        angle=turn if dim == 2 else None,
        orientation=in_space if dim == 3 else None,
        mass=mass,
        name="box",
    )
    return Scene([floor(dim), box], dim=dim, name="box-on-floor", title="A box falls on a floor")


def collision(
    restitution: float = 1.0, *, masses: tuple[float, float] = (1.0, 1.0),
    speeds: tuple[float, float] = (1.0, -1.0), radius: float = 0.1, gap: float = 0.02,
    offset: float = 0.0, dim: Dim = 2,
) -> Scene:  # fmt: skip
    """Two spheres on their way along x, ``gap`` m apart, without gravity.

    Parameters
    ----------
    restitution : Newton's e.
    masses, speeds : kg and m/s along x, of the left and the right sphere.
    radius : of both, m.
    offset : of the second centre across the line of motion, m; 0 is head-on.

    Raises
    ------
    InvalidInput : a number out of range, or spheres that overlap.
    """
    across = checks.scalar("offset", offset)
    reach = 2.0 * radius + checks.scalar("gap", gap, at_least=0.0)
    along = np.sqrt(max(reach**2 - across**2, 0.0))
    places = ([0.0, 0.0, 0.0], [along, across, 0.0])
    spheres = [
        Body(Sphere(radius), place[:dim], velocity=[speed, 0.0, 0.0][:dim], mass=mass, name=name)
        for place, speed, mass, name in zip(places, speeds, masses, ("left", "right"), strict=True)
    ]
    return Scene(
        spheres,
        dim=dim,
        gravity=np.zeros(dim),
        restitution=restitution,
        name="collision",
        title="Two spheres collide",
    )


def floor(dim: Dim, speed: float = 0.0) -> Body:
    """A half-space below the origin, rising at ``speed`` m/s."""
    rising = _up(dim, speed) if speed else None
    return Body(HalfSpace(_up(dim, 1.0)), np.zeros(dim), velocity=rising, name="floor")


def over(dim: int, x: float, height: float) -> FloatArray:
    """(dim,) the point at ``x`` and this height; in space y is 0."""
    return np.array([x, height] if dim == 2 else [x, 0.0, height])


def _up(dim: int, height: float) -> FloatArray:
    """(dim,) a point or vector along the last axis."""
    if dim not in (2, 3):
        raise InvalidInput("dim", checks.describe(dim), "2 or 3")
    return np.append(np.zeros(dim - 1), height)
