"""What a step with polyhedra costs: 500 of them fall, collide and settle between walls.

    python benchmarks/polyhedra.py [number] [backend]

Random convex polyhedra of 12 corners, Δt = 1 ms, classic contact dynamics. Each line is the
mean over fifty steps: contacts, then milliseconds a step in finding contacts, in making the step,
in the solver, and in all. After the loops are compiled; times of one machine, to compare with each
other only.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import cdopt

STEPS, BLOCKS, DT = 50, 8, 1e-3


def main(count: int, backend: str) -> None:
    begun = time.perf_counter()
    scene = cdopt.scene.polyhedra_pile(count)
    print(f"{scene}, made in {time.perf_counter() - begun:.2f} s; classic steps by {backend}")
    cdopt.simulate(scene, dt=DT, duration=3 * DT, method="classic-cd", backend=backend)
    run = cdopt.simulate(
        scene, dt=DT, duration=BLOCKS * STEPS * DT, method="classic-cd", backend=backend,
        every=STEPS, on_failure="continue",
    )  # fmt: skip
    table = run.diagnostics
    columns = ("seconds_detect", "seconds_assemble", "seconds_classic")
    spent = np.column_stack([np.asarray(table[name], dtype=float) for name in columns])[1:]
    contacts = np.asarray(table["contacts"])[1:]
    ok = np.asarray(table["ok"])[1:]
    print("   t [s]  contacts   detect  assemble    solve      all  [ms]   certified")
    for first in range(0, len(spent), STEPS):
        own = slice(first, first + STEPS)
        ms = 1e3 * spent[own].mean(axis=0)
        print(
            f"{DT * (first + STEPS):8.2f}  {contacts[own].mean():8.0f} {ms[0]:8.1f} {ms[1]:9.1f} "
            f"{ms[2]:8.1f} {ms.sum():8.1f}         {ok[own].mean():4.0%}"
        )
    print(f"slowest step {1e3 * spent.sum(axis=1).max():.0f} ms")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 500, given[1] if len(given) > 1 else "newton")
