"""Volume, centre and inertia of shapes against closed forms, sums of parts and random points."""

from __future__ import annotations

import numpy as np
import pytest

from cdopt.geometry.polytope import (
    box,
    of_capsule,
    of_polytope,
    polygon,
    polyhedron,
    principal_axes,
)
from cdopt.geometry.rotations import matrices
from cdopt.scene import Body, Box, Capsule, Compound, Part, Polygon, Polyhedron, Scene, Sphere


def alone(shape, dim: int, **fields) -> Scene:
    return Scene([Body(shape, [0.0] * dim, density=2.0, **fields)], dim=dim)


def full_inertia(scene: Scene) -> np.ndarray:
    """J₀ in the body's own axes, kg·m²."""
    frame = matrices(scene.bodies.principal[:1])[0]
    return frame @ np.diag(scene.bodies.inertia[0]) @ frame.T


@pytest.mark.parametrize("size", [[1.0, 2.0], [1.0, 2.0, 3.0], [1e-3, 2.0, 1e2]])
def test_a_box_as_a_polytope_has_the_box_s_inertia(size) -> None:
    s = np.array(size)
    solid = of_polytope(box(s))
    np.testing.assert_allclose(solid.volume, s.prod())
    square = s**2
    wanted = [[square.sum() / 12.0]] if s.size == 2 else np.diag(square.sum() - square) / 12.0
    np.testing.assert_allclose(solid.inertia(), wanted, rtol=1e-12, atol=1e-14 * square.max())


def test_a_triangle_and_a_tetrahedron_off_the_origin() -> None:
    triangle = of_polytope(polygon([[3.0, 1.0], [4.0, 1.0], [3.0, 3.0]]))
    np.testing.assert_allclose(triangle.volume, 1.0)
    np.testing.assert_allclose(triangle.centroid, [10.0 / 3.0, 5.0 / 3.0])
    np.testing.assert_allclose(triangle.inertia(), [[(1.0 + 4.0) / 18.0]])
    solid = of_polytope(polyhedron([[5, 5, 5], [6, 5, 5], [5, 6, 5], [5, 5, 6]]))
    np.testing.assert_allclose(solid.volume, 1.0 / 6.0)
    np.testing.assert_allclose(solid.centroid, [5.25] * 3)
    np.testing.assert_allclose(np.diag(solid.inertia()), 3.0 / 40.0)
    np.testing.assert_allclose(solid.inertia()[0, 1], 1.0 / 80.0)


@pytest.mark.parametrize("dim", [2, 3])
def test_capsules_between_a_ball_and_a_rod(dim: int) -> None:
    ball = of_capsule(0.3, 0.0, dim).inertia()
    np.testing.assert_allclose(np.diag(ball), (0.5 if dim == 2 else 0.4) * 0.09)
    thin = of_capsule(1e-6, 2.0, dim).inertia()
    np.testing.assert_allclose(np.diag(thin)[-1], 4.0 / 12.0, rtol=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_random_points_weigh_like_the_solid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((9, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    solid = polyhedron(x)
    points = rng.uniform(-1.0, 1.0, (400_000, 3))
    first = x[[loop[0] for loop in solid.loops]]
    inside = points[((points @ solid.normals.T) <= (first * solid.normals).sum(axis=1)).all(axis=1)]
    found = of_polytope(solid)
    share = inside.shape[0] / points.shape[0]
    np.testing.assert_allclose(8.0 * share, found.volume, rtol=0.01)
    np.testing.assert_allclose(inside.mean(axis=0), found.centroid, atol=0.006)
    np.testing.assert_allclose(np.cov(inside.T, bias=True), found.second / found.volume, atol=0.003)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_capsule_weighs_like_random_points(dim: int) -> None:
    rng = np.random.default_rng(dim)
    scene = alone(Capsule(0.4, 1.0), dim)
    points = rng.uniform(-1.0, 1.0, (400_000, dim))
    axis = np.clip(points[:, 0], -0.5, 0.5)
    off = points.copy()
    off[:, 0] -= axis
    inside = points[np.linalg.norm(off, axis=1) <= 0.4]
    volume = 2.0**dim * inside.shape[0] / points.shape[0]
    np.testing.assert_allclose(2.0 * volume, scene.bodies.mass, rtol=0.01)
    second = (inside**2).mean(axis=0)
    wanted = second.sum() if dim == 2 else second.sum() - second
    np.testing.assert_allclose(scene.bodies.inertia / scene.bodies.mass[0], [wanted], rtol=0.01)


def test_a_box_of_two_halves_is_the_box() -> None:
    whole = alone(Box([2.0, 0.6, 0.4]), 3)
    half = Box([1.0, 0.6, 0.4])
    turned = Box([0.6, 1.0, 0.4])
    quarter = [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]
    left, right = Part(half, [5.5, 1.0, 0.0]), Part(turned, [6.5, 1.0, 0.0], orientation=quarter)
    halves = Compound([left, right])
    np.testing.assert_allclose(halves.centre, [6.0, 1.0, 0.0])
    two = alone(halves, 3)
    np.testing.assert_allclose(two.bodies.mass, whole.bodies.mass)
    np.testing.assert_allclose(full_inertia(two), full_inertia(whole), atol=1e-15)
    np.testing.assert_allclose(two.bodies.reach, whole.bodies.reach)
    parts = [
        Part(Box([1.0, 0.6]), [0.0, 0.0]),
        Part(Box([0.6, 1.0]), [1.0, 0.0], angle=0.5 * np.pi),
    ]
    flat, plate = alone(Compound(parts), 2), alone(Box([2.0, 0.6]), 2)
    np.testing.assert_allclose(flat.bodies.inertia, plate.bodies.inertia)


def test_densities_of_parts_are_relative() -> None:
    ball = Sphere(0.1)
    heavy = Compound([Part(ball, [0.0] * 3, density=3.0), Part(ball, [1.0, 0.0, 0.0])])
    np.testing.assert_allclose(heavy.centre, [0.25, 0.0, 0.0])
    scene = alone(heavy, 3)
    np.testing.assert_allclose(scene.bodies.mass, 2.0 * 4.0 * 4.0 / 3.0 * np.pi * 1e-3)


def test_principal_axes_turn_with_the_shape() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    q = rng.standard_normal((1, 4))
    R = matrices(q / np.linalg.norm(q))[0]
    one, other = alone(Polyhedron(x), 3), alone(Polyhedron(x @ R.T + 7.0), 3)
    np.testing.assert_allclose(full_inertia(other), R @ full_inertia(one) @ R.T, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(one.bodies.principal, axis=1), 1.0)


def test_a_diagonal_inertia_keeps_its_axes() -> None:
    moments, axes = principal_axes(np.diag([3.0, 1.0, 2.0]))
    np.testing.assert_array_equal(moments, [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(axes, [1.0, 0.0, 0.0, 0.0])


def test_a_polygon_drawn_in_place_stands_at_its_centre() -> None:
    shape = Polygon([[2.0, 0.0], [4.0, 0.0], [4.0, 1.0], [2.0, 1.0]])
    np.testing.assert_allclose(shape.centre, [3.0, 0.5])
    scene = Scene([Body(shape, shape.centre, mass=1.0)], dim=2)
    x, _ = scene.bodies.hulls.placed(scene.initial.position, matrices(scene.initial.orientation))
    np.testing.assert_allclose(x, shape.vertices)
