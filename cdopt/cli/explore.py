"""``cdopt explore``: a small contact problem as a page to play with."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Force

HELP = (
    "Write one page for teaching, to be opened without a network: sliders for each contact's "
    "stiffness, the load, the power and the order of projected Gauss-Seidel, and the forces that "
    "follow, solved in the page. Up to 100 contacts and 100 degrees of freedom. Exit code: 0, or 1 "
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
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.html", help="The page to write; default SCENE.html in this folder."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
    force: Force = False,
) -> None:
    """Write a page to play with."""
    with output.errors_in_one_line():
        pages = cdopt.plots.explore
        out = _page_name(scene) if out is None else out
        with output.replacing(force, out):
            pages.check_page(out)
        with output.solvers_kept_quiet():
            if scene in cdopt.scene.shipped_scenes() or cdopt.study.is_scene(scene):
                exploration = pages.of_scene(cdopt.scene.open_scene(scene))
            else:
                exploration = pages.of_problem(output.open_frictionless(scene, "pages", False))
        size = pages.save_page(exploration, out).stat().st_size
        nc, nv = exploration.B.shape
        typer.echo(f"page: {out} ({nc} contacts, {nv} degrees of freedom, {size / 1e3:.0f} kB)")
        if show and not webbrowser.open(Path(out).resolve().as_uri()):
            typer.echo("no browser was found: open the page yourself", err=True)


def _page_name(scene: str) -> str:
    """The file of a scene's page: beam.html, pyramid-n-3.html for pyramid:n=3."""
    name = Path(scene).stem if scene.endswith(".toml") else scene
    return re.sub(r"[^\w.-]+", "-", name) + ".html"
