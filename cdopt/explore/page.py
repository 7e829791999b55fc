"""An exploration as one HTML page that asks the network for nothing."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from cdopt import checks
from cdopt.errors import InvalidInput
from cdopt.explore.exploration import Exploration

SOLVER = ("solver.js", "forces.js")  # the page's scripts that compute
_SHOWN = ("drawing.js", "words.js", "page.js")  # and those that show


def solver() -> str:
    """The script that solves in the page: the objects ``CdoptSolver`` and ``CdoptForces``."""
    return "\n".join(_part(name) for name in SOLVER)


def page(posed: Exploration) -> str:
    """The text of a self-contained HTML page.

    Parameters
    ----------
    posed : what is explored, by ``of_scene``, ``of_step`` or ``of_problem``.
    """
    data = json.dumps(posed.content(), allow_nan=False).replace("<", "\\u003c")
    shown = "\n".join(_part(name) for name in _SHOWN)
    fields = {
        "STYLE": _part("page.css"),
        "TITLE": html.escape(posed.title),
        "DRAWN": "" if posed.picture is not None else "hidden",
        "SCRIPT": f"const CDOPT = {data};\n{solver()}\n{shown}",
    }
    names = "|".join(fields)
    return re.sub(rf"\[({names})\]", lambda found: fields[found[1]], _part("page.html"))


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
    try:
        target.write_text(page(posed), encoding="utf-8")
    except OSError as error:
        raise InvalidInput("path", f"{path}: {error.strerror}", "a file to write to") from error
    return target


def check_page(path: str | Path) -> Path:
    """The path of a page, if it can be written.

    Raises
    ------
    InvalidInput : another extension, or no such folder.
    """
    return checks.page("path", path)


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
