"""Narrow phase: contact points of pairs of convex pieces; in the plane they lie at z = 0.

A contact point is a pair of features: a corner over a face, two edges that cross, or, where
nothing is flat, a corner and an edge or two corners. Its gap is their distance along its normal:
that of the face, that across both edges, or the line from corner to corner. So every gap is a
smooth function of the motion, and its gradient is that of two points pressed together along the
normal. Where faces lie on each other, the points are the corners of the area they share.

The axis of least penetration is searched among the normals of the faces of both pieces and the
cross products of pairs of edges that make a face of their Minkowski difference. It gives the
distance of two polytopes unless their nearest points are two corners or a corner and an edge; then
it gives a lower bound. Gottschalk, S., Separating axis theorem, technical report (1996); the test
on pairs of edges by Gauss arcs: Gregorius, D., GDC (2013).
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled, compiled_in_time, part
from cdopt.geometry.hulls import Hulls, Topology
from cdopt.geometry.point_list import (
    BODIES_START,
    COUNT,
    PIECES_START,
    SAME_PLACE,
    ContactPoints,
    Pair,
    add_point,
)
from cdopt.geometry.vectors import Vector, along, cross, dot, minus, row, segment_distance, times

NO_AXIS, FACE_OF_FIRST, FACE_OF_SECOND, EDGES = 0, 1, 2, 3  # kinds of separating axes

SECONDS_IN_PYTHON = 2e-5  # of a pair of edges
ROOM_PER_PAIR = 4  # contact points per pair that there is room for at first
FACE_FIRST = 1e-6  # of the size: an edge axis must be better than a face axis by more
PARALLEL = 1e-6  # rad
FLAT = 0.98  # cosine: a face turned less from the axis lies in the contact
OPPOSITE = -0.9999  # cosine: faces turned against each other that may lie in one plane
SIDE_BY_SIDE = 0.2  # rad: nearest edges turned less touch along their length
FACING = -0.1  # cosine: features of faces turned less towards the other are not in its way
INSIDE = 1e-9  # of the size: how far outside a face a corner still is over it


def contact_points(
    hulls: Hulls, pairs: IntArray, position: FloatArray, rotation: FloatArray, margin: FloatArray
) -> ContactPoints:
    """Contact points with gaps up to ``margin`` (m,) m, of pairs (m, 2) of pieces, in turn."""
    dim = position.shape[1]
    x, normals = hulls.placed(position, rotation)
    if dim == 2:
        x, normals = (np.column_stack([table, np.zeros(len(table))]) for table in (x, normals))
    bodies = hulls.body[pairs]
    new_bodies = np.append(True, (bodies[1:] != bodies[:-1]).any(axis=1))[: len(pairs)]
    pairs = np.ascontiguousarray(pairs)
    edge_pairs = int((1 + np.diff(hulls.topology.first_edge))[pairs].prod(axis=1).sum())
    room = 64 + ROOM_PER_PAIR * len(pairs)
    while True:
        contacts = ContactPoints(
            tally=np.zeros(3, dtype=np.int64),
            pair=np.zeros(room, dtype=np.int64),
            features=np.zeros((room, 2), dtype=np.int64),
            gap=np.zeros(room),
            normals=np.zeros((room, 3)),
            positions=np.zeros((room, 3)),
        )
        data = pairs, new_bodies, hulls.topology, x, normals, margin, contacts
        compiled_in_time(_find_points, SECONDS_IN_PYTHON * edge_pairs, *data)
        count = int(contacts.tally[COUNT])
        if count <= room:
            return contacts._replace(
                pair=contacts.pair[:count],
                features=contacts.features[:count],
                gap=contacts.gap[:count],
                normals=contacts.normals[:count, :dim],
                positions=contacts.positions[:count, :dim],
            )
        room = count


@compiled()
def _find_points(
    pairs: IntArray,
    new_bodies: BoolArray,
    topology: Topology,
    x: FloatArray,
    normals: FloatArray,
    margin: FloatArray,
    contacts: ContactPoints,
) -> None:
    """Fill ``contacts``; ``new_bodies`` (n,): pairs of other bodies than the pair before."""
    contacts.tally[COUNT] = 0
    for k in range(pairs.shape[0]):
        contacts.tally[PIECES_START] = contacts.tally[COUNT]
        if new_bodies[k]:
            contacts.tally[BODIES_START] = contacts.tally[COUNT]
        _touch(Pair(k, pairs[k, 0], pairs[k, 1], topology, x, normals, margin[k], contacts))


@part()
def _touch(pair: Pair) -> None:
    """All contact points of a pair."""
    net, a, b = pair.topology, pair.a, pair.b
    rounding = net.radius[a] + net.radius[b]
    best, kind, first, second, n = _separating_axis(pair, pair.margin + rounding)
    if best - rounding > pair.margin or (
        kind != NO_AXIS and rounding == 0.0 and _rim_to_rim(pair, n, best)
    ):
        return
    if kind != NO_AXIS:
        wide = 4.0 * FACE_FIRST
        least = _face_points(pair, n, INSIDE)
        if least <= best + wide * min(net.size[a], net.size[b]):
            return  # the nearest point of all is among them
        both_thin = _thin(net, a) and _thin(net, b)
        if kind == EDGES:
            t, u = _edges_crossing(pair, first, second)
            if (not both_thin and best <= 0.0) or (0.0 <= t <= 1.0 and 0.0 <= u <= 1.0):
                p = row(pair.x, net.edges[first, 0])
                at = along(p, t, minus(row(pair.x, net.edges[first, 1]), p))
                add_point(pair, net.edge_label[first], net.edge_label[second], best, n, at)
                if not both_thin:
                    return
        elif best <= 0.0 and not (both_thin and _nearest_edges(pair) > 0.0):
            if _face_points(pair, n, wide) == np.inf:
                _deepest_corner(pair, kind, first if kind == FACE_OF_FIRST else second, best, n)
            return
    _nearest_points(pair)


# --- the separating axis -----------------------------------------------------------------------


@part()
def _separating_axis(pair: Pair, limit: float) -> tuple[float, int, int, int, Vector]:
    """Separation along the best axis, or one beyond ``limit``, m; its kind, features, the axis."""
    net, x, normals, a, b = pair.topology, pair.x, pair.normals, pair.a, pair.b
    best, kind, first, second = -np.inf, NO_AXIS, -1, -1
    axis = (1.0, 0.0, 0.0)
    clearly = FACE_FIRST * min(net.size[a], net.size[b])
    for side in range(2):
        piece, other = (a, b) if side == 0 else (b, a)
        for f in range(net.first_face[piece], net.first_face[piece + 1]):
            n = row(normals, f)
            apart = _lowest(pair, other, n) - dot(n, row(x, net.loop[net.first_loop[f]]))
            if apart > best + (clearly if side == 1 else 0.0):
                best = apart
                if side == 0:
                    kind, first, axis = FACE_OF_FIRST, f, n
                else:
                    kind, second, axis = FACE_OF_SECOND, f, times(-1.0, n)
                if best > limit:
                    return best, kind, first, second, axis
    edges, faces = net.edges, net.edge_faces
    for ea in range(net.first_edge[a], net.first_edge[a + 1]):
        start = row(x, edges[ea, 0])
        da = minus(row(x, edges[ea, 1]), start)
        left, right = _edge_normals(normals, faces[ea, 0], faces[ea, 1])
        for eb in range(net.first_edge[b], net.first_edge[b + 1]):
            other_start = row(x, edges[eb, 0])
            db = minus(row(x, edges[eb, 1]), other_start)
            under, over = _edge_normals(normals, faces[eb, 0], faces[eb, 1])
            between = minus(other_start, start)
            q = r = 0.0
            sided, other_sided = faces[ea, 0] >= 0, faces[eb, 0] >= 0
            if sided:
                q = dot(right, db)
                if dot(left, db) * q >= 0.0:
                    continue
            if other_sided:
                r = dot(under, da)
                if r * dot(over, da) >= 0.0 or (sided and r * q >= 0.0):
                    continue
            c = cross(da, db)  # the two edges make a face of the Minkowski difference
            square = dot(c, c)
            if square <= PARALLEL**2 * dot(da, da) * dot(db, db):
                continue
            n = times(1.0 / np.sqrt(square), c)
            out = 0.0
            if sided:
                out += dot(n, left) + dot(n, right)
            if other_sided:
                out -= dot(n, under) + dot(n, over)
            if not sided and not other_sided:  # two segments: from one line to the other
                out = dot(n, between)
            if out < 0.0:
                n = times(-1.0, n)
            apart = dot(n, between)
            if apart > best + clearly:
                best, kind, first, second, axis = apart, EDGES, ea, eb, n
                if best > limit:
                    return best, kind, first, second, axis
    return best, kind, first, second, axis


@part()
def _lowest(pair: Pair, piece: int, n: Vector) -> float:
    """The least of n · x over the corners of a piece."""
    least = np.inf
    for v in range(pair.topology.first_vertex[piece], pair.topology.first_vertex[piece + 1]):
        least = min(least, dot(n, row(pair.x, v)))
    return least


@part()
def _edge_normals(normals: FloatArray, left: int, right: int) -> tuple[Vector, Vector]:
    """Normals of the faces that share an edge; zeros where there are none."""
    if left < 0:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    return row(normals, left), row(normals, right)


# --- degenerate cases --------------------------------------------------------------------------


@part()
def _thin(net: Topology, piece: int) -> bool:
    """Whether a piece is a point or a segment; in the plane a segment has two sides."""
    return bool(net.first_face[piece + 1] - net.first_face[piece] <= 2)


@part()
def _rim_to_rim(pair: Pair, n: Vector, best: float) -> bool:
    """Whether two pieces are flush across n and apart, or just touching, along it.

    A box that slides over flush tiles has the next tile ahead of it, with which it shares the
    height of the tiles' tops and nothing more. They do not touch: the tile is no step. The same
    applies to bricks that meet corner to corner across a joint.
    """
    net, normals = pair.topology, pair.normals
    tol = SAME_PLACE * min(net.size[pair.a], net.size[pair.b])
    if best < -tol:
        return False
    for side in range(2):
        piece, other = (pair.a, pair.b) if side == 0 else (pair.b, pair.a)
        sign = 1.0 if side == 0 else -1.0
        for f in range(net.first_face[piece], net.first_face[piece + 1]):
            m = row(normals, f)
            if sign * dot(m, n) > FLAT:
                continue
            level = dot(m, row(pair.x, net.loop[net.first_loop[f]]))
            if abs(_lowest(pair, other, m) - level) > tol:
                continue
            for g in range(net.first_face[other], net.first_face[other + 1]):
                if dot(row(normals, g), m) < OPPOSITE:
                    return True
    return False


@part()
def _deepest_corner(pair: Pair, kind: int, face: int, depth: float, n: Vector) -> None:
    """The corner that is deepest behind a face, where no corner lies over the face."""
    net = pair.topology
    other = pair.b if kind == FACE_OF_FIRST else pair.a
    sign = 1.0 if kind == FACE_OF_FIRST else -1.0
    best, corner = np.inf, net.first_vertex[other]
    for v in range(net.first_vertex[other], net.first_vertex[other + 1]):
        height = sign * dot(n, row(pair.x, v))
        if height < best:
            best, corner = height, v
    p = row(pair.x, corner)
    if kind == FACE_OF_FIRST:
        la, lb, at = net.face_label[face], net.vertex_label[corner], along(p, -depth, n)
    else:
        la, lb, at = net.vertex_label[corner], net.face_label[face], p
    add_point(pair, la, lb, depth, n, at)


# --- points of faces ---------------------------------------------------------------------------


@part()
def _face_points(pair: Pair, n: Vector, inside: float) -> float:
    """Points on faces that lie flat across n; the least distance among them."""
    first = _flat_face(pair, pair.a, n)
    second = _flat_face(pair, pair.b, times(-1.0, n))
    least = np.inf
    for side in range(2):
        face = first if side == 0 else second
        least = min(least, _corners_over_face(pair, side, face, n, inside))
    if first >= 0 or second >= 0:
        least = min(least, _crossing_edges(pair, first, second, n, inside))
    return least


@part()
def _flat_face(pair: Pair, piece: int, n: Vector) -> int:
    """The face that lies most squarely across n; −1 if none lies flat."""
    best, chosen = FLAT, -1
    for f in range(pair.topology.first_face[piece], pair.topology.first_face[piece + 1]):
        cosine = dot(row(pair.normals, f), n)
        if cosine > best:
            best, chosen = cosine, f
    return chosen


@part()
def _corners_over_face(pair: Pair, side: int, face: int, n: Vector, inside: float) -> float:
    """Corners of one piece over a face of the other; ``side`` 0: the face is the first's."""
    least = np.inf
    if face < 0:
        return least
    net, x = pair.topology, pair.x
    piece, other = (pair.a, pair.b) if side == 0 else (pair.b, pair.a)
    m = row(pair.normals, face)
    base = row(x, net.loop[net.first_loop[face]])
    rounding = net.radius[piece] + net.radius[other]
    sign = 1.0 if side == 0 else -1.0
    towards_face = times(-sign, n)
    for v in range(net.first_vertex[other], net.first_vertex[other + 1]):
        p = row(x, v)
        height = dot(m, minus(p, base))
        if height - rounding > pair.margin or not _over(pair, piece, face, m, p, inside):
            continue
        if not _corner_faces(pair, other, v, towards_face):
            continue
        if side == 0:
            la, lb, at = net.face_label[face], net.vertex_label[v], along(p, -height, m)
        else:
            la, lb, at = net.vertex_label[v], net.face_label[face], p
        least = min(least, add_point(pair, la, lb, height, times(sign, m), at))
    return least


@part()
def _over(pair: Pair, piece: int, face: int, m: Vector, p: Vector, inside: float) -> bool:
    """Whether a point lies over a face of a piece with normal m."""
    net, x = pair.topology, pair.x
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
        if dot(minus(p, u), out) > inside * net.size[piece] * np.sqrt(dot(out, out)):
            return False
    return True


@part()
def _corner_faces(pair: Pair, piece: int, v: int, direction: Vector) -> bool:
    """Whether a corner is on the side of a direction: the furthest, or of a face on that side."""
    net, x = pair.topology, pair.x
    for f in range(net.first_face[piece], net.first_face[piece + 1]):
        if dot(row(pair.normals, f), direction) > -FACING:
            for j in range(net.first_loop[f], net.first_loop[f + 1]):
                if net.loop[j] == v:
                    return True
    if net.first_face[piece + 1] == net.first_face[piece]:
        return True
    height = dot(row(x, v), direction)
    for w in range(net.first_vertex[piece], net.first_vertex[piece + 1]):
        if dot(row(x, w), direction) > height + SAME_PLACE * net.size[piece]:
            return False
    return True


@part()
def _edge_counts(pair: Pair, face: int, e: int, direction: Vector) -> bool:
    """Whether an edge borders the flat face; without one, whether it is on the side of n."""
    left, right = pair.topology.edge_faces[e, 0], pair.topology.edge_faces[e, 1]
    if face >= 0:
        return left == face or right == face
    if left < 0:
        return True
    normals = pair.normals
    return max(dot(row(normals, left), direction), dot(row(normals, right), direction)) > -FACING


@part()
def _crossing_edges(pair: Pair, first: int, second: int, n: Vector, inside: float) -> float:
    """Least distance of edges of the two that cross, seen along n; faces −1 where none is flat."""
    net, x, a, b = pair.topology, pair.x, pair.a, pair.b
    least, back = np.inf, times(-1.0, n)
    for ea in range(net.first_edge[a], net.first_edge[a + 1]):
        if not _edge_counts(pair, first, ea, n):
            continue
        p = row(x, net.edges[ea, 0])
        d = minus(row(x, net.edges[ea, 1]), p)
        for eb in range(net.first_edge[b], net.first_edge[b + 1]):
            if not _edge_counts(pair, second, eb, back):
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
            t, u = _edges_crossing(pair, ea, eb)
            if not (-inside <= t <= 1.0 + inside and -inside <= u <= 1.0 + inside):
                continue
            distance, at = dot(m, minus(r, p)), along(p, t, d)
            near = add_point(pair, net.edge_label[ea], net.edge_label[eb], distance, m, at)
            least = min(least, near)
    return least


@part()
def _edges_crossing(pair: Pair, ea: int, eb: int) -> tuple[float, float]:
    """Where the lines of two edges, which are not parallel, are nearest, in shares of the edges."""
    x, edges = pair.x, pair.topology.edges
    p, r = row(x, edges[ea, 0]), row(x, edges[eb, 0])
    d, e, w = minus(row(x, edges[ea, 1]), p), minus(row(x, edges[eb, 1]), r), minus(r, p)
    c = cross(d, e)
    square = dot(c, c)
    return dot(cross(w, e), c) / square, dot(cross(w, d), c) / square


# --- points of edges and corners ---------------------------------------------------------------


@part()
def _edge_count(net: Topology, piece: int) -> int:
    """Edges of a piece; a point is an edge from itself to itself."""
    return max(1, net.first_edge[piece + 1] - net.first_edge[piece])


@part()
def _edge_ends(net: Topology, piece: int, k: int) -> tuple[int, int]:
    """Corner numbers of edge k of a piece."""
    e = net.first_edge[piece]
    if net.first_edge[piece + 1] == e:
        return net.first_vertex[piece], net.first_vertex[piece]
    return net.edges[e + k, 0], net.edges[e + k, 1]


@part()
def _nearest_edges(pair: Pair) -> float:
    """Least distance between edges of the two, m."""
    net, x = pair.topology, pair.x
    best = np.inf
    for ka in range(_edge_count(net, pair.a)):
        a0, a1 = _edge_ends(net, pair.a, ka)
        p, q = row(x, a0), row(x, a1)
        for kb in range(_edge_count(net, pair.b)):
            b0, b1 = _edge_ends(net, pair.b, kb)
            best = min(best, segment_distance(p, q, row(x, b0), row(x, b1))[0])
    return best


@part()
def _nearest_points(pair: Pair) -> None:
    """The nearest points of edges and corners, and of all that are as near."""
    net, x = pair.topology, pair.x
    least = _nearest_edges(pair)
    if least - net.radius[pair.a] - net.radius[pair.b] > pair.margin:
        return
    limit = least + SAME_PLACE * min(net.size[pair.a], net.size[pair.b])
    for ka in range(_edge_count(net, pair.a)):
        a0, a1 = _edge_ends(net, pair.a, ka)
        p, q = row(x, a0), row(x, a1)
        for kb in range(_edge_count(net, pair.b)):
            b0, b1 = _edge_ends(net, pair.b, kb)
            distance, t, u = segment_distance(p, q, row(x, b0), row(x, b1))
            if distance <= limit:
                _along_edges(pair, ka, kb, t, u)


@part()
def _along_edges(pair: Pair, ka: int, kb: int, t: float, u: float) -> None:
    """Where two edges are nearest; side by side they touch at the ends of what they share."""
    net, x = pair.topology, pair.x
    a0, a1 = _edge_ends(net, pair.a, ka)
    b0, b1 = _edge_ends(net, pair.b, kb)
    p, r = row(x, a0), row(x, b0)
    d, e = minus(row(x, a1), p), minus(row(x, b1), r)
    c = cross(d, e)
    askew = a0 == a1 or b0 == b1 or dot(c, c) > SIDE_BY_SIDE**2 * dot(d, d) * dot(e, e)
    if not askew:
        for end in range(2):
            v = a0 if end == 0 else a1
            s = dot(minus(row(x, v), r), e) / dot(e, e)
            if 0.0 < s < 1.0:
                label = _label(net, pair.b, kb, s)
                _add_between(pair, net.vertex_label[v], label, row(x, v), along(r, s, e))
            v = b0 if end == 0 else b1
            s = dot(minus(row(x, v), p), d) / dot(d, d)
            if 0.0 < s < 1.0:
                label = _label(net, pair.a, ka, s)
                _add_between(pair, label, net.vertex_label[v], along(p, s, d), row(x, v))
    if (
        askew
        or dot(c, c) > PARALLEL**2 * dot(d, d) * dot(e, e)
        or t in (0.0, 1.0)
        or u in (0.0, 1.0)
    ):
        la, lb = _label(net, pair.a, ka, t), _label(net, pair.b, kb, u)
        _add_between(pair, la, lb, along(p, t, d), along(r, u, e))


@part()
def _label(net: Topology, piece: int, edge: int, t: float) -> int:
    """Feature id of a point on an edge of a piece: the edge, or the corner at its end."""
    v0, v1 = _edge_ends(net, piece, edge)
    if t <= 0.0 or v0 == v1:
        return net.vertex_label[v0]
    if t >= 1.0:
        return net.vertex_label[v1]
    return net.edge_label[net.first_edge[piece] + edge]


@part()
def _add_between(pair: Pair, la: int, lb: int, p: Vector, r: Vector) -> None:
    """A contact of two points, along the line between them; in one place along the first axis."""
    off = minus(r, p)
    distance = np.sqrt(dot(off, off))
    n = times(1.0 / distance, off) if distance > 0.0 else (1.0, 0.0, 0.0)
    add_point(pair, la, lb, distance, n, p)
