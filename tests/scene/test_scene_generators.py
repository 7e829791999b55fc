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


# bodies, contacts, where these are along x, and their gap, m
BEAM, TWO, LEAN = [0.0, 0.5, 1.0], [-0.08, -0.03, 0.03, 0.12], [0.13, 0.06, -0.01, 0.2]
TOUCHING = {
    "crystal:rows=4,columns=5": (21, 18 + 24 + 5, None, 0.0),  # in rows, between them, the floor
    "brick-wall:courses=5,bricks=4": (23, 2 * (36 + 17), None, 0.0),  # bed and head joints
    "brick-wall:courses=5,bricks=4,dim=3": (23, 4 * (36 + 17), None, 0.0),
    "brick-wall:courses=1,bricks=3": (4, 2 * (3 + 2), [0.0, 0.2, 0.4, 0.6], 0.0),
    "brick-wall:courses=2,bricks=1": (4, 2 * (3 + 1), [0.0, 0.1, 0.2], 0.0),
    "brick-wall:courses=4,bricks=3,head_joint=0.012": (15, 2 * 21, None, 0.0),
    "brick-wall:courses=4,bricks=3,head_joint=0.012,dim=3": (15, 4 * 21, None, 0.0),
    "brick-wall:courses=4,bricks=4,ends=stepped": (11, 2 * (16 + 6), None, 0.0),
    "brick-wall:courses=3,bricks=2,dim=3,walls=true": (10, 4 * (10 + 4 + 6), None, 0.0),
    "box_stack:n=4,dim=2,shift=0.05": (5, 8, [0.2, 0.25, 0.3, -0.2, -0.15, -0.1, -0.05], 0.0),
    "box-stack:n=4,shift=-0.07": (5, 16, [-0.34, -0.27, -0.2, *LEAN], 0.0),
    "brick-on-two-bricks:separation=0.06,offset=0.02,dim=2": (3, 4, TWO, 0.0),
    "brick-on-two-bricks:separation=0.06,offset=0.02": (3, 8, TWO, 0.0),
    "brick-on-two-bricks:fixed=false": (4, 16, None, 0.0),
    "box-on-step:overhang=0.0,dim=2": (3, 2, [-0.4, 0.0], 0.0),
    "box-on-step:overhang=0.25": (3, 4, [-0.3, 0.0], 0.0),
    "box-on-step:overhang=0.5": (3, 4, [-0.2, 0.0], 0.0),
    "rod-on-supports": (4, 3, [0.0, 0.4, 1.0], 0.0),
    "rod-on-supports:dim=3": (4, 6, [0.0, 0.4, 1.0], 0.0),  # at either side of it
    "rod-on-supports:dim=3,rod=capsule": (4, 3, [0.0, 0.4, 1.0], 0.0),
    "table-with-legs:legs=3": (4, 3, [-0.25, 0.5], 0.0),
    "table-with-legs:legs=11": (12, 11, None, 0.0),
    "table-six-legs": (7, 6, [-0.5, -0.25, 0.25, 0.5], 0.0),  # a scene that ships with cdopt
    "beam": (4, 3, BEAM, 5e-4),  # 1 % of a radius
    "beam:dim=3": (7, 6, BEAM, 5e-4),
    "sphere-on-floor:gap=0.03,dim=3": (2, 1, [0.0], 0.03),
    "box-on-floor:angle=0.7,gap=0.05": (2, 1, None, 0.05),
    "box-on-floor:angle=0.7,gap=0.05,dim=3": (2, 2, None, 0.05),
    "collision:gap=0.02,offset=0.1,dim=3": (2, 1, None, 0.02),
}


@pytest.mark.parametrize("text", TOUCHING)
def test_bodies_touch_where_they_should(text: str) -> None:
    made, (bodies, count, places, gap) = load(text), TOUCHING[text]
    contacts = touching(made, gap * (1.0 + 1e-9) + 1e-9)
    assert (made.nb, contacts.nc) == (bodies, count)
    np.testing.assert_allclose(contacts.phi, gap, rtol=1e-10, atol=1e-15)
    if places is not None:
        away = np.abs(contacts.points[:, :1] - np.array(places))
        assert away.min(axis=1).max() <= 1e-14
        assert set(away.argmin(axis=1)) == set(range(len(places)))


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


def test_bodies_take_materials_in_turn() -> None:
    three = [Material(name=name, stiffness=k) for name, k in (("a", 1.0), ("b", 2.0), ("c", 4.0))]
    for made in (scene.brick_wall(2, 2, materials=three), scene.box_stack(5, materials=three)):
        assert made.bodies.material[1:].tolist() == [0, 1, 2, 0, 1]
        contacts = touching(made)
        np.testing.assert_allclose(contacts.stiffness[between(contacts, 0, 2)], 2.0)
    assert scene.arch(5, materials=three).bodies.material.tolist() == [-1, 0, 1, 2, 0, 1, -1]
    pile = scene.polyhedra_pile(5, walls=False, materials=three)
    assert pile.bodies.material[1:].tolist() == [0, 1, 2, 0, 1]


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


def test_the_middle_of_a_lopsided_table_is_that_of_its_parts() -> None:
    places = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [0.4, 0.4]])
    table = scene.table_with_legs(places, height=0.3, leg_width=0.05)
    top, leg = 1.1 * 1.1 * 0.05, 0.05 * 0.05 * 0.3
    middle = np.append(leg * places.sum(axis=0), top * 0.325 + 4 * leg * 0.15) / (top + 4 * leg)
    np.testing.assert_allclose(table.bodies.position[0], middle, rtol=1e-12, atol=1e-15)


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


def test_supports_have_the_stiffness_that_is_asked_for() -> None:
    k = np.array([1.0, 2.0, 3.0, 4.0])
    for dim, rod, each in ((2, "box", 1), (2, "capsule", 1), (3, "box", 2), (3, "capsule", 1)):
        made = scene.rod_on_supports([0.0, 0.3, 0.8, 1.0], k, rod=rod, dim=dim)
        np.testing.assert_allclose(touching(made).stiffness, np.repeat(k, each))
    table = scene.table_with_legs(4, k)
    np.testing.assert_allclose(touching(table).stiffness, k)
    np.testing.assert_allclose(table.bodies.mass[0] * G, 10.0)
    beam = scene.beam(3.0)
    np.testing.assert_allclose(detect(beam, beam.initial).stiffness, [1.0, 3.0, 1.0])


@pytest.mark.parametrize("dim", [2, 3])
def test_joints_of_a_wall_are_upright_or_level(dim: int) -> None:
    normals = np.abs(touching(scene.brick_wall(5, 4, dim=dim)).normals)
    upright = normals[:, -1] > 0.5
    np.testing.assert_allclose(normals.max(axis=1), 1.0, atol=1e-12)
    assert np.count_nonzero(upright) == 2 ** (dim - 1) * (4 + 4 * 8)
    bed = touching(scene.brick_wall(4, 3, dim=dim, head_joint=0.012))
    np.testing.assert_allclose(np.abs(bed.normals[:, -1]), 1.0, atol=1e-12)
    wide = touching(scene.brick_wall(4, 3, dim=dim, head_joint=0.012), 0.0121)
    joints = wide.phi[wide.phi > 1e-9]
    np.testing.assert_allclose(joints, [0.012] * 2 ** (dim - 1) * (2 + 3 + 2 + 3), rtol=1e-10)


def test_the_gap_over_a_rising_floor_closes_at_its_speed() -> None:
    contacts = touching(scene.sphere_on_floor(gap=0.03, floor_speed=0.2), 1.0)
    np.testing.assert_allclose(contacts.gap_rate, [-0.2], rtol=1e-15)
