"""Nearest points of two segments, and of two polytopes whose nearest features are not faces."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import part
from cdopt.geometry.hulls import Network
from cdopt.geometry.vectors import Vector, along, cross, dot, minus, row


@part()
def nearest_on_segments(p: Vector, q: Vector, r: Vector, s: Vector) -> tuple[float, float]:
    """Where, in [0, 1], the segments p–q and r–s are nearest; either may be a point.

    Ericson, C., Real-time collision detection (2005), section 5.1.9.
    """
    d, e, w = minus(q, p), minus(s, r), minus(p, r)
    dd, ee, de = dot(d, d), dot(e, e), dot(d, e)
    dw, ew = dot(d, w), dot(e, w)
    if dd == 0.0 and ee == 0.0:
        return 0.0, 0.0
    if dd == 0.0:
        return 0.0, min(max(ew / ee, 0.0), 1.0)
    if ee == 0.0:
        return min(max(-dw / dd, 0.0), 1.0), 0.0
    area = dd * ee - de * de
    t = 0.0
    if area > 1e-14 * dd * ee:
        t = min(max((de * ew - dw * ee) / area, 0.0), 1.0)
    u = (de * t + ew) / ee
    if u < 0.0:
        return min(max(-dw / dd, 0.0), 1.0), 0.0
    if u > 1.0:
        return min(max((de - dw) / dd, 0.0), 1.0), 1.0
    return t, u


@part()
def crossing(p: Vector, q: Vector, r: Vector, s: Vector) -> tuple[float, float, Vector]:
    """Where the lines p–q and r–s, not parallel, are nearest, and the product of directions."""
    d, e, w = minus(q, p), minus(s, r), minus(r, p)
    c = cross(d, e)
    square = dot(c, c)
    return dot(cross(w, e), c) / square, dot(cross(w, d), c) / square, c


@part()
def edge_count(net: Network, piece: int) -> int:
    """Edges of a piece; a point is an edge from itself to itself."""
    return max(1, net.first_edge[piece + 1] - net.first_edge[piece])


@part()
def ends(
    first_edge: IntArray, first_vertex: IntArray, edges: IntArray, piece: int, k: int
) -> tuple[int, int]:
    """Corner numbers of edge k of a piece."""
    e = first_edge[piece]
    if first_edge[piece + 1] == e:
        return first_vertex[piece], first_vertex[piece]
    return edges[e + k, 0], edges[e + k, 1]


@part()
def between(p: Vector, q: Vector, r: Vector, s: Vector) -> tuple[float, float, float]:
    """Distance of the segments p–q and r–s, m, and where on them, in [0, 1]."""
    t, u = nearest_on_segments(p, q, r, s)
    gap = minus(along(r, u, minus(s, r)), along(p, t, minus(q, p)))
    return np.sqrt(dot(gap, gap)), t, u


@part()
def nearest_edges(net: Network, x: FloatArray, a: int, b: int) -> float:
    """Least distance between edges of two pieces, m."""
    best = np.inf
    first_edge, first_vertex, edges = net.first_edge, net.first_vertex, net.edges
    count, other = edge_count(net, a), edge_count(net, b)
    for k in range(count):
        a0, a1 = ends(first_edge, first_vertex, edges, a, k)
        p, q = row(x, a0), row(x, a1)
        for m in range(other):
            b0, b1 = ends(first_edge, first_vertex, edges, b, m)
            best = min(best, between(p, q, row(x, b0), row(x, b1))[0])
    return best
