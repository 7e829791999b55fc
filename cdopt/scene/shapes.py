"""Shapes of bodies: each a small class whose formulas work on columns of many at a time.

A new shape is one class, added to SHAPES. Its fields are those of a body in a scene file; its
convex pieces bring it into contact with all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.geometry.hulls import Piece
from cdopt.geometry.mass_properties import MassProperties, of_capsule, of_polytope
from cdopt.geometry.polytope import LARGEST, SMALLEST, box, point, segment
from cdopt.geometry.rotations import unit
from cdopt.scene.convex import Compound, Polygon, Polyhedron, derived
from cdopt.scene.shape import Columns, Dim, Shape, Vector, column, positive


class Sphere(Shape, frozen=True, forbid_unknown_fields=True):
    """A sphere of ``radius`` m; in the plane a disc.

    Raises
    ------
    InvalidInput : the radius is not positive.
    """

    radius: float

    kind: ClassVar[str] = "sphere"
    turns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive("radius", self.radius)

    @classmethod
    def volume(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        radius = column(columns, "radius")
        return np.pi * radius**2 if dim == 2 else 4.0 / 3.0 * np.pi * radius**3

    @classmethod
    def inertia(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        square = column(columns, "radius") ** 2
        return 0.5 * square if dim == 2 else np.tile(0.4 * square[:, None], (1, 3))

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return column(columns, "radius").copy()

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return column(columns, "radius").copy()

    @classmethod
    def curvature(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return 1.0 / column(columns, "radius")

    def pieces(self, dim: Dim) -> tuple[Piece, ...]:  # noqa: D102
        return (Piece(point(dim), float(self.radius)),)

    def matter(self, dim: Dim) -> MassProperties:  # noqa: D102
        return of_capsule(float(self.radius), 0.0, dim)


class HalfSpace(Shape, frozen=True, forbid_unknown_fields=True):
    """A floor or a wall: everything behind a plane through the body's position. Always fixed.

    ``normal`` points out of the solid, towards the bodies it holds; its length does not matter.
    A velocity given to the body makes it a moving wall.

    Raises
    ------
    InvalidInput : the normal is not finite or zero.
    """

    normal: Vector

    kind: ClassVar[str] = "half-space"
    vectors: ClassVar[tuple[str, ...]] = ("normal",)
    always_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        direction = checks.vector("normal", self.normal, None)
        if not np.linalg.norm(direction) > 0.0:
            raise InvalidInput("normal", "length 0", "a direction")

    @classmethod
    def volume(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        return np.full(column(columns, "normal").shape[0], np.inf)

    @classmethod
    def inertia(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        count = column(columns, "normal").shape[0]
        return np.full(count if dim == 2 else (count, 3), np.inf)

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return np.full(column(columns, "normal").shape[0], np.inf)

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return np.full(column(columns, "normal").shape[0], np.inf)


class Box(Shape, frozen=True, forbid_unknown_fields=True):
    """A cuboid about the body's position, in the plane a rectangle; thin ones are rods and plates.

    ``size`` holds the full lengths of its edges in m, one per axis of the body's frame.

    Raises
    ------
    InvalidInput : a length is not positive.
    """

    size: Vector

    kind: ClassVar[str] = "box"
    vectors: ClassVar[tuple[str, ...]] = ("size",)

    def __post_init__(self) -> None:
        for length in checks.vector("size", self.size, None):
            positive("size", float(length))

    @classmethod
    def volume(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        return np.asarray(column(columns, "size").prod(axis=1))

    @classmethod
    def inertia(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        square = column(columns, "size") ** 2
        total = square.sum(axis=1)
        return total / 12.0 if dim == 2 else (total[:, None] - square) / 12.0

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return 0.5 * np.linalg.norm(column(columns, "size"), axis=1)

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return 0.5 * column(columns, "size").min(axis=1)

    def pieces(self, dim: Dim) -> tuple[Piece, ...]:  # noqa: D102
        return (Piece(box(np.asarray(self.size, dtype=np.float64)), 0.0),)

    def matter(self, dim: Dim) -> MassProperties:  # noqa: D102
        return of_polytope(box(np.asarray(self.size, dtype=np.float64)))


class Capsule(Shape, frozen=True, forbid_unknown_fields=True):
    """A cylinder along the body's first axis with round ends; in the plane a stadium.

    ``length`` is that of the straight part, between the centres of the ends, and ``radius`` that
    of both, m.

    Raises
    ------
    InvalidInput : a number that is not from 1e-30 to 1e30.
    """

    radius: float
    length: float

    kind: ClassVar[str] = "capsule"

    def __post_init__(self) -> None:
        for name in ("radius", "length"):
            checks.scalar(name, getattr(self, name), at_least=SMALLEST, at_most=LARGEST)

    @classmethod
    def volume(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        return np.array([solid.volume for solid in cls._solids(columns, dim)])

    @classmethod
    def inertia(cls, columns: Columns, dim: Dim) -> FloatArray:  # noqa: D102
        own = [np.diag(solid.inertia()) for solid in cls._solids(columns, dim)]
        return np.array(own).reshape(len(own), -1)[:, 0] if dim == 2 else np.array(own)

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return np.asarray(column(columns, "radius") + 0.5 * column(columns, "length"))

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return column(columns, "radius").copy()

    @classmethod
    def curvature(cls, columns: Columns) -> FloatArray:
        """1/radius, of the round ends."""
        return 1.0 / column(columns, "radius")

    @staticmethod
    def _solids(columns: Columns, dim: Dim) -> list[MassProperties]:
        radii, lengths = (column(columns, name).tolist() for name in ("radius", "length"))
        sizes = zip(radii, lengths, strict=True)
        return [of_capsule(radius, length, dim) for radius, length in sizes]

    def pieces(self, dim: Dim) -> tuple[Piece, ...]:  # noqa: D102
        return (Piece(segment(float(self.length), dim), float(self.radius)),)

    def matter(self, dim: Dim) -> MassProperties:  # noqa: D102
        return of_capsule(float(self.radius), float(self.length), dim)


SHAPES: tuple[type[Shape], ...] = (
    Sphere, HalfSpace, Box, Capsule, Polygon, Polyhedron, Compound,
)  # fmt: skip
KINDS: dict[str, type[Shape]] = {shape.kind: shape for shape in SHAPES}


def fields(shape: type[Shape]) -> tuple[str, ...]:
    """Names of the fields that make a shape, as in scene files."""
    return tuple(shape.__struct_fields__)


def gather(shape: type[Shape], given: Sequence[Any], dim: Dim) -> dict[str, FloatArray]:
    """Columns (n,) or (n, dim) of the numbers of many shapes of one kind; normals at length 1."""
    if not shape.numbers:
        return derived(given, dim)
    columns = {}
    for name in fields(shape):
        column = np.array([getattr(one, name) for one in given], dtype=np.float64)
        columns[name] = unit(column) if name == "normal" else column
    return columns
