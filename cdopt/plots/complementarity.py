"""Gap against force: how sharply each solver tells closed contacts from open ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cdopt._util.checks import FloatArray, scalar
from cdopt._util.errors import InvalidInput
from cdopt.plots.canvas import SMALL, TEXT, answers, caption, grid_columns, headline, panels
from cdopt.plots.palette import BODY, COMPATIBLE, INK, QUIET, RULE, look
from cdopt.problem import rigid_data
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TALL = 2.2  # inches, a panel
_DEEPEST = 1e-17  # of the scale: what is smaller is drawn as zero


def complementarity(
    step: Step,
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    tol: float = TOLERANCE,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: every contact a point, its gap over its force, both logarithmic.

    A contact is open (gap, no force) or closed (force, no gap): the sharper a solver, the
    closer its points lie to the left edge and to the floor. Both are in units of the step, the
    closing distance and the load of the contact's independent part; the pale region is zero
    within ``tol``. The note is the largest smaller one of the two. Hollow points are negative,
    penetration or tension, and stand at their size; what is exactly zero lies on the edge.

    Parameters
    ----------
    step : the step.
    solutions : solutions of it that have gaps.
    compatible : the compatible solution, in the last panel.

    Raises
    ------
    InvalidInput : no solution has forces and gaps, or lengths differ.
    """
    tol = scalar("tol", tol, above=0.0, at_most=1.0)
    data = rigid_data(step)
    shown = [(s, f, s.gap) for s, f in answers(solutions, compatible, step) if s.gap is not None]
    if not shown:
        raise InvalidInput("solutions", "none with gaps", "at least one solution with gaps")
    points = [(f / data.force, gap / data.speed) for _, f, gap in shown]
    edge = _edge(points)
    columns = min(grid_columns(len(shown)), 4)
    figure, axes = panels(len(shown), columns, _TALL, sharex=True, sharey=True)
    top = 10.0 ** np.ceil(np.log10(1.5 * max(1.0, *(float(np.abs(p).max()) for p in points))))
    for panel, (solution, _, _), (force, gap) in zip(axes, shown, points, strict=True):
        _ground(panel, edge, top, tol)
        strong = solution is compatible
        _points(panel, force, gap, edge, (COMPATIBLE if strong else look(solution.backend)).colour)
        blunt = float(np.minimum(force, gap).max(initial=0.0))
        caption(panel, solution, strong, f"min ≤ {blunt:.0e}" if blunt > 0.0 else "min = 0")
    figure.supxlabel("contact force / load of its part [–]", fontsize=TEXT, color=INK)
    figure.supylabel("gap at the end / closing distance [–]", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure


def _edge(points: list[tuple[FloatArray, FloatArray]]) -> float:
    """The power of ten at which zero is drawn."""
    sizes = np.abs(np.concatenate([np.concatenate(p) for p in points]))
    smallest = float(sizes[sizes > _DEEPEST].min(initial=1e-6))
    return float(10.0 ** (np.floor(np.log10(smallest)) - 1.0))


def _ground(axes: Axes, edge: float, top: float, tol: float) -> None:
    """Logarithmic axes, the region that counts as zero, and a zero at the edges."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.5 * edge, top)
    axes.set_ylim(0.5 * edge, top)
    for region in (
        axes.axvspan(0.5 * edge, tol, color=BODY),
        axes.axhspan(0.5 * edge, tol, color=BODY),
    ):
        region.set_zorder(0)
        region.set_linewidth(0.0)
    decades = np.log10(top / edge)
    step = max(round(decades / 4.0), 1)
    ticks = [10.0**k for k in np.arange(np.log10(top), np.log10(edge) + 0.5, -step)]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([edge, *ticks])
        axis.set_ticklabels(["0", *(f"$10^{{{round(np.log10(t))}}}$" for t in ticks)])
        axis.minorticks_off()
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(QUIET)
        spine.set_linewidth(0.8)
    axes.tick_params(labelsize=SMALL, colors=QUIET, length=3.0, width=0.8)
    axes.grid(color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)


def _points(axes: Axes, force: FloatArray, gap: FloatArray, edge: float, colour: str) -> None:
    """Every contact; hollow where force or gap is negative."""
    x, y = np.maximum(np.abs(force), edge), np.maximum(np.abs(gap), edge)
    wrong = (force < -edge) | (gap < -edge)
    size = 4.0 if force.size <= 60 else 3.0 if force.size <= 400 else 2.2
    for chosen, face, gid in ((~wrong, colour, "contacts"), (wrong, "none", "negative")):
        if not chosen.any():
            continue
        (marks,) = axes.plot(
            x[chosen], y[chosen], linestyle="none", marker="o", markersize=size, color=colour,
            markerfacecolor=face, markeredgewidth=0.0 if face == colour else 0.6, alpha=0.7,
            clip_on=False, zorder=3,
        )  # fmt: skip
        marks.set_gid(gid)
