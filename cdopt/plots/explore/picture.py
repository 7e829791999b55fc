"""The picture of a page: outlines of bodies, where contacts push, and where a load may stand.

All in the plane of the screen, x to the right and y down, in metres. Scenes in space are seen from
above one corner, without perspective.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.geometry.rotations import matrices
from cdopt.plots.explore.loads import WEIGHT, Load
from cdopt.plots.solids import Solids
from cdopt.problem.contact_step import Step
from cdopt.scene import Scene, State

_TOWARDS = np.array([0.30, -0.86, 0.42])  # from the scene to the eye
_AROUND = 24  # corners of a round end
_THICK = 0.03  # of a platform's length: how thick it is drawn
_LONGEST = 0.26, 0.12  # arrows, of the picture's size: few contacts, and many
_FEW = 8
_ROOM = 0.05  # of the picture's size, around it
_OVER = 1.2  # how much larger than its supports a platform is that is known by nothing else
_TINY = 1e-12  # m: extents that count as none


Reach = tuple[FloatArray, FloatArray]


def of_bodies(
    scene: Scene, state: State, posed: Step, contacts: IntArray, upward: BoolArray,
    load: Load,
) -> dict[str, Any]:  # fmt: skip
    """Bodies of a scene in a state, its closed contacts, and room for the load's arrow."""
    solids = Solids.of(scene, state.position)
    view = _view(scene.dim)
    shapes = _walls(scene, solids, state, view)
    shapes += sorted(
        [shape for body in range(scene.nb) for shape in _body(scene, state, body, view)],
        key=lambda shape: shape["depth"],
    )
    bodies = np.asarray(posed.bodies)[contacts]
    both_free = ~scene.bodies.fixed[bodies].any(axis=1)
    points, normals = np.asarray(posed.points)[contacts], np.asarray(posed.normals)[contacts]
    free = np.flatnonzero(~scene.bodies.fixed)
    anchor = state.position[free].mean(axis=0)
    anchor[-1] = reach_of(scene, state, free)[1][-1]
    heads = _heads(anchor, load)
    return _picture(shapes, points, normals, upward, both_free, heads, view)


def of_platform(posed: Step, contacts: IntArray, load: Load) -> dict[str, Any]:
    """A plain platform on its contacts, where nothing is known but these."""
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
    low, high = [], []
    for body in bodies:
        pieces = _corners(scene, state, int(body))
        at, wide = state.position[body], scene.bodies.reach[body]
        low += [c.min(axis=0) - r for c, r, _ in pieces] or [at - wide]
        high += [c.max(axis=0) + r for c, r, _ in pieces] or [at + wide]
    return np.min(low, axis=0), np.max(high, axis=0)


def reach_of_platform(points: FloatArray) -> Reach:
    """(dim,) least and largest coordinates of a platform known by its contact points alone, m."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.5 * (_OVER - 1.0) * (high - low)
    return low - room, high + room


def _heads(anchor: FloatArray, load: Load) -> FloatArray:
    """(n, dim) m: where the load's arrow ends, at first and at the sliders' ends."""
    if load.kind != WEIGHT:
        return anchor[None]
    ends = np.array(np.meshgrid(*zip(load.low[1:], load.high[1:], strict=True)))
    places = ends.reshape(len(load.low) - 1, -1).T
    heights = np.full((len(places), 1), anchor[-1])
    return np.vstack([anchor, np.hstack([places, heights])])


def _picture(
    shapes: list[dict[str, Any]], points: FloatArray, normals: FloatArray, upward: BoolArray,
    both_free: BoolArray, heads: FloatArray, view: FloatArray,
) -> dict[str, Any]:  # fmt: skip
    at = points @ view.T
    push = (np.where(upward, 1.0, -1.0)[:, None] * normals) @ view.T
    seen = [*(np.array(shape["outline"]) for shape in shapes if "outline" in shape), at]
    for shape in shapes:
        if "circle" in shape:
            x, y, r = shape["circle"]
            seen.append(np.array([[x - r, y - r], [x + r, y + r]]))
    low = np.concatenate(seen).min(axis=0)
    high = np.concatenate(seen).max(axis=0)
    size = float(np.linalg.norm(high - low))
    long = _LONGEST[0 if len(points) <= _FEW else 1] * size
    tails = (at - long * push)[~both_free]
    ends_of_load = heads @ view.T
    ends = np.vstack([low, high, tails, ends_of_load, ends_of_load - [0.0, 1.15 * long]])
    low, high = ends.min(axis=0) - _ROOM * size, ends.max(axis=0) + _ROOM * size
    return {
        "shapes": [{k: v for k, v in shape.items() if k != "depth"} for shape in shapes],
        "contacts": [
            {"at": a, "push": d, "inside": bool(free)}
            for a, d, free in zip(at.tolist(), push.tolist(), both_free, strict=True)
        ],
        "box": [*low.tolist(), *(high - low).tolist()],
        "long": long,
        "view": view.tolist(),
        "anchor": heads[0].tolist(),
    }


def _view(dim: int) -> FloatArray:
    """(2, dim) from places to the screen."""
    if dim == 2:
        return np.array([[1.0, 0.0], [0.0, -1.0]])
    eye = _TOWARDS / np.linalg.norm(_TOWARDS)
    right = np.cross([0.0, 0.0, 1.0], eye)
    right /= np.linalg.norm(right)
    return np.array([right, -np.cross(eye, right)])


def _corners(scene: Scene, state: State, body: int) -> list[tuple[FloatArray, float, int]]:
    """Corners (n, dim) m of a body's convex pieces, how round each is, and its number."""
    hulls = scene.bodies.hulls
    if len(hulls.first_piece) <= body + 1:
        return []
    turn = _turn(state, body)
    first = hulls.topology.first_vertex
    return [
        (
            hulls.vertices[first[k] : first[k + 1]] @ turn.T + state.position[body],
            float(hulls.topology.radius[k]),
            k,
        )
        for k in range(hulls.first_piece[body], hulls.first_piece[body + 1])
    ]


def _turn(state: State, body: int) -> FloatArray:
    """(dim, dim) rotation of a body."""
    turn: FloatArray = matrices(state.orientation[body : body + 1])[0]
    return turn


def _body(scene: Scene, state: State, body: int, view: FloatArray) -> list[dict[str, Any]]:
    """Outlines of a body, with their depths; half-spaces are drawn apart."""
    b = scene.bodies
    if not np.isfinite(b.reach[body]):
        return []
    fixed = bool(b.fixed[body])
    eye = _TOWARDS if scene.dim == 3 else np.zeros(2)
    pieces = _corners(scene, state, body)
    if not pieces:
        at = state.position[body]
        round_ = [*(view @ at).tolist(), float(b.reach[body])]
        return [{"circle": round_, "fixed": fixed, "depth": float(eye @ at)}]
    shapes = []
    for corners, radius, piece in pieces:
        depth = float(eye @ corners.mean(axis=0))
        flat = corners @ view.T
        if len(corners) == 1:
            shape: dict[str, Any] = {"circle": [*flat[0].tolist(), radius]}
        elif radius == 0.0 and scene.dim == 3:
            shapes += [
                {"outline": (face @ view.T).tolist(), "fixed": fixed, "depth": depth}
                for face in _faces(scene, state, body, piece, eye)
            ]
            continue
        else:
            angle = np.linspace(0.0, 2.0 * np.pi, _AROUND, endpoint=False)
            ring = radius * np.column_stack([np.cos(angle), np.sin(angle)])
            grown = (flat[:, None, :] + ring[None]).reshape(-1, 2) if radius > 0.0 else flat
            shape = {"outline": _hull(grown)}
        shapes.append({**shape, "fixed": fixed, "depth": depth})
    return shapes


def _faces(scene: Scene, state: State, body: int, piece: int, eye: FloatArray) -> list[FloatArray]:
    """Corners (n, 3) m of the faces of a polyhedron that the eye sees."""
    hulls, net = scene.bodies.hulls, scene.bodies.hulls.topology
    turn = _turn(state, body)
    seen = []
    for face in range(net.first_face[piece], net.first_face[piece + 1]):
        if float((turn @ hulls.normals[face]) @ eye) > 0.0:
            loop = net.loop[net.first_loop[face] : net.first_loop[face + 1]]
            seen.append(hulls.vertices[loop] @ turn.T + state.position[body])
    return seen


def _walls(scene: Scene, solids: Solids, state: State, view: FloatArray) -> list[dict[str, Any]]:
    """Half-spaces, as far as the bodies reach: bands in the plane, floors in space."""
    shapes = []
    for patch, normal in zip(solids.patches(state), solids.normals, strict=True):
        if scene.dim == 3:
            if normal[2] > 0.5:
                shapes.append({"outline": (patch @ view.T).tolist(), "fixed": True})
            continue
        ends = patch[[0, 1], :2]
        deep = 0.25 * solids.thick * normal[:2]
        band = np.vstack([ends, ends[::-1] - deep])
        shapes.append({"outline": (band @ view.T).tolist(), "fixed": True})
    return shapes


def _hull(points: FloatArray) -> list[list[float]]:
    """Corners of the convex hull in the plane, in order; of flat ones the two ends."""
    if np.ptp(points, axis=0).min() < _TINY:
        order = np.lexsort(points.T)
        return points[[order[0], order[-1]]].tolist()
    hull: list[list[float]] = points[ConvexHull(points).vertices].tolist()
    return hull
