"""What is measured of contacts and of runs, against what is known without a computer."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cdopt
from cdopt.dynamics import Measures, analysis, equilibrium
from cdopt.dynamics.analysis import Motion
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere, Spheres

DATA = Path(__file__).parent.parent / "data" / "de_klerk"
COLUMNS = ("normals", "points", "vectors")


def taken(scene: Scene, **options: object) -> cdopt.ContactStep:
    """The step of a scene at its start."""
    contacts = cdopt.collision.detect(scene, scene.initial)
    return cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3, **options)


# --- stress and fabric ---------------------------------------------------------------------


def pressed_pair(force: float = 3.0) -> Scene:
    """Two discs of 1 m pressed together along x."""
    bodies = [
        Body(Sphere(0.5), [sign * 0.5, 0.0], mass=1.0, force=[-sign * force, 0.0])
        for sign in (-1.0, 1.0)
    ]
    return Scene(bodies, dim=2, gravity=[0.0, 0.0])


def test_two_discs() -> None:
    step = taken(pressed_pair())
    solution = cdopt.ClassicCD(step).solve("newton")
    # the branch is one diameter of 1 m, in the 2 m x 1 m around both
    np.testing.assert_allclose(cdopt.stress(step, solution), [[1.5, 0.0], [0.0, 0.0]], atol=1e-9)
    here = cdopt.measures(step, solution)
    assert here.pressure(volume=3.0) == pytest.approx(0.5)
    np.testing.assert_allclose(here.fabric(), [[1.0, 0.0], [0.0, 0.0]])
    left = here.stress(region=[[-2.0, -1.0], [-0.25, 1.0]], volume=1.0)
    assert left[0, 0] == pytest.approx(0.75)  # a quarter of the branch
    neighbours = here.coordination(least=1)
    assert (neighbours.mean, neighbours.rattlers.tolist()) == (1.0, [])
    assert here.coordination(least=2).rattlers.tolist() == [0, 1]


def boxed_crystal(pressure: float, angle: float = 0.0, unit: float = 1.0) -> Measures:
    """Discs in a box, squeezed by its four walls with forces that balance one pressure."""
    square = np.stack(np.divmod(np.arange(16), 4), axis=1) + 0.5  # a square lattice
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]])
    walls = [
        Body(HalfSpace(sign * turn[:, axis]), unit * turn @ [end, end])
        for axis in (0, 1)
        for end, sign in ((0.0, 1.0), (4.0, -1.0))
    ]
    discs = Spheres(centres=unit * square @ turn.T, radius=0.5 * unit, mass=1.0)
    step = taken(Scene([*walls, discs], dim=2, gravity=[0.0, 0.0], overlap_tol=1e-3))
    return cdopt.measures(step, np.full(step.nc, pressure * unit))


def test_crystal_under_isotropic_pressure() -> None:
    here = boxed_crystal(7.0)
    np.testing.assert_allclose(here.stress(), 7.0 * np.eye(2), atol=1e-12)
    np.testing.assert_allclose(here.fabric(), 0.5 * np.eye(2), atol=1e-12)
    assert here.coordination().mean == 4.0
    halves = [[[0.0, 0.0], [1.3, 4.0]], [[1.3, 0.0], [4.0, 4.0]]]
    parts = sum(here.stress(region=region, volume=16.0) for region in halves)
    np.testing.assert_allclose(parts, here.stress(volume=16.0), atol=1e-12)
    np.testing.assert_allclose(boxed_crystal(7.0, unit=1e-3).stress(), 7.0 * np.eye(2), atol=1e-9)


def test_stress_turns_with_the_bodies() -> None:
    rng, here = np.random.default_rng(3), boxed_crystal(7.0)
    pushed = dataclasses.replace(here, vectors=here.vectors * rng.uniform(0.0, 2.0, (40, 1)))
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    tables = {name: getattr(pushed, name) @ turn.T for name in ("x", *COLUMNS)}
    turned = dataclasses.replace(pushed, **tables)
    for measure in (lambda m: m.stress(volume=1.0), Measures.fabric):
        np.testing.assert_allclose(measure(turned), turn @ measure(pushed) @ turn.T, atol=1e-12)
    tilted = boxed_crystal(7.0, 0.3).stress(volume=16.0)
    np.testing.assert_allclose(tilted, 7.0 * np.eye(2), atol=1e-12)


def squeezed(dim: int = 2) -> tuple[Scene, cdopt.dynamics.Equilibrium]:
    """A crystal of discs in a box, or a pyramid, at rest under gravity and uneven loads."""
    if dim == 3:
        scene = cdopt.scene.pyramid(4).stiffened(1e-8)
        return scene, equilibrium(scene, travel=np.inf)
    scene = cdopt.scene.crystal(4, 4).stiffened(1e6)
    push = np.random.default_rng(0).uniform(-1.0, 0.0, scene.dofs.nv) * 0.3
    return scene, equilibrium(scene, load=push)


@pytest.mark.parametrize("dim", [2, 3])
def test_stress_is_the_derivative_of_the_energy(dim: int) -> None:
    """Elastic contacts between the bodies of a deposit, all centres moved by a strain."""
    scene, rest = squeezed(dim)
    within = ~scene.bodies.fixed[rest.contacts.bodies].any(axis=1) & (rest.forces > 0.0)
    i, j = rest.contacts.bodies[within].T
    here = Measures.of_rest(scene, rest)
    chosen = {name: getattr(here, name)[within] for name in ("bodies", *COLUMNS)}
    here, reach = dataclasses.replace(here, **chosen), scene.bodies.reach

    def energy(strain: np.ndarray) -> float:
        x = rest.state.position @ (np.eye(dim) + strain)
        overlap = reach[i] + reach[j] - np.linalg.norm(x[j] - x[i], axis=1)
        return 0.5 * float(rest.contacts.stiffness[within] @ overlap**2)

    volume, size, derivative = 1e-3, 1e-6, np.zeros((dim, dim))
    for k in np.ndindex(dim, dim):
        strain = np.zeros((dim, dim))
        strain[k] = size
        derivative[k] = (energy(-strain) - energy(strain)) / (2.0 * size * volume)
    scale = np.abs(derivative).max()
    np.testing.assert_allclose(here.stress(volume=volume), derivative, atol=1e-6 * scale)


def test_weight_of_a_deposit_is_in_its_stress() -> None:
    """σ is the moment of the loads, and of the floor's forces at their points of contact."""
    scene, rest = squeezed()
    free, floor = ~scene.bodies.fixed, rest.contacts.bodies[:, 0] == 0
    moment = -rest.load[1::2] @ rest.state.position[free, 1]
    moment -= rest.forces[floor] @ rest.contacts.points[floor, 1]
    assert Measures.of_rest(scene, rest).stress(volume=1.0)[1, 1] == pytest.approx(moment, rel=1e-9)


def test_tangential_forces_and_mobilised_friction() -> None:
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0])
    crate = Body(Box([2.0, 1.0]), [0.0, 0.5], mass=1.0, force=[3.0, 0.0])
    step = taken(Scene([floor, crate], dim=2, gravity=[0.0, -10.0]), friction=0.5)
    here = cdopt.measures(step, cdopt.FrictionalCD(step).solve("newton"))
    assert here.f_t.sum() == pytest.approx(3.0)
    sigma = here.stress(volume=1.0)
    assert sigma[1, 1] == pytest.approx(5.0)  # 10 N half a metre below the centre
    assert sigma[1, 0] == pytest.approx(-1.5)  # and the floor's 3 N to the left there
    share = here.f_t.sum() / (0.5 * here.f.sum())
    assert np.nanmin(here.mobilised) <= share <= np.nanmax(here.mobilised) <= 1.0 + 1e-9
    assert here.coordination().mean == 1.0  # two points, one neighbour


# --- neighbours and distributions ----------------------------------------------------------


def test_rattlers_are_peeled_off() -> None:
    """A triangle of discs in balance, with a chain of two discs that nothing holds."""
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)], [-1.0, 0.0], [-2.0, 0.0]])
    pairs = np.array([[0, 1], [0, 2], [1, 2], [0, 3], [3, 4]])
    arm, first = x[pairs[:, 1]] - x[pairs[:, 0]], x[pairs[:, 0]]
    here = Measures(x, np.full(5, 0.5), np.ones(5, bool), pairs, arm, first + 0.5 * arm, arm)
    two = here.coordination(2)
    assert (two.rattlers.tolist(), two.without_rattlers, two.mean) == ([3, 4], 2.0, 2.0)
    assert here.coordination().rattlers.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dim", [2, 3])
def test_distributions(dim: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(3000, dim))
    pairs = np.array([np.arange(2999), np.arange(1, 3000)]).T
    normals = np.tile(np.eye(dim)[0], (2999, 1))
    pushes = rng.exponential(size=(2999, 1)) * normals
    here = Measures(x, np.zeros(3000), np.ones(3000, bool), pairs, normals, x[1:], pushes)
    density = here.radial_distribution(reach=0.8, bins=4).density
    np.testing.assert_allclose(density, 1.0, atol=0.02)  # 3000 points: a few thousandths
    edges, density = here.force_distribution(40)
    assert density @ np.diff(edges) == pytest.approx(1.0)
    middle = 0.5 * (edges[1:] + edges[:-1])
    np.testing.assert_allclose(density[:8], np.exp(-middle[:8]), atol=0.08)


# --- of runs -------------------------------------------------------------------------------


def test_of_a_run() -> None:
    run = cdopt.simulate("pyramid:n=3", 1e-3, 0.02, "classic-cd")
    table, final = analysis.measures(run).to_frame(), Measures.of_frame(run.scene, run.final)
    assert table["contacts"].iloc[0] == 0
    assert table.shape == (21, 34)
    assert table["kinetic_stress.zz"].iloc[0] == 0.0
    volume = float(np.prod(np.diff(final.enclosure, axis=0)))
    known = analysis.kinetic_stress(run, volume)[-1, 2, 2]
    assert table["kinetic_stress.zz"].iloc[-1] == pytest.approx(known, rel=1e-12)
    assert table["stress.zz"].iloc[-1] == pytest.approx(final.stress()[2, 2])
    assert cdopt.dynamics.RunSummary.of(run).coordination == final.coordination().mean
    lives = analysis.contact_lifetimes(run)
    last = lives.end == run.t[-1]
    carrying = {tuple(pair) for pair in run.final.bodies[run.final.f > 0.0].tolist()}
    assert {tuple(pair) for pair in lives.bodies[last].tolist()} == carrying
    assert lives.cut[last].all()
    assert lives.duration.min() >= 0.0
    assert list(lives.to_frame().columns) == ["i", "j", "begin", "end", "duration", "cut"]


def test_of_a_run_with_friction() -> None:
    """A box at rest on an incline: the mean mobilised friction, and the tangent in the stress."""
    table = analysis.measures(cdopt.simulate("incline:ratio=0.5", 1e-3, 0.003)).to_frame()
    run = cdopt.simulate("incline:ratio=0.5", 1e-3, 0.003, friction=1.0)
    other = analysis.measures(run)
    assert other.mobilised[-1] == pytest.approx(0.5 * table["mobilised"].iloc[-1])
    here = Measures.of_frame(run.scene, run.final, friction=1.0)
    assert here.f_t.sum() / here.f.sum() == pytest.approx(0.25)
    smooth = cdopt.scene.box_stack(1, dim=2)
    run = cdopt.simulate(smooth, 1e-3, 0.002, friction=0.5)
    assert "f_t" in Measures.of_frame(smooth, run.final).to_frame()
    with pytest.raises(cdopt.InvalidInput, match="friction= of the run"):
        Measures.of_frame(smooth, run.final).mobilised  # noqa: B018
    assert cdopt.dynamics.RunSummary.of(run).coordination == 1.0


def test_fixed_bodies_carry_weight_and_loads() -> None:
    summary = cdopt.dynamics.RunSummary.of(cdopt.simulate("ladder", 1e-3, 3e-3))
    assert summary.load > summary.weight  # somebody stands on it
    assert summary.reaction == pytest.approx(summary.weight + summary.load, rel=1e-9)


def test_what_has_no_measure_is_refused() -> None:
    step = taken(pressed_pair())
    bare = cdopt.ContactStep(step.M, step.B, step.phi, step.v, step.F_ext, 1e-3)
    here, run = (
        cdopt.measures(step, [3.0]),
        cdopt.simulate(pressed_pair(), 1e-3, 1e-3, "classic-cd"),
    )
    wrong: dict[str, Any] = {
        "step": lambda: cdopt.stress(bare, [3.0]),
        "region": lambda: here.stress(region=[[0.0, 0.0], [0.0, 1.0]]),
        "mu": lambda: here.mobilised,
        "run": lambda: analysis.measures(pressed_pair()),  # type: ignore[arg-type]
        "state": lambda: Measures.of_frame(cdopt.scene.beam(), run.final),
    }
    for name, call in wrong.items():
        with pytest.raises(cdopt.InvalidInput, match=name):
            call()


# --- motion --------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 3])
def tumbling(request: pytest.FixtureRequest) -> cdopt.dynamics.Trajectory:
    """A fixed sphere, a box that turns and falls, and a sphere that meets the floor."""
    dim = request.param
    across, *_, up = np.eye(dim)
    spin = {"angular_velocity": 3.0 if dim == 2 else [3.0, -1.0, 2.0]}
    bodies = [
        Body(HalfSpace(up), np.zeros(dim)),
        Body(Sphere(0.1), 5.0 * across, fixed=True),
        Body(Box([0.4, 0.3, 0.2][:dim]), up, velocity=2.0 * across, mass=2.0, **spin),
        Body(Sphere(0.1), 0.11 * up - across, mass=0.5, velocity=-0.3 * up, **spin),
    ]
    return cdopt.simulate(Scene(bodies, dim=dim), 1e-3, 0.05, "classic-cd", every=5)


def test_energies_and_momenta_are_those_of_the_diagnostics(tumbling) -> None:
    known = {name: values[tumbling.steps] for name, values in tumbling.diagnostics.items()}
    kinetic = analysis.translational_energy(tumbling) + analysis.rotational_energy(tumbling)
    np.testing.assert_allclose(kinetic, known["kinetic"], rtol=1e-12)
    assert (analysis.rotational_energy(tumbling) > 0.0).all()
    for name in ("momentum", "angular_momentum"):
        np.testing.assert_allclose(getattr(analysis, name)(tumbling), known[name], atol=1e-12)
    total = known["kinetic"] + known["potential"]
    np.testing.assert_allclose(analysis.total_energy(tumbling), total)
    np.testing.assert_allclose(analysis.mean_kinetic_energy(tumbling), kinetic / 2.0)
    q = tumbling.q[:, 2:, : tumbling.scene.dim]
    np.testing.assert_allclose(analysis.centre_of_mass(tumbling), 0.8 * q[:, 0] + 0.2 * q[:, 1])


@pytest.mark.parametrize("e", [0.0, pytest.param(0.4, marks=pytest.mark.slow), 1.0])
def test_restitution_is_newtons(e: float) -> None:
    scene = cdopt.scene.collision(e, masses=(1.0, 3.0), speeds=(2.0, -1.0), dim=3)
    run = cdopt.simulate(scene, 1e-3, 0.03, "classic-cd")
    for pair in ((0, 1), (1, 0)):
        assert analysis.restitution(run, pair) == pytest.approx(e, abs=1e-6)
    with pytest.raises(cdopt.InvalidInput, match="bodies that collide"):
        analysis.restitution(cdopt.simulate(scene, 1e-3, 0.002, "classic-cd"))
    for pair in ((0, 0), (0, 2)):
        with pytest.raises(cdopt.InvalidInput, match="pair"):
            analysis.restitution(run, pair)


@pytest.mark.parametrize("frames", [20, 21, 200])
def test_the_normal_is_that_of_closest_approach(frames: int) -> None:
    """One body swings about another and leaves more slowly than it came."""
    t = np.linspace(-1.0, 1.0, frames)
    radius, angle = 1.0 + t**2 - 0.2 * t**3, 0.3 + 0.2 * t
    along = np.stack([np.cos(angle), np.sin(angle), 0.0 * t], axis=1)
    across = np.stack([-np.sin(angle), np.cos(angle), 0.0 * t], axis=1)
    v = (2.0 * t - 0.6 * t**2)[:, None] * along + (0.2 * radius)[:, None] * across
    x = np.stack([0.0 * v, radius[:, None] * along], axis=1)
    v = np.stack([0.0 * v, v], axis=1)
    run = Motion.of_spheres(t, x, v, 0.0 * x, [1.0, 1.0], [0.5, 0.5])
    speed = v[:, 1] @ [np.cos(0.3), np.sin(0.3), 0.0]
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
    fixed, more = ([0.0], rng.normal(size=(1, n, 3))), (0.0 * v, mass, np.ones(n))
    gas = Motion.of_spheres(*fixed, v, *more)
    stress, expected = analysis.kinetic_stress(gas, volume)[0], n * temperature / volume
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
    with pytest.raises(cdopt.InvalidInput, match="run"):
        analysis.momentum(x)
    with pytest.raises(cdopt.InvalidInput, match="a Trajectory"):
        analysis.total_energy(run)
