"""Pieces that share no more than a rim, and pieces without thickness."""

from __future__ import annotations

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import part
from cdopt.geometry.axes import lowest
from cdopt.geometry.found import SAME_PLACE
from cdopt.geometry.hulls import Network
from cdopt.geometry.vectors import Vector, dot, row

ACROSS = 0.98  # cosine: faces turned less from the axis are the ones in contact
OPPOSITE = -0.9999  # cosine: faces turned against each other that may lie in one plane


@part()
def thin(net: Network, piece: int) -> bool:
    """Whether a piece is a point or a segment; in the plane a segment has two sides."""
    return bool(net.first_face[piece + 1] - net.first_face[piece] <= 2)


@part()
def rim_to_rim(
    net: Network, x: FloatArray, normals: FloatArray, a: int, b: int, n: Vector, best: float
) -> bool:
    """Whether two pieces are flush across n and apart, or just touching, along it.

    A box that slides over flush tiles has the next tile ahead of it, with which it shares the
    height of the tiles' tops and nothing more. They do not touch: the tile is no step. The same
    holds for bricks that meet corner to corner across a joint.
    """
    tol = SAME_PLACE * min(net.size[a], net.size[b])
    if best < -tol:
        return False
    for side in range(2):
        own, other = (a, b) if side == 0 else (b, a)
        sign = 1.0 if side == 0 else -1.0
        for f in range(net.first_face[own], net.first_face[own + 1]):
            m = row(normals, f)
            if sign * dot(m, n) > ACROSS:
                continue
            level = dot(m, row(x, net.loop[net.first_loop[f]]))
            if (
                abs(lowest(x, net.first_vertex[other], net.first_vertex[other + 1], m) - level)
                > tol
            ):
                continue
            for g in range(net.first_face[other], net.first_face[other + 1]):
                if dot(row(normals, g), m) < OPPOSITE:
                    return True
    return False
