"""The axis along which two convex polytopes are furthest apart, or least deep in each other.

Candidates are the normals of the faces of both, and the cross products of pairs of edges that
make a face of their Minkowski difference. The distance of two polytopes is that along the best
of them unless their nearest points are a corner and a corner or a corner and an edge; then the
best is a bound from below. Gottschalk, S., Separating axis theorem, technical report (1996);
the test on pairs of edges by Gauss arcs: Gregorius, D., GDC (2013).
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import part
from cdopt.geometry.hulls import Network
from cdopt.geometry.vectors import Vector, cross, dot, minus, row, times

NONE, FACE_OF_FIRST, FACE_OF_SECOND, EDGES = 0, 1, 2, 3
FACE_FIRST = 1e-6  # of the size: edges must be clearly better than faces
PARALLEL = 1e-6  # rad


@part()
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
    clearly = FACE_FIRST * min(net.size[a], net.size[b])
    first_vertex, first_loop, loop = net.first_vertex, net.first_loop, net.loop
    for side in range(2):
        own, other = (a, b) if side == 0 else (b, a)
        begin, end = first_vertex[other], first_vertex[other + 1]
        for f in range(net.first_face[own], net.first_face[own + 1]):
            n = row(normals, f)
            apart = lowest(x, begin, end, n) - dot(n, row(x, loop[first_loop[f]]))
            if apart > best + (clearly if side == 1 else 0.0):
                best = apart
                if side == 0:
                    kind, first, axis = FACE_OF_FIRST, f, n
                else:
                    kind, second, axis = FACE_OF_SECOND, f, times(-1.0, n)
                if best > limit:
                    return best, kind, first, second, axis
    edges, sides = net.edges, net.edge_faces
    for ea in range(net.first_edge[a], net.first_edge[a + 1]):
        start = row(x, edges[ea, 0])
        da = minus(row(x, edges[ea, 1]), start)
        left, right = _normals(normals, sides[ea, 0], sides[ea, 1])
        for eb in range(net.first_edge[b], net.first_edge[b + 1]):
            other_start = row(x, edges[eb, 0])
            db = minus(row(x, edges[eb, 1]), other_start)
            under, over = _normals(normals, sides[eb, 0], sides[eb, 1])
            between = minus(other_start, start)
            makes, n = _minkowski_face(
                da, left, right, sides[ea, 0] >= 0, db, under, over, sides[eb, 0] >= 0, between
            )
            if makes:
                apart = dot(n, between)
                if apart > best + clearly:
                    best, kind, first, second, axis = apart, EDGES, ea, eb, n
                    if best > limit:
                        return best, kind, first, second, axis
    return best, kind, first, second, axis


@part()
def lowest(x: FloatArray, begin: int, end: int, n: Vector) -> float:
    """The least of n · x over rows from ``begin`` to before ``end``."""
    least = np.inf
    for v in range(begin, end):
        least = min(least, dot(n, row(x, v)))
    return least


@part()
def _normals(normals: FloatArray, left: int, right: int) -> tuple[Vector, Vector]:
    """Of the faces beside an edge; zeros where there are none."""
    if left < 0:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    return row(normals, left), row(normals, right)


@part()
def _minkowski_face(
    da: Vector, left: Vector, right: Vector, sided: bool, db: Vector, under: Vector, over: Vector,
    other_sided: bool, between: Vector,
) -> tuple[bool, Vector]:  # fmt: skip
    """Whether two edges make a face of the Minkowski difference, and its normal, from a to b.

    Parameters
    ----------
    da, db : along the edges. left, right, under, over : normals of the faces beside them, if
        they have any. between : from a point of the first to one of the second.
    """
    q = r = 0.0
    if sided:
        q = dot(right, db)
        if dot(left, db) * q >= 0.0:
            return False, da
    if other_sided:
        r = dot(under, da)
        if r * dot(over, da) >= 0.0 or (sided and r * q >= 0.0):
            return False, da
    c = cross(da, db)
    square = dot(c, c)
    if square <= PARALLEL**2 * dot(da, da) * dot(db, db):
        return False, c
    n = times(1.0 / np.sqrt(square), c)
    out = 0.0
    if sided:
        out += dot(n, left) + dot(n, right)
    if other_sided:
        out -= dot(n, under) + dot(n, over)
    if not sided and not other_sided:  # two segments: from one line to the other
        out = dot(n, between)
    return True, n if out >= 0.0 else times(-1.0, n)
