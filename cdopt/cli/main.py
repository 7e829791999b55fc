"""The command line: the commands of ``cdopt``, and ``cdopt warmup``.

The first line of a command's docstring is its line in the list of commands.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import time
from functools import partial
from typing import Annotated

import typer

import cdopt
from cdopt.cli import forces, lists, output, runs, solve, studies


def warmup(
    processes: Annotated[
        int | None, typer.Option(min=1, help="At the same time; default one a core.")
    ] = None,
) -> None:
    """Compile all loops once, for images and classrooms.

    On all cores, and store them. Without this command each is compiled when it is first used.
    """
    began, total = time.perf_counter(), 0.0
    for name, seconds in importlib.import_module("cdopt.study.warmup").compile_all(processes):
        output.say(f"{name}: {f'{seconds:.1f} s' if seconds else 'compiled before'}")
        total += seconds
    output.say(f"{total:.0f} s of compiling in {time.perf_counter() - began:.0f} s")


app = typer.Typer(
    help="Rigid-body contact posed as convex optimisation: solve, compare, certify.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help texts without rich are printed at once
)
for command in (
    solve.solve,
    forces.bounds,
    forces.ensemble,
    forces.sensitivity,
    forces.limit,
    runs.simulate,
    runs.show,
    runs.explore,
    studies.compare,
    studies.report,
    lists.backends,
    lists.problems,
    lists.scenes,
    warmup,
):
    about = inspect.cleandoc(command.__doc__ or "")
    app.command(help=about, short_help=about.partition("\n")[0])(output.command(command))


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"cdopt {cdopt.__version__}")
        raise typer.Exit()


def _seconds_compiling() -> float:
    """Seconds that this process has spent on compiling loops."""
    compiled = sys.modules.get("cdopt._util.compiled")
    return compiled.seconds_compiling() if compiled else 0.0


def _report_compiling(before: float) -> None:
    """Say how long loops were compiled since then, which no time that was printed counts."""
    seconds = _seconds_compiling() - before
    if seconds and logging.getLogger("cdopt.compiling").isEnabledFor(logging.WARNING):
        typer.echo(f"loops were compiled in {seconds:.1f} s, which no time counts", err=True)


@app.callback()
def main(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Rigid-body contact posed as convex optimisation: solve, compare, certify."""
    context.call_on_close(partial(_report_compiling, _seconds_compiling()))
