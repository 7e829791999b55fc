"""Faces on faces, edges on faces, edges on edges: how many points, where, and how far apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenes import carried

import cdopt
from cdopt import collision
from cdopt.collision import Contacts, detect
from cdopt.collision.contacts import FEATURES
from cdopt.geometry.rotations import matrices
from cdopt.scene import (
    Body,
    Box,
    Capsule,
    Compound,
    HalfSpace,
    Part,
    Polygon,
    Polyhedron,
    Scene,
    Sphere,
    State,
)

GAPS = [0.0, 1e-12, -1e-9, 1e-3, -0.02]


def turned(scene: Scene, seed: int) -> State:
    """The whole scene turned and carried somewhere; from seed 0 as it is."""
    return carried(scene.initial, np.random.default_rng(seed))[0] if seed else scene.initial


def pair(lower: object, upper: object, place, angle: float = 0.0) -> Scene:
    """A fixed body at the origin and another at a place, turned about the upright axis."""
    dim = len(place)
    turn = {"orientation": [np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)]} if dim == 3 else {}
    return Scene(
        [Body(lower, np.zeros(dim), fixed=True), Body(upper, place, mass=1.0, **turn)],
        dim=dim,
        overlap_tol=1.0,
    )


def own_frame(found: Contacts, state: State) -> np.ndarray:
    """Points in the frame of the first body."""
    return (found.points - state.position[0]) @ matrices(state.orientation[:1])[0]


def corners(found: Contacts, state: State) -> np.ndarray:
    """Points in the plane of the contact, sorted, in the frame of the first body."""
    flat = np.round(own_frame(found, state)[:, :-1], 6) + 0.0
    return flat[np.lexsort(flat.T[::-1])]


UNIT = Box([1.0, 1.0, 1.0])
OVERLAPS = {
    "aligned": (UNIT, [0.0, 0.0], 0.0, 4),
    "shifted along one axis": (UNIT, [0.3, 0.0], 0.0, 4),
    "shifted along both": (UNIT, [0.3, 0.2], 0.0, 4),
    "turned by an eighth": (UNIT, [0.0, 0.0], np.pi / 4.0, 8),
    "turned a little": (UNIT, [0.0, 0.0], 0.1, 8),
    "turned and shifted": (UNIT, [0.6, 0.55], 0.3, 4),
    "small on large": (Box([0.4, 0.3, 1.0]), [0.1, -0.2], 0.7, 4),
    "large on small": (Box([3.0, 2.0, 1.0]), [0.1, -0.2], 0.7, 4),
    "a plank across": (Box([3.0, 0.2, 1.0]), [0.0, 0.1], 0.0, 4),
    "a plank askew": (Box([3.0, 0.2, 1.0]), [0.0, 0.1], 0.4, 4),
    "over a corner": (UNIT, [0.5, 0.5], np.pi / 4.0, 3),
}


@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize("gap", GAPS)
def test_a_box_on_a_box_touches_at_the_corners_of_what_they_share(name: str, gap: float) -> None:
    upper, shift, angle, count = OVERLAPS[name]
    scene = pair(UNIT, upper, [*shift, 1.0 + gap], angle)
    places = []
    for seed in range(4):
        state = turned(scene, seed)
        found = detect(scene, state, margin=0.05)
        assert found.nc == count
        np.testing.assert_allclose(found.phi, gap, rtol=0.0, atol=4e-15)
        places.append(corners(found, state))
    for place in places[1:]:
        np.testing.assert_allclose(place, places[0], atol=3e-6)
    assert len(np.unique(places[0], axis=0)) == count


RIDGE = Polyhedron([[-1, 0, 0], [1, 0, 0], [-1, -1, 1], [1, -1, 1], [-1, 1, 1], [1, 1, 1]])
LINES = {  # lower, upper, the upper's place without a gap, and ends of what they share along x
    "boxes in the plane": (Box([1.0] * 2), Box([1.0] * 2), [0.0, 1.0], (-0.5, 0.5)),
    "shifted": (Box([1.0] * 2), Box([1.0] * 2), [0.3, 1.0], (-0.2, 0.5)),
    "shifted far": (Box([1.0] * 2), Box([1.0] * 2), [-0.7, 1.0], (-0.5, -0.2)),
    "capsule in the plane": (Box([1.0] * 2), Capsule(0.2, 0.6), [0.0, 0.7], (-0.3, 0.3)),
    "its end beyond": (Box([1.0] * 2), Capsule(0.2, 0.6), [0.4, 0.7], (0.1, 0.5)),
    "capsule": (UNIT, Capsule(0.2, 0.6), [0.0, 0.1, 0.7], (-0.3, 0.3)),
    "its end beyond in space": (UNIT, Capsule(0.2, 0.6), [0.4, 0.1, 0.7], (0.1, 0.5)),
    "ridge": (UNIT, RIDGE, [0.0, 0.0, 0.5 + RIDGE.centre[2]], (-0.5, 0.5)),
    "ridge shifted": (UNIT, RIDGE, [1.2, 0.0, 0.5 + RIDGE.centre[2]], (0.2, 0.5)),
}


@pytest.mark.parametrize("gap", [0.0, -1e-9, 1e-3])
@pytest.mark.parametrize("name", LINES)
def test_along_a_line_there_are_two_points(name: str, gap: float) -> None:
    lower, upper, place, ends = LINES[name]
    scene = pair(lower, upper, [*place[:-1], place[-1] + gap])
    for seed in range(3):
        state = turned(scene, seed)
        found = detect(scene, state, margin=0.05)
        np.testing.assert_allclose(found.phi, gap, rtol=0.0, atol=4e-15)
        np.testing.assert_allclose(corners(found, state)[:, 0], ends, atol=2e-6)


@pytest.mark.parametrize("gap", [1e-3, -1e-3, 0.0])
def test_capsules_side_by_side_touch_at_two_points_and_crossed_at_one(gap: float) -> None:
    for angle, count in ((0.0, 2), (0.3, 1), (1.0, 1), (np.pi / 2.0, 1), (np.pi, 2)):
        scene = pair(Capsule(0.2, 1.0), Capsule(0.1, 1.0), [0.25, 0.0, 0.3 + gap], angle)
        for seed in range(3):
            found = detect(scene, turned(scene, seed), margin=0.01)
            assert found.nc == count
            np.testing.assert_allclose(found.phi, gap, rtol=0.0, atol=4e-15)


def test_capsules_almost_side_by_side_touch_where_they_cross_and_at_their_ends() -> None:
    scene = pair(Capsule(0.2, 1.0), Capsule(0.2, 1.0), [0.1, 0.0, 0.4], 0.05)
    found = detect(scene, scene.initial, margin=0.01)
    crossing = np.argmin(found.phi)
    assert found.nc == 3
    np.testing.assert_allclose(found.phi[crossing], 0.0, atol=1e-15)
    aside = np.delete(found.points, crossing, axis=0)
    assert (np.delete(found.phi, crossing) > 1e-5).all()
    np.testing.assert_allclose(np.sort(np.abs(aside[:, 0])), [0.4, 0.5], atol=0.01)


def test_end_to_end_capsules_touch_like_spheres() -> None:
    scene = pair(Capsule(0.2, 1.0), Capsule(0.1, 1.0), [1.301, 0.0, 0.0])
    found = detect(scene, scene.initial, margin=0.01)
    np.testing.assert_allclose(found.phi, [1e-3], atol=1e-15)
    np.testing.assert_allclose(found.points, [[0.7005, 0.0, 0.0]], atol=1e-15)


def test_a_hexagonal_prism_on_another_touches_at_six_points() -> None:
    angle = np.arange(6) * np.pi / 3.0
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    prism = Polyhedron([[x, y, z] for z in (-0.5, 0.5) for x, y in ring])
    scene = pair(prism, prism, [0.0, 0.0, 1.0])
    for seed in range(3):
        assert detect(scene, turned(scene, seed), margin=0.01).nc == 6
    twisted = pair(prism, prism, [0.0, 0.0, 1.0], np.pi / 6.0)
    assert detect(twisted, turned(twisted, 3), margin=0.01).nc == 12


@pytest.mark.parametrize("tilt", [1e-10, 1e-7, 1e-4, 1e-2])
def test_a_box_that_leans_is_as_far_away_as_its_corners(tilt: float) -> None:
    turn = [np.cos(0.5 * tilt), 0.0, np.sin(0.5 * tilt), 0.0]
    leaning = Body(UNIT, [0.0, 0.0, 1.02], mass=1.0, orientation=turn)
    scene = Scene([Body(UNIT, [0.0] * 3, fixed=True), leaning], dim=3)
    found = detect(scene, scene.initial, margin=0.05)
    assert found.nc == 4
    by_hand = 0.52 - 0.5 * np.cos(tilt) + np.sign(-found.points[:, 0]) * 0.5 * np.sin(tilt)
    np.testing.assert_allclose(found.phi, by_hand, atol=1e-9 + 0.6 * tilt**2)


def test_from_corner_to_corner_there_is_one_point_and_beside_an_edge_there_are_two() -> None:
    way = np.array([1.0, 1.0, 1.0]) / np.sqrt(3.0)
    for place, gaps in (
        (np.ones(3) + 0.03 * way, [0.03]),
        (np.ones(3) + 0.001 * way, [0.001]),
        ([1.01, 0.2, 1.01], [0.01 * np.sqrt(2.0)] * 2),
    ):
        scene = pair(UNIT, UNIT, place)
        for seed in range(3):
            found = detect(scene, turned(scene, seed), margin=0.05)
            np.testing.assert_allclose(found.phi, gaps, atol=4e-15)


@given(
    shift=st.tuples(st.floats(-0.7, 0.7), st.floats(-0.7, 0.7)),
    angle=st.floats(-4.0, 4.0),
    size=st.tuples(st.floats(0.3, 2.0), st.floats(0.3, 2.0)),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40)
def test_contact_points_span_what_two_faces_share(shift, angle, size, seed) -> None:
    """The area of the points' outline against that of a clipped polygon (Sutherland–Hodgman)."""
    scene = pair(UNIT, Box([*size, 1.0]), [*shift, 1.0], angle)
    shared = clipped(rectangle((1.0, 1.0), (0.0, 0.0), 0.0), rectangle(size, shift, angle))
    state = turned(scene, seed)
    found = detect(scene, state, margin=0.01)
    area = outline_area(own_frame(found, state)[:, :2]) if found.nc > 2 else 0.0
    np.testing.assert_allclose(area, outline_area(np.array(shared)) if shared else 0.0, atol=2e-5)


def test_names_of_contacts_last_while_a_box_slides() -> None:
    names = []
    for shift in (0.2, 0.21, 0.22):
        scene = pair(UNIT, UNIT, [shift, 0.1, 1.0], 0.2)
        names.append(detect(scene, scene.initial, margin=0.01).contact_ids)
    np.testing.assert_array_equal(names[0], names[1])
    np.testing.assert_array_equal(names[1], names[2])
    assert len(set(names[0])) == names[0].size
    assert (names[0] // FEATURES == 1).all()


def test_polygons_that_tile_touch_along_their_sides() -> None:
    angle = np.arange(6) * np.pi / 3.0 + np.pi / 6.0
    hexagon = Polygon(np.column_stack([np.cos(angle), np.sin(angle)]))
    width = np.sqrt(3.0)
    places = [[0.0, 0.0], [width, 0.0], [0.5 * width, 1.5]]
    scene = Scene([Body(hexagon, place, mass=1.0) for place in places], dim=2)
    found = detect(scene, scene.initial, margin=1e-6)
    assert found.nc == 6
    np.testing.assert_allclose(found.phi, 0.0, atol=1e-15)


def test_a_pile_of_polyhedra_has_the_same_contacts_at_any_margin() -> None:
    rng = np.random.default_rng(5)
    ball = rng.standard_normal((12, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    bodies = [Body(Polyhedron(ball * 0.5), [0.0, 0.0, 3.0 * k], mass=1.0) for k in range(2)]
    scene = Scene(bodies, dim=3, overlap_tol=1.0)
    q = np.array(scene.initial.q)
    for _ in range(20):
        q[:, :3] = rng.uniform(-0.45, 0.45, (2, 3))
        state = State(0.0, q, scene.initial.v)
        wide = detect(scene, state, margin=5.0)
        close = detect(scene, state, margin=max(0.01, float(wide.phi.min()) + 1e-9))
        np.testing.assert_allclose(wide.phi.min(), close.phi.min(), atol=1e-14)


def rectangle(size, shift, angle: float) -> list[np.ndarray]:
    c, s = np.cos(angle), np.sin(angle)
    signs = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    return [
        np.array([c * a * size[0] - s * b * size[1], s * a * size[0] + c * b * size[1]]) + shift
        for a, b in signs
    ]


def clipped(subject: list[np.ndarray], clip: list[np.ndarray]) -> list[np.ndarray]:
    """What of a polygon lies in a convex one."""
    for start, end in zip(clip, [*clip[1:], clip[0]], strict=True):
        inward = np.array([start[1] - end[1], end[0] - start[0]])
        heights = [float(inward @ (p - start)) for p in subject]
        kept = []
        for k, (p, h) in enumerate(zip(subject, heights, strict=True)):
            before, hb = subject[k - 1], heights[k - 1]
            if (h >= 0.0) != (hb >= 0.0):
                kept.append(before + hb / (hb - h) * (p - before))
            if h >= 0.0:
                kept.append(p)
        subject = kept
    return subject


def outline_area(points: np.ndarray) -> float:
    """Of points in convex position, by their order around the middle."""
    arm = points - points.mean(axis=0)
    p = points[np.argsort(np.arctan2(arm[:, 1], arm[:, 0]))]
    x, y = p.T
    return 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def test_a_redundant_point_is_named() -> None:
    scene = pair(UNIT, UNIT, [0.0, 0.0, 1.0])
    found = detect(scene, scene.initial, margin=0.01)
    assert found.redundant.sum() == 1
    eight = pair(UNIT, UNIT, [0.0, 0.0, 1.0], np.pi / 4.0)
    assert detect(eight, eight.initial, margin=0.01).redundant.sum() == 5
    plane = pair(Box([1.0, 1.0]), Box([1.0, 1.0]), [0.2, 1.0])
    assert not detect(plane, plane.initial, margin=0.01).redundant.any()
    beam = cdopt.scene.beam()
    assert not detect(beam, beam.initial).redundant.any()


def test_names_of_flush_corners_do_not_hang_on_round_off() -> None:
    """Where corners lie on corners, either body's may be found first."""
    for upper, dim in ((UNIT, 3), (Box([1.0, 1.0]), 2)):
        names = []
        for shift in (0.0, 1e-15, -1e-15, 1e-9, -1e-9, 1e-6, -1e-6, 1e-5, -1e-5):
            place = [*[shift] * (dim - 1), 1.0 + 0.1 * shift]
            scene = pair(upper, upper, place)
            found = detect(scene, scene.initial, margin=0.01)
            names.append(found.contact_ids)
            assert len(set(names[-1])) == 2 ** (dim - 1)
        for other in names[1:]:
            np.testing.assert_array_equal(other, names[0])


def test_capsules_in_one_plane_that_are_apart_do_not_touch() -> None:
    turn = {"orientation": [np.cos(0.15), 0.0, 0.0, np.sin(0.15)]}
    lying = [
        Body(Capsule(0.15, 0.5), [0.0, 0.0, 0.0], mass=1.0),
        Body(Capsule(0.15, 0.5), [0.1, 0.6, 0.0], mass=1.0, **turn),
    ]
    scene = Scene(lying, dim=3)
    assert detect(scene, scene.initial, margin=0.05).nc == 0
    wide = detect(scene, scene.initial, margin=1.0)
    assert (wide.phi > 0.05).all()
    np.testing.assert_allclose(wide.normals[:, 2], 0.0, atol=1e-15)


@pytest.mark.parametrize("other", [Sphere(0.2), Capsule(0.2, 1.0)])
@pytest.mark.parametrize("gap", [0.01, 0.05])
@pytest.mark.parametrize("angle", [0.0, 0.5 * np.pi])
def test_in_the_plane_a_capsule_meets_what_lies_ahead_with_its_end(other, gap, angle) -> None:
    reach = 0.7 + (0.2 if isinstance(other, Sphere) else 0.7)
    along = np.round([np.cos(angle), np.sin(angle)])
    scene = Scene(
        [
            Body(Capsule(0.2, 1.0), [0.0, 0.0], mass=1.0, angle=angle),
            Body(other, (reach + gap) * along, mass=1.0, angle=angle),
        ],
        dim=2,
    )
    found = detect(scene, scene.initial, margin=0.1)
    np.testing.assert_allclose(found.phi, [gap], atol=1e-12)
    np.testing.assert_allclose(found.normals, [along], atol=1e-12)


def test_capsules_in_the_plane_that_point_at_each_other_may_start_apart() -> None:
    """Their bounding circles overlap the corner of a box; what the start looks at is the pair."""
    rods = Compound([Part(Capsule(0.1, 1.0), [0.0, 0.0]), Part(Box([0.2, 1.0]), [-0.7, 0.5])])
    scene = Scene(
        [Body(rods, rods.centre, mass=1.0), Body(Sphere(0.1), [0.71, 0.0], mass=1.0)], dim=2
    )
    np.testing.assert_allclose(detect(scene, scene.initial, margin=0.02).phi, [0.01], atol=1e-12)


@pytest.mark.parametrize("speed", [1.87, pytest.param(0.77, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_box_slides_over_the_seam_of_two_flush_boxes(dim: int, speed: float) -> None:
    """Without friction nothing slows it; the seam is no step."""
    flat = [0.0] * (dim - 1)
    tiles = [Body(Box([1.0] * dim), [k, *flat], fixed=True) for k in (0.0, 1.0)]
    slider = Body(Box([0.6] * dim), [*flat, 0.8], mass=1.0, velocity=[speed, *flat])
    scene, dt = Scene([*tiles, slider], dim=dim), 5e-3
    state = scene.initial
    for _ in range(int(0.4 / speed / dt)):
        found = detect(scene, state, collision.safe_margin(scene, state, dt))
        solution = cdopt.ClassicCD(collision.step(scene, state, found, dt)).solve("newton")
        state = collision.advance(scene, state, solution.v_next, dt)
    assert state.position[2, 0] > 0.3  # past the seam with its leading corner
    np.testing.assert_allclose(state.velocity[2], [speed, *flat], atol=1e-9)


@pytest.mark.parametrize("beyond", [0.0, 4e-9, 4e-8, 4e-7])
@pytest.mark.parametrize("width", [1.0, 3.0])
def test_an_edge_just_beyond_another_touches_it_where_the_two_run_side_by_side(
    beyond: float, width: float
) -> None:
    """A box leans over the edge of another with its own lowest edge, which passes it by a hair."""
    tilt = -np.pi / 6.0
    lowest = np.array([0.0, 0.5 + beyond, 0.5 - beyond])
    c, s = np.cos(tilt), np.sin(tilt)
    middle = lowest - [0.0, 0.5 * c + 0.5 * s, 0.5 * s - 0.5 * c]
    turn = [np.cos(0.5 * tilt), np.sin(0.5 * tilt), 0.0, 0.0]
    leaning = Body(Box([width, 1.0, 1.0]), middle, mass=1.0, orientation=turn)
    scene = Scene([Body(UNIT, [0.0] * 3, fixed=True), leaning], dim=3, overlap_tol=1.0)
    found = detect(scene, scene.initial, margin=1e-4)
    np.testing.assert_allclose(np.sort(found.points[:, 0])[[0, -1]], [-0.5, 0.5], atol=1e-5)
    np.testing.assert_allclose(found.phi, 0.0, atol=2.0 * beyond + 1e-15)


@pytest.mark.parametrize("angle", [1e-6, 3e-6, 1e-5])
def test_every_contact_of_capsules_almost_side_by_side_has_a_name_of_its_own(angle: float) -> None:
    turn = [np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)]
    rod = Capsule(0.2, 1.0)
    for shift in (0.0, 0.1, 0.2):
        other = Body(rod, [shift, 0.1 * angle, 0.401], mass=1.0, orientation=turn)
        scene = Scene([Body(rod, [0.0] * 3, fixed=True), other], dim=3)
        found = detect(scene, scene.initial, margin=0.01)
        assert len(set(found.contact_ids.tolist())) == found.nc


@pytest.mark.parametrize(("ball", "contacts"), [(None, 16), (0.02, 4)])
def test_a_leg_touches_at_its_corners_or_with_the_ball_it_ends_in(ball, contacts) -> None:
    spots = [(x, y) for x in (-0.5, 0.5) for y in (-0.3, 0.3)]
    parts = [Part(Box([1.2, 0.8, 0.05]), [0.0, 0.0, 0.725])]
    parts += [Part(Box([0.05, 0.05, 0.68]), [x, y, 0.36]) for x, y in spots]
    parts += [] if ball is None else [Part(Sphere(ball), [x, y, ball]) for x, y in spots]
    table = Compound(parts)
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.02 if ball is None else 0.0])
    scene = Scene([floor, Body(table, table.centre, mass=10.0)], dim=3)
    found = cdopt.collision.detect(scene, scene.initial)
    assert found.nc == contacts
    np.testing.assert_allclose(found.phi, 0.0, atol=1e-12)
