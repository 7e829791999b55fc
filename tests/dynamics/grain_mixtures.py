"""Scenes of unlike spheres that tests of the elastic methods build in any units and frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from elastic_scenes import ball, scene, wall

import cdopt
from cdopt._util.checks import FloatArray
from cdopt.dynamics import Trajectory
from cdopt.scene import Material, Scene, Spheres

STIFF = 2e6  # half-stiffness, N/m


def apart(one: Trajectory, two: Trajectory) -> float:
    """The largest difference of two runs of one scene."""
    return float(max(np.abs(one.q - two.q).max(), np.abs(one.v - two.v).max()))


def both_paths(place: Scene, h: float, duration: float, **settings: Any) -> list[Trajectory]:
    """A run by the compiled loops, and one through CVXPY."""
    return [
        cdopt.simulate(place, h, duration, "variational", path=path, **settings)
        for path in ("native", "cvxpy")
    ]


def mixture(
    dim: int = 3, power: float = 2.0, units: tuple[float, float, float] = (1.0, 1.0, 1.0),
    turn: FloatArray | None = None, shift: Any = 0.0, order: Any = None, moving: bool = True,
    fall: float = 8.0,
) -> Scene:  # fmt: skip
    """Spheres of many sizes and masses, one of them fixed, loaded, spinning, among walls.

    Parameters
    ----------
    units : lengths of a metre, masses of a kilogram and times of a second.
    turn, shift : of the frame. order : numbers of the bodies as they are to stand.
    moving : whether walls and the fixed sphere move. fall : mean speed downwards, m/s.
    """
    metre, kilo, second = units
    rng = np.random.default_rng(0)
    frame = np.eye(dim) if turn is None else turn
    spun = frame if dim == 3 else np.eye(1)
    e, n = np.eye(dim), 8
    cells = np.stack(np.unravel_index(np.arange(n), (2, 2, 2) if dim == 3 else (4, 2)), -1)
    centres = 0.7 + 1.25 * cells[:, ::-1] + rng.uniform(-0.02, 0.02, (n, dim))
    radius, mass = rng.uniform(0.3, 0.6, n), rng.uniform(0.2, 2.0, n)
    velocity = rng.uniform(-4.0, 4.0, (n, dim)) - fall * e[-1]
    width = 3 if dim == 3 else 1
    spin, torque = rng.uniform(-5.0, 5.0, (n, width)), rng.uniform(-1.0, 1.0, (n, width))
    force = rng.uniform(-3.0, 3.0, (n, dim))
    speed, newton = metre / second, kilo * metre / second**2
    walls = (
        (e[-1], 0.0 * e[0], 0.5 * e[0] + e[-1]),
        (e[0], 0.0 * e[0], 0.0 * e[0]),
        (-e[0], 3.2 * e[0], -0.5 * e[0]),
    )
    bodies = [
        wall(frame @ out, metre * (frame @ place + shift), velocity=speed * (frame @ v) * moving)
        for out, place, v in walls
    ]
    for k in range(n):
        w, pull = spun @ spin[k] / second, newton * metre * (spun @ torque[k])
        more: dict[str, Any] = {"angular_velocity": w if dim == 3 else w[0]}
        if k != 3:
            more |= {"force": newton * (frame @ force[k]), "torque": pull if dim == 3 else pull[0]}
        elif not moving:
            more = {}
        v = None if k == 3 and not moving else speed * (frame @ velocity[k])
        place = metre * (frame @ centres[k] + shift)
        bodies.append(ball(place, v, metre * radius[k], mass=kilo * mass[k], fixed=k == 3, **more))
    # of Hertz contacts a modulus, else N/m^(p−1)
    stiffness = STIFF * newton / metre ** (2.0 if power == 2.5 else power - 1.0)
    return scene(
        bodies if order is None else [bodies[k] for k in order],
        dim,
        metre / second**2 * (frame @ (-9.8 * e[-1])),
        materials=[Material(name="grain", stiffness=stiffness)],
        power=power,
        damping=100.0 / second,
    )


def crowd(seed: int, n: int = 100) -> Scene:
    """Close spheres of sizes 1 : 3 at speeds of up to 100 m/s in a box whose walls move."""
    rng = np.random.default_rng(seed)
    radius = 0.2 * 3.0 ** rng.uniform(0.0, 1.0, n)
    places: list[FloatArray] = []
    while len(places) < n:
        x, own = rng.uniform(-2.2, 2.2, 3), radius[len(places)]
        if all(np.linalg.norm(x - y) > own + radius[k] + 1e-3 for k, y in enumerate(places)):
            places.append(x)
    e = np.eye(3)
    walls = [
        wall(s * e[a], -2.8 * s * e[a], velocity=rng.normal(size=3))
        for a in range(3)
        for s in (1.0, -1.0)
    ]
    velocity = 10.0 ** rng.uniform(0.0, 1.5, (n, 1)) * rng.normal(size=(n, 3))
    loose = Spheres(
        centres=np.array(places), radius=radius, velocities=velocity, mass=4.0 * radius**3,
        fixed=rng.random(n) < 0.1, material="grain",
    )  # fmt: skip
    grain = Material(name="grain", stiffness=2e7)
    return scene([*walls, loose], materials=[grain], damping=20.0)
