"""The summary page: one HTML file that needs nothing else, and its table as Markdown and CSV."""

from __future__ import annotations

import base64
import csv
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdopt.reproduce.numbers import Number

STYLE = """
body { font: 16px/1.5 Georgia, 'Times New Roman', serif; color: #1a1a1a; background: #fff;
  max-width: 62rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin-bottom: .3rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; }
p.quiet, figcaption, td.note { color: #555; }
table { border-collapse: collapse; width: 100%; font: 13.5px/1.4 Helvetica, Arial, sans-serif; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #e3e3e3;
  vertical-align: top; }
th { border-bottom: 1.5px solid #1a1a1a; }
th.n, td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
tr.group td { font-weight: bold; padding-top: .9rem; border-bottom: none; }
td.note { font-size: 12px; }
figure { margin: 1.6rem 0 2.6rem; }
figure img { width: 100%; height: auto; display: block; }
figure.small img { max-width: 36rem; }
figcaption { font: 14px/1.45 Helvetica, Arial, sans-serif; margin-top: .3rem; }
figcaption b { color: #1a1a1a; }
@media print { figure { break-inside: avoid; } }
"""
COLUMNS = ("quantity", "{wanted}", "ours", "difference", "note")


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
    lines = [f"# {heading}", "", *[f"{remark}\n" for remark in remarks]]
    lines += ["| " + " | ".join(columns(wanted)) + " |", "|---|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(c.replace("|", "\\|") for c in cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def table_csv(rows: Sequence[Number], wanted: str = "paper") -> str:
    """The table as CSV, numbers in full."""
    out = io.StringIO()
    names = ("group", "quantity", wanted, "ours", "difference", "kind", "note")
    sheet = csv.DictWriter(out, names, lineterminator="\n")
    sheet.writeheader()
    for row in rows:
        sheet.writerow({k: "" if v is None else v for k, v in row.as_dict(wanted).items()})
    return out.getvalue()


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
    text = "\n".join(f"<p>{html.escape(remark)}</p>" for remark in remarks)
    shown = "\n".join(
        f'<figure class="{_size(path)}" id="figure-{number}">'
        f'<img alt="Figure {number}" src="data:image/png;base64,{_encoded(path)}">'
        f"<figcaption><b>Figure {number}.</b> {html.escape(words)}</figcaption></figure>"
        for number, (path, words) in figures.items()
    )
    made = "\n".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{html.escape(heading)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{STYLE}</style></head>
<body>
<h1>{html.escape(heading)}</h1>
{text}
<h2>{html.escape(wanted.capitalize())} and ours</h2>
{_table(rows, wanted)}
{"" if more is None else _further(more)}
<h2>Figures</h2>
{shown}
<h2>How it was made</h2>
<table>{made}</table>
</body>
</html>
"""


def _further(more: More) -> str:
    return (
        f'<h2>{html.escape(more.heading)}</h2>\n<p class="quiet">{html.escape(more.about)}</p>\n'
        + _plain_table(more.header, more.rows)
    )


def _table(rows: Sequence[Number], wanted: str) -> str:
    head = "".join(
        f"<th{'' if name in ('quantity', 'note') else ' class=n'}>{html.escape(name)}</th>"
        for name in columns(wanted)
    )
    body, group = [], ""
    for row in rows:
        if row.group != group:
            group = row.group
            body.append(f'<tr class="group"><td colspan="5">{html.escape(group)}</td></tr>')
        what, paper, ours, off, note = (html.escape(cell) for cell in cells(row))
        body.append(
            f"<tr><td>{what}</td><td class=n>{paper}</td><td class=n>{ours}</td>"
            f'<td class=n>{off}</td><td class="note">{note}</td></tr>'
        )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Words in the first three columns, numbers in the others."""

    def line(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if k > 2 and tag == 'td' else ''}>{html.escape(value)}</{tag}>"
            for k, value in enumerate(values)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")


def _size(path: Path) -> str:
    """Narrow pictures keep their size: a PNG's width in pixels stands at byte 16."""
    return "small" if int.from_bytes(path.read_bytes()[16:20], "big") < 1200 else "wide"
