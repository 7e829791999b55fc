"""``cdopt compare``: a study of problems, solvers and tolerances, a process for each run."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import one_line, seconds, short
from cdopt.cli import output
from cdopt.cli.output import option

if TYPE_CHECKING:
    from cdopt.study import Plan, ProblemSource, Record

TO_CERTIFICATE = "default,1e-3,1e-4,1e-5,1e-6,1e-7,1e-8,1e-9"  # of which the quickest counts
DEFAULT = "default"  # a solver's default accuracy, and the problem's order of contacts

Dask = Annotated[
    str | None,
    option("Make the runs on a Dask cluster: pip install distributed.", metavar="ADDRESS"),
]


def compare(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROBLEMS...]",
            help="As in cdopt solve; also families of growing size, family:chains, and runs that "
            "cdopt simulate recorded, drop.vtkhdf: every step. With --mine: none, the stored "
            "study names them.",
        ),
    ] = None,
    out: Annotated[str | None, option("Folder of the study.", metavar="DIR")] = None,
    solver: Annotated[list[str] | None, output.solvers("Solvers; default all that suit.")] = None,
    tolerances: Annotated[
        str, option(f"Accuracies, such as 1e-3,1e-6,1e-9; '{DEFAULT}' is each solver's default.")
    ] = DEFAULT,
    to_certificate: Annotated[
        bool,
        option(
            "Try several tolerances, and print for each solver the time of its "
            "quickest run that is certified at 1e-6.",
            "--to-certificate",
        ),
    ] = False,
    formulations: Annotated[
        str | None,
        option(
            "Formulations, separated by commas: classic-force, classic-velocity, "
            "truss-complementary, truss-potential, compatible, coulomb, associated; "
            "default classic-force, with friction coulomb."
        ),
    ] = None,
    law: Annotated[
        str | None, option("Law of problems with friction: coulomb (default) or associated.")
    ] = None,
    frictionless: output.Frictionless = False,
    modes: Annotated[str, option("Starts, separated by commas: cold, warm, previous.")] = "cold",
    calls: Annotated[
        str, option("Calls, separated by commas: cvxpy, direct (with the solver's defaults).")
    ] = "cvxpy",
    seeds: Annotated[
        str,
        option(f"Seeds of random orders of contacts: {DEFAULT},1,2; '{DEFAULT}' keeps the order."),
    ] = DEFAULT,
    repeat: Annotated[int, option("Number of solves in each run.")] = 3,
    time_limit: Annotated[
        float | None,
        option(
            "Hard time limit of a solve in seconds; default 60, with --mine that "
            "of the stored runs."
        ),
    ] = None,
    memory_limit: Annotated[
        float | None, option("Memory limit of a run in MB; default 70 % of the machine's memory.")
    ] = None,
    threads: Annotated[
        int | None, option("Threads of each run; default that of the solver.")
    ] = None,
    power: output.Power = None,
    plugin: Annotated[
        list[str] | None, option("Further solvers: file.py, file.py:factory or module:factory.")
    ] = None,
    mine: Annotated[
        str | None,
        option(
            "Compare the solvers of this file with the stored results of the "
            "standard study, and write a page that shows where they are quickest "
            "and where they claim success falsely.",
            metavar="FILE.py[:FACTORY]",
        ),
    ] = None,
    dask: Dask = None,
    as_json: output.Json = False,
    quiet: output.Quiet = False,
) -> None:
    """Compare solvers in a study.

    Each combination of problem, solver, tolerance and mode runs in a separate process with hard
    limits and is recorded; the same command continues an interrupted study. To compare answers to
    one problem in a table, use cdopt solve. Exit code: 0 if all runs were made, whatever their
    outcome, 1 if one was lost or terminated, or the input is bad, 130 after Ctrl-C.
    """
    limits: dict[str, Any] = {"repeats": repeat, "threads": threads}
    limits |= {"time_limit": time_limit, "memory_limit": memory_limit}
    if mine is not None:
        if problems or solver or plugin or to_certificate:
            expected = "no problems, --solver, --plugin or tolerances: the stored study has them"
            raise cdopt.InvalidInput("--mine", "other options", expected)
        _compare_with_stored(mine, out, limits, dask, as_json, quiet)
        return
    limits["time_limit"] = 60.0 if time_limit is None else time_limit
    if not problems:
        raise cdopt.InvalidInput("PROBLEMS", "none", "at least one, or --mine FILE.py")
    if out is None:
        expected = "a folder for the study (cdopt solve prints one table of one problem)"
        raise cdopt.InvalidInput("--out", "none", expected)
    sources = [p for text in problems for p in cdopt.study.problems(text, power)]
    sources = [replace(p, frictionless=frictionless) for p in sources]
    forms = {formulations: sources} if formulations else _by_friction(sources, law)
    if to_certificate:
        if tolerances != DEFAULT:
            raise cdopt.InvalidInput("--tolerances", tolerances, "none with --to-certificate")
        tolerances = TO_CERTIFICATE
    settings: dict[str, Any] = {
        "tolerances": _numbers("--tolerances", tolerances, float),
        "modes": output.split([modes]),
        "calls": output.split([calls]),
        "seeds": _numbers("--seeds", seeds, int),
        "plugins": plugin or [],
        **limits,
    }
    plans = []
    for names, listed in forms.items():
        stated = output.split([names])
        laws = set(stated) <= set(cdopt.problem.LAWS)
        suited = ("SOCP", ("frictional step",)) if laws else ()
        chosen = output.split(solver) or cdopt.study.choose_backends(0, *suited)[0]
        plan: dict[str, Any] = {"formulations": stated, "backends": chosen, **settings}
        plans.append(cdopt.study.Plan(problems=listed, **plan))
    run_and_show(plans, out, dask, as_json, quiet)
    if to_certificate and not as_json:
        _print_times_to_certificate(out)


def _print_times_to_certificate(out: str) -> None:
    """Print the report's table of times to a certificate, of the whole study."""
    table = cdopt.study.tables.certified(cdopt.study.Results.read(out))
    output.say(f"\n{table.title}", "bold")
    output.print_table(list(table.header), table.written, table.header[2:7], table.header[2:])
    output.say(table.about, "dim")


def _numbers(option: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    """Numbers separated by commas; None for the default."""
    try:
        return [None if part == DEFAULT else kind(part) for part in output.split([text])]
    except ValueError:
        raise cdopt.InvalidInput(option, repr(text), f"numbers, or {DEFAULT}") from None


def _by_friction(sources: Sequence[ProblemSource], law: str | None) -> dict[str, list[Any]]:
    """The problems by their formulation: a law of friction, or classic-force; prints which."""
    chosen = law or cdopt.problem.LAWS[0]
    if chosen not in cdopt.problem.LAWS:
        raise cdopt.InvalidInput("--law", repr(law), " or ".join(cdopt.problem.LAWS))
    rough = [source for source in sources if _has_friction(source)]
    if law and not rough:
        raise cdopt.InvalidInput("--law", law, "none: no problem here has friction")
    if rough and not law:
        names = one_line(", ".join(dict.fromkeys(source.label for source in rough)), 60)
        other = "--law associated, or --frictionless without it"
        output.echo(f"with friction, by Coulomb's law ({other}): {names}", err=True)
    forms = {chosen: rough, "classic-force": [s for s in sources if s not in rough]}
    return {name: listed for name, listed in forms.items() if listed}


def _has_friction(source: ProblemSource) -> bool:
    """Whether a problem has friction; members of families and steps of runs have none."""
    if source.frictionless or source.step is not None or source.source.startswith("family:"):
        return False
    step = source.load().step
    return step is not None and step.friction is not None


def _compare_with_stored(
    mine: str, out: str | None, limits: dict[str, Any], dask: str | None, as_json: bool, quiet: bool
) -> None:
    """Make the runs of the stored study with new solvers, and a page from both."""
    leaderboard = cdopt.study.leaderboard
    where, factory = cdopt.study.measure.parts(mine)
    plugins = [f"{where}:{factory}"]
    folder = f"study-{Path(where).stem}" if out is None else out
    names, _ = cdopt.study.runner.check_plugins(plugins)
    run_and_show([leaderboard.plan_of(names, plugins, **limits)], folder, dask, as_json, quiet)
    asked = {*names, *leaderboard.REFERENCES}
    results = leaderboard.compared([r for r in cdopt.study.read(folder) if r.run.backend in asked])
    title = f"{', '.join(names)} compared with the standard study"
    tables = leaderboard.tables(results, names)
    page = cdopt.plots.report.write(results, Path(folder) / "page", title, first=tables)
    if not as_json:
        for name, text in leaderboard.verdicts(tables[1]):
            output.say(f"{name}: {text}", "bold red" if "falsely" in text else "bold")
    output.echo(f"page: {page}", err=True)


def run_and_show(
    plans: Sequence[Plan], out: str, dask: str | None, as_json: bool, quiet: bool
) -> None:
    """Run plans one after the other, here or on a cluster, and print a summary."""
    cluster: Any = cdopt.study.dask_executor(dask) if dask else contextlib.nullcontext()
    path = str(cdopt.study.records_file(out))
    try:
        with cluster as executor:
            bar = output.progress(quiet, "run")
            studies = [cdopt.study.run(plan, out, executor, bar) for plan in plans]
    except KeyboardInterrupt:
        output.echo(f"interrupted; finished runs are in {path}", err=True)
        output.echo("go on: the same command again", err=True)
        raise typer.Exit(output.INTERRUPTED) from None
    records = [record for study in studies for record in study.records]
    lost = {run: why for study in studies for run, why in study.lost.items()}
    made = sum(study.made for study in studies)
    if as_json:
        content = {"file": path, "made": made, "lost": lost}
        output.print_json({**content, "records": [record.as_dict() for record in records]})
    else:
        output.say(f"{len(records):,} of {sum(len(plan.runs) for plan in plans):,} runs", "bold")
        _print_table(records)
        output.say(f"made now: {made}; every run: {path}", "dim")
        _print_errors(records)
        for name, why in lost.items():
            output.echo(f"lost: {name}: {one_line(why, 200)}", err=True)
    if lost or any(record.outcome == "interrupted" for record in records):
        raise typer.Exit(output.NO_ANSWER)


def _print_errors(records: Sequence[Record]) -> None:
    """Why runs ended with an error, each reason once."""
    errors: dict[str, list[str]] = {}
    for record in records:
        if record.outcome == "error":
            errors.setdefault(one_line(record.message), []).append(record.run.label)
    for why, runs in errors.items():
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        output.echo(f"error: {runs[0]}{more}: {why}", err=True)
    if errors:
        output.echo("the same command makes these runs again", err=True)


def _print_table(records: Sequence[Record]) -> None:
    """One line for each solver, formulation, call and tolerance, over all problems and orders."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        run = record.run
        asked = [DEFAULT if run.tolerance is None else f"{run.tolerance:g}"]
        asked += [word for word in (run.mode, run.call) if word not in ("cold", "cvxpy")]
        groups.setdefault((run.backend, run.formulation, " ".join(asked)), []).append(record)
    titles, rows = ("backend", "formulation", "asked"), []
    shown = [k for k in range(3) if k == 0 or len({key[k] for key in groups}) > 1]
    for key, group in groups.items():
        counts = Counter(record.outcome for record in group).most_common()
        claims = [r.answer.ok for r in group if r.answer is not None and r.answer.claimed]
        times = [r.seconds for r in group if r.outcome == "solved" and r.seconds is not None]
        away = [r.forces.distance for r in group if r.forces and r.forces.distance is not None]
        rows.append((
            *(key[k] for k in shown),
            ", ".join(f"{outcome} {number}" for outcome, number in counts),
            f"{sum(claims)} of {len(claims)}",
            seconds(median(times)) if times else "–",
            short(median(away), 2) if away else "–",
        ))  # fmt: skip
    columns = [*(titles[k] for k in shown), "outcomes", "claims true", "median time", "distance"]
    output.print_table(columns, rows, columns[-3:], columns[len(shown) :])
    same = [f"{titles[k]}: {key[k]}" for k in (1, 2) if k not in shown for key in list(groups)[:1]]
    if same:
        output.say("; ".join(same), "dim")
