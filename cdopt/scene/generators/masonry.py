"""Masonry and other structures of blocks: walls, stacks, arches, a buttress, cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body
from cdopt.scene.generators import Made, cycled, edges, floor, generator, up, walls_at
from cdopt.scene.material import Material
from cdopt.scene.scene import GRAVITY
from cdopt.scene.shapes import Box, Capsule, Polygon, Polyhedron

ENDS = ("half", "stepped")
_BRICK = (0.2, 0.1, 0.06)  # length, depth and height, m
_BOX = (0.4, 0.3, 0.2)
_STONE = 2500.0  # kg/m³
_HALF = checks.number(above=0.0, at_most=1.57)  # angle of an arch


@generator("A wall of bricks in running bond", {"ends": checks.one_of(ENDS)})
def brick_wall(
    courses: int = 5,
    bricks: int = 4,
    *,
    dim: int = 2,
    ends: str = "half",
    head_joint: float = 0.0,
    walls: bool = False,
    size: object = None,
    density: float = 2000.0,
    materials: Sequence[Material] = (),
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """A wall in running bond on a floor: each brick lies half on either brick below.

    Bodies are the floor, the walls if there are any, then the bricks by course and x.

    Parameters
    ----------
    courses, bricks : number of courses, and of whole bricks in the first.
    ends : "half", with half bricks at both ends of every other course; or "stepped", each course
        one brick shorter than the one below.
    head_joint : width of the upright joints, m. By default they touch, as bricks laid dry do; in a
        wall at rest they then carry nothing, unless walls or unequal stiffness press them.
    walls : upright walls that touch both ends of the first course.
    size : (dim,) length, depth and height of a brick, m; by default 0.2 × 0.1 × 0.06, in the
        plane without the depth.
    density : kg/m³, in the plane of bricks 1 m deep.
    materials : taken in turn by the bricks; without, all contacts are equally stiff.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : more courses than bricks in a stepped wall, or a head joint of half a brick.
    """
    stepped = ends == "stepped"
    if stepped and courses > bricks:
        raise InvalidInput("courses", str(courses), f"at most {bricks}, of a stepped wall")
    sides = edges(size, _BRICK, dim)
    length, height = float(sides[0]), float(sides[-1])
    if head_joint >= 0.5 * length:
        expected = f"less than half a brick, {0.5 * length:g}"
        raise InvalidInput("head_joint", f"{head_joint:g}", expected)
    far = bricks * (length + head_joint) - head_joint
    block = cache(lambda width: Box(np.append(width, sides[1:])))
    laid = [
        Body(
            block(width),
            up(dim, (j + 0.5) * height, x),
            density=density,
            material=cycled(materials, k),
            name=f"brick {k}",
        )
        for k, (j, x, width) in enumerate(_courses(courses, bricks, length, head_joint, stepped))
    ]
    return [floor(dim), *(walls_at([[0.0, far]], dim) if walls else []), *laid]


def _courses(
    courses: int, bricks: int, length: float, joint: float, stepped: bool
) -> Iterator[tuple[int, float, float]]:
    """Course, middle and length of every brick, from below and from left to right, m."""
    pitch = length + joint
    half, end = 0.5 * (length - joint), bricks * pitch - joint
    for j in range(courses):
        less = j if stepped else j % 2  # bricks than in the first course
        between_halves = less > 0 and not stepped
        if between_halves:
            yield j, 0.5 * half, half
        for i in range(bricks - less):
            yield j, (i + 0.5 * less) * pitch + 0.5 * length, length
        if between_halves:
            yield j, end - 0.5 * half, half


@generator("A stack of boxes")
def box_stack(
    n: int = 5,
    *,
    dim: int = 3,
    shift: float = 0.0,
    size: object = None,
    density: float = 1000.0,
    materials: Sequence[Material] = (),
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """Equal boxes one upon the other on a floor, exactly touching.

    Parameters
    ----------
    n : number of boxes.
    shift : of each box along x from the one below, m. The stack is stable while n · shift is at
        most the length of a box.
    size : (dim,) m; by default 0.4 × 0.3 × 0.2, in the plane 0.4 × 0.2.
    density : kg/m³. materials : taken in turn by the boxes, from the lowest.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : a shift of a box's length or more.
    """
    sides = edges(size, _BOX, dim)
    if abs(shift) >= sides[0]:
        raise InvalidInput("shift", f"{shift:g}", f"less than the length of a box, {sides[0]:g}")
    boxes = [
        Body(
            Box(sides),
            up(dim, (k + 0.5) * sides[-1], k * shift),
            density=density,
            material=cycled(materials, k),
            name=f"box {k}",
        )
        for k in range(n)
    ]
    return [floor(dim), *boxes]


@generator("A pulled box in a stack", {"ratio": checks.scalar, "mu": checks.positive})
def pulled_brick(
    n: int = 5, *, pulled: int = 2, ratio: float = 2.5, mu: float = 0.5, dim: int = 2
) -> Made:
    """A stack of equal boxes, one of which is pulled along x.

    The pull is ``ratio`` times the friction that its underside can give, μ W (n − pulled), W the
    weight of a box. From one to two the pulled box moves those above with it, and above two it
    slides out from under them. ``n`` boxes, ``pulled`` the number of that one, from 0, the lowest;
    ``mu`` is the friction coefficient.
    """
    which, sides = checks.whole("pulled", pulled, 0, n - 1), edges(None, _BOX, dim)
    density, height = 1000.0, 0.5 * float(sides[-1])
    pull = ratio * mu * (GRAVITY * density * float(sides.prod())) * (n - which)
    boxes = [
        Body(
            Box(sides),
            up(dim, (2 * k + 1) * height),
            density=density,
            force=up(dim, 0.0, pull) if k == which else None,
            name="pulled box" if k == which else f"box {k}",
        )
        for k in range(n)
    ]
    return [floor(dim), *boxes]


@generator("A brick across two bricks")
def brick_on_two_bricks(
    stiffness_ratio: float = 1.0,
    *,
    separation: float = 0.08,
    offset: float = 0.0,
    fixed: bool = True,
    mass: float = 2.0,
    size: object = None,
    dim: int = 3,
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """A rigid brick across two others, with four contact points on either, in the plane two.

    Bodies are the left, the right and the upper brick, and the floor if there is one.

    Parameters
    ----------
    stiffness_ratio : of the right brick, relative to the left.
    separation : between the lower bricks, m. offset : of the upper one from their middle, m.
    fixed : lower bricks do not move; otherwise they are on a floor as stiff as the left one.
    mass : of each brick, kg.
    size : (dim,) of a brick, m; by default 0.2 × 0.1 × 0.06, in the plane 0.2 × 0.06.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : a brick that does not reach both.
    """
    sides = edges(size, _BRICK, dim)
    length, height = float(sides[0]), float(sides[-1])
    if abs(offset) + 0.5 * separation >= 0.5 * length:
        found = f"{offset:g} over bricks {separation:g} apart"
        raise InvalidInput("offset", found, f"a brick of {length:g} that lies on both")
    middle = 0.5 * (length + separation)
    places = {"left": (-middle, 0.5), "right": (middle, 0.5), "upper": (offset, 1.5)}
    stiffness = {"left": 1.0, "right": stiffness_ratio}
    bricks = [
        Body(
            Box(sides),
            up(dim, level * height, x),
            mass=mass,
            name=name,
            fixed=fixed and name in stiffness,
            material=name if name in stiffness else "",
        )
        for name, (x, level) in places.items()
    ]
    ground = [] if fixed else [floor(dim, material="left")]
    materials = [Material(name=name, stiffness=k) for name, k in stiffness.items()]
    return [*bricks, *ground], {"materials": materials}


@generator("A box on a step", {"overhang": checks.number(at_least=0.0, at_most=0.5)})
def box_on_step(
    overhang: float = 0.25,
    *,
    mass: float = 1.0,
    size: object = None,
    dim: int = 3,
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """A box on a step, its right end beyond the edge of the step.

    Of the weight W the edge carries W/(2 − 2s), s the overhang, and the box's left end the rest.
    Bodies are the floor, the step and the box. The step's edge is at x = 0.

    Parameters
    ----------
    overhang : s, as a share of the box's length.
    mass : kg. size : (dim,) m; by default 0.4 × 0.3 × 0.2, in the plane 0.4 × 0.2.
    power : exponent of the contact law. restitution : Newton's e.
    """
    sides = edges(size, _BOX, dim)
    length, height = float(sides[0]), float(sides[-1])
    step = Box(sides * np.array([2.0, *[1.0] * (dim - 1)]))
    place = up(dim, 1.5 * height, (overhang - 0.5) * length)
    return [
        floor(dim),
        Body(step, up(dim, 0.5 * height, -length), fixed=True, name="step"),
        Body(Box(sides), place, mass=mass, name="box"),
    ]


@generator(
    "An arch without friction",
    {"angle": _HALF, "thrust": checks.positive, "density": checks.not_negative},
)
def arch(
    voussoirs: int = 9,
    *,
    angle: float = 1.0,
    thrust: float = 1000.0,
    radius: float = 1.0,
    thickness: float = 0.25,
    depth: float = 0.2,
    density: float = 0.0,
    dim: int = 2,
    materials: Sequence[Material] = (),
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """A segmental arch of equal wedges between two fixed abutments, with radial smooth joints.

    Without friction the force in a joint is normal to it. At an angle β from the upright joint
    at the crown it is T = H / cos β, H the horizontal thrust, and the stone between β and β′ must
    weigh H (tan β′ − tan β). Here the stones have these weights. The forces can then all pass at
    one distance R from the centre,

        R = (2/3) cos²(Δ/2) (r₂³ − r₁³) / (r₂² − r₁²),   Δ = β′ − β,

    with s T on the outer corners of a joint and (1 − s) T on the inner ones,
    s = (R − r₁) / (r₂ − r₁). Statics also allow a couple, the same in every joint: outer corners
    s T + C, inner ones (1 − s) T − C. Stiffness decides; equal Hooke contacts give C = (1/2 − s)
    times the mean T of the joints. In space the corners on either side carry half.

    Such an arch is a mechanism: the least change of a weight makes it fall.

    Bodies are the left abutment, the voussoirs from left to right, and the right abutment.

    Parameters
    ----------
    voussoirs : number of free wedges.
    angle : β of the joints at the abutments, rad; the arch spans twice that.
    thrust : H, N, in the plane per 1 m of depth.
    radius, thickness : r₁ of the inner corners and r₂ − r₁, m.
    depth : along y, m; in space alone.
    density : of all voussoirs, kg/m³; such an arch needs friction. By default 0 for the weights
        above.
    materials : taken in turn by the voussoirs.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : wedges so wide that the thrust leaves them.

    Notes
    -----
    The weights are those of P. de La Hire, Traité de mécanique (1695).

    >>> import cdopt
    >>> cdopt.scene.arch(5)
    Scene('arch': 7 bodies in 2D, 5 free, power 2)
    """
    outer, wedge = radius + thickness, 2.0 * angle / voussoirs
    middle = thrust_radius(radius, outer, wedge)
    if not density and not radius < middle < outer:
        found = f"wedges of {wedge:.3g} rad with the thrust at {middle:.6g}"
        expected = f"more or thicker wedges, with the thrust between {radius:g} and {outer:g} m"
        raise InvalidInput("voussoirs", found, expected)
    masses = thrust * np.diff(np.tan(np.linspace(-angle, angle, voussoirs + 1))) / GRAVITY
    weights = [{"density": density} if density else {"mass": m} for m in masses.tolist()]
    names = [cycled(materials, k) for k in range(voussoirs)]
    size = radius, outer, None if dim == 2 else depth
    return _arch(angle, size, weights, names), {"title": "An arch of stone"} if density else {}


@generator(
    "An arch that has lost its keystone",
    {"voussoirs": checks.integer(3, 999), "mu": checks.positive, "angle": _HALF},
)
def arch_without_keystone(
    voussoirs: int = 9, *, mu: float = 0.6, angle: float = 1.0, keystone: bool = False, dim: int = 2
) -> Made:
    """An arch of stone with friction that has lost its keystone, and falls.

    Parameters
    ----------
    voussoirs : odd number of wedges, with the keystone. mu : friction coefficient.
    angle : of the joints at the abutments from the upright, rad. dim : 2, or 3 with 0.2 m of depth.
    keystone : whether it is still there; the arch is then stable.

    Raises
    ------
    InvalidInput : an even number of voussoirs.
    """
    if voussoirs % 2 == 0:
        raise InvalidInput("voussoirs", str(voussoirs), "an odd number: one is the keystone")
    size = 1.0, 1.25, None if dim == 2 else 0.2
    stones = _arch(angle, size, [{"density": _STONE}] * voussoirs, [""] * voussoirs)
    if keystone:
        return stones, {"title": "An arch of stone"}
    middle = (voussoirs + 1) // 2
    return stones[:middle] + stones[middle + 1 :]


def _arch(
    angle: float,
    size: tuple[float, float, float | None],
    weights: Sequence[dict[str, Any]],
    materials: Sequence[str],
) -> list[Body]:
    """An abutment, free wedges of these weights, and an abutment; ``size`` as for ``_wedge``."""
    many = len(weights)
    wide = min(2.0 * angle / many, np.pi - angle)  # abutments
    joints = [-angle - wide, *np.linspace(-angle, angle, many + 1).tolist(), angle + wide]
    left, *stones, right = (_wedge(a, b, *size) for a, b in pairwise(joints))
    wedges = [
        Body(stone, stone.centre, material=material, name=f"voussoir {k}", **weight)
        for k, (stone, weight, material) in enumerate(zip(stones, weights, materials, strict=True))
    ]
    return [
        Body(left, left.centre, fixed=True, name="left abutment"),
        *wedges,
        Body(right, right.centre, fixed=True, name="right abutment"),
    ]


def _wedge(
    left: float, right: float, inner: float, outer: float, depth: float | None
) -> Polygon | Polyhedron:
    """Between two joints at angles from the upright, about the centre of the arch."""
    corners = [(inner, left), (inner, right), (outer, right), (outer, left)]
    flat = np.array([[r * float(np.sin(at)), r * float(np.cos(at))] for r, at in corners])
    if depth is None:
        return Polygon(flat)
    sides = [np.full(4, 0.5 * sign * depth) for sign in (-1.0, 1.0)]
    return Polyhedron(np.concatenate([np.column_stack([flat[:, 0], y, flat[:, 1]]) for y in sides]))


def thrust_radius(inner: float, outer: float, wedge: float) -> float:
    """R, where the thrust can cross all joints, m; wedges between r₁ and r₂ span ``wedge`` rad."""
    # (r₂³ − r₁³)/(r₂² − r₁²) without differences of powers, which vanish for thin or tiny arches
    centroid = 2.0 / 3.0 * (outer + inner * (inner / (outer + inner)))
    return float(np.cos(0.5 * wedge) ** 2 * centroid)


@generator("A buttress", {"thrust": checks.scalar})
def buttress(
    courses: int = 10,
    *,
    thrust: float = 0.0,
    base: float = 1.0,
    top: float = 0.4,
    height: float = 3.0,
    density: float = 2000.0,
    dim: int = 2,
) -> Made:
    """A buttress of blocks on a floor, upright at the left, that takes a thrust at its top.

    Its right face steps back course by course. Bodies are the floor and the blocks from below.

    Parameters
    ----------
    courses : number of blocks.
    thrust : on the top block at its centre, to the right, N.
    base, top : lengths of the lowest and of the highest block along x, m. height : in all, m.
    density : kg/m³, in the plane of blocks 1 m deep, as they are in space.
    """
    course, push = height / courses, up(dim, 0.0, thrust)
    blocks = [
        Body(
            Box([length, *[1.0] * (dim - 2), course]),
            up(dim, (k + 0.5) * course, 0.5 * length),
            density=density,
            force=push if k == courses - 1 else None,
            name=f"block {k}",
        )
        for k, length in enumerate(np.linspace(base, top, courses).tolist())
    ]
    return [floor(dim), *blocks]


@generator(
    "A house of cards",
    {"storeys": checks.integer(1, 12), "lean": checks.number(above=0.0, at_most=60.0)},
    dim=2,
)
def house_of_cards(storeys: int = 3, *, lean: float = 20.0, mu: float = 0.6) -> Made:
    """A house of cards in the plane: pairs of leaning cards, and level cards between storeys.

    Leaning cards are 88 mm long and 1 mm thick, with round ends. A single pair is stable for
    μ ≥ tan(lean)/2, one that bears others for μ above about tan(lean). Bodies are the floor, then
    from the lowest storey the leaning cards from left to right and the level ones upon them.

    Parameters
    ----------
    storeys : number of storeys, of which the highest is one pair.
    lean : of the leaning cards from the upright, degrees. mu : friction coefficient.
    """
    turn = np.radians(lean)
    long, r = 0.087, 0.0005
    wide, tall = long * float(np.sin(turn)), long * float(np.cos(turn))
    pitch = 2.0 * wide + 5.0 * r  # of pairs; the feet of two pairs are r apart
    card, flat = Capsule(r, long), Box([pitch - 0.5 * r, 2.0 * r])
    bodies = [floor(2)]
    for level in range(storeys):
        ground = level * (tall + 4.0 * r)
        tips = pitch * (np.arange(storeys - level) - 0.5 * (storeys - level - 1))
        for tip in tips.tolist():
            for side in (-1.0, 1.0):
                centre = [tip + side * (r + 0.5 * wide), ground + r + 0.5 * tall]
                angle = 0.5 * np.pi + side * float(turn)
                bodies.append(Body(card, centre, angle=angle, mass=0.002))
        height = ground + tall + 3.0 * r
        middles = (0.5 * (tips[1:] + tips[:-1])).tolist()
        bodies += [Body(flat, [middle, height], mass=0.002) for middle in middles]
    return bodies
