"""``cdopt report``: the page, tables and pictures of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdopt.cli import output as cli_output
from cdopt.plots import report as pages
from cdopt.study.labels import of_study
from cdopt.study.report import read

HELP = (
    "Write the report of a study that cdopt compare --out kept: one page that needs no network, "
    "and its tables and pictures as files beside it."
)


def report(
    study: Annotated[Path, typer.Argument(help="Folder of the study, or its .jsonl file.")],
    out: Annotated[Path, typer.Option(help="Folder to write to; made if it is not there.")],
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Solvers on contact problems",
    labels: Annotated[
        bool,
        typer.Option(help="Make the problems anew, and tell their rank and conditioning."),
    ] = True,
    into: Annotated[
        list[Path] | None,
        typer.Option(help="Markdown file whose marked tables are written anew: between "
                     "<!-- table: overview --> and <!-- end -->. May be repeated."),
    ] = None,
) -> None:  # fmt: skip
    """Write the report of a study."""
    with cli_output.errors_in_one_line():
        results = read(study)
        for text in into or ():
            pages.check_into(text, results)
        more = (of_study(results),) if labels else ()
        page = pages.write(results, out, title, more)
        for text in into or ():
            pages.write_into(text, results)
    typer.echo(str(page))
