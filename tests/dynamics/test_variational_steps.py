"""The variational integrator in time: orders, invariants, and agreement of its paths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elastic_scenes import MASS, STIFFNESS, T_C, between_walls, cluster, impact, in_a_box

import cdopt
from cdopt._util.checks import FloatArray
from cdopt.dynamics import Trajectory


def head_on(t: FloatArray | float, gamma: float) -> FloatArray:
    """Velocity of the left sphere while the two touch, (32)–(34) corrected."""
    xi = 0.5 * gamma
    w = np.sqrt(2.0 * STIFFNESS / MASS - xi**2)
    return np.asarray(np.exp(-xi * t) * (np.cos(w * t) - xi / w * np.sin(w * t)))


def order(gamma: float, **settings: object) -> float:
    """Fitted order of the velocity 0.6 t_c after first touch."""
    steps, errors = np.array([40, 80, 160, 320]), []
    for n in steps:
        h = T_C / n
        count = round(0.6 * n)
        run = cdopt.simulate(impact(gamma), h, count * h, "variational", every=count, **settings)
        errors.append(abs(run[-1].state.velocity[0, 0] - head_on(count * h, gamma)))
    return float(np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0])


def test_order_two_without_damping() -> None:
    assert order(0.0) == pytest.approx(2.0, abs=0.15)


def test_order_two_with_damping_in_the_forced_split() -> None:
    for gamma in (30.0, 300.0):
        assert order(gamma, damping="forced") == pytest.approx(2.0, abs=0.15)


def test_order_one_with_damping_in_the_papers_split() -> None:
    finer = {gamma: paper_order(gamma) for gamma in (100.0, 300.0)}
    for gamma, found in finer.items():
        assert found == pytest.approx(1.0, abs=0.1), gamma


def paper_order(gamma: float) -> float:
    """The same where the first-order part outweighs the other: short steps."""
    steps, errors = np.array([640, 1280, 2560, 5120]), []
    for n in steps:
        h = T_C / n
        count = round(0.6 * n)
        run = cdopt.simulate(
            impact(gamma), h, count * h, "variational", every=count, damping="paper"
        )
        errors.append(abs(run[-1].state.velocity[0, 0] - head_on(count * h, gamma)))
    return float(np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0])


@pytest.mark.parametrize("gamma", [0.0, 100.0])
def test_order_one_with_alpha_zero(gamma: float) -> None:
    assert order(gamma, alpha=0.0) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("split", ["paper", "forced"])
@pytest.mark.parametrize("gamma", [0.0, 30.0, 100.0, 300.0])
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
    """250 undamped collisions, a frame in every flight; velocity-Verlet's are compared elsewhere.

    A flight takes over 6 t_c and keeps its energy, so a frame every 4 t_c misses nothing.
    """
    flight = 0.01 + np.pi * np.sqrt(MASS / STIFFNESS)
    for steps, bound in ((32, 2e-3), (160, 5e-5)):
        run = cdopt.simulate(
            between_walls(), T_C / steps, 250 * flight, "variational", every=4 * steps
        )
        seen = run.diagnostics
        free = seen["contacts"] == 0
        hits = np.diff(np.sign(run.v[:, 2, 0])[free]).nonzero()[0]
        energy = seen["kinetic"][free] / seen["kinetic"][0]
        assert hits.size >= 249
        assert np.abs(energy - 1.0).max() <= bound


def test_momentum_of_an_isolated_cluster() -> None:
    """10⁵ undamped steps of a bonded cluster that turns and shakes."""
    run = cdopt.simulate(cluster(bonds=True), T_C / 16, 1e5 * T_C / 16, "variational", every=50_000)
    seen = run.diagnostics
    moved = np.abs(run[-1].state.position - run[0].state.position).max()
    assert moved > 1.0
    for name, bound in (("momentum", 1e-12), ("angular_momentum", 1e-10)):
        drift = np.linalg.norm(seen[name] - seen[name][0], axis=1).max()
        assert drift <= bound * np.linalg.norm(seen[name][0]), name
    energy = seen["kinetic"] + seen["elastic"]
    assert np.abs(energy / energy[0] - 1.0).max() < 0.02


def test_undamped_steps_can_be_reversed() -> None:
    scene = cluster(bonds=False)
    h = T_C / 16
    there = cdopt.simulate(scene, h, 1000 * h, "variational", every=1000)[-1].state
    turned = turned_round(scene, there)
    back = cdopt.simulate(turned, h, 1000 * h, "variational", every=1000)[-1].state
    assert np.abs(there.position - scene.initial.position).max() > 0.1
    assert np.abs(back.position - scene.initial.position).max() <= 1e-8
    assert np.abs(back.velocity + scene.initial.velocity).max() <= 1e-8


def turned_round(scene: cdopt.scene.Scene, state: cdopt.scene.State) -> cdopt.scene.Scene:
    """The same bodies where they are now, going back."""
    return cdopt.scene.Scene(
        [
            cdopt.scene.Spheres(
                centres=state.position, velocities=-state.velocity, radius=0.5, mass=MASS,
                material="grain",
            )
        ],
        dim=3,
        gravity=np.zeros(3),
        materials=scene.materials,
        overlap_tol=0.1,
    )  # fmt: skip


# --- paths agree ---------------------------------------------------------------------------


def apart(one: Trajectory, two: Trajectory) -> float:
    return float(max(np.abs(one.q - two.q).max(), np.abs(one.v - two.v).max()))


@pytest.mark.parametrize("split", ["paper", "forced"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5])
def test_native_and_cvxpy_agree_on_an_impact(alpha: float, split: str) -> None:
    scene = impact(100.0, offset=0.2)
    h = T_C / 16
    native = cdopt.simulate(scene, h, 1.5 * T_C, "variational", alpha=alpha, damping=split)
    posed = cdopt.simulate(
        scene, h, 1.5 * T_C, "variational", alpha=alpha, damping=split, path="cvxpy"
    )
    assert apart(native, posed) <= 1e-9
    assert posed.ok


def test_clarabel_takes_the_same_steps() -> None:
    scene = impact(30.0, offset=0.1)
    native = cdopt.simulate(scene, T_C / 16, T_C, "variational")
    posed = cdopt.simulate(
        scene, T_C / 16, T_C, "variational", path="cvxpy",
        backend=cdopt.backends.resolve("clarabel", accuracy=1e-12),
    )  # fmt: skip
    assert apart(native, posed) <= 1e-9


@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("dim", [2, 3])
def test_paths_agree_on_spheres_in_a_box(dim: int, power: float) -> None:
    loose = in_a_box(9, dim=dim, seed=3)
    scene = cdopt.scene.Scene(
        [*_walls(loose), _fallen(loose, 20.0)], dim=dim, gravity=loose.gravity,
        materials=loose.materials, damping=100.0, power=power,
    )  # fmt: skip
    h, duration = 2e-4, 0.006
    native = cdopt.simulate(scene, h, duration, "variational")
    direct = cdopt.simulate(scene, h, duration, "variational", solver="direct")
    posed = cdopt.simulate(scene, h, duration, "variational", path="cvxpy")
    assert native.diagnostics["contacts"].max() >= 3
    assert apart(native, direct) <= 1e-9
    assert apart(native, posed) <= 1e-9
    np.testing.assert_allclose(native[-1].f, posed[-1].f, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(native[-1].contact_ids, posed[-1].contact_ids)
    np.testing.assert_allclose(native[-1].points, posed[-1].points, atol=1e-9)


def _walls(scene: cdopt.scene.Scene) -> list[cdopt.scene.Body]:
    table = scene.bodies.table(cdopt.scene.HalfSpace)
    assert table is not None
    return [
        cdopt.scene.Body(cdopt.scene.HalfSpace(n), scene.bodies.position[k], material="grain")
        for k, n in zip(table.body, table.columns["normal"], strict=True)
    ]


def _fallen(scene: cdopt.scene.Scene, speed: float) -> cdopt.scene.Spheres:
    """The spheres on their way down, faster the higher they are, so that all collide soon."""
    centres = scene.initial.position[~scene.bodies.fixed]
    falling = np.zeros_like(centres)
    falling[:, -1] = -speed * (1.0 + 2.0 * centres[:, -1])
    return cdopt.scene.Spheres(
        centres=centres, velocities=falling, radius=0.5, mass=MASS, material="grain"
    )


def test_a_moving_wall_takes_spheres_along() -> None:
    """A floor that rises at constant speed: the same motion as in the frame of the floor."""
    rising = cdopt.scene.Scene(
        [
            cdopt.scene.Body(
                cdopt.scene.HalfSpace([0.0, 1.0]), [0.0, 0.0], velocity=[0.0, 2.0], material="grain"
            ),
            cdopt.scene.Body(cdopt.scene.Sphere(0.5), [0.0, 0.5], mass=MASS, material="grain"),
        ],
        dim=2, gravity=[0.0, -9.8], materials=impact().materials, damping=100.0,
    )  # fmt: skip
    still = cdopt.scene.Scene(
        [
            cdopt.scene.Body(cdopt.scene.HalfSpace([0.0, 1.0]), [0.0, 0.0], material="grain"),
            cdopt.scene.Body(
                cdopt.scene.Sphere(0.5), [0.0, 0.5], velocity=[0.0, -2.0], mass=MASS,
                material="grain",
            ),
        ],
        dim=2, gravity=[0.0, -9.8], materials=impact().materials, damping=100.0,
    )  # fmt: skip
    for path in ("native", "cvxpy"):
        runs = [
            cdopt.simulate(scene, 1e-4, 3e-3, "variational", path=path) for scene in (rising, still)
        ]
        t = runs[0].t
        height = [run.q[:, 1, 1] for run in runs]
        assert np.abs(height[0] - 2.0 * t - height[1]).max() <= 1e-10


def test_a_box_in_the_plane_takes_variational_steps_through_cvxpy() -> None:
    steel = cdopt.scene.Material(name="steel", stiffness=2e5)
    scene = cdopt.scene.Scene(
        [
            cdopt.scene.Body(cdopt.scene.HalfSpace([0.0, 1.0]), [0.0, 0.0], material="steel"),
            cdopt.scene.Body(
                cdopt.scene.Box([0.4, 0.2]), [0.0, 0.138], angle=0.2, velocity=[0.0, -0.16],
                mass=1.0, material="steel",
            ),
        ],
        dim=2, gravity=[0.0, -9.8], materials=[steel],
    )  # fmt: skip
    run = cdopt.simulate(scene, 2e-4, 0.02, "variational", path="cvxpy")
    seen = run.diagnostics
    energy = seen["kinetic"] + seen["potential"] + seen["elastic"]
    assert run.ok
    assert seen["contacts"].max() >= 1
    assert abs(run[-1].state.angular_velocity[1]) > 0.1
    assert np.abs(energy - energy[0]).max() <= 0.01 * seen["kinetic"].max()


# --- runs ----------------------------------------------------------------------------------


def test_a_run_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    scene = in_a_box(20)
    for method in ("variational", "velocity-verlet"):
        h = T_C / 32
        whole = cdopt.simulate(scene, h, 400 * h, method, every=40)
        file = tmp_path / f"{method}.vtkhdf"
        cdopt.simulate(scene, h, 160 * h, method, every=40, out=file)
        going_on = cdopt.simulate(scene, h, 400 * h, method, every=40, out=file, resume=True)
        np.testing.assert_array_equal(whole.q, going_on.q)
        np.testing.assert_array_equal(whole.v, going_on.v)
        np.testing.assert_array_equal(whole.diagnostics["elastic"], going_on.diagnostics["elastic"])
        np.testing.assert_array_equal(whole.diagnostics["step"], going_on.diagnostics["step"])


def test_recording_less_often_changes_nothing() -> None:
    scene = in_a_box(20)
    often = cdopt.simulate(scene, 1e-4, 0.02, "variational", every=1)
    seldom = cdopt.simulate(scene, 1e-4, 0.02, "variational", every=100)
    np.testing.assert_allclose(often.q[::100], seldom.q, rtol=0, atol=1e-12)


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
    runs = [
        cdopt.simulate(impact(100.0, 0.3, dim), T_C / 50, 1.5 * T_C, method, every=5)
        for dim in (2, 3)
    ]
    flat, deep = runs
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
