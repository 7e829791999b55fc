"""Generated scenes against the bank and against what their docstrings say."""

from __future__ import annotations

import numpy as np
import pytest

from cdopt import InvalidInput, bank, collision, scene
from cdopt.scene import GENERATORS


@pytest.mark.parametrize("material", ["uniform", "species"])
def test_the_settled_pyramid_is_the_banks(material: str) -> None:
    d = 2.5e-3
    ours = scene.pyramid(6, material=material, separation=0.0)
    known = bank.generators.pyramid(6, material)
    found = collision.detect(ours, ours.initial, margin=1e-6 * d)
    np.testing.assert_array_equal(found.bodies, known.bodies)
    np.testing.assert_allclose(found.normals, known.normals, atol=1e-13)
    np.testing.assert_allclose(found.points, known.points * d, atol=1e-15)
    np.testing.assert_allclose(found.phi, 0.0, atol=1e-15)
    ratio = found.stiffness / found.stiffness.max()
    np.testing.assert_allclose(ratio, known.stiffness / known.stiffness.max(), rtol=1e-14)
    step = collision.step(ours, ours.initial, found, dt=1e-3)
    np.testing.assert_allclose(step.B.toarray(), known.B.toarray(), atol=1e-13)
    np.testing.assert_array_equal(step.dof_body, known.dof_body)
    weight = 2000.0 * np.pi / 6.0 * d**3 * 9.81
    np.testing.assert_allclose(step.F_ext / weight, known.F_ext, atol=1e-13)


def test_the_dropped_pyramid_opens_between_layers_alone() -> None:
    dropped = scene.pyramid(5)
    found = collision.detect(dropped, dropped.initial)
    height = dropped.bodies.position[:, 2]
    level = np.isclose(height[found.bodies[:, 0]], height[found.bodies[:, 1]])
    np.testing.assert_allclose(found.phi[level], 0.0, atol=1e-15)
    lift = 0.05 * 1.25e-3
    gap = np.hypot(1.25e-3 * np.sqrt(2.0), 2.5e-3 / np.sqrt(2.0) + lift) - 2.5e-3
    np.testing.assert_allclose(found.phi[~level], gap, rtol=1e-9)
    assert found.nc == 160


@pytest.mark.parametrize("dim", [2, 3])
def test_the_beam_hangs_one_percent_of_a_radius_over_its_supports(dim: int) -> None:
    beam = scene.beam(3.0, dim=dim)
    found = collision.detect(beam, beam.initial)
    rows = dim - 1
    np.testing.assert_allclose(found.phi, 0.01 * 0.05, rtol=1e-10)
    np.testing.assert_allclose(found.stiffness, [1.0, 3.0, 1.0] * rows)
    np.testing.assert_allclose(beam.bodies.mass[0] * 9.81, 10.0)


def test_the_crystal_touches_everywhere() -> None:
    crystal = scene.crystal(4, 5)
    found = collision.detect(crystal, crystal.initial, margin=1e-9)
    assert found.nc == bank.generators.crystal_2d(4, 5).nc
    np.testing.assert_allclose(found.phi, 0.0, atol=1e-15)
    assert collision.detect(crystal, crystal.initial, margin=0.0).nc <= found.nc


@pytest.mark.parametrize("dim", [2, 3])
def test_random_packings_start_apart_and_repeat(dim: int) -> None:
    one, again, other = (scene.random_packing(80, dim=dim, seed=s) for s in (1, 1, 2))
    assert one.to_toml() == again.to_toml() != other.to_toml()
    found = collision.detect(one, one.initial, margin=1.0)
    assert found.phi.min() > 0.0
    assert one.nb == 80 + 1 + 2 * (dim - 1)
    assert scene.random_packing(10, dim=dim, walls=False).nb == 11


def test_collisions_start_at_the_stated_gap() -> None:
    for offset in (0.0, 0.1):
        pair = scene.collision(gap=0.02, offset=offset, dim=3)
        found = collision.detect(pair, pair.initial, margin=1.0)
        np.testing.assert_allclose(found.phi, [0.02], rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_boxes_and_spheres_hang_over_the_floor_as_stated(dim: int) -> None:
    box = scene.box_on_floor(angle=0.7, gap=0.05, dim=dim)
    found = collision.detect(box, box.initial, margin=1.0)
    assert found.nc == 2**dim
    np.testing.assert_allclose(found.phi.min(), 0.05, rtol=1e-12)
    ball = scene.sphere_on_floor(gap=0.03, floor_speed=0.2, dim=dim)
    found = collision.detect(ball, ball.initial, margin=1.0)
    np.testing.assert_allclose(found.phi, [0.03], rtol=1e-12)
    np.testing.assert_allclose(found.gap_rate, [-0.2], rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("beam", {"dim": 4}),
        ("beam", {"middle_stiffness": 0.0}),
        ("beam", {"drop": -0.1}),
        ("table", {"support_radius": np.nan}),
        ("pyramid", {"n": 1}),
        ("pyramid", {"n": 3.5}),
        ("pyramid", {"material": "gold"}),
        ("pyramid", {"separation": -0.1}),
        ("crystal", {"columns": 1}),
        ("random_packing", {"dim": 1}),
        ("random_packing", {"spread": 1.0}),
        ("bouncing_ball", {"restitution": 1.1}),
        ("bouncing_ball", {"dim": "2"}),
        ("collision", {"gap": -0.01}),
        ("collision", {"masses": (1.0, 0.0)}),
        ("box_on_floor", {"size": [1.0]}),
    ],
)
def test_generators_refuse_bad_arguments(name: str, arguments: dict) -> None:
    with pytest.raises(InvalidInput):
        GENERATORS[name](**arguments)
