"""PETSc's SNES and TAO as peers, on the scaled data of trusses and rigid steps.

On Debian ``apt-get install python3-petsc4py`` brings PETSc for the system's Python, which runs as a
separate process; what is timed is PETSc's set-up and solve. cdopt certifies the answers.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import cdopt
from benchmarks.direct import ACCURACY
from benchmarks.record import Row
from cdopt.backends.network_problem import network_problem
from cdopt.formulations.base import Formulation
from cdopt.interop import petsc

ON_TRUSSES = {"SNES newtonls": "snes", "TAO nls": "nls"}
ON_STEPS = {"TAO tron": "tron"}
SOLVERS = ON_TRUSSES | ON_STEPS

_PROGRAM = Path(__file__).with_name("petsc_process.py")
_PATIENCE = 2.0  # budgets until a solution that does not end is stopped


def measure(posed: Formulation, solver: str, repeats: int, budget: float) -> Row:
    """One solver on one problem: seconds, PETSc's reason to stop, and our certificate."""
    data: Any = posed.data
    given = {
        "solver": SOLVERS[solver],
        "repeats": repeats,
        "accuracy": ACCURACY,
        "budget": budget,
    }
    if data.is_static:
        scaled = data.scales
        answer = _run(
            scaled.B,
            given
            | {
                "load": scaled.load,
                "opening": scaled.p,
                "stiffness": scaled.elastic_law.stiffness,
                "power": scaled.elastic_law.power,
                "block": petsc.block_size(data.dof_body),
            },
        )
    else:
        problem = network_problem(data)
        N = sp.csr_array(problem.factors.rows @ problem.factors.spread.T)
        answer = _run(N, given | {"p": problem.p, "block": 1})
    if isinstance(answer, str):
        return {"failed": answer}
    x, seconds = answer["x"], answer["seconds"].tolist()
    if data.is_static:
        motion = np.array(data.free_motion)
        motion[scaled.used] += x * scaled.unit
        forces = data.force * scaled.elastic_law.force(-scaled.B @ x - scaled.p)
    else:
        forces = problem.force * x
        motion = data.velocity(forces)
    return {
        "seconds": statistics.median(seconds),
        "least": min(seconds),
        "greatest": max(seconds),
        "repeats": len(seconds),
        "status": f"PETSc {answer['version']}, reason {int(answer['reason'])}",
        "worst": cdopt.certify(data, motion, forces).worst,
        "iterations": int(answer["iterations"]),
    }


def _run(A: sp.csr_array, given: dict[str, Any]) -> dict[str, Any] | str:
    """What the process answers, or why it does not."""
    matrix = {"indptr": A.indptr, "indices": A.indices, "data": A.data, "shape": A.shape}
    python = petsc.python()
    if python is None:
        return "not installed"
    with tempfile.TemporaryDirectory(prefix="petsc-") as folder:
        question, answer = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(question, **matrix, **given)
        limit = _PATIENCE * given["budget"]
        try:
            done = subprocess.run(
                [python, str(_PROGRAM), str(question), str(answer)],
                env=petsc.environment(),
                capture_output=True,
                text=True,
                check=False,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return f"stopped after {limit:g} s"
        if not answer.is_file():
            lines = done.stderr.strip().splitlines() or ["no message"]
            return lines[-1][:200]
        with np.load(answer, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
