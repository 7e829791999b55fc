"""Blank figures in the house style, and how they are written to files.

matplotlib is imported when a figure is made, not when cdopt is; no global state is touched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import one_line
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots.palette import COMPATIBLE, INK, QUIET, RULE, force_colours, look
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.study.solution_set import largest_force

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
RESOLUTION = 200  # dots per inch of bitmaps
TITLE, HEAD, TEXT, SMALL = 13.0, 10.5, 9.0, 8.0  # font sizes, points
WIDTH = 9.2  # inches of pictures made of panels
IDLE = 1e-3  # forces below this share of the largest count as none

_LINE = 0.175  # inches from one line of text to the next
_MARGIN = 0.12  # inches left of titles
_CHARACTERS_PER_INCH = 15.5  # of secondary text


# --- figures ---------------------------------------------------------------------------


def blank(width: float, height: float) -> Figure:
    """An empty white figure of a size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.06, h_pad=0.06, wspace=0.02, hspace=0.03)
    return figure


def panels(
    number: int, columns: int, tall: float, *, foot: float = 0.35, caption: float = 0.55,
    width: float = WIDTH, **shared: Any,
) -> tuple[Figure, list[Any]]:  # fmt: skip
    """A figure of small multiples, and its first ``number`` axes; places left over stay empty.

    Parameters
    ----------
    number : of panels. columns : panels in a row.
    tall : height of a panel, inches, without the ``caption`` inches above it.
    foot : inches below all panels, for an axis label or a colour bar.
    width : of the figure, inches.
    shared : sharex, sharey, as in ``Figure.subplots``.
    """
    rows = -(-number // columns)
    figure = blank(width, rows * (tall + caption) + foot)
    axes = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for empty in axes[number:]:
        empty.axis("off")
    for above in axes[max(number - columns, 0) : number] if shared.get("sharex") else ():
        above.xaxis.set_tick_params(labelbottom=True)
    return figure, list(axes[:number])


def grid_columns(panels: int) -> int:
    """Number of columns that leaves few places empty."""
    if panels in (5, 6):
        return 3
    return 5 if panels in (9, 10) else min(max(panels, 1), 4)


def colour_bar(
    figure: Figure, axes: Sequence[Any], top: float, label: str, low: float = 0.0
) -> None:
    """A horizontal colour scale of forces, or other values, from ``low`` to ``top``."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = figure.colorbar(
        ScalarMappable(Normalize(low, top), force_colours()), ax=list(axes),
        orientation="horizontal", fraction=0.05, shrink=0.55 if len(axes) > 1 else 0.7, aspect=42,
    )  # fmt: skip
    bar.set_label(label, fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)


# --- axes ------------------------------------------------------------------------------


def quiet_axes(axes: Axes) -> None:
    """Thin left and bottom spines, a light grid along y, small labels."""
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set(color=QUIET, linewidth=0.8)
    axes.tick_params(labelsize=SMALL, colors=QUIET, length=3.0, width=0.8)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)


def without_ticks(axes: Axes, box: FloatArray) -> None:
    """Equal scales without ticks; ``box`` (2, 2) is the lower left and the upper right corner."""
    axes.set(xlim=box[:, 0], ylim=box[:, 1], xticks=[], yticks=[], aspect="equal")


def emphasise(axes: Axes, strong: bool) -> None:
    """A thin grey frame around a panel, or a heavy black one."""
    for spine in axes.spines.values():
        spine.set(color=INK if strong else RULE, linewidth=2.2 if strong else 0.6)


# --- texts -----------------------------------------------------------------------------


class Formula(str):
    """Text with formulas in matplotlib's language, which ``literal`` leaves as it is."""


def literal(text: str) -> str:
    """Text for a picture as it stands: no dollar sign in it begins a formula.

    Characters that cannot be printed are replaced, except the ends of lines.
    """
    if isinstance(text, Formula):
        return text
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return shown.replace("$", r"\$")


def headline(figure: Figure, title: str, subtitle: str = "") -> None:
    """Title at the top left, a quieter text below it; the figure grows by their height."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(subtitle, int((width - 2.0 * _MARGIN) * _CHARACTERS_PER_INCH))
    if not title and not lines:
        return
    below = _LINE * (2.25 if title else 0.5)  # inches from the top to the subtitle
    tall = height + below + _LINE * (len(lines) + 0.5)
    figure.set_size_inches(width, tall)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.0, 0.0, 1.0, height / tall))
    if title:
        figure.text(
            _MARGIN / width, 1.0 - 0.5 * _LINE / tall, literal(title), va="top", fontsize=TITLE,
            color=INK, weight="bold",
        )  # fmt: skip
    if lines:
        figure.text(
            _MARGIN / width, 1.0 - below / tall, literal("\n".join(lines)), va="top",
            fontsize=TEXT, color=QUIET, linespacing=1.35,
        )  # fmt: skip


def head(axes: Axes, name: str, words: str, note: str) -> None:
    """A name in bold over a panel, quieter words below it, and a note at the right."""
    axes.set_title(literal(name), fontsize=HEAD, weight="bold", color=INK, loc="left", pad=16.0)
    style: dict[str, Any] = {
        "xycoords": "axes fraction", "textcoords": "offset points", "fontsize": SMALL,
        "annotation_clip": False,
    }  # fmt: skip
    for text in (
        axes.annotate(literal(words), (0.0, 1.0), (0.0, 5.0), color=QUIET, **style),
        axes.annotate(literal(note), (1.0, 1.0), (0.0, 17.0), color=INK, ha="right", **style),
    ):
        text.set_in_layout(False)  # the title already makes room


def caption(axes: Axes, solution: StepSolution, strong: bool, note: str | None = None) -> None:
    """Three texts over a panel: solver, its claim, and a note, by default its largest force."""
    style = COMPATIBLE if strong else look(solution.backend)
    largest = f"max {largest_force(solution):#.3g} N" if note is None else note
    if strong:
        words = "what elastic contacts carry" if solution.ok else "not certified"
    else:
        status = f"“{one_line(solution.status, 18 if solution.ok else 13)}”"
        words = f"says {status}" if solution.ok else f"{status}, not certified"
    head(axes, style.name, words, largest)


# --- what is drawn ---------------------------------------------------------------------


def answers(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    step: Step | None = None,
) -> list[tuple[StepSolution, FloatArray]]:
    """The solutions that have forces (nc,), each with them; the compatible one last.

    Raises
    ------
    InvalidInput : none has, there are no contacts, or the lengths differ.
    """
    everything = [*solutions, *([] if compatible is None else [compatible])]
    with_forces = [(s, s.f) for s in everything if s.f is not None]
    if not with_forces:
        raise InvalidInput("solutions", "none with forces", "at least one solution with forces")
    size = with_forces[0][1].shape[0] if step is None else step.nc
    if size == 0:
        raise InvalidInput("solutions", "no contacts", "at least one contact to draw")
    for _, f in with_forces:
        if f.shape != (size,):
            raise InvalidInput("solutions", f"{f.shape[0]} forces", f"{size}, one per contact")
    return with_forces


def largest(forces: Sequence[FloatArray]) -> float:
    """The largest of several sets of forces, for a common scale; 1 if there is none."""
    return max((float(f.max(initial=0.0)) for f in forces), default=0.0) or 1.0


def intervals_of(report: Indeterminacy, nc: int) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds (nc,) N of a report, the upper one infinite where it has no end.

    Raises
    ------
    InvalidInput : not a report, or one of a step with another number of contacts.
    """
    if not isinstance(report, Indeterminacy):
        raise InvalidInput("report", checks.describe(report), "what indeterminacy() returned")
    if report.nc != nc:
        raise InvalidInput("report", f"{report.nc} contacts", f"{nc}, as in the solutions")
    return report.lower, np.where(report.unbounded, np.inf, report.upper)


# --- files -----------------------------------------------------------------------------


def check_path(path: str | Path) -> Path:
    """The path of a picture, if it can be written.

    Raises
    ------
    InvalidInput : unknown extension, or no such folder.
    """
    if not isinstance(path, str | Path):
        raise InvalidInput("path", checks.describe(path), "a path")
    target = Path(path)
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
