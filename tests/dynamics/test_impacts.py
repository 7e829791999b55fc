"""Impacts that follow one another within a step: restitution acts on each."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt._util.errors import InvalidInput
from cdopt.scene import Body, HalfSpace, Scene, Sphere

DT = 1e-2


def row(gaps: list[float], wall: float | None = None, e: float = 1.0) -> Scene:
    """Spheres in a row with gaps in units of v Δt, the first at v = 1 m/s, and a wall behind."""
    places = np.concatenate([[0.0], np.cumsum(1.0 + DT * np.array(gaps))])
    bodies = [
        Body(Sphere(0.5), [x, 0.0], velocity=[float(x == 0.0), 0.0], mass=1.0) for x in places
    ]
    if wall is not None:
        bodies.append(Body(HalfSpace([-1.0, 0.0]), [places[-1] + 0.5 + DT * wall, 0.0]))
    return Scene(bodies, dim=2, gravity=[0.0, 0.0], restitution=e)


@pytest.mark.parametrize("method", ["classic-cd", "compatible-cd"])
def test_a_row_of_three_passes_the_velocity_on(method: str) -> None:
    """Three balls at e = 1: exactly the last moves; before, K/K₀ was 0.83."""
    run = cdopt.simulate(row([0.5, 0.5]), DT, 3 * DT, method)
    np.testing.assert_allclose(run.v[-1, :, 0], [0.0, 0.0, 1.0], atol=1e-9)
    seen = run.diagnostics
    assert run.ok
    assert seen["impacts"].tolist() == [0, 3, 1, 1]
    impulse = DT * run[1].forces["f"]
    np.testing.assert_allclose(impulse, 1.0, rtol=1e-9)
    assert seen["overlap"].max() <= 1e-12
    # the impacts are at 0.5 Δt and Δt: the last has only just begun to move
    np.testing.assert_allclose(run.q[1, 1, 0] - run.q[0, 1, 0], 0.5 * DT, rtol=1e-9)


def test_two_balls_at_a_wall_come_back() -> None:
    """The wall returns the second ball, which returns the first: K/K₀ was 0.5."""
    run = cdopt.simulate(row([0.2], wall=0.2), DT, 3 * DT, "classic-cd")
    np.testing.assert_allclose(run.v[-1, :2, 0], [-1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("e", [0.5, 0.9])
def test_each_impact_loses_what_newton_says(e: float) -> None:
    run = cdopt.simulate(row([0.3, 0.3], e=e), DT, 0.05, "classic-cd")
    m = 0.5 * (1.0 + e)
    first, second, third = 1.0 - m, m * (1.0 - m), m * m
    if first > second:  # the first catches up with the second later on
        first, second = first - m * (first - second), second + m * (first - second)
    np.testing.assert_allclose(run.v[-1, 2, 0], third, atol=1e-9)
    assert run.v[-1, :, 0].sum() == pytest.approx(1.0)
    assert run.diagnostics["plastic"].sum() == 0


def test_a_ball_in_a_narrow_cage_flies_to_and_fro() -> None:
    """Several rebounds in a step, which has no answer when all have to be at once."""
    walls = [Body(HalfSpace([-s, 0.0]), [s * (0.5 + 0.15 * DT), 0.0]) for s in (1.0, -1.0)]
    ball = Body(Sphere(0.5), [0.0, 0.0], velocity=[1.0, 0.0], mass=1.0)
    scene = Scene([*walls, ball], dim=2, gravity=[0.0, 0.0], restitution=1.0)
    with pytest.raises(cdopt.SolveFailed):
        cdopt.simulate(scene, DT, DT, "classic-cd", impacts=1)
    run = cdopt.simulate(scene, DT, 5 * DT, "classic-cd")
    assert run.diagnostics["kinetic"][-1] == pytest.approx(0.5)
    assert run.diagnostics["overlap"].max() <= 1e-12
    assert run.diagnostics["impacts"].max() >= 3


def test_a_limit_closes_without_restitution_and_is_counted() -> None:
    run = cdopt.simulate(row([0.5, 0.5]), DT, DT, "classic-cd", impacts=1)
    assert run.diagnostics["plastic"].tolist() == [0, 1]
    assert run.diagnostics["kinetic"][-1] == pytest.approx(0.5 * 0.8333333)
    with pytest.raises(InvalidInput, match="impacts"):
        cdopt.simulate(row([0.5]), DT, DT, "classic-cd", impacts=0)


def gas() -> Scene:
    """Sixteen discs that fly in a square box, without gravity."""
    random, side = np.random.default_rng(0), 4 * 1.15
    places = 1.15 * (np.stack(np.divmod(np.arange(16), 4), axis=1) + 0.5)
    bodies = [Body(Sphere(0.5), x, velocity=random.normal(size=2), mass=1.0) for x in places]
    for n, x in (([1, 0], 0.0), ([-1, 0], side), ([0, 1], 0.0), ([0, -1], side)):
        bodies.append(Body(HalfSpace(n), [x, x]))
    return Scene(bodies, dim=2, gravity=[0.0, 0.0], restitution=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("dt", "before"), [(1e-2, 0.505), (1e-3, 0.924)])
def test_a_gas_keeps_its_energy(dt: float, before: float) -> None:
    for impacts, share in ((1, before), (16, 1.0)):
        run = cdopt.simulate(gas(), dt, 4.0, "classic-cd", impacts=impacts)
        kinetic = run.diagnostics["kinetic"]
        assert run.ok
        assert kinetic[-1] / kinetic[0] == pytest.approx(share, abs=1e-6 if impacts > 1 else 1e-3)
