"""Scenes from Python: numbering, geometry, degrees of freedom, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from cdopt import InvalidInput
from cdopt.scene import (
    Body,
    Box,
    Compound,
    HalfSpace,
    Material,
    Part,
    Polygon,
    Scene,
    Sphere,
    Spheres,
    State,
    beam,
)

BALL = Body(Sphere(0.1), [0.0, 0.0], mass=1.0)


def test_bodies_are_numbered_in_the_order_in_which_they_are_given() -> None:
    scene = Scene(
        [
            Body(Box([0.2, 0.2]), [5.0, 0.0], mass=2.0, name="crate"),
            Spheres(centres=[[0.0, 0.0], [1.0, 0.0]], radius=[0.1, 0.2], mass=1.0),
            Body(HalfSpace([0.0, 2.0]), [0.0, -1.0], name="floor"),
            Body(Sphere(0.3), [2.0, 0.0], mass=3.0),
        ],
        dim=2,
    )
    bodies = scene.bodies
    assert scene.nb == 5
    assert bodies.names == ("crate", "", "", "floor", "")
    np.testing.assert_array_equal(bodies.mass, [2.0, 1.0, 1.0, np.inf, 3.0])
    np.testing.assert_array_equal(bodies.fixed, [False, False, False, True, False])
    spheres = bodies.table(Sphere)
    np.testing.assert_array_equal(spheres.body, [1, 2, 4])
    np.testing.assert_array_equal(spheres.columns["radius"], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(bodies.table(HalfSpace).columns["normal"], [[0.0, 1.0]])
    assert [table.shape for table in bodies.tables] == [Sphere, HalfSpace, Box]


@pytest.mark.parametrize(
    ("shape", "dim", "volume", "inertia"),
    [
        (Sphere(0.5), 2, np.pi / 4, 0.125),
        (Sphere(0.5), 3, np.pi / 6, [0.1, 0.1, 0.1]),
        (Box([3.0, 4.0]), 2, 12.0, 25.0 / 12.0),
        (Box([1.0, 2.0, 3.0]), 3, 6.0, [13.0 / 12.0, 10.0 / 12.0, 5.0 / 12.0]),
    ],
)
def test_mass_and_inertia_come_from_geometry(shape, dim, volume, inertia) -> None:
    scene = Scene([Body(shape, np.zeros(dim), density=7.0)], dim=dim)
    np.testing.assert_allclose(scene.bodies.mass[0], 7.0 * volume, rtol=1e-15)
    np.testing.assert_allclose(
        scene.bodies.inertia[0], 7.0 * volume * np.array(inertia), rtol=1e-15
    )


def test_dofs_are_translations_and_the_turns_of_boxes() -> None:
    dofs = beam(dim=3).dofs
    np.testing.assert_array_equal(dofs.body, np.zeros(6))
    np.testing.assert_array_equal(dofs.column, np.arange(6))
    scene = Scene([BALL, Body(Box([1.0, 1.0]), [3.0, 0.0], mass=1.0)], dim=2)
    np.testing.assert_array_equal(scene.dofs.body, [0, 0, 1, 1, 1])
    base = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(scene.dofs.gather(base), [0.0, 1.0, 3.0, 4.0, 5.0])
    changed = scene.dofs.scatter(-np.ones(5), base)
    np.testing.assert_array_equal(changed, [[-1.0, -1.0, 2.0], [-1.0, -1.0, -1.0]])
    assert base[0, 0] == 0.0
    with pytest.raises(InvalidInput, match="values"):
        scene.dofs.scatter(np.ones(4), base)
    with pytest.raises(InvalidInput, match="shape"):
        scene.dofs.gather(np.ones((2, 6)))


def test_the_initial_state_holds_every_body() -> None:
    half = np.sqrt(0.5)
    scene = Scene(
        [
            Body(
                Box([1.0, 1.0, 1.0]),
                [0.0, 0.0, 0.0],
                orientation=[half, 0.0, 0.0, half],
                velocity=[1.0, 2.0, 3.0],
                angular_velocity=[4.0, 5.0, 6.0],
                mass=1.0,
            ),
            Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, -2.0], velocity=[0.0, 0.0, 0.5]),
        ],
        dim=3,
    )
    state = scene.initial
    np.testing.assert_allclose(state.q[0], [0, 0, 0, half, 0, 0, half])
    np.testing.assert_array_equal(state.q[1], [0, 0, -2, 1, 0, 0, 0])
    np.testing.assert_array_equal(state.v[0], [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(state.v[1], [0, 0, 0.5, 0, 0, 0])
    assert (state.t, state.dim, state.nb) == (0.0, 3, 2)


def test_scenes_and_states_are_frozen_and_stay_so_in_copies() -> None:
    scene = pickle.loads(pickle.dumps(beam()))
    for holder, name in ((scene.bodies, "mass"), (scene.initial, "q"), (scene, "gravity")):
        with pytest.raises(ValueError, match="read-only"):
            getattr(holder, name)[0] = 1.0
        with pytest.raises(AttributeError):
            setattr(holder, name, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        scene.bodies.table(Box).columns["size"][0] = 1.0


def test_nothing_writes_into_what_the_caller_keeps() -> None:
    centres = np.array([[0.0, 0.0], [1.0, 0.0]])
    q, v = np.zeros((2, 3)), np.zeros((2, 3))
    scene = Scene([Spheres(centres=centres, radius=0.1, mass=1.0)], dim=2)
    state = State(0.0, q, v)
    centres[0], q[0], v[0] = 9.0, 9.0, 9.0
    assert scene.bodies.position[0, 0] == state.q[0, 0] == state.v[0, 0] == 0.0
    vertices = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    scene = Scene([Body(Polygon(vertices), [0, 0], mass=1.0)], dim=2)
    text = scene.to_toml()
    vertices[1][0] = 5.0
    assert scene.to_toml() == text


@pytest.mark.parametrize(
    ("q", "v", "argument"),
    [
        (np.zeros((2, 4)), np.zeros((2, 3)), "q"),
        (np.zeros((2, 3)), np.zeros((2, 6)), "v"),
        (np.full((1, 3), np.nan), np.zeros((1, 3)), "q"),
        (np.zeros((1, 7)), np.zeros((1, 6)), "q"),
    ],
)
def test_states_are_checked(q, v, argument) -> None:
    with pytest.raises(InvalidInput) as error:
        State(0.0, q, v)
    assert error.value.argument == argument


def ball(**changes) -> Body:
    arguments = {"shape": Sphere(0.1), "position": [1.0, 0.0], "mass": 1.0} | changes
    return Body(**arguments)


@pytest.mark.parametrize(
    ("second", "argument"),
    [
        (ball(mass=np.nan), "bodies[1].mass"),
        (ball(density=1.0), "bodies[1].mass"),
        (ball(position=[1.0, 0.0, 0.0]), "bodies[1].position"),
        (ball(position=None), "bodies[1].position"),
        (ball(angular_velocity=[0.0, 0.0, 1.0]), "bodies[1].angular_velocity"),
        (ball(fixed=True, force=[1.0, 0.0]), "bodies[1].force"),
        (ball(fixed=1), "bodies[1].fixed"),
        (ball(shape=Box([1.0, 1.0, 1.0])), "bodies[1].size"),
        (ball(shape="sphere"), "bodies[1].shape"),
        (Spheres(centres=[[1.0, 0.0], [2.0, 0.0]], radius=[0.1], mass=1.0), "bodies[1:].radius"),
        (Spheres(centres=[[1.0, 0.0], [2.0]], radius=0.1, mass=1.0), "bodies[2].position"),
        (Spheres(centres=[1.0, 0.0], radius=0.1, mass=1.0), "bodies[1].position"),
        (Spheres(centres=[[1.0, 0.0]], radius=None, mass=1.0), "bodies[1].radius"),
        ("ball", "bodies"),
    ],
)
def test_a_bad_body_is_named_by_number_and_field(second, argument) -> None:
    with pytest.raises(InvalidInput) as error:
        Scene([BALL, second], dim=2)
    assert error.value.argument == argument


def test_bad_quaternions_are_refused() -> None:
    for quaternion in ([0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.1], [1.0, 0.0, 0.0]):
        crate = Body(Box([1.0] * 3), [0.0] * 3, orientation=quaternion, mass=1.0)
        with pytest.raises(InvalidInput, match=r"bodies\[0\].orientation"):
            Scene([crate], dim=3)
    with pytest.raises(InvalidInput, match=r"bodies\[0\].angle"):
        Scene([Body(Box([1.0] * 3), [0.0] * 3, angle=0.1, mass=1.0)], dim=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sphere(0.0),
        lambda: Sphere("1"),
        lambda: Box([1.0, 0.0]),
        lambda: HalfSpace([0.0, 0.0]),
        lambda: Material(name=""),
        lambda: Material(name="a", young=1.0, poisson=0.6),
        lambda: Material(name="a", young=1.0, stiffness=1.0),
        lambda: Scene([], dim=2),
        lambda: Scene([BALL], dim=2, gravity=[0.0, 0.0, -9.81]),
        lambda: Scene([Body(Sphere(1.0), [0.0, 0.0], fixed=True)], dim=2),
        lambda: Scene([BALL], dim=2, materials=[Material(name="a"), Material(name="a")]),
    ],
)
def test_bad_parts_are_refused(make) -> None:
    with pytest.raises(InvalidInput):
        make()


def test_of_many_overlaps_the_deepest_is_named() -> None:
    row = Spheres(centres=[[0.0, 0.0], [0.19, 0.0], [0.36, 0.0]], radius=0.1, mass=1.0)
    with pytest.raises(InvalidInput) as error:
        Scene([row], dim=2)
    assert error.value.argument == "bodies[2].position"
    assert "0.03 m inside bodies[1], the deepest of 2 overlaps" in error.value.found
    assert Scene([row], dim=2, overlap_tol=0.4).nb == 3


def test_boxes_that_overlap_are_refused_unless_fixed() -> None:
    box = Body(Box([1.0, 1.0, 1.0]), [0.0, 0.0, 0.0], mass=1.0)
    assert Scene([box, Body(box.shape, [1.0, 0.0, 0.0], mass=1.0)], dim=3).nb == 2
    with pytest.raises(InvalidInput, match=r"0\.1 m inside"):
        Scene([box, Body(box.shape, [0.9, 0.0, 0.0], mass=1.0)], dim=3)
    posts = Spheres(centres=[[0.0, -1.0], [0.05, -1.0]], radius=0.1, fixed=True)
    assert Scene([BALL, posts], dim=2).nb == 3


def test_stiffness_is_stated_in_one_way_and_on_one_side_of_every_contact() -> None:
    steel, felt = Material(name="steel", young=1e11), Material(name="felt", stiffness=1.0)
    with pytest.raises(InvalidInput, match="different units"):
        Scene([BALL], dim=2, materials=[steel, felt])
    soft = Body(Sphere(0.1), [1.0, 0.0], mass=1.0, material="steel")
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, -1.0])
    assert Scene([soft, floor], dim=2, materials=[steel]).nb == 2
    with pytest.raises(InvalidInput, match="no stiffness"):
        Scene([BALL, soft, floor], dim=2, materials=[steel])


def test_hertz_contacts_need_one_radius() -> None:
    parts = [Part(Sphere(0.5), [0, 0]), Part(Box([1.0, 1.0]), [0, 1])]
    Scene([Body(Compound(parts), [0, 0], mass=1.0)], dim=2)
    with pytest.raises(InvalidInput, match=r"bodies\[0\].shape.*several radii"):
        Scene([Body(Compound(parts), [0, 0], mass=1.0)], dim=2, power=2.5)
