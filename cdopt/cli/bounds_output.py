"""What ``cdopt bounds`` prints and writes: tables, classes of width, JSON, CSV."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.documents import csv_text
from cdopt._util.errors import SolveFailed
from cdopt._util.files import write_text
from cdopt._util.formatting import count, one_line, short
from cdopt.cli import output as cli_output
from cdopt.formulations import ClassicCD
from cdopt.hyperstatic import Indeterminacy
from cdopt.problem.solution import StepSolution
from cdopt.study.formatting import verdict
from cdopt.study.named_problem import NamedProblem
from cdopt.study.solutions import SolutionSet

ROWS_UP_TO = 40  # contacts that are all listed; of more, only the widest intervals
WIDEST = 10  # of them
CSV_BEGINNING = "contact,name,verdict"  # of a table of bounds
CLASSES = 6  # of width, beside those of their own


@dataclass(frozen=True, eq=False)
class Findings:
    """What there is to say about one problem.

    Attributes
    ----------
    task : the problem. report : its bounds.
    resolved : the compatible solution of the problem's power, or None when it failed.
    solutions : of the solvers asked for, and the failures of the others.
    """

    task: NamedProblem
    report: Indeterminacy
    resolved: StepSolution | None
    solutions: SolutionSet

    @property
    def compatible(self) -> FloatArray:
        """(nc,) N, what elastic contacts carry; not-a-number when that failed."""
        force = None if self.resolved is None else self.resolved.f
        return np.full(self.report.nc, np.nan) if force is None else force

    def solver_forces(self) -> list[tuple[str, FloatArray]]:
        """Label and forces (nc,) N of each solver that has an answer."""
        pairs = zip(self.solutions.labels, self.solutions, strict=True)
        return [(label, s.f) for label, s in pairs if s.f is not None]


# --- words -----------------------------------------------------------------------------


def print_findings(found: Findings) -> None:
    """Summary, table or overview, solvers, failures."""
    out, report = cli_output.console(), found.report
    out.print(report.summary, markup=False)
    out.print()
    title = f"{found.task.name}: {found.task.title}"
    if "\n" not in title:
        out.print(Text(title, style="dim"))
    rows = report.contacts
    if rows.size > ROWS_UP_TO:
        _print_widths(out, report)
        widest = _by_width(report)[:WIDEST]
        out.print()
        out.print(f"The {widest.size} widest intervals, of {rows.size:,}:", highlight=False)
        rows = widest
    if rows.size:
        out.print(_table(found, rows))
        out.print(Text(_key(found), style="dim"))
    _print_solvers(out, found)
    for i, why in list(report.failures.items())[:WIDEST]:
        out.print(Text.assemble((f"contact {report.names[i]}: ", "bold"), (why, "red")))
    if len(report.failures) > WIDEST:
        out.print(f"and {len(report.failures) - WIDEST} more that failed")


def _key(found: Findings) -> str:
    power = found.task.power
    law = {2.0: "Hooke", 2.5: "Hertz"}.get(power, f"p = {power:g}")
    key = f"forces in N; compatible: what elastic contacts carry ({law})"
    if found.solver_forces():
        key += "; solvers: how far up the interval their force lies"
    return key


def _table(found: Findings, rows: IntArray) -> Table:
    """A line per contact."""
    report = found.report
    named = report.step.contact_ids is not None
    places = [(label, report.position(f)) for label, f in found.solver_forces()]
    columns = (report.lower, report.upper, found.compatible)
    shown = np.concatenate([x[rows] for x in columns])
    largest = float(shown[np.isfinite(shown)].max(initial=0.0))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("contact", justify="right", no_wrap=True)
    if named:
        table.add_column("name", no_wrap=True)
    for name in ("lower", "upper", "compatible"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for label, _ in places:
        table.add_column(one_line(label, 14), justify="right", no_wrap=True)
    for i in rows.tolist():
        cells = [str(i), *([one_line(report.names[i], 16)] if named else [])]
        cells += [_force(x[i], largest) for x in columns]
        word = report.verdict_of(i)
        style = {"unique": "green", "failed": "bold red", "unbounded": "bold"}.get(word, "")
        texts = [Text(cell) for cell in cells] + [Text(word, style=style)]
        table.add_row(*texts, *(Text(_share(place[i])) for _, place in places))
    return table


def _force(value: float, largest: float) -> str:
    """A force with five digits of the ``largest`` in its table; what rounds to nothing is 0."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if abs(value) <= 0.5e-4 * largest:
        return "0"
    digits = 4 - math.floor(math.log10(largest))
    return f"{value:.{max(digits, 0)}f}" if -3 <= digits <= 9 else f"{value:.4e}"


def _share(place: float) -> str:
    """A position in words: 0 % is the lower bound, 100 % the upper one."""
    return "–" if math.isnan(place) else f"{100.0 * place:.0f} %".replace("-0 %", "0 %")


def _by_width(report: Indeterminacy) -> IntArray:
    """The contacts asked for that are not determined, widest first."""
    rows = report.contacts[~report.unique[report.contacts] & report.bounded[report.contacts]]
    width = report.width[rows]
    finite = width[np.isfinite(width)]
    unit = 1e-9 * float(finite.max(initial=0.0)) or 1.0  # ties in the order of the contacts
    return rows[np.argsort(-np.round(width / unit), kind="stable")]


def width_classes(report: Indeterminacy) -> list[tuple[str, int]]:
    """How many of the intervals asked for are how wide, in words.

    Open contacts, determined forces and intervals without end are classes of their own; the
    others fall into six, whose ends are round numbers.
    """
    rows = report.contacts
    verdicts = np.array([report.verdict_of(i) for i in rows.tolist()])
    classes = [("open, no force", int(np.count_nonzero(verdicts == "open")))]
    classes.append(("determined", int(np.count_nonzero(verdicts == "unique"))))
    width = report.width[rows[verdicts == "undetermined"]]
    width = width[~np.isnan(width)]
    if width.size and width.max() > 0.0:
        ends = _round_ends(float(width.max()))
        inside = np.searchsorted(np.array(ends) * (1.0 + 1e-9), width)
        for k, (low, high) in enumerate(zip([0.0, *ends[:-1]], ends, strict=True)):
            words = f"up to {high:,g} N" if k == 0 else f"{low:,g} to {high:,g} N"
            classes.append((words, int(np.count_nonzero(inside == k))))
    for word in ("unbounded", "failed"):
        words = "without an upper bound" if word == "unbounded" else "not certified"
        classes.append((words, int(np.count_nonzero(verdicts == word))))
    return [(words, number) for words, number in classes if number]


def _round_ends(largest: float) -> list[float]:
    """Ends of the classes, ascending: 1, 2 and 5 times powers of ten, the last at ``largest``."""
    decade = math.floor(math.log10(largest))
    round_numbers = [m * 10.0**k for k in range(decade - 3, decade + 2) for m in (1.0, 2.0, 5.0)]
    last = next(i for i, x in enumerate(round_numbers) if x >= largest * (1.0 - 1e-9))
    return round_numbers[last - CLASSES + 1 : last + 1]


def _print_widths(out: Console, report: Indeterminacy) -> None:
    """Width of the intervals, class by class, with a bar."""
    classes = width_classes(report)
    most = max((number for _, number in classes), default=1)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("width of the interval", no_wrap=True)
    table.add_column("contacts", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for words, number in classes:
        table.add_row(words, f"{number:,}", "█" * max(round(30.0 * number / most), 1))
    out.print(table)


def _print_solvers(out: Console, found: Findings) -> None:
    """Where each solver's forces lie as a whole, and why the others have none."""
    labelled = dict(zip(found.solutions.labels, found.solutions, strict=True))
    if labelled or found.solutions.failures:
        out.print()
    for label, f in found.solver_forces():
        inside = found.report.position(f)[found.report.contacts]
        text = f" says “{one_line(labelled[label].status, 24)}”, {verdict(labelled[label])}"
        if np.any(np.isfinite(inside)):
            text += f"; on average {_share(float(np.nanmean(inside)))} up the interval"
        away = found.report.outside(f)
        if np.any(np.isfinite(away)):
            worst = float(np.nanmax(away))
            text += f"; {short(worst, 1)} N outside at most" if worst > 0.0 else "; none outside"
        out.print(Text.assemble((label, "bold"), text))
    cli_output.print_failures(out, found.solutions)


def print_infeasible(task: NamedProblem, error: SolveFailed, as_json: bool) -> None:
    """There are no forces to bound: the proof."""
    failed = SolutionSet(failures={error.backend: error}, title=ClassicCD.__name__)
    if as_json:
        what = {"problem": task.name, "problem_title": task.title}
        cli_output.print_json({**what, **failed.as_dict()})
    else:
        cli_output.console().print(failed.summary, markup=False)


# --- files -----------------------------------------------------------------------------


def record(found: Findings) -> dict[str, Any]:
    """Everything as plain values."""
    report = found.report
    content = {
        "problem": found.task.name,
        "problem_title": found.task.title,
        "power": found.task.power,
        "asked": report.contacts,
        **report.as_dict(),
        "compatible": found.compatible,
        "solvers": [
            {
                "label": label,
                **solution.as_dict(),
                "f": solution.f,
                "position": None if solution.f is None else report.position(solution.f),
                "outside": None if solution.f is None else report.outside(solution.f),
            }
            for label, solution in zip(found.solutions.labels, found.solutions, strict=True)
        ],
        "solver_failures": {label: str(e) for label, e in found.solutions.failures.items()},
    }
    if report.nc > ROWS_UP_TO:
        content["widths"] = dict(width_classes(report))
    return content


def write_csv(found: Findings, path: str) -> None:
    """A row per contact asked for; empty where unknown, inf where there is no upper bound.

    Raises
    ------
    InvalidInput : the file cannot be written.
    """
    report, solvers = found.report, found.solver_forces()
    head = [*CSV_BEGINNING.split(","), "lower [N]", "upper [N]", "compatible force [N]"]
    head += ["looseness [-]", "residual [-]"]
    for label, _ in solvers:
        head += [f"{label} force [N]", f"{label} position [-]"]
    columns = [report.lower, report.upper, found.compatible, report.looseness, report.residual]
    for _, f in solvers:
        columns += [f, report.position(f)]
    rows = []
    for i in report.contacts.tolist():
        numbers = [float(c[i]) for c in columns]
        cells = [None if math.isnan(x) else x for x in numbers]
        rows.append([i, report.names[i], report.verdict_of(i), *cells])
    write_text(Path(path), csv_text(head, rows))
    typer.echo(f"table: {path}, {count(report.contacts.size, 'contact')}", err=True)
