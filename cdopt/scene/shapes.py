"""Shapes of bodies: each a small class whose formulas work on columns of many at a time.

A new shape is one class here, added to SHAPES, and its gap functions in ``pairs``. Its fields
are those of a body in a scene file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from cdopt import checks
from cdopt.checks import FloatArray
from cdopt.errors import InvalidInput
from cdopt.scene.rotations import unit

if TYPE_CHECKING:
    Vector = ArrayLike
else:  # what a scene file may hold
    Vector = Sequence[float]
Columns = Mapping[str, FloatArray]


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every shape says of itself.

    Attributes
    ----------
    kind : its name in scene files.
    vectors : fields with one number per axis.
    always_fixed : bodies of this shape never move freely.
    turns : frictionless contacts can turn a body of this shape.
    """

    kind: ClassVar[str] = ""
    vectors: ClassVar[tuple[str, ...]] = ()
    always_fixed: ClassVar[bool] = False
    turns: ClassVar[bool] = True

    @classmethod
    def volume(cls, columns: Columns, dim: int) -> FloatArray:
        """(n,) m³; in the plane area × 1 m of depth."""
        raise NotImplementedError

    @classmethod
    def inertia(cls, columns: Columns, dim: int) -> FloatArray:
        """Per mass, m²: (n,) in the plane, (n, 3) about the body's own axes in space."""
        raise NotImplementedError

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:
        """(n,) radius of the bounding sphere, m."""
        raise NotImplementedError

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:
        """(n,) radius of the largest sphere inside, m."""
        raise NotImplementedError

    @classmethod
    def curvature(cls, columns: Columns) -> FloatArray:
        """(n,) 1/R of the surface for Hertz contacts, 1/m; 0 where flat."""
        return np.zeros(cls.core(columns).shape)


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
        _positive("radius", self.radius)

    @classmethod
    def volume(cls, columns: Columns, dim: int) -> FloatArray:  # noqa: D102
        radius = columns["radius"]
        return np.pi * radius**2 if dim == 2 else 4.0 / 3.0 * np.pi * radius**3

    @classmethod
    def inertia(cls, columns: Columns, dim: int) -> FloatArray:  # noqa: D102
        square = columns["radius"] ** 2
        return 0.5 * square if dim == 2 else np.tile(0.4 * square[:, None], (1, 3))

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return columns["radius"].copy()

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return columns["radius"].copy()

    @classmethod
    def curvature(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return 1.0 / columns["radius"]


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
    def volume(cls, columns: Columns, dim: int) -> FloatArray:  # noqa: D102
        return np.full(columns["normal"].shape[0], np.inf)

    @classmethod
    def inertia(cls, columns: Columns, dim: int) -> FloatArray:  # noqa: D102
        count = columns["normal"].shape[0]
        return np.full(count if dim == 2 else (count, 3), np.inf)

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return np.full(columns["normal"].shape[0], np.inf)

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return np.full(columns["normal"].shape[0], np.inf)


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
            _positive("size", float(length))

    @classmethod
    def volume(cls, columns: Columns, dim: int) -> FloatArray:  # noqa: D102
        return np.asarray(columns["size"].prod(axis=1))

    @classmethod
    def inertia(cls, columns: Columns, dim: int) -> FloatArray:  # noqa: D102
        square = columns["size"] ** 2
        total = square.sum(axis=1)
        return total / 12.0 if dim == 2 else (total[:, None] - square) / 12.0

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return 0.5 * np.linalg.norm(columns["size"], axis=1)

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:  # noqa: D102
        return 0.5 * columns["size"].min(axis=1)


SHAPES: tuple[type[Shape], ...] = (Sphere, HalfSpace, Box)
KINDS: dict[str, type[Shape]] = {shape.kind: shape for shape in SHAPES}


def fields(shape: type[Shape]) -> tuple[str, ...]:
    """Names of the numbers that make a shape, as in scene files."""
    return tuple(shape.__struct_fields__)


def gather(shape: type[Shape], given: Sequence[Any]) -> dict[str, FloatArray]:
    """Columns (n,) or (n, dim) of the numbers of many shapes of one kind; normals at length 1."""
    columns = {}
    for name in fields(shape):
        column = np.array([getattr(one, name) for one in given], dtype=np.float64)
        columns[name] = unit(column) if name == "normal" else column
    return columns


def _positive(name: str, value: object) -> None:
    """A quick look at numbers that are plainly right, the full check for the others."""
    if not (type(value) is float and 1e-100 < value < 1e100):
        checks.scalar(name, value, above=0.0)
