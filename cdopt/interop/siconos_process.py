"""Solves a complementarity problem, or friction, in another Python that has Siconos.

``python siconos_process.py IN.npz OUT.npz``; nothing of cdopt is imported. IN has ``M`` (n, n),
``q`` (n,), ``solver``, a name such as "LCP_LEMKE" or "FRICTION_3D_NSGS", and ``tolerance``, NaN for
the solver's default; with friction also ``mu`` (contacts,), the rows of a contact together and the
normal one first. OUT has ``z`` and ``w`` (n,), ``info``, ``iterations`` and ``error`` as the solver
counts them, its ``tol``, and ``seconds``.

``python siconos_process.py works NAME ...`` prints the names of solvers that work in this build,
one per line. Without arguments the exit code is 0 if Siconos is installed, 1 if not.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import time
from typing import Any

import numpy as np

PREFIX = "SICONOS_"
_PATIENCE = 5  # s for one solver to solve a problem of two contacts; one contact needs no solver
_TOLERANCE, _ERROR, _ITERATIONS = 0, 1, 1  # places in dparam, dparam and iparam


def solve(given: Any) -> dict[str, Any]:
    """Solve 0 ≤ z ⟂ w = M z + q ≥ 0, or Coulomb's law with friction, by one solver from zero."""
    numerics = importlib.import_module("siconos.numerics")
    M, q = np.asarray(given["M"], dtype=np.float64), np.asarray(given["q"], dtype=np.float64)
    options = numerics.SolverOptions(getattr(numerics, PREFIX + str(given["solver"])))
    if np.isfinite(given["tolerance"]):
        options.dparam[_TOLERANCE] = float(given["tolerance"])
    z, w = np.zeros(q.size), np.zeros(q.size)
    if "mu" in given:
        mu = np.asarray(given["mu"], dtype=np.float64)
        d = q.size // mu.size
        problem = numerics.FrictionContactProblem(d, mu.size, M, q, mu)
        driver = numerics.fc2d_driver if d == 2 else numerics.fc3d_driver
    else:
        problem, driver = numerics.LCP(M, q), numerics.linearComplementarity_driver
    started = time.perf_counter()
    info = driver(problem, z, w, options)
    return {
        "z": z,
        "w": w,
        "info": int(info),
        "seconds": time.perf_counter() - started,
        "iterations": int(options.iparam[_ITERATIONS]),
        "error": float(options.dparam[_ERROR]),
        "tol": float(options.dparam[_TOLERANCE]),
    }


def works(solver: str) -> bool:
    """Whether a solver works in this build, tried in a forked process, which may crash."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(_PATIENCE)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        code = 1
        try:
            solve(_two_contacts(solver))
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _two_contacts(solver: str) -> dict[str, Any]:
    """A problem of two pressing contacts, which slide if they have friction."""
    rows = {"FRICTION_2D": 2, "FRICTION_3D": 3}.get(solver[:11], 1)
    M, q = np.eye(2 * rows) + 0.2, np.tile([-1.0, 0.3, 0.1][:rows], 2)
    given = {"M": M, "q": q, "solver": solver, "tolerance": np.nan}
    return given if rows == 1 else {**given, "mu": np.full(2, 0.5)}


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(importlib.util.find_spec("siconos") is None)
    if sys.argv[1] == "works":
        constants = vars(importlib.import_module("siconos.numerics"))
        names = [name for name in sys.argv[2:] if PREFIX + name in constants]
        sys.stdout.write("\n".join(filter(works, names)))
        sys.exit(0)
    with np.load(sys.argv[1], allow_pickle=False) as stored:
        content = {name: stored[name] for name in stored.files}
    np.savez(sys.argv[2], **solve(content))
