"""The set of admissible forces: samples, the region of a contact, and influence of stiffness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.formulations import NetworkForces
from cdopt.hyperstatic import Ensemble, Indeterminacy, Sensitivity
from cdopt.plots import canvas
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, INK, PALETTE, QUIET, RULE, Look, look
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 3.85  # inches
_FEW = 24  # contacts that get their names
_BINS = 40
_RARE = 1e-3  # densities below this are not shown
_OTHERS = tuple(PALETTE[name] for name in ("clarabel", "osqp", "scs", "highs", "piqp", "qoco"))
_SIDE = 5.0  # inches, of the table of influences
_NUMBERS = 12  # contacts up to which numbers are shown in the squares
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
    logarithmic scale, and the forces of the answers as ticks below it.

    Parameters
    ----------
    ensemble : what ``cdopt.ensemble`` returned.
    answers : forces (nc,) N by name, up to six; "compatible" is drawn as a line, backends in
        their usual colours.

    Raises
    ------
    InvalidInput : every force is determined, or an answer of another size.
    """
    if not checks.instance("ensemble", ensemble, Ensemble).parts:
        raise InvalidInput("ensemble", "an ensemble of one point", "forces that can differ")
    answers = {} if answers is None else dict(checks.mapping("answers", answers))
    if len(answers) > len(_OTHERS):
        raise InvalidInput("answers", f"{len(answers)} of them", f"at most {len(_OTHERS)}")
    nc, known = ensemble.samples.shape[2], {**PALETTE, "compatible": COMPATIBLE}
    marks = [
        (known.get(name, Look(name, other.colour, other.marker)),
         checks.vector(f"answers[{name!r}]", f, nc, "N"))
        for (name, f), other in zip(answers.items(), _OTHERS, strict=False)
    ]  # fmt: skip
    figure = canvas.blank(canvas.WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1.0))
    _contacts(left, ensemble, marks)
    _magnitudes(right, ensemble, marks)
    if marks:
        canvas.legend(figure, left.get_legend_handles_labels()[0], "outside lower left", ncols=6)
    return canvas.headline(figure, title, subtitle)


def _contacts(axes: Axes, ensemble: Ensemble, marks: list[tuple[Look, Any]]) -> None:
    """Quantile bands of the loose contacts, by mean force."""
    canvas.quiet_axes(axes)
    shown = np.flatnonzero(ensemble.loose)
    shown = shown[np.argsort(ensemble.mean[shown], kind="stable")]
    at, few = np.arange(shown.size), shown.size <= _FEW
    low, first, last, high = (ensemble.quantile(q)[shown] for q in (0.05, 0.25, 0.75, 0.95))
    wide = 0.8 if few else 1.0
    axes.bar(at, high - low, wide, bottom=low, color=BAND, label="middle 90 %")
    axes.bar(at, last - first, wide, bottom=first, color=EDGE, alpha=0.6, label="middle half")
    for style, f in marks:
        label: dict[str, Any] = {"label": canvas.literal(style.name)}
        if style is COMPATIBLE:
            line = {"color": style.colour, "linewidth": 2.0 if few else 1.0, "zorder": 3, **label}
            axes.hlines(f[shown], at - 0.45, at + 0.45, **line)
        else:
            size: Any = {"markersize": 5.0 if few else 2.5, "markeredgewidth": 1.0}
            canvas.points(axes, at, f[shown], style.colour, style.marker, zorder=4, **size, **label)
    if few:
        canvas.name_contacts(axes, [ensemble.report.names[i] for i in shown], 60)
    axes.set_xlim(-0.7, shown.size - 0.3)
    axes.set_ylim(bottom=0.0)
    axes.set(xlabel="contacts, by mean force", ylabel="contact force [N]")
    verdict = "converged" if ensemble.converged else "NOT converged"
    size_text = f"{ensemble.dimension} dimensions, {ensemble.forces.shape[0]:,} samples"
    canvas.head(axes, "Each contact", size_text, verdict)


def _magnitudes(axes: Axes, ensemble: Ensemble, marks: list[tuple[Look, Any]]) -> None:
    """P(f/⟨f⟩) of all closed contacts, with an exponential."""
    canvas.quiet_axes(axes)
    edges, density = ensemble.distribution(_BINS)
    axes.stairs(density, edges, color=EDGE, linewidth=1.6, label="ensemble")
    x = np.linspace(0.0, edges[-1], 100)
    axes.plot(x, np.exp(-x), color=QUIET, linewidth=0.9, linestyle=":")
    axes.set_yscale("log")
    rare, closed = _RARE * density.max(), ensemble.report.closed
    axes.set_ylim(rare, 3.0 * density.max())
    axes.set_xlim(0.0, 1.1 * float(edges[:-1][density > rare].max(initial=edges[1])))
    mean = float(ensemble.mean[closed].mean()) or 1.0
    for row, (style, f) in enumerate(marks):
        values = f[closed] / mean
        heights = np.full(values.size, 1.3 * 1.5**row * rare)
        axes.plot(values, heights, "|", color=style.colour, markersize=6.0)
    axes.set(xlabel="force over mean force", ylabel="density")
    canvas.head(axes, "All contacts", "dotted: exponential", "")


def admissible_region(
    report: Indeterminacy,
    contact: int,
    solutions: Sequence[StepSolution] = (),
    networks: Sequence[NetworkForces] = (),
    *,
    ax: Axes | None = None,
    title: str = "",
) -> Figure:
    """All forces that a contact can have, as a region, and every answer as a point in it.

    The axes are the normal and the first tangential force. Lines from the origin are the friction
    cone of the contact; balance and the cones of the others bound the region, or the segment.

    Parameters
    ----------
    report : of the step with friction, its forces bounded.
    contact : its number.
    solutions : of any solvers. networks : forces of elastic contacts.
    ax : axes of matplotlib to draw in; by default a new figure.

    Raises
    ------
    InvalidInput : no such contact, unbounded forces, or answers of other contacts.
    """
    checks.instance("report", report, Indeterminacy)
    solutions = checks.instances("solutions", solutions, StepSolution)
    networks = checks.instances("networks", networks, NetworkForces)
    title = checks.text("title", title)
    corners = report.region(contact)
    figure, (panel,) = canvas.panels(1, 1, 4.2, foot=0.6, caption=0.1, ax=ax)
    name, looks = report.names[contact], [(look(s.backend), s) for s in solutions]
    answers = [(style, style.name, s.f, s.f_t) for style, s in looks if s.f is not None]
    answers += [(COMPATIBLE, n.label, n.f, n.f_t) for n in networks]
    far = 1.25 * float(max(corners[:, 0].max(), *(f[contact] for _, _, f, _ in answers), 0.0))
    mu = float(report.faces.mu[contact])
    panel.fill([0.0, far, far], [0.0, mu * far, -mu * far], color=BAND, alpha=0.5, linewidth=0)
    outline: dict[str, Any] = {"edgecolor": EDGE, "linewidth": 4.0, "joinstyle": "round"}
    panel.fill(*corners.T, facecolor=BAND, label="admissible", **outline)
    for number, (style, label, f, f_t) in enumerate(answers):
        if f_t is None or f.shape != (report.nc,):
            raise InvalidInput("solutions", "forces of other contacts", f"{report.nc:,} contacts")
        marker = style.marker if style is not COMPATIBLE else "XP"[number % 2]
        size = 13.0 - 6.0 * number / len(answers)  # those below stay visible
        edge: dict[str, Any] = {"markeredgecolor": INK, "markeredgewidth": 0.6, "label": label}
        at = f[contact], f_t[contact, 0]
        canvas.points(panel, *at, style.colour, marker, markersize=size, clip_on=True, **edge)
    panel.axhline(0.0, color=RULE, linewidth=0.8, zorder=0)
    panel.set(xlim=(0.0, far), xlabel=f"normal force at {name} [N]", ylabel="friction [N]")
    panel.legend(frameon=False, loc="upper left", fontsize="small")
    return canvas.headline(figure, title or f"What {name} may carry", "")


def stiffness_influence(
    sensitivity: Sensitivity,
    names: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A square for each pair of contacts: the change of force i when contact j gets stiffer.

    Colour and number are ∂f_i/∂log k_j of normal forces, in N: the force gained when k_j grows by a
    small share, over that share. Rows sum to zero.

    Parameters
    ----------
    sensitivity : what ``cdopt.sensitivity`` returned.
    names : of the contacts; their numbers by default.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : another number of names.
    """
    checks.instance("sensitivity", sensitivity, Sensitivity)
    nc, matrix = sensitivity.nc, sensitivity.log_stiffness[:: sensitivity.d]
    known = range(nc) if names is None else checks.sequence("names", names)
    labels = [str(name) for name in known]
    if len(labels) != nc:
        raise InvalidInput("names", f"{len(labels)}", f"{nc}, one per contact")
    top = float(np.abs(matrix).max(initial=0.0)) or 1.0
    host, (axes,) = canvas.panels(1, 1, _SIDE, foot=0.0, caption=0.0, width=_SIDE + 1.0, ax=ax)
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-top, vmax=top)
    bar = canvas.figure_of(host).colorbar(image, ax=axes, shrink=0.8, aspect=30)
    canvas.plain_bar(bar, "∂f/∂log k [N]; a hundredth for 1 % more k")
    for i, j in np.ndindex(matrix.shape) if nc <= _NUMBERS else ():
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": canvas.TEXT}
        colour = "white" if abs(matrix[i, j]) > _DARK * top else INK
        axes.text(j, i, f"{matrix[i, j] + 0.0:.2g}", color=colour, **style)
    if nc <= _NAMED:
        long, shown = max(map(len, labels)) > 4, list(map(canvas.literal, labels))
        style = {"rotation": 45.0, "ha": "right"} if long else {"rotation": 0.0, "ha": "center"}
        axes.set_xticks(range(nc), shown, rotation_mode="anchor", **style)
        axes.set_yticks(range(nc), shown)
    axes.tick_params(labelsize=canvas.SMALL, colors=INK, length=0.0)
    axes.spines[:].set_visible(False)
    canvas.axis_labels(axes, "this contact gets stiffer", "change of this force")
    return canvas.headline(host, title, subtitle)
