"""``cdopt explore``: a small contact problem as a page to play with."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Force, Frictionless

if TYPE_CHECKING:
    from cdopt.plots.explore import Exploration, FrictionalExploration
    from cdopt.study import NamedProblem

HELP = (
    "Write one page for teaching, to be opened without a network: sliders for each contact's "
    "stiffness, the load, the power and the order of projected Gauss-Seidel, and the forces that "
    "follow, solved in the page. Up to 100 contacts and 100 degrees of freedom. Problems with "
    "friction in the plane get a slider of μ and what each force may be. Exit code: 0, or 1 when "
    "the input is bad."
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
    frictionless: Frictionless = False,
) -> None:
    """Write a page to play with."""
    with output.errors_in_one_line():
        pages = cdopt.plots.explore
        out = _page_name(scene) if out is None else out
        with output.replacing(force, out):
            pages.check_page(out)
        with output.solvers_kept_quiet():
            if scene in cdopt.scene.shipped_scenes() or cdopt.study.is_scene(scene):
                opened = cdopt.scene.load(scene)
                pages.check_bodies(opened)
                posed: Exploration | FrictionalExploration
                if opened.has_friction and not frictionless:
                    posed = _posed(cdopt.open_problem(scene))
                else:
                    posed = pages.of_scene(opened.with_friction(0.0))
            else:
                posed = _posed(cdopt.open_problem(scene, frictionless=frictionless))
        size = pages.save_page(posed, out).stat().st_size
        typer.echo(f"page: {out} ({posed.size}, {size / 1e3:.0f} kB)")
        if show and not webbrowser.open(Path(out).resolve().as_uri()):
            typer.echo("no browser was found: open the page yourself", err=True)


def _posed(named: NamedProblem) -> Exploration | FrictionalExploration:
    """What a page shows of a problem: with friction in the plane, a slider of μ.

    Raises
    ------
    InvalidInput, Unsupported : the page cannot show it.
    """
    if named.step is not None and named.step.friction is not None and named.step.friction.d == 2:
        return cdopt.plots.explore.of_friction(named)
    named.require_frictionless("pages")
    return cdopt.plots.explore.of_problem(named)


def _page_name(scene: str) -> str:
    """The file of a scene's page: beam.html, pyramid-n-3.html for pyramid:n=3."""
    name = Path(scene).stem if scene.endswith(".toml") else scene
    return re.sub(r"[^\w.-]+", "-", name) + ".html"
