"""What the De Klerk figures are measured against: closed form, high-order solution, series."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from papers.de_klerk import lammps, ode, scenes
from papers.de_klerk.parameters import BOX, PAPER
from papers.de_klerk.references import FOLDER, HeadOn, stored
from papers.de_klerk.runs import bond_series, wall_series

import cdopt
from cdopt.dynamics import analysis
from cdopt.scene import Body, Material, Scene, Sphere

DATA = Path(__file__).parents[2] / "data" / "de_klerk"
DAMPINGS = {
    "g0": 0.0,
    "R1_gn=30": 30.0,
    "R2_gn=30/meff": 60.0 / PAPER.mass,
    "R3_gn=30*meff": 15.0 * PAPER.mass,
}
needs_lammps = pytest.mark.skipif(lammps.why_unavailable() is not None, reason="needs LAMMPS")


def data(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / f"{name}.npz") as found:
        return {key: found[key] for key in found.files}


def from_both_sides(gamma: float, offset: float) -> Scene:
    """The impact as the stored series have it: both centres start at x = ∓1."""
    return scenes.impact(gamma, offset, gap=1.0 - 0.5 * math.sqrt(1.0 - offset**2))


def columns(run: analysis.Motion, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
    """x, y, vx, vy, wz of one sphere after the other."""
    parts = [(run.x[rows, k, :2], run.v[rows, k, :2], run.w[rows, k, 2:]) for k in range(2)]
    return np.concatenate([part for both in parts for part in both], axis=1)


# --- closed form -----------------------------------------------------------------------


def test_the_closed_form_solves_its_equation() -> None:
    for gamma in (0.0, 30.0, 300.0):
        theory = HeadOn(PAPER.mass, PAPER.stiffness, gamma)
        t = np.linspace(0.0, theory.duration, 20001)[1:-1]
        h = t[1] - t[0]
        delta, speed = theory.overlap(t), -2.0 * theory.velocity(t)
        np.testing.assert_allclose(speed[1:-1], (delta[2:] - delta[:-2]) / (2 * h), atol=1e-6)
        rate = (speed[2:] - speed[:-2]) / (2 * h)
        force = gamma * speed + 2.0 * PAPER.stiffness / PAPER.mass * delta
        np.testing.assert_allclose(rate, -force[1:-1], atol=1e-6 * np.abs(force).max())


def test_the_closed_form_begins_and_ends_as_it_must() -> None:
    theory = HeadOn(PAPER.mass, PAPER.stiffness)
    assert theory.duration == pytest.approx(PAPER.contact_time, rel=1e-14)
    assert theory.restitution == 1.0
    damped = HeadOn(PAPER.mass, PAPER.stiffness, 100.0, 2.0)
    t = np.array([-1.0, 0.0, damped.duration, 1.0])
    np.testing.assert_allclose(
        damped.velocity(t), 2.0 * np.array([-1.0, -1.0, damped.restitution, damped.restitution])
    )
    np.testing.assert_allclose(damped.overlap(t), 0.0, atol=1e-15)
    assert damped.kinetic_share(t)[-1] == pytest.approx(damped.restitution**2)
    for wrong, field in (((1, 1, 3.0), "damping"), ((0.0, 1), "mass"), ((1, -1.0), "stiff")):
        with pytest.raises(cdopt.InvalidInput, match=field):
            HeadOn(*wrong)


# --- high-order solution ---------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 300.0])
def test_the_ode_meets_the_closed_form(gamma: float) -> None:
    theory = HeadOn(PAPER.mass, PAPER.stiffness, gamma)
    gap = 3e-4
    t = np.linspace(0.0, gap + 1.5 * theory.duration, 41)
    run = ode.solve(scenes.impact(gamma, gap=gap), t)
    np.testing.assert_allclose(run.v[:, 1, 0], theory.velocity(t - gap), atol=1e-10)
    apart = 1.0 - (run.x[:, 1, 0] - run.x[:, 0, 0])
    deep = np.maximum(apart, 0.0)
    np.testing.assert_allclose(deep, theory.overlap(t - gap), atol=1e-13)
    assert analysis.restitution(run) == pytest.approx(theory.restitution, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("convention", DAMPINGS)
def test_the_ode_meets_the_stored_solution(convention: str, offset: float) -> None:
    known = data("impact")[f"P|dy={offset}|{convention}|ODE"]
    run = ode.solve(from_both_sides(DAMPINGS[convention], offset), known[:, 0])
    np.testing.assert_allclose(columns(run), known[:, 1:], atol=1e-10)


@pytest.mark.slow
def test_the_ode_keeps_what_mechanics_keeps() -> None:
    gap, t = 2e-4, np.linspace(0.0, 3e-3, 31)
    damped = ode.solve(scenes.impact(100.0, 0.4, gap), t)
    for law in (analysis.momentum, analysis.angular_momentum):
        kept = law(damped)
        np.testing.assert_allclose(kept, np.tile(kept[0], (t.size, 1)), atol=1e-12)
    assert analysis.rotational_energy(damped)[-1] > 1e-6
    scene = scenes.impact(0.0, 0.4, gap)
    free = ode.solve(scene, t)
    total = analysis.translational_energy(free) + ode.Model.of(scene).energy(free)
    np.testing.assert_allclose(total, total[0], rtol=1e-11)
    assert total.max() > 2.0 * analysis.translational_energy(free).min()
    assert analysis.restitution(free) == pytest.approx(1.0, abs=1e-5)  # 31 frames


@pytest.mark.slow
def test_the_ode_bounces_between_walls() -> None:
    scene = scenes.walls()
    contact = math.pi * math.sqrt(PAPER.mass / PAPER.stiffness)
    period = 0.01 + contact
    t = np.array([0.0, 0.005, 0.005 + contact, 0.005 + contact + 0.01, 0.005 + 10 * period])
    run = ode.solve(scene, t)
    np.testing.assert_allclose(run.v[:, 0, 0], [1.0, 1.0, -1.0, -1.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(run.x[:, 0, 0], [0.0, 0.005, 0.005, -0.005, 0.005], atol=1e-11)


@pytest.mark.slow
def test_bonds_pull_and_push() -> None:
    scene = scenes.bonded(10.0, 0.0)
    assert scene.bonds.tolist() == [[0, 1]]
    t = np.linspace(0.0, 0.014, 281)
    run = ode.solve(scene, t)
    found = bond_series(run, 10.0, 0.01)
    assert found["t"][0] >= -0.5
    before = found["t"] < 0.0
    assert np.abs(found["contact"][before]).max() == 0.0
    assert np.abs(found["bond"][before]).max() < 1e-12
    assert found["bond"].max() > 5e-4
    assert found["bond"].min() < -2e-4  # in tension
    kept = analysis.momentum(run)
    np.testing.assert_allclose(kept, np.tile(kept[0], (t.size, 1)), atol=1e-12)
    total = analysis.translational_energy(run) + ode.Model.of(scene).energy(run)
    np.testing.assert_allclose(total, total[0], rtol=1e-10)
    with pytest.raises(cdopt.InvalidInput, match="gap"):
        scenes.bonded(10.0, gap=0.001)


def test_spin_is_damped_at_a_wall_with_the_lever_of_the_centre() -> None:
    """Against equations (20)–(25) written out for one sphere on a floor, by Euler steps."""
    grain = [Material(name="grain", stiffness=2e3)]
    scene = Scene(
        [
            Body(cdopt.scene.HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], material="grain"),
            Body(
                Sphere(0.5),
                [0.0, 0.0, 0.49],
                velocity=[1.0, 0.0, 0.0],
                mass=2.0,
                angular_velocity=[0.0, -1.0, 0.5],
                material="grain",
            ),
        ],
        dim=3,
        gravity=[0.0, 0.0, -1.0],
        materials=grain,
        damping=4.0,
        overlap_tol=0.1,
    )
    z, vx, vz, wy = 0.49, 1.0, 0.0, -1.0
    steps = 50_000
    h = 0.02 / steps
    for _ in range(steps):
        slip = vx - z * wy
        side = -2.0 * 2.0 * slip
        up = 1e3 * (0.5 - z) - 4.0 * 2.0 * vz - 2.0
        z, vx, vz, wy = z + h * vz, vx + h * side / 2.0, vz + h * up / 2.0, wy - h * z * side / 0.2
    run = ode.solve(scene, np.array([0.02]))
    found = [run.x[0, 0, 2], run.v[0, 0, 0], run.v[0, 0, 2], run.w[0, 0, 1]]
    np.testing.assert_allclose(found, [z, vx, vz, wy], atol=1e-5)
    assert run.w[0, 0, 2] == 0.5


def test_the_ode_says_what_it_cannot() -> None:
    ball = Body(Sphere(0.5), [0.0, 0.0, 0.0], mass=1.0)
    for scene in (
        cdopt.scene.box_on_floor(dim=3),
        cdopt.scene.collision(dim=2),
        Scene([ball, Body(Sphere(0.5), [2.0, 0.0, 0.0], fixed=True)], dim=3),
        Scene([ball], dim=3, power=2.5),
    ):
        with pytest.raises(cdopt.Unsupported):
            ode.solve(scene, np.array([0.1]))
    with pytest.raises(cdopt.InvalidInput, match="rise"):
        ode.solve(scenes.impact(), np.array([0.1, 0.0]))


# --- stored series ---------------------------------------------------------------------


def test_the_stored_series_are_small_and_read_only() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 600_000
    for kind in ("impact", "walls", "box"):
        for values in stored(kind).values():
            assert values.dtype == np.float64
            assert np.isfinite(values).all()
            assert not values.flags.writeable
    with pytest.raises(cdopt.InvalidInput, match="kind"):
        stored("dice")


def test_the_box_starts_as_the_data_say() -> None:
    known = data("box")
    for tangential, name in ((True, "ic"), (False, "ic0")):
        scene = scenes.box(tangential)
        start = scene.initial
        for values, letter in zip(
            (start.position, start.velocity, start.angular_velocity), "xvw", strict=True
        ):
            np.testing.assert_array_equal(values[5:], known[f"{name}_{letter}"])
        assert scene.nb == 218 + 5
        assert scene.gamma_t == (15.0 if tangential else 0.0)
        assert scene.damping == 30.0
        model_k = cdopt.collision.contacts.contact_stiffness(scene, np.array([[0, 5], [5, 6]]))
        np.testing.assert_allclose(model_k, BOX.stiffness)


def test_stored_walls_are_those_of_the_data() -> None:
    known = data("walls")
    for h, key in (("1e-05", "160"), ("5e-05", "32")):
        flights = stored("walls")[f"h={h}|flights"]
        np.testing.assert_allclose(flights, known[f"h=tc/{key}|Efree"] - 1.0, atol=1e-10)


# --- LAMMPS ----------------------------------------------------------------------------


@needs_lammps
@pytest.mark.parametrize(("name", "h"), [("16.1", 1e-4), ("3.2", 5e-4)])
def test_lammps_repeats_the_stored_impact(name: str, h: float) -> None:
    known = data("impact")[f"P|dy=0.1|R1_gn=30|h=tc/{name}|granular_mu1e4"]
    count = np.rint(known[:, 0] / h).astype(int)
    run = lammps.run(from_both_sides(30.0, 0.1), h, int(count[-1]))
    np.testing.assert_allclose(columns(run, count), known[:, 1:], atol=1e-13)


@needs_lammps
def test_lammps_repeats_the_stored_walls() -> None:
    known, scene = data("walls")["h=tc/32|Efree"], scenes.walls()
    run = lammps.run(scene, 5e-5, 4000, 20)
    flights = wall_series(scene, run, 0.0)["flights"]
    assert flights.size >= 15
    np.testing.assert_allclose(flights, known[: flights.size] - 1.0, atol=1e-13)


@needs_lammps
def test_lammps_begins_the_box_as_stored() -> None:
    known = data("box")["gn=30.0|mu=10000|h=tc/16.1"]
    h = BOX.contact_time / 16.1
    run = lammps.run(scenes.box(), h, 256, 64)
    np.testing.assert_allclose(run.t, known[:, 0], atol=1e-5)
    ours = np.stack([analysis.mean_kinetic_energy(run), analysis.velocity_fluctuation(run)], axis=1)
    # the stored series have gran/hooke's lever, d/2 in place of |r|/2
    np.testing.assert_allclose(ours, known[:, 1:3], rtol=1e-4)
    np.testing.assert_allclose(ours[0], known[0, 1:3], rtol=1e-12)


@needs_lammps
def test_lammps_says_what_it_cannot() -> None:
    for scene in (scenes.bonded(), cdopt.scene.collision(masses=(1.0, 2.0), dim=3)):
        with pytest.raises(cdopt.Unsupported):
            lammps.run(scene, 1e-4, 1)
