"""Pictures of a solver study: performance profiles, accuracy against time, growth with size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.errors import InvalidInput
from cdopt.plots import canvas
from cdopt.plots.palette import QUIET, look
from cdopt.study.statistics import Profile, power_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT = 2.7  # inches
_COLUMNS = 2
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
    for panel, (comparison, by_solver) in zip(axes, profiles.items(), strict=True):
        ratios = [float(p.ratios.max()) for p in by_solver.values() if p.ratios.size]
        most = min(max(2.0, 1.1 * max(ratios, default=1.0)), _FAR)
        for name, profile in by_solver.items():
            tau, share = profile.steps(most)
            style = _style(name) | {"markersize": 4.5, "markevery": max(tau.size // 4, 1)}
            panel.step(tau, 100.0 * share, where="post", label=_label(name), **style)
        panel.set_xscale("log")
        panel.set(xlim=(1.0, most), ylim=(0.0, 103.0))
        _name(panel, comparison, "time over the fastest [–]", "problems solved [%]")
    _legend_below(figure, axes)
    canvas.headline(figure, title, subtitle)
    return figure


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
    for panel, (form, by_solver) in zip(axes, points.items(), strict=True):
        for name, pairs in by_solver.items():
            x, y = np.array(pairs, dtype=np.float64).T
            panel.loglog(x, np.maximum(y, 1e-17), label=_label(name), **_style(name))
        _name(panel, form, "time of the whole solve [s]", "worst residual [–]")
    _legend_below(figure, axes)
    canvas.headline(figure, title, subtitle)
    return figure


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
    for panel, (family, by_solver) in zip(axes, points.items(), strict=True):
        for name, pairs in by_solver.items():
            x, y = np.array(sorted(pairs), dtype=np.float64).T
            label = _label(name)
            if np.unique(x).size > 1:
                label += f", ∝ n^{power_fit(x.tolist(), y.tolist()).exponent:.2f}"
            panel.loglog(x, y, label=label, **_style(name))
        _name(panel, family, "contacts", "time of the whole solve [s]")
        handles = panel.get_legend_handles_labels()[0]
        canvas.legend_below(panel, handles, _HEIGHT, fontsize=canvas.SMALL - 1.5, ncols=2)
    canvas.headline(figure, title, subtitle)
    return figure


def _panels(content: Mapping[str, Any], name: str) -> tuple[Figure, list[Any]]:
    if not content or not all(content.values()):
        raise InvalidInput(name, "nothing to draw", "at least one solver in each panel")
    return canvas.panels(len(content), min(_COLUMNS, len(content)), _HEIGHT)


def _name(panel: Any, title: str, x: str, y: str) -> None:
    canvas.quiet_axes(panel)
    panel.minorticks_off()
    for axis in (panel.xaxis, panel.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high < 20.0 * low:  # powers of ten would be too few
            subs = (1.0, 2.0, 5.0) if high > 4.0 * low else tuple(range(1, 10))
            axis.get_major_locator().set_params(subs=subs)
            axis.set_major_formatter("{x:g}")
    panel.set_title(canvas.literal(title), fontsize=canvas.TEXT, color=QUIET, loc="left")
    canvas.axis_labels(panel, x, y, canvas.SMALL)


def _legend_below(figure: Figure, axes: Sequence[Any]) -> None:
    """One key for all panels."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = min(len(handles), 6)
    canvas.legend(figure, handles.values(), "outside lower left", ncols=columns, handlelength=2.2)


def _label(name: str) -> str:
    backend, _, how = name.partition(" ")
    return canvas.literal(f"{look(backend).name} {how}".strip())


def _style(name: str) -> dict[str, Any]:
    """The line of "osqp" or, dashed, of "osqp (direct)"."""
    backend, _, how = name.partition(" ")
    entry, dash = look(backend), (0, (4, 1.2)) if how else "-"
    line = {"color": entry.colour, "linestyle": dash, "linewidth": 1.6}
    return {**line, "marker": entry.marker, "markersize": 5.0}
