"""A structure at its limit load: the forces in its joints, and the mechanism of its collapse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.collision import move
from cdopt.hyperstatic import LimitLoad
from cdopt.plots import canvas
from cdopt.plots.palette import INK
from cdopt.plots.projection import Camera, View, box_of, draw_bodies
from cdopt.plots.solids import Solids
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST = 0.22  # share of the picture's width that the largest force takes
_FAR = 0.07  # share of the structure's size by which the fastest point moves


def collapse(
    limit: LimitLoad, *, view: View = "side", title: str = "", subtitle: str = ""
) -> Figure:
    """Two panels: forces at the limit load, and the mechanism, magnified.

    A line through the centre of pressure of each joint is the force between its two bodies, as
    long as it is large; the joints of an arch so show its thrust line.

    Parameters
    ----------
    limit : of a scene, with a mechanism.
    view : of scenes in space: "side", "isometric" or "perspective".

    Raises
    ------
    InvalidInput : a limit load of a step without its scene, or an infinite one.
    """
    if limit.bodies is None:
        raise InvalidInput("limit", "of a step without its scene", "limit_load(scene, ...)")
    if limit.mechanism is None:
        raise InvalidInput("limit", "infinite, without a mechanism", "a finite limit load")
    scene, state = limit.bodies
    bounded = np.isfinite(scene.bodies.reach)
    size = float(
        np.ptp(state.position[bounded], axis=0).max() + 2 * scene.bodies.reach[bounded].max()
    )
    velocity = scene.full_dofs.scatter(limit.mechanism, np.zeros_like(state.v))
    fastest = float(np.abs(limit.rates).max(initial=0.0)) or 1.0
    fastest = max(fastest, float(np.abs(velocity[:, : scene.dim]).max(initial=0.0)))
    moved = State(0.0, move(state, velocity, _FAR * size / fastest), np.zeros_like(state.v))
    both = np.stack([state.position, moved.position])
    solids = Solids.of(scene, both)
    camera = Camera.facing(state.position[bounded], view)
    boxes = np.stack([box_of(solids, each, camera) for each in (state, moved)])
    box = np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])
    figure, axes = canvas.panels_of(2, box, foot=0.1, caption=0.3)
    names = f"forces at {limit.value:.5g} times the live load", "mechanism, magnified"
    for panel, shown, name in zip(axes, (state, moved), names, strict=True):
        draw_bodies(panel, solids, shown, camera)
        canvas.without_ticks(panel, box)
        canvas.emphasise(panel, False)
        panel.set_title(name, fontsize=canvas.TEXT, loc="left")
    _thrust(axes[0], limit, camera, _LONGEST * float(np.ptp(box[:, 0])))
    return canvas.headline(figure, title, subtitle)


def joints(step: ContactStep, f: FloatArray, f_t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centres of pressure (n, dim) m and forces (n, dim) N of the loaded pairs of bodies.

    Raises
    ------
    InvalidInput : a step without bodies or points.
    """
    if step.bodies is None or step.points is None:
        raise InvalidInput("step", "no bodies or points", "a step built with both")
    vectors = step.contact_vectors(f, f_t)
    pairs, joint = np.unique(step.bodies, axis=0, return_inverse=True)
    weight = np.bincount(joint, f, len(pairs))
    loaded = weight > canvas.IDLE * weight.max(initial=0.0)
    total, centre = np.zeros((2, len(pairs), vectors.shape[1]))
    np.add.at(total, joint, vectors)
    np.add.at(centre, joint, f[:, None] * step.points)
    return centre[loaded] / weight[loaded, None], total[loaded]


def _thrust(axes: Axes, limit: LimitLoad, camera: Camera, longest: float) -> None:
    """A line through the centre of pressure of each joint along its force."""
    centre, force = joints(limit.step, limit.f, limit.f_t)
    half = 0.5 * longest * force / float(np.linalg.norm(force, axis=1).max(initial=1e-300))
    ends = np.stack([camera.project(centre - half)[0], camera.project(centre + half)[0]], axis=1)
    style = {"linewidths": 1.6, "gid": "thrust", "zorder": 3, "capstyle": "round"}
    canvas.add_lines(axes, ends, colors=INK, **style)
    dots = camera.project(centre)[0]
    axes.scatter(dots[:, 0], dots[:, 1], s=9, color=INK, zorder=4)
