"""Scenes with friction: what stands, what moves, and a certified first step of each."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.collision import detect, safe_margins, step

DT = 1e-3
G = 9.81


def first_step(name: str, dt: float = DT) -> tuple[cdopt.ContactStep, cdopt.StepSolution]:
    scene = cdopt.scene.load(name)
    contacts = detect(scene, scene.initial, safe_margins(scene, scene.initial, dt))
    posed = step(scene, scene.initial, contacts, dt, friction=True)
    solution = cdopt.FrictionalCD(posed).solve("newton")
    assert solution.ok
    return posed, solution


@pytest.mark.parametrize(
    ("name", "stands"),
    [
        ("incline:ratio=0.99", True),
        ("incline:ratio=1.01,dim=3", False),
        ("ladder", True),
        ("ladder:height=1.0", False),
        ("house-of-cards", True),
        ("house-of-cards:mu=0.3", False),
        ("house-of-cards:storeys=1,mu=0.19", True),  # tan(20°)/2 is 0.182
        ("house-of-cards:storeys=1,mu=0.17", False),
        ("pulled-brick:ratio=0.99", True),
        ("pulled-brick:ratio=1.01", False),
        ("arch-without-keystone:keystone=true", True),
        ("arch-without-keystone", False),
    ],
)
def test_what_stands_and_what_moves(name: str, stands: bool) -> None:
    _, solution = first_step(name)
    moving = np.abs(solution.v_next).max() / (DT * G)
    assert moving < 1e-6 if stands else moving > 1e-3


@pytest.mark.parametrize("dim", [2, 3])
def test_a_brick_slides_out_above_twice_the_friction_below(dim: int) -> None:
    for ratio, together in ((1.95, True), (2.05, False)):
        _, solution = first_step(f"pulled-brick:ratio={ratio},dim={dim}")
        along = solution.v_next.reshape(5, -1)[:, 0] / (DT * G)
        np.testing.assert_allclose(along[:2], 0.0, atol=1e-6)
        np.testing.assert_allclose(along[3:], 0.5 * min(3 * (ratio - 1) / 3, 1.0), rtol=1e-6)
        assert (along[2] == pytest.approx(along[3], rel=1e-6)) == together


@pytest.mark.parametrize("name", ["grain-column", "silo", "rotating-drum", "grain-column:dim=3"])
def test_loose_grains_fall_onto_what_holds_them(name: str) -> None:
    posed, solution = first_step(name.replace("column:", "column:n=60,"), 0.03)
    assert solution.f.sum() >= 0.0
    falling = solution.v_next[np.flatnonzero(posed.F_ext)]  # the upright velocities
    assert (falling > -0.03 * G - 1e-9).all()
    assert (falling < 0.0).mean() > 0.5


def test_the_drum_carries_what_touches_it_along() -> None:
    scene = cdopt.scene.rotating_drum(1, speed=2.0, size=1.6, spread=0.0)
    inner, radius = 2.0 * 0.005 * 1.6, 0.005
    q = np.array(scene.initial.q)
    q[1, :2] = [0.0, radius - inner]
    state = cdopt.scene.State(0.0, q, scene.initial.v)
    posed = step(scene, state, detect(scene, state, 1e-4), DT, friction=True)
    solution = cdopt.FrictionalCD(posed).solve("newton")
    assert solution.ok
    assert solution.v_next[0] > 0.0  # the lowest place of a drum moves to the right
    assert solution.v_next[2] > 0.0


def test_a_gate_holds_a_column() -> None:
    names = [cdopt.scene.grain_column(20, gate=gate).bodies.names[:3] for gate in (False, True)]
    assert names == [("floor", "left wall", ""), ("floor", "left wall", "right wall")]
