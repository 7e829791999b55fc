"""Scene files: read without loss, and every fault named by line and field."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cdopt
from cdopt import InvalidInput
from cdopt.scene import (
    GENERATORS,
    Body,
    Box,
    Capsule,
    Compound,
    HalfSpace,
    Material,
    Part,
    Polygon,
    Polyhedron,
    Scene,
    Sphere,
    Spheres,
)
from cdopt.scene.files import line_of

ELASTIC = ("damping", "tangential_damping", "bond_stiffness", "bond_reach")
TEXT = """\
dim = 2
title = '''
[[bodies]]
'''
[[materials]]
name = "steel"
young = 1e9

[[bodies]]
name = "floor" # [[bodies]]
shape = "half-space"
normal = [0.0, 1.0]
position = [0.0, 0.0]

[[bodies]] # the ball
shape = "sphere"
radius = 0.1
position = [
  0.0,
  1.0,
]
mass = 1.0
material = "steel"

[[spheres]]
radius = [0.1, 0.1]
density = 1000.0
material = "steel"
centres = [[1.0, 1.0],
  # a comment, [with] brackets
  [2.0, 1.0]]
"""
END, SPINS = "  [2.0, 1.0]]", "angular_velocities"

FAULTS = [
    ("young = 1e9", "young = -1.0", 7, "materials[0].young"),
    ("young = 1e9", "yung = 1.0", 7, "materials[0].yung"),
    ("radius = 0.1\n", "radius = -0.1\n", 17, "bodies[1].radius"),
    ("radius = 0.1\n", 'radius = "0.1"\n', 17, "bodies[1].radius"),
    ("radius = 0.1\n", f"radius = {10**400}\n", 17, "bodies[1].radius"),
    ("radius = 0.1\n", "radus = 0.1\n", 17, "bodies[1].radus"),
    ("radius = 0.1\n", "", 15, "bodies[1].radius"),
    ("mass = 1.0\n", "", 15, "bodies[1].mass"),
    ("mass = 1.0", "mass = 1.0\nangle = inf", 23, "bodies[1].angle"),
    ("mass = 1.0", "mass = 1.0\norientation = [1, 0, 0, 0]", 23, "bodies[1].orientation"),
    ("mass = 1.0", "mass = 1.0\nsize = [1, 1]", 23, "bodies[1].size"),
    ('"half-space"', '"plane"', 11, "bodies[0].shape"),
    ("normal = [0.0, 1.0]", "normal = [0.0, 0.0]", 12, "bodies[0].normal"),
    ("normal = [0.0, 1.0]", "normal = [0.0, 1.0]\nfixed = false", 13, "bodies[0].fixed"),
    ("  1.0,\n]", "  inf,\n]", 18, "bodies[1].position"),
    ("  1.0,\n]", '  "a",\n]', 18, "bodies[1].position[1]"),
    ("  1.0,\n]", "  0.05,\n]", 18, "bodies[1].position"),
    (END, "  [2.0, nan]]", 29, "spheres[0].centres[1]"),
    (END, "  [2.0, 1.0, 3.0]]", 29, "spheres[0].centres[1]"),
    (END, "  [1.1, 1.0]]", 29, "spheres[0].centres[1]"),
    (END, END + "\nfixed = [true]", 32, "spheres[0].fixed"),
    (END, f"{END}\n{SPINS} = [1.0, nan]", 32, f"spheres[0].{SPINS}[1]"),
    (END, f"{END}\n{SPINS} = [1.0, [2.0]]", 32, f"spheres[0].{SPINS}[1]"),
    (END, f"{END}\n{SPINS} = [1.0]", 32, f"spheres[0].{SPINS}"),
    (END, f"{END}\n{SPINS} = 1.0", 32, f"spheres[0].{SPINS}"),
    ("[0.1, 0.1]", "[0.1, 0.0]", 26, "spheres[0].radius[1]"),
    ("[0.1, 0.1]", "[0.1, 0.1, 0.1]", 26, "spheres[0].radius"),
    ('"steel"\ncent', '"stel"\ncent', 28, "spheres[0].material"),
    ("dim = 2", "dim = 4", 1, "dim"),
    ("dim = 2", "dim = 2\ngravity = [0.0, nan]", 2, "gravity"),
    ("dim = 2", "dim = 2\nsponge = 1", 2, "sponge"),
    ("dim = 2", 'dim = 2\ndamping = "30"', 2, "damping"),
    ("dim = 2", "dim = ", 1, None),
    ("dim = 2", "dim = " + "[" * 5000, None, None),
]


@pytest.mark.parametrize(("old", "new", "line", "field"), FAULTS, ids=[f[1][:30] for f in FAULTS])
def test_a_fault_is_named_by_line_and_field(tmp_path: Path, old, new, line, field) -> None:
    assert TEXT.count(old) >= 1
    path = tmp_path / "faulty.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InvalidInput) as error:
        cdopt.scene.load(path)
    where = [str(path)] + [f"line {line}"] * (line is not None) + [field] * (field is not None)
    assert error.value.argument == ", ".join(where)


PART = 'shape="compound"\nparts=[{{{}}}]'
SHAPE_FAULTS = {
    'shape="polygon"\nvertices=[[0,0],[1,0]]': r"line 4, bodies\[0\].vertices.*2 corners",
    PART.format('shape="box",size=[1,-1],position=[0,0]'): r"line 4, bodies\[0\].parts\[0\].size",
    PART.format('shape="bix",position=[0,0]'): r"parts\[0\].shape.*'bix'",
    PART.format('shape="half-space",normal=[0,1],position=[0,0]'): r"parts\[0\].shape.*'half-sp",
    PART.format('shape="box",size=[1,1],position=[0,0],spin=1'): r"parts\[0\].spin.*unknown",
    PART.format('shape="box",size=[1,1]'): r"parts\[0\].position.*nothing",
    'shape="compound"': r"bodies\[0\].parts.*nothing",
    'shape="capsule"\nradius=1': r"bodies\[0\].length.*nothing",
    'shape="polyhedron"\nvertices=[[0,0],[1,0],[0,1]]': r"bodies\[0\].vertices",
}


@pytest.mark.parametrize("text", SHAPE_FAULTS)
def test_faults_of_shapes_are_named(text: str) -> None:
    with pytest.raises(InvalidInput, match=SHAPE_FAULTS[text]):
        cdopt.scene.loads(f"dim=2\n[[bodies]]\n{text}\nposition=[0,0]\nmass=1")


def test_overlaps_name_both_bodies() -> None:
    text = TEXT.replace("[2.0, 1.0]]", "[0.05, 1.0]]")
    with pytest.raises(InvalidInput) as error:
        cdopt.scene.loads(text, "it")
    assert error.value.argument == "it, line 29, spheres[0].centres[1]"
    assert error.value.found == "0.15 m inside bodies[1]"


@pytest.mark.parametrize("content", [b"\xff", None])
def test_files_that_are_no_scenes(tmp_path: Path, content) -> None:
    path = tmp_path / "not.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"not\.toml"):
        cdopt.scene.load(path)
    with pytest.raises(InvalidInput):
        cdopt.scene.load(tmp_path)


def test_lines_are_found_with_windows_line_ends_and_inline_tables() -> None:
    assert line_of(TEXT.replace("\n", "\r\n"), "bodies[1].radius") == 17
    inline = 'dim = 2\nbodies = [\n  {shape = "sphere"},\n  {shape = "box"},\n]\n'
    assert line_of(inline, "bodies[1].size") == 2
    assert line_of("", "bodies[3].size") == 1


@pytest.mark.parametrize("radius", ["-0.1", '"a"', "nan"])
def test_one_bad_line_among_many_bodies(radius: str) -> None:
    body = '[[bodies]]\nshape = "sphere"\nradius = {}\nposition = [{}, 0.0, 0.0]\nmass = 1.0\n'
    many = [body.format(radius if k == 232 else 0.1, 0.25 * k) for k in range(300)]
    with pytest.raises(InvalidInput) as error:
        cdopt.scene.loads("dim = 3\n" + "".join(many))
    assert error.value.argument == f"scene, line {5 * 232 + 4}, bodies[232].radius"


def same_bodies(one: Scene, other: Scene, digits: float = 0.0) -> None:
    """All columns alike, to the last digit or to a share ``digits`` of each number."""
    same = partial(np.testing.assert_allclose, rtol=digits, atol=0.0)
    for name, value in vars(one.bodies).items():
        if isinstance(value, np.ndarray):
            same(value, getattr(other.bodies, name), err_msg=name)
    for name in ("gravity", "half_stiffness", "bonds"):
        same(getattr(one, name), getattr(other, name))
    same(one.initial.q, other.initial.q)
    same(one.initial.v, other.initial.v)
    assert (one.dim, one.power) == (other.dim, other.power)


def same(one: Scene, other: Scene) -> None:
    """Equal to the last bit."""
    same_bodies(one, other)
    assert one.to_toml() == other.to_toml()
    assert one.materials == other.materials
    for name in ("restitution", "overlap_tol", "overlaps", "name", "title", *ELASTIC):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_scenes_survive_a_file(tmp_path: Path, name: str) -> None:
    scene = GENERATORS[name]() if name != "pyramid" else GENERATORS[name](4, 2.5, "species")
    assert not any(word in scene.to_toml() for word in (*ELASTIC, "angular_velocities"))
    scene.save(tmp_path / "scene.toml")
    same(scene, cdopt.scene.load(tmp_path / "scene.toml"))


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
        [
            Body(HalfSpace([0, 0, 1]), [0, 0, -2]),
            Body(Polyhedron(corners), [0, 0, 0], density=2.0),
            Body(Capsule(0.2, 1.0), [3, 0, 0], mass=1),
            Body(Compound(parts), [8, 0, 0], mass=1),
        ],
        dim=3,
    )


def in_the_plane() -> Scene:
    parts = [Part(Polygon([[0, 0], [1, 0], [0, 1]]), [0, 0], angle=0.3), Part(Sphere(0.5), [2, 0])]
    return Scene(
        [
            Body(Compound(parts), [0, 0], density=1.0),
            Body(Capsule(0.5, 2.0), [0, 5], mass=1.0),
            Body(Polygon(((5, 5), (6, 5), (6, 7))), [9, 9], angle=1.0, mass=2.0),
        ],
        dim=2,
    )


@pytest.mark.parametrize("make", [in_space, in_the_plane])
def test_shapes_survive_a_file_and_a_pickle(make) -> None:
    scene = make()
    for other in (cdopt.scene.loads(scene.to_toml()), pickle.loads(pickle.dumps(scene))):
        same(scene, other)
        np.testing.assert_array_equal(other.bodies.hulls.vertices, scene.bodies.hulls.vertices)


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    x=st.lists(numbers, min_size=6, max_size=6),
    turn=st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).filter(
        lambda q: np.linalg.norm(q) > 0.1
    ),
    radius=st.floats(1e-9, 1e3),
    name=st.text(st.characters(codec="utf-8"), max_size=8),
    fixed=st.booleans(),
    elastic=st.tuples(
        st.floats(0.0, 1e6),
        st.none() | st.floats(0.0, 1e6),
        st.none() | st.floats(1e-6, 1e12),
        st.floats(1e-12, 1.0),
    ),
)
def test_any_scene_survives_as_text(x, turn, radius, name, fixed, elastic) -> None:
    unit = np.array(turn) / np.linalg.norm(turn)
    scene = Scene(
        [
            Spheres(centres=[[1e9, 0.0, 0.0]], radius=radius, density=abs(x[0]) + 1.0),
            Body(
                Box([radius, 1.0, 2.0]),
                x[:3],
                orientation=unit,
                velocity=x[3:],
                fixed=fixed,
                angular_velocity=x[1:4],
                mass=2.0,
                name=name,
                material="m",
            ),
            Body(HalfSpace([0.3, 0.2, -0.1]), [-1e9, 0.0, 1e9], fixed=True),
            Body(
                Sphere(radius), [0.0, 1e9, 0.0], mass=1.0, torque=x[:3], force=x[3:], material="m"
            ),
            Spheres(
                centres=[[0.0, 2e9, 0.0], [0.0, 3e9, 0.0]],
                radius=[radius, 1.0],
                density=1.0,
                fixed=[True, False],
                names=[name, ""],
                velocities=[x[:3], x[3:]],
                material=["m", ""],
                angular_velocities=[x[3:], x[:3]],
            ),
            Body(Sphere(1.0), [0.0, 4e9, 0.0], fixed=True),
            Body(Sphere(1.0), [0.0, 5e9, 0.0], fixed=False, mass=3.0),
        ],
        dim=3,
        materials=[Material(name="m", restitution=0.5)],
        title=name,
        **dict(zip(ELASTIC, elastic, strict=True)),
    )
    same(scene, cdopt.scene.loads(scene.to_toml()))


SHIPPED = sorted(path.name for path in cdopt.bank.problems_folder().glob("*.toml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenes_load_from_anywhere(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    scene = cdopt.scene.load(f"problems/{name}")
    assert f"{scene.name}.toml" == name
    assert cdopt.collision.detect(scene, scene.initial, margin=2.0).nc


GENERATED = {
    "pyramid-5": lambda: cdopt.scene.pyramid(5),
    "beam": lambda: cdopt.scene.beam(3.0),
    "brick-wall": lambda: cdopt.scene.brick_wall(),
    "rod": lambda: cdopt.scene.rod_on_supports(stiffness=[1.0, 2.0, 1.0]),
    "box-on-step": lambda: cdopt.scene.box_on_step(),
    "table-six-legs": lambda: cdopt.scene.table_with_legs(
        6, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], load=10.0, load_at=(0.2, 0.1)
    ),
    "brick-on-two-bricks": lambda: cdopt.scene.brick_on_two_bricks(3.0, offset=0.02),
    "arch": lambda: cdopt.scene.arch(),
}


@pytest.mark.parametrize("name", GENERATED)
def test_shipped_scenes_are_those_of_the_generators(name: str) -> None:
    # sums and cosines of another NumPy differ in the last digit
    same_bodies(cdopt.scene.load(f"problems/{name}.toml"), GENERATED[name](), digits=1e-15)
