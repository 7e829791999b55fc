"""B against finite differences of Φ, for every pair of shapes, in the plane and in space."""

from __future__ import annotations

import numpy as np
import pytest
from anyhow import mixed, thrown

from cdopt.collision import configuration_map, detect, gap_gradient, move
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere, State

H = 1e-6


def rates(scene: Scene, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gap rates B v + gap_rate, and by central differences of Φ; which are comparable."""
    now = detect(scene, state, margin=1e3)
    by_B = gap_gradient(scene, state, now) @ scene.dofs.gather(state.v) + now.gap_rate
    moved = [
        detect(scene, State(0.0, move(state, state.v, h), state.v), margin=1e3) for h in (H, -H)
    ]
    for other in moved:
        np.testing.assert_array_equal(other.contact_ids, now.contact_ids)
    # within H of an edge of a region of the box, Φ has a jump in curvature or, inside, in slope
    turn = [np.linalg.norm(other.normals - now.normals, axis=1) for other in moved]
    smooth = np.maximum(*turn) < 0.1
    return by_B, (moved[0].phi - moved[1].phi) / (2.0 * H), smooth


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_B_is_the_derivative_of_the_gaps(dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scene = mixed(dim, rng)
    by_B, by_difference, smooth = rates(scene, thrown(scene, rng))
    assert smooth.mean() > 0.95
    np.testing.assert_allclose(by_B[smooth], by_difference[smooth], atol=2e-8, rtol=1e-7)
    assert np.abs(by_B).max() > 0.1


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("place", ["face", "edge", "corner", "near a corner"])
def test_B_near_edges_and_corners_of_a_box(dim: int, place: str) -> None:
    rng = np.random.default_rng(dim)
    half = np.array([0.5, 0.3, 0.7][:dim])
    over = {"face": [1, 0, 0], "edge": [1, 1, 0], "corner": [1, 1, 1], "near a corner": [1, 1, 1]}
    out = 1e-3 if place == "near a corner" else 0.2
    local = np.where(over[place][:dim], half + out, 0.4 * half)
    ball, box = Body(Sphere(0.1), np.zeros(dim), mass=1.0), Body(Box(2 * half), 0 * half, mass=1.0)
    scene = Scene([ball, box], dim=dim, overlap_tol=1e9)
    for _ in range(5):
        state = thrown(scene, rng)
        q = np.array(state.q)
        frame = rotation(state, 1)
        q[0, :dim] = q[1, :dim] + frame @ local
        by_B, by_difference, smooth = rates(scene, State(0.0, q, state.v))
        assert smooth.all()
        np.testing.assert_allclose(by_B, by_difference, atol=1e-7 + 10.0 * (H / out) ** 2)


def rotation(state: State, body: int) -> np.ndarray:
    """R of a body, by the textbook: the columns are its axes."""
    if state.dim == 2:
        c, s = np.cos(state.q[body, 2]), np.sin(state.q[body, 2])
        return np.array([[c, -s], [s, c]])
    w, r = state.q[body, 3], state.q[body, 4:]
    cross = np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])
    return np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross


@pytest.mark.parametrize("dim", [2, 3])
def test_spheres_have_no_columns_for_turns(dim: int) -> None:
    rng = np.random.default_rng(5)
    scene = mixed(dim, rng)
    state = thrown(scene, rng)
    found = detect(scene, state, margin=1e3)
    B = gap_gradient(scene, state, found)
    spheres = int((~scene.bodies.fixed).sum()) - 1
    assert B.shape == (found.nc, spheres * dim + (3 if dim == 2 else 6))
    assert np.abs(B[:, : 3 if dim == 2 else 6]).max() > 0.0


def test_a_scene_without_contacts_has_an_empty_B() -> None:
    scene = Scene([Body(Sphere(1.0), [0.0, 0.0], mass=1.0)], dim=2)
    found = detect(scene, scene.initial)
    assert gap_gradient(scene, scene.initial, found).shape == (0, 2)


def test_a_wall_that_moves_and_turns_prescribes_its_rate() -> None:
    wall = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], velocity=[5.0, 2.0], angular_velocity=3.0)
    scene = Scene([wall, Body(Sphere(0.5), [2.0, 1.0], mass=1.0)], dim=2)
    found = detect(scene, scene.initial, margin=1.0)
    np.testing.assert_allclose(found.gap_rate, [-(2.0 + 3.0 * 2.0)])


@pytest.mark.parametrize("dim", [2, 3])
def test_L_takes_velocities_to_rates_of_q(dim: int) -> None:
    rng = np.random.default_rng(11)
    scene = mixed(dim, rng)
    state = thrown(scene, rng)
    rate = (configuration_map(state) @ state.v.ravel()).reshape(state.q.shape)
    ahead, back = (move(state, state.v, h) for h in (H, -H))
    np.testing.assert_allclose(rate, (ahead - back) / (2.0 * H), atol=1e-8)
    if dim == 3:
        np.testing.assert_allclose(np.linalg.norm(ahead[:, 3:], axis=1), 1.0, atol=1e-15)


def test_turns_are_exact() -> None:
    crate = Body(Box([1.0] * 3), [0.0] * 3, angular_velocity=[0.0, 0.0, np.pi], mass=1.0)
    scene = Scene([crate], dim=3)
    q = move(scene.initial, scene.initial.v, 0.5)
    np.testing.assert_allclose(q[0, 3:], [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)], atol=1e-15)
    back = move(State(0.0, q, scene.initial.v), scene.initial.v, -0.5)
    np.testing.assert_allclose(back, scene.initial.q, atol=1e-15)
