"""Tables as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@")  # first characters of what spreadsheets compute
_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "\\|", "\n": " "})


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of a ``header`` and ``rows`` as CSV, numbers in full, None as an empty cell.

    Text that a spreadsheet would take for a formula gets an apostrophe in front. Text that reads as
    a number stays as it is, and so do numbers.
    """
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerows([_cell(cell) for cell in row] for row in [header, *rows])
    return out.getvalue()


def markdown_cell(text: str) -> str:
    """Text for Markdown, in a cell or outside, without HTML and on one line."""
    return text.translate(_MARKDOWN)


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]
) -> list[str]:
    """A table of a ``header`` and ``rows`` as lines of Markdown.

    ``right`` says which columns stand at the right.
    """
    marks = "|" + "|".join("---:" if number else "---" for number in right) + "|"
    lines = ["| " + " | ".join(map(markdown_cell, row)) + " |" for row in [header, *rows]]
    return [lines[0], marks, *lines[1:]]


def _cell(cell: Any) -> Any:
    if not isinstance(cell, str):
        return "" if cell is None else cell
    text = cell.replace("\r\n", "\n").replace("\r", "\n")
    return "'" + text if text.lstrip().startswith(_FORMULA) and not _number(text) else text


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
