"""Curves in small multiples: energies, forces and statistics of runs by several methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.plots.canvas import SMALL, TEXT, WIDTH, Formula, head, headline, panels, quiet_axes
from cdopt.plots.palette import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES: dict[str, Any] = {
    "solid": "-", "dashed": (0, (4, 1.6)), "dotted": (0, (1.1, 1.3)),
    "dash-dot": (0, (5, 1.4, 1.2, 1.4)),
}  # fmt: skip
_KEY = 0.26  # inches, a row of the key
_KEY_ROW = 2  # entries in a row of the key, at least
_SMALL = -3  # exponent of numbers that are written in powers of ten
_MARKS = 40  # points of a curve that are marked one by one, at most


@dataclass(frozen=True, eq=False)
class Curve:
    """One line.

    Attributes
    ----------
    name : in the key; curves of one name share an entry. x, y : (n,).
    colour : hexadecimal. dash : a name in DASHES.
    marked : every point gets a mark, which shows the steps of a coarse run.
    """

    name: str
    x: FloatArray
    y: FloatArray
    colour: str
    dash: str = "solid"
    marked: bool = False


@dataclass(frozen=True, eq=False)
class Band:
    """What lies between two lines.

    Attributes
    ----------
    name : in the key. x, low, high : (n,). colour : hexadecimal.
    """

    name: str
    x: FloatArray
    low: FloatArray
    high: FloatArray
    colour: str


@dataclass(frozen=True, eq=False)
class Panel:
    """One of several pictures side by side.

    Attributes
    ----------
    name, words, note : over the panel: in bold, quieter below, and at the right.
    curves, bands : what is drawn; later ones lie on top.
    x, y : labels of the axes; log : of the y axis.
    limits : of the y axis; None is what the curves need.
    """

    name: str
    words: str
    curves: Sequence[Curve]
    x: str
    y: str
    note: str = ""
    bands: Sequence[Band] = field(default=())
    log: bool = False
    limits: tuple[float, float] | None = None


def curve_panels(
    shown: Sequence[Panel], *, columns: int = 3, tall: float = 2.2, title: str = "",
    subtitle: str = "",
) -> Figure:  # fmt: skip
    """Panels of curves with one key below them all.

    Parameters
    ----------
    shown : the panels, row by row.
    columns : panels in a row. tall : height of a panel, inches.

    Raises
    ------
    InvalidInput : no panels, a panel without curves, or arrays that do not fit together.
    """
    _check(shown)
    entries = _entries(shown)
    rows = -(-len(entries) // _in_a_row(entries))
    figure, axes = panels(len(shown), min(columns, len(shown)), tall, foot=0.2 + _KEY * rows)
    for place, panel in zip(axes, shown, strict=True):
        quiet_axes(place)
        for band in panel.bands:
            place.fill_between(
                band.x, band.low, band.high, color=band.colour, linewidth=0.0, zorder=1
            ).set_gid("band")
        for curve in panel.curves:
            place.plot(curve.x, curve.y, **_style(curve))
        if panel.log:
            place.set_yscale("log")
            place.minorticks_off()
        if panel.limits is not None:
            place.set_ylim(*panel.limits)
        unit = "" if panel.log else _powers(place)
        low = min(float(curve.x.min()) for curve in panel.curves)
        high = max(float(curve.x.max()) for curve in panel.curves)
        place.set_xlim(low, high if high > low else low + 1.0)
        place.set_xlabel(panel.x, fontsize=TEXT, color=INK)
        place.set_ylabel(panel.y + unit, fontsize=TEXT, color=INK)
        head(place, Formula(panel.name), Formula(panel.words), panel.note)
    figure.legend(
        handles=[_handle(entry) for entry in entries], loc="outside lower left",
        ncols=_in_a_row(entries), fontsize=SMALL, frameon=False, labelcolor=INK,
        handlelength=2.8, columnspacing=1.6,
    )  # fmt: skip
    headline(figure, title, subtitle)
    return figure


def _powers(place: Axes) -> str:
    """Small numbers written in powers of ten, which then stand in the axis label."""
    largest = max(abs(limit) for limit in place.get_ylim())
    exponent = int(np.floor(np.log10(largest)))
    if exponent > _SMALL:
        return ""
    place.yaxis.set_major_formatter(
        lambda value, _: f"{value / 10.0**exponent:.3g}".replace("-", "−")
    )
    return f"  [$10^{{{exponent}}}$]"


def _style(curve: Curve) -> dict[str, Any]:
    """How a curve is drawn."""
    few = curve.marked and curve.x.size <= _MARKS
    return {
        "color": curve.colour, "linestyle": DASHES[curve.dash], "linewidth": 1.5,
        "marker": "o" if few else None, "markersize": 3.2, "gid": "curve", "zorder": 3,
    }  # fmt: skip


def _entries(shown: Sequence[Panel]) -> list[Curve | Band]:
    """What stands in the key: one entry per name, bands last."""
    curves = [curve for panel in shown for curve in panel.curves]
    bands = [band for panel in shown for band in panel.bands]
    by_name: dict[str, Curve | Band] = {}
    everything: list[Curve | Band] = [*curves, *bands]
    for entry in everything:
        by_name.setdefault(entry.name, entry)
    return list(by_name.values())


def _in_a_row(entries: Sequence[Curve | Band]) -> int:
    """Entries in a row of the key, by the length of the longest."""
    longest = max(len(entry.name) for entry in entries)
    return max(_KEY_ROW, min(len(entries), int(WIDTH / (0.75 + 0.062 * longest))))


def _handle(entry: Curve | Band) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if isinstance(entry, Band):
        return Patch(color=entry.colour, label=entry.name, linewidth=0.0)
    return Line2D([], [], **_style(entry), label=entry.name)


def _check(shown: Sequence[Panel]) -> None:
    if not shown:
        raise InvalidInput("shown", "no panels", "at least one panel")
    for panel in shown:
        if not panel.curves:
            raise InvalidInput("shown", f"no curves in {panel.name!r}", "at least one curve each")
        for curve in panel.curves:
            checks.choice("dash", curve.dash, DASHES)
            if np.ndim(curve.x) != 1 or np.shape(curve.x) != np.shape(curve.y) or not len(curve.x):
                found = f"{curve.name!r} of shapes {np.shape(curve.x)} and {np.shape(curve.y)}"
                raise InvalidInput("shown", found, "x and y of one length")
        for band in panel.bands:
            if not np.shape(band.x) == np.shape(band.low) == np.shape(band.high):
                found = f"{band.name!r} of shapes {np.shape(band.x)} and {np.shape(band.low)}"
                raise InvalidInput("shown", found, "x, low and high of one length")
