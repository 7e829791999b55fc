"""Quasi-static motion with friction: an incline, a pile, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Spheres

MU, G, K = 0.5, 10.0, 1e5
METHOD = "quasi-static"


def on_an_incline(angle: float, dim: int = 2) -> Scene:
    """A box of 1 kg on a plane, whose gravity leans by an angle."""
    rubber = Material(name="m", stiffness=2.0 * K, friction=MU)
    up, along = np.eye(dim)[-1], np.eye(dim)[0]
    floor = Body(HalfSpace(up), np.zeros(dim), material="m", fixed=True)
    size = [1.0, 0.4] if dim == 2 else [1.0, 0.8, 0.4]
    box = Body(Box(size), 0.2 * up, mass=1.0, material="m")
    gravity = G * (np.sin(angle) * along - np.cos(angle) * up)
    return Scene([floor, box], dim=dim, gravity=gravity, materials=[rubber])


@pytest.mark.parametrize("dim", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_box_on_an_incline_holds_up_to_the_angle_of_friction(dim: int) -> None:
    for angle in (0.2, 0.999 * np.arctan(MU)):
        run = cdopt.simulate(on_an_incline(angle, dim), 1.0, 2.0, METHOD)
        force = run.final.contact_vectors().sum(axis=0)
        np.testing.assert_allclose(force, -run.scene.gravity, atol=1e-9 * G)
        np.testing.assert_allclose(run.q[2], run.q[1], atol=1e-12)  # no creep at rest
        assert run.diagnostics["residual_step"].max() <= 1e-10
        assert run.ok
    with pytest.raises(cdopt.dynamics.StepFailed, match=r"bodies\[1\] left"):
        cdopt.simulate(on_an_incline(1.02 * np.arctan(MU), dim), 1.0, 1.0, METHOD)


def pile(k: float, rows: int) -> Scene:
    """Rough discs upon each other, damped."""
    rubber = Material(name="m", stiffness=2.0 * k, friction=MU)
    places = [
        [column + 0.5 * row, 0.5 + row * np.sqrt(0.75)]
        for row in range(rows)
        for column in range(rows - row)
    ]
    floor = Body(HalfSpace([0.0, 1.0]), np.zeros(2), material="m", fixed=True)
    discs = Spheres(centres=places, radius=0.5, mass=1.0, material="m")
    gamma = {"damping": 1.4 * np.sqrt(k), "tangential_damping": 1.4 * np.sqrt(k)}
    return Scene([floor, discs], dim=2, gravity=[0.0, -1.0], materials=[rubber], **gamma)


def test_a_pile_rests_as_by_velocity_verlet() -> None:
    """Forces, tangential ones included, up to the share by which overlaps change the geometry."""
    k = 1e4
    run = cdopt.simulate(pile(k, 2), 1.0, 1.0, METHOD)
    dynamic = cdopt.simulate(pile(k, 2), 0.1 / np.sqrt(k), 20.0, "velocity-verlet", every=9999)
    assert np.abs(dynamic.final.v).max() < 1e-9
    np.testing.assert_array_equal(run.final.bodies, dynamic.final.bodies)
    apart = run.final.contact_vectors() - dynamic.final.contact_vectors()
    assert np.abs(apart).max() < 2.0 / k * dynamic.final.f.max()
    assert run.diagnostics["residual_step"].max() <= 1e-10
    mobilised = np.linalg.norm(run.final.f_t, axis=1) / (MU * run.final.f)
    assert 0.5 < mobilised.max() < 1.0
