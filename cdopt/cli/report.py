"""``cdopt report``: the page, tables and pictures of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Force

HELP = (
    "Write the report of a study that cdopt compare made: one page that needs no network, "
    "and its tables and pictures as files beside it."
)


def report(
    study: Annotated[Path, typer.Argument(help="Folder of the study, or its .jsonl file.")],
    out: Annotated[Path, typer.Option(help="Folder to write to; made if it is not there.")],
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Solvers on contact problems",
    labels: Annotated[
        bool, typer.Option(help="Make the problems again, for their rank and conditioning.")
    ] = True,
    into: Annotated[
        list[Path] | None,
        typer.Option(
            help="Markdown file whose marked tables are replaced: between "
            "<!-- table: overview --> and <!-- end -->. May be repeated."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write the report of a study."""
    with output.errors_in_one_line():
        results = cdopt.study.Results.read(study)
        for text in into or ():
            cdopt.plots.report.check_into(text, results)
        sources = dict.fromkeys(record.run.problem for record in results.records)
        more = [cdopt.study.network_labels.table_of_labels(sources)] if labels else []
        with output.replacing(force, *(out / name for name in cdopt.plots.report.FILES)):
            page = cdopt.plots.report.write(results, out, title, more)
        for text in into or ():
            cdopt.plots.report.write_into(text, results)
    typer.echo(str(page))
