"""``python -m benchmarks.everyday``: work that people wait for, medians of five with certificates.

    python -m benchmarks.everyday                    all rows, about a quarter of an hour
    python -m benchmarks.everyday --only beam        rows whose names begin so
    python -m benchmarks.everyday --record new.jsonl a line for each row, to compare versions

A run is one call as a user makes it: a new problem, its solution and its certificate. To compare
two versions, run this file with each of them first on ``PYTHONPATH``; a row that needs what a
version does not have says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cdopt
from benchmarks import tasks

REPEATS, LONG = 5, 120.0  # runs, and s after which no other one begins
QUICK, MANY = 0.1, 200  # s of a call, and runs of one as quick
STEP = 1e-3  # s
FALLS = {10: 1_620, 20: 14_440, 28: 40_824, 40: 121_680}  # contacts by layers
STOOLS, FRAMES = 300, 2_000


class Work(NamedTuple):
    """A piece of work: ``call`` is timed and returns its largest residual, or ``Seconds``."""

    name: str
    call: Callable[[], float]


def fall(layers: int) -> float:
    """Twenty steps of a pyramid that falls, by compatible contact dynamics."""
    scene = cdopt.scene.pyramid(layers)
    run = cdopt.simulate(scene, STEP, 20 * STEP, on_failure="continue")
    table = run.diagnostics
    stages = ("residual_classic", "residual_forces")
    return max(float(np.nanmax(np.asarray(table[name], dtype=float))) for name in stages)


def worst(answer: Any) -> float:
    """The largest residual of an answer."""
    return float(answer.certificate.worst)


def loosest(report: Any) -> float:
    """The largest residual of bounds."""
    return float(np.nanmax(report.residual))


def stools() -> list[Any]:
    """Tripods with loads and stiffnesses drawn at random."""
    rng, stool = np.random.default_rng(0), cdopt.bank.load("tripod").step
    return [
        stool.replace(
            F_ext=stool.F_ext * rng.uniform(0.5, 2.0, stool.nv),
            stiffness=rng.uniform(0.5, 2.0, stool.nc),
        )
        for _ in range(STOOLS)
    ]


def works() -> Iterator[Work]:
    """All rows."""
    beam, incline = cdopt.bank.load("beam-uniform").step, cdopt.bank.load("incline").step
    new = {"beam": lambda: beam.replace(dt=beam.dt), "incline": lambda: incline.replace(dt=STEP)}
    yield Work(
        "beam, motion, `ClassicCD` by `newton`",
        lambda: worst(cdopt.ClassicCD(new["beam"]()).solve("newton")),
    )
    yield Work(
        "beam, forces, `CompatibleCD` by `newton`",
        lambda: worst(cdopt.CompatibleCD(new["beam"]()).solve("newton")),
    )
    yield Work("beam, bounds, `indeterminacy`", lambda: loosest(cdopt.indeterminacy(new["beam"]())))
    yield Work(
        "beam through CVXPY and Clarabel",
        lambda: worst(cdopt.ClassicCD(new["beam"]()).solve("clarabel")),
    )
    yield Work(
        "one contact with friction, the default",
        lambda: worst(cdopt.FrictionalCD(new["incline"]()).solve()),
    )
    kept = cdopt.FrictionalCD(incline)
    if hasattr(kept, "prepare"):
        prepared = kept.prepare()
        yield Work("the same, prepared", lambda: worst(prepared.solve(v=incline.v)))
    legs = stools()
    yield Work(
        f"{STOOLS} stools one by one",
        lambda: max(worst(cdopt.CompatibleCD(stool).solve("newton")) for stool in legs),
    )
    if hasattr(cdopt, "solve_batch"):
        yield Work(
            f"{STOOLS} stools, `solve_batch`",
            lambda: max(map(worst, cdopt.solve_batch(legs, cdopt.CompatibleCD))),
        )
    crystal = cdopt.open_problem("pyramid-hooke:n=15").step
    some = np.linspace(0, crystal.nc - 1, 50).astype(int)
    yield Work(
        f"50 exact bounds among {crystal.nc:,} contacts",
        lambda: loosest(cdopt.indeterminacy(crystal, contacts=some)),
    )
    with tempfile.TemporaryDirectory() as folder:
        yield Work(f"a stored frame, of {FRAMES:,}", lambda: stored(Path(folder) / "run.vtkhdf"))
    yield Work("compiling in README's first command", compiling)
    for layers, contacts in FALLS.items():
        name = f"20 steps of a fall, {contacts:,} contacts"
        yield Work(name, lambda layers=layers: fall(layers))  # type: ignore[misc]
    pile = cdopt.open_problem("rough-pile:n=7").step
    yield Work(
        f"bounds with friction, {pile.nc:,} contacts",
        lambda: loosest(cdopt.indeterminacy(pile, "coulomb")),
    )


class Seconds(float):
    """A time that the call measured itself."""


def stored(path: Path) -> float:
    """What a frame in a file adds to a step of a sphere that bounces on springs."""
    scene, taken = cdopt.scene.load("elastic-impact"), list[float]()
    for settings in ({"every": FRAMES}, {"out": path}):
        path.unlink(missing_ok=True)
        start = time.perf_counter()
        cdopt.simulate(scene, 1e-6, FRAMES * 1e-6, "velocity-verlet", **settings)
        taken.append(time.perf_counter() - start)
    return Seconds((taken[1] - taken[0]) / FRAMES)


def compiling() -> float:
    """What compiling takes where no loop is kept."""
    return Seconds(tasks.first_command(1)[0]["seconds"])


def measured(work: Work) -> dict[str, Any]:
    """Median, least and greatest seconds of its runs, and the largest residual."""
    timed(work)  # loads compiled loops
    began = time.perf_counter()
    runs = [timed(work)]
    most = MANY if time.perf_counter() - began < QUICK else REPEATS
    while len(runs) < most and time.perf_counter() - began < LONG:
        runs.append(timed(work))
    seconds, residuals = zip(*runs, strict=True)
    return {
        "name": work.name, "seconds": statistics.median(seconds), "least": min(seconds),
        "greatest": max(seconds), "repeats": len(runs), "residual": max(residuals),
    }  # fmt: skip


def timed(work: Work) -> tuple[float, float]:
    """Seconds and residual of one run."""
    start = time.perf_counter()
    told = work.call()
    taken = time.perf_counter() - start
    return (float(told), 0.0) if isinstance(told, Seconds) else (taken, told)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser("python -m benchmarks.everyday")
    parser.add_argument("--only", default="")
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args(arguments)
    print("| work | median | least | greatest | runs | residual |\n|---|---|---|---|---|---|")
    for work in works():
        if not work.name.startswith(asked.only):
            continue
        row = measured(work)
        times = " | ".join(f"{1e3 * row[key]:.3g} ms" for key in ("seconds", "least", "greatest"))
        print(f"| {row['name']} | {times} | {row['repeats']} | {row['residual']:.1e} |", flush=True)
        if asked.record is not None:
            with asked.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
