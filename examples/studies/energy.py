"""``python -m examples.studies.energy``: the energy of discs with friction never grows.

Two discs fall, roll, slide and come to rest between a floor and a wall, by contact dynamics with
Coulomb friction, μ = 0.5, without restitution and drive. Overlaps count as touching.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import cdopt
from cdopt.dynamics import Trajectory
from cdopt.scene import Body, HalfSpace, Scene, Spheres

STEPS, DT = 100_000, 1e-3  # s


def corner() -> Scene:
    """Two discs that move at random, a floor and a wall."""
    walls = [Body(HalfSpace(normal), [0.0, 0.0], fixed=True) for normal in ([0.0, 1.0], [1.0, 0.0])]
    velocities = np.random.default_rng(0).normal(size=(2, 2))
    centres = [[0.6, 0.6], [1.75, 0.62]]
    discs = Spheres(centres=centres, radius=0.5, mass=1.0, velocities=velocities)
    return Scene([*walls, discs], dim=2, gravity=[0.0, -10.0], friction=0.5)


def settle(steps: int, progress: bool = False) -> Trajectory:
    """This many steps of the discs in the corner, of which the last is recorded."""
    settings = {"every": steps, "push_overlaps": False, "progress": progress}
    return cdopt.simulate(corner(), DT, steps * DT, "contact-dynamics", **settings)


def growth(done: Trajectory) -> float:
    """The most by which the energy of a step exceeds the least before it, as a share of the first.

    At most zero where it never grows.
    """
    energy = done.diagnostics["kinetic"] + done.diagnostics["potential"]
    return float(np.max(energy[1:] - np.minimum.accumulate(energy)[:-1]) / energy[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Take as many steps as the command line says."""
    parser = argparse.ArgumentParser("python -m examples.studies.energy")
    parser.add_argument("--steps", type=int, default=STEPS)
    done = settle(parser.parse_args(arguments).steps, progress=True)
    print(f"{done}: the energy grew by {growth(done):.1g} of its first value at most")


if __name__ == "__main__":
    main()
