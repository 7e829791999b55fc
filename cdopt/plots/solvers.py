"""Accuracy and convergence of solvers: gap against force, and residual against iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import one_line
from cdopt.backends.native import History
from cdopt.plots import canvas
from cdopt.plots.palette import BODY, COMPATIBLE, QUIET, RULE, look
from cdopt.problem import rigid_data
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DEEPEST = 1e-17  # of the scale: what is smaller is drawn as zero
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.2)), (0, (1.2, 1.0)), (0, (5, 1.2, 1.2, 1.2)))
_MARKS = 9  # markers along a line, at most
_LEGEND = 2.1  # inches of width


# --- gap against force -----------------------------------------------------------------


def complementarity(
    step: Step,
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    tol: float = TOLERANCE,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: every contact a point, its gap over its force, both logarithmic.

    A contact is open (gap, no force) or closed (force, no gap): the sharper a solver, the
    closer its points lie to the left edge and to the floor. Both are in units of the step, the
    closing distance and the load of the contact's independent part; the pale region is zero
    within ``tol``. The note is the largest smaller one of the two. Hollow points are negative,
    penetration or tension, and are drawn at their size; what is exactly zero lies on the edge.

    Parameters
    ----------
    step : the step.
    solutions : solutions of it that have gaps.
    compatible : the compatible solution, in the last panel.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : no solution has forces and gaps, or lengths differ.
    """
    checks.instance("step", step, Step)
    tol = checks.tolerance("tol", tol)
    data = rigid_data(step)
    shown = [
        (s, f, s.gap) for s, f in canvas.answers(solutions, compatible, step) if s.gap is not None
    ]
    if not shown:
        raise InvalidInput("solutions", "none with gaps", "at least one solution with gaps")
    pairs = [(f / data.force, gap / data.speed) for _, f, gap in shown]
    sizes = np.abs(np.concatenate([np.concatenate(pair) for pair in pairs]))
    smallest = float(sizes[sizes > _DEEPEST].min(initial=1e-6))
    edge = 10.0 ** (np.floor(np.log10(smallest)) - 1.0)  # where zero is drawn
    top = 10.0 ** np.ceil(np.log10(1.5 * max(1.0, float(sizes.max(initial=0.0)))))
    columns = canvas.grid_columns(len(shown))
    figure, axes = canvas.panels(len(shown), columns, 2.2, ax=ax, sharex=True, sharey=True)
    for panel, (solution, _, _), (force, gap) in zip(axes, shown, pairs, strict=True):
        _logarithmic_axes(panel, edge, top, tol)
        strong = solution is compatible
        style = COMPATIBLE if strong else look(solution.backend)
        _contacts(panel, force, gap, edge, style.colour)
        violation = float(np.minimum(force, gap).max(initial=0.0))
        note = f"min ≤ {violation:.0e}" if violation > 0.0 else "min = 0"
        canvas.caption(panel, solution, strong, note)
    x, y = "contact force / load of its part [–]", "gap at the end / closing distance [–]"
    canvas.axis_labels(figure, x, y)
    return canvas.headline(figure, title, subtitle)


def _logarithmic_axes(axes: Axes, edge: float, top: float, tol: float) -> None:
    """Logarithmic axes with zero at their lower ends, and the region that counts as zero."""
    axes.set(xscale="log", yscale="log", xlim=(0.5 * edge, top), ylim=(0.5 * edge, top))
    for span in (axes.axvspan, axes.axhspan):
        span(0.5 * edge, tol, color=BODY, zorder=0, linewidth=0.0)
    decades = np.log10(top / edge)
    step = max(round(decades / 4.0), 1)
    exponents = np.arange(np.log10(top), np.log10(edge) + 0.5, -step)
    labels = ["0", *(f"$10^{{{round(k)}}}$" for k in exponents)]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([edge, *10.0**exponents], labels)
        axis.minorticks_off()
    canvas.quiet_axes(axes)
    axes.grid(color=RULE, linewidth=0.5)


def _contacts(axes: Axes, force: FloatArray, gap: FloatArray, edge: float, colour: str) -> None:
    """Every contact; hollow where force or gap is negative."""
    x, y = np.maximum(np.abs(force), edge), np.maximum(np.abs(gap), edge)
    negative = (force < -edge) | (gap < -edge)
    size = 4.0 if force.size <= 60 else 3.0 if force.size <= 400 else 2.2
    for chosen, gid in ((~negative, "contacts"), (negative, "negative")):
        if chosen.any():
            style: dict[str, Any] = {"markersize": size, "alpha": 0.7, "zorder": 3, "gid": gid}
            hollow = gid == "negative"
            canvas.points(axes, x[chosen], y[chosen], colour, hollow=hollow, **style)


# --- residual against iterations -------------------------------------------------------


def convergence(
    solutions: Sequence[StepSolution], *, title: str = "", subtitle: str = ""
) -> Figure:
    """Residual over iteration and over time, of every solution that kept its history.

    cdopt's backends keep one with ``history=True``. The residual is that of the backend's
    stopping test: compare shapes, not levels, between different backends. The certificate
    measures the quality of an answer. Time is that of the solve, and all iterations of a run
    count as equally long.

    Parameters
    ----------
    solutions : those without a history are named in the key, and left out.

    Raises
    ------
    InvalidInput : no solution kept its history.
    """
    solutions = checks.instances("solutions", solutions, StepSolution)
    runs = [(s, s.raw.residuals) for s in solutions if isinstance(s.raw, History)]
    runs = [(s, residuals) for s, residuals in runs if np.any(np.isfinite(residuals))]
    if not runs:
        expected = "solutions such as by Newton(history=True)"
        raise InvalidInput("solutions", "none with a history", expected)
    figure = canvas.blank(canvas.WIDTH, 3.0)
    width_ratios = (1.0, 1.0, _LEGEND / (0.5 * (canvas.WIDTH - _LEGEND)))
    by_count, by_time, side = figure.subplots(1, 3, width_ratios=width_ratios)
    by_time.sharey(by_count)
    runs_of: Counter[str] = Counter()
    handles = []
    for solution, residuals in runs:
        dash = _DASHES[runs_of[solution.backend] % len(_DASHES)]
        runs_of[solution.backend] += 1
        label = _label(solution, [s for s, _ in runs])
        handles.append(_history((by_count, by_time), solution, residuals, dash, label))
    _accuracies(by_count, by_time, [s for s, _ in runs])
    for axes in (by_count, by_time):
        canvas.quiet_axes(axes)
        axes.minorticks_off()
    canvas.axis_labels(by_count, "iteration", "residual of its stopping test [–]")
    canvas.axis_labels(by_time, "time [s], iterations equally long", "")
    by_time.tick_params(labelleft=False)
    side.axis("off")
    silent = {
        canvas.literal(look(s.backend).name) for s in solutions if not isinstance(s.raw, History)
    }
    handles += [canvas.line_key(f"{name}: no history", color=RULE) for name in sorted(silent)]
    canvas.legend(
        side, handles, "upper left", borderaxespad=0.0, labelspacing=0.8, handlelength=3.0
    )
    return canvas.headline(figure, title, subtitle)


def _history(
    panels: tuple[Axes, Axes], solution: StepSolution, residuals: FloatArray, dash: Any, label: str
) -> Any:
    """The residuals of a run over iterations and over time; returns a line for the key."""
    style = look(solution.backend)
    level = np.where(np.isfinite(residuals) & (residuals > 0.0), residuals, np.nan)
    first = 1.0 if np.isfinite(residuals[0]) else 0.0  # some list the start, as unknown
    count = first + np.arange(level.size, dtype=np.float64)
    seconds = solution.timings.get("solve", np.nan) * count / count[-1]
    shown = count > 0.0
    marks = {"marker": style.marker, "markersize": 4.5, "markeredgewidth": 0.8, "label": label}
    for axes, x in zip(panels, (count[shown], seconds[shown]), strict=True):
        (line,) = axes.loglog(x, level[shown], color=style.colour, linestyle=dash, linewidth=1.6,
                              markevery=_marked(x), gid="history", **marks)  # fmt: skip
    return line


def _marked(x: FloatArray) -> list[int]:
    """Indices of points that are evenly spread on a logarithmic axis."""
    even = np.geomspace(x[0], x[-1], min(_MARKS, x.size))
    near = np.searchsorted(x, even * (1.0 - 1e-9))
    return sorted({int(i) for i in np.minimum(near, x.size - 1)})


def _label(solution: StepSolution, runs: list[StepSolution]) -> str:
    """The solver's name, with those settings that tell runs of one backend apart."""
    mine = dict(solution.provenance.get("settings", {}))
    others = [
        dict(other.provenance.get("settings", {}))
        for other in runs
        if other is not solution and other.backend == solution.backend
    ]
    telling = {k for other in others for k in {*other, *mine} if other.get(k) != mine.get(k)}
    settings = [f"{k} {_value(mine[k])}" for k in sorted(telling) if k in mine]
    return canvas.literal("\n".join([look(solution.backend).name, *settings]))


def _value(value: Any) -> str:
    return one_line(f"{value:g}" if isinstance(value, float) else str(value), 22)


def _accuracies(by_count: Axes, by_time: Axes, solutions: list[StepSolution]) -> None:
    """The accuracies asked for, as dotted lines."""
    asked = {s.provenance.get("settings", {}).get("accuracy") for s in solutions}
    for accuracy in sorted(a for a in asked if isinstance(a, float)):
        for axes in (by_count, by_time):
            axes.axhline(accuracy, color=QUIET, linewidth=0.9, linestyle=":", zorder=1, gid="goal")
        style: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "color": QUIET}
        style |= {"textcoords": "offset points", "fontsize": canvas.SMALL}
        by_count.annotate(f"asked: {accuracy:g}", (0.0, accuracy), (4.0, 3.0), **style)
