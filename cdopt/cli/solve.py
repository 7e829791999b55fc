"""``cdopt solve``: one problem by several solvers, every answer certified."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

import cdopt
from cdopt._util.formatting import one_line
from cdopt.cli import output
from cdopt.cli.options import (
    REFERENCE_BACKEND,
    Frictionless,
    Json,
    Picture,
    Power,
    ProblemName,
    solvers,
    split,
)

if TYPE_CHECKING:
    from cdopt import StepSolution
    from cdopt._util.checks import FloatArray
    from cdopt.study import Comparison, NamedProblem, SolutionSet

HELP = (
    "Solve a contact problem with several solvers and certify every answer. Exit code: 0 when "
    "the compatible (or the only) answer is certified, 1 when none is or the input is bad, 2 when "
    "the problem is proven infeasible."
)
FORCES_UP_TO = 12  # contacts whose forces are written out
_FORCE_WIDTH = 10  # characters per contact force


def solve(
    problem: ProblemName,
    formulation: Annotated[
        str | None,
        typer.Option(
            help="compare: classic contact dynamics by several solvers, then the compatible "
            "forces (default for steps); classic; compatible; truss (default for trusses); "
            "coulomb (default with friction); associated."
        ),
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(help="Of a problem with friction: coulomb (default) or associated."),
    ] = None,
    frictionless: Frictionless = False,
    solver: Annotated[
        list[str] | None,
        solvers("Solvers to use; default all that suit the problem."),
    ] = None,
    power: Power = None,
    tol: Annotated[float, typer.Option(help="Tolerance of the certificates.")] = 1e-6,
    accuracy: Annotated[
        float | None,
        typer.Option(help="Accuracy to ask of the solvers, such as 1e-10; default their own."),
    ] = None,
    compatible_solver: Annotated[
        str, typer.Option(metavar="NAME", help="Solver of the compatible step, when comparing.")
    ] = REFERENCE_BACKEND,
    as_json: Json = False,
    plot: Picture = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Let the solvers print.")] = False,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for each solver, however it is made; inf for no limit.")
    ] = 60.0,
) -> None:
    """Solve a contact problem."""
    with output.errors_in_one_line():
        named = cdopt.open_problem(problem, power, frictionless=frictionless)
        if law is not None:
            formulation = _formulation_of(law, formulation)
        if plot is not None:
            cdopt.plots.check_path(plot)
        limit = None if math.isinf(time_limit) else time_limit
        with output.spinner() as tell, output.solvers_kept_quiet(verbose, as_json):
            solutions = cdopt.study.solve_named(
                named, formulation, split(solver), tol, accuracy=accuracy,
                compatible_backend=compatible_solver, verbose=verbose, progress=tell,
                finished=_report_later(), time_limit=limit,
            )  # fmt: skip
        if as_json:
            chosen = formulation or named.formulations[0]
            what = {"problem": named.name, "problem_title": named.title, "formulation": chosen}
            answers = solutions.as_dict(forces=True)
            output.print_json({**what, "power": named.power, **answers})
        else:
            _print(named, solutions)
        if plot is not None:
            _draw(named, solutions, plot)
    if not solutions.ok:
        infeasible = solutions.proof is not None
        raise typer.Exit(output.INFEASIBLE if infeasible else output.NO_ANSWER)


def _formulation_of(law: str, formulation: str | None) -> str:
    """The formulation that ``--law`` names."""
    if formulation not in (None, law):
        raise cdopt.InvalidInput(
            "--formulation", f"{formulation} beside --law {law}", "one of them"
        )
    if law not in cdopt.problem.LAWS:
        raise cdopt.InvalidInput("--law", repr(law), " or ".join(cdopt.problem.LAWS))
    return law


def _report_later() -> Callable[[str, StepSolution | cdopt.CdoptError], None]:
    """A function that writes each row to stderr when it is known, once the command takes long."""
    began = time.monotonic()

    def finished(label: str, outcome: StepSolution | cdopt.CdoptError) -> None:
        if time.monotonic() - began < output.PAUSE:
            return
        if isinstance(outcome, cdopt.CdoptError):
            cells: tuple[str, ...] = (label, cdopt.study.failure(outcome))
        else:
            cells = cdopt.study.Row.of(outcome, label, None).cells[:-1]
        typer.echo("  ".join(cells), err=True)

    return finished


def _compared(solutions: SolutionSet) -> Comparison | None:
    return solutions if isinstance(solutions, cdopt.study.Comparison) else None


def _draw(named: NamedProblem, solutions: SolutionSet, path: str) -> None:
    """Write the picture, if there are forces to draw."""
    compared = _compared(solutions)
    everything = [*solutions, *([compared.compatible] if compared else [])]
    if any(s is not None and s.f is not None and s.f.size for s in everything):
        output.save_picture(cdopt.plots.story(named.step, solutions, bodies=named.bodies), path)
    else:
        typer.echo("no picture: there are no contact forces", err=True)


def _print(named: NamedProblem, solutions: SolutionSet) -> None:
    """The table, failures, small force vectors and the summary."""
    out, compared = output.console(), _compared(solutions)
    output.say(f"{named.name}: {named.title}, p = {named.power:g}", "bold")
    output.say(solutions.title, "dim")
    out.print()
    rows = solutions.rows()
    if rows:
        columns = (
            cdopt.study.COLUMNS if solutions.reference is not None else cdopt.study.COLUMNS[:-1]
        )
        shown = output.table(*columns, numbers=columns[3:], wrap=columns[1:3])
        for row in rows:
            cells = [output.text(cell) for cell in row.cells[: len(columns)]]
            cells[2].stylize("green" if row.ok else "bold red")
            if row.label == "compatible":
                cells[0].stylize("bold")
                shown.add_section()
            shown.add_row(*cells)
        out.print(shown)
        key = f"certificate: largest residual, tolerance {solutions.tol:g}"
        if solutions.reference is not None:
            key += "; distance: of the forces from the compatible ones, relative"
        if compared is not None and compared.compatible is not None:
            key += f"; compatible: by {compared.compatible.backend}"
        output.say(key, "dim")
    print_failures(solutions)
    for reason in dict.fromkeys(solutions.left_out.values()):
        names = [name for name, why in solutions.left_out.items() if why == reason]
        output.say(f"left out, {reason}: {', '.join(names)}", "dim")
    if 0 < named.nc <= FORCES_UP_TO:
        _print_forces(named, solutions)
    out.print()
    output.say(solutions.summary)


def print_failures(solutions: SolutionSet) -> None:
    """Why each solver without an answer has none."""
    for label, error in solutions.failures.items():
        line = output.text(f"{label}: ", "bold")
        output.console().print(line.append(cdopt.study.failure(error), "not bold red"))


def _print_forces(named: NamedProblem, solutions: SolutionSet) -> None:
    """Every force vector; with friction the sizes of the tangential forces, too."""
    compared = _compared(solutions)
    answers = list(zip(solutions.labels, solutions, strict=True))
    if compared is not None and compared.compatible is not None:
        answers.append(("compatible", compared.compatible))
    tangential = [
        (label, [math.hypot(*row) for row in s.f_t]) for label, s in answers if s.f_t is not None
    ]
    what = "normal contact forces" if tangential else "contact forces"
    _print_vectors(what, named, [(label, s.f) for label, s in answers if s.f is not None])
    _print_vectors("tangential contact forces, their sizes", named, tangential)


def _print_vectors(
    what: str, named: NamedProblem, vectors: Sequence[tuple[str, Sequence[float] | FloatArray]]
) -> None:
    """Numbers of every contact, in blocks of as many contacts as fit."""
    if not vectors:
        return
    largest = output.largest_finite(x for _, f in vectors for x in f)
    out, names = output.console(), [one_line(name, 8) for name in named.contact_names]
    out.print()
    output.say(f"{what} [N]", "bold")
    fit = max((out.width - 14) // _FORCE_WIDTH, 1)
    for start in range(0, named.nc, fit):
        block = range(start, min(start + fit, named.nc))
        columns = [names[i] for i in block]
        shown = output.table("contact", *columns, numbers=columns)
        for label, f in vectors:
            style = "bold" if label == "compatible" else ""
            shown.add_row(output.text(label, style), *(output.force(f[i], largest) for i in block))
        out.print(shown)
