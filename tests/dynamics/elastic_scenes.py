"""Scenes of elastic spheres that several tests use, in the authors' units: d = ρ = 1, k = 1e6."""

from __future__ import annotations

import numpy as np

from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

MASS = np.pi / 6
STIFFNESS = 1e6
T_C = np.pi * np.sqrt(MASS / (2.0 * STIFFNESS))  # of an undamped impact of two, s
GRAIN = Material(name="grain", stiffness=2.0 * STIFFNESS)


def impact(gamma: float = 0.0, offset: float = 0.0, dim: int = 3, **more: object) -> Scene:
    """Two spheres at first touch, each at 1 m/s along x, their lines ``offset`` apart."""
    along = np.sqrt(1.0 - offset**2)
    ends = (([0.0, 0.0, 0.0], 1.0), ([along, offset, 0.0], -1.0))
    spheres = [
        Body(Sphere(0.5), place[:dim], velocity=[v, 0.0, 0.0][:dim], mass=MASS, material="grain")
        for place, v in ends
    ]
    return Scene(spheres, dim=dim, gravity=np.zeros(dim), materials=[GRAIN], damping=gamma, **more)  # type: ignore[arg-type]


def between_walls(speed: float = 1.0) -> Scene:
    """A sphere that flies to and fro between walls 1.01 d apart."""
    walls = [
        Body(HalfSpace([side, 0.0, 0.0]), [-side * 0.505, 0.0, 0.0], material="grain")
        for side in (1.0, -1.0)
    ]
    ball = Body(Sphere(0.5), [0.0] * 3, velocity=[speed, 0.0, 0.0], mass=MASS, material="grain")
    return Scene([*walls, ball], dim=3, gravity=np.zeros(3), materials=[GRAIN])


def bonded_hit(ratio: float, offset: float) -> Scene:
    """A bonded pair along x, of k_B = ratio k, and a third sphere that hits it at 1 m/s."""
    along = np.sqrt(1.0 - offset**2)
    places = ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-along, offset, 0.0])
    spheres = [
        Body(Sphere(0.5), place, velocity=[v, 0.0, 0.0], mass=MASS, material="grain")
        for place, v in zip(places, (0.0, 0.0, 1.0), strict=True)
    ]
    # the third sphere touches the first: a reach below the round-off of its distance spares it
    spheres[2] = Body(
        Sphere(0.5), [-along - 1e-6, offset, 0.0], velocity=[1.0, 0.0, 0.0], mass=MASS,
        material="grain",
    )  # fmt: skip
    return Scene(
        spheres,
        dim=3,
        gravity=np.zeros(3),
        materials=[GRAIN],
        bond_stiffness=ratio * STIFFNESS,
        bond_reach=1e-7,
    )


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
    return Scene(
        [
            Spheres(
                centres=centres if bonds else 1.02 * centres,
                radius=0.5,
                mass=MASS,
                velocities=rng.uniform(-1.0, 1.0, centres.shape) - (0.0 if bonds else centres),
                material="grain",
            )
        ],
        dim=3,
        gravity=np.zeros(3),
        materials=[GRAIN],
        bond_stiffness=0.1 * STIFFNESS if bonds else None,
    )


def in_a_box(
    n: int = 40, gamma: float = 100.0, seed: int = 0, dim: int = 3, **more: object
) -> Scene:
    """Loose spheres that fall into a box of 3 d × 3 d, in the plane 4 d wide."""
    rng = np.random.default_rng(seed)
    wide = 3.0 if dim == 3 else 4.0
    per = int(wide / 1.1)
    cells = np.stack(np.unravel_index(np.arange(n), (n, per, per) if dim == 3 else (n, per)), -1)
    centres = 0.6 + 1.1 * cells[:, ::-1] + rng.uniform(-0.04, 0.04, (n, dim))
    walls = [Body(HalfSpace(np.eye(dim)[-1]), np.zeros(dim), material="grain")]
    for axis in range(dim - 1):
        e = np.eye(dim)[axis]
        walls.append(Body(HalfSpace(e), np.zeros(dim), material="grain"))
        walls.append(Body(HalfSpace(-e), wide * e, material="grain"))
    return Scene(
        [*walls, Spheres(centres=centres, radius=0.5, mass=MASS, material="grain")],
        dim=dim,
        gravity=-9.8 * np.eye(dim)[-1],
        materials=[GRAIN],
        damping=gamma,
        **more,  # type: ignore[arg-type]
    )
