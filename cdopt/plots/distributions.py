"""Distributions of the contact forces of each solver: sorted forces, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from cdopt._util.checks import FloatArray, integer
from cdopt.plots import canvas
from cdopt.plots.palette import COMPATIBLE, INK, look
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TALL = 1.8  # inches, a panel


def force_distributions(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: its contact forces, largest first, over the compatible ones.

    The area under every curve is the sum of its contact forces; all panels share their scales.

    Parameters
    ----------
    solutions : solutions of one problem.
    compatible : the compatible solution, a black line in every panel; None leaves it out.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : no solution has forces, or lengths differ.
    """
    figure, axes, shown, reference, top = _panels(solutions, compatible, ax)
    everything = [f for _, f in shown] + ([] if reference is None else [reference])
    used = max(int(np.count_nonzero(f > canvas.IDLE * top)) for f in everything)
    rank = np.arange(1.0, everything[0].size + 1.0)
    for panel, (solution, f) in zip(axes, shown, strict=True):
        colour = (COMPATIBLE if solution is compatible else look(solution.backend)).colour
        falling = np.sort(f)[::-1]
        panel.fill_between(rank, falling, color=colour, alpha=0.22, linewidth=0.0)
        dash = "-" if solution.ok else "--"
        panel.plot(rank, falling, color=colour, linewidth=2.0, linestyle=dash)
        if reference is not None:
            panel.plot(rank, np.sort(reference)[::-1], color=INK, linewidth=1.3)
        canvas.caption(panel, solution, solution is compatible)
    axes[0].set_xlim(0.0, 1.02 * max(used, 1))
    axes[0].set_ylim(0.0, 1.05 * top)
    if reference is not None:
        _point_out(axes[0], np.sort(reference)[::-1], np.sort(shown[0][1])[::-1], used)
    canvas.axis_labels(figure, "contacts, the strongest first", "contact force [N]")
    return canvas.headline(figure, title, subtitle)


def force_histograms(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    bins: Annotated[int, integer(1, 1000)] = 30,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: how many contacts carry how much, over the compatible ones' outline.

    Forces below a thousandth of the largest are left out, as in figures 8 to 18 of Olsen &
    Kamrin (2018); the note over each panel says how many contacts remain. All panels share their
    bins and scales.

    Parameters
    ----------
    solutions : solutions of one problem.
    compatible : the compatible solution, a black outline in every panel; None leaves it out.
    bins : bins from zero to the largest force of all, 1 to 1000.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : no solution has forces, or lengths differ.
    """
    figure, axes, shown, reference, top = _panels(solutions, compatible, ax)
    edges = np.linspace(0.0, top, bins + 1)
    for panel, (solution, f) in zip(axes, shown, strict=True):
        style = COMPATIBLE if solution is compatible else look(solution.backend)
        loaded = f[f > canvas.IDLE * top]
        opacity = {"alpha": 0.55 if solution.ok else 0.25, "edgecolor": "white", "linewidth": 0.3}
        panel.hist(loaded, edges, color=style.colour, label=canvas.literal(style.name), **opacity)
        if reference is not None:
            counts = np.histogram(reference[reference > canvas.IDLE * top], edges)[0]
            panel.stairs(counts, edges, color=COMPATIBLE.colour, linewidth=1.2, label="compatible")
        note = f"{loaded.size:,} of {f.size:,} loaded"
        canvas.caption(panel, solution, solution is compatible, note)
    axes[0].set_xlim(0.0, 1.02 * top)
    if reference is not None:
        canvas.legend(figure, axes[0].get_legend_handles_labels()[0][-1:], "outside lower left")
    canvas.axis_labels(figure, "contact force [N]", "number of contacts")
    return canvas.headline(figure, title, subtitle)


def _panels(
    solutions: Sequence[StepSolution], compatible: StepSolution | None, ax: Axes | None
) -> tuple[Any, list[Any], list[tuple[StepSolution, FloatArray]], FloatArray | None, float]:
    """Empty panels, their answers, the compatible forces to draw in each, the largest force.

    If there are only compatible forces, they get a panel of their own.
    """
    everything = canvas.answers(solutions, compatible)
    shown = [(s, f) for s, f in everything if s is not compatible] or everything
    alone = len(shown) == 1 and shown[0][0] is compatible
    reference = None if compatible is None or alone else compatible.f
    columns = canvas.grid_columns(len(shown))
    figure, axes = canvas.panels(len(shown), columns, _TALL, ax=ax, sharex=True, sharey=True)
    for panel in axes:
        canvas.quiet_axes(panel)
    return figure, axes, shown, reference, canvas.largest([f for _, f in everything])


def _point_out(axes: Axes, reference: FloatArray, other: FloatArray, used: int) -> None:
    """Name the black line, once, where it lies highest above the other curve."""
    clear = (reference - other)[:used]
    first = clear.shape[0] // 7  # past the steep beginning
    at = first + int(np.argmax(clear[first:]))
    arrow = {"arrowstyle": "-", "color": INK, "linewidth": 0.7}
    style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": canvas.TEXT, "color": INK}
    point, text = (at + 1.0, reference[at]), (0.62, 0.62)
    axes.annotate("compatible", point, text, "data", "axes fraction", arrowprops=arrow, **style)
