"""Gaps of convex shapes in space against coal, which finds distances by GJK and EPA."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from cdopt.collision import detect
from cdopt.geometry.rotations import matrices
from cdopt.scene import Body, Box, Capsule, Polyhedron, Scene, Sphere, State

coal = pytest.importorskip("coal", reason="coal is not installed: extra peers")


def solids(rng: np.random.Generator) -> dict[str, tuple[object, object]]:
    """Shapes of cdopt and the same of coal."""
    size = rng.uniform(0.3, 1.0, 3)
    radius, length = (float(v) for v in rng.uniform(0.1, 0.5, 2))
    x = rng.standard_normal((10, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    rock = Polyhedron(0.5 * x)
    return {
        "sphere": (Sphere(radius), coal.Sphere(radius)),
        "box": (Box(size), coal.Box(*size)),
        "capsule": (Capsule(radius, length), coal.Capsule(radius, length)),
        "polyhedron": (rock, convex(0.5 * x - rock.centre)),
    }


def convex(x: np.ndarray):
    hull = ConvexHull(x)
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for p in x:
        points.append(p)
    for (a, b, c), plane in zip(hull.simplices.tolist(), hull.equations, strict=True):
        out = np.cross(x[b] - x[a], x[c] - x[a]) @ plane[:3] > 0.0
        triangles.append(coal.Triangle(a, b, c) if out else coal.Triangle(a, c, b))
    return coal.Convex(points, triangles)


def placed(shape: object, R: np.ndarray, x: np.ndarray):
    """coal's capsules lie along z, ours along x."""
    turn = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    own = R @ turn if isinstance(shape, coal.Capsule) else R
    place = coal.Transform3s()
    place.setRotation(own)
    place.setTranslation(x)
    return place


@pytest.mark.parametrize("first", ["sphere", "box", "capsule", "polyhedron"])
@pytest.mark.parametrize("second", ["box", "capsule", "polyhedron"])
def test_the_least_gap_is_coal_s_distance(first: str, second: str) -> None:
    rng = np.random.default_rng([*map(ord, first + second)])
    apart = deep = 0
    for _ in range(60):
        mine, its = zip(solids(rng)[first], solids(rng)[second], strict=True)
        scene = Scene(
            [Body(shape, [9.0 * k, 0.0, 0.0], mass=1.0) for k, shape in enumerate(mine)], dim=3
        )
        q = np.array(scene.initial.q)
        turn = rng.standard_normal((2, 4))
        q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
        q[:, :3] = rng.uniform(-0.7, 0.7, (2, 3))
        state = State(0.0, q, scene.initial.v)
        frames = matrices(q[:, 3:])
        places = [placed(s, R, x) for s, R, x in zip(its, frames, q[:, :3], strict=True)]
        result = coal.DistanceResult()
        distance = coal.distance(its[0], places[0], its[1], places[1],
                                 coal.DistanceRequest(True), result)  # fmt: skip
        gap = detect(scene, state, margin=10.0).phi.min()
        if distance > 0.0:
            apart += 1
            np.testing.assert_allclose(gap, distance, atol=2e-6)
        else:
            # deep inside, corners may be a little deeper behind faces that are turned from the
            # direction in which the two part soonest
            deep += 1
            assert 1.03 * distance - 2e-5 <= gap <= distance + 2e-5
    assert apart > 5
    assert deep > 5
