"""The variational integrator with friction, whose normal forces are those of the predictor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_friction_springs import MU, G, K, R, in_a_box, on_a_floor, pressed, stored

import cdopt
from cdopt.dynamics import VariationalSteps
from cdopt.scene import Body, Box, HalfSpace, Material, Scene

METHOD = "variational"


@pytest.mark.parametrize(("dim", "share"), [(2, 2.0 / 3.0), (3, 5.0 / 7.0)])
def test_a_ball_that_slides_then_rolls(dim: int, share: float) -> None:
    """The tangential spring still swings a little when the ball begins to roll."""
    run = cdopt.simulate(on_a_floor(1.0, 0.0, dim), 2e-3, 0.15, METHOD, every=5)
    slides = run.t < (1.0 - share) / (MU * G)
    np.testing.assert_allclose(run.v[slides, 1, 0], 1.0 - MU * G * run.t[slides], atol=1e-10)
    assert run.v[-1, 1, 0] == pytest.approx(share, abs=2e-3)
    spin = run.v[-1, 1, 2] if dim == 2 else -run.v[-1, 1, 4]
    assert spin == pytest.approx(-share / (R - G / K), abs=8e-3)
    seen = run.diagnostics
    assert seen["friction"][-1] == pytest.approx(0.5 * (1.0 - share), rel=5e-3)
    assert np.all(np.diff(seen["friction"]) >= 0.0)
    assert np.all(np.diff(stored(run)) <= 1e-10 * stored(run)[0])
    assert np.abs(seen["balance"]).max() < 1e-12
    assert run[3].f_t[0, 0] == pytest.approx(-MU * G, rel=1e-9)  # on the ball, the second body
    assert run.ok


def brick_on_a_belt(belt: float) -> Scene:
    """A box of 1 kg at rest on its springs, moving at 1 m/s over a floor that moves at ``belt``."""
    rubber = Material(name="m", stiffness=K, friction=MU)
    floor = Body(HalfSpace([0.0, 1.0]), np.zeros(2), velocity=[belt, 0.0], fixed=True)
    box = Body(
        Box([2.0, 0.2]), [0.0, 0.1 - 0.5 * G / K], mass=1.0, material="m", velocity=[1.0, 0.0]
    )
    return Scene([floor, box], dim=2, gravity=[0.0, -G], materials=[rubber], overlap_tol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("belt", [0.0, -0.5])
def test_a_box_slides_and_its_energy_is_accounted_for(belt: float) -> None:
    run = cdopt.simulate(brick_on_a_belt(belt), 1e-3, 0.04, METHOD, every=10)
    assert run.v[-1, 1, 0] == pytest.approx(1.0 - MU * G * 0.04, abs=5e-4)
    seen = run.diagnostics
    way = run.q[-1, 1, 0] - belt * 0.04
    assert seen["friction"][-1] == pytest.approx(MU * G * way, rel=5e-3)
    assert seen["work"][-1] == pytest.approx(-MU * G * belt * 0.04, rel=5e-3, abs=1e-9)
    assert np.abs(seen["balance"]).max() < 1e-5
    assert run.ok


@pytest.mark.slow
def test_a_tilted_box_in_space_falls_lands_and_loses_energy() -> None:
    """From no contacts to corners that slide and part, of a solid that turns."""
    rubber = Material(name="m", stiffness=K, friction=MU)
    box = Body(
        Box([1.0, 0.6, 0.4]), [0.0, 0.0, 0.58], mass=1.0, material="m", velocity=[1.0, 0.3, -1.0],
        orientation=[0.9, 0.3, 0.3, 0.1], angular_velocity=[0.0, 1.0, 2.0],
    )  # fmt: skip
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), np.zeros(3), fixed=True)
    scene = Scene([floor, box], dim=3, materials=[rubber], damping=50.0)
    run = cdopt.simulate(scene, 5e-4, 0.03, METHOD, every=5)
    seen, energy = run.diagnostics, stored(run)
    assert run.ok
    assert seen["contacts"][0] == 0
    assert seen["contacts"].max() > 0
    assert seen["friction"][-1] > 1e-2
    assert np.abs(seen["balance"]).max() < 1e-3 * energy[0]
    assert energy[-1] == pytest.approx(energy[0] - seen["dissipated"][-1], rel=1e-3)


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        ("floor", {}),
        ("pair", {}),
        ("pair", {"alpha": 0.7, "damping": "paper"}),
        ("pair", {"solver": "direct"}),
        ("hertz", {"stiffness_ratio": 0.5}),
        pytest.param("box", {}, marks=pytest.mark.slow),
    ],
)
def test_compiled_steps_are_the_convex_problems(case: str, settings: dict[str, Any]) -> None:
    """Balls that slide, stick, part and turn, by the compiled loop and through CVXPY."""
    scene, dt, steps = {
        "floor": (on_a_floor(1.0, 0.0, 3), 5e-4, 12),
        "pair": (pressed(0.2, damping=3.0, tangential_damping=5.0), 1e-3, 8),
        "hertz": (pressed(0.2, power=2.5), 1e-3, 8),
        "box": (in_a_box(3), 2e-4, 600),
    }[case]
    ours = cdopt.simulate(scene, dt, steps * dt, METHOD, every=4, path="native", **settings)
    more = {name: value for name, value in settings.items() if name != "solver"}
    posed = cdopt.simulate(scene, dt, steps * dt, METHOD, every=4, path="cvxpy", **more)
    for name in ("q", "v"):
        exact = getattr(posed, name)
        np.testing.assert_allclose(getattr(ours, name), exact, atol=1e-9 * np.abs(exact).max())
    for one, two in zip(ours, posed, strict=True):
        np.testing.assert_allclose(one.f_t, two.f_t, rtol=0.0, atol=1e-9 * max(two.f, default=1.0))
    seen, exact = ours.diagnostics, posed.diagnostics
    assert exact["friction"][-1] > 1e-6
    for name in ("friction", "tangential", "dissipated", "work", "balance"):
        np.testing.assert_allclose(seen[name], exact[name], rtol=0.0, atol=1e-9 * stored(ours)[0])


@pytest.mark.parametrize("path", ["native", pytest.param("cvxpy", marks=pytest.mark.slow)])
def test_it_tends_to_velocity_verlet_with_second_order(path: str) -> None:
    """Two spheres that slide, stick and turn about each other."""
    scene = pressed(0.2)
    fine = cdopt.simulate(scene, 0.03 / 6000, 0.03, "velocity-verlet", every=6000).final.v
    steps, errors = np.array([12, 24, 48]), []
    for n in steps:
        run = cdopt.simulate(scene, 0.03 / n, 0.03, METHOD, every=int(n), path=path)
        errors.append(float(np.abs(run.final.v - fine).max()))
    assert -np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(1.8, abs=0.3)
    assert errors[-1] < 1e-2 * np.abs(fine - scene.initial.v).max()
    seen = run.diagnostics
    assert seen["friction"][-1] > 1e-3
    assert np.abs(seen["balance"] - seen["scheme_error"]).max() < 1e-12
    assert np.abs(seen["momentum"][-1] - seen["momentum"][0]).max() < 1e-14


def test_what_it_does_not_have_is_refused(tmp_path: Path) -> None:
    scene, out = on_a_floor(1.0, 0.0, 3), tmp_path / "ball.vtkhdf"
    cdopt.simulate(scene, 1e-3, 1e-3, METHOD, out=out)
    with pytest.raises(cdopt.InvalidInput, match="stiffness_ratio"):
        cdopt.simulate(scene, 1e-3, 0.01, METHOD, out=out, resume=True, stiffness_ratio=0.5)
    with pytest.raises(cdopt.Unsupported, match="friction with alpha 0"):
        cdopt.simulate(scene, 1e-3, 1e-3, VariationalSteps(alpha=0.0))
    with pytest.raises(cdopt.InvalidInput, match="dt"):
        cdopt.simulate(pressed(0.2), 0.0098, 0.01, METHOD)
    with pytest.raises(cdopt.Unsupported, match=r"neither a sphere nor.*method='variational'"):
        cdopt.simulate(brick_on_a_belt(0.0), 1e-3, 1e-3, "velocity-verlet")
