"""``cdopt solvers``: a requested accuracy in each solver's own words."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from cdopt.cli import output as cli_output
from cdopt.study.report.table import written
from cdopt.study.settings import solver_settings

HELP = "Show how each solver spells accuracy, what it promises, and what CVXPY rewrites."


def solvers(
    settings: Annotated[
        float | None,
        typer.Option(help="Accuracy to ask for, such as 1e-6; default: names of the settings."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show a requested accuracy in each solver's own words."""
    with cli_output.errors_in_one_line():
        found = solver_settings(settings)
    if as_json:
        cli_output.print_json([dict(zip(found.header, row, strict=True)) for row in found.rows])
        return
    out = cli_output.console()
    shown = Table(title=found.title, title_justify="left", caption=found.about,
                  caption_justify="left")  # fmt: skip
    for name in found.header:
        shown.add_column(name)
    for row in found.rows:
        shown.add_row(*(written(cell) for cell in row))
    out.print(shown)
