"""Velocity-Verlet by LAMMPS with the contact model (20)–(25), in a separate process.

Pair style ``granular`` and walls ``wall/gran granular``, with ``linear_nohistory`` and
``mass_velocity``: ``gran/hooke`` has other levers and caps the tangential force, and gives
not-a-number at a wall without damping.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cdopt import BackendUnavailable, SolveFailed, Unsupported
from cdopt._util import checks
from cdopt.dynamics.analysis import Motion
from cdopt.scene import Scene

from .. import lammps
from .ode import Model

SECONDS = 1800.0  # a run that takes longer is ended
ROOM = 2.0  # around everything at the start, in the largest extent
ALIKE = 1e-12


def why_unavailable() -> str | None:
    """Why LAMMPS cannot run here, with the remedy; None when it can."""
    return lammps.why_unavailable()


def run(scene: Scene, dt: float, steps: int, every: int = 1) -> Motion:
    """A scene of equal spheres and upright walls by LAMMPS, recorded every n-th step.

    Raises
    ------
    BackendUnavailable : LAMMPS is not installed.
    Unsupported : bonds, spheres that differ, or walls that are not along an axis.
    InvalidInput : a bad time step.
    SolveFailed : LAMMPS ended with an error, or lost spheres.
    """
    reason = why_unavailable()
    if reason is not None:
        raise BackendUnavailable("lammps", reason)
    h = checks.scalar("dt", dt, above=0.0)
    model = Model.of(scene)
    given = {**_problem(scene, model), "timestep": h, "steps": steps, "every": every}
    answer = lammps.process(Path(__file__).with_name("lammps_process.py"), given, SECONDS)
    if not all(np.isfinite(answer[name]).all() for name in ("x", "v", "w")):
        status = "a number that is not finite"
        raise SolveFailed(f"LAMMPS: {status}", backend="lammps", status=status)
    t = h * np.append(np.arange(0, steps, every), steps)
    return Motion.of_spheres(t, answer["x"], answer["v"], answer["w"], model.mass, model.radius)


def _problem(scene: Scene, model: Model) -> dict[str, Any]:
    """The scene as the process reads it."""
    stiffness = np.concatenate([model.stiffness, model.wall_stiffness.ravel()])
    equal = all(
        np.ptp(values) <= ALIKE * np.abs(values).max()
        for values in (model.mass, model.radius, stiffness)
    )
    if model.bonded.any() or not equal or scene.bodies.force.any():
        raise Unsupported("LAMMPS", "only equal spheres without bonds are supported here")
    gravity = np.asarray(scene.gravity)
    if gravity[:2].any() or gravity[2] > 0.0:
        raise Unsupported("LAMMPS", "gravity must point down the last axis")
    state, free = scene.initial, ~scene.bodies.fixed
    x, diameter = state.position[free], 2.0 * float(model.radius[0])
    wide = ROOM * max(float(np.ptp(x, axis=0).max()), diameter)
    return {
        "x": x,
        "v": state.velocity[free],
        "w": state.angular_velocity[free],
        "diameter": diameter,
        "density": float(model.mass[0]) * 6.0 / (np.pi * diameter**3),
        "stiffness": stiffness[0],
        "gamma_n": scene.damping,
        "ratio": scene.gamma_t / scene.damping if scene.damping > 0.0 else 0.0,
        "gravity": -float(gravity[2]),
        "walls": _walls(model),
        "low": x.min(axis=0) - wide,
        "high": x.max(axis=0) + wide,
    }


def _walls(model: Model) -> np.ndarray:
    """(walls, 3) axis, side on which the spheres are, and place."""
    rows = []
    for normal, point in zip(model.normals, model.points, strict=True):
        axis = int(np.argmax(np.abs(normal)))
        if abs(abs(normal[axis]) - 1.0) > ALIKE:
            raise Unsupported("LAMMPS", "walls must be normal to an axis")
        rows.append((float(axis), float(np.sign(normal[axis])), float(point[axis])))
    return np.array(rows).reshape(-1, 3)
