"""``python -m examples.studies``: one of the long studies, begun or continued."""

from __future__ import annotations

from typing import Annotated

import typer

from cdopt.cli import compare, output
from cdopt.interop import siconos

from . import PLANS, plans

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@output.command
def study(
    name: Annotated[str, typer.Argument(help=" or ".join(PLANS) + ".")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder of the study.")],
    dask: compare.Dask = None,
    as_json: output.Json = False,
    quiet: output.Quiet = False,
) -> None:
    """Make the runs of a long study, each in a separate process; then see cdopt report."""
    missing = siconos.why_unavailable()
    if missing and not quiet:
        typer.echo(f"Siconos takes no part: {missing}", err=True)
    compare.run_and_show(plans(name, out), out, dask, as_json, quiet)


if __name__ == "__main__":
    app()
