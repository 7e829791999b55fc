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
from cdopt.cli.output import option
from cdopt.cli.solve import print_failures

if TYPE_CHECKING:
    from cdopt.hyperstatic import Indeterminacy
    from cdopt.study import NamedProblem
    from cdopt.study.bounds import BoundedProblem

ROWS = 40  # contacts that are all listed; of more, those with the largest numbers
WIDEST = 10  # intervals that are listed of more
_STYLES = {"unique": "green", "failed": "bold red", "unbounded": "bold"}


def bounds(
    problem: output.ProblemName,
    contacts: Annotated[
        str,
        option(
            "Contacts to bound: all; a number K of contacts, evenly spread over "
            "those not determined; or a list of numbers (from 0) or names, "
            "separated by commas (a single contact: 3,).",
            metavar="all|K|I,J,…",
        ),
    ] = "all",
    solver: Annotated[
        list[str] | None, output.solvers("Solvers whose forces to place between the bounds.")
    ] = None,
    classic: Annotated[
        str, option("Solver of the classic step, which determines the load.", metavar="NAME")
    ] = output.REFERENCE_BACKEND,
    tol: Annotated[
        float,
        option(
            "Relative tolerance: forces below this share of the load "
            "count as zero; also the tolerance of the rank."
        ),
    ] = 1e-9,
    jobs: Annotated[
        int | None, option("Number of programs solved at the same time; default one for each core.")
    ] = None,
    plot: output.Picture = None,
    to_csv: Annotated[
        str | None,
        option("Write a table with a row for each contact to this file.", "--csv", metavar="FILE"),
    ] = None,
    frictionless: output.Frictionless = False,
    law: output.Law = None,
    as_json: output.Json = False,
    time_limit: Annotated[
        float | None, option("Time limit in seconds; bounds that are not known by then are listed.")
    ] = None,
    force: output.Force = False,
) -> None:
    """Bound every contact force: which forces are determined, and the range of the others.

    Bounds are exact: the smallest and the largest force that any answer of classic contact dynamics
    can have. Exit code: 0 if every bound is certified, 1 if some are not or the input is bad, 2 if
    the problem is proven infeasible.
    """
    if to_csv is not None:
        with output.replacing(force, to_csv):
            cdopt.study.bounds.check_csv(to_csv)
    for name, value in {"--solver": solver, "--plot": plot, "--csv": to_csv}.items():
        if law is not None and value is not None:
            raise cdopt.InvalidInput(name, repr(value), "no such option together with --law")
    chosen = output.split(solver)
    for name in chosen:  # misspelt names are refused here, missing solvers reported later
        with contextlib.suppress(cdopt.BackendUnavailable):
            cdopt.backends.resolve(name)
    named = output.open_problem(problem, "bounds", frictionless, law)
    step, asked = output.step_of(named), _contacts(contacts, named.contact_names)
    what: dict[str, Any] = {"problem": named.name, "problem_title": named.title}
    title = "FrictionalCD" if law else "ClassicCD"
    with output.solving(title, as_json, **what), output.spinner() as label:
        report = cdopt.indeterminacy(
            step,
            law,
            solution=classic,
            contacts=asked,
            tol=tol,
            jobs=(os.cpu_count() or 1) if jobs is None else jobs,
            time_limit=time_limit,
            progress=lambda done, total: label(f"bounds of {done:,} of {total:,} forces"),
        )
    if law is not None:
        if as_json:
            output.print_json({**what, **report.as_dict()})
        else:
            _print_friction(named, report)
    else:
        with output.solvers_kept_quiet(to_stderr=as_json):
            bounded = cdopt.study.bounds.BoundedProblem.of(named, report, chosen)
        if not as_json:
            _print_bounds(bounded)
        else:
            what |= bounded.as_dict()
            if report.nc > ROWS:
                what["widths"] = dict(cdopt.study.bounds.width_classes(report))
            output.print_json(what)
        if to_csv is not None:
            bounded.table().save_csv(to_csv)
            output.echo(f"table: {to_csv}, {count(report.contacts.size, 'contact')}", err=True)
        if plot is not None:
            _draw(bounded, plot)
    if report.failures:
        raise typer.Exit(output.NO_ANSWER)


def _contacts(text: str, names: list[str]) -> Any:
    """The ``contacts`` argument of ``indeterminacy``."""
    if text.strip() == "all":
        return None
    if text.strip().isdecimal():
        return int(text)
    numbers = {name: i for i, name in enumerate(names)}
    words = output.split([text])
    chosen = [int(word) if word.isdecimal() else numbers.get(word, -1) for word in words]
    wrong = [word for word, i in zip(words, chosen, strict=True) if not 0 <= i < len(names)]
    if wrong or not chosen:
        expected = f"all, a number, or a list such as 0,2 (contacts 0 to {len(names) - 1})"
        raise cdopt.InvalidInput("--contacts", repr(wrong[0] if wrong else text), expected)
    return chosen


def _draw(bounded: BoundedProblem, path: str) -> None:
    """Write the picture; report on stderr which parts cannot be drawn."""
    shown = [solution for solution in bounded.solutions if solution.f is not None]
    title = bounded.named.name
    try:
        figure = cdopt.plots.bounds_story(bounded.report, shown, bounded.solution, title)
    except cdopt.InvalidInput as error:
        output.echo(f"no picture: {error}", err=True)
        return
    output.save_picture(figure, path)


def _print_friction(named: NamedProblem, report: Indeterminacy) -> None:
    """Intervals of normal and tangential forces of a step with friction."""
    output.say(f"{named.name}: {named.title}, law {report.law}", "dim")
    output.say(report.summary)
    columns = ("contact", "status", *("normal", "tangential", "tangential 2")[: report.d])
    lower, upper = report.intervals
    largest, rows = output.largest_finite(upper.ravel()), []
    widest = cdopt.study.bounds.widest(report)
    for i in sorted((widest if widest.size else report.contacts)[:ROWS].tolist()):
        ends = zip(lower[i], upper[i], strict=True)
        intervals = [f"{output.force(a, largest)} … {output.force(b, largest)}" for a, b in ends]
        rows.append((one_line(report.names[i], 16), report.status_of(i), *intervals))
    output.print_table(columns, rows, columns[2:])
    output.say("forces in N", "dim")


def _print_bounds(bounded: BoundedProblem) -> None:
    """Summary, classes of width if there are many contacts, table, solvers, failures."""
    named, report = bounded.named, bounded.report
    rows = report.contacts.tolist()
    output.say(f"{report.summary}\n")
    output.say(f"{named.name}: {named.title}", "dim")
    if len(rows) > ROWS:
        classes = cdopt.study.bounds.width_classes(report)
        most = max((number for _, number in classes), default=1)
        bars = [(label, f"{n:,}", "█" * max(round(30.0 * n / most), 1)) for label, n in classes]
        output.print_table(("width of the interval", "contacts", ""), bars, ["contacts"])
        widest = cdopt.study.bounds.widest(report).tolist()[:WIDEST]
        output.say(f"\nThe {len(widest)} widest intervals, of {len(rows):,}:")
        rows = widest
    if rows:
        _print_intervals(bounded, rows)
        law = {2.0: "Hooke", 2.5: "Hertz"}.get(named.power, f"p = {named.power:g}")
        key = f"forces in N; compatible: what elastic contacts carry ({law})"
        key += "; solvers: position of their force in the interval" if bounded.forces else ""
        output.say(key, "dim")
    if len(bounded.solutions) or bounded.solutions.failures:
        output.say("")
    solutions = dict(zip(bounded.solutions.labels, bounded.solutions, strict=True))
    for label, f in bounded.forces.items():
        status = one_line(solutions[label].status, 24)
        line = f": status “{status}”, {cdopt.study.verdict(solutions[label])}"
        position = report.position(f)[report.contacts]
        inside = [x for x in position.tolist() if math.isfinite(x)]
        if inside:
            line += f"; on average {_percent(sum(inside) / len(inside))} up the interval"
        outside = [x for x in report.outside(f).tolist() if math.isfinite(x)]
        if outside:
            far = max(outside)
            line += f"; {short(far, 1)} N outside at most" if far else "; none outside"
        output.say_of(label, line)
    print_failures(bounded.solutions)
    failed = list(report.failures.items())
    for i, why in failed[:WIDEST]:
        output.say_of(f"contact {named.contact_names[i]}: ", why, "red")
    if len(failed) > WIDEST:
        output.say(f"and {len(failed) - WIDEST} more that failed")


def _print_intervals(bounded: BoundedProblem, rows: list[int]) -> None:
    report, contact_names = bounded.report, bounded.named.contact_names
    has_names = report.step.contact_ids is not None
    positions = {one_line(label, 14): report.position(f) for label, f in bounded.forces.items()}
    forces = {"lower": report.lower, "upper": report.upper, "compatible": bounded.compatible}
    largest = output.largest_finite(x[i] for x in forces.values() for i in rows)
    table = []
    for i in rows:
        verdict, name = report.verdict_of(i), one_line(contact_names[i], 16)
        table.append([
            str(i),
            *([name] if has_names else []),
            *(output.force(x[i], largest) for x in forces.values()),
            output.text(verdict, _STYLES.get(verdict, "")),
            *(_percent(float(x[i])) for x in positions.values()),
        ])  # fmt: skip
    columns = ("contact", *(["name"] if has_names else []), *forces, "verdict", *positions)
    output.print_table(columns, table, ["contact", *forces, *positions])


def _percent(position: float) -> str:
    """A position in an interval: 0 % is the lower bound, 100 % the upper one."""
    return "–" if math.isnan(position) else f"{100.0 * position:.0f} %".replace("-0 %", "0 %")
