"""A study's report in a folder: the page, its tables as Markdown and CSV, its pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdopt._util import checks, documents
from cdopt._util.documents import markdown_cell
from cdopt._util.documents import picture as held_picture
from cdopt._util.errors import InvalidInput
from cdopt._util.files import TEXT as TEXT_SIZE
from cdopt._util.files import read_bytes, write_text
from cdopt.plots import save
from cdopt.plots.report.pictures import Picture, pictures
from cdopt.study.report import Results, Table, limitations, read, tables
from cdopt.study.report.limits import facts, settings

PAGE, TEXT, LIMITS = "index.html", "report.md", "limitations.md"
_FORMATS = (".svg", ".png")
_MARK = re.compile(r"<!-- table: ([a-z]+) -->")
_MARKED = re.compile(_MARK.pattern + r"(?:(?!<!-- table: ).)*?<!-- end -->", re.DOTALL)


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
    InvalidInput : no records, or the folder cannot be written or has files of these names that
        are not cdopt's.
    """
    chosen = study if isinstance(study, Results) else read(study)
    if not chosen.records:
        raise InvalidInput("study", checks.describe(study), "a study with records")
    found = (*tables(chosen), settings(chosen), *more)
    limits, known = limitations(chosen), facts(chosen)
    shown = pictures(chosen)
    files = [PAGE, TEXT, LIMITS, *(f"{table.name}.csv" for table in found)]
    files += [f"{picture.name}{ending}" for picture in shown for ending in _FORMATS]
    place = documents.folder_of_documents("folder", folder, files)
    drawn = [(picture, _draw(picture, place)) for picture in shown]
    texts = {
        PAGE: page(title, found, drawn, limits, known),
        TEXT: markdown(title, found, shown, limits, known),
        LIMITS: "\n".join([f"# {markdown_cell(title)}: limitations", "", *_bullets(limits), ""]),
        **{f"{table.name}.csv": table.csv() for table in found},
    }
    for name, text in texts.items():
        write_text(place / name, text)
    return place / PAGE


def write_into(path: str | Path, study: Results) -> None:
    """Write tables of a study into a Markdown file, between ``<!-- table: NAME -->`` and an end.

    Raises
    ------
    InvalidInput : as ``check_into``.
    SaveFailed : the disk is full or cannot be written.
    """
    place = Path(path)
    known = {table.name: table for table in tables(study)}
    text = _marked(place, tuple(known))

    def written(found: re.Match[str]) -> str:
        rows = known[found[1]].markdown(heading=False)
        return f"<!-- table: {found[1]} -->\n{rows}<!-- end -->"

    write_text(place, _MARKED.sub(written, text))


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
    try:
        text = read_bytes(place, "a Markdown file", at_most=TEXT_SIZE).decode()
    except UnicodeDecodeError as error:
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
    shown = [
        {"name": one.name, "caption": one.caption, "address": held_picture(svg, "svg+xml")}
        for one, svg in drawn
    ]
    return documents.render(
        "study.html", title=title, tables=found, pictures=shown, limits=limits, facts=known
    )


def markdown(
    title: str,
    found: Sequence[Table],
    drawn: Sequence[Picture],
    limits: Sequence[str],
    known: Mapping[str, str],
) -> str:
    """The same as Markdown, the pictures as files beside it."""
    parts = [f"# {markdown_cell(title)}", ""]
    for picture in drawn:
        caption = markdown_cell(picture.caption)
        parts += [f"![{picture.name}]({picture.name}.svg)", "", caption, ""]
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
    return [f"- {markdown_cell(line)}" for line in lines]
