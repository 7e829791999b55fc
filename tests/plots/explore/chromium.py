"""The headless browser of the pictures' tests, for pages to explore."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser import PROGRAM

from cdopt._util import documents
from cdopt.plots.explore import SOLVER

needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no chromium here to open a page with")

# numbers as JSON knows them: infinity and not-a-number as words
_PLAIN = "(k, v) => typeof v === 'number' && !Number.isFinite(v) ? String(v) : v"


def load_solver(view: Any) -> None:
    """The page's solver alone, in an empty page."""
    view.run(f"{documents.source(*SOLVER)}\n0")


def evaluate(view: Any, expression: str) -> Any:
    """The value of an expression, with numbers that are not finite."""
    return revived(json.loads(view.run(f"JSON.stringify({expression}, {_PLAIN})")))


def answer(view: Any, **problem: Any) -> dict[str, Any]:
    """What the solver says of a problem."""
    return evaluate(view, f"CdoptForces.answer({json.dumps(problem)})")


def revived(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: revived(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [revived(entry) for entry in value]
    return float(value) if value in ("Infinity", "-Infinity", "NaN") else value
