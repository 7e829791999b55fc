"""``cdopt report``: the page, tables and pictures of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option


def report(
    study: Annotated[Path, typer.Argument(help="Folder of the study, or its .jsonl file.")],
    out: Annotated[Path, typer.Option(help="Folder to write to; made if it is not there.")],
    title: Annotated[str, option("Title of the page.")] = "Solvers on contact problems",
    labels: Annotated[
        bool, option("Build the problems again to compute their rank and conditioning.")
    ] = True,
    into: Annotated[
        list[Path] | None,
        option(
            "Markdown file whose marked tables are replaced: between "
            "<!-- table: overview --> and <!-- end -->. May be repeated."
        ),
    ] = None,
    force: output.Force = False,
) -> None:
    """Write the report of a study by cdopt compare.

    The report is a page that works offline, with tables and pictures as separate files.
    """
    results, write = cdopt.study.Results.read(study), cdopt.plots.report
    for text in into or ():
        write.check_into(text, results)
    sources = dict.fromkeys(record.run.problem for record in results.records)
    more = [cdopt.study.network_labels.table_of_labels(sources)] if labels else []
    with output.replacing(force, *(out / name for name in write.FILES)):
        page = write.write(results, out, title, more)
    for text in into or ():
        write.write_into(text, results)
    output.echo(str(page))
