"""``cdopt bounds``: which forces are determined, and how far the others may range."""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import count, one_line, short
from cdopt.cli import output
from cdopt.cli.options import (
    REFERENCE_BACKEND,
    Force,
    Frictionless,
    Json,
    Law,
    Picture,
    ProblemName,
    solvers,
    split,
)
from cdopt.cli.solve import print_failures

if TYPE_CHECKING:
    from cdopt.hyperstatic import FrictionalIndeterminacy, Indeterminacy
    from cdopt.study import NamedProblem
    from cdopt.study.bounds import BoundedProblem

HELP = (
    "Say which contact forces of a problem are determined, and bound all others exactly: the least "
    "and the largest force that any answer to classic contact dynamics can have. Exit code: 0 when "
    "every bound is certified, 1 when some are not or the input is bad, 2 when the problem is "
    "proven infeasible."
)
ROWS_UP_TO = 40  # contacts that are all listed; of more, only the widest intervals
WIDEST = 10  # of them
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
        solvers("Solvers whose forces to place between the bounds."),
    ] = None,
    classic: Annotated[
        str, typer.Option(metavar="NAME", help="Solver of the classic step that gives the load.")
    ] = REFERENCE_BACKEND,
    tol: Annotated[
        float, typer.Option(help="Share of the load that counts as no force; also the rank's.")
    ] = 1e-9,
    jobs: Annotated[
        int | None, typer.Option(help="Programs solved at a time; default one for each core.")
    ] = None,
    plot: Picture = None,
    to_csv: Annotated[
        str | None,
        typer.Option("--csv", metavar="FILE", help="Write a row for each contact to a file."),
    ] = None,
    frictionless: Frictionless = False,
    law: Law = None,
    as_json: Json = False,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds for all of it; bounds not found by then are named."),
    ] = None,
    force: Force = False,
) -> None:
    """Bound every contact force over all answers of classic contact dynamics."""
    with output.errors_in_one_line():
        if plot is not None:
            cdopt.plots.check_path(plot)
        if to_csv is not None:
            with output.replacing(force, to_csv):
                cdopt.study.bounds.check_csv(to_csv)
        unused = {"--solver": solver, "--plot": plot, "--csv": to_csv} if law else {}
        for option, value in unused.items():
            if value is not None:
                raise cdopt.InvalidInput(option, repr(value), "nothing beside --law")
        chosen = split(solver)
        for name in chosen:  # misspelt names are refused here, missing solvers reported later
            with contextlib.suppress(cdopt.BackendUnavailable):
                cdopt.backends.resolve(name)
        named = output.open_problem(problem, "bounds", frictionless, law)
        step, asked = output.step_of(named), _contacts(contacts, named.contact_names)
        what = {"problem": named.name, "problem_title": named.title}
        with (
            output.proof_or_error("FrictionalCD" if law else "ClassicCD", as_json, **what),
            output.spinner() as tell,
            output.solvers_kept_quiet(to_stderr=as_json),
        ):
            report = cdopt.indeterminacy(
                step,
                classic,
                asked,
                tol,
                (os.cpu_count() or 1) if jobs is None else jobs,
                law=law,
                time_limit=time_limit,
                progress=lambda done, total: tell(f"bounds of {done:,} of {total:,} forces"),
            )
        if isinstance(report, cdopt.hyperstatic.FrictionalIndeterminacy):
            if as_json:
                output.print_json({**what, **report.as_dict()})
            else:
                _print_friction(named, report)
        else:
            with output.solvers_kept_quiet(to_stderr=as_json):
                bounded = cdopt.study.bounds.BoundedProblem.of(named, report, chosen)
            _write(bounded, what if as_json else None, to_csv, plot)
    if report.failures:
        raise typer.Exit(output.NO_ANSWER)


def _write(
    bounded: BoundedProblem, as_json: dict[str, str] | None, to_csv: str | None, plot: str | None
) -> None:
    """Bounds without friction as text, or as JSON beside what it is given; the files asked for."""
    report = bounded.report
    if as_json is None:
        _print(bounded)
    else:
        content = {**as_json, **bounded.as_dict()}
        if report.nc > ROWS_UP_TO:
            content["widths"] = dict(cdopt.study.bounds.width_classes(report))
        output.print_json(content)
    if to_csv is not None:
        bounded.table().save_csv(to_csv)
        typer.echo(f"table: {to_csv}, {count(report.contacts.size, 'contact')}", err=True)
    if plot is not None:
        _draw(bounded, plot)


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


def _draw(bounded: BoundedProblem, path: str) -> None:
    """Write the picture; say on stderr what cannot be drawn."""
    shown = [solution for solution in bounded.solutions if solution.f is not None]
    report, title = bounded.report, bounded.named.name
    try:
        figure = cdopt.plots.bounds_story(report, shown, bounded.solution, title)
    except cdopt.InvalidInput as error:
        typer.echo(f"no picture: {error}", err=True)
        return
    output.save_picture(figure, path)


# --- tables ----------------------------------------------------------------------------


def _print_friction(named: NamedProblem, report: FrictionalIndeterminacy) -> None:
    """Intervals of normal and tangential forces of a step with friction."""
    output.say(f"{named.name}: {named.title}, law {report.law}", "dim")
    output.say(report.summary)
    columns = ("contact", "status", *("normal", "tangential", "tangential 2")[: report.d])
    shown = output.table(*columns, numbers=columns[2:])
    largest = output.largest_finite(report.upper.ravel())
    for i in report.widest(ROWS_UP_TO).tolist():
        ends = zip(report.lower[i], report.upper[i], strict=True)
        intervals = [f"{output.force(a, largest)} … {output.force(b, largest)}" for a, b in ends]
        shown.add_row(one_line(report.names[i], 16), report.status_of(i), *intervals)
    output.console().print(shown)
    output.say("forces in N", "dim")


def _print(bounded: BoundedProblem) -> None:
    """Summary, classes of width if there are many contacts, table, solvers, failures."""
    out, report, rows = output.console(), bounded.report, bounded.report.contacts.tolist()
    output.say(report.summary)
    out.print()
    output.say(f"{bounded.named.name}: {bounded.named.title}", "dim")
    if len(rows) > ROWS_UP_TO:
        _print_classes(report)
        widest = cdopt.study.bounds.widest(report).tolist()[:WIDEST]
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
        label = output.text(f"contact {bounded.named.contact_names[i]}: ", "bold")
        out.print(label.append(why, "not bold red"))
    if len(failed) > WIDEST:
        output.say(f"and {len(failed) - WIDEST} more that failed")


def _table(bounded: BoundedProblem, rows: list[int]) -> Any:
    """A line for each contact."""
    report, contact_names = bounded.report, bounded.named.contact_names
    named = report.step.contact_ids is not None
    positions = {one_line(label, 14): report.position(f) for label, f in bounded.forces.items()}
    columns = {"lower": report.lower, "upper": report.upper, "compatible": bounded.compatible}
    largest = output.largest_finite(x[i] for x in columns.values() for i in rows)
    names = ("contact", *(("name",) if named else ()), *columns, "verdict", *positions)
    table = output.table(*names, numbers=["contact", *columns, *positions])
    for i in rows:
        verdict = report.verdict_of(i)
        cells: list[Any] = [str(i)]
        if named:
            cells.append(output.text(one_line(contact_names[i], 16)))
        cells += [output.force(x[i], largest) for x in columns.values()]
        cells.append(output.text(verdict, _STYLES.get(verdict, "")))
        cells += [_percent(float(x[i])) for x in positions.values()]
        table.add_row(*cells)
    return table


def _percent(position: float) -> str:
    """A position in an interval: 0 % is the lower bound, 100 % the upper one."""
    return "–" if math.isnan(position) else f"{100.0 * position:.0f} %".replace("-0 %", "0 %")


def _print_classes(report: Indeterminacy) -> None:
    """Widths of the intervals, class by class, with a bar."""
    classes = cdopt.study.bounds.width_classes(report)
    most = max((number for _, number in classes), default=1)
    table = output.table("width of the interval", "contacts", "", numbers=["contacts"])
    for label, number in classes:
        table.add_row(label, f"{number:,}", "█" * max(round(30.0 * number / most), 1))
    output.console().print(table)


def _print_solvers(bounded: BoundedProblem) -> None:
    """Where each solver's forces lie on average, and how far outside at most."""
    report = bounded.report
    solutions = dict(zip(bounded.solutions.labels, bounded.solutions, strict=True))
    for label, f in bounded.forces.items():
        solution, position = solutions[label], report.position(f)
        line = f" says “{one_line(solution.status, 24)}”, {cdopt.study.verdict(solution)}"
        inside = [position[i] for i in report.contacts.tolist() if math.isfinite(position[i])]
        if inside:
            line += f"; on average {_percent(sum(inside) / len(inside))} up the interval"
        outside = [x for x in report.outside(f).tolist() if math.isfinite(x)]
        if outside:
            far = max(outside)
            line += f"; {short(far, 1)} N outside at most" if far else "; none outside"
        output.console().print(output.text(label, "bold").append(line, "not bold"))
