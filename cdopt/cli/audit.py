"""``cdopt audit``: errors in forces from another code, and which of them are a choice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option

_TABLES = (".dump", ".txt", ".csv", ".local")  # endings of contact lists
_SHORT = 32  # characters that a column of the table has for what a finding means
_LIST = "A contact list, with --bodies: a dump local of LAMMPS or LIGGGHTS, or a table. Else "
_PROBLEM = typer.Argument(
    metavar="PROBLEM", help=_LIST + output.PROBLEM[0].lower() + output.PROBLEM[1:]
)


def audit(
    problem: Annotated[str, _PROBLEM],
    forces: Annotated[
        str | None,
        option(
            "File of the forces: a solution (.npz) saved by StepSolution.save, or a "
            "text file with one line for each contact: the normal force, then the "
            "tangential forces.",
            metavar="FILE",
        ),
    ] = None,
    bodies: Annotated[
        str | None,
        option(
            "Table of the bodies, if PROBLEM is a contact list with forces, such as "
            "a dump local of LAMMPS or LIGGGHTS.",
            metavar="FILE",
        ),
    ] = None,
    friction: Annotated[
        float | None, option("Friction coefficient of a contact list without a column mu.")
    ] = None,
    columns: Annotated[
        str | None, option("Names of a contact list's columns in their order: 'id1 id2 fx …'.")
    ] = None,
    density: Annotated[float | None, option("Density of the spheres of a list, kg/m³.")] = None,
    fixed: Annotated[
        str | None, option("Ids of bodies of a list that do not move, such as 1-9,12.")
    ] = None,
    gravity: Annotated[
        str | None,
        option("Gravity of a list, m/s², such as 0,0,-1; default 9.81 against the last axis."),
    ] = None,
    at_rest: Annotated[
        bool,
        option(
            "Compare the forces with rest: all bodies have zero velocity at the end of the step.",
            "--at-rest",
        ),
    ] = False,
    law: output.Law = None,
    tol: Annotated[float, option("Tolerance of errors, relative to the local load.")] = 1e-6,
    plot: output.Picture = None,
    as_json: output.Json = False,
    time_limit: Annotated[float | None, option("Time limit in seconds.")] = None,
) -> None:
    """Check contact forces from another program.

    The verdict is an error of mechanics, not admissible, or a choice among admissible forces. Exit
    code: 0 if the forces are right, 1 if they are wrong or the input is bad.
    """
    step: Any
    f_t: Any
    if bodies is not None:
        try:
            listed = cdopt.interop.contact_lists.read(
                problem, bodies, friction, columns=columns, density=density,
                gravity=None if gravity is None else _vector(gravity),
                fixed=() if fixed is None else _ids(fixed),
            )  # fmt: skip
        except cdopt.InvalidInput as error:
            expected = error.expected.replace("columns= gives", "--columns gives")
            raise cdopt.InvalidInput(error.argument, error.found, expected) from error
        name, scene, step, f, f_t = problem, None, listed.step, listed.f, listed.f_t
    else:
        if forces is None and Path(problem).suffix in _TABLES:
            raise cdopt.InvalidInput("--bodies", "none", "the table of bodies of a contact list")
        named = cdopt.open_problem(problem)
        name, scene, step = named.name, named.bodies, output.step_of(named)
        if forces is None:
            raise cdopt.InvalidInput("--forces", "none", "a file of forces")
        f, f_t = cdopt.interop.contact_lists.read_forces(forces, step)
    rest = [0.0] * step.nv if at_rest and step.nv else None
    with output.solving("audit", as_json, problem=name):
        verdict = cdopt.audit(step, f, f_t, rest, law, tol=tol, time_limit=time_limit)
    if as_json:
        output.print_json({"problem": name, **verdict.as_dict()})
    else:
        output.say(verdict.summary)
        output.say(verdict.basis, "dim")
        findings = verdict.table()
        brief = [
            (*row, result if len(result) <= _SHORT else "see below") for *row, result in findings
        ]
        output.print_table(("finding", "value", "result"), brief, ["value"])
        for what, _, result in findings:
            if len(result) > _SHORT:
                output.say(f"{what}: {result}")
        for headings, rows in verdict.body_tables():
            output.print_table(headings, rows, headings[1:])
    if plot is not None:
        figure = cdopt.plots.audited_forces(verdict, bodies=scene, title=name)
        output.save_picture(figure, plot)
    if not verdict.ok:
        raise typer.Exit(output.NO_ANSWER)


def _vector(value: str) -> list[float]:
    """The value of ``--gravity``."""
    try:
        return [float(word) for word in output.split([value])]
    except ValueError:
        raise cdopt.InvalidInput("--gravity", repr(value), "numbers separated by commas") from None


def _ids(value: str) -> list[int]:
    """The value of ``--fixed``: ids, and ranges that include both ends."""
    ids: list[int] = []
    try:
        for word in output.split([value]):
            first, _, last = word.partition("-")
            ids += range(int(first), int(last or first) + 1)
    except ValueError:
        raise cdopt.InvalidInput("--fixed", repr(value), "ids, such as 1-9,12") from None
    return ids
