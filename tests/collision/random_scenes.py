"""Scenes of every shape, in random poses: anywhere, or a pair near each other."""

from __future__ import annotations

import numpy as np

from cdopt.collision import detect
from cdopt.geometry.rotations import matrices, product
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


def mixed(dim: int, rng: np.random.Generator, spheres: int = 6, **fields) -> Scene:
    """A box, two half-spaces, of which one moves and turns, and spheres free and fixed.

    ``fields`` are further ones of the scene.
    """
    spin = 0.3 if dim == 2 else rng.standard_normal(3)
    normal = rng.standard_normal(dim)
    wall, other = HalfSpace(normal), HalfSpace(-normal)
    drift = rng.standard_normal(dim)
    bodies = [
        Body(Box(rng.uniform(0.2, 2.0, dim)), np.full(dim, 100.0), mass=2.0),
        Body(wall, -500.0 * normal, velocity=drift, angular_velocity=spin),
        Body(other, 500.0 * normal),
    ]
    for k in range(spheres):
        place = np.zeros(dim)
        place[0] = 10.0 * k
        fixed = k % 3 == 0
        velocity = rng.standard_normal(dim) if fixed else None
        ball = Sphere(float(rng.uniform(0.1, 1.0)))
        bodies.append(Body(ball, place, fixed=fixed, mass=1.0, velocity=velocity))
    return Scene(bodies, dim=dim, overlap_tol=1e9, **fields)


def orientations(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Random angles (n, 1) or unit quaternions (n, 4)."""
    if dim == 2:
        return rng.uniform(-4.0, 4.0, (n, 1))
    turn = rng.standard_normal((n, 4))
    return turn / np.linalg.norm(turn, axis=1, keepdims=True)


def thrown(scene: Scene, rng: np.random.Generator, size: float = 1.0) -> State:
    """Every body within ``size`` of the origin, in a random orientation, on the move."""
    position = rng.uniform(-size, size, (scene.nb, scene.dim))
    q = np.hstack([position, orientations(scene.nb, scene.dim, rng)])
    v = np.array(scene.initial.v)
    free = ~scene.bodies.fixed
    v[free] = rng.standard_normal((int(free.sum()), v.shape[1]))
    return State(0.0, q, v)


def carried(state: State, rng: np.random.Generator, size: float = 3.0) -> tuple[State, np.ndarray]:
    """The state carried elsewhere by one random rotation and shift, and the rotation matrix."""
    dim = state.dim
    turn = orientations(1, dim, rng)
    if dim == 2:
        R = matrices(turn[0])[0]
        orientation = state.orientation[:, None] + turn
        spin = state.v[:, 2:]
    else:
        R = matrices(turn)[0]
        orientation = product(np.repeat(turn, state.nb, axis=0), state.orientation)
        spin = state.angular_velocity @ R.T
    q = np.hstack([state.position @ R.T + rng.uniform(-size, size, dim), orientation])
    return State(0.0, q, np.hstack([state.velocity @ R.T, spin])), R


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
        turn = orientations(1, 3, rng)[0]
        parts = [
            Part(Box([0.8, 0.3, 0.5]), [0.0, 0.0, 0.0], orientation=turn),
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
    v = rng.standard_normal(scene.initial.v.shape)
    v[scene.bodies.fixed] = 0.0
    q = np.hstack([np.array(scene.initial.position), orientations(2, dim, rng)])
    q[0, :dim] = 0.0
    way = rng.standard_normal(dim)
    way /= np.linalg.norm(way)
    target = rng.uniform(-0.05, 0.05)
    inside, outside = 0.0, 4.0
    if isinstance(first, HalfSpace) or isinstance(second, HalfSpace):
        way = detect(scene, State(0.0, q, v), margin=500.0).normals[0]  # parts them
        inside = -4.0
    for _ in range(12):
        middle = 0.5 * (inside + outside)
        q[1, :dim] = middle * way
        if detect(scene, State(0.0, q, v), margin=500.0).phi.min() > target:
            outside = middle
        else:
            inside = middle
    return scene, State(0.0, q, v)
