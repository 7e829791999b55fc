"""Force bounds of a problem and the forces of several solvers, as a table and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import documents
from cdopt._util.checks import FloatArray, IntArray
from cdopt.hyperstatic import Indeterminacy
from cdopt.problem.solution import StepSolution
from cdopt.study.comparison import REFERENCE_BACKEND, solve_named
from cdopt.study.named_problem import NamedProblem
from cdopt.study.solution_set import SolutionSet
from cdopt.study.table import Table

if TYPE_CHECKING:
    import pandas as pd

CLASSES = 6  # of finite widths
HEADER = ("contact", "name", "verdict")  # first columns of the table


@dataclass(frozen=True, eq=False)
class BoundedProblem:
    """A problem, its bounds, its compatible solution (or None), and the solutions of solvers."""

    named: NamedProblem
    report: Indeterminacy
    solution: StepSolution | None
    solutions: SolutionSet

    @staticmethod
    def of(
        named: NamedProblem, report: Indeterminacy, backends: Sequence[str] = ()
    ) -> BoundedProblem:
        """The bounds with the compatible forces and the classic forces of some backends."""
        compatible = solve_named(named, "compatible", [REFERENCE_BACKEND])
        solutions = solve_named(named, "classic", backends) if backends else SolutionSet()
        for error in compatible.failures.values():
            failures = {"compatible forces": error, **solutions.failures}
            solutions.failures = MappingProxyType(failures)
        solution = compatible.certified[0] if compatible.certified else None
        return BoundedProblem(named, report, solution, solutions)

    @property
    def compatible(self) -> FloatArray:
        """(nc,) N, the compatible forces; NaN if they failed."""
        f = None if self.solution is None else self.solution.f
        return np.full(self.report.nc, math.nan) if f is None else f

    @property
    def forces(self) -> dict[str, FloatArray]:
        """Forces (nc,), N, of each solver with an answer, by label."""
        pairs = zip(self.solutions.labels, self.solutions, strict=True)
        return {label: s.f for label, s in pairs if s.f is not None}

    def table(self) -> Table:
        """A row for each requested contact; empty where unknown, inf without an upper bound."""
        report, names = self.report, self.named.contact_names
        columns = {
            "lower [N]": report.lower,
            "upper [N]": report.upper,
            "compatible force [N]": self.compatible,
            "looseness [-]": report.looseness,
            "residual [-]": report.residual,
        }
        for label, f in self.forces.items():
            columns |= {f"{label} force [N]": f, f"{label} position [-]": report.position(f)}
        rows = [
            (i, names[i], report.verdict_of(i), *(float(x[i]) for x in columns.values()))
            for i in report.contacts.tolist()
        ]
        return Table("bounds", "Bounds", "", (*HEADER, *columns), rows)

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas.DataFrame."""
        return self.table().to_frame()

    def as_dict(self) -> dict[str, Any]:
        """Power, requested contacts, bounds, compatible forces and those of solvers, by name."""
        report, solutions = self.report, self.solutions
        solvers = []
        for label, solution in zip(solutions.labels, solutions, strict=True):
            f = solution.f
            position, outside = (
                (None, None) if f is None else (report.position(f), report.outside(f))
            )
            content = {**solution.as_dict(), "position": position, "outside": outside}
            solvers.append({"label": label, **content})
        return {
            "power": self.named.power,
            "asked": report.contacts,
            **report.as_dict(),
            "compatible": self.compatible,
            "solvers": solvers,
            "solver_failures": {label: str(error) for label, error in solutions.failures.items()},
        }


def check_csv(path: str | Path) -> None:
    """Check that a table of bounds can be written to a file."""
    documents.check_target(path, ",".join(HEADER), "table of bounds")


def widest(report: Indeterminacy) -> IntArray:
    """The requested contacts that are not determined, widest first."""
    asked = report.contacts
    rows = asked[report.bounded[asked] & ~report.unique[asked]]
    width = report.width[rows]
    unit = 1e-9 * float(width[np.isfinite(width)].max(initial=0.0)) or 1.0
    rank = np.where(np.isnan(width), math.inf, -np.round(width / unit))
    return rows[np.argsort(rank, kind="stable")]


def width_classes(report: Indeterminacy) -> list[tuple[str, int]]:
    """Counts of requested intervals by width, and of open, determined and unbounded ones."""
    verdict = np.array([report.verdict_of(i) for i in report.contacts.tolist()], dtype=str)
    width = report.width[report.contacts]
    width = width[(verdict == "undetermined") & ~np.isnan(width)]
    counts = {"open, no force": np.count_nonzero(verdict == "open")}
    counts["determined"] = np.count_nonzero(verdict == "unique")
    if width.max(initial=0.0) > 0.0:
        decades = 10.0 ** (math.floor(math.log10(width.max())) + np.arange(-3, 2))
        round_numbers = np.outer(decades, [1.0, 2.0, 5.0]).ravel()
        last = int(np.searchsorted(round_numbers, width.max() * (1.0 - 1e-9)))
        ends = round_numbers[last - CLASSES + 1 : last + 1]
        number = np.bincount(np.searchsorted(ends * (1.0 + 1e-9), width), minlength=CLASSES)
        labels = [f"{low:,g} to {high:,g} N" for low, high in pairwise(ends)]
        counts |= zip([f"up to {ends[0]:,g} N", *labels], number.tolist(), strict=True)
    counts["without an upper bound"] = np.count_nonzero(verdict == "unbounded")
    counts["not certified"] = np.count_nonzero(verdict == "failed")
    return [(label, int(count)) for label, count in counts.items() if count]
