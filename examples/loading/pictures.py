"""Loading experiments: the curve, how the network changed, and force chains before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from cdopt.plots.geometry import Network

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.plots.canvas import SMALL, TEXT, WIDTH, blank, head, headline, quiet_axes
from cdopt.plots.chains import _bodies, _frame, _lines, _Scene
from cdopt.plots.palette import INK, PALETTE, QUIET, force_colours
from cdopt.scene import HalfSpace

from . import Biaxial, Compression, LoadingPath, PileLoading
from .record import carriers
from .walls import outward

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TALL, _CHAINS = 2.5, 3.1  # inches
_PER_CENT = 100.0
_FIRST, _SECOND = PALETTE["clarabel"].colour, PALETTE["osqp"].colour  # far apart for everyone


@dataclass(frozen=True, eq=False)
class _Curve:
    """One line and what to call it.

    Attributes
    ----------
    x, y : (n,). across, up : labels of the axes. name : over the panel. note : at its right.
    """

    x: FloatArray
    y: FloatArray
    across: str
    up: str
    name: str
    note: str


def loading_path(
    record: LoadingPath,
    *,
    frames: tuple[int, int] = (0, -1),
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """What a loading experiment found, in three curves and two pictures of its forces.

    Stress, deviator or load, against strain or settlement; volumetric strain of a biaxial test,
    else elastic energy; contacts born and lost from one equilibrium to the next. Below, in the
    plane, the force chains of two equilibria, on one scale.

    Parameters
    ----------
    record : of ``examples.loading``, with two equilibria at least.
    frames : numbers of the equilibria drawn below, from 0, or from the end if negative.

    Raises
    ------
    InvalidInput : another kind of record, too short, or without such equilibria.
    """
    curves = _curves(record)
    chosen = [_number(record, k) for k in frames]
    flat = record.scene.dim == 2 and any(record.contacts[k] for k in chosen)
    figure = blank(WIDTH, _TALL + 0.55 + ((_CHAINS + 1.1) if flat else 0.0))
    rows = figure.add_gridspec(2 if flat else 1, 1, height_ratios=(_TALL, _CHAINS)[: 1 + flat])
    upper = rows[0].subgridspec(1, 3)
    for k, curve in enumerate(curves):
        _draw(figure.add_subplot(upper[k]), curve, record)
    _changes(figure.add_subplot(upper[2]), record)
    if flat:
        _chains(figure, rows[1].subgridspec(1, 2), record, chosen)
    headline(figure, title, subtitle)
    return figure


def _curves(record: LoadingPath) -> list[_Curve]:
    """The two curves of an experiment."""
    if not isinstance(record, LoadingPath):
        raise InvalidInput("record", checks.describe(record), "what an experiment returned")
    if len(record) < 2:
        raise InvalidInput("record", "one equilibrium", "two or more, to draw a curve")
    if isinstance(record, Compression):
        x, across = _PER_CENT * record.strain, "strain [%]"
        stress, unit = _scaled(record.stress, "Pa")
        energy, joule = _scaled(record.energy, "J")
        return [
            _Curve(x, stress, across, f"stress [{unit}]", "Stress",
                   f"max {stress.max():.3g} {unit}"),
            _Curve(x, energy, across, f"elastic energy [{joule}]", "Energy",
                   f"max {energy.max():.3g} {joule}"),
        ]  # fmt: skip
    if isinstance(record, Biaxial):
        x, across = _PER_CENT * record.axial_strain, "axial strain [%]"
        ratio, bulk = record.deviator / record.confining, _PER_CENT * record.volumetric_strain
        held, unit = _scaled(np.array([record.confining]), "Pa")
        return [
            _Curve(x, ratio, across, "deviator / confining stress [–]", "Deviator",
                   f"confined by {held[0]:.3g} {unit}"),
            _Curve(x, bulk, across, "volumetric strain [%]", "Volume", "positive: it shrinks"),
        ]  # fmt: skip
    if isinstance(record, PileLoading):
        load, unit = _scaled(record.load, "N")
        way, metre = _scaled(record.settlement, "m")
        energy, joule = _scaled(record.energy, "J")
        end = "no collapse" if record.collapse is None else f"collapse at {load.max():.4g} {unit}"
        return [
            _Curve(way, load, f"settlement [{metre}]", f"load [{unit}]", "Load", end),
            _Curve(way, energy, f"settlement [{metre}]", f"elastic energy [{joule}]", "Energy",
                   f"max {energy.max():.3g} {joule}"),
        ]  # fmt: skip
    raise InvalidInput("record", type(record).__name__, "a Compression, Biaxial or PileLoading")


def _scaled(values: FloatArray, unit: str) -> tuple[FloatArray, str]:
    """Values in a unit of which the largest has one to three digits."""
    largest = float(np.abs(values).max(initial=0.0))
    for factor, prefix in ((1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ")):
        if largest >= factor:
            return values / factor, prefix + unit
    return values / 1e-9, "n" + unit if largest > 0.0 else unit


def _number(record: LoadingPath, k: object) -> int:
    count = len(record)
    number = int(checks.integers("frames", k, ()))
    if not -count <= number < count:
        raise InvalidInput("frames", str(number), f"numbers of {count} equilibria")
    return number % count


def _draw(axes: Axes, curve: _Curve, record: LoadingPath) -> None:
    quiet_axes(axes)
    (line,) = axes.plot(curve.x, curve.y, color=_FIRST, linewidth=1.6, marker="o", markersize=3.0)
    line.set_gid("curve")
    axes.set_xlabel(curve.across, fontsize=TEXT, color=INK)
    axes.set_ylabel(curve.up, fontsize=TEXT, color=INK)
    head(axes, curve.name, "" if record.ok else "ends where no equilibrium was found", curve.note)


def _changes(axes: Axes, record: LoadingPath) -> None:
    """Contacts gained above the axis, lost below it, and how many each body has."""
    from matplotlib.ticker import MaxNLocator

    quiet_axes(axes)
    at = np.arange(len(record))
    for values, colour, gid in ((record.born, _FIRST, "born"), (-record.lost, _SECOND, "lost")):
        bars = axes.bar(at, values, width=0.8, color=colour)
        bars[0].set_gid(gid)
    axes.axhline(0.0, color=QUIET, linewidth=0.8)
    most = max(int(record.born.max()), int(record.lost.max()), 1)
    axes.set_ylim(-1.15 * most, 1.15 * most)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("equilibrium", fontsize=TEXT, color=INK)
    axes.set_ylabel("contacts born (+), lost (−)", fontsize=TEXT, color=INK)
    ends = record.coordination[0], record.coordination[-1]
    head(axes, "Network", "", f"{ends[0]:.2f} to {ends[1]:.2f} contacts each")


def _chains(figure: Figure, grid: Any, record: LoadingPath, frames: list[int]) -> None:
    """Force chains of two equilibria and their colour bar."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    forces = [record.forces(k) for k in frames]
    top = max(float(f.max(initial=0.0)) for f in forces)
    loaded = next(k for k, f in zip(frames, forces, strict=True) if f.size)
    panels = []
    for place, (k, f) in enumerate(zip(frames, forces, strict=True)):
        axes = figure.add_subplot(grid[place])
        net = _network(record, k)  # where nothing carries, on the paper of the other
        drawn = net if f.size else _network(record, loaded)
        scene = _Scene.of(drawn, "side", 0.42 * WIDTH, top, None)
        _bodies(axes, net, scene)
        if f.size:
            _lines(axes, scene, f)
        _walls(axes, record, k)
        _frame(axes, scene.box, False)
        head(axes, _moment(record, k), "", f"max {f.max(initial=0.0):.3g} N")
        panels.append(axes)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0.0, top), force_colours()), ax=panels,
        orientation="horizontal", fraction=0.05, shrink=0.55, aspect=42,
    )  # fmt: skip
    bar.set_label("contact force [N], as colour and line width", fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)


def _network(record: LoadingPath, k: int) -> Network:
    """Contacts from centre to centre, or to the wall, and all discs."""
    found, b = record.equilibria[k], record.scene.bodies
    own = carriers(record.scene, found)
    pairs, points = found.contacts.bodies[own], found.contacts.points[own]
    x = found.state.position
    round_ = np.isfinite(b.reach)
    held = b.fixed[round_].astype(np.float64)
    ends = [np.where(round_[pairs[:, side], None], x[pairs[:, side]], points) for side in (0, 1)]
    return Network(ends[0], ends[1], x[round_], b.reach[round_], held)


def _walls(axes: Axes, record: LoadingPath, k: int) -> None:
    """Half-spaces as lines."""
    table = record.scene.bodies.table(HalfSpace)
    place = record.equilibria[k].state.position
    for wall in () if table is None else table.body:
        n = outward(record.scene, record.equilibria[k].state, int(wall))
        axes.axline(tuple(place[wall]), tuple(place[wall] + [-n[1], n[0]]), color=QUIET,
                    linewidth=1.0, zorder=1.5).set_gid("wall")  # fmt: skip


def _moment(record: LoadingPath, k: int) -> str:
    """Which equilibrium it is."""
    if isinstance(record, PileLoading):
        return f"Load {record.load[k]:.4g} N"
    if isinstance(record, Biaxial):
        return f"Axial strain {_PER_CENT * record.axial_strain[k]:.3g} %"
    strain = record.strain[k] if isinstance(record, Compression) else np.nan
    return f"Strain {_PER_CENT * strain:.3g} %"
