"""Contact points of convex pieces, in space; a scene in the plane lies at height 0.

A contact point is a pair of features: a corner over a face, two edges that cross, and where
nothing is flat a corner and an edge or two corners. Its gap is their distance along its own
normal, of the face, across both edges or from corner to corner; so every gap is a smooth function
of the motion whose gradient is exactly that of two points pressed together along the normal.
Where faces lie on each other the points are all corners of the area they share.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt.geometry.axes import (
    EDGES,
    FACE_FIRST,
    FACE_OF_FIRST,
    NONE,
    PARALLEL,
    separating_axis,
)
from cdopt.geometry.found import SAME_PLACE, Found, note, taken
from cdopt.geometry.hulls import Network
from cdopt.geometry.naming import called
from cdopt.geometry.nearest import between, crossing, edge_count, ends, nearest_edges
from cdopt.geometry.polytope import LABELS
from cdopt.geometry.rims import rim_to_rim, thin
from cdopt.geometry.vectors import Vector, along, cross, dot, minus, row, times

FLAT = 0.98  # cosine: a face turned less from the axis lies in the contact
SIDE_BY_SIDE = 0.2  # rad: nearest edges turned less touch along their length
FACING = -0.1  # cosine: features of faces turned less towards the other are not in its way
INSIDE = 1e-9  # of the size: how far outside a face a corner still is over it


@compiled()
def find_points(
    pairs: IntArray, fresh: BoolArray, net: Network, x: FloatArray, normals: FloatArray,
    margin: FloatArray, found: Found,
) -> None:  # fmt: skip
    """Contact points of pairs (n, 2) of pieces with gaps up to ``margin`` (n,) m.

    ``fresh`` (n,) is true where a pair belongs to other bodies than the one before it.
    """
    found.tally[0] = 0
    for k in range(pairs.shape[0]):
        found.tally[1] = found.tally[0]
        if fresh[k]:
            found.tally[2] = found.tally[0]
        _touch(k, pairs[k, 0], pairs[k, 1], net, x, normals, margin[k], found)


@part()
def _touch(
    k: int, a: int, b: int, net: Network, x: FloatArray, normals: FloatArray, margin: float,
    found: Found,
) -> None:  # fmt: skip
    round_ = net.radius[a] + net.radius[b]
    best, kind, first, second, n = separating_axis(net, x, normals, a, b, margin + round_)
    if best - round_ > margin or (
        kind != NONE and round_ == 0.0 and rim_to_rim(net, x, normals, a, b, n, best)
    ):
        return
    if kind != NONE:
        wide = 4.0 * FACE_FIRST
        least = _face_points(k, a, b, n, INSIDE, net, x, normals, margin, found)
        if least <= best + wide * min(net.size[a], net.size[b]):
            return  # among them the nearest of all
        if kind == EDGES:
            t, u, _ = _cross_at(net, x, first, second)
            solid = not (thin(net, a) and thin(net, b))
            if (solid and best <= 0.0) or (0.0 <= t <= 1.0 and 0.0 <= u <= 1.0):
                p = row(x, net.edges[first, 0])
                at = along(p, t, minus(row(x, net.edges[first, 1]), p))
                _note(k, a, b, net.edge_label[first], net.edge_label[second], best, n, at, net, x,
                      margin, found)  # fmt: skip
                if solid:
                    return
        elif best <= 0.0 and not (
            thin(net, a) and thin(net, b) and nearest_edges(net, x, a, b) > 0.0
        ):
            if _face_points(k, a, b, n, wide, net, x, normals, margin, found) == np.inf:
                _deepest(k, a, b, kind, first if kind == FACE_OF_FIRST else second, best, n, net,
                         x, margin, found)  # fmt: skip
            return
    _nearest(k, a, b, net, x, margin, found)


@part()
def _face_points(
    k: int, a: int, b: int, n: Vector, inside: float, net: Network, x: FloatArray,
    normals: FloatArray, margin: float, found: Found,
) -> float:  # fmt: skip
    """Points where faces that lie flat across n are met; the least distance among them."""
    away = times(-1.0, n)
    face = _flat_face(net, normals, a, n), _flat_face(net, normals, b, away)
    least = min(
        _corners_over_face(k, a, b, face[0], 1.0, n, inside, net, x, normals, margin, found),
        _corners_over_face(k, b, a, face[1], -1.0, n, inside, net, x, normals, margin, found),
    )
    if face[0] >= 0 or face[1] >= 0:
        crossed = _crossing_edges(k, a, b, face, n, inside, net, x, normals, margin, found)
        least = min(least, crossed)
    return least


@part()
def _note(
    k: int, a: int, b: int, la: int, lb: int, distance: float, n: Vector, at: Vector,
    net: Network, x: FloatArray, margin: float, found: Found,
) -> float:  # fmt: skip
    """Write down a contact point; its distance, or infinity beyond the margin."""
    same = SAME_PLACE * min(net.size[a], net.size[b])
    ra, rb = net.radius[a], net.radius[b]
    if distance - ra - rb > margin:
        return np.inf
    na = called(net, x, a, at, la)
    nb = called(net, x, b, along(at, distance, n), lb)
    if taken(found, na, nb):  # as where a small corner is cut off
        na, nb = la, lb
        while taken(found, na, nb):
            nb = LABELS - 1 if nb == lb else nb - 1
    note(found, k, na, nb, distance, ra, rb, n, at, same)
    return distance


@part()
def _flat_face(net: Network, normals: FloatArray, piece: int, n: Vector) -> int:
    """The face that lies most squarely across n; −1 if none lies flat."""
    best, chosen = FLAT, -1
    for f in range(net.first_face[piece], net.first_face[piece + 1]):
        cosine = dot(row(normals, f), n)
        if cosine > best:
            best, chosen = cosine, f
    return chosen


@part()
def _corners_over_face(
    k: int, own: int, other: int, face: int, sign: float, n: Vector, inside: float, net: Network,
    x: FloatArray, normals: FloatArray, margin: float, found: Found,
) -> float:  # fmt: skip
    """Least distance of corners of the other over a face; ``sign`` −1: the face is the second's."""
    least = np.inf
    if face < 0:
        return least
    m = row(normals, face)
    base = row(x, net.loop[net.first_loop[face]])
    round_ = net.radius[own] + net.radius[other]
    for v in range(net.first_vertex[other], net.first_vertex[other + 1]):
        p = row(x, v)
        height = dot(m, minus(p, base))
        if height - round_ > margin or not _over(net, x, face, m, p, net.size[own], inside):
            continue
        if not _corner_faces(net, x, normals, other, v, times(-sign, n)):
            continue
        if sign > 0.0:
            near = _note(k, own, other, net.face_label[face], net.vertex_label[v], height, m,
                         along(p, -height, m), net, x, margin, found)  # fmt: skip
        else:
            near = _note(k, other, own, net.vertex_label[v], net.face_label[face], height,
                         times(-1.0, m), p, net, x, margin, found)  # fmt: skip
        least = min(least, near)
    return least


@part()
def _over(
    net: Network, x: FloatArray, face: int, m: Vector, p: Vector, size: float, inside: float
) -> bool:
    """Whether a point lies over a face."""
    begin, end = net.first_loop[face], net.first_loop[face + 1]
    if end - begin == 2:  # a side, in the plane
        u = row(x, net.loop[begin])
        side = minus(row(x, net.loop[begin + 1]), u)
        share = dot(minus(p, u), side) / dot(side, side)
        return -inside <= share <= 1.0 + inside
    for j in range(begin, end):
        u = row(x, net.loop[j])
        side = minus(row(x, net.loop[j + 1 if j + 1 < end else begin]), u)
        out = cross(side, m)
        if dot(minus(p, u), out) > inside * size * np.sqrt(dot(out, out)):
            return False
    return True


@part()
def _corner_faces(
    net: Network, x: FloatArray, normals: FloatArray, piece: int, v: int, away: Vector
) -> bool:
    """Whether a corner is on the side that ``away`` points to: the furthest, or of a face there."""
    faces = net.first_face[piece + 1] > net.first_face[piece]
    for f in range(net.first_face[piece], net.first_face[piece + 1]):
        if dot(row(normals, f), away) > -FACING:
            for j in range(net.first_loop[f], net.first_loop[f + 1]):
                if net.loop[j] == v:
                    return True
    if not faces:
        return True
    own = dot(row(x, v), away)
    for w in range(net.first_vertex[piece], net.first_vertex[piece + 1]):
        if dot(row(x, w), away) > own + SAME_PLACE * net.size[piece]:
            return False
    return True


@part()
def _edge_counts(net: Network, normals: FloatArray, face: int, e: int, away: Vector) -> bool:
    """Whether an edge borders the flat face; without one, whether it is on the side of ``away``."""
    left, right = net.edge_faces[e, 0], net.edge_faces[e, 1]
    if face >= 0:
        return left == face or right == face
    if left < 0:
        return True
    return max(dot(row(normals, left), away), dot(row(normals, right), away)) > -FACING


@part()
def _crossing_edges(
    k: int, a: int, b: int, face: tuple[int, int], n: Vector, inside: float, net: Network,
    x: FloatArray, normals: FloatArray, margin: float, found: Found,
) -> float:  # fmt: skip
    """Least distance of edges of the two that cross, seen along n."""
    least = np.inf
    for ea in range(net.first_edge[a], net.first_edge[a + 1]):
        if not _edge_counts(net, normals, face[0], ea, n):
            continue
        p = row(x, net.edges[ea, 0])
        d = minus(row(x, net.edges[ea, 1]), p)
        for eb in range(net.first_edge[b], net.first_edge[b + 1]):
            if not _edge_counts(net, normals, face[1], eb, times(-1.0, n)):
                continue
            r = row(x, net.edges[eb, 0])
            e = minus(row(x, net.edges[eb, 1]), r)
            c = cross(d, e)
            square = dot(c, c)
            if square <= PARALLEL**2 * dot(d, d) * dot(e, e):
                continue
            m = times((1.0 if dot(c, n) > 0.0 else -1.0) / np.sqrt(square), c)
            if dot(m, n) < FLAT:
                continue
            t, u, _ = _cross_at(net, x, ea, eb)
            if not (-inside <= t <= 1.0 + inside and -inside <= u <= 1.0 + inside):
                continue
            distance = dot(m, minus(r, p))
            near = _note(k, a, b, net.edge_label[ea], net.edge_label[eb], distance, m,
                         along(p, t, d), net, x, margin, found)  # fmt: skip
            least = min(least, near)
    return least


@part()
def _cross_at(net: Network, x: FloatArray, ea: int, eb: int) -> tuple[float, float, Vector]:
    return crossing(row(x, net.edges[ea, 0]), row(x, net.edges[ea, 1]),
                    row(x, net.edges[eb, 0]), row(x, net.edges[eb, 1]))  # fmt: skip


@part()
def _deepest(
    k: int, a: int, b: int, kind: int, face: int, depth: float, n: Vector, net: Network,
    x: FloatArray, margin: float, found: Found,
) -> None:  # fmt: skip
    """The corner that is deepest behind a face, over which no corner lies."""
    other = b if kind == FACE_OF_FIRST else a
    sign = 1.0 if kind == FACE_OF_FIRST else -1.0
    best, chosen = np.inf, net.first_vertex[other]
    for v in range(net.first_vertex[other], net.first_vertex[other + 1]):
        height = sign * dot(n, row(x, v))
        if height < best:
            best, chosen = height, v
    p = row(x, chosen)
    if kind == FACE_OF_FIRST:
        _note(k, a, b, net.face_label[face], net.vertex_label[chosen], depth, n,
              along(p, -depth, n), net, x, margin, found)  # fmt: skip
    else:
        _note(k, a, b, net.vertex_label[chosen], net.face_label[face], depth, n, p, net, x, margin,
              found)  # fmt: skip


@part()
def _nearest(
    k: int, a: int, b: int, net: Network, x: FloatArray, margin: float, found: Found
) -> None:
    """The nearest points of edges and corners, and of all that are as near."""
    least = nearest_edges(net, x, a, b)
    if least - net.radius[a] - net.radius[b] > margin:
        return
    limit = least + SAME_PLACE * min(net.size[a], net.size[b])
    first_edge, first_vertex, edges = net.first_edge, net.first_vertex, net.edges
    count, other = edge_count(net, a), edge_count(net, b)
    for ka in range(count):
        a0, a1 = ends(first_edge, first_vertex, edges, a, ka)
        p, q = row(x, a0), row(x, a1)
        for kb in range(other):
            b0, b1 = ends(first_edge, first_vertex, edges, b, kb)
            distance, t, u = between(p, q, row(x, b0), row(x, b1))
            if distance <= limit:
                _along_edges(k, a, b, ka, kb, t, u, net, x, margin, found)


@part()
def _along_edges(
    k: int, a: int, b: int, ka: int, kb: int, t: float, u: float, net: Network, x: FloatArray,
    margin: float, found: Found,
) -> None:  # fmt: skip
    """Where two edges are nearest; side by side they touch at the ends of what they share."""
    first_edge, first_vertex, edges = net.first_edge, net.first_vertex, net.edges
    a0, a1 = ends(first_edge, first_vertex, edges, a, ka)
    b0, b1 = ends(first_edge, first_vertex, edges, b, kb)
    p, r = row(x, a0), row(x, b0)
    d, e = minus(row(x, a1), p), minus(row(x, b1), r)
    c = cross(d, e)
    askew = a0 == a1 or b0 == b1 or dot(c, c) > SIDE_BY_SIDE**2 * dot(d, d) * dot(e, e)
    if not askew:
        for end in range(2):
            v = a0 if end == 0 else a1
            s = dot(minus(row(x, v), r), e) / dot(e, e)
            if 0.0 < s < 1.0:
                _from_to(k, a, b, net.vertex_label[v], _label(net, b, kb, s), row(x, v),
                         along(r, s, e), net, x, margin, found)  # fmt: skip
            v = b0 if end == 0 else b1
            s = dot(minus(row(x, v), p), d) / dot(d, d)
            if 0.0 < s < 1.0:
                _from_to(k, a, b, _label(net, a, ka, s), net.vertex_label[v], along(p, s, d),
                         row(x, v), net, x, margin, found)  # fmt: skip
    if (
        askew
        or dot(c, c) > PARALLEL**2 * dot(d, d) * dot(e, e)
        or t in (0.0, 1.0)
        or (u in (0.0, 1.0))
    ):
        _from_to(k, a, b, _label(net, a, ka, t), _label(net, b, kb, u), along(p, t, d),
                 along(r, u, e), net, x, margin, found)  # fmt: skip


@part()
def _label(net: Network, piece: int, edge: int, t: float) -> int:
    """What a body calls a place on an edge of a piece: the edge, or the corner at its end."""
    v0, v1 = ends(net.first_edge, net.first_vertex, net.edges, piece, edge)
    if t <= 0.0 or v0 == v1:
        return net.vertex_label[v0]
    if t >= 1.0:
        return net.vertex_label[v1]
    return net.edge_label[net.first_edge[piece] + edge]


@part()
def _from_to(
    k: int, a: int, b: int, la: int, lb: int, p: Vector, r: Vector, net: Network, x: FloatArray,
    margin: float, found: Found,
) -> None:  # fmt: skip
    """A contact of two points, along the line between them; in one place along the first axis."""
    off = minus(r, p)
    distance = np.sqrt(dot(off, off))
    n = times(1.0 / distance, off) if distance > 0.0 else (1.0, 0.0, 0.0)
    _note(k, a, b, la, lb, distance, n, p, net, x, margin, found)
