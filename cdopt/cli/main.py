"""The command line: the commands of ``cdopt``, each in one file.

The first line of a command's docstring is its line in the list of commands.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from functools import partial
from typing import Annotated

import typer

import cdopt
from cdopt.cli import output

COMMANDS = (
    "solve", "bounds", "audit", "ensemble", "sensitivity", "limit", "stability", "simulate", "show",
    "explore", "export", "compare", "report", "backends", "problems", "scenes", "warmup",
)  # fmt: skip

app = typer.Typer(
    help="Rigid-body contact as convex optimisation: solve, compare, certify.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help texts without rich are printed at once
)
for name in COMMANDS:
    command = getattr(importlib.import_module(f"cdopt.cli.{name}"), name)
    about = inspect.cleandoc(command.__doc__ or "")
    app.command(help=about, short_help=about.partition("\n")[0])(output.command(command))


def _print_version(asked: bool) -> None:
    if asked:
        output.echo(f"cdopt {cdopt.__version__}")
        raise typer.Exit()


def _seconds_compiling() -> float:
    compiled = sys.modules.get("cdopt._util.compiled")
    return compiled.seconds_compiling() if compiled else 0.0


def _report_compiling(before: float) -> None:
    """Print how long loops were compiled since then, which printed times exclude."""
    seconds = _seconds_compiling() - before
    if seconds and logging.getLogger("cdopt.compiling").isEnabledFor(logging.WARNING):
        output.echo(f"loops were compiled in {seconds:.1f} s, which times exclude", err=True)


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
    """Rigid-body contact as convex optimisation: solve, compare, certify."""
    context.call_on_close(partial(_report_compiling, _seconds_compiling()))
