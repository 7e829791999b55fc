"""Polygons and polyhedra: what they are made of, and what is refused as none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdopt import InvalidInput
from cdopt.geometry.polytope import box, polygon, polyhedron
from cdopt.scene import Body, Box, Capsule, Compound, HalfSpace, Part, Polygon, Polyhedron, Scene
from cdopt.scene import Sphere as Ball

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]
CUBE = [[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
TETRAHEDRON = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
OUTWARD = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]

BAD_POLYGONS = {
    "a line": ([[0, 0], [1, 0], [2, 0]], "not convex"),
    "one place": ([[1, 1]] * 4, "one place"),
    "clockwise": (SQUARE[::-1], "clockwise"),
    "a dart": ([[0, 0], [2, 0], [0.5, 0.5], [0, 2]], "not convex at corner 2"),
    "a star": (
        [[np.cos(4 * np.pi * k / 5), np.sin(4 * np.pi * k / 5)] for k in range(5)],
        "convex",
    ),
    "a corner on a side": ([[0, 0], [0.5, 0], [1, 0], [1, 1]], "not convex at corner 1"),
    "no numbers": ([["a", "b"]], "a list"),
    "nan": ([[0, 0], [1, 0], [np.nan, 1]], ""),
}
BAD_HULLS = {
    "flat": ([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], "without volume"),
    "one place": ([[1, 2, 3]] * 5, "one place"),
    "a corner inside": ([*CUBE, [0.5, 0.5, 0.5]], "corner 8 inside the hull"),
    "a corner on an edge": ([*CUBE, [0.5, 0.0, 0.0]], "corner 8"),
    "a corner twice": ([*CUBE, [0, 0, 0]], "corner"),
    "nan": ([*CUBE[:7], [1, 1, np.inf]], ""),
}
BAD_FACES = {
    "inverted": ([face[::-1] for face in OUTWARD], "inverted"),
    "one turned": ([OUTWARD[0][::-1], *OUTWARD[1:]], "in the same direction"),
    "open": (OUTWARD[:3], "in no other face"),
    "out of range": ([*OUTWARD[:3], [1, 2, 9]], r"faces\[3\]"),
    "two corners": ([*OUTWARD[:3], [1, 2]], r"faces\[3\]"),
    "words": ("faces", "faces"),
}


@pytest.mark.parametrize(
    ("shape", "name"),
    [*((Polygon, name) for name in BAD_POLYGONS), *((Polyhedron, name) for name in BAD_HULLS)],
)
def test_corners_of_no_convex_solid_are_refused_by_name(shape, name: str) -> None:
    vertices, words = (BAD_POLYGONS if shape is Polygon else BAD_HULLS)[name]
    with pytest.raises(InvalidInput, match=f"vertices.*{words}"):
        shape(vertices)


@pytest.mark.parametrize("name", BAD_FACES)
def test_faces_that_do_not_close_around_a_solid_are_refused_by_name(name: str) -> None:
    faces, words = BAD_FACES[name]
    with pytest.raises(InvalidInput, match=words):
        Polyhedron(TETRAHEDRON, faces)


def test_faces_of_a_solid_that_is_not_convex_or_not_flat_are_refused() -> None:
    roof = [[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0], [1, 0.5, 0.4], [1, 0.5, -1]]
    around = [(k, (k + 1) % 4) for k in range(4)]
    sides = [*([a, b, 4] for a, b in around), *([b, a, 5] for a, b in around)]
    Polyhedron(roof, sides)
    low = [*roof[:4], [1, 0.5, -0.4], [1, 0.5, -1]]
    with pytest.raises(InvalidInput, match="not convex"):
        Polyhedron(low, sides)
    bent = [*CUBE[:7], [1, 1, 1.2]]
    faces = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    Polyhedron(CUBE, faces)
    with pytest.raises(InvalidInput, match=r"faces\[\d\].*not in one plane"):
        Polyhedron(bent, faces)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Capsule(0.0, 1.0), "radius"),
        (lambda: Capsule(1.0, -1.0), "length"),
        (lambda: Capsule(1.0, 0.0), "length"),
        (lambda: Box([1.0, 0.0]), "size"),
        (lambda: Compound([]), "parts"),
        (lambda: Compound("parts"), "parts"),
        (lambda: Compound([Ball(1.0)]), r"parts\[0\]"),
        (lambda: Compound([Part(HalfSpace([0.0, 1.0]), [0.0, 0.0])]), r"parts\[0\].shape"),
        (lambda: Compound([Part(Ball(1.0), [0.0])]), "position"),
        (lambda: Compound([Part(Ball(1.0), [0, 0]), Part(Ball(1.0), [0, 0, 1])]), r"parts\[1\]"),
        (lambda: Compound([Part(Ball(1.0), [0, 0, 0], angle=1.0)]), r"parts\[0\].angle"),
        (lambda: Compound([Part(Ball(1.0), [0, 0, 0], orientation=[1, 1, 0, 0])]), "length 1"),
        (lambda: Compound([Part(Ball(1.0), [0, 0, 0], density=0.0)]), "density"),
        (lambda: Compound([Part(Polygon(SQUARE), [0, 0, 0])]), r"parts\[0\].shape"),
        (lambda: Compound([Part(Compound([Part(Ball(1.0), [0, 0])]), [0, 0])]), "shape"),
        (lambda: Compound([Part(Box([1, 1, 1]), [0, 0])]), r"parts\[0\].size"),
    ],
)
def test_other_shapes_that_are_none_are_refused_by_name(make, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make()


def test_shapes_of_the_plane_stay_there() -> None:
    for shape, dim in (
        (Polygon(SQUARE), 3),
        (Polyhedron(CUBE), 2),
        (Compound([Part(Ball(1.0), [0, 0])]), 3),
    ):
        with pytest.raises(InvalidInput, match=r"bodies\[0\].shape"):
            Scene([Body(shape, [0.0] * dim, mass=1.0)], dim=dim)


def test_a_body_of_too_many_corners_is_refused() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    with pytest.raises(InvalidInput, match=r"bodies\[0\].shape.*1024"):
        Scene([Body(Polyhedron(x / np.linalg.norm(x, axis=1)[:, None]), [0, 0, 0], mass=1)], dim=3)


@given(st.integers(4, 40), st.integers(0, 10_000), st.floats(1e-6, 1e6))
@settings(max_examples=30)
def test_a_hull_is_closed_convex_and_turned_outwards(n: int, seed: int, size: float) -> None:
    x = np.random.default_rng(seed).standard_normal((n, 3))
    x = size * x / np.linalg.norm(x, axis=1, keepdims=True)
    solid = polyhedron(x)
    assert len(solid.vertices) - len(solid.edges) + len(solid.loops) == 2  # Euler
    for loop, normal in zip(solid.loops, solid.normals, strict=True):
        height = (x - x[loop[0]]) @ normal
        assert height.max() <= 1e-9 * size
        assert height.min() < -1e-6 * size
    for (a, b), (left, right) in zip(solid.edges, solid.edge_faces, strict=True):
        assert {a, b} <= set(solid.loops[left]) & set(solid.loops[right])
        turn = np.cross(solid.normals[left], solid.normals[right])
        assert turn @ (x[b] - x[a]) > 0.0


def test_facets_of_one_plane_are_one_face() -> None:
    angle = np.arange(12) * np.pi / 6.0
    prism = polyhedron([[np.cos(t), np.sin(t), z] for z in (0.0, 1.0) for t in angle])
    assert sorted(map(len, prism.loops)) == [4] * 12 + [12, 12]
    assert len(polyhedron(CUBE).loops) == 6
    given_box = box(np.array([1.0, 2.0, 3.0]))
    hull = polyhedron(given_box.vertices)
    assert {frozenset(loop) for loop in hull.loops} == {frozenset(loop) for loop in given_box.loops}


def test_a_polygon_is_the_same_wherever_its_corners_begin() -> None:
    for first in range(4):
        turned = polygon(np.roll(SQUARE, first, axis=0))
        assert len(turned.loops) == 4
        np.testing.assert_allclose(np.linalg.norm(turned.normals, axis=1), 1.0)


MALFORMED = {
    "a number beyond floats in a polygon": lambda: Polygon([[0, 0], [10**400, 0], [0, 1]]),
    "a number beyond floats in a polyhedron": lambda: Polyhedron(
        [[0, 0, 0], [10**400, 0, 0], [0, 1, 0], [0, 0, 1]]
    ),
    "an infinite corner number": lambda: Polyhedron(TETRAHEDRON, [[0, 2, np.inf], *OUTWARD[1:]]),
    "a ragged position of a part": lambda: Compound([Part(Ball(1.0), [[0.0], [0.0, 1.0]])]),
    "a generator of parts": lambda: Compound(p for p in [Part(Ball(1.0), [0.0, 0.0])]),
    "corners that are dates": lambda: Polygon(
        np.array([[0, 0], [1, 0], [0, 1]], dtype="timedelta64[s]")
    ),
    "a capsule too large for its inertia": lambda: Scene(
        [Body(Capsule(1e120, 1e120), [0.0] * 3, mass=1.0)], dim=3
    ),
    "a capsule too small for its inertia": lambda: Scene(
        [Body(Capsule(1e-120, 1e-120), [0.0] * 3, mass=1.0)], dim=3
    ),
    "a polyhedron too large for its volume": lambda: Polyhedron(np.array(TETRAHEDRON) * 1e120),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_shape_is_refused_as_an_input(name: str) -> None:
    with pytest.raises(InvalidInput):
        MALFORMED[name]()


def test_a_corner_number_is_a_whole_real_number_even_after_the_same_solid_was_made() -> None:
    Polyhedron(TETRAHEDRON, OUTWARD)
    with pytest.raises(InvalidInput, match="faces"):
        Polyhedron(TETRAHEDRON, [[0j, 2, 1], *OUTWARD[1:]])


def test_faces_that_can_be_read_only_once_are_refused() -> None:
    with pytest.raises(InvalidInput, match="faces"):
        Polyhedron(TETRAHEDRON, (face for face in OUTWARD))


def test_a_needle_is_a_solid_whichever_shape_it_is_made_of() -> None:
    width = 1e-5
    corners = [[x, y, z] for z in (0.0, 1.0) for y in (0.0, width) for x in (0.0, width)]
    box = Box([width, width, 1.0])
    assert Polyhedron(corners).mass_properties(3).volume == pytest.approx(
        box.mass_properties(3).volume
    )
