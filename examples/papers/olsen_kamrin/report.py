"""Olsen & Kamrin (arXiv 1805.07437): all its figures and Table 1, from cdopt's own runs."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from cdopt._util.errors import InvalidInput
from cdopt.backends import APGD, PGS, Newton

from .classic import column
from .dem import uses_lammps
from .figures import FIGURES, Results
from .numbers import (
    Number,
    classic_table,
    classic_words,
    numbers,
    source,
)
from .output import Report, draw, make_folder, write
from .page import More
from .pile import Pile
from .settings import MATERIALS, PAPER_N, Settings
from .store import Store, versions

HEADING = "Olsen & Kamrin, Resolving force indeterminacy in contact dynamics: reproduced by cdopt"
CLASSIC = "Classic contact dynamics on the step at rest, Hooke"
ABOUT = (
    "The paper's columns, n = 20: APGD +14 % and 0.17, PGS +41 % and 0.19. Largest force: against "
    "that of DEM. Floor error: ‖F − F_DEM‖ / ‖F_DEM‖. Asymmetry: ‖F − S F‖ / ‖F‖ of the floor "
    "pressure, with S the average over the square's eight symmetries. All rows have the same "
    "motion and the same sum of forces on every sphere."
)


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
    make_folder(place, FIGURES)
    results = Results(pile)
    known = {number: partial(way, results) for number, way in FIGURES.items()}
    figures = draw(list(FIGURES) if figure is None else [figure], known, place, tell)
    rows: tuple[Number, ...] = ()
    if figure is None:
        tell("numbers")
        rows = tuple(numbers(results))
    facts = _facts(chosen, pile)
    facts["date"] = stamp
    facts["seconds of this call"] = f"{time.perf_counter() - started:.1f}"
    report = Report(place, figures, rows, facts)
    if figure is None:
        more = More(CLASSIC, ABOUT, *classic_table(results))
        write(report, HEADING, remarks(results), more)
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
