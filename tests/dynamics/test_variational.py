"""The elastic methods in time: orders, invariants, references, energy, agreement of paths."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynamic_scenes import (
    MASS,
    STIFFNESS,
    T_C,
    apart,
    ball,
    between_walls,
    bonded_hit,
    both_paths,
    cluster,
    falling,
    impact,
    mechanical,
    scene,
    wall,
)
from dynamic_scenes import order as fitted
from papers.de_klerk import ode
from papers.de_klerk.scenes import impact as first_touch

import cdopt
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.dynamics import analysis
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Spheres

DATA = Path(__file__).parents[1] / "data" / "de_klerk"
PATHS: list[dict[str, Any]] = [{}, {"path": "cvxpy"}]
SLOW = pytest.mark.slow


# --- orders and references -----------------------------------------------------------------


def head_on(t: FloatArray | float, gamma: float) -> FloatArray:
    """Velocity of the left sphere while the two touch, (32)–(34) corrected."""
    xi = 0.5 * gamma
    w = np.sqrt(2.0 * STIFFNESS / MASS - xi**2)
    return np.asarray(np.exp(-xi * t) * (np.cos(w * t) - xi / w * np.sin(w * t)))


@pytest.mark.parametrize(
    ("gamma", "finest", "settings", "order", "miss"),
    [
        *((gamma, 320, {"damping": "forced"}, 2.0, 0.15) for gamma in (0.0, 30.0, 300.0)),
        # at short steps, where the first-order part outweighs the other
        *((gamma, 5120, {"damping": "paper"}, 1.0, 0.1) for gamma in (100.0, 300.0)),
        *((gamma, 320, {"alpha": 0.0}, 1.0, 0.1) for gamma in (0.0, 100.0)),
    ],
)
def test_the_order_of_the_velocity_0_6_t_c_after_first_touch(
    gamma: float, finest: int, settings: dict[str, Any], order: float, miss: float
) -> None:
    steps, errors = finest // np.array([8, 4, 2, 1]), []
    for n in steps:
        h, count = T_C / n, round(0.6 * n)
        run = cdopt.simulate(impact(gamma), h, count * h, "variational", every=count, **settings)
        errors.append(run[-1].state.velocity[0, 0] - head_on(count * h, gamma))
    assert fitted(1.0 / steps, errors) == pytest.approx(order, abs=miss)


@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("gamma", [0, 30])
def test_energies_of_an_impact_against_the_stored_solution(gamma: int, offset: float) -> None:
    with np.load(DATA / "impact.npz") as stored:
        table = stored[f"P|dy={offset}|" + ("g0" if gamma == 0 else f"R1_gn={gamma}") + "|ODE"]
    t, h = table[:, 0] - table[0, 0], 1e-5  # the authors' step, t_c/160.7
    place = first_touch(float(gamma), offset)
    run = cdopt.simulate(place, h, t[-1], "variational", damping="paper")
    speed = (table[:, [3, 4, 8, 9]] ** 2).sum(axis=1)
    spin = (table[:, [5, 10]] ** 2).sum(axis=1)
    kinetic = 0.5 * MASS * (speed + 0.1 * spin)
    at = run.t <= t[-1]
    apart = np.abs(run.diagnostics["kinetic"][at] - np.interp(run.t[at], t, kinetic)).max()
    bend = np.abs(np.diff(kinetic, 2)).max() / 8.0  # what lines between the points are out by
    assert apart <= max(1e-4, gamma * h) * kinetic[0] + bend


@pytest.mark.parametrize("steps", [32, 160])
def test_velocity_verlet_between_walls_is_the_stored_one(steps: int) -> None:
    """The range of free-flight energies over 250 collisions, a frame in every flight of 6 t_c."""
    with np.load(DATA / "walls.npz") as stored:
        free = stored[f"h=tc/{steps}|Efree"]
    h = 1e-5 if steps == 160 else 5e-5
    run = cdopt.simulate(between_walls(), h, 3.08, "velocity-verlet", every=4 * steps)
    seen = run.diagnostics
    energy = seen["kinetic"][seen["contacts"] == 0] / seen["kinetic"][0]
    assert np.count_nonzero(np.diff(np.sign(run.v[:, 2, 0])) != 0) >= 249
    assert energy.min() >= free.min() - 1e-9
    assert energy.max() <= free.max() + 1e-9
    assert np.ptp(energy) >= 0.5 * np.ptp(free)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("ratio", [1.0, 0.1, 10.0])
def test_a_bonded_pair_that_is_hit(ratio: float, offset: float) -> None:
    """Forces of the collision and of the first oscillation within 1 %, its period within 0.1 %."""
    place, period = bonded_hit(ratio, offset), 2.0 * T_C / np.sqrt(ratio)  # of the free pair
    run = cdopt.simulate(place, T_C / 160, 1.2 * T_C + 2.5 * period, "variational")
    exact = ode.solve(place, run.t)
    assert exact.x.shape[0] == run.t.size
    ours, theirs = (
        1.0 - np.linalg.norm(x[:, :1] - x[:, 1:], axis=2) for x in (run.q[:, :, :3], exact.x)
    )
    hit = T_C + 1e-6
    first = run.t <= hit + 1.25 * period
    assert np.abs(ours - theirs)[first, 0].max() <= 0.01 * np.abs(theirs[:, 0]).max()
    pressed = np.maximum(ours[:, 1], 0.0), np.maximum(theirs[:, 1], 0.0)
    assert np.abs(pressed[0] - pressed[1]).max() <= 0.01 * pressed[1].max()
    later = run.t > 1.05 * hit + 0.25 * period
    found = [_period(run.t[later], stretch[later, 0]) for stretch in (ours, theirs)]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def _period(t: np.ndarray, stretch: np.ndarray) -> float:
    """Twice the mean time between extremes, vertices of the parabolas through them."""
    turned = np.diff(stretch)
    extremes = np.flatnonzero(turned[:-1] * turned[1:] < 0.0) + 1
    y0, y1, y2 = stretch[extremes - 1], stretch[extremes], stretch[extremes + 1]
    vertex = t[extremes] + 0.5 * (t[1] - t[0]) * (y0 - y2) / (y0 - 2.0 * y1 + y2)
    assert vertex.size >= 3
    return float(2.0 * np.diff(vertex).mean())


def test_a_bond_pulls_and_pushes() -> None:
    run = cdopt.simulate(bonded_hit(1.0, 0.0), T_C / 40, 6.0 * T_C, "variational")
    forces = np.array([frame.f[0] for frame in run if frame.nc])
    assert forces.max() > 100.0
    assert forces.min() < -100.0
    energy = analysis.total_energy(run)
    assert np.abs(energy / energy[0] - 1.0).max() < 5e-3


# --- invariants ----------------------------------------------------------------------------


def test_energy_between_walls() -> None:
    """Undamped; a flight takes over 6 t_c and keeps its energy: a frame every 4 t_c is enough."""
    flight = 0.01 + np.pi * np.sqrt(MASS / STIFFNESS)
    for steps, flights, bound in ((32, 80, 2e-3), (160, 10, 5e-5)):
        h, every = T_C / steps, 4 * steps
        run = cdopt.simulate(between_walls(), h, flights * flight, "variational", every=every)
        seen = run.diagnostics
        free = seen["contacts"] == 0
        energy = seen["kinetic"][free] / seen["kinetic"][0]
        assert np.diff(np.sign(run.v[:, 2, 0])[free]).nonzero()[0].size >= flights - 1
        assert np.abs(energy - 1.0).max() <= bound


def test_momentum_of_an_isolated_cluster() -> None:
    """2·10⁴ undamped steps of a bonded cluster that turns and shakes."""
    run = cdopt.simulate(cluster(bonds=True), T_C / 16, 2e4 * T_C / 16, "variational", every=10_000)
    seen = run.diagnostics
    assert np.abs(run[-1].state.position - run[0].state.position).max() > 1.0
    for name, bound in (("momentum", 1e-12), ("angular_momentum", 1e-10)):
        drift = np.linalg.norm(seen[name] - seen[name][0], axis=1).max()
        assert drift <= bound * np.linalg.norm(seen[name][0]), name
    energy = mechanical(run)
    assert np.abs(energy / energy[0] - 1.0).max() < 0.02


def test_undamped_steps_can_be_reversed() -> None:
    loose, h, how = cluster(bonds=False), T_C / 16, {"every": 1000}
    there = cdopt.simulate(loose, h, 1000 * h, "variational", **how)[-1].state
    back = Spheres(there.position, 0.5, velocities=-there.velocity, mass=MASS, material="grain")
    back = scene([back], overlap_tol=0.1)
    ended = cdopt.simulate(back, h, 1000 * h, "variational", **how)[-1].state
    assert np.abs(there.position - loose.initial.position).max() > 0.1
    assert np.abs(ended.position - loose.initial.position).max() <= 1e-8
    assert np.abs(ended.velocity + loose.initial.velocity).max() <= 1e-8


# --- paths agree ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "power"), [(2, 2.5), (3, 2.0)])
def test_paths_agree_on_spheres_in_a_box(dim: int, power: float) -> None:
    heap, h, duration = falling(9, dim=dim, fall=20.0, power=power), 4e-4, 0.006
    native, posed = both_paths(heap, h, duration)
    direct = cdopt.simulate(heap, h, duration, "variational", solver="direct")
    assert native.diagnostics["contacts"].max() >= 3
    assert apart(native, direct) <= 1e-9
    assert apart(native, posed) <= 1e-9
    np.testing.assert_allclose(native[-1].f, posed[-1].f, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(native[-1].contact_ids, posed[-1].contact_ids)
    np.testing.assert_allclose(native[-1].points, posed[-1].points, atol=1e-9)


@pytest.mark.slow
def test_explicit_steps_and_clarabel_agree_with_the_native_path() -> None:
    native, posed = both_paths(impact(100.0, 0.2), T_C / 8, 1.5 * T_C, alpha=0.0)
    assert apart(native, posed) <= 1e-9
    assert posed.ok
    clarabel = cdopt.backends.resolve("clarabel", accuracy=1e-12)
    runs = [
        cdopt.simulate(impact(30.0, 0.1), T_C / 16, 0.5 * T_C, "variational", **how)
        for how in ({}, {"path": "cvxpy", "backend": clarabel})
    ]
    assert apart(*runs) <= 1e-9


def test_a_box_in_the_plane_takes_variational_steps_through_cvxpy() -> None:
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material="grain")
    crate = Body(Box([0.4, 0.2]), [0.0, 0.138], angle=0.2, velocity=[0.0, -0.16], mass=1.0,
                 material="grain")  # fmt: skip
    steel = [Material(name="grain", stiffness=2e5)]
    place = scene([floor, crate], 2, [0.0, -9.8], materials=steel)
    run = cdopt.simulate(place, 4e-4, 0.01, "variational", path="cvxpy")
    energy = mechanical(run)
    assert run.ok
    assert run.diagnostics["contacts"].max() >= 1
    assert abs(run[-1].state.angular_velocity[1]) > 0.1
    assert np.abs(energy - energy[0]).max() <= 0.01 * run.diagnostics["kinetic"].max()


# --- runs ----------------------------------------------------------------------------------


def test_recording_less_often_changes_nothing() -> None:
    often, seldom = (
        cdopt.simulate(falling(20), 1e-4, 0.02, "variational", every=every) for every in (1, 100)
    )
    np.testing.assert_allclose(often.q[::100], seldom.q, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_frames_hold_forces_that_carry_the_weight() -> None:
    """Settled without tangential damping, whose viscous contacts would creep for long."""
    heap = falling(27, gamma=1500.0, tangential_damping=0.0)
    run = cdopt.simulate(heap, 2e-4, 6.0, "variational", every=1000)
    assert run.diagnostics["kinetic"][-1] < 1e-8
    assert -run[-1].body_forces()[0][2] == pytest.approx(27 * MASS * 9.8, rel=1e-6)
    assert run[-1].nc == run.diagnostics["contacts"][-1] > 27
    rest = cdopt.dynamics.equilibrium(heap, run[-1].state)
    assert np.abs(rest.state.position - run[-1].state.position).max() < 1e-6
    pressing = [f[f > 0.0] for f in (rest.forces, run[-1].f)]
    np.testing.assert_allclose(*pressing, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_2d_and_3d_agree_on_a_plane_impact(method: str) -> None:
    """A disc and a sphere of one mass have different inertia: compared without spin."""
    smooth, spinning = (
        [
            cdopt.simulate(impact(100.0, 0.3, dim, **how), T_C / 50, 1.5 * T_C, method, every=5)
            for dim in (2, 3)
        ]
        for how in ({"tangential_damping": 0.0}, {})
    )
    np.testing.assert_allclose(smooth[0].q[:, :, :2], smooth[1].q[:, :, :2], rtol=0, atol=1e-13)
    flat, deep = (run[-1].state.angular_velocity for run in spinning)
    assert np.abs(flat).max() > 0.0
    assert np.abs(deep[:, 2]).max() > 0.0
    assert np.abs(deep[:, :2]).max() == 0.0


# --- the balance of energy -----------------------------------------------------------------

HIGH = 0.5 - MASS * 9.8 / STIFFNESS  # a sphere at rest on a floor


def on_a_floor(drift: list[float], velocity: list[float], spin: float = 0.0, **more: Any) -> Scene:
    floor = wall([0.0, 1.0], [0.0, 0.0], velocity=drift)
    rolling = ball([0.0, HIGH], velocity, angular_velocity=spin, **more)
    return scene([floor, rolling], 2, [0.0, -9.8], damping=100.0, overlap_tol=1e-3)


@pytest.mark.parametrize("damping", [0.0, 100.0])
def test_linear_springs_balance_to_round_off(damping: float) -> None:
    """A bonded pair in a line: the energy is quadratic, and the step of α = ½ keeps it."""
    pair = [ball([0.0, 0.0], [1.0, 0.0]), ball([1.0, 0.0], [-1.0, 0.0])]
    tied = scene(pair, 2, bond_stiffness=STIFFNESS, damping=damping)
    run = cdopt.simulate(tied, T_C / 16, 10 * T_C, "variational")
    seen = run.diagnostics
    assert np.abs(seen["balance"]).max() <= 1e-11 * MASS
    lost = seen["kinetic"][0] - seen["kinetic"][-1] - seen["elastic"][-1]
    assert seen["dissipated"][-1] == pytest.approx(lost, abs=1e-11 * MASS)
    assert (lost > 0.1 * MASS) == (damping > 0.0)
    assert cdopt.dynamics.RunSummary.of(run).balance == np.abs(seen["balance"]).max()
    assert list(seen.to_frame()["balance"]) == list(seen["balance"])


@pytest.mark.slow
@pytest.mark.parametrize("settings", PATHS)
def test_loads_walls_and_dashpots_are_in_the_balance(settings: dict[str, Any]) -> None:
    lifted = on_a_floor([0.0, 2.0], [0.0, 0.0], force=[3.0, 0.0])
    seen = cdopt.simulate(lifted, 1e-5, 2e-3, "variational", every=20, **settings).diagnostics
    assert seen["work"][-1] > 1.0
    assert seen["dissipated"][-1] > 0.1
    assert np.abs(seen["balance"]).max() <= 1e-6 * seen["work"][-1]


@pytest.mark.parametrize(
    ("method", "settings", "damping"),
    [
        ("variational", {}, 0.0),
        ("variational", {"damping": "paper", "alpha": 0.3}, 100.0),
        pytest.param("variational", {"path": "cvxpy"}, 100.0, marks=SLOW),
        ("velocity-verlet", {}, 0.0),
        ("velocity-verlet", {}, 100.0),
    ],
)
def test_all_but_round_off_of_the_balance_is_the_error_of_the_scheme(
    method: str, settings: dict[str, Any], damping: float
) -> None:
    moving = on_a_floor([0.0, 2.0], [0.0, 0.0], force=[3.0, 0.0])
    for place, dt, duration in (
        (impact(damping, 0.3), T_C / 16, 1.5 * T_C),
        (moving, 1e-5, 2e-4),
    ):
        seen = cdopt.simulate(place, dt, duration, method, **settings).diagnostics
        unit = max(np.abs(seen[name]).max() for name in ("kinetic", "potential", "elastic", "work"))
        np.testing.assert_allclose(seen["balance"], seen["scheme_error"], rtol=0, atol=1e-14 * unit)
        assert place is moving or np.abs(seen["scheme_error"]).max() > 1e-6 * unit


def test_the_balance_converges() -> None:
    runs = [cdopt.simulate(impact(100.0, 0.3), T_C / n, T_C, "velocity-verlet") for n in (16, 32)]
    coarse, fine = (np.abs(run.diagnostics["balance"]).max() for run in runs)
    assert fine < 0.6 * coarse


def test_steps_that_do_not_resolve_collisions_are_refused_unless_asked() -> None:
    for place, ratio in ((impact(), 1.0), (bonded_hit(10.0, 0.0), 10.0)):
        longest = 2.0 / np.pi / np.sqrt(ratio)
        with pytest.raises(InvalidInput, match="collisions are not resolved"):
            cdopt.simulate(place, 1.001 * longest * T_C, 4 * T_C, "variational")
        cdopt.simulate(place, 0.999 * longest * T_C, longest * T_C, "variational")
    run = cdopt.simulate(impact(), 1.24 * T_C, 8 * T_C, "variational", allow_long_steps=True)
    seen = run.diagnostics
    changed = seen["kinetic"][-1] - seen["kinetic"][0]
    assert abs(changed) > 0.5 * seen["kinetic"][0]
    assert seen["balance"][-1] == pytest.approx(changed)


@pytest.mark.parametrize(("steps", "warned"), [(4.5, True), (5.5, False)])
def test_coarse_steps_are_warned_of(steps: float, warned: bool, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="cdopt.dynamics"):
        cdopt.simulate(impact(), T_C / steps, T_C, "variational")
    assert ("shortest collision" in caplog.text) == warned


@pytest.mark.parametrize("settings", PATHS)
def test_a_sphere_that_rolls_on_a_wall_is_not_slowed_down(settings: dict[str, Any]) -> None:
    """Levers |r|/2 would end at half the speed of rolling."""
    rolling = on_a_floor([0.0, 0.0], [1.0, 0.0], -1.0 / HIGH)
    run = cdopt.simulate(rolling, 1e-4, 2e-3, "variational", **settings)
    np.testing.assert_allclose(run.v[-1, 1], [1.0, 0.0, -1.0 / HIGH], rtol=1e-6, atol=1e-6)
