"""Weak scaling of the truss on PETSc: ``python -m benchmarks.weak_scaling [CONTACTS]``.

Settled pyramids with about as many contacts for each process, on one process and on two. Prints
what each part costs, the bodies that processes exchange, and what these figures give for many
nodes under the stated bandwidth and latency of their network.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

import cdopt
from cdopt.interop import petsc

ACCURACY = 1e-9
BANDWIDTH, LATENCY = 12.5e9, 2e-6  # bytes/s and s of a 100 Gb/s network, stated and not measured
NODES = (10, 100, 1000)
REDUCTIONS = 2  # of one iteration of conjugate gradients


def pyramid(contacts: float) -> cdopt.NoTensionTruss:
    """A settled pyramid of about this many contacts."""
    layers = round((0.5 * contacts) ** (1.0 / 3.0))
    step = cdopt.bank.load(f"pyramid-hooke:n={layers}").step
    return cdopt.NoTensionTruss(step.B, -step.F_ext, step.stiffness, 2.0, dof_body=step.dof_body)


def exchanged(folder: Path, processes: int) -> int:
    """Bodies of others that the contacts of one process touch, at most."""
    stated = json.loads((folder / "truss.json").read_text())
    indptr, indices = (np.load(folder / f"{name}.npy") for name in ("indptr", "indices"))
    body, bodies = indices // stated["block"], stated["dofs"] // stated["block"]
    ends = [indptr[stated["contacts"] * k // processes] for k in range(processes + 1)]
    shares = [bodies * k // processes for k in range(processes + 1)]
    touched = [np.unique(body[ends[k] : ends[k + 1]]) for k in range(processes)]
    return max(
        int(np.count_nonzero((one < shares[k]) | (one >= shares[k + 1])))
        for k, one in enumerate(touched)
    )


def measure(contacts: float, processes: int) -> tuple[float, int, int]:
    """Print one line; seconds of an iteration, dofs of a body and bodies exchanged."""
    with tempfile.TemporaryDirectory(prefix="cdopt-petsc-") as name:
        folder = Path(name)
        truss = pyramid(contacts * processes)
        petsc.write(truss, folder, ACCURACY)
        failed = petsc.solve_folder(folder, processes)
        if failed is not None:
            sys.exit(failed)
        answer = json.loads((folder / "answer.json").read_text())
        halo = exchanged(folder, processes)
        block = json.loads((folder / "truss.json").read_text())["block"]
    seconds, steps = answer["seconds"], answer["iterations"]
    each = seconds["solve"] / steps
    print(
        f"{processes} | {truss.data.nc:,} | {answer['steps']} | {steps:,} | "
        f"{seconds['read']:.1f} | {seconds['solve']:.1f} | {1e3 * each:.1f} | "
        f"{seconds['certify']:.2f} | {max(answer['residuals'].values()):.0e} | {halo:,}"
    )
    return each, block, halo


def main() -> None:
    """Measure, and extrapolate."""
    missing = petsc.why_unavailable()
    if missing is not None:
        sys.exit(missing)
    contacts = float(sys.argv[1]) if len(sys.argv) > 1 else 1e6
    print(
        "processes | contacts | Newton steps | iterations | read s | solve s | ms an iteration | "
        "certify s | worst residual | bodies exchanged"
    )
    measure(contacts, 1)
    each, block, halo = measure(contacts, 2)
    traffic = 2 * 2 * 8 * block * halo  # two sides, there for B and back for Bᵀ
    for nodes in NODES:
        extra = traffic / BANDWIDTH + (4 + REDUCTIONS * math.log2(nodes)) * LATENCY
        print(
            f"{nodes} nodes with two processes each, {2 * nodes * contacts:.0e} contacts: "
            f"{1e3 * (each + extra):.1f} ms an iteration, {extra / (each + extra):.1%} of it "
            "network"
        )


if __name__ == "__main__":
    main()
