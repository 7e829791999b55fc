"""Cohesion, tension and crushing: hand calculations, the support function, both theorems."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.hyperstatic.stability import FALLS, STANDS, UNKNOWN
from cdopt.hyperstatic.strength import in_newtons

sys.path.insert(0, str(Path(__file__).parents[1] / "scene"))
from masonry_models import box, write_obj

WIDTH, DEPTH, HEIGHT = 0.4, 0.5, 1.0  # m
AREA, WEIGHT = WIDTH * DEPTH, 2000.0 * WIDTH * DEPTH * HEIGHT * 9.81  # m², N


@pytest.fixture
def block(tmp_path) -> cdopt.scene.BlockModel:
    """One block on the ground; along x it tips at 0.4 of its weight."""
    model = {"fixed": box((-1, -1, -1), (2, 2, 0)), "block": box((0, 0, 0), (WIDTH, DEPTH, HEIGHT))}
    return cdopt.scene.load_blocks(write_obj(tmp_path / "block.obj", model, 4), density=2000.0)


@pytest.mark.parametrize("cohesion", [0.0, 500.0, 2000.0])
def test_cohesion_adds_to_sliding(block, cohesion) -> None:
    strength = cdopt.Strength(cohesion=cohesion)
    limit = cdopt.limit_load(block, [1, 0, 0], friction=0.2, strength=strength)
    assert limit.ok
    assert limit.value == pytest.approx(0.2 + cohesion * AREA / WEIGHT, abs=1e-7)
    assert limit.bound == pytest.approx(limit.value, abs=1e-7)


@pytest.mark.parametrize("tension", [0.0, 1000.0, 8000.0])
def test_tension_holds_the_edge_that_rises(block, tension) -> None:
    """Half of the area pulls at the edge behind: λ W h/2 = W b/2 + (t A/2) b."""
    strength = cdopt.Strength(cohesion=1e6, tension=tension)
    limit = cdopt.limit_load(block, [1, 0, 0], friction=0.5, strength=strength)
    assert limit.ok
    expected = WIDTH / HEIGHT * (1.0 + tension * AREA / WEIGHT)
    assert limit.value == pytest.approx(expected, abs=1e-7)
    assert limit.bound == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("strong", [0.9, 1.2, 1.8, 3.0])
def test_crushing_moves_the_edge_inward(block, strong) -> None:
    """Corners in front bear half of s A: λ W h/2 = (s A − W) b/2 up to s A = 2 W."""
    strength = cdopt.Strength(compression=strong * WEIGHT / AREA)
    found = cdopt.stability(block, 2.0, strength=strength)
    assert found.bears.value == pytest.approx(strong, rel=1e-7)
    assert found.verdict == (STANDS if strong >= 1.0 else FALLS)
    if strong < 1.0:
        assert found.falling.tolist() == [True]
        assert found.forces is None
        return
    expected = WIDTH / HEIGHT * min(strong - 1.0, 1.0)
    assert found.limits["+x"].value == pytest.approx(expected, abs=1e-7)
    f, f_t = found.forces
    balance = found.step.B.T @ f + found.step.friction.B_t.T @ f_t.ravel() + found.step.F_ext
    assert np.abs(balance).max() <= 1e-7 * WEIGHT
    assert f.max() <= strong * WEIGHT / 4.0 * (1 + 1e-7)


@pytest.mark.slow
def test_what_stands_by_cohesion_alone_is_not_decided(tmp_path) -> None:
    """A block held to a wall: its glue bears it, and elastic contacts have friction alone."""
    model = {"fixed wall": box((-1, 0, 0), (0, 1, 1)), "block": box((0, 0, 0), (0.1, 1, 1))}
    wall = cdopt.scene.load_blocks(write_obj(tmp_path / "wall.obj", model, 4), density=1000.0)
    assert cdopt.stability(wall, 0.6, limits=False).verdict == FALLS
    strength = cdopt.Strength(cohesion=5000.0, tension=1000.0)
    found = cdopt.stability(wall, 0.6, strength=strength, limits=False)
    assert found.admissible
    assert found.verdict == UNKNOWN
    assert "not decided" in found.summary


@pytest.mark.parametrize("d", [2, 3])
def test_the_power_is_the_most_that_forces_can_do(d) -> None:
    """−f·g ≤ D(g) for all forces within the strength, with equality for some."""
    rng = np.random.default_rng(0)
    strength = cdopt.Strength(300.0, 200.0, 1000.0)
    many = 400
    joint = in_newtons(strength, np.ones(many), np.full(many, 0.5))
    for _ in range(20):
        rates = rng.normal(size=(many, d))
        most = joint.power(rates)
        forces = joint.nearest(2000.0 * rng.normal(size=(many, d)))
        assert joint.outside(forces) <= 1e-12 * np.abs(forces).max()
        assert (-np.sum(forces * rates, axis=1) <= most + 1e-9).all()
        along = -rates[:, 1:] / np.linalg.norm(rates[:, 1:], axis=1)[:, None]
        best = np.full(many, -np.inf)
        for normal in (-200.0, 1000.0):
            f_t = (0.5 * normal + 300.0) * along
            best = np.maximum(best, -normal * rates[:, 0] - np.sum(f_t * rates[:, 1:], axis=1))
        np.testing.assert_allclose(best, most, rtol=1e-12)


def test_no_strength_is_friction_alone_and_limits_grow_with_strength() -> None:
    arch = cdopt.scene.arch(7, density=2000.0).with_friction(0.6)
    load = {"voussoir 1": [0.0, -1000.0]}
    plain = cdopt.limit_load(arch, load)
    same = cdopt.limit_load(arch, load, strength=cdopt.Strength())
    assert same.value == pytest.approx(plain.value, rel=1e-9)
    values = []
    for compression in (2e4, 5e4, np.inf):
        strength = cdopt.Strength(cohesion=10.0, compression=compression)
        limit = cdopt.limit_load(arch, load, strength=strength)
        assert limit.ok
        values.append(limit.value)
    assert sorted(values) == values
    assert values[-1] >= plain.value
    weak = cdopt.Strength(compression=1.0)
    with pytest.raises(cdopt.SolveFailed, match="strength of the joints"):
        cdopt.limit_load(arch, load, strength=weak)
    for bad in ({"cohesion": -1.0}, {"tension": np.nan}, {"compression": [[1.0]]}):
        with pytest.raises(cdopt.InvalidInput):
            cdopt.Strength(**bad)
    with pytest.raises(cdopt.InvalidInput, match="cohesion"):
        cdopt.limit_load(arch, load, strength=cdopt.Strength(cohesion=[1.0, 2.0]))
