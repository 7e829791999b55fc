"""Scenes of a few bodies: bounces, slides, and platforms, rods and tables on elastic supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body
from cdopt.scene.generators import Made, edges, floor, generator, up
from cdopt.scene.material import Material, MaterialPair
from cdopt.scene.scene import GRAVITY
from cdopt.scene.shapes import Box, Capsule, Compound, HalfSpace, Part, Shape, Sphere

WEIGHT = 10.0  # N
RODS = ("box", "capsule")
_THICKNESS = 0.02  # of platforms, m
_SUPPORTS = checks.number(above=0.0, at_most=0.2)  # radius of supports, m
_ROUND_OFF = 1e-9  # share by which supports that touch may seem to overlap
_ALONG_Y = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # turns x to y


def _pair(name: str, value: object) -> FloatArray:
    return checks.vector(name, value, 2)


# --- one or two bodies ---------------------------------------------------------------------------


@generator("A ball that bounces on a floor", {"height": checks.not_negative})
def bouncing_ball(
    restitution: float = 0.5, *, height: float = 1.0, radius: float = 0.1, dim: int = 2
) -> Made:
    """A ball of 1 kg falls from ``height`` m of clearance onto a floor; apexes follow e²ⁿ.

    ``restitution`` is Newton's e, ``radius`` in m.
    """
    return [floor(dim), Body(Sphere(radius), up(dim, height + radius), mass=1.0, name="ball")]


@generator("A sphere on a floor")
def sphere_on_floor(
    *,
    radius: float = 0.1,
    mass: float = 1.0,
    gap: float = 0.0,
    floor_speed: float = 0.0,
    restitution: float = 0.0,
    dim: int = 2,
) -> Made:
    """A sphere ``gap`` m over a floor, which may rise at ``floor_speed`` m/s.

    ``radius`` in m, ``mass`` in kg, ``restitution`` Newton's e.
    """
    ball = Body(Sphere(radius), up(dim, radius + gap), mass=mass, name="ball")
    return [floor(dim, floor_speed), ball]


@generator("A box falls on a floor", {"angle": checks.scalar})
def box_on_floor(
    *, size: object = None, angle: float = 0.3, gap: float = 0.01, mass: float = 1.0, dim: int = 2
) -> Made:
    """A box, turned by ``angle`` rad in the x-z (in the plane x-y) plane, ``gap`` m over a floor.

    ``size`` (dim,) in m; by default 0.4 × 0.2, in space 0.4 × 0.3 × 0.2. ``mass`` in kg.
    """
    sides = checks.vector("size", [0.4, 0.3, 0.2][: 3 : 4 - dim] if size is None else size, dim)
    lowest = 0.5 * (sides[0] * abs(np.sin(angle)) + sides[-1] * abs(np.cos(angle)))
    place = up(dim, float(lowest) + gap)
    return [floor(dim), Body(Box(sides), place, mass=mass, name="box", **_turned(angle, dim))]


@generator("Two spheres collide", {"masses": _pair, "speeds": _pair, "gap": checks.not_negative})
def collision(
    restitution: float = 1.0,
    *,
    masses: tuple[float, float] = (1.0, 1.0),
    speeds: tuple[float, float] = (1.0, -1.0),
    radius: float = 0.1,
    gap: float = 0.02,
    offset: float = 0.0,
    dim: int = 2,
) -> Made:
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
    return spheres, {"gravity": np.zeros(dim)}


@generator(
    "A box on an incline",
    {"ratio": checks.not_negative, "mu": checks.number(above=0.0, at_most=2.0)},
)
def incline(ratio: float = 0.9, mu: float = 0.5, dim: int = 2) -> Made:
    """A box of 1 kg at rest on an incline of tan θ = ``ratio`` μ: it slides where that is above 1.

    ``mu`` is the friction coefficient, ``dim`` 2 in the plane and 3 in space. In a step of Δt the
    box sticks, or slides down at Δt g (sin θ − μ cos θ).

    Raises
    ------
    InvalidInput : a slope so steep that the box tips.
    """
    angle = float(np.arctan(ratio * mu))
    if np.tan(angle) > 2.0:
        raise InvalidInput("ratio", f"a slope of {np.tan(angle):g}", "at most 2: the box tips")
    normal = up(dim, float(np.cos(angle)), float(np.sin(angle)))
    box = Box(edges(None, (0.2, 0.2, 0.1), dim))
    turned = _turned(-angle, dim)
    return [Body(HalfSpace(normal), np.zeros(dim)), Body(box, 0.05 * normal, mass=1.0, **turned)]


@generator(
    "A ladder against a wall",
    {"angle": checks.number(above=0.0, at_most=89.0), "height": checks.share},
    dim=2,
)
def ladder(
    angle: float = 60.0,
    height: float = 0.5,
    floor_friction: float = 0.4,
    wall_friction: float = 0.2,
    climber: float = 80.0,
) -> Made:
    """A ladder of 5 m and 20 kg against a wall, with a climber.

    Its ``angle`` from the floor is in degrees. The ``climber`` (kg) is at the share
    ``height`` of its length, 0 at the foot and 1 at the top, and is a load without inertia.
    ``floor_friction`` and ``wall_friction`` belong to pairs of materials: aluminium on concrete,
    aluminium on plaster.
    """
    turn, load = np.radians(angle), -GRAVITY * climber
    long, thick = 5.0, 0.02
    along, across = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    foot, top = -0.5 * long * along, 0.5 * long * along - 0.5 * thick * across
    foot = foot - 0.5 * thick * across
    stands = (height - 0.5) * long * along + 0.5 * thick * across
    wall = Body(HalfSpace([-1.0, 0.0]), [top[0] - foot[0], 0.0], material="plaster", name="wall")
    rungs = Body(
        Box([long, thick]),
        -foot,
        angle=float(turn),
        mass=20.0,
        material="aluminium",
        force=[0.0, load],
        torque=float(stands[0] * load),
        name="ladder",
    )
    pairs = {"concrete": floor_friction, "plaster": wall_friction}
    return [floor(2, material="concrete"), wall, rungs], {
        "materials": [Material(name=name) for name in ("aluminium", *pairs)],
        "pairs": [MaterialPair(materials=("aluminium", k), friction=mu) for k, mu in pairs.items()],
    }


def _turned(angle: float, dim: int) -> dict[str, Any]:
    """The orientation of a body turned by an angle from the first axis to the last, rad."""
    if dim == 2:
        return {"angle": angle}
    return {"orientation": [np.cos(0.5 * angle), 0.0, -np.sin(0.5 * angle), 0.0]}


# --- platforms, rods and tables ------------------------------------------------------------------


@generator("A platform dropped onto three supports", {"support_radius": _SUPPORTS})
def beam(
    middle_stiffness: float = 1.0,
    *,
    dim: int = 2,
    support_radius: float = 0.05,
    drop: float = 0.01,
    power: float = 2.0,
) -> Made:
    """A rigid platform of 10 N dropped onto fixed supports at 0, 1/2 and 1 m.

    Olsen & Kamrin (2018), section 8.1.

    Parameters
    ----------
    middle_stiffness : of the middle support, relative to the others. Settled Hooke contacts
        carry (1, k, 1) 10 N / (2 + k).
    dim : in space, two rows of three supports share the load, for on one row it would roll off.
    support_radius : m. The platform overhangs the outer supports by as much.
    drop : height of the fall, in radii. power : exponent of the contact law.
    """
    rows = {"": 0.0} if dim == 2 else {" front": -0.2, " back": 0.2}
    supports = [
        (x, y, name + side, "middle" if name == "middle" else "outer")
        for side, y in rows.items()
        for x, name in ((0.0, "left"), (0.5, "middle"), (1.0, "right"))
    ]
    materials = _elastic({"outer": 1.0, "middle": middle_stiffness})
    return _platform(supports, support_radius, drop, dim), {"materials": materials}


@generator("A table top dropped onto four legs", {"support_radius": _SUPPORTS}, dim=3)
def table(*, support_radius: float = 0.05, drop: float = 0.01, power: float = 2.0) -> Made:
    """A square top of 10 N dropped onto four fixed supports, 1 m apart: each carries 2.5 N.

    ``support_radius`` in m, ``drop`` in radii, ``power`` of the scene. In space.
    """
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    supports = [(x, y, f"leg {k}", "leg") for k, (x, y) in enumerate(corners)]
    top = _platform(supports, support_radius, drop, 3)
    return top, {"materials": _elastic({"leg": 1.0})}


@generator("A rod on elastic supports", {"rod": checks.one_of(RODS)}, name="rod")
def rod_on_supports(
    positions: object = (0.0, 0.4, 1.0),
    stiffness: object = 1.0,
    *,
    load: float = 10.0,
    load_at: float = 0.3,
    weight: float = 10.0,
    rod: str = "box",
    thickness: float = 0.04,
    support_radius: float = 0.05,
    dim: int = 2,
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """A rigid rod along x on fixed elastic supports, pressed down at one place.

    It reaches one support's radius beyond the outer supports and touches all of them. In space
    supports are round bars along y; a box touches each of them at its two sides, a capsule at one
    point. Bodies are the rod, then the supports.

    Parameters
    ----------
    positions : (n,) of the supports, m, ascending. Forces on more than two depend on stiffness.
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
    pressed = _pressed(np.array([loaded - middle, 0.0]), load, dim)
    bar = Sphere(radius) if dim == 2 else Capsule(radius=radius, length=2.0 * thick)
    tops = [up(dim, -radius, float(at)) for at in x]
    place = up(dim, 0.5 * thick, middle)
    body = Body(shape, place, mass=weight / GRAVITY, name="rod", **pressed)
    return _on_supports(body, bar, tops, k, None if dim == 2 else _ALONG_Y)


@generator("", dim=3)
def table_with_legs(
    legs: object = 6,
    stiffness: object = 1.0,
    *,
    load: float = 0.0,
    load_at: object = (0.0, 0.0),
    weight: float = 10.0,
    radius: float = 0.5,
    height: float = 0.4,
    leg_width: float = 0.04,
    support_radius: float = 0.05,
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """A rigid table, its top and legs one body, each leg on an elastic support.

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
    top = Part(Box([edge, edge, wide]), [0.0, 0.0, height + 0.5 * wide])
    leg = Box([wide, wide, height])
    shape = Compound([top, *(Part(leg, [*spot, 0.5 * height]) for spot in spots)])
    at = checks.vector("load_at", load_at, 2, "m")
    pressed = _pressed(at - shape.centre[:2], load, 3)
    body = Body(shape, shape.centre, mass=weight / GRAVITY, name="table", **pressed)
    bodies, more = _on_supports(body, Sphere(tip), [[*spot, -tip] for spot in spots], k)
    return bodies, {**more, "title": f"A table on {len(spots)} legs"}


def _leg_positions(legs: object, radius: float) -> FloatArray:
    """(n, 2) of legs, m, from their number or their places."""
    if np.ndim(legs) == 0:  # type: ignore[arg-type]
        count = checks.whole("legs", legs, 3, 100)
        angle = 2.0 * np.pi / count * np.arange(count)
        return radius * np.column_stack([np.cos(angle), np.sin(angle)])
    spots = checks.numbers("legs", legs, (None, 2), "m")
    if not 3 <= len(spots) <= 100:
        raise InvalidInput("legs", f"{len(spots)} places", "3 to 100")
    return spots


def _pressed(arm: FloatArray, load: float, dim: int) -> dict[str, Any]:
    """Force and torque of a load downwards at (2,) horizontally from the centre of mass."""
    x, y = arm.tolist()
    return {
        "force": up(dim, -load),
        "torque": -load * x if dim == 2 else [-load * y, load * x, 0.0],
    }


def _elastic(stiffness: dict[str, float]) -> list[Material]:
    return [Material(name=name, stiffness=k) for name, k in stiffness.items()]


def _on_supports(
    body: Body, shape: Shape, places: Sequence[Any], stiffness: FloatArray, orientation: Any = None
) -> tuple[list[Body], dict[str, Any]]:
    """A body on numbered fixed ones, each with a material."""
    names = {f"support {i}": k for i, k in enumerate(stiffness.tolist())}
    supports = [
        Body(shape, x, orientation=orientation, fixed=True, material=name, name=name)
        for x, name in zip(places, names, strict=True)
    ]
    return [body, *supports], {"materials": _elastic(names)}


def _platform(
    supports: list[tuple[float, float, str, str]], radius: float, drop: float, dim: int
) -> list[Body]:
    """A rigid box over fixed spheres, (x, y, name, material) each, whose tops are at height 0."""
    axes = [0, 2] if dim == 2 else [0, 1, 2]
    ends = np.array([[x, y] for x, y, _, _ in supports])
    size = np.append(np.ptp(ends, axis=0) + 2.0 * radius, _THICKNESS)[axes]
    middle = 0.5 * (ends.min(axis=0) + ends.max(axis=0))
    position = np.append(middle, drop * radius + 0.5 * _THICKNESS)[axes]
    ball = Sphere(radius)
    return [
        Body(Box(size), position, mass=WEIGHT / GRAVITY, name="platform"),
        *(
            Body(ball, np.array([x, y, -radius])[axes], fixed=True, material=material, name=name)
            for x, y, name, material in supports
        ),
    ]
