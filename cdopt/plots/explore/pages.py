"""The pages of explorations, with friction or without, as HTML that needs no network."""

from __future__ import annotations

from pathlib import Path

from cdopt._util import documents
from cdopt.plots.explore.exploration import Exploration
from cdopt.plots.explore.friction import FrictionalExploration

SOLVER = ("explore_solver.js", "explore_forces.js")  # the page's scripts that compute
_INTERFACE = ("explore_drawing.js", "explore_words.js", "explore_page.js")


def page(posed: Exploration | FrictionalExploration) -> str:
    """The text of a self-contained HTML page.

    Parameters
    ----------
    posed : what is explored, by ``of_scene``, ``of_step``, ``of_problem`` or ``of_friction``.
    """
    content, title = posed.content(), posed.title
    if isinstance(posed, FrictionalExploration):
        return documents.render("explore_friction.html", title=title, content=content)
    drawn, scripts = posed.picture is not None, SOLVER + _INTERFACE
    return documents.render(
        "explore.html", title=title, drawn=drawn, content=content, scripts=scripts
    )


def save_page(posed: Exploration | FrictionalExploration, path: str | Path) -> Path:
    """Write the page of an exploration to a file.

    Parameters
    ----------
    posed : the exploration. path : of the page, ``.html``.

    Raises
    ------
    InvalidInput : as ``check_page``, or a file that cannot be written.
    """
    return documents.save_page(page(posed), path)
