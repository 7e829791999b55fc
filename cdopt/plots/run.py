"""Overview of a run: the force chains of one frame, energies and overlap over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.formatting import with_prefix
from cdopt.dynamics import Frame, Trajectory
from cdopt.dynamics.records import is_tangential
from cdopt.plots import canvas
from cdopt.plots.chains import Chains
from cdopt.plots.palette import EDGE, FRICTION, INK, QUIET
from cdopt.plots.projection import Camera, box_of, draw_bodies
from cdopt.plots.segments import ContactSegments
from cdopt.plots.solids import Solids

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE, _TALL = 9.2, 4.6  # inches
_KINDS = {"compatible": "what elastic contacts carry", "classic": "an admissible answer"}
_STROKE = 0.3  # of a panel: the length of a friction force as large as the largest force
_FLOOR = 1e-12  # of a body's half-width: overlaps below it are round-off


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
    shown, scene = trajectory[checks.index("frame", frame, len(trajectory))], trajectory.scene
    forces = {n: np.nan_to_num(f) for n, f in shown.forces.items() if not is_tangential(n)}
    forces = dict(reversed(forces.items()))
    count = len(forces)  # the compatible forces last
    figure = canvas.blank(_WIDE, _TALL)
    grid = figure.add_gridspec(2, count + 1, width_ratios=[1.25] * count + [1.0])
    solids = Solids.of(scene, shown.state.position)
    top = canvas.largest(list(forces.values()))
    scale, unit = with_prefix(top, "N")
    panels = [figure.add_subplot(grid[:, k]) for k in range(count)]
    for axes, (name, f) in zip(panels, forces.items(), strict=True):
        _chains(axes, solids, shown, name, top, 0.9 * _WIDE * 1.25 / (1.25 * count + 1.0))
        kind = trajectory.method.removesuffix("-cd") if name == "f" else "classic"
        kind = {"contact-dynamics": "with friction"}.get(kind, kind.removesuffix("-friction"))
        note = f"max {float(f.max(initial=0.0)) / scale:,.3g} {unit}"
        canvas.head(axes, kind.capitalize(), _KINDS.get(kind, ""), note)
    label = f"contact force [{unit}], as colour and line width"
    if np.any(shown.f_t):
        label = f"normal force [{unit}]; friction: blue, its length the force"
    canvas.colour_bar(figure, panels, top / scale, label)
    energies = figure.add_subplot(grid[0, -1])
    _energies(energies, trajectory, shown.t)
    overlap = figure.add_subplot(grid[1, -1], sharex=energies)
    _overlap(overlap, trajectory, shown.t, _FLOOR * solids.thick)
    subtitle = (
        f"Forces of the step to t = {shown.t:.4g} s ({shown.nc:,} contacts detected); "
        f"{trajectory.method}, Δt = {trajectory.dt:g} s."
        if shown.step
        else "The start: no step has been taken, there are no forces yet."
    )
    return canvas.headline(figure, title or scene.title or scene.name, subtitle)


# --- force chains ----------------------------------------------------------------------


def _chains(axes: Axes, solids: Solids, frame: Frame, name: str, top: float, inches: float) -> None:
    """Bodies and, over them, lines as wide and dark as their forces."""
    dim, state, f = solids.scene.dim, frame.state, np.nan_to_num(frame.forces[name])
    camera = Camera.facing(np.stack([solids.low, solids.high])[:, :dim], "perspective")
    box = box_of(solids, state, camera)
    draw_bodies(axes, solids, state, camera)
    lines = solids.lines(frame)[f > 0.0][:, :, :dim]
    net = ContactSegments.bare(lines[:, 0], lines[:, 1])
    Chains(net, inches, top, camera, box=box).draw(axes, f[f > 0.0])
    if f"{name}_t" in frame.forces:
        scale = _STROKE * float(np.ptp(box, axis=0).min()) / top
        _friction(axes, camera, frame.points, scale * frame.forces[f"{name}_t"])
    axes.axis("off")


def _friction(axes: Axes, camera: Camera, points: FloatArray, vectors: FloatArray) -> None:
    """Tangential forces as strokes ``vectors`` (nc, dim), m, through the contact points."""
    half = 0.5 * np.nan_to_num(vectors)
    ends = np.stack([camera.project(points + sign * half)[0] for sign in (-1.0, 1.0)], axis=1)
    canvas.add_lines(axes, ends, colors="white", linewidths=3.4, zorder=4)
    canvas.add_lines(axes, ends, colors=FRICTION, linewidths=1.8, zorder=5, gid="friction")


# --- over time -------------------------------------------------------------------------


def _energies(axes: Axes, trajectory: Trajectory, t: float) -> None:
    """Kinetic energy, and the loss of kinetic and potential energy."""
    rows = trajectory.diagnostics
    total = rows["kinetic"] + rows["potential"]
    lost = total[0] - total
    scale, unit = with_prefix(float(np.nanmax(np.abs([rows["kinetic"], lost]), initial=0.0)), "J")
    time, dash = rows["time"], (0, (4, 1.5))
    axes.plot(time, rows["kinetic"] / scale, color="#0072B2", linewidth=1.6, label="kinetic")
    axes.plot(time, lost / scale, color="#D55E00", linewidth=1.6, linestyle=dash, label="lost")
    _over_time(axes, f"Energy [{unit}]", t)
    style = {"labelcolor": QUIET, "handlelength": 1.6, "columnspacing": 1.0}
    handles = axes.get_legend_handles_labels()[0]
    canvas.legend(axes, handles, "lower right", ncols=2, bbox_to_anchor=(1.03, 0.97), **style)
    axes.tick_params(labelbottom=False)


def _overlap(axes: Axes, trajectory: Trajectory, t: float, floor: float) -> None:
    """The deepest overlap; the lower edge, at ``floor`` m, stands for none but round-off."""
    rows = trajectory.diagnostics
    depth = np.maximum(np.nan_to_num(rows["overlap"]), floor)
    axes.plot(rows["time"], depth, color=INK, linewidth=1.4, clip_on=False)
    axes.set_yscale("log")
    axes.set_ylim(floor, max(3.0 * float(depth.max()), 1e3 * floor))
    axes.minorticks_off()
    _over_time(axes, "Deepest overlap [m]", t)
    axes.set_xlabel("time [s]", fontsize=canvas.TEXT, color=INK)


def _over_time(axes: Axes, title: str, t: float) -> None:
    canvas.quiet_axes(axes)
    axes.axvline(t, color=EDGE, linewidth=1.0, linestyle=(0, (1, 1.5)), gid="now")
    axes.set_title(title, fontsize=canvas.TEXT, color=INK, loc="left")
    axes.locator_params(axis="x", nbins=4)
