"""The force network ensemble, and sensitivities of the forces to stiffness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.hyperstatic import Ensemble, Sensitivity
from cdopt.plots import canvas
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, INK, PALETTE, QUIET, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 3.85  # inches
_FEW = 24  # contacts that get their names
_BINS = 40
_RARE = 1e-3  # densities below this are not shown
_OTHERS = tuple(PALETTE[name] for name in ("clarabel", "osqp", "scs", "highs", "piqp", "qoco"))
_SIDE = 5.0  # inches, of the table of influences
_NUMBERS = 12  # contacts up to which numbers stand in the squares
_NAMED = 40  # contacts up to which the axes show names
_DARK = 0.55  # of the largest, above which numbers are white


def force_ensemble(
    ensemble: Ensemble,
    answers: Mapping[str, Any] | None = None,
    *,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Two panels: the forces of each loose contact, and the distribution of all magnitudes.

    On the left the middle 90 % and the middle half of the samples of each contact, by mean force,
    and the answers as marks. On the right the density of f/⟨f⟩ over all closed contacts on a
    logarithmic scale, and the answers' own forces as ticks below it.

    Parameters
    ----------
    ensemble : what ``cdopt.ensemble`` returned.
    answers : forces (nc,) N by name, up to six; "compatible" is drawn as a line, names of
        backends in the colours that they have in every picture.

    Raises
    ------
    InvalidInput : every force is determined, or an answer of another size.
    """
    if not ensemble.parts:
        raise InvalidInput("ensemble", "an ensemble of one point", "forces that can differ")
    answers = dict(answers or {})
    if len(answers) > len(_OTHERS):
        raise InvalidInput("answers", f"{len(answers)} of them", f"at most {len(_OTHERS)}")
    nc = ensemble.samples.shape[2]
    marks = {name: checks.vector(f"answers[{name!r}]", f, nc, "N") for name, f in answers.items()}
    figure = canvas.blank(canvas.WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1.0))
    _contacts(left, ensemble, marks)
    _magnitudes(right, ensemble, marks)
    if marks:
        canvas.legend(figure, left.get_legend_handles_labels()[0], "outside lower left", ncols=6)
    return canvas.headline(figure, title, subtitle)


def _contacts(axes: Axes, ensemble: Ensemble, marks: dict[str, FloatArray]) -> None:
    """Quantile bands of the loose contacts, by mean force."""
    canvas.quiet_axes(axes)
    shown = np.flatnonzero(ensemble.loose)
    shown = shown[np.argsort(ensemble.mean[shown], kind="stable")]
    at, few = np.arange(shown.size), shown.size <= _FEW
    low, first, last, high = (ensemble.quantile(q)[shown] for q in (0.05, 0.25, 0.75, 0.95))
    wide = 0.8 if few else 1.0
    axes.bar(at, high - low, wide, bottom=low, color=BAND, label="middle 90 %")
    axes.bar(at, last - first, wide, bottom=first, color=EDGE, alpha=0.6, label="middle half")
    for style, (name, f) in zip(_styles(marks), marks.items(), strict=True):
        label = canvas.literal(style.name)
        if name == "compatible":
            line = {"color": style.colour, "linewidth": 2.0 if few else 1.0, "zorder": 3}
            axes.hlines(f[shown], at - 0.45, at + 0.45, label=label, **line)
        else:
            marker: dict[str, Any] = {"markersize": 5.0 if few else 2.5, "markeredgewidth": 1.0}
            marker |= {"label": label, "zorder": 4}
            canvas.points(axes, at, f[shown], style.colour, style.marker, **marker)
    if few:
        canvas.name_contacts(axes, [ensemble.report.names[i] for i in shown], 60)
    axes.set_xlim(-0.7, shown.size - 0.3)
    axes.set_ylim(bottom=0.0)
    canvas.axis_labels(axes, "contacts, by mean force", "contact force [N]")
    verdict = "converged" if ensemble.converged else "NOT converged"
    size = f"{ensemble.dimension} dimensions, {ensemble.forces.shape[0]:,} samples"
    canvas.head(axes, "Each contact", size, verdict)


def _magnitudes(axes: Axes, ensemble: Ensemble, marks: dict[str, FloatArray]) -> None:
    """P(f/⟨f⟩) of all closed contacts, beside an exponential."""
    canvas.quiet_axes(axes)
    edges, density = ensemble.distribution(_BINS)
    axes.stairs(density, edges, color=EDGE, linewidth=1.6, label="ensemble")
    x = np.linspace(0.0, edges[-1], 100)
    axes.plot(x, np.exp(-x), color=QUIET, linewidth=0.9, linestyle=":")
    axes.set_yscale("log")
    axes.set_ylim(_RARE * density.max(), 3.0 * density.max())
    mean = float(ensemble.mean[ensemble.report.closed].mean()) or 1.0
    drawn = edges[:-1][density > _RARE * density.max()]
    axes.set_xlim(0.0, 1.1 * float(drawn.max(initial=edges[1])))
    for row, (style, f) in enumerate(zip(_styles(marks), marks.values(), strict=True)):
        height = 1.3 * 1.5**row * _RARE * density.max()
        values = f[ensemble.report.closed] / mean
        axes.plot(values, np.full(values.size, height), "|", color=style.colour, markersize=6.0)
    canvas.axis_labels(axes, "force over mean force", "density")
    canvas.head(axes, "All contacts", "dotted: exponential", "")


def _styles(marks: Mapping[str, FloatArray]) -> list[Look]:
    """How each answer is drawn."""
    known = {**PALETTE, "compatible": COMPATIBLE}
    pairs = zip(marks, _OTHERS, strict=False)
    return [known.get(name, Look(name, other.colour, other.marker)) for name, other in pairs]


def stiffness_influence(
    sensitivity: Sensitivity,
    names: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A square for each pair of contacts: what force i gains when contact j gets stiffer.

    Colour and number are ∂f_i/∂log k_j in N: the force gained when k_j grows by a small share,
    over that share. Rows sum to zero: all contacts stiffer together change nothing.

    Parameters
    ----------
    sensitivity : what ``cdopt.sensitivity`` returned.
    names : of the contacts; their numbers by default.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : another number of names.
    Unsupported : derivatives are one-sided.
    """
    labels = [str(name) for name in (range(sensitivity.nc) if names is None else names)]
    if len(labels) != sensitivity.nc:
        raise InvalidInput("names", f"{len(labels)}", f"{sensitivity.nc}, one per contact")
    matrix = sensitivity.log_stiffness
    top = float(np.abs(matrix).max(initial=0.0)) or 1.0
    host, (axes,) = canvas.panels(1, 1, _SIDE, foot=0.0, caption=0.0, width=_SIDE + 1.0, ax=ax)
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-top, vmax=top)
    bar = canvas.figure_of(host).colorbar(image, ax=axes, shrink=0.8, aspect=30)
    canvas.plain_bar(bar, "∂f/∂log k [N]: 1 % stiffer gains a hundredth")
    for i, j in np.ndindex(matrix.shape) if sensitivity.nc <= _NUMBERS else ():
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": canvas.TEXT}
        colour = "white" if abs(matrix[i, j]) > _DARK * top else INK
        axes.text(j, i, f"{matrix[i, j] + 0.0:.2g}", color=colour, **style)
    if sensitivity.nc <= _NAMED:
        long, shown = max(map(len, labels)) > 4, list(map(canvas.literal, labels))
        style = {"rotation": 45.0, "ha": "right"} if long else {"rotation": 0.0, "ha": "center"}
        axes.set_xticks(range(sensitivity.nc), shown, rotation_mode="anchor", **style)
        axes.set_yticks(range(sensitivity.nc), shown)
    axes.tick_params(labelsize=canvas.SMALL, colors=INK, length=0.0)
    axes.spines[:].set_visible(False)
    canvas.axis_labels(axes, "this contact gets stiffer", "change of this force")
    return canvas.headline(host, title, subtitle)
