"""The bridge to infinite stiffness: how far forces are from the compatible ones, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import seconds, short
from cdopt.hyperstatic.bridge import Bridge, Line
from cdopt.plots.canvas import HEAD, SMALL, TEXT, WIDTH, blank, headline, quiet_axes
from cdopt.plots.palette import INK, QUIET, RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TALL = 3.9  # inches
_LOOKS: dict[str, tuple[str, str, float, Any]] = {  # name, colour, marker, its size, dash
    "quasi-static": ("#1a1a1a", "o", 4.0, "-"),
    "variational": ("#0072B2", "s", 8.5, (0, (4, 1.6))),
    "velocity-verlet": ("#D55E00", "D", 12.5, (0, (1.1, 1.3))),
    "one step": ("#009E73", "^", 6.0, "-"),
    "uniform ridge": ("#CC79A7", "v", 6.0, (0, (5, 1.4, 1.2, 1.4))),
}
_NAMES = {"velocity-verlet": "velocity-Verlet"}
_ERROR = r"$\Vert f - f_\mathrm{compatible}\Vert\,/\,\Vert f_\mathrm{compatible}\Vert$"
_LEAST = "#882255"  # the least force
_SEEN = 1e-9  # a least force nearer than this to the compatible one is the same
_CORNER = 0.62  # size of the slope triangle, decades along the parameter


def bridge_lines(bridge: Bridge, *, title: str = "", subtitle: str = "") -> Figure:
    """Relative distance from the compatible forces, against κ and against ε.

    Left, elastic contacts at rest: markers of several methods lie inside one another where the
    methods agree. Right, one step of contact dynamics whose compliance ε vanishes, true or
    uniform. Hollow grey markers are not fitted. The dashed line is the least force, which a
    uniform ridge tends to.

    Parameters
    ----------
    bridge : what ``cdopt.bridge`` returned.

    Raises
    ------
    InvalidInput : not a Bridge, or no line with a point to draw.
    """
    if not isinstance(bridge, Bridge):
        raise InvalidInput("bridge", checks.describe(bridge), "what cdopt.bridge() returned")
    if not any(np.isfinite(line.error).any() for line in bridge.lines):
        raise InvalidInput("bridge", "no method with a point", "at least one line to draw")
    figure = blank(WIDTH, _TALL)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0), sharey=True)
    for k, line in enumerate(bridge.lines):
        _draw(left, line, 4.0 - 0.1 * k)
    _draw(right, bridge.one_step, 4.0)
    _draw(right, bridge.uniform, 4.0)
    for axes in (left, right):
        _style(axes)
        if bridge.minimum_norm_error > _SEEN:
            axes.axhline(
                bridge.minimum_norm_error, color=_LEAST, linestyle=(0, (4, 2)), linewidth=1.2,
                label=f"least force: {short(bridge.minimum_norm_error, 2)}", gid="least", zorder=1,
            )  # fmt: skip
        axes.tick_params(labelleft=True)
    _corner(left, bridge.lines[0], bridge.expected, _exponent(bridge.power))
    _corner(right, bridge.one_step, 1.0, "1")
    _overlaps(left, bridge)
    left.set_ylabel(_ERROR, fontsize=TEXT, color=INK)
    left.set_xlabel("stiffness κ", fontsize=TEXT, color=INK)
    right.set_xlabel("compliance ε, falling", fontsize=TEXT, color=INK)
    right.invert_xaxis()
    one, two = seconds(bridge.seconds_one_step), seconds(bridge.seconds_two_steps)
    _head(left, "Elastic contacts at rest", "")
    _head(right, "One step of contact dynamics", f"a solve takes {one}; in two steps {two}")
    _key(left, bridge.lines)
    _key(right, (bridge.one_step, bridge.uniform))
    headline(figure, title, subtitle)
    return figure


def _draw(axes: Axes, line: Line, level: float) -> None:
    """A line through the points that are fitted, and hollow grey markers for the others."""
    colour, marker, size, dash = _LOOKS[line.name]
    name = _NAMES.get(line.name, line.name)
    if np.isfinite(line.slope) and line.name != "uniform ridge":
        name += f": slope {line.slope:+.3f}".replace("-", "−")
    filled = line.name in ("quasi-static", "one step", "uniform ridge")
    order = np.argsort(line.parameter)
    x, y, used = line.parameter[order], line.error[order], line.used[order]
    axes.loglog(
        x[used], y[used], color=colour, linestyle=dash, linewidth=1.3, gid="bridge", zorder=level,
        marker=marker, markersize=size, markerfacecolor=colour if filled else "none",
        markeredgewidth=1.2, label=name,
    )  # fmt: skip
    axes.loglog(
        x[~used], y[~used], linestyle="none", marker=marker, markersize=size, gid="excluded",
        markerfacecolor="none", markeredgecolor=QUIET, markeredgewidth=0.7, zorder=level,
    )  # fmt: skip


def _key(axes: Axes, lines: Sequence[Line]) -> None:
    """The key, and what hollow markers say where there are some."""
    from matplotlib.lines import Line2D

    handles = axes.get_legend_handles_labels()[0]
    if not all(line.used.all() for line in lines):
        style: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": QUIET}
        handles.append(
            Line2D(
                [], [], linestyle="none", marker="o", markersize=4.0, label="not fitted", **style
            )
        )
    axes.legend(
        handles=handles, loc="lower left", fontsize=SMALL, frameon=False, labelcolor=INK,
        handlelength=3.0, labelspacing=0.65,
    )  # fmt: skip


def _head(axes: Axes, name: str, words: str) -> None:
    """A name in bold, at one height over both panels, and quieter words below it."""
    axes.set_title(name, fontsize=HEAD, weight="bold", color=INK, loc="left", y=1.0, pad=33.0)
    axes.annotate(
        words, (0.0, 1.0), (0.0, 20.0), xycoords="axes fraction", textcoords="offset points",
        fontsize=SMALL, color=QUIET, annotation_clip=False,
    ).set_in_layout(False)  # fmt: skip


def _style(axes: Axes) -> None:
    quiet_axes(axes)
    axes.grid(axis="x", color=RULE, linewidth=0.4)
    axes.minorticks_off()
    axes.margins(0.06, 0.08)


def _corner(axes: Axes, line: Line, slope: float, text: str) -> None:
    """A triangle of the expected slope beside the fitted part of a line."""
    order = np.argsort(line.parameter)
    kept = order[line.used[order]]
    if kept.size < 2:  # nothing to stand beside
        return
    x, y = np.log10(line.parameter[kept]), np.log10(line.error[kept])
    middle = float(x.mean())
    run = _CORNER * (1.0 if abs(slope) > 0.9 else 1.0 / abs(slope))
    at = float(np.interp(middle, x, y)) + 0.55
    a, b = middle - 0.5 * run, middle + 0.5 * run
    top, bottom = at + abs(0.5 * slope * run), at - abs(0.5 * slope * run)
    ends = (top, bottom) if slope < 0.0 else (bottom, top)
    far = b if slope < 0.0 else a
    corners = 10.0 ** np.array([[a, ends[0]], [b, ends[1]], [far, top]])
    axes.fill(*corners.T, facecolor="none", edgecolor=QUIET, linewidth=0.9, gid="slope")
    # the legs: one decade along, ``text`` decades down
    style: dict[str, Any] = {"fontsize": SMALL, "color": QUIET, "textcoords": "offset points"}
    axes.annotate("1", (10.0**middle, 10.0**top), (0, 3), ha="center", **style)
    axes.annotate(text, (10.0**far, 10.0**at), (5, 0), va="center", **style)


def _exponent(power: float) -> str:
    """1/(p−1) in few characters."""
    return {2.0: "1", 2.5: "2/3"}.get(power, short(1.0 / (power - 1.0), 3))


def _overlaps(axes: Axes, bridge: Bridge) -> None:
    """The deepest overlap on an axis at the top."""
    share = float(bridge.overlap[0] * bridge.lines[0].parameter[0] ** (-bridge.expected))
    power = bridge.expected

    def overlap(kappa: Any) -> Any:
        return share * np.clip(kappa, 1e-60, 1e60) ** power

    def back(deep: Any) -> Any:
        return (np.clip(deep, 1e-60, 1e60) / share) ** (1.0 / power)

    top = axes.secondary_xaxis("top", functions=(overlap, back))
    top.minorticks_off()
    top.tick_params(labelsize=SMALL, colors=QUIET, length=3.0, width=0.8, pad=1.0)
    top.spines["top"].set_color(QUIET)
    top.set_xlabel("deepest overlap, in half-widths", fontsize=SMALL, color=QUIET, labelpad=3.0)
