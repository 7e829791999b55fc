"""The scenes of De Klerk et al. (2021), section 3, in the units in which their code runs.

Two half-contacts act in series: a half-stiffness of 2k on spheres and walls alike gives every pair
and every wall the stiffness k.
"""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere

from .parameters import BOX, BOX_SIDE, PAPER, SPEED, WALL_DISTANCE, Grain
from .references import box_start

_OVERLAP = 0.02  # that the box starts with, in radii: its grains are still in contact


def impact(
    gamma: float = 0.0, offset: float = 0.0, gap: float = 0.0, grain: Grain = PAPER
) -> Scene:
    """Two spheres on their way along x, at v = 1 each, without gravity.

    Parameters
    ----------
    gamma : γ_n, 1/s.
    offset : Δy/d, of the two lines of motion, from centre to centre.
    gap : way of each sphere to first touch, m; with 0 they touch at t = 0.
    grain : mass, diameter and stiffness.

    Raises
    ------
    InvalidInput : a number out of range.

    Notes
    -----
    Section 3.1. The authors' scripts put the centres at y = ∓Δy, twice this offset.
    """
    across = checks.scalar("offset", offset, at_least=0.0, at_most=0.99) * grain.diameter
    along = np.sqrt(grain.diameter**2 - across**2)
    side = 0.5 * along + checks.scalar("gap", gap, at_least=0.0)
    spheres = [
        _sphere(grain, [-way * side, -0.5 * way * across, 0.0], [way * SPEED, 0.0, 0.0], name)
        for way, name in ((1.0, "left"), (-1.0, "right"))
    ]
    return _scene(spheres, grain, gamma, name="impact", title="Two spheres collide")


def walls(speed: float = SPEED, grain: Grain = PAPER) -> Scene:
    """A sphere that flies to and fro between two walls 1.01 d apart, undamped.

    ``speed`` in m/s, at first along x, from the middle.

    Raises
    ------
    InvalidInput : a number out of range.

    Notes
    -----
    Section 3.2.
    """
    fast = checks.scalar("speed", speed, above=0.0)
    half = 0.5 * WALL_DISTANCE * grain.diameter
    return _scene(
        [
            _wall([-half, 0.0, 0.0], [1.0, 0.0, 0.0], "left"),
            _wall([half, 0.0, 0.0], [-1.0, 0.0, 0.0], "right"),
            _sphere(grain, [0.0, 0.0, 0.0], [fast, 0.0, 0.0], "sphere"),
        ],
        grain, name="walls", title="A sphere between two walls",
    )  # fmt: skip


def bonded(
    ratio: float = 10.0, offset: float = 0.0, gap: float = 0.01, grain: Grain = PAPER
) -> Scene:
    """Two bonded spheres in a row, hit by a third, all at v = 1, undamped.

    The middle sphere is 0, 1 is bonded behind it, and 2 comes from the other side.

    Parameters
    ----------
    ratio : k_B / k.
    offset : Δy/d of the third sphere, from centre to centre; 0 is collinear.
    gap : way of each to first touch, m; more than d/200, or the third is bonded as well.
    grain : mass, diameter and stiffness.

    Raises
    ------
    InvalidInput : a number out of range.

    Notes
    -----
    Section 3.3. The authors' scripts put the centres at y = ∓Δy, twice this offset.
    """
    stiff = checks.scalar("ratio", ratio, above=0.0) * grain.stiffness
    pair = impact(0.0, offset, gap, grain)
    hit, third = pair.initial.position
    behind = hit - [grain.diameter, 0.0, 0.0]
    places = ((hit, SPEED, "hit"), (behind, SPEED, "bonded"), (third, -SPEED, "third"))
    spheres = [_sphere(grain, place.tolist(), [way, 0.0, 0.0], name) for place, way, name in places]
    scene = _scene(
        spheres, grain, bond=stiff, name="bonded-pair", title="A bonded pair hit by a third sphere"
    )
    if scene.bonds.tolist() != [[0, 1]]:
        raise InvalidInput("gap", f"{gap:g} m, and bonds {scene.bonds.tolist()}", "more than d/200")
    return scene


def box(tangential: bool = True, grain: Grain = BOX) -> Scene:
    """218 spheres that fall into a box of 6 d × 6 d, open above; m = d = g = 1.

    Parameters
    ----------
    tangential : with γ_t = γ_n/2, or without tangential damping, from a start without spins.
    grain : mass, diameter, stiffness, gravity and γ_n.

    Notes
    -----
    Section 3.4. The start is that of a LAMMPS run, whose contacts overlap by up to 0.5 %.
    """
    x, v, w = box_start(tangential)
    side = BOX_SIDE * grain.diameter
    around = [
        _wall([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], "floor"),
        _wall([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], "x low"),
        _wall([side, 0.0, 0.0], [-1.0, 0.0, 0.0], "x high"),
        _wall([0.0, 0.0, 0.0], [0.0, 1.0, 0.0], "y low"),
        _wall([0.0, side, 0.0], [0.0, -1.0, 0.0], "y high"),
    ]
    spheres = [
        _sphere(grain, place, speed, "", spin)
        for place, speed, spin in zip(x.tolist(), v.tolist(), w.tolist(), strict=True)
    ]
    return _scene(
        [*around, *spheres], grain, grain.damping, gamma_t=None if tangential else 0.0,
        overlap_tol=_OVERLAP, name="box", title=f"{len(spheres)} spheres fill a box",
    )  # fmt: skip


def _sphere(
    grain: Grain, place: list[float], velocity: list[float], name: str,
    spin: list[float] | None = None,
) -> Body:  # fmt: skip
    return Body(
        Sphere(grain.radius), place, velocity=velocity, angular_velocity=spin, mass=grain.mass,
        material="grain", name=name,
    )  # fmt: skip


def _wall(place: list[float], normal: list[float], name: str) -> Body:
    return Body(HalfSpace(normal), place, material="grain", name=name)


def _scene(
    bodies: list[Body], grain: Grain, gamma: float = 0.0, *, gamma_t: float | None = None,
    bond: float | None = None, overlap_tol: float = 1e-6, name: str, title: str,
) -> Scene:  # fmt: skip
    return Scene(
        bodies,
        dim=3,
        gravity=[0.0, 0.0, -grain.gravity],
        materials=[Material(name="grain", stiffness=2.0 * grain.stiffness)],
        damping=gamma,
        tangential_damping=gamma_t,
        bond_stiffness=bond,
        overlap_tol=overlap_tol,
        name=name,
        title=title,
    )
