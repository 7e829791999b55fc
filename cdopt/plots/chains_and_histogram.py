"""One method's forces twice: their network in space, and the histogram of those that are not zero.

As figures 8 to 18 of Olsen & Kamrin (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray, vector
from cdopt._util.errors import InvalidInput
from cdopt.plots.canvas import SMALL, TEXT, WIDTH, blank, head, headline, panels, quiet_axes
from cdopt.plots.chains import draw_chains
from cdopt.plots.palette import INK, QUIET, force_colours
from cdopt.problem.contact_step import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TALL = 4.0  # inches
_WIDE = 5.1  # inches, the network
_BINS = 44
_NONZERO = 1e-6  # of the largest force: smaller ones are what solvers leave of zero


@dataclass(frozen=True, eq=False)
class Forces:
    """One method's answer.

    Attributes
    ----------
    name : of the method. f : (nc,) forces. colour : of its bars.
    """

    name: str
    f: FloatArray
    colour: str


def chains_and_histogram(
    step: Step,
    shown: Forces,
    top: float,
    *,
    unit: str = "N",
    view: str = "perspective",
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """(a) The network of forces, and (b) the histogram of the nonzero ones.

    Parameters
    ----------
    step : with points, normals and bodies.
    shown : the forces, on the step's contacts.
    top : end of the scales, so that figures can be compared.
    unit : of the forces.
    view : as in ``force_chains``.

    Raises
    ------
    InvalidInput : the step cannot be drawn, or forces of another length.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    f = vector("f", shown.f, step.nc, unit)
    figure = blank(WIDTH, _TALL + 0.5)
    left, right = figure.subplots(1, 2, width_ratios=(_WIDE, WIDTH - _WIDE))
    draw_chains(left, step, f, top, _WIDE, view)
    head(left, f"(a) {shown.name}", "", f"max {f.max(initial=0.0):#.4g} {unit}")
    scale = ScalarMappable(Normalize(0.0, top), force_colours())
    bar = figure.colorbar(
        scale, ax=left, orientation="horizontal", fraction=0.05, shrink=0.7, aspect=40
    )
    bar.set_label(f"contact force [{unit}], as colour and line width", fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)
    loaded = _histogram(right, shown, top)
    head(right, "(b) nonzero forces", "", f"{loaded:,} of {f.size:,} contacts")
    right.set_xlabel(f"contact force [{unit}]", fontsize=TEXT, color=INK)
    right.set_ylabel("number of contacts", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure


def histograms(
    shown: Sequence[Forces], *, unit: str = "N", title: str = "", subtitle: str = ""
) -> Figure:
    """Histograms of nonzero forces side by side, on the same bins and scales.

    Raises
    ------
    InvalidInput : nothing to show.
    """
    if not shown:
        raise InvalidInput("shown", "no forces", "at least one method's forces")
    figure, axes = panels(len(shown), len(shown), 2.6, sharex=True, sharey=True)
    top = max(float(one.f.max(initial=0.0)) for one in shown) or 1.0
    for panel, one in zip(axes, shown, strict=True):
        loaded = _histogram(panel, one, top)
        note = f"max {one.f.max(initial=0.0):#.6g} {unit}"
        head(panel, one.name, f"{loaded:,} of {one.f.size:,} contacts carry force", note)
    figure.supxlabel(f"contact force [{unit}]", fontsize=TEXT, color=INK)
    figure.supylabel("number of contacts", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure


def _histogram(axes: Axes, shown: Forces, top: float) -> int:
    """Bars of the nonzero forces, and how many there are."""
    quiet_axes(axes)
    end = 1.02 * top
    edges: Any = np.linspace(0.0, end, _BINS + 1)
    loaded: Any = shown.f[shown.f > _NONZERO * shown.f.max(initial=0.0)]
    axes.hist(
        loaded, edges, color=shown.colour, alpha=0.75,
        edgecolor="white", linewidth=0.3,
    )  # fmt: skip
    axes.set_xlim(0.0, end)
    return int(loaded.size)
