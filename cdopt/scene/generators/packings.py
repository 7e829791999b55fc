"""Scenes of many bodies: pyramids, crystals, loose packings, columns, silos and drums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body, Spheres
from cdopt.scene.generators import Made, cycled, floor, generator, up, walls_at
from cdopt.scene.material import Material
from cdopt.scene.shapes import Box, Compound, Part, Polygon, Polyhedron

_MOST = 300  # layers of a pyramid: nine million spheres
_UNEVEN = 0.35  # by how much corners stray, of their distance from each other
_SAND = 2500.0  # kg/m³


# --- regular piles -------------------------------------------------------------------------------


def pyramid_positions(n: int) -> tuple[FloatArray, IntArray]:
    """Centres (ns, 3) in diameters and layers (ns,) of a pyramid, by layer, then y, then x."""
    checks.scalar("n", n, at_least=1, at_most=_MOST)
    centres, layers = [], []
    for j in range(n):
        side = np.arange(n - j) + 0.5 * j
        y, x = np.meshgrid(side, side, indexing="ij")
        height = np.full(x.size, j / np.sqrt(2.0))
        centres.append(np.column_stack([x.ravel(), y.ravel(), height]))
        layers.append(np.full(x.size, j))
    return np.concatenate(centres), np.concatenate(layers)


@generator(
    "A cannonball pyramid, dropped",
    {"n": checks.integer(2, 150), "material": checks.one_of(("uniform", "species"))},
    dim=3,
)
def pyramid(
    n: int = 20,
    power: float = 2.0,
    material: str = "uniform",
    *,
    modulus_ratio: float = 5.0,
    separation: float = 0.05,
    diameter: float = 2.5e-3,
    density: float = 2000.0,
    young: float = 50e9,
    poisson: float = 0.0,
) -> Made:
    """The cannonball pyramid: a square pile of spheres, its base fixed, dropped layer by layer.

    Layer j is lifted by j × ``separation`` radii, which opens every gap between layers. Olsen &
    Kamrin (2018), section 8.2.

    Parameters
    ----------
    n : spheres along a side of the base.
    power : exponent of the contact law, 2 Hooke or 2.5 Hertz.
    material : "uniform"; or "species", spheres of even number (from 0) soft and of odd number
        ``modulus_ratio`` times as stiff. Spheres are numbered by layer, then y, then x.
    separation : in radii; 0 is the settled pile.
    diameter : m. density : kg/m³. young, poisson : modulus, Pa, and ratio of the softer species.
    """
    centres, layers = pyramid_positions(n)
    centres = centres * diameter
    centres[:, 2] += layers * (separation * 0.5 * diameter)
    moduli = {"grain": young}
    if material == "species":
        moduli = {"soft": young, "hard": young * modulus_ratio}
    materials = [Material(name=k, young=modulus, poisson=poisson) for k, modulus in moduli.items()]
    pile = Spheres(
        centres=centres,
        radius=0.5 * diameter,
        density=density,
        fixed=layers == 0,
        material=[cycled(materials, k) for k in range(layers.size)],
    )
    return [pile], {"materials": materials, "name": f"pyramid-{n}"}


@generator("A crystal of discs between walls", {"columns": checks.integer(2, 1000)}, dim=2)
def crystal(
    rows: int = 8,
    columns: int = 10,
    *,
    diameter: float = 0.01,
    separation: float = 0.0,
    density: float = 2000.0,
    power: float = 2.0,
    restitution: float = 0.0,
) -> Made:
    """A hexagonal crystal of discs on a floor between two walls, in the plane.

    Rows of ``columns`` discs, which reach both walls, alternate with rows of one disc less.
    Bodies are floor, left and right wall, then the discs by row and x.

    Parameters
    ----------
    diameter : m. density : kg/m³, of discs 1 m deep.
    separation : lift of row j, in radii per row; 0 touches everywhere.
    power, restitution : of the scene.
    """
    d, rise = diameter, np.sqrt(0.75) + 0.5 * separation
    centres = crystal_positions(rows, columns, rise)
    discs = Spheres(centres=centres * d, radius=0.5 * d, density=density)
    return [floor(2), *walls_at([[0.0, columns * d]], 2), discs]


def crystal_positions(rows: int, columns: int, rise: float = np.sqrt(0.75)) -> FloatArray:
    """Centres (n, 2) in diameters of a hexagonal crystal, rows ``rise`` apart, by row and x."""
    wide = [columns - j % 2 for j in range(rows)]
    x = [0.5 * (1 + j % 2) + np.arange(n) for j, n in enumerate(wide)]
    return np.column_stack([np.concatenate(x), 0.5 + rise * np.repeat(np.arange(rows), wide)])


# --- loose grains on a lattice -------------------------------------------------------------------


class Lattice(NamedTuple):
    """Spheres apart from each other: centres (n, dim) m, radii (n,) m, box ends (dim − 1, 2) m."""

    centres: FloatArray
    radii: FloatArray
    sides: FloatArray

    def grains(self, density: float, shift: FloatArray | float = 0.0) -> Spheres:
        """The spheres, moved by (dim,) m."""
        return Spheres(centres=self.centres + shift, radius=self.radii, density=density)

    def walls(self) -> list[Body]:
        """Upright walls around it."""
        return walls_at(self.sides, self.centres.shape[1])


def loose(
    n: int, dim: int, radius: float, spread: float, side: int, random: np.random.Generator
) -> Lattice:
    """Spheres shaken within the cells of a lattice that is wide enough for the largest."""
    radii = np.asarray(radius * (1.0 + spread * random.uniform(-1.0, 1.0, n)))
    cell, k = 2.2 * radius * (1.0 + spread), np.arange(n)
    level = [k % side, k // side] if dim == 2 else [k % side, k // side % side, k // side**2]
    centres = (np.column_stack(level) + 0.5) * cell
    centres += random.uniform(-0.99, 0.99, centres.shape) * (0.5 * cell - radii)[:, None]
    return Lattice(np.asarray(centres), radii, np.tile([0.0, side * cell], (dim - 1, 1)))


@generator("Spheres of random sizes, about to fall", {"n": checks.integer(1, 1_000_000)})
def random_packing(
    n: int = 200,
    *,
    dim: int = 3,
    radius: float = 0.005,
    spread: float = 0.2,
    across: int = 6,
    walls: bool = True,
    density: float = 2000.0,
    restitution: float = 0.0,
    power: float = 2.0,
    seed: int = 0,
) -> Made:
    """Spheres of random sizes, loose on a lattice, that fall into a box or onto a floor.

    Parameters
    ----------
    n : number of spheres.
    radius, spread : radii are drawn evenly from radius × (1 ± spread), m.
    across : cells along each horizontal side.
    walls : upright walls around the lattice; without, the floor alone.
    density : kg/m³. seed : of the random numbers; the same seed gives the same scene.
    power, restitution : of the scene.
    """
    lattice = loose(n, dim, radius, spread, across, np.random.default_rng(seed))
    return [floor(dim), *(lattice.walls() if walls else []), lattice.grains(density)]


@generator(
    "Polyhedra of random shapes, about to fall",
    {"n": checks.integer(1, 10_000), "corners": checks.integer(6, 64)},
    dim=3,
)
def polyhedra_pile(
    n: int = 30,
    *,
    corners: int = 12,
    radius: float = 0.01,
    spread: float = 0.2,
    across: int = 3,
    walls: bool = True,
    density: float = 2500.0,
    materials: Sequence[Material] = (),
    power: float = 2.0,
    restitution: float = 0.0,
    seed: int = 0,
) -> Made:
    """Random convex polyhedra, turned at random, apart, that fall into a box or onto a floor.

    Each is the convex hull of points on a sphere. Bodies are the floor, the walls, then the
    polyhedra by height.

    Parameters
    ----------
    n : number of polyhedra. corners : of each.
    radius, spread : of the spheres, drawn evenly from radius × (1 ± spread), m.
    across, walls, seed : as in ``random_packing``.
    density : kg/m³. materials : taken in turn by the polyhedra.
    power : exponent of the contact law. restitution : Newton's e.
    """
    random = np.random.default_rng(seed)
    lattice = loose(n, 3, radius, spread, across, random)
    return _solids(
        lambda size: Polyhedron(size * _on_a_sphere(corners, random)),
        lattice, walls, density, materials,
    )  # fmt: skip


@generator(
    "Polygons of random shapes, about to fall",
    {"n": checks.integer(1, 10_000), "corners": checks.integer(3, 64)},
    dim=2,
)
def polygon_packing(
    n: int = 40,
    *,
    corners: int = 6,
    radius: float = 0.01,
    spread: float = 0.2,
    across: int = 6,
    walls: bool = True,
    density: float = 2500.0,
    materials: Sequence[Material] = (),
    power: float = 2.0,
    restitution: float = 0.0,
    seed: int = 0,
) -> Made:
    """Random convex polygons, apart, that fall between two walls or onto a floor, in the plane.

    The corners of each lie on a circle. Bodies are the floor, the walls, then the polygons by
    height. ``density`` is that of polygons 1 m deep; ``n``, ``corners``, ``radius``, ``spread``,
    ``across``, ``walls``, ``materials``, ``power``, ``restitution`` and ``seed`` are as in
    ``polyhedra_pile``.
    """
    random = np.random.default_rng(seed)
    lattice = loose(n, 2, radius, spread, across, random)
    return _solids(
        lambda size: Polygon(size * _on_a_circle(corners, random)),
        lattice, walls, density, materials,
    )  # fmt: skip


def _solids(
    make: Callable[[float], Polygon | Polyhedron],
    lattice: Lattice,
    walls: bool,
    density: float,
    materials: Sequence[Material],
) -> list[Body]:
    """The floor, the walls, and a body of each size in its cell of the lattice."""
    bodies = [floor(lattice.centres.shape[1]), *(lattice.walls() if walls else [])]
    for k, (size, centre) in enumerate(zip(lattice.radii, lattice.centres, strict=True)):
        shape, material = make(size), cycled(materials, k)
        place = centre + shape.centre
        bodies.append(Body(shape, place, density=density, material=material, name=f"grain {k}"))
    return bodies


def _on_a_circle(many: int, random: np.random.Generator) -> FloatArray:
    """(n, 2) corners of a convex polygon on the unit circle, anticlockwise."""
    shaken = np.arange(many) + random.uniform(-_UNEVEN, _UNEVEN, many)
    angle = 2.0 * np.pi * (shaken / many + random.uniform())
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _on_a_sphere(many: int, random: np.random.Generator) -> FloatArray:
    """(n, 3) points of a spiral around the unit sphere, shaken, then turned at random."""
    k = np.arange(many) + 0.5
    height, turn = 1.0 - 2.0 * k / many, np.pi * (1.0 + np.sqrt(5.0)) * k
    wide = np.sqrt(1.0 - height**2)
    even = np.column_stack([wide * np.cos(turn), wide * np.sin(turn), height])
    apart = np.sqrt(4.0 * np.pi / many)
    shaken = even + _UNEVEN * apart * random.uniform(-1.0, 1.0, even.shape)
    points = shaken / np.linalg.norm(shaken, axis=1, keepdims=True)
    return np.asarray(Rotation.from_quat(random.normal(size=4)).apply(points))


@generator(
    "A column of grains",
    {"n": checks.integer(1, 1_000_000), "aspect": checks.number(above=0.0, at_most=1e6)},
)
def grain_column(
    n: int = 200,
    *,
    dim: int = 2,
    aspect: float = 2.0,
    radius: float = 0.005,
    spread: float = 0.2,
    mu: float = 0.5,
    gate: bool = False,
    seed: int = 0,
) -> Made:
    """A column of loose grains against a wall, about to collapse along x.

    They start on a lattice, a little apart. For a column at rest let them settle behind the
    ``gate``, and go on from there: ``from_positions`` takes their places, without the gate.
    Lajeunesse, Monnier & Homsy, Phys. Fluids 17, 103302 (2005).

    Parameters
    ----------
    n : number of grains. aspect : initial height over width.
    radius, spread : radii are drawn evenly from radius × (1 ± spread), m.
    mu : friction coefficient. seed : of the random numbers.
    gate : a wall at the other side of the column too. In space there are walls in front and behind.
    """
    across = max(1, round((n / aspect) ** (1.0 / dim)))
    lattice = loose(n, dim, radius, spread, across, np.random.default_rng(seed))
    walls = (wall for wall in lattice.walls() if gate or wall.name != "right wall")
    return [floor(dim), *walls, lattice.grains(_SAND)]


@generator(
    "A silo",
    {"n": checks.integer(1, 100_000), "angle": checks.number(above=0.0, at_most=85.0)},
    dim=2,
)
def silo(
    n: int = 150,
    *,
    opening: float = 6.0,
    angle: float = 45.0,
    radius: float = 0.005,
    spread: float = 0.2,
    across: int = 12,
    mu: float = 0.4,
    seed: int = 0,
) -> Made:
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
    lattice = loose(n, 2, radius, spread, across, np.random.default_rng(seed))
    turn = float(np.radians(angle))
    wide = float(lattice.sides[0, 1])
    slot = 2.0 * radius * opening
    if slot >= wide:
        raise InvalidInput("opening", f"{slot:g} m", f"less than the silo's width, {wide:g} m")
    run = 0.5 * (wide - slot)
    high = wide + run * float(np.tan(turn))  # of the hopper's upper end over the floor
    plank = Box([run / float(np.cos(turn)), radius])
    hopper = []
    for side, name in ((-1.0, "left hopper"), (1.0, "right hopper")):
        middle = [0.5 * wide + side * 0.5 * (slot + run), high - 0.5 * run * np.tan(turn)]
        below = np.array([side * np.sin(turn), -np.cos(turn)]) * 0.5 * radius
        slope = side * turn
        hopper.append(Body(plank, middle + below, angle=slope, fixed=True, name=name))
    return [floor(2), *lattice.walls(), *hopper, lattice.grains(_SAND, up(2, high))]


@generator(
    "A drum that turns",
    {"n": checks.integer(1, 10_000), "size": checks.number(above=1.0, at_most=1e4)},
    dim=2,
)
def rotating_drum(
    n: int = 120,
    *,
    speed: float = 1.0,
    radius: float = 0.005,
    spread: float = 0.2,
    size: float = 16.0,
    mu: float = 0.5,
    seed: int = 0,
) -> Made:
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
    lattice = loose(n, 2, radius, spread, across, np.random.default_rng(seed))
    grains = lattice.grains(_SAND, -0.5 * across * cell)
    if np.any(np.hypot(*np.transpose(grains.centres)) + lattice.radii > inner):
        found = f"{n} grains in rows of {across}"
        raise InvalidInput("n", found, f"at most {across**2} in a drum of this size")
    many, thick = 36, 2.0 * radius
    board = Box([thick, 2.0 * (inner + thick) * float(np.tan(np.pi / many))])
    ring = [
        Part(board, (inner + 0.5 * thick) * np.array([np.cos(at), np.sin(at)]), angle=float(at))
        for at in 2.0 * np.pi * np.arange(many) / many
    ]
    drum = Body(Compound(ring), [0.0, 0.0], fixed=True, angular_velocity=speed, name="drum")
    return [drum, grains]
