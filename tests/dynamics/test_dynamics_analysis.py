"""What is read off a run: against diagnostics, known collisions, and stored statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.dynamics import analysis
from cdopt.dynamics.analysis import Motion
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere

DATA = Path(__file__).parent.parent / "data" / "de_klerk"


@pytest.fixture(scope="module", params=[2, 3])
def tumbling(request: pytest.FixtureRequest) -> cdopt.dynamics.Trajectory:
    """A fixed sphere, a box that turns and falls, and a sphere that meets the floor."""
    dim = request.param
    spin = 3.0 if dim == 2 else [3.0, -1.0, 2.0]
    place = np.eye(3)[:dim] if dim == 3 else np.eye(2)
    scene = Scene(
        [
            Body(HalfSpace(place[-1]), np.zeros(dim)),
            Body(Sphere(0.1), 5.0 * place[0], fixed=True),
            Body(Box([0.4, 0.3, 0.2][:dim]), place[-1], velocity=2.0 * place[0], mass=2.0,
                 angular_velocity=spin),
            Body(Sphere(0.1), 0.11 * place[-1] - place[0], mass=0.5, velocity=-0.3 * place[-1],
                 angular_velocity=spin),
        ],
        dim=dim,
    )  # fmt: skip
    return cdopt.simulate(scene, 1e-3, 0.05, "classic-cd", every=5)


def test_energies_and_momenta_are_those_of_the_diagnostics(tumbling) -> None:
    rows = tumbling.steps
    known = tumbling.diagnostics
    kinetic = analysis.translational_energy(tumbling) + analysis.rotational_energy(tumbling)
    np.testing.assert_allclose(kinetic, known["kinetic"][rows], rtol=1e-12)
    assert (analysis.rotational_energy(tumbling) > 0.0).all()
    np.testing.assert_allclose(analysis.momentum(tumbling), known["momentum"][rows], atol=1e-12)
    np.testing.assert_allclose(
        analysis.angular_momentum(tumbling), known["angular_momentum"][rows], atol=1e-12
    )
    np.testing.assert_allclose(
        analysis.total_energy(tumbling), (known["kinetic"] + known["potential"])[rows]
    )
    np.testing.assert_allclose(analysis.mean_kinetic_energy(tumbling), kinetic / 2.0)
    q = tumbling.q[:, 2:, : tumbling.scene.dim]
    np.testing.assert_allclose(analysis.centre_of_mass(tumbling), 0.8 * q[:, 0] + 0.2 * q[:, 1])


@pytest.mark.parametrize("e", [0.0, pytest.param(0.4, marks=pytest.mark.slow), 1.0])
def test_restitution_is_newtons(e: float) -> None:
    scene = cdopt.scene.collision(e, masses=(1.0, 3.0), speeds=(2.0, -1.0), dim=3)
    run = cdopt.simulate(scene, 1e-3, 0.03, "classic-cd")
    for pair in ((0, 1), (1, 0)):
        assert analysis.restitution(run, pair) == pytest.approx(e, abs=1e-6)
    with pytest.raises(cdopt.InvalidInput, match="bodies that meet"):
        analysis.restitution(cdopt.simulate(scene, 1e-3, 0.002, "classic-cd"))
    for pair in ((0, 0), (0, 2)):
        with pytest.raises(cdopt.InvalidInput, match="pair"):
            analysis.restitution(run, pair)


def passing(frames: int) -> Motion:
    """One body swings about another and leaves more slowly than it came."""
    t = np.linspace(-1.0, 1.0, frames)
    radius = 1.0 + t**2 - 0.2 * t**3
    angle = 0.3 + 0.2 * t
    arm = radius[:, None] * np.stack([np.cos(angle), np.sin(angle), 0.0 * t], axis=1)
    x = np.stack([np.zeros_like(arm), arm], axis=1)
    along = np.stack([np.cos(angle), np.sin(angle), 0.0 * t], axis=1)
    across = np.stack([-np.sin(angle), np.cos(angle), 0.0 * t], axis=1)
    speed = 2.0 * t - 0.6 * t**2
    v = speed[:, None] * along + (0.2 * radius)[:, None] * across
    return Motion.of_spheres(t, x, np.stack([0.0 * v, v], axis=1), 0.0 * x, [1.0, 1.0], [0.5, 0.5])


@pytest.mark.parametrize("frames", [20, 21, 200])
def test_the_normal_is_that_of_closest_approach(frames: int) -> None:
    run = passing(frames)
    middle = np.array([np.cos(0.3), np.sin(0.3), 0.0])
    speed = run.v[:, 1] @ middle
    assert analysis.restitution(run) == pytest.approx(-speed[-1] / speed[0], rel=1.0 / frames**2)


def test_statistics_have_the_definitions_of_the_stored_series() -> None:
    with np.load(DATA / "box.npz") as held:
        stored = {name: held[name] for name in held.files}
    for name, mu in (("ic", "10000"), ("ic0", "0")):
        x, v, w = (stored[f"{name}_{k}"][None] for k in "xvw")
        n = x.shape[1]
        run = Motion.of_spheres([0.0], x, v, w, np.ones(n), np.full(n, 0.5))
        row = stored[f"gn=30.0|mu={mu}|h=tc/16.1"][0]
        ours = [
            analysis.mean_kinetic_energy(run)[0],
            analysis.velocity_fluctuation(run)[0],
            analysis.rotational_energy(run)[0] / n,
            analysis.centre_of_mass(run)[0, 2],
            run.x[0, :, 2].max(),
        ]
        np.testing.assert_allclose(ours, row[1:], rtol=1e-12)


def test_fluctuations_do_not_see_a_common_velocity() -> None:
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(2, 3, 7, 3))
    given = (np.arange(3.0), x, v, 0.0 * v, np.ones(7), np.ones(7))
    moved = (given[0], x, v + np.array([1.0, -2.0, 3.0]), *given[3:])
    still, fast = Motion.of_spheres(*given), Motion.of_spheres(*moved)
    known = analysis.velocity_fluctuation(still)
    np.testing.assert_allclose(analysis.velocity_fluctuation(fast), known, rtol=1e-12)
    np.testing.assert_allclose(known, v.var(axis=1).mean(axis=1), rtol=1e-12)


def test_the_kinetic_stress_of_an_ideal_gas() -> None:
    """p = n k_B T of two kinds in equilibrium, p V = 2/3 of the energy, whatever the drift."""
    rng, n, volume, temperature = np.random.default_rng(0), 40_000, 3.0, 0.5  # k_B T in J
    mass = np.repeat([1.0, 4.0], n // 2)
    v = rng.normal(size=(1, n, 3)) * np.sqrt(temperature / mass)[:, None]
    v -= np.average(v, axis=1, weights=mass)
    fixed = ([0.0], rng.normal(size=(1, n, 3)))
    more = (0.0 * v, mass, np.ones(n))
    gas = Motion.of_spheres(*fixed, v, *more)
    stress = analysis.kinetic_stress(gas, volume)[0]
    expected = n * temperature / volume
    np.testing.assert_allclose(stress, expected * np.eye(3), atol=4 * expected / np.sqrt(n / 2))
    energy = analysis.translational_energy(gas)[0]
    assert np.trace(stress) / 3.0 * volume == pytest.approx(2.0 / 3.0 * energy, rel=1e-12)
    wind = Motion.of_spheres(*fixed, v + np.array([5.0, 0.0, -3.0]), *more)
    blown = analysis.kinetic_stress(wind, volume)[0]
    np.testing.assert_allclose(blown, stress, atol=1e-9 * expected)
    with pytest.raises(cdopt.InvalidInput, match="a Trajectory"):
        analysis.kinetic_stress(gas)


def test_a_motion_is_frozen_and_checked(tumbling) -> None:
    run = Motion.of(tumbling)
    assert Motion.of(run) is run
    with pytest.raises(ValueError, match="read-only"):
        run.x[0] = 1.0
    t, x, w = np.arange(2.0), np.zeros((2, 1, 3)), np.zeros((2, 1, 3))
    for wrong, field in (
        ((t[:1], x, x, w, [1.0], w), "t"),
        ((t, x[0], x, w, [1.0], w), "x"),
        ((t, x, x[:, :, :2], w, [1.0], w), "v"),
        ((t, x, x, w, [1.0, 1.0], w), "mass"),
        ((t, x, x, w + np.nan, [1.0], w), "w"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=f"^{field}: "):
            Motion(*wrong)
    for wrong in (None, x):
        with pytest.raises(cdopt.InvalidInput, match="run"):
            analysis.momentum(wrong)
    with pytest.raises(cdopt.InvalidInput, match="a Trajectory"):
        analysis.total_energy(run)
