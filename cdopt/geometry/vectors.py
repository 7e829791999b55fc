"""Vectors in space as tuples of three numbers, and segments, in compiled loops."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import part

Vector = tuple[float, float, float]


@part()
def row(x: FloatArray, k: int) -> Vector:
    """Row k of a table."""
    return x[k, 0], x[k, 1], x[k, 2]


@part()
def dot(a: Vector, b: Vector) -> float:
    """a · b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@part()
def cross(a: Vector, b: Vector) -> Vector:
    """a × b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@part()
def minus(a: Vector, b: Vector) -> Vector:
    """a − b."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@part()
def along(a: Vector, s: float, d: Vector) -> Vector:
    """a + s d."""
    return a[0] + s * d[0], a[1] + s * d[1], a[2] + s * d[2]


@part()
def times(s: float, a: Vector) -> Vector:
    """s a."""
    return s * a[0], s * a[1], s * a[2]


@part()
def nearest_on_segments(p: Vector, q: Vector, r: Vector, s: Vector) -> tuple[float, float]:
    """Where, in [0, 1], the segments p–q and r–s are nearest (Ericson 2005, section 5.1.9)."""
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
def segment_distance(p: Vector, q: Vector, r: Vector, s: Vector) -> tuple[float, float, float]:
    """Distance of the segments p–q and r–s, m, and where on them, in [0, 1]."""
    t, u = nearest_on_segments(p, q, r, s)
    gap = minus(along(r, u, minus(s, r)), along(p, t, minus(q, p)))
    return np.sqrt(dot(gap, gap)), t, u
