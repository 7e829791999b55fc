"""A table with a name: its numbers in full, and the text of its cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks, documents, notebook
from cdopt._util.errors import InvalidInput
from cdopt._util.files import write_text
from cdopt._util.formatting import short

if TYPE_CHECKING:
    import pandas as pd

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """A table with a name.

    Attributes
    ----------
    name : fit for a file. title, about : texts above it.
    header : names of the columns, with units.
    rows : of cells; None or not-a-number for unknown.

    Raises
    ------
    InvalidInput : a row of another length than the header, or entries that are not text.
    """

    name: str
    title: str
    about: str
    header: Sequence[str]
    rows: Sequence[tuple[Any, ...]]

    def __post_init__(self) -> None:
        for name in ("name", "title", "about"):
            checks.text(name, getattr(self, name))
        object.__setattr__(self, "header", checks.instances("header", self.header, str))
        rows = tuple(
            tuple(map(_plain, checks.sequence(f"rows[{k}]", row)))
            for k, row in enumerate(checks.sequence("rows", self.rows))
        )
        for k, row in enumerate(rows):
            if len(row) != len(self.header):
                raise InvalidInput(f"rows[{k}]", f"{len(row)} cells", f"{len(self.header)}")
        object.__setattr__(self, "rows", rows)

    def csv(self) -> str:
        """The table as CSV, numbers in full."""
        return documents.csv_text(self.header, self.rows)

    def save_csv(self, path: str | Path) -> None:
        """Write the table to a CSV file."""
        write_text(path, self.csv())

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas.DataFrame, its header the columns, numbers in full."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        return notebook.data_frame(dict(zip(self.header, map(list, columns), strict=True)))

    def _repr_html_(self) -> str:
        return notebook.table(self.title, self.header, self.written, self.about)

    def markdown(self, heading: bool = True) -> str:
        """Title, explanation and table as Markdown; without a ``heading`` the table alone."""
        heading = checks.flag("heading", heading)
        title, about = (documents.markdown_cell(text) for text in (self.title, self.about))
        lines = [f"## {title}", "", about, ""] if heading else []
        if not self.rows:
            return "\n".join([*lines, "No such runs.", ""])
        lines += documents.markdown_table(self.header, self.written, self._right)
        return "\n".join([*lines, ""])

    @property
    def written(self) -> list[list[str]]:
        """The rows as text."""
        return [[written(cell) for cell in row] for row in self.rows]

    @property
    def classes(self) -> list[str]:
        """The style class of each column in a page: "n" for numbers."""
        return ["n" if right else "" for right in self._right]

    @property
    def _right(self) -> list[bool]:
        """Whether each column is one of numbers, aligned at the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        return [not any(isinstance(cell, str) for cell in column) for column in columns]


def written(cell: Cell) -> str:
    """The text of a cell."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return short(cell, 3) if isinstance(cell, float) else str(cell)


def _plain(value: Any) -> Cell:
    """A cell as a value of Python, None for not-a-number."""
    cell: Cell = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(cell, float) and math.isnan(cell) else cell
