"""Blocks laid dry, without friction: walls, stacks, a brick on two, a box on a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import Dim, FloatArray, Power
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import whole
from cdopt.scene.bodies import Body
from cdopt.scene.generators.few import floor, over
from cdopt.scene.material import Material
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import Box, HalfSpace

ENDS = ("half", "stepped")
_BRICK = (0.2, 0.1, 0.06)  # length, depth and height, m
_BOX = (0.4, 0.3, 0.2)


def brick_wall(
    courses: int = 5, bricks: int = 4, *, dim: Dim = 2, ends: str = "half", head_joint: float = 0.0,
    walls: bool = False, size: object = None, density: float = 2000.0,
    materials: Sequence[Material] = (), power: Power = 2.0, restitution: float = 0.0,
) -> Scene:  # fmt: skip
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
    InvalidInput : courses or bricks is not an integer from 1 to 1000, more courses than bricks
        in a stepped wall, a head joint of half a brick or more, or a number out of range.
    """
    rows, across = whole("courses", courses, 1, 1000), whole("bricks", bricks, 1, 1000)
    stepped = checks.choice("ends", ends, ENDS) == "stepped"
    if stepped and rows > across:
        raise InvalidInput("courses", str(rows), f"at most {across}, of a stepped wall")
    edges = _edges(size, _BRICK, dim)
    length, height = float(edges[0]), float(edges[-1])
    joint = checks.scalar("head_joint", head_joint, at_least=0.0)
    if joint >= 0.5 * length:
        raise InvalidInput("head_joint", f"{joint:g}", f"less than half a brick, {0.5 * length:g}")
    far = across * (length + joint) - joint
    names = cycled(materials)
    laid: list[Body] = []
    shapes: dict[float, Box] = {}  # a wall has two lengths of brick: their polytopes are shared
    for j in range(rows):
        for x, own in _course(j, across, length, joint, stepped):
            if own not in shapes:
                shapes[own] = Box(np.append(own, edges[1:]))
            laid.append(
                Body(
                    shapes[own],
                    over(dim, x, (j + 0.5) * height),
                    density=density,
                    material=names[len(laid) % len(names)],
                    name=f"brick {len(laid)}",
                )
            )
    upright = [
        Body(HalfSpace(over(dim, inward, 0.0)), over(dim, x, 0.0), name=f"{side} wall")
        for x, inward, side in ((0.0, 1.0, "left"), (far, -1.0, "right"))
    ]
    return Scene(
        [floor(dim), *(upright if walls else []), *laid],
        dim=dim,
        power=power,
        restitution=restitution,
        materials=materials,
        name="brick-wall",
        title="A wall of bricks in running bond",
    )


def box_stack(
    n: int = 5, *, dim: Dim = 3, shift: float = 0.0, size: object = None, density: float = 1000.0,
    materials: Sequence[Material] = (), power: Power = 2.0, restitution: float = 0.0,
) -> Scene:  # fmt: skip
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
    InvalidInput : n is not an integer from 1 to 1000, a shift of a box's length or more, or a
        number out of range.
    """
    count = whole("n", n, 1, 1000)
    edges = _edges(size, _BOX, dim)
    step = checks.scalar("shift", shift)
    if abs(step) >= edges[0]:
        raise InvalidInput("shift", f"{step:g}", f"less than the length of a box, {edges[0]:g}")
    names = cycled(materials)
    boxes = [
        Body(Box(edges), over(dim, k * step, (k + 0.5) * edges[-1]), density=density,
             material=names[k % len(names)], name=f"box {k}")
        for k in range(count)
    ]  # fmt: skip
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
    stiffness_ratio: float = 1.0, *, separation: float = 0.08, offset: float = 0.0,
    fixed: bool = True, mass: float = 2.0, size: object = None, dim: Dim = 3, power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:  # fmt: skip
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
    InvalidInput : a number out of range, or a brick that does not reach both.
    """
    edges = _edges(size, _BRICK, dim)
    length, height = float(edges[0]), float(edges[-1])
    apart = checks.scalar("separation", separation, at_least=0.0)
    aside = checks.scalar("offset", offset)
    if abs(aside) + 0.5 * apart >= 0.5 * length:
        found = f"{aside:g} over bricks {apart:g} apart"
        raise InvalidInput("offset", found, f"a brick of {length:g} that lies on both")
    ratio = checks.scalar("stiffness_ratio", stiffness_ratio, above=0.0)
    middle = 0.5 * (length + apart)
    places = (-middle, 0.5), (middle, 0.5), (aside, 1.5)
    bricks = [
        Body(Box(edges), over(dim, x, level * height), mass=mass, name=name, fixed=fixed and low,
             material=name if low else "")
        for (x, level), name, low in zip(
            places, ("left", "right", "upper"), (True, True, False), strict=True
        )
    ]  # fmt: skip
    ground = Body(HalfSpace(over(dim, 0.0, 1.0)), np.zeros(dim), material="left", name="floor")
    return Scene(
        bricks if fixed else [*bricks, ground],
        dim=dim,
        power=power,
        restitution=restitution,
        materials=[Material(name="left", stiffness=1.0), Material(name="right", stiffness=ratio)],
        name="brick-on-two-bricks",
        title="A brick across two bricks",
    )


def box_on_step(
    overhang: float = 0.25, *, mass: float = 1.0, size: object = None, dim: Dim = 3,
    power: Power = 2.0, restitution: float = 0.0,
) -> Scene:  # fmt: skip
    """A box on a step, its right end beyond the edge of the step.

    Of the weight W the edge carries W/(2 − 2s), s the overhang, and the box's left end the rest.
    Bodies are the floor, the step and the box. The step's edge is at x = 0.

    Parameters
    ----------
    overhang : s, as a share of the box's length.
    mass : kg. size : (dim,) m; by default 0.4 × 0.3 × 0.2, in the plane 0.4 × 0.2.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : an overhang not from 0 to 1/2, or another number out of range.
    """
    share = checks.scalar("overhang", overhang, at_least=0.0, at_most=0.5)
    edges = _edges(size, _BOX, dim)
    length, height = float(edges[0]), float(edges[-1])
    step = edges * np.array([2.0, *[1.0] * (dim - 1)])
    place = over(dim, (share - 0.5) * length, 1.5 * height)
    return Scene(
        [
            floor(dim),
            Body(Box(step), over(dim, -length, 0.5 * height), fixed=True, name="step"),
            Body(Box(edges), place, mass=mass, name="box"),
        ],
        dim=dim,
        power=power,
        restitution=restitution,
        name="box-on-step",
        title="A box on a step",
    )


def cycled(materials: Sequence[Material]) -> list[str]:
    """Names of materials that bodies take in turn; "" alone where there are none.

    Raises
    ------
    InvalidInput : one that is no Material.
    """
    for k, material in enumerate(materials):
        if not isinstance(material, Material):
            raise InvalidInput(f"materials[{k}]", checks.describe(material), "a Material")
    return [material.name for material in materials] or [""]


def _course(
    j: int, bricks: int, length: float, joint: float, stepped: bool
) -> list[tuple[float, float]]:
    """Middle and length of every brick of course j, from left to right, m."""
    pitch = length + joint
    if stepped:
        return [(0.5 * j * pitch + i * pitch + 0.5 * length, length) for i in range(bricks - j)]
    if j % 2 == 0:
        return [(i * pitch + 0.5 * length, length) for i in range(bricks)]
    half = 0.5 * (length - joint)
    end = bricks * pitch - joint
    whole_ones = [((i + 0.5) * pitch + 0.5 * length, length) for i in range(bricks - 1)]
    return [(0.5 * half, half), *whole_ones, (end - 0.5 * half, half)]


def _edges(size: object, default: tuple[float, float, float], dim: int) -> FloatArray:
    """(dim,) of a block, m; the default without its depth in the plane."""
    if dim not in (2, 3):
        raise InvalidInput("dim", checks.describe(dim), "2 or 3")
    usual = list(default) if dim == 3 else [default[0], default[2]]
    return checks.vector("size", usual if size is None else size, dim)
