"""Friction of elastic contacts: springs with a memory, cut to μ f_n, against closed forms."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynamic_scenes import (
    MU,
    G,
    K,
    R,
    disc_pile,
    mechanical,
    order,
    pressed,
    rolling_ball,
    rough_box,
)

import cdopt
from cdopt.dynamics import VariationalSteps
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere

VERLET, VARIATIONAL, STATIC = "velocity-verlet", "variational", "quasi-static"
SLOW = pytest.mark.slow


# --- a ball on a floor ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "dt", "duration", "within"),
    [
        (VERLET, 2e-4, 0.8, (2e-3, 1e-4, 1e-3, 1e-3)),
        (VARIATIONAL, 2e-3, 0.15, (1e-10, 2e-3, 8e-3, 5e-3)),
    ],
)
@pytest.mark.parametrize(("dim", "share"), [(2, 2.0 / 3.0), (3, 5.0 / 7.0)])
def test_a_ball_that_slides_then_rolls(
    dim: int, share: float, method: str, dt: float, duration: float, within: tuple[float, ...]
) -> None:
    """The tangential spring still swings a little when the ball begins to roll."""
    slide, speed, turn, work = within
    every = 100 if method == VERLET else 5
    run = cdopt.simulate(rolling_ball(1.0, 0.0, dim), dt, duration, method, every=every)
    seen, slides = run.diagnostics, run.t < (1.0 - share) / (MU * G)
    np.testing.assert_allclose(run.v[slides, 1, 0], 1.0 - MU * G * run.t[slides], atol=slide)
    assert run.v[-1, 1, 0] == pytest.approx(share, abs=speed)
    spin = run.v[-1, 1, 2] if dim == 2 else -run.v[-1, 1, 4]
    assert spin == pytest.approx(-share / (R - G / K), abs=turn)
    assert seen["friction"][-1] == pytest.approx(0.5 * (1.0 - share), rel=work)
    assert np.all(np.diff(seen["friction"]) >= 0.0)
    assert np.abs(seen["balance"]).max() < (1e-4 if method == VERLET else 1e-12)
    assert np.abs(seen["balance"] - seen["scheme_error"]).max() < 1e-12
    if method == VARIATIONAL:
        assert np.all(np.diff(mechanical(run)) <= 1e-10 * mechanical(run)[0])
    assert run[3].f_t[0, 0] == pytest.approx(-MU * G, rel=1e-6)  # on the ball, the second body
    assert run.ok


def test_a_ball_with_backspin_runs_off() -> None:
    run = cdopt.simulate(rolling_ball(0.0, 4.0), 2e-4, 0.8, VERLET, every=4000)
    assert run.v[-1, 1, 0] == pytest.approx(-2.0 / 7.0 * R * 4.0, abs=1e-4)


@pytest.mark.parametrize("ratio", [2.0 / 7.0, 0.6])
def test_an_oblique_impact_that_sticks(ratio: float) -> None:
    """The contact point swings at ω_t = √(7/2 k_t/m) while the normal spring takes half a period.

    At k_t/k_n = 2/7 it is reversed exactly, as by a superball.
    """
    speed = 1e-5  # slow: the lever r − δ is that of the closed form to 1e-8
    ball = Body(Sphere(R), [0.0, 0.0, R], mass=1.0, material="m", velocity=[speed, 0.0, -speed])
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), np.zeros(3))
    rubber = [Material(name="m", stiffness=K)]
    place = Scene([floor, ball], dim=3, gravity=np.zeros(3), friction=1e9, materials=rubber)
    t = np.pi / np.sqrt(K)
    swung = np.cos(np.sqrt(3.5 * ratio) * np.pi)
    expected = speed * (1.0 - (1.0 - swung) / 3.5)
    steps, errors = t / np.array([200, 400, 800]), []
    for h in steps:
        run = cdopt.simulate(place, h, 1.02 * t, VERLET, every=800, stiffness_ratio=ratio)
        errors.append(abs(run.final.v[1, 0] - expected) / speed)
        # what the spring holds as the contact opens is lost, not an error
        assert abs(run.diagnostics["scheme_error"][-1]) < 2e-3 * 0.5 * speed**2
    if ratio < 0.5:  # the spring is at rest as the contact opens
        assert max(errors) < 2e-7
        return
    assert order(steps, errors) == pytest.approx(1.0, abs=0.1)  # it is cut off between two steps
    assert errors[-1] < 1e-3


def test_rolling_resistance_slows_a_rolling_ball() -> None:
    """v̇ = −(5/7) μ_r g, until its spring holds it."""
    lever = R / (R - G / K)
    place = rolling_ball(0.5, -0.5 / (R - G / K), rolling_friction=0.02)
    run = cdopt.simulate(place, 2e-4, 1.0, VERLET, every=500)
    slower = 0.5 - 5.0 / 7.0 * 0.02 * G * lever * run.t
    np.testing.assert_allclose(run.v[:, 1, 0], slower, atol=1e-3)
    stopped = cdopt.simulate(place, 2e-4, 6.0, VERLET, every=30000)
    assert abs(stopped.final.v[1, 0]) < 1e-3
    free = cdopt.simulate(rolling_ball(0.5, -0.5 / (R - G / K)), 2e-4, 1.0, VERLET, every=5000)
    assert free.final.v[1, 0] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("coefficient", [None, 0.03])
def test_a_ball_that_spins_on_its_spot(coefficient: float | None) -> None:
    """Without spinning friction it does so for ever, with it ω̇ = −(5/2) μ_s g/R."""
    rubber = Material(name="m", stiffness=K, friction=MU, spinning_friction=coefficient)
    ball = Body(Sphere(R), [0.0, 0.0, R - G / K], mass=1.0, material="m",
                angular_velocity=[0.0, 0.0, 2.0])  # fmt: skip
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), np.zeros(3))
    place = Scene([floor, ball], dim=3, materials=[rubber], overlap_tol=1e-3)
    run = cdopt.simulate(place, 2e-4, 1.0, VERLET, every=5000)
    rate = 2.5 * (coefficient or 0.0) * G / R
    assert run.final.v[1, 5] == pytest.approx(2.0 - rate, abs=2e-3)
    assert np.abs(np.delete(run.final.v[1], 5)).max() < 1e-9


# --- order and energy ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mu", "power", "expected"), [(1e9, 2.0, 2.0), (0.2, 2.0, 2.0), (1e9, 2.5, 1.0)]
)
def test_order_and_angular_momentum(mu: float, power: float, expected: float) -> None:
    """Second order, but first where k_t changes with the overlap, as in LAMMPS."""
    speeds, steps = [], 0.1 / np.array([250, 500, 1000, 2000])
    for h in steps:
        run = cdopt.simulate(pressed(mu, power=power), h, 0.1, VERLET, every=2000)
        speeds.append(run.final.v.copy())
    changes = [float(np.abs(b - a).max()) for a, b in pairwise(speeds)]
    assert order(steps[:3], changes) == pytest.approx(expected, abs=0.2)
    momentum = run.diagnostics["angular_momentum"]
    assert np.abs(momentum[-1] - momentum[0])[0] < 1e-12  # about x, the axis of the loads
    assert np.abs(run.diagnostics["momentum"][-1] - run.diagnostics["momentum"][0]).max() < 1e-12


@pytest.mark.parametrize("path", ["native", pytest.param("cvxpy", marks=SLOW)])
def test_the_variational_integrator_tends_to_velocity_verlet_with_second_order(path: str) -> None:
    """Two spheres that slide, stick and turn about each other."""
    place = pressed(0.2)
    fine = cdopt.simulate(place, 0.03 / 6000, 0.03, VERLET, every=6000).final.v
    steps, errors = 0.03 / np.array([12, 24, 48]), []
    for h in steps:
        run = cdopt.simulate(place, h, 0.03, VARIATIONAL, every=48, path=path)
        errors.append(np.abs(run.final.v - fine).max())
    assert order(steps, errors) == pytest.approx(1.8, abs=0.3)
    assert errors[-1] < 1e-2 * np.abs(fine - place.initial.v).max()
    seen = run.diagnostics
    assert seen["friction"][-1] > 1e-3
    assert np.abs(seen["balance"] - seen["scheme_error"]).max() < 1e-12
    assert np.abs(seen["momentum"][-1] - seen["momentum"][0]).max() < 1e-14


def test_forces_of_rough_spheres_in_a_box_stay_in_their_cones(tmp_path: Path) -> None:
    place, path = rough_box(rolling_friction=0.05, spinning_friction=0.02), tmp_path / "box.vtkhdf"
    how: dict[str, Any] = {"every": 250, "out": path}
    whole = cdopt.simulate(place, 2e-4, 1.0, VERLET, **how)
    assert whole.diagnostics["friction"][-1] > 1.0
    cone = np.linalg.norm(whole.final.f_t, axis=1) - 0.4 * whole.final.f
    assert cone.max() <= 1e-12 * whole.final.f.max()
    # of the time step's order: the balance shows what it makes or loses
    kept = mechanical(whole) + whole.diagnostics["dissipated"]
    assert np.all(kept <= 1.01 * mechanical(whole)[0])
    with pytest.raises(cdopt.InvalidInput, match="stiffness_ratio"):
        cdopt.simulate(place, 2e-4, 1.2, VERLET, resume=True, stiffness_ratio=0.5, **how)


@pytest.mark.slow
def test_energy_does_not_grow_in_a_hundred_thousand_steps() -> None:
    """What the integrator adds in collisions is less than what friction takes."""
    run = cdopt.simulate(rough_box(), 1e-4, 10.0, VERLET, every=100)
    energy = mechanical(run)
    assert energy.max() <= energy[0] * (1.0 + 1e-10)
    assert run.diagnostics["friction"][-1] > 0.1 * energy[0]
    assert np.abs(run.diagnostics["balance"]).max() < 2e-3 * energy[0]


# --- the convex problems -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        ("floor", {}),
        ("pair", {}),
        ("pair", {"alpha": 0.7, "damping": "paper"}),
        ("pair", {"solver": "direct"}),
        ("hertz", {"stiffness_ratio": 0.5}),
        pytest.param("box", {}, marks=SLOW),
    ],
)
def test_compiled_steps_are_the_convex_problems(case: str, settings: dict[str, Any]) -> None:
    """Balls that slide, stick, part and turn, by the compiled loop and through CVXPY."""
    place, dt, steps = {
        "floor": (rolling_ball(1.0, 0.0, 3), 5e-4, 12),
        "pair": (pressed(0.2, damping=3.0, tangential_damping=5.0), 1e-3, 8),
        "hertz": (pressed(0.2, power=2.5), 1e-3, 8),
        "box": (rough_box(3), 2e-4, 600),
    }[case]
    more = {name: value for name, value in settings.items() if name != "solver"}
    ours, posed = (
        cdopt.simulate(place, dt, steps * dt, VARIATIONAL, every=4, path=path, **how)
        for path, how in (("native", settings), ("cvxpy", more))
    )
    for name in ("q", "v"):
        exact = getattr(posed, name)
        np.testing.assert_allclose(getattr(ours, name), exact, atol=1e-9 * np.abs(exact).max())
    for one, two in zip(ours, posed, strict=True):
        np.testing.assert_allclose(one.f_t, two.f_t, rtol=0.0, atol=1e-9 * max(two.f, default=1.0))
    seen, exact = ours.diagnostics, posed.diagnostics
    assert exact["friction"][-1] > 1e-6
    for name in ("friction", "tangential", "dissipated", "work", "balance"):
        unit = mechanical(ours)[0]
        np.testing.assert_allclose(seen[name], exact[name], rtol=0.0, atol=1e-9 * unit)


def brick_on_a_belt(belt: float) -> Scene:
    """A box of 1 kg at rest on its springs, moving at 1 m/s over a floor that moves at ``belt``."""
    rubber = Material(name="m", stiffness=K, friction=MU)
    floor = Body(HalfSpace([0.0, 1.0]), np.zeros(2), velocity=[belt, 0.0], fixed=True)
    high = 0.1 - 0.5 * G / K
    box = Body(Box([2.0, 0.2]), [0.0, high], mass=1.0, material="m", velocity=[1.0, 0.0])
    return Scene([floor, box], dim=2, gravity=[0.0, -G], materials=[rubber], overlap_tol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("belt", [0.0, -0.5])
def test_a_box_slides_and_its_energy_is_accounted_for(belt: float) -> None:
    run = cdopt.simulate(brick_on_a_belt(belt), 1e-3, 0.04, VARIATIONAL, every=10)
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
    place = Scene([floor, box], dim=3, materials=[rubber], damping=50.0)
    run = cdopt.simulate(place, 5e-4, 0.03, VARIATIONAL, every=5)
    seen, energy = run.diagnostics, mechanical(run)
    assert run.ok
    assert seen["contacts"][0] == 0 < seen["contacts"].max()
    assert seen["friction"][-1] > 1e-2
    assert np.abs(seen["balance"]).max() < 1e-3 * energy[0]
    assert energy[-1] == pytest.approx(energy[0] - seen["dissipated"][-1], rel=1e-3)


# --- rest ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, pytest.param(3, marks=SLOW)])
def test_a_box_on_an_incline_holds_up_to_the_angle_of_friction(dim: int) -> None:
    """A box of 1 kg on a plane, whose gravity leans by an angle."""

    def incline(angle: float) -> Scene:
        rubber = Material(name="m", stiffness=2e5, friction=0.5)
        up, along = np.eye(dim)[-1], np.eye(dim)[0]
        floor = Body(HalfSpace(up), np.zeros(dim), material="m", fixed=True)
        size = [1.0, 0.4] if dim == 2 else [1.0, 0.8, 0.4]
        box = Body(Box(size), 0.2 * up, mass=1.0, material="m")
        gravity = 10.0 * (np.sin(angle) * along - np.cos(angle) * up)
        return Scene([floor, box], dim=dim, gravity=gravity, materials=[rubber])

    for angle in (0.2, 0.999 * np.arctan(0.5)):
        run = cdopt.simulate(incline(angle), 1.0, 2.0, STATIC)
        force = run.final.contact_vectors().sum(axis=0)
        np.testing.assert_allclose(force, -run.scene.gravity, atol=1e-8)
        np.testing.assert_allclose(run.q[2], run.q[1], atol=1e-12)  # no creep at rest
        assert run.diagnostics["residual_step"].max() <= 1e-10
        assert run.ok
    with pytest.raises(cdopt.dynamics.StepFailed, match=r"bodies\[1\] moved too far"):
        cdopt.simulate(incline(1.02 * np.arctan(0.5)), 1.0, 1.0, STATIC)


def test_a_pile_rests_as_by_velocity_verlet() -> None:
    """Forces, tangential ones included, up to the share by which overlaps change the geometry."""
    k = 1e4
    run = cdopt.simulate(disc_pile(k), 1.0, 1.0, STATIC)
    dynamic = cdopt.simulate(disc_pile(k), 0.1 / np.sqrt(k), 20.0, VERLET, every=9999)
    assert np.abs(dynamic.final.v).max() < 1e-9
    np.testing.assert_array_equal(run.final.bodies, dynamic.final.bodies)
    apart = run.final.contact_vectors() - dynamic.final.contact_vectors()
    assert np.abs(apart).max() < 2.0 / k * dynamic.final.f.max()
    assert run.diagnostics["residual_step"].max() <= 1e-10
    mobilised = np.linalg.norm(run.final.f_t, axis=1) / (0.5 * run.final.f)
    assert 0.5 < mobilised.max() < 1.0


# --- settings ------------------------------------------------------------------------------


def test_mindlins_ratio_and_the_time_step() -> None:
    pairs = np.array([[0, 1]])
    ratio = cdopt.collision.pair_friction.tangential_ratio
    assert ratio(pressed(0.5), pairs) == pytest.approx(1.4 / 1.7)
    assert ratio(rolling_ball(0.0, 0.0), pairs) == 1.0
    place, longest = rolling_ball(0.0, 0.0), 2.0 / np.sqrt(3.5 * K)
    with pytest.raises(cdopt.InvalidInput, match="unstable"):
        cdopt.simulate(place, 1.01 * longest, 1.0, VERLET)
    cdopt.simulate(place, 1.01 * longest, 0.01, VERLET, frictionless=True)
    with pytest.raises(cdopt.InvalidInput, match="rolling_friction"):
        Material(name="m", rolling_friction=-1.0)


def test_what_a_method_does_not_have_is_refused() -> None:
    with pytest.raises(cdopt.Unsupported, match="friction with alpha 0"):
        cdopt.simulate(rolling_ball(1.0, 0.0, 3), 1e-3, 1e-3, VariationalSteps(alpha=0.0))
    with pytest.raises(cdopt.InvalidInput, match="dt"):
        cdopt.simulate(pressed(0.2), 0.0098, 0.01, VARIATIONAL)
    with pytest.raises(cdopt.Unsupported, match=r"neither a sphere nor.*method='variational'"):
        cdopt.simulate(brick_on_a_belt(0.0), 1e-3, 1e-3, VERLET)
