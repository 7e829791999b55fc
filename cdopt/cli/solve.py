"""``cdopt solve``: one problem by several solvers, every answer certified."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import one_line
from cdopt.cli import output
from cdopt.cli.output import option

if TYPE_CHECKING:
    from cdopt import StepSolution
    from cdopt.study import NamedProblem, SolutionSet

FORCES_UP_TO = 12  # contacts whose forces are written out
_FORCE_WIDTH = 10  # characters per contact force


def solve(
    problem: output.ProblemName,
    formulation: Annotated[
        str | None,
        option(
            "compare: classic contact dynamics by several solvers, then the compatible "
            "forces (default for steps); classic; compatible; truss (default for trusses); "
            "coulomb (default with friction); associated."
        ),
    ] = None,
    law: Annotated[
        str | None, option("Law of a problem with friction: coulomb (default) or associated.")
    ] = None,
    frictionless: output.Frictionless = False,
    solver: Annotated[
        list[str] | None, output.solvers("Solvers to use; default all that suit the problem.")
    ] = None,
    power: output.Power = None,
    tol: Annotated[float, option("Tolerance of the certificates.")] = 1e-6,
    accuracy: Annotated[
        float | None, option("Requested accuracy, such as 1e-10; by default that of each solver.")
    ] = None,
    compatible_solver: Annotated[
        str, option("Solver of the compatible step of a comparison.", metavar="NAME")
    ] = output.REFERENCE_BACKEND,
    as_json: output.Json = False,
    plot: output.Picture = None,
    verbose: Annotated[bool, option("Let the solvers print.", "--verbose")] = False,
    time_limit: Annotated[
        float, option("Time limit of each solver in seconds; inf for no limit.")
    ] = 60.0,
) -> None:
    """Solve a contact problem by several solvers and certify the answers.

    Exit code: 0 if the compatible (or the only) answer is certified, 1 if none is or the input is
    bad, 2 if the problem is proven infeasible.
    """
    named = cdopt.open_problem(problem, power, frictionless=frictionless)
    if law is not None:
        if formulation not in (None, law):
            found = f"{formulation} with --law {law}"
            raise cdopt.InvalidInput("--formulation", found, "one of them")
        if law not in cdopt.problem.LAWS:
            raise cdopt.InvalidInput("--law", repr(law), " or ".join(cdopt.problem.LAWS))
        formulation = law
    with output.spinner() as label, output.solvers_kept_quiet(verbose, as_json):
        solutions = cdopt.study.solve_named(
            named,
            formulation,
            output.split(solver),
            tol,
            accuracy=accuracy,
            compatible_backend=compatible_solver,
            verbose=verbose,
            progress=label,
            finished=_report_later(),
            time_limit=None if math.isinf(time_limit) else time_limit,
        )
    every = list(solutions)
    compatible = solutions.compatible if isinstance(solutions, cdopt.study.Comparison) else None
    every += [] if compatible is None else [compatible]
    if as_json:
        chosen = formulation or named.formulations[0]
        what = {"problem": named.name, "problem_title": named.title, "formulation": chosen}
        output.print_json({**what, "power": named.power, **solutions.as_dict(forces=True)})
    else:
        _print(named, solutions, compatible)
    if plot is not None and any(s.f is not None and s.f.size for s in every):
        output.save_picture(cdopt.plots.story(named.step, solutions, bodies=named.bodies), plot)
    elif plot is not None:
        output.echo("no picture: there are no contact forces", err=True)
    if not solutions.ok:
        raise typer.Exit(output.NO_ANSWER if solutions.proof is None else output.INFEASIBLE)


def _report_later() -> Callable[[str, StepSolution | cdopt.CdoptError], None]:
    """A function that writes each row to stderr once the command takes long."""
    began = time.monotonic()

    def finished(label: str, outcome: StepSolution | cdopt.CdoptError) -> None:
        if time.monotonic() - began < output.PAUSE:
            return
        if isinstance(outcome, cdopt.CdoptError):
            cells: tuple[str, ...] = (label, cdopt.study.failure(outcome))
        else:
            cells = cdopt.study.Row.of(outcome, label, None).cells[:-1]
        output.echo("  ".join(cells), err=True)

    return finished


def _print(named: NamedProblem, solutions: SolutionSet, compatible: StepSolution | None) -> None:
    """The table, failures, small force vectors and the summary."""
    output.say(f"{named.name}: {named.title}, p = {named.power:g}", "bold")
    output.say(f"{solutions.title}\n", "dim")
    rows = solutions.rows()
    if rows:
        columns: Sequence[str] = cdopt.study.COLUMNS
        key = f"certificate: largest residual, tolerance {solutions.tol:g}"
        if solutions.reference is None:
            columns = columns[:-1]
        else:
            key += "; distance: of the forces from the compatible ones, relative"
        table = []
        for row in rows:
            label, status, certificate, *numbers = row.cells[: len(columns)]
            bold = "bold" if row.label == "compatible" else ""
            colour = "green" if row.ok else "bold red"
            certified = output.text(certificate, colour)
            table.append([output.text(label, bold), status, certified, *numbers])
        gap = [k for k, row in enumerate(rows) if row.label == "compatible"]
        output.print_table(columns, table, columns[3:], columns[1:3], sections=gap)
        if compatible is not None:
            key += f"; compatible: by {compatible.backend}"
        output.say(key, "dim")
    print_failures(solutions)
    for reason in dict.fromkeys(solutions.left_out.values()):
        names = [name for name, why in solutions.left_out.items() if why == reason]
        output.say(f"left out, {reason}: {', '.join(names)}", "dim")
    if 0 < named.nc <= FORCES_UP_TO:
        answers = list(zip(solutions.labels, solutions, strict=True))
        answers += [] if compatible is None else [("compatible", compatible)]
        _print_forces(named, answers)
    output.say(f"\n{solutions.summary}")


def print_failures(solutions: SolutionSet) -> None:
    """Why each solver without an answer has none."""
    for label, error in solutions.failures.items():
        output.say_of(f"{label}: ", cdopt.study.failure(error), "red")


def _print_forces(named: NamedProblem, answers: Sequence[tuple[str, StepSolution]]) -> None:
    """Print every force vector, with friction also tangential forces, in blocks."""
    normal = [(label, s.f) for label, s in answers if s.f is not None]
    pairs = [(label, s.f_t) for label, s in answers if s.f_t is not None]
    tangential = [(label, [math.hypot(*row) for row in f_t]) for label, f_t in pairs]
    kinds: tuple[tuple[str, Sequence[tuple[str, Any]]], ...] = (
        ("normal contact forces" if tangential else "contact forces", normal),
        ("tangential contact forces, their sizes", tangential),
    )
    names = [one_line(name, 8) for name in named.contact_names]
    fit = max((output.console().width - 14) // _FORCE_WIDTH, 1)
    for what, vectors in kinds:
        if not vectors:
            continue
        largest = output.largest_finite(x for _, f in vectors for x in f)
        output.say(f"\n{what} [N]", "bold")
        for block in (range(k, min(k + fit, named.nc)) for k in range(0, named.nc, fit)):
            columns = [names[i] for i in block]
            rows = [
                [
                    output.text(label, "bold" if label == "compatible" else ""),
                    *(output.force(f[i], largest) for i in block),
                ]
                for label, f in vectors
            ]
            output.print_table(["contact", *columns], rows, columns)
