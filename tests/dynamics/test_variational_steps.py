"""The variational integrator in time: orders, invariants, and agreement of its paths."""

from __future__ import annotations

import numpy as np
import pytest
from elastic_scenes import (
    MASS,
    STIFFNESS,
    T_C,
    ball,
    between_walls,
    cluster,
    impact,
    in_a_box,
    scene,
    wall,
)
from grain_mixtures import apart, both_paths

import cdopt
from cdopt._util.checks import FloatArray
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Spheres


def head_on(t: FloatArray | float, gamma: float) -> FloatArray:
    """Velocity of the left sphere while the two touch, (32)–(34) corrected."""
    xi = 0.5 * gamma
    w = np.sqrt(2.0 * STIFFNESS / MASS - xi**2)
    return np.asarray(np.exp(-xi * t) * (np.cos(w * t) - xi / w * np.sin(w * t)))


def order(gamma: float, finest: int, **settings: object) -> float:
    """Fitted order of the velocity 0.6 t_c after first touch, at up to ``finest`` steps in t_c."""
    steps, errors = finest // np.array([8, 4, 2, 1]), []
    for n in steps:
        h = T_C / n
        count = round(0.6 * n)
        run = cdopt.simulate(impact(gamma), h, count * h, "variational", every=count, **settings)
        errors.append(abs(run[-1].state.velocity[0, 0] - head_on(count * h, gamma)))
    return float(np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0])


@pytest.mark.parametrize("gamma", [0.0, 30.0, 300.0])
def test_order_two_in_the_forced_split(gamma: float) -> None:
    assert order(gamma, 320, damping="forced") == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("gamma", [100.0, 300.0])
def test_order_one_with_damping_in_the_papers_split(gamma: float) -> None:
    """At short steps, where the first-order part outweighs the other."""
    assert order(gamma, 5120, damping="paper") == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("gamma", [0.0, 100.0])
def test_order_one_with_alpha_zero(gamma: float) -> None:
    assert order(gamma, 320, alpha=0.0) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("split", ["paper", "forced"])
@pytest.mark.parametrize("gamma", [0.0, 100.0])
def test_kinetic_energy_of_an_impact(gamma: float, split: str) -> None:
    h = T_C / 160
    run = cdopt.simulate(impact(gamma), h, T_C, "variational", damping=split)
    t, kinetic = run.diagnostics["time"], run.diagnostics["kinetic"]
    w = np.sqrt(2.0 * STIFFNESS / MASS - 0.25 * gamma**2)
    during = t <= np.pi / w
    error = np.abs(kinetic - MASS * head_on(t, gamma) ** 2)[during].max() / kinetic[0]
    assert error <= max(1e-4, gamma * h)
    assert error > 1e-6  # an integrator, not the solution


def test_energy_between_walls() -> None:
    """Undamped collisions, a frame in every flight; velocity-Verlet's are compared elsewhere.

    A flight takes over 6 t_c and keeps its energy, so a frame every 4 t_c misses nothing.
    """
    flight = 0.01 + np.pi * np.sqrt(MASS / STIFFNESS)
    for steps, flights, bound in ((32, 80, 2e-3), (160, 10, 5e-5)):
        run = cdopt.simulate(
            between_walls(), T_C / steps, flights * flight, "variational", every=4 * steps
        )
        seen = run.diagnostics
        free = seen["contacts"] == 0
        hits = np.diff(np.sign(run.v[:, 2, 0])[free]).nonzero()[0]
        energy = seen["kinetic"][free] / seen["kinetic"][0]
        assert hits.size >= flights - 1
        assert np.abs(energy - 1.0).max() <= bound


def test_momentum_of_an_isolated_cluster() -> None:
    """2·10⁴ undamped steps of a bonded cluster that turns and shakes."""
    run = cdopt.simulate(cluster(bonds=True), T_C / 16, 2e4 * T_C / 16, "variational", every=10_000)
    seen = run.diagnostics
    moved = np.abs(run[-1].state.position - run[0].state.position).max()
    assert moved > 1.0
    for name, bound in (("momentum", 1e-12), ("angular_momentum", 1e-10)):
        drift = np.linalg.norm(seen[name] - seen[name][0], axis=1).max()
        assert drift <= bound * np.linalg.norm(seen[name][0]), name
    energy = seen["kinetic"] + seen["elastic"]
    assert np.abs(energy / energy[0] - 1.0).max() < 0.02


def test_undamped_steps_can_be_reversed() -> None:
    loose = cluster(bonds=False)
    h = T_C / 16
    there = cdopt.simulate(loose, h, 1000 * h, "variational", every=1000)[-1].state
    turned = Spheres(
        there.position, velocities=-there.velocity, radius=0.5, mass=MASS, material="grain"
    )
    returning = scene([turned], overlap_tol=0.1)
    back = cdopt.simulate(returning, h, 1000 * h, "variational", every=1000)[-1].state
    assert np.abs(there.position - loose.initial.position).max() > 0.1
    assert np.abs(back.position - loose.initial.position).max() <= 1e-8
    assert np.abs(back.velocity + loose.initial.velocity).max() <= 1e-8


# --- paths agree ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "split"), [(0.0, "forced"), (0.3, "paper"), (0.3, "forced")])
def test_native_and_cvxpy_agree_on_an_impact(alpha: float, split: str) -> None:
    scene = impact(100.0, offset=0.2)
    native, posed = both_paths(scene, T_C / 8, 1.5 * T_C, alpha=alpha, damping=split)
    assert apart(native, posed) <= 1e-9
    assert posed.ok


@pytest.mark.slow
def test_clarabel_takes_the_same_steps() -> None:
    scene, clarabel = impact(30.0, offset=0.1), cdopt.backends.resolve("clarabel", accuracy=1e-12)
    native = cdopt.simulate(scene, T_C / 16, 0.5 * T_C, "variational")
    posed = cdopt.simulate(
        scene, T_C / 16, 0.5 * T_C, "variational", path="cvxpy", backend=clarabel
    )
    assert apart(native, posed) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "power"), [(2, 2.5), (3, 2.0)])
def test_paths_agree_on_spheres_in_a_box(dim: int, power: float) -> None:
    falling = in_a_box(9, dim=dim, seed=3, fall=20.0, power=power)
    h, duration = 4e-4, 0.006
    native, posed = both_paths(falling, h, duration)
    direct = cdopt.simulate(falling, h, duration, "variational", solver="direct")
    assert native.diagnostics["contacts"].max() >= 3
    assert apart(native, direct) <= 1e-9
    assert apart(native, posed) <= 1e-9
    np.testing.assert_allclose(native[-1].f, posed[-1].f, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(native[-1].contact_ids, posed[-1].contact_ids)
    np.testing.assert_allclose(native[-1].points, posed[-1].points, atol=1e-9)


def test_a_moving_wall_takes_spheres_along() -> None:
    """A floor that rises at constant speed: the same motion as in the frame of the floor."""
    runs = []
    for path in ("native", "cvxpy"):
        for up in (2.0, 0.0):
            floor = wall([0.0, 1.0], [0.0, 0.0], velocity=[0.0, up])
            falling = ball([0.0, 0.5], [0.0, up - 2.0])
            place = scene([floor, falling], 2, [0.0, -9.8], damping=100.0)
            run = cdopt.simulate(place, 3e-4, 1.5e-3, "variational", path=path)
            runs.append(run.q[:, 1, 1] - up * run.t)
    assert np.ptp(runs, axis=0).max() <= 1e-10


def test_a_box_in_the_plane_takes_variational_steps_through_cvxpy() -> None:
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material="steel")
    box = Body(
        Box([0.4, 0.2]), [0.0, 0.138], angle=0.2, velocity=[0.0, -0.16], mass=1.0, material="steel"
    )
    steel = Material(name="steel", stiffness=2e5)
    scene = Scene([floor, box], dim=2, gravity=[0.0, -9.8], materials=[steel])
    run = cdopt.simulate(scene, 4e-4, 0.01, "variational", path="cvxpy")
    seen = run.diagnostics
    energy = seen["kinetic"] + seen["potential"] + seen["elastic"]
    assert run.ok
    assert seen["contacts"].max() >= 1
    assert abs(run[-1].state.angular_velocity[1]) > 0.1
    assert np.abs(energy - energy[0]).max() <= 0.01 * seen["kinetic"].max()


# --- runs ----------------------------------------------------------------------------------


def test_recording_less_often_changes_nothing() -> None:
    scene = in_a_box(20)
    often = cdopt.simulate(scene, 1e-4, 0.02, "variational", every=1)
    seldom = cdopt.simulate(scene, 1e-4, 0.02, "variational", every=100)
    np.testing.assert_allclose(often.q[::100], seldom.q, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_frames_hold_forces_that_carry_the_weight() -> None:
    """Settled without tangential damping, whose viscous contacts would creep for long."""
    scene = in_a_box(27, gamma=1500.0, tangential_damping=0.0)
    run = cdopt.simulate(scene, 2e-4, 6.0, "variational", every=1000)
    weight = 27 * MASS * 9.8
    floor = run[-1].body_forces()[0]
    assert run.diagnostics["kinetic"][-1] < 1e-8
    assert -floor[2] == pytest.approx(weight, rel=1e-6)
    assert run[-1].nc == run.diagnostics["contacts"][-1] > 27
    rest = cdopt.dynamics.equilibrium(scene, run[-1].state)
    assert np.abs(rest.state.position - run[-1].state.position).max() < 1e-6
    touching = rest.forces > 0.0
    np.testing.assert_allclose(
        rest.forces[touching], run[-1].f[run[-1].f > 0.0], rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_2d_and_3d_agree_on_a_plane_impact(method: str) -> None:
    flat, deep = (
        cdopt.simulate(impact(100.0, 0.3, dim), T_C / 50, 1.5 * T_C, method, every=5)
        for dim in (2, 3)
    )
    # a disc and a sphere of one mass have different inertia: compare without spin
    free = [
        cdopt.simulate(
            impact(100.0, 0.3, dim, tangential_damping=0.0), T_C / 50, 1.5 * T_C, method, every=5
        )
        for dim in (2, 3)
    ]
    np.testing.assert_allclose(free[0].q[:, :, :2], free[1].q[:, :, :2], rtol=0, atol=1e-13)
    assert np.abs(flat[-1].state.angular_velocity).max() > 0.0
    assert np.abs(deep[-1].state.angular_velocity[:, 2]).max() > 0.0
    assert np.abs(deep[-1].state.angular_velocity[:, :2]).max() == 0.0
