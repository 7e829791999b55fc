"""Block models with the forces in their joints, or with the blocks that fall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.geometry.blocks import Block
from cdopt.hyperstatic import StabilityVerdict
from cdopt.plots import canvas
from cdopt.plots.bodies import Camera
from cdopt.plots.chains import joints
from cdopt.plots.judged import WRONG
from cdopt.plots.palette import FRICTION, QUIET, RULE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONGEST = 0.2  # share of the picture's width that the largest force takes
_FLAT = 1.0 - 1e-6  # cosine of the angle between faces that are one
_ROOM = 0.05  # of the picture's size, around the blocks


def structure(
    found: StabilityVerdict,
    *,
    view: str = "isometric",
    title: str = "",
    subtitle: str | None = None,
) -> Figure:
    """The edges of all blocks, and forces in the joints that balance the weights.

    A line through the centre of pressure of each joint is the force between its two blocks. Where
    no forces balance the weights there are none, and blocks that fall are red.

    Parameters
    ----------
    found : what ``cdopt.stability`` says of a block model.
    view : "side" (x to the right, z up), "isometric" or "perspective".
    subtitle : by default the summary.

    Raises
    ------
    InvalidInput : a structure that is no block model, or no such view.
    """
    model = checks.instance("found", found, StabilityVerdict).model
    if model is None:
        raise InvalidInput("found", "a structure without blocks", "stability of a block model")
    corners = np.concatenate([block.vertices for block in model.blocks])
    camera = Camera.facing(corners, view)
    flat = camera.project(corners)[0]
    low, high = flat.min(axis=0), flat.max(axis=0)
    room = _ROOM * float((high - low).max())
    box = np.stack([low - room, high + room])
    figure, (axes,) = canvas.panels_of(1, box, foot=0.2, caption=0.1)
    numbers = np.unique(np.asarray(found.step.dof_body))
    falls = set(numbers[found.moving].tolist())
    for number, block in enumerate(model.blocks):
        colour = WRONG if number in falls else QUIET if model.fixed[number] else RULE
        style: dict[str, Any] = {"linewidths": 0.8, "zorder": 3 if number in falls else 2}
        start, end = _edges(block)
        gid = "falls" if number in falls else "block"
        canvas.add_lines(axes, camera.lines(start, end), colors=colour, gid=gid, **style)
    f, f_t = found.associated.f, found.associated.f_t
    if found.admissible and f is not None and f_t is not None:
        centre, force = joints(found.step, f, f_t)
        longest = float(np.linalg.norm(force, axis=1).max(initial=1e-300))
        half = 0.5 * _LONGEST * float(np.ptp(box[:, 0])) / longest * force
        lines = camera.lines(centre - half, centre + half)
        canvas.add_lines(axes, lines, colors=FRICTION, linewidths=1.8, zorder=4, gid="forces")
    canvas.without_ticks(axes, box)
    canvas.emphasise(axes, False)
    return canvas.headline(figure, title, found.summary if subtitle is None else subtitle)


def _edges(block: Block) -> tuple[FloatArray, FloatArray]:
    """Ends (n, 3) m of the edges of a block, each once; none within a flat part of its surface."""
    normals, _ = block.planes
    beside: dict[tuple[int, int], list[int]] = {}
    for k, loop in enumerate(block.faces):
        for a, b in zip(loop.tolist(), np.roll(loop, -1).tolist(), strict=True):
            beside.setdefault((min(a, b), max(a, b)), []).append(k)
    sharp = [e for e, (i, *j) in beside.items() if not j or normals[i] @ normals[j[0]] < _FLAT]
    ends = np.array(sharp)
    return block.vertices[ends[:, 0]], block.vertices[ends[:, 1]]
