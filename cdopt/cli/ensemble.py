"""``cdopt ensemble`` and ``cdopt sensitivity``: typical forces, and what stiffness does to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from cdopt import plots
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.cli import bounds_output as cli_bounds_output
from cdopt.cli import output as cli_output
from cdopt.cli.output import INFEASIBLE, NO_ANSWER
from cdopt.cli.problem import AsJson, PlotFile, ProblemName
from cdopt.formulations import ClassicCD, CompatibleCD, NoTensionTruss
from cdopt.hyperstatic import Ensemble, Place, Sensitivity, ensemble, sensitivity
from cdopt.plots import force_ensemble, stiffness_influence
from cdopt.study.compare import SHARPEST
from cdopt.study.named_problem import NamedProblem, open_problem

ENSEMBLE_HELP = (
    "Draw contact forces uniformly from all that are admissible, the force network ensemble: what "
    "balance alone leads one to expect, and how typical single answers are. Exit code: 0 when the "
    "chains have converged, 1 when not or the input is bad, 2 when the problem is proven "
    "infeasible."
)
SENSITIVITY_HELP = (
    "Differentiate the compatible forces of a problem: for each contact, whose stiffness moves its "
    "force most. Exit code: 0, 1 when the input is bad or derivatives are one-sided, 2 when the "
    "problem is proven infeasible."
)
_ROUND = 1e-12  # of the largest force: smaller derivatives are shown as zero
_ROWS = 40  # contacts that are listed

_Draws = Annotated[int, typer.Option(help="Kept samples of each chain.")]
_Chains = Annotated[int, typer.Option(help="Independent chains.")]
_Seed = Annotated[int, typer.Option(help="Of the random numbers.")]
_Thin = Annotated[int, typer.Option(help="Sweeps before each kept sample.")]
_Solvers = Annotated[
    list[str] | None, typer.Option(help="Solver whose forces to place; may be repeated.")
]
_Power = Annotated[
    float | None,
    typer.Option(help="Power of the contact energy, 2 Hooke, 2.5 Hertz; default the problem's."),
]


def sample(
    problem: ProblemName,
    draws: _Draws = 1000,
    chains: _Chains = 4,
    seed: _Seed = 0,
    thin: _Thin = 10,
    solver: _Solvers = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Draw contact forces uniformly from all that are admissible."""
    with cli_output.errors_in_one_line():
        if plot is not None:
            plots.check_path(plot)
        task = open_problem(problem, None)
        if task.step is None:
            raise InvalidInput("problem", f"{task.name}, a truss", "a contact step")
        with _infeasible_told(task, as_json), cli_output.solvers_kept_quiet(False, as_json):
            found = ensemble(task.step, draws, chains, seed, thin=thin)
            answers = {"compatible": CompatibleCD(task.step, task.power).solve(SHARPEST).f}
            for name in solver or []:
                answers[name] = ClassicCD(task.step).solve(name).f
        kept = {name: f for name, f in answers.items() if f is not None}
        places = {name: found.place(f, task.power) for name, f in kept.items()}
        if as_json:
            cli_output.print_json(_record(task, found, places))
        else:
            _print(task, found, places)
        if plot is not None:
            plots.save(force_ensemble(found, kept, title=task.name, subtitle=task.title), plot)
            typer.echo(f"picture: {plot}", err=True)
    if not found.converged:
        raise typer.Exit(NO_ANSWER)


def differentiate(
    problem: ProblemName,
    power: _Power = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Say whose stiffness moves each compatible force most."""
    with cli_output.errors_in_one_line():
        if plot is not None:
            plots.check_path(plot)
        task = open_problem(problem, power)
        with _infeasible_told(task, as_json), cli_output.solvers_kept_quiet(False, as_json):
            found = _differentiated(task)
        matrix = found.log_stiffness
        if as_json:
            content = {"problem": task.name, "power": task.power, "contacts": task.contact_names}
            numbers = {"forces": found.f, "log_stiffness": matrix, "power_derivative": found.power}
            lists = {name: values.tolist() for name, values in numbers.items()}
            cli_output.print_json({**content, **lists})
        else:
            _print_influence(task, found, matrix)
        if plot is not None:
            names = task.contact_names
            figure = stiffness_influence(found, names, title=task.name, subtitle=task.title)
            plots.save(figure, plot)
            typer.echo(f"picture: {plot}", err=True)


def _differentiated(task: NamedProblem) -> Sensitivity:
    if task.step is not None:
        return sensitivity(task.step, task.power)
    if task.truss is None:
        raise InvalidInput("problem", task.name, "a contact step or a truss")
    return sensitivity(NoTensionTruss.of(task.truss))


@contextlib.contextmanager
def _infeasible_told(task: NamedProblem, as_json: bool) -> Iterator[None]:
    """Print a proof that there are no forces, and leave with its exit code."""
    try:
        yield
    except SolveFailed as error:
        if error.proof is None:
            raise
        cli_bounds_output.print_infeasible(task, error, as_json)
        raise typer.Exit(INFEASIBLE) from None


# --- words -----------------------------------------------------------------------------


def _print(task: NamedProblem, found: Ensemble, places: dict[str, Place]) -> None:
    out = cli_output.console()
    out.print(Text(f"{task.name}: {task.title}", style="dim"))
    out.print(repr(found), markup=False, highlight=False, soft_wrap=True)
    shown = _shown(found.std)
    table = _table("contact", "mean", "spread", "5 %", "95 %", *places)
    columns = [found.mean, found.std, found.quantile(0.05), found.quantile(0.95)]
    columns += [place.f for place in places.values()]
    for i in shown.tolist():
        table.add_row(_name(task, i), *(cli_output.force(float(x[i])) for x in columns))
    out.print(table)
    if shown.size < found.mean.size:
        out.print(Text(f"the {shown.size} with the largest spread, of {found.mean.size:,}; forces "
                       "in N", style="dim"))  # fmt: skip
    if not found.parts:
        return
    rows = _table("answer", "distance", "farther out", "less energy")
    for name, place in places.items():
        known = not np.isnan(place.distance)
        far = (f"{place.distance:.2f}", f"{place.depth:.1%}") if known else ("not known",) * 2
        rows.add_row(name, *far, f"{place.less_energy:.1%}")
    out.print(rows)
    typical = float(np.sqrt(found.dimension))
    out.print(Text(f"distance from the mean in standard deviations, about {typical:.1f} for "
                   "a typical sample; shares of the samples", style="dim"))  # fmt: skip


def _print_influence(task: NamedProblem, found: Sensitivity, matrix: FloatArray) -> None:
    out = cli_output.console()
    out.print(Text(f"{task.name}: {task.title}", style="dim"))
    out.print(repr(found), markup=False, highlight=False, soft_wrap=True)
    shown = _shown(np.abs(matrix).max(axis=1, initial=0.0))
    table = _table("contact", "force", "own", "most moved by", "gains")
    matrix = np.where(np.abs(matrix) > _ROUND * found.f.max(initial=0.0), matrix, 0.0)
    for i in shown.tolist():
        others = np.abs(matrix[i])
        others[i] = 0.0
        j = int(np.argmax(others))
        by = _name(task, j) if others[j] > 0.0 else "none"
        numbers = found.f[i], matrix[i, i]
        table.add_row(_name(task, i), *(f"{x:.4g}" for x in numbers), by, f"{matrix[i, j]:.4g}")
    out.print(table)
    words = (
        "own: ∂f/∂log k, N, by the contact's own stiffness: 1 % stiffer gains a hundredth of it; "
        "gains: by that of the other one that moves it most"
    )
    out.print(Text(words, style="dim"))


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _shown(size: FloatArray) -> IntArray:
    """The contacts with the largest values, in their order."""
    return np.sort(np.argsort(-size, kind="stable")[:_ROWS])


def _name(task: NamedProblem, i: int) -> str:
    names = task.contact_names
    return names[i] if i < len(names) else str(i)


def _record(task: NamedProblem, found: Ensemble, places: dict[str, Place]) -> dict[str, Any]:
    """Plain values for JSON; what is unknown or infinite is None."""
    return {
        "problem": task.name,
        "dimension": found.dimension,
        "converged": found.converged,
        "verdict": found.verdict,
        "chains": found.samples.shape[0],
        "draws": found.samples.shape[1],
        "seed": found.seed,
        "contacts": [
            {
                "contact": _name(task, i),
                "mean": float(found.mean[i]),
                "std": float(found.std[i]),
                "rhat": float(found.rhat[i]),
                "bulk": float(found.bulk[i]) if np.isfinite(found.bulk[i]) else None,
                "tail": float(found.tail[i]) if np.isfinite(found.tail[i]) else None,
            }
            for i in range(found.mean.size)
        ],
        "answers": {
            name: {
                "forces": place.f.tolist(),
                "distance": None if np.isnan(place.distance) else place.distance,
                "depth": None if np.isnan(place.depth) else place.depth,
                "energy": place.energy,
                "less_energy": place.less_energy,
                "outside": place.outside,
            }
            for name, place in places.items()
        },
    }
