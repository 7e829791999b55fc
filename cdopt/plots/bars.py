"""Contact forces of small problems, contact by contact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt.checks import FloatArray
from cdopt.plots.canvas import SMALL, TEXT, answers, blank, headline, quiet_axes
from cdopt.plots.palette import COMPATIBLE, INK, RULE, Look, look
from cdopt.solution import StepSolution
from cdopt.step import ContactStep
from cdopt.study.words import verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HALF = 0.40  # half the width of a contact's column
_LEGEND = 2.5  # inches of width for the legend
_DODGE = 0.66  # width over which the solvers' markers spread


def force_bars(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    step: ContactStep | None = None,
    *,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Every solver's force at every contact, over the compatible force as a column.

    Parameters
    ----------
    solutions : solutions of one step; a hollow marker is one whose certificate does not hold.
    compatible : the compatible solution, drawn as columns; None leaves them out.
    step : names the contacts by their ``contact_ids``, when it has them.

    Raises
    ------
    InvalidInput : no solution has forces, or lengths differ.
    """
    found = answers(solutions, compatible, step)
    nc = found[0][1].shape[0]
    markers = [(s, f) for s, f in found if s is not compatible]
    plot_width = min(max(4.6, 0.9 * nc), 7.6)
    figure = blank(plot_width + _LEGEND, max(3.6, 0.6 + 0.37 * len(found)))
    grid = figure.add_gridspec(1, 2, width_ratios=(plot_width, _LEGEND))
    axes = figure.add_subplot(grid[0])
    quiet_axes(axes)
    handles: list[Any] = []
    if compatible is not None and compatible.f is not None:
        handles.append(_columns(axes, compatible, compatible.f))
    places = np.linspace(-0.5, 0.5, len(markers)) * _DODGE if len(markers) > 1 else [0.0]
    column = 72.0 * 0.9 * plot_width / nc * _DODGE  # points
    size = min(max(1.05 * column / max(len(markers) - 1, 1), 3.5), 7.5)
    for (solution, f), place in zip(markers, places, strict=True):
        handles.append(_markers(axes, solution, f, np.arange(nc) + place, size))
    axes.set_xlim(-0.6, nc - 0.4)
    top = max(float(f.max(initial=0.0)) for _, f in found)
    low = min(float(f.min(initial=0.0)) for _, f in found)
    axes.set_ylim(min(0.0, 1.08 * low) if low < -1e-3 * top else 0.0, 1.1 * top or 1.0)
    ids = None if step is None else step.contact_ids
    axes.set_xticks(range(nc), [str(name) for name in (range(nc) if ids is None else ids)])
    axes.tick_params(axis="x", length=0.0)
    axes.set_xlabel("contact", fontsize=TEXT, color=INK)
    axes.set_ylabel("contact force [N]", fontsize=TEXT, color=INK)
    beside = figure.add_subplot(grid[1])
    beside.axis("off")
    beside.legend(
        handles=handles, loc="upper left", fontsize=SMALL, frameon=False, borderaxespad=0.0,
        title="solver, its words, our certificate", title_fontsize=SMALL, alignment="left",
        labelspacing=0.7, labelcolor=INK, markerscale=max(1.0, 7.0 / size),
    )  # fmt: skip
    headline(figure, title, subtitle)
    return figure


def _columns(axes: Any, compatible: StepSolution, f: FloatArray) -> Any:
    """The compatible forces: pale columns with a heavy top."""
    where = np.arange(f.shape[0])
    axes.bar(where, f, width=2 * _HALF, color=RULE, zorder=1)
    axes.hlines(
        f, where - _HALF, where + _HALF, color=COMPATIBLE.colour, linewidth=3.0, zorder=2,
        label=_legend(COMPATIBLE, compatible),
    )  # fmt: skip
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=COMPATIBLE.colour, linewidth=3.0, label=_legend(COMPATIBLE, compatible)
    )


def _markers(
    axes: Any, solution: StepSolution, f: FloatArray, where: FloatArray, size: float
) -> Any:
    """One solver's forces as markers; hollow when not certified."""
    style = look(solution.backend)
    (line,) = axes.plot(
        where, f, linestyle="none", marker=style.marker, markersize=size, color=style.colour,
        markerfacecolor=style.colour if solution.ok else "white", markeredgewidth=1.4,
        markeredgecolor="white" if solution.ok else style.colour, clip_on=False, zorder=3,
        label=_legend(style, solution),
    )  # fmt: skip
    if solution.ok:
        line.set_markeredgewidth(0.6)
        line.set_markersize(size + 0.8)
    return line


def _legend(style: Look, solution: StepSolution) -> str:
    return f"{style.name}\n“{solution.status[:24]}”, {verdict(solution)}"
