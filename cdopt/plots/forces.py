"""Contact forces side by side: columns, admissible intervals, sorted forces, histograms.

``story`` and ``bounds_story`` choose a picture by the size of a problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import count
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots import canvas
from cdopt.plots.chains import force_chains
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, INK, QUIET, RULE, Look, look
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.scene import Scene, State
from cdopt.study.solution_set import DISAGREE, Comparison, SolutionSet, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BARS_UP_TO = 12  # contacts
CHAINS_UP_TO = 3000


# --- a picture by size ---------------------------------------------------------------------


def story(
    step: Step | None,
    comparison: SolutionSet,
    title: str | None = None,
    subtitle: str | None = None,
    bodies: tuple[Scene, State] | None = None,
) -> Figure:
    """The forces of several solvers on one problem, in a picture that suits its size.

    Up to 12 contacts the force at each contact; with points and normals, and up to 3000
    contacts, force chains; otherwise sorted forces.

    Parameters
    ----------
    step : the step; None for a truss.
    comparison : what ``compare`` returned, or another set of solutions.
    title, subtitle : by default a summary of the comparison; empty for none.
    bodies : the scene of the step and its state, drawn behind force chains; None draws only discs
        and spheres reconstructed from the contacts.

    Raises
    ------
    InvalidInput : no solution has forces.
    """
    if step is not None:
        checks.instance("step", step, Step)
    compatible, summary = None, checks.instance("comparison", comparison, SolutionSet).summary
    if isinstance(comparison, Comparison):
        compatible = comparison.compatible
    elif len(comparison) > 1:
        summary = f"{comparison.title}. {summary}"
    texts: dict[str, Any] = {
        "title": _heading(comparison) if title is None else title,
        "subtitle": summary if subtitle is None else subtitle,
    }
    sizes = [s.f.size for s in (*comparison, compatible) if s is not None and s.f is not None]
    contacts = step.nc if step is not None else max(sizes, default=0)
    drawable = step is not None and step.points is not None and step.normals is not None
    if contacts <= BARS_UP_TO:
        return force_bars(comparison, compatible, step, **texts)
    if step is not None and drawable and contacts <= CHAINS_UP_TO:
        return force_chains(step, comparison, compatible, bodies=bodies, **texts)
    return force_distributions(comparison, compatible, **texts)


def _heading(comparison: SolutionSet) -> str:
    """A title that claims no more than the numbers show."""
    claims = sum(s.claimed for s in comparison)
    if len(comparison) < 2 or claims < 2:
        return comparison.title
    certified = len(comparison.certified)
    ending = "different forces" if comparison.force_spread > DISAGREE else "the same forces"
    if certified < 2:
        ending = f"{certified or 'none'} of them certified"
    return f"One problem, {count(claims, 'solver')} that report success, {ending}"


def bounds_story(
    report: Indeterminacy,
    solutions: Sequence[StepSolution] = (),
    compatible: StepSolution | None = None,
    title: str = "",
    subtitle: str | None = None,
) -> Figure:
    """Undetermined forces: the interval at each of up to 12 contacts, or all intervals in order.

    Parameters
    ----------
    report : what ``cdopt.indeterminacy`` returned.
    solutions, compatible : solutions of the same step.
    subtitle : by default the report's summary.

    Raises
    ------
    InvalidInput : no forces to draw at few contacts, no bounds at many, or lengths differ.
    """
    checks.instance("report", report, Indeterminacy)
    solutions = checks.instances("solutions", solutions, StepSolution)
    subtitle = report.summary if subtitle is None else subtitle
    if report.nc > BARS_UP_TO:
        return force_intervals(report, solutions, compatible, title=title, subtitle=subtitle)
    shown = solutions or ([] if compatible is not None else [report.solution])
    return force_bars(shown, compatible, report.step, report=report, title=title, subtitle=subtitle)


# --- contact by contact --------------------------------------------------------------------

_HALF = 0.40  # half the width of a contact's column
_LEGEND = 2.5  # inches of width for the legend
_LEAST, _WIDEST = 3.5, 20.0  # points of a marker, and inches of a picture that fits many
_FILLED = 0.7  # of the width of a picture, at least, is filled by its contacts
_SPREAD = 0.66  # width over which the solvers' markers spread


def force_bars(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    step: Step | None = None,
    *,
    report: Indeterminacy | None = None,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Every solver's force at every contact, over the compatible force as a column.

    Parameters
    ----------
    solutions : solutions of one step; hollow markers are not certified.
    compatible : the compatible solution, drawn as columns, or as heavy lines across the
        intervals of a report; None leaves it out.
    step : names the contacts.
    report : admissible intervals as pale bands, with an arrow where they are unbounded, and a
        tick where there is only one force. Names the contacts too.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : no solution has forces, lengths differ, or a report of another step.
    """
    shown = canvas.answers(solutions, compatible, step)
    nc = shown[0][1].shape[0]
    bounds = [] if report is None else canvas.intervals_of(report, nc)
    markers = [(s, f) for s, f in shown if s is not compatible]
    room = nc * max(len(markers) - 1, 0) * _LEAST / (72.0 * _FILLED * _SPREAD)  # inches
    width = min(max(4.6, min(0.9 * nc, 7.6), room), _WIDEST)
    if ax is None:
        entries = len(shown) + (2 if report is not None else 0)
        figure = canvas.blank(width + _LEGEND, max(3.6, 0.6 + 0.37 * entries))
        axes, side = figure.subplots(1, 2, width_ratios=(width, _LEGEND))
        side.axis("off")
    else:
        figure, (axes,) = canvas.panels(1, 1, width, ax=ax)
        side = axes
    canvas.quiet_axes(axes)
    drawn = np.concatenate([*(f for _, f in shown), *bounds])
    drawn = drawn[np.isfinite(drawn)]
    top, low = float(drawn.max(initial=0.0)), float(drawn.min(initial=0.0))
    axes.set_xlim(-0.6, nc - 0.4)  # zero is at the bottom, unless there is tension
    axes.set_ylim(min(0.0, 1.08 * low) if low < -1e-3 * top else 0.0, 1.1 * top or 1.0)
    handles: list[Any] = []
    if compatible is not None and compatible.f is not None:
        x, f, heavy = np.arange(nc), compatible.f, {"color": COMPATIBLE.colour, "linewidth": 3.0}
        if report is None:
            axes.bar(x, f, width=2 * _HALF, color=RULE, zorder=1)
        axes.hlines(f, x - _HALF, x + _HALF, zorder=2, gid="compatible", **heavy)
        handles.append(canvas.line_key(_legend_text(COMPATIBLE, compatible), **heavy))
    offsets = np.linspace(-0.5, 0.5, len(markers)) * _SPREAD * (len(markers) > 1)
    column = 72.0 * _FILLED * width / nc * _SPREAD  # points
    size = min(max(column / max(len(markers) - 1, 1), _LEAST), 7.5)
    for (solution, f), offset in zip(markers, offsets, strict=True):
        entry, ok = look(solution.backend), solution.ok
        style: dict[str, Any] = {"markersize": size + 0.8 * ok, "zorder": 3}
        style |= {"markerfacecolor": entry.colour if ok else "white"}
        style |= {"markeredgecolor": "white" if ok else entry.colour}
        style |= {"markeredgewidth": 0.6 if ok else 1.4, "label": _legend_text(entry, solution)}
        x = np.arange(nc) + offset
        handles.append(canvas.points(axes, x, f, entry.colour, entry.marker, **style))
    if report is not None:
        handles += _intervals(axes, report, *bounds)
        step = report.step if step is None else step
    names = [str(i) for i in range(nc)] if step is None else step.contact_names
    canvas.name_contacts(axes, names)
    axes.tick_params(axis="x", length=0.0, pad=7.0)
    axes.set(xlabel="contact", ylabel="contact force [N]")
    style = {"borderaxespad": 0.0, "title_fontsize": canvas.SMALL, "alignment": "left"}
    style |= {"title": "solver, its status, cdopt's certificate", "labelspacing": 0.7}
    loc, scale = "upper left" if ax is None else "best", max(1.0, 7.0 / size)
    canvas.legend(side, handles, loc, markerscale=scale, **style)
    return canvas.headline(figure, title, subtitle)


def _intervals(
    axes: Axes, report: Indeterminacy, lower: FloatArray, upper: FloatArray
) -> list[Any]:
    """Admissible intervals as bands, arrows where they have no end, ticks for single forces."""
    from matplotlib.patches import Patch

    top, free = axes.get_ylim()[1], report.bounded & ~report.unique
    handles: list[Any] = []
    if free.any():
        low, high = lower[free], np.minimum(upper[free], top)
        edges: dict[str, Any] = {"facecolor": BAND, "edgecolor": EDGE}
        style: dict[str, Any] = {**edges, "linewidth": 0.6, "zorder": 1, "gid": "interval"}
        axes.bar(np.flatnonzero(free), high - low, 2 * _HALF, bottom=low, **style)
        handles.append(Patch(**edges, label="admissible forces"))
    endless = np.flatnonzero(free & np.isinf(upper))
    arrow = {"arrowstyle": "-|>", "color": EDGE, "linewidth": 2.5, "mutation_scale": 16}
    style = {"annotation_clip": False, "zorder": 1.5, "arrowprops": arrow, "gid": "unbounded"}
    for i in endless:
        axes.annotate("", (i, 1.02 * top), (i, 0.86 * top), **style)
    if endless.size:
        handles.append(canvas.line_key("no upper bound", color=EDGE, marker="^", linewidth=2.5))
    unique = np.flatnonzero(report.unique)
    if unique.size:
        style = {"color": EDGE, "linewidth": 8.0, "zorder": 1, "gid": "unique"}
        axes.hlines(report.force[unique], unique - _HALF, unique + _HALF, **style)
        handles.append(canvas.line_key("determined: one force", color=EDGE, linewidth=6.0))
    unknown = np.flatnonzero(~report.bounded & ~report.unique)
    style = {"textcoords": "offset points", "ha": "center", "fontsize": canvas.TEXT, "color": EDGE}
    for i in unknown:
        axes.annotate("?", (i, 0.0), (0.0, 4.0), **style)
    if unknown.size:
        handles.append(canvas.line_key("bounds not known", color=EDGE, marker="$?$", linewidth=0.0))
    return handles


def _legend_text(style: Look, solution: StepSolution) -> str:
    return canvas.literal(f"{style.name}\n“{solution.status[:24]}”, {verdict(solution)}")


# --- intervals of many contacts ------------------------------------------------------------

_HEIGHT = 1.9  # inches, a panel
_LONGEST = 24  # characters of a contact's name
_FEW = 60  # contacts that are drawn apart, with names and a marker for each solver
_SQUARE_ROOT = 4.0  # times the largest force: a longer interval makes the scale a square root
_DISTANCE = 0.1  # of the height, between two ticks of that scale


def force_intervals(
    report: Indeterminacy,
    solutions: Sequence[StepSolution] = (),
    compatible: StepSolution | None = None,
    *,
    order: str = "force",
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: every contact's admissible interval, and the solver's force in it.

    Closed contacts with known bounds are drawn side by side, in one order for all panels. The
    interval of a determined force is a line. An interval without an upper bound reaches the top of
    the picture and is marked there. If intervals reach far above all forces, the scale is a square
    root.

    Parameters
    ----------
    report : what ``cdopt.indeterminacy`` returned.
    solutions : solutions of the same step; none draws the intervals alone.
    compatible : the compatible solution; by default the report's, of Hooke contacts.
    order : of the contacts, "force": by compatible force, then upper bound; "width": by width
        of the interval.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : the report knows no bounds, or lengths differ.
    """
    checks.instance("report", report, Indeterminacy)
    checks.choice("order", order, ("force", "width"))
    solutions = checks.instances("solutions", solutions, StepSolution)
    if compatible is not None:
        checks.instance("compatible", compatible, StepSolution)
    lower, upper = canvas.intervals_of(report, report.nc)
    solved = canvas.answers(solutions, None, report.step) if len(solutions) else []
    middle = report.force if compatible is None or compatible.f is None else compatible.f
    if middle.shape != (report.nc,):
        raise InvalidInput("compatible", f"{middle.size} forces", f"{report.nc}, one per contact")
    shown = np.flatnonzero(report.closed & ~np.isnan(lower))
    if shown.size == 0:
        raise InvalidInput("report", "no contact with known bounds", "a report of some bounds")
    force, width = middle[shown], upper[shown] - lower[shown]
    level = np.round(force / (1e-9 * float(force.max()) or 1.0))  # alike but for round-off
    keys = (upper[shown], level) if order == "force" else (force, width)
    shown = shown[np.lexsort(keys)]
    lower, upper, middle = lower[shown], upper[shown], middle[shown]
    number = max(len(solved), 1)
    letters = min(max(map(len, report.names), default=0), _LONGEST)  # of names under few contacts
    foot = 0.75 + (0.065 * max(letters - 10, 0) if shown.size <= _FEW // 2 else 0.0)
    shared = {"sharex": True, "sharey": True, "foot": foot}
    figure, axes = canvas.panels(number, 1 if number <= 3 else 2, _HEIGHT, ax=ax, **shared)
    forces = np.concatenate([middle, *(f[shown] for _, f in solved)])
    highest, low = float(forces.max(initial=0.0)), float(forces.min(initial=0.0))
    top = 1.06 * max(highest, float(upper[np.isfinite(upper)].max(initial=0.0))) or 1.0
    square_root = top > _SQUARE_ROOT * highest > 0.0
    few, x = shown.size <= _FEW, np.arange(shown.size)
    for panel in axes:
        canvas.quiet_axes(panel)
        _bands(panel, lower, upper, middle, top)
        if square_root:
            _square_root_scale(panel, top)
        if shown.size <= _FEW // 2:
            canvas.name_contacts(panel, [report.names[i] for i in shown], 90, _LONGEST)
    for panel, (solution, f) in zip(axes, solved, strict=False):
        position = report.position(f)
        known, entry = position[np.isfinite(position)], look(solution.backend)
        up = f"on average {100.0 * float(known.mean()):.0f} % up the interval" if known.size else ""
        canvas.caption(panel, solution, False, up)
        size = 5.0 if few else 3.2 if shown.size <= 400 else 2.0
        style: dict[str, Any] = {"hollow": not solution.ok, "markersize": size, "clip_on": few}
        style |= {"alpha": 1.0 if few else 0.75, "zorder": 4, "gid": "forces"}
        canvas.points(panel, x, f[shown], entry.colour, entry.marker if few else "o", **style)
    if not solved:
        note = f"{shown.size:,} of {report.nc:,} contacts"
        canvas.head(axes[0], "Admissible forces", "least to largest", note)
    axes[0].set(xlim=(-0.7, shown.size - 0.3), ylim=(1.06 * low if low < -1e-3 * top else 0.0, top))
    across = f"contacts, by {'compatible force' if order == 'force' else 'width of the interval'}"
    unit = "contact force [N]" + (", square-root scale" if square_root else "")
    canvas.axis_labels(figure, across, unit)
    if ax is None:  # the key is at the right
        style = {"fontsize": canvas.TEXT, "color": INK}
        figure.supxlabel(across, x=0.06, ha="left", **style)
    _key(figure, bool(solved), bool(np.isposinf(upper).any()))
    return canvas.headline(figure, title, subtitle)


def _square_root_scale(axes: Axes, top: float) -> None:
    """A scale that separates small forces below wide intervals."""
    decade = float(np.floor(np.log10(top)))
    ticks = [0.0]
    for tick in (m * 10.0 ** (decade + k) for k in (-2, -1, 0) for m in (1.0, 2.0, 5.0)):
        if tick <= top and np.sqrt(tick / top) - np.sqrt(ticks[-1] / top) > _DISTANCE:
            ticks.append(tick)
    root, square = (lambda x: np.sign(x) * np.sqrt(np.abs(x))), (lambda x: np.sign(x) * x * x)
    axes.set_yscale("function", functions=(root, square))
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _bands(
    axes: Axes, lower: FloatArray, upper: FloatArray, middle: FloatArray, top: float
) -> None:
    """Intervals as rectangles, the compatible forces as lines across them."""
    from matplotlib.collections import PolyCollection

    x, few = np.arange(lower.size), lower.size <= _FEW
    half = 0.4 if few else 0.5
    left, right, high = x - half, x + half, np.minimum(upper, top)
    corners = [[left, lower], [left, high], [right, high], [right, lower]]
    ends = [[left, middle], [right, middle]]
    rectangles, lines = (np.array(shape).transpose(2, 0, 1) for shape in (corners, ends))
    pale: dict[str, Any] = {"facecolors": BAND, "edgecolors": BAND, "linewidths": 0.2}
    bands = PolyCollection(list(rectangles), zorder=1, gid="intervals", **pale)
    axes.add_collection(bands, autolim=False)
    black = {"colors": COMPATIBLE.colour, "linewidths": 1.6 if few else 1.2}
    canvas.add_lines(axes, lines, zorder=3, gid="compatible", **black)
    endless = x[np.isposinf(upper)]
    if endless.size:
        mark: dict[str, Any] = {"markersize": 6.0 if few else 3.0, "markeredgewidth": 1.0}
        mark |= {"gid": "unbounded", "zorder": 2}
        canvas.points(axes, endless, np.full(endless.size, top), EDGE, "^", **mark)


def _key(figure: Figure, solved: bool, endless: bool) -> None:
    from matplotlib.patches import Patch

    mark: dict[str, Any] = {"linewidth": 0.0, "markersize": 4.0}
    handles = [
        Patch(color=BAND, label="admissible"),
        canvas.line_key("compatible", color=COMPATIBLE.colour, linewidth=1.6),
    ]
    if solved:
        handles.append(canvas.line_key("the solver's", color=QUIET, marker="o", **mark))
    if endless:
        handles.append(canvas.line_key("no upper bound", color=EDGE, marker="^", **mark))
    style = {"ncols": len(handles), "handletextpad": 0.5, "columnspacing": 1.4}
    canvas.legend(figure, handles, "outside lower right", **style)


# --- distributions -------------------------------------------------------------------------

_TALL = 1.8  # inches, a panel


def force_distributions(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: its contact forces, largest first, over the compatible ones.

    The area under every curve is the sum of its contact forces; all panels share their scales.

    Parameters
    ----------
    solutions : solutions of one problem.
    compatible : the compatible solution, a black line in every panel; None leaves it out.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : no solution has forces, or lengths differ.
    """
    figure, axes, shown, reference, top = _panels(solutions, compatible, ax)
    everything = [f for _, f in shown] + ([] if reference is None else [reference])
    used = max(int(np.count_nonzero(f > canvas.IDLE * top)) for f in everything)
    rank = np.arange(1.0, everything[0].size + 1.0)
    falling = None if reference is None else np.sort(reference)[::-1]
    for panel, (solution, f) in zip(axes, shown, strict=True):
        colour = (COMPATIBLE if solution is compatible else look(solution.backend)).colour
        panel.fill_between(rank, np.sort(f)[::-1], color=colour, alpha=0.22, linewidth=0.0)
        dash = "-" if solution.ok else "--"
        panel.plot(rank, np.sort(f)[::-1], color=colour, linewidth=2.0, linestyle=dash)
        if falling is not None:
            panel.plot(rank, falling, color=INK, linewidth=1.3)
        canvas.caption(panel, solution, solution is compatible)
    axes[0].set(xlim=(0.0, 1.02 * max(used, 1)), ylim=(0.0, 1.05 * top))
    if falling is not None:  # named once, where it lies highest above the other curve
        first = used // 7  # past the steep beginning
        at = first + int(np.argmax((falling - np.sort(shown[0][1])[::-1])[first:used]))
        style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": canvas.TEXT}
        style |= {"arrowprops": {"arrowstyle": "-", "color": INK, "linewidth": 0.7}, "color": INK}
        places = (at + 1.0, falling[at]), (0.62, 0.62), "data", "axes fraction"
        axes[0].annotate("compatible", *places, **style)
    canvas.axis_labels(figure, "contacts, the strongest first", "contact force [N]")
    return canvas.headline(figure, title, subtitle)


def force_histograms(
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    bins: int = 30,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: how many contacts carry how much, over the compatible ones' outline.

    Forces below a thousandth of the largest are left out, as in figures 8 to 18 of Olsen &
    Kamrin (2018); the note over each panel is how many contacts remain. All panels share their
    bins and scales.

    Parameters
    ----------
    solutions : solutions of one problem.
    compatible : the compatible solution, a black outline in every panel; None leaves it out.
    bins : bins from zero to the largest force of all, 1 to 1000.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : no solution has forces, or lengths differ.
    """
    bins = checks.count("bins", bins, 1000)
    figure, axes, shown, reference, top = _panels(solutions, compatible, ax)
    edges = np.linspace(0.0, top, bins + 1)
    for panel, (solution, f) in zip(axes, shown, strict=True):
        style = COMPATIBLE if solution is compatible else look(solution.backend)
        loaded = f[f > canvas.IDLE * top]
        opacity = {"alpha": 0.55 if solution.ok else 0.25, "edgecolor": "white", "linewidth": 0.3}
        panel.hist(loaded, edges, color=style.colour, label=canvas.literal(style.name), **opacity)
        if reference is not None:
            counts = np.histogram(reference[reference > canvas.IDLE * top], edges)[0]
            panel.stairs(counts, edges, color=COMPATIBLE.colour, linewidth=1.2, label="compatible")
        note = f"{loaded.size:,} of {f.size:,} loaded"
        canvas.caption(panel, solution, solution is compatible, note)
    axes[0].set_xlim(0.0, 1.02 * top)
    if reference is not None:
        canvas.legend(figure, axes[0].get_legend_handles_labels()[0][-1:], "outside lower left")
    canvas.axis_labels(figure, "contact force [N]", "number of contacts")
    return canvas.headline(figure, title, subtitle)


def _panels(
    solutions: Sequence[StepSolution], compatible: StepSolution | None, ax: Axes | None
) -> tuple[Any, list[Any], list[tuple[StepSolution, FloatArray]], FloatArray | None, float]:
    """Empty panels, their answers, the compatible forces to draw in each, the largest force."""
    everything = canvas.answers(solutions, compatible)
    shown = [(s, f) for s, f in everything if s is not compatible] or everything
    alone = shown[0][0] is compatible
    reference = None if compatible is None or alone else compatible.f
    columns = canvas.grid_columns(len(shown))
    figure, axes = canvas.panels(len(shown), columns, _TALL, ax=ax, sharex=True, sharey=True)
    for panel in axes:
        canvas.quiet_axes(panel)
    return figure, axes, shown, reference, canvas.largest([f for _, f in everything])
