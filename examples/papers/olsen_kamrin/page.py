"""The summary page: one HTML file that needs nothing else, and its table as Markdown and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdopt._util import documents
from cdopt._util.documents import markdown_cell, picture

from .numbers import Number

COLUMNS = ("quantity", "{wanted}", "ours", "difference", "note")
_WORDS = 3  # columns of a further table that are not numbers


@dataclass(frozen=True)
class More:
    """A further table of words, below that of numbers.

    Attributes
    ----------
    heading, about : above it. header, rows : the table; words in its first three columns.
    """

    heading: str
    about: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def classes(self) -> list[str]:
        """Of each column: "n" for numbers."""
        return ["" if k < _WORDS else "n" for k in range(len(self.header))]


def written(value: float | None, kind: str, signed: bool = False) -> str:
    """A value as it stands in the table."""
    if value is None:
        return "—"
    return _number(value, kind, signed).replace("-", "−")


def _number(value: float, kind: str, signed: bool) -> str:
    sign = "+" if signed else ""
    if kind == "percent":
        return f"{100.0 * value:{sign}.1f} %"
    if kind == "count":
        return f"{round(value):{sign},}"
    size = abs(value)
    return f"{value:{sign}.2e}" if 0.0 < size < 1e-3 else f"{value:{sign}.5g}"


def cells(row: Number) -> tuple[str, str, str, str, str]:
    """Quantity, paper, ours, difference and note of a row."""
    off = None if row.paper is None else row.ours - row.paper
    return (
        row.quantity, written(row.paper, row.kind), written(row.ours, row.kind),
        written(off, row.kind, signed=True), row.note,
    )  # fmt: skip


def columns(wanted: str) -> list[str]:
    """Names of the table's columns; ``wanted`` is what ours is compared with."""
    return [name.format(wanted=wanted) for name in COLUMNS]


def markdown(
    rows: Sequence[Number], heading: str, remarks: Sequence[str], wanted: str = "paper"
) -> str:
    """The table as Markdown."""
    lines = [f"# {markdown_cell(heading)}", ""]
    lines += [f"{markdown_cell(remark)}\n" for remark in remarks]
    right = (False, True, True, True, False)
    lines += documents.markdown_table(columns(wanted), map(cells, rows), right)
    return "\n".join(lines) + "\n"


def table_csv(rows: Sequence[Number], wanted: str = "paper") -> str:
    """The table as CSV, numbers in full."""
    names = ("group", "quantity", wanted, "ours", "difference", "kind", "note")
    found = (row.as_dict(wanted) for row in rows)
    return documents.csv_text(names, ([row[name] for name in names] for row in found))


def page(
    heading: str,
    remarks: Sequence[str],
    rows: Sequence[Number],
    figures: Mapping[int, tuple[Path, str]],
    facts: Mapping[str, Any],
    *,
    more: More | None = None,
    wanted: str = "paper",
) -> str:
    """The page.

    Parameters
    ----------
    heading : of the page.
    remarks : paragraphs above the table.
    rows : of the table.
    figures : by number, a PNG file and what it shows.
    facts : versions, settings and times, by name.
    more : a further table.
    wanted : what ours is compared with, in a word.
    """
    shown = [
        {"number": number, "caption": words, "size": _size(path),
         "address": picture(path.read_bytes(), "png")}
        for number, (path, words) in figures.items()
    ]  # fmt: skip
    table: list[str | tuple[str, ...]] = []
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            table.append(group)
        table.append(cells(row))
    return documents.render(
        "reproduction.html", title=heading, remarks=remarks, wanted=wanted, header=columns(wanted),
        rows=table, figures=shown, facts=facts, more=more,
    )  # fmt: skip


def _size(path: Path) -> str:
    """Narrow pictures keep their size: a PNG's width in pixels stands at byte 16."""
    return "small" if int.from_bytes(path.read_bytes()[16:20], "big") < 1200 else "wide"
