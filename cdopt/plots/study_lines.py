"""Pictures of a solver study: performance profiles, accuracy against time, growth with size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.errors import InvalidInput
from cdopt.plots.canvas import SMALL, TEXT, headline, literal, panels, quiet_axes
from cdopt.plots.palette import INK, QUIET, look
from cdopt.study.statistics import Profile, power_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TALL = 2.7  # inches
_COLUMNS = 2
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.2)), (0, (1.2, 1.0)))
_FAR = 1e3  # times the fastest, where profiles end

Points = Sequence[tuple[float, float]]


def performance_profiles(
    profiles: Mapping[str, Mapping[str, Profile]], *, title: str = "", subtitle: str = ""
) -> Figure:
    """Profiles ρ(τ), a panel for each comparison.

    Parameters
    ----------
    profiles : by comparison and solver.

    Raises
    ------
    InvalidInput : none.
    """
    figure, axes = _panels(profiles, "profiles")
    for panel, (what, found) in zip(axes, profiles.items(), strict=True):
        most = max([p.ratios.max() for p in found.values() if p.ratios.size], default=1.0)
        most = min(max(2.0, 1.1 * float(most)), _FAR)
        for name, profile in found.items():
            tau, share = profile.steps(most)
            panel.step(
                tau, 100.0 * share, where="post", label=_label(name), **_style(name),
                marker=look(_backend(name)).marker, markersize=4.5,
                markevery=max(tau.size // 4, 1),
            )  # fmt: skip
        panel.set_xscale("log")
        panel.set(xlim=(1.0, most), ylim=(0.0, 103.0))
        _words(panel, what, "time over the fastest [–]", "problems solved [%]")
    return _finished(figure, axes, title, subtitle)


def accuracy_against_time(
    points: Mapping[str, Mapping[str, Points]], *, title: str = "", subtitle: str = ""
) -> Figure:
    """What residual each solver reaches in what time, a panel for each formulation.

    Parameters
    ----------
    points : by formulation and solver, (seconds, residual), joined in this order.

    Raises
    ------
    InvalidInput : none.
    """
    figure, axes = _panels(points, "points")
    for panel, (what, found) in zip(axes, points.items(), strict=True):
        for name, pairs in found.items():
            x, y = np.array(pairs, dtype=np.float64).T
            style = {**_style(name), "marker": look(_backend(name)).marker, "markersize": 5.0}
            panel.loglog(x, np.maximum(y, 1e-17), label=_label(name), **style)
        _words(panel, what, "time of the whole solve [s]", "worst residual [–]")
    return _finished(figure, axes, title, subtitle)


def growth_with_size(
    points: Mapping[str, Mapping[str, Points]], *, title: str = "", subtitle: str = ""
) -> Figure:
    """Time over number of contacts, and the exponent of each, a panel for each family.

    Parameters
    ----------
    points : by family and solver, (contacts, seconds).

    Raises
    ------
    InvalidInput : none.
    """
    figure, axes = _panels(points, "points")
    for panel, (what, found) in zip(axes, points.items(), strict=True):
        for name, pairs in found.items():
            x, y = np.array(sorted(pairs), dtype=np.float64).T
            shown = {**_style(name), "marker": look(_backend(name)).marker, "markersize": 5.0}
            label = _label(name)
            if np.unique(x).size > 1:
                label += f", ∝ n^{power_fit(x.tolist(), y.tolist()).exponent:.2f}"
            panel.loglog(x, y, label=label, **shown)
        _words(panel, what, "contacts", "time of the whole solve [s]")
        panel.legend(fontsize=SMALL - 1.5, frameon=False, handlelength=1.6)
    headline(figure, title, subtitle)
    return figure


def _panels(content: Mapping[str, Any], name: str) -> tuple[Figure, list[Any]]:
    if not content or not all(content.values()):
        raise InvalidInput(name, "nothing to draw", "at least one solver in each panel")
    return panels(len(content), min(_COLUMNS, len(content)), _TALL)


def _words(panel: Any, title: str, across: str, up: str) -> None:
    quiet_axes(panel)
    panel.minorticks_off()
    panel.set_title(literal(title), fontsize=TEXT, color=QUIET, loc="left")
    panel.set_xlabel(across, fontsize=SMALL, color=INK)
    panel.set_ylabel(up, fontsize=SMALL, color=INK)


def _finished(figure: Figure, axes: Sequence[Any], title: str, subtitle: str) -> Figure:
    """One key for all panels, below them, and the headline."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = min(len(handles), 6)
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=columns,
                  fontsize=SMALL, frameon=False, handlelength=2.2)  # fmt: skip
    headline(figure, title, subtitle)
    return figure


def _backend(name: str) -> str:
    """The backend of "osqp" or "osqp (direct)"."""
    return name.partition(" ")[0]


def _label(name: str) -> str:
    backend, _, how = name.partition(" ")
    return literal(f"{look(backend).name} {how}".strip())


def _style(name: str) -> dict[str, Any]:
    dash = _DASHES[1] if " " in name else _DASHES[0]
    return {"color": look(_backend(name)).colour, "linestyle": dash, "linewidth": 1.6}
