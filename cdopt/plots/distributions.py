"""How each answer spreads the same load over the contacts: sorted forces, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cdopt._util.checks import FloatArray, scalar
from cdopt.plots.canvas import (
    IDLE,
    SMALL,
    TEXT,
    answers,
    caption,
    grid_columns,
    headline,
    literal,
    panels,
    quiet_axes,
)
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
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: its contact forces, largest first, over the compatible ones.

    The area under every curve is the sum of its contact forces; all panels share their scales.

    Parameters
    ----------
    solutions : solutions of one problem.
    compatible : the compatible solution, a black line in every panel; None leaves it out.

    Raises
    ------
    InvalidInput : no solution has forces, or lengths differ.
    """
    found = answers(solutions, compatible)
    curves = [(s, f) for s, f in found if s is not compatible]
    reference = None if compatible is None else compatible.f
    if not curves:  # nothing but the compatible forces: they get the panel
        curves = found
    columns = min(grid_columns(len(curves)), 4)
    figure, axes = panels(len(curves), columns, _TALL, sharex=True, sharey=True)
    top = max(float(f.max(initial=0.0)) for _, f in found) or 1.0
    used = max(int(np.count_nonzero(f > IDLE * top)) for _, f in found)
    for panel, (solution, f) in zip(axes, curves, strict=True):
        quiet_axes(panel)
        _curve(panel, solution, f, solution is compatible)
        if reference is not None and solution is not compatible:
            panel.plot(
                _ranks(reference), np.sort(reference)[::-1], color=COMPATIBLE.colour,
                linewidth=1.3, label=COMPATIBLE.name,
            )  # fmt: skip
        caption(panel, solution, solution is compatible)
    first = axes[0]
    first.set_xlim(0.0, 1.02 * max(used, 1))
    first.set_ylim(0.0, 1.05 * top)
    if reference is not None and curves is not found:
        _point_out(first, reference, curves[0][1], used)
    figure.supxlabel("contacts, the strongest first", fontsize=TEXT, color=INK)
    figure.supylabel("contact force [N]", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure


def _ranks(f: FloatArray) -> FloatArray:
    return np.arange(1, f.shape[0] + 1, dtype=np.float64)


def _curve(axes: Axes, solution: StepSolution, f: FloatArray, strong: bool) -> None:
    """Forces in falling order; dashed when the certificate does not hold."""
    style = COMPATIBLE if strong else look(solution.backend)
    falling = np.sort(f)[::-1]
    axes.fill_between(_ranks(f), falling, color=style.colour, alpha=0.22, linewidth=0.0)
    axes.plot(
        _ranks(f), falling, color=style.colour, linewidth=2.0,
        linestyle="-" if solution.ok else "--", label=literal(style.name),
    )  # fmt: skip


def _point_out(axes: Axes, reference: FloatArray, other: FloatArray, used: int) -> None:
    """Name the black line, once, where it lies highest above the other curve."""
    falling, beside = np.sort(reference)[::-1], np.sort(other)[::-1]
    clear = (falling - beside)[:used]
    first = clear.shape[0] // 7  # past the steep beginning
    at = first + int(np.argmax(clear[first:]))
    axes.annotate(
        "compatible", (at + 1.0, falling[at]), (0.62, 0.62), textcoords="axes fraction",
        ha="center", va="bottom", fontsize=TEXT, color=INK,
        arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.7},
    )  # fmt: skip


def force_histograms(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    bins: int = 30,
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

    Raises
    ------
    InvalidInput : no solution has forces, or lengths differ, or a bad number of bins.
    """
    number = int(scalar("bins", bins, at_least=1.0, at_most=1000.0))
    found = answers(solutions, compatible)
    curves = [(s, f) for s, f in found if s is not compatible] or found
    reference = None if compatible is None or curves is found else compatible.f
    top = max(float(f.max(initial=0.0)) for _, f in found) or 1.0
    edges = np.linspace(0.0, top, number + 1)
    columns = min(grid_columns(len(curves)), 4)
    figure, axes = panels(len(curves), columns, _TALL, sharex=True, sharey=True)
    for panel, (solution, f) in zip(axes, curves, strict=True):
        quiet_axes(panel)
        style = COMPATIBLE if solution is compatible else look(solution.backend)
        loaded = f[f > IDLE * top]
        panel.hist(
            loaded, edges, color=style.colour, alpha=0.55 if solution.ok else 0.25,
            edgecolor="white", linewidth=0.3, label=literal(style.name),
        )  # fmt: skip
        if reference is not None:
            counts = np.histogram(reference[reference > IDLE * top], edges)[0]
            panel.stairs(counts, edges, color=COMPATIBLE.colour, linewidth=1.2, label="compatible")
        note = f"{loaded.size} of {f.size} loaded"
        caption(panel, solution, solution is compatible, note)
    axes[0].set_xlim(0.0, 1.02 * top)
    if reference is not None:
        axes[0].legend(fontsize=SMALL, frameon=False, labelcolor=INK, loc="upper right")
    figure.supxlabel("contact force [N]", fontsize=TEXT, color=INK)
    figure.supylabel("number of contacts", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure
