"""Contact forces of small problems, contact by contact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots.canvas import (
    SMALL,
    TEXT,
    answers,
    blank,
    headline,
    intervals_of,
    literal,
    quiet_axes,
)
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, INK, RULE, Look, look
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.study.formatting import verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HALF = 0.40  # half the width of a contact's column
_LEGEND = 2.5  # inches of width for the legend
_DODGE = 0.66  # width over which the solvers' markers spread
_LONG = 14  # characters of a contact's name


def force_bars(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    step: Step | None = None,
    *,
    report: Indeterminacy | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Every solver's force at every contact, over the compatible force as a column.

    Parameters
    ----------
    solutions : solutions of one step; a hollow marker is one whose certificate does not hold.
    compatible : the compatible solution, drawn as columns, or as heavy lines across the
        intervals of a report; None leaves it out.
    step : names the contacts by their ``contact_ids``, when it has them.
    report : what is determined: admissible intervals as pale bands, with an arrow where they
        have no end, and a tick where there is only one force. Names the contacts too.

    Raises
    ------
    InvalidInput : no solution has forces, lengths differ, or a report of another step.
    """
    shown = answers(solutions, compatible, step)
    nc = shown[0][1].shape[0]
    bounds = None if report is None else intervals_of(report, nc)
    markers = [(s, f) for s, f in shown if s is not compatible]
    plot_width = min(max(4.6, 0.9 * nc), 7.6)
    entries = len(shown) + (2 if report is not None else 0)
    figure = blank(plot_width + _LEGEND, max(3.6, 0.6 + 0.37 * entries))
    axes, beside = figure.subplots(1, 2, width_ratios=(plot_width, _LEGEND))
    quiet_axes(axes)
    _limits(axes, [f for _, f in shown], bounds)
    handles: list[Any] = []
    if compatible is not None and compatible.f is not None:
        handles.append(_columns(axes, compatible, compatible.f, report is None))
    places = np.linspace(-0.5, 0.5, len(markers)) * _DODGE * (len(markers) > 1)
    column = 72.0 * 0.9 * plot_width / nc * _DODGE  # points
    size = min(max(1.05 * column / max(len(markers) - 1, 1), 3.5), 7.5)
    for (solution, f), place in zip(markers, places, strict=True):
        handles.append(_markers(axes, solution, f, np.arange(nc) + place, size))
    if report is not None and bounds is not None:
        handles += _intervals(axes, report, *bounds)
    _names(axes, step if step is not None or report is None else report.step, nc)
    beside.axis("off")
    beside.legend(
        handles=handles, loc="upper left", fontsize=SMALL, frameon=False, borderaxespad=0.0,
        title="solver, its words, our certificate", title_fontsize=SMALL, alignment="left",
        labelspacing=0.7, labelcolor=INK, markerscale=max(1.0, 7.0 / size),
    )  # fmt: skip
    headline(figure, title, subtitle)
    return figure


def _limits(
    axes: Axes, forces: list[FloatArray], bounds: tuple[FloatArray, FloatArray] | None
) -> None:
    """Room for every force and every end of an interval; zero at the bottom, unless tension."""
    drawn = np.concatenate([*forces, *(bounds or ())])
    drawn = drawn[np.isfinite(drawn)]
    top, low = float(drawn.max(initial=0.0)), float(drawn.min(initial=0.0))
    axes.set_xlim(-0.6, forces[0].size - 0.4)
    axes.set_ylim(min(0.0, 1.08 * low) if low < -1e-3 * top else 0.0, 1.1 * top or 1.0)


def _names(axes: Axes, step: Step | None, nc: int) -> None:
    """Labels: the contacts by name, upright where names are long."""
    ids = None if step is None else step.contact_ids
    names = [str(name) for name in (range(nc) if ids is None else ids)]
    crowded = nc * max(len(name) for name in names) > 80
    short = [name if len(name) <= _LONG else name[: _LONG - 1] + "…" for name in names]
    axes.set_xticks(range(nc), [*map(literal, short)], rotation=90.0 if crowded else 0.0)
    axes.tick_params(axis="x", length=0.0, pad=7.0)
    axes.set_xlabel("contact", fontsize=TEXT, color=INK)
    axes.set_ylabel("contact force [N]", fontsize=TEXT, color=INK)


def _columns(axes: Axes, compatible: StepSolution, f: FloatArray, filled: bool) -> Any:
    """The compatible forces: heavy lines, on pale columns when ``filled``."""
    from matplotlib.lines import Line2D

    where = np.arange(f.shape[0])
    style: dict[str, Any] = {"color": COMPATIBLE.colour, "linewidth": 3.0}
    if filled:
        axes.bar(where, f, width=2 * _HALF, color=RULE, zorder=1)
    axes.hlines(f, where - _HALF, where + _HALF, zorder=2, gid="compatible", **style)
    return Line2D([], [], label=_legend(COMPATIBLE, compatible), **style)


def _intervals(
    axes: Axes, report: Indeterminacy, lower: FloatArray, upper: FloatArray
) -> list[Any]:
    """Admissible intervals as bands, arrows where they have no end, ticks for single forces."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    top = axes.get_ylim()[1]
    handles: list[Any] = []
    free = report.bounded & ~report.unique
    where, endless = np.flatnonzero(free), np.flatnonzero(free & np.isinf(upper))
    if where.size:
        style: dict[str, Any] = {"edgecolor": EDGE, "zorder": 1}
        height = np.where(np.isinf(upper), top, upper)[where] - lower[where]
        axes.bar(where, height, 2 * _HALF, bottom=lower[where], color=BAND, linewidth=0.6,
                 gid="interval", **style)  # fmt: skip
        handles.append(Patch(facecolor=BAND, edgecolor=EDGE, label="admissible forces"))
    if endless.size:
        arrow = {"arrowstyle": "-|>", "color": EDGE, "linewidth": 2.5, "mutation_scale": 16}
        for i in endless:
            axes.annotate("", (i, 1.02 * top), (i, 0.86 * top), annotation_clip=False, zorder=1.5,
                          arrowprops=arrow, gid="unbounded")  # fmt: skip
        handles.append(
            Line2D([], [], color=EDGE, marker="^", linewidth=2.5, label="no upper bound")
        )
    single = np.flatnonzero(report.unique)
    if single.size:
        axes.hlines(report.force[single], single - _HALF, single + _HALF, color=EDGE,
                    linewidth=8.0, zorder=1, gid="unique")  # fmt: skip
        handles.append(Line2D([], [], color=EDGE, linewidth=6.0, label="determined: one force"))
    unknown = np.flatnonzero(~report.bounded & ~report.unique)
    if unknown.size:
        for i in unknown:
            axes.annotate("?", (i, 0.0), (0.0, 4.0), textcoords="offset points", ha="center",
                          fontsize=TEXT, color=EDGE)  # fmt: skip
        handles.append(Line2D([], [], color=EDGE, marker="$?$", linewidth=0.0,
                              label="bounds not known"))  # fmt: skip
    return handles


def _markers(
    axes: Axes, solution: StepSolution, f: FloatArray, where: FloatArray, size: float
) -> Any:
    """One solver's forces as markers; hollow when not certified."""
    style = look(solution.backend)
    (line,) = axes.plot(
        where, f, linestyle="none", marker=style.marker, color=style.colour, clip_on=False,
        markersize=size + (0.8 if solution.ok else 0.0), zorder=3, label=_legend(style, solution),
        markerfacecolor=style.colour if solution.ok else "white",
        markeredgecolor="white" if solution.ok else style.colour,
        markeredgewidth=0.6 if solution.ok else 1.4,
    )  # fmt: skip
    return line


def _legend(style: Look, solution: StepSolution) -> str:
    return literal(f"{style.name}\n“{solution.status[:24]}”, {verdict(solution)}")
