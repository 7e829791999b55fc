"""The records of a study as a pandas table, and which of them can be compared."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.errors import InvalidInput
from cdopt.problem.certificate import TOLERANCE
from cdopt.study.plan import StudyRun
from cdopt.study.record import Forces, Record, Stability, outcomes, read

DEFAULTS = "defaults"
_MEMBER = re.compile(r"^(?P<family>.+)-\d+\.npz$")
_TEXTS = (
    "question", "family", "formulation", "backend", "solver", "tolerance", "mode", "call", "seed",
    "outcome", "message", "status", "claimed", "ok", "near", "honest", "positions", "identical",
)  # fmt: skip
_NUMBERS = (
    "seconds", "solver_seconds", "time_limit", "worst", "iterations", "contacts", "largest",
    "distance", "distance_max", "ratio", "undetermined", "outside", "repeats", "order", "start",
    "cold_total", "cold_iterations",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """``records`` of runs; of equal runs, and of versions of a plugin, the last one is used."""

    records: tuple[Record, ...]

    def __repr__(self) -> str:
        return f"Results({outcomes(self.records)})"

    @classmethod
    def of(cls, records: Iterable[Record]) -> Results:
        """The results of these records, in the order of first appearance."""
        known = {record.run.cell: record for record in checks.instances("records", records, Record)}
        return cls(tuple(known.values()))

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """The results in a study's file or folder.

        Raises
        ------
        InvalidInput : the file is missing, empty, or not of a study.
        """
        records = read(path)
        if not records:
            raise InvalidInput("path", f"{path}: no record", "a study with runs")
        return cls.of(records)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each record.

        Columns are the fields of its run, answer, forces and stability that tables need.
        ``question`` is the problem and its formulation, ``solver`` the backend and its call,
        ``tolerance`` a text. Unknown numbers are NaN.
        """
        rows = [_row(record) for record in self.records]
        frame = pd.DataFrame(rows, columns=[*_TEXTS, *_NUMBERS], dtype=object)
        return frame.astype(dict.fromkeys(_NUMBERS, float) | {"claimed": bool, "near": bool})

    def to_frame(self) -> pd.DataFrame:
        """A copy of ``frame``: one row for each record, to change at will."""
        return self.frame.copy()

    @cached_property
    def plain(self) -> pd.DataFrame:
        """Cold runs in the problem's order, by installed solvers, that were not interrupted."""
        left_out = self.frame["outcome"].isin(["missing", "interrupted"])
        plain = (self.frame["mode"] == "cold") & self.frame["seed"].isna() & ~left_out
        return self.frame[plain]

    @cached_property
    def tolerances(self) -> list[str]:
        """Requested tolerances, the solvers' defaults first, then in decreasing order."""
        tolerances = set(self.plain["tolerance"])
        numbers = sorted(tolerances - {DEFAULTS}, key=float, reverse=True)
        return [DEFAULTS, *numbers] if DEFAULTS in tolerances else numbers

    def at(self, tolerance: str, form: str | None = None) -> pd.DataFrame:
        """The plain feasible runs at one ``tolerance``, in formulation ``form`` or all."""
        checks.text("tolerance", tolerance)
        checks.optional(checks.text, "form", form)
        runs = self.plain
        infeasible = runs.loc[runs["outcome"] == "infeasible", "question"]
        chosen = (runs["tolerance"] == tolerance) & ~runs["question"].isin(infeasible)
        return runs[chosen if form is None else chosen & (runs["formulation"] == form)]

    @cached_property
    def comparisons(self) -> list[tuple[str, str]]:
        """Tolerances and formulations within which solvers are compared."""
        forms = self.plain["formulation"].unique()
        pairs = [(tolerance, form) for tolerance in self.tolerances for form in forms]
        return [pair for pair in pairs if self.times(*pair).size]

    def limit(self, tolerance: str, form: str) -> float:
        """The time limit of one comparison in s, the same for all: the smallest of its runs."""
        return float(self.at(tolerance, form)["time_limit"].min())

    def times(self, tolerance: str, form: str) -> pd.DataFrame:
        """Seconds by question and solver at one ``tolerance`` and in one formulation, ``form``.

        Infinite if unsolved within ``limit``, or refused. Solvers are left out that refuse all
        questions, or have fewer than half as many as another. Then questions are left out that not
        all remaining solvers have.
        """
        runs = self.at(tolerance, form)
        runs = runs[runs["solver"].isin(_able(runs))]
        runs = runs.drop_duplicates(["question", "solver"], keep="last")
        within = runs["seconds"] <= self.limit(tolerance, form)
        return _table_of_times(runs, (runs["outcome"] == "solved") & within)

    def certified(self, form: str) -> pd.DataFrame:
        """The plain runs in one formulation that took the least time to a certificate at 1e-6.

        One for each question and solver, its ``seconds`` infinite if there is none.
        """
        checks.text("form", form)
        none = self.plain.iloc[:0]
        runs = pd.concat([none, *(self.at(tolerance, form) for tolerance in self.tolerances)])
        runs = runs[runs["solver"].isin(_able(runs))]
        sharp = (runs["outcome"] == "solved") & (runs["worst"] <= TOLERANCE)
        sharp &= runs["seconds"] <= runs["time_limit"].min()
        runs = runs.assign(seconds=runs["seconds"].where(sharp, np.inf))
        quickest = runs.sort_values("seconds", kind="stable")
        return quickest.drop_duplicates(["question", "solver"]).sort_index(kind="stable")

    def times_to_certificate(self, form: str) -> pd.DataFrame:
        """Seconds of ``certified`` by question and solver, for questions that all solvers have."""
        runs = self.certified(form)
        return _table_of_times(runs, np.isfinite(runs["seconds"]))


def _able(runs: pd.DataFrame) -> Any:
    return runs.loc[runs["outcome"] != "refused", "solver"].unique()


def _table_of_times(runs: pd.DataFrame, solved: pd.Series) -> pd.DataFrame:
    """Seconds by question and solver, infinite if not ``solved``, without gaps."""
    seconds = runs.assign(seconds=runs["seconds"].where(solved, np.inf))
    table = seconds.pivot(index="question", columns="solver", values="seconds")
    table = table.loc[runs["question"].unique(), runs["solver"].unique()]
    asked = table.notna().sum()
    return table.loc[:, 2 * asked >= asked.max()].dropna()


def solver_of(run: StudyRun) -> str:
    """The solver's name, with its call unless it is through CVXPY."""
    checks.instance("run", run, StudyRun)
    return run.backend if run.call == "cvxpy" else f"{run.backend} ({run.call})"


def family_of(run: StudyRun) -> str:
    """The common name of problems of different size, in the bank or of files."""
    checks.instance("run", run, StudyRun)
    label = run.problem.label
    member = _MEMBER.match(label)
    return member["family"] if member else re.split(r"[:#]", label.removeprefix("family:"))[0]


def tolerance_of(run: StudyRun) -> str:
    """The tolerance asked, as text."""
    checks.instance("run", run, StudyRun)
    return DEFAULTS if run.tolerance is None else f"{run.tolerance:g}"


def _row(record: Record) -> dict[str, Any]:
    run, answer = record.run, record.answer
    solves = [times.solve for times in record.times]
    answered: dict[str, Any] = {"claimed": False, "ok": False, "near": False}
    if answer is not None:
        answered = {**vars(answer), "near": answer.near, "honest": answer.honest}
    return {
        "question": f"{run.problem.label} {run.formulation}",
        "family": family_of(run),
        "formulation": run.formulation,
        "backend": run.backend,
        "solver": solver_of(run),
        "tolerance": tolerance_of(run),
        "mode": run.mode,
        "call": run.call,
        "seed": run.seed,
        "outcome": record.outcome,
        "message": record.message,
        "seconds": record.seconds,
        "solver_seconds": statistics.median(solves) if solves else None,
        "time_limit": record.time_limit,
        **answered,
        **vars(record.forces or Forces()),
        **vars(record.stability or Stability()),
    }
