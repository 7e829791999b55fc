"""``cdopt explore``: a small contact problem as a page to play with."""

from __future__ import annotations

from typing import Annotated

import typer

from cdopt.cli import output as cli_output
from cdopt.plots.explore import Exploration, check_page, of_problem, of_scene, save_page
from cdopt.scene.files import open_scene, shipped_scenes
from cdopt.study.named_problem import is_scene, open_problem

HELP = (
    "Write one page for teaching, to be opened without a network: sliders for each contact's "
    "stiffness, the load, the power and the order of projected Gauss-Seidel, and the forces that "
    "follow, solved in the page. Up to 60 contacts and 60 degrees of freedom. Exit code: 0, or 1 "
    "when the input is bad."
)

_What = Annotated[
    str,
    typer.Argument(
        metavar="SCENE",
        help="A scene file (.toml); a scene that ships with cdopt, such as beam or table; a "
        "generator with parameters, such as pyramid:n=3; or a bank problem, such as tripod.",
    ),
]
_Out = Annotated[str, typer.Option(metavar="FILE.html", help="The page to write.")]


def explore(scene: _What, out: _Out) -> None:
    """Write a page to play with."""
    with cli_output.errors_in_one_line():
        check_page(out)
        with cli_output.solvers_kept_quiet(False, False):
            posed = _posed(scene)
        size = save_page(posed, out).stat().st_size
        nc, nv = posed.B.shape
        typer.echo(f"page: {out} ({nc} contacts, {nv} degrees of freedom, {size / 1e3:.0f} kB)")


def _posed(text: str) -> Exploration:
    """A scene at rest if the text names one, else a contact problem.

    Raises
    ------
    InvalidInput : neither.
    """
    if text in shipped_scenes() or is_scene(text):
        return of_scene(open_scene(text))
    return of_problem(open_problem(text))
