"""Olsen & Kamrin (arXiv 1805.07437): all its figures and Table 1, from cdopt's own runs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdopt.backends import APGD, PGS, Newton
from cdopt.errors import InvalidInput
from cdopt.plots import save
from cdopt.reproduce.classic import column
from cdopt.reproduce.dem import uses_lammps
from cdopt.reproduce.figures import FIGURES, Results
from cdopt.reproduce.numbers import (
    Number,
    classic_table,
    classic_words,
    numbers,
    source,
)
from cdopt.reproduce.page import markdown, page, table_csv
from cdopt.reproduce.pile import Pile
from cdopt.reproduce.settings import MATERIALS, PAPER_N, Settings
from cdopt.reproduce.store import Store, versions
from cdopt.study.words import plain

HEADING = "Olsen & Kamrin, Resolving force indeterminacy in contact dynamics: reproduced by cdopt"
ABOUT = (
    "The paper's columns, n = 20: APGD +14 % and 0.17, PGS +41 % and 0.19. Largest force: against "
    "that of DEM. Floor error: ‖F − F_DEM‖ / ‖F_DEM‖. Asymmetry: ‖F − S F‖ / ‖F‖ of the floor "
    "pressure, with S the average over the square's eight symmetries. All rows have the same "
    "motion and the same sum of forces on every sphere."
)
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
    """

    folder: Path
    figures: dict[int, tuple[Path, str]]
    rows: tuple[Number, ...]
    facts: dict[str, Any]

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
            "numbers": [row.as_dict() for row in self.rows],
            "facts": self.facts,
        }  # fmt: skip


def olsen_kamrin(
    folder: str | Path,
    settings: Settings | None = None,
    figure: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Report:
    """Figures 1–19 and Table 1, on one page, with the paper's numbers beside ours.

    Parameters
    ----------
    folder : for pictures, tables, the page and all runs, which are read the next time.
    settings : size, time step, source of the DEM columns.
    figure : one figure alone, without the table.
    tell : is told what is being done.

    Raises
    ------
    InvalidInput : no such figure, or the folder cannot be written.
    BackendUnavailable : LAMMPS was asked for and is not installed.
    SolveFailed : a run found no answer.
    """
    chosen = Settings() if settings is None else settings
    if figure is not None and figure not in FIGURES:
        raise InvalidInput("figure", repr(figure), f"a number from 1 to {max(FIGURES)}")
    started = time.perf_counter()
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    place = Path(folder)
    pile = Pile(chosen, Store(place / f"runs-n{chosen.n}", tell))
    uses_lammps(pile)  # before any work, if it was asked for and is not there
    _make(place)
    results = Results(pile)
    figures = {}
    for number in FIGURES if figure is None else (figure,):
        tell(f"figure {number}")
        drawn = FIGURES[number](results)
        path = place / f"figure-{number:02d}.png"
        save(drawn.figure, path)
        figures[number] = (path, drawn.caption)
    rows: tuple[Number, ...] = ()
    if figure is None:
        tell("numbers")
        rows = tuple(numbers(results))
    facts = _facts(chosen, pile)
    facts["date"] = stamp
    facts["seconds of this call"] = f"{time.perf_counter() - started:.1f}"
    report = Report(place, figures, rows, facts)
    if figure is None:
        _write(report, results)
    return report


def remarks(results: Results) -> list[str]:
    """What a reader should know before the table, in sentences."""
    n = results.pile.settings.n
    size = f"Pile of {n} layers" + (", as in the paper" if n == PAPER_N else
                                    f"; the paper's has {PAPER_N}, and its numbers are those "
                                    "of that pile")  # fmt: skip
    sources: dict[str, list[str]] = {}
    for m in MATERIALS:
        sources.setdefault(source(results, m), []).append(m.title)
    columns = "; ".join(f"{words} ({', '.join(who)})" for words, who in sources.items())
    both = " and ".join(column(results.classic, solver).words for solver in ("apgd", "pgs"))
    sound = sum(a.certified for a in results.classic)
    return [
        f"{size}. Forces and floor pressures are in units of a sphere's weight mg.",
        f"The DEM columns come from {columns}.",
        f"Classic contact dynamics does not determine its forces. The columns are {both}; notes "
        "give the range over orders (given, reversed, shuffled) and starts (from zero, from the "
        "forces of a step of the fall, or with forces carried from step to step through the "
        "whole drop). The paper's start and order are not known here, so its numbers compare "
        f"with the range. {sound} of these {len(results.classic)} answers are certified.",
        classic_words(results),
    ]


def _facts(settings: Settings, pile: Pile) -> dict[str, Any]:
    found: dict[str, Any] = {
        "settings": ", ".join(f"{name} = {value}" for name, value in asdict(settings).items()),
        "drop": f"dt = {settings.dt:g} s, {settings.length:g} s long, backend apgd, then newton",
        "machine": f"Python {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores",
        "runs": f"kept in {pile.store.folder.name}; drop-*.vtkhdf there open in ParaView",
        "versions": ", ".join(f"{name} {value}" for name, value in versions().items()),
        "solver settings": f"{APGD()!r}, {PGS()!r}, {Newton()!r}",
    }
    took = sorted(pile.store.seconds.items(), key=lambda item: -item[1])
    found["seconds of runs"] = ", ".join(f"{name} {value:.1f}" for name, value in took)
    return found


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("out", f"{folder}: {error}", "a folder that can be written") from error


def _write(report: Report, results: Results) -> None:
    words, classic = remarks(results), classic_table(results)
    texts = {
        PAGE: page(HEADING, words, report.rows, classic, ABOUT, report.figures, report.facts),
        TABLE_MD: markdown(report.rows, HEADING, words),
        TABLE_CSV: table_csv(report.rows),
        TABLE_JSON: json.dumps(plain(report.as_dict()), indent=2),
    }
    for name, text in texts.items():
        try:
            (report.folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            found = f"{report.folder / name}: {error}"
            raise InvalidInput("out", found, "a folder that can be written") from error
