"""Elastic methods against stored references and a high-order solution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elastic_scenes import STIFFNESS, T_C, between_walls, bonded_hit
from papers.de_klerk import ode
from papers.de_klerk.scenes import impact as first_touch

import cdopt
from cdopt.dynamics import Trajectory, analysis

DATA = Path(__file__).parents[1] / "data" / "de_klerk"
AUTHORS_STEP = 1e-5  # t_c/160.7


# --- impact --------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("gamma", [0, 30])
def test_energies_of_an_impact_against_the_stored_solution(gamma: int, offset: float) -> None:
    with np.load(DATA / "impact.npz") as stored:
        name = f"P|dy={offset}|" + ("g0" if gamma == 0 else f"R1_gn={gamma}") + "|ODE"
        table = stored[name]
    t = table[:, 0] - table[0, 0]
    run = cdopt.simulate(
        first_touch(float(gamma), offset), AUTHORS_STEP, t[-1], "variational", damping="paper"
    )
    inertia = 0.1 * np.pi / 6.0
    speed = (table[:, [3, 4, 8, 9]] ** 2).sum(axis=1)
    spin = (table[:, [5, 10]] ** 2).sum(axis=1)
    kinetic = 0.5 * np.pi / 6.0 * speed + 0.5 * inertia * spin
    at = run.t <= t[-1]
    stored_kinetic = np.interp(run.t[at], t, kinetic)
    error = np.abs(run.diagnostics["kinetic"][at] - stored_kinetic).max() / kinetic[0]
    assert error <= max(1e-4, gamma * AUTHORS_STEP) + _interpolation(t, kinetic)


def _interpolation(t: np.ndarray, kinetic: np.ndarray) -> float:
    """What straight lines between the stored points are out by, at most."""
    bend = np.abs(np.diff(kinetic, 2)).max() / 8.0
    return float(bend / kinetic[0])


# --- walls ---------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [32, 160])
def test_velocity_verlet_between_walls_is_the_stored_one(steps: int) -> None:
    """The range of free-flight energies over 250 collisions, a frame in every flight of 6 t_c."""
    with np.load(DATA / "walls.npz") as stored:
        free = stored[f"h=tc/{steps}|Efree"]
    h = 1e-5 if steps == 160 else 5e-5
    run = cdopt.simulate(between_walls(), h, 3.08, "velocity-verlet", every=4 * steps)
    seen = run.diagnostics
    energy = seen["kinetic"][seen["contacts"] == 0] / seen["kinetic"][0]
    hits = np.count_nonzero(np.diff(np.sign(run.v[:, 2, 0])) != 0)
    assert hits >= 249
    assert energy.min() >= free.min() - 1e-9
    assert energy.max() <= free.max() + 1e-9
    assert np.ptp(energy) >= 0.5 * np.ptp(free)


# --- bonds ---------------------------------------------------------------------------------


def bond_length(run: Trajectory) -> np.ndarray:
    return np.asarray(np.linalg.norm(run.q[:, 1, :3] - run.q[:, 0, :3], axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("ratio", [1.0, 0.1, 10.0])
def test_a_bonded_pair_that_is_hit(ratio: float, offset: float) -> None:
    """Forces of the collision and of the first oscillation within 1 %, its period within 0.1 %."""
    scene = bonded_hit(ratio, offset)
    h = T_C / 160
    period = 2.0 * T_C / np.sqrt(ratio)  # of the free pair
    duration = 1.2 * T_C + 2.5 * period
    run = cdopt.simulate(scene, h, duration, "variational")
    exact = ode.solve(scene, run.t)
    assert exact.x.shape[0] == run.t.size
    stretch = 1.0 - bond_length(run)
    reference = 1.0 - np.linalg.norm(exact.x[:, 1] - exact.x[:, 0], axis=1)
    hit = T_C + 1e-6 / 1.0
    first = run.t <= hit + 1.25 * period
    force, wanted = ratio * STIFFNESS * stretch, ratio * STIFFNESS * reference
    assert np.abs(force - wanted)[first].max() <= 0.01 * np.abs(wanted).max()
    pressed, expected = _pressing(run.q[:, :, :3]), _pressing(exact.x)
    assert np.abs(pressed - expected).max() <= 0.01 * expected.max()
    later = run.t > 1.05 * hit + 0.25 * period
    found = [_period(run.t[later], values[later]) for values in (stretch, reference)]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def _pressing(x: np.ndarray) -> np.ndarray:
    """Force between the first and the third sphere, N."""
    distance = np.linalg.norm(x[:, 2] - x[:, 0], axis=1)
    return np.asarray(STIFFNESS * np.maximum(1.0 - distance, 0.0))


def _period(t: np.ndarray, stretch: np.ndarray) -> float:
    """Twice the mean time between zeros of the oscillation about its mean."""
    turned = np.diff(stretch)
    extremes = np.flatnonzero(turned[:-1] * turned[1:] < 0.0) + 1
    # the vertex of the parabola through each extreme and its neighbours
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
