"""``cdopt bounds``, ``ensemble``, ``sensitivity``, ``limit``: what balance leaves open."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import count, one_line, short
from cdopt.cli import output
from cdopt.cli.output import option
from cdopt.cli.solve import print_failures

if TYPE_CHECKING:
    from cdopt import StepSolution
    from cdopt._util.checks import FloatArray
    from cdopt.hyperstatic import Centre, Ensemble, FrictionalIndeterminacy, Place
    from cdopt.study import NamedProblem
    from cdopt.study.bounds import BoundedProblem

ROWS = 40  # contacts that are all listed; of more, those with the largest numbers
WIDEST = 10  # intervals that are listed of more
_STYLES = {"unique": "green", "failed": "bold red", "unbounded": "bold"}
_ALIKE = 1e-6  # relative difference of derivatives that are a tie
_ROUND = 1e-12  # of the largest force: smaller derivatives are shown as zero


# --- bounds -------------------------------------------------------------------------------


def bounds(
    problem: output.ProblemName,
    contacts: Annotated[
        str,
        option(
            "Contacts to bound: all; a number K of contacts, evenly spread over those not "
            "determined; or a list with commas, of numbers from 0 on or of names (a single one: "
            "3,).",
            metavar="all|K|I,J,…",
        ),
    ] = "all",
    solver: Annotated[
        list[str] | None,
        output.solvers("Solvers whose forces to place between the bounds."),
    ] = None,
    classic: Annotated[
        str, option("Solver of the classic step that gives the load.", metavar="NAME")
    ] = output.REFERENCE_BACKEND,
    tol: Annotated[
        float, option("Share of the load that counts as no force; also the rank's.")
    ] = 1e-9,
    jobs: Annotated[
        int | None, option("Programs solved at a time; default one for each core.")
    ] = None,
    plot: output.Picture = None,
    to_csv: Annotated[
        str | None, option("Write a row for each contact to a file.", "--csv", metavar="FILE")
    ] = None,
    frictionless: output.Frictionless = False,
    law: output.Law = None,
    as_json: output.Json = False,
    time_limit: Annotated[
        float | None, option("Seconds for all of it; bounds not found by then are named.")
    ] = None,
    force: output.Force = False,
) -> None:
    """Bound every contact force over all answers of classic contact dynamics.

    It says which are determined, and bounds all others exactly: the least and the largest force
    that any answer can have. Exit code: 0 when every bound is certified, 1 when some are not
    or the input is bad, 2 when the problem is proven infeasible.
    """
    if to_csv is not None:
        with output.replacing(force, to_csv):
            cdopt.study.bounds.check_csv(to_csv)
    for name, value in {"--solver": solver, "--plot": plot, "--csv": to_csv}.items():
        if law is not None and value is not None:
            raise cdopt.InvalidInput(name, repr(value), "nothing beside --law")
    chosen = output.split(solver)
    for name in chosen:  # misspelt names are refused here, missing solvers reported later
        with contextlib.suppress(cdopt.BackendUnavailable):
            cdopt.backends.resolve(name)
    named = output.open_problem(problem, "bounds", frictionless, law)
    step, asked = output.step_of(named), _contacts(contacts, named.contact_names)
    what: dict[str, Any] = {"problem": named.name, "problem_title": named.title}
    title = "FrictionalCD" if law else "ClassicCD"
    with output.solving(title, as_json, **what), output.spinner() as label:
        report = cdopt.indeterminacy(
            step,
            classic,
            asked,
            tol,
            (os.cpu_count() or 1) if jobs is None else jobs,
            law=law,
            time_limit=time_limit,
            progress=lambda done, total: label(f"bounds of {done:,} of {total:,} forces"),
        )
    if isinstance(report, cdopt.hyperstatic.FrictionalIndeterminacy):
        if as_json:
            output.print_json({**what, **report.as_dict()})
        else:
            _print_friction(named, report)
    else:
        with output.solvers_kept_quiet(to_stderr=as_json):
            bounded = cdopt.study.bounds.BoundedProblem.of(named, report, chosen)
        if not as_json:
            _print_bounds(bounded)
        else:
            what |= bounded.as_dict()
            if report.nc > ROWS:
                what["widths"] = dict(cdopt.study.bounds.width_classes(report))
            output.print_json(what)
        if to_csv is not None:
            bounded.table().save_csv(to_csv)
            typer.echo(f"table: {to_csv}, {count(report.contacts.size, 'contact')}", err=True)
        if plot is not None:
            _draw(bounded, plot)
    if report.failures:
        raise typer.Exit(output.NO_ANSWER)


def _contacts(text: str, names: list[str]) -> Any:
    """The ``contacts`` argument of ``indeterminacy``."""
    if text.strip() == "all":
        return None
    if text.strip().isdecimal():
        return int(text)
    numbers = {name: i for i, name in enumerate(names)}
    words = output.split([text])
    chosen = [int(word) if word.isdecimal() else numbers.get(word, -1) for word in words]
    wrong = [word for word, i in zip(words, chosen, strict=True) if not 0 <= i < len(names)]
    if wrong or not chosen:
        expected = f"all, a number, or a list such as 0,2 (contacts 0 to {len(names) - 1})"
        raise cdopt.InvalidInput("--contacts", repr(wrong[0] if wrong else text), expected)
    return chosen


def _draw(bounded: BoundedProblem, path: str) -> None:
    """Write the picture; say on stderr what cannot be drawn."""
    shown = [solution for solution in bounded.solutions if solution.f is not None]
    title = bounded.named.name
    try:
        figure = cdopt.plots.bounds_story(bounded.report, shown, bounded.solution, title)
    except cdopt.InvalidInput as error:
        typer.echo(f"no picture: {error}", err=True)
        return
    output.save_picture(figure, path)


def _print_friction(named: NamedProblem, report: FrictionalIndeterminacy) -> None:
    """Intervals of normal and tangential forces of a step with friction."""
    output.say(f"{named.name}: {named.title}, law {report.law}", "dim")
    output.say(report.summary)
    columns = ("contact", "status", *("normal", "tangential", "tangential 2")[: report.d])
    largest, rows = output.largest_finite(report.upper.ravel()), []
    for i in report.widest(ROWS).tolist():
        ends = zip(report.lower[i], report.upper[i], strict=True)
        intervals = [f"{output.force(a, largest)} … {output.force(b, largest)}" for a, b in ends]
        rows.append((one_line(report.names[i], 16), report.status_of(i), *intervals))
    output.print_table(columns, rows, columns[2:])
    output.say("forces in N", "dim")


def _print_bounds(bounded: BoundedProblem) -> None:
    """Summary, classes of width if there are many contacts, table, solvers, failures."""
    named, report = bounded.named, bounded.report
    rows = report.contacts.tolist()
    output.say(f"{report.summary}\n")
    output.say(f"{named.name}: {named.title}", "dim")
    if len(rows) > ROWS:
        classes = cdopt.study.bounds.width_classes(report)
        most = max((number for _, number in classes), default=1)
        bars = [(label, f"{n:,}", "█" * max(round(30.0 * n / most), 1)) for label, n in classes]
        output.print_table(("width of the interval", "contacts", ""), bars, ["contacts"])
        widest = cdopt.study.bounds.widest(report).tolist()[:WIDEST]
        output.say(f"\nThe {len(widest)} widest intervals, of {len(rows):,}:")
        rows = widest
    if rows:
        _print_intervals(bounded, rows)
        law = {2.0: "Hooke", 2.5: "Hertz"}.get(named.power, f"p = {named.power:g}")
        key = f"forces in N; compatible: what elastic contacts carry ({law})"
        key += "; solvers: position of their force in the interval" if bounded.forces else ""
        output.say(key, "dim")
    if len(bounded.solutions) or bounded.solutions.failures:
        output.say("")
    solutions = dict(zip(bounded.solutions.labels, bounded.solutions, strict=True))
    for label, f in bounded.forces.items():
        status = one_line(solutions[label].status, 24)
        line = f" says “{status}”, {cdopt.study.verdict(solutions[label])}"
        position = report.position(f)[report.contacts]
        inside = [x for x in position.tolist() if math.isfinite(x)]
        if inside:
            line += f"; on average {_percent(sum(inside) / len(inside))} up the interval"
        outside = [x for x in report.outside(f).tolist() if math.isfinite(x)]
        if outside:
            far = max(outside)
            line += f"; {short(far, 1)} N outside at most" if far else "; none outside"
        output.say_of(label, line)
    print_failures(bounded.solutions)
    failed = list(report.failures.items())
    for i, why in failed[:WIDEST]:
        output.say_of(f"contact {named.contact_names[i]}: ", why, "red")
    if len(failed) > WIDEST:
        output.say(f"and {len(failed) - WIDEST} more that failed")


def _print_intervals(bounded: BoundedProblem, rows: list[int]) -> None:
    """A line for each contact."""
    report, contact_names = bounded.report, bounded.named.contact_names
    has_names = report.step.contact_ids is not None
    positions = {one_line(label, 14): report.position(f) for label, f in bounded.forces.items()}
    forces = {"lower": report.lower, "upper": report.upper, "compatible": bounded.compatible}
    largest = output.largest_finite(x[i] for x in forces.values() for i in rows)
    table = []
    for i in rows:
        verdict, name = report.verdict_of(i), one_line(contact_names[i], 16)
        table.append([
            str(i),
            *([name] if has_names else []),
            *(output.force(x[i], largest) for x in forces.values()),
            output.text(verdict, _STYLES.get(verdict, "")),
            *(_percent(float(x[i])) for x in positions.values()),
        ])  # fmt: skip
    columns = ("contact", *(["name"] if has_names else []), *forces, "verdict", *positions)
    output.print_table(columns, table, ["contact", *forces, *positions])


def _percent(position: float) -> str:
    """A position in an interval: 0 % is the lower bound, 100 % the upper one."""
    return "–" if math.isnan(position) else f"{100.0 * position:.0f} %".replace("-0 %", "0 %")


# --- ensemble -----------------------------------------------------------------------------


def ensemble(
    problem: output.ProblemName,
    draws: Annotated[int, option("Kept samples of each chain.")] = 1000,
    chains: Annotated[int, option("Independent chains.")] = 4,
    seed: Annotated[int, option("Of the random numbers.")] = 0,
    thin: Annotated[int, option("Sweeps before each kept sample.")] = 10,
    solver: Annotated[list[str] | None, output.solvers("Solvers whose forces to place.")] = None,
    plot: output.Picture = None,
    frictionless: output.Frictionless = False,
    law: output.Law = None,
    as_json: output.Json = False,
) -> None:
    """Draw contact forces uniformly from all that are admissible.

    This is the force network ensemble: what to expect from balance alone, and how typical single
    answers are. Exit code: 0 when the chains have converged, 1 when not or the input is bad, 2 when
    the problem is proven infeasible.
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
) -> dict[str, StepSolution | Centre]:
    """The compatible forces and those of solvers, by name; answers without forces are left out.

    Raises
    ------
    SolveFailed, Unsupported, BackendUnavailable : a solver has no answer.
    """
    asked = [(name, law or "classic", name) for name in solvers]
    answers: dict[str, Any] = {}
    if law is None:
        asked = [("compatible", "compatible", output.REFERENCE_BACKEND), *asked]
    else:
        selection = cdopt.hyperstatic.which_force(samples.report, [])
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
    rows, names, total = _largest(samples.std), named.contact_names, samples.mean.size
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


def _largest(values: FloatArray) -> list[int]:
    """The contacts with the largest ``values`` (nc,), as many as are listed, in their order."""
    numbers = values.tolist()
    return sorted(sorted(range(len(numbers)), key=lambda i: -numbers[i])[:ROWS])


def _ensemble_record(
    named: NamedProblem, samples: Ensemble, places: dict[str, Place]
) -> dict[str, Any]:
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


# --- sensitivity --------------------------------------------------------------------------


def sensitivity(
    problem: output.ProblemName,
    power: output.Power = None,
    frictionless: output.Frictionless = False,
    law: output.Law = None,
    flow: Annotated[
        str, option("Beside --law: micro-slip by coulomb, or associated (Haar–Kármán).")
    ] = "coulomb",
    plot: output.Picture = None,
    as_json: output.Json = False,
) -> None:
    """Say whose stiffness moves each compatible force most.

    These are derivatives of the compatible forces. Exit code: 0, 1 when the input is bad or
    derivatives are one-sided, 2 when the problem is proven infeasible.
    """
    if law is not None and plot is not None:
        raise cdopt.InvalidInput("--plot", plot, "nothing beside --law")
    named = output.open_problem(problem, "sensitivities", frictionless, law, None if law else power)
    result: Any
    if law is not None:
        result = cdopt.sensitivity(output.step_of(named), power, law=law, flow=flow)
        forces, matrix = result.f[:, 0], result.log_stiffness[:, 0]
        derivatives = {name: getattr(result, name) for name in ("log_stiffness", "log_ratio")}
    else:
        with output.solving("CompatibleCD", as_json, problem=named.name, problem_title=named.title):
            if named.step is not None:
                result = cdopt.sensitivity(named.step, named.power)
            else:
                result = cdopt.sensitivity(cdopt.NoTensionTruss.of(named.truss_data))
        forces, matrix = result.f, result.log_stiffness
        derivatives = {"log_stiffness": matrix, "power_derivative": result.power}
    names = named.contact_names
    if as_json:
        content = {"problem": named.name, "power": named.power, "contacts": names}
        output.print_json({**content, "forces": result.f, **derivatives})
    else:
        output.say(f"{named.name}: {named.title}", "dim")
        output.say(repr(result))
        _print_derivatives(names, forces, matrix)
    if plot is not None:
        draw = cdopt.plots.stiffness_influence
        output.save_picture(draw(result, names, title=named.name, subtitle=named.title), plot)


def _print_derivatives(names: Sequence[str], forces: FloatArray, matrix: FloatArray) -> None:
    """Normal forces (nc,), and which stiffness moves them most, by ``matrix`` (nc, nc)."""
    rows, least = [], _ROUND * max(forces.tolist(), default=0.0)
    for i in _largest(abs(matrix).max(axis=1, initial=0.0)):
        force, *row = (x if abs(x) > least else 0.0 for x in (forces[i], *matrix[i].tolist()))
        others = {j: abs(x) for j, x in enumerate(row) if j != i and x}
        most = max(others.values(), default=0.0)
        alike = [j for j, x in others.items() if x >= (1.0 - _ALIKE) * most]
        by, gains = (names[alike[0]], row[alike[0]]) if alike else ("none", 0.0)
        by += f" (+ {len(alike) - 1} alike)" if len(alike) > 1 else ""
        rows.append((names[i], f"{force:,.4g}", f"{row[i]:,.4g}", by, f"{gains:,.4g}"))
    columns = ("contact", "force", "own", "most moved by", "gains")
    output.print_table(columns, rows, columns)
    output.say(
        "forces in N; own: ∂f/∂log k by the contact's own stiffness: 1 % stiffer gains a "
        "hundredth of it; gains: by that of the other contact that moves it most",
        "dim",
    )


# --- limit --------------------------------------------------------------------------------


def limit(
    structure: output.SceneName,
    live: Annotated[
        list[str] | None,
        option(
            "A direction, 1,0 or 1,0,0: each body's weight in it (default, along x). Or the "
            "load of a body in N, with torque if there is one: 'voussoir 2=0,-100'; repeated for "
            "several.",
            metavar="LOAD",
        ),
    ] = None,
    friction: Annotated[
        float | None, option("Friction coefficient where the scene states none.")
    ] = None,
    law: Annotated[
        str, option("associated (exact), or coulomb: an upper estimate.")
    ] = "associated",
    solver: Annotated[
        str | None, option("Solver of CVXPY; default by dimension.", metavar="NAME")
    ] = None,
    plot: output.Picture = None,
    as_json: output.Json = False,
) -> None:
    """Find the load that a structure can bear.

    That is the largest multiple of a live load that contacts with friction can balance; the
    mechanism of the collapse comes with it. Exit code: 0, 1 when the input is bad or the value is
    not certified, 2 when no multiple of the live load is proven to be balanced.
    """
    bodies = None if cdopt.study.is_scene(structure) else cdopt.open_problem(structure).bodies
    if bodies is None and not cdopt.study.is_scene(structure):
        raise cdopt.InvalidInput("scene", structure, "a scene, or a problem that has one")
    scene = bodies[0] if bodies is not None else cdopt.scene.load(structure)
    if friction is not None:
        scene = scene.with_friction(friction)
    live = live or ["1" + ",0" * (scene.dim - 1)]
    load = _load(live, scene.dim)
    with output.solving("limit load", as_json, scene=structure):
        result = cdopt.limit_load(scene, load, law, solver=solver)
    if as_json:
        output.print_json({"scene": structure, **result.as_dict()})
    else:
        output.say(f"{structure}: {scene.title}", "dim")
        output.say(result.summary)
        what = "; ".join(live) if "=" in live[0] else f"each body's weight along {live[0]}"
        output.say(f"live load: {what}", "dim")
    if plot is not None and result.mechanism is None:
        typer.echo("no picture: no mechanism limits the load", err=True)
    elif plot is not None:
        title = f"{structure}: {result.value:.5g} times the live load"
        output.save_picture(cdopt.plots.collapse(result, title=title), plot)
    if not result.ok:
        raise typer.Exit(output.NO_ANSWER)


def _load(texts: list[str], dim: int) -> Any:
    """What ``--live`` says: a direction, or loads by body."""
    loads: dict[str | int, list[float]] = {}
    for text in texts:
        body, is_named, numbers = text.rpartition("=")
        try:
            values = [float(number) for number in numbers.split(",")]
        except ValueError:
            expected = "numbers with commas between, or BODY=numbers"
            raise cdopt.InvalidInput("--live", repr(text), expected) from None
        if not is_named:
            if len(texts) > 1 or len(values) != dim:
                raise cdopt.InvalidInput("--live", repr(text), f"one direction of {dim} numbers")
            return values
        loads[int(body) if body.isdecimal() else body] = values
    return loads
