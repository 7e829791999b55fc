"""Bodies of a scene in pictures by matplotlib: walls, solids, discs and spheres."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt.plots import canvas
from cdopt.plots.palette import BODY, EDGE, FIXED, QUIET
from cdopt.plots.projection import Camera, painted
from cdopt.plots.solids import Solids
from cdopt.scene import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHADE = 0.78  # of its colour, of a face turned from the light


def draw_bodies(axes: Axes, solids: Solids, state: State, camera: Camera) -> None:
    """Every body: lines or patches for walls, outlines of solids, discs and spheres."""
    dim = solids.scene.dim
    for patch in solids.patches(state):
        if dim == 2:
            axes.plot(*patch[:, :2].T, color=QUIET, linewidth=1.2, zorder=0.9)
        else:
            corners = camera.project(patch)[0].T
            axes.fill(*corners, color=FIXED, alpha=0.35, linewidth=0, zorder=0.5)
    _solids(axes, solids, state, camera)
    fixed = solids.scene.bodies.fixed[solids.balls]
    draw_discs(axes, camera, state.position[solids.balls], solids.radii, fixed)


def box_of(solids: Solids, state: State, camera: Camera) -> FloatArray:
    """Lower left and upper right corner of what is drawn, m."""
    dim = solids.scene.dim
    reach = solids.scene.bodies.reach
    bounded = np.isfinite(reach)
    centres, _, larger = camera.project(state.position[bounded][:, :dim])
    wide = (reach[bounded] * larger)[:, None]
    walls = camera.project(solids.patches(state).reshape(-1, 3)[:, :dim])[0]
    corners = np.concatenate([centres - wide, centres + wide, walls])
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = 0.04 * max(float((high - low).max()), 1e-12)
    return np.stack([low - margin, high + margin])


def _solids(axes: Axes, solids: Solids, state: State, camera: Camera) -> None:
    """Bodies that are no spheres: outlines in the plane; in space visible faces, far ones first.

    Flat faces have edges and are shaded by how they are turned; round pieces are silhouettes.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba_array

    faces = painted(solids.meshes, state, camera)
    fixed = solids.scene.bodies.fixed[[face.body for face in faces]]
    bright = np.array([_SHADE + (1.0 - _SHADE) * face.light for face in faces])
    colours = to_rgba_array(np.where(fixed, FIXED, BODY).tolist())[:, :3]
    edges: dict[str, Any] = {"edgecolors": EDGE, "linewidths": 0.6, "joinstyle": "round"}
    shades = bright[:, None] * colours
    polygons = PolyCollection(
        [face.ring for face in faces], facecolors=shades, zorder=0.8, gid="solids", **edges
    )
    axes.add_collection(polygons, autolim=False)


def draw_discs(
    axes: Axes, camera: Camera, centres: FloatArray, radii: FloatArray, fixed: BoolArray
) -> None:
    """Round bodies: filled discs, fixed ones darker; in perspective faint outlines."""
    flat, near, larger = camera.project(centres)
    order = np.argsort(near)
    colours: Any = np.where(fixed, FIXED, BODY)[order].tolist()
    style = {"facecolors": "none" if camera.deep else colours, "zorder": 1, "gid": "bodies"}
    canvas.add_discs(axes, flat[order], (radii * larger)[order], **style)
