"""``cdopt explore``: a small contact problem as a page to play with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdopt import bank
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import split
from cdopt.cli import output as cli_output
from cdopt.cli import problem as cli_problem
from cdopt.cli import scene as cli_scene
from cdopt.plots.explore import Exploration, check_page, of_problem, of_scene, of_step, save_page

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
    """What a word of the command line means: a scene first, then a problem.

    Raises
    ------
    InvalidInput : neither.
    """
    stored = Path(text).suffix in (".npz", ".hdf5", ".h5")
    if not stored and text not in cli_scene.shipped() and split(text)[0] in bank.names():
        return of_problem(bank.load(text))
    if not stored:
        return of_scene(cli_scene.load(text))
    task = cli_problem.load(text, None)
    if task.step is None:
        raise InvalidInput("scene", text, "a file with a contact step")
    return of_step(task.step, task.power, name=task.name, title=task.title)
