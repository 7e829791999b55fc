"""A study's report in a folder: the page, its tables as Markdown and CSV, its pictures."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdopt import checks
from cdopt.errors import InvalidInput
from cdopt.plots import save
from cdopt.reports.pictures import Picture, pictures
from cdopt.reproduce.page import STYLE
from cdopt.study.report import Results, Table, limitations, read, tables
from cdopt.study.report.limits import facts, settings

PAGE, TEXT, LIMITS = "index.html", "report.md", "limitations.md"
_FORMATS = (".svg", ".png")
_MARK = re.compile(r"<!-- table: ([a-z]+) -->")
_MARKED = re.compile(_MARK.pattern + r"(?:(?!<!-- table: ).)*?<!-- end -->", re.DOTALL)
_WIDE = "table { display: block; overflow-x: auto; }\n"


def write(
    study: Results | str | Path,
    folder: str | Path,
    title: str = "Solvers on contact problems",
    more: Sequence[Table] = (),
) -> Path:
    """Write the report of a study; its page.

    Parameters
    ----------
    study : its results, or its file or folder.
    folder : made where it is missing: ``index.html``, ``report.md``, ``limitations.md``, a CSV
        file for each table, an SVG and a PNG for each picture.
    title : of the page.
    more : further tables, such as ``cdopt.study.labels.labelled`` makes of the problems.

    Raises
    ------
    InvalidInput : no records, or the folder cannot be written.
    """
    chosen = study if isinstance(study, Results) else read(study)
    if not chosen.records:
        raise InvalidInput("study", checks.describe(study), "a study with records")
    place = Path(folder)
    found = (*tables(chosen), settings(chosen), *more)
    limits, known = limitations(chosen), facts(chosen)
    try:
        place.mkdir(parents=True, exist_ok=True)
        drawn = [(picture, _draw(picture, place)) for picture in pictures(chosen)]
        texts = {
            PAGE: page(title, found, drawn, limits, known),
            TEXT: markdown(title, found, [picture for picture, _ in drawn], limits, known),
            LIMITS: "\n".join([f"# {title}: limitations", "", *_bullets(limits), ""]),
            **{f"{table.name}.csv": table.csv() for table in found},
        }
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput("folder", f"{place}: {error}", "a folder that can be written") from error
    return place / PAGE


def write_into(path: str | Path, study: Results) -> None:
    """Write tables of a study into a Markdown file, between ``<!-- table: NAME -->`` and an end.

    Raises
    ------
    InvalidInput : as ``check_into``, or the file cannot be written.
    """
    place = Path(path)
    known = {table.name: table for table in tables(study)}
    text = _marked(place, tuple(known))

    def written(found: re.Match[str]) -> str:
        rows = known[found[1]].markdown(heading=False)
        return f"<!-- table: {found[1]} -->\n{rows}<!-- end -->"

    try:
        place.write_bytes(_MARKED.sub(written, text).encode())
    except OSError as error:
        raise InvalidInput("path", f"{place}: {error}", "a file that can be written") from error


def check_into(path: str | Path, study: Results) -> None:
    """Whether tables of a study can be written into a Markdown file.

    Raises
    ------
    InvalidInput : no such file, one that is no text, no mark in it, a mark without an end, or one
        with the name of no table.
    """
    _marked(Path(path), tuple(table.name for table in tables(study)))


def _marked(place: Path, known: tuple[str, ...]) -> str:
    """The text of a file with marks, its line ends as they are."""
    if place.exists() and not place.is_file():
        raise InvalidInput("path", f"{place}: not a regular file", "a Markdown file")
    try:
        text = place.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("path", f"{place}: {error}", "a Markdown file") from error
    names = _MARK.findall(text)
    if not names or len(names) != len(_MARKED.findall(text)):
        found = f"{place}: " + ("a mark without an end" if names else "no mark")
        raise InvalidInput("path", found, "<!-- table: NAME --> … <!-- end -->")
    for name in names:
        checks.choice("table", name, known)
    return text


def page(
    title: str,
    found: Sequence[Table],
    drawn: Sequence[tuple[Picture, bytes]],
    limits: Sequence[str],
    known: Mapping[str, str],
) -> str:
    """The page: tables, pictures within it, limitations, and how it was made. No network."""
    shown = "\n".join(
        f'<figure class="wide" id="figure-{picture.name}">'
        f'<img alt="{html.escape(picture.name)}" '
        f'src="data:image/svg+xml;base64,{base64.b64encode(svg).decode("ascii")}">'
        f"<figcaption>{html.escape(picture.caption)}</figcaption></figure>"
        for picture, svg in drawn
    )
    listed = "\n".join(f"<li>{html.escape(limit)}</li>" for limit in limits)
    made = "\n".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>"
        for name, text in known.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{html.escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{STYLE}{_WIDE}</style></head>
<body>
<h1>{html.escape(title)}</h1>
<p><a href="#limitations">What this does not show</a>; <a href="#made">how it was made</a>.</p>
{shown}
{"".join(table.html() for table in found)}
<h2 id="limitations">Limitations</h2>
<ul>{listed}</ul>
<h2 id="made">How it was made</h2>
<table>{made}</table>
</body>
</html>
"""


def markdown(
    title: str,
    found: Sequence[Table],
    drawn: Sequence[Picture],
    limits: Sequence[str],
    known: Mapping[str, str],
) -> str:
    """The same as Markdown, the pictures as files beside it."""
    parts = [f"# {title}", ""]
    for picture in drawn:
        parts += [f"![{picture.name}]({picture.name}.svg)", "", picture.caption, ""]
    parts += [table.markdown() for table in found]
    parts += ["## Limitations", "", *_bullets(limits), "", "## How it was made", ""]
    return "\n".join([*parts, *_bullets([f"{k}: {v}" for k, v in known.items()]), ""])


def _draw(picture: Picture, folder: Path) -> bytes:
    """Write a picture in every format; its SVG."""
    figure = picture.draw()
    for ending in _FORMATS:
        save(figure, folder / f"{picture.name}{ending}")
    return (folder / f"{picture.name}.svg").read_bytes()


def _bullets(lines: Sequence[str]) -> list[str]:
    return [f"- {line}" for line in lines]
