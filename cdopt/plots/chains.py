"""Force chains: every contact a line, as wide and dark as its force, one panel per answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots import canvas
from cdopt.plots.palette import BAND, EDGE, RULE, force_colours
from cdopt.plots.projection import Camera, View, box_of, draw_bodies, draw_discs
from cdopt.plots.segments import ContactSegments, contact_segments
from cdopt.plots.solids import Solids
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "contact force [N], as colour and line width"

_HAIR = 0.35  # points, the width of a force of zero
_THICK = 7.0  # points, the widest force ever drawn
_BROAD = 12.0  # points, the widest interval
_HALO = 1.6  # points of white beside a line in front of others
_SHORTENED = 0.16  # share of a halo's length that is left off, so that joints stay joined


def force_chains(
    step: Step,
    solutions: Sequence[StepSolution],
    compatible: StepSolution | None = None,
    *,
    report: Indeterminacy | None = None,
    view: View = "side",
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
    report : what is determined; a pale band under each line is then as wide as the largest
        admissible force, and dashed edges mark those without end. Forces are scaled to suit.
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
    camera, box, solids = Camera.facing(net.ends, view), None, None
    if bodies is not None:
        solids, state = Solids.of(bodies[0], bodies[1].position), bodies[1]
        box, net = box_of(solids, state, camera), ContactSegments.bare(net.start, net.end)
    inches = canvas.WIDTH / canvas.grid_columns(len(shown))
    chains = Chains(net, inches, top, camera, box=box, upper=upper)
    figure, axes = canvas.panels_of(len(shown), chains.box, foot=0.75, caption=0.5, ax=ax)
    for panel, (solution, f) in zip(axes, shown, strict=True):
        if solids is not None:
            draw_bodies(panel, solids, state, camera)
        chains.draw(panel, f)
        canvas.emphasise(panel, solution is compatible)
        canvas.caption(panel, solution, solution is compatible)
    bands = "; pale: the largest admissible force, dashed where it has no end"
    canvas.colour_bar(figure, axes, top, LABEL + (bands if upper is not None else ""))
    return canvas.headline(figure, title, subtitle)


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
        self.box = self._box() if box is None else box
        lengths = np.linalg.norm(self.segments[:, 1] - self.segments[:, 0], axis=1)
        per_metre = 72.0 * 0.92 * inches / float(np.ptp(self.box[:, 0]))
        room = 0.45 * float(np.median(lengths)) * per_metre if lengths.size else _THICK
        widest = top
        self.broad = min(max(room, 1.5), _THICK)
        if upper is not None:
            widest = max(top, float(upper[np.isfinite(upper)].max(initial=0.0)))
            self.broad = min(max(1.2 * room, 3.0), _BROAD)
        self.slope = (self.broad - _HAIR) / widest

    def draw(self, axes: Axes, f: FloatArray) -> None:
        """Bodies, bands, and forces f (nc,) as lines; no ticks."""
        self._bodies(axes)
        if self.upper is not None:
            self._bands(axes, self.upper)
        self._lines(axes, f)
        canvas.without_ticks(axes, self.box)

    def _box(self) -> FloatArray:
        """What the network reaches on paper; never without extent."""
        corners = self.segments.reshape(-1, 2)
        if self.net.centres.shape[1] == 2 or self.camera.deep:
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

    def _bodies(self, axes: Axes) -> None:
        """Discs, fixed ones darker; in perspective, faint outlines of the spheres."""
        if self.net.centres.shape[1] == 2 or self.camera.deep:
            draw_discs(axes, self.camera, self.net.centres, self.net.radii, self.net.fixed)

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

    def _lines(self, axes: Axes, f: FloatArray) -> None:
        """Contacts as lines; the strongest lie on top, or the nearest; idle ones are hairlines."""
        from matplotlib.colors import Normalize

        loads = f > canvas.IDLE * self.top
        self._add(axes, "idle", np.flatnonzero(~loads), 0.6, colors=RULE, zorder=2)
        loaded = np.flatnonzero(loads)
        rank = self.near[loaded] if self.camera.deep else f[loaded]
        order = loaded[np.argsort(rank, kind="stable")]
        width, norm, colours = self._width(f[order], order), Normalize(0, self.top), force_colours()
        if not self.camera.deep:
            scale: Any = {"cmap": colours, "norm": norm, "array": f[order]}
            self._add(axes, "forces", order, width, capstyle="round", zorder=3, **scale)
            return
        # every line after its own white halo, from the back to the front
        segments = self.segments[order]
        halos = segments + _SHORTENED * (segments.mean(axis=1, keepdims=True) - segments)
        ink = colours(norm(f[order]))
        canvas.add_lines(
            axes,
            np.stack([halos, segments], axis=1).reshape(-1, 2, 2),
            colors=np.stack([np.ones_like(ink), ink], axis=1).reshape(-1, 4),
            linewidths=np.column_stack([width + _HALO, width]).ravel(),
            capstyle="butt",
            zorder=3,
            gid="forces",
        )

    def _add(self, axes: Axes, gid: str, contacts: IntArray, width: Any, **style: Any) -> None:
        style = {"capstyle": "butt", "linewidths": width, "gid": gid, **style}
        canvas.add_lines(axes, self.segments[contacts], **style)
