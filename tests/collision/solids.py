"""Pairs of shapes brought near each other in random poses."""

from __future__ import annotations

import numpy as np

from cdopt.collision import detect
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


def shapes(dim: int, rng: np.random.Generator) -> dict[str, object]:
    """A shape of every kind, of random size."""
    made: dict[str, object] = {
        "sphere": Sphere(float(rng.uniform(0.2, 0.6))),
        "box": Box(rng.uniform(0.4, 1.2, dim)),
        "capsule": Capsule(float(rng.uniform(0.1, 0.3)), float(rng.uniform(0.3, 1.0))),
        "half-space": HalfSpace(rng.standard_normal(dim)),
    }
    if dim == 2:
        made["polygon"] = polygon(rng, 6)
        parts = [Part(Box([0.8, 0.3]), [0.0, 0.0], angle=0.4), Part(polygon(rng, 5), [0.5, 0.4])]
    else:
        made["polyhedron"] = polyhedron(rng, 10)
        turn = rng.standard_normal(4)
        parts = [
            Part(Box([0.8, 0.3, 0.5]), [0.0, 0.0, 0.0], orientation=turn / np.linalg.norm(turn)),
            Part(polyhedron(rng, 8), [0.5, 0.4, 0.1], density=2.0),
            Part(Sphere(0.3), [-0.4, 0.0, 0.3]),
        ]
    return made | {"compound": Compound(parts)}


def polygon(rng: np.random.Generator, corners: int) -> Polygon:
    """A random convex polygon around a circle, far from the origin."""
    angle = np.sort(rng.uniform(0.0, 2.0 * np.pi, corners))
    while np.diff(np.append(angle, angle[0] + 2.0 * np.pi)).max() > 0.9 * np.pi:
        angle = np.sort(rng.uniform(0.0, 2.0 * np.pi, corners))
    return Polygon(0.5 * np.column_stack([np.cos(angle), np.sin(angle)]) + [3.0, -1.0])


def polyhedron(rng: np.random.Generator, corners: int) -> Polyhedron:
    """A random convex polyhedron with corners on a sphere, far from the origin."""
    x = rng.standard_normal((corners, 3))
    return Polyhedron(0.5 * x / np.linalg.norm(x, axis=1, keepdims=True) + [2.0, 0.0, -1.0])


def near(first: object, second: object, dim: int, rng: np.random.Generator) -> tuple[Scene, State]:
    """Two bodies on the move, in random poses, within 0.05 m or as deep in each other."""
    bodies = [
        Body(shape, np.full(dim, 40.0 * k), mass=None if isinstance(shape, HalfSpace) else 1.0)
        for k, shape in enumerate((first, second))
    ]
    scene = Scene(bodies, dim=dim, overlap_tol=1e9)
    q, v = np.array(scene.initial.q), rng.standard_normal(scene.initial.v.shape)
    v[scene.bodies.fixed] = 0.0
    if dim == 2:
        q[:, 2] = rng.uniform(-4.0, 4.0, 2)
    else:
        turn = rng.standard_normal((2, 4))
        q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    q[0, :dim] = 0.0
    way = rng.standard_normal(dim)
    way /= np.linalg.norm(way)
    target = rng.uniform(-0.05, 0.05)
    inside, outside = 0.0, 4.0
    if isinstance(first, HalfSpace) or isinstance(second, HalfSpace):
        way = detect(scene, State(0.0, q, v), margin=500.0).normals[0]  # parts them
        inside = -4.0
    for _ in range(30):
        middle = 0.5 * (inside + outside)
        q[1, :dim] = middle * way
        if detect(scene, State(0.0, q, v), margin=500.0).phi.min() > target:
            outside = middle
        else:
            inside = middle
    return scene, State(0.0, q, v)
