"""Bodies of a scene on paper: projections, the visible faces of solids in drawing order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from scipy.spatial import ConvexHull

from cdopt._util.checks import BoolArray, FloatArray, IntArray, one_of
from cdopt.geometry.rotations import unit
from cdopt.plots import canvas
from cdopt.plots.palette import BODY, EDGE, FIXED, QUIET
from cdopt.plots.solids import Meshes, Solids
from cdopt.scene import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VIEWS = ("side", "isometric", "perspective")
View = Annotated[str, one_of(VIEWS)]

_TURN = {"side": 0.0, "isometric": 35.0, "perspective": 30.0}  # about the vertical, degrees
_TILT = {"side": 0.0, "isometric": 25.0, "perspective": 22.0}  # looking down, degrees
_AWAY = 2.2  # distance of the eye, in diagonals of the scene
_LIGHT = np.array([-0.37, -0.56, 0.74])  # where light comes from
_ROUND = 0.6  # light on round pieces, which have one shade
_DEEP = 0.02  # of its extent: how far a piece may reach behind a face and still be before it


@dataclass(frozen=True, eq=False)
class Camera:
    """Where things are looked at from.

    Attributes
    ----------
    view : of space: "side" (x to the right, z up), "isometric" (parallel, from above), or
        "perspective". The plane is looked at straight.
    centre : (2,) or (3,) m, the point that stays in the middle.
    distance : m, from the eye to the centre, in perspective.
    """

    view: str
    centre: FloatArray
    distance: float

    @staticmethod
    def facing(points: FloatArray, view: str) -> Camera:
        """A camera that looks at the middle of points (n, 2 or 3), from far enough away."""
        low, high = points.min(axis=0), points.max(axis=0)
        size = float(np.linalg.norm(high - low))
        return Camera(view, 0.5 * (low + high), _AWAY * max(size, 1e-12))

    @property
    def deep(self) -> bool:
        """Whether nearer things hide farther ones, and are larger."""
        return self.view == "perspective" and self.centre.shape[0] == 3

    def project(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where points (n, 2 or 3) appear.

        Returns
        -------
        Plane coordinates (n, 2) m; depth (n,) m, larger nearer to the reader; magnification
        (n,), one in parallel projections.
        """
        if points.shape[1] == 2:
            return points, np.zeros(points.shape[0]), np.ones(points.shape[0])
        turn, tilt = np.deg2rad(_TURN[self.view]), np.deg2rad(_TILT[self.view])
        x, y, z = (points - self.centre).T
        right = np.cos(turn) * x + np.sin(turn) * y
        away = -np.sin(turn) * x + np.cos(turn) * y
        up = z * np.cos(tilt) + away * np.sin(tilt)
        depth = z * np.sin(tilt) - away * np.cos(tilt)
        larger = np.ones(points.shape[0])
        if self.deep:
            larger = self.distance / (self.distance - depth)
        return np.column_stack([right, up]) * larger[:, None], depth, larger


# --- the painter's algorithm -----------------------------------------------------------


class Face(NamedTuple):
    """A visible face of a solid: ``ring`` (n, 2) m on paper, anticlockwise.

    ``light`` from 0 to 1 is how far it is turned to the light. ``body`` is whose it is.
    """

    ring: FloatArray
    light: float
    body: int


class _Piece(NamedTuple):
    """A convex piece: corners (n, 3), and of its faces normals, offsets, visibility."""

    corners: FloatArray
    normals: FloatArray
    offsets: FloatArray
    visible: BoolArray
    shown: list[Face]


def painted(meshes: Meshes, state: State, camera: Camera) -> list[Face]:
    """The faces to draw: outlines in the plane; in space the visible flat faces, and silhouettes.

    In space the farthest come first. A piece covers another if a plane of a face separates them so,
    and else if it is nearer in the mean.
    """
    if state.dim == 2:
        rings = meshes.faces(meshes.placed(state)[:, :2])
        outlines = zip(meshes.outlines, meshes.piece_body, strict=True)
        return [Face(rings[k], 1.0, int(body)) for k, body in outlines]
    corners = meshes.placed(state)
    flat, near, _ = camera.project(corners)
    rings = meshes.faces(flat)
    a, b, c = (meshes.loops[meshes.first_loop[:-1] + k] for k in range(3))
    normals = unit(np.cross(corners[b] - corners[a], corners[c] - corners[a]))
    offsets = (normals * corners[a]).sum(axis=1)
    arm, leg = flat[b] - flat[a], flat[c] - flat[a]
    visible = arm[:, 0] * leg[:, 1] > arm[:, 1] * leg[:, 0]  # anticlockwise on paper too
    light = 0.5 + 0.5 * normals @ _LIGHT
    starts = np.append(meshes.outlines, meshes.piece.size).tolist()
    pieces, boxes, mean = [], [], []
    for number, (first, end) in enumerate(pairwise(starts)):
        body, part = int(meshes.piece_body[number]), slice(first, end)
        used = np.unique(meshes.loops[meshes.first_loop[first] : meshes.first_loop[end]])
        if meshes.smooth[first]:
            shown = [Face(flat[used][ConvexHull(flat[used]).vertices], _ROUND, body)]
        else:
            faces = first + np.flatnonzero(visible[part])
            shown = [Face(rings[k], float(light[k]), body) for k in faces]
        pieces.append(_Piece(corners[used], normals[part], offsets[part], visible[part], shown))
        boxes.append((flat[used].min(axis=0), flat[used].max(axis=0)))
        mean.append(float(near[used].mean()))
    order = _order(pieces, np.array(boxes).reshape(-1, 2, 2), mean)
    return [face for k in order for face in pieces[k].shown]


def _order(pieces: list[_Piece], boxes: FloatArray, mean: list[float]) -> list[int]:
    """Pieces in an order in which none covers an earlier one; in a cycle the farthest first."""
    above: list[list[int]] = [[] for _ in pieces]
    below = [0] * len(pieces)
    for a, b in _overlapping(boxes).tolist():
        front = _front(pieces[a], pieces[b]) or (1 if mean[b] > mean[a] else -1)
        under, over = (a, b) if front > 0 else (b, a)
        above[under].append(over)
        below[over] += 1
    ready = [(mean[k], k) for k in range(len(pieces)) if below[k] == 0]
    heapq.heapify(ready)
    remaining = set(range(len(pieces)))
    order = []
    while remaining:
        k = heapq.heappop(ready)[1] if ready else min(remaining, key=mean.__getitem__)
        if k not in remaining:
            continue
        remaining.remove(k)
        order.append(k)
        for over in above[k]:
            below[over] -= 1
            if below[over] == 0:
                heapq.heappush(ready, (mean[over], over))
    return order


def _overlapping(boxes: FloatArray) -> IntArray:
    """(n, 2) pairs a < b of boxes (np, 2, 2) on paper that overlap."""
    low, high = boxes[:, 0], boxes[:, 1]
    overlap = ((low[:, None] < high) & (high[:, None] > low)).all(axis=2)
    return np.argwhere(np.triu(overlap, 1))


def _front(a: _Piece, b: _Piece) -> int:
    """1 if b may cover a, −1 if a may cover b, 0 if no face's plane separates them."""
    best, answer = 0.0, 0
    for this, other, sign in ((a, b, 1), (b, a, -1)):
        along = other.corners @ this.normals.T
        lowest = along.min(axis=0)
        height = (lowest - this.offsets) / (along.max(axis=0) - lowest)
        face = int(height.argmax())
        if answer == 0 or height[face] > best:
            best, answer = float(height[face]), sign if this.visible[face] else -sign
    return answer if best > -_DEEP else 0


# --- drawing -------------------------------------------------------------------------------

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
