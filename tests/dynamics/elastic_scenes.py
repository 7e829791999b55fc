"""Scenes of elastic spheres that several tests use, in the authors' units: d = ρ = 1, k = 1e6."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

MASS = np.pi / 6
STIFFNESS = 1e6
T_C = np.pi * np.sqrt(MASS / (2.0 * STIFFNESS))  # of an undamped impact of two, s
GRAIN = Material(name="grain", stiffness=2.0 * STIFFNESS)


def ball(place: Any, velocity: Any = None, radius: float = 0.5, **more: Any) -> Body:
    """An elastic sphere."""
    settings = {"mass": MASS, **more}
    return Body(Sphere(radius), place, velocity=velocity, material="grain", **settings)


def wall(normal: Any, place: Any, **more: Any) -> Body:
    """An elastic wall."""
    return Body(HalfSpace(normal), place, material="grain", **more)


def scene(bodies: list[Any], dim: int = 3, gravity: Any = None, **more: Any) -> Scene:
    """A scene without gravity, unless it is told otherwise."""
    pull = np.zeros(dim) if gravity is None else gravity
    return Scene(bodies, dim=dim, gravity=pull, **{"materials": [GRAIN], **more})


def impact(gamma: float = 0.0, offset: float = 0.0, dim: int = 3, **more: Any) -> Scene:
    """Two spheres at first touch, each at 1 m/s along x, their lines ``offset`` apart."""
    along = np.sqrt(1.0 - offset**2)
    ends = (([0.0, 0.0, 0.0], 1.0), ([along, offset, 0.0], -1.0))
    spheres = [ball(place[:dim], [v, 0.0, 0.0][:dim]) for place, v in ends]
    return scene(spheres, dim, damping=gamma, **more)


def between_walls(speed: float = 1.0) -> Scene:
    """A sphere that flies to and fro between walls 1.01 d apart."""
    walls = [wall([side, 0.0, 0.0], [-side * 0.505, 0.0, 0.0]) for side in (1.0, -1.0)]
    return scene([*walls, ball([0.0] * 3, [speed, 0.0, 0.0])])


def bonded_hit(ratio: float, offset: float) -> Scene:
    """A bonded pair along x, of k_B = ratio k, and a third sphere that hits it at 1 m/s."""
    # the third sphere all but touches the first: a short reach spares it
    coming = [-np.sqrt(1.0 - offset**2) - 1e-6, offset, 0.0]
    spheres = [ball([0.0] * 3), ball([1.0, 0.0, 0.0]), ball(coming, [1.0, 0.0, 0.0])]
    return scene(spheres, bond_stiffness=ratio * STIFFNESS, bond_reach=1e-7)


def cluster(bonds: bool, seed: int = 0) -> Scene:
    """Spheres close together with random velocities, alone in space: 8 bonded or 13 loose ones."""
    rng = np.random.default_rng(seed)
    near = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]) / np.sqrt(2.0)
    shell = {tuple(np.round(s * p, 12)) for p in near for s in (1, -1)}
    shell |= {
        tuple(np.round(np.array(p) * s, 12)) for p in near for s in ([1, -1, 1], [-1, 1, -1],
        [1, 1, -1], [-1, -1, 1], [-1, 1, 1], [1, -1, -1])
    }  # fmt: skip
    centres = np.array([[0.0, 0.0, 0.0], *sorted(shell)[: 7 if bonds else 12]])
    velocities = rng.uniform(-1.0, 1.0, centres.shape) - (0.0 if bonds else centres)
    centres = centres if bonds else 1.02 * centres
    loose = Spheres(centres, 0.5, mass=MASS, velocities=velocities, material="grain")
    return scene([loose], bond_stiffness=0.1 * STIFFNESS if bonds else None)


def in_a_box(
    n: int = 40, gamma: float = 100.0, seed: int = 0, dim: int = 3, fall: float = 0.0, **more: Any
) -> Scene:
    """Loose spheres that fall into a box of 3 d × 3 d, in the plane 4 d wide.

    They start at ``fall`` (1 + 2 z/d) m/s, so that all collide soon.
    """
    rng = np.random.default_rng(seed)
    wide = 3.0 if dim == 3 else 4.0
    per = int(wide / 1.1)
    cells = np.stack(np.unravel_index(np.arange(n), (n, per, per) if dim == 3 else (n, per)), -1)
    centres = 0.6 + 1.1 * cells[:, ::-1] + rng.uniform(-0.04, 0.04, (n, dim))
    *across, up = np.eye(dim)
    walls = [wall(up, 0.0 * up)]
    for e in across:
        walls += [wall(e, 0.0 * e), wall(-e, wide * e)]
    speeds = -fall * np.outer(1.0 + 2.0 * centres[:, -1], up)
    loose = Spheres(centres, 0.5, mass=MASS, velocities=speeds, material="grain")
    return scene([*walls, loose], dim, -9.8 * up, damping=gamma, **more)
