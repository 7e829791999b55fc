"""A table: numbers as they were computed, and how they are written."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

from cdopt.study.words import short

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """A table with a name.

    Attributes
    ----------
    name : fit for a file. title, about : what stands above it.
    header : names of the columns, with units. rows : of cells; None where nothing is known.
    """

    name: str
    title: str
    about: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def csv(self) -> str:
        """The table as CSV, numbers in full."""
        out = io.StringIO()
        sheet = csv.writer(out, lineterminator="\n")
        sheet.writerow(self.header)
        sheet.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return out.getvalue()

    def markdown(self, heading: bool = True) -> str:
        """Title, explanation and table as Markdown; without a ``heading`` the table alone."""
        marks = ["---:" if right else "---" for right in self._right]
        lines = [f"## {self.title}", "", self.about, ""] if heading else []
        if not self.rows:
            return "\n".join([*lines, "No such runs.", ""])
        lines += ["| " + " | ".join(self.header) + " |", "|" + "|".join(marks) + "|"]
        lines += ["| " + " | ".join(_escaped(c) for c in row) + " |" for row in self.rows]
        return "\n".join([*lines, ""])

    def html(self) -> str:
        """Title, explanation and table as HTML."""
        above = (
            f'<h2 id="{html.escape(self.name)}">{html.escape(self.title)}</h2>\n'
            f'<p class="quiet">{html.escape(self.about)}</p>\n'
        )
        if not self.rows:
            return above + "<p>No such runs.</p>\n"
        head = "".join(_cell("th", name, right) for name, right in
                       zip(self.header, self._right, strict=True))  # fmt: skip
        body = "\n".join(
            "<tr>" + "".join(_cell("td", written(c), r) for c, r in
                             zip(row, self._right, strict=True)) + "</tr>"
            for row in self.rows
        )  # fmt: skip
        return f"{above}<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>\n"

    @property
    def _right(self) -> list[bool]:
        """Columns of numbers, which stand at the right."""
        columns: list[Sequence[Cell]] = list(zip(*self.rows, strict=True)) if self.rows else [
            () for _ in self.header
        ]  # fmt: skip
        return [not any(isinstance(cell, str) for cell in column) for column in columns]


def written(cell: Cell) -> str:
    """A cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return short(cell, 3)
    return str(cell)


def _escaped(cell: Cell) -> str:
    return written(cell).replace("|", "\\|")


def _cell(tag: str, text: str, right: bool) -> str:
    return f"<{tag}{' class=n' if right else ''}>{html.escape(text)}</{tag}>"
