"""The command line: a thin face over ``cdopt.bank``, ``cdopt.study`` and ``cdopt.plots``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Annotated, Any

import typer

from cdopt import plots
from cdopt._util import checks
from cdopt._util.errors import Unsupported
from cdopt.backends import Backend, resolve
from cdopt.cli import bounds as cli_bounds
from cdopt.cli import compare as cli_compare
from cdopt.cli import ensemble as cli_ensemble
from cdopt.cli import explore as cli_explore
from cdopt.cli import output as cli_output
from cdopt.cli import report as cli_report
from cdopt.cli import show as cli_show
from cdopt.cli import simulate as cli_simulate
from cdopt.cli import solvers as cli_solvers
from cdopt.cli.output import INFEASIBLE, NO_ANSWER
from cdopt.cli.problem import AsJson, PlotFile, ProblemName
from cdopt.formulations import CompatibleCD, NoTensionTruss
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import Step
from cdopt.study.compare import SHARPEST, Comparison, compare
from cdopt.study.named_problem import NamedProblem, open_problem
from cdopt.study.solutions import SolutionSet, attempt, choose_backends

FORMULATIONS = ("compare", "classic", "compatible", "truss")
SOLVERS = (
    "newton", "pgs", "apgd", "augmented-lagrangian",
    "clarabel", "osqp", "scs", "highs", "piqp", "qoco", "moreau", "proxqp", "daqp",
)  # fmt: skip

app = typer.Typer(
    help="Rigid-body contact posed as convex optimisation: solve, compare, certify.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@dataclass(frozen=True)
class Request:
    """How to solve it.

    Attributes
    ----------
    formulation : one of ``FORMULATIONS``.
    solvers : names asked for; none means all that suit the problem.
    compatible_solver : name of the solver of the compatible step of a comparison.
    accuracy : asked of every solver; None leaves their defaults.
    tol, verbose, progress, time_limit : as in ``cdopt.study.compare``.
    """

    formulation: str
    solvers: list[str]
    compatible_solver: str
    accuracy: float | None
    tol: float
    verbose: bool
    progress: Callable[[str], None]
    time_limit: float | None = None

    def backend(self, name: str) -> str | Backend:
        """A solver with the accuracy asked for."""
        return name if self.accuracy is None else resolve(name, accuracy=self.accuracy)

    def backends(
        self, contacts: int, problem_class: str, *kinds: str
    ) -> tuple[list[Any], dict[str, str]]:
        """The solvers asked for, or those that suit the problem; and those left out."""
        names: list[str] = self.solvers
        left_out: dict[str, str] = {}
        if not names:
            names, left_out = choose_backends(contacts, SOLVERS, problem_class, kinds)
        return [self.backend(name) for name in names], left_out


def _run(task: NamedProblem, request: Request) -> SolutionSet:
    """Solve a task in one formulation with each solver."""
    step, known = task.step, task.truss
    if step is not None and request.formulation != "truss":
        if request.formulation != "compatible":
            return _compare(step, task.power, request)
        problem_class = "QP" if task.power == HOOKE else "SOCP"
        return _solve_each(CompatibleCD(step, task.power), step.nc, problem_class, request)
    if known is not None and request.formulation == "truss":
        truss = NoTensionTruss.of(known)
        return _solve_each(truss, truss.data.nc, truss.problem_class, request)
    can = ("truss",) if step is None else FORMULATIONS[:-1]
    kind = "a truss" if step is None else "a contact step"
    raise Unsupported(f"formulation {request.formulation!r}", f"{task.name} is {kind}", can)


def _solve_each(
    problem: CompatibleCD | NoTensionTruss, contacts: int, problem_class: str, request: Request
) -> SolutionSet:
    """One formulation by each solver."""
    kinds = ("truss",) if isinstance(problem, NoTensionTruss) else ("rigid step", "truss")
    backends, left_out = request.backends(contacts, problem_class, *kinds)
    solutions, failures = attempt(
        lambda backend: problem.solve(
            backend, tol=request.tol, verbose=request.verbose, time_limit=request.time_limit
        ),
        backends,
        request.progress,
    )
    return SolutionSet(
        solutions, title=problem.name, tol=request.tol, failures=failures, left_out=left_out
    )


def _compare(step: Step, power: float, request: Request) -> Comparison:
    """Classic contact dynamics by each solver, and the compatible forces unless unwanted."""
    backends, left_out = request.backends(step.nc, "QP", "rigid step")
    wanted = request.formulation == "compare"
    result = compare(
        step,
        backends,
        power=power,
        tol=request.tol,
        compatible_backend=request.backend(request.compatible_solver) if wanted else None,
        verbose=request.verbose,
        progress=request.progress,
        time_limit=request.time_limit,
    )
    result.left_out = MappingProxyType(left_out)
    return result


def _exit_code(solutions: SolutionSet, compared: bool) -> int:
    """0 for a certified answer, 1 for none, 2 for a proof that there is none."""
    if solutions.proof is not None:
        return INFEASIBLE
    if compared and isinstance(solutions, Comparison):
        found = solutions.compatible
        return 0 if found is not None and found.ok else NO_ANSWER
    return 0 if solutions.certified else NO_ANSWER


def _draw(task: NamedProblem, solutions: SolutionSet, path: str) -> None:
    """Write the picture; without a single force there is none, which is said on stderr."""
    everything = list(solutions)
    if isinstance(solutions, Comparison) and solutions.compatible is not None:
        everything.append(solutions.compatible)
    if any(s.f is not None and s.f.size for s in everything):
        plots.save(plots.story(task.step, solutions), path)
        typer.echo(f"picture: {path}", err=True)
    else:
        typer.echo("no picture: there are no contact forces", err=True)


# The options of ``cdopt solve``.
_Formulation = Annotated[
    str | None,
    typer.Option(
        help="compare: classic contact dynamics by several solvers, then the compatible "
        "forces (default for steps); classic; compatible; truss (default for trusses)."
    ),
]
_Solvers = Annotated[
    list[str] | None,
    typer.Option(help="Solver to use; may be repeated. Default: all that suit the problem."),
]
_Power = Annotated[
    float | None,
    typer.Option(help="Power of the contact energy, 2 Hooke, 2.5 Hertz; default the problem's."),
]
_Tol = Annotated[float, typer.Option(help="Tolerance of the certificates.")]
_Accuracy = Annotated[
    float | None,
    typer.Option(help="Accuracy to ask of the solvers, such as 1e-10; default their own."),
]
_CompatibleSolver = Annotated[
    str,
    typer.Option(metavar="NAME", help="Solver of the compatible step, when comparing."),
]
_JustJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
_TimeLimit = Annotated[
    float | None, typer.Option(help="Seconds for each solver; default no limit.")
]
_Verbose = Annotated[bool, typer.Option("--verbose", help="Let the solvers print.")]


@app.command(
    help="Solve a contact problem with several solvers and certify every answer. Exit code: 0 when "
    "the compatible (or the only) answer is certified, 1 when none is or the input is bad, 2 when "
    "the problem is proven infeasible."
)
def solve(
    problem: ProblemName,
    formulation: _Formulation = None,
    solver: _Solvers = None,
    power: _Power = None,
    tol: _Tol = TOLERANCE,
    accuracy: _Accuracy = None,
    compatible_solver: _CompatibleSolver = SHARPEST,
    as_json: AsJson = False,
    plot: PlotFile = None,
    verbose: _Verbose = False,
    time_limit: _TimeLimit = None,
) -> None:
    """Solve a contact problem with several solvers and certify every answer."""
    with cli_output.errors_in_one_line():
        task = open_problem(problem, power)
        default = "truss" if task.step is None else "compare"
        chosen = checks.choice("--formulation", formulation or default, FORMULATIONS)
        if plot is not None:
            plots.check_path(plot)
        with cli_output.progress() as tell, cli_output.solvers_kept_quiet(verbose, as_json):
            names = solver or []
            asked = Request(
                chosen, names, compatible_solver, accuracy, tol, verbose, tell, time_limit
            )
            solutions = _run(task, asked)
        if as_json:
            what = {"problem": task.name, "problem_title": task.title, "formulation": chosen}
            cli_output.print_json({**what, "power": task.power, **solutions.as_dict(forces=True)})
        else:
            heading = f"{task.name}: {task.title}, p = {task.power:g}"
            cli_output.print_solutions(solutions, heading, task.contact_names)
        if plot is not None:
            _draw(task, solutions, plot)
    code = _exit_code(solutions, chosen == "compare")
    if code:
        raise typer.Exit(code)


app.command(help=cli_compare.HELP)(cli_compare.compare)
app.command(help=cli_report.HELP)(cli_report.report)
app.command(help=cli_solvers.HELP)(cli_solvers.solvers)
app.command(help=cli_bounds.HELP)(cli_bounds.bounds)
app.command("ensemble", help=cli_ensemble.ENSEMBLE_HELP)(cli_ensemble.sample)
app.command("sensitivity", help=cli_ensemble.SENSITIVITY_HELP)(cli_ensemble.differentiate)
app.command(help=cli_simulate.HELP)(cli_simulate.simulate)
app.command(help=cli_show.HELP)(cli_show.show)
app.command(help=cli_explore.HELP)(cli_explore.explore)


@app.command()
def backends(as_json: _JustJson = False) -> None:
    """List every known solver: whether it is here, what it takes, how it spells accuracy."""
    if as_json:
        cli_output.print_json(cli_output.backend_records())
    else:
        cli_output.print_backends()


@app.command()
def problems(as_json: _JustJson = False) -> None:
    """List the problems of the bank."""
    with cli_output.errors_in_one_line():
        if as_json:
            cli_output.print_json(cli_output.problem_records())
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
