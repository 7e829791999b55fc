"""The list of contact points that the narrow phase fills: what a point is, and when it is new."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import part
from cdopt.geometry.hulls import Topology
from cdopt.geometry.polytope import LABELS
from cdopt.geometry.vectors import Vector, along, dot, minus, row

COUNT, PIECES_START, BODIES_START = 0, 1, 2  # entries of ContactPoints.tally
SAME_PLACE = 1e-6  # of the smaller piece: points nearer to each other are one
ON_FEATURE = 1e-3  # of the size: a point nearer than this to a corner or an edge has its id


class ContactPoints(NamedTuple):
    """Contact points of pairs of pieces, with room for a limited number during the search.

    tally : (3,) points so far, including those without room; where those of this pair of pieces
        begin; where those of its two bodies begin.
    pair : (n,) numbers of the pairs.
    features : (n, 2) ids of the corner, edge or face of either body.
    gap : (n,) m.
    normals : (n, dim) unit vectors from first to second; in space during the search.
    positions : (n, dim) m, halfway across the gap, of each point.
    """

    tally: IntArray
    pair: IntArray
    features: IntArray
    gap: FloatArray
    normals: FloatArray
    positions: FloatArray


class Pair(NamedTuple):
    """Two pieces and their data.

    number, a, b : of the pair and of its pieces. x, normals : (nv, 3), (nf, 3) corners, m, and
    normals of faces of all pieces, in place. margin : largest gap that counts, m.
    """

    number: int
    a: int
    b: int
    topology: Topology
    x: FloatArray
    normals: FloatArray
    margin: float
    contacts: ContactPoints


@part()
def add_point(pair: Pair, la: int, lb: int, distance: float, n: Vector, at: Vector) -> float:
    """Store a new contact point of features la and lb; its distance, or ∞ beyond the margin."""
    net, contacts, a, b = pair.topology, pair.contacts, pair.a, pair.b
    ra, rb = net.radius[a], net.radius[b]
    if distance - ra - rb > pair.margin:
        return np.inf
    ida = _feature_id(pair, a, at, la)
    idb = _feature_id(pair, b, along(at, distance, n), lb)
    if _known(contacts, ida, idb):  # as where a small corner is cut off
        ida, idb = la, lb
        while _known(contacts, ida, idb):
            idb = LABELS - 1 if idb == lb else idb - 1
    position = along(at, 0.5 * (distance + ra - rb), n)
    same = SAME_PLACE * min(net.size[a], net.size[b])
    for k in range(contacts.tally[PIECES_START], min(contacts.tally[COUNT], contacts.pair.size)):
        off = minus(row(contacts.positions, k), position)
        if dot(off, off) <= same * same:
            return distance
    k = contacts.tally[COUNT]
    contacts.tally[COUNT] += 1
    if k < contacts.pair.size:
        contacts.pair[k] = pair.number
        contacts.features[k, 0], contacts.features[k, 1] = ida, idb
        contacts.gap[k] = distance - ra - rb
        for axis in range(3):
            contacts.normals[k, axis] = n[axis]
            contacts.positions[k, axis] = position[axis]
    return distance


@part()
def _known(contacts: ContactPoints, ida: int, idb: int) -> bool:
    """Whether a point of these two bodies has these feature ids already."""
    for k in range(contacts.tally[BODIES_START], min(contacts.tally[COUNT], contacts.pair.size)):
        if contacts.features[k, 0] == ida and contacts.features[k, 1] == idb:
            return True
    return False


@part()
def _feature_id(pair: Pair, piece: int, p: Vector, label: int) -> int:
    """The corner or else the edge of a piece on which a point of it lies; ``label`` if on none.

    Boxes that are flush with each other meet where a corner of one lies on a corner of the other.
    Round-off decides whether that is a corner over a face or two edges that cross.
    The id must not depend on it, because forces are carried from step to step by id.
    """
    net, x = pair.topology, pair.x
    limit = (ON_FEATURE * net.size[piece]) ** 2
    for v in range(net.first_vertex[piece], net.first_vertex[piece + 1]):
        off = minus(p, row(x, v))
        if dot(off, off) <= limit:
            return net.vertex_label[v]
    for e in range(net.first_edge[piece], net.first_edge[piece + 1]):
        q = row(x, net.edges[e, 0])
        d = minus(row(x, net.edges[e, 1]), q)
        share = min(max(dot(minus(p, q), d) / dot(d, d), 0.0), 1.0)
        off = minus(p, along(q, share, d))
        if dot(off, off) <= limit:
            return net.edge_label[e]
    return label
