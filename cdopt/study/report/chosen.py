"""The records of a study, sorted into what may be compared with what."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cdopt._util.errors import InvalidInput
from cdopt.study.runs import store
from cdopt.study.runs.record import Record
from cdopt.study.runs.run import Run

DEFAULTS = "defaults"
_MEMBER = re.compile(r"^(?P<family>.+)-(?P<size>\d+)\.npz$")


@dataclass(frozen=True, eq=False)
class Results:
    """Records of runs; of equal runs the last one counts.

    Attributes
    ----------
    records : one for each run.
    """

    records: tuple[Record, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Results:
        """The results of these records, in the order of first appearance."""
        last: dict[str, Record] = {}
        for record in records:
            last[record.id] = record
        return cls(tuple(last.values()))

    @cached_property
    def plain(self) -> tuple[Record, ...]:
        """Cold runs in the problem's own order, by installed solvers, and not interrupted."""
        return tuple(
            r for r in self.records
            if r.run.mode == "cold" and r.run.seed is None
            and r.outcome not in ("missing", "interrupted")
        )  # fmt: skip

    @cached_property
    def tolerances(self) -> tuple[float | None, ...]:
        """Accuracies asked for, loose to tight, the solvers' defaults first."""
        asked = {r.run.tolerance for r in self.plain}
        numbers = sorted((t for t in asked if t is not None), reverse=True)
        return (*((None,) if None in asked else ()), *numbers)

    def at(self, tolerance: float | None, form: str | None = None) -> tuple[Record, ...]:
        """The plain runs at one ``tolerance``, in one formulation, ``form``, or in all.

        Problems proven infeasible are left out.
        """
        hopeless = {question(r.run) for r in self.plain if r.outcome == "infeasible"}
        return tuple(
            r
            for r in self.plain
            if r.run.tolerance == tolerance
            and form in (None, r.run.formulation)
            and question(r.run) not in hopeless
        )

    @cached_property
    def comparisons(self) -> tuple[tuple[float | None, str], ...]:
        """Accuracies and formulations within which solvers are compared."""
        forms = list(dict.fromkeys(r.run.formulation for r in self.plain))
        pairs = [(tolerance, form) for tolerance in self.tolerances for form in forms]
        return tuple(pair for pair in pairs if any(self.times(*pair).values()))

    def times(self, tolerance: float | None, form: str) -> dict[str, dict[str, float]]:
        """Seconds by solver and question, infinite where unsolved, of one comparison.

        Made at one ``tolerance`` and in one formulation, ``form``.

        A solver that refuses a question has not solved it. One that refuses all takes no part,
        nor one that was asked fewer than half as many as another. Questions that not every one of
        those that are left was asked are left out.
        """
        runs = self.at(tolerance, form)
        able = {solver(r.run) for r in runs if r.outcome != "refused"}
        found: dict[str, dict[str, float]] = {}
        for r in runs:
            if solver(r.run) in able:
                found.setdefault(solver(r.run), {})[question(r.run)] = solved_in(r)
        if not found:
            return {}
        most = max(map(len, found.values()))
        found = {name: row for name, row in found.items() if 2 * len(row) >= most}
        common = set.intersection(*(set(row) for row in found.values()))
        order = [q for q in next(iter(found.values())) if q in common]
        return {name: {q: row[q] for q in order} for name, row in found.items()}


def read(path: str | Path) -> Results:
    """The results in a study's file or folder; a last line half written is passed over.

    Raises
    ------
    InvalidInput : the file is missing, empty, or holds something else.
    """
    records = store.read(path)
    if not records:
        raise InvalidInput("path", f"{path}: no record", "a study with runs")
    return Results.of(records)


def solver(run: Run) -> str:
    """The solver's name, and how it was called unless through CVXPY."""
    return run.backend if run.call == "cvxpy" else f"{run.backend} ({run.call})"


def question(run: Run) -> str:
    """Problem and formulation: what was asked, whoever answered."""
    return f"{run.problem.label} {run.formulation}"


def family(run: Run) -> str:
    """What problems of different size have in common: the bank's name, or that of the files."""
    member = _MEMBER.match(run.problem.label)
    return (
        member["family"]
        if member
        else re.split(r"[:#]", run.problem.label.removeprefix("family:"))[0]
    )


def asked(tolerance: float | None) -> str:
    """An accuracy in words."""
    return DEFAULTS if tolerance is None else f"{tolerance:g}"


def solved_in(record: Record) -> float:
    """Seconds of the whole solve; infinite unless our certificate holds."""
    if record.outcome != "solved" or record.seconds is None:
        return math.inf
    return record.seconds
