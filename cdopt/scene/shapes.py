"""Shapes of bodies.

A new shape is one class, added to SHAPES. Its fields are fields of a body in a scene file. It must
give its mass properties and its convex pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.geometry import polytope
from cdopt.geometry.hulls import Piece
from cdopt.geometry.polytope import (
    LARGEST,
    SMALLEST,
    MassProperties,
    Polytope,
    combined,
    of_capsule,
    of_polytope,
    principal_axes,
)
from cdopt.geometry.rotations import matrices, unit
from cdopt.scene.state import UNIT_TOL

if TYPE_CHECKING:
    Vector = ArrayLike
    Corners = ArrayLike
else:  # what a scene file may contain
    Vector = Sequence[float]
    Corners = Sequence[Sequence[float]]

IDENTITY = (1.0, 0.0, 0.0, 0.0)  # the quaternion that turns nothing


class ShapeMeasures(NamedTuple):
    """Numbers of a shape; of many spheres at once, arrays.

    volume : m³; in the plane area × 1 m of depth.
    inertia : per mass, m²: a number in the plane, (3,) about the principal axes in space.
    principal : (4,) unit quaternion from the principal axes to the body's own.
    reach, core : radii of the bounding sphere about the centre of mass, and of a sphere that fits
        inside in the thinnest part, m.
    curvature : 1/R of the surface for Hertz contacts, 1/m; 0 where flat, nan where it varies.
    """

    volume: Any
    inertia: Any
    principal: Any
    reach: Any
    core: Any
    curvature: Any


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of shapes. Fields are stored as numbers and tuples, which are copies.

    Attributes
    ----------
    kind : its name in scene files.
    numbers : fields that ``Bodies`` keeps as columns of many bodies.
    vectors : fields with one number per axis.
    dims : where it lives: in the plane, in space, or both.
    always_fixed : bodies of this shape never move freely.
    turns : frictionless contacts can turn a body of this shape.
    """

    kind: ClassVar[str] = ""
    numbers: ClassVar[tuple[str, ...]] = ()
    vectors: ClassVar[tuple[str, ...]] = ()
    dims: ClassVar[tuple[int, ...]] = (2, 3)
    always_fixed: ClassVar[bool] = False
    turns: ClassVar[bool] = True

    def pieces(self, dim: int) -> tuple[Piece, ...]:
        """Convex pieces about the centre of mass; none for a shape without bounds."""
        return self._pieces(self._lives_in(dim))

    def mass_properties(self, dim: int) -> MassProperties:
        """Mass properties at density 1, in the coordinates of the fields; none without bounds."""
        return self._mass_properties(self._lives_in(dim))

    def measures(self, dim: int) -> ShapeMeasures:
        """Volume, inertia and extents."""
        return self._measures(self._lives_in(dim))

    def _lives_in(self, dim: int) -> int:
        """The dimension, 2 or 3, after a check that the shape is of it."""
        dim = checks.dimension("dim", dim)
        sizes = {np.size(getattr(self, name)) for name in self.vectors}
        if dim not in self.dims or getattr(self, "dim", dim) != dim or sizes - {dim}:
            raise InvalidInput("dim", str(dim), f"the dimension of this {self.kind}")
        return dim

    # what each shape gives

    def _pieces(self, dim: int) -> tuple[Piece, ...]:
        return ()

    def _mass_properties(self, dim: int) -> MassProperties:
        raise Unsupported(type(self).__name__, "a shape without bounds has no mass")

    def _measures(self, dim: int) -> ShapeMeasures:
        """Measures from the mass properties and the pieces, unless a shape has formulas."""
        solid, pieces = self._mass_properties(dim), self._pieces(dim)
        inertia = solid.inertia()
        moments, frame = (inertia[0, 0], IDENTITY) if dim == 2 else principal_axes(inertia)
        radii = {
            piece.radius if piece.radius == 0.0 or len(piece.solid.vertices) <= 2 else float("nan")
            for piece in pieces
        }  # a rounded face is flat, and its edges are not
        radius = radii.pop() if len(radii) == 1 else float("nan")
        return ShapeMeasures(
            volume=solid.volume,
            inertia=moments,
            principal=frame,
            reach=max(_reach(piece) for piece in pieces),
            core=min(_half_width(piece) for piece in pieces),
            curvature=0.0 if radius == 0.0 else 1.0 / radius,
        )

    def _store(self, **values: Any) -> None:
        """Replace fields by their checked copies."""
        for name, value in values.items():
            msgspec.structs.force_setattr(self, name, value)


class Sphere(Shape, frozen=True, forbid_unknown_fields=True):
    """A sphere of ``radius`` m, positive; in the plane a disc."""

    radius: float

    kind: ClassVar[str] = "sphere"
    numbers: ClassVar[tuple[str, ...]] = ("radius",)
    turns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (type(self.radius) is float and 1e-100 < self.radius < 1e100):  # quick for many
            self._store(radius=checks.scalar("radius", self.radius, above=0.0))

    @staticmethod
    def measures_of(radius: FloatArray, dim: int) -> ShapeMeasures:
        """Measures of many spheres of ``radius`` (n,) m."""
        radius = checks.real("radius", radius, "radii (n,) in m", (None,)).astype(np.float64)
        dim = checks.dimension("dim", dim)
        square = radius**2
        flat = dim == 2
        return ShapeMeasures(
            volume=np.pi * square if flat else 4.0 / 3.0 * np.pi * radius**3,
            inertia=0.5 * square if flat else np.tile(0.4 * square[:, None], (1, 3)),
            principal=IDENTITY,
            reach=radius,
            core=radius,
            curvature=1.0 / radius,
        )

    def _pieces(self, dim: int) -> tuple[Piece, ...]:
        return (Piece(polytope.point(dim), self.radius),)

    def _mass_properties(self, dim: int) -> MassProperties:
        return of_capsule(self.radius, 0.0, dim)


class HalfSpace(Shape, frozen=True, forbid_unknown_fields=True):
    """A floor or a wall: everything behind a plane through the body's position. Always fixed.

    ``normal`` points out of the solid, towards the other bodies; it is stored at length one.
    A velocity given to the body makes it a moving wall.

    Raises
    ------
    InvalidInput : the normal is not finite or zero.
    """

    normal: Vector

    kind: ClassVar[str] = "half-space"
    numbers: ClassVar[tuple[str, ...]] = ("normal",)
    vectors: ClassVar[tuple[str, ...]] = ("normal",)
    always_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        direction = checks.vector("normal", self.normal, None)
        if not np.linalg.norm(direction) > 0.0:
            raise InvalidInput("normal", "length 0", "a direction")
        self._store(normal=tuple(unit(direction[None])[0].tolist()))

    def _measures(self, dim: int) -> ShapeMeasures:
        infinite = float("inf")
        return ShapeMeasures(infinite, infinite, IDENTITY, infinite, infinite, 0.0)


class Box(Shape, frozen=True, forbid_unknown_fields=True):
    """A cuboid about the body's position, in the plane a rectangle; thin ones are rods and plates.

    ``size`` has the full lengths of its edges in m, positive, one per axis of the body's frame.
    """

    size: Vector

    kind: ClassVar[str] = "box"
    numbers: ClassVar[tuple[str, ...]] = ("size",)
    vectors: ClassVar[tuple[str, ...]] = ("size",)

    def __post_init__(self) -> None:
        size = checks.vector("size", self.size, None).tolist()
        for length in size:
            checks.scalar("size", length, above=0.0)
        self._store(size=tuple(size))

    def _pieces(self, dim: int) -> tuple[Piece, ...]:
        return (Piece(polytope.box(np.array(self.size)), 0.0),)

    def _mass_properties(self, dim: int) -> MassProperties:
        return of_polytope(polytope.box(np.array(self.size)))

    def _measures(self, dim: int) -> ShapeMeasures:
        size = np.array(self.size)
        square = size**2
        total = square.sum()
        return ShapeMeasures(
            volume=size.prod(),
            inertia=total / 12.0 if dim == 2 else (total - square) / 12.0,
            principal=IDENTITY,
            reach=0.5 * np.linalg.norm(size, axis=0),
            core=0.5 * size.min(),
            curvature=0.0,
        )


class Capsule(Shape, frozen=True, forbid_unknown_fields=True):
    """A cylinder along the body's first axis with round ends; in the plane a stadium.

    ``length`` is that of the straight part, between the centres of the ends, and ``radius`` that
    of both, m.
    """

    radius: float
    length: float

    kind: ClassVar[str] = "capsule"
    numbers: ClassVar[tuple[str, ...]] = ("radius", "length")

    def __post_init__(self) -> None:
        limits = {"at_least": SMALLEST, "at_most": LARGEST}
        radius = checks.scalar("radius", self.radius, **limits)
        self._store(radius=radius, length=checks.scalar("length", self.length, **limits))

    def _pieces(self, dim: int) -> tuple[Piece, ...]:
        return (Piece(polytope.segment(self.length, dim), self.radius),)

    def _mass_properties(self, dim: int) -> MassProperties:
        return of_capsule(self.radius, self.length, dim)


class _Convex(Shape, frozen=True, forbid_unknown_fields=True):
    """A polytope drawn about any origin."""

    @property
    def centre(self) -> FloatArray:
        """(dim,) the centre of mass in the coordinates of the fields, m: the body's position."""
        return of_polytope(_solid(self)).centroid

    def _pieces(self, dim: int) -> tuple[Piece, ...]:
        return (Piece(_solid(self).shifted(-self.centre), 0.0),)

    def _mass_properties(self, dim: int) -> MassProperties:
        return of_polytope(_solid(self))


class Polygon(_Convex, frozen=True, forbid_unknown_fields=True):
    """A convex polygon, in the plane.

    ``vertices`` (n, 2) in m, anticlockwise, about any origin: their centroid comes to the body's
    position.

    Raises
    ------
    InvalidInput : fewer than three corners, no area, clockwise order (inverted), not convex, or
        corners in one place or on a line.
    """

    vertices: Corners

    kind: ClassVar[str] = "polygon"
    dims: ClassVar[tuple[int, ...]] = (2,)

    def __post_init__(self) -> None:
        self._store(vertices=_rows(self.vertices, 2))
        _solid(self)  # raises where it is none


class Polyhedron(_Convex, frozen=True, forbid_unknown_fields=True):
    """A convex polyhedron, in space.

    ``vertices`` (n, 3) in m about any origin: their solid's centroid comes to the body's position.
    ``faces`` lists the corners of each face, anticlockwise seen from outside; by default faces are
    those of the convex hull, and every vertex must be a corner of it.

    Raises
    ------
    InvalidInput : fewer than four corners, no volume, not convex, corners that do not stick out,
        and of faces: not flat, not closed, inverted, numbers out of range.
    """

    vertices: Corners
    faces: Sequence[Sequence[int]] | None = None

    kind: ClassVar[str] = "polyhedron"
    dims: ClassVar[tuple[int, ...]] = (3,)

    def __post_init__(self) -> None:
        faces = None if self.faces is None else polytope.loops_of(self.faces)
        self._store(vertices=_rows(self.vertices, 3), faces=faces)
        _solid(self)  # raises where it is none


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A convex part of a compound body.

    Attributes
    ----------
    shape : any but half-spaces and compounds.
    position : of its centre of mass in the compound's coordinates, (dim,) m.
    angle, orientation : rad in the plane; a unit quaternion (w, x, y, z) in space.
    density : relative to the body's.
    """

    shape: Shape
    position: Vector
    angle: float | None = None
    orientation: Vector | None = None
    density: float = 1.0


class Compound(Shape, frozen=True, forbid_unknown_fields=True):
    """Several convex parts that move as one; together they need not be convex.

    Parts may touch. Where they overlap, their mass counts twice. The centre of mass of all comes
    to the body's position.

    Raises
    ------
    InvalidInput : no parts, or a bad field of one, named as ``parts[k].field``.
    """

    parts: Sequence[Part]

    kind: ClassVar[str] = "compound"

    def __post_init__(self) -> None:
        if not isinstance(self.parts, (list, tuple)) or not self.parts:
            raise InvalidInput("parts", checks.describe(self.parts), "a list of at least one Part")
        if not isinstance(self.parts[0], Part):
            raise InvalidInput("parts[0]", checks.describe(self.parts[0]), "a Part")
        dim = checks.vector("parts[0].position", self.parts[0].position, None).size
        if dim not in (2, 3):
            raise InvalidInput("parts[0].position", f"{dim} numbers", "2 or 3")
        self._store(parts=tuple(_checked_part(part, k, dim) for k, part in enumerate(self.parts)))

    @property
    def dim(self) -> int:
        """2 or 3, from the position of the first part."""
        return np.size(self.parts[0].position)

    @property
    def centre(self) -> FloatArray:
        """(dim,) the centre of mass in the coordinates of the parts, m."""
        return self.mass_properties(self.dim).centroid

    def _pieces(self, dim: int) -> tuple[Piece, ...]:
        centre = self._mass_properties(dim).centroid
        return tuple(
            Piece(
                piece.solid.placed(_rotation(part), np.array(part.position) - centre), piece.radius
            )
            for part in self.parts
            for piece in part.shape.pieces(dim)
        )

    def _mass_properties(self, dim: int) -> MassProperties:
        solids = []
        for part in self.parts:
            solid, rotation = part.shape.mass_properties(dim), _rotation(part)
            placed = solid.placed(rotation, np.array(part.position) - rotation @ solid.centroid)
            solids.append(placed.scaled(part.density))
        return combined(solids)


SHAPES: tuple[type[Shape], ...] = (Sphere, HalfSpace, Box, Capsule, Polygon, Polyhedron, Compound)
KINDS: dict[str, type[Shape]] = {shape.kind: shape for shape in SHAPES}


def check_placed(name: str, item: Any, dim: int) -> None:
    """Refuse a Body or Part with a shape, orientation or angle of another dimension."""
    shape, other = item.shape, "orientation" if dim == 2 else "angle"
    if getattr(item, other) is not None:
        expected = "an angle in 2D" if dim == 2 else "an orientation in 3D"
        raise InvalidInput(f"{name}.{other}", "a value", expected)
    if dim not in shape.dims or getattr(shape, "dim", dim) != dim:
        raise InvalidInput(f"{name}.shape", f"a {shape.kind} of {5 - dim}D", f"a shape of {dim}D")
    for field in shape.vectors:
        size = np.size(getattr(shape, field))
        if size != dim:
            raise InvalidInput(f"{name}.{field}", f"{size} numbers", f"{dim} in {dim}D")


def _checked_part(part: Any, k: int, dim: int) -> Part:
    """A copy of part k, of plain numbers."""
    name = f"parts[{k}]"
    if not isinstance(part, Part):
        raise InvalidInput(name, checks.describe(part), "a Part")
    shape, values = part.shape, msgspec.structs.asdict(part)
    if not isinstance(shape, Shape) or shape.always_fixed or isinstance(shape, Compound):
        kind = getattr(shape, "kind", checks.describe(shape))
        raise InvalidInput(f"{name}.shape", kind, "a bounded convex shape")
    check_placed(name, part, dim)
    for field, size in (("position", dim), ("orientation", 4)):
        if values[field] is not None:
            row = checks.vector(f"{name}.{field}", values[field], size)
            values[field] = tuple(row.tolist())
    if values["angle"] is not None:
        values["angle"] = checks.scalar(f"{name}.angle", part.angle)
    length = np.linalg.norm(IDENTITY if part.orientation is None else values["orientation"])
    if abs(length - 1.0) > UNIT_TOL:
        found = f"a quaternion of length {length:.6g}"
        raise InvalidInput(f"{name}.orientation", found, "length 1")
    values["density"] = checks.scalar(f"{name}.density", part.density, above=0.0)
    return Part(**values)


def _rotation(part: Part) -> FloatArray:
    if np.size(part.position) == 2:
        return np.asarray(matrices(np.array([part.angle or 0.0]))[0])
    turn = IDENTITY if part.orientation is None else part.orientation
    return np.asarray(matrices(unit(np.array([turn])))[0])


def _reach(piece: Piece) -> float:
    return float(np.linalg.norm(piece.solid.vertices, axis=1).max()) + piece.radius


def _half_width(piece: Piece) -> float:
    """Least distance from the mean of the corners to a face, and the roundness."""
    solid = piece.solid
    if not solid.loops:
        return piece.radius
    base = solid.vertices[[loop[0] for loop in solid.loops]]
    depth = ((base - solid.vertices.mean(axis=0)) * solid.normals).sum(axis=1)
    return float(depth.min()) + piece.radius


def _rows(vertices: Any, dim: int) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, checks.numbers("vertices", vertices, (None, dim), "m").tolist()))


@lru_cache(maxsize=4096)
def _solid(shape: Any) -> Polytope:
    """The polytope of a Polygon or a Polyhedron; equal ones share it."""
    if isinstance(shape, Polygon):
        return polytope.polygon(shape.vertices)
    return polytope.polyhedron(shape.vertices, shape.faces)
