"""Gaps, normals and points that one can work out by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from cdopt import InvalidInput
from cdopt.collision import VerletList, detect
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere, Spheres, State

FAR = 100.0


def at(scene: Scene, *places) -> State:
    """The initial state with the first bodies put elsewhere."""
    q = scene.initial.q.copy()
    for k, place in enumerate(places):
        q[k, : len(place)] = place
    return State(0.0, q, scene.initial.v)


@pytest.mark.parametrize("dim", [2, 3])
def test_two_spheres(dim: int) -> None:
    far = np.append([3.0, 4.0], np.zeros(dim - 2))
    scene = Scene(
        [Body(Sphere(1.0), np.zeros(dim), mass=1.0), Body(Sphere(2.0), far, mass=1.0)], dim=dim
    )
    found = detect(scene, scene.initial, margin=FAR)
    np.testing.assert_allclose(found.phi, [2.0])
    np.testing.assert_allclose(found.normals, [far / 5.0])
    np.testing.assert_allclose(found.points, [far * 0.4])
    deep = detect(scene, at(scene, far * 0.6), margin=0.0)
    np.testing.assert_allclose(deep.phi, [-1.0])
    same = detect(scene, at(scene, far), margin=0.0)
    np.testing.assert_allclose(same.phi, [-3.0])
    np.testing.assert_allclose(np.linalg.norm(same.normals, axis=1), 1.0)


@pytest.mark.parametrize("first", [True, False])
def test_normals_point_from_the_smaller_body_number_to_the_larger(first: bool) -> None:
    floor = Body(HalfSpace([0.0, 0.0, 3.0]), [7.0, 8.0, -1.0])
    ball = Body(Sphere(0.5), [1.0, 2.0, 1.0], mass=1.0)
    scene = Scene([floor, ball] if first else [ball, floor], dim=3)
    found = detect(scene, scene.initial, margin=FAR)
    np.testing.assert_array_equal(found.bodies, [[0, 1]])
    np.testing.assert_allclose(found.phi, [1.5])
    np.testing.assert_array_equal(found.normals, [[0.0, 0.0, 1.0 if first else -1.0]])
    np.testing.assert_allclose(found.points, [[1.0, 2.0, -0.25]])


def test_a_half_space_turns_with_its_body() -> None:
    wall = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], angle=-np.pi / 2.0)
    scene = Scene([wall, Body(Sphere(0.5), [2.0, 9.0], mass=1.0)], dim=2)
    found = detect(scene, scene.initial, margin=FAR)
    np.testing.assert_allclose(found.phi, [1.5])
    np.testing.assert_allclose(found.normals, [[1.0, 0.0]], atol=1e-15)


SPHERE_BOX = [
    ([5.0, 0.5, 0.2], 3.5, [-1, 0, 0], "beside a face"),
    ([1.0, 2.0 + 3.0, 3.0 + 4.0], 4.5, [0, -0.6, -0.8], "beyond an edge"),
    ([1.0 + 2.0, 2.0 + 3.0, 3.0 + 6.0], 6.5, [-2 / 7, -3 / 7, -6 / 7], "beyond a corner"),
    ([0.75, 0.0, 0.0], -0.75, [-1, 0, 0], "inside, near a face"),
    ([0.0, -1.5, 0.0], -1.0, [0, 1, 0], "inside, near the opposite face"),
    ([1.0, 0.0, 0.0], -0.5, [-1, 0, 0], "on a face"),
    ([0.0, 0.0, 0.0], -1.5, [-1, 0, 0], "at the centre"),
]


@pytest.mark.parametrize(
    ("place", "phi", "normal", "_"), SPHERE_BOX, ids=[c[3] for c in SPHERE_BOX]
)
def test_sphere_and_box(place, phi, normal, _) -> None:
    ball = Body(Sphere(0.5), [99.0, 0.0, 0.0], mass=1.0)
    box = Body(Box([2.0, 4.0, 6.0]), [0.0, 0.0, 0.0], mass=1.0)
    scene = Scene([ball, box], dim=3)
    found = detect(scene, at(scene, place), margin=FAR)
    np.testing.assert_allclose(found.phi, [phi], atol=1e-14)
    np.testing.assert_allclose(found.normals, [normal], atol=1e-14)
    surface = np.array(place) + found.normals[0] * (0.5 + 0.5 * phi)
    np.testing.assert_allclose(found.points[0], surface, atol=1e-14)


@pytest.mark.parametrize("dim", [2, 3])
def test_every_corner_of_a_box_is_a_contact_with_a_name(dim: int) -> None:
    up = np.eye(dim)[-1]
    size = np.arange(1.0, dim + 1.0)
    scene = Scene([Body(HalfSpace(up), 0 * up), Body(Box(size), 5.0 * up, mass=1.0)], dim=dim)
    found = detect(scene, scene.initial, margin=FAR)
    assert found.nc == 2**dim
    corner = np.arange(2**dim)
    signs = np.where((corner[:, None] >> np.arange(dim)) & 1, 0.5, -0.5)
    height = 5.0 + signs[:, -1] * size[-1]
    np.testing.assert_allclose(found.phi, height)
    np.testing.assert_allclose(found.points[:, :-1], signs[:, :-1] * size[:-1])
    low = detect(scene, scene.initial, margin=float(height.min()))
    assert low.nc == 2 ** (dim - 1)
    np.testing.assert_array_equal(low.contact_ids, found.contact_ids[height == height.min()])


@pytest.mark.parametrize("seed", range(3))
def test_the_contacts_with_a_plane_are_all_corners_within_the_margin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=3)
    normal /= np.linalg.norm(normal)
    origin = 1e3 * rng.normal(size=3)
    sides, height = rng.uniform(0.1, 1.0, (200, 3)), rng.uniform(-1.0, 2.0, 200)
    along = rng.normal(size=(200, 3))
    places = origin + along - (along @ normal - height)[:, None] * normal
    turns = Rotation.random(200, rng=seed)
    bodies = [Body(HalfSpace(normal), origin)]
    bodies += [
        Body(Box(size), place, mass=1.0, orientation=turn.as_quat(scalar_first=True))
        for size, place, turn in zip(sides, places, turns, strict=True)
    ]
    scene = Scene(bodies, dim=3, overlap_tol=1e9)
    corners = 0.5 * np.array(list(product([-1.0, 1.0], repeat=3)))
    heights = height[:, None] + np.array(
        [turn.apply(corners * size) @ normal for turn, size in zip(turns, sides, strict=True)]
    )
    for margin in (0.0, 0.05, 0.7):
        found = detect(scene, scene.initial, margin=margin)
        of_plane = found.bodies[:, 0] == 0
        within = np.sort(heights[heights <= margin])
        assert 0 < within.size < heights.size
        np.testing.assert_allclose(np.sort(found.phi[of_plane]), within, atol=1e-11)


def test_a_box_on_a_box_in_the_plane() -> None:
    def two(gap: float, angle: float = 0.0) -> Scene:
        boxes = [
            Body(Box([1.0, 1.0]), [0.0, 0.0], mass=1.0),
            Body(Box([1.0, 1.0]), [0.2, 1.0 + gap], mass=1.0, angle=angle),
        ]
        return Scene(boxes, dim=2)

    assert detect(two(0.2), two(0.2).initial, margin=0.1).nc == 0
    flat = detect(two(0.2), two(0.2).initial, margin=0.3)
    np.testing.assert_allclose(flat.phi, [0.2, 0.2])
    np.testing.assert_allclose(flat.normals, [[0.0, 1.0]] * 2, atol=1e-15)
    np.testing.assert_allclose(np.sort(flat.points[:, 0]), [-0.3, 0.5])
    tilted = two(0.5 * np.sqrt(2.0) - 0.5 + 0.2, np.pi / 4.0)
    assert detect(tilted, tilted.initial, margin=0.19).nc == 0
    corner = detect(tilted, tilted.initial, margin=0.21)
    np.testing.assert_allclose(corner.phi, [0.2])
    np.testing.assert_allclose(corner.points, [[0.2, 0.6]])


def test_boxes_in_space_pass_each_other_edge_to_edge() -> None:
    quarter = [np.cos(np.pi / 8), np.sin(np.pi / 8), 0.0, 0.0]
    other = [np.cos(np.pi / 8), 0.0, np.sin(np.pi / 8), 0.0]
    apart = 2.0 * np.sqrt(0.5) + 0.1
    boxes = [
        Body(Box([1.0] * 3), [0.0] * 3, orientation=quarter, mass=1.0),
        Body(Box([1.0] * 3), [0.0, 0.0, apart], orientation=other, mass=1.0),
    ]
    scene = Scene(boxes, dim=3)
    assert detect(scene, scene.initial, margin=0.099).nc == 0
    found = detect(scene, scene.initial, margin=0.101)
    np.testing.assert_allclose(found.phi, [0.1])
    np.testing.assert_allclose(found.normals, [[0.0, 0.0, 1.0]], atol=1e-15)
    np.testing.assert_allclose(found.points, [[0.0, 0.0, 0.5 * apart]], atol=1e-15)


def test_fixed_bodies_do_not_touch_each_other() -> None:
    posts = Spheres(centres=[[0.0, 0.0], [0.1, 0.0]], radius=0.1, fixed=True)
    wall = Body(HalfSpace([1.0, 0.0]), [0.0, 0.0])
    slab = Body(Box([1.0, 1.0]), [0.0, 0.0], fixed=True)
    scene = Scene([posts, wall, slab, slab, Body(Sphere(0.1), [9.0, 0.0], mass=1.0)], dim=2)
    found = detect(scene, scene.initial, margin=FAR)
    np.testing.assert_array_equal(found.bodies, [[0, 5], [1, 5], [2, 5], [3, 5], [4, 5]])


def test_contacts_come_in_order_and_keep_their_names() -> None:
    rng = np.random.default_rng(3)
    scene = Scene(
        [
            Body(Box([0.2, 0.2, 0.2]), [9.0, 0.0, 0.0], mass=1.0),
            Spheres(centres=rng.uniform(0.0, 1.0, (30, 3)) * 5, radius=0.01, mass=1.0),
            Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, -1.0]),
        ],
        dim=3,
    )
    found = detect(scene, scene.initial, margin=2.0)
    assert np.all(np.diff(found.contact_ids) > 0)
    again = detect(scene, at(scene, [9.0, 0.0, 0.01]), margin=1.5)
    names = dict(zip(found.contact_ids, map(tuple, found.bodies), strict=True))
    assert again.nc
    for name, pair in zip(again.contact_ids, again.bodies, strict=True):
        assert names.get(name, tuple(pair)) == tuple(pair)


def test_contacts_are_read_only_and_arguments_checked() -> None:
    scene = Scene([Body(Sphere(0.1), [0.0, 0.0], mass=1.0)], dim=2)
    found = detect(scene, scene.initial)
    assert found.nc == 0
    assert found.normals.shape == (0, 2)
    with pytest.raises(ValueError, match="read-only"):
        found.phi[...] = 1.0
    other = Scene([Spheres(centres=[[0.0, 0.0], [1.0, 0.0]], radius=0.1, mass=1.0)], dim=2)
    for call in (
        lambda: detect(scene, other.initial),
        lambda: detect(scene, scene.initial, margin=-1.0),
        lambda: detect(scene, scene.initial, neighbours=VerletList(other)),
        lambda: VerletList(scene, skin=-1.0),
    ):
        with pytest.raises(InvalidInput):
            call()
