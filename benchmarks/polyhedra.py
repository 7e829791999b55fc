"""What a step with polyhedra costs: they fall, collide and settle between walls.

Random convex polyhedra of 12 corners, Δt = 1 ms, classic contact dynamics by newton. Each row is
the mean over a block of steps, after the loops are compiled.
"""

from __future__ import annotations

import time

import numpy as np

import cdopt
from benchmarks.record import Row

DT = 1e-3
PARTS = ("detect", "assemble", "classic")


def pile(count: int = 500, steps: int = 50, blocks: int = 8, backend: str = "newton") -> list[Row]:
    """Contacts, seconds of each part of a step, and the share of steps that are certified."""
    begun = time.perf_counter()
    scene = cdopt.scene.polyhedra_pile(count)
    made = time.perf_counter() - begun
    cdopt.simulate(scene, dt=DT, duration=3 * DT, method="classic-cd", backend=backend)
    run = cdopt.simulate(
        scene, dt=DT, duration=blocks * steps * DT, method="classic-cd", backend=backend,
        every=steps, on_failure="continue",
    )  # fmt: skip
    table = run.diagnostics
    spent = {p: np.asarray(table[f"seconds_{p}"], dtype=float)[1:] for p in PARTS}
    contacts, ok = np.asarray(table["contacts"])[1:], np.asarray(table["ok"])[1:]
    rows: list[Row] = []
    for first in range(0, blocks * steps, steps):
        own = slice(first, first + steps)
        row: Row = {f"seconds_{p}": float(spent[p][own].mean()) for p in PARTS}
        row["seconds"] = sum(row.values())
        row |= {"t": DT * (first + steps), "contacts": float(contacts[own].mean())}
        slowest = sum(spent[p][own] for p in PARTS).max()
        rows.append(row | {
            "certified": float(ok[own].mean()), "slowest": float(slowest), "made_seconds": made,
        })  # fmt: skip
    return rows
