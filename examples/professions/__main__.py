"""``python -m examples.professions NAME --out DIR``: one of the programs; see the package."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from cdopt.cli import output

PROGRAMS = ("robots", "masonry", "grains", "engines", "people")
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@output.command
def profession(
    name: Annotated[str, typer.Argument(help=", ".join(PROGRAMS) + ".")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the picture.")] = ".",
) -> None:
    """Go from a file to a verdict and a picture."""
    if name not in PROGRAMS:
        raise typer.BadParameter(f"{name}: expected {', '.join(PROGRAMS)}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    importlib.import_module(f".{name}", __package__).run(folder)


if __name__ == "__main__":
    app()
