"""``cdopt explore``: a small contact problem as a page to play with."""

from __future__ import annotations

from typing import Annotated

import typer

import cdopt
from cdopt.cli import output

HELP = (
    "Write one page for teaching, to be opened without a network: sliders for each contact's "
    "stiffness, the load, the power and the order of projected Gauss-Seidel, and the forces that "
    "follow, solved in the page. Up to 60 contacts and 60 degrees of freedom. Exit code: 0, or 1 "
    "when the input is bad."
)


def explore(
    scene: Annotated[
        str,
        typer.Argument(
            metavar="SCENE",
            help="A scene file (.toml); a scene that ships with cdopt, such as beam or table; a "
            "generator with parameters, such as pyramid:n=3; or a bank problem, such as tripod.",
        ),
    ],
    out: Annotated[str, typer.Option(metavar="FILE.html", help="The page to write.")],
) -> None:
    """Write a page to play with."""
    with output.errors_in_one_line():
        pages = cdopt.plots.explore
        pages.check_page(out)
        with output.solvers_kept_quiet():
            if scene in cdopt.scene.shipped_scenes() or cdopt.study.is_scene(scene):
                exploration = pages.of_scene(cdopt.scene.open_scene(scene))
            else:
                exploration = pages.of_problem(cdopt.open_problem(scene))
        size = pages.save_page(exploration, out).stat().st_size
        nc, nv = exploration.B.shape
        typer.echo(f"page: {out} ({nc} contacts, {nv} degrees of freedom, {size / 1e3:.0f} kB)")
