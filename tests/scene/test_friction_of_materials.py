"""Friction coefficients of materials, of pairs of materials and of the scene."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.scene import Body, Box, HalfSpace, Material, MaterialPair, Scene

MATERIALS = (Material(name="ice", friction=0.02), Material(name="rubber", friction=0.9))


def floor_with(material: str, friction: float | None = None, pairs: tuple = ()) -> Scene:
    """A box of rubber on a floor of this material, "" for none."""
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material=material)
    box = Body(Box([1.0, 1.0]), [0.0, 0.5], mass=1.0, material="rubber")
    materials = [*MATERIALS, Material(name="steel")]
    return Scene([floor, box], dim=2, materials=materials, friction=friction, pairs=pairs)


@pytest.mark.parametrize(
    ("material", "scene_friction", "pairs", "expected"),
    [
        ("ice", None, (), 0.02),  # the smaller of two
        ("steel", 0.5, (), 0.5),  # the scene's, where a material states none
        ("steel", None, (), 0.9),  # one that counts alone
        ("", 2.0, (), 0.9),
        ("ice", 0.5, (MaterialPair(materials=("rubber", "ice"), friction=0.3),), 0.3),
        ("rubber", None, (MaterialPair(materials=("rubber", "rubber"), friction=1.2),), 1.2),
    ],
)
def test_pair_rule(
    material: str, scene_friction: float | None, pairs: tuple, expected: float
) -> None:
    scene = cdopt.scene.loads(floor_with(material, scene_friction, pairs).to_toml())
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, 1e-3, friction=True)
    assert np.array_equal(step.friction.mu, np.full(2, expected))
    for nothing in (None, False):
        plain = cdopt.collision.step(scene, scene.initial, contacts, 1e-3, friction=nothing)
        assert plain.friction is None


def test_contact_without_a_coefficient_is_named() -> None:
    scene = cdopt.scene.brick_on_two_bricks()
    contacts = cdopt.collision.detect(scene, scene.initial)
    with pytest.raises(cdopt.InvalidInput, match=r"none stated for bodies\[\d\]"):
        cdopt.collision.step(scene, scene.initial, contacts, 1e-3, friction=True)


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ((MaterialPair(materials=("ice", "wood"), friction=0.1),), "'wood'"),
        ((MaterialPair(materials=("ice", "ice"), friction=0.1),) * 2, "again"),
        (("ice",), "pairs"),
    ],
)
def test_bad_pairs_are_refused(pairs: tuple, found: str) -> None:
    with pytest.raises(cdopt.InvalidInput, match=found):
        floor_with("ice", None, pairs)


def test_bad_coefficients_are_refused() -> None:
    with pytest.raises(cdopt.InvalidInput, match="friction"):
        Material(name="x", friction=-0.1)
    with pytest.raises(cdopt.InvalidInput, match="materials"):
        MaterialPair(materials=("x",), friction=0.1)
