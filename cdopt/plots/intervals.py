"""Admissible force intervals of many contacts, and each solver's forces in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from cdopt._util.checks import FloatArray, IntArray, one_of
from cdopt._util.errors import InvalidInput
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots import canvas
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, INK, QUIET, look
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 1.9  # inches, a panel
_FEW = 60  # contacts that are drawn apart, with names and with each solver's own marker
_SQUARE_ROOT = 4.0  # times the largest force: a longer interval makes the scale a square root
_DISTANCE = 0.1  # of the height, between two ticks of that scale


def force_intervals(
    report: Indeterminacy,
    solutions: Sequence[StepSolution] = (),
    compatible: StepSolution | None = None,
    *,
    order: Annotated[str, one_of(("force", "width"))] = "force",
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: every contact's admissible interval, and the solver's force in it.

    Closed contacts with known bounds stand side by side, in one order for all panels. The interval
    of a determined force is a line. An interval without an upper bound reaches the top of the
    picture and is marked there. If intervals reach far above all forces, the scale is a square
    root.

    Parameters
    ----------
    report : what ``cdopt.indeterminacy`` returned.
    solutions : solutions of the same step; none draws the intervals alone.
    compatible : the compatible solution; by default the report's, of Hooke contacts.
    order : of the contacts, "force": by compatible force, then upper bound; "width": by width
        of the interval.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : the report knows no bounds, or lengths differ.
    """
    lower, upper = canvas.intervals_of(report, report.nc)
    solved = canvas.answers(solutions, None, report.step) if len(solutions) else []
    middle = report.force if compatible is None or compatible.f is None else compatible.f
    if middle.shape != (report.nc,):
        raise InvalidInput("compatible", f"{middle.size} forces", f"{report.nc}, one per contact")
    shown = _sorted(report, lower, upper, middle, order)
    lower, upper, middle = lower[shown], upper[shown], middle[shown]
    number = max(len(solved), 1)
    columns = 1 if number <= 3 else 2
    shared = {"sharex": True, "sharey": True}
    figure, axes = canvas.panels(number, columns, _HEIGHT, foot=0.75, ax=ax, **shared)
    forces = np.concatenate([middle, *(f[shown] for _, f in solved)])
    highest, low = float(forces.max(initial=0.0)), float(forces.min(initial=0.0))
    top = 1.06 * max(highest, float(upper[np.isfinite(upper)].max(initial=0.0))) or 1.0
    square_root = top > _SQUARE_ROOT * highest > 0.0
    for panel in axes:
        canvas.quiet_axes(panel)
        _bands(panel, lower, upper, middle, top)
    for panel, (solution, f) in zip(axes, solved, strict=False):
        canvas.caption(panel, solution, False, _position(report, f))
        _dots(panel, solution, f[shown])
    if not solved:
        note = f"{shown.size:,} of {report.nc:,} contacts"
        canvas.head(axes[0], "Admissible forces", "least to largest", note)
    if square_root:
        _square_root_scale(axes, top)
    axes[0].set_xlim(-0.7, shown.size - 0.3)
    axes[0].set_ylim(1.06 * low if low < -1e-3 * top else 0.0, top)
    if shown.size <= _FEW // 2:
        for panel in axes:
            canvas.name_contacts(panel, [report.names[i] for i in shown], 90, 10)
    by = "compatible force" if order == "force" else "width of the interval"
    unit = "contact force [N]" + (", square-root scale" if square_root else "")
    canvas.axis_labels(figure, f"contacts, by {by}", unit)
    if ax is None:  # the key is at the right
        style = {"fontsize": canvas.TEXT, "color": INK}
        figure.supxlabel(f"contacts, by {by}", x=0.06, ha="left", **style)
    _key(figure, bool(solved), bool(np.isposinf(upper).any()))
    return canvas.headline(figure, title, subtitle)


def _sorted(
    report: Indeterminacy, lower: FloatArray, upper: FloatArray, middle: FloatArray, order: str
) -> IntArray:
    """The closed contacts with known bounds, by compatible force or by width."""
    shown = np.flatnonzero(report.closed & ~np.isnan(lower))
    if shown.size == 0:
        raise InvalidInput("report", "no contact with known bounds", "a report of some bounds")
    force, width = middle[shown], upper[shown] - lower[shown]
    round_off = 1e-9 * float(force.max()) or 1.0  # contacts alike by symmetry stay together
    keys = (upper[shown], np.round(force / round_off)) if order == "force" else (force, width)
    return shown[np.lexsort(keys)]


def _square_root_scale(axes: Sequence[Axes], top: float) -> None:
    """A scale that separates small forces below wide intervals."""
    decade = float(np.floor(np.log10(top)))
    ticks = [0.0]
    for tick in (m * 10.0 ** (decade + k) for k in (-2, -1, 0) for m in (1.0, 2.0, 5.0)):
        if tick <= top and np.sqrt(tick / top) - np.sqrt(ticks[-1] / top) > _DISTANCE:
            ticks.append(tick)

    def root(x: FloatArray) -> FloatArray:
        return np.sign(x) * np.sqrt(np.abs(x))

    def square(x: FloatArray) -> FloatArray:
        return np.sign(x) * np.square(x)

    for panel in axes:
        panel.set_yscale("function", functions=(root, square))
        panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _position(report: Indeterminacy, f: FloatArray) -> str:
    """Where in their intervals a solver's forces are, on average."""
    position = report.position(f)
    known = position[np.isfinite(position)]
    return f"on average {100.0 * float(known.mean()):.0f} % up the interval" if known.size else ""


def _bands(
    axes: Axes, lower: FloatArray, upper: FloatArray, middle: FloatArray, top: float
) -> None:
    """Intervals as rectangles, the compatible forces as lines across them."""
    from matplotlib.collections import PolyCollection

    x, few = np.arange(lower.size), lower.size <= _FEW
    half = 0.4 if few else 0.5
    left, right, high = x - half, x + half, np.minimum(upper, top)
    corners = [[left, lower], [left, high], [right, high], [right, lower]]
    ends = [[left, middle], [right, middle]]
    rectangles, lines = (np.array(shape).transpose(2, 0, 1) for shape in (corners, ends))
    pale: dict[str, Any] = {"facecolors": BAND, "edgecolors": BAND, "linewidths": 0.2}
    bands = PolyCollection(list(rectangles), zorder=1, gid="intervals", **pale)
    axes.add_collection(bands, autolim=False)
    black = {"colors": COMPATIBLE.colour, "linewidths": 1.6 if few else 1.2}
    canvas.add_lines(axes, lines, zorder=3, gid="compatible", **black)
    endless = x[np.isposinf(upper)]
    if endless.size:
        mark: dict[str, Any] = {"markersize": 6.0 if few else 3.0, "markeredgewidth": 1.0}
        mark |= {"gid": "unbounded", "zorder": 2}
        canvas.points(axes, endless, np.full(endless.size, top), EDGE, "^", **mark)


def _dots(axes: Axes, solution: StepSolution, f: FloatArray) -> None:
    """One solver's forces; hollow when not certified."""
    entry, few = look(solution.backend), f.size <= _FEW
    size = 5.0 if few else 3.2 if f.size <= 400 else 2.0
    style: dict[str, Any] = {"hollow": not solution.ok, "markersize": size, "clip_on": few}
    style |= {"alpha": 1.0 if few else 0.75, "zorder": 4, "gid": "forces"}
    marker = entry.marker if few else "o"
    canvas.points(axes, np.arange(f.size), f, entry.colour, marker, **style)


def _key(figure: Figure, solved: bool, endless: bool) -> None:
    """What bands, lines and marks are, below the panels."""
    from matplotlib.patches import Patch

    mark: dict[str, Any] = {"linewidth": 0.0, "markersize": 4.0}
    handles = [
        Patch(color=BAND, label="admissible"),
        canvas.line_key("compatible", color=COMPATIBLE.colour, linewidth=1.6),
    ]
    if solved:
        handles.append(canvas.line_key("the solver's", color=QUIET, marker="o", **mark))
    if endless:
        handles.append(canvas.line_key("no upper bound", color=EDGE, marker="^", **mark))
    style = {"ncols": len(handles), "handletextpad": 0.5, "columnspacing": 1.4}
    canvas.legend(figure, handles, "outside lower right", **style)
