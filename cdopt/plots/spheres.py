"""Piles of spheres in perspective, each in the colour of a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.plots.camera import Camera
from cdopt.plots.canvas import SMALL, TEXT, WIDTH, grid_columns, head, headline, panels
from cdopt.plots.palette import INK, QUIET, force_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAR = 0.75  # inches for the colour bar
_MOST = 5.4  # inches, the width of a single panel

Panel = tuple[str, str, FloatArray, FloatArray]


def sphere_maps(
    shown: Sequence[Panel],
    radius: FloatArray,
    label: str,
    *,
    view: str = "perspective",
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """A panel per state: all spheres, the nearer in front, coloured on one scale.

    Parameters
    ----------
    shown : for every panel (name, note, centres (nb, 3) m, values (nb,)).
    radius : (nb,) m.
    label : of the values, with their unit.
    view : as in ``force_chains``.

    Raises
    ------
    InvalidInput : no panels, or arrays of different lengths.
    """
    if not shown:
        raise InvalidInput("shown", "no panels", "at least one")
    for _, _, centres, values in shown:
        if centres.shape != (radius.size, 3) or values.shape != (radius.size,):
            found = f"centres {centres.shape}, values {values.shape}"
            raise InvalidInput("shown", found, f"({radius.size}, 3) and ({radius.size},)")
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    camera = Camera.facing(np.concatenate([part[2] for part in shown]), view)
    box = _box(camera, [part[2] for part in shown], float(radius.max()))
    top = max(float(part[3].max(initial=0.0)) for part in shown) or 1.0
    scale = ScalarMappable(Normalize(0.0, top), force_colours())
    columns = 2 if len(shown) == 4 else grid_columns(len(shown))
    width = WIDTH if columns > 1 else _MOST
    tall = 0.94 * width / columns * float(np.ptp(box[:, 1]) / np.ptp(box[:, 0]))
    figure, axes = panels(len(shown), columns, tall, foot=_BAR, caption=0.6, width=width)
    for panel, (name, note, centres, values) in zip(axes, shown, strict=True):
        _spheres(panel, camera, centres, radius, scale.to_rgba(values))
        panel.set_xlim(box[0, 0], box[1, 0])
        panel.set_ylim(box[0, 1], box[1, 1])
        panel.set_aspect("equal")
        panel.set_xticks([])
        panel.set_yticks([])
        for spine in panel.spines.values():
            spine.set_visible(False)
        head(panel, name, note, "")
    bar = figure.colorbar(
        scale, ax=axes, orientation="horizontal", fraction=0.05, shrink=0.55, aspect=42
    )
    bar.set_label(label, fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, length=3.0)
    bar.outline.set_visible(False)
    headline(figure, title, subtitle)
    return figure


def _box(camera: Camera, places: list[FloatArray], radius: float) -> FloatArray:
    """Lower left and upper right corner on paper, m."""
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for centres in places:
        flat, _, larger = camera.place(centres)
        reach = 1.05 * radius * larger[:, None]
        low, high = np.minimum(low, (flat - reach).min(0)), np.maximum(high, (flat + reach).max(0))
    return np.array([low, high])


def _spheres(
    axes: Any, camera: Camera, centres: FloatArray, radius: FloatArray, colours: FloatArray
) -> None:
    """Discs from back to front, each with a highlight that makes it round."""
    from matplotlib.collections import EllipseCollection

    flat, near, larger = camera.place(centres)
    back = np.argsort(near, kind="stable")
    wide = 2.0 * (radius * larger)[back]
    shine = colours[back].copy()
    shine[:, :3] += 0.28 * (1.0 - shine[:, :3])
    place = np.stack([flat[back], flat[back] + wide[:, None] * [-0.09, 0.11]], axis=1)
    discs = EllipseCollection(
        np.column_stack([wide, 0.38 * wide]).ravel(), np.column_stack([wide, 0.38 * wide]).ravel(),
        np.zeros(2 * wide.size), units="xy", offsets=place.reshape(-1, 2),
        offset_transform=axes.transData,
        facecolors=np.stack([colours[back], shine], axis=1).reshape(-1, 4),
        edgecolors=np.tile([INK, "none"], wide.size).tolist(), linewidths=0.3,
    )  # fmt: skip
    discs.set_gid("spheres")
    axes.add_collection(discs, autolim=False)
