"""Boxes of few discs, small enough to work out by hand."""

from __future__ import annotations

import numpy as np
from loading.samples import box_walls

from cdopt.scene import Body, HalfSpace, Material, Scene, Spheres

RADIUS = 0.1  # m
HALF = 2e4  # N/m, of a disc's side of a contact: against a wall HALF, between two HALF / 2


def box(centres, width, height, *, radius=RADIUS, power=2.0, gravity=0.0, half=HALF) -> Scene:
    """Discs between floor, left, right and top, bodies 0 to 3."""
    grain = Material(name="grain", stiffness=half)
    return Scene(
        [*box_walls(width, height), Spheres(centres, radius, density=1000.0, material="grain")],
        dim=2,
        gravity=[0.0, -gravity],
        power=power,
        materials=[grain],
    )


def lattice(rows: int, columns: int, **options) -> Scene:
    """A square lattice that touches all four walls."""
    d = 2.0 * RADIUS
    x, y = np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)
    centres = d * np.column_stack([x.ravel(), y.ravel()])
    return box(centres, columns * d, rows * d, **options)


def series(count: int) -> float:
    """Compliance of a row of discs between two walls, m/N."""
    return 2.0 / HALF + (count - 1) / (HALF / 2.0)


def cube(half=HALF, power=2.0) -> Scene:
    """One sphere that touches six walls; the last three are left to move."""
    grain = Material(name="grain", stiffness=half)
    axes = np.eye(3)
    low = [
        Body(HalfSpace(n), [0.0, 0.0, 0.0], name=f"low {a}")
        for n, a in zip(axes, "xyz", strict=True)
    ]
    high = [
        Body(HalfSpace(-n), 0.2 * n, name=f"high {a}") for n, a in zip(axes, "xyz", strict=True)
    ]
    ball = Spheres([[0.1, 0.1, 0.1]], RADIUS, density=1000.0, material="grain")
    return Scene([*low, *high, ball], dim=3, gravity=[0, 0, 0], power=power, materials=[grain])
