"""Loading experiments: the curve, how the network changed, and force chains before and after."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cdopt import InvalidInput
from cdopt._util import checks
from cdopt._util.formatting import with_prefix
from cdopt.plots.bodies import Camera, ContactSegments
from cdopt.plots.canvas import (
    TEXT,
    WIDTH,
    blank,
    colour_bar,
    emphasise,
    head,
    headline,
    largest,
    quiet_axes,
)
from cdopt.plots.chains import LABEL, Chains
from cdopt.plots.palette import INK, PALETTE, QUIET

from .biaxial import Biaxial
from .compression import Compression
from .pile import PileLoading
from .record import LoadingPath
from .walls import outward, walls

TALL, CHAINS = 2.5, 3.1  # inches
FIRST, SECOND = PALETTE["clarabel"].colour, PALETTE["osqp"].colour  # far apart for everyone


class Curve(NamedTuple):
    """One line, the labels of its axes, its name over the panel and the note at its right."""

    x: np.ndarray
    y: np.ndarray
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
    """The results of a loading experiment, in curves and two pictures of its forces.

    Stress, deviator or load, against strain or settlement; volumetric strain of a biaxial test,
    else elastic energy; contacts gained and lost from one equilibrium to the next, a panel that is
    left out where there are none. Below, in the plane, the force chains of two equilibria, on
    one scale.

    Parameters
    ----------
    record : of an experiment, with two equilibria at least.
    frames : numbers of the equilibria drawn below, from 0, or from the end if negative.

    Raises
    ------
    InvalidInput : another kind of record, too short, or without such equilibria.
    """
    curves = _curves(record)
    chosen = [_number(record, k) for k in frames]
    flat = record.scene.dim == 2 and any(record.contacts[k] for k in chosen)
    figure = blank(WIDTH, TALL + 0.55 + ((CHAINS + 1.1) if flat else 0.0))
    rows = figure.add_gridspec(2 if flat else 1, 1, height_ratios=(TALL, CHAINS)[: 1 + flat])
    changes = bool(record.gained.any() or record.lost.any())
    upper = rows[0].subgridspec(1, 2 + changes)
    for k, curve in enumerate(curves):
        _draw(figure.add_subplot(upper[k]), curve, record)
    if changes:
        _changes(figure.add_subplot(upper[2]), record)
    else:
        each = f"{record.coordination[-1]:.2f} contacts each"
        subtitle = f"{subtitle} No contact is gained or lost: {each}.".strip()
    if flat:
        _chains(figure, rows[1].subgridspec(1, 2), record, chosen)
    return headline(figure, title, subtitle)


def _curves(record: LoadingPath) -> list[Curve]:
    """The two curves of an experiment."""
    if not isinstance(record, LoadingPath):
        raise InvalidInput("record", checks.describe(record), "what an experiment returned")
    if len(record) < 2:
        raise InvalidInput("record", "one equilibrium", "two or more, to draw a curve")
    energy, joule = _scaled(record.energy, "J")
    top = f"max {energy.max():.3g} {joule}"
    if isinstance(record, Compression):
        x, across = 100.0 * record.strain, "strain [%]"
        stress, pascal = _scaled(record.stress, "Pa")
        note = f"max {stress.max():.3g} {pascal}"
        return [
            Curve(x, stress, across, f"stress [{pascal}]", "Stress", note),
            Curve(x, energy, across, f"elastic energy [{joule}]", "Energy", top),
        ]
    if isinstance(record, Biaxial):
        x, across = 100.0 * record.axial_strain, "axial strain [%]"
        scale, pascal = with_prefix(record.confining, "Pa")
        ratio = record.deviator / record.confining
        note = f"confined by {record.confining / scale:.3g} {pascal}"
        return [
            Curve(x, ratio, across, "deviator / confining stress [–]", "Deviator", note),
            Curve(x, 100.0 * record.volumetric_strain, across, "volumetric strain [%]", "Volume",
                  "positive: it shrinks"),
        ]  # fmt: skip
    if isinstance(record, PileLoading):
        load, newton = _scaled(record.load, "N")
        x, metre = _scaled(record.settlement, "m")
        note = (
            "no collapse" if record.collapse is None else f"collapse at {load.max():.4g} {newton}"
        )
        across = f"settlement [{metre}]"
        return [
            Curve(x, load, across, f"load [{newton}]", "Load", note),
            Curve(x, energy, across, f"elastic energy [{joule}]", "Energy", top),
        ]
    raise InvalidInput("record", type(record).__name__, "a Compression, Biaxial or PileLoading")


def _scaled(values: np.ndarray, unit: str) -> tuple[np.ndarray, str]:
    """Values in a unit of which the largest has one to three digits."""
    scale, name = with_prefix(float(np.abs(values).max(initial=0.0)), unit)
    return values / scale, name


def _number(record: LoadingPath, k: object) -> int:
    count, number = len(record), int(checks.integers("frames", k, ()))
    if not -count <= number < count:
        raise InvalidInput("frames", str(number), f"numbers of {count} equilibria")
    return number % count


def _draw(axes: Axes, curve: Curve, record: LoadingPath) -> None:
    quiet_axes(axes)
    axes.plot(curve.x, curve.y, color=FIRST, linewidth=1.6, marker="o", markersize=3.0, gid="curve")
    axes.set_xlabel(curve.across, fontsize=TEXT, color=INK)
    axes.set_ylabel(curve.up, fontsize=TEXT, color=INK)
    head(axes, curve.name, "" if record.ok else "ends where no equilibrium was found", curve.note)


def _changes(axes: Axes, record: LoadingPath) -> None:
    """Contacts gained above the axis, lost below it, and how many each body has."""
    quiet_axes(axes)
    at, gained, lost = np.arange(len(record)), record.gained, record.lost
    axes.bar(at, gained, width=0.8, color=FIRST)
    axes.bar(at, -lost, width=0.8, color=SECOND)
    axes.axhline(0.0, color=QUIET, linewidth=0.8)
    most = 1.15 * max(int(gained.max()), int(lost.max()), 1)
    axes.set_ylim(-most, most)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("equilibrium", fontsize=TEXT, color=INK)
    axes.set_ylabel("contacts gained (+), lost (−)", fontsize=TEXT, color=INK)
    first, *_, last = record.coordination
    head(axes, "Network", "", f"{first:.2f} to {last:.2f} contacts each")


def _chains(figure: Figure, grid: Any, record: LoadingPath, frames: list[int]) -> None:
    """Force chains of two equilibria and their colour bar."""
    forces = [record.forces(k) for k in frames]
    top = largest(forces)
    networks = [_network(record, k) for k in frames]
    panels = []
    for place, (k, f) in enumerate(zip(frames, forces, strict=True)):
        axes = figure.add_subplot(grid[place])
        net = networks[place] if f.size else networks[1 - place]
        camera = Camera.facing(net.ends, "side")
        chains = Chains(networks[place], 0.42 * WIDTH, top, camera)
        if not f.size:  # nothing carries: on the paper of the other
            chains.box = Chains(net, 0.42 * WIDTH, top, camera).box
        chains.draw(axes, f)
        _walls(axes, record, k)
        emphasise(axes, False)
        head(axes, _moment(record, k), "", f"max {f.max(initial=0.0):.3g} N")
        panels.append(axes)
    colour_bar(figure, panels, top, LABEL)


def _network(record: LoadingPath, k: int) -> ContactSegments:
    """Contacts from centre to centre, or to the wall, and all discs."""
    rest, b = record.equilibria[k], record.scene.bodies
    numbers, x = record.carrying[k], rest.state.position
    pairs, points = rest.contacts.bodies[numbers], rest.contacts.points[numbers]
    round_ = np.isfinite(b.reach)
    ends = [np.where(round_[pairs[:, side], None], x[pairs[:, side]], points) for side in (0, 1)]
    return ContactSegments(ends[0], ends[1], x[round_], b.reach[round_], b.fixed[round_])


def _walls(axes: Axes, record: LoadingPath, k: int) -> None:
    """Half-spaces as lines."""
    state = record.equilibria[k].state
    for wall in walls(record.scene):
        n, place = outward(record.scene, state, wall), state.position[wall]
        along = place + np.array([-n[1], n[0]])
        line = axes.axline(tuple(place), tuple(along), color=QUIET, linewidth=1.0)
        line.set(zorder=1.5, gid="wall")


def _moment(record: LoadingPath, k: int) -> str:
    """The name of an equilibrium."""
    if isinstance(record, PileLoading):
        return f"Load {record.load[k]:.4g} N"
    if isinstance(record, Biaxial):
        return f"Axial strain {100.0 * record.axial_strain[k]:.3g} %"
    strain = record.strain[k] if isinstance(record, Compression) else np.nan
    return f"Strain {100.0 * strain:.3g} %"
