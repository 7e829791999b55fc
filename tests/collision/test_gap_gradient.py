"""B against finite differences of every gap, for every pair of shapes, and how bodies move."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from random_scenes import mixed, near, shapes, thrown
from scipy.spatial.transform import Rotation

from cdopt.collision import detect, gap_gradient, move
from cdopt.geometry.rotations import matrices
from cdopt.scene import Body, Box, Scene, Sphere, State

H = 1e-6
KINDS = {
    2: ["sphere", "box", "capsule", "half-space", "polygon", "compound"],
    3: ["sphere", "box", "capsule", "half-space", "polyhedron", "compound"],
}
PAIRS = [
    pytest.param(
        dim,
        *pair,
        marks=[pytest.mark.slow]
        * (
            kinds.index(pair[0]) > kinds.index(pair[1])
            or (pair[1] == "compound" and pair[0] not in ("sphere", "half-space", "compound"))
        ),
    )
    for dim, kinds in KINDS.items()
    for pair in itertools.product(kinds, kinds)
    if pair != ("half-space", "half-space")
]  # the other way round, and of compounds what their pieces have too, as long tests


def differences(scene: Scene, state: State, margin: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Rates of the gaps by B and by central differences, of contacts that last; how many do not.

    Rates are per size of the error of the differences, which is that of the square of the turn of
    the normal meanwhile: from corner to corner, near each other, it turns fast.
    """
    now = detect(scene, state, margin)
    by_B = gap_gradient(scene, state, now) @ scene.dofs.gather(state.v) + now.gap_rate
    there, back = (
        detect(scene, State(0.0, move(state, state.v, h), state.v), margin + 0.1) for h in (H, -H)
    )
    common = set(there.contact_ids) & set(back.contact_ids)
    lasting = [k for k, name in enumerate(now.contact_ids) if name in common]
    ids = now.contact_ids[lasting]
    rows = [
        [int(np.flatnonzero(other.contact_ids == name)[0]) for name in ids]
        for other in (there, back)
    ]
    ahead, behind = (other.phi[row] for other, row in zip((there, back), rows, strict=True))
    turn = np.linalg.norm(there.normals[rows[0]] - back.normals[rows[1]], axis=1)
    error = 2e-7 + 1e-6 * np.abs(by_B[lasting]) + turn**2
    return by_B[lasting] / error, (ahead - behind) / (2.0 * H) / error, now.nc - len(lasting)


@pytest.mark.parametrize(("dim", "first", "second"), PAIRS)
def test_B_is_the_derivative_of_every_gap(dim: int, first: str, second: str) -> None:
    rng = np.random.default_rng([dim, *map(ord, first + second)])
    seen = lost = 0
    for _ in range(3):
        made, others = shapes(dim, rng), shapes(dim, rng)
        scene, state = near(made[first], others[second], dim, rng)
        by_B, by_difference, gone = differences(scene, state, 0.1)
        np.testing.assert_allclose(by_B, by_difference, atol=1.0, rtol=0.0)
        seen, lost = seen + by_B.size, lost + gone
    assert seen >= 3
    assert lost <= 1 + 0.05 * seen  # a corner may be as deep behind one face as behind another


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("other", ["box", "capsule", "polytope"])
@pytest.mark.parametrize("tilt", [0.0, 1e-9, 1e-6, 1e-3, 0.03])
def test_B_of_faces_that_lie_on_each_other_almost_flat(dim: int, other: str, tilt: float) -> None:
    rng = np.random.default_rng(dim)
    made = shapes(dim, rng)
    upper = {
        "box": made["box"],
        "capsule": made["capsule"],
        "polytope": made["polygon" if dim == 2 else "polyhedron"],
    }[other]
    scene, state = near(made["box"], upper, dim, rng)
    q = np.array(state.q)
    up = np.eye(dim)[-1]
    hulls = scene.bodies.hulls
    own = slice(*hulls.topology.first_face[1:3])
    face = hulls.normals[own][-1] if own.stop > own.start else up  # to be turned down
    if dim == 2:
        q[0, 2], q[1, 2] = 0.0, np.arctan2(-1.0, 0.0) - np.arctan2(face[1], face[0]) + tilt
    else:
        q[0, 3:], q[1, 3:] = [1.0, 0.0, 0.0, 0.0], turn_onto(face, -up, tilt)
    q[0, :dim], q[1, :dim] = 0.0, 0.1
    q[1, dim - 1] = 3.0
    reach = detect(scene, State(0.0, q, state.v), margin=10.0).phi.min()
    q[1, dim - 1] -= reach - 1e-3
    still = State(0.0, q, state.v)
    found = detect(scene, still, 0.05)
    assert found.nc >= (2 if other != "polytope" or dim == 2 else 3)
    by_B, by_difference, gone = differences(scene, still, 0.05)
    np.testing.assert_allclose(by_B, by_difference, atol=1.0, rtol=0.0)
    assert gone <= found.nc // 2


def turn_onto(a: np.ndarray, b: np.ndarray, tilt: float) -> np.ndarray:
    """A unit quaternion that takes the direction a to b, but for ``tilt`` rad about x."""
    turn = Rotation.from_rotvec([tilt, 0.0, 0.0]) * Rotation.align_vectors([b], [a])[0]
    return turn.as_quat()[[3, 0, 1, 2]]


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_B_and_gap_rate_with_walls_that_move_and_turn(dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scene = mixed(dim, rng)
    by_B, by_difference, lost = differences(scene, thrown(scene, rng), 1e3)
    assert lost == 0
    assert np.mean(np.abs(by_B - by_difference) <= 1.0) > 0.95  # Φ is not smooth everywhere inside
    assert scene.initial.v[1].any()


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("out", [0.2, 1e-3])
def test_B_of_a_sphere_beside_the_corner_of_a_box(dim: int, out: float) -> None:
    rng = np.random.default_rng(dim)
    half = np.array([0.5, 0.3, 0.7][:dim])
    ball, box = Body(Sphere(0.1), np.zeros(dim), mass=1.0), Body(Box(2 * half), 0 * half, mass=1.0)
    scene = Scene([ball, box], dim=dim, overlap_tol=1e9)
    for _ in range(5):
        state = thrown(scene, rng)
        q = np.array(state.q)
        q[0, :dim] = q[1, :dim] + matrices(state.orientation[1:])[0] @ (half + out)
        by_B, by_difference, lost = differences(scene, State(0.0, q, state.v), 1e3)
        assert lost == 0
        np.testing.assert_allclose(by_B, by_difference, atol=1.0, rtol=0.0)


def test_a_scene_without_contacts_has_an_empty_B() -> None:
    scene = Scene([Body(Sphere(1.0), [0.0, 0.0], mass=1.0)], dim=2)
    found = detect(scene, scene.initial)
    assert gap_gradient(scene, scene.initial, found).shape == (0, 2)


@pytest.mark.parametrize("dim", [2, 3])
def test_bodies_move_and_turn_at_their_velocities(dim: int) -> None:
    rng = np.random.default_rng(11)
    scene = mixed(dim, rng)
    state = thrown(scene, rng)
    ahead, back = (State(0.0, move(state, state.v, h), state.v) for h in (H, -H))
    shift = (ahead.position - back.position) / (2.0 * H)
    np.testing.assert_allclose(shift, state.velocity, atol=1e-8)
    R = matrices(state.orientation)
    turn = (matrices(ahead.orientation) - matrices(back.orientation)) / (2.0 * H)
    spun = turn @ R.transpose(0, 2, 1)  # [ω]×
    w = state.angular_velocity
    found = spun[:, 1, 0] if dim == 2 else spun[:, [2, 0, 1], [1, 2, 0]]
    np.testing.assert_allclose(found, w, atol=1e-8)
    np.testing.assert_allclose(spun + spun.transpose(0, 2, 1), 0.0, atol=1e-8)
