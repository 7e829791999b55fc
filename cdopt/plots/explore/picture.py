"""The picture of a page: outlines of bodies, positions of contacts and of the load.

Coordinates are those of the screen, x to the right and y down, in metres. Scenes in space are shown
in an isometric view.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.plots.explore.loads import WEIGHT, Load
from cdopt.plots.projection import Camera, painted
from cdopt.plots.solids import Solids
from cdopt.problem.contact_step import Step
from cdopt.scene import Scene, State

_THICK = 0.03  # of a platform's length: how thick it is drawn
_LONGEST = 0.26, 0.12  # arrows, of the picture's size: few contacts, and many
_FEW = 8
_MARGIN = 0.05  # of the picture's size, around it
_OVER = 1.2  # size of a platform over that of its supports, if only these are known
_TINY = 1e-12  # m: extents that count as none

Reach = tuple[FloatArray, FloatArray]


def of_bodies(
    scene: Scene, state: State, posed: Step, contacts: IntArray, upward: BoolArray, load: Load
) -> dict[str, Any]:
    """Bodies of a scene in a state, its closed contacts, and space for the load's arrow."""
    solids = Solids.of(scene, state.position)
    view, fixed = _view(scene.dim), scene.bodies.fixed
    balls = _balls(solids, state)
    shapes = [  # fixed balls are supports, and lie below the bodies that rest on them
        *_walls(solids, state, view),
        *(ball for ball in balls if ball["fixed"]),
        *_solids(solids, state),
        *(ball for ball in balls if not ball["fixed"]),
    ]
    points, normals = np.asarray(posed.points)[contacts], np.asarray(posed.normals)[contacts]
    both_free = ~fixed[np.asarray(posed.bodies)[contacts]].any(axis=1)
    free = np.flatnonzero(~fixed)
    anchor = state.position[free].mean(axis=0)
    anchor[-1] = reach_of(scene, state, free)[1][-1]
    return _picture(shapes, points, normals, upward, both_free, _heads(anchor, load), view)


def of_platform(posed: Step, contacts: IntArray, load: Load) -> dict[str, Any]:
    """A plain platform on its contacts, for a step whose bodies have no shape."""
    points, normals = np.asarray(posed.points)[contacts], np.asarray(posed.normals)[contacts]
    dim = points.shape[1]
    view = _view(dim)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    under = middle + _OVER * (points - middle)
    over = under + np.append(np.zeros(dim - 1), _THICK * float(np.ptp(points, axis=0).max()))
    shapes = [
        {"outline": _hull(corners @ view.T), "fixed": False}
        for corners in (np.vstack([under, over]), over)[: dim - 1]
    ]
    anchor = np.append(middle[:-1], over[:, -1].max())
    upward, none = np.ones(len(points), dtype=bool), np.zeros(len(points), dtype=bool)
    return _picture(shapes, points, normals, upward, none, _heads(anchor, load), view)


def reach_of(scene: Scene, state: State, bodies: IntArray) -> Reach:
    """(dim,) least and largest coordinates of bodies that are no half-spaces, m."""
    solids = Solids.of(scene, state.position)
    corners = solids.meshes.placed(state)[np.isin(solids.meshes.owner, bodies), : scene.dim]
    chosen = np.isin(solids.balls, bodies)
    centres, radii = state.position[solids.balls[chosen]], solids.radii[chosen, None]
    reached = np.concatenate([corners, centres - radii, centres + radii])
    return reached.min(axis=0), reached.max(axis=0)


def reach_of_platform(points: FloatArray) -> Reach:
    """(dim,) least and largest coordinates of a platform known by its contact points alone, m."""
    low, high = points.min(axis=0), points.max(axis=0)
    beyond = 0.5 * (_OVER - 1.0) * (high - low)
    return low - beyond, high + beyond


# --- shapes ----------------------------------------------------------------------------


def _camera(dim: int) -> Camera:
    return Camera("isometric", np.zeros(dim), 1.0)


def _view(dim: int) -> FloatArray:
    """(2, dim) from positions to the screen."""
    axes, _, _ = _camera(dim).project(np.eye(dim))
    return axes.T * np.array([[1.0], [-1.0]])


def _solids(solids: Solids, state: State) -> list[dict[str, Any]]:
    """Outlines of bodies that are no spheres; in space their visible faces, far ones first."""
    fixed = solids.scene.bodies.fixed
    return [
        {"outline": (face.ring * [1.0, -1.0]).tolist(), "fixed": bool(fixed[face.body])}
        for face in painted(solids.meshes, state, _camera(state.dim))
    ]


def _balls(solids: Solids, state: State) -> list[dict[str, Any]]:
    """Circles of discs and spheres, far ones first."""
    flat, near, _ = _camera(solids.scene.dim).project(state.position[solids.balls])
    fixed = solids.scene.bodies.fixed[solids.balls]
    return [
        {"circle": [flat[k, 0], -flat[k, 1], solids.radii[k]], "fixed": bool(fixed[k])}
        for k in np.argsort(near, kind="stable")
    ]


def _walls(solids: Solids, state: State, view: FloatArray) -> list[dict[str, Any]]:
    """Half-spaces, as far as the bodies reach: bands in the plane, floors in space."""
    shapes = []
    for patch, normal in zip(solids.patches(state), solids.normals, strict=True):
        if solids.scene.dim == 2:
            ends = patch[[0, 1], :2]
            patch = np.vstack([ends, ends[::-1] - 0.25 * solids.thick * normal[:2]])
        elif normal[2] <= 0.5:
            continue
        shapes.append({"outline": (patch @ view.T).tolist(), "fixed": True})
    return shapes


def _heads(anchor: FloatArray, load: Load) -> FloatArray:
    """(n, dim) m: where the load's arrow ends, at first and at the sliders' ends."""
    if load.kind != WEIGHT:
        return anchor[None]
    ends = np.array(np.meshgrid(*zip(load.low[1:], load.high[1:], strict=True)))
    positions = ends.reshape(len(load.low) - 1, -1).T
    heights = np.full((len(positions), 1), anchor[-1])
    return np.vstack([anchor, np.hstack([positions, heights])])


def _picture(
    shapes: list[dict[str, Any]],
    points: FloatArray,
    normals: FloatArray,
    upward: BoolArray,
    both_free: BoolArray,
    heads: FloatArray,
    view: FloatArray,
) -> dict[str, Any]:
    """Shapes, contacts and the box around them and around all arrows, as the page reads them."""
    at = points @ view.T
    push = (np.where(upward, 1.0, -1.0)[:, None] * normals) @ view.T
    corners = [at]
    for shape in shapes:
        x, y, r = shape.get("circle", (0.0, 0.0, 0.0))
        corners.append(np.array(shape.get("outline", [[x - r, y - r], [x + r, y + r]])))
    low, high = np.concatenate(corners).min(axis=0), np.concatenate(corners).max(axis=0)
    size = float(np.linalg.norm(high - low))
    long = _LONGEST[0 if len(points) <= _FEW else 1] * size
    tails, load_ends = (at - long * push)[~both_free], heads @ view.T
    ends = np.vstack([low, high, tails, load_ends, load_ends - [0.0, 1.15 * long]])
    low, high = ends.min(axis=0) - _MARGIN * size, ends.max(axis=0) + _MARGIN * size
    arrows = zip(at.tolist(), push.tolist(), both_free.tolist(), strict=True)
    return {
        "shapes": shapes,
        "contacts": [{"at": a, "push": d, "inside": free} for a, d, free in arrows],
        "box": [*low.tolist(), *(high - low).tolist()],
        "long": long,
        "view": view.tolist(),
        "anchor": heads[0].tolist(),
    }


def _hull(points: FloatArray) -> list[list[float]]:
    """Corners of the convex hull in the plane, in order; of flat ones the two ends."""
    if np.ptp(points, axis=0).min() < _TINY:
        order = np.lexsort(points.T)
        return points[[order[0], order[-1]]].tolist()
    hull: list[list[float]] = points[ConvexHull(points).vertices].tolist()
    return hull
