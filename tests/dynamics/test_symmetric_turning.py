"""Turning bodies whose motion stays as even as their scene."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import collision
from cdopt.scene import Body, Box, Capsule, HalfSpace, Scene


def moved(scene: Scene, dt: float, steps: int):
    """The state after steps of classic contact dynamics."""
    state = scene.initial
    for _ in range(steps):
        found = collision.detect(scene, state, collision.safe_margin(scene, state, dt))
        solution = cdopt.ClassicCD(collision.step(scene, state, found, dt)).solve("newton")
        assert solution.ok
        state = collision.advance(scene, state, solution.v_next, dt)
    return state


@pytest.mark.parametrize("beyond", [0.0, 4e-8])
def test_a_box_on_the_edge_of_another_turns_about_that_edge_alone(beyond: float) -> None:
    """Its own lowest edge passes the other's by a hair; nothing is aslant."""
    tilt = -np.pi / 6.0
    c, s = np.cos(tilt), np.sin(tilt)
    lowest = np.array([0.0, 0.5 + beyond, 0.5 - beyond])
    middle = lowest - [0.0, 0.5 * c + 0.5 * s, 0.5 * s - 0.5 * c]
    turn = [np.cos(0.5 * tilt), np.sin(0.5 * tilt), 0.0, 0.0]
    scene = Scene(
        [Body(Box([1.0, 1.0, 1.0]), [0.0] * 3, fixed=True),
         Body(Box([1.0, 1.0, 1.0]), middle, mass=1.0, orientation=turn)],
        dim=3, overlap_tol=1.0,
    )  # fmt: skip
    state = moved(scene, 1e-3, 1)
    np.testing.assert_allclose(state.angular_velocity[1, 1:], 0.0, atol=1e-6)
    np.testing.assert_allclose(state.velocity[1, 0], 0.0, atol=1e-6)


def test_capsules_in_a_row_slide_on_until_they_meet() -> None:
    """In the plane, on a floor, one behind the other along their axes."""
    rods = [Body(Capsule(0.1, 0.6), [x, 0.1], mass=1.0, velocity=[v, 0.0])
            for x, v in ((0.0, 1.0), (0.85, 0.0))]  # fmt: skip
    scene = Scene([Body(HalfSpace([0.0, 1.0]), [0.0, 0.0]), *rods], dim=2)
    state = moved(scene, 5e-3, 8)  # 0.04 m of the 0.05 between them
    np.testing.assert_allclose(state.velocity[1:], [[1.0, 0.0], [0.0, 0.0]], atol=1e-9)
    state = moved(scene, 5e-3, 20)
    np.testing.assert_allclose(state.velocity[1:], [[0.5, 0.0], [0.5, 0.0]], atol=1e-6)
