"""Scenes of a few bodies: bounces, collisions, boxes, and rods and tables on elastic supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import Dim, Finite, FloatArray, NotNegative, Positive, Power, one_of, whole
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body
from cdopt.scene.material import Material
from cdopt.scene.scene import GRAVITY, Scene
from cdopt.scene.shapes import Box, Capsule, Compound, HalfSpace, Part, Shape, Sphere

RODS = ("box", "capsule")
_ROUND_OFF = 1e-9  # share by which supports that touch may seem to overlap
_ALONG_Y = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # turns x to y


def bouncing_ball(
    restitution: float = 0.5, *, height: NotNegative = 1.0, radius: float = 0.1, dim: Dim = 2
) -> Scene:
    """A ball of 1 kg falls from ``height`` m of clearance onto a floor; apexes follow e²ⁿ.

    ``restitution`` is Newton's e, ``radius`` in m.
    """
    ball = Body(Sphere(radius), up(dim, height + radius), mass=1.0, name="ball")
    return Scene(
        [floor(dim), ball],
        dim=dim,
        restitution=restitution,
        name="bouncing-ball",
        title="A ball that bounces on a floor",
    )


def sphere_on_floor(
    *,
    radius: float = 0.1,
    mass: float = 1.0,
    gap: float = 0.0,
    floor_speed: float = 0.0,
    restitution: float = 0.0,
    dim: Dim = 2,
) -> Scene:
    """A sphere ``gap`` m over a floor, which may rise at ``floor_speed`` m/s.

    ``radius`` in m, ``mass`` in kg, ``restitution`` Newton's e.
    """
    ball = Body(Sphere(radius), up(dim, radius + gap), mass=mass, name="ball")
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
    angle: Finite = 0.3,
    gap: float = 0.01,
    mass: float = 1.0,
    dim: Dim = 2,
) -> Scene:
    """A box, turned by ``angle`` rad in the x-z (in the plane x-y) plane, ``gap`` m over a floor.

    ``size`` (dim,) in m; by default 0.4 × 0.2, in space 0.4 × 0.3 × 0.2. ``mass`` in kg.
    """
    edges = checks.vector("size", [0.4, 0.3, 0.2][: 3 : 4 - dim] if size is None else size, dim)
    lowest = 0.5 * (edges[0] * abs(np.sin(angle)) + edges[-1] * abs(np.cos(angle)))
    # a turn from x to z is about −y
    in_space = [np.cos(0.5 * angle), 0.0, -np.sin(0.5 * angle), 0.0]
    box = Body(
        Box(edges),
        up(dim, float(lowest) + gap),
        angle=angle if dim == 2 else None,
        orientation=in_space if dim == 3 else None,
        mass=mass,
        name="box",
    )
    return Scene([floor(dim), box], dim=dim, name="box-on-floor", title="A box falls on a floor")


def collision(
    restitution: float = 1.0,
    *,
    masses: tuple[float, float] = (1.0, 1.0),
    speeds: tuple[float, float] = (1.0, -1.0),
    radius: float = 0.1,
    gap: NotNegative = 0.02,
    offset: Finite = 0.0,
    dim: Dim = 2,
) -> Scene:
    """Two spheres on their way along x, ``gap`` m apart, without gravity.

    Parameters
    ----------
    restitution : Newton's e.
    masses, speeds : kg and m/s along x, of the left and the right sphere.
    radius : of both, m.
    offset : of the second centre across the line of motion, m; 0 is head-on.
    """
    along = np.sqrt(max((2.0 * radius + gap) ** 2 - offset**2, 0.0))
    centres = ([0.0, 0.0, 0.0], [along, offset, 0.0])
    spheres = [
        Body(Sphere(radius), x[:dim], velocity=[speed, 0.0, 0.0][:dim], mass=mass, name=name)
        for x, speed, mass, name in zip(centres, speeds, masses, ("left", "right"), strict=True)
    ]
    return Scene(
        spheres,
        dim=dim,
        gravity=np.zeros(dim),
        restitution=restitution,
        name="collision",
        title="Two spheres collide",
    )


def rod_on_supports(
    positions: object = (0.0, 0.4, 1.0),
    stiffness: object = 1.0,
    *,
    load: NotNegative = 10.0,
    load_at: float = 0.3,
    weight: Positive = 10.0,
    rod: Annotated[str, one_of(RODS)] = "box",
    thickness: Positive = 0.04,
    support_radius: Positive = 0.05,
    dim: Dim = 2,
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
    """A rigid rod along x on fixed elastic supports, pressed down at one place.

    It reaches one support's radius beyond the outer supports and touches all of them. In space
    supports are round bars along y; a box touches each of them at its two sides, a capsule at one
    point. Bodies are the rod, then the supports.

    Parameters
    ----------
    positions : (n,) of the supports, m, ascending. Two decide the forces; of more, stiffness does.
    stiffness : of the supports, one number or (n,), relative.
    load, load_at : N, downwards, at this x, m.
    weight : of the rod, N; its middle is that of the outer supports.
    rod : "box" or "capsule". thickness : of the rod, m; in space it is as wide.
    support_radius : m.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : fewer than two supports, supports that overlap, or a load beyond the outer ones.

    >>> import cdopt
    >>> rod = cdopt.scene.rod_on_supports([0.0, 1.0], load_at=0.25)
    >>> contacts = cdopt.collision.detect(rod, rod.initial)
    >>> step = cdopt.collision.step(rod, rod.initial, contacts, dt=1e-3)
    >>> cdopt.CompatibleCD(step).solve("newton").f.round(6)
    array([12.5,  7.5])
    """
    thick, radius = thickness, support_radius
    x = checks.vector("positions", positions, None, "m")
    if x.size < 2 or not (np.diff(x) >= 2.0 * radius * (1.0 - _ROUND_OFF)).all():
        expected = f"two or more, ascending, at least {2.0 * radius:g} m apart"
        raise InvalidInput("positions", f"{x.tolist()}", expected)
    loaded = checks.scalar("load_at", load_at, at_least=float(x[0]), at_most=float(x[-1]))
    k = checks.per_contact("stiffness", stiffness, x.size, positive=True)
    span, middle = float(x[-1] - x[0]), 0.5 * float(x[0] + x[-1])
    shape: Box | Capsule = Capsule(radius=0.5 * thick, length=span)
    if rod == "box":
        shape = Box([span + 2.0 * radius, *[thick] * (dim - 1)])
    force, torque = _pressed(np.array([loaded - middle, 0.0]), load, dim)
    centre, mass = up(dim, 0.5 * thick, middle), weight / GRAVITY
    body = Body(shape, centre, mass=mass, force=force, torque=torque, name="rod")
    bar = Sphere(radius) if dim == 2 else Capsule(radius=radius, length=2.0 * thick)
    tops = [up(dim, -radius, float(at)) for at in x]
    return Scene(
        [body, *_supports(bar, tops, None if dim == 2 else _ALONG_Y)],
        dim=dim,
        power=power,
        restitution=restitution,
        materials=_materials(k),
        name="rod",
        title="A rod on elastic supports",
    )


def table_with_legs(
    legs: object = 6,
    stiffness: object = 1.0,
    *,
    load: NotNegative = 0.0,
    load_at: object = (0.0, 0.0),
    weight: Positive = 10.0,
    radius: Positive = 0.5,
    height: Positive = 0.4,
    leg_width: Positive = 0.04,
    support_radius: Positive = 0.05,
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
    """A rigid table, its top and legs one body, each leg on an elastic support of its own.

    In space. The top is a square plate that reaches a leg's width beyond the furthest leg, and as
    thick as a leg is wide. Bodies are the table, then the supports.

    Parameters
    ----------
    legs : their number n, evenly on a circle of ``radius`` m about the origin; or their places
        (n, 2), m.
    stiffness : of the supports, one number or (n,), relative.
    load, load_at : N, downwards, at this place (2,), m.
    weight : of the table, N; of uniform density; ``scene.bodies.position`` is its centre of mass.
    height, leg_width, support_radius : of legs and supports, m.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : fewer than three legs or more than 100, or supports that overlap.
    """
    wide, tip, spots = leg_width, support_radius, _leg_positions(legs, radius)
    arms = np.linalg.norm(spots[:, None] - spots[None], axis=2) + np.diag(np.full(len(spots), 1e9))
    if arms.min() < max(2.0 * tip, wide * np.sqrt(2.0)) * (1.0 - _ROUND_OFF):
        found = f"two of them {arms.min():.6g} m apart"
        raise InvalidInput("legs", found, "legs and supports that do not overlap")
    k = checks.per_contact("stiffness", stiffness, len(spots), positive=True)
    edge = 2.0 * (float(np.abs(spots).max()) + wide)
    shape = Compound(
        [
            Part(Box([edge, edge, wide]), [0.0, 0.0, height + 0.5 * wide]),
            *(Part(Box([wide, wide, height]), [*spot, 0.5 * height]) for spot in spots),
        ]
    )
    at = checks.vector("load_at", load_at, 2, "m")
    force, torque = _pressed(at - shape.centre[:2], load, 3)
    mass = weight / GRAVITY
    table = Body(shape, shape.centre, mass=mass, force=force, torque=torque, name="table")
    return Scene(
        [table, *_supports(Sphere(tip), [[*spot, -tip] for spot in spots])],
        dim=3,
        power=power,
        restitution=restitution,
        materials=_materials(k),
        name="table-with-legs",
        title=f"A table on {len(spots)} legs",
    )


def _leg_positions(legs: object, radius: float) -> FloatArray:
    """(n, 2) of legs, m, from their number or their places."""
    if np.ndim(legs) == 0:  # type: ignore[arg-type]
        count = whole("legs", legs, 3, 100)
        angle = 2.0 * np.pi / count * np.arange(count)
        return radius * np.column_stack([np.cos(angle), np.sin(angle)])
    spots = checks.numbers("legs", legs, (None, 2), "m")
    if not 3 <= len(spots) <= 100:
        raise InvalidInput("legs", f"{len(spots)} places", "3 to 100")
    return spots


def _pressed(arm: FloatArray, load: float, dim: int) -> tuple[FloatArray, float | list[float]]:
    """Force (dim,) and torque of a load downwards at (2,) horizontally from the centre of mass."""
    x, y = arm.tolist()
    return up(dim, -load), -load * x if dim == 2 else [-load * y, load * x, 0.0]


def _supports(shape: Shape, positions: Sequence[Any], orientation: Any = None) -> list[Body]:
    """Fixed bodies, numbered, each of a material of its own."""
    names = [f"support {i}" for i in range(len(positions))]
    return [
        Body(shape, x, orientation=orientation, fixed=True, material=name, name=name)
        for x, name in zip(positions, names, strict=True)
    ]


def _materials(stiffness: FloatArray) -> list[Material]:
    """Materials of the supports."""
    return [Material(name=f"support {i}", stiffness=float(k)) for i, k in enumerate(stiffness)]


def floor(dim: Dim, speed: float = 0.0) -> Body:
    """A half-space below the origin, rising at ``speed`` m/s."""
    rising = up(dim, speed) if speed else None
    return Body(HalfSpace(up(dim, 1.0)), np.zeros(dim), velocity=rising, name="floor")


def up(dim: int, height: float, x: float = 0.0) -> FloatArray:
    """(dim,) a point or vector along the last axis, at ``x`` along the first."""
    vector = np.zeros(dim)
    vector[0], vector[-1] = x, height
    return vector


def cycled(materials: Sequence[Material]) -> list[str]:
    """Names of materials that bodies take in turn; "" alone where there are none."""
    return [material.name for material in materials] or [""]
