"""Many bodies: crystals of discs, and random packings that are yet to settle."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import Dim, FloatArray, Power
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import whole
from cdopt.scene.bodies import Body, Spheres
from cdopt.scene.generators.few import floor
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import HalfSpace


def crystal(
    rows: int = 8, columns: int = 10, *, diameter: float = 0.01, separation: float = 0.0,
    density: float = 2000.0, power: Power = 2.0, restitution: float = 0.0,
) -> Scene:  # fmt: skip
    """A hexagonal crystal of discs on a floor between two walls, in the plane.

    Rows of ``columns`` discs, which reach both walls, alternate with rows of one disc less.
    Bodies are floor, left and right wall, then the discs by row and x.

    Parameters
    ----------
    diameter : m. density : kg/m³, of discs 1 m deep.
    separation : lift of row j, in radii per row; 0 touches everywhere.
    power, restitution : of the scene.

    Raises
    ------
    InvalidInput : rows is not an integer from 1 to 1000, columns not one from 2 to 1000, or a
        number out of range.
    """
    height, width = whole("rows", rows, 1, 1000), whole("columns", columns, 2, 1000)
    d = checks.scalar("diameter", diameter, above=0.0)
    rise = np.sqrt(0.75) + 0.5 * checks.scalar("separation", separation, at_least=0.0)
    centres = np.concatenate([
        np.column_stack([
            0.5 * (1 + j % 2) + np.arange(width - j % 2),
            np.full(width - j % 2, 0.5 + j * rise),
        ])
        for j in range(height)
    ])  # fmt: skip
    return Scene(
        [floor(2), *walls_at(np.array([[0.0, width * d]])),
         Spheres(centres=centres * d, radius=0.5 * d, density=density)],
        dim=2,
        power=power,
        restitution=restitution,
        name="crystal",
        title="A crystal of discs between walls",
    )  # fmt: skip


def random_packing(
    n: int = 200, *, dim: Dim = 3, radius: float = 0.005, spread: float = 0.2, across: int = 6,
    walls: bool = True, density: float = 2000.0, restitution: float = 0.0, power: Power = 2.0,
    seed: int = 0,
) -> Scene:  # fmt: skip
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

    Raises
    ------
    InvalidInput : a number out of range.
    """
    count, side = whole("n", n, 1, 1_000_000), whole("across", across, 1, 10_000)
    if dim not in (2, 3):
        raise InvalidInput("dim", checks.describe(dim), "2 or 3")
    share = checks.scalar("spread", spread, at_least=0.0, at_most=0.95)
    mean = checks.scalar("radius", radius, above=0.0)
    random = np.random.default_rng(whole("seed", seed, 0, 2**32 - 1))
    radii = mean * (1.0 + share * random.uniform(-1.0, 1.0, count))
    cell = 2.2 * mean * (1.0 + share)
    k = np.arange(count)
    level = [k % side, k // side] if dim == 2 else [k % side, k // side % side, k // side**2]
    room = 0.5 * cell - radii
    centres = (np.column_stack(level) + 0.5) * cell
    centres += random.uniform(-0.99, 0.99, centres.shape) * room[:, None]
    sides = np.tile([0.0, side * cell], (dim - 1, 1))
    return Scene(
        [floor(dim), *(walls_at(sides) if walls else []),
         Spheres(centres=centres, radius=radii, density=density)],
        dim=dim,
        power=power,
        restitution=restitution,
        name="random-packing",
        title="Spheres of random sizes, about to fall",
    )  # fmt: skip


def walls_at(sides: FloatArray) -> list[Body]:
    """Upright walls at the ends (dim − 1, 2) of every horizontal axis, facing in."""
    dim = sides.shape[0] + 1
    names = (("left", "right"), ("front", "back"))
    walls = []
    for axis, ends in enumerate(sides):
        for place, inward, name in zip(ends, (1.0, -1.0), names[axis], strict=True):
            normal = np.zeros(dim)
            normal[axis] = inward
            walls.append(Body(HalfSpace(normal), np.abs(normal) * place, name=f"{name} wall"))
    return walls
