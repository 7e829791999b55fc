"""``cdopt bounds``: which forces are determined, how far the others may range, who selects what."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import count, one_line, short
from cdopt.cli import output
from cdopt.cli.options import REFERENCE_BACKEND, Json, Picture, ProblemName
from cdopt.cli.solve import print_failures

if TYPE_CHECKING:
    from cdopt import StepSolution
    from cdopt._util.checks import FloatArray
    from cdopt.hyperstatic import Indeterminacy
    from cdopt.study import NamedProblem, SolutionSet

HELP = (
    "Say which contact forces of a problem are determined, and bound all others exactly: the least "
    "and the largest force that any answer to classic contact dynamics can have. Exit code: 0 when "
    "every bound is certified, 1 when some are not or the input is bad, 2 when the problem is "
    "proven infeasible."
)
ROWS_UP_TO = 40  # contacts that are all listed; of more, only the widest intervals
WIDEST = 10  # of them
CLASSES = 6  # of finite widths
CSV_BEGINNING = "contact,name,verdict"  # of a table of bounds
_STYLES = {"unique": "green", "failed": "bold red", "unbounded": "bold"}


def bounds(
    problem: ProblemName,
    contacts: Annotated[
        str,
        typer.Option(
            metavar="all|K|I,J,…",
            help="Contacts to bound: all; a number K of contacts, evenly spread over those not "
            "determined; or a list with commas, of numbers from 0 on or of names (a single one: "
            "3,).",
        ),
    ] = "all",
    solver: Annotated[
        list[str] | None,
        typer.Option(help="Solver whose forces to place between the bounds; may be repeated."),
    ] = None,
    classic: Annotated[
        str, typer.Option(metavar="NAME", help="Solver of the classic step that gives the load.")
    ] = REFERENCE_BACKEND,
    tol: Annotated[
        float, typer.Option(help="Share of the load that counts as no force; also the rank's.")
    ] = 1e-9,
    jobs: Annotated[
        int | None, typer.Option(help="Linear programs at a time; default one for each core.")
    ] = None,
    plot: Picture = None,
    to_csv: Annotated[
        str | None,
        typer.Option("--csv", metavar="FILE", help="Write a row for each contact to a file."),
    ] = None,
    as_json: Json = False,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds for all of it; bounds not found by then are named."),
    ] = None,
) -> None:
    """Bound every contact force over all answers of classic contact dynamics."""
    with output.errors_in_one_line():
        if plot is not None:
            cdopt.plots.check_path(plot)
        if to_csv is not None:
            _check_csv(Path(to_csv))
        named = cdopt.open_problem(problem)
        if named.step is None:
            raise cdopt.InvalidInput("problem", f"{named.name}, a truss", "a contact step")
        asked = _contacts(contacts, named.contact_names)
        for name in solver or []:  # misspelt names are refused here, missing solvers reported later
            with contextlib.suppress(cdopt.BackendUnavailable):
                cdopt.backends.resolve(name)
        threads = (os.cpu_count() or 1) if jobs is None else jobs
        what = {"problem": named.name, "problem_title": named.title}
        with (
            output.proof_or_error("ClassicCD", as_json, **what),
            output.spinner() as tell,
            output.solvers_kept_quiet(to_stderr=as_json),
        ):
            report = cdopt.indeterminacy(
                named.step, classic, asked, tol, threads, time_limit=time_limit,
                progress=lambda done, total: tell(f"bounds of {done:,} of {total:,} forces"),
            )  # fmt: skip
            bounded = _with_solvers(named, report, solver or [])
        if as_json:
            output.print_json({**what, **_record(bounded)})
        else:
            _print(bounded)
        if to_csv is not None:
            _write_csv(bounded, to_csv)
        if plot is not None:
            _draw(bounded, plot)
    if report.failures:
        raise typer.Exit(output.NO_ANSWER)


@dataclass(frozen=True, eq=False)
class BoundedProblem:
    """A problem, its bounds, and forces to place between them.

    Attributes
    ----------
    named : the problem. report : its bounds.
    resolved : the compatible solution; None when it failed.
    solutions : of the solvers asked for, and all failures.
    """

    named: NamedProblem
    report: Indeterminacy
    resolved: StepSolution | None
    solutions: SolutionSet

    @property
    def compatible(self) -> Any:
        """(nc,) N, the compatible forces; not-a-number when they failed."""
        f = None if self.resolved is None else self.resolved.f
        return [math.nan] * self.report.nc if f is None else f

    @property
    def forces(self) -> dict[str, FloatArray]:
        """Forces (nc,) of each solver that has an answer, by label, N."""
        pairs = zip(self.solutions.labels, self.solutions, strict=True)
        return {label: s.f for label, s in pairs if s.f is not None}


def _with_solvers(named: NamedProblem, report: Indeterminacy, names: list[str]) -> BoundedProblem:
    """The bounds, with the compatible forces and those of some solvers."""
    compatible = cdopt.study.solve_named(named, "compatible", [REFERENCE_BACKEND])
    errors = list(compatible.failures.values())
    failures = {"compatible forces": errors[0]} if errors else {}
    solutions = cdopt.study.SolutionSet()
    if names:
        solutions = cdopt.study.solve_named(named, "classic", names)
    solutions.failures = MappingProxyType({**failures, **solutions.failures})
    resolved = compatible.certified[0] if compatible.certified else None
    return BoundedProblem(named, report, resolved, solutions)


def _contacts(text: str, names: list[str]) -> Any:
    """The ``contacts`` argument of ``indeterminacy``."""
    if text.strip() == "all":
        return None
    if text.strip().isdecimal():
        return int(text)
    numbers = {name: i for i, name in enumerate(names)}
    chosen = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        index = int(word) if word.isdecimal() else numbers.get(word, -1)
        if not 0 <= index < len(names):
            expected = f"all, a number, or a list such as 0,2 (contacts 0 to {len(names) - 1})"
            raise cdopt.InvalidInput("--contacts", repr(word), expected)
        chosen.append(index)
    if not chosen:
        raise cdopt.InvalidInput("--contacts", repr(text), "all, a number, or a list such as 0,2")
    return chosen


# --- tables ----------------------------------------------------------------------------


def _print(bounded: BoundedProblem) -> None:
    """Summary, classes of width if there are many contacts, table, solvers, failures."""
    out, report, rows = output.console(), bounded.report, bounded.report.contacts.tolist()
    output.say(report.summary)
    out.print()
    output.say(f"{bounded.named.name}: {bounded.named.title}", "dim")
    if len(rows) > ROWS_UP_TO:
        _print_classes(report)
        widest = _widest(report)[:WIDEST]
        output.say(f"\nThe {len(widest)} widest intervals, of {len(rows):,}:")
        rows = widest
    if rows:
        out.print(_table(bounded, rows))
        power = bounded.named.power
        law = {2.0: "Hooke", 2.5: "Hertz"}.get(power, f"p = {power:g}")
        key = f"forces in N; compatible: what elastic contacts carry ({law})"
        if bounded.forces:
            key += "; solvers: position of their force in the interval"
        output.say(key, "dim")
    if len(bounded.solutions) or bounded.solutions.failures:
        out.print()
    _print_solvers(bounded)
    print_failures(bounded.solutions)
    failed = list(report.failures.items())
    for i, why in failed[:WIDEST]:
        out.print(output.text(f"contact {report.names[i]}: ", "bold").append(why, "not bold red"))
    if len(failed) > WIDEST:
        output.say(f"and {len(failed) - WIDEST} more that failed")


def _table(bounded: BoundedProblem, rows: list[int]) -> Any:
    """A line for each contact."""
    report, named = bounded.report, bounded.report.step.contact_ids is not None
    places = {one_line(label, 14): report.position(f) for label, f in bounded.forces.items()}
    columns = {"lower": report.lower, "upper": report.upper, "compatible": bounded.compatible}
    finite = [float(x[i]) for x in columns.values() for i in rows if math.isfinite(x[i])]
    largest = max([0.0, *finite])
    names = ("contact", *(("name",) if named else ()), *columns, "verdict", *places)
    table = output.table(*names, numbers=["contact", *columns, *places])
    for i in rows:
        verdict = report.verdict_of(i)
        table.add_row(
            str(i), *([output.text(one_line(report.names[i], 16))] if named else []),
            *(_force(float(x[i]), largest) for x in columns.values()),
            output.text(verdict, _STYLES.get(verdict, "")),
            *(_percent(float(place[i])) for place in places.values()),
        )  # fmt: skip
    return table


def _force(value: float, largest: float) -> str:
    """A force with five digits of the ``largest`` in its table; what rounds to nothing is 0."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if abs(value) <= 0.5e-4 * largest:
        return "0"
    digits = 4 - math.floor(math.log10(largest))
    return f"{value:.{max(digits, 0)}f}" if -3 <= digits <= 9 else f"{value:.4e}"


def _percent(position: float) -> str:
    """A position in an interval: 0 % is the lower bound, 100 % the upper one."""
    return "–" if math.isnan(position) else f"{100.0 * position:.0f} %".replace("-0 %", "0 %")


def _widest(report: Indeterminacy) -> list[int]:
    """The contacts asked for that are not determined, widest first, ties in their own order."""
    rows = [i for i in report.contacts.tolist() if report.bounded[i] and not report.unique[i]]
    width = report.width
    unit = 1e-9 * max((width[i] for i in rows if math.isfinite(width[i])), default=0.0) or 1.0

    def rank(i: int) -> float:
        if math.isfinite(width[i]):
            return -round(width[i] / unit)
        return math.inf if math.isnan(width[i]) else -math.inf

    return sorted(rows, key=rank)


def width_classes(report: Indeterminacy) -> list[tuple[str, int]]:
    """How many of the intervals asked for are how wide.

    Open contacts, determined forces and intervals without end are classes of their own; the
    others fall into six, whose ends are round numbers.
    """
    verdicts = {i: report.verdict_of(i) for i in report.contacts.tolist()}
    number = list(verdicts.values()).count
    widths = [report.width[i] for i, verdict in verdicts.items() if verdict == "undetermined"]
    widths = [width for width in widths if not math.isnan(width)]
    classes = [("open, no force", number("open")), ("determined", number("unique"))]
    if widths and max(widths) > 0.0:
        low = -math.inf
        for high in _round_ends(max(widths)):
            inside = sum(low < width <= high * (1.0 + 1e-9) for width in widths)
            label = f"up to {high:,g} N" if low < 0.0 else f"{low:,g} to {high:,g} N"
            classes.append((label, inside))
            low = high * (1.0 + 1e-9)
    classes.append(("without an upper bound", number("unbounded")))
    classes.append(("not certified", number("failed")))
    return [(label, size) for label, size in classes if size]


def _round_ends(largest: float) -> list[float]:
    """Ends of the classes, ascending: 1, 2 and 5 times powers of ten, the last at ``largest``."""
    decade = math.floor(math.log10(largest))
    round_numbers = [m * 10.0**k for k in range(decade - 3, decade + 2) for m in (1.0, 2.0, 5.0)]
    last = next(i for i, x in enumerate(round_numbers) if x >= largest * (1.0 - 1e-9))
    return round_numbers[last - CLASSES + 1 : last + 1]


def _print_classes(report: Indeterminacy) -> None:
    """Widths of the intervals, class by class, with a bar."""
    classes = width_classes(report)
    most = max((number for _, number in classes), default=1)
    table = output.table("width of the interval", "contacts", "", numbers=["contacts"])
    for label, number in classes:
        table.add_row(label, f"{number:,}", "█" * max(round(30.0 * number / most), 1))
    output.console().print(table)


def _print_solvers(bounded: BoundedProblem) -> None:
    """Where each solver's forces lie as a whole."""
    report, solutions = (
        bounded.report,
        dict(zip(bounded.solutions.labels, bounded.solutions, strict=True)),
    )
    for label, f in bounded.forces.items():
        solution, position, outside = solutions[label], report.position(f), report.outside(f)
        line = f" says “{one_line(solution.status, 24)}”, {cdopt.study.verdict(solution)}"
        inside = [position[i] for i in report.contacts.tolist() if math.isfinite(position[i])]
        if inside:
            line += f"; on average {_percent(sum(inside) / len(inside))} up the interval"
        away = [float(distance) for distance in outside if math.isfinite(distance)]
        if away:
            line += f"; {short(max(away), 1)} N outside at most" if max(away) else "; none outside"
        output.console().print(output.text(label, "bold").append(line, "not bold"))


# --- files -----------------------------------------------------------------------------


def _record(bounded: BoundedProblem) -> dict[str, Any]:
    """Everything as plain values."""
    report, solutions = bounded.report, bounded.solutions
    content = {
        "power": bounded.named.power,
        "asked": report.contacts,
        **report.as_dict(),
        "compatible": bounded.compatible,
        "solvers": [
            {
                "label": label,
                **solution.as_dict(),
                "f": solution.f,
                "position": None if solution.f is None else report.position(solution.f),
                "outside": None if solution.f is None else report.outside(solution.f),
            }
            for label, solution in zip(solutions.labels, solutions, strict=True)
        ],
        "solver_failures": {label: str(error) for label, error in solutions.failures.items()},
    }
    if report.nc > ROWS_UP_TO:
        content["widths"] = dict(width_classes(report))
    return content


def _check_csv(path: Path) -> None:
    """Refuse a path without a folder, and a file that is no table of bounds."""
    if not path.parent.is_dir():
        raise cdopt.InvalidInput("path", f"no folder {str(path.parent)!r}", "an existing folder")
    if not path.exists():
        return
    beginning = path.open("rb").read(len(CSV_BEGINNING)) if path.is_file() else b""
    if beginning != CSV_BEGINNING.encode():
        found = f"{path}: there, and no table of bounds"
        raise cdopt.InvalidInput("path", found, "a new file, or a table of bounds")


def _write_csv(bounded: BoundedProblem, path: str) -> None:
    """A row for each contact asked for; empty where unknown, inf without an upper bound."""
    report = bounded.report
    columns = {
        "lower [N]": report.lower,
        "upper [N]": report.upper,
        "compatible force [N]": bounded.compatible,
        "looseness [-]": report.looseness,
        "residual [-]": report.residual,
    }
    for label, f in bounded.forces.items():
        columns[f"{label} force [N]"] = f
        columns[f"{label} position [-]"] = report.position(f)
    contacts = report.contacts.tolist()
    rows = [
        (i, report.names[i], report.verdict_of(i), *(float(x[i]) for x in columns.values()))
        for i in contacts
    ]
    header = (*CSV_BEGINNING.split(","), *columns)
    cdopt.study.Table("bounds", "Bounds", "", header, rows).save_csv(path)
    typer.echo(f"table: {path}, {count(len(contacts), 'contact')}", err=True)


def _draw(bounded: BoundedProblem, path: str) -> None:
    """Write the picture; say on stderr what cannot be drawn."""
    shown = [solution for solution in bounded.solutions if solution.f is not None]
    try:
        figure = cdopt.plots.bounds_story(
            bounded.report, shown, bounded.resolved, bounded.named.name
        )
    except cdopt.InvalidInput as error:
        typer.echo(f"no picture: {error}", err=True)
        return
    output.save_picture(figure, path)
