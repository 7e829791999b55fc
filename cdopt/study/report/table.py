"""A table: numbers as they were computed, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdopt._util import documents
from cdopt._util.formatting import short

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
        return documents.csv_text(self.header, self.rows)

    def markdown(self, heading: bool = True) -> str:
        """Title, explanation and table as Markdown; without a ``heading`` the table alone."""
        title, about = (documents.markdown_cell(text) for text in (self.title, self.about))
        lines = [f"## {title}", "", about, ""] if heading else []
        if not self.rows:
            return "\n".join([*lines, "No such runs.", ""])
        lines += documents.markdown_table(self.header, self.written, self._right)
        return "\n".join([*lines, ""])

    @property
    def written(self) -> list[list[str]]:
        """The rows as people read them."""
        return [[written(cell) for cell in row] for row in self.rows]

    @property
    def classes(self) -> list[str]:
        """Of each column in a page: "n" for numbers."""
        return ["n" if right else "" for right in self._right]

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
