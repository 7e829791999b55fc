"""Empty figures in one style, their axes and texts, and how they are written to files.

matplotlib is imported when a figure is made, not when cdopt is. Its global state is not changed.
"""

from __future__ import annotations

import functools
import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import one_line, shortened, significant, with_prefix
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots.palette import COMPATIBLE, INK, QUIET, RULE, force_colours, look
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.study.solution_set import largest_force

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
RESOLUTION = 200  # dots per inch of bitmaps
NOTEBOOK_RESOLUTION = 100  # of those in notebooks
TITLE, HEAD, TEXT, SMALL = 13.0, 10.5, 9.0, 8.0  # font sizes, points
WIDTH = 9.2  # inches of pictures made of panels
SMALL_FORCE = 1e-3  # N: smaller ones are printed in mN, µN or nN
IDLE = 1e-3  # forces below this share of the largest count as none

_LINE = 0.175  # inches from one line of text to the next
_MARGIN = 0.12  # inches left of titles
_CHARACTERS_PER_INCH = 15.5  # of secondary text
_ROOM, _LONGEST = 80, 14  # characters of names below contacts, all and each, that are not turned


# --- figures ---------------------------------------------------------------------------


@functools.cache
def _classes() -> tuple[type[Figure], Any, Any]:
    """A figure that notebooks show without a magic command; numbers at ticks; notes of panels."""
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.ticker import ScalarFormatter

    class Picture(Figure):
        """A figure; ``figure, axes = picture`` gives it and the list of its axes."""

        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=NOTEBOOK_RESOLUTION)
            return stream.getvalue()

        def __iter__(self) -> Iterator[Any]:
            return iter((self, self.axes))

    class Thousands(ScalarFormatter):
        """Numbers at ticks, thousands in groups: 1,000."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            text = super().__call__(x, pos)
            return re.sub(r"(?<!\.)\b\d{4,}", lambda part: f"{int(part[0]):,}", text)

    class Note(Annotation):
        """The note of a panel: next to the name, else next to the description, else over both."""

        others: Sequence[Any] = ()

        def draw(self, renderer: Any) -> None:
            """Draw it in the first place where it covers nothing."""
            texts = [text.get_window_extent(renderer) for text in self.others]
            for y in (17.0, 5.0, 31.0) if texts else ():
                self.xyann = (0.0, y)
                if not any(self.get_window_extent(renderer).overlaps(text) for text in texts):
                    break
            super().draw(renderer)

    return Picture, Thousands, Note


def blank(width: float, height: float) -> Figure:
    """An empty white figure of a size in inches."""
    figure = _classes()[0](figsize=(width, height), facecolor="white", layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.06, h_pad=0.06, wspace=0.02, hspace=0.03)
    return figure


def panels(
    number: int,
    columns: int,
    height: float,
    *,
    foot: float = 0.35,
    caption: float = 0.55,
    width: float = WIDTH,
    ax: Axes | None = None,
    **shared: Any,
) -> tuple[Any, list[Any]]:
    """A figure of panels, and its first ``number`` axes; with ``ax`` that is the only one.

    Sizes in inches: ``height`` of a panel without the ``caption`` above it, ``foot`` below all of
    them; ``shared`` is sharex, sharey, as in ``Figure.subplots``.
    """
    if ax is not None:
        if not hasattr(ax, "get_figure"):
            raise InvalidInput("ax", checks.describe(ax), "axes of matplotlib")
        if number != 1:
            raise InvalidInput("ax", f"one, for {number} panels", "one solution, or no ax")
        return ax, [ax]
    rows = -(-number // columns)
    figure = blank(width, rows * (height + caption) + foot)
    axes = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for empty in axes[number:]:
        empty.axis("off")
    for above in axes[max(number - columns, 0) : number] if shared.get("sharex") else ():
        above.xaxis.set_tick_params(labelbottom=True)
    return figure, list(axes[:number])


def panels_of(number: int, box: FloatArray, **options: Any) -> tuple[Any, list[Any]]:
    """As ``panels``, which has the ``options``, each as high as its ``box`` (2, 2) needs."""
    columns = grid_columns(number)
    width, height = np.ptp(box, axis=0)
    tall = 0.98 * WIDTH / columns * min(max(height / width, 0.3), 1.4)
    return panels(number, columns, tall, **options)


def box_around(points: FloatArray, share: float) -> FloatArray:
    """(2, 2) lower left and upper right corner around points (n, 2), with a ``share`` as margin."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = share * float((high - low).max()) or 1.0
    return np.stack([low - room, high + room])


def figure_of(host: Any) -> Figure:
    """The figure to draw in: the host, or the figure of its axes."""
    figure: Figure = host.get_figure() if hasattr(host, "get_xlim") else host
    return figure


def grid_columns(panels: int) -> int:
    """Number of columns, at most four, that leaves few places empty."""
    return 3 if panels in (5, 6, 9) else min(max(panels, 1), 4)


def colour_bar(host: Any, axes: Sequence[Any], top: float, label: str, low: float = 0.0) -> None:
    """A horizontal colour scale of forces, or other values, from ``low`` to ``top``."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    if "[N]" in label and top < SMALL_FORCE:
        factor, unit = with_prefix(top, "N")
        low, top, label = low / factor, top / factor, label.replace("[N]", f"[{unit}]")
    scale = ScalarMappable(Normalize(low, top), force_colours())
    shape: dict[str, Any] = {"orientation": "horizontal", "fraction": 0.05, "aspect": 42}
    shrink = 0.55 if len(axes) > 1 else 0.7
    bar = figure_of(host).colorbar(scale, ax=list(axes), shrink=shrink, **shape)
    plain_bar(bar, label)


def plain_bar(bar: Any, label: str) -> None:
    """Label a colour bar of matplotlib, small and without an outline."""
    bar.set_label(label, fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)


# --- axes ------------------------------------------------------------------------------


def quiet_axes(axes: Axes) -> None:
    """Thin left and bottom spines, a light grid along y, small labels, thousands in groups."""
    formatter = _classes()[1]
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=QUIET, linewidth=0.8)
    axes.tick_params(labelsize=SMALL, colors=QUIET, length=3.0, width=0.8)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(fontsize=TEXT, color=INK)
        if type(axis.get_major_formatter()) is formatter.__base__:
            axis.set_major_formatter(formatter())


def without_ticks(axes: Axes, box: FloatArray) -> None:
    """Equal scales without ticks; ``box`` (2, 2) is the lower left and the upper right corner."""
    axes.set(xlim=box[:, 0], ylim=box[:, 1], xticks=[], yticks=[], aspect="equal")


def emphasise(axes: Axes, strong: bool) -> None:
    """A thin grey frame around a panel, or a heavy black one."""
    axes.spines[:].set(color=INK if strong else RULE, linewidth=2.2 if strong else 0.6)


def name_contacts(
    axes: Axes, names: Sequence[str], room: int = _ROOM, longest: int = _LONGEST
) -> None:
    """Names below the contacts 0, 1, 2 …, shortened to at most twice ``longest`` characters.

    They are upright if one has over ``longest`` characters, or all together over ``room``.
    """
    upright = _upright(names, room, longest)
    shown = [literal(shortened(name, 2 * longest)) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=90.0 if upright else 0.0)


def _upright(names: Sequence[str], room: int = _ROOM, longest: int = _LONGEST) -> bool:
    most = max(map(len, names), default=0)
    return len(names) * most > room or most > longest


def room_of_names(names: Sequence[str]) -> float:
    """Inches that names below contacts take, more than one line."""
    return 0.075 * min(max(map(len, names)), 2 * _LONGEST) if _upright(names) else 0.0


def axis_labels(target: Any, x: str, y: str) -> None:
    """Label both axes of a panel, or all panels of a figure together."""
    prefix = "set_" if hasattr(target, "set_xlabel") else "sup"
    for axis, label in (("x", x), ("y", y)):
        getattr(target, f"{prefix}{axis}label")(label, fontsize=TEXT, color=INK)


def points(
    axes: Axes,
    x: Any,
    y: Any,
    colour: str,
    marker: Any = "o",
    *,
    hollow: bool = False,
    **style: Any,
) -> Any:
    """Markers without a line, filled or hollow; returns the artist."""
    face, edge = ("none", 0.6) if hollow else (colour, 0.0)
    look = {"markerfacecolor": face, "markeredgewidth": edge, "clip_on": False, **style}
    return axes.plot(x, y, linestyle="none", marker=marker, color=colour, **look)[0]


def add_discs(axes: Axes, centres: FloatArray, radii: FloatArray, **style: Any) -> None:
    """Discs at centres (n, 2) in the units of the axes, with thin grey outlines."""
    from matplotlib.collections import EllipseCollection

    size = 2.0 * radii
    style = {"edgecolors": RULE, "linewidths": 0.5, "offset_transform": axes.transData, **style}
    discs = EllipseCollection(size, size, np.zeros(size.size), units="xy", offsets=centres, **style)
    axes.add_collection(discs, autolim=False)


def add_lines(axes: Axes, segments: FloatArray, **style: Any) -> None:
    """Line segments (n, 2, 2) in the units of the axes, which keep their limits."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(list(segments), **style), autolim=False)


def line_key(label: str, **style: Any) -> Any:
    """An entry of a legend: a line or a marker."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **style)


def legend(target: Any, handles: Iterable[Any], loc: str, **style: Any) -> None:
    """A legend of a panel or a figure, small, without a frame, never outside a single panel."""
    if hasattr(target, "get_xlim") and loc.startswith("outside"):
        loc, style = "best", {**style, "ncols": 1}
    style = {"fontsize": SMALL, "frameon": False, "labelcolor": INK, **style}
    target.legend(handles=list(handles), loc=loc, **style)


def legend_below(axes: Axes, handles: Iterable[Any], inches: float, **style: Any) -> None:
    """A legend under the label of a panel that is about this many ``inches`` high."""
    place = {"bbox_to_anchor": (0.0, -0.48 / inches), "borderaxespad": 0.0}
    legend(axes, handles, "upper left", **place, **style)


# --- texts -----------------------------------------------------------------------------


class Formula(str):
    """Text with formulas in matplotlib's syntax, which ``literal`` does not change."""


def literal(text: str) -> str:
    """Text for a picture, in which no dollar sign begins a formula, and all can be printed."""
    if isinstance(text, Formula):
        return text
    known = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "".join(known).replace("$", r"\$")


def headline(host: Any, title: str, subtitle: str = "") -> Figure:
    """Title at the top left and a quieter text below in a grown figure; in axes only the title."""
    checks.text("title", title)
    checks.text("subtitle", subtitle)
    figure = figure_of(host)
    if host is not figure:
        if title:
            pad = 16.0 if host.get_title(loc="left") else None  # as in head()
            style: dict[str, Any] = {"fontsize": HEAD, "weight": "bold", "color": INK, "pad": pad}
            host.set_title(literal(title), loc="left", **style)
        return figure
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(subtitle, int((width - 2.0 * _MARGIN) * _CHARACTERS_PER_INCH))
    if not title and not lines:
        return figure
    below = _LINE * (2.25 if title else 0.5)  # inches from the top to the subtitle
    total = height + below + _LINE * (len(lines) + 0.5)
    figure.set_size_inches(width, total)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.0, 0.0, 1.0, height / total))
    heading = {"fontsize": TITLE, "color": INK, "weight": "bold"}
    quiet = {"fontsize": TEXT, "color": QUIET, "linespacing": 1.35}
    texts = (title, 0.5 * _LINE, heading), ("\n".join(lines), below, quiet)
    for text, down, look_of in texts:
        if text:
            at = _MARGIN / width, 1.0 - down / total
            figure.text(*at, literal(text), va="top", **look_of)
    return figure


def head(axes: Axes, name: str, description: str, note: str) -> None:
    """A name in bold over a panel, a quieter description below it, and a note at the right."""
    title: dict[str, Any] = {"fontsize": HEAD, "weight": "bold", "color": INK, "pad": 16.0}
    above = axes.set_title(literal(name), loc="left", **title)
    below = small_text(axes, description, (0.0, 5.0), color=QUIET)
    small_text(axes, note, (0.0, 17.0), right=True, others=(above, below), color=INK)


def small_text(
    axes: Axes,
    text: str,
    offset: tuple[float, float],
    *,
    right: bool = False,
    others: Sequence[Any] = (),
    **style: Any,
) -> Any:
    """Small text over a panel, ``offset`` points from its upper corner, covering no ``others``."""
    style |= {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    style |= {"fontsize": SMALL, "ha": "right" if right else "left"}
    shown = _classes()[2](literal(text), (float(right), 1.0), offset, **style)
    shown.others = others
    shown.set_in_layout(False)  # the title makes room
    axes.add_artist(shown)
    shown.set_clip_on(False)
    return shown


def caption(axes: Axes, solution: StepSolution, strong: bool, note: str | None = None) -> None:
    """Three texts over a panel: solver, its status, and a note, by default its largest force."""
    style = COMPATIBLE if strong else look(solution.backend)
    if note is None:
        value = largest_force(solution)
        scale, unit = with_prefix(value, "N") if value < SMALL_FORCE else (1.0, "N")
        note = f"max {significant(value / scale)} {unit}"
    if strong:
        description = "what elastic contacts carry" if solution.ok else "not certified"
    else:
        status = f"“{one_line(solution.status, 18 if solution.ok else 13)}”"
        description = status if solution.ok else f"{status}, not certified"
    resolved = not strong and solution.classic is not None
    head(axes, f"Compatible, {style.name}" if resolved else style.name, description, note)


# --- data to draw ----------------------------------------------------------------------


def answers(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    step: Step | None = None,
) -> list[tuple[StepSolution, FloatArray]]:
    """The solutions that have forces (nc,), each with them; the compatible one last."""
    if step is not None:
        checks.instance("step", step, Step)
    if compatible is not None:
        checks.instance("compatible", compatible, StepSolution)
    candidates = [*checks.instances("solutions", solutions, StepSolution), compatible]
    with_forces = [(s, s.f) for s in candidates if s is not None and s.f is not None]
    if not with_forces:
        raise InvalidInput("solutions", "none with forces", "at least one solution with forces")
    size = with_forces[0][1].shape[0] if step is None else step.nc
    if size == 0:
        raise InvalidInput("solutions", "no contacts", "at least one contact to draw")
    for _, f in with_forces:
        if f.shape != (size,):
            raise InvalidInput("solutions", f"{f.shape[0]:,} forces", f"{size:,}, one per contact")
    return with_forces


def largest(forces: Sequence[FloatArray]) -> float:
    """The largest of several sets of forces, for a common scale; 1 if there is none."""
    return max((float(f.max(initial=0.0)) for f in forces), default=0.0) or 1.0


def intervals_of(report: Indeterminacy, nc: int) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds (nc,) N of a report, the upper one infinite where it has no end."""
    if checks.instance("report", report, Indeterminacy).nc != nc:
        raise InvalidInput("report", f"{report.nc:,} contacts", f"{nc:,}, as in the solutions")
    return report.lower, np.where(report.unbounded, np.inf, report.upper)


# --- files -----------------------------------------------------------------------------


def check_path(path: str | Path) -> Path:
    """The path of a picture, if it can be written.

    Raises
    ------
    InvalidInput : unknown extension, or no such folder.
    """
    target = checks.path("path", path)
    if target.suffix.lower() not in FORMATS:
        raise InvalidInput("path", repr(str(path)), "a name ending in " + ", ".join(FORMATS))
    if not target.parent.is_dir():
        raise InvalidInput("path", f"no folder {str(target.parent)!r}", "an existing folder")
    return target


def save(figure: Any, path: str | Path) -> None:
    """Write a figure; the extension .png, .pdf or .svg chooses the format.

    Raises
    ------
    InvalidInput : no figure, unknown extension, or no such folder.
    SaveFailed : the disk is full or cannot be written.
    """
    target = check_path(path)
    if not hasattr(type(figure), "savefig"):
        raise InvalidInput("figure", checks.describe(figure), "a figure of matplotlib")
    with files.staged(target) as draft:
        figure.savefig(draft, dpi=RESOLUTION)
