"""Masonry: walls, stacks, a brick on two bricks, a box on a step, arches, a buttress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import (
    Dim,
    Finite,
    FloatArray,
    NotNegative,
    Positive,
    Power,
    integer,
    number,
    one_of,
)
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body
from cdopt.scene.generators.packings import walls_at
from cdopt.scene.generators.primitives import cycled, floor, up
from cdopt.scene.material import Material
from cdopt.scene.scene import GRAVITY, Scene
from cdopt.scene.shapes import Box, HalfSpace, Polygon, Polyhedron

ENDS = ("half", "stepped")
Count = Annotated[int, integer(1, 1000)]
_BRICK = (0.2, 0.1, 0.06)  # length, depth and height, m
_BOX = (0.4, 0.3, 0.2)


def brick_wall(
    courses: Count = 5,
    bricks: Count = 4,
    *,
    dim: Dim = 2,
    ends: Annotated[str, one_of(ENDS)] = "half",
    head_joint: NotNegative = 0.0,
    walls: bool = False,
    size: object = None,
    density: float = 2000.0,
    materials: Sequence[Material] = (),
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
    """A wall in running bond on a floor: each brick lies half on either brick below.

    Bed joints touch exactly. Bodies are the floor, the walls if there are any, then the bricks by
    course and x.

    Parameters
    ----------
    courses, bricks : number of courses, and of whole bricks in the first.
    ends : "half", with half bricks at both ends of every other course; or "stepped", each course
        one brick shorter than the one below.
    head_joint : width of the upright joints, m. By default they touch, as bricks laid dry do.
        That changes no force of a wall at rest: nothing presses a course from its ends, and so
        its head joints carry nothing. Between walls they carry where unequal stiffness tilts
        bricks.
    walls : upright walls that touch both ends of the first course, so that no brick can slide
        out along x.
    size : (dim,) length, depth and height of a brick, m; by default 0.2 × 0.1 × 0.06, in the
        plane without the depth.
    density : kg/m³, in the plane of bricks 1 m deep.
    materials : taken in turn by the bricks; without, all contacts are equally stiff.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : more courses than bricks in a stepped wall, or a head joint of half a brick or
        more.
    """
    stepped = ends == "stepped"
    if stepped and courses > bricks:
        raise InvalidInput("courses", str(courses), f"at most {bricks}, of a stepped wall")
    edges = _edges(size, _BRICK, dim)
    length, height = float(edges[0]), float(edges[-1])
    if head_joint >= 0.5 * length:
        expected = f"less than half a brick, {0.5 * length:g}"
        raise InvalidInput("head_joint", f"{head_joint:g}", expected)
    far = bricks * (length + head_joint) - head_joint
    names = cycled(materials)
    block = cache(lambda width: Box(np.append(width, edges[1:])))
    laid = [
        Body(
            block(width),
            up(dim, (j + 0.5) * height, x),
            density=density,
            material=names[k % len(names)],
            name=f"brick {k}",
        )
        for k, (j, x, width) in enumerate(_courses(courses, bricks, length, head_joint, stepped))
    ]
    upright = walls_at(np.array([[0.0, far]]), dim) if walls else []
    return Scene(
        [floor(dim), *upright, *laid],
        dim=dim,
        power=power,
        restitution=restitution,
        materials=materials,
        name="brick-wall",
        title="A wall of bricks in running bond",
    )


def box_stack(
    n: Count = 5,
    *,
    dim: Dim = 3,
    shift: Finite = 0.0,
    size: object = None,
    density: float = 1000.0,
    materials: Sequence[Material] = (),
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
    """Equal boxes one upon the other on a floor, exactly touching.

    Parameters
    ----------
    n : number of boxes.
    shift : of each box along x from the one below, m. It stands while n · shift is at most the
        length of a box.
    size : (dim,) m; by default 0.4 × 0.3 × 0.2, in the plane 0.4 × 0.2.
    density : kg/m³. materials : taken in turn by the boxes, from the lowest.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : a shift of a box's length or more.
    """
    edges = _edges(size, _BOX, dim)
    if abs(shift) >= edges[0]:
        raise InvalidInput("shift", f"{shift:g}", f"less than the length of a box, {edges[0]:g}")
    names = cycled(materials)
    boxes = [
        Body(
            Box(edges),
            up(dim, (k + 0.5) * edges[-1], k * shift),
            density=density,
            material=names[k % len(names)],
            name=f"box {k}",
        )
        for k in range(n)
    ]
    return Scene(
        [floor(dim), *boxes],
        dim=dim,
        power=power,
        restitution=restitution,
        materials=materials,
        name="box-stack",
        title="A stack of boxes",
    )


def brick_on_two_bricks(
    stiffness_ratio: Positive = 1.0,
    *,
    separation: NotNegative = 0.08,
    offset: Finite = 0.0,
    fixed: bool = True,
    mass: float = 2.0,
    size: object = None,
    dim: Dim = 3,
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
    """A brick across two others, with four contact points on either, in the plane two.

    The upper brick is rigid. Bodies are the left, the right and the upper brick, and the floor
    if there is one.

    Parameters
    ----------
    stiffness_ratio : of the right brick, relative to the left.
    separation : between the lower bricks, m. offset : of the upper one from their middle, m.
    fixed : lower bricks do not move; otherwise they stand on a floor, as stiff as the left one.
    mass : of each brick, kg.
    size : (dim,) of a brick, m; by default 0.2 × 0.1 × 0.06, in the plane 0.2 × 0.06.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : a brick that does not reach both.
    """
    edges = _edges(size, _BRICK, dim)
    length, height = float(edges[0]), float(edges[-1])
    if abs(offset) + 0.5 * separation >= 0.5 * length:
        found = f"{offset:g} over bricks {separation:g} apart"
        raise InvalidInput("offset", found, f"a brick of {length:g} that lies on both")
    middle = 0.5 * (length + separation)
    places = (-middle, 0.5), (middle, 0.5), (offset, 1.5)
    stiffness = {"left": 1.0, "right": stiffness_ratio}
    bricks = [
        Body(
            Box(edges),
            up(dim, level * height, x),
            mass=mass,
            name=name,
            fixed=fixed and low,
            material=name if low else "",
        )
        for (x, level), name, low in zip(
            places, ("left", "right", "upper"), (True, True, False), strict=True
        )
    ]
    ground = Body(HalfSpace(up(dim, 1.0)), np.zeros(dim), material="left", name="floor")
    return Scene(
        bricks if fixed else [*bricks, ground],
        dim=dim,
        power=power,
        restitution=restitution,
        materials=[Material(name=name, stiffness=k) for name, k in stiffness.items()],
        name="brick-on-two-bricks",
        title="A brick across two bricks",
    )


def box_on_step(
    overhang: Annotated[float, number(at_least=0.0, at_most=0.5)] = 0.25,
    *,
    mass: float = 1.0,
    size: object = None,
    dim: Dim = 3,
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
    """A box on a step, its right end beyond the edge of the step.

    Of the weight W the edge carries W/(2 − 2s), s the overhang, and the box's left end the rest.
    Bodies are the floor, the step and the box. The step's edge is at x = 0.

    Parameters
    ----------
    overhang : s, as a share of the box's length.
    mass : kg. size : (dim,) m; by default 0.4 × 0.3 × 0.2, in the plane 0.4 × 0.2.
    power : exponent of the contact law. restitution : Newton's e.
    """
    edges = _edges(size, _BOX, dim)
    length, height = float(edges[0]), float(edges[-1])
    step = edges * np.array([2.0, *[1.0] * (dim - 1)])
    place = up(dim, 1.5 * height, (overhang - 0.5) * length)
    return Scene(
        [
            floor(dim),
            Body(Box(step), up(dim, 0.5 * height, -length), fixed=True, name="step"),
            Body(Box(edges), place, mass=mass, name="box"),
        ],
        dim=dim,
        power=power,
        restitution=restitution,
        name="box-on-step",
        title="A box on a step",
    )


def arch(
    voussoirs: Count = 9,
    *,
    angle: Annotated[float, number(above=0.0, at_most=1.57)] = 1.0,
    thrust: Positive = 1000.0,
    radius: Positive = 1.0,
    thickness: Positive = 0.25,
    depth: Positive = 0.2,
    density: NotNegative = 0.0,
    dim: Dim = 2,
    materials: Sequence[Material] = (),
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
    """A segmental arch of equal wedges between two fixed abutments, with radial smooth joints.

    Without friction the force in a joint is normal to it. At an angle β from the upright joint
    at the crown it is T = H / cos β, H the horizontal thrust, and the stone between β and β′ must
    weigh H (tan β′ − tan β). Here the stones have these weights. The forces can then all pass at
    one distance R from the centre,

        R = (2/3) cos²(Δ/2) (r₂³ − r₁³) / (r₂² − r₁²),   Δ = β′ − β,

    with s T on the outer corners of a joint and (1 − s) T on the inner ones,
    s = (R − r₁) / (r₂ − r₁). Statics allow a couple beside, the same in every joint: outer corners
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
    density : of the voussoirs, kg/m³, where they are all of one stone: such an arch needs friction.
        By default 0, and they have the weights above.
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
    joints = np.linspace(-angle, angle, voussoirs + 1)
    wide = min(wedge, np.pi - angle)  # abutments
    joints = np.concatenate([[-angle - wide], joints, [angle + wide]])
    stones = [
        _wedge(left, right, radius, outer, None if dim == 2 else depth)
        for left, right in pairwise(joints.tolist())
    ]
    masses = thrust * np.diff(np.tan(joints)) / GRAVITY
    weights = [{"density": density} if density else {"mass": m} for m in masses.tolist()]
    names = cycled(materials)
    wedges = [
        Body(stone, stone.centre, material=names[k % len(names)], name=f"voussoir {k}", **weight)
        for k, (stone, weight) in enumerate(zip(stones[1:-1], weights[1:-1], strict=True))
    ]
    abutments = [
        Body(stone, stone.centre, fixed=True, name=f"{side} abutment")
        for stone, side in ((stones[0], "left"), (stones[-1], "right"))
    ]
    return Scene(
        [abutments[0], *wedges, abutments[1]],
        dim=dim,
        power=power,
        restitution=restitution,
        materials=materials,
        name="arch",
        title="An arch of stone" if density else "An arch without friction",
    )


def buttress(
    courses: Count = 10,
    *,
    thrust: Finite = 0.0,
    base: Positive = 1.0,
    top: Positive = 0.4,
    height: Positive = 3.0,
    density: float = 2000.0,
    dim: Dim = 2,
) -> Scene:
    """A buttress of blocks on a floor, upright at the left, that takes a thrust at its top.

    Its right face steps back course by course. Bodies are the floor and the blocks from below.

    Parameters
    ----------
    courses : number of blocks.
    thrust : on the top block at its centre, to the right, N.
    base, top : lengths of the lowest and of the highest block along x, m. height : in all, m.
    density : kg/m³, in the plane of blocks 1 m deep, as they are in space.
    """
    course, push = height / courses, [thrust, *[0.0] * (dim - 1)]
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
    return Scene([floor(dim), *blocks], dim=dim, name="buttress", title="A buttress")


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


def _edges(size: object, default: tuple[float, float, float], dim: int) -> FloatArray:
    """(dim,) of a block, m; the default without its depth in the plane."""
    usual = list(default) if dim == 3 else [default[0], default[2]]
    return checks.vector("size", usual if size is None else size, dim)


def thrust_radius(inner: float, outer: float, wedge: float) -> float:
    """R, where the thrust can cross all joints, m; wedges between r₁ and r₂ span ``wedge`` rad."""
    # (r₂³ − r₁³)/(r₂² − r₁²) without differences of powers, which vanish for thin or tiny arches
    centroid = 2.0 / 3.0 * (outer + inner * (inner / (outer + inner)))
    return float(np.cos(0.5 * wedge) ** 2 * centroid)


def _wedge(
    left: float, right: float, inner: float, outer: float, depth: float | None
) -> Polygon | Polyhedron:
    """Between two joints at angles from the upright, about the centre of the arch."""

    def corner(radius: float, angle: float) -> list[float]:
        return [radius * float(np.sin(angle)), radius * float(np.cos(angle))]

    flat: FloatArray = np.array(
        [corner(inner, left), corner(inner, right), corner(outer, right), corner(outer, left)]
    )
    if depth is None:
        return Polygon(flat)
    sides = [np.full(4, 0.5 * sign * depth) for sign in (-1.0, 1.0)]
    return Polyhedron(np.concatenate([np.column_stack([flat[:, 0], y, flat[:, 1]]) for y in sides]))
