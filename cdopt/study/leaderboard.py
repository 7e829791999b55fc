"""A new solver compared with the stored results of the standard study.

``cdopt compare --mine my_solver.py`` solves the problems of the stored study with a new solver, and
makes a page from both. The stored results are records of ``cdopt compare`` with an accuracy of
1e-6. Their times were measured on another machine. Therefore ``REFERENCES`` are measured again with
the new solver; the times and time limits of the others are scaled by the median ratio of their
times. New runs have the stored limit.
"""

from __future__ import annotations

import lzma
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from cdopt._util import files
from cdopt._util.formatting import count
from cdopt.study.plan import Plan
from cdopt.study.record import Record, records_in
from cdopt.study.results import Results
from cdopt.study.table import Table

STORED = "standard-study.jsonl.xz"  # next to the problems
_BESIDE = ("fastest other", "its time [s]")
REFERENCES = ("newton", "pgs", "lcp")  # quick, and part of every installation


def stored() -> Results:
    """The stored results of the standard study."""
    content = files.read_bytes(files.problems_folder() / STORED, "the stored study")
    return Results.of(records_in(lzma.decompress(content), STORED))


def plan_of(solvers: Sequence[str], plugins: Sequence[str], **limits: Any) -> Plan:
    """The runs of new ``solvers`` of ``plugins`` and of ``REFERENCES``; ``limits`` of the plan."""
    records = stored().records
    if limits.get("time_limit") is None:
        limits["time_limit"] = min(record.time_limit for record in records)
    runs = [record.run for record in records]
    problems = dict.fromkeys(run.problem for run in runs)
    tolerances = dict.fromkeys(run.tolerance for run in runs)
    names = list(dict.fromkeys([*solvers, *REFERENCES]))
    return Plan(list(problems), names, tolerances=list(tolerances), plugins=plugins, **limits)


def compared(made: Sequence[Record]) -> Results:
    """The records ``made`` here, and the other stored ones with scaled times."""
    here = {_question(record): record for record in made}
    everything = stored().records
    pairs = [(here[_question(old)].seconds, old.seconds) for old in everything
             if _question(old) in here]  # fmt: skip
    pace = statistics.median([now / then for now, then in pairs if now and then] or [1.0])
    others = [
        replace(
            old,
            times=tuple(replace(time, total=pace * time.total) for time in old.times),
            time_limit=pace * old.time_limit,
        )
        for old in everything
        if _question(old) not in here
    ]
    return Results.of([*others, *made])


def _question(record: Record) -> tuple[Any, ...]:
    run = record.run
    return run.problem, run.formulation, run.backend, run.tolerance


def tables(results: Results, solvers: Sequence[str]) -> tuple[Table, Table]:
    """The ranks of new ``solvers``, and the result of each for each problem."""
    runs = results.plain.set_index(["question", "tolerance"])
    runs["best"] = runs.loc[runs["outcome"] == "solved", "seconds"].groupby(level=[0, 1]).min()
    standing, wins = [], []
    for name, asked in runs.groupby("solver", sort=False):
        solved = asked[asked["outcome"] == "solved"]
        ratio = solved["seconds"] / solved["best"]
        false = ((asked["outcome"] == "wrong") & ~asked["near"]).sum()
        label = f"{name} (new)" if name in solvers else name
        numbers = len(asked), len(solved), false, (ratio <= 1.0).sum(), ratio.median()
        standing.append((label, *numbers))
    for key, run in runs[runs["solver"].isin(solvers)].iterrows():
        same = runs.loc[[key]]
        others = same[(same["outcome"] == "solved") & (same["solver"] != run["solver"])]
        fastest = others.nsmallest(1, "seconds")[["solver", "seconds"]].to_numpy().ravel().tolist()
        cells = run["solver"], key[1], _verdict(run, others), run["worst"], run["seconds"]
        wins.append((key[0], *cells, *(fastest or (None, None))))
    return (
        Table(
            "standing",
            "The rank of the new solver",
            "Problems solved by certificate, claims of success that are false by more than ten "
            "times the accuracy, problems on which it is the fastest, and its time over that of "
            "the fastest, median of those that it solved. "
            f"{', '.join(REFERENCES)} were measured again here; the times of the others are "
            "stored ones, scaled by the ratio of the times of these.",
            ("solver", "problems", "solved", "false claims", "fastest", "time over the fastest"),
            sorted(standing, key=lambda row: (-row[2], row[3])),
        ),
        Table(
            "wins",
            "Where it wins, and where it claims falsely",
            "It wins where its answer is certified and no other solver is faster; it claims "
            "falsely where it reports success and a residual is above ten times the accuracy.",
            (*("problem", "solver", "accuracy", "verdict", "worst residual", "time [s]"), *_BESIDE),
            wins,
        ),
    )


def verdicts(wins: Table) -> list[tuple[str, str]]:
    """For each new solver its name, and a sentence with the number of wins."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for problem, name, _, verdict, *_ in wins.rows:
        rows.setdefault(name, []).append((problem, verdict))
    sentences = []
    for name, said in rows.items():
        number = sum(verdict == "wins" for _, verdict in said)
        false = [problem for problem, verdict in said if verdict == "claims falsely"]
        text = f"wins on {number} of {count(len(said), 'problem')}"
        if false:
            where = "all" if len(false) == len(said) else f"{len(false)}: {', '.join(false)}"
            text += f"; claims falsely (residual above ten times the accuracy) on {where}"
        sentences.append((name, text))
    return sentences


def _verdict(run: Any, others: pd.DataFrame) -> str:
    """The result of a run of a new solver; ``others`` are those that solved it."""
    if run.outcome == "solved":
        faster = int((others["seconds"] < run.seconds).sum())
        return "wins" if not faster else f"certified, {faster} of {len(others)} faster"
    if run.outcome == "wrong":
        return "nearly certified" if run.near else "claims falsely"
    return f"{run.outcome}: {run.message}" if run.message else str(run.outcome)
