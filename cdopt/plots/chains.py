"""Forces at the contacts: every contact a line on its bodies, a panel for each answer.

Force chains, forces with friction, a run with its energies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import with_prefix
from cdopt.dynamics import Trajectory
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots import canvas
from cdopt.plots.bodies import (
    Camera,
    ContactSegments,
    Solids,
    box_of,
    contact_segments,
    draw_bodies,
    draw_discs,
    placed_bodies,
)
from cdopt.plots.palette import BAND, EDGE, FRICTION, INK, QUIET, RULE, force_colours
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.scene import Scene, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "contact force [N], as colour and line width"
MOBILISED = "mobilised friction ‖f_T‖ / (μ f_n); lines as long as the force"

_HAIR = 0.35  # points, the width of a force of zero
_THICK = 7.0  # points, the widest force ever drawn
_BROAD = 12.0  # points, the widest interval
_HALO = 1.6  # points of white around a line in front of others
_SHORTENED = 0.16  # share of a halo's length that is left off, so that joints stay joined
_VECTOR = 0.17  # share of the picture's width that the largest force with friction takes


def force_chains(
    step: Step,
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    report: Indeterminacy | None = None,
    view: str = "side",
    bodies: tuple[Scene, State] | None = None,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Small multiples of one network: a panel per solver, and the compatible forces framed.

    Lines run along the contact normals; with ``bodies``, between the centres of discs and
    spheres. Width and colour are the force, on one scale for all panels.

    Parameters
    ----------
    step : with ``points`` and ``normals``, in the plane or in space.
    solutions : solutions of the step.
    compatible : the compatible solution, in the last panel.
    report : bounds of the forces; a pale band under each line is as wide as the largest
        admissible force, and dashed edges mark unbounded ones. Forces are scaled to suit.
    view : of steps in space: "side" (x to the right, z up), "isometric" (parallel, from above)
        or "perspective", where nearer lines are larger and pass in front.
    bodies : the scene of the step and its state, drawn behind the lines.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : the step cannot be drawn, no solution has forces, or a report of another step.
    """
    net = contact_segments(step)
    shown = canvas.answers(solutions, compatible, step)
    upper = None if report is None else canvas.intervals_of(report, step.nc)[1]
    top = canvas.largest([f for _, f in shown])
    camera = Camera.facing(net.ends, view)
    box, draw_behind = backdrop(bodies, camera)
    if bodies is not None:
        net = ContactSegments(net.start, net.end)
    inches = canvas.WIDTH / canvas.grid_columns(len(shown))
    chains = Chains(net, inches, top, camera, box=box, upper=upper)
    figure, axes = canvas.panels_of(len(shown), chains.box, foot=0.75, caption=0.5, ax=ax)
    for panel, (solution, f) in zip(axes, shown, strict=True):
        draw_behind(panel)
        chains.draw(panel, f)
        canvas.emphasise(panel, solution is compatible)
        canvas.caption(panel, solution, solution is compatible)
    bands = "; pale: the largest admissible force, dashed where unbounded"
    canvas.colour_bar(figure, axes, top, LABEL + (bands if upper is not None else ""))
    return canvas.headline(figure, title, subtitle)


def backdrop(
    bodies: tuple[Scene, State] | None, camera: Camera
) -> tuple[FloatArray | None, Callable[[Any], None]]:
    """The extent of the bodies on paper, (2, 2) m, and a function that draws them in axes."""
    if bodies is None:
        return None, lambda axes: None
    scene, state = placed_bodies(bodies)
    solids = Solids.of(scene, state.position)
    draw = partial(draw_bodies, solids=solids, state=state, camera=camera)
    return box_of(solids, state, camera), draw


class Chains:
    """A network of contacts as it is drawn in every panel.

    Parameters
    ----------
    net : the contacts as segments, and the round bodies.
    inches : width of a panel.
    top : force of the darkest colour and, without ``upper``, of the widest line.
    camera : where it is looked at from.
    box : (2, 2) lower left and upper right corner of the panel, m; default what ``net`` needs.
    upper : (nc,) largest admissible forces, drawn as bands; not-a-number where unknown.
    """

    def __init__(
        self,
        net: ContactSegments,
        inches: float,
        top: float,
        camera: Camera,
        *,
        box: FloatArray | None = None,
        upper: FloatArray | None = None,
    ) -> None:
        self.net, self.top, self.camera, self.upper = net, top, camera, upper
        start, end = camera.project(net.start), camera.project(net.end)
        self.segments = np.stack([start[0], end[0]], axis=1)
        self.near, self.larger = 0.5 * (start[1] + end[1]), 0.5 * (start[2] + end[2])
        self.has_discs = net.centres.shape[1] == 2 or camera.deep
        self.box = self._box() if box is None else box
        lengths = np.linalg.norm(self.segments[:, 1] - self.segments[:, 0], axis=1)
        per_metre = 72.0 * 0.92 * inches / float(np.ptp(self.box[:, 0]))
        room = 0.45 * float(np.median(lengths)) * per_metre if lengths.size else _THICK
        self.broad, widest = min(max(room, 1.5), _THICK), top
        if upper is not None:
            self.broad = min(max(1.2 * room, 3.0), _BROAD)
            widest = max(top, float(upper[np.isfinite(upper)].max(initial=0.0)))
        self.slope = (self.broad - _HAIR) / widest

    def draw(self, axes: Axes, f: FloatArray) -> None:
        """Discs, bands, and forces f (nc,) as lines, the strongest or nearest on top; no ticks."""
        from matplotlib.colors import Normalize

        if self.has_discs:
            draw_discs(axes, self.camera, self.net.centres, self.net.radii, self.net.fixed)
        if self.upper is not None:
            self._bands(axes, self.upper)
        loads = f > canvas.IDLE * self.top
        self._add(axes, "idle", np.flatnonzero(~loads), 0.6, colors=RULE, zorder=2)
        loaded = np.flatnonzero(loads)
        rank = self.near[loaded] if self.camera.deep else f[loaded]
        order = loaded[np.argsort(rank, kind="stable")]
        width, norm, colours = self._width(f[order], order), Normalize(0, self.top), force_colours()
        if self.camera.deep:  # every line after its white halo, from the back to the front
            lines = self.segments[order]
            halos = lines + _SHORTENED * (lines.mean(axis=1, keepdims=True) - lines)
            ink = colours(norm(f[order]))
            style: dict[str, Any] = {
                "colors": np.stack([np.ones_like(ink), ink], axis=1).reshape(-1, 4),
                "linewidths": np.column_stack([width + _HALO, width]).ravel(),
            }
            both = np.stack([halos, lines], axis=1).reshape(-1, 2, 2)
            canvas.add_lines(axes, both, capstyle="butt", zorder=3, gid="forces", **style)
        else:
            style = {"cmap": colours, "norm": norm, "array": f[order], "zorder": 3}
            self._add(axes, "forces", order, width, capstyle="round", **style)
        canvas.without_ticks(axes, self.box)

    def _box(self) -> FloatArray:
        """The extent of the network on paper; never zero."""
        corners = self.segments.reshape(-1, 2)
        if self.has_discs:
            centres, _, larger = self.camera.project(self.net.centres)
            reach = (self.net.radii * larger)[:, None]
            corners = np.concatenate([corners, centres - reach, centres + reach])
        low, high = corners.min(axis=0), corners.max(axis=0)
        size = max(float((high - low).max()), 1e-12)
        half = np.maximum(0.5 * (high - low), 0.15 * size) + 0.03 * size
        return 0.5 * (low + high) + np.array([-half, half])

    def _width(self, f: FloatArray, contacts: IntArray) -> FloatArray:
        """(n,) points, the width of forces (n,) at these contacts."""
        return (_HAIR + self.slope * f) * self.larger[contacts]

    def _bands(self, axes: Axes, upper: FloatArray) -> None:
        """The largest admissible force of each contact, as a pale line of its width."""
        known = np.flatnonzero(np.isfinite(upper) & (upper > canvas.IDLE * self.top))
        known = known[np.argsort(-upper[known], kind="stable")]
        width = self._width(upper[known], known)
        self._add(axes, "intervals", known, width, colors=BAND, zorder=2.2)
        endless = np.flatnonzero(np.isposinf(upper))
        width = self.broad * self.larger[endless]
        dashes: Any = {"linestyles": [(0.0, (1.2, 0.8))], "colors": EDGE, "zorder": 2.0}
        self._add(axes, "unbounded", endless, width + 1.2, **dashes)
        self._add(axes, "unbounded inside", endless, width, colors=BAND, zorder=2.1)

    def _add(self, axes: Axes, gid: str, contacts: IntArray, width: Any, **style: Any) -> None:
        style = {"capstyle": "butt", "linewidths": width, "gid": gid, **style}
        canvas.add_lines(axes, self.segments[contacts], **style)


# --- forces with friction ----------------------------------------------------------------


def friction_forces(
    step: Step,
    solutions: Sequence[StepSolution],
    *,
    view: str = "side",
    bodies: tuple[Scene, State] | None = None,
    ax: Axes | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Contact forces with friction, a panel per solver.

    A line at each contact point is the force on the contact's second body, as long as it is large,
    on one scale for all panels. Its colour is the mobilised friction ‖f_T‖/(μ f_n): one where the
    contact slides or is about to. In the plane the friction cone is drawn behind it.

    Parameters
    ----------
    step : with friction that has tangents, with points and normals.
    solutions : solutions of it, with tangential forces.
    view : of steps in space: "side" (x to the right, z up), "isometric" (parallel, from above)
        or "perspective".
    bodies : the scene of the step and its state, drawn behind the forces.
    ax : axes of matplotlib to draw in, for a picture with one panel; by default a new figure.

    Raises
    ------
    InvalidInput : the step cannot be drawn, or no solution has forces with friction.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

    checks.instance("step", step, Step)
    friction, points, normals = step.friction, step.points, step.normals
    if friction is None or friction.tangents is None:
        missing = "no friction" if friction is None else "no tangents"
        raise InvalidInput("step", missing, "a step with friction and its tangents")
    if points is None or normals is None:
        raise InvalidInput("step", "no points or normals", "a step with both to draw")
    shown = [(s, f) for s, f in canvas.answers(solutions, None, step) if s.f_t is not None]
    if not shown:
        raise InvalidInput("solutions", "none with friction", "solutions of FrictionalCD")
    vectors = [step.contact_vectors(f, s.f_t) for s, f in shown]
    camera = Camera.facing(points, view)
    box, draw_behind = backdrop(bodies, camera)
    at = camera.project(points)[0]
    box = canvas.box_around(at, 0.3) if box is None else box
    top = max(float(np.linalg.norm(v, axis=1).max(initial=0.0)) for v in vectors) or 1.0
    scale = _VECTOR * float(np.ptp(box[:, 0])) / top
    tips = np.concatenate([camera.project(points + scale * v)[0] for v in vectors])
    tips = np.concatenate([box, canvas.box_around(tips, 0.03)])
    box = np.stack([tips.min(axis=0), tips.max(axis=0)])
    figure, axes = canvas.panels_of(len(shown), box, foot=0.75, caption=0.5, ax=ax)
    colours: dict[str, Any] = {"cmap": force_colours(), "norm": Normalize(0.0, 1.0)}
    style: dict[str, Any] = {"linewidths": 2.2, "gid": "forces", "capstyle": "round", "zorder": 3}
    for panel, (solution, f), vector in zip(axes, shown, vectors, strict=True):
        draw_behind(panel)
        if points.shape[1] == 2:  # the cone of each loaded contact, as high as its normal force
            aside = friction.mu[:, None] * np.asarray(friction.tangents)[:, 0]
            sides = [points + (scale * f)[:, None] * (normals + s * aside) for s in (1.0, -1.0)]
            cones = list(np.stack([points, *sides], axis=1)[f > 0.0])
            cone: dict[str, Any] = {"facecolors": BAND, "edgecolors": RULE, "linewidths": 0.5}
            cone |= {"gid": "cones", "zorder": 2.5, "alpha": 0.8}
            panel.add_collection(PolyCollection(cones, **cone), autolim=False)
        used = mobilised(friction.mu, f, solution.f_t)
        lines = camera.lines(points, points + scale * vector)
        canvas.add_lines(panel, lines, array=used, **style, **colours)
        panel.scatter(*at.T, s=9, c=used, zorder=4, linewidths=0.0, **colours)
        canvas.without_ticks(panel, box)
        canvas.emphasise(panel, False)
        canvas.caption(panel, solution, False)
    canvas.colour_bar(figure, axes, 1.0, MOBILISED)
    return canvas.headline(figure, title, subtitle)


def mobilised(mu: FloatArray, f: FloatArray, f_t: FloatArray | None) -> FloatArray:
    """‖f_T‖/(μ f_n) (nc,), from 0 to 1; 0 at contacts without force or without friction."""
    if f_t is None:
        return np.zeros(f.shape)
    most = mu * np.maximum(f, 0.0)
    loaded = most > canvas.IDLE * canvas.largest([f]) * mu.max(initial=0.0)
    used = np.linalg.norm(f_t, axis=1) / np.where(loaded, most, 1.0)
    return np.where(loaded, np.minimum(used, 1.0), 0.0)


# --- a run -------------------------------------------------------------------------------

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
    """
    checks.instance("trajectory", trajectory, Trajectory)
    title = checks.text("title", title)
    shown, scene = trajectory[checks.index("frame", frame, len(trajectory))], trajectory.scene
    state, dim = shown.state, scene.dim
    forces = dict(reversed(shown.normal_forces.items()))  # the compatible forces last
    count, top = len(forces), canvas.largest(list(forces.values()))
    scale, unit = with_prefix(top, "N")
    figure = canvas.blank(_WIDE, _TALL)
    grid = figure.add_gridspec(2, count + 1, width_ratios=[1.25] * count + [1.0])
    panels = [figure.add_subplot(grid[:, k]) for k in range(count)]
    solids = Solids.of(scene, state.position)
    camera = Camera.facing(np.stack([solids.low, solids.high])[:, :dim], "perspective")
    box, lines = box_of(solids, state, camera), solids.lines(shown)[:, :, :dim]
    inches = 0.9 * _WIDE * 1.25 / (1.25 * count + 1.0)
    for axes, (name, f) in zip(panels, forces.items(), strict=True):
        draw_bodies(axes, solids, state, camera)
        net = ContactSegments(*lines[f > 0.0].transpose(1, 0, 2))
        Chains(net, inches, top, camera, box=box).draw(axes, f[f > 0.0])
        if f"{name}_t" in shown.forces:  # strokes through the contact points
            stroke = _STROKE * float(np.ptp(box, axis=0).min()) / top
            half = 0.5 * stroke * np.nan_to_num(shown.forces[f"{name}_t"])
            strokes = camera.lines(shown.points - half, shown.points + half)
            canvas.add_lines(axes, strokes, colors="white", linewidths=3.4, zorder=4)
            style: dict[str, Any] = {"linewidths": 1.8, "zorder": 5, "gid": "friction"}
            canvas.add_lines(axes, strokes, colors=FRICTION, **style)
        axes.axis("off")
        kind = trajectory.method.removesuffix("-cd") if name == "f" else "classic"
        kind = {"contact-dynamics": "with friction"}.get(kind, kind.removesuffix("-friction"))
        note = f"max {float(f.max(initial=0.0)) / scale:,.3g} {unit}"
        canvas.head(axes, kind.capitalize(), _KINDS.get(kind, ""), note)
    label = f"contact force [{unit}], as colour and line width"
    if np.any(shown.f_t):
        label = f"normal force [{unit}]; friction: blue, its length the force"
    canvas.colour_bar(figure, panels, top / scale, label)
    energies = figure.add_subplot(grid[0, -1])
    overlap = figure.add_subplot(grid[1, -1], sharex=energies)
    _over_time(energies, overlap, trajectory, shown.t, _FLOOR * solids.thick)
    subtitle = "The start: no step has been taken, there are no forces yet."
    if shown.step:
        subtitle = f"Forces of the step to t = {shown.t:.4g} s ({shown.nc:,} contacts detected); "
        subtitle += f"{trajectory.method}, Δt = {trajectory.dt:g} s."
    return canvas.headline(figure, title or scene.title or scene.name, subtitle)


def _over_time(upper: Axes, lower: Axes, trajectory: Trajectory, t: float, floor: float) -> None:
    """Kinetic energy and the loss of energy; below the deepest overlap, at least ``floor`` m."""
    rows = trajectory.diagnostics
    time, kinetic, total = rows["time"], rows["kinetic"], rows["kinetic"] + rows["potential"]
    lost = total[0] - total
    scale, unit = with_prefix(float(np.nanmax(np.abs([kinetic, lost]), initial=0.0)), "J")
    upper.plot(time, kinetic / scale, color="#0072B2", linewidth=1.6, label="kinetic")
    dash: dict[str, Any] = {"linestyle": (0, (4, 1.5)), "linewidth": 1.6, "label": "lost"}
    upper.plot(time, lost / scale, color="#D55E00", **dash)
    depth = np.maximum(np.nan_to_num(rows["overlap"]), floor)
    lower.plot(time, depth, color=INK, linewidth=1.4, clip_on=False)
    lower.set_yscale("log")
    lower.set_ylim(floor, max(3.0 * float(depth.max()), 1e3 * floor))
    lower.minorticks_off()
    for axes, name in ((upper, f"Energy [{unit}]"), (lower, "Deepest overlap [m]")):
        canvas.quiet_axes(axes)
        axes.axvline(t, color=EDGE, linewidth=1.0, linestyle=(0, (1, 1.5)), gid="now")
        axes.set_title(name, fontsize=canvas.TEXT, color=INK, loc="left")
        axes.locator_params(axis="x", nbins=4)
    style = {"labelcolor": QUIET, "handlelength": 1.6, "columnspacing": 1.0}
    handles = upper.get_legend_handles_labels()[0]
    canvas.legend(upper, handles, "lower right", ncols=2, bbox_to_anchor=(1.03, 0.97), **style)
    upper.tick_params(labelbottom=False)
    lower.set_xlabel("time [s]")
