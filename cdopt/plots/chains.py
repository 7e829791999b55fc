"""Force chains: every contact a line, as wide and dark as its force, one panel per answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt.checks import FloatArray, choice
from cdopt.plots.canvas import SMALL, TEXT, answers, blank, caption, grid_columns, headline
from cdopt.plots.geometry import Network, network, project
from cdopt.plots.palette import BODY, FIXED, INK, QUIET, RULE, force_colours
from cdopt.solution import StepSolution
from cdopt.step import ContactStep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.2  # inches
_CAPTION = 0.48  # inches above each panel
_BAR = 0.75  # inches for the colour bar
_IDLE = 1e-3  # forces below this share of the largest are drawn as contacts without force
_THICK = 7.0  # points, the widest line ever drawn


def force_chains(
    step: ContactStep,
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    view: str = "side",
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Small multiples of one network: a panel per solver, and the compatible forces framed.

    Lines run along the contact normals; with ``bodies``, between the centres of discs and
    spheres. Width and colour are the force, on one scale for all panels.

    Parameters
    ----------
    step : with ``points`` and ``normals``, in the plane or in space.
    solutions : solutions of the step.
    compatible : the compatible solution, in the last panel.
    view : of steps in space, "side" (x to the right, z up) or "isometric".

    Raises
    ------
    InvalidInput : the step cannot be drawn, or no solution has forces.
    """
    view = choice("view", view, ("side", "isometric"))
    net = network(step)
    shown = answers(solutions, compatible, step)
    top = max(float(f.max(initial=0.0)) for _, f in shown) or 1.0
    segments = np.stack([project(net.start, view)[0], project(net.end, view)[0]], axis=1)
    box = _box(segments, net)
    columns = grid_columns(len(shown))
    rows = -(-len(shown) // columns)
    panel = _WIDTH / columns
    shape = float((box[1, 1] - box[0, 1]) / (box[1, 0] - box[0, 0]))
    tall = 0.93 * panel * min(max(shape, 0.3), 1.4)
    figure = blank(_WIDTH, rows * (tall + _CAPTION) + _BAR)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel_axes, (solution, f) in zip(axes, shown, strict=False):
        if net.centres.shape[1] == 2:
            _bodies(panel_axes, net)
        points_per_metre = 72.0 * 0.92 * panel / float(box[1, 0] - box[0, 0])
        lines = _lines(panel_axes, segments, f, top, points_per_metre)
        _frame(panel_axes, box, solution is compatible)
        caption(panel_axes, solution, solution is compatible)
    for empty in axes[len(shown) :]:
        empty.axis("off")
    _colour_bar(figure, lines, axes)
    headline(figure, title, subtitle)
    return figure


def _box(segments: FloatArray, net: Network) -> FloatArray:
    """Lower left and upper right corner of what is drawn, m; never without extent."""
    corners = segments.reshape(-1, 2)
    low, high = corners.min(axis=0), corners.max(axis=0)
    if net.centres.shape[1] == 2 and net.radii.size:
        low = np.minimum(low, (net.centres - net.radii[:, None]).min(axis=0))
        high = np.maximum(high, (net.centres + net.radii[:, None]).max(axis=0))
    size = max(float((high - low).max()), 1e-12)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    half = np.maximum(half, 0.15 * size) + 0.03 * size
    return np.array([middle - half, middle + half])


def _bodies(axes: Axes, net: Network) -> None:
    """Discs, fixed ones darker."""
    from matplotlib.collections import EllipseCollection

    wide = 2.0 * net.radii
    colours = np.where(net.fixed, FIXED, BODY).tolist()
    discs = EllipseCollection(
        wide, wide, np.zeros(wide.size), units="xy", offsets=net.centres,
        offset_transform=axes.transData, facecolors=colours, edgecolors=RULE, linewidths=0.5,
        zorder=1,
    )  # fmt: skip
    discs.set_gid("bodies")
    axes.add_collection(discs, autolim=False)


def _lines(axes: Axes, segments: Any, f: FloatArray, top: float, scale: float) -> Any:
    """Contacts as lines; the strongest lie on top, those without force are hairlines."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    loaded = np.flatnonzero(f > _IDLE * top)
    order = loaded[np.argsort(f[loaded], kind="stable")]
    idle = LineCollection(segments[f <= _IDLE * top], colors=RULE, linewidths=0.6, zorder=2)
    idle.set_gid("idle")
    axes.add_collection(idle, autolim=False)
    lengths = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    widest = min(max(0.45 * float(np.median(lengths)) * scale, 1.5), _THICK)
    lines = LineCollection(
        segments[order], cmap=force_colours(), norm=Normalize(0.0, top), array=f[order],
        linewidths=0.35 + (widest - 0.35) * f[order] / top, capstyle="round", zorder=3,
    )  # fmt: skip
    lines.set_gid("forces")
    axes.add_collection(lines, autolim=False)
    return lines


def _frame(axes: Axes, box: FloatArray, strong: bool) -> None:
    """Equal scales without ticks; the compatible panel in a heavy frame."""
    axes.set_xlim(box[0, 0], box[1, 0])
    axes.set_ylim(box[0, 1], box[1, 1])
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(INK if strong else RULE)
        spine.set_linewidth(2.2 if strong else 0.6)


def _colour_bar(figure: Figure, lines: Any, axes: Any) -> None:
    bar = figure.colorbar(
        lines, ax=list(axes), orientation="horizontal", fraction=0.05, shrink=0.55, aspect=42
    )
    bar.set_label("contact force [N], as colour and line width", fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)
