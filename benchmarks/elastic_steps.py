"""What a step of the elastic methods costs, and how it grows with the number of spheres.

    python benchmarks/elastic_steps.py [largest]

Spheres of d = ρ = 1, k = 1e6 N/m, γ_n = 100 1/s, that fall and settle in a box, h = 1e-4 s, on one
core, after the loops are compiled: De Klerk et al. (2021), section 3.4, by whose published Python
code 218 of them take 0.34 s a step, and by LAMMPS 16 µs. Then layers of
spheres ten deep that all touch and shake, at growing size, and their fitted exponent; and an
impact of two spheres through CVXPY.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

import cdopt
from cdopt.grains import FORCED, Marcher, Rule
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

MASS, STIFFNESS, H = np.pi / 6.0, 1e6, 1e-4
GRAIN = Material(name="grain", stiffness=2.0 * STIFFNESS)
RULE = Rule(H, 0.5, FORCED, 1e-12, 60)
REPEATS = 5
SIZES = (218, 600, 2_000, 6_000, 20_000)


def box(n: int, across: int) -> Scene:
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


def settling() -> None:
    """218 spheres, from the first fall to rest."""
    scene = box(218, 5)
    work, explicit = Marcher(scene), Marcher(scene)
    state = work.variational(scene.initial, 5, RULE).state
    force = explicit.forces(state)
    explicit.velocity_verlet(state, 5, H / 10.0, force)
    print("218 settling spheres, variational, h = 1e-4 s, tolerance 1e-12")
    for _ in range(8):
        started = time.perf_counter()
        ended = work.variational(state, 2500, RULE)
        spent = (time.perf_counter() - started) / 2500
        state = ended.state
        print(
            f"  to t = {state.t:5.2f} s: {1e3 * spent:.3f} ms a step, Newton "
            f"{ended.newton / 2500:.2f}, conjugate gradients {ended.linear / 2500:.1f} a step"
        )
    force, seconds = explicit.forces(state), []
    for _ in range(REPEATS):
        started = time.perf_counter()
        explicit.velocity_verlet(state, 2000, H / 10.0, force)
        seconds.append((time.perf_counter() - started) / 2000)
    print(f"  velocity-Verlet, h = 1e-5 s: {1e6 * statistics.median(seconds):.0f} µs a step")


def layers(n: int) -> Scene:
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


def growth(largest: int) -> None:
    """Cost per step of the layers, and its exponent."""
    sizes, costs = [], []
    for n in (size for size in SIZES if size <= largest):
        scene = layers(n)
        work = Marcher(scene)
        state = work.variational(scene.initial, 20, RULE).state
        seconds = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            ended = work.variational(state, 40, RULE)
            seconds.append((time.perf_counter() - started) / 40)
        sizes.append(n)
        costs.append(statistics.median(seconds))
        print(
            f"  {n:6d} spheres, {work.touch(state).nc:6d} contacts: {1e3 * costs[-1]:8.3f} ms a "
            f"step, {1e6 * costs[-1] / n:.2f} µs a sphere, "
            f"conjugate gradients {ended.linear / 40:.1f} a step"
        )
    if len(sizes) > 1:
        slope = np.polyfit(np.log(sizes), np.log(costs), 1)[0]
        print(f"  exponent {slope:.3f}")


def through_cvxpy() -> None:
    """An oblique impact, step by step through CVXPY."""
    spheres = [
        Body(Sphere(0.5), [x, y, 0.0], velocity=[v, 0.0, 0.0], mass=MASS, material="grain")
        for x, y, v in ((0.0, 0.0, 1.0), (np.sqrt(0.99), 0.1, -1.0))
    ]
    scene = Scene(spheres, dim=3, gravity=np.zeros(3), materials=[GRAIN], damping=30.0)
    for backend in ("newton", "clarabel", "osqp"):
        settings = {"path": "cvxpy", "backend": backend}
        cdopt.simulate(scene, H, 4 * H, "variational", **settings)
        seconds = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            run = cdopt.simulate(scene, H, 16 * H, "variational", on_failure="continue", **settings)
            seconds.append((time.perf_counter() - started) / 16)
        passes = run.diagnostics["iterations_step"][1:].mean()
        print(
            f"  {backend:9s} {1e3 * statistics.median(seconds):6.1f} ms a step, "
            f"{passes:.1f} linearisations"
        )


if __name__ == "__main__":
    settling()
    print("growth: variational steps of touching layers")
    growth(int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1])
    print("an impact of two spheres through CVXPY")
    through_cvxpy()
