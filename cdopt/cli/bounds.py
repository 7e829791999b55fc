"""``cdopt bounds``: which forces are determined, how far the others may range, who picked what."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cdopt import plots
from cdopt._util.documents import begins_with
from cdopt._util.errors import BackendUnavailable, InvalidInput, SolveFailed
from cdopt.backends import resolve
from cdopt.cli import bounds_output as cli_bounds_output
from cdopt.cli import output as cli_output
from cdopt.cli.bounds_output import CSV_BEGINNING, Findings
from cdopt.cli.output import INFEASIBLE, NO_ANSWER
from cdopt.cli.problem import AsJson, PlotFile, ProblemName
from cdopt.formulations import ClassicCD, CompatibleCD
from cdopt.hyperstatic import Indeterminacy, indeterminacy
from cdopt.problem.contact_step import Step
from cdopt.study.compare import SHARPEST
from cdopt.study.named_problem import NamedProblem, open_problem
from cdopt.study.solutions import SolutionSet, attempt

HELP = (
    "Say which contact forces of a problem are determined, and bound all others exactly: the least "
    "and the largest force that any answer to classic contact dynamics can have. Exit code: 0 when "
    "every bound is certified, 1 when some are not or the input is bad, 2 when the problem is "
    "proven infeasible."
)

_Contacts = Annotated[
    str,
    typer.Option(
        metavar="all|K|I,J,…",
        help="Contacts to bound: all; a number K of contacts, evenly spread over those not "
        "determined; or a list with commas, of numbers from 0 on or of names (a single one: 3,).",
    ),
]
_Solvers = Annotated[
    list[str] | None,
    typer.Option(help="Solver whose forces to place between the bounds; may be repeated."),
]
_Classic = Annotated[
    str,
    typer.Option(metavar="NAME", help="Solver of the classic step whose load is to be carried."),
]
_Tol = Annotated[
    float, typer.Option(help="Share of the load that counts as no force; also the rank's.")
]
_Jobs = Annotated[int | None, typer.Option(help="Linear programs at a time; default one per core.")]
_TimeLimit = Annotated[
    float | None,
    typer.Option(help="Seconds for all of it; bounds not found by then are named."),
]
_Csv = Annotated[
    str | None, typer.Option("--csv", metavar="FILE", help="Write a row per contact to a file.")
]


def bounds(
    problem: ProblemName,
    contacts: _Contacts = "all",
    solver: _Solvers = None,
    classic: _Classic = SHARPEST,
    tol: _Tol = 1e-9,
    jobs: _Jobs = None,
    plot: PlotFile = None,
    to_csv: _Csv = None,
    as_json: AsJson = False,
    time_limit: _TimeLimit = None,
) -> None:
    """Bound every contact force over all answers of classic contact dynamics."""
    with cli_output.errors_in_one_line():
        for path, check in ((plot, plots.check_path), (to_csv, _check_csv)):
            if path is not None:
                check(path)
        task = open_problem(problem, None)
        if task.step is None:
            raise InvalidInput("problem", f"{task.name}, a truss", "a contact step")
        asked = _asked(contacts, task)
        names = _known(solver or [])
        threads = (os.cpu_count() or 1) if jobs is None else jobs
        with cli_output.progress() as tell, cli_output.solvers_kept_quiet(False, as_json):
            report = _report(task.step, classic, asked, tol, threads, tell, time_limit)
            if isinstance(report, Indeterminacy):
                found = _findings(task, task.step, report, names, tell)
        if isinstance(report, SolveFailed):
            cli_bounds_output.print_infeasible(task, report, as_json)
            raise typer.Exit(INFEASIBLE)
        if as_json:
            cli_output.print_json(cli_bounds_output.record(found))
        else:
            cli_bounds_output.print_findings(found)
        if to_csv is not None:
            cli_bounds_output.write_csv(found, to_csv)
        if plot is not None:
            _draw(found, plot)
    if report.failures:
        raise typer.Exit(NO_ANSWER)


def _asked(contacts: str, task: NamedProblem) -> Any:
    """What ``indeterminacy`` takes as contacts, from the words of the command line."""
    text = contacts.strip()
    if text == "all":
        return None
    if text.isdecimal():
        return int(text)
    names = {name: i for i, name in enumerate(task.contact_names)}
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        index = int(word) if word.isdecimal() else names.get(word, -1)
        if not 0 <= index < len(names):
            expected = f"all, a number, or a list such as 0,2 (contacts 0 to {len(names) - 1})"
            raise InvalidInput("--contacts", repr(word), expected)
        found.append(index)
    if not found:
        raise InvalidInput("--contacts", repr(contacts), "all, a number, or a list such as 0,2")
    return found


def _known(names: list[str]) -> list[str]:
    """The same names, once none is misspelt: bounds may take minutes."""
    for name in names:
        with contextlib.suppress(BackendUnavailable):  # reported beside the other solvers
            resolve(name)
    return names


def _report(
    step: Step,
    classic: str,
    contacts: Any,
    tol: float,
    jobs: int,
    tell: Callable[[str], None],
    time_limit: float | None,
) -> Indeterminacy | SolveFailed:
    """The bounds, or the proof that there are no forces to bound."""

    def along(done: int, total: int) -> None:
        tell(f"bounds of {done:,} of {total:,} forces")

    try:
        return indeterminacy(step, classic, contacts, tol, jobs, along, time_limit=time_limit)
    except SolveFailed as error:
        if error.proof is None:
            raise
        return error


def _check_csv(path: str) -> Path:
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInput("path", f"no folder {str(target.parent)!r}", "an existing folder")
    if target.exists() and not begins_with(target, CSV_BEGINNING):
        found = f"{target}: there, and no table of bounds"
        raise InvalidInput("path", found, "a new file, or a table of bounds")
    return target


def _findings(
    task: NamedProblem,
    step: Step,
    report: Indeterminacy,
    names: list[str],
    tell: Callable[[str], None],
) -> Findings:
    """Compatible forces, and those of the solvers asked for."""
    resolved, failed = attempt(
        lambda backend: CompatibleCD(step, task.power).solve(backend, classic=report.classic),
        [SHARPEST],
    )
    sharp = next((solution for solution in resolved if solution.ok), None)
    problem = ClassicCD(step)
    solutions, failures = attempt(problem.solve, names, tell) if names else ([], {})
    if sharp is None:
        failures = dict(zip(["compatible forces"], failed.values(), strict=False)) | failures
    everyone = SolutionSet(solutions, title=problem.name, failures=failures)
    return Findings(task, report, sharp, everyone)


def _draw(found: Findings, path: str) -> None:
    """Write the picture; what cannot be drawn is said on stderr."""
    shown = [s for s in found.solutions if s.f is not None]
    try:
        figure = plots.bounds_story(found.report, shown, found.resolved, found.task.name)
    except InvalidInput as error:
        typer.echo(f"no picture: {error}", err=True)
        return
    plots.save(figure, path)
    typer.echo(f"picture: {path}", err=True)
