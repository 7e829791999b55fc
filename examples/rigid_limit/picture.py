"""The bridge to infinite stiffness: relative distance of forces from the compatible ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import seconds, short
from cdopt.plots import canvas
from cdopt.plots.palette import INK, QUIET, RULE

from .bridge import Bridge, Line
from .friction import FrictionBridge

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 5.0  # inches
_KEY = 1.9  # inches, of the legends and what stands above and below the panels
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
_VISIBLE = 1e-9  # a least force nearer than this to the compatible one is the same
_CORNER = 0.62  # size of the slope triangle, decades along the parameter


def bridge_lines(bridge: Bridge, *, title: str = "", subtitle: str = "") -> Figure:
    """Relative distance from the compatible forces, against κ and against ε.

    Left, elastic contacts at rest: markers of several methods lie inside one another where the
    methods agree. Right, one step of contact dynamics whose compliance ε vanishes, true or
    uniform. Hollow grey markers are not fitted. The dashed line is the least force, which a
    uniform ridge tends to.

    Parameters
    ----------
    bridge : what ``bridge`` returned.

    Raises
    ------
    InvalidInput : not a Bridge, or no line with a point to draw.
    """
    if not isinstance(bridge, Bridge):
        raise InvalidInput("bridge", checks.describe(bridge), "what bridge() returned")
    if not any(np.isfinite(line.error).any() for line in bridge.lines):
        raise InvalidInput("bridge", "no method with a point", "at least one line to draw")
    figure = canvas.blank(canvas.WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0), sharey=True)
    for axes, lines in ((left, bridge.lines), (right, (bridge.one_step, bridge.uniform))):
        canvas.quiet_axes(axes)
        axes.grid(axis="x", color=RULE, linewidth=0.4)
        axes.margins(0.06, 0.08)
        for k, line in enumerate(lines):
            _draw(axes, line, 4.0 - 0.1 * k)
        axes.minorticks_off()
        axes.tick_params(labelleft=True)
        if bridge.minimum_norm_error > _VISIBLE:
            label = f"least force: {short(bridge.minimum_norm_error, 2)}"
            style: dict[str, Any] = {"color": _LEAST, "linestyle": (0, (4, 2)), "linewidth": 1.2}
            axes.axhline(bridge.minimum_norm_error, label=label, gid="least", zorder=1, **style)
        handles = axes.get_legend_handles_labels()[0]
        if not all(line.used.all() for line in lines):
            style = {"markerfacecolor": "none", "markeredgecolor": QUIET, "markersize": 4.0}
            handles.append(canvas.line_key("not fitted", linestyle="none", marker="o", **style))
        canvas.legend_below(axes, handles, _HEIGHT - _KEY, handlelength=3.0)
    _slope_triangle(left, bridge.lines[0], bridge.expected, _exponent(bridge.power))
    _slope_triangle(right, bridge.one_step, 1.0, "1")
    _overlaps(left, bridge)
    canvas.axis_labels(left, "stiffness κ", _ERROR)
    canvas.axis_labels(right, "compliance ε, falling", "")
    right.invert_xaxis()
    one, two = seconds(bridge.seconds_one_step), seconds(bridge.seconds_two_steps)
    names = ("Elastic contacts at rest", "One step of contact dynamics")
    for axes, name in ((left, names[0]), (right, names[1])):
        axes.set_title(
            name, fontsize=canvas.HEAD, weight="bold", color=INK, loc="left", y=1.0, pad=33.0
        )
    canvas.small_text(right, f"a solve takes {one}; in two steps {two}", (0.0, 20.0), color=QUIET)
    return canvas.headline(figure, title, subtitle)


def friction_lines(bridge: FrictionBridge) -> Figure:
    """Distances of discrete elements with friction from the compatible forces of either flow.

    Raises
    ------
    InvalidInput : not a FrictionBridge.
    """
    if not isinstance(bridge, FrictionBridge):
        raise InvalidInput("bridge", checks.describe(bridge), "what friction_bridge() returned")
    figure = canvas.blank(canvas.WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0), sharey=True)
    slope = f"Coulomb: slope {bridge.slope:+.3f}".replace("-", "−")
    step = f"one step to Haar–Kármán: slope {bridge.one_step_slope:+.3f}"
    drawn = (
        (left, bridge.kappas, bridge.error, slope, "quasi-static"),
        (left, bridge.kappas, bridge.associated_error, "Haar–Kármán", "velocity-verlet"),
        (right, bridge.epsilons, bridge.one_step, step, "one step"),
    )
    for axes, x, y, label, look in drawn:
        colour, marker, _, dash = _LOOKS[look]
        axes.loglog(x, y, color=colour, marker=marker, markersize=5.0, linestyle=dash,
                    linewidth=1.3, label=label, gid="bridge")  # fmt: skip
    for axes, name in ((left, "Discrete elements"), (right, "One step of contact dynamics")):
        canvas.quiet_axes(axes)
        axes.grid(axis="x", color=RULE, linewidth=0.4)
        axes.minorticks_off()
        axes.tick_params(labelleft=True)
        axes.set_title(name, fontsize=canvas.HEAD, weight="bold", color=INK, loc="left")
        canvas.legend_below(
            axes, axes.get_legend_handles_labels()[0], _HEIGHT - _KEY, handlelength=3.0
        )
    canvas.axis_labels(left, "stiffness κ", _ERROR)
    canvas.axis_labels(right, "compliance ε, falling", "")
    right.invert_xaxis()
    text = f"Pile of n = {bridge.n}, μ = {bridge.mu:g}, {len(bridge.coulomb):,} contacts"
    return canvas.headline(figure, "Discrete elements tend to Coulomb micro-slip", text)


def _draw(axes: Axes, line: Line, zorder: float) -> None:
    """A line through the points that are fitted, and hollow grey markers for the others."""
    colour, marker, size, dash = _LOOKS[line.name]
    name = _NAMES.get(line.name, line.name)
    if np.isfinite(line.slope) and line.name != "uniform ridge":
        name += f": slope {line.slope:+.3f}".replace("-", "−")
    filled = line.name in ("quasi-static", "one step", "uniform ridge")
    order = np.argsort(line.parameter)
    x, y, used = line.parameter[order], line.error[order], line.used[order]
    style: dict[str, Any] = {"marker": marker, "markersize": size, "zorder": zorder}
    hollow = style | {"markerfacecolor": "none", "linestyle": "none"}
    style |= {"markerfacecolor": colour if filled else "none", "markeredgewidth": 1.2}
    axes.loglog(x[used], y[used], color=colour, linestyle=dash, linewidth=1.3, label=name,
                gid="bridge", **style)  # fmt: skip
    axes.loglog(x[~used], y[~used], color=QUIET, markeredgewidth=0.7, gid="excluded", **hollow)


def _slope_triangle(axes: Axes, line: Line, slope: float, text: str) -> None:
    """A triangle of the expected slope next to the fitted part of a line."""
    order = np.argsort(line.parameter)
    fitted = order[line.used[order]]
    if fitted.size < 2:
        return
    x, y = np.log10(line.parameter[fitted]), np.log10(line.error[fitted])
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
    style: dict[str, Any] = {
        "fontsize": canvas.SMALL,
        "color": QUIET,
        "textcoords": "offset points",
    }
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
    top.tick_params(labelsize=canvas.SMALL, colors=QUIET, length=3.0, width=0.8, pad=1.0)
    top.spines["top"].set_color(QUIET)
    top.set_xlabel(
        "deepest overlap, in half-widths", fontsize=canvas.SMALL, color=QUIET, labelpad=3.0
    )
