"""PETSc on several processes: no-tension trusses too large for one machine.

``PETSc(processes=2)`` is a backend of ``NoTensionTruss`` and of the second step of
``CompatibleCD``. On Debian ``apt-get install python3-petsc4py openmpi-bin`` installs PETSc for the
system's Python. It is not imported here: ``mpiexec`` runs ``petsc_process.py``, on this machine or
a cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cdopt._util import checks, files
from cdopt._util.checks import IntArray
from cdopt._util.errors import BackendUnavailable
from cdopt._util.processes import python_for
from cdopt.backends.deadline import TIME_LIMIT
from cdopt.backends.native import NativeBackend, Run
from cdopt.backends.network_problem import NetworkProblem, network_problem
from cdopt.formulations import NoTensionTruss
from cdopt.problem import ContactProblem

PROGRAM = Path(__file__).with_name("petsc_process.py")
_OPEN_MPI = {  # more processes than cores, in containers, and no busy waiting
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_INSTALL = "on Debian: apt-get install python3-petsc4py openmpi-bin"


@cache
def python() -> str | None:
    """A Python that has PETSc; None if there is none."""
    return python_for(PROGRAM, environment())


def why_unavailable() -> str | None:
    """Why PETSc is not available; None if it is."""
    if python() is None:
        return f"PETSc is not installed; {_INSTALL}"
    return None if _launcher() else f"mpiexec is not installed; {_INSTALL}"


def _launcher() -> str | None:
    """The ``mpiexec`` of the Python with PETSc: another MPI starts unconnected processes."""
    found = python() or sys.executable
    return shutil.which("mpiexec", path=str(Path(found).parent)) or shutil.which("mpiexec")


def environment() -> dict[str, str]:
    """Variables of the processes: where Debian keeps PETSc, and one thread each."""
    installed = {}
    for home in sorted(Path("/usr/lib/petscdir").glob("petsc*/*-real")):
        installed = {"PETSC_DIR": str(home), "PYTHONPATH": str(home / "lib/python3/dist-packages")}
    return {**installed, **os.environ, **_OPEN_MPI, "OMP_NUM_THREADS": "1"}


class Ordering(NamedTuple):
    """Numbers in the truss of the dofs and contacts in its folder."""

    dof: IntArray
    contact: IntArray


def write(
    truss: NoTensionTruss | ContactProblem,
    folder: str | Path,
    accuracy: float = 1e-10,
    max_steps: int = 200,
) -> Ordering:
    """Write a truss for ``petsc_process.py``, in units that make its numbers of order one.

    Bodies are sorted so that neighbours are close (reverse Cuthill–McKee), contacts by their first
    body: each process gets a range of both.

    Parameters
    ----------
    truss : its ``dof_body`` defines the blocks if all bodies have equally many consecutive dofs.
    folder : an existing one. accuracy : of the scaled equilibrium. max_steps : of Newton's method.

    Raises
    ------
    InvalidInput : a number out of range, or no such folder.
    SaveFailed : the folder cannot be written.
    """
    checks.instance("truss", truss, NoTensionTruss, ContactProblem)
    accuracy = checks.tolerance("accuracy", accuracy)
    max_steps, place = checks.count("max_steps", max_steps), checks.path("folder", folder)
    data = truss if isinstance(truss, ContactProblem) else truss.data
    return _write(network_problem(data), place, accuracy, max_steps)


def _write(problem: NetworkProblem, place: Path, accuracy: float, max_steps: int) -> Ordering:
    """The answer to the scaled problem."""
    law, nc, block = problem.elastic_law, problem.nc, block_size(problem.body)
    entries = sp.coo_array(problem.G)
    of_body = sp.csr_array(
        (np.ones(entries.nnz), (entries.row, entries.col // block)),
        shape=(nc, entries.shape[1] // block),
    )
    bodies = reverse_cuthill_mckee(sp.csr_matrix(of_body.T @ of_body), symmetric_mode=True)
    dof = (bodies[:, None] * block + np.arange(block)).ravel()
    rank = np.argsort(bodies)
    first = np.full(nc, bodies.size)
    np.minimum.at(first, entries.row, rank[entries.col // block])
    contact = np.argsort(first, kind="stable")
    B = sp.csr_array(problem.G[contact][:, dof])
    B.sort_indices()
    load = np.zeros(dof.size) if problem.F is None else problem.F[dof]
    arrays = {"indptr": B.indptr, "indices": B.indices, "data": B.data, "load": load}
    arrays |= {"opening": problem.p[contact], "stiffness": law.stiffness[contact]}
    stated = {"contacts": nc, "dofs": dof.size, "block": block, "power": law.power}
    stated |= {"accuracy": accuracy, "max_steps": max_steps}
    with files.named(place, "folder"):
        for name, values in arrays.items():
            np.save(place / f"{name}.npy", values)
        (place / "truss.json").write_text(json.dumps(stated))
    return Ordering(dof, contact)


def block_size(body: IntArray | None) -> int:
    """Dofs of a body if all have equally many consecutive ones; else one."""
    label = np.array([]) if body is None else checks.integers("body", body, (None,))
    if label.size == 0:
        return 1
    size = int(np.count_nonzero(label == label[0]))
    rows = label.size % size == 0 and not np.ptp(label.reshape(-1, size), axis=1).any()
    return size if rows and np.unique(label[::size]).size * size == label.size else 1


@dataclass(frozen=True)
class PETSc(NativeBackend):
    """Settings of the truss solver on PETSc.

    ``StepSolution.provenance["how"]`` has PETSc's version, steps and iterations, and the largest
    residual of the certificate that the processes have computed in parallel.

    Parameters
    ----------
    processes : that share the bodies.
    accuracy : of the scaled equilibrium.
    max_steps : of Newton's method.

    Raises
    ------
    InvalidInput : a number out of range.
    BackendUnavailable : PETSc or ``mpiexec`` is not installed.
    """

    name: ClassVar[str] = "petsc"
    kinds: ClassVar[frozenset[str]] = frozenset({"truss"})
    limit: ClassVar[str] = "max_steps"
    warm_starts: ClassVar[bool] = False

    processes: int = 2
    accuracy: float = 1e-10
    max_steps: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(processes=checks.count("processes", self.processes))
        missing = why_unavailable()
        if missing is not None:
            raise BackendUnavailable("petsc", missing)

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        with tempfile.TemporaryDirectory(prefix="cdopt-petsc-") as name:
            folder = Path(name)
            order = _write(problem, folder, self.accuracy, self.max_steps)
            with run.iterating(0):
                status = solve_folder(folder, self.processes, run.deadline.left)
            if status is not None:
                nothing = problem.iterate_of(np.zeros(order.dof.size), np.zeros(problem.nc))
                return run.ended(nothing, False, 0, status=status, claim="failed")
            answer = json.loads((folder / "answer.json").read_text())
            f, u = np.zeros(problem.nc), np.zeros(order.dof.size)
            f[order.contact] = np.load(folder / "f.npy")
            u[order.dof] = np.load(folder / "u.npy")
        how = (
            f"PETSc {answer['version']} on {answer['processes']} processes, {answer['steps']} "
            f"steps, {answer['iterations']:,} iterations, residuals computed there "
            f"{max(answer['residuals'].values()):.1e}"
        )
        run.report(how)
        met, steps = bool(answer["met"]), int(answer["steps"])
        return run.ended(problem.iterate_of(u, f), met, steps, how=how)


def solve_folder(folder: str | Path, processes: int, time_limit: float = np.inf) -> str | None:
    """Solve a truss that ``write`` has written, within ``time_limit`` s; returns an error text."""
    missing = why_unavailable()
    if missing is not None:
        raise BackendUnavailable("petsc", missing)
    command: list[Any] = [_launcher(), "-n", str(processes), python(), str(PROGRAM), str(folder)]
    run = partial(subprocess.run, env=environment(), capture_output=True, text=True, check=False)
    try:
        done = run(command, timeout=None if np.isinf(time_limit) else time_limit)
    except subprocess.TimeoutExpired:
        return TIME_LIMIT
    if done.returncode or not (Path(folder) / "answer.json").is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "Error" in line]
        return ([*errors, *lines[-1:], f"code {done.returncode}"])[0].strip()[:200]
    shared = json.loads((Path(folder) / "answer.json").read_text())["processes"]
    if shared != processes:
        return f"mpiexec is of another MPI than PETSc: {processes} processes of {shared} each"
    return None
