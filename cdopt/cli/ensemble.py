"""``cdopt ensemble``: uniform samples of the admissible forces, compared with solvers' answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option

if TYPE_CHECKING:
    from cdopt import StepSolution
    from cdopt._util.checks import FloatArray
    from cdopt.hyperstatic import Ensemble, Place, ReferenceForces
    from cdopt.study import NamedProblem

ROWS = 40  # contacts that are all listed; of more, those with the largest numbers


def ensemble(
    problem: output.ProblemName,
    draws: Annotated[int, option("Number of stored samples of each chain.")] = 1000,
    chains: Annotated[int, option("Number of independent chains.")] = 4,
    seed: Annotated[int, option("Seed of the random numbers.")] = 0,
    thin: Annotated[int, option("Number of sweeps before each stored sample.")] = 10,
    solver: Annotated[list[str] | None, output.solvers("Solvers whose forces to place.")] = None,
    plot: output.Picture = None,
    frictionless: output.Frictionless = False,
    law: output.Law = None,
    as_json: output.Json = False,
) -> None:
    """Draw uniform samples of the admissible contact forces.

    This is the force network ensemble: the distribution of forces from balance alone, and how
    typical the answers of solvers are. Exit code: 0 if the chains have converged, 1 if not or the
    input is bad, 2 if the problem is proven infeasible.
    """
    named = output.open_problem(problem, "ensembles", frictionless, law)
    step, title = output.step_of(named), "FrictionalCD" if law else "ClassicCD"
    with output.solving(title, as_json, problem=named.name, problem_title=named.title):
        samples = cdopt.ensemble(step, draws, chains, seed, thin=thin, law=law)
        answers = _answers(named, samples, law, output.split(solver))
    power = named.power if law is None else None
    places = {name: samples.place(a.f, power, f_t=a.f_t) for name, a in answers.items()}
    if as_json:
        output.print_json(_ensemble_record(named, samples, places))
    else:
        _print_ensemble(named, samples, places)
    if plot is not None:
        marks = {name: answer.f for name, answer in answers.items()}
        texts = {"title": named.name, "subtitle": named.title}
        output.save_picture(cdopt.plots.force_ensemble(samples, marks, **texts), plot)
    if not samples.converged:
        raise typer.Exit(output.NO_ANSWER)


def _answers(
    named: NamedProblem, samples: Ensemble, law: str | None, solvers: Sequence[str]
) -> dict[str, StepSolution | ReferenceForces]:
    """The compatible forces and those of solvers, by name; answers without forces are left out."""
    asked = [(name, law or "classic", name) for name in solvers]
    answers: dict[str, Any] = {}
    if law is None:
        asked = [("compatible", "compatible", output.REFERENCE_BACKEND), *asked]
    else:
        selection = cdopt.hyperstatic.place_solutions(samples.report, [])
        answers = {"compatible": selection.compatible, "Haar–Kármán": selection.haar_karman}
    for name, formulation, backend in asked:
        solutions = cdopt.study.solve_named(named, formulation, [backend])
        for error in solutions.failures.values():
            raise error
        answers[name] = solutions[0]
    return {name: a for name, a in answers.items() if a is not None and a.f is not None}


def _print_ensemble(named: NamedProblem, samples: Ensemble, places: dict[str, Place]) -> None:
    output.say(f"{named.name}: {named.title}", "dim")
    output.say(repr(samples))
    columns = {"mean": samples.mean, "spread": samples.std}
    columns |= {"5 %": samples.quantile(0.05), "95 %": samples.quantile(0.95)}
    columns |= {name: place.f for name, place in places.items()}
    rows, names, total = largest(samples.std), named.contact_names, samples.mean.size
    top = output.largest_finite(x[i] for x in columns.values() for i in rows)
    table = [(names[i], *(output.force(x[i], top) for x in columns.values())) for i in rows]
    headings = ["contact", *columns]
    output.print_table(headings, table, headings)
    listed = f"the {ROWS} with the largest spread, of {total:,}; " if total > ROWS else ""
    output.say(f"{listed}forces in N", "dim")
    if not samples.parts:
        return
    table = []
    for name, place in places.items():
        far = (f"{place.distance:.2f}", f"{place.depth:.1%}")
        far = far if not math.isnan(place.distance) else ("not known",) * 2
        table.append((name, *far, f"{place.less_energy:.1%}"))
    headings = ["answer", "distance", "farther out", "less energy"]
    output.print_table(headings, table, headings[1:])
    output.say(
        f"distance from the mean in standard deviations, about {math.sqrt(samples.dimension):.1f} "
        "for a typical sample; shares of the samples",
        "dim",
    )


def largest(values: FloatArray) -> list[int]:
    """The listed number of contacts with the largest ``values`` (nc,), in their order."""
    numbers = values.tolist()
    return sorted(sorted(range(len(numbers)), key=lambda i: -numbers[i])[:ROWS])


def _ensemble_record(
    named: NamedProblem, samples: Ensemble, places: dict[str, Place]
) -> dict[str, Any]:
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
