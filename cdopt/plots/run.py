"""A run on paper: the force chains of one frame beside energies and overlap over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.dynamics import Frame, Trajectory
from cdopt.plots.camera import Camera
from cdopt.plots.canvas import IDLE, SMALL, TEXT, blank, head, headline, quiet_axes
from cdopt.plots.painted import painted
from cdopt.plots.palette import BODY, EDGE, FIXED, INK, QUIET, RULE, force_colours
from cdopt.plots.solids import Solids
from cdopt.scene import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE, _TALL = 9.2, 4.6  # inches
_HAIR, _THICK = 0.4, 6.0  # points, the width of no force and of the largest
_WORDS = {"compatible": "what elastic contacts carry", "classic": "an admissible answer"}
_SHADE = 0.78  # of its colour, of a face turned from the light
_FLOOR = 1e-12  # of a body's half-width: overlaps below it are round-off
_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M"}


def run_overview(trajectory: Trajectory, frame: int = -1, *, title: str = "") -> Figure:
    """Force chains of a frame, one panel per kind of force, and the run over time.

    Parameters
    ----------
    trajectory : a run. frame : number of a frame, negative from the end.
    title : by default the scene's.

    Raises
    ------
    InvalidInput : no such frame.
    """
    count = len(trajectory)
    if isinstance(frame, bool) or not isinstance(frame, int) or not -count <= frame < count:
        expected = f"a number from {-count} to {count - 1}"
        raise InvalidInput("frame", checks.describe(frame), expected)
    seen, scene = trajectory[frame], trajectory.scene
    figure = blank(_WIDE, _TALL)
    names = list(seen.forces)[::-1]  # the compatible forces last
    grid = figure.add_gridspec(2, len(names) + 1, width_ratios=[1.25] * len(names) + [1.0])
    solids = Solids.of(scene, seen.state.position)
    top = max((float(np.nan_to_num(f).max(initial=0.0)) for f in seen.forces.values()), default=0.0)
    scale, unit = _units(top, "N")
    chains = [figure.add_subplot(grid[:, k]) for k in range(len(names))]
    inches = 0.9 * _WIDE * 1.25 / (1.25 * len(names) + 1.0)
    for axes, name in zip(chains, names, strict=True):
        f = np.nan_to_num(seen.forces[name])
        _chains(axes, solids, seen, f, top or 1.0, inches)
        kind = trajectory.method.removesuffix("-cd") if name == "f" else "classic"
        largest = f"max {float(f.max(initial=0.0)) / scale:.3g} {unit}"
        head(axes, kind.capitalize(), _WORDS.get(kind, ""), largest)
    _colour_bar(figure, top / scale or 1.0, unit, chains)
    energies = figure.add_subplot(grid[0, -1])
    _energies(energies, trajectory, seen.t)
    overlap = figure.add_subplot(grid[1, -1], sharex=energies)
    _overlap(overlap, trajectory, seen.t, _FLOOR * solids.thick)
    subtitle = (
        f"Forces of the step to t = {seen.t:.4g} s ({seen.nc} contacts detected); "
        f"{trajectory.method}, Δt = {trajectory.dt:g} s."
        if seen.step
        else "The start: no step has been taken, there are no forces yet."
    )
    headline(figure, title or scene.title or scene.name, subtitle)
    return figure


# --- force chains ----------------------------------------------------------------------


def _chains(
    axes: Axes, solids: Solids, frame: Frame, f: FloatArray, top: float, inches: float
) -> None:
    """Bodies and, over them, lines as wide and dark as their forces."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    dim = solids.scene.dim
    camera = Camera.facing(np.stack([solids.low, solids.high])[:, :dim], "perspective")
    low, high = _box(solids, frame, camera)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal")
    axes.axis("off")
    _bodies(axes, solids, frame, camera)
    loaded = np.flatnonzero(f > IDLE * top)
    lines = solids.lines(frame)[loaded][:, :, :dim]
    start, end = camera.place(lines[:, 0]), camera.place(lines[:, 1])
    near, larger = 0.5 * (start[1] + end[1]), 0.5 * (start[2] + end[2])
    order = np.argsort(near if dim == 3 else f[loaded], kind="stable")
    room = 72.0 * inches * 0.7 * solids.thick / float(high[0] - low[0])
    widths = _HAIR + (min(max(room, 1.5), _THICK) - _HAIR) * f[loaded] / top
    drawn = LineCollection(
        list(np.stack([start[0], end[0]], axis=1)[order]),
        cmap=force_colours(), norm=Normalize(0.0, top), array=f[loaded][order],
        linewidths=(widths * larger)[order], capstyle="round", zorder=3,
    )  # fmt: skip
    drawn.set_gid("forces")
    axes.add_collection(drawn, autolim=False)


def _box(solids: Solids, frame: Frame, camera: Camera) -> tuple[FloatArray, FloatArray]:
    """Lower left and upper right corner of what is drawn, m."""
    dim = solids.scene.dim
    reach = solids.scene.bodies.reach
    bounded = np.isfinite(reach)
    centres, _, larger = camera.place(frame.state.position[bounded][:, :dim])
    wide = (reach[bounded] * larger)[:, None]
    low, high = (centres - wide).min(axis=0), (centres + wide).max(axis=0)
    if solids.walls.size:
        corners = camera.place(solids.patches(frame.state).reshape(-1, 3)[:, :dim])[0]
        low, high = np.minimum(low, corners.min(axis=0)), np.maximum(high, corners.max(axis=0))
    margin = 0.04 * max(float((high - low).max()), 1e-12)
    return low - margin, high + margin


def _bodies(axes: Axes, solids: Solids, frame: Frame, camera: Camera) -> None:
    """Filled in the plane; in space spheres as faint outlines, walls as patches."""
    from matplotlib.collections import EllipseCollection

    flat, state = solids.scene.dim == 2, frame.state
    fixed = solids.scene.bodies.fixed
    centres, near, larger = camera.place(state.position[solids.balls])
    back = np.argsort(near)
    wide = (2.0 * solids.radii * larger)[back]
    colours = np.where(fixed[solids.balls], FIXED, BODY)[back].tolist()
    balls = EllipseCollection(
        wide, wide, np.zeros(wide.size), units="xy", offsets=centres[back],
        offset_transform=axes.transData, facecolors=colours if flat else "none",
        edgecolors=RULE, linewidths=0.5, zorder=1,
    )  # fmt: skip
    axes.add_collection(balls, autolim=False)
    if flat:
        _outlines(axes, solids, state)
    else:
        _solids(axes, solids, state, camera)
    for patch in solids.patches(state):
        if flat:
            axes.plot(*patch[:, :2].T, color=QUIET, linewidth=1.2, zorder=0.9)
        else:
            axes.fill(*camera.place(patch)[0].T, color=FIXED, alpha=0.35, linewidth=0, zorder=0.5)


def _outlines(axes: Axes, solids: Solids, state: State) -> None:
    """The pieces of bodies in the plane, filled."""
    from matplotlib.collections import PolyCollection

    meshes = solids.meshes
    rings = meshes.faces(meshes.placed(state)[:, :2])
    colours = np.where(solids.scene.bodies.fixed[meshes.piece_body], FIXED, BODY)
    filled = PolyCollection(
        [rings[face] for face in meshes.outlines], facecolors=colours.tolist(),
        edgecolors=EDGE, linewidths=0.7, zorder=1,
    )  # fmt: skip
    filled.set_gid("solids")
    axes.add_collection(filled, autolim=False)


def _solids(axes: Axes, solids: Solids, state: State, camera: Camera) -> None:
    """The pieces of bodies in space, the nearer over the farther, by the faces that are seen.

    Flat faces have edges and are shaded by how they are turned; round pieces are silhouettes.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba_array

    faces = painted(solids.meshes, state, camera)
    fixed = solids.scene.bodies.fixed
    bright = np.array([_SHADE + (1.0 - _SHADE) * face.light for face in faces])
    base = to_rgba_array(np.where(fixed[[face.body for face in faces]], FIXED, BODY).tolist())
    filled = PolyCollection(
        [face.ring for face in faces], facecolors=bright[:, None] * base[:, :3],
        edgecolors=EDGE, linewidths=0.6, joinstyle="round", zorder=0.8,
    )  # fmt: skip
    filled.set_gid("solids")
    axes.add_collection(filled, autolim=False)


def _colour_bar(figure: Figure, top: float, unit: str, axes: list[Any]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = ScalarMappable(Normalize(0.0, top), force_colours())
    bar = figure.colorbar(
        scale, ax=axes, orientation="horizontal", fraction=0.05, shrink=0.7, aspect=42
    )
    bar.set_label(f"contact force [{unit}], as colour and line width", fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)


# --- over time -------------------------------------------------------------------------


def _energies(axes: Axes, trajectory: Trajectory, t: float) -> None:
    """Kinetic energy, and what has been lost of it and of the potential energy."""
    seen = trajectory.diagnostics
    time, kinetic = seen["time"], seen["kinetic"]
    lost = (kinetic + seen["potential"])[0] - kinetic - seen["potential"]
    scale, unit = _units(float(np.nanmax(np.abs([kinetic, lost]), initial=0.0)), "J")
    axes.plot(time, kinetic / scale, color="#0072B2", linewidth=1.6)
    axes.plot(time, lost / scale, color="#D55E00", linewidth=1.6, linestyle=(0, (4, 1.5)))
    _over_time(axes, f"Energy [{unit}]", t)
    axes.legend(
        ["kinetic", "lost"], fontsize=SMALL, frameon=False, loc="lower right", ncols=2,
        bbox_to_anchor=(1.03, 0.97), labelcolor=QUIET, handlelength=1.6, columnspacing=1.0,
    )  # fmt: skip
    axes.tick_params(labelbottom=False)


def _overlap(axes: Axes, trajectory: Trajectory, t: float, floor: float) -> None:
    """The deepest overlap; the lower edge, at ``floor`` m, stands for none but round-off."""
    seen = trajectory.diagnostics
    depth = np.maximum(np.nan_to_num(seen["overlap"]), floor)
    axes.plot(seen["time"], depth, color=INK, linewidth=1.4, clip_on=False)
    axes.set_yscale("log")
    axes.set_ylim(floor, max(3.0 * float(depth.max()), 1e3 * floor))
    axes.minorticks_off()
    _over_time(axes, "Deepest overlap [m]", t)
    axes.set_xlabel("time [s]", fontsize=TEXT, color=INK)


def _over_time(axes: Axes, title: str, t: float) -> None:
    quiet_axes(axes)
    axes.axvline(t, color=EDGE, linewidth=1.0, linestyle=(0, (1, 1.5)), gid="now")
    axes.set_title(title, fontsize=TEXT, color=INK, loc="left")
    axes.locator_params(axis="x", nbins=4)


def _units(largest: float, unit: str) -> tuple[float, str]:
    """A power of ten that makes a number handy, and the unit with its prefix."""
    if not largest > 0.0:
        return 1.0, unit
    power = 3 * int(np.floor(np.log10(largest) / 3.0))
    power = min(max(power, min(_PREFIXES)), max(_PREFIXES))
    return 10.0**power, _PREFIXES[power] + unit
