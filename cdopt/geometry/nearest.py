"""Nearest points of two segments, and of two polytopes whose nearest features are not faces."""

from __future__ import annotations

import numpy as np
from numba import njit

from cdopt.checks import FloatArray
from cdopt.geometry.hulls import Network
from cdopt.geometry.vectors import Vector, along, cross, dot, minus, row


@njit(cache=True)
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


@njit(cache=True)
def crossing(p: Vector, q: Vector, r: Vector, s: Vector) -> tuple[float, float, Vector]:
    """Where the lines p–q and r–s, not parallel, are nearest, and the product of directions."""
    d, e, w = minus(q, p), minus(s, r), minus(r, p)
    c = cross(d, e)
    square = dot(c, c)
    return dot(cross(w, e), c) / square, dot(cross(w, d), c) / square, c


@njit(cache=True)
def edge_count(net: Network, piece: int) -> int:
    """Edges of a piece; a point is an edge from itself to itself."""
    return max(1, net.first_edge[piece + 1] - net.first_edge[piece])


@njit(cache=True)
def ends(net: Network, piece: int, k: int) -> tuple[int, int]:
    """Corner numbers of edge k of a piece."""
    if net.first_edge[piece + 1] == net.first_edge[piece]:
        return net.first_vertex[piece], net.first_vertex[piece]
    e = net.first_edge[piece] + k
    return net.edges[e, 0], net.edges[e, 1]


@njit(cache=True)
def between_edges(
    net: Network, x: FloatArray, a: int, b: int, k: int, m: int
) -> tuple[float, float, float]:
    """Distance of edge k of one piece and edge m of another, m, and where on them, in [0, 1]."""
    a0, a1 = ends(net, a, k)
    b0, b1 = ends(net, b, m)
    p, q, r, s = row(x, a0), row(x, a1), row(x, b0), row(x, b1)
    t, u = nearest_on_segments(p, q, r, s)
    gap = minus(along(r, u, minus(s, r)), along(p, t, minus(q, p)))
    return np.sqrt(dot(gap, gap)), t, u


@njit(cache=True)
def nearest_edges(net: Network, x: FloatArray, a: int, b: int) -> float:
    """Least distance between edges of two pieces, m."""
    best = np.inf
    for k in range(edge_count(net, a)):
        for m in range(edge_count(net, b)):
            best = min(best, between_edges(net, x, a, b, k, m)[0])
    return best
