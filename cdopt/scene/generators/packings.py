"""Many bodies: crystals of discs, and random packings that are yet to settle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from cdopt._util.checks import (
    Dim,
    FloatArray,
    NotNegative,
    Positive,
    Power,
    Seed,
    integer,
    number,
)
from cdopt.scene.bodies import Body, Spheres
from cdopt.scene.generators.primitives import cycled, floor
from cdopt.scene.material import Material
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import HalfSpace, Polygon, Polyhedron

Spread = Annotated[float, number(at_least=0.0, at_most=0.95)]
Across = Annotated[int, integer(1, 10_000)]
Grains = Annotated[int, integer(1, 10_000)]
_UNEVEN = 0.35  # by how much corners stray, of their distance from each other
_SIDES = (("left", "right"), ("front", "back"), ("bottom", "top"))


def crystal(
    rows: Annotated[int, integer(1, 1000)] = 8,
    columns: Annotated[int, integer(2, 1000)] = 10,
    *,
    diameter: Positive = 0.01,
    separation: NotNegative = 0.0,
    density: float = 2000.0,
    power: Power = 2.0,
    restitution: float = 0.0,
) -> Scene:
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
    return Scene(
        [
            floor(2),
            *walls_at(np.array([[0.0, columns * d]]), 2),
            Spheres(centres=centres * d, radius=0.5 * d, density=density),
        ],
        dim=2,
        power=power,
        restitution=restitution,
        name="crystal",
        title="A crystal of discs between walls",
    )


def crystal_positions(rows: int, columns: int, rise: float = np.sqrt(0.75)) -> FloatArray:
    """Centres (n, 2) in diameters of a hexagonal crystal, rows ``rise`` apart, by row and x."""
    wide = [columns - j % 2 for j in range(rows)]
    x = [0.5 * (1 + j % 2) + np.arange(n) for j, n in enumerate(wide)]
    return np.column_stack([np.concatenate(x), 0.5 + rise * np.repeat(np.arange(rows), wide)])


def random_packing(
    n: Annotated[int, integer(1, 1_000_000)] = 200,
    *,
    dim: Dim = 3,
    radius: Positive = 0.005,
    spread: Spread = 0.2,
    across: Across = 6,
    walls: bool = True,
    density: float = 2000.0,
    restitution: float = 0.0,
    power: Power = 2.0,
    seed: Seed = 0,
) -> Scene:
    """Spheres of random sizes, loose and apart, that fall into a box or onto a floor.

    They start on a lattice wide enough for the largest, each shaken within its cell.

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
    grains = Spheres(centres=lattice.centres, radius=lattice.radii, density=density)
    return Scene(
        [floor(dim), *(walls_at(lattice.sides, dim) if walls else []), grains],
        dim=dim,
        power=power,
        restitution=restitution,
        name="random-packing",
        title="Spheres of random sizes, about to fall",
    )


def polyhedra_pile(
    n: Grains = 30,
    *,
    corners: Annotated[int, integer(6, 64)] = 12,
    radius: Positive = 0.01,
    spread: Spread = 0.2,
    across: Across = 3,
    walls: bool = True,
    density: float = 2500.0,
    materials: Sequence[Material] = (),
    power: Power = 2.0,
    restitution: float = 0.0,
    seed: Seed = 0,
) -> Scene:
    """Random convex polyhedra, turned at random, apart, that fall into a box or onto a floor.

    Each is the convex hull of points on a sphere, its radius R drawn evenly. They start on a
    lattice wide enough for the largest, each shaken within its cell. Bodies are the floor, the
    walls, then the polyhedra by height.

    Parameters
    ----------
    n : number of polyhedra. corners : of each.
    radius, spread : R is drawn evenly from radius × (1 ± spread), m.
    across : cells along each horizontal side.
    walls : upright walls around the lattice; without, the floor alone.
    density : kg/m³. materials : taken in turn by the polyhedra.
    power : exponent of the contact law. restitution : Newton's e.
    seed : of the random numbers; the same seed gives the same scene.
    """
    random = np.random.default_rng(seed)
    lattice = loose(n, 3, radius, spread, across, random)
    shapes = [Polyhedron(size * _on_a_sphere(corners, random)) for size in lattice.radii]
    return Scene(
        _grains(shapes, lattice, walls, density, materials),
        dim=3,
        power=power,
        restitution=restitution,
        materials=materials,
        name="polyhedra-pile",
        title="Polyhedra of random shapes, about to fall",
    )


def polygon_packing(
    n: Grains = 40,
    *,
    corners: Annotated[int, integer(3, 64)] = 6,
    radius: Positive = 0.01,
    spread: Spread = 0.2,
    across: Across = 6,
    walls: bool = True,
    density: float = 2500.0,
    materials: Sequence[Material] = (),
    power: Power = 2.0,
    restitution: float = 0.0,
    seed: Seed = 0,
) -> Scene:
    """Random convex polygons, apart, that fall between two walls or onto a floor, in the plane.

    The corners of each lie on a circle, its radius R drawn evenly. Bodies are the floor, the
    walls, then the polygons by height.

    Parameters
    ----------
    n, corners, radius, spread, across, walls, materials, power, restitution, seed : as in
        ``polyhedra_pile``.
    density : kg/m³, of polygons 1 m deep.
    """
    random = np.random.default_rng(seed)
    lattice = loose(n, 2, radius, spread, across, random)
    shapes = [Polygon(size * _on_a_circle(corners, random)) for size in lattice.radii]
    return Scene(
        _grains(shapes, lattice, walls, density, materials),
        dim=2,
        power=power,
        restitution=restitution,
        materials=materials,
        name="polygon-packing",
        title="Polygons of random shapes, about to fall",
    )


def walls_at(sides: FloatArray, dim: int, material: str = "") -> list[Body]:
    """Walls at the ends (n, 2) of the first n axes, m, facing in; none at an end that is nan."""
    names = (*_SIDES[: dim - 1], _SIDES[2])
    walls = []
    for axis, ends in enumerate(sides):
        for end, inward, name in zip(ends, (1.0, -1.0), names[axis], strict=True):
            if np.isfinite(end):
                normal, place = np.zeros((2, dim))
                normal[axis], place[axis] = inward, end
                walls.append(Body(HalfSpace(normal), place, material=material, name=f"{name} wall"))
    return walls


def _grains(
    shapes: Sequence[Polygon | Polyhedron],
    lattice: Lattice,
    walls: bool,
    density: float,
    materials: Sequence[Material],
) -> list[Body]:
    """The floor, the walls, and bodies whose circles or spheres are about the lattice's centres."""
    names = cycled(materials)
    dim = lattice.centres.shape[1]
    bodies = [floor(dim), *(walls_at(lattice.sides, dim) if walls else [])]
    for k, (shape, centre) in enumerate(zip(shapes, lattice.centres, strict=True)):
        material = names[k % len(names)]
        position = centre + shape.centre
        bodies.append(Body(shape, position, density=density, material=material, name=f"grain {k}"))
    return bodies


class Lattice(NamedTuple):
    """Spheres apart from each other: centres (n, dim) m, radii (n,) m, box ends (dim − 1, 2) m."""

    centres: FloatArray
    radii: FloatArray
    sides: FloatArray


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
