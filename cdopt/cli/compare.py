"""``cdopt compare``: many problems, solvers and tolerances, each run in a process of its own."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from types import MappingProxyType
from typing import Annotated

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.formatting import one_line, seconds, short
from cdopt._util.progress import ProgressCallback
from cdopt.cli import output as cli_output
from cdopt.cli.output import NO_ANSWER
from cdopt.cli.simulate import INTERRUPTED
from cdopt.study.compare import compare as compare_one
from cdopt.study.named_problem import open_problem
from cdopt.study.plans import PLANS, plans
from cdopt.study.runs import Plan, Problem, Record, Study, conduct
from cdopt.study.runs import problems as problems_of
from cdopt.study.runs.cluster import dask as cluster
from cdopt.study.runs.store import place_of
from cdopt.study.solutions import choose_backends

HELP = (
    "Compare solvers. With one problem and no --out: one table of their answers to a step. With "
    "--out: a study of every problem, solver, tolerance and mode, each run in a process of its own "
    "with hard limits, kept line by line; the same command goes on with a study that was "
    "interrupted. Exit code: 0 when all runs were made, whatever came of them, 1 when one was lost "
    "or ended from outside, or the input is bad, 130 after Ctrl-C."
)
DEFAULTS = "default"  # of a solver, among tolerances; and the problem's own order, among seeds

_Problems = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROBLEMS...",
        help="Bank problems, such as pyramid-hooke:n=5; families of growing size, family:chains; "
        "files of steps (.npz, .hdf5); runs that cdopt simulate recorded (.vtkhdf): every step, or "
        "one, drop.vtkhdf#12.",
    ),
]
_Named = Annotated[
    str | None,
    typer.Option("--plan", help="A study with a name, instead of problems: " + ", ".join(PLANS)
                 + "."),
]  # fmt: skip
_Solvers = Annotated[
    list[str] | None,
    typer.Option(help="Names, with commas between; may be repeated. Default: all that suit."),
]
_Tolerances = Annotated[
    str | None,
    typer.Option(help=f"Such as 1e-3,1e-6,1e-9; '{DEFAULTS}' leaves solvers as they come."),
]
_Formulations = Annotated[
    str, typer.Option(help="Of classic-force, classic-velocity, truss-complementary, "
                      "truss-potential, compatible; with commas between.")
]  # fmt: skip
_Modes = Annotated[str, typer.Option(help="Of cold, warm, previous; with commas between.")]
_Calls = Annotated[
    str, typer.Option(help="Of cvxpy, direct (the solver's own interface); with commas between.")
]
_Seeds = Annotated[
    str,
    typer.Option(help=f"Of the contacts' orders, such as {DEFAULTS},1,2: '{DEFAULTS}' is their "
                 "own."),
]  # fmt: skip
_Repeat = Annotated[int, typer.Option(help="How often each run solves its problem.")]
_Limit = Annotated[float, typer.Option(help="Seconds for one solve; hard.")]
_Memory = Annotated[
    float | None, typer.Option(help="MB for a run; default 70 % of the machine's memory.")
]
_Threads = Annotated[int | None, typer.Option(help="Threads of each run; default its own.")]
_Power = Annotated[float | None, typer.Option(help="Power of the contact energy.")]
_Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="Further solvers: module:factory or file.py:factory."),
]
_Out = Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the study.")]
_Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Make the runs on a Dask cluster: pip install "
                 "'cdopt[dask]'."),
]  # fmt: skip
_Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def compare(
    problems: _Problems = None,
    plan: _Named = None,
    solvers: _Solvers = None,
    tolerances: _Tolerances = None,
    formulations: _Formulations = "classic-force",
    modes: _Modes = "cold",
    calls: _Calls = "cvxpy",
    seeds: _Seeds = DEFAULTS,
    repeat: _Repeat = 3,
    time_limit: _Limit = 60.0,
    memory_limit: _Memory = None,
    threads: _Threads = None,
    power: _Power = None,
    plugin: _Plugins = None,
    out: _Out = None,
    dask: _Dask = None,
    as_json: _Json = False,
    quiet: _Quiet = False,
) -> None:
    """Compare solvers."""
    names, texts = _split(",".join(solvers or [])), list(problems or [])
    with cli_output.errors_in_one_line():
        if bool(texts) == bool(plan):
            raise InvalidInput(
                "PROBLEMS", "none" if not texts else "some", "either some, or --plan"
            )
        if out is None and len(texts) == 1 and tolerances is None:
            _one(texts[0], names, power, as_json)
            return
        if out is None:
            raise InvalidInput("--out", "none", "a folder, for more than one table of one problem")
        chosen = plans(plan, out) if plan else (Plan(
            problems=_sources(texts, power),
            backends=names or choose_backends(0)[0],
            formulations=_split(formulations),
            tolerances=[_number(text) for text in _split(tolerances or DEFAULTS)],
            modes=_split(modes), calls=_split(calls),
            seeds=[_seed(text) for text in _split(seeds)],
            repeats=repeat, threads=threads, plugins=plugin or [], time_limit=time_limit,
            memory_limit=memory_limit,
        ),)  # fmt: skip
        study = _conducted(chosen, out, dask, quiet)
        _show(study, sum(len(one.runs) for one in chosen), out, as_json)
    if study.lost or any(record.outcome == "interrupted" for record in study.records):
        raise typer.Exit(NO_ANSWER)


def _one(problem: str, solvers: list[str], power: float | None, as_json: bool) -> None:
    """The answers of several solvers to one step, side by side, in this process."""
    task = open_problem(problem, power)
    if task.step is None:
        raise Unsupported("one table", f"{task.name} is a truss", ("cdopt solve", "--out"))
    names, left_out = solvers, dict[str, str]()
    if not names:
        names, left_out = choose_backends(task.step.nc)
    with cli_output.progress() as tell, cli_output.solvers_kept_quiet(False, as_json):
        found = compare_one(task.step, names, power=task.power, progress=tell)
    found.left_out = MappingProxyType(left_out)
    if as_json:
        what = {"problem": task.name, "problem_title": task.title, "formulation": "compare"}
        cli_output.print_json({**what, "power": task.power, **found.as_dict(forces=True)})
    else:
        heading = f"{task.name}: {task.title}, p = {task.power:g}"
        cli_output.print_solutions(found, heading, task.contact_names)


def _conducted(chosen: Sequence[Plan], out: str, address: str | None, quiet: bool) -> Study:
    """The plans one after the other, here or on a cluster; after Ctrl-C, how to go on."""
    executor: contextlib.AbstractContextManager[Executor | None] = contextlib.nullcontext()
    if address is not None:
        executor = cluster(address)
    try:
        with executor as found, _progress(quiet) as tell:
            parts = [conduct(plan, out, found, tell) for plan in chosen]
            return Study(
                tuple(record for part in parts for record in part.records),
                sum(part.made for part in parts),
                {run: why for part in parts for run, why in part.lost.items()},
            )
    except KeyboardInterrupt:
        typer.echo(f"interrupted; what was made is in {place_of(out)}", err=True)
        typer.echo("go on: the same command again", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[bool | ProgressCallback]:
    """A bar on a terminal, a line for each run elsewhere."""
    if quiet or Console(stderr=True).is_terminal:
        yield not quiet
        return

    def line(done: int, total: int, text: str = "") -> None:
        if done:
            typer.echo(f"run {done} of {total}: {text}", err=True)

    yield line


# --- what is shown ---------------------------------------------------------------------


def _show(study: Study, planned: int, out: str, as_json: bool) -> None:
    if as_json:
        content = {"file": str(place_of(out)), "made": study.made, "lost": dict(study.lost)}
        records = [msgspec.to_builtins(record) for record in study.records]
        cli_output.print_json({**content, "records": records})
        return
    console = cli_output.console()
    console.print(Text(f"{len(study.records)} of {planned} runs", style="bold"))
    console.print(_table(study.records))
    console.print(Text(f"made now: {study.made}; every run: {place_of(out)}", style="dim"))
    for name, why in study.lost.items():
        typer.echo(f"lost: {name}: {one_line(why, 200)}", err=True)


def _table(records: Sequence[Record]) -> Table:
    """One line for each solver, formulation, way and tolerance, over all problems and orders."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("backend", "formulation", "asked", "outcomes"):
        table.add_column(name)
    for name in ("claims true", "median time", "distance"):
        table.add_column(name, justify="right", no_wrap=True)
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        run = record.run
        way = [word for word in (run.mode, run.call) if word not in ("cold", "cvxpy")]
        asked = DEFAULTS if run.tolerance is None else f"{run.tolerance:g}"
        key = (run.backend, run.formulation, " ".join([asked, *way]))
        groups.setdefault(key, []).append(record)
    for key, group in groups.items():
        table.add_row(*key, *_cells(group))
    return table


def _cells(group: Sequence[Record]) -> tuple[str, str, str, str]:
    counts = Counter(record.outcome for record in group)
    outcomes = ", ".join(f"{word} {number}" for word, number in counts.most_common())
    claims = [r.answer.ok for r in group if r.answer is not None and r.answer.claimed]
    spent = [r.seconds for r in group if r.outcome == "solved" and r.seconds is not None]
    away = [r.forces.distance for r in group if r.forces and r.forces.distance is not None]
    return (
        outcomes,
        f"{sum(claims)} of {len(claims)}",
        seconds(float(np.median(spent))) if spent else "–",
        short(float(np.median(away)), 2) if away else "–",
    )


# --- words of the command line ---------------------------------------------------------


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _sources(texts: Sequence[str], power: float | None) -> list[Problem]:
    return [problem for text in texts for problem in problems_of(text, power)]


def _number(text: str) -> float | None:
    if text == DEFAULTS:
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidInput("--tolerances", repr(text), f"a number, or {DEFAULTS}") from None


def _seed(text: str) -> int | None:
    if text == DEFAULTS:
        return None
    if not text.isdigit():
        raise InvalidInput("--seeds", repr(text), f"a whole number, or {DEFAULTS}")
    return int(text)
