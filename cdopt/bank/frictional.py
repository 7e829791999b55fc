"""Scenes with friction: what ``generator.name`` names in manifests of frictional problems.

Each returns the scene; ``pose`` detects its contacts and returns the step, with the friction that
the scene's materials state and all degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.arguments import guard
from cdopt._util.checks import whole
from cdopt.collision import detect
from cdopt.collision import step as contact_step
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import (
    Body,
    Box,
    HalfSpace,
    Polygon,
    Scene,
    Spheres,
    arch,
    brick_wall,
    incline,
    ladder,
)
from cdopt.scene.generators.paper import pyramid_positions
from cdopt.scene.generators.primitives import floor
from cdopt.scene.scene import GRAVITY

DT = 1e-3  # s
_REACH = 1e-3  # gap up to which a contact is detected, m
_ROUND_OFF = 1e-9  # gaps of bodies that were placed to touch, m


def pose(scene: Scene, reach: float = _REACH) -> ContactStep:
    """The step with friction of a scene as it stands, of contacts with gaps up to ``reach`` m.

    Raises
    ------
    InvalidInput : a contact whose friction the scene does not state.
    """
    contacts = detect(scene, scene.initial, reach)
    step = contact_step(scene, scene.initial, contacts, DT, overlaps="resolve", friction=True)
    return step.replace(phi=np.where(np.abs(contacts.phi) < _ROUND_OFF, 0.0, contacts.phi))


def launched_box(speed: float = 6.0, mu: float = 0.5) -> Scene:
    """A box of 1 kg, 0.4 m long and 0.1 m high, that slides on a floor at ``speed`` m/s.

    The friction coefficient is ``mu``.

    The law of Coulomb slows it by μ g Δt. The associated law throws it up at μ times the speed
    that is left, u = speed − μ (μ speed + g Δt)/(1 + μ²).

    Raises
    ------
    InvalidInput : a number out of range.
    """
    fast = checks.scalar("speed", speed, at_least=0.0)
    box = Body(Box([0.4, 0.1]), [0.0, 0.05], mass=1.0, velocity=[fast, 0.0])
    rough = checks.scalar("mu", mu, above=0.0, at_most=2.0)
    return _scene([floor(2), box], 2, rough, "launched-box")


def wedge(gap: float = 1e-4, speed: float = 1.0, angle: float = 20.0, mu: float = 0.5) -> Scene:
    """A wedge of 1 kg that moves down at ``speed`` (m/s) between two fixed walls.

    Its flanks and the walls stand at ``angle`` (degrees) from the upright, nearer than the friction
    angle, and ``gap`` (m) apart: above 0 the wedge is stopped; at 0 its forces have an unbounded
    direction, one wall against the other; below 0 the associated law has no solution. ``mu`` is the
    friction coefficient.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    half = np.radians(checks.scalar("angle", angle, above=0.0, at_most=60.0))
    apart = checks.scalar("gap", gap, at_least=-_REACH, at_most=0.9 * _REACH)
    wide = 0.1 * float(np.tan(half))
    stone = Polygon([[0.0, 0.0], [wide, 0.1], [-wide, 0.1]])
    normals = np.array([[np.cos(half), np.sin(half)], [-np.cos(half), np.sin(half)]])
    walls = [Body(HalfSpace(normal), -apart * normal) for normal in normals]
    down = [0.0, -checks.scalar("speed", speed, at_least=0.0)]
    body = Body(stone, stone.centre, mass=1.0, velocity=down)
    rough = checks.scalar("mu", mu, above=0.0)
    return _scene([*walls, body], 2, rough, "wedge", overlap_tol=1.0)


def painleve_rod(
    angle: float = 30.0, mu: float = 3.0, lift: float = 0.1, slide: float = 10.0
) -> Scene:
    """Painlevé's rod: 1 kg and 2 m, its lower end slides on a floor of friction ``mu``.

    It stands at ``angle`` (degrees) from the floor. After free motion its end would leave the floor
    at ``lift`` m/s and slide at ``slide`` m/s, backwards. With the default numbers the law of
    Coulomb has three solutions: the end flies, slides or sticks.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    turn = np.radians(checks.scalar("angle", angle, above=0.0, at_most=60.0))
    thin = 4e-3
    middle = float(np.sin(turn) + 0.5 * thin * np.cos(turn))
    up = checks.scalar("lift", lift) + GRAVITY * DT
    velocity = [-checks.scalar("slide", slide, at_least=0.0), up]
    rod = Body(Box([2.0, thin]), [0.0, middle], angle=float(turn), mass=1.0, velocity=velocity)
    return _scene([floor(2), rod], 2, checks.scalar("mu", mu, above=0.0), "painleve-rod")


def rough_wall(courses: int = 5, bricks: int = 4, mu: float = 0.6) -> Scene:
    """``cdopt.scene.brick_wall`` of ``courses`` and ``bricks`` at rest, all joints with ``mu``.

    Raises
    ------
    InvalidInput : as in ``brick_wall``, or μ not positive.
    """
    return brick_wall(courses, bricks).with_friction(checks.scalar("mu", mu, above=0.0))


def rough_arch(voussoirs: int = 9, mu: float = 0.6) -> Scene:
    """``cdopt.scene.arch`` of ``voussoirs`` at rest, with friction ``mu`` in all joints.

    Raises
    ------
    InvalidInput : as in ``arch``, or μ not positive.
    """
    return arch(voussoirs).with_friction(checks.scalar("mu", mu, above=0.0))


def rough_pile(n: int = 4, mu: float = 0.5) -> Scene:
    """A cannonball pyramid at rest, of spheres with friction ``mu``, ``n`` along the base.

    Raises
    ------
    InvalidInput : n is not an integer from 2 to 150, or μ not positive.
    """
    centres, layers = pyramid_positions(whole("n", n, 2, 150))
    pile = Spheres(centres=centres, radius=0.5, mass=1.0, fixed=layers == 0)
    rough = checks.scalar("mu", mu, above=0.0)
    return _scene([pile], 3, rough, "rough-pile", gravity=[0.0, 0.0, -1.0])


def _scene(
    bodies: Sequence[Body | Spheres], dim: int, mu: float, name: str, **fields: Any
) -> Scene:
    """A scene whose contacts all have the same friction."""
    return Scene(bodies, dim=dim, friction=mu, name=name, **fields)


FRICTIONAL: Mapping[str, Callable[..., Scene]] = MappingProxyType({
    function.__name__: function
    for function in (
        incline, ladder, launched_box, painleve_rod, rough_arch, rough_pile, rough_wall, wedge,
    )
})  # fmt: skip

__all__ = ["FRICTIONAL", "pose", *FRICTIONAL]

guard(globals())
