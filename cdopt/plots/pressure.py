"""Maps of the downward force of a pile on each of its supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import pdist

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import significant
from cdopt.plots import canvas
from cdopt.plots.bodies import contact_segments, without_walls
from cdopt.plots.palette import QUIET, force_colours
from cdopt.problem.step import Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVEL = 1e-9  # supports whose contacts are all more nearly horizontal than this bear no weight
_MAP = 2.2  # inches, a map at most
_NARROW = 5.5  # inches, a figure of few maps
_BARS = 1.7  # inches, a panel of bars

Cell = tuple[str, Step, Any]


@dataclass(frozen=True, eq=False)
class Floor:
    """The fixed bodies and walls that support a pile."""

    # (ns, 2 or 3) m, centres of fixed bodies; contact points with the fixed world
    positions: FloatArray
    size: float  # m, the diameter to draw
    support: IntArray  # (n,) which of them a contact presses on.
    contacts: IntArray  # (n,) those contacts
    down: FloatArray  # (n,) downward part of a unit force of each on its support

    def pressure(self, f: FloatArray) -> FloatArray:
        """(ns,) N, the downward force of contact forces f (nc,) on each support."""
        load = f[self.contacts] * self.down
        return np.bincount(self.support, load, len(self.positions)).astype(np.float64)

    @property
    def in_space(self) -> bool:
        """Whether it is a map, not a row."""
        return self.positions.shape[1] == 3

    @property
    def box(self) -> FloatArray:
        """(2, 2) lower left and upper right corner of the map, m."""
        reach = 0.56 * self.size
        flat = self.positions[:, :2]
        return np.stack([flat.min(axis=0) - reach, flat.max(axis=0) + reach])


def floor_of(step: Step) -> Floor:
    """Supports that contacts can press down on: fixed bodies, the fixed world, and walls."""
    segments = contact_segments(step)
    if step.bodies is None or step.points is None or step.normals is None:
        raise InvalidInput("step", "no bodies", "a step with bodies, to tell what is fixed")
    bodies = without_walls(step)
    free = np.unique(bodies) if step.dof_body is None else step.dof_body
    rows, sides = np.nonzero((bodies < 0) | ~np.isin(bodies, free))
    body = bodies[rows, sides]
    down = np.where(sides == 0, 1.0, -1.0) * step.normals[rows, -1]
    ends = np.where((sides == 0)[:, None], segments.start[rows], segments.end[rows])
    # every contact with the fixed world is a separate support
    label = np.where(body >= 0, body, body.max(initial=0) + 1 + np.arange(body.size))
    loaded = np.isin(label, label[np.abs(down) > _LEVEL])
    if not loaded.any():
        raise InvalidInput("step", "nothing fixed below", "fixed bodies or a floor to press on")
    _, support, count = np.unique(label[loaded], return_inverse=True, return_counts=True)
    positions = np.column_stack([np.bincount(support, x) for x in ends[loaded].T]) / count[:, None]
    reach = np.linalg.norm(ends - step.points[rows], axis=1)
    if np.any(reach > 0.0):
        size = 2.0 * float(np.median(reach[reach > 0.0]))
    else:  # drawn supports must not touch
        distances = pdist(positions)
        distances = distances[distances > 1e-9 * distances.max(initial=0.0)]
        size = 0.8 * float(distances.min()) if distances.size else 1.0
    return Floor(positions, size, support, rows[loaded], down[loaded])


def _cell(method: str, cell: Cell) -> Cell:
    material, step, f = checks.sequence(f"methods[{method!r}]", cell)[:3]
    checks.instance(f"methods[{method!r}]", step, Step)
    return checks.text(f"methods[{method!r}]", material), step, f


def floor_pressure_grid(
    methods: Mapping[str, Sequence[Cell]],
    *,
    title: str = "",
    subtitle: str = "",
    unit: str = "N",
    length: str = "m",
) -> Figure:
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
    rows = {
        checks.text("methods", name): checks.sequence(f"methods[{name!r}]", row)
        for name, row in checks.mapping("methods", methods).items()
    }
    unit, length = checks.text("unit", unit), checks.text("length", length)
    sizes = {len(cells) for cells in rows.values()}
    if len(sizes) != 1 or sizes == {0}:
        expected = "for each method the same materials"
        raise InvalidInput("methods", f"rows of {sorted(sizes)} cells", expected)
    cells = [(name, *_cell(name, cell)) for name, row in rows.items() for cell in row]
    known = {id(step): floor_of(step) for step in {id(s): s for _, _, s, _ in cells}.values()}
    floors = [known[id(step)] for _, _, step, _ in cells]
    pressures = [
        floor.pressure(checks.vector("f", f, step.nc, unit))
        for floor, (_, _, step, f) in zip(floors, cells, strict=True)
    ]
    figure, axes = _draw(floors, pressures, sizes.pop(), unit, length)
    for panel, pressure, (method, material, _, _) in zip(axes, pressures, cells, strict=True):
        most = significant(float(pressure.max(initial=0.0)))
        canvas.head(panel, method, material, f"max {most} {unit}")
        if floors[0].in_space:
            canvas.emphasise(panel, False)
    return canvas.headline(figure, title, subtitle)


def _draw(
    floors: list[Floor], pressures: list[FloatArray], columns: int, unit: str, length: str
) -> tuple[Any, list[Any]]:
    """Panels of pressures on one scale; maps from above in space, bars along x in the plane."""
    from matplotlib.colors import Normalize

    top, force_label = canvas.largest(pressures), f"force on support [{unit}]"
    low = min(0.0, *(float(p.min(initial=0.0)) for p in pressures))
    norm, colours = Normalize(low, top), force_colours()
    if not floors[0].in_space:
        figure, axes = canvas.panels(len(floors), columns, _BARS, sharex=True, sharey=True)
        for panel, floor, p in zip(axes, floors, pressures, strict=True):
            canvas.quiet_axes(panel)
            style: dict[str, Any] = {"color": colours(norm(p)), "zorder": 2, "gid": "pressure"}
            panel.bar(floor.positions[:, 0], p, 0.8 * floor.size, **style)
        axes[0].set_ylim(1.08 * low, 1.08 * top)
        canvas.axis_labels(figure, f"x [{length}]", force_label)
        return figure, axes
    across, up = np.ptp(floors[0].box, axis=0)
    height = min(up / across * canvas.WIDTH / columns, _MAP)
    width = min(max(columns * (height * across / up + 0.6), _NARROW), canvas.WIDTH)
    figure, axes = canvas.panels(len(floors), columns, height, foot=0.75, width=width)
    for panel, floor, p in zip(axes, floors, pressures, strict=True):
        style = {"array": p, "cmap": colours, "norm": norm, "gid": "pressure"}
        canvas.add_discs(panel, floor.positions[:, :2], np.full(p.size, 0.5 * floor.size), **style)
        panel.set(xlim=floor.box[:, 0], ylim=floor.box[:, 1], aspect="equal")
        panel.tick_params(labelsize=canvas.SMALL, colors=QUIET, length=3.0, width=0.8)
        panel.locator_params(nbins=5)
    canvas.colour_bar(
        figure, axes, top, f"downward {force_label}".replace("on s", "on each s"), low
    )
    last_row = (len(axes) - 1) // columns * columns
    canvas.axis_labels(axes[last_row], f"x [{length}]", "")
    canvas.axis_labels(axes[0], axes[0].get_xlabel(), f"y [{length}]")
    return figure, axes
