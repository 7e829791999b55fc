"""Pictures of an ``Audit``: errors of mechanics, and the choice among admissible forces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.hyperstatic import Audit
from cdopt.plots import canvas
from cdopt.plots.bodies import Camera
from cdopt.plots.chains import backdrop
from cdopt.plots.palette import BAND, EDGE, INK, QUIET
from cdopt.scene import Scene, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WRONG = "#C8102E"  # errors of mechanics, and forces that no admissible answer has
CHOICE = "#9a9a9a"  # no error
_LENGTH = 0.15  # share of the picture's width that the longest arrow or stroke takes
_TALL = 2.6  # inches, the panel of the forces contact by contact
_NAMED = 6  # arrows with the name of their body
_SHOWN = 60  # contacts that have a place there


def audited_forces(
    audit: Audit,
    *,
    view: str = "side",
    bodies: tuple[Scene, State] | None = None,
    title: str = "",
    subtitle: str | None = None,
) -> Figure:
    """Errors of mechanics as red arrows on the bodies, the choice as grey strokes at the contacts.

    Below, contact by contact, the normal forces: red where no admissible answer has
    them, the nearest admissible force as a tick, and certified bounds as pale bands.

    Parameters
    ----------
    audit : what ``cdopt.audit`` returned.
    view : of steps in space: "side" (x to the right, z up), "isometric" or "perspective".
    bodies : the scene of the step and its state, drawn behind the arrows.
    subtitle : by default the summary of the audit.

    Raises
    ------
    InvalidInput : no contacts, or no such view.
    """
    checks.instance("audit", audit, Audit)
    step = audit.step
    if step.nc == 0:
        raise InvalidInput("audit", "no contacts", "at least one contact to draw")
    drawable = step.points is not None and step.normals is not None
    names = [step.contact_names[i] for i in _chosen(audit).tolist()]
    tall = _TALL + canvas.room_of_names(names)
    wide, height = canvas.WIDTH, tall + 0.7
    box, camera = None, None
    if drawable:
        camera = Camera.facing(np.asarray(step.points), view)
        box, draw_behind = backdrop(bodies, camera)
        if box is None:
            box = canvas.box_around(camera.project(np.asarray(step.points))[0], 0.15)
        size = np.ptp(box, axis=0)
        height += min(0.9 * wide * float(size[1] / size[0]), 5.5)
    figure = canvas.blank(wide, height)
    ratios = [height - tall - 0.7, tall] if drawable else [tall]
    axes = np.ravel(figure.subplots(len(ratios), 1, height_ratios=ratios))
    if camera is not None and box is not None:
        draw_behind(axes[0])
        _draw_findings(axes[0], audit, camera, float(np.ptp(box[:, 0])))
        canvas.without_ticks(axes[0], box)
        canvas.emphasise(axes[0], False)
    _draw_contacts(axes[-1], audit)
    return canvas.headline(figure, title, audit.summary if subtitle is None else subtitle)


def _draw_findings(axes: Axes, audit: Audit, camera: Camera, width: float) -> None:
    """Red arrows on bodies, red dots at contacts, grey strokes of the choice."""
    step, points = audit.step, np.asarray(audit.step.points)
    handles = []
    choice, outside = audit.choice, audit.outside
    if choice is not None:
        vectors = step.contact_vectors(choice[:, 0], choice[:, 1:] if choice.shape[1] > 1 else None)
        longest = float(np.linalg.norm(vectors, axis=1).max(initial=0.0))
        if longest > audit.tol * float(np.abs(audit.forces).max(initial=0.0)):
            half = 0.5 * _LENGTH * width / longest * vectors
            strokes = camera.lines(points - half, points + half)
            canvas.add_lines(axes, strokes, colors=CHOICE, linewidths=2.0, zorder=3, gid="choice")
            whole = float(np.linalg.norm(choice))
            label = f"choice, {whole:,.4g} N in all, longest stroke {longest:,.3g} N: no error"
            handles.append(canvas.line_key(label, color=CHOICE, linewidth=2.0))
    if outside.size:
        style: dict[str, Any] = {"s": 16, "color": WRONG, "zorder": 4, "linewidths": 0.0}
        axes.scatter(*camera.project(points[outside])[0].T, gid="outside", **style)
        key = {"marker": "o", "linestyle": "none", "markersize": 4.0, "color": WRONG}
        handles.append(canvas.line_key("force outside its cone or bounds", **key))
    places, errors, names = error_arrows(audit)
    if len(places):
        sizes = np.linalg.norm(errors, axis=1)
        ends = camera.lines(places, places + _LENGTH * width / (sizes.max() or 1.0) * errors)
        style = {"color": WRONG, "linewidth": 1.8}
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "shrinkA": 0.0, "shrinkB": 0.0, **style}
        for start, end in ends[sizes > 0.0]:
            axes.annotate("", end, start, arrowprops=arrow)
        text: dict[str, Any] = {"textcoords": "offset points", "fontsize": canvas.TEXT}
        for (start, _), name in zip(ends[:_NAMED], names, strict=False):
            axes.annotate(canvas.literal(name), start, (6.0, -4.0), color=WRONG, **text)
        label = f"error of mechanics, forces without torques: longest arrow {sizes.max():,.3g} N"
        handles.append(canvas.line_key(label, **style))
        if (turned := ends[sizes == 0.0, 0]).size:
            ring: dict[str, Any] = {"markersize": 8.0, "hollow": True, "markeredgewidth": 1.8}
            canvas.points(axes, turned[:, 0], turned[:, 1], WRONG, "o", **ring)
            key = {"marker": "o", "linestyle": "none", "markerfacecolor": "none", "color": WRONG}
            handles.append(canvas.line_key("error of mechanics in the turn of a joint", **key))
    if handles:
        canvas.legend(axes, handles, "upper left")


def error_arrows(audit: Audit) -> tuple[FloatArray, FloatArray, list[str]]:
    """Places (n, dim) m, forces (n, dim) N that bodies get too much, and names of these bodies.

    The place is the mean of the contacts that a body moves. Bodies that turn on joints have none.
    """
    step, points = audit.step, np.asarray(audit.step.points)
    dim = points.shape[1]
    if step.dof_body is None:
        return np.zeros((0, dim)), np.zeros((0, dim)), []
    numbers, moved = np.unique(step.dof_body), sp.csc_array(step.B)
    places, errors, names = [], [], []
    for b in audit.wrong_bodies.tolist():
        own = np.flatnonzero(step.dof_body == numbers[b])
        here = np.zeros(step.nc, dtype=bool)
        if step.bodies is not None:
            here = (step.bodies == numbers[b]).any(axis=1)
        if not here.any():
            here[moved[:, own].indices] = True
        if here.any():
            free = own.size in (dim, 3 if dim == 2 else 6)
            places.append(points[here].mean(axis=0))
            errors.append(audit.missed[own[:dim]] if free else np.zeros(dim))
            names.append(audit.body_names[b])
    shape = (len(places), dim)
    return np.reshape(places, shape), np.reshape(errors, shape), names


def _draw_contacts(axes: Axes, audit: Audit) -> None:
    """Normal forces, nearest admissible ones and bounds; of many contacts those farthest off."""
    shown = _chosen(audit)
    at = np.arange(shown.size)
    force, far = audit.forces[shown, 0], np.isin(shown, audit.outside)
    handles = []
    if audit.report is not None:
        lower, upper = audit.report.lower[shown], audit.report.upper[shown]
        known = np.isfinite(lower)
        top = np.where(np.isfinite(upper), upper, 1.1 * canvas.largest([force, lower[known]]))
        band: dict[str, Any] = {"color": BAND, "zorder": 1, "width": 0.8, "gid": "intervals"}
        axes.bar(at[known], (top - lower)[known], bottom=lower[known], **band)
        handles.append(canvas.line_key("certified bounds", color=BAND, linewidth=6.0))
    if audit.nearest is not None:
        tick: dict[str, Any] = {"markersize": 9.0, "markeredgewidth": 1.4, "zorder": 2}
        canvas.points(axes, at, audit.nearest[shown, 0], EDGE, "_", **tick)
        style = {"marker": "_", "linestyle": "none", "color": EDGE}
        handles.append(canvas.line_key("nearest admissible force", **style))
    dot: dict[str, Any] = {"markersize": 4.0, "zorder": 3}
    for chosen, colour, label in ((~far, INK, "inside"), (far, WRONG, "outside")):
        if chosen.any():
            canvas.points(axes, at[chosen], force[chosen], colour, "o", gid=label, **dot)
            style = {"marker": "o", "linestyle": "none", "color": colour}
            handles.append(canvas.line_key(label, markersize=4.0, **style))
    canvas.quiet_axes(axes)
    canvas.name_contacts(axes, [audit.step.contact_names[i] for i in shown.tolist()])
    canvas.axis_labels(axes, "contact", "normal force [N]")
    canvas.legend(axes, handles, "upper right", ncols=4, bbox_to_anchor=(1.0, 1.16))
    if shown.size < audit.step.nc:
        which = "farthest off" if audit.nearest is not None else "farthest outside, then the first"
        text = f"{shown.size} of {audit.step.nc:,} contacts, those {which}"
        canvas.small_text(axes, text, (0.0, 5.0), color=QUIET)


def _chosen(audit: Audit) -> IntArray:
    """The contacts that have a place in the lower panel."""
    far = audit.distance_share if audit.nearest is not None else audit.beyond / audit.local_load
    order = np.argsort(-np.nan_to_num(far), kind="stable")[:_SHOWN]
    return np.sort(order)
