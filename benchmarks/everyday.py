"""``python -m benchmarks.everyday``: times of work that people wait for, with certificates.

    python -m benchmarks.everyday                    all rows, about ten minutes
    python -m benchmarks.everyday --only beam        rows whose names begin so
    python -m benchmarks.everyday --record new.jsonl a line for each row, too

A run is a call as a user makes it: a new problem, its solution and its certificate. To compare
versions, run this file in a checkout of each; what a version does not have yet is left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import cdopt
from benchmarks import elastic, tasks
from benchmarks.record import REPEATS, Row, timed

LONG = 400.0  # s for all runs of a row
MANY = 200  # runs of a call of some milliseconds
LAYERS = (10, 20, 28, 40)
STOOLS = 300

Measured = Callable[[], Row]


def each(call: Callable[[], float], repeats: int = REPEATS) -> Row:
    """The times of a call that returns its largest residual."""
    run, residuals = timed(call, repeats, LONG)
    return run | {"worst": max(residuals)}


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


def small() -> Iterator[tuple[str, Callable[[], float]]]:
    """Calls of some milliseconds; ``replace`` makes a new step, which remembers no solution."""
    beam, incline = cdopt.bank.load("beam-uniform").step, cdopt.bank.load("incline").step
    kept = cache(lambda: cdopt.FrictionalCD(incline).prepare())
    yield (
        "beam, motion, `ClassicCD` by `newton`",
        lambda: worst(cdopt.ClassicCD(beam.replace()).solve("newton")),
    )
    yield (
        "beam, forces, `CompatibleCD` by `newton`",
        lambda: worst(cdopt.CompatibleCD(beam.replace()).solve("newton")),
    )
    yield (
        "beam, bounds, `indeterminacy`",
        lambda: loosest(cdopt.indeterminacy(beam.replace())),
    )
    yield (
        "beam through CVXPY and Clarabel",
        lambda: worst(cdopt.ClassicCD(beam.replace()).solve("clarabel")),
    )
    yield (
        "one contact with friction, the default",
        lambda: worst(cdopt.FrictionalCD(incline.replace()).solve()),
    )
    yield "the same, prepared", lambda: worst(kept().solve(v=incline.v))


def large() -> Iterator[tuple[str, Callable[[], float]]]:
    """Calls that take longer."""
    legs = stools()
    yield (
        f"{STOOLS} stools one by one",
        lambda: max(worst(cdopt.CompatibleCD(stool).solve("newton")) for stool in legs),
    )
    yield (
        f"{STOOLS} stools, `solve_batch`",
        lambda: max(map(worst, cdopt.solve_batch(legs, cdopt.CompatibleCD))),
    )
    pile = cdopt.open_problem("pyramid-hooke:n=15").step
    some = np.linspace(0, pile.nc - 1, 50).astype(int)
    yield (
        f"50 exact bounds among {pile.nc:,} contacts",
        lambda: loosest(cdopt.indeterminacy(pile, contacts=some)),
    )
    rough = cdopt.open_problem("rough-pile:n=7").step
    yield (
        f"bounds with friction, {rough.nc:,} contacts",
        lambda: loosest(cdopt.indeterminacy(rough, "coulomb")),
    )
    yield (
        "the same by two threads",
        lambda: loosest(cdopt.indeterminacy(rough, "coulomb", jobs=2)),
    )


def rows() -> Iterator[tuple[str, Measured]]:
    """The name of each row, and what measures it."""
    for name, call in small():
        yield name, partial(each, call, MANY)
    yield "a step of an impact and its stored frame", lambda: elastic.frames()[-1]
    yield "compiling in README's first command", lambda: tasks.first_command()[0]
    for layers in LAYERS:
        name = f"20 steps of a fall, {2 * layers * (layers - 1) ** 2:,} contacts"
        yield name, lambda layers=layers: tasks.drop(layers, 20, budget=LONG)[0]
    for name, call in large():
        yield name, partial(each, call)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser("python -m benchmarks.everyday")
    parser.add_argument("--only", default="")
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args(arguments)
    print("| work | median | runs | residual |\n|---|---|---|---|")
    for name, measure in rows():
        if not name.startswith(asked.only):
            continue
        try:
            row = {"name": name, **measure()}
        except AttributeError as error:
            print(f"| {name} | {error} | | |", flush=True)
            continue
        times = f"{1e3 * row['seconds']:.3g} ms | {row.get('repeats', REPEATS)}"
        residual = f"{row['worst']:.1e}" if "worst" in row else ""
        print(f"| {name} | {times} | {residual} |", flush=True)
        if asked.record is not None:
            with asked.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
