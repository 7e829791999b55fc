"""A platform on supports: what each support pushes with, and how far it is pressed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.plots.canvas import SMALL, TEXT, head, headline, panels, quiet_axes
from cdopt.plots.palette import BAND, EDGE, FIXED, INK, QUIET, RULE
from cdopt.problem.contact_law import HOOKE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TALL = 2.05  # inches, a panel
_LONGEST = 1.0  # of an arrow, where the platform is 2 long
_RADIUS = 0.13  # of a support, drawn larger than it is


def platform_forces(
    answers: Mapping[str, FloatArray], *, columns: int = 3, unit: str = "N", title: str = "",
    subtitle: str = "",
) -> Figure:  # fmt: skip
    """A panel per answer: a platform on supports, and under it each support's force as an arrow.

    Parameters
    ----------
    answers : by name, forces (ns,) of supports evenly spaced from left to right.
    columns : panels in a row. unit : of the forces.

    Raises
    ------
    InvalidInput : no answers, or of different lengths.
    """
    sizes = {f.size for f in answers.values()}
    if len(sizes) != 1 or sizes <= {0, 1}:
        raise InvalidInput("answers", f"{sorted(sizes)} supports", "the same number, two or more")
    figure, axes = panels(len(answers), min(columns, len(answers)), _TALL, foot=0.05)
    top = max(float(np.nanmax(f)) for f in answers.values()) or 1.0
    for panel, (name, f) in zip(axes, answers.items(), strict=True):
        _platform(panel, f.size, 0.0)
        for x, force in zip(_places(f.size), f, strict=True):
            _arrow(panel, float(x), float(force), top, unit)
        panel.set_xlim(-1.35, 1.35)
        panel.set_ylim(-_LONGEST - 0.62, 0.3)
        panel.set_aspect("equal")
        panel.axis("off")
        head(panel, name, "", "")
    headline(figure, title, subtitle)
    return figure


def platform_overlaps(
    answers: Mapping[str, tuple[FloatArray, FloatArray]], *, unit: str = "N", title: str = "",
    subtitle: str = "",
) -> Figure:  # fmt: skip
    """A panel per answer: force over overlap at each support, and the law that ties them.

    Parameters
    ----------
    answers : by name, (overlaps c (ns,), forces f (ns,)), Hooke: f = k c.

    Raises
    ------
    InvalidInput : no answers.
    """
    if not answers:
        raise InvalidInput("answers", "none", "at least one")
    figure, axes = panels(len(answers), len(answers), 2.3, sharey=True)
    widest = max(float(c.max()) for c, _ in answers.values())
    highest = max(float(f.max()) for _, f in answers.values())
    for panel, (name, (c, f)) in zip(axes, answers.items(), strict=True):
        quiet_axes(panel)
        reach = np.array([0.0, 1.3 * widest])
        for slope in np.unique(np.round(f / c, 9)):
            panel.plot(reach, slope * reach, color=RULE, linewidth=1.2, zorder=1)
            panel.annotate(f"k = {slope:.3g}", (0.45 * widest, slope * 0.45 * widest), (4.0, -9.0),
                           textcoords="offset points", fontsize=SMALL, color=QUIET)  # fmt: skip
        same: dict[tuple[float, float], list[str]] = {}
        for who, one, force in zip(("left", "middle", "right"), c, f, strict=True):
            same.setdefault((round(float(one), 9), round(float(force), 9)), []).append(who)
        for (one, force), sides in same.items():
            panel.plot(one, force, "o", color=INK, markersize=7.0, zorder=3)
            words = f"{', '.join(sides)}: {force:#.3g} {unit}"
            panel.annotate(words, (one, force), (-8.0, 5.0), textcoords="offset points",
                           fontsize=SMALL, color=INK, ha="right")  # fmt: skip
        panel.set_xlim(0.0, 1.3 * widest)
        panel.set_ylim(0.0, 1.15 * highest)
        head(panel, name, "", "")
    figure.supxlabel("overlap of the micro-displacement, c = −B u [relative]", fontsize=TEXT,
                     color=INK)  # fmt: skip
    figure.supylabel(f"force [{unit}]", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure


def law_scatter(
    answers: Mapping[str, tuple[FloatArray, FloatArray, float]], *, title: str = "",
    subtitle: str = "",
) -> Figure:  # fmt: skip
    """A panel per pile: every contact's force over its overlap, negative where it is open.

    Parameters
    ----------
    answers : by name, (overlaps c (nc,), forces over stiffnesses f / k (nc,), power p), which
        the law ties by f / k = c₊^(p−1). Drawn as shares of the largest overlap's.

    Raises
    ------
    InvalidInput : no answers.
    """
    if not answers:
        raise InvalidInput("answers", "none", "at least one")
    figure, axes = panels(len(answers), len(answers), 2.3, sharey=True)
    for panel, (name, (c, f, power)) in zip(axes, answers.items(), strict=True):
        quiet_axes(panel)
        unit_c = float(c.max(initial=0.0)) or 1.0
        f = f / unit_c ** (power - 1.0)
        open_ = c <= 0.0
        panel.plot(c[open_] / unit_c, f[open_], ".", color=EDGE, markersize=3.0, rasterized=True)
        panel.plot(c[~open_] / unit_c, f[~open_], ".", color=INK, markersize=3.0, rasterized=True)
        panel.axvline(0.0, color=BAND, linewidth=1.2, zorder=1)
        law = "f = k c" if power == HOOKE else f"f = k c^{power - 1.0:g}"
        note = f"{np.count_nonzero(open_):,} of {c.size:,} apart"
        head(panel, name, f"{law} where pressed, 0 where apart", note)
        panel.set_xlim(max(-1.2, float(c.min(initial=0.0)) / unit_c - 0.05), 1.08)
    figure.supxlabel("overlap of the micro-displacement, c = −B u [share of the largest]",
                     fontsize=TEXT, color=INK)  # fmt: skip
    figure.supylabel("force over stiffness [share]", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure


def _places(count: int) -> FloatArray:
    return np.linspace(-1.0, 1.0, count)


def _platform(axes: Any, count: int, height: float) -> None:
    """The platform, and round supports under it."""
    from matplotlib.patches import Circle, Rectangle

    axes.add_patch(
        Rectangle((-1.2, height), 2.4, 0.12, facecolor=BAND, edgecolor=EDGE, linewidth=0.8)
    )
    for x in _places(count):
        axes.add_patch(
            Circle((x, -_RADIUS), _RADIUS, facecolor=FIXED, edgecolor=QUIET, linewidth=0.6)
        )


def _arrow(axes: Any, x: float, force: float, top: float, unit: str) -> None:
    """An arrow that ends under the support, as long as the force; its number below."""
    start = -2.0 * _RADIUS - 0.05
    long = _LONGEST * force / top
    if long > 0.02:
        axes.annotate(
            "", (x, start), (x, start - long),
            arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 2.2, "mutation_scale": 11,
                        "shrinkA": 0.0, "shrinkB": 0.0},
        )  # fmt: skip
    axes.text(x, start - max(long, 0.0) - 0.05, f"{force:.3g} {unit}", ha="center", va="top",
              fontsize=SMALL, color=INK)  # fmt: skip
