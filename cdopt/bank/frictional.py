"""Scenes with friction: what ``generator.name`` names in manifests of frictional problems.

Each returns the scene; ``pose`` detects its contacts and returns the step, with the friction that
the scene's materials state and all degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated

import numpy as np

from cdopt._util.arguments import guard
from cdopt._util.checks import Finite, NotNegative, Positive, integer, number
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
from cdopt.scene.generators import floor
from cdopt.scene.generators.grains import pyramid_positions
from cdopt.scene.generators.masonry import Count
from cdopt.scene.scene import GRAVITY

DT = 1e-3  # s
Slope = Annotated[float, number(above=0.0, at_most=60.0)]  # degrees
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


def launched_box(
    speed: NotNegative = 6.0, mu: Annotated[float, number(above=0.0, at_most=2.0)] = 0.5
) -> Scene:
    """A box of 1 kg, 0.4 m long and 0.1 m high, that slides on a floor at ``speed`` m/s.

    The friction coefficient is ``mu``.

    The law of Coulomb slows it by μ g Δt. The associated law throws it up at μ times the speed
    that is left, u = speed − μ (μ speed + g Δt)/(1 + μ²).
    """
    box = Body(Box([0.4, 0.1]), [0.0, 0.05], mass=1.0, velocity=[speed, 0.0])
    return Scene([floor(2), box], dim=2, friction=mu, name="launched-box")


def wedge(
    gap: Annotated[float, number(at_least=-_REACH, at_most=0.9 * _REACH)] = 1e-4,
    speed: NotNegative = 1.0,
    angle: Slope = 20.0,
    mu: Positive = 0.5,
) -> Scene:
    """A wedge of 1 kg that moves down at ``speed`` (m/s) between two fixed walls.

    Its flanks and the walls stand at ``angle`` (degrees) from the upright, nearer than the friction
    angle, and ``gap`` (m) apart: above 0 the wedge is stopped; at 0 its forces have an unbounded
    direction, one wall against the other; below 0 the associated law has no solution. ``mu`` is the
    friction coefficient.
    """
    half = np.radians(angle)
    wide = 0.1 * float(np.tan(half))
    stone = Polygon([[0.0, 0.0], [wide, 0.1], [-wide, 0.1]])
    normals = np.array([[np.cos(half), np.sin(half)], [-np.cos(half), np.sin(half)]])
    walls = [Body(HalfSpace(normal), -gap * normal) for normal in normals]
    body = Body(stone, stone.centre, mass=1.0, velocity=[0.0, -speed])
    return Scene([*walls, body], dim=2, friction=mu, name="wedge", overlap_tol=1.0)


def painleve_rod(
    angle: Slope = 30.0, mu: Positive = 3.0, lift: Finite = 0.1, slide: NotNegative = 10.0
) -> Scene:
    """Painlevé's rod: 1 kg and 2 m, its lower end slides on a floor of friction ``mu``.

    It stands at ``angle`` (degrees) from the floor. After free motion its end would leave the floor
    at ``lift`` m/s and slide at ``slide`` m/s, backwards. With the default numbers the law of
    Coulomb has three solutions: the end flies, slides or sticks.
    """
    turn = np.radians(angle)
    thin = 4e-3
    middle = float(np.sin(turn) + 0.5 * thin * np.cos(turn))
    velocity = [-slide, lift + GRAVITY * DT]
    rod = Body(Box([2.0, thin]), [0.0, middle], angle=float(turn), mass=1.0, velocity=velocity)
    return Scene([floor(2), rod], dim=2, friction=mu, name="painleve-rod")


def rough_wall(courses: Count = 5, bricks: Count = 4, mu: Positive = 0.6) -> Scene:
    """``cdopt.scene.brick_wall`` of ``courses`` and ``bricks`` at rest, all joints with ``mu``."""
    return brick_wall(courses, bricks).with_friction(mu)


def rough_arch(voussoirs: Count = 9, mu: Positive = 0.6) -> Scene:
    """``cdopt.scene.arch`` of ``voussoirs`` at rest, with friction ``mu`` in all joints."""
    return arch(voussoirs).with_friction(mu)


def rough_pile(n: Annotated[int, integer(2, 150)] = 4, mu: Positive = 0.5) -> Scene:
    """A cannonball pyramid at rest, of spheres with friction ``mu``, ``n`` along the base."""
    centres, layers = pyramid_positions(n)
    pile = Spheres(centres=centres, radius=0.5, mass=1.0, fixed=layers == 0)
    return Scene([pile], dim=3, friction=mu, gravity=[0.0, 0.0, -1.0], name="rough-pile")


FRICTIONAL: Mapping[str, Callable[..., Scene]] = MappingProxyType({
    function.__name__: function
    for function in (
        incline, ladder, launched_box, painleve_rod, rough_arch, rough_pile, rough_wall, wedge,
    )
})  # fmt: skip

__all__ = ["FRICTIONAL", "pose", *FRICTIONAL]

guard(globals())
FRICTIONAL = MappingProxyType({name: globals()[name] for name in FRICTIONAL})
