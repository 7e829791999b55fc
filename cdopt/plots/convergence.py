"""How a run went: the residual that each backend watches, by iteration and by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.backends.structured import History
from cdopt.plots.canvas import SMALL, TEXT, WIDTH, blank, headline, literal, quiet_axes
from cdopt.plots.palette import INK, QUIET, RULE, look
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.2)), (0, (1.2, 1.0)), (0, (5, 1.2, 1.2, 1.2)))
_TALL = 3.0  # inches
_MARKS = 9  # markers along a line, at most
_LEGEND = 2.1  # inches of width


def convergence(
    solutions: Sequence[StepSolution], *, title: str = "", subtitle: str = ""
) -> Figure:
    """Residual over iteration and over time, of every solution that kept its history.

    cdopt's own backends keep one with ``history=True``. The residual is the one that the
    backend's own stopping test looks at: compare shapes, not levels, between different
    backends. What an answer is worth says its certificate. Time counts the solve alone, and
    takes all iterations of a run as equally long.

    Parameters
    ----------
    solutions : those without a history are named in the key, and left out.

    Raises
    ------
    InvalidInput : no solution kept its history.
    """
    runs = [(s, s.raw.residuals) for s in solutions if isinstance(s.raw, History)]
    runs = [(s, residuals) for s, residuals in runs if np.any(np.isfinite(residuals))]
    if not runs:
        raise InvalidInput(
            "solutions", "none with a history", "solutions such as by Newton(history=True)"
        )
    figure = blank(WIDTH, _TALL)
    grid = figure.add_gridspec(1, 3, width_ratios=(1.0, 1.0, _LEGEND / (0.5 * (WIDTH - _LEGEND))))
    by_count = figure.add_subplot(grid[0])
    by_time = figure.add_subplot(grid[1], sharey=by_count)
    labels = _labels([s for s, _ in runs])
    met: Counter[str] = Counter()
    handles = []
    for (solution, residuals), label in zip(runs, labels, strict=True):
        style = look(solution.backend)
        dash = _DASHES[met[solution.backend] % len(_DASHES)]
        met[solution.backend] += 1
        level = np.where(np.isfinite(residuals) & (residuals > 0.0), residuals, np.nan)
        first = 1.0 if np.isfinite(residuals[0]) else 0.0  # some list the start, as unknown
        count = first + np.arange(level.size)
        seconds = solution.timings.get("solve", np.nan) * count / count[-1]
        for axes, x in ((by_count, count), (by_time, seconds)):
            at = np.asarray(x[count > 0.0], dtype=np.float64)
            (line,) = axes.loglog(
                at, level[count > 0.0], color=style.colour, linestyle=dash, linewidth=1.6,
                marker=style.marker, markersize=4.5, markevery=_places(at), markeredgewidth=0.8,
                label=label,
            )  # fmt: skip
            line.set_gid("history")
        handles.append(line)
    _goals(by_count, by_time, [s for s, _ in runs])
    for axes, text in ((by_count, "iteration"), (by_time, "time [s], iterations equally long")):
        quiet_axes(axes)
        axes.minorticks_off()
        axes.set_xlabel(text, fontsize=TEXT, color=INK)
    by_count.set_ylabel("residual of its stopping test [–]", fontsize=TEXT, color=INK)
    by_time.tick_params(labelleft=False)
    _key(figure.add_subplot(grid[2]), handles, solutions)
    headline(figure, title, subtitle)
    return figure


def _places(x: FloatArray) -> list[int]:
    """Indices of points that are evenly spread on a logarithmic axis."""
    wanted = np.geomspace(x[0], x[-1], min(_MARKS, x.size))
    near = np.searchsorted(x, wanted * (1.0 - 1e-9))
    return sorted({int(i) for i in np.minimum(near, x.size - 1)})


def _labels(solutions: list[StepSolution]) -> list[str]:
    """Names, with those settings that tell runs of one backend apart."""
    labels = []
    for solution in solutions:
        mine = dict(solution.provenance.get("settings", {}))
        others = [
            dict(other.provenance.get("settings", {}))
            for other in solutions
            if other is not solution and other.backend == solution.backend
        ]
        telling = {k for o in others for k in {*o, *mine} if o.get(k) != mine.get(k)}
        words = [f"{k} {_value(mine[k])}" for k in sorted(telling) if k in mine]
        labels.append(literal("\n".join([look(solution.backend).name, *words])))
    return labels


def _value(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 22 else text[:21] + "…"


def _goals(by_count: Any, by_time: Any, solutions: list[StepSolution]) -> None:
    """The accuracies asked for, as dotted lines."""
    goals = {s.provenance.get("settings", {}).get("accuracy") for s in solutions}
    for goal in sorted(g for g in goals if isinstance(g, float)):
        for axes in (by_count, by_time):
            axes.axhline(goal, color=QUIET, linewidth=0.9, linestyle=":", zorder=1).set_gid("goal")
        by_count.annotate(
            f"asked: {goal:g}", (0.0, goal), (4.0, 3.0), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=SMALL, color=QUIET,
        )  # fmt: skip


def _key(beside: Any, handles: list[Any], solutions: Sequence[StepSolution]) -> None:
    """The legend, and who kept no history."""
    from matplotlib.lines import Line2D

    beside.axis("off")
    silent = sorted(
        {literal(look(s.backend).name) for s in solutions if not isinstance(s.raw, History)}
    )
    handles = [*handles, *(Line2D([], [], color=RULE, label=f"{n}: no history") for n in silent)]
    beside.legend(
        handles=handles, loc="upper left", fontsize=SMALL, frameon=False, borderaxespad=0.0,
        labelspacing=0.8, labelcolor=INK, handlelength=3.0,
    )  # fmt: skip
