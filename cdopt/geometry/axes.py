"""The axis along which two convex polytopes are furthest apart, or least deep in each other.

Candidates are the normals of the faces of both, and the cross products of pairs of edges that
make a face of their Minkowski difference. The distance of two polytopes is that along the best
of them unless their nearest points are a corner and a corner or a corner and an edge; then the
best is a bound from below. Gottschalk, S., Separating axis theorem, technical report (1996);
the test on pairs of edges by Gauss arcs: Gregorius, D., GDC (2013).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cdopt.checks import FloatArray
from cdopt.geometry.hulls import Network
from cdopt.geometry.vectors import Vector, cross, dot, minus, row, times

NONE, FACE_OF_FIRST, FACE_OF_SECOND, EDGES = 0, 1, 2, 3
FACE_FIRST = 1e-6  # of the size: edges must be clearly better than faces
PARALLEL = 1e-6  # rad


@njit(cache=True)
def separating_axis(
    net: Network, x: FloatArray, normals: FloatArray, a: int, b: int, limit: float
) -> tuple[float, int, int, int, Vector]:
    """Separation along the best axis, m; its kind; the faces or edges; the axis from a to b.

    Parameters
    ----------
    a, b : numbers of pieces. x, normals : corners and normals of all pieces, in place.
    limit : once an axis separates them by more, m, that axis is returned.
    """
    best, kind, first, second = -np.inf, NONE, -1, -1
    axis = (1.0, 0.0, 0.0)
    size = min(net.size[a], net.size[b])
    for side in range(2):
        own, other = (a, b) if side == 0 else (b, a)
        for f in range(net.first_face[own], net.first_face[own + 1]):
            n = row(normals, f)
            apart = lowest(net, x, other, n) - dot(n, row(x, net.loop[net.first_loop[f]]))
            if apart > best + (FACE_FIRST * size if side == 1 else 0.0):
                best = apart
                if side == 0:
                    kind, first, axis = FACE_OF_FIRST, f, n
                else:
                    kind, second, axis = FACE_OF_SECOND, f, times(-1.0, n)
                if best > limit:
                    return best, kind, first, second, axis
    for ea in range(net.first_edge[a], net.first_edge[a + 1]):
        for eb in range(net.first_edge[b], net.first_edge[b + 1]):
            makes, n = _minkowski_face(net, x, normals, ea, eb)
            if makes:
                apart = dot(n, minus(row(x, net.edges[eb, 0]), row(x, net.edges[ea, 0])))
                if apart > best + FACE_FIRST * size:
                    best, kind, first, second, axis = apart, EDGES, ea, eb, n
                    if best > limit:
                        return best, kind, first, second, axis
    return best, kind, first, second, axis


@njit(cache=True)
def lowest(net: Network, x: FloatArray, piece: int, n: Vector) -> float:
    """The least of n · x over the corners of a piece."""
    least = np.inf
    for v in range(net.first_vertex[piece], net.first_vertex[piece + 1]):
        least = min(least, dot(n, row(x, v)))
    return least


@njit(cache=True)
def _minkowski_face(
    net: Network, x: FloatArray, normals: FloatArray, ea: int, eb: int
) -> tuple[bool, Vector]:
    """Whether two edges make a face of the Minkowski difference, and its normal, from a to b."""
    da = minus(row(x, net.edges[ea, 1]), row(x, net.edges[ea, 0]))
    db = minus(row(x, net.edges[eb, 1]), row(x, net.edges[eb, 0]))
    left, right = net.edge_faces[ea, 0], net.edge_faces[ea, 1]
    under, over = net.edge_faces[eb, 0], net.edge_faces[eb, 1]
    q = r = 0.0
    if left >= 0:
        q = dot(row(normals, right), db)
        if dot(row(normals, left), db) * q >= 0.0:
            return False, da
    if under >= 0:
        r = dot(row(normals, under), da)
        if r * dot(row(normals, over), da) >= 0.0 or (left >= 0 and r * q >= 0.0):
            return False, da
    c = cross(da, db)
    square = dot(c, c)
    if square <= PARALLEL**2 * dot(da, da) * dot(db, db):
        return False, c
    n = times(1.0 / np.sqrt(square), c)
    out = 0.0
    if left >= 0:
        out += dot(n, row(normals, left)) + dot(n, row(normals, right))
    if under >= 0:
        out -= dot(n, row(normals, under)) + dot(n, row(normals, over))
    if left < 0 and under < 0:  # two segments: from one line to the other
        out = dot(n, minus(row(x, net.edges[eb, 0]), row(x, net.edges[ea, 0])))
    return True, n if out >= 0.0 else times(-1.0, n)
