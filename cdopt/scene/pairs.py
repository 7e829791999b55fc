"""Narrow phase: gaps, normals and points of pairs of bodies, many pairs at a time.

One function per pair of families of shapes: balls, planes, and hulls of convex pieces. A gap is
the distance of two features of the bodies along the normal, m; negative is penetration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.frozen import Frozen
from cdopt.geometry.narrow import contact_points
from cdopt.geometry.rotations import matrices
from cdopt.scene.bodies import Bodies
from cdopt.scene.shapes import SHAPES, HalfSpace, Sphere
from cdopt.scene.state import State

BALL, HULL, PLANE = 0, 1, 2  # families of shapes


@dataclass(frozen=True, eq=False)
class Gaps(Frozen):
    """Contact points of pairs of bodies.

    Attributes
    ----------
    bodies : (nc, 2) body numbers. phi : (nc,) gaps, m.
    normals : (nc, dim) unit vectors from the first body to the second.
    points : (nc, dim) m, halfway across the gap.
    features : (nc, 2) which corner, edge or face of either body, as the body numbers them.
    """

    bodies: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    features: IntArray

    def select(self, index: IntArray) -> Gaps:
        """These contact points, in this order."""
        return Gaps(
            bodies=self.bodies[index],
            phi=self.phi[index],
            normals=self.normals[index],
            points=self.points[index],
            features=self.features[index],
        )


PairFunction = Callable[[Bodies, State, IntArray, IntArray, FloatArray], Gaps]


def ball_ball(bodies: Bodies, state: State, a: IntArray, b: IntArray, margin: FloatArray) -> Gaps:
    """Distance of centres less the radii; concentric spheres part along the first axis."""
    x = state.position
    radius = bodies.reach
    arm = x[b] - x[a]
    distance = np.linalg.norm(arm, axis=1)
    apart = distance > 0.0
    normal = arm / np.where(apart, distance, 1.0)[:, None]
    normal[~apart, 0] = 1.0
    phi = distance - radius[a] - radius[b]
    points = x[a] + normal * (radius[a] + 0.5 * phi)[:, None]
    return _gaps(a, b, phi, normal, points)


def ball_plane(bodies: Bodies, state: State, a: IntArray, b: IntArray, margin: FloatArray) -> Gaps:
    """Height of the centre over the plane less the radius."""
    x = state.position
    out = _outward(bodies, state, b)
    radius = bodies.reach[a]
    height = ((x[a] - x[b]) * out).sum(axis=1)
    points = x[a] - out * (0.5 * (height + radius))[:, None]
    return _gaps(a, b, height - radius, -out, points)


def hull_plane(bodies: Bodies, state: State, a: IntArray, b: IntArray, margin: FloatArray) -> Gaps:
    """Heights of the corners over the plane less the roundness around them."""
    x, hulls = state.position, bodies.hulls
    first = hulls.network.first_vertex[hulls.first_piece]  # of every body
    which = np.repeat(np.arange(a.size), np.diff(first)[a])
    begin = np.repeat(np.cumsum(np.diff(first)[a]) - np.diff(first)[a], np.diff(first)[a])
    corner = first[a][which] + np.arange(which.size) - begin
    place = np.einsum("nij,nj->ni", matrices(state.orientation[a])[which], hulls.vertices[corner])
    place += x[a][which]
    out = _outward(bodies, state, b)[which]
    piece = np.searchsorted(hulls.network.first_vertex, corner, side="right") - 1
    radius = hulls.network.radius[piece]
    height = ((place - x[b][which]) * out).sum(axis=1)
    points = place - out * (0.5 * (height + radius))[:, None]
    marks = np.column_stack([hulls.network.vertex_label[corner], np.zeros_like(corner)])
    return _gaps(a[which], b[which], height - radius, -out, points, marks)


def hull_hull(bodies: Bodies, state: State, a: IntArray, b: IntArray, margin: FloatArray) -> Gaps:
    """Every pair of corners, edges and faces of the two that touch, piece by piece."""
    turn, hulls = matrices(state.orientation), bodies.hulls
    pieces, near = hulls.pairs(np.column_stack([a, b]), state.position, turn, margin)
    found = contact_points(hulls, pieces, state.position, turn, near)
    first, second = hulls.body[pieces[found.pair]].T
    return _gaps(first, second, found.gap, found.normals, found.places, found.labels)


GAPS: dict[tuple[int, int], PairFunction] = {
    (BALL, BALL): ball_ball,
    (BALL, PLANE): ball_plane,
    (BALL, HULL): hull_hull,
    (HULL, HULL): hull_hull,
    (HULL, PLANE): hull_plane,
}
_FAMILY = np.array([
    {Sphere: BALL, HalfSpace: PLANE}.get(shape, HULL) for shape in SHAPES
])  # fmt: skip


def gaps(bodies: Bodies, state: State, pairs: IntArray, margin: float | FloatArray) -> Gaps:
    """Contact points of these pairs with gaps up to ``margin``, by body numbers and features.

    Parameters
    ----------
    pairs : (np, 2) different pairs with i < j.
    margin : m, one number or (nb,) the share of each body, of which a pair has both.
    """
    shares = np.broadcast_to(
        0.5 * np.asarray(margin) if np.ndim(margin) == 0 else margin, bodies.nb
    )
    found = [_empty(bodies.dim)]
    family = _FAMILY[bodies.kind[pairs]]
    for (first, second), function in GAPS.items():
        for swapped in (0, 1) if first != second else (0,):
            mine = (family[:, swapped] == first) & (family[:, 1 - swapped] == second)
            if mine.any():
                a, b = pairs[mine, swapped], pairs[mine, 1 - swapped]
                part = function(bodies, state, a, b, shares[a] + shares[b])
                within = shares[part.bodies].sum(axis=1)
                found.append(part.select(np.flatnonzero(part.phi <= within)))
    return ordered(found)


def overlaps(bodies: Bodies, state: State, pairs: IntArray) -> Gaps:
    """Like ``gaps``, of the pairs that overlap."""
    found = gaps(bodies, state, pairs, 0.0)
    return found.select(np.flatnonzero(found.phi < 0.0))


def ordered(found: list[Gaps]) -> Gaps:
    """Everything found, first body numbers smaller than second, in lexicographic order."""
    bodies = np.concatenate([part.bodies for part in found])
    normals = np.concatenate([part.normals for part in found])
    features = np.concatenate([part.features for part in found])
    swap = bodies[:, 0] > bodies[:, 1]
    bodies[swap] = bodies[swap, ::-1]
    features[swap] = features[swap, ::-1]
    normals[swap] *= -1.0
    normals += 0.0  # no negative zeros
    together = Gaps(
        bodies=bodies,
        phi=np.concatenate([part.phi for part in found]),
        normals=normals,
        points=np.concatenate([part.points for part in found]),
        features=features,
    )
    order = (features[:, 1], features[:, 0], bodies[:, 1], bodies[:, 0])
    return together.select(np.lexsort(order))


def _gaps(
    a: IntArray,
    b: IntArray,
    phi: FloatArray,
    normals: FloatArray,
    points: FloatArray,
    features: IntArray | None = None,
) -> Gaps:
    marks = np.zeros((a.size, 2), dtype=np.int64) if features is None else features
    return Gaps(np.column_stack([a, b]), phi, normals, points, marks)


def _empty(dim: int) -> Gaps:
    none = np.empty(0, dtype=np.int64)
    return _gaps(none, none, np.empty(0), np.empty((0, dim)), np.empty((0, dim)))


def _outward(bodies: Bodies, state: State, b: IntArray) -> FloatArray:
    """Normals (n, dim) of half-spaces out of the solid, in the global frame."""
    normal = bodies.shape_columns(HalfSpace, b)["normal"]
    return np.asarray(np.einsum("nij,nj->ni", matrices(state.orientation[b]), normal))
