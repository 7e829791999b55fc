"""Vectors of three numbers as tuples: what compiled loops over corners and edges compute with."""

from __future__ import annotations

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
