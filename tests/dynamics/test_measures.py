"""Stress, fabric, coordination and distributions, against what is known without a computer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import cdopt
from cdopt.dynamics import Measures, analysis, equilibrium
from cdopt.scene import Body, HalfSpace, Scene, Sphere, Spheres
from cdopt.scene.generators.grains import crystal_positions


def taken(scene: Scene, **options: object) -> cdopt.ContactStep:
    """The step of a scene at its start."""
    contacts = cdopt.collision.detect(scene, scene.initial)
    return cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3, **options)


def pressed_pair(force: float = 3.0, radius: float = 0.5) -> Scene:
    """Two discs pressed together along x."""
    ball = Sphere(radius)
    bodies = [
        Body(ball, [sign * radius, 0.0], mass=1.0, force=[-sign * force, 0.0])
        for sign in (-1.0, 1.0)
    ]
    return Scene(bodies, dim=2, gravity=[0.0, 0.0])


def test_two_discs() -> None:
    step = taken(pressed_pair(3.0))
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
    centres = crystal_positions(1, 4)
    square = np.concatenate([centres + np.array([0.0, k]) for k in range(4)])  # a square lattice
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]])
    ends = np.array([[0.0, 0.0], [4.0, 4.0]])
    walls = [
        Body(HalfSpace(sign * turn[:, axis]), unit * turn @ ends[end])
        for axis in (0, 1)
        for end, sign in ((0, 1.0), (1, -1.0))
    ]
    discs = Spheres(centres=unit * square @ turn.T, radius=0.5 * unit, mass=1.0)
    scene = Scene([*walls, discs], dim=2, gravity=[0.0, 0.0], overlap_tol=1e-3)
    step = taken(scene)
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
    turned = dataclasses.replace(
        pushed,
        **{name: getattr(pushed, name) @ turn.T for name in ("x", "normals", "points", "vectors")},
    )
    for measure in (lambda m: m.stress(volume=1.0), Measures.fabric):
        np.testing.assert_allclose(measure(turned), turn @ measure(pushed) @ turn.T, atol=1e-12)
    tilted = boxed_crystal(7.0, 0.3).stress(volume=16.0)
    np.testing.assert_allclose(tilted, 7.0 * np.eye(2), atol=1e-12)


def squeezed(dim: int = 2) -> tuple[Scene, cdopt.dynamics.Equilibrium]:
    """A crystal of discs in a box, or a pyramid, at rest under gravity and uneven loads."""
    packing = cdopt.scene.crystal(4, 4) if dim == 2 else cdopt.scene.pyramid(4)
    scene = packing.stiffened(1e6 if dim == 2 else 1e-8)
    if dim == 3:
        return scene, equilibrium(scene, travel=np.inf)
    push = np.random.default_rng(0).uniform(-1.0, 0.0, scene.dofs.nv) * 0.3
    return scene, equilibrium(scene, load=push)


@pytest.mark.parametrize("dim", [2, 3])
def test_stress_is_the_derivative_of_the_energy(dim: int) -> None:
    """Elastic contacts between the bodies of a deposit, all centres moved by a strain."""
    scene, rest = squeezed(dim)
    within = ~scene.bodies.fixed[rest.contacts.bodies].any(axis=1) & (rest.forces > 0.0)
    i, j = rest.contacts.bodies[within].T
    here = Measures.of_rest(scene, rest)
    here = dataclasses.replace(
        here,
        **{
            name: getattr(here, name)[within] for name in ("bodies", "normals", "points", "vectors")
        },
    )

    def energy(strain: np.ndarray) -> float:
        x = rest.state.position @ (np.eye(dim) + strain)
        overlap = (
            scene.bodies.reach[i] + scene.bodies.reach[j] - np.linalg.norm(x[j] - x[i], axis=1)
        )
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
    scene = Scene(
        [Body(HalfSpace([0.0, 1.0]), [0.0, 0.0]),
         Body(cdopt.scene.Box([2.0, 1.0]), [0.0, 0.5], mass=1.0, force=[3.0, 0.0])],
        dim=2, gravity=[0.0, -10.0],
    )  # fmt: skip
    step = taken(scene, friction=0.5)
    here = cdopt.measures(step, cdopt.FrictionalCD(step).solve("newton"))
    assert here.f_t.sum() == pytest.approx(3.0)
    sigma = here.stress(volume=1.0)
    assert sigma[1, 1] == pytest.approx(5.0)  # 10 N half a metre below the centre
    assert sigma[1, 0] == pytest.approx(-1.5)  # and the floor's 3 N to the left there
    share = here.f_t.sum() / (0.5 * here.f.sum())
    assert np.nanmin(here.mobilised) <= share <= np.nanmax(here.mobilised) <= 1.0 + 1e-9
    assert here.coordination().mean == 1.0  # two points, one neighbour


def test_rattlers_are_peeled_off() -> None:
    """A triangle of discs in balance, with a chain of two discs that nothing holds."""
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)], [-1.0, 0.0], [-2.0, 0.0]])
    pairs = np.array([[0, 1], [0, 2], [1, 2], [0, 3], [3, 4]])
    arm = x[pairs[:, 1]] - x[pairs[:, 0]]
    here = Measures(x, np.full(5, 0.5), np.ones(5, bool), pairs, arm,
                    x[pairs[:, 0]] + 0.5 * arm, arm)  # fmt: skip
    assert here.coordination(2).rattlers.tolist() == [3, 4]
    assert here.coordination(2).without_rattlers == 2.0
    assert here.coordination(2).mean == 2.0
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


def test_of_a_run() -> None:
    run = cdopt.simulate("pyramid:n=3", 1e-3, 0.02, "classic-cd")
    table = analysis.measures(run).to_frame()
    assert table["contacts"].iloc[0] == 0
    assert table.shape == (21, 34)
    assert table["kinetic_stress.zz"].iloc[0] == 0.0
    volume = np.prod(np.diff(Measures.of_frame(run.scene, run.final).enclosure, axis=0))
    known = analysis.kinetic_stress(run, float(volume))[-1, 2, 2]
    assert table["kinetic_stress.zz"].iloc[-1] == pytest.approx(known, rel=1e-12)
    final = Measures.of_frame(run.scene, run.final)
    assert table["stress.zz"].iloc[-1] == pytest.approx(final.stress()[2, 2])
    assert cdopt.dynamics.RunSummary.of(run).coordination == final.coordination().mean
    lives = analysis.contact_lifetimes(run)
    carrying = {tuple(pair) for pair in run.final.bodies[run.final.f > 0.0].tolist()}
    assert {tuple(pair) for pair in lives.bodies[lives.end == run.t[-1]].tolist()} == carrying
    assert lives.cut[lives.end == run.t[-1]].all()
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


def test_what_has_no_measure_is_refused() -> None:
    step = taken(pressed_pair())
    bare = cdopt.ContactStep(step.M, step.B, step.phi, step.v, step.F_ext, 1e-3)
    with pytest.raises(cdopt.InvalidInput, match="step"):
        cdopt.stress(bare, [3.0])
    here = cdopt.measures(step, [3.0])
    with pytest.raises(cdopt.InvalidInput, match="region"):
        here.stress(region=[[0.0, 0.0], [0.0, 1.0]])
    with pytest.raises(cdopt.InvalidInput, match="mu"):
        _ = here.mobilised
    with pytest.raises(cdopt.InvalidInput, match="run"):
        analysis.measures(scene := pressed_pair())  # type: ignore[arg-type]
    run = cdopt.simulate(scene, 1e-3, 1e-3, "classic-cd")
    with pytest.raises(cdopt.InvalidInput, match="state"):
        Measures.of_frame(cdopt.scene.beam(), run.final)


def test_fixed_bodies_carry_weight_and_loads() -> None:
    run = cdopt.simulate("ladder", 1e-3, 3e-3)
    summary = cdopt.dynamics.RunSummary.of(run)
    assert summary.load > summary.weight  # somebody stands on it
    assert summary.reaction == pytest.approx(summary.weight + summary.load, rel=1e-9)
