"""De Klerk et al. (arXiv 2103.01757): figures 4 and 6 to 11, from cdopt's own runs."""

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

from ..olsen_kamrin.numbers import Number
from ..olsen_kamrin.output import Report, draw, make_folder, write
from ..olsen_kamrin.store import Store, versions
from .figures import FIGURES
from .numbers import numbers
from .runs import Runs
from .settings import Settings

HEADING = (
    "De Klerk et al., A variational integrator for the discrete element method: reproduced by cdopt"
)


def reproduce(
    folder: str | Path,
    settings: Settings | None = None,
    figure: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Report:
    """Figures 4 and 6–11 on one page, with numbers beside their references.

    Parameters
    ----------
    folder : for pictures, tables, the page and all runs, which are read the next time.
    settings : lengths, and the source of the curves of velocity-Verlet.
    figure : one figure alone, without the table.
    tell : is told what is being done.

    Raises
    ------
    InvalidInput : no such figure, or the folder cannot be written.
    BackendUnavailable : LAMMPS was asked for and is not installed.
    SolveFailed : a run failed.
    """
    chosen = Settings() if settings is None else settings
    if figure is not None and figure not in FIGURES:
        known = ", ".join(map(str, FIGURES))
        raise InvalidInput("figure", repr(figure), f"one of {known}: the others are drawings")
    started = time.perf_counter()
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    place = Path(folder)
    runs = Runs(chosen, Store(place / "runs", tell))
    runs.uses_lammps()  # before any work, if it was asked for and is not there
    make_folder(place, FIGURES)
    ways = {number: partial(way, runs) for number, way in FIGURES.items()}
    figures = draw(list(FIGURES) if figure is None else [figure], ways, place, tell)
    rows: tuple[Number, ...] = ()
    if figure is None:
        tell("numbers")
        rows = tuple(numbers(runs))
    facts = _facts(runs)
    facts["date"] = stamp
    facts["seconds of this call"] = f"{time.perf_counter() - started:.1f}"
    report = Report(place, figures, rows, facts, "reference")
    if figure is None:
        write(report, HEADING, remarks(runs))
    return report


def remarks(runs: Runs) -> list[str]:
    """What a reader should know before the table, in sentences."""
    return [
        "Spheres of diameter d = 1 and density 1, k = 10⁶, speeds 1, in the units of the authors' "
        "code; γ is γ_n, 1/s, and γ_t is half of it. The box has m = d = g = 1, k = 195,000 and "
        "γ_n = 30. t_c = π √(m/2k) is the contact time of two spheres without damping.",
        "The paper prints few numbers. References are the contact model (20)–(25) solved by "
        "DOP853 to about 10⁻¹¹, the closed form (32)–(34) with t from first touch, and "
        "velocity-Verlet.",
        f"Velocity-Verlet: {peer_words(runs)}.",
        "Dissipation of the variational integrator is split as in the paper, of first order in "
        "the time step." if runs.settings.damping == "paper" else
        "Dissipation of the variational integrator is split as in forced variational integrators, "
        "of second order, not as in the paper.",
        "Δy is counted from centre to centre. The authors' scripts put centres at ∓Δy, twice "
        "that; figures of oblique impacts then differ from the paper's.",
        "The box is chaotic: a run is one of many, and compares with the band of twelve.",
    ]  # fmt: skip


def peer_words(runs: Runs) -> str:
    """Where the curves of velocity-Verlet come from."""
    if runs.uses_lammps():
        found = versions().get("lammps", "of unknown version")
        return f"LAMMPS {found}, run here, pair style granular with linear_nohistory"
    return "the series stored with cdopt, made with LAMMPS"


def _facts(runs: Runs) -> dict[str, Any]:
    s = runs.settings
    found: dict[str, Any] = {
        "settings": ", ".join(f"{name} = {value}" for name, value in asdict(s).items()),
        "velocity-Verlet": peer_words(runs),
        "machine": f"Python {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores",
        "runs": f"kept in {runs.store.folder.name}",
        "versions": ", ".join(f"{name} {value}" for name, value in versions().items()),
    }
    took = sorted(runs.store.seconds.items(), key=lambda item: -item[1])
    found["seconds of runs"] = ", ".join(f"{name} {value:.1f}" for name, value in took)
    return found
