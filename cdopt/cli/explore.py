"""``cdopt explore``: a small contact problem as an interactive page."""

from __future__ import annotations

import re
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option

if TYPE_CHECKING:
    from cdopt.plots.explore import Exploration, FrictionalExploration


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
        option("Path of the page; default SCENE.html in this folder.", metavar="FILE.html"),
    ] = None,
    title: Annotated[
        str | None, option("Heading of the page; default that of the scene or problem.")
    ] = None,
    show: Annotated[bool, option("Open the page in the browser.", "--open")] = False,
    force: output.Force = False,
    frictionless: output.Frictionless = False,
) -> None:
    """Write an interactive page for teaching.

    The page works offline and solves the problem in the browser, with sliders for the stiffness of
    each contact, the load, the power and the order of projected Gauss-Seidel. Problems may have up
    to 100 contacts and 100 degrees of freedom. For plane problems with friction the page has a
    slider for μ and shows the range of each force. Exit code: 0, or 1 if the input is bad.
    """
    if out is None:  # beam.html, pyramid-n-3.html for pyramid:n=3
        name = Path(scene).stem if scene.endswith(".toml") else scene
        out = re.sub(r"[^\w.-]+", "-", name) + ".html"
    with output.replacing(force, out):
        cdopt.plots.explore.check_page(out)
    with output.solvers_kept_quiet():
        exploration = _explored(scene, frictionless)
        exploration = exploration if title is None else replace(exploration, title=title)
    size = cdopt.plots.explore.save_page(exploration, out).stat().st_size
    output.echo(f"page: {out} ({exploration.size}, {size / 1e3:.0f} kB)")
    if show and not webbrowser.open(Path(out).resolve().as_uri()):
        output.echo("no browser: open the page yourself", err=True)


def _explored(name: str, frictionless: bool) -> Exploration | FrictionalExploration:
    """The data of a page of a scene or a problem: with friction in the plane, a slider of μ."""
    pages = cdopt.plots.explore
    if name in cdopt.scene.shipped_scenes() or cdopt.study.is_scene(name):
        scene = cdopt.scene.load(name)
        pages.check_bodies(scene)
        if frictionless or not scene.has_friction:
            return pages.of_scene(scene.with_friction(0.0))
    named = cdopt.open_problem(name, frictionless=frictionless)
    if named.step is not None and named.step.friction is not None and named.step.friction.d == 2:
        return pages.of_friction(named)
    named.require_frictionless("pages")
    return pages.of_problem(named)
