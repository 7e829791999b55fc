"""Structures of blocks: thrusts in their joints, blocks that fall, mechanisms of collapse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import short, with_prefix
from cdopt.collision import move
from cdopt.geometry.blocks import Block
from cdopt.hyperstatic import LimitLoad, Settlement, StabilityVerdict, Thrusts, thrusts
from cdopt.plots import canvas
from cdopt.plots.audited import WRONG
from cdopt.plots.bodies import Camera, Solids, box_of, draw_bodies
from cdopt.plots.palette import FRICTION, INK, QUIET, RULE
from cdopt.scene import BlockModel, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST = 0.2  # share of the picture's width that the largest force takes
_FAR = 0.07  # share of the structure's size by which the fastest point moves
_FLAT = 1.0 - 1e-6  # cosine of the angle between faces that are one
_PARALLEL = 1e-6  # component along y of normals
_ROOM = 0.05  # of the picture's size, around the blocks


def structure(
    verdict: StabilityVerdict,
    *,
    view: str | None = None,
    title: str = "",
    subtitle: str | None = None,
) -> Figure:
    """The edges of all blocks, and forces in the joints that balance the weights.

    A line through the centre of pressure of each joint is the force between its two blocks. Where
    no forces balance the weights there are none, and blocks that fall are red.

    Parameters
    ----------
    verdict : the result of ``cdopt.stability`` for a block model.
    view : "side" (x to the right, z up), "isometric" or "perspective"; by default the side of
        structures whose joints are all parallel to y, and isometric.
    subtitle : by default the summary, and the force that the longest line is.

    Raises
    ------
    InvalidInput : a structure that is no block model, or no such view.
    """
    model = checks.instance("verdict", verdict, StabilityVerdict).model
    if model is None:
        raise InvalidInput("verdict", "a structure without blocks", "stability of a block model")
    corners = np.concatenate([block.vertices for block in model.blocks])
    camera = Camera.facing(corners, view or ("side" if _is_plane(model) else "isometric"))
    box = canvas.box_around(camera.project(corners)[0], _ROOM)
    figure, (axes,) = canvas.panels_of(1, box, foot=0.2, caption=0.1)
    numbers = np.unique(np.asarray(verdict.step.dof_body))
    _draw_blocks(axes, model, camera, falls=set(numbers[verdict.falling].tolist()))
    text = verdict.summary
    if verdict.forces is not None:
        drawn = thrusts(verdict.step, *verdict.forces)
        _draw_thrusts(axes, drawn, camera, box, FRICTION)
        text += f" The longest line is a force of {_largest(drawn)}."
    canvas.without_ticks(axes, box)
    canvas.emphasise(axes, False)
    return canvas.headline(figure, title, text if subtitle is None else subtitle)


def collapse(
    limit: LimitLoad | Settlement,
    *,
    view: str = "side",
    title: str | None = None,
    subtitle: str = "",
) -> Figure:
    """Two panels: forces at the limit load or after a settlement, and the mechanism, magnified.

    A line through the centre of pressure of each joint is the force between its two bodies, as
    long as it is large. Thrust lines pass through the bodies between two joints that carry
    something, ``cdopt.thrusts``.

    Parameters
    ----------
    limit : limit load with a mechanism, or settlement, of a scene or a block model.
    view : of structures in space: "side", "isometric" or "perspective".
    title : by default ``limit.title``, which load or which support's motion it is.

    Raises
    ------
    InvalidInput : a limit load of a step without its scene, or an infinite one.
    """
    checks.instance("limit", limit, LimitLoad, Settlement)
    if limit.bodies is None and limit.model is None:
        raise InvalidInput("limit", "of a step without its scene", "limit_load(scene, ...)")
    if limit.mechanism is None:
        raise InvalidInput("limit", "infinite, without a mechanism", "a finite limit load")
    draw = _of_model if limit.model is not None else _of_scene
    figure, axes, camera, box, factor = draw(limit, limit.mechanism, view)
    drawn = thrusts(limit.step, limit.f, limit.f_t)
    scales = f"longest {_largest(drawn)}", "of any size"
    if isinstance(limit, Settlement):
        scales = scales[0], f"{factor:.3g} times larger"
    for panel, what, scale in zip(axes, limit.captions, scales, strict=True):
        name = f"{what}, {scale}"
        canvas.without_ticks(panel, box)
        canvas.emphasise(panel, False)
        panel.set_title(name, fontsize=canvas.TEXT, loc="left")
    _draw_thrusts(axes[0], drawn, camera, box, INK)
    return canvas.headline(figure, limit.title if title is None else title, subtitle)


def _is_plane(model: BlockModel) -> bool:
    """Whether all joints are parallel to y."""
    normals = np.array([face.normal for face in model.interfaces])
    return bool(np.abs(normals[:, 1]).max(initial=0.0) <= _PARALLEL)


def _largest(thrust: Thrusts) -> str:
    """The largest resultant, with its unit."""
    most = float(np.linalg.norm(thrust.forces, axis=1).max(initial=0.0))
    unit, name = with_prefix(most, "N")
    return f"{short(most / unit, 3)} {name}"


def _of_scene(limit: LimitLoad | Settlement, mechanism: FloatArray, view: str) -> Any:
    """A figure of a scene, its two panels with bodies, camera, box and factor of the motion."""
    scene, state = limit.bodies or (None, None)
    if scene is None or state is None:
        raise TypeError("a limit load without a scene")
    still, reach = np.zeros_like(state.v), scene.bodies.reach
    bounded = np.isfinite(reach)
    centres = state.position[bounded]
    size = float(np.ptp(centres, axis=0).max() + 2.0 * reach[bounded].max())
    velocity = scene.full_dofs.scatter(mechanism, still)
    if isinstance(limit, Settlement):
        velocity = velocity + limit.supports
    far = _FAR * size / _fastest(limit, velocity[:, : scene.dim])
    moved = State(0.0, move(state, velocity, far), still)
    solids = Solids.of(scene, np.stack([state.position, moved.position]))
    camera = Camera.facing(centres, view)
    boxes = np.stack([box_of(solids, each, camera) for each in (state, moved)])
    box = np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])
    figure, axes = canvas.panels_of(2, box, foot=0.1, caption=0.3)
    for panel, shown in zip(axes, (state, moved), strict=True):
        draw_bodies(panel, solids, shown, camera)
    return figure, axes, camera, box, far


def _of_model(limit: LimitLoad | Settlement, mechanism: FloatArray, view: str) -> Any:
    """The picture of a block model; blocks that move are red in the second panel."""
    model = limit.model
    if model is None:
        raise TypeError("a limit load without a block model")
    velocity = np.zeros((len(model.blocks), 6))
    free = np.unique(np.asarray(limit.step.dof_body))
    velocity[free] = mechanism.reshape(-1, 6)
    if isinstance(limit, Settlement):
        velocity += limit.supports
    corners = [block.vertices for block in model.blocks]
    speeds = [v[:3] + np.cross(v[3:], x - block.centre)
              for v, x, block in zip(velocity, corners, model.blocks, strict=True)]  # fmt: skip
    far = _FAR * model.size / _fastest(limit, np.concatenate(speeds))
    moved = [x + far * v for x, v in zip(corners, speeds, strict=True)]
    camera = Camera.facing(np.concatenate(corners), view)
    box = canvas.box_around(camera.project(np.concatenate([*corners, *moved]))[0], _ROOM)
    figure, axes = canvas.panels_of(2, box, foot=0.1, caption=0.3)
    most = max(float(np.abs(v).max()) for v in speeds)
    falls = {k for k, v in enumerate(speeds) if np.abs(v).max() > 1e-6 * most}
    _draw_blocks(axes[0], model, camera)
    _draw_blocks(axes[1], model, camera, falls, moved)
    return figure, axes, camera, box, far


def _fastest(limit: LimitLoad | Settlement, speeds: FloatArray) -> float:
    """m/s, of all rates and of the bodies."""
    return max(float(np.abs(limit.rates).max(initial=0.0)) or 1.0, float(np.abs(speeds).max()))


def _draw_blocks(
    axes: Axes,
    model: BlockModel,
    camera: Camera,
    falls: set[int] | None = None,
    places: list[FloatArray] | None = None,
) -> None:
    """Every edge of the blocks, whose corners are at ``places``; those that fall red."""
    falls = falls or set()
    for number, block in enumerate(model.blocks):
        colour = WRONG if number in falls else QUIET if model.fixed[number] else RULE
        style: dict[str, Any] = {"linewidths": 0.8, "zorder": 3 if number in falls else 2}
        ends = (block.vertices if places is None else places[number])[_edges(block)]
        gid = "falls" if number in falls else "block"
        lines = camera.lines(ends[:, 0], ends[:, 1])
        canvas.add_lines(axes, lines, colors=colour, gid=gid, **style)


def _draw_thrusts(axes: Axes, drawn: Thrusts, camera: Camera, box: FloatArray, colour: str) -> None:
    """Forces in the joints as lines through their centres of pressure, and thrust lines."""
    longest = float(np.linalg.norm(drawn.forces, axis=1).max(initial=1e-300))
    half = 0.5 * _LONGEST * float(np.ptp(box[:, 0])) / longest * drawn.forces
    lines = camera.lines(drawn.points - half, drawn.points + half)
    style: dict[str, Any] = {"colors": colour, "capstyle": "round"}
    canvas.add_lines(axes, lines, linewidths=1.7, zorder=4, gid="forces", **style)
    x, y = camera.project(drawn.points)[0].T
    axes.scatter(x, y, s=8, color=colour, zorder=5)
    for line in drawn.lines():
        segments = camera.lines(line[:-1], line[1:])
        canvas.add_lines(axes, segments, linewidths=0.9, zorder=4, gid="thrust line", **style)


def _edges(block: Block) -> IntArray:
    """(n, 2) corners of each edge of a block, each once; none within a flat part of its surface."""
    normals, _ = block.planes
    faces_of: dict[tuple[int, int], list[int]] = {}
    for k, loop in enumerate(block.faces):
        for a, b in zip(loop.tolist(), np.roll(loop, -1).tolist(), strict=True):
            faces_of.setdefault((min(a, b), max(a, b)), []).append(k)
    sharp = [e for e, (i, *j) in faces_of.items() if not j or normals[i] @ normals[j[0]] < _FLAT]
    return np.array(sharp)
