"""Velocity-Verlet with friction: springs with a memory, cut to μ f_n, against closed forms."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cdopt
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

G, R, K = 9.81, 0.5, 2e5
MU = 0.3
METHOD = "velocity-verlet"


def on_a_floor(velocity: float, spin: float, dim: int = 3, **material: Any) -> Scene:
    """A ball of 1 kg at rest on its spring, with a speed along x and a spin about −y or z."""
    up = np.eye(dim)[-1]
    rubber = Material(name="m", stiffness=K, friction=MU, **material)
    floor = Body(HalfSpace(up), np.zeros(dim))
    ball = Body(
        Sphere(R), (R - G / K) * up, mass=1.0, material="m", velocity=velocity * np.eye(dim)[0],
        angular_velocity=spin if dim == 2 else [0.0, -spin, 0.0],
    )  # fmt: skip
    return Scene(
        [floor, ball], dim=dim, gravity=-G * up, materials=[rubber], overlap_tol=1e-3,
        tangential_damping=20.0,
    )  # fmt: skip


@pytest.mark.parametrize(("dim", "share"), [(2, 2.0 / 3.0), (3, 5.0 / 7.0)])
def test_a_ball_that_slides_then_rolls(dim: int, share: float) -> None:
    run = cdopt.simulate(on_a_floor(1.0, 0.0, dim), 2e-4, 0.8, METHOD, every=100)
    slides = run.t < (1.0 - share) / (MU * G)
    np.testing.assert_allclose(run.v[slides, 1, 0], 1.0 - MU * G * run.t[slides], atol=2e-3)
    assert run.v[-1, 1, 0] == pytest.approx(share, abs=1e-4)
    spin = run.v[-1, 1, 2] if dim == 2 else -run.v[-1, 1, 4]
    assert spin == pytest.approx(-share / (R - G / K), abs=1e-3)
    seen = run.diagnostics
    assert seen["friction"][-1] == pytest.approx(0.5 * (1.0 - share), rel=1e-3)
    assert np.all(np.diff(seen["friction"]) >= 0.0)
    assert np.abs(seen["balance"]).max() < 1e-4
    assert np.abs(seen["balance"] - seen["scheme_error"]).max() < 1e-12
    assert np.linalg.norm(run[3].f_t[0]) == pytest.approx(MU * G, rel=1e-6)
    assert run[3].f_t[0, 0] < 0.0  # on the ball, the second body


def test_a_ball_with_backspin_runs_off() -> None:
    run = cdopt.simulate(on_a_floor(0.0, 4.0), 2e-4, 0.8, METHOD, every=4000)
    assert run.v[-1, 1, 0] == pytest.approx(-2.0 / 7.0 * R * 4.0, abs=1e-4)


@pytest.mark.parametrize("ratio", [2.0 / 7.0, 0.6])
def test_an_oblique_impact_that_sticks(ratio: float) -> None:
    """The contact point swings at ω_t = √(7/2 k_t/m) while the normal spring takes half a period.

    At k_t/k_n = 2/7 it is reversed exactly, as by a superball.
    """
    speed = 1e-5  # slow: the lever r − δ is that of the closed form to 1e-8
    v = np.array([speed, 0.0, -speed])
    ball = Body(Sphere(R), [0.0, 0.0, R], mass=1.0, material="m", velocity=v)
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), np.zeros(3))
    scene = Scene(
        [floor, ball], dim=3, gravity=np.zeros(3), friction=1e9,
        materials=[Material(name="m", stiffness=K)],
    )  # fmt: skip
    t = np.pi / np.sqrt(K)
    swung = np.cos(np.sqrt(3.5 * ratio) * np.pi)
    expected = speed * (1.0 - (1.0 - swung) / 3.5)
    errors = []
    for n in (200, 400, 800):
        run = cdopt.simulate(scene, t / n, 1.02 * t, METHOD, every=n, stiffness_ratio=ratio)
        errors.append(abs(run.final.v[1, 0] - expected) / speed)
        seen = run.diagnostics  # what the spring holds as the contact opens is lost, not an error
        assert abs(seen["scheme_error"][-1]) < 2e-3 * 0.5 * speed**2
    if ratio < 0.5:  # the spring is at rest as the contact opens
        assert max(errors) < 2e-7
        return
    order = np.polyfit(np.log([1.0, 0.5, 0.25]), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)  # it is cut off between two steps
    assert errors[-1] < 1e-3


def pressed(mu: float, **more: Any) -> Scene:
    """Two spheres of different sizes pressed together that spin and turn about each other."""
    balls = [
        Body(Sphere(0.5), np.zeros(3), mass=1.0, material="m", force=[30.0, 0.0, 0.0],
             velocity=[0.0, 0.1, 0.05], angular_velocity=[0.3, 0.5, -1.0]),
        Body(Sphere(0.4), [0.897, 0.0, 0.0], mass=0.7, material="m", force=[-30.0, 0.0, 0.0],
             velocity=[0.0, -0.2, 0.0], angular_velocity=[0.1, 0.2, 0.3]),
    ]  # fmt: skip
    return Scene(
        balls, dim=3, gravity=np.zeros(3), friction=mu, overlap_tol=1.0,
        materials=[Material(name="m", stiffness=2e4, poisson=0.3)], **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mu", "power", "expected"), [(1e9, 2.0, 2.0), (0.2, 2.0, 2.0), (1e9, 2.5, 1.0)]
)
def test_order_and_angular_momentum(mu: float, power: float, expected: float) -> None:
    """Second order, but first where k_t changes with the overlap, as in LAMMPS."""
    speeds = []
    for n in (250, 500, 1000, 2000):
        scene = pressed(mu, power=power)
        run = cdopt.simulate(scene, 0.1 / n, 0.1, METHOD, every=n)
        speeds.append(run.final.v.copy())
    changes = [float(np.abs(b - a).max()) for a, b in pairwise(speeds)]
    order = -np.polyfit(np.arange(3) * np.log(2.0), np.log(changes), 1)[0]
    assert order == pytest.approx(expected, abs=0.2)
    momentum = run.diagnostics["angular_momentum"]
    assert np.abs(momentum[-1] - momentum[0])[0] < 1e-12  # about x, the axis of the loads
    assert np.abs(run.diagnostics["momentum"][-1] - run.diagnostics["momentum"][0]).max() < 1e-12


def in_a_box(n: int = 30, **more: Any) -> Scene:
    """Rough spheres of three sizes thrown into a box."""
    rng = np.random.default_rng(3)
    cells = np.stack(np.unravel_index(np.arange(n), (n, 3, 3)), -1)[:, ::-1]
    centres = 0.55 + 1.1 * cells + rng.uniform(-0.03, 0.03, (n, 3))
    wide = 3.3
    walls = [Body(HalfSpace([0, 0, 1]), np.zeros(3), material="m")]
    for axis in (0, 1):
        e = np.eye(3)[axis]
        walls += [Body(HalfSpace(s * e), p * e, material="m") for s, p in ((1, 0.0), (-1, wide))]
    return Scene(
        [*walls, Spheres(centres=centres, radius=0.5, mass=1.0, material="m",
                         velocities=rng.uniform(-2.0, 2.0, (n, 3)))],
        dim=3, friction=0.4, gravity=[0.0, 0.0, -G],
        materials=[Material(name="m", stiffness=2e5, poisson=0.25, **more)],
    )  # fmt: skip


def stored(run: cdopt.Trajectory) -> np.ndarray:
    """Kinetic, potential and elastic energy of the recorded steps, J."""
    seen = run.diagnostics
    return seen["kinetic"] + seen["potential"] + seen["elastic"]


def test_forces_of_rough_spheres_in_a_box_stay_in_their_cones(tmp_path: Path) -> None:
    scene, path = in_a_box(rolling_friction=0.05, spinning_friction=0.02), tmp_path / "box.vtkhdf"
    dt, every = 2e-4, 250
    whole = cdopt.simulate(scene, dt, 1.0, METHOD, every=every, out=path)
    assert whole.diagnostics["friction"][-1] > 1.0
    cone = np.linalg.norm(whole.final.f_t, axis=1) - 0.4 * whole.final.f
    assert cone.max() <= 1e-12 * whole.final.f.max()
    # of the time step's order: the balance shows what it makes or loses
    assert np.all(stored(whole) + whole.diagnostics["dissipated"] <= 1.01 * stored(whole)[0])
    with pytest.raises(cdopt.InvalidInput, match="stiffness_ratio"):
        cdopt.simulate(scene, dt, 1.2, METHOD, every=every, out=path, resume=True,
                       stiffness_ratio=0.5)  # fmt: skip


@pytest.mark.slow
def test_energy_does_not_grow_in_a_hundred_thousand_steps() -> None:
    """What the integrator adds in collisions is less than what friction takes."""
    run = cdopt.simulate(in_a_box(), 1e-4, 10.0, METHOD, every=100)
    energy = stored(run)
    assert energy.max() <= energy[0] * (1.0 + 1e-10)
    assert run.diagnostics["friction"][-1] > 0.1 * energy[0]
    assert np.abs(run.diagnostics["balance"]).max() < 2e-3 * energy[0]


def test_rolling_resistance_slows_a_rolling_ball() -> None:
    """v̇ = −(5/7) μ_r g, until its spring holds it."""
    scene = on_a_floor(0.5, -0.5 / (R - G / K), rolling_friction=0.02)
    run = cdopt.simulate(scene, 2e-4, 1.0, METHOD, every=500)
    lever = R / (R - G / K)
    np.testing.assert_allclose(
        run.v[:, 1, 0], 0.5 - 5.0 / 7.0 * 0.02 * G * lever * run.t, atol=1e-3
    )
    stopped = cdopt.simulate(scene, 2e-4, 6.0, METHOD, every=30000)
    assert abs(stopped.final.v[1, 0]) < 1e-3
    free = cdopt.simulate(on_a_floor(0.5, -0.5 / (R - G / K)), 2e-4, 1.0, METHOD, every=5000)
    assert free.final.v[1, 0] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("coefficient", [None, 0.03])
def test_a_ball_that_spins_on_its_spot(coefficient: float | None) -> None:
    """Without spinning friction it does so for ever, with it ω̇ = −(5/2) μ_s g/R."""
    scene = on_a_floor(0.0, 0.0, spinning_friction=coefficient)
    ball = Body(Sphere(R), scene.bodies.position[1], mass=1.0, material="m",
                angular_velocity=[0.0, 0.0, 2.0])  # fmt: skip
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), np.zeros(3))
    scene = Scene([floor, ball], dim=3, materials=scene.materials, overlap_tol=1e-3)
    run = cdopt.simulate(scene, 2e-4, 1.0, METHOD, every=5000)
    rate = 2.5 * (coefficient or 0.0) * G / R
    assert run.final.v[1, 5] == pytest.approx(2.0 - rate, abs=2e-3)
    assert np.abs(np.delete(run.final.v[1], 5)).max() < 1e-9


def test_mindlins_ratio_and_the_time_step() -> None:
    pairs = np.array([[0, 1]])
    assert cdopt.collision.contacts.tangential_ratio(pressed(0.5), pairs) == pytest.approx(
        1.4 / 1.7
    )
    assert cdopt.collision.contacts.tangential_ratio(on_a_floor(0.0, 0.0), pairs) == 1.0
    scene = on_a_floor(0.0, 0.0)
    longest = 2.0 / np.sqrt(3.5 * K)
    with pytest.raises(cdopt.InvalidInput, match="unstable"):
        cdopt.simulate(scene, 1.01 * longest, 1.0, METHOD)
    cdopt.simulate(scene, 1.01 * longest, 0.01, METHOD, frictionless=True)
    with pytest.raises(cdopt.InvalidInput, match="rolling_friction"):
        Material(name="m", rolling_friction=-1.0)
