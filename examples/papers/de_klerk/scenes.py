"""The scenes of De Klerk et al. (2021), section 3, in the units in which their code runs.

Two half-contacts act in series: a half-stiffness of 2k on spheres and walls alike gives every pair
and every wall the stiffness k. The authors' scripts put centres at y = ∓Δy, twice the offset used
here, which counts from centre to centre.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt import InvalidInput
from cdopt._util import checks
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere

from .parameters import BOX, BOX_SIDE, PAPER, SPEED, WALL_DISTANCE, Grain
from .references import stored

OVERLAP = 0.02  # that the box starts with, in radii: its spheres are still in contact


def impact(
    gamma: float = 0.0, offset: float = 0.0, gap: float = 0.0, grain: Grain = PAPER
) -> Scene:
    """Two spheres on their way along x, at v = 1 each, without gravity; section 3.1.

    Parameters
    ----------
    gamma : γ_n, 1/s.
    offset : Δy/d, of the two lines of motion, from centre to centre.
    gap : way of each sphere to first touch, m; with 0 they touch at t = 0.
    grain : mass, diameter and stiffness.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    across = checks.scalar("offset", offset, at_least=0.0, at_most=0.99) * grain.diameter
    along = np.sqrt(grain.diameter**2 - across**2)
    side = 0.5 * along + checks.scalar("gap", gap, at_least=0.0)
    spheres = [
        _sphere(grain, [-way * side, -0.5 * way * across, 0.0], [way * SPEED, 0.0, 0.0], name)
        for way, name in ((1.0, "left"), (-1.0, "right"))
    ]
    return _scene(spheres, grain, damping=gamma, name="impact", title="Two spheres collide")


def walls() -> Scene:
    """A sphere between two walls 1.01 d apart, undamped; section 3.2."""
    half = 0.5 * WALL_DISTANCE * PAPER.diameter
    bodies = [
        _wall([-half, 0.0, 0.0], [1.0, 0.0, 0.0], "left"),
        _wall([half, 0.0, 0.0], [-1.0, 0.0, 0.0], "right"),
        _sphere(PAPER, [0.0, 0.0, 0.0], [SPEED, 0.0, 0.0], "sphere"),
    ]
    return _scene(bodies, PAPER, name="walls", title="A sphere between two walls")


def bonded(ratio: float = 10.0, offset: float = 0.0, gap: float = 0.01) -> Scene:
    """Two bonded spheres in a row, hit by a third, all at v = 1, undamped; section 3.3.

    The middle sphere is 0, 1 is bonded behind it, and 2 comes from the other side.

    Parameters
    ----------
    ratio : k_B / k.
    offset : Δy/d of the third sphere, from centre to centre; 0 is collinear.
    gap : way of each to first touch, m; more than d/200, or the third is bonded as well.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    stiff = checks.scalar("ratio", ratio, above=0.0) * PAPER.stiffness
    hit, third = impact(0.0, offset, gap).initial.position
    behind = hit - [PAPER.diameter, 0.0, 0.0]
    spheres = [
        _sphere(PAPER, hit, [SPEED, 0.0, 0.0], "hit"),
        _sphere(PAPER, behind, [SPEED, 0.0, 0.0], "bonded"),
        _sphere(PAPER, third, [-SPEED, 0.0, 0.0], "third"),
    ]
    title = "A bonded pair hit by a third sphere"
    scene = _scene(spheres, PAPER, bond_stiffness=stiff, name="bonded-pair", title=title)
    if scene.bonds.tolist() != [[0, 1]]:
        raise InvalidInput("gap", f"{gap:g} m, and bonds {scene.bonds.tolist()}", "more than d/200")
    return scene


def box(tangential: bool = True) -> Scene:
    """218 spheres that fall into a box of 6 d × 6 d, open above; m = d = g = 1; section 3.4.

    The start is that of a LAMMPS run, whose contacts overlap by up to 0.5 %.

    Parameters
    ----------
    tangential : with γ_t = γ_n/2, or without tangential damping, from a start without spins.
    """
    series, name = stored("box"), "ic" if tangential else "ic0"
    around = [
        _wall([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], "floor"),
        _wall([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], "x low"),
        _wall([BOX_SIDE, 0.0, 0.0], [-1.0, 0.0, 0.0], "x high"),
        _wall([0.0, 0.0, 0.0], [0.0, 1.0, 0.0], "y low"),
        _wall([0.0, BOX_SIDE, 0.0], [0.0, -1.0, 0.0], "y high"),
    ]
    start = (series[f"{name}_{letter}"] for letter in "xvw")
    spheres = [_sphere(BOX, x, v, "", w) for x, v, w in zip(*start, strict=True)]
    return _scene(
        [*around, *spheres],
        BOX,
        damping=BOX.damping,
        tangential_damping=None if tangential else 0.0,
        overlap_tol=OVERLAP,
        name="box",
        title=f"{len(spheres):,} spheres fill a box",
    )


def silo(columns: int = 10, rows: int = 9) -> Scene:
    """Discs in a plane silo with an outlet of 3.4 d, above a floor; d = g = 1, no friction."""
    random = np.random.default_rng(0)
    slope, half, deep = np.deg2rad(35.0), 0.55 * columns, 0.5
    long = (half - 1.7) / np.cos(slope)
    bodies = []
    for side in (-1.0, 1.0):
        normal = np.array([-side * np.sin(slope), np.cos(slope)])
        middle = np.array([side * 0.5 * (half + 1.7), 0.5 * long * np.sin(slope)])
        plate = {"angle": side * slope, "fixed": True, "material": "grain"}
        bodies.append(Body(Box([long, deep]), middle - 0.5 * deep * normal, **plate))
        tall = 1.2 * rows
        upright = [side * (half + 0.5 * deep), long * np.sin(slope) + 0.5 * tall]
        bodies.append(Body(Box([deep, tall]), upright, fixed=True, material="grain"))
    bodies.append(Body(HalfSpace([0.0, 1.0]), [0.0, -5.0], material="grain"))
    lift = long * np.sin(slope) + 0.6
    for row in range(rows):
        for column in range(columns - 1):
            x = column - 0.5 * (columns - 2) + random.uniform(-0.02, 0.02)
            shape = Sphere(float(random.uniform(0.42, 0.48)))
            bodies.append(Body(shape, [1.02 * x, lift + row], mass=1.0, material="grain"))
    material = Material(name="grain", stiffness=1.0)
    return Scene(bodies, dim=2, gravity=[0.0, -1.0], materials=[material], name="silo")


def _sphere(grain: Grain, place: Any, velocity: Any, name: str, spin: Any = None) -> Body:
    shape, fields = Sphere(0.5 * grain.diameter), {"mass": grain.mass, "material": "grain"}
    return Body(shape, place, velocity=velocity, angular_velocity=spin, name=name, **fields)


def _wall(place: list[float], normal: list[float], name: str) -> Body:
    return Body(HalfSpace(normal), place, material="grain", name=name)


def _scene(bodies: list[Body], grain: Grain, **options: Any) -> Scene:
    material = Material(name="grain", stiffness=2.0 * grain.stiffness)
    gravity = [0.0, 0.0, -grain.gravity]
    return Scene(bodies, dim=3, gravity=gravity, materials=[material], **options)
