"""Drawings of interactive pages: bodies, contacts and loads, in metres, as JSON values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, cKDTree

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.plots.bodies import Solids, contact_segments
from cdopt.problem.step import Step
from cdopt.scene import Scene, State

Reach = tuple[FloatArray, FloatArray]

MOST = 100  # contacts, and degrees of freedom, that a page solves while a slider moves

_THICK = 0.03  # of a platform's length: how thick it is drawn
_PROP = 0.07  # of a platform's length: how tall its supports are drawn
_LONGEST = 0.26, 0.12  # arrows, of the picture's size: few contacts, and many
_FEW = 8
_BAR = 0.6  # of the way to the next contact: bars between bodies do not touch
OVER = 1.2  # size of a platform over that of its supports, if only these are known
_SAME = 1e-6  # of a length: points that near count as one
_TINY = 1e-12  # m: extents that count as none


def scene_picture(
    step: Step,
    contacts: IntArray,
    bodies: tuple[Scene, State],
    upward: BoolArray,
    heads: Callable[[FloatArray], FloatArray],
) -> dict[str, Any]:
    """Bodies of a scene in a state, closed contacts, and ends of the load's arrow, by ``heads``."""
    scene, state = bodies
    solids, fixed = Solids.of(scene, state.position), scene.bodies.fixed
    both_free = ~fixed[np.asarray(step.bodies)[contacts]].any(axis=1)
    anchor = state.position[~fixed].mean(axis=0)
    anchor[-1] = reach_of(scene, state, np.flatnonzero(~fixed))[1][-1]
    size = float(np.linalg.norm((solids.high - solids.low)[: scene.dim]))
    return _picture(
        shapes_of(solids, state), step, contacts, upward, both_free, heads(anchor), size
    )


def own_picture(
    step: Step, contacts: IntArray, upward: BoolArray, heads: Callable[[FloatArray], FloatArray]
) -> dict[str, Any]:
    """Bodies of a step, reconstructed from its contacts, and these contacts."""
    points = np.asarray(step.points)[contacts]
    low, high = points.min(axis=0), points.max(axis=0)
    anchor, fixed = 0.5 * (low + high), fixed_sides(step)[contacts]
    anchor[-1] = high[-1]
    shapes = own_shapes(step)
    size = 1.3 * float(np.linalg.norm(high - low)) or 1.0
    both = np.asarray(~fixed.any(axis=1))
    return _picture(shapes, step, contacts, upward, both, heads(anchor), size)


def fixed_sides(step: Step) -> BoolArray:
    """(nc, 2) whether each body of a contact does not move; without bodies the second does."""
    if step.bodies is None:
        return np.tile([True, False], (step.nc, 1))
    fixed = step.bodies < 0
    if step.dof_body is not None:
        fixed |= ~np.isin(step.bodies, step.dof_body)
    return np.asarray(fixed)


def own_shapes(step: Step) -> list[dict[str, Any]]:
    """Bodies reconstructed from a step's contacts, those that do not move first.

    Discs and spheres where normals meet in a centre; else the hull of contacts and points inside.
    """
    x, normals = np.asarray(step.points), np.asarray(step.normals)
    dim = x.shape[1]
    one = step.nv <= 3 * (dim - 1)
    if step.bodies is None and not one:
        return []
    pairs = np.tile([-1, 0], (step.nc, 1)) if step.bodies is None else step.bodies
    net, fixed = contact_segments(step), fixed_sides(step)
    inner = np.stack([net.start, net.end], axis=1)
    extent = float(np.linalg.norm(np.ptp(x, axis=0))) or 1.0
    shapes = []
    for body in np.unique(pairs[pairs >= 0]).tolist():
        contact, side = np.nonzero(pairs == body)
        still, at, ends = bool(fixed[contact, side].all()), x[contact], inner[contact, side]
        reach = np.linalg.norm(ends - at, axis=1)
        centre = np.linalg.norm(net.centres - ends[0], axis=1).min(initial=np.inf)
        if max(centre, float(np.ptp(ends, axis=0).max())) <= _SAME * reach[0]:
            shape: dict[str, Any] = {"centre": ends[0].tolist(), "radius": float(reach[0])}
        else:
            inward = np.where(side == 0, -1.0, 1.0)[:, None] * normals[contact]
            shape = _hull(at, inward, float(np.median(reach)) or _THICK * extent)
        shapes.append({**shape, "fixed": still})
    shapes.sort(key=lambda shape: not shape["fixed"])
    return shapes


def _hull(points: FloatArray, inward: FloatArray, deep: float) -> dict[str, Any]:
    """The hull of contact points and of points inside, ``deep`` m along the normals (n, dim)."""
    corners = np.concatenate([points, points + deep * inward])
    if points.shape[1] == 3:
        return {"cloud": corners.tolist()}
    flat = np.linalg.svd(corners - corners.mean(axis=0), compute_uv=False)
    if flat[1] <= _SAME * flat[0]:  # along one normal: as wide as deep
        across = 0.5 * deep * np.array([inward[0, 1], -inward[0, 0]])
        corners = np.concatenate([corners + across, corners - across])
    return {"outline": corners[ConvexHull(corners).vertices].tolist()}


def platform_picture(
    step: Step, contacts: IntArray, heads: Callable[[FloatArray], FloatArray]
) -> dict[str, Any]:
    """A plain platform on supports, for a step whose bodies have no shape."""
    points = np.asarray(step.points)[contacts]
    dim, middle = points.shape[1], 0.5 * (points.min(axis=0) + points.max(axis=0))
    wide = float(np.ptp(points, axis=0).max())
    under = (middle + OVER * (points - middle))[:, : dim - 1]
    if dim == 2:
        under = np.sort(under, axis=0)[[0, -1]]
    elif np.ptp(under, axis=0).min() < _TINY:
        under = under[np.lexsort(under.T)[[0, -1]]]
    else:
        under = under[ConvexHull(under).vertices]
    low = np.column_stack([under, np.full(len(under), points[:, -1].max())])
    high = low + np.append(np.zeros(dim - 1), _THICK * wide)
    shape: dict[str, Any] = {"fixed": False}
    if dim == 2:
        shape["outline"] = [*low.tolist(), *high[::-1].tolist()]
    else:
        sides = [np.vstack([low[[a, b]], high[[b, a]]]) for a, b in pairwise([*range(len(low)), 0])]
        shape["rings"] = [ring.tolist() for ring in (low[::-1], high, *sides)]
    props = [{"prop": at, "tall": _PROP * wide, "fixed": True} for at in points.tolist()]
    ends = heads(np.append(middle[:-1], high[:, -1].max()))
    every, size = np.ones(len(points), dtype=bool), OVER * np.linalg.norm(np.ptp(points, axis=0))
    return _picture([*props, shape], step, contacts, every, ~every, ends, float(size))


def reach_of(scene: Scene, state: State, bodies: IntArray) -> Reach:
    """(dim,) least and largest coordinates of bodies that are no half-spaces, m."""
    solids = Solids.of(scene, state.position)
    corners = solids.placed(state)[np.isin(solids.owner, bodies), : scene.dim]
    chosen = np.isin(solids.balls, bodies)
    centres, radii = state.position[solids.balls[chosen]], solids.radii[chosen, None]
    reached = np.concatenate([corners, centres - radii, centres + radii])
    return reached.min(axis=0), reached.max(axis=0)


def shapes_of(solids: Solids, state: State) -> list[dict[str, Any]]:
    """All bodies, those further back first: half-spaces, outlines or faces, round pieces, discs."""
    fixed, dim, shapes = solids.scene.bodies.fixed, state.dim, []
    for patch, normal in zip(solids.patches(state), solids.normals, strict=True):
        if dim == 2:
            ends = patch[[0, 1], :2]
            patch = np.vstack([ends, ends[::-1] - 0.25 * solids.thick * normal[:2]])
        if dim == 2 or normal[2] > 0.5:
            shapes.append({"outline": patch.tolist(), "fixed": True})
    corners = solids.placed(state)[:, :dim]
    for piece in solids.pieces:
        rings = [corners[face] for face in piece.faces]
        shape: dict[str, Any] = {"outline": rings[0].tolist()}
        if dim == 3 and piece.smooth:
            shape = {"cloud": np.unique(np.concatenate(rings), axis=0).tolist()}
        elif dim == 3:
            shape = {"rings": [ring.tolist() for ring in rings]}
        shapes.append({**shape, "fixed": bool(fixed[piece.body])})
    for k in np.argsort(~fixed[solids.balls], kind="stable"):
        ball = solids.balls[k]
        round_ = {"centre": state.position[ball].tolist(), "radius": float(solids.radii[k])}
        shapes.append({**round_, "fixed": bool(fixed[ball])})
    return shapes


def _picture(
    shapes: list[dict[str, Any]],
    step: Step,
    contacts: IntArray,
    upward: BoolArray,
    both_free: BoolArray,
    heads: FloatArray,
    size: float,
) -> dict[str, Any]:
    """Shapes, contacts and the lengths of arrows and bars, as the page reads them."""
    points, normals = np.asarray(step.points)[contacts], np.asarray(step.normals)[contacts]
    push = np.where(upward, 1.0, -1.0)[:, None] * normals
    bar = long = _LONGEST[0 if len(points) <= _FEW else 1] * size
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


def check_size(nc: int, nv: int, what: str = "contacts") -> None:
    """Refuse problems too large for a page; there are ``nc`` of ``what``."""
    if nc > MOST or nv > MOST:
        raise InvalidInput(
            "scene",
            f"{nc:,} {what}" + (f" and {nv:,} degrees of freedom" if nv else ""),
            f"at most {MOST}; larger ones: cdopt simulate SCENE --out run.vtkhdf, then "
            "cdopt show run.vtkhdf --page run.html",
        )
