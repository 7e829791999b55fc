"""The command line: a thin face over ``cdopt.bank``, ``cdopt.study`` and ``cdopt.plots``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from cdopt import bank, checks, cli_output, plots
from cdopt.bank import BankProblem
from cdopt.certificate import TOLERANCE
from cdopt.contact_law import HOOKE
from cdopt.errors import InvalidInput, Unsupported
from cdopt.formulations import ClassicCD, CompatibleCD, NoTensionTruss
from cdopt.step import ContactStep
from cdopt.study.compare import Comparison, compare
from cdopt.study.solutions import SolutionSet, attempt, choose_backends
from cdopt.study.words import plain

FORMULATIONS = ("compare", "classic", "compatible", "truss")
SOLVERS = ("clarabel", "osqp", "scs", "highs", "piqp", "qoco", "moreau", "proxqp", "daqp")

NO_ANSWER, INFEASIBLE = 1, 2  # exit codes

app = typer.Typer(
    help="Rigid-body contact posed as convex optimisation: solve, compare, certify.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@dataclass(frozen=True)
class Task:
    """What to solve: a step or a truss, under a name.

    Attributes
    ----------
    name, title : for headings.
    power : p of the contact energy.
    step : the step, or None for a truss.
    truss : the bank's truss, or None for a step.
    """

    name: str
    title: str
    power: float
    step: ContactStep | None = None
    truss: BankProblem | None = None

    @property
    def contact_names(self) -> list[str]:
        """Names of the contacts, their numbers where they have none."""
        if self.step is not None and self.step.contact_ids is not None:
            return [str(name) for name in self.step.contact_ids]
        known = self.step if self.step is not None else self.truss
        if known is None or known.stiffness is None:
            return []
        return [str(i) for i in range(known.stiffness.shape[0])]


def _load(problem: str, power: float | None) -> Task:
    """A bank problem by name, or a step by the path of its file."""
    if problem.endswith(".npz"):
        step = ContactStep.load(problem)
        return Task(Path(problem).name, repr(step), HOOKE if power is None else power, step)
    found = bank.load(problem)
    chosen = found.power if power is None else power
    truss = found if found.kind == "truss" else None
    return Task(found.name, found.title, chosen, found.step, truss)


def _run(
    task: Task,
    formulation: str,
    solvers: list[str],
    tol: float,
    verbose: bool,
    progress: Callable[[str], None],
) -> SolutionSet:
    """Solve a task in one formulation with each solver."""
    step = task.step
    left_out: dict[str, str] = {}
    if (step is None) != (formulation == "truss"):
        can = ("truss",) if step is None else FORMULATIONS[:-1]
        kind = "a truss" if step is None else "a contact step"
        raise Unsupported(f"formulation {formulation!r}", f"{task.name} is {kind}", can)
    if step is None:
        return _run_truss(task, solvers, tol, verbose, progress)
    conic = formulation == "compatible" and task.power != HOOKE
    if not solvers:
        solvers, left_out = choose_backends(step.nc, SOLVERS, "SOCP" if conic else "QP")
    if formulation == "compatible":
        compatible = CompatibleCD(step, task.power)
        solutions, failures = attempt(
            lambda b: compatible.solve(b, tol=tol, verbose=verbose), solvers, progress
        )
        return SolutionSet(
            solutions, title=compatible.name, tol=tol, failures=failures, left_out=left_out
        )
    result = compare(
        step,
        solvers,
        power=task.power,
        tol=tol,
        compatible_backend="clarabel" if formulation == "compare" else None,
        verbose=verbose,
        progress=progress,
    )
    result.left_out = MappingProxyType(left_out)
    return result


def _run_truss(
    task: Task, solvers: list[str], tol: float, verbose: bool, progress: Callable[[str], None]
) -> SolutionSet:
    problem = task.truss
    if problem is None:
        raise InvalidInput("problem", "neither step nor truss", "one of the two")
    truss = NoTensionTruss(problem.B, problem.contact_load, problem.stiffness, task.power)
    left_out: dict[str, str] = {}
    if not solvers:
        solvers, left_out = choose_backends(truss.data.nc, SOLVERS, truss.problem_class)
    solutions, failures = attempt(
        lambda b: truss.solve(b, tol=tol, verbose=verbose), solvers, progress
    )
    return SolutionSet(solutions, title=truss.name, tol=tol, failures=failures, left_out=left_out)


def _exit_code(solutions: SolutionSet, compared: bool) -> int:
    """0 for a certified answer, 1 for none, 2 for a proof that there is none."""
    if solutions.proof is not None:
        return INFEASIBLE
    if compared and isinstance(solutions, Comparison):
        found = solutions.compatible
        return 0 if found is not None and found.ok else NO_ANSWER
    return 0 if solutions.certified else NO_ANSWER


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False))


@app.command()
def solve(
    problem: Annotated[
        str,
        typer.Argument(
            help="A bank problem, such as beam-uniform or pyramid-hooke:n=10, or a .npz file "
            "written by ContactStep.save."
        ),
    ],
    formulation: Annotated[
        str | None,
        typer.Option(
            help="compare: classic contact dynamics by several solvers, then the compatible "
            "forces (default for steps); classic; compatible; truss (default for trusses)."
        ),
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(help="Solver to use; may be repeated. Default: all that suit the problem."),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="Power of the contact energy, 2 Hooke, 2.5 Hertz; default the problem's."
        ),
    ] = None,
    tol: Annotated[float, typer.Option(help="Tolerance of the certificates.")] = TOLERANCE,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON and nothing else, forces included.")
    ] = False,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw a picture: .png, .pdf or .svg.")
    ] = None,
    verbose: Annotated[bool, typer.Option(help="Let the solvers print.")] = False,
) -> None:
    """Solve a contact problem with several solvers and certify every answer.

    Exit code: 0 when the compatible (or the only) answer is certified, 1 when none is or the
    input is bad, 2 when the problem is proven infeasible.
    """
    with cli_output.errors_in_one_line():
        task = _load(problem, power)
        default = "truss" if task.step is None else "compare"
        chosen = checks.choice("--formulation", formulation or default, FORMULATIONS)
        if plot is not None:
            plots.check_path(plot)
        with cli_output.progress() as tell, cli_output.solvers_kept_quiet(verbose, as_json):
            solutions = _run(task, chosen, solver or [], tol, verbose, tell)
        if as_json:
            size = {"problem": task.name, "formulation": chosen, "power": task.power}
            _print_json({**size, **solutions.as_dict(forces=True)})
        else:
            heading = f"{task.name}: {task.title}, p = {task.power:g}"
            cli_output.print_solutions(solutions, heading, task.contact_names)
        if plot is not None:
            plots.save(plots.story(task.step, solutions), plot)
            typer.echo(f"picture: {plot}", err=True)
    code = _exit_code(solutions, chosen == "compare")
    if code:
        raise typer.Exit(code)


@app.command()
def backends(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List every known solver: whether it is here, what it takes, how it spells accuracy."""
    if as_json:
        _print_json(cli_output.backend_records())
    else:
        cli_output.print_backends()


@app.command()
def problems(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the problems of the bank."""
    with cli_output.errors_in_one_line():
        if as_json:
            _print_json(cli_output.problem_records())
        else:
            cli_output.print_problems()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cdopt {version('cdopt')}")
        raise typer.Exit()


@app.callback()
def main(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Rigid-body contact posed as convex optimisation: solve, compare, certify."""


if __name__ == "__main__":
    app()
