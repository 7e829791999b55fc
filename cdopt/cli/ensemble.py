"""``cdopt ensemble``: uniform samples of the admissible forces, and where solvers' answers lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import (
    REFERENCE_BACKEND,
    Frictionless,
    Json,
    Law,
    Picture,
    ProblemName,
    solvers,
    split,
)

if TYPE_CHECKING:
    from cdopt import StepSolution
    from cdopt.hyperstatic import Centre, Ensemble, Place
    from cdopt.study import NamedProblem

HELP = (
    "Draw contact forces uniformly from all that are admissible, the force network ensemble: what "
    "to expect from balance alone, and how typical single answers are. Exit code: 0 when the "
    "chains have converged, 1 when not or the input is bad, 2 when the problem is proven "
    "infeasible."
)
ROWS = 40  # contacts that are listed


def ensemble(
    problem: ProblemName,
    draws: Annotated[int, typer.Option(help="Kept samples of each chain.")] = 1000,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    thin: Annotated[int, typer.Option(help="Sweeps before each kept sample.")] = 10,
    solver: Annotated[list[str] | None, solvers("Solvers whose forces to place.")] = None,
    plot: Picture = None,
    frictionless: Frictionless = False,
    law: Law = None,
    as_json: Json = False,
) -> None:
    """Draw contact forces uniformly from all that are admissible."""
    with output.errors_in_one_line():
        if plot is not None:
            cdopt.plots.check_path(plot)
        named = output.open_problem(problem, "ensembles", frictionless, law)
        step, title = output.step_of(named), "FrictionalCD" if law else "ClassicCD"
        with (
            output.proof_or_error(title, as_json, problem=named.name, problem_title=named.title),
            output.solvers_kept_quiet(to_stderr=as_json),
        ):
            samples = cdopt.ensemble(step, draws, chains, seed, thin=thin, law=law)
            answers = _answers(named, samples, law, split(solver))
        power = named.power if law is None else None
        places = {name: samples.place(a.f, power, f_t=a.f_t) for name, a in answers.items()}
        if as_json:
            output.print_json(_record(named, samples, places))
        else:
            _print(named, samples, places)
        if plot is not None:
            marks = {name: answer.f for name, answer in answers.items()}
            figure = cdopt.plots.force_ensemble(
                samples, marks, title=named.name, subtitle=named.title
            )
            output.save_picture(figure, plot)
    if not samples.converged:
        raise typer.Exit(output.NO_ANSWER)


def _answers(
    named: NamedProblem, samples: Ensemble, law: str | None, solvers: Sequence[str]
) -> dict[str, StepSolution | Centre]:
    """The compatible forces and those of solvers, by name; answers without forces are left out.

    Raises
    ------
    SolveFailed, Unsupported, BackendUnavailable : a solver has no answer.
    """
    asked = [(name, law or "classic", name) for name in solvers]
    answers: dict[str, Any] = {}
    if law is None:
        asked = [("compatible", "compatible", REFERENCE_BACKEND), *asked]
    else:
        selection = cdopt.hyperstatic.which_force(samples.report, [])
        answers = {"compatible": selection.compatible, "Haar–Kármán": selection.haar_karman}
    for name, formulation, backend in asked:
        solutions = cdopt.study.solve_named(named, formulation, [backend])
        for error in solutions.failures.values():
            raise error
        answers[name] = solutions[0]
    return {name: a for name, a in answers.items() if a is not None and a.f is not None}


def _print(named: NamedProblem, samples: Ensemble, places: dict[str, Place]) -> None:
    out, total = output.console(), samples.mean.size
    output.say(f"{named.name}: {named.title}", "dim")
    output.say(repr(samples))
    names, numbers = named.contact_names, ("mean", "spread", "5 %", "95 %", *places)
    table = output.table("contact", *numbers, numbers=("contact", *numbers))
    columns = [samples.mean, samples.std, samples.quantile(0.05), samples.quantile(0.95)]
    columns += [place.f for place in places.values()]
    rows = largest(samples.std)
    top = output.largest_finite(x[i] for x in columns for i in rows)
    for i in rows:
        table.add_row(names[i], *(output.force(x[i], top) for x in columns))
    out.print(table)
    listed = f"the {ROWS} with the largest spread, of {total:,}; " if total > ROWS else ""
    output.say(f"{listed}forces in N", "dim")
    if not samples.parts:
        return
    headings = ("answer", "distance", "farther out", "less energy")
    distances = output.table(*headings, numbers=headings[1:])
    for name, place in places.items():
        known = not math.isnan(place.distance)
        far = (f"{place.distance:.2f}", f"{place.depth:.1%}") if known else ("not known",) * 2
        distances.add_row(name, *far, f"{place.less_energy:.1%}")
    out.print(distances)
    output.say(
        f"distance from the mean in standard deviations, about {math.sqrt(samples.dimension):.1f} "
        "for a typical sample; shares of the samples",
        "dim",
    )


def largest(values: Any) -> list[int]:
    """The contacts with the largest ``values`` (nc,), as many as are listed, in their order."""
    numbers = values.tolist()
    return sorted(sorted(range(len(numbers)), key=lambda i: -numbers[i])[:ROWS])


def _record(named: NamedProblem, samples: Ensemble, places: dict[str, Place]) -> dict[str, Any]:
    """Plain values for JSON."""
    columns = {name: getattr(samples, name) for name in ("mean", "std", "rhat", "bulk", "tail")}
    fields = ("distance", "depth", "energy", "less_energy", "outside")
    return {
        "problem": named.name,
        "dimension": samples.dimension,
        "converged": samples.converged,
        "verdict": samples.verdict,
        "chains": samples.samples.shape[0],
        "draws": samples.samples.shape[1],
        "seed": samples.seed,
        "contacts": [
            {"contact": name, **{column: values[i] for column, values in columns.items()}}
            for i, name in enumerate(named.contact_names)
        ],
        "answers": {
            name: {"forces": place.f, **{field: getattr(place, field) for field in fields}}
            for name, place in places.items()
        },
    }
