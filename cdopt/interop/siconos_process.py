"""What runs in a Python of its own, one that has Siconos: a linear complementarity problem.

``python siconos_process.py IN.npz OUT.npz``; nothing of cdopt is imported. IN holds ``M`` (n, n),
``q`` (n,), ``solver``, the name of one, and ``tolerance``, not a number for the solver's own. OUT
holds ``z`` and ``w`` (n,), ``info``, ``iterations``, ``error`` as the solver counts them, ``tol``
it had, and ``seconds``. Siconos ends the process where it has no such solver. Without paths the
exit code says whether Siconos is installed: 0 if so, 1 if not.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from typing import Any

import numpy as np

PREFIX = "SICONOS_LCP_"
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


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(0 if importlib.util.find_spec("siconos") else 1)
    with np.load(sys.argv[1], allow_pickle=False) as stored:
        problem = {name: stored[name] for name in stored.files}
    np.savez(sys.argv[2], **solve(problem))
