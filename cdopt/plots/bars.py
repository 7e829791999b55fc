"""Contact forces of small problems, contact by contact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots import canvas
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, RULE, Look, look
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.study.formatting import verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HALF = 0.40  # half the width of a contact's column
_LEGEND = 2.5  # inches of width for the legend
_SPREAD = 0.66  # width over which the solvers' markers spread


def force_bars(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    step: Step | None = None,
    *,
    report: Indeterminacy | None = None,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Every solver's force at every contact, over the compatible force as a column.

    Parameters
    ----------
    solutions : solutions of one step; a hollow marker is one whose certificate does not hold.
    compatible : the compatible solution, drawn as columns, or as heavy lines across the
        intervals of a report; None leaves it out.
    step : names the contacts.
    report : what is determined: admissible intervals as pale bands, with an arrow where they
        have no end, and a tick where there is only one force. Names the contacts too.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : no solution has forces, lengths differ, or a report of another step.
    """
    shown = canvas.answers(solutions, compatible, step)
    nc = shown[0][1].shape[0]
    bounds = None if report is None else canvas.intervals_of(report, nc)
    markers = [(s, f) for s, f in shown if s is not compatible]
    width = min(max(4.6, 0.9 * nc), 7.6)
    entries = len(shown) + (2 if report is not None else 0)
    if ax is None:
        figure = canvas.blank(width + _LEGEND, max(3.6, 0.6 + 0.37 * entries))
        axes, beside = figure.subplots(1, 2, width_ratios=(width, _LEGEND))
        beside.axis("off")
    else:
        figure, (axes,) = canvas.panels(1, 1, width, ax=ax)
        beside = axes
    canvas.quiet_axes(axes)
    _set_limits(axes, [f for _, f in shown], bounds)
    handles: list[Any] = []
    if compatible is not None and compatible.f is not None:
        handles.append(_compatible(axes, compatible, compatible.f, columns=report is None))
    offsets = np.linspace(-0.5, 0.5, len(markers)) * _SPREAD * (len(markers) > 1)
    column = 72.0 * 0.9 * width / nc * _SPREAD  # points
    size = min(max(1.05 * column / max(len(markers) - 1, 1), 3.5), 7.5)
    for (solution, f), offset in zip(markers, offsets, strict=True):
        handles.append(_markers(axes, solution, f, np.arange(nc) + offset, size))
    if report is not None and bounds is not None:
        handles += _intervals(axes, report, *bounds)
        step = report.step if step is None else step
    _name(axes, step, nc)
    loc, scale = "upper left" if ax is None else "best", max(1.0, 7.0 / size)
    style = {"borderaxespad": 0.0, "title_fontsize": canvas.SMALL, "alignment": "left"}
    style |= {"title": "solver, its status, our certificate", "markerscale": scale}
    canvas.legend(beside, handles, loc, labelspacing=0.7, **style)
    return canvas.headline(figure, title, subtitle)


def _set_limits(
    axes: Axes, forces: list[FloatArray], bounds: tuple[FloatArray, FloatArray] | None
) -> None:
    """Room for every force and every end of an interval; zero at the bottom, unless tension."""
    drawn = np.concatenate([*forces, *(bounds or ())])
    drawn = drawn[np.isfinite(drawn)]
    top, low = float(drawn.max(initial=0.0)), float(drawn.min(initial=0.0))
    axes.set_xlim(-0.6, forces[0].size - 0.4)
    axes.set_ylim(min(0.0, 1.08 * low) if low < -1e-3 * top else 0.0, 1.1 * top or 1.0)


def _name(axes: Axes, step: Step | None, nc: int) -> None:
    """Label the axes and the contacts, by number or by name."""
    names = [str(i) for i in range(nc)] if step is None else step.contact_names
    canvas.name_contacts(axes, names)
    axes.tick_params(axis="x", length=0.0, pad=7.0)
    canvas.axis_labels(axes, "contact", "contact force [N]")


def _compatible(axes: Axes, compatible: StepSolution, f: FloatArray, columns: bool) -> Any:
    """The compatible forces as heavy lines, on pale columns if ``columns``."""
    x = np.arange(f.size)
    style: dict[str, Any] = {"color": COMPATIBLE.colour, "linewidth": 3.0}
    if columns:
        axes.bar(x, f, width=2 * _HALF, color=RULE, zorder=1)
    axes.hlines(f, x - _HALF, x + _HALF, zorder=2, gid="compatible", **style)
    return canvas.line_key(_legend_text(COMPATIBLE, compatible), **style)


def _intervals(
    axes: Axes, report: Indeterminacy, lower: FloatArray, upper: FloatArray
) -> list[Any]:
    """Admissible intervals as bands, arrows where they have no end, ticks for single forces."""
    from matplotlib.patches import Patch

    top = axes.get_ylim()[1]
    handles: list[Any] = []
    free = report.bounded & ~report.unique
    if free.any():
        x, low, high = np.flatnonzero(free), lower[free], np.minimum(upper[free], top)
        style: dict[str, Any] = {"facecolor": BAND, "edgecolor": EDGE, "linewidth": 0.6}
        axes.bar(x, high - low, 2 * _HALF, bottom=low, zorder=1, gid="interval", **style)
        handles.append(Patch(facecolor=BAND, edgecolor=EDGE, label="admissible forces"))
    endless = np.flatnonzero(free & np.isinf(upper))
    arrow = {"arrowstyle": "-|>", "color": EDGE, "linewidth": 2.5, "mutation_scale": 16}
    for i in endless:
        axes.annotate("", (i, 1.02 * top), (i, 0.86 * top), annotation_clip=False, zorder=1.5,
                      arrowprops=arrow, gid="unbounded")  # fmt: skip
    if endless.size:
        handles.append(canvas.line_key("no upper bound", color=EDGE, marker="^", linewidth=2.5))
    unique = np.flatnonzero(report.unique)
    if unique.size:
        style = {"color": EDGE, "linewidth": 8.0, "zorder": 1, "gid": "unique"}
        axes.hlines(report.force[unique], unique - _HALF, unique + _HALF, **style)
        handles.append(canvas.line_key("determined: one force", color=EDGE, linewidth=6.0))
    unknown = np.flatnonzero(~report.bounded & ~report.unique)
    style = {"textcoords": "offset points", "ha": "center", "fontsize": canvas.TEXT, "color": EDGE}
    for i in unknown:
        axes.annotate("?", (i, 0.0), (0.0, 4.0), **style)
    if unknown.size:
        handles.append(canvas.line_key("bounds not known", color=EDGE, marker="$?$", linewidth=0.0))
    return handles


def _markers(axes: Axes, solution: StepSolution, f: FloatArray, x: FloatArray, size: float) -> Any:
    """One solver's forces as markers; hollow when not certified."""
    entry = look(solution.backend)
    colour = entry.colour
    face, edge, width = (colour, "white", 0.6) if solution.ok else ("white", colour, 1.4)
    style: dict[str, Any] = {"markersize": size + 0.8 * solution.ok, "markeredgewidth": width}
    style |= {"markerfacecolor": face, "markeredgecolor": edge}
    label = _legend_text(entry, solution)
    return canvas.points(axes, x, f, colour, entry.marker, zorder=3, label=label, **style)


def _legend_text(style: Look, solution: StepSolution) -> str:
    return canvas.literal(f"{style.name}\n“{solution.status[:24]}”, {verdict(solution)}")
