"""What runs in a Python of its own, one that has Siconos: a linear complementarity problem.

``python siconos_process.py IN.npz OUT.npz``; nothing of cdopt is imported. IN holds ``M`` (n, n),
``q`` (n,), ``solver``, the name of one, and ``tolerance``, not a number for the solver's own. OUT
holds ``z`` and ``w`` (n,), ``info``, ``iterations``, ``error`` as the solver counts them, ``tol``
it had, and ``seconds``. Without paths it prints the names of the solvers that work in this build,
one a line; the exit code says whether it is installed: 0 if so, 1 if not.
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

PREFIX = "SICONOS_LCP_"
_PATIENCE = 5  # s for one solver to solve a problem of two contacts; one contact needs no solver
_TOLERANCE, _ERROR, _ITERATIONS = 0, 1, 1  # places in dparam, dparam and iparam


def solve(given: Any) -> dict[str, Any]:
    """0 ≤ z ⟂ w = M z + q ≥ 0 by one solver, from zero."""
    numerics = importlib.import_module("siconos.numerics")
    M, q = np.asarray(given["M"], dtype=np.float64), np.asarray(given["q"], dtype=np.float64)
    problem = numerics.LCP(M, q)
    options = numerics.SolverOptions(getattr(numerics, PREFIX + str(given["solver"])))
    if np.isfinite(given["tolerance"]):
        options.dparam[_TOLERANCE] = float(given["tolerance"])
    z, w = np.zeros(q.size), np.zeros(q.size)
    started = time.perf_counter()
    info = numerics.linearComplementarity_driver(problem, z, w, options)
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
    """Whether a solver is in this build: a forked process solves a problem, and may end."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(_PATIENCE)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        code = 1
        try:
            M = np.eye(2) + 1.0
            solve({"M": M, "q": -np.ones(2), "solver": solver, "tolerance": np.nan})
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    if len(sys.argv) == 1:
        if importlib.util.find_spec("siconos") is None:
            sys.exit(1)
        constants = vars(importlib.import_module("siconos.numerics"))
        names = [name.removeprefix(PREFIX) for name in constants if name.startswith(PREFIX)]
        sys.stdout.write("\n".join(filter(works, names)))
        sys.exit(0)
    with np.load(sys.argv[1], allow_pickle=False) as stored:
        problem = {name: stored[name] for name in stored.files}
    np.savez(sys.argv[2], **solve(problem))
