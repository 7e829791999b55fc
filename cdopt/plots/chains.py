"""Force chains: every contact a line, as wide and dark as its force, one panel per answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray, choice
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots.camera import VIEWS, Camera
from cdopt.plots.canvas import (
    IDLE,
    SMALL,
    TEXT,
    WIDTH,
    answers,
    caption,
    grid_columns,
    headline,
    intervals_of,
    panels,
)
from cdopt.plots.geometry import Network, network
from cdopt.plots.palette import BAND, BODY, EDGE, FIXED, INK, QUIET, RULE, force_colours
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR = 0.75  # inches for the colour bar
_HAIR = 0.35  # points, the width of a force of zero
_THICK = 7.0  # points, the widest force ever drawn
_BROAD = 12.0  # points, the widest interval
_HALO = 1.6  # points of white beside a line in front of others
_SHORTENED = 0.16  # share of a halo's length that is left off, so that joints stay joined


def force_chains(
    step: Step,
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    report: Indeterminacy | None = None,
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
    report : what is determined; a pale band under each line is then as wide as the largest
        admissible force, and dashed edges mark those without end. Forces are scaled to suit.
    view : of steps in space: "side" (x to the right, z up), "isometric" (parallel, from above)
        or "perspective", where nearer lines are larger and pass in front.

    Raises
    ------
    InvalidInput : the step cannot be drawn, no solution has forces, or a report of another step.
    """
    view = choice("view", view, VIEWS)
    net = network(step)
    shown = answers(solutions, compatible, step)
    bounds = None if report is None else intervals_of(report, step.nc)
    top = max(float(f.max(initial=0.0)) for _, f in shown) or 1.0
    columns = grid_columns(len(shown))
    scene = _Scene.of(net, view, WIDTH / columns, top, None if bounds is None else bounds[1])
    shape = float((scene.box[1, 1] - scene.box[0, 1]) / (scene.box[1, 0] - scene.box[0, 0]))
    tall = 0.98 * WIDTH / columns * min(max(shape, 0.3), 1.4)
    figure, axes = panels(len(shown), columns, tall, foot=_BAR, caption=0.5)
    for panel, (solution, f) in zip(axes, shown, strict=True):
        _bodies(panel, net, scene)
        if scene.upper is not None:
            _bands(panel, scene, scene.upper)
        _lines(panel, scene, f)
        _frame(panel, scene.box, solution is compatible)
        caption(panel, solution, solution is compatible)
    _colour_bar(figure, top, axes, scene.upper is not None)
    headline(figure, title, subtitle)
    return figure


def draw_chains(
    axes: Axes, step: Step, f: FloatArray, top: float, inches: float, view: str
) -> None:
    """The force chains of one set of forces f (nc,) N on axes ``inches`` wide.

    ``top`` N is the darkest colour and the widest line; a colour bar is the caller's.

    Raises
    ------
    InvalidInput : the step cannot be drawn, or no such view.
    """
    net = network(step)
    scene = _Scene.of(net, choice("view", view, VIEWS), inches, top, None)
    _bodies(axes, net, scene)
    _lines(axes, scene, f)
    _frame(axes, scene.box, False)


@dataclass(frozen=True, eq=False)
class _Scene:
    """What all panels share.

    Attributes
    ----------
    camera : where it is looked at from.
    segments : (nc, 2, 2) m, on paper. near : (nc,) depth, larger nearer to the reader.
    larger : (nc,) magnification.
    box : lower left and upper right corner of the paper, m.
    top : N, darkest colour. slope : points of line width per newton.
    broad : points, the widest line.
    upper : (nc,) N, largest admissible forces; not-a-number where unknown; or None.
    """

    camera: Camera
    segments: FloatArray
    near: FloatArray
    larger: FloatArray
    box: FloatArray
    top: float
    slope: float
    broad: float
    upper: FloatArray | None

    @staticmethod
    def of(net: Network, view: str, panel: float, top: float, upper: FloatArray | None) -> _Scene:
        """The scene of a network, drawn ``panel`` inches wide."""
        camera = Camera.facing(np.concatenate([net.start, net.end]), view)
        start, end = camera.place(net.start), camera.place(net.end)
        segments = np.stack([start[0], end[0]], axis=1)
        box = _box(segments, net, camera)
        per_metre = 72.0 * 0.92 * panel / float(box[1, 0] - box[0, 0])
        typical = float(np.median(np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)))
        room = 0.45 * typical * per_metre
        broad = min(max(room, 1.5), _THICK)
        slope = (broad - _HAIR) / top
        if upper is not None:
            finite = upper[np.isfinite(upper)]
            widest = max(top, float(finite.max(initial=0.0)))
            broad = min(max(1.2 * room, 3.0), _BROAD)
            slope = (broad - _HAIR) / widest
        near, larger = 0.5 * (start[1] + end[1]), 0.5 * (start[2] + end[2])
        return _Scene(camera, segments, near, larger, box, top, slope, broad, upper)

    def width(self, f: FloatArray, contacts: Any) -> FloatArray:
        """(n,) points, the width of forces (n,) N at these contacts."""
        return (_HAIR + self.slope * f) * self.larger[contacts]


def _box(segments: FloatArray, net: Network, camera: Camera) -> FloatArray:
    """Lower left and upper right corner of what is drawn, m; never without extent."""
    corners = segments.reshape(-1, 2)
    low, high = corners.min(axis=0), corners.max(axis=0)
    if net.radii.size and (net.centres.shape[1] == 2 or camera.deep):
        centres, _, larger = camera.place(net.centres)
        reach = (net.radii * larger)[:, None]
        low, high = np.minimum(low, (centres - reach).min(axis=0)), np.maximum(
            high, (centres + reach).max(axis=0)
        )  # fmt: skip
    size = max(float((high - low).max()), 1e-12)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    half = np.maximum(half, 0.15 * size) + 0.03 * size
    return np.array([middle - half, middle + half])


def _bodies(axes: Axes, net: Network, scene: _Scene) -> None:
    """Discs, fixed ones darker; in perspective, faint outlines of the spheres."""
    from matplotlib.collections import EllipseCollection

    deep = scene.camera.deep
    if net.centres.shape[1] == 3 and not deep:
        return
    centres, near, larger = scene.camera.place(net.centres)
    back = np.argsort(near)
    wide = (2.0 * net.radii * larger)[back]
    colours = np.where(net.fixed, FIXED, BODY)[back].tolist()
    discs = EllipseCollection(
        wide, wide, np.zeros(wide.size), units="xy", offsets=centres[back],
        offset_transform=axes.transData, facecolors="none" if deep else colours,
        edgecolors=BODY if deep else RULE, linewidths=0.5, zorder=1,
    )  # fmt: skip
    discs.set_gid("bodies")
    axes.add_collection(discs, autolim=False)


def _bands(axes: Axes, scene: _Scene, upper: FloatArray) -> None:
    """The largest admissible force of each contact, as a pale line of its width."""
    from matplotlib.collections import LineCollection

    known = np.flatnonzero(np.isfinite(upper) & (upper > IDLE * scene.top))
    known = known[np.argsort(-upper[known], kind="stable")]
    bands = LineCollection(
        list(scene.segments[known]), colors=BAND, linewidths=scene.width(upper[known], known),
        capstyle="butt", zorder=2.2,
    )  # fmt: skip
    bands.set_gid("intervals")
    axes.add_collection(bands, autolim=False)
    endless = np.flatnonzero(np.isposinf(upper))
    wide = scene.broad * scene.larger[endless]
    for gid, colour, width, style, order in (
        ("unbounded", EDGE, wide + 1.2, (0.0, (1.2, 0.8)), 2.0),
        ("unbounded inside", BAND, wide, "solid", 2.1),
    ):
        lines = LineCollection(
            list(scene.segments[endless]), colors=colour, linewidths=width, linestyles=[style],
            capstyle="butt", zorder=order,
        )  # fmt: skip
        lines.set_gid(gid)
        axes.add_collection(lines, autolim=False)


def _lines(axes: Axes, scene: _Scene, f: FloatArray) -> None:
    """Contacts as lines; the strongest lie on top, or the nearest; idle ones are hairlines."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    idle = np.flatnonzero(f <= IDLE * scene.top)
    hairs = LineCollection(list(scene.segments[idle]), colors=RULE, linewidths=0.6, zorder=2)
    hairs.set_gid("idle")
    axes.add_collection(hairs, autolim=False)
    loaded = np.flatnonzero(f > IDLE * scene.top)
    rank = scene.near[loaded] if scene.camera.deep else f[loaded]
    order = loaded[np.argsort(rank, kind="stable")]
    segments, widths = scene.segments[order], scene.width(f[order], order)
    norm, colours = Normalize(0.0, scene.top), force_colours()
    if not scene.camera.deep:
        lines = LineCollection(
            list(segments), cmap=colours, norm=norm, array=f[order], linewidths=widths,
            capstyle="round", zorder=3,
        )  # fmt: skip
    else:  # every line after its own white halo, from the back to the front
        middle = segments.mean(axis=1, keepdims=True)
        halos = segments + _SHORTENED * (middle - segments)
        ink = colours(norm(f[order]))
        lines = LineCollection(
            list(np.stack([halos, segments], axis=1).reshape(-1, 2, 2)),
            colors=np.stack([np.ones_like(ink), ink], axis=1).reshape(-1, 4),
            linewidths=np.column_stack([widths + _HALO, widths]).ravel(),
            capstyle="butt", zorder=3,
        )  # fmt: skip
    lines.set_gid("forces")
    axes.add_collection(lines, autolim=False)


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


def _colour_bar(figure: Figure, top: float, axes: list[Any], banded: bool) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = ScalarMappable(Normalize(0.0, top), force_colours())
    bar = figure.colorbar(
        scale, ax=axes, orientation="horizontal", fraction=0.05, shrink=0.55, aspect=42
    )
    text = "contact force [N], as colour and line width"
    if banded:
        text += "; pale: the largest admissible force, dashed where it has no end"
    bar.set_label(text, fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)
