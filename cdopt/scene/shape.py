"""What every shape of a body says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.geometry.hulls import Piece
from cdopt.geometry.mass_properties import MassProperties

if TYPE_CHECKING:
    Vector = ArrayLike
    Corners = ArrayLike
else:  # what a scene file may hold
    Vector = Sequence[float]
    Corners = Sequence[Sequence[float]]
Columns = Mapping[str, FloatArray]
Dim = checks.Dim


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every shape says of itself.

    Attributes
    ----------
    kind : its name in scene files.
    vectors : fields with one number per axis.
    dims : where it lives: in the plane, in space, or both.
    always_fixed : bodies of this shape never move freely.
    turns : frictionless contacts can turn a body of this shape.
    numbers : its fields are numbers, the same for every body of the kind; columns of many bodies
        hold them. Of other shapes columns hold what follows from them.
    """

    kind: ClassVar[str] = ""
    vectors: ClassVar[tuple[str, ...]] = ()
    dims: ClassVar[tuple[int, ...]] = (2, 3)
    always_fixed: ClassVar[bool] = False
    turns: ClassVar[bool] = True
    numbers: ClassVar[bool] = True

    @classmethod
    def volume(cls, columns: Columns, dim: Dim) -> FloatArray:
        """(n,) m³; in the plane area × 1 m of depth."""
        raise NotImplementedError

    @classmethod
    def inertia(cls, columns: Columns, dim: Dim) -> FloatArray:
        """Per mass, m²: (n,) in the plane, (n, 3) about the principal axes in space."""
        raise NotImplementedError

    @classmethod
    def principal(cls, columns: Columns) -> FloatArray:
        """(n, 4) unit quaternions from the principal axes to the body's own."""
        return np.tile([1.0, 0.0, 0.0, 0.0], (cls.core(columns).size, 1))

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:
        """(n,) radius of the bounding sphere about the centre of mass, m."""
        raise NotImplementedError

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:
        """(n,) half-width: radius of a sphere that fits inside, in the thinnest part, m."""
        raise NotImplementedError

    @classmethod
    def curvature(cls, columns: Columns) -> FloatArray:
        """(n,) 1/R of the surface for Hertz contacts, 1/m; 0 where flat, nan where it varies."""
        return np.zeros(cls.core(columns).shape)

    def pieces(self, dim: Dim) -> tuple[Piece, ...]:
        """Convex pieces about the centre of mass; none for a shape without bounds."""
        return ()

    def matter(self, dim: Dim) -> MassProperties:
        """Mass properties at density 1, in the coordinates of the shape's fields.

        Raises
        ------
        Unsupported : a shape without bounds.
        """
        raise Unsupported(type(self).__name__, "a shape without bounds has no mass")

    def plain(self) -> Shape:
        """The same of plain numbers and lists, which nobody else holds."""
        values = (getattr(self, name) for name in self.__struct_fields__)
        return type(self)(*(np.asarray(value, dtype=np.float64).tolist() for value in values))


def column(columns: Columns, name: str) -> FloatArray:
    """One column of numbers.

    Raises
    ------
    InvalidInput : the columns are those of another shape.
    """
    if name not in columns:
        raise InvalidInput("columns", f"no {name!r}", "the columns of this shape")
    return columns[name]


def positive(name: str, value: object) -> None:
    """A quick look at numbers that are plainly right, the full check for the others.

    Raises
    ------
    InvalidInput : not a positive number.
    """
    if not (type(value) is float and 1e-100 < value < 1e100):
        checks.scalar(name, value, above=0.0)
