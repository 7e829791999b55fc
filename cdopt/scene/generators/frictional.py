"""Scenes that stand, slide or flow by friction; each states its coefficients."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from cdopt._util.checks import (
    Dim,
    Finite,
    NotNegative,
    Positive,
    Seed,
    Share,
    integer,
    number,
    whole,
)
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body, Spheres
from cdopt.scene.generators.masonry import arch, box_stack
from cdopt.scene.generators.packings import Across, Spread, loose, walls_at
from cdopt.scene.generators.primitives import floor, up
from cdopt.scene.material import Material, MaterialPair
from cdopt.scene.scene import GRAVITY, Scene
from cdopt.scene.shapes import Box, Capsule, Compound, HalfSpace, Part

_DENSITY = 2500.0  # kg/m³


def incline(
    ratio: NotNegative = 0.9,
    mu: Annotated[float, number(above=0.0, at_most=2.0)] = 0.5,
    dim: Dim = 2,
) -> Scene:
    """A box of 1 kg at rest on an incline of tan θ = ``ratio`` μ: it slides where that is above 1.

    ``mu`` is the friction coefficient, ``dim`` 2 in the plane and 3 in space.

    The box is 0.2 m long and 0.1 m high, so that it slides before it tips where μ < 2. In a step
    of Δt it sticks, or slides down at Δt g (sin θ − μ cos θ).

    Raises
    ------
    InvalidInput : a slope so steep that the box tips.
    """
    angle = float(np.arctan(ratio * mu))
    if np.tan(angle) > 2.0:
        raise InvalidInput("ratio", f"a slope of {np.tan(angle):g}", "at most 2: the box tips")
    normal = np.array([np.sin(angle), *[0.0] * (dim - 2), np.cos(angle)])
    if dim == 2:
        box = Body(Box([0.2, 0.1]), 0.05 * normal, angle=-angle, mass=1.0)
    else:
        turn = [np.cos(0.5 * angle), 0.0, np.sin(0.5 * angle), 0.0]
        box = Body(Box([0.2, 0.2, 0.1]), 0.05 * normal, orientation=turn, mass=1.0)
    return Scene(
        [Body(HalfSpace(normal), np.zeros(dim)), box],
        dim=dim,
        friction=mu,
        name="incline",
        title="A box on an incline",
    )


def ladder(
    angle: Annotated[float, number(above=0.0, at_most=89.0)] = 60.0,
    height: Share = 0.5,
    floor_friction: float = 0.4,
    wall_friction: float = 0.2,
    climber: NotNegative = 80.0,
) -> Scene:
    """A ladder of 5 m and 20 kg against a wall, and the weight of somebody on it.

    It stands at ``angle`` (degrees) from the floor. The ``climber`` (kg) stands at the share
    ``height`` of its length, 0 at the foot and 1 at the top, and counts as a load without inertia.
    ``floor_friction`` and ``wall_friction`` belong to pairs of materials: aluminium on concrete,
    aluminium on plaster.
    """
    turn, load = np.radians(angle), -GRAVITY * climber
    long, thick = 5.0, 0.02
    along, across = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    foot, top = -0.5 * long * along, 0.5 * long * along - 0.5 * thick * across
    foot = foot - 0.5 * thick * across
    stands = (height - 0.5) * long * along + 0.5 * thick * across
    materials = ("aluminium", "concrete", "plaster")
    pairs = (("concrete", floor_friction), ("plaster", wall_friction))
    return Scene(
        [
            Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material="concrete", name="floor"),
            Body(HalfSpace([-1.0, 0.0]), [top[0] - foot[0], 0.0], material="plaster", name="wall"),
            Body(
                Box([long, thick]),
                -foot,
                angle=float(turn),
                mass=20.0,
                material="aluminium",
                force=[0.0, load],
                torque=float(stands[0] * load),
                name="ladder",
            ),
        ],
        dim=2,
        materials=[Material(name=name) for name in materials],
        pairs=[MaterialPair(materials=("aluminium", other), friction=mu) for other, mu in pairs],
        name="ladder",
        title="A ladder against a wall",
    )


def house_of_cards(
    storeys: Annotated[int, integer(1, 12)] = 3,
    *,
    lean: Annotated[float, number(above=0.0, at_most=60.0)] = 20.0,
    mu: NotNegative = 0.6,
) -> Scene:
    """A house of cards in the plane: pairs of leaning cards, and level cards between storeys.

    Leaning cards are 88 mm long and 1 mm thick, with round ends. A single pair stands where
    μ ≥ tan(lean)/2, one that bears others where μ is about tan(lean). Bodies are the floor, then
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
    card = Capsule(r, long)
    flat = Box([pitch - 0.5 * r, 2.0 * r])
    bodies = [floor(2)]
    for level in range(storeys):
        ground = level * (tall + 4.0 * r)
        tips = pitch * (np.arange(storeys - level) - 0.5 * (storeys - level - 1))
        for tip in tips.tolist():
            for side in (-1.0, 1.0):
                centre = [tip + side * (r + 0.5 * wide), ground + r + 0.5 * tall]
                angle = 0.5 * np.pi + side * float(turn)
                bodies.append(Body(card, centre, angle=angle, mass=0.002))
        if len(tips) > 1:
            height = ground + tall + 3.0 * r
            bodies += [
                Body(flat, [middle, height], mass=0.002)
                for middle in (0.5 * (tips[1:] + tips[:-1])).tolist()
            ]
    return Scene(
        bodies,
        dim=2,
        friction=mu,
        name="house-of-cards",
        title="A house of cards",
    )


def pulled_brick(
    n: Annotated[int, integer(1, 1000)] = 5,
    *,
    pulled: int = 2,
    ratio: Finite = 2.5,
    mu: Positive = 0.5,
    dim: Dim = 2,
) -> Scene:
    """A stack of equal boxes, one of which is pulled along x.

    The pull is ``ratio`` times the friction that its underside can give, μ W (n − pulled), W the
    weight of a box. Below one the stack stands if it does not tip. From one to two the pulled box
    takes those above along, and above two it slides out from under them.

    Parameters
    ----------
    n : number of boxes. pulled : number of the pulled one, from 0, the lowest.
    ratio : of the pull to the friction below. mu : friction coefficient.

    Raises
    ------
    InvalidInput : pulled is not a number below n.
    """
    which = whole("pulled", pulled, 0, n - 1)
    stack = box_stack(n, dim=dim)
    weight = GRAVITY * float(stack.bodies.mass[-1])
    pull = ratio * mu * weight * (n - which)
    height = float(stack.bodies.position[1, -1])
    boxes = [
        Body(
            stack.bodies.shape(k + 1),
            up(dim, (2 * k + 1) * height),
            density=float(stack.bodies.density[k + 1]),
            force=up(dim, 0.0, pull) if k == which else None,
            name="pulled box" if k == which else f"box {k}",
        )
        for k in range(n)
    ]
    return Scene(
        [floor(dim), *boxes],
        dim=dim,
        friction=mu,
        name="pulled-brick",
        title="A stack of boxes, one of which is pulled",
    )


def arch_without_keystone(
    voussoirs: Annotated[int, integer(3, 999)] = 9,
    *,
    mu: Positive = 0.6,
    angle: Annotated[float, number(above=0.0, at_most=1.57)] = 1.0,
    keystone: bool = False,
    dim: Dim = 2,
) -> Scene:
    """An arch of stone with friction that has lost its keystone, and falls.

    Parameters
    ----------
    voussoirs : odd number of wedges, with the keystone. mu : friction coefficient.
    angle : of the joints at the abutments from the upright, rad.
    keystone : whether it is still there; then the arch stands.
    dim : 2 in the plane; 3 in space, 0.2 m deep.

    Raises
    ------
    InvalidInput : an even number of voussoirs.
    """
    if voussoirs % 2 == 0:
        raise InvalidInput("voussoirs", str(voussoirs), "an odd number: one is the keystone")
    b = arch(voussoirs, angle=angle, density=_DENSITY, dim=dim).bodies
    stones = [
        Body(
            b.shape(k),
            b.position[k],
            fixed=bool(b.fixed[k]),
            density=None if b.fixed[k] else _DENSITY,
            name=b.names[k],
        )
        for k in range(b.nb)
        if keystone or k != (voussoirs + 1) // 2
    ]
    return Scene(
        stones,
        dim=dim,
        friction=mu,
        name="arch-without-keystone",
        title="An arch of stone" if keystone else "An arch that has lost its keystone",
    )


def grain_column(
    n: Annotated[int, integer(1, 1_000_000)] = 200,
    *,
    dim: Dim = 2,
    aspect: Annotated[float, number(above=0.0, at_most=1e6)] = 2.0,
    radius: Positive = 0.005,
    spread: Spread = 0.2,
    mu: NotNegative = 0.5,
    gate: bool = False,
    seed: Seed = 0,
) -> Scene:
    """A column of loose grains against a wall, about to collapse along x.

    They start on a lattice, a little apart. For a column at rest let them settle behind the
    ``gate``, and go on from there: ``from_positions`` takes their places, without the gate.

    Parameters
    ----------
    n : number of grains. aspect : initial height over width.
    radius, spread : radii are drawn evenly from radius × (1 ± spread), m.
    mu : friction coefficient. seed : of the random numbers.
    gate : a wall at the other side of the column too. In space there are walls in front and behind.

    Notes
    -----
    Lajeunesse, Monnier & Homsy, Phys. Fluids 17, 103302 (2005); Lube et al., Phys. Rev. E 72,
    041301 (2005).
    """
    across = max(1, round((n / aspect) ** (1.0 / dim)))
    grains = loose(n, dim, radius, spread, across, np.random.default_rng(seed))
    walls = walls_at(grains.sides, dim)
    return Scene(
        [
            floor(dim),
            *(wall for wall in walls if gate or wall.name != "right wall"),
            Spheres(centres=grains.centres, radius=grains.radii, density=_DENSITY),
        ],
        dim=dim,
        friction=mu,
        name="grain-column",
        title="A column of grains",
    )


def silo(
    n: Annotated[int, integer(1, 100_000)] = 150,
    *,
    opening: Positive = 6.0,
    angle: Annotated[float, number(above=0.0, at_most=85.0)] = 45.0,
    radius: Positive = 0.005,
    spread: Spread = 0.2,
    across: Across = 12,
    mu: NotNegative = 0.4,
    seed: Seed = 0,
) -> Scene:
    """A silo in the plane: loose grains above a hopper, whose outlet is a slot over a floor.

    Parameters
    ----------
    n : number of grains. across : cells of their lattice along x, the width of the silo.
    opening : width of the outlet, in mean diameters.
    angle : of the hopper from the level, degrees.
    radius, spread : radii are drawn evenly from radius × (1 ± spread), m.
    mu : friction coefficient. seed : of the random numbers.

    Raises
    ------
    InvalidInput : an opening as wide as the silo.
    """
    grains = loose(n, 2, radius, spread, across, np.random.default_rng(seed))
    turn = np.radians(angle)
    wide = float(grains.sides[0, 1])
    slot = 2.0 * radius * opening
    if slot >= wide:
        raise InvalidInput("opening", f"{slot:g} m", f"less than the silo's width, {wide:g} m")
    run = 0.5 * (wide - slot)
    high = wide + run * float(np.tan(turn))  # of the hopper's upper end over the floor
    thick, length = radius, run / float(np.cos(turn))
    sides = []
    for side, name in ((-1.0, "left hopper"), (1.0, "right hopper")):
        slope = np.array([np.cos(turn), side * np.sin(turn)])
        middle = [0.5 * wide + side * 0.5 * (slot + run), high - 0.5 * run * np.tan(turn)]
        below = np.array([side * np.sin(turn), -np.cos(turn)]) * 0.5 * thick
        place = np.array(middle) + below
        angle_of = float(np.arctan2(slope[1], slope[0]))
        sides.append(Body(Box([length, thick]), place, angle=angle_of, fixed=True, name=name))
    lifted = grains.centres + np.array([0.0, high])
    return Scene(
        [
            floor(2),
            *walls_at(grains.sides, 2),
            *sides,
            Spheres(centres=lifted, radius=grains.radii, density=_DENSITY),
        ],
        dim=2,
        friction=mu,
        name="silo",
        title="A silo",
    )


def rotating_drum(
    n: Annotated[int, integer(1, 10_000)] = 120,
    *,
    speed: Finite = 1.0,
    radius: Positive = 0.005,
    spread: Spread = 0.2,
    size: Annotated[float, number(above=1.0, at_most=1e4)] = 16.0,
    mu: NotNegative = 0.5,
    seed: Seed = 0,
) -> Scene:
    """A drum in the plane, partly filled with loose grains, that turns about its axis.

    The drum is a fixed body with a prescribed turn, a ring of 36 boxes. Bodies are the drum and
    the grains.

    Parameters
    ----------
    n : number of grains. size : radius of the drum, in mean diameters of the grains.
    speed : of the drum, rad/s, anticlockwise.
    radius, spread : radii of the grains are drawn evenly from radius × (1 ± spread), m.
    mu : friction coefficient. seed : of the random numbers.

    Raises
    ------
    InvalidInput : grains that do not fit into the drum.
    """
    inner, cell = 2.0 * radius * size, 2.2 * radius * (1.0 + spread)
    across = max(1, int(np.sqrt(2.0) * (inner - radius) / cell))  # a square in the drum
    grains = loose(n, 2, radius, spread, across, np.random.default_rng(seed))
    centres = grains.centres - 0.5 * across * cell
    if np.any(np.hypot(*centres.T) + grains.radii > inner):
        found = f"{n} grains in rows of {across}"
        raise InvalidInput("n", found, f"at most {across**2} in a drum of this size")
    many, thick = 36, 2.0 * radius
    turn = 2.0 * np.pi * np.arange(many) / many
    long = 2.0 * (inner + thick) * float(np.tan(np.pi / many))
    ring = [
        Part(
            Box([thick, long]),
            (inner + 0.5 * thick) * np.array([np.cos(angle), np.sin(angle)]),
            angle=float(angle),
        )
        for angle in turn
    ]
    drum = Body(Compound(ring), [0.0, 0.0], fixed=True, angular_velocity=speed, name="drum")
    return Scene(
        [drum, Spheres(centres=centres, radius=grains.radii, density=_DENSITY)],
        dim=2,
        friction=mu,
        name="rotating-drum",
        title="A drum that turns",
    )
