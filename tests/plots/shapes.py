"""Small scenes of solids for the tests of pictures, and short runs of them."""

from __future__ import annotations

import functools

import numpy as np

import cdopt
from cdopt.scene import Body, Box, Capsule, Compound, HalfSpace, Part, Polygon, Polyhedron, Scene
from cdopt.scene import Sphere as Ball

HEXAGON = [[np.cos(a), np.sin(a)] for a in np.arange(6) * np.pi / 3]
PRISM = [[0.5 * x, 0.5 * y, z] for z in (-0.3, 0.3) for x, y in HEXAGON]
UPRIGHT = [np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0]  # the first axis down


def floor(dim: int) -> Body:
    return Body(HalfSpace([*[0.0] * (dim - 1), 1.0]), [0.0] * dim)


def turned(seed: int) -> np.ndarray:
    q = np.random.default_rng(seed).standard_normal(4)
    return q / np.linalg.norm(q)


def table() -> Compound:
    """A top on four round legs and a knob on it, off its own origin."""
    legs = [
        Part(Capsule(0.06, 0.6), [x, y, 0.36], orientation=UPRIGHT)
        for x in (-0.85, 0.85)
        for y in (-0.45, 0.45)
    ]
    knob = Part(Ball(0.1), [0.5, 0.3, 0.92])
    return Compound([Part(Box([2.0, 1.2, 0.1]), [0.0, 0.0, 0.77]), knob, *legs])


def wall() -> Scene:
    """Three courses of bricks of 1 m × 0.5 m in the plane: four, three and four."""
    places = [[k, 0.25] for k in range(4)] + [[k + 0.5, 0.75] for k in range(3)]
    places += [[k, 1.25] for k in range(4)]
    bricks = [Body(Box([1.0, 0.5]), place, density=1000.0) for place in places]
    return Scene([floor(2), *bricks], dim=2, gravity=[0.0, -9.81])


def flat() -> Scene:
    """Every shape of the plane, turned."""
    frame = Compound([
        Part(Box([2.0, 0.1]), [0.0, 0.75]),
        Part(Capsule(0.06, 0.6), [0.9, 0.36], angle=0.5 * np.pi),
        Part(Ball(0.08), [-0.9, 0.88]),
    ])  # fmt: skip
    shapes = [Box([0.6, 0.3]), Capsule(0.15, 0.5), Polygon(HEXAGON), frame, Ball(0.4)]
    bodies = [Body(shape, [3.0 * k, 3.0], angle=0.7 * k + 0.3, density=700.0,
                   angular_velocity=0.5 * k) for k, shape in enumerate(shapes)]  # fmt: skip
    return Scene([floor(2), *bodies], dim=2, gravity=[0.0, -9.81])


def solid() -> Scene:
    """Every shape of space, turned."""
    cloud = np.random.default_rng(5).standard_normal((14, 3))
    cloud /= np.linalg.norm(cloud, axis=1, keepdims=True)
    shapes = [Box([0.6, 0.3, 0.4]), Capsule(0.15, 0.5), Polyhedron(cloud), table(), Ball(0.4)]
    bodies = [
        Body(shape, [3.0 * k, 0.0, 3.0], orientation=turned(k), density=700.0,
             angular_velocity=[0.1, 0.5 * k, 1.0])
        for k, shape in enumerate(shapes)
    ]  # fmt: skip
    return Scene([floor(3), *bodies], dim=3, gravity=[0.0, 0.0, -9.81])


def stack() -> Scene:
    """Three hexagonal prisms on a floor, and a ball on a fixed box next to them."""
    prisms = [Body(Polyhedron(PRISM), [0.0, 0.0, 0.3 + 0.6 * k], density=1e3) for k in range(3)]
    block = Body(Box([0.5, 0.5, 0.5]), [1.5, 0.0, 0.25], fixed=True)
    ball = Body(Ball(0.3), [1.5, 0.0, 0.8], density=1e3)
    return Scene([floor(3), *prisms, block, ball], dim=3, gravity=[0.0, 0.0, -9.81])


@functools.cache
def ran(make, duration: float = 0.01) -> cdopt.Trajectory:
    """A short run of one of these scenes."""
    return cdopt.simulate(make(), 2e-3, duration)
