"""Damping: the pairwise forces of De Klerk et al., what they conserve, and moving walls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenes import mixed, thrown
from scipy.integrate import solve_ivp

from cdopt import InvalidInput
from cdopt.collision import (
    Contacts,
    damping_drive,
    damping_matrix,
    detect,
    effective_mass,
    gap_gradient,
    mass_matrix,
)
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, Spheres, State

GAMMA = {"damping": 30.0, "tangential_damping": 7.0}


def everything(scene: Scene, state: State, contacts=None, dofs=None) -> np.ndarray:
    """−C v + drive as a table like State.v, all contacts damped."""
    found = detect(scene, state, 1e3) if contacts is None else contacts
    chosen = scene.full_dofs if dofs is None else dofs
    flags = np.ones(found.nc, dtype=bool)
    C = damping_matrix(scene, state, found, flags, dofs)
    force = damping_drive(scene, state, found, flags, dofs) - C @ chosen.gather(state.v)
    return chosen.scatter(force, np.zeros(state.v.shape))


def in_space(table: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Translations and turns (nb, 3) of a table like State.v."""
    if dim == 3:
        return table[:, :3], table[:, 3:]
    zero = np.zeros(table.shape[0])
    shift, turn = table[:, :2], table[:, 2]
    return np.column_stack([shift, zero]), np.column_stack([zero, zero, turn])


def by_hand(scene: Scene, state: State, contacts: Contacts) -> np.ndarray:
    """(20)–(25): forces and torques on all bodies, as a table like State.v in space.

    Two spheres meet halfway between their centres, and a sphere meets a fixed body of another
    shape at that body's surface; all others meet at their contact point.
    """
    bodies, dim = scene.bodies, scene.dim
    v, w = in_space(state.v, dim)
    x, points, normals = (
        np.hstack([table, np.zeros((len(table), 3 - dim))])
        for table in (state.position, contacts.points, contacts.normals)
    )
    table = np.zeros((scene.nb, 6))
    for (i, j), n, point, phi in zip(contacts.bodies, normals, points, contacts.phi, strict=True):
        spheres = [isinstance(bodies.shape(k), Sphere) for k in (i, j)]
        if all(spheres):
            point = 0.5 * (x[i] + x[j])
        elif spheres[0] and bodies.fixed[j]:
            point = point + 0.5 * phi * n
        elif spheres[1] and bodies.fixed[i]:
            point = point - 0.5 * phi * n
        m = 1.0 / sum(0.0 if bodies.fixed[k] else 1.0 / bodies.mass[k] for k in (i, j))
        slip = v[i] + np.cross(w[i], point - x[i]) - v[j] - np.cross(w[j], point - x[j])
        along = (slip @ n) * n
        F = -scene.damping * m * along - scene.gamma_t * m * (slip - along)
        for body, f in ((i, F), (j, -F)):
            if not bodies.fixed[body]:
                table[body] += [*f, *np.cross(point - x[body], f)]
    return table


def two(dim: int, rng: np.random.Generator, *, fixed: bool = False, **fields) -> tuple:
    """Overlapping spheres of unequal size and mass, on the move."""
    small, large = Sphere(0.5), Sphere(1.25)
    bodies = [
        Body(small, np.zeros(dim), mass=2.0),
        Body(large, np.full(dim, 9.0), mass=5.0, fixed=fixed),
    ]
    scene = Scene(bodies, dim=dim, **(fields or GAMMA))
    q = np.array(scene.initial.q)
    r = rng.standard_normal(dim)
    q[0, :dim] = rng.standard_normal(dim)
    q[1, :dim] = q[0, :dim] - 1.7 * r / np.linalg.norm(r)
    return scene, State(0.0, q, rng.standard_normal(scene.initial.v.shape))


def ball_on_wall(dim: int, rng: np.random.Generator, wall: str, height: float, first: bool):
    """A sphere, its centre at a height over a wall that moves."""
    up, drift = np.eye(dim)[-1], rng.standard_normal(dim)
    if wall == "half-space":
        body = Body(HalfSpace(up), 0.2 * up, velocity=drift)
    else:
        body = Body(Box([4.0] * dim), -1.8 * up, velocity=drift, fixed=True, mass=0.1)
    ball = Body(Sphere(0.5), (0.2 + height) * up, mass=2.0)
    bodies = [ball, body] if first else [body, ball]
    scene = Scene(bodies, dim=dim, overlap_tol=0.1, **GAMMA)
    v = np.array(scene.initial.v)
    v[~scene.bodies.fixed] = rng.standard_normal(v.shape[1])
    return scene, State(0.0, scene.initial.q, v)


def boxes(dim: int, rng: np.random.Generator) -> tuple[Scene, State]:
    """A free box, a free sphere and a moving wall."""
    bodies = [
        Body(Box(rng.uniform(0.5, 2.0, dim)), np.full(dim, 50.0), mass=3.0),
        Body(Sphere(0.7), [0.0] * dim, mass=2.0),
        Body(HalfSpace(np.eye(dim)[0]), [-60.0] * dim, velocity=rng.standard_normal(dim)),
    ]
    scene = Scene(bodies, dim=dim, **GAMMA)
    return scene, thrown(scene, rng)


CASES = {
    "two spheres": two,
    "a fixed sphere": lambda dim, rng: two(dim, rng, fixed=True),
    "normal alone": lambda dim, rng: two(dim, rng, damping=30.0, tangential_damping=0.0),
    "tangential alone": lambda dim, rng: two(dim, rng, tangential_damping=2.0),
    "half of the normal": lambda dim, rng: two(dim, rng, damping=30.0),
    "wall": lambda dim, rng: ball_on_wall(dim, rng, "half-space", 0.47, True),
    "wall first": lambda dim, rng: ball_on_wall(dim, rng, "half-space", 0.6, False),
    "fixed box": lambda dim, rng: ball_on_wall(dim, rng, "box", 0.47, False),
    "boxes": boxes,
}


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_forces_are_those_of_the_paper(name: str, dim: int) -> None:
    scene, state = CASES[name](dim, np.random.default_rng(3))
    contacts = detect(scene, state, 1e3)
    table = np.hstack(in_space(everything(scene, state, contacts), dim))
    expected = by_hand(scene, state, contacts)
    np.testing.assert_allclose(table, expected, atol=1e-12 * np.abs(expected).max())


# by γ_n, 1/s: velocity and spin of the left of two spheres after an oblique impact 0.1 d off
# centre, m = d = 1, k = 195,000, v = 1; a high-order ODE solver on (20)–(25), known apart
IMPACTS = {
    30.0: (-0.908507704, -0.186047713, 0.033177433),
    60.0: (-0.842181739, -0.174159353, 0.058707328),
}


@pytest.mark.slow
@pytest.mark.parametrize("gamma", IMPACTS)
def test_an_oblique_impact_ends_like_the_reference(gamma: float) -> None:
    along = np.sqrt(1.0 - 0.1**2) / 2.0
    scene = Scene(
        [
            Spheres(
                centres=[[-along, -0.05, 0.0], [along, 0.05, 0.0]],
                radius=0.5,
                mass=1.0,
                velocities=[[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]],
                material="m",
            )
        ],
        dim=3,
        damping=gamma,
        gravity=np.zeros(3),
        materials=[Material(name="m", stiffness=390_000.0)],
    )
    dofs = scene.full_dofs
    mass = mass_matrix(scene, scene.initial, dofs).diagonal()

    def state_of(y: np.ndarray) -> State:
        q = np.array(scene.initial.q)
        q[:, :3] = y[:6].reshape(2, 3)
        return State(0.0, q, dofs.scatter(y[6:], scene.initial.v))

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        state = state_of(y)
        found = detect(scene, state, 0.1)
        B = gap_gradient(scene, state, found, dofs)
        # the contact lasts until the event, and its force is smooth until there
        C = damping_matrix(scene, state, found, np.ones(1, dtype=bool))
        F = -B.T @ (found.stiffness * found.phi) - C @ y[6:]
        return np.concatenate([state.velocity.ravel(), F / mass])

    def gap(t: float, y: np.ndarray) -> float:
        return float(np.linalg.norm(y[:3] - y[3:6]) - 1.0) if t > 1e-3 else -1.0

    gap.terminal = True
    start = np.concatenate([scene.initial.position.ravel(), dofs.gather(scene.initial.v)])
    run = solve_ivp(
        rate, (0.0, 0.02), start, "DOP853", rtol=1e-10, atol=1e-12, events=gap, max_step=1e-3
    )
    v = dofs.scatter(run.y[6:, -1], scene.initial.v)
    np.testing.assert_allclose(v[0, [0, 1, 5]], IMPACTS[gamma], atol=2e-8)
    np.testing.assert_allclose(v[1, [0, 1, 5]], IMPACTS[gamma] * np.array([-1, -1, 1]), atol=2e-8)


@settings(max_examples=15)
@given(
    dim=st.sampled_from([2, 3]),
    seed=st.integers(0, 1000),
    damping=st.floats(0.0, 1e3),
    tangential=st.floats(0.0, 1e3),
    full=st.booleans(),
)
def test_C_is_symmetric_and_only_dissipates(dim, seed, damping, tangential, full) -> None:
    rng = np.random.default_rng(seed)
    scene = mixed(dim, rng, damping=damping, tangential_damping=tangential)
    state = thrown(scene, rng)
    found = detect(scene, state, 1e3)
    flags = rng.random(found.nc) < 0.7
    dofs = scene.full_dofs if full else scene.dofs
    C = damping_matrix(scene, state, found, flags, dofs)
    assert C.shape == (dofs.nv, dofs.nv)
    assert (C != C.T).nnz == 0
    values = np.linalg.eigvalsh(C.toarray())
    assert values.min() >= -1e-12 * max(values.max(), 1e-300)


def free_cluster(dim: int, rng: np.random.Generator) -> tuple[Scene, State]:
    """Spheres of unequal sizes and a box, all free, anywhere near each other."""
    radius, mass = rng.uniform(0.1, 1.0, 4), rng.uniform(0.5, 2.0, 4)
    centres = np.outer(10.0 * np.arange(4), np.ones(dim))
    box = Body(Box(rng.uniform(0.5, 2.0, dim)), np.full(dim, 50.0), mass=3.0)
    scene = Scene([box, Spheres(centres, radius, mass=mass)], dim=dim, **GAMMA)
    return scene, thrown(scene, rng)


@settings(max_examples=15)
@given(dim=st.sampled_from([2, 3]), seed=st.integers(0, 1000))
def test_damping_keeps_linear_and_angular_momentum(dim: int, seed: int) -> None:
    scene, state = free_cluster(dim, np.random.default_rng(seed))
    table = everything(scene, state)
    force, torque = in_space(table, dim)
    place = np.hstack([state.position, np.zeros((state.nb, 3 - dim))])
    scale = np.abs(table).max()
    assert scale > 1.0
    np.testing.assert_allclose(force.sum(axis=0), 0.0, atol=1e-13 * scale)
    about_origin = (torque + np.cross(place, force)).sum(axis=0)
    np.testing.assert_allclose(about_origin, 0.0, atol=1e-12 * scale)


def rigid(state: State, shift: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Velocities of all bodies as one rigid body, like State.v; in the plane turn is a number."""
    x = state.position
    if state.dim == 2:
        return np.column_stack(
            [shift + turn * np.column_stack([-x[:, 1], x[:, 0]]), np.full(state.nb, turn)]
        )
    return np.hstack([shift + np.cross(turn, x), np.tile(turn, (state.nb, 1))])


@settings(max_examples=15)
@given(dim=st.sampled_from([2, 3]), seed=st.integers(0, 1000), free=st.booleans())
def test_nothing_is_lost_in_rigid_motion(dim: int, seed: int, free: bool) -> None:
    """Also with walls in the scene, when they move along: C v is then the drive."""
    rng = np.random.default_rng(seed)
    if free:
        scene, state = free_cluster(dim, rng)
    else:
        scene = mixed(dim, rng, **GAMMA)
        state = thrown(scene, rng)
    turn = rng.standard_normal() if dim == 2 else rng.standard_normal(3)
    along = State(0.0, state.q, rigid(state, rng.standard_normal(dim), turn))
    found = detect(scene, along, 1e3)
    C = damping_matrix(scene, along, found, np.ones(found.nc, dtype=bool))
    v = scene.full_dofs.gather(along.v)
    scale = abs(C).max() * max(np.abs(along.v).max(), 1.0)
    assert scale > 1.0
    np.testing.assert_allclose(everything(scene, along), 0.0, atol=1e-12 * scale)
    if free:
        np.testing.assert_allclose(C @ v, 0.0, atol=1e-12 * scale)
    else:
        assert np.abs(C @ v).max() > 1e-6 * scale


@pytest.mark.parametrize("dim", [2, 3])
def test_a_pair_loses_nothing_in_rigid_motions_alone(dim: int) -> None:
    """The null space is no larger: 1 + (dim − 1) dashpots, of which each pair feels all."""
    scene, state = two(dim, np.random.default_rng(8))
    C = damping_matrix(scene, state, detect(scene, state)).toarray()
    assert np.linalg.matrix_rank(C, tol=1e-9) == dim
    only_normal, state = two(dim, np.random.default_rng(8), damping=1.0, tangential_damping=0.0)
    found = detect(only_normal, state)
    C = damping_matrix(only_normal, state, found)
    assert np.linalg.matrix_rank(C.toarray(), tol=1e-9) == 1
    spins = only_normal.full_dofs.column >= dim
    assert C[spins].nnz == 0


def test_by_default_overlaps_and_bonds_are_damped() -> None:
    row = Spheres(
        centres=[[0.0, 0.0], [1.005, 0.0], [2.006, 0.0], [2.9, 0.0]], radius=0.5, mass=1.0
    )
    scene = Scene([row], dim=2, overlap_tol=1.0, bond_stiffness=1.0, bond_reach=0.0045, **GAMMA)
    found = detect(scene, scene.initial, 0.01)
    np.testing.assert_array_equal(found.bonded, [False, True, False])
    np.testing.assert_array_equal(found.phi < 0.0, [False, False, True])
    C = damping_matrix(scene, scene.initial, found)
    stated = damping_matrix(scene, scene.initial, found, np.array([False, True, True]))
    np.testing.assert_array_equal(C.toarray(), stated.toarray())
    assert damping_matrix(scene, scene.initial, found, np.zeros(3, dtype=bool)).nnz == 0
    first = scene.full_dofs.body == 0
    assert C[first].nnz == 0
    assert C.diagonal()[~first].min() > 0.0
    for flags in (np.ones(2, dtype=bool), np.ones(3), True):
        for function in (damping_matrix, damping_drive):
            with pytest.raises(InvalidInput, match="damped"):
                function(scene, scene.initial, found, flags)


def test_without_damping_or_contacts_there_is_none() -> None:
    undamped, state = two(3, np.random.default_rng(0), damping=0.0)
    damped = Scene([Body(Sphere(1.0), [0.0] * 3, mass=1.0)], dim=3, **GAMMA)
    for scene, at in ((undamped, state), (damped, damped.initial)):
        found = detect(scene, at)
        assert found.nc == (scene is undamped)
        nv = scene.full_dofs.nv
        C = damping_matrix(scene, at, found)
        assert (C.shape, C.nnz) == ((nv, nv), 0)
        np.testing.assert_array_equal(damping_drive(scene, at, found), np.zeros(nv))


@pytest.mark.parametrize("dim", [2, 3])
def test_without_turns_among_the_dofs_spins_drive(dim: int) -> None:
    rng = np.random.default_rng(6)
    scene = mixed(dim, rng, **GAMMA)
    state = thrown(scene, rng)
    found = detect(scene, state, 1e3)
    all_turn, boxes_turn = (everything(scene, state, found, dofs) for dofs in (None, scene.dofs))
    kept = scene.dofs.number >= 0
    scale = np.abs(all_turn).max()
    np.testing.assert_allclose(boxes_turn[kept], all_turn[kept], atol=1e-12 * scale)
    assert np.abs(all_turn[~kept]).max() > 1e-3 * scale


def test_effective_masses_are_in_series_and_fixed_bodies_infinitely_heavy() -> None:
    centres, fixed = [[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]], [False, False, True]
    row = Spheres(centres, 0.5, mass=[2.0, 3.0, 5.0], fixed=fixed)
    scene = Scene([row, Body(HalfSpace([0.0, 1.0]), [0.0, -1.0])], dim=2)
    pairs = np.array([[0, 1], [1, 2], [0, 3], [2, 3]])
    np.testing.assert_allclose(effective_mass(scene, pairs), [1.2, 3.0, 2.0, np.inf])
