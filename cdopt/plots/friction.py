"""Forces with friction: the vector at each contact point, its cone, and how much is mobilised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.formulations import NetworkForces
from cdopt.hyperstatic import FrictionalIndeterminacy
from cdopt.plots import canvas
from cdopt.plots.palette import BAND, COMPATIBLE, EDGE, INK, RULE, force_colours, look
from cdopt.plots.projection import Camera, View, box_of, draw_bodies
from cdopt.plots.solids import Solids
from cdopt.problem.contact_step import Step
from cdopt.problem.friction import Friction
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "mobilised friction ‖f_T‖ / (μ f_n); lines as long as the force"

_LONGEST = 0.17  # share of the picture's width that the largest force takes
_LINE = 2.2  # points


def friction_forces(
    step: Step,
    solutions: Sequence[StepSolution],
    *,
    view: View = "side",
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
    friction, points, _ = _geometry(step)
    shown = [(s, f) for s, f in canvas.answers(solutions, None, step) if s.f_t is not None]
    if not shown:
        raise InvalidInput("solutions", "none with friction", "solutions of FrictionalCD")
    vectors = [step.contact_vectors(f, s.f_t) for s, f in shown]
    camera = Camera.facing(points, view)
    solids = None
    if bodies is not None:
        solids, state = Solids.of(bodies[0], bodies[1].position), bodies[1]
    box = _box(camera, points) if solids is None else box_of(solids, state, camera)
    top = max(float(np.linalg.norm(v, axis=1).max(initial=0.0)) for v in vectors) or 1.0
    scale = _LONGEST * float(np.ptp(box[:, 0])) / top
    figure, axes = canvas.panels_of(len(shown), box, foot=0.75, caption=0.5, ax=ax)
    for panel, (solution, f), vector in zip(axes, shown, vectors, strict=True):
        if solids is not None:
            draw_bodies(panel, solids, state, camera)
        if points.shape[1] == 2:
            _cones(panel, step, scale * f)
        used = mobilised(friction.mu, f, solution.f_t)
        _lines(panel, camera, points, scale * vector, used)
        canvas.without_ticks(panel, box)
        canvas.emphasise(panel, False)
        canvas.caption(panel, solution, False)
    canvas.colour_bar(figure, axes, 1.0, LABEL)
    return canvas.headline(figure, title, subtitle)


def mobilised(mu: FloatArray, f: FloatArray, f_t: FloatArray | None) -> FloatArray:
    """‖f_T‖/(μ f_n) (nc,), from 0 to 1; 0 at contacts without force or without friction."""
    if f_t is None:
        return np.zeros(f.shape)
    most = mu * np.maximum(f, 0.0)
    used = np.linalg.norm(f_t, axis=1)
    loaded = most > canvas.IDLE * canvas.largest([f]) * mu.max(initial=0.0)
    return np.where(loaded, np.minimum(used / np.where(loaded, most, 1.0), 1.0), 0.0)


def admissible_region(
    report: FrictionalIndeterminacy,
    contact: int,
    solutions: Sequence[StepSolution] = (),
    networks: Sequence[NetworkForces] = (),
    *,
    ax: Axes | None = None,
    title: str = "",
) -> Figure:
    """All forces that a contact can have, as a region, and every answer as a point in it.

    The axes are the normal and the first tangential force. Lines from the origin are the friction
    cone of the contact; balance and the cones of all others leave the region, or the segment.

    Parameters
    ----------
    report : of the step with friction, its forces bounded.
    contact : its number.
    solutions : of any solvers. networks : forces of elastic contacts.
    ax : axes of matplotlib to draw in; by default a new figure.

    Raises
    ------
    InvalidInput : no such contact, unbounded forces, or answers of other contacts.
    """
    corners = report.region(contact)
    figure, axes = canvas.panels(1, 1, 4.2, foot=0.6, caption=0.1, ax=ax)
    panel = axes[0]
    name = report.names[contact]
    looks = [(look(s.backend), s) for s in solutions]
    answers = [(style, style.name, s.f, s.f_t) for style, s in looks if s.f is not None]
    answers += [(COMPATIBLE, n.label, n.f, n.f_t) for n in networks]
    far = 1.25 * float(max(corners[:, 0].max(), *(f[contact] for _, _, f, _ in answers), 0.0))
    mu = float(report.faces.mu[contact])
    panel.fill([0.0, far, far], [0.0, mu * far, -mu * far], color=BAND, alpha=0.5, linewidth=0)
    outline: dict[str, Any] = {"edgecolor": EDGE, "linewidth": 4.0, "joinstyle": "round"}
    panel.fill(*corners.T, facecolor=BAND, label="admissible", **outline)
    for number, (style, label, f, f_t) in enumerate(answers):
        if f_t is None or f.shape != (report.nc,):
            raise InvalidInput("solutions", "forces of other contacts", f"{report.nc:,} contacts")
        marker = style.marker if style is not COMPATIBLE else "XP"[number % 2]
        size = 13.0 - 6.0 * number / len(answers)  # those below stay visible
        edge: dict[str, Any] = {"markeredgecolor": INK, "markeredgewidth": 0.6, "label": label}
        at = f[contact], f_t[contact, 0]
        canvas.points(panel, *at, style.colour, marker, markersize=size, clip_on=True, **edge)
    panel.axhline(0.0, color=RULE, linewidth=0.8, zorder=0)
    panel.set(xlim=(0.0, far), xlabel=f"normal force at {name} [N]", ylabel="friction [N]")
    panel.legend(frameon=False, loc="upper left", fontsize="small")
    return canvas.headline(figure, title or f"What {name} may carry", "")


def _geometry(step: Step) -> tuple[Friction, FloatArray, FloatArray]:
    """Friction, points and normals of a step that has them."""
    friction = step.friction
    if friction is None or friction.tangents is None:
        missing = "no friction" if friction is None else "no tangents"
        raise InvalidInput("step", missing, "a step with friction and its tangents")
    if step.points is None or step.normals is None:
        raise InvalidInput("step", "no points or normals", "a step with both to draw")
    return friction, step.points, step.normals


def _box(camera: Camera, points: FloatArray) -> FloatArray:
    """What the contact points and the forces at them reach on paper."""
    on_paper = camera.project(points)[0]
    low, high = on_paper.min(axis=0), on_paper.max(axis=0)
    half = 0.5 * (high - low) + (0.3 * float((high - low).max()) or 1.0)
    return np.asarray(0.5 * (low + high) + np.array([-half, half]))


def _cones(axes: Axes, step: Step, reach: FloatArray) -> None:
    """The cone of each loaded contact of the plane, as high as its normal force ``reach`` (nc,)."""
    from matplotlib.collections import PolyCollection

    friction, points, normals = _geometry(step)
    loaded = np.flatnonzero(reach > 0.0)
    along = reach[loaded, None] * normals[loaded]
    aside = (friction.mu * reach)[loaded, None] * np.asarray(friction.tangents)[loaded, 0]
    at = points[loaded]
    corners = np.stack([at, at + along + aside, at + along - aside], axis=1)
    cones = PolyCollection(list(corners), facecolors=BAND, edgecolors=RULE, linewidths=0.5)
    cones.set(gid="cones", zorder=2.5, alpha=0.8)
    axes.add_collection(cones, autolim=False)


def _lines(
    axes: Axes, camera: Camera, points: FloatArray, vectors: FloatArray, used: FloatArray
) -> None:
    """The forces as lines from the contact points, which are dots."""
    from matplotlib.colors import Normalize

    start, end = camera.project(points)[0], camera.project(points + vectors)[0]
    colours: dict[str, Any] = {"cmap": force_colours(), "norm": Normalize(0.0, 1.0)}
    style: dict[str, Any] = {"linewidths": _LINE, "gid": "forces", "capstyle": "round"}
    canvas.add_lines(axes, np.stack([start, end], axis=1), array=used, zorder=3, **style, **colours)
    axes.scatter(start[:, 0], start[:, 1], s=9, c=used, zorder=4, linewidths=0.0, **colours)
