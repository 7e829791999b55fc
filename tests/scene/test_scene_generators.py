"""Generated scenes: contact points, sizes and weights that one can count, and bad arguments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from cdopt import InvalidInput, collision, scene
from cdopt.collision import Contacts, detect
from cdopt.scene import GENERATORS, Material, Polyhedron, Scene, load

G = 9.81


def touching(made: Scene, margin: float = 1e-9) -> Contacts:
    return detect(made, made.initial, margin=margin)


def between(contacts: Contacts, i: int, j: int) -> np.ndarray:
    return np.flatnonzero((contacts.bodies == [i, j]).all(axis=1))


# --- spheres -----------------------------------------------------------------------------


@pytest.mark.parametrize("material", ["uniform", "species"])
def test_the_settled_pyramid_touches_four_below_and_four_beside(material: str) -> None:
    n, d = 6, 2.5e-3
    pile = scene.pyramid(n, material=material, separation=0.0)
    contacts = touching(pile, 1e-6 * d)
    side = np.arange(1, n)  # of the free layers
    assert contacts.nc == (4 * side**2 + 2 * side * (side - 1)).sum()
    np.testing.assert_allclose(contacts.phi, 0.0, atol=1e-15)
    upright = contacts.normals[:, 2]
    np.testing.assert_allclose(upright[upright > 1e-9], np.sqrt(0.5), rtol=1e-12)
    ratios = np.unique((contacts.stiffness / contacts.stiffness.max()).round(9))
    np.testing.assert_allclose(ratios, [1.0] if material == "uniform" else [0.2, 1 / 3, 1.0])
    step = collision.step(pile, pile.initial, contacts, dt=1e-3)
    weight = 2000.0 * np.pi / 6.0 * d**3 * G
    np.testing.assert_allclose(step.F_ext.reshape(-1, 3) / weight, [[0, 0, -1.0]] * 55, rtol=1e-13)


def test_the_dropped_pyramid_opens_between_layers_alone() -> None:
    dropped = scene.pyramid(5)
    contacts = detect(dropped, dropped.initial)
    height = dropped.bodies.position[:, 2]
    level = np.isclose(height[contacts.bodies[:, 0]], height[contacts.bodies[:, 1]])
    np.testing.assert_allclose(contacts.phi[level], 0.0, atol=1e-15)
    lift = 0.05 * 1.25e-3
    gap = np.hypot(1.25e-3 * np.sqrt(2.0), 2.5e-3 / np.sqrt(2.0) + lift) - 2.5e-3
    np.testing.assert_allclose(contacts.phi[~level], gap, rtol=1e-9)
    assert contacts.nc == 160
    large = scene.pyramid(20)
    assert (large.nb, large.dofs.nv) == (2870, 7410)


def test_the_crystal_touches_everywhere() -> None:
    rows, columns = 4, 5
    contacts = touching(scene.crystal(rows, columns))
    within = 2 * (columns - 1) + 2 * (columns - 2) + 2 * 2  # two rows of each, and the walls
    across = (rows - 1) * 2 * (columns - 1)
    assert contacts.nc == within + across + columns  # and the floor
    np.testing.assert_allclose(contacts.phi, 0.0, atol=1e-15)


@pytest.mark.parametrize("dim", [2, 3])
def test_the_beam_hangs_one_percent_of_a_radius_over_its_supports(dim: int) -> None:
    beam = scene.beam(3.0, dim=dim)
    contacts = detect(beam, beam.initial)
    np.testing.assert_allclose(contacts.phi, 0.01 * 0.05, rtol=1e-10)
    np.testing.assert_allclose(contacts.stiffness, [1.0, 3.0, 1.0] * (dim - 1))
    np.testing.assert_allclose(beam.bodies.mass[0] * G, 10.0)


@pytest.mark.parametrize("dim", [2, 3])
def test_boxes_and_spheres_hang_over_the_floor_as_stated(dim: int) -> None:
    contacts = touching(scene.box_on_floor(angle=0.7, gap=0.05, dim=dim), 1.0)
    assert contacts.nc == 2**dim
    np.testing.assert_allclose(contacts.phi.min(), 0.05, rtol=1e-12)
    contacts = touching(scene.sphere_on_floor(gap=0.03, floor_speed=0.2, dim=dim), 1.0)
    np.testing.assert_allclose(contacts.phi, [0.03], rtol=1e-12)
    np.testing.assert_allclose(contacts.gap_rate, [-0.2], rtol=1e-15)
    for offset in (0.0, 0.1):
        contacts = touching(scene.collision(gap=0.02, offset=offset, dim=dim), 1.0)
        np.testing.assert_allclose(contacts.phi, [0.02], rtol=1e-12)


# --- random packings ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dim"),
    [("random_packing", 2), ("random_packing", 3), ("polygon_packing", 2), ("polyhedra_pile", 3)],
)
def test_packings_start_apart_and_repeat(name: str, dim: int) -> None:
    make = GENERATORS[name]
    fields = {"dim": dim, "radius": 0.01} if name == "random_packing" else {}
    packing, again, other = (make(25, seed=seed, **fields) for seed in (1, 1, 2))
    assert packing.to_toml() == again.to_toml() != other.to_toml()
    assert touching(packing, 1.0).phi.min() > 0.0
    assert packing.nb == 25 + 1 + 2 * (dim - 1)
    assert make(25, walls=False, **fields).nb == 26
    reach = packing.bodies.reach[~packing.bodies.fixed]
    assert (reach > 0.5 * 0.008).all()
    assert (reach < 2.0 * 0.012).all()


@pytest.mark.parametrize("corners", [6, 40])
def test_polyhedra_have_the_corners_asked_for(corners: int) -> None:
    pile = scene.polyhedra_pile(6, corners=corners, walls=False)
    solids = [np.array(shape.vertices) for shape in pile.bodies.table(Polyhedron).given]
    assert [len(x) for x in solids] == [corners] * 6
    volume = pile.bodies.mass[1:] / 2500.0
    np.testing.assert_allclose(volume, [ConvexHull(x).volume for x in solids], rtol=1e-10)
    ball = 4.0 / 3.0 * np.pi
    assert (volume < ball * 0.012**3).all()
    assert (volume > 0.1 * ball * 0.008**3).all()


# --- walls and stacks --------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(("courses", "bricks"), [(1, 1), (1, 3), (2, 1), (5, 4)])
def test_walls_touch_in_every_bed_and_head_joint(dim: int, courses: int, bricks: int) -> None:
    wall = scene.brick_wall(courses, bricks, dim=dim)
    contacts = touching(wall)
    even, odd = (courses + 1) // 2, courses // 2
    beds = bricks + (courses - 1) * 2 * bricks  # the first on the floor
    heads = even * (bricks - 1) + odd * bricks
    assert wall.nb == 1 + even * bricks + odd * (bricks + 1)
    assert contacts.nc == 2 ** (dim - 1) * (beds + heads)
    np.testing.assert_allclose(contacts.phi, 0.0, atol=1e-15)
    upright = np.abs(contacts.normals[:, -1]) > 0.5
    np.testing.assert_allclose(np.abs(contacts.normals[upright, -1]), 1.0, atol=1e-12)
    assert np.count_nonzero(upright) == 2 ** (dim - 1) * beds


@pytest.mark.parametrize("dim", [2, 3])
def test_open_head_joints_leave_bed_joints_alone(dim: int) -> None:
    wall = scene.brick_wall(4, 3, dim=dim, head_joint=0.012)
    contacts = touching(wall)
    assert contacts.nc == 2 ** (dim - 1) * (3 + 3 * 6)
    np.testing.assert_allclose(np.abs(contacts.normals[:, -1]), 1.0, atol=1e-12)
    wide = touching(wall, margin=0.0121)
    joints = wide.phi[wide.phi > 1e-9]
    np.testing.assert_allclose(joints, [0.012] * 2 ** (dim - 1) * (2 + 3 + 2 + 3), rtol=1e-10)


def test_walls_beside_and_steps() -> None:
    wall = scene.brick_wall(3, 2, dim=3, walls=True)
    contacts = touching(wall)
    for side in (1, 2):
        x = contacts.points[contacts.bodies[:, 0] == side, 0]
        np.testing.assert_allclose(x, [0.4 * (side - 1)] * 12, atol=1e-15)
    assert scene.brick_wall(3, 2, dim=3).nb == wall.nb - 2
    stepped = scene.brick_wall(4, 4, ends="stepped")
    assert stepped.nb == 1 + 4 + 3 + 2 + 1
    np.testing.assert_allclose(stepped.bodies.position[-1], [0.4, 3.5 * 0.06], rtol=1e-14)


def test_bodies_take_materials_in_turn() -> None:
    three = [Material(name=name, stiffness=k) for name, k in (("a", 1.0), ("b", 2.0), ("c", 4.0))]
    for made in (scene.brick_wall(2, 2, materials=three), scene.box_stack(5, materials=three)):
        assert made.bodies.material[1:].tolist() == [0, 1, 2, 0, 1]
        contacts = touching(made)
        np.testing.assert_allclose(contacts.stiffness[between(contacts, 0, 2)], 2.0)
    assert scene.arch(5, materials=three).bodies.material.tolist() == [-1, 0, 1, 2, 0, 1, -1]
    pile = scene.polyhedra_pile(5, walls=False, materials=three)
    assert pile.bodies.material[1:].tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(("dim", "shift"), [(2, 0.05), (3, -0.07), (3, 0.0)])
def test_stacks_touch_where_boxes_overlap(dim: int, shift: float) -> None:
    contacts = touching(scene.box_stack(4, dim=dim, shift=shift))
    assert contacts.nc == 4 * 2 ** (dim - 1)
    for k in range(1, 4):
        x = contacts.points[between(contacts, k, k + 1), 0]
        ends = np.add(np.sort([(k - 1) * shift, k * shift]), [0.2, -0.2])
        np.testing.assert_allclose(np.unique(x.round(12)), np.sort(ends), atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_brick_lies_on_either_brick_with_its_corners(dim: int) -> None:
    contacts = touching(scene.brick_on_two_bricks(separation=0.06, offset=0.02, dim=dim))
    each = 2 ** (dim - 1)
    assert contacts.nc == 2 * each
    for lower, ends in ((0, [-0.08, -0.03]), (1, [0.03, 0.12])):
        x = contacts.points[between(contacts, lower, 2), 0]
        np.testing.assert_allclose(np.sort(x), np.repeat(ends, each // 2), atol=1e-14)
    assert touching(scene.brick_on_two_bricks(fixed=False, dim=dim)).nc == 4 * each


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("overhang", [0.0, 0.25, 0.5])
def test_a_box_on_a_step_touches_its_edge(dim: int, overhang: float) -> None:
    contacts = touching(scene.box_on_step(overhang, dim=dim))
    x = np.repeat([-(1.0 - overhang) * 0.4, 0.0], 2 ** (dim - 2))
    np.testing.assert_allclose(np.sort(contacts.points[:, 0]), x, atol=1e-14)
    assert contacts.bodies.tolist() == [[1, 2]] * (2 ** (dim - 1))


@pytest.mark.parametrize(("dim", "n"), [(2, 3), (3, 4), (2, 9)])
def test_voussoirs_touch_at_the_corners_of_their_joints(dim: int, n: int) -> None:
    arch = scene.arch(n, dim=dim, angle=1.2, thickness=0.4)
    contacts = touching(arch)
    assert arch.nb == n + 2
    assert arch.bodies.fixed[[0, -1]].all()
    assert contacts.nc == (n + 1) * 2 ** (dim - 1)
    np.testing.assert_allclose(contacts.phi, 0.0, atol=1e-14)
    for joint, angle in enumerate(np.linspace(-1.2, 1.2, n + 1)):
        here = between(contacts, joint, joint + 1)
        normal = np.zeros(dim)
        normal[[0, -1]] = np.cos(angle), -np.sin(angle)
        normals = np.tile(normal, (here.size, 1))
        np.testing.assert_allclose(contacts.normals[here], normals, atol=1e-12)
        reach = np.hypot(contacts.points[here, 0], contacts.points[here, -1])
        np.testing.assert_allclose(np.unique(reach.round(9)), [1.0, 1.4])


def test_stones_of_an_arch_weigh_what_their_joints_ask_for() -> None:
    weight = scene.arch(7, angle=0.9, thrust=300.0).bodies.mass[1:-1] * G
    bounds = np.tan(np.linspace(-0.9, 0.9, 8))
    np.testing.assert_allclose(weight, 300.0 * np.diff(bounds), rtol=1e-13)


# --- rods and tables ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rod", "dim", "each"), [("box", 2, 1), ("capsule", 2, 1), ("box", 3, 2), ("capsule", 3, 1)]
)
def test_rods_touch_every_support(rod: str, dim: int, each: int) -> None:
    contacts = touching(scene.rod_on_supports([0.0, 0.3, 0.8, 1.0], [1, 2, 3, 4], rod=rod, dim=dim))
    assert contacts.nc == 4 * each
    np.testing.assert_allclose(contacts.phi, 0.0, atol=1e-15)
    places = np.repeat([0.0, 0.3, 0.8, 1.0], each)
    np.testing.assert_allclose(contacts.points[:, 0], places, atol=1e-15)
    np.testing.assert_allclose(contacts.stiffness, np.repeat([1.0, 2.0, 3.0, 4.0], each))


@pytest.mark.parametrize("legs", [3, 11])
def test_tables_stand_on_every_leg(legs: int) -> None:
    table = scene.table_with_legs(legs, np.arange(1.0, legs + 1.0))
    contacts = touching(table)
    assert contacts.bodies.tolist() == [[0, k] for k in range(1, legs + 1)]
    angle = 2.0 * np.pi * np.arange(legs) / legs
    ends = 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose(contacts.points[:, :2], ends, atol=1e-14)
    np.testing.assert_allclose(contacts.phi, 0.0, atol=1e-15)
    np.testing.assert_allclose(contacts.stiffness, np.arange(1.0, legs + 1.0))
    np.testing.assert_allclose(table.bodies.mass[0] * G, 10.0)


def test_the_middle_of_a_lopsided_table_is_that_of_its_parts() -> None:
    places = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [0.4, 0.4]])
    table = scene.table_with_legs(places, height=0.3, leg_width=0.05)
    top, leg = 1.1 * 1.1 * 0.05, 0.05 * 0.05 * 0.3
    middle = np.append(leg * places.sum(axis=0), top * 0.325 + 4 * leg * 0.15) / (top + 4 * leg)
    np.testing.assert_allclose(table.bodies.position[0], middle, rtol=1e-12, atol=1e-15)


# --- names and arguments -----------------------------------------------------------------


def test_scenes_are_opened_by_name() -> None:
    assert load("brick-wall:courses=2,bricks=2,dim=3").nb == 6
    assert load("arch:voussoirs=5,angle=0.8").nb == 7
    assert load("box_stack:n=3").nb == 4
    assert load("table_with_legs:legs=5").nb == 6
    assert load("table-six-legs").nb == 7


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("beam", {"dim": 4}, "dim"),
        ("collision", {"masses": (1.0, 0.0)}, "mass"),
        ("box_on_floor", {"size": [1.0]}, "size"),
        ("brick_wall", {"courses": 5, "bricks": 4, "ends": "stepped"}, "courses"),
        ("brick_wall", {"head_joint": 0.1}, "head_joint"),
        ("box_stack", {"shift": 0.4}, "shift"),
        ("brick_on_two_bricks", {"offset": 0.07}, "offset"),
        ("arch", {"voussoirs": 2}, "voussoirs"),
        ("rod_on_supports", {"positions": [0.5]}, "positions"),
        ("rod_on_supports", {"positions": [0.0, 0.05]}, "positions"),
        ("rod_on_supports", {"stiffness": [1.0, 2.0]}, "stiffness"),
        ("rod_on_supports", {"load_at": 1.1}, "load_at"),
        ("table_with_legs", {"legs": 2}, "legs"),
        ("table_with_legs", {"legs": 60}, "legs"),
        ("table_with_legs", {"legs": [[0.0, 0.0], [1.0, 0.0]]}, "legs"),
        ("pulled_brick", {"pulled": 5}, "pulled"),
        ("arch_without_keystone", {"voussoirs": 8}, "voussoirs"),
        ("silo", {"opening": 40.0}, "opening"),
        ("rotating_drum", {"n": 900}, "n"),
        ("incline", {"ratio": 9.0}, "ratio"),
    ],
)
def test_bad_arguments_are_named(name: str, arguments: dict, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        GENERATORS[name](**arguments)
    assert field in error.value.argument
