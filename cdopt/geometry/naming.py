"""What a contact point is called: after the corner or the edge it lies on, whatever found it.

Boxes that stand flush on each other meet where a corner of one lies on a corner of the other.
Round-off decides whether that is found as a corner over a face or as two edges that cross; the
name must not depend on it, for forces are carried from step to step by name.
"""

from __future__ import annotations

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import part
from cdopt.geometry.hulls import Network
from cdopt.geometry.vectors import Vector, along, dot, minus, row

ON = 1e-3  # of the size: a point nearer than this to a corner or an edge is called after it


@part()
def called(net: Network, x: FloatArray, piece: int, p: Vector, label: int) -> int:
    """The corner or else the edge of a piece that a point of it lies on; ``label`` if on none."""
    limit = (ON * net.size[piece]) ** 2
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
