"""Generated scenes of rigid bodies: contact points, sizes, weights, and their files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import cdopt
from cdopt import InvalidInput, scene
from cdopt.scene import GENERATORS, Box, Compound, Material, Polyhedron, open_scene

G = 9.81


def touching(made: scene.Scene, margin: float = 1e-9) -> cdopt.collision.Contacts:
    return cdopt.collision.detect(made, made.initial, margin=margin)


def between(found: cdopt.collision.Contacts, i: int, j: int) -> np.ndarray:
    return np.flatnonzero((found.bodies == [i, j]).all(axis=1))


# --- walls -------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(("courses", "bricks"), [(1, 1), (1, 3), (2, 1), (3, 2), (5, 4)])
def test_walls_touch_in_every_bed_and_head_joint(dim: int, courses: int, bricks: int) -> None:
    wall = scene.brick_wall(courses, bricks, dim=dim)
    found = touching(wall)
    even, odd = (courses + 1) // 2, courses // 2
    beds = bricks + (courses - 1) * 2 * bricks  # the first on the floor
    heads = even * (bricks - 1) + odd * bricks
    assert wall.nb == 1 + even * bricks + odd * (bricks + 1)
    assert found.nc == 2 ** (dim - 1) * (beds + heads)
    np.testing.assert_allclose(found.phi, 0.0, atol=1e-15)
    upright = np.abs(found.normals[:, -1]) > 0.5
    np.testing.assert_allclose(np.abs(found.normals[upright, -1]), 1.0, atol=1e-12)
    assert np.count_nonzero(upright) == 2 ** (dim - 1) * beds


@pytest.mark.parametrize("dim", [2, 3])
def test_open_head_joints_leave_bed_joints_alone(dim: int) -> None:
    wall = scene.brick_wall(4, 3, dim=dim, head_joint=0.012)
    found = touching(wall)
    assert found.nc == 2 ** (dim - 1) * (3 + 3 * 6)
    np.testing.assert_allclose(np.abs(found.normals[:, -1]), 1.0, atol=1e-12)
    wide = touching(wall, margin=0.0121)
    open_ones = wide.phi > 1e-9
    np.testing.assert_allclose(wide.phi[open_ones], 0.012, rtol=1e-10)
    assert np.count_nonzero(open_ones) == 2 ** (dim - 1) * (2 + 3 + 2 + 3)


def test_walls_of_half_bricks_end_flush() -> None:
    for joint in (0.0, 0.01):
        wall = scene.brick_wall(4, 3, head_joint=joint)
        table = wall.bodies.table(Box)
        half = 0.5 * table.columns["size"][:, 0]
        x, y = wall.bodies.position[table.body].T
        for height in np.unique(y.round(9)):
            course = np.isclose(y, height)
            assert (x - half)[course].min() == pytest.approx(0.0, abs=1e-15)
            assert (x + half)[course].max() == pytest.approx(0.6 + 2 * joint, rel=1e-14)
            gaps = (x - half)[course][1:] - (x + half)[course][:-1]
            np.testing.assert_allclose(gaps, joint, atol=1e-15)


@pytest.mark.parametrize("dim", [2, 3])
def test_walls_between_walls_touch_them(dim: int) -> None:
    wall = scene.brick_wall(3, 2, dim=dim, walls=True)
    found = touching(wall)
    for side in (1, 2):
        x = found.points[(found.bodies[:, 0] == side), 0]
        np.testing.assert_allclose(x, [0.4 * (side - 1)] * 3 * 2 ** (dim - 1), atol=1e-15)
    assert scene.brick_wall(3, 2, dim=dim).nb == wall.nb - 2


def test_stepped_walls_lose_a_brick_a_course() -> None:
    wall = scene.brick_wall(4, 4, ends="stepped")
    assert wall.nb == 1 + 4 + 3 + 2 + 1
    top = wall.bodies.position[-1]
    np.testing.assert_allclose(top, [0.4, 3.5 * 0.06], rtol=1e-14)
    with pytest.raises(InvalidInput, match="courses"):
        scene.brick_wall(5, 4, ends="stepped")


def test_bricks_take_materials_in_turn() -> None:
    three = [Material(name=name, stiffness=k) for name, k in (("a", 1.0), ("b", 2.0), ("c", 4.0))]
    for made in (
        scene.brick_wall(2, 2, materials=three),
        scene.box_stack(5, materials=three),
    ):
        assert made.bodies.material[1:].tolist() == [0, 1, 2, 0, 1]
        found = touching(made)
        np.testing.assert_allclose(found.stiffness[between(found, 0, 2)], 2.0)
    arch = scene.arch(5, materials=three)
    assert arch.bodies.material.tolist() == [-1, 0, 1, 2, 0, 1, -1]
    pile = scene.polyhedra_pile(5, walls=False, materials=three)
    assert pile.bodies.material[1:].tolist() == [0, 1, 2, 0, 1]
    with pytest.raises(InvalidInput, match="materials"):
        scene.box_stack(2, materials=["stone"])


# --- few blocks --------------------------------------------------------------------------


def test_stacks_touch_where_boxes_overlap() -> None:
    for dim, shift in ((2, 0.05), (3, -0.07), (3, 0.0)):
        stack = scene.box_stack(4, dim=dim, shift=shift)
        found = touching(stack)
        assert found.nc == 4 * 2 ** (dim - 1)
        for k in range(1, 4):
            x = found.points[between(found, k, k + 1), 0]
            ends = np.add(np.sort([(k - 1) * shift, k * shift]), [0.2, -0.2])
            np.testing.assert_allclose(np.unique(x.round(12)), np.sort(ends), atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_brick_lies_on_either_brick_with_its_corners(dim: int) -> None:
    made = scene.brick_on_two_bricks(separation=0.06, offset=0.02, dim=dim)
    found = touching(made)
    each = 2 ** (dim - 1)
    assert found.nc == 2 * each
    for lower, ends in ((0, [-0.08, -0.03]), (1, [0.03, 0.12])):
        x = found.points[between(found, lower, 2), 0]
        np.testing.assert_allclose(np.sort(x), np.repeat(ends, each // 2), atol=1e-14)
    loose = scene.brick_on_two_bricks(fixed=False, dim=dim)
    assert touching(loose).nc == 4 * each


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("overhang", [0.0, 0.25, 0.5])
def test_a_box_on_a_step_touches_its_edge(dim: int, overhang: float) -> None:
    made = scene.box_on_step(overhang, dim=dim)
    found = touching(made)
    x = np.repeat([-(1.0 - overhang) * 0.4, 0.0], 2 ** (dim - 2))
    np.testing.assert_allclose(np.sort(found.points[:, 0]), x, atol=1e-14)
    assert found.bodies.tolist() == [[1, 2]] * (2 ** (dim - 1))


# --- arches ------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("n", [3, 4, 9])
def test_voussoirs_touch_at_the_corners_of_their_joints(dim: int, n: int) -> None:
    made = scene.arch(n, dim=dim, angle=1.2, thickness=0.4)
    found = touching(made)
    assert made.nb == n + 2
    assert made.bodies.fixed[[0, -1]].all()
    assert found.nc == (n + 1) * 2 ** (dim - 1)
    np.testing.assert_allclose(found.phi, 0.0, atol=1e-14)
    angle = np.linspace(-1.2, 1.2, n + 1)
    for joint in range(n + 1):
        own = between(found, joint, joint + 1)
        along = np.zeros(dim)
        along[[0, -1]] = np.cos(angle[joint]), -np.sin(angle[joint])
        np.testing.assert_allclose(found.normals[own], np.tile(along, (own.size, 1)), atol=1e-12)
        reach = np.hypot(found.points[own, 0], found.points[own, -1])
        np.testing.assert_allclose(np.unique(reach.round(9)), [1.0, 1.4])


def test_stones_of_an_arch_weigh_what_their_joints_ask_for() -> None:
    made = scene.arch(7, angle=0.9, thrust=300.0)
    bounds = np.tan(np.linspace(-0.9, 0.9, 8))
    np.testing.assert_allclose(made.bodies.mass[1:-1] * G, 300.0 * np.diff(bounds), rtol=1e-13)
    np.testing.assert_allclose(made.bodies.mass[1:-1].sum() * G, 600.0 * np.tan(0.9), rtol=1e-13)


# --- platforms ---------------------------------------------------------------------------


def test_rods_touch_every_support() -> None:
    for rod, dim, each in (("box", 2, 1), ("capsule", 2, 1), ("box", 3, 2), ("capsule", 3, 1)):
        made = scene.rod_on_supports([0.0, 0.3, 0.8, 1.0], [1, 2, 3, 4], rod=rod, dim=dim)
        found = touching(made)
        assert found.nc == 4 * each
        np.testing.assert_allclose(found.phi, 0.0, atol=1e-15)
        places = np.repeat([0.0, 0.3, 0.8, 1.0], each)
        np.testing.assert_allclose(found.points[:, 0], places, atol=1e-15)
        np.testing.assert_allclose(found.stiffness, np.repeat([1.0, 2.0, 3.0, 4.0], each))


@pytest.mark.parametrize("legs", [3, 4, 6, 11])
def test_tables_stand_on_every_leg(legs: int) -> None:
    made = scene.table_with_legs(legs, np.arange(1.0, legs + 1.0))
    found = touching(made)
    assert found.bodies.tolist() == [[0, k] for k in range(1, legs + 1)]
    angle = 2.0 * np.pi * np.arange(legs) / legs
    ends = 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose(found.points[:, :2], ends, atol=1e-14)
    np.testing.assert_allclose(found.phi, 0.0, atol=1e-15)
    np.testing.assert_allclose(found.stiffness, np.arange(1.0, legs + 1.0))
    np.testing.assert_allclose(made.bodies.mass[0] * G, 10.0)


def test_the_middle_of_a_lopsided_table_is_that_of_its_parts() -> None:
    places = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [0.4, 0.4]])
    made = scene.table_with_legs(places=places, height=0.3, leg_width=0.05)
    assert isinstance(made.bodies.shape(0), Compound)
    top, leg = 1.1 * 1.1 * 0.05, 0.05 * 0.05 * 0.3
    total = top + 4 * leg
    middle = np.append(leg * places.sum(axis=0), top * 0.325 + 4 * leg * 0.15) / total
    np.testing.assert_allclose(made.bodies.position[0], middle, rtol=1e-12, atol=1e-15)


# --- piles -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["polyhedra_pile", "polygon_packing"])
def test_grains_start_apart_and_repeat(name: str) -> None:
    make = GENERATORS[name]
    one, again, other = (make(25, seed=s) for s in (1, 1, 2))
    assert one.to_toml() == again.to_toml() != other.to_toml()
    assert cdopt.collision.detect(one, one.initial, margin=1.0).phi.min() > 0.0
    assert one.nb == 25 + 1 + 2 * (one.dim - 1)
    assert make(25, walls=False).nb == 26
    reach = one.bodies.reach[one.bodies.mass < np.inf]
    assert (reach > 0.5 * 0.008).all()
    assert (reach < 2.0 * 0.012).all()


@pytest.mark.parametrize("corners", [6, 12, 40])
def test_polyhedra_have_the_corners_asked_for(corners: int) -> None:
    made = scene.polyhedra_pile(6, corners=corners, walls=False)
    table = made.bodies.table(Polyhedron)
    assert [len(one.vertices) for one in table.given] == [corners] * 6
    volume = made.bodies.mass[1:] / 2500.0
    ball = 4.0 / 3.0 * np.pi * 0.012**3
    assert (volume < ball).all()
    assert (volume > 0.1 * 4.0 / 3.0 * np.pi * 0.008**3).all()
    hulls = [ConvexHull(np.asarray(one.vertices)).volume for one in table.given]
    np.testing.assert_allclose(volume, hulls, rtol=1e-10)


# --- files and words ---------------------------------------------------------------------

SHIPPED = {
    "brick-wall": lambda: scene.brick_wall(),
    "rod": lambda: scene.rod_on_supports(stiffness=[1.0, 2.0, 1.0]),
    "box-on-step": lambda: scene.box_on_step(),
    "table-six-legs": lambda: scene.table_with_legs(
        6, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], load=10.0, load_at=(0.2, 0.1)
    ),
    "brick-on-two-bricks": lambda: scene.brick_on_two_bricks(3.0, offset=0.02),
    "arch": lambda: scene.arch(),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenes_are_those_of_the_generators(name: str) -> None:
    shipped, made = cdopt.scene.load(f"problems/{name}.toml"), SHIPPED[name]()
    for field, value in vars(made.bodies).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(shipped.bodies, field), err_msg=field)
    np.testing.assert_array_equal(shipped.initial.q, made.initial.q)
    np.testing.assert_array_equal(shipped.half_stiffness, made.half_stiffness)
    np.testing.assert_array_equal(shipped.gravity, made.gravity)
    assert (shipped.dim, shipped.power) == (made.dim, made.power)
    one, other = touching(shipped), touching(made)
    np.testing.assert_array_equal(one.contact_ids, other.contact_ids)
    np.testing.assert_array_equal(one.phi, other.phi)


def test_the_command_line_knows_the_generators() -> None:
    assert open_scene("brick-wall:courses=2,bricks=2,dim=3").nb == 6
    assert open_scene("arch:voussoirs=5,angle=0.8").nb == 7
    assert open_scene("box_stack:n=3").nb == 4
    assert open_scene("table_with_legs:legs=5").nb == 6
    assert open_scene("table-six-legs").nb == 7


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("brick_wall", {"courses": 0}, "courses"),
        ("brick_wall", {"bricks": 2.5}, "bricks"),
        ("brick_wall", {"ends": "ragged"}, "ends"),
        ("brick_wall", {"head_joint": 0.1}, "head_joint"),
        ("brick_wall", {"head_joint": -0.01}, "head_joint"),
        ("brick_wall", {"dim": 4}, "dim"),
        ("brick_wall", {"size": [0.2, 0.1, 0.06]}, "size"),
        ("brick_wall", {"size": [0.2, 0.0]}, "size"),
        ("brick_wall", {"density": 0.0}, "density"),
        ("box_stack", {"n": 0}, "n"),
        ("box_stack", {"shift": 0.4}, "shift"),
        ("brick_on_two_bricks", {"stiffness_ratio": 0.0}, "stiffness_ratio"),
        ("brick_on_two_bricks", {"offset": 0.07}, "offset"),
        ("brick_on_two_bricks", {"separation": -0.1}, "separation"),
        ("box_on_step", {"overhang": 0.6}, "overhang"),
        ("arch", {"voussoirs": 2}, "voussoirs"),
        ("arch", {"angle": 1.6}, "angle"),
        ("arch", {"thrust": 0.0}, "thrust"),
        ("arch", {"dim": 1}, "dim"),
        ("rod_on_supports", {"positions": [0.5]}, "positions"),
        ("rod_on_supports", {"positions": [0.0, 0.05]}, "positions"),
        ("rod_on_supports", {"positions": [1.0, 0.0]}, "positions"),
        ("rod_on_supports", {"stiffness": [1.0, 2.0]}, "stiffness"),
        ("rod_on_supports", {"load_at": 1.1}, "load_at"),
        ("rod_on_supports", {"rod": "pipe"}, "rod"),
        ("table_with_legs", {"legs": 2}, "legs"),
        ("table_with_legs", {"legs": 60}, "places"),
        ("table_with_legs", {"places": [[0.0, 0.0], [1.0, 0.0]]}, "places"),
        ("table_with_legs", {"places": "corners"}, "places"),
        ("table_with_legs", {"load_at": [0.1]}, "load_at"),
        ("polyhedra_pile", {"corners": 5}, "corners"),
        ("polyhedra_pile", {"spread": 1.0}, "spread"),
        ("polygon_packing", {"corners": 2}, "corners"),
        ("polygon_packing", {"n": 0}, "n"),
        ("polygon_packing", {"seed": -1}, "seed"),
    ],
)
def test_generators_of_bodies_refuse_bad_arguments(name: str, arguments: dict, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        GENERATORS[name](**arguments)
    assert field in error.value.argument
