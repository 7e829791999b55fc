"""Angular grains, loose and apart, that fall into a box: polyhedra, in the plane polygons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from cdopt._util import checks
from cdopt._util.checks import FloatArray, Power
from cdopt._util.parameters import whole
from cdopt.scene.bodies import Body
from cdopt.scene.generators.few import floor
from cdopt.scene.generators.masonry import cycled
from cdopt.scene.generators.packings import walls_at
from cdopt.scene.material import Material
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import Polygon, Polyhedron

_UNEVEN = 0.35  # by how much corners stray, of their distance from each other


def polyhedra_pile(
    n: int = 30, *, corners: int = 12, radius: float = 0.01, spread: float = 0.2, across: int = 3,
    walls: bool = True, density: float = 2500.0, materials: Sequence[Material] = (),
    power: Power = 2.0, restitution: float = 0.0, seed: int = 0,
) -> Scene:  # fmt: skip
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

    Raises
    ------
    InvalidInput : n is not an integer from 1 to 10,000, corners not one from 6 to 64, or another
        number out of range.
    """
    many = whole("corners", corners, 6, 64)
    random = np.random.default_rng(whole("seed", seed, 0, 2**32 - 1))
    centres, radii, fence = _loose(whole("n", n, 1, 10_000), 3, radius, spread, across, random)
    shapes = [Polyhedron(size * _on_a_sphere(many, random)) for size in radii]
    grains = _grains(shapes, centres, density, materials)
    return Scene(
        [floor(3), *(walls_at(fence) if walls else []), *grains],
        dim=3,
        power=power,
        restitution=restitution,
        materials=materials,
        name="polyhedra-pile",
        title="Polyhedra of random shapes, about to fall",
    )


def polygon_packing(
    n: int = 40, *, corners: int = 6, radius: float = 0.01, spread: float = 0.2, across: int = 6,
    walls: bool = True, density: float = 2500.0, materials: Sequence[Material] = (),
    power: Power = 2.0, restitution: float = 0.0, seed: int = 0,
) -> Scene:  # fmt: skip
    """Random convex polygons, apart, that fall between two walls or onto a floor, in the plane.

    The corners of each lie on a circle, its radius R drawn evenly. Bodies are the floor, the
    walls, then the polygons by height.

    Parameters
    ----------
    n : number of polygons. corners : of each.
    radius, spread : R is drawn evenly from radius × (1 ± spread), m.
    across : cells from wall to wall.
    walls : upright walls beside the lattice; without, the floor alone.
    density : kg/m³, of polygons 1 m deep. materials : taken in turn by the polygons.
    power : exponent of the contact law. restitution : Newton's e.
    seed : of the random numbers; the same seed gives the same scene.

    Raises
    ------
    InvalidInput : n is not an integer from 1 to 10,000, corners not one from 3 to 64, or another
        number out of range.
    """
    many = whole("corners", corners, 3, 64)
    random = np.random.default_rng(whole("seed", seed, 0, 2**32 - 1))
    centres, radii, fence = _loose(whole("n", n, 1, 10_000), 2, radius, spread, across, random)
    shapes = [Polygon(size * _on_a_circle(many, random)) for size in radii]
    grains = _grains(shapes, centres, density, materials)
    return Scene(
        [floor(2), *(walls_at(fence) if walls else []), *grains],
        dim=2,
        power=power,
        restitution=restitution,
        materials=materials,
        name="polygon-packing",
        title="Polygons of random shapes, about to fall",
    )


def _grains(
    shapes: Sequence[Polygon | Polyhedron], centres: FloatArray, density: float,
    materials: Sequence[Material],
) -> list[Body]:  # fmt: skip
    """Bodies whose circles or spheres are about the centres of the lattice."""
    names = cycled(materials)
    return [
        Body(shape, centre + shape.centre, density=density, material=names[k % len(names)],
             name=f"grain {k}")
        for k, (shape, centre) in enumerate(zip(shapes, centres, strict=True))
    ]  # fmt: skip


def _loose(
    count: int, dim: int, radius: float, spread: float, across: int, random: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centres (n, dim) and radii (n,) of spheres apart, and the ends (dim − 1, 2) of the box, m."""
    side = whole("across", across, 1, 1000)
    share = checks.scalar("spread", spread, at_least=0.0, at_most=0.95)
    mean = checks.scalar("radius", radius, above=0.0)
    radii = np.asarray(mean * (1.0 + share * random.uniform(-1.0, 1.0, count)))
    cell = 2.2 * mean * (1.0 + share)
    k = np.arange(count)
    level = [k % side, k // side] if dim == 2 else [k % side, k // side % side, k // side**2]
    centres = (np.column_stack(level) + 0.5) * cell
    centres += random.uniform(-0.99, 0.99, centres.shape) * (0.5 * cell - radii)[:, None]
    return np.asarray(centres), radii, np.tile([0.0, side * cell], (dim - 1, 1))


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
