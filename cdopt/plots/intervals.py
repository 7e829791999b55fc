"""Admissible intervals of many contacts, and where in them each solver's forces lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray, choice
from cdopt._util.errors import InvalidInput
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots.canvas import (
    SMALL,
    TEXT,
    answers,
    caption,
    head,
    headline,
    intervals_of,
    literal,
    panels,
    quiet_axes,
)
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, INK, QUIET, look
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TALL = 1.9  # inches, a panel
_FEW = 60  # contacts that are drawn apart, with names and with each solver's own marker
_BEND = 4.0  # intervals that reach this many times the largest force get a square-root scale
_APART = 0.1  # of the height, between two ticks of it


def force_intervals(
    report: Indeterminacy,
    solutions: Sequence[StepSolution] = (),
    compatible: StepSolution | None = None,
    *,
    order: str = "force",
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: every contact's admissible interval, and the solver's force in it.

    Closed contacts whose bounds are known stand side by side, one order for all panels. Where a
    force is determined the interval is no more than the line of the compatible force; where it
    has no end, it reaches the top of the picture and is marked there. Where intervals reach far
    above all forces, the scale is that of their square roots.

    Parameters
    ----------
    report : what ``cdopt.indeterminacy`` returned.
    solutions : solutions of the same step; none draws the intervals alone.
    compatible : the compatible solution; by default the report's, of Hooke contacts.
    order : of the contacts, "force": by compatible force, then upper bound; "width": by width
        of the interval.

    Raises
    ------
    InvalidInput : the report knows no bounds, or lengths differ.
    """
    order = choice("order", order, ("force", "width"))
    lower, upper = intervals_of(report, report.nc)
    solved = answers(solutions, None, report.step) if len(solutions) else []
    middle = report.force if compatible is None or compatible.f is None else compatible.f
    if middle.shape != (report.nc,):
        raise InvalidInput("compatible", f"{middle.size} forces", f"{report.nc}, one per contact")
    shown = np.flatnonzero(report.closed & ~np.isnan(lower))
    if shown.size == 0:
        raise InvalidInput("report", "no contact with known bounds", "a report of some bounds")
    force, width = middle[shown], upper[shown] - lower[shown]
    round_off = 1e-9 * float(force.max()) or 1.0  # contacts alike by symmetry stay together
    keys = (upper[shown], np.round(force / round_off)) if order == "force" else (force, width)
    shown = shown[np.lexsort(keys)]
    lower, upper, middle = lower[shown], upper[shown], middle[shown]
    number = max(len(solved), 1)
    columns = 1 if number <= 3 else 2
    figure, axes = panels(number, columns, _TALL, foot=0.75, sharex=True, sharey=True)
    forces = np.concatenate([middle, *(f[shown] for _, f in solved)])
    highest, low = float(forces.max(initial=0.0)), float(forces.min(initial=0.0))
    top = 1.06 * max(highest, float(upper[np.isfinite(upper)].max(initial=0.0))) or 1.0
    bent = top > _BEND * highest > 0.0
    for panel in axes:
        quiet_axes(panel)
        _bands(panel, lower, upper, middle, top)
    for panel, (solution, f) in zip(axes, solved, strict=False):
        caption(panel, solution, False, _place(report, f))
        _dots(panel, solution, f[shown])
    if not solved:
        note = f"{shown.size} of {report.nc} contacts"
        head(axes[0], "Admissible forces", "least to largest", note)
    if bent:
        _square_root_scale(axes, top)
    axes[0].set_xlim(-0.7, shown.size - 0.3)
    axes[0].set_ylim(1.06 * low if low < -1e-3 * top else 0.0, top)
    if shown.size <= _FEW // 2:
        names = [report.names[i][:10] for i in shown]
        upright = 90.0 if shown.size * max(map(len, names)) > 90 else 0.0
        for panel in axes:
            panel.set_xticks(range(shown.size), [*map(literal, names)], rotation=upright)
    by = "compatible force" if order == "force" else "width of the interval"
    figure.supxlabel(f"contacts, by {by}", x=0.06, ha="left", fontsize=TEXT, color=INK)
    unit = "contact force [N]" + (", square-root scale" if bent else "")
    figure.supylabel(unit, fontsize=TEXT, color=INK)
    _key(figure, bool(solved), bool(np.isposinf(upper).any()))
    headline(figure, title, subtitle)
    return figure


def _square_root_scale(axes: Sequence[Axes], top: float) -> None:
    """A scale that tells small forces apart below wide intervals."""
    decade = float(np.floor(np.log10(top)))
    kept = [0.0]
    for tick in (m * 10.0 ** (decade + k) for k in (-2, -1, 0) for m in (1.0, 2.0, 5.0)):
        if tick <= top and np.sqrt(tick / top) - np.sqrt(kept[-1] / top) > _APART:
            kept.append(tick)
    for panel in axes:
        panel.set_yscale("function", functions=(_root, _square))
        panel.set_yticks(kept, [f"{tick:g}" for tick in kept])


def _root(x: FloatArray) -> FloatArray:
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: FloatArray) -> FloatArray:
    return np.sign(x) * np.square(x)


def _place(report: Indeterminacy, f: FloatArray) -> str:
    """Where in their intervals a solver's forces are, on average."""
    places = report.position(f)
    known = places[np.isfinite(places)]
    return f"on average {100.0 * float(known.mean()):.0f} % up the interval" if known.size else ""


def _bands(
    axes: Axes, lower: FloatArray, upper: FloatArray, middle: FloatArray, top: float
) -> None:
    """Intervals as rectangles, the compatible forces as lines across them."""
    from matplotlib.collections import LineCollection, PolyCollection

    where, few = np.arange(lower.size), lower.size <= _FEW
    half = 0.4 if few else 0.5
    x = np.column_stack([where - half, where - half, where + half, where + half])
    high = np.minimum(upper, top)
    corners = np.stack([x, np.column_stack([lower, high, high, lower])], axis=2)
    lines = np.stack([x[:, 1:3], np.column_stack([middle, middle])], axis=2)
    for drawn in (
        PolyCollection(list(corners), facecolors=BAND, edgecolors=BAND, linewidths=0.2, zorder=1,
                       gid="intervals"),
        LineCollection(list(lines), colors=COMPATIBLE.colour, linewidths=1.6 if few else 1.2,
                       zorder=3, gid="compatible"),
    ):  # fmt: skip
        axes.add_collection(drawn, autolim=False)
    endless = where[np.isposinf(upper)]
    if endless.size:
        axes.plot(
            endless, np.full(endless.size, top), linestyle="none", marker="^", color=EDGE,
            markersize=6.0 if few else 3.0, clip_on=False, zorder=2, gid="unbounded",
        )  # fmt: skip


def _dots(axes: Axes, solution: StepSolution, f: FloatArray) -> None:
    """One solver's forces; hollow when not certified."""
    style, few = look(solution.backend), f.size <= _FEW
    axes.plot(
        np.arange(f.size), f, linestyle="none", marker=style.marker if few else "o",
        markersize=5.0 if few else 3.2 if f.size <= 400 else 2.0, color=style.colour,
        markeredgewidth=0.0 if solution.ok else 0.6, alpha=1.0 if few else 0.75, zorder=4,
        markerfacecolor=style.colour if solution.ok else "none", label=literal(style.name),
        clip_on=few, gid="forces",
    )  # fmt: skip


def _key(figure: Figure, solved: bool, endless: bool) -> None:
    """What bands, lines and marks are, below the panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    mark: dict[str, Any] = {"linewidth": 0.0, "markersize": 4.0}
    key: list[Any] = [
        Patch(color=BAND, label="admissible"),
        Line2D([], [], color=COMPATIBLE.colour, linewidth=1.6, label="compatible"),
    ]
    if solved:
        key.append(Line2D([], [], color=QUIET, marker="o", label="the solver's", **mark))
    if endless:
        key.append(Line2D([], [], color=EDGE, marker="^", label="no upper bound", **mark))
    figure.legend(
        handles=key, loc="outside lower right", ncols=len(key), fontsize=SMALL, frameon=False,
        labelcolor=INK, handletextpad=0.5, columnspacing=1.4,
    )  # fmt: skip
