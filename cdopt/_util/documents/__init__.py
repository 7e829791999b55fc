"""Documents for people: HTML pages from templates, tables as CSV and Markdown.

Names and other text of unknown origin are escaped here, for each kind of file in one place.
"""

from __future__ import annotations

import base64
import csv
import functools
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cdopt._util import checks, files
from cdopt._util.errors import CdoptError, InvalidInput

_FOLDER = Path(__file__).with_name("templates")
_MARK = '<meta name="generator" content="cdopt">'  # as in base.html
_BEGINNING = 1000  # bytes of a file that are looked at
_MARKER = ".cdopt"  # a file in folders that cdopt writes documents to
_FORMULA = ("=", "+", "-", "@")  # first characters of what spreadsheets compute
_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "\\|", "\n": " "})


# --- pages ---------------------------------------------------------------------------


def render(name: str, **content: Any) -> str:
    """The text of the page of a template, a file in ``templates``; its ``content`` is escaped."""
    return _environment().get_template(name).render(content)


def source(*names: str) -> Markup:
    """The text of scripts or style sheets of these ``names`` among the templates, unchanged."""
    return Markup("\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names))


def picture(content: bytes, kind: str) -> str:
    """A picture as a data address; ``kind`` is such as ``svg+xml``."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def check_page(path: str | Path) -> Path:
    """The path of a page (.html), if it can be written and is no other file.

    Raises
    ------
    InvalidInput : an extension other than .html, or as ``check_target``.
    """
    if isinstance(path, str | Path) and Path(path).suffix.lower() != ".html":
        raise InvalidInput("path", repr(str(path)), "a name ending in .html")
    return check_target(path, _MARK, "page of cdopt")


def check_target(path: str | Path, mark: str, what: str) -> Path:
    """The path of a document, if it can be written; one of this ``mark`` is replaced."""
    if not isinstance(path, str | Path):
        raise InvalidInput("path", checks.describe(path), "a path")
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInput("path", f"no folder {str(target.parent)!r}", "an existing folder")
    if target.exists() and not _begins_with(target, mark):
        raise InvalidInput("path", f"{target}: there, and no {what}", f"a new file, or a {what}")
    return target


def save_page(text: str, path: str | Path) -> Path:
    """Write the ``text`` of a page to a file."""
    target = check_page(path)
    files.write_text(target, text)
    return target


def folder_of_documents(name: str, folder: str | Path, names: Iterable[str]) -> Path:
    """A folder for files of these ``names``, marked as cdopt's; errors call the folder ``name``."""
    place = Path(folder)
    marker = place / _MARKER
    if not marker.is_file():
        foreign = next((file for file in names if (place / file).exists()), None)
        if foreign is not None:
            raise InvalidInput(
                name,
                f"{place / foreign}: there, and not written by cdopt",
                "a new folder, or one of cdopt's documents",
            )
    try:
        place.mkdir(parents=True, exist_ok=True)
        marker.touch()
    except OSError as error:
        raise InvalidInput(name, f"{place}: {error}", "a folder that can be written") from error
    return place


def _begins_with(path: Path, mark: str) -> bool:
    """Whether a regular file has these words near its beginning, like those of cdopt."""
    try:
        with files.opened(path, "a file of cdopt") as file:
            return mark.encode() in file.read(_BEGINNING)
    except CdoptError:
        return False


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    environment.globals |= {"source": source}
    return environment


# --- tables --------------------------------------------------------------------------


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV, numbers in full; an apostrophe is put before text that would be a formula."""
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
    """A table as lines of Markdown; ``right`` tells which columns are aligned to the right."""
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
