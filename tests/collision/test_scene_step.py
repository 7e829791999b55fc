"""The contact step of a scene: mass, loads, stiffness, and what a solver makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from random_scenes import mixed, thrown

import cdopt
from cdopt import InvalidInput, collision
from cdopt.geometry.rotations import matrices
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, Spheres, State


@pytest.mark.parametrize("dim", [2, 3])
def test_M_gives_the_kinetic_energy(dim: int) -> None:
    rng = np.random.default_rng(2)
    scene = mixed(dim, rng)
    state = thrown(scene, rng)
    M, v = collision.mass_matrix(scene, state), scene.dofs.gather(state.v)
    free = ~scene.bodies.fixed
    energy = 0.5 * scene.bodies.mass[free] @ (state.velocity[free] ** 2).sum(axis=1)
    if dim == 2:
        energy += 0.5 * scene.bodies.inertia[0] * state.angular_velocity[0] ** 2
    else:
        own = matrices(state.orientation[:1])[0].T @ state.angular_velocity[0]
        energy += 0.5 * scene.bodies.inertia[0] @ own**2
    np.testing.assert_allclose(0.5 * v @ M @ v, energy, rtol=1e-13)
    assert abs(M - M.T).max() < 1e-14


def test_loads_are_gravity_what_is_applied_and_the_gyroscopic_term() -> None:
    omega = np.array([1.0, 2.0, 3.0])
    crate = Body(
        Box([1.0, 2.0, 3.0]),
        [0.0] * 3,
        angular_velocity=omega,
        mass=12.0,
        force=[1.0, 0.0, 0.0],
        torque=[0.0, 0.5, 0.0],
    )
    ball = Body(Sphere(1.0), [9.0, 0.0, 0.0], mass=2.0, angular_velocity=omega)
    scene = Scene([crate, ball], dim=3, gravity=[0.0, 0.0, -10.0])
    J = np.array([13.0, 10.0, 5.0])
    spin = -np.cross(omega, J * omega)
    expected = [1.0, 0.0, -120.0, *(spin + np.array([0.0, 0.5, 0.0])), 0.0, 0.0, -20.0]
    np.testing.assert_allclose(
        collision.external_forces(scene, scene.initial), expected, rtol=1e-14
    )
    flat = Scene([Body(Box([1.0, 1.0]), [0.0, 0.0], mass=2.0, torque=3.0)], dim=2)
    np.testing.assert_allclose(
        collision.external_forces(flat, flat.initial), [0.0, -19.62, 3.0], rtol=1e-14
    )


def pair_scene(power: float, **materials) -> Scene:
    known = [Material(name=name, **kind) for name, kind in materials.items()]
    names = list(materials)
    return Scene(
        [
            Body(Sphere(0.1), [0.0, 0.0, 0.0], mass=1.0, material=names[0]),
            Body(Sphere(0.3), [0.5, 0.0, 0.0], mass=1.0, material=names[-1]),
            Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, -0.4]),
        ],
        dim=3,
        power=power,
        materials=known,
    )


def test_hooke_stiffness_is_in_series() -> None:
    scene = pair_scene(2.0, soft={"young": 1.0}, hard={"young": 5.0})
    found = collision.detect(scene, scene.initial, margin=1.0)
    np.testing.assert_allclose(found.stiffness, [5.0 / 6.0, 1.0, 5.0], rtol=1e-15)
    again = pair_scene(3.0, soft={"stiffness": 1.0}, hard={"stiffness": 5.0})
    other = collision.detect(again, again.initial, margin=1.0)
    np.testing.assert_allclose(other.stiffness, found.stiffness, rtol=1e-15)


def test_hertz_stiffness_combines_moduli_and_radii() -> None:
    scene = pair_scene(
        2.5, soft={"young": 2.0, "poisson": 0.3}, hard={"young": 7.0, "poisson": 0.2}
    )
    found = collision.detect(scene, scene.initial, margin=1.0)
    plane = np.array([2.0 / 0.91, 7.0 / 0.96])
    both = 4.0 / 3.0 / (1.0 / plane).sum() * np.sqrt(0.1 * 0.3 / 0.4)
    floor = 4.0 / 3.0 * plane * np.sqrt([0.1, 0.3])
    np.testing.assert_allclose(found.stiffness, [both, *floor], rtol=1e-14)


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_rigid_contacts_have_stiffness_one(power: float) -> None:
    scene = pair_scene(power, stone={})
    found = collision.detect(scene, scene.initial, margin=1.0)
    np.testing.assert_array_equal(found.stiffness, [1.0, 1.0, 1.0])


def test_a_contact_takes_the_smaller_restitution() -> None:
    scene = Scene(
        [
            Spheres(
                centres=[[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]],
                radius=0.4,
                mass=1.0,
                material=["a", "b", ""],
            ),
            Body(HalfSpace([0.0, 1.0]), [0.0, 0.0]),
        ],
        dim=2,
        restitution=0.5,
        materials=[Material(name="a", restitution=0.9), Material(name="b", restitution=0.1)],
    )
    found = collision.detect(scene, scene.initial, margin=0.7)
    e = {tuple(pair): value for pair, value in zip(found.bodies, found.restitution, strict=True)}
    assert e == {(0, 1): 0.1, (0, 3): 0.5, (1, 2): 0.1, (1, 3): 0.1, (2, 3): 0.5}


def settled(scene: Scene, dt: float = 1e-3, steps: int = 30) -> tuple:
    """The scene after some steps of classic contact dynamics, and the last step."""
    state, near = scene.initial, collision.VerletList(scene)
    for _ in range(steps):
        margin = collision.safe_margin(scene, state, dt)
        found = collision.detect(scene, state, margin, near)
        step = collision.step(scene, state, found, dt)
        solution = cdopt.ClassicCD(step).solve("newton")
        assert solution.ok
        state = collision.advance(scene, state, solution.v_next, dt)
    return state, step


@pytest.mark.parametrize(("dim", "forces"), [(3, [1, 3, 1, 1, 3, 1])])
def test_the_beam_settles_on_compatible_forces(dim: int, forces) -> None:
    _, step = settled(cdopt.scene.beam(3.0, dim=dim))
    solution = cdopt.CompatibleCD(step).solve("newton", classic="newton")
    np.testing.assert_allclose(solution.f, forces, rtol=1e-9)
    total = step.body_forces(solution.f)
    np.testing.assert_allclose(total[0], [0.0] * (dim - 1) + [10.0], atol=1e-9)
    np.testing.assert_allclose(total[1:].sum(axis=0), -total[0], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_a_tilted_box_comes_to_lie_flat(dim: int) -> None:
    state, step = settled(cdopt.scene.box_on_floor(angle=0.2, dim=dim), dt=4e-3, steps=100)
    np.testing.assert_allclose(state.position[1, -1], 0.1, atol=1e-12)
    np.testing.assert_allclose(state.v[1], 0.0, atol=1e-9)
    assert step.nc == 2 ** (dim - 1)


def test_spins_of_spheres_and_motions_of_walls_persist() -> None:
    ball = Body(Sphere(0.1), [0.0, 5.0], angular_velocity=2.0, mass=1.0)
    wall = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], velocity=[0.0, 0.5])
    scene = Scene([ball, wall], dim=2)
    state = collision.advance(scene, scene.initial, np.array([1.0, 2.0]), 0.1)
    np.testing.assert_allclose(state.v, [[1.0, 2.0, 2.0], [0.0, 0.5, 0.0]])
    np.testing.assert_allclose(state.q, [[0.1, 5.2, 0.2], [0.0, 0.05, 0.0]])
    assert state.t == 0.1
    for v, dt in ((np.ones(3), 0.1), (np.array([1.0, np.nan]), 0.1), (np.ones(2), 0.0)):
        with pytest.raises(InvalidInput):
            collision.advance(scene, scene.initial, v, dt)


def test_a_step_without_contacts_falls_freely() -> None:
    scene = Scene([Body(Sphere(0.1), [0.0, 0.0, 5.0], mass=1.0)], dim=3)
    step = collision.step(scene, scene.initial, collision.detect(scene, scene.initial), 0.1)
    assert step.nc == 0
    np.testing.assert_allclose(cdopt.ClassicCD(step).solve("newton").v_next, [0.0, 0.0, -0.981])


# --- bodies that overlap at the start ----------------------------------------------------

DEPTH, DT = 1e-4, 1e-3
FLOOR = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0])


def sunk_column(overlaps: str, **fields) -> Scene:
    """Three discs of diameter 1 m on a floor, each 1e-4 m inside the one below."""
    heights = 0.5 + np.arange(3.0) * (1.0 - DEPTH) - DEPTH
    discs = Spheres(centres=np.column_stack([np.zeros(3), heights]), radius=0.5, mass=1.0)
    return Scene([FLOOR, discs], dim=2, overlaps=overlaps, **fields)


def forces_of(scene: Scene, **policy) -> np.ndarray:
    contacts = collision.detect(scene, scene.initial)
    step = collision.step(scene, scene.initial, contacts, DT, **policy)
    return cdopt.ClassicCD(step).solve().f


@pytest.mark.parametrize(("overlaps", "tolerance"), [("touching", 1e-6), ("refuse", 1.0)])
def test_overlaps_that_count_as_touching_cause_no_force(overlaps, tolerance, caplog) -> None:
    scene = sunk_column(overlaps, overlap_tol=tolerance)
    np.testing.assert_allclose(forces_of(scene), 9.81 * np.array([3.0, 2.0, 1.0]), rtol=1e-9)
    assert "3 overlaps, the deepest 0.0001 m, of bodies[" in caplog.text
    caplog.clear()
    run = cdopt.simulate(scene, DT, 5 * DT)
    np.testing.assert_allclose(run.final.f, 9.81 * np.array([3.0, 2.0, 1.0]), rtol=1e-6)
    assert run.diagnostics["overlap"][-1] == pytest.approx(DEPTH, rel=1e-3)
    assert caplog.text.count("count as touching") == 1


def test_overlaps_are_pushed_apart_where_asked_for(caplog) -> None:
    pushed = 3.0 * DEPTH / DT**2  # N, by which the uppermost disc of 1 kg rises three overlaps
    assert forces_of(sunk_column("resolve")).min() == pytest.approx(pushed + 9.81, rel=1e-6)
    forces = forces_of(sunk_column("touching"), overlaps="resolve")
    assert forces.min() == pytest.approx(pushed + 9.81, rel=1e-6)
    assert "are pushed apart" in caplog.text
    run = cdopt.simulate(sunk_column("touching"), DT, 2 * DT, overlaps="resolve")
    assert run.diagnostics["overlap"][-1] < 1e-9


def test_refused_overlaps_name_the_option() -> None:
    with pytest.raises(InvalidInput, match=r"deepest of 3 overlaps.*overlaps='touching'"):
        sunk_column("refuse")
    scene = sunk_column("touching")
    with pytest.raises(InvalidInput, match=r"3 overlaps.*overlaps='touching'"):
        forces_of(scene, overlaps="refuse")
    with pytest.raises(InvalidInput, match="deepest of 3 overlaps"):
        cdopt.simulate(scene, DT, DT, overlaps="refuse")
    with pytest.raises(InvalidInput, match="overlaps"):
        scene.with_overlaps("ignore")


def test_a_state_of_another_origin_may_overlap_too(caplog) -> None:
    apart = Scene([FLOOR, Body(Sphere(0.5), [0.0, 0.6], mass=1.0)], dim=2)
    q = apart.initial.q.copy()
    q[1, 1] = 0.5 - DEPTH
    sunk = State(0.0, q, apart.initial.v)
    contacts = collision.detect(apart, sunk)
    touching = collision.step(apart, sunk, contacts, DT, overlaps="touching")
    assert touching.phi.tolist() == [0.0]
    assert collision.step(apart, sunk, contacts, DT).phi == pytest.approx([-DEPTH])
    assert "1 overlaps" in caplog.text


def test_steps_share_a_mass_that_no_orientation_changes() -> None:
    def masses(scene: Scene, **more: float) -> list:
        contacts = collision.detect(scene, scene.initial)
        return [
            collision.step(scene, scene.initial, contacts, dt, **more).mass for dt in (0.1, 0.2)
        ]

    pile = cdopt.scene.pyramid(2)
    first, second = masses(pile)
    assert first is second
    np.testing.assert_array_equal(
        second.M.toarray(), collision.mass_matrix(pile, pile.initial).toarray()
    )
    assert masses(pile, friction=0.5)[0].diagonal.size == pile.full_dofs.nv
    assert masses(pile)[0].diagonal.size == pile.dofs.nv
    turning, later = masses(cdopt.scene.load("tumbling-box"))
    assert turning is not later
