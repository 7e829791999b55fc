"""De Klerk et al. (2021), A variational integrator for the discrete element method, 2103.01757.

``reproduce`` draws figures 2 and 4 to 11 and writes a page with numbers and their references:
a high-order solution (``ode``), the closed form of a head-on impact, and velocity-Verlet by LAMMPS,
or the series that are stored in ``data`` where it is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .. import report
from ..report import Report, Store
from .figures import FIGURES
from .numbers import numbers
from .parameters import Settings
from .runs import Runs

__all__ = ["FIGURES", "Settings", "reproduce"]

HEADING = (
    "De Klerk et al., A variational integrator for the discrete element method: reproduced by cdopt"
)


def reproduce(
    folder: str | Path,
    settings: Settings | None = None,
    figure: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Figures 2 and 4 to 11 on one page, with numbers and their references.

    Parameters
    ----------
    folder : for pictures, tables, the page and all runs, which are read the next time.
    settings : lengths, and the source of the curves of velocity-Verlet.
    figure : draw this figure only, without the table.
    progress : called with what is being done.

    Raises
    ------
    InvalidInput : no such figure, or the folder cannot be written.
    BackendUnavailable : LAMMPS was asked for and is not installed.
    SolveFailed : a run failed.
    """
    report.check_figure(figure, FIGURES)
    started, place = time.perf_counter(), Path(folder)
    runs = Runs(settings or Settings(), Store(place / "runs", progress))
    runs.uses_lammps()  # raises before any work if LAMMPS is required and not installed
    report.make_folder(place, FIGURES)
    figures = report.draw_figures(runs, FIGURES, figure, place)
    rows = [] if figure is not None else numbers(runs)
    more = {"velocity-Verlet": verlet(runs), "runs": f"kept in {runs.store.folder.name}"}
    made = Report(place, figures, rows, report.facts(runs, started, **more), "reference")
    if rows:
        made.save(HEADING, remarks(runs))
    return made


def remarks(runs: Runs) -> list[str]:
    """The paragraphs above the table."""
    return [
        "Spheres of diameter d = 1 and density 1, k = 10⁶, speeds 1, in the units of the authors' "
        "code; γ is γ_n, 1/s, and γ_t is half of it. The box has m = d = g = 1, k = 195,000 and "
        "γ_n = 30. t_c = π √(m/2k) is the contact time of two spheres without damping.",
        "The paper prints few numbers. References are the contact model (20)–(25) solved by "
        "DOP853 to about 10⁻¹¹, the closed form (32)–(34) with t from first touch, and "
        "velocity-Verlet.",
        f"Velocity-Verlet: {verlet(runs)}.",
        "Dissipation of the variational integrator is split as in the paper, of first order in "
        "the time step."
        if runs.settings.damping == "paper"
        else "Dissipation of the variational integrator is split as in forced variational "
        "integrators, of second order, not as in the paper.",
        "Δy is counted from centre to centre. The authors' scripts put centres at ∓Δy, twice "
        "that; figures of oblique impacts then differ from the paper's.",
        "The box is chaotic: a run is one of many, and compares with the band of twelve.",
    ]


def verlet(runs: Runs) -> str:
    """Where the curves of velocity-Verlet come from."""
    if runs.uses_lammps():
        version = report.versions().get("lammps", "of unknown version")
        return f"LAMMPS {version}, run here, pair style granular with linear_nohistory"
    return "the series stored with cdopt, made with LAMMPS"
