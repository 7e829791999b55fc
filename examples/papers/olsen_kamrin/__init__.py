"""Olsen & Kamrin (2018), Resolving force indeterminacy in contact dynamics, arXiv 1805.07437.

``reproduce`` draws all 19 figures and compares every number of the paper with cdopt's own runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cdopt.backends import APGD, PGS, Newton

from .. import report
from ..report import Report, Store, TextTable
from .classic import answers, column
from .dem import dem, uses_lammps
from .figures import FIGURES
from .numbers import classic_summary, classic_table, numbers
from .pictures import UNIT
from .pile import MATERIALS, PAPER_N, Pile, Settings

__all__ = ["FIGURES", "Settings", "reproduce"]

HEADING = "Olsen & Kamrin, Resolving force indeterminacy in contact dynamics: reproduced by cdopt"
CLASSIC = "Classic contact dynamics on the step at rest, Hooke"
ABOUT = (
    "The paper's columns, n = 20: APGD +14 % and 0.17, PGS +41 % and 0.19. Largest force: against "
    "that of DEM. Floor error: ‖F − F_DEM‖ / ‖F_DEM‖. Asymmetry: ‖F − S F‖ / ‖F‖ of the floor "
    "pressure, with S the average over the square's eight symmetries. All rows have the same "
    "motion and the same sum of forces on every sphere."
)


def reproduce(
    folder: str | Path,
    settings: Settings | None = None,
    figure: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Figures 1 to 19 and Table 1 on one page, with the paper's numbers and ours.

    Parameters
    ----------
    folder : for pictures, tables, the page and all runs, which are read the next time.
    settings : size, time step, source of the DEM columns.
    figure : draw this figure only, without the table.
    progress : called with what is being done.

    Raises
    ------
    InvalidInput : no such figure, or the folder cannot be written.
    BackendUnavailable : LAMMPS was asked for and is not installed.
    SolveFailed : a run found no answer.
    """
    report.check_figure(figure, FIGURES)
    started, place = time.perf_counter(), Path(folder)
    s = settings or Settings()
    pile = Pile(s, Store(place / f"runs-n{s.n}", progress))
    uses_lammps(pile)  # raises before any work if LAMMPS is required and not installed
    report.make_folder(place, FIGURES)
    figures = report.draw_figures(pile, FIGURES, figure, place)
    rows = [] if figure is not None else numbers(pile)
    facts = report.facts(
        pile, started,
        drop=f"dt = {s.dt:g} s, {s.length:g} s long, backend apgd, then newton",
        runs=f"kept in {pile.store.folder.name}; drop-*.vtkhdf there open in ParaView",
        solvers=f"{APGD()!r}, {PGS()!r}, {Newton()!r}",
    )  # fmt: skip
    made = Report(place, figures, rows, facts)
    if rows:
        made.save(HEADING, remarks(pile), TextTable(CLASSIC, ABOUT, *classic_table(pile)))
    return made


def remarks(pile: Pile) -> list[str]:
    """The paragraphs above the table."""
    n, classic = pile.settings.n, answers(pile)
    size = f"Pile of {n} layers" + (
        ", as in the paper"
        if n == PAPER_N
        else f"; the paper's has {PAPER_N}, and its numbers are those of that pile"
    )
    sources: dict[str, list[str]] = {}
    for material in MATERIALS:
        sources.setdefault(dem(pile, material).source, []).append(material.title)
    columns = "; ".join(f"{source} ({', '.join(titles)})" for source, titles in sources.items())
    both = " and ".join(column(pile, solver).case.description for solver in ("apgd", "pgs"))
    certified = sum(answer.certified for answer in classic)
    return [
        f"{size}. Forces and floor pressures are in units of a sphere's weight {UNIT}.",
        f"The DEM columns come from {columns}.",
        f"Classic contact dynamics does not determine its forces. The columns are {both}; notes "
        "give the range over orders (given, reversed, shuffled) and starts (from zero, from the "
        "forces of a step of the fall, or with forces carried from step to step through the "
        "whole drop). The paper's start and order are not known here, so its numbers compare "
        f"with the range. {certified} of these {len(classic)} answers are certified.",
        classic_summary(pile),
    ]
