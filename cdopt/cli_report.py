"""``cdopt report``: the page, tables and pictures of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdopt import cli_output, reports

HELP = (
    "Write the report of a study that cdopt compare --out kept: one page that needs no network, "
    "and its tables and pictures as files beside it."
)


def report(
    study: Annotated[Path, typer.Argument(help="Folder of the study, or its .jsonl file.")],
    out: Annotated[Path, typer.Option(help="Folder to write to; made if it is not there.")],
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Solvers on contact problems",
) -> None:
    """Write the report of a study."""
    with cli_output.errors_in_one_line():
        page = reports.write(study, out, title)
    typer.echo(str(page))
