"""An exploration as one HTML page that asks the network for nothing."""

from __future__ import annotations

from pathlib import Path

from cdopt._util import documents
from cdopt._util.documents import check_page as check_page
from cdopt.plots.explore.exploration import Exploration

SOLVER = ("explore_solver.js", "explore_forces.js")  # the page's scripts that compute
_SHOWN = ("explore_drawing.js", "explore_words.js", "explore_page.js")  # and those that show


def solver() -> str:
    """The script that solves in the page: the objects ``CdoptSolver`` and ``CdoptForces``."""
    return str(documents.source(*SOLVER))


def page(posed: Exploration) -> str:
    """The text of a self-contained HTML page.

    Parameters
    ----------
    posed : what is explored, by ``of_scene``, ``of_step`` or ``of_problem``.
    """
    return documents.render(
        "explore.html", title=posed.title, drawn=posed.picture is not None,
        content=posed.content(), scripts=SOLVER + _SHOWN,
    )  # fmt: skip


def save_page(posed: Exploration, path: str | Path) -> Path:
    """Write the page of an exploration to a file.

    Parameters
    ----------
    posed : the exploration. path : of the page, ``.html``.

    Raises
    ------
    InvalidInput : as ``check_page``, or a file that cannot be written.
    """
    target = check_page(path)
    return documents.save_page(page(posed), target)
