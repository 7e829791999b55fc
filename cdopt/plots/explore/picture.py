"""The picture of a page: bodies, contacts and the load, in metres, as the page's script draws them.

Coordinates are those of the scene. The page projects them, so that scenes in space can be turned.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, cKDTree

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.plots.explore.loads import WEIGHT, Load
from cdopt.plots.solids import Solids
from cdopt.problem.contact_step import Step
from cdopt.scene import Scene, State

_THICK = 0.03  # of a platform's length: how thick it is drawn
_PROP = 0.07  # of a platform's length: how tall its supports are drawn
_LONGEST = 0.26, 0.12  # arrows, of the picture's size: few contacts, and many
_FEW = 8
_BAR = 0.6  # of the way to the next contact: bars between bodies, so that each stands alone
_OVER = 1.2  # size of a platform over that of its supports, if only these are known
_TINY = 1e-12  # m: extents that count as none

Reach = tuple[FloatArray, FloatArray]


def of_bodies(
    scene: Scene, state: State, posed: Step, contacts: IntArray, upward: BoolArray, load: Load
) -> dict[str, Any]:
    """Bodies of a scene in a state, its closed contacts, and where the load's arrow may end."""
    solids = Solids.of(scene, state.position)
    fixed = scene.bodies.fixed
    shapes = shapes_of(solids, state)
    points, normals = np.asarray(posed.points)[contacts], np.asarray(posed.normals)[contacts]
    both_free = ~fixed[np.asarray(posed.bodies)[contacts]].any(axis=1)
    free = np.flatnonzero(~fixed)
    anchor = state.position[free].mean(axis=0)
    anchor[-1] = reach_of(scene, state, free)[1][-1]
    size = float(np.linalg.norm((solids.high - solids.low)[: scene.dim]))
    return _picture(shapes, points, normals, upward, both_free, _heads(anchor, load), size)


def of_platform(posed: Step, contacts: IntArray, load: Load) -> dict[str, Any]:
    """A plain platform on supports, for a step whose bodies have no shape."""
    points, normals = np.asarray(posed.points)[contacts], np.asarray(posed.normals)[contacts]
    dim = points.shape[1]
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    wide = float(np.ptp(points, axis=0).max())
    under = (middle + _OVER * (points - middle))[:, : dim - 1]
    under = under[_hull(under)] if dim == 3 else np.sort(under, axis=0)[[0, -1]]
    low = np.column_stack([under, np.full(len(under), points[:, -1].max())])
    high = low + np.append(np.zeros(dim - 1), _THICK * wide)
    shape: dict[str, Any] = {"fixed": False}
    if dim == 2:
        shape["outline"] = [*low.tolist(), *high[::-1].tolist()]
    else:
        sides = [np.vstack([low[[a, b]], high[[b, a]]]) for a, b in pairwise([*range(len(low)), 0])]
        shape["rings"] = [ring.tolist() for ring in (low[::-1], high, *sides)]
    props = [{"prop": at, "tall": _PROP * wide, "fixed": True} for at in points.tolist()]
    anchor = np.append(middle[:-1], high[:, -1].max())
    upward, none = np.ones(len(points), dtype=bool), np.zeros(len(points), dtype=bool)
    size, shapes = _OVER * float(np.linalg.norm(np.ptp(points, axis=0))), [*props, shape]
    return _picture(shapes, points, normals, upward, none, _heads(anchor, load), size)


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


def shapes_of(solids: Solids, state: State) -> list[dict[str, Any]]:
    """All bodies, those further back first."""
    return [*_walls(solids, state), *_solids(solids, state), *_balls(solids, state)]


def _solids(solids: Solids, state: State) -> list[dict[str, Any]]:
    """Bodies that are no spheres: outlines in the plane; in space faces, of round ones points."""
    meshes, fixed, shapes = solids.meshes, solids.scene.bodies.fixed, []
    rings = meshes.faces(meshes.placed(state)[:, : state.dim])
    ends = np.append(meshes.outlines, meshes.piece.size).tolist()
    for number, (first, end) in enumerate(pairwise(ends)):
        shape: dict[str, Any] = {"fixed": bool(fixed[meshes.piece_body[number]])}
        if state.dim == 2:
            shape["outline"] = rings[first].tolist()
        elif meshes.smooth[first]:
            shape["cloud"] = np.unique(np.concatenate(rings[first:end]), axis=0).tolist()
        else:
            shape["rings"] = [ring.tolist() for ring in rings[first:end]]
        shapes.append(shape)
    return shapes


def _balls(solids: Solids, state: State) -> list[dict[str, Any]]:
    """Discs and spheres; fixed ones are supports, and lie below the others in the plane."""
    fixed = solids.scene.bodies.fixed[solids.balls]
    centres = state.position[solids.balls].tolist()
    return [
        {"centre": centres[k], "radius": float(solids.radii[k]), "fixed": bool(fixed[k])}
        for k in np.argsort(~fixed, kind="stable")
    ]


def _walls(solids: Solids, state: State) -> list[dict[str, Any]]:
    """Half-spaces, as far as the bodies reach: bands in the plane, floors in space."""
    shapes = []
    for patch, normal in zip(solids.patches(state), solids.normals, strict=True):
        if solids.scene.dim == 2:
            ends = patch[[0, 1], :2]
            patch = np.vstack([ends, ends[::-1] - 0.25 * solids.thick * normal[:2]])
        elif normal[2] <= 0.5:
            continue
        shapes.append({"outline": patch.tolist(), "fixed": True})
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
    size: float,
) -> dict[str, Any]:
    """Shapes, contacts and the lengths of arrows and bars, as the page reads them."""
    push = np.where(upward, 1.0, -1.0)[:, None] * normals
    long = _LONGEST[0 if len(points) <= _FEW else 1] * size
    bar = long
    if len(points) > 1:
        apart = cKDTree(points).query(points, k=2)[0][:, 1]
        bar = min(long, _BAR * float(np.median(apart))) or long
    arrows = zip(points.tolist(), push.tolist(), both_free.tolist(), strict=True)
    return {
        "shapes": shapes,
        "contacts": [{"at": a, "push": d, "inside": free} for a, d, free in arrows],
        "long": long,
        "bar": bar,
        "heads": heads.tolist(),
    }


def _hull(points: FloatArray) -> IntArray:
    """Numbers of the corners of the convex hull in the plane, in order; of flat ones the ends."""
    if np.ptp(points, axis=0).min() < _TINY:
        return np.lexsort(points.T)[[0, -1]]
    return np.asarray(ConvexHull(points).vertices)
