"""Residuals of elastic and quasi-static steps: real ones, as a share of what acts on each body."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from elastic_scenes import T_C, ball, scene, wall

import cdopt
from cdopt.dynamics import Equilibrium, StepFailed, elastic, equilibrium
from cdopt.dynamics.equilibrium import unbalanced
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere

H = T_C / 16


def slow_pair(*others: Body) -> Scene:
    """Two spheres that touch and approach at 2e-6 m/s, and others far away."""
    near = [ball([-0.5, 0.0], [1e-6, 0.0]), ball([0.5, 0.0], [-1e-6, 0.0])]
    return scene([*near, *others], 2)


FAST = ball([0.0, 100.0], [0.0, 5e3])
LOOSE = {"tol": 1e-8}  # of its speed is more than the speeds of the others


@pytest.mark.parametrize("speed", [1.0, 1e-3, 1e-6])
def test_the_residual_of_a_loose_step_is_the_residual_left(speed: float) -> None:
    """Without damping and with α = ½, Δq/h is the mean velocity, but for R/2M."""
    floor = wall([0.0, 1.0], [0.0, -0.5])
    start = ball([0.0, 1e-3 * speed * T_C], [0.0, -speed])
    place = scene([floor, start], 2, power=2.5)
    run = cdopt.simulate(place, H, 80 * H, "variational", tol=1e-3)
    x, v = run.q[:, 1, 1], run.v[:, 1, 1]
    left = np.abs(np.diff(x) / H - 0.5 * (v[1:] + v[:-1])).max() / speed
    assert 1e-7 < left < 1e-2
    assert 0.1 * left < run.diagnostics["residual_step"].max() < 10.0 * left
    assert run.ok


@pytest.mark.parametrize("solver", ["cg", "direct"])
def test_slow_bodies_are_solved_as_well_as_fast_ones(solver: str) -> None:
    alone = cdopt.simulate(slow_pair(), H, 5 * H, "variational", solver=solver, **LOOSE)
    beside = cdopt.simulate(slow_pair(FAST), H, 5 * H, "variational", solver=solver, **LOOSE)
    assert alone.ok
    assert beside.ok
    assert np.abs(alone.v[-1]).max() > 1e-7
    np.testing.assert_allclose(beside.v[:, :2], alone.v, rtol=0, atol=1e-11)


def test_a_residual_above_the_tolerance_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without iterations, what is small beside the fastest body is all of the slow ones."""
    monkeypatch.setattr(elastic, "_LIMIT", 0)
    with pytest.raises(StepFailed, match="above the tolerance") as caught:
        cdopt.simulate(slow_pair(FAST), H, 4 * H, "variational", **LOOSE)
    assert len(caught.value.trajectory) == 1
    run = cdopt.simulate(slow_pair(FAST), H, 4 * H, "variational", on_failure="continue", **LOOSE)
    assert not run.ok
    assert run.diagnostics["residual_step"][1:].min() > 1e-3
    assert run.diagnostics["claimed_step"].all()  # the cheap criterion was met


def column() -> Scene:
    grain = Material(name="grain", stiffness=2e4)
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0])
    balls = [Body(Sphere(0.1), [0.4 * k, 0.1], mass=10.0**k, material="grain") for k in range(3)]
    return Scene([floor, *balls], dim=2, gravity=[0.0, -10.0], materials=[grain])


def lifted(rest: Equilibrium, height: float) -> Equilibrium:
    """The lightest ball a little above its rest, with the forces of that place."""
    forces = rest.forces.copy()
    forces[0] -= 2e4 * height
    return replace(rest, forces=forces)


def test_the_unbalanced_force_is_measured_by_what_acts_on_its_body() -> None:
    scene = column()
    rest = equilibrium(scene)
    assert unbalanced(scene, rest) < 1e-9
    off = 2e4 * 1e-6 / 10.0  # of a weight of 10 N; the heaviest body carries 1000 N
    assert unbalanced(scene, lifted(rest, 1e-6)) == pytest.approx(off, rel=1e-6)


def test_an_equilibrium_above_the_tolerance_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = elastic.equilibrium
    monkeypatch.setattr(elastic, "equilibrium", lambda *a, **k: lifted(exact(*a, **k), 1e-6))
    with pytest.raises(StepFailed, match="above the tolerance"):
        cdopt.simulate(column(), 0.1, 0.2, "quasi-static")
    run = cdopt.simulate(column(), 0.1, 0.2, "quasi-static", on_failure="continue")
    assert run.diagnostics["ok"].tolist() == [True, False, False]
    assert run.diagnostics["residual_step"][1] == pytest.approx(2e-3, rel=1e-3)
