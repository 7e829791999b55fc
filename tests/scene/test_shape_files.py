"""Scene files with polygons, polyhedra, capsules and compounds: without loss, and strictly."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from cdopt import InvalidInput
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
    loads,
)

TETRAHEDRON = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
OUTWARD = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]


def in_space() -> Scene:
    rng = np.random.default_rng(0)
    corners = rng.standard_normal((9, 3))
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    parts = [
        Part(Box([1, 1, 1]), [0, 0, 0], density=2),
        Part(Polyhedron(TETRAHEDRON, OUTWARD), np.array([1, 0, 0]), orientation=[0, 1, 0, 0]),
        Part(Capsule(0.1, 1), [0, 0, 2.0]),
    ]
    return Scene(
        [Body(HalfSpace([0, 0, 1]), [0, 0, -2]), Body(Polyhedron(corners), [0, 0, 0], density=2.0),
         Body(Capsule(0.2, 1.0), [3, 0, 0], mass=1), Body(Compound(parts), [8, 0, 0], mass=1)],
        dim=3,
    )  # fmt: skip


def in_the_plane() -> Scene:
    parts = [Part(Polygon([[0, 0], [1, 0], [0, 1]]), [0, 0], angle=0.3), Part(Sphere(0.5), [2, 0])]
    return Scene(
        [Body(Compound(parts), [0, 0], density=1.0), Body(Capsule(0.5, 2.0), [0, 5], mass=1.0),
         Body(Polygon(((5, 5), (6, 5), (6, 7))), [9, 9], angle=1.0, mass=2.0)],
        dim=2,
    )  # fmt: skip


@pytest.mark.parametrize("make", [in_space, in_the_plane])
def test_a_scene_survives_its_file_and_a_pickle(make) -> None:
    scene = make()
    text = scene.to_toml()
    for other in (loads(text), pickle.loads(pickle.dumps(scene))):
        assert other.to_toml() == text
        for name in ("mass", "inertia", "principal", "reach", "core", "position"):
            np.testing.assert_array_equal(getattr(other.bodies, name), getattr(scene.bodies, name))
        np.testing.assert_array_equal(other.bodies.hulls.vertices, scene.bodies.hulls.vertices)


def test_a_scene_keeps_no_list_of_the_caller() -> None:
    vertices = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    scene = Scene([Body(Polygon(vertices), [0, 0], mass=1.0)], dim=2)
    text = scene.to_toml()
    vertices[1][0] = 5.0
    assert scene.to_toml() == text


BAD = {
    'shape="polygon"\nvertices=[[0,0],[1,0]]': r"line 4, bodies\[0\].vertices.*2 corners",
    'shape="compound"\nparts=[{shape="box",size=[1,-1],position=[0,0]}]':
        r"line 4, bodies\[0\].parts\[0\].size",
    'shape="compound"\nparts=[{shape="bix",position=[0,0]}]': r"parts\[0\].shape.*'bix'",
    'shape="compound"\nparts=[{shape="half-space",normal=[0,1],position=[0,0]}]':
        r"parts\[0\].shape.*'half-space'",
    'shape="compound"\nparts=[{shape="box",size=[1,1],position=[0,0],spin=1}]':
        r"parts\[0\].spin.*unknown field",
    'shape="compound"\nparts=[{shape="box",size=[1,1]}]': r"parts\[0\].position.*nothing",
    'shape="compound"': r"bodies\[0\].parts.*nothing",
    'shape="capsule"\nradius=1': r"bodies\[0\].length.*nothing",
    'shape="polyhedron"\nvertices=[[0,0],[1,0],[0,1]]': r"bodies\[0\].vertices",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_in_a_file_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match=BAD[text]):
        loads(f"dim=2\n[[bodies]]\n{text}\nposition=[0,0]\nmass=1")


def test_hertz_contacts_need_one_radius() -> None:
    parts = [Part(Sphere(0.5), [0, 0]), Part(Box([1.0, 1.0]), [0, 1])]
    Scene([Body(Compound(parts), [0, 0], mass=1.0)], dim=2)
    with pytest.raises(InvalidInput, match=r"bodies\[0\].shape.*several radii"):
        Scene([Body(Compound(parts), [0, 0], mass=1.0)], dim=2, power=2.5)
