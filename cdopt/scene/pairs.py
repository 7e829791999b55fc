"""Pairs of bodies: their contact points, and the bonds between them.

Spheres, half-spaces and bodies made of convex pieces are three families of shapes, and each pair
of families has one function. A gap is the distance of two features of the bodies along the normal,
m; negative is penetration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.geometry.broad_phase import ROUND_OFF, near_pairs
from cdopt.geometry.narrow_phase import contact_points
from cdopt.geometry.periodic import PeriodicBox
from cdopt.geometry.polytope import FEATURES, LABELS
from cdopt.geometry.rotations import matrices
from cdopt.scene.bodies import Bodies
from cdopt.scene.shapes import SHAPES, HalfSpace, Sphere
from cdopt.scene.state import State

SPHERE, HULL, PLANE = 0, 1, 2  # families of shapes
BOND_REACH = 0.01  # of the mean diameter


class Gaps(NamedTuple):
    """Contact points of pairs of bodies.

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
        """These contact points, in this order; itself where these are all in order."""
        if index.size == self.phi.size and np.array_equal(index, np.arange(index.size)):
            return self
        return Gaps._make(column[index] for column in self)

    def numbers(self, nb: int) -> IntArray:
        """(nc,) the numbers that contact points of ``nb`` bodies keep from step to step."""
        pairs = self.bodies[:, 0] * nb + self.bodies[:, 1]
        return pairs * FEATURES + self.features[:, 0] * LABELS + self.features[:, 1]


def gaps(
    bodies: Bodies,
    state: State,
    pairs: IntArray,
    margin: float | FloatArray,
    box: PeriodicBox | None = None,
) -> Gaps:
    """Contact points of pairs (np, 2), i < j, with gaps up to ``margin`` m, by bodies and features.

    The margin is one number or (nb,). In a ``box`` points are at the first body.
    """
    half = 0.5 * np.asarray(margin) if np.ndim(margin) == 0 else margin
    shares = np.broadcast_to(half, bodies.nb)
    none, empty = np.empty(0, dtype=np.int64), np.empty((0, bodies.dim))
    parts = [_gaps(none, none, np.empty(0), empty, empty)]
    family = _FAMILY[bodies.kind[pairs]]
    for (first, second), function in _FUNCTIONS.items():
        for swapped in (0, 1) if first != second else (0,):
            of_these = (family[:, swapped] == first) & (family[:, 1 - swapped] == second)
            if of_these.any():
                a, b = pairs[of_these, swapped], pairs[of_these, 1 - swapped]
                part = function(bodies, state, a, b, shares[a] + shares[b], box)
                within = shares[part.bodies].sum(axis=1)
                parts.append(part.select(np.flatnonzero(part.phi <= within)))
    return ordered(parts, bodies.nb)


def ordered(parts: list[Gaps], nb: int) -> Gaps:
    """All contact points, first body numbers smaller than second, in lexicographic order."""
    bodies, phi, normals, points, features = map(np.concatenate, zip(*parts, strict=True))
    swap = np.flatnonzero(bodies[:, 0] > bodies[:, 1])
    bodies[swap] = bodies[swap, ::-1]
    features[swap] = features[swap, ::-1]
    normals[swap] *= -1.0
    normals += 0.0  # no negative zeros
    found = Gaps(bodies, phi, normals, points, features)
    return found.select(np.argsort(found.numbers(nb), kind="stable"))  # quick where it is in order


def bonded_pairs(bodies: Bodies, position: FloatArray, reach: float) -> IntArray:
    """Pairs (n, 2) of spheres, i < j, one of them free, with |δ| < reach · d, in order.

    d = r_i + r_j is the mean diameter of the two, δ = d − |x_i − x_j|; ``position`` (nb, dim) m.
    De Klerk et al. (2021), section 3.3.
    """
    # with radii this much larger, the spheres that may be bonded are those that overlap
    pairs = near_pairs(position, bodies.reach * (1.0 + reach), bodies.fixed, 0.0)
    spheres = (bodies.kind[pairs] == SHAPES.index(Sphere)).all(axis=1)
    i, j = pairs[spheres].T
    d = bodies.reach[i] + bodies.reach[j]
    overlap = d - np.linalg.norm(position[j] - position[i], axis=1)
    tied = np.abs(overlap) < reach * d
    i, j = i[tied], j[tied]
    order = np.lexsort((j, i))
    return np.column_stack([i[order], j[order]])


def is_among(pairs: IntArray, bonds: IntArray) -> BoolArray:
    """(n,) which of these pairs (n, 2), i < j, are bonds (m, 2)."""
    if not bonds.size:
        return np.zeros(len(pairs), dtype=bool)
    base = 1 + max(int(pairs.max(initial=0)), int(bonds.max(initial=0)))
    return np.isin(pairs[:, 0] * base + pairs[:, 1], bonds[:, 0] * base + bonds[:, 1])


def _sphere_sphere(
    bodies: Bodies, state: State, a: IntArray, b: IntArray, _: FloatArray, box: PeriodicBox | None
) -> Gaps:
    """Distance of centres less the radii; concentric spheres part along the first axis."""
    radius, arm = bodies.reach, state.position[b] - state.position[a]
    if box is not None:
        arm = box.nearest(arm, state.t)
    distance = np.linalg.norm(arm, axis=1)
    apart = distance > 0.0
    normal = arm / np.where(apart, distance, 1.0)[:, None]
    normal[~apart, 0] = 1.0
    phi = distance - radius[a] - radius[b]
    points = state.position[a] + normal * (radius[a] + 0.5 * phi)[:, None]
    return _gaps(a, b, phi, normal, points)


def _sphere_plane(bodies: Bodies, state: State, a: IntArray, b: IntArray, *_: object) -> Gaps:
    """Height of the centre over the plane less the radius."""
    x = state.position
    out = outward(bodies, state.orientation, b)
    radius = bodies.reach[a]
    height = ((x[a] - x[b]) * out).sum(axis=1)
    points = x[a] - out * (0.5 * (height + radius))[:, None]
    return _gaps(a, b, height - radius, -out, points)


def _hull_plane(
    bodies: Bodies, state: State, a: IntArray, b: IntArray, margin: FloatArray, _: object
) -> Gaps:
    """Heights of the corners over the plane less the roundness around them."""
    x, hulls = state.position, bodies.hulls
    out = outward(bodies, state.orientation, b)
    lowest = ((x[a] - x[b]) * out).sum(axis=1) - bodies.reach[a]
    round_off = ROUND_OFF * ((np.abs(x[a]) + np.abs(x[b])).sum(axis=1) + bodies.reach[a])
    near = lowest <= margin + round_off  # the others have no corner within the margin
    a, b, out = a[near], b[near], out[near]
    net = hulls.topology
    first = net.first_vertex[hulls.first_piece]  # of every body
    count = np.diff(first)[a]
    which = np.repeat(np.arange(a.size), count)
    rank = np.arange(which.size) - np.repeat(np.cumsum(count) - count, count)
    corner = first[a][which] + rank
    rotation = matrices(state.orientation[a])[which]
    vertices = np.einsum("nij,nj->ni", rotation, hulls.vertices[corner])
    vertices += x[a][which]
    out = out[which]
    piece = np.searchsorted(net.first_vertex, corner, side="right") - 1
    radius = net.radius[piece]
    height = ((vertices - x[b][which]) * out).sum(axis=1)
    points = vertices - out * (0.5 * (height + radius))[:, None]
    features = np.column_stack([net.vertex_label[corner], np.zeros_like(corner)])
    return _gaps(a[which], b[which], height - radius, -out, points, features)


def _hull_hull(
    bodies: Bodies, state: State, a: IntArray, b: IntArray, margin: FloatArray, _: object
) -> Gaps:
    """Every pair of corners, edges and faces of the two that touch, piece by piece."""
    rotation, hulls = matrices(state.orientation), bodies.hulls
    pieces, margins = hulls.pairs(np.column_stack([a, b]), state.position, rotation, margin)
    points = contact_points(hulls, pieces, state.position, rotation, margins)
    first, second = hulls.body[pieces[points.pair]].T
    return _gaps(first, second, points.gap, points.normals, points.positions, points.features)


_FUNCTIONS: dict[tuple[int, int], Callable[..., Gaps]] = {
    (SPHERE, SPHERE): _sphere_sphere,
    (SPHERE, PLANE): _sphere_plane,
    (SPHERE, HULL): _hull_hull,
    (HULL, HULL): _hull_hull,
    (HULL, PLANE): _hull_plane,
}
_FAMILY = np.array([{Sphere: SPHERE, HalfSpace: PLANE}.get(shape, HULL) for shape in SHAPES])


def _gaps(
    a: IntArray,
    b: IntArray,
    phi: FloatArray,
    normals: FloatArray,
    points: FloatArray,
    features: IntArray | None = None,
) -> Gaps:
    ids = np.zeros((a.size, 2), dtype=np.int64) if features is None else features
    return Gaps(np.column_stack([a, b]), phi, normals, points, ids)


def outward(bodies: Bodies, orientation: FloatArray, b: IntArray) -> FloatArray:
    """Normals (n, dim) of half-spaces b (n,) out of the solid; ``orientation`` of all bodies."""
    if not b.size:
        return np.zeros((0, bodies.dim))
    normal = bodies.shape_columns(HalfSpace, b)["normal"]
    return np.asarray(np.einsum("nij,nj->ni", matrices(orientation[b]), normal))
