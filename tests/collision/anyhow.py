"""Scenes of every shape, and states in which they lie anyhow."""

from __future__ import annotations

import numpy as np

from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere, State


def mixed(dim: int, rng: np.random.Generator, spheres: int = 6, **fields) -> Scene:
    """A box, two half-spaces, of which one moves and turns, and spheres free and fixed.

    ``fields`` are further ones of the scene.
    """
    spin = 0.3 if dim == 2 else rng.standard_normal(3)
    wall = HalfSpace(rng.standard_normal(dim))
    bodies = [
        Body(Box(rng.uniform(0.2, 2.0, dim)), np.full(dim, 100.0), mass=2.0),
        Body(wall, np.full(dim, -500.0) * np.array(wall.normal), velocity=rng.standard_normal(dim),
             angular_velocity=spin),
        Body(HalfSpace(-np.array(wall.normal)), np.full(dim, 500.0) * np.array(wall.normal)),
    ]  # fmt: skip
    for k in range(spheres):
        place = np.zeros(dim)
        place[0] = 10.0 * k
        velocity = rng.standard_normal(dim) if k % 3 == 0 else None
        bodies.append(
            Body(Sphere(float(rng.uniform(0.1, 1.0))), place, fixed=k % 3 == 0, mass=1.0,
                 velocity=velocity)
        )  # fmt: skip
    return Scene(bodies, dim=dim, overlap_tol=1e9, **fields)


def thrown(scene: Scene, rng: np.random.Generator, size: float = 1.0) -> State:
    """Every body somewhere within ``size`` of the origin, turned anyhow, on the move."""
    q = np.array(scene.initial.q)
    v = np.array(scene.initial.v)
    dim = scene.dim
    q[:, :dim] = rng.uniform(-size, size, (scene.nb, dim))
    if dim == 2:
        q[:, 2] = rng.uniform(-4.0, 4.0, scene.nb)
    else:
        turn = rng.standard_normal((scene.nb, 4))
        q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    free = ~scene.bodies.fixed
    v[free] = rng.standard_normal((int(free.sum()), v.shape[1]))
    return State(0.0, q, v)
