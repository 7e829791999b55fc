"""Which contact's stiffness moves which force, as a table in colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.hyperstatic import Sensitivity
from cdopt.plots.canvas import SMALL, TEXT, blank, headline, literal
from cdopt.plots.palette import INK, QUIET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIDE = 5.0  # inches
_WORDS = 12  # contacts up to which numbers stand in the squares
_NAMED = 40
_PALE = 0.55  # of the largest, above which numbers are white


def stiffness_influence(
    found: Sensitivity,
    names: Sequence[str] | None = None,
    *,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A square for each pair of contacts: what force i gains when contact j gets stiffer.

    Colour and number are ∂f_i/∂log k_j in N: the force gained when k_j grows by a small share,
    over that share. Rows sum to zero: all contacts stiffer together change nothing.

    Parameters
    ----------
    found : what ``cdopt.sensitivity`` returned.
    names : of the contacts; their numbers by default.

    Raises
    ------
    InvalidInput : not a sensitivity, or another number of names.
    Unsupported : derivatives are one-sided.
    """
    if not isinstance(found, Sensitivity):
        raise InvalidInput("found", checks.describe(found), "what sensitivity() returned")
    words = [str(i) for i in range(found.nc)] if names is None else [str(name) for name in names]
    if len(words) != found.nc:
        raise InvalidInput("names", f"{len(words)}", f"{found.nc}, one per contact")
    matrix = found.log_stiffness
    top = float(np.abs(matrix).max(initial=0.0)) or 1.0
    figure = blank(_SIDE + 1.0, _SIDE)
    axes = figure.subplots()
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-top, vmax=top)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=30)
    bar.set_label("∂f/∂log k [N]: 1 % stiffer gains a hundredth", fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)
    for i, j in np.ndindex(matrix.shape) if found.nc <= _WORDS else ():
        pale = abs(matrix[i, j]) > _PALE * top
        text = f"{matrix[i, j] + 0.0:.2g}"
        axes.text(j, i, text, ha="center", va="center", fontsize=TEXT,
                  color="white" if pale else INK)  # fmt: skip
    if found.nc <= _NAMED:
        long, shown = max(map(len, words)) > 4, list(map(literal, words))
        axes.set_xticks(range(found.nc), shown, rotation=45.0 if long else 0.0,
                        ha="right" if long else "center", rotation_mode="anchor")  # fmt: skip
        axes.set_yticks(range(found.nc), shown)
    axes.tick_params(labelsize=SMALL, colors=INK, length=0.0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("this contact gets stiffer", fontsize=TEXT, color=INK)
    axes.set_ylabel("this force answers", fontsize=TEXT, color=INK)
    headline(figure, title, subtitle)
    return figure
