"""Contact points as compiled loops write them down."""

from __future__ import annotations

from typing import NamedTuple

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import part
from cdopt.geometry.vectors import Vector, along, dot, minus

SAME_PLACE = 1e-6  # of the smaller piece: points nearer to each other are one


class Found(NamedTuple):
    """Room for contact points, and how many there are.

    tally : (3,) points so far, those that found no room included; where those of this pair of
        pieces begin; where those of its two bodies begin.
    pair : (room,) numbers of the pairs. labels : (room, 2) what touches, as their bodies call it.
    gap : (room,) m. normal, place : (room, 3), from first to second, and halfway across the gap.
    """

    tally: IntArray
    pair: IntArray
    labels: IntArray
    gap: FloatArray
    normal: FloatArray
    place: FloatArray


@part()
def taken(found: Found, la: int, lb: int) -> bool:
    """Whether a point of these two bodies has these names already."""
    for k in range(found.tally[2], min(found.tally[0], found.pair.size)):
        if found.labels[k, 0] == la and found.labels[k, 1] == lb:
            return True
    return False


@part()
def note(
    found: Found, pair: int, la: int, lb: int, distance: float, ra: float, rb: float, n: Vector,
    at: Vector, same: float,
) -> None:  # fmt: skip
    """Write down a contact point, unless it is known already.

    Parameters
    ----------
    distance : between the cores along n, m; ``at`` is the point on the first core.
    ra, rb : roundness of the two.
    same : points of a pair nearer than this are one, m.
    """
    place = along(at, 0.5 * (distance + ra - rb), n)
    for k in range(found.tally[1], min(found.tally[0], found.pair.size)):
        off = minus((found.place[k, 0], found.place[k, 1], found.place[k, 2]), place)
        if dot(off, off) <= same * same:
            return
    k = found.tally[0]
    found.tally[0] += 1
    if k < found.pair.size:
        found.pair[k] = pair
        found.labels[k, 0], found.labels[k, 1] = la, lb
        found.gap[k] = distance - ra - rb
        for axis in range(3):
            found.normal[k, axis] = n[axis]
            found.place[k, axis] = place[axis]
