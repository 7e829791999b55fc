"""What a reproduction leaves in its folder: pictures, tables and the summary page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdopt._util.documents import folder_of_documents
from cdopt._util.files import write_text
from cdopt._util.formatting import plain
from cdopt.plots import save

from .figures import Drawn
from .numbers import Number
from .page import More, markdown, page, table_csv

PAGE, TABLE_MD, TABLE_CSV, TABLE_JSON = "index.html", "table.md", "table.csv", "table.json"


@dataclass(frozen=True)
class Report:
    """What was made.

    Attributes
    ----------
    folder : where everything is.
    figures : by number, the picture and what it shows.
    rows : the table; empty when one figure was asked for.
    facts : versions, settings and times.
    wanted : what ours is compared with, in a word.
    """

    folder: Path
    figures: dict[int, tuple[Path, str]]
    rows: tuple[Number, ...]
    facts: dict[str, Any]
    wanted: str = "paper"

    @property
    def page(self) -> Path | None:
        """The summary page; None when one figure was asked for."""
        return self.folder / PAGE if self.rows else None

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "folder": str(self.folder),
            "page": None if self.page is None else str(self.page),
            "figures": {n: {"file": str(f), "shows": words} for n, (f, words) in
                        self.figures.items()},
            "numbers": [row.as_dict(self.wanted) for row in self.rows],
            "facts": self.facts,
        }  # fmt: skip


def make_folder(folder: Path, figures: Iterable[int]) -> None:
    """The folder, made where it is missing, for figures of these numbers and the page.

    Raises
    ------
    InvalidInput : it cannot be written, or has files of these names that are not cdopt's.
    """
    pictures = (figure_file(number) for number in figures)
    folder_of_documents("out", folder, (PAGE, TABLE_MD, TABLE_CSV, TABLE_JSON, *pictures))


def figure_file(number: int) -> str:
    """Name of the file of a figure."""
    return f"figure-{number:02d}.png"


def draw(
    wanted: Sequence[int], known: Mapping[int, Callable[[], Drawn]], folder: Path,
    tell: Callable[[str], None],
) -> dict[int, tuple[Path, str]]:  # fmt: skip
    """Figures by number, each written to the folder: its file, and what it shows."""
    figures = {}
    for number in wanted:
        tell(f"figure {number}")
        drawn = known[number]()
        path = folder / figure_file(number)
        save(drawn.figure, path)
        figures[number] = (path, drawn.caption)
    return figures


def write(report: Report, heading: str, remarks: Sequence[str], more: More | None = None) -> None:
    """The page and its tables.

    Raises
    ------
    InvalidInput : the folder cannot be written.
    """
    texts = {
        PAGE: page(
            heading, remarks, report.rows, report.figures, report.facts, more=more,
            wanted=report.wanted,
        ),
        TABLE_MD: markdown(report.rows, heading, remarks, report.wanted),
        TABLE_CSV: table_csv(report.rows, report.wanted),
        TABLE_JSON: json.dumps(plain(report.as_dict()), indent=2),
    }  # fmt: skip
    for name, text in texts.items():
        write_text(report.folder / name, text)
