"""Curves in small multiples: energies, forces and statistics of runs by several methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cdopt.plots.canvas import SMALL, TEXT, WIDTH, Formula, head, headline, panels, quiet_axes
from cdopt.plots.palette import INK

DASHES: dict[str, Any] = {
    "solid": "-",
    "dashed": (0, (4, 1.6)),
    "dotted": (0, (1.1, 1.3)),
    "dash-dot": (0, (5, 1.4, 1.2, 1.4)),
}


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
    x: np.ndarray
    y: np.ndarray
    colour: str
    dash: str = "solid"
    marked: bool = False

    @property
    def style(self) -> dict[str, Any]:
        """How it is drawn."""
        return {
            "color": self.colour, "linestyle": DASHES[self.dash], "linewidth": 1.5,
            "marker": "o" if self.marked and self.x.size <= 40 else None, "markersize": 3.2,
            "gid": "curve", "zorder": 3, "label": self.name,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Band:
    """The area between two lines: x, low, high (n,); ``name`` stands in the key."""

    name: str
    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    colour: str


@dataclass(frozen=True, eq=False)
class Panel:
    """One of several pictures side by side.

    Attributes
    ----------
    name, words : over the panel: in bold, and quieter below.
    curves, bands : what is drawn; later ones lie on top.
    x, y : labels of the axes; log : of the y axis.
    limits : of the y axis; None is what the curves need.
    """

    name: str
    words: str
    curves: Sequence[Curve]
    x: str
    y: str
    bands: Sequence[Band] = ()
    log: bool = False
    limits: tuple[float, float] | None = None


def curve_panels(
    shown: Sequence[Panel], *, columns: int = 3, tall: float = 2.2, title: str = ""
) -> Figure:
    """Panels of curves, ``columns`` in a row and ``tall`` inches high, with one key below all."""
    handles = _key(shown)
    longest = max(len(str(handle.get_label())) for handle in handles)
    in_a_row = max(2, min(len(handles), int(WIDTH / (0.75 + 0.062 * longest))))
    foot = 0.2 + 0.26 * -(-len(handles) // in_a_row)
    figure, axes = panels(len(shown), min(columns, len(shown)), tall, foot=foot)
    for place, panel in zip(axes, shown, strict=True):
        quiet_axes(place)
        for band in panel.bands:
            area = place.fill_between(band.x, band.low, band.high, color=band.colour, linewidth=0)
            area.set_gid("band")
        for curve in panel.curves:
            place.plot(curve.x, curve.y, **curve.style)
        if panel.log:
            place.set_yscale("log")
            place.minorticks_off()
        if panel.limits is not None:
            place.set_ylim(*panel.limits)
        power = "" if panel.log else _powers_of_ten(place)
        low = min(float(curve.x.min()) for curve in panel.curves)
        high = max(float(curve.x.max()) for curve in panel.curves)
        place.set_xlim(low, high)
        place.set_xlabel(panel.x, fontsize=TEXT, color=INK)
        place.set_ylabel(panel.y + power, fontsize=TEXT, color=INK)
        head(place, Formula(panel.name), Formula(panel.words), "")
    figure.legend(
        handles=handles, loc="outside lower left", ncols=in_a_row, fontsize=SMALL, frameon=False,
        labelcolor=INK, handlelength=2.8, columnspacing=1.6,
    )  # fmt: skip
    return headline(figure, title)


def _powers_of_ten(place: Axes) -> str:
    """Write small numbers as multiples of a power of ten; returns it, for the axis label."""
    exponent = int(np.floor(np.log10(max(abs(limit) for limit in place.get_ylim()))))
    if exponent > -3:
        return ""
    place.yaxis.set_major_formatter(
        lambda value, _: f"{value / 10.0**exponent:.3g}".replace("-", "−")
    )
    return f"  [$10^{{{exponent}}}$]"


def _key(shown: Sequence[Panel]) -> list[Line2D | Patch]:
    """One entry per name, bands last."""
    handles: dict[str, Line2D | Patch] = {}
    for curve in (curve for panel in shown for curve in panel.curves):
        handles.setdefault(curve.name, Line2D([], [], **curve.style))
    for band in (band for panel in shown for band in panel.bands):
        handles.setdefault(band.name, Patch(color=band.colour, label=band.name, linewidth=0.0))
    return list(handles.values())
