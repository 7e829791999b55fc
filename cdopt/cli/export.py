"""``cdopt export``: a problem as a file for other solvers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option


def export(
    problem: output.ProblemName,
    out: Annotated[
        str,
        option(
            "Path of the file: .mps or .qps for quadratic programs, .cbf for cones, "
            ".npz or .mat for both.",
            metavar="FILE",
        ),
    ],
    formulation: Annotated[
        str | None,
        option(
            "classic-force (default of steps), classic-velocity, truss-complementary (default of "
            "trusses), truss-potential, associated (default with friction; also in the force form, "
            "associated-force)."
        ),
    ] = None,
    frictionless: output.Frictionless = False,
    power: output.Power = None,
    physical: Annotated[
        bool,
        option(
            "Write physical units: forces in N, motions in m/s or m, the objective in J or N m/s.",
            "--physical",
        ),
    ] = False,
    force: output.Force = False,
    as_json: output.Json = False,
) -> None:
    """Write a problem as a file for another solver.

    The problem is named as in cdopt solve. In Python, formulation.from_vector(x, y) converts the
    answer of the solver to a certified solution in newtons. Exit code: 0, or 1 if the input is bad.
    """
    named = cdopt.open_problem(problem, power, frictionless=frictionless)
    stated = _stated(named, formulation)
    with output.replacing(force, out):
        program = cdopt.interop.exports.write(out, stated, physical=physical)
    sizes = {"unknowns": program.n, "rows": program.l.size, "cones": program.cones.size}
    if as_json:
        output.print_json({"file": str(Path(out)), "formulation": stated.name, **sizes})
        return
    listed = ", ".join(f"{number:,} {name}" for name, number in sizes.items())
    output.say(f"{out}: {stated.name}, {listed}")
    units = "N, m/s and J" if physical else "units of the problem's scales"
    output.say(f"in {units}; back to newtons: from_vector(x, y) of the formulation", "dim")


def _stated(named: cdopt.study.NamedProblem, asked: str | None) -> cdopt.formulations.Formulation:
    """The requested formulation, or the default."""
    step = named.step
    rough = step is not None and step.friction is not None
    usual = "associated" if rough else "classic-force"
    name = asked or ("truss-complementary" if step is None else usual)
    if step is not None and rough and name in ("associated", "associated-force"):
        return cdopt.FrictionalCD(step, "associated", "force" if name.endswith("force") else None)
    known = ("classic-force", "classic-velocity", "truss-complementary", "truss-potential")
    if name not in (*known, "associated", "associated-force"):
        expected = f"one of {', '.join(known)}, associated"
        raise cdopt.InvalidInput("--formulation", repr(name), expected)
    if name.startswith("associated"):
        raise cdopt.Unsupported(name, "the problem has no friction", known)
    stated = cdopt.study.comparison.formulation_of(named, name)
    if not isinstance(stated, cdopt.formulations.Formulation):
        raise cdopt.Unsupported(name, "it is no single program", known)
    return stated
