"""Samples to load: loose discs in a box, and a pile of discs on a fixed row."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import whole
from cdopt.scene import Body, HalfSpace, Material, Scene, Spheres

MOST = 10**6
_LOOSE = 1.025  # of the largest disc: half a cell of the lattice they start on


def disc_box(
    n: int = 60,
    *,
    radius: float = 0.01,
    spread: float = 0.3,
    stiffness: float = 1e6,
    density: float = 2000.0,
    power: checks.Power = 2.0,
    seed: int = 0,
) -> Scene:
    """Discs of random sizes, loose and apart, between four walls, without gravity.

    Walls are floor, left, right and top, bodies 0 to 3. Discs start on a square lattice wide
    enough for the largest, shaken within their cells.

    Parameters
    ----------
    n : number of discs. radius, spread : radii are drawn evenly from radius × (1 ± spread), m.
    stiffness : of a disc's side of a contact, N/m for Hooke contacts: two in series have half,
        one against a wall all of it. Pa for Hertz contacts, as in ``Material``.
    density : kg/m³, of discs 1 m deep. power : p of the contact law.
    seed : of the random numbers; the same seed gives the same scene.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    count = whole("n", n, 1, MOST)
    share = checks.scalar("spread", spread, at_least=0.0, at_most=0.95)
    mean = checks.scalar("radius", radius, above=0.0)
    random = np.random.default_rng(whole("seed", seed, 0, MOST))
    radii = mean * (1.0 + share * random.uniform(-1.0, 1.0, count))
    cell = 2.0 * _LOOSE * mean * (1.0 + share)
    side = int(np.ceil(np.sqrt(count)))
    k = np.arange(count)
    centres = (np.column_stack([k % side, k // side]) + 0.5) * cell
    centres += random.uniform(-1.0, 1.0, centres.shape) * 0.9 * (0.5 * cell - radii)[:, None]
    grain = Material(name="grain", stiffness=stiffness)
    return Scene(
        [
            *box_walls(side * cell, (1 + (count - 1) // side) * cell),
            Spheres(centres, radii, density=density, material="grain"),
        ],
        dim=2,
        gravity=[0.0, 0.0],
        power=power,
        materials=[grain],
        name="disc-box",
        title="Discs of random sizes between four walls",
    )


def disc_pile(
    rows: int = 3,
    *,
    diameter: float = 0.02,
    stiffness: float = 1e6,
    density: float = 2000.0,
    power: checks.Power = 2.0,
) -> Scene:
    """A pile of equal discs in the plane, one less in each row, on a fixed row.

    Bodies are numbered by row from below, then by x: the last one is the top.

    Parameters
    ----------
    rows : the fixed one included; as many discs lie in it.
    diameter : m. stiffness, density, power : as in ``disc_box``.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    base = whole("rows", rows, 2, MOST)
    d = checks.scalar("diameter", diameter, above=0.0)
    row = np.repeat(np.arange(base), base - np.arange(base))
    column = np.concatenate([np.arange(base - j) for j in range(base)])
    centres = d * np.column_stack([column + 0.5 * row, np.sqrt(0.75) * row])
    grain = Material(name="grain", stiffness=stiffness)
    discs = Spheres(centres, 0.5 * d, fixed=row == 0, density=density, material="grain")
    title = "A pile of discs on a fixed row"
    return Scene([discs], dim=2, power=power, materials=[grain], name="disc-pile", title=title)


def box_walls(width: float, height: float) -> list[Body]:
    """Floor, left, right and top of a box from the origin, facing in; sizes in m."""
    return [
        Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], name="floor"),
        Body(HalfSpace([1.0, 0.0]), [0.0, 0.0], name="left"),
        Body(HalfSpace([-1.0, 0.0]), [width, 0.0], name="right"),
        Body(HalfSpace([0.0, -1.0]), [0.0, height], name="top"),
    ]
