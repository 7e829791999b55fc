"""What a step of the elastic methods costs, and how it grows with the number of spheres.

Spheres of d = ρ = 1, k = 1e6 N/m, γ_n = 100 1/s, that fall and settle in a box, h = 1e-4 s, on one
core, after the loops are compiled: De Klerk et al. (2021), section 3.4, by whose published Python
code 218 of them take 0.34 s a step, and by LAMMPS 16 µs. Then layers of spheres ten deep that all
touch and shake, at growing size; and an impact of two spheres through CVXPY.
"""

from __future__ import annotations

import time

import numpy as np

import cdopt
from benchmarks.record import REPEATS, Row, timed
from cdopt.dynamics.spheres import Scheme, SphereStepper
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

MASS, STIFFNESS, H = np.pi / 6.0, 1e6, 1e-4
GRAIN = Material(name="grain", stiffness=2.0 * STIFFNESS)
SCHEME = Scheme(H)
SIZES = (218, 600, 2_000, 6_000, 20_000)
BLOCKS = 8


def settling(steps: int = 2500) -> list[Row]:
    """218 spheres from the first fall to rest: eight blocks of steps, then velocity-Verlet."""
    scene = _box(218, 5)
    work, explicit = SphereStepper(scene), SphereStepper(scene)
    state = work.variational(scene.initial, 5, SCHEME).state
    force = explicit.forces(state)
    explicit.velocity_verlet(state, 5, H / 10.0, force)
    rows: list[Row] = []
    for _ in range(BLOCKS):
        started = time.perf_counter()
        ended = work.variational(state, steps, SCHEME)
        spent = (time.perf_counter() - started) / steps
        state = ended.state
        rows.append({
            "method": "variational", "t": float(state.t), "seconds": spent,
            "newton": ended.newton / steps, "conjugate_gradients": ended.linear / steps,
        })  # fmt: skip
    force = explicit.forces(state)
    run, _ = timed(lambda: explicit.velocity_verlet(state, steps, H / 10.0, force))
    return [*rows, run | {"method": "velocity-Verlet", "seconds": run["seconds"] / steps}]


def growth(largest: int = SIZES[-1]) -> list[Row]:
    """Cost of a variational step of touching layers, at growing size."""
    rows: list[Row] = []
    for n in (size for size in SIZES if size <= largest):
        scene = _layers(n)
        work = SphereStepper(scene)
        state = work.variational(scene.initial, 20, SCHEME).state
        run, ended = timed(lambda: work.variational(state, 40, SCHEME), REPEATS)  # noqa: B023
        rows.append(run | {
            "spheres": n, "contacts": work.contacts(state).nc, "seconds": run["seconds"] / 40,
            "conjugate_gradients": ended[-1].linear / 40,
        })  # fmt: skip
    return rows


def impact(repeats: int = REPEATS) -> list[Row]:
    """An oblique impact of two spheres, step by step through CVXPY."""
    spheres = [
        Body(Sphere(0.5), [x, y, 0.0], velocity=[v, 0.0, 0.0], mass=MASS, material="grain")
        for x, y, v in ((0.0, 0.0, 1.0), (np.sqrt(0.99), 0.1, -1.0))
    ]
    scene = Scene(spheres, dim=3, gravity=np.zeros(3), materials=[GRAIN], damping=30.0)
    rows: list[Row] = []
    for backend in ("newton", "clarabel", "osqp"):
        settings = {"path": "cvxpy", "backend": backend, "on_failure": "continue"}
        run, done = timed(
            lambda: cdopt.simulate(scene, H, 16 * H, "variational", **settings),  # noqa: B023
            repeats,
        )
        table = done[-1].diagnostics
        rows.append(run | {
            "solver": backend, "seconds": run["seconds"] / 16,
            "linearisations": float(table["iterations_step"][1:].mean()),
            "certified": float(np.asarray(table["ok"])[1:].mean()),
        })  # fmt: skip
    return rows


def frames(steps: int = 400) -> list[Row]:
    """A stored frame of a small scene: each step of an impact of two spheres is recorded."""
    rows: list[Row] = []
    for method in ("variational", "velocity-verlet"):
        run, _ = timed(
            lambda: cdopt.simulate("elastic-impact", 1e-5, steps * 1e-5, method)  # noqa: B023
        )
        rows.append(run | {"method": f"{method}, recorded", "seconds": run["seconds"] / steps})
    return rows


def _box(n: int, across: int) -> Scene:
    """Loose spheres over a floor between walls, ``across`` to a side."""
    cells = np.stack(np.unravel_index(np.arange(n), (n, across, across)), axis=-1)[:, ::-1]
    shaken = np.random.default_rng(0).uniform(-0.04, 0.04, (n, 3))
    wide = 1.1 * across
    walls = [Body(HalfSpace([0.0, 0.0, 1.0]), np.zeros(3), material="grain")]
    for axis in range(2):
        e = np.eye(3)[axis]
        walls.append(Body(HalfSpace(e), np.zeros(3), material="grain"))
        walls.append(Body(HalfSpace(-e), wide * e, material="grain"))
    spheres = Spheres(centres=0.55 + 1.1 * cells + shaken, radius=0.5, mass=MASS, material="grain")
    return Scene(
        [*walls, spheres], dim=3, gravity=[0.0, 0.0, -9.8], materials=[GRAIN], damping=100.0
    )


def _layers(n: int) -> Scene:
    """Touching spheres on a floor, ten deep, moving at random at up to 0.1 m/s."""
    across = max(2, round((n / 10.0) ** 0.5))
    shape = (-(-n // across**2), across, across)
    cells = np.stack(np.unravel_index(np.arange(n), shape), axis=-1)[:, ::-1]
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), np.zeros(3), material="grain")
    motion = np.random.default_rng(0).uniform(-0.1, 0.1, (n, 3))
    spheres = Spheres(
        centres=0.5 + cells, radius=0.5, mass=MASS, velocities=motion, material="grain"
    )
    return Scene(
        [floor, spheres], dim=3, gravity=[0.0, 0.0, -9.8], materials=[GRAIN], damping=100.0
    )
