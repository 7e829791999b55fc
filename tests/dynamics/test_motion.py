"""The motion of a few bodies: momentum, restitution, order, energy, and what fixed bodies bear."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cdopt

DT = 1e-3


def energy(trajectory: cdopt.Trajectory) -> np.ndarray:
    seen = trajectory.diagnostics
    return seen["kinetic"] + seen["potential"]


# --- collisions ----------------------------------------------------------------------------


@pytest.mark.parametrize(("restitution", "dim"), [(0.5, 2), (0.0, 3)])
def test_a_collision_keeps_momentum(restitution: float, dim: int) -> None:
    scene = cdopt.scene.collision(
        restitution, masses=(1.0, 3.0), speeds=(1.2, -0.7), offset=0.07, dim=dim
    )
    seen = cdopt.simulate(scene, DT, 0.04).diagnostics
    for name in ("momentum", "angular_momentum"):
        drift = np.abs(seen[name] - seen[name][0]).max()
        # a plastic contact that goes on turns by first order steps: its lever changes by dt
        allowed = 1e-12 if name == "momentum" or restitution > 0.0 else 1e-3
        assert drift < allowed, name
    assert seen["contacts"].max() == 1


@pytest.mark.slow
@given(gap=st.floats(0.0, 5e-3), restitution=st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=10)
def test_restitution_is_exact_at_any_phase_of_the_step(gap: float, restitution: float) -> None:
    scene = cdopt.scene.collision(restitution, masses=(1.0, 2.0), speeds=(1.0, -0.5), gap=gap)
    done = cdopt.simulate(scene, DT, 8e-3, method="classic-cd", backend="newton")
    left, right = done.final.v[:, 0]
    assert right - left == pytest.approx(restitution * 1.5, abs=1e-10)
    assert left + 2.0 * right == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_two_dimensions_and_three_agree_on_planar_scenes() -> None:
    ends = []
    for dim in (2, 3):
        scene = cdopt.scene.collision(0.5, masses=(1.0, 3.0), offset=0.06, dim=dim)
        ends.append(cdopt.simulate(scene, DT, 0.03, backend="newton", classic_backend="newton"))
    np.testing.assert_allclose(ends[0].v[:, :, :2], ends[1].v[:, :, :2], rtol=0, atol=1e-12)
    np.testing.assert_allclose(ends[0].q[:, :, :2], ends[1].q[:, :, :2], rtol=0, atol=1e-12)
    boxes = [
        cdopt.simulate(cdopt.scene.box_on_floor(dim=dim, gap=2e-3), DT, 0.03, backend="newton",
                       classic_backend="newton")
        for dim in (2, 3)
    ]  # fmt: skip
    flat, space = boxes
    np.testing.assert_allclose(flat.v[:, :, :2], space.v[:, :, [0, 2]], rtol=0, atol=1e-9)
    np.testing.assert_allclose(flat.v[:, :, 2], -space.v[:, :, 4], rtol=0, atol=1e-9)


# --- a bouncing ball -----------------------------------------------------------------------


def apexes(e: float, height: float, dt: float) -> np.ndarray:
    """Heights of the first two apexes after bounces, over the e²ⁿ h they ought to have."""
    fall = np.sqrt(2.0 * height / 9.81)
    until = fall * (1.0 + 2.0 * e + 1.3 * e**2)
    scene = cdopt.scene.bouncing_ball(e, height=height, radius=0.1)
    done = cdopt.simulate(scene, dt, until, method="classic-cd")
    clear = done.q[:, 1, 1] - 0.1
    hits = np.array([k for k, frame in enumerate(done) if frame.nc and frame.f[0] > 0.0])
    tops = [clear[hits[0] : hits[1]].max(), clear[hits[1] :].max()]
    return np.array(tops) / (height * e ** (2.0 * np.arange(1, 3)))


@pytest.mark.slow
def test_apexes_of_a_bouncing_ball_follow_e_squared_to_the_order_of_the_scheme() -> None:
    steps = np.array([8e-3, 4e-3, 2e-3, 1e-3])
    heights = (0.05, 0.061)  # two, for the error also depends on where in a step the ball lands
    errors = [
        np.mean([np.abs(apexes(0.7, height, dt) - 1.0).max() for height in heights]) for dt in steps
    ]
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 0.8 < order < 1.4, errors
    assert errors[-1] < 0.08


# --- energy --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_energy_never_grows_without_restitution(dim: int) -> None:
    scene = cdopt.scene.random_packing(20, dim=dim)
    done = cdopt.simulate(scene, 2e-3, 0.1)
    total = energy(done)
    assert np.diff(total).max() <= 1e-7 * np.abs(total).max()


def test_kinetic_energy_counts_turning_about_the_bodys_own_axes() -> None:
    turned = [np.cos(0.4), 0.0, 0.0, np.sin(0.4)]
    spin = np.array([0.3, -0.2, 0.5])
    box = cdopt.scene.Body(
        cdopt.scene.Box([0.4, 0.2, 0.1]), [0.1, 0.2, 0.3], mass=2.0, orientation=turned,
        velocity=[1.0, 0.0, 0.0], angular_velocity=spin,
    )  # fmt: skip
    scene = cdopt.scene.Scene([box], dim=3, gravity=[0.0, 0.0, 0.0])
    seen = cdopt.simulate(scene, 1e-4, 1e-3).diagnostics
    J = cdopt.collision.mass_matrix(scene, scene.initial).toarray()[3:, 3:]
    assert seen["kinetic"][0] == pytest.approx(1.0 + 0.5 * spin @ J @ spin, rel=1e-12)
    momentum = np.cross([0.1, 0.2, 0.3], [2.0, 0.0, 0.0]) + J @ spin
    np.testing.assert_allclose(seen["angular_momentum"][0], momentum, rtol=1e-12)
    np.testing.assert_allclose(seen["angular_momentum"][-1], momentum, atol=1e-7)


# --- what fixed bodies bear ----------------------------------------------------------------


def test_the_beam_settles_on_its_supports() -> None:
    shares = [2.0, 6.0, 2.0]
    done = cdopt.simulate(cdopt.scene.beam(3.0), DT, 0.03)
    np.testing.assert_allclose(done.final.f, shares, atol=1e-7)
    on_supports = -done.final.body_forces()[1:, 1]
    np.testing.assert_allclose(on_supports, shares, atol=1e-7)
    np.testing.assert_allclose(done.final.body_forces().sum(axis=0), 0.0, atol=1e-12)
    assert np.diff(energy(done)).max() <= 1e-12


def test_a_rising_floor_takes_the_ball_with_it() -> None:
    done = cdopt.simulate(cdopt.scene.sphere_on_floor(floor_speed=0.3), DT, 0.01)
    np.testing.assert_allclose(done.final.v[:, 1], 0.3, atol=1e-12)
    assert done.final.q[0, 1] == pytest.approx(0.3 * 0.01)
    assert done.final.f == pytest.approx([9.81])
    assert done.final.body_forces().shape == (2, 2)
