"""Maps of what a pile presses on its supports with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray, IntArray, vector
from cdopt._util.errors import InvalidInput
from cdopt.plots.canvas import (
    SMALL,
    TEXT,
    WIDTH,
    answers,
    caption,
    grid_columns,
    head,
    headline,
    panels,
    quiet_axes,
)
from cdopt.plots.geometry import network
from cdopt.plots.palette import INK, QUIET, RULE, force_colours
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVEL = 1e-9  # supports whose contacts are all more nearly horizontal than this bear no weight
_MAP = 2.2  # inches, a map at most
_NARROW = 5.5  # inches, a figure of few maps
_FLAT = 1.7  # inches, a panel of a pile in the plane
_BAR = 0.75  # inches for the colour bar

Cell = tuple[str, Step, Any]


@dataclass(frozen=True, eq=False)
class Floor:
    """The fixed bodies and walls that a pile stands on.

    Attributes
    ----------
    places : (ns, 2 or 3) m, centres of fixed bodies; contact points with the fixed world.
    sizes : (ns,) m, diameters to draw.
    support : (n,) which of them a contact presses on. contacts : (n,) those contacts.
    down : (n,) downward part of a unit force of each on its support.
    """

    places: FloatArray
    sizes: FloatArray
    support: IntArray
    contacts: IntArray
    down: FloatArray

    def pressure(self, f: FloatArray) -> FloatArray:
        """(ns,) N, the downward force of contact forces f (nc,) on each support."""
        total = np.zeros(self.places.shape[0])
        np.add.at(total, self.support, f[self.contacts] * self.down)
        return total


def floor_of(step: Step) -> Floor:
    """The supports of a step: fixed bodies, and contacts with the fixed world.

    The last coordinate is up. Supports that no contact can press down on, such as side walls,
    are left out.

    Raises
    ------
    InvalidInput : the step has no points, normals or bodies, or nothing fixed below.
    """
    net = network(step)
    if step.bodies is None or step.points is None or step.normals is None:
        raise InvalidInput("step", "no bodies", "a step with bodies, to tell what is fixed")
    free = np.unique(step.bodies) if step.dof_body is None else step.dof_body
    rows, sides = np.nonzero((step.bodies < 0) | ~np.isin(step.bodies, free))
    own = step.bodies[rows, sides]
    down = np.where(sides == 0, 1.0, -1.0) * step.normals[rows, -1]
    ends = np.where((sides == 0)[:, None], net.start[rows], net.end[rows])
    label = np.where(own >= 0, own, own.max(initial=0) + 1 + np.arange(own.size))
    _, support = np.unique(label, return_inverse=True)
    count = int(support.max(initial=-1)) + 1
    bears = np.zeros(count, dtype=bool)
    np.logical_or.at(bears, support, np.abs(down) > _LEVEL)
    if not bears.any():
        raise InvalidInput("step", "nothing fixed below", "fixed bodies or a floor to press on")
    held = np.bincount(support, minlength=count)[:, None]
    places = np.zeros((count, ends.shape[1]))
    np.add.at(places, support, ends)
    reach = np.linalg.norm(ends - step.points[rows], axis=1)
    wide = float(np.median(reach[reach > 0.0])) if np.any(reach > 0.0) else 0.0
    places = (places / held)[bears]
    sizes = np.full(places.shape[0], 2.0 * wide or _apart(places))
    kept = bears[support]
    numbers = np.cumsum(bears) - 1
    return Floor(places, sizes, numbers[support[kept]], rows[kept], down[kept])


def _apart(places: FloatArray) -> float:
    """A diameter that keeps supports apart, m."""
    if places.shape[0] < 2:
        return 1.0
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
    gaps = gaps[gaps > 1e-9 * gaps.max(initial=0.0)]
    return 0.8 * float(gaps.min()) if gaps.size else 1.0


def floor_pressure(
    step: Step,
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per solver: the downward force on every support of a pile, in one colour scale.

    In space a map seen from above; in the plane bars along x. The note over each panel is the
    largest force on a support; their sum is the same whenever the motion is.

    Parameters
    ----------
    step : with points, normals, bodies and dof_body.
    solutions : solutions of the step.
    compatible : the compatible solution, in the last panel.

    Raises
    ------
    InvalidInput : the step has no supports that can be drawn, or no solution has forces.
    """
    shown = answers(solutions, compatible, step)
    floor = floor_of(step)
    pressures = [floor.pressure(f) for _, f in shown]
    columns = grid_columns(len(shown))
    figure, axes = _draw([floor] * len(shown), pressures, columns)
    for panel, pressure, (solution, _) in zip(axes, pressures, shown, strict=True):
        caption(panel, solution, solution is compatible, _note(pressure))
        _frame(panel, solution is compatible)
    headline(figure, title, subtitle)
    return figure


def floor_pressure_grid(
    methods: Mapping[str, Sequence[Cell]], *, title: str = "", subtitle: str = "", unit: str = "N",
    length: str = "m",
) -> Figure:  # fmt: skip
    """A row per method and a column per material, as figure 19 of Olsen & Kamrin (2018).

    Parameters
    ----------
    methods : by name of the method, its cells: (material, step, f), with f (nc,) contact forces,
        on that step. All panels share one colour scale.
    unit : of the forces. length : unit of the steps' points.

    Raises
    ------
    InvalidInput : no cells, rows of different lengths, or a step without supports.
    """
    sizes = {len(cells) for cells in methods.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise InvalidInput(
            "methods", f"rows of {sorted(sizes)} cells", "for each method the same materials"
        )
    cells = [(name, *cell) for name, row in methods.items() for cell in row]
    seen = {id(step): step for _, _, step, _ in cells}
    known = {key: floor_of(step) for key, step in seen.items()}
    floors = [known[id(step)] for _, _, step, _ in cells]
    pressures = [
        floor.pressure(vector("f", f, step.nc, unit))
        for floor, (_, _, step, f) in zip(floors, cells, strict=True)
    ]
    figure, axes = _draw(floors, pressures, sizes.pop(), unit)
    for panel, pressure, (method, material, _, _) in zip(axes, pressures, cells, strict=True):
        head(panel, method, material, _note(pressure, unit))
        _frame(panel, False)
    for panel in axes:
        panel.set_xlabel(panel.get_xlabel().replace("[m]", f"[{length}]"))
        panel.set_ylabel(panel.get_ylabel().replace("[m]", f"[{length}]"))
    headline(figure, title, subtitle)
    return figure


def _note(pressure: FloatArray, unit: str = "N") -> str:
    return f"max {pressure.max(initial=0.0):#.3g} {unit}"


def _draw(
    floors: list[Floor], pressures: list[FloatArray], columns: int, unit: str = "N"
) -> tuple[Figure, list[Any]]:
    """Panels of pressures on one scale; maps in space, bars in the plane."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    space = floors[0].places.shape[1] == 3
    low = min(0.0, *(float(p.min(initial=0.0)) for p in pressures))
    top = max(float(p.max(initial=0.0)) for p in pressures) or 1.0
    scale = ScalarMappable(Normalize(min(low, 0.0), top), force_colours())
    tall = min(_aspect(floors[0]) * WIDTH / columns, _MAP) if space else _FLAT
    wide = columns * (tall / _aspect(floors[0]) + 0.6) if space else WIDTH
    figure, axes = panels(
        len(floors), columns, tall, foot=_BAR if space else 0.35,
        width=min(max(wide, _NARROW), WIDTH), sharex=not space, sharey=not space,
    )  # fmt: skip
    for panel, floor, pressure in zip(axes, floors, pressures, strict=True):
        (_map if space else _bars)(panel, floor, pressure, scale)
    if space:
        bar = figure.colorbar(
            scale, ax=axes, orientation="horizontal", fraction=0.05, shrink=0.55, aspect=42
        )
        bar.set_label(f"downward force on each support [{unit}]", fontsize=TEXT, color=INK)
        bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
        bar.outline.set_visible(False)
        axes[(len(axes) - 1) // columns * columns].set_xlabel("x [m]", fontsize=TEXT, color=INK)
        axes[0].set_ylabel("y [m]", fontsize=TEXT, color=INK)
    else:
        axes[0].set_ylim(1.08 * low, 1.08 * top)
        figure.supxlabel("x [m]", fontsize=TEXT, color=INK)
        figure.supylabel(f"force on support [{unit}]", fontsize=TEXT, color=INK)
    return figure, axes


def _aspect(floor: Floor) -> float:
    low, high = _extent(floor)
    return float((high[1] - low[1]) / (high[0] - low[0]))


def _extent(floor: Floor) -> tuple[FloatArray, FloatArray]:
    reach = 0.56 * floor.sizes[:, None]
    flat = floor.places[:, :2]
    return (flat - reach).min(axis=0), (flat + reach).max(axis=0)


def _map(axes: Axes, floor: Floor, pressure: FloatArray, scale: Any) -> None:
    """Supports seen from above, as discs in the colour of their load."""
    from matplotlib.collections import EllipseCollection

    discs = EllipseCollection(
        floor.sizes, floor.sizes, np.zeros(floor.sizes.size), units="xy",
        offsets=floor.places[:, :2], offset_transform=axes.transData, edgecolors=RULE,
        linewidths=0.5, cmap=scale.cmap, norm=scale.norm, array=pressure,
    )  # fmt: skip
    discs.set_gid("pressure")
    axes.add_collection(discs, autolim=False)
    low, high = _extent(floor)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal")
    axes.tick_params(labelsize=SMALL, colors=QUIET, length=3.0, width=0.8)
    axes.locator_params(nbins=5)


def _bars(axes: Axes, floor: Floor, pressure: FloatArray, scale: Any) -> None:
    """Supports of a pile in the plane, as bars along x."""
    quiet_axes(axes)
    bars = axes.bar(
        floor.places[:, 0], pressure, 0.8 * floor.sizes, color=scale.to_rgba(pressure), zorder=2
    )
    for bar in bars:
        bar.set_gid("pressure")


def _frame(axes: Axes, strong: bool) -> None:
    """A heavy frame around the compatible map; bars have none."""
    for spine in axes.spines.values() if axes.spines["top"].get_visible() else ():
        spine.set_color(INK if strong else RULE)
        spine.set_linewidth(2.2 if strong else 0.8)
