"""Shapes that are not a few numbers: polygons, polyhedra, and bodies put together of several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import msgspec
import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.geometry import polytope
from cdopt.geometry.hulls import Piece
from cdopt.geometry.mass_properties import MassProperties, of_polytope, principal, together
from cdopt.geometry.polytope import Polytope
from cdopt.geometry.rotations import matrices, unit
from cdopt.scene.shape import Columns, Corners, Dim, Shape, Vector, column
from cdopt.scene.state import UNIT_TOL


class _Derived(Shape, frozen=True, forbid_unknown_fields=True):
    """A shape whose columns hold what follows from its fields."""

    numbers: ClassVar[bool] = False

    @classmethod
    def volume(cls, columns: Columns, dim: Dim) -> FloatArray:
        return column(columns, "volume")

    @classmethod
    def inertia(cls, columns: Columns, dim: Dim) -> FloatArray:
        return column(columns, "inertia")

    @classmethod
    def principal(cls, columns: Columns) -> FloatArray:
        return column(columns, "principal")

    @classmethod
    def reach(cls, columns: Columns) -> FloatArray:
        return column(columns, "reach")

    @classmethod
    def core(cls, columns: Columns) -> FloatArray:
        return column(columns, "core")

    @classmethod
    def curvature(cls, columns: Columns) -> FloatArray:
        return column(columns, "curvature")

    @property
    def centre(self) -> FloatArray:
        """(dim,) the centre of mass in the coordinates of the fields, m.

        It comes to the body's position: a shape drawn in place stands at ``position=shape.centre``.
        """
        return self.matter(self.dims[0]).centroid


class Polygon(_Derived, frozen=True, forbid_unknown_fields=True):
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
        self._solid()

    def _solid(self) -> Polytope:
        return _polygon(*_key("vertices", self.vertices))

    def pieces(self, dim: Dim) -> tuple[Piece, ...]:  # noqa: D102
        return (Piece(self._solid().shifted(-self.centre), 0.0),)

    def matter(self, dim: Dim) -> MassProperties:  # noqa: D102
        return of_polytope(self._solid())


class Polyhedron(_Derived, frozen=True, forbid_unknown_fields=True):
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
        self._solid()

    def _solid(self) -> Polytope:
        faces = None if self.faces is None else polytope.whole_loops(self.faces)
        return _polyhedron(*_key("vertices", self.vertices), faces)

    def pieces(self, dim: Dim) -> tuple[Piece, ...]:  # noqa: D102
        return (Piece(self._solid().shifted(-self.centre), 0.0),)

    def matter(self, dim: Dim) -> MassProperties:  # noqa: D102
        return of_polytope(self._solid())

    def plain(self) -> Polyhedron:
        """The same of plain numbers and lists, which nobody else holds."""
        faces = None if self.faces is None else [[int(k) for k in face] for face in self.faces]
        return Polyhedron(np.asarray(self.vertices, dtype=np.float64).tolist(), faces)


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


class Compound(_Derived, frozen=True, forbid_unknown_fields=True):
    """Several convex parts that move as one; together they need not be convex.

    Parts may touch. Where they overlap, their matter counts twice. The centre of mass of all comes
    to the body's position.

    Raises
    ------
    InvalidInput : no parts, or one named as ``parts[k].field`` that is not as Part says.
    """

    parts: Sequence[Part]

    kind: ClassVar[str] = "compound"

    def __post_init__(self) -> None:
        if not isinstance(self.parts, (list, tuple)):
            raise InvalidInput("parts", checks.describe(self.parts), "a list of Part")
        if not self.parts:
            raise InvalidInput("parts", "none", "at least one part")
        for k, part in enumerate(self.parts):
            if not isinstance(part, Part):
                raise InvalidInput(f"parts[{k}]", checks.describe(part), "a Part")
            if not isinstance(part.shape, Shape) or part.shape.always_fixed or (
                isinstance(part.shape, Compound)
            ):  # fmt: skip
                found = getattr(part.shape, "kind", checks.describe(part.shape))
                raise InvalidInput(f"parts[{k}].shape", found, "a bounded convex shape")
            checks.scalar(f"parts[{k}].density", part.density, above=0.0)
        self._placed(self.dim)

    @property
    def dim(self) -> int:
        """2 or 3, as the position of the first part says.

        Raises
        ------
        InvalidInput : it has other than two or three numbers.
        """
        size = checks.vector("parts[0].position", self.parts[0].position, None).size
        if size not in (2, 3):
            raise InvalidInput("parts[0].position", f"{size} numbers", "2 or 3")
        return size

    @property
    def centre(self) -> FloatArray:
        """(dim,) the centre of mass in the coordinates of the parts, m."""
        return self.matter(self.dim).centroid

    def _placed(self, dim: Dim) -> list[tuple[Part, FloatArray, FloatArray]]:
        """Parts with their rotation matrices (dim, dim) and positions (dim,)."""
        return [
            (part, _turn(part, k, dim), checks.vector(f"parts[{k}].position", part.position, dim))
            for k, part in enumerate(self.parts)
        ]

    def pieces(self, dim: Dim) -> tuple[Piece, ...]:  # noqa: D102
        middle = self.matter(dim).centroid
        return tuple(
            Piece(piece.solid.placed(turn, place - middle), piece.radius)
            for part, turn, place in self._placed(dim)
            for piece in part.shape.pieces(dim)
        )

    def matter(self, dim: Dim) -> MassProperties:  # noqa: D102
        solids = []
        for part, turn, place in self._placed(dim):
            own = part.shape.matter(dim)
            solids.append(own.placed(turn, place - turn @ own.centroid).scaled(float(part.density)))
        return together(solids)

    def plain(self) -> Compound:
        """The same of plain numbers and lists, which nobody else holds."""
        return Compound([
            msgspec.structs.replace(
                part,
                shape=part.shape.plain(),
                angle=None if part.angle is None else float(part.angle),
                density=float(part.density),
                position=np.asarray(part.position, dtype=np.float64).tolist(),
                orientation=None if part.orientation is None
                else np.asarray(part.orientation, dtype=np.float64).tolist(),
            )
            for part in self.parts
        ])  # fmt: skip


def derived(given: Sequence[Any], dim: Dim) -> dict[str, FloatArray]:
    """Columns of what follows from shapes."""
    solids = [one.matter(dim) for one in given]
    pieces = [one.pieces(dim) for one in given]
    inertia = [solid.inertia() for solid in solids]
    columns = {
        "volume": np.array([solid.volume for solid in solids]),
        "reach": np.array([max(map(_reach, own)) for own in pieces]),
        "core": np.array([min(map(_half_width, own)) for own in pieces]),
        "curvature": np.array([_curvature(own) for own in pieces]),
    }
    if dim == 2:
        columns["inertia"] = np.array([own[0, 0] for own in inertia])
        columns["principal"] = np.tile([1.0, 0.0, 0.0, 0.0], (len(given), 1))
    else:
        axes = [principal(own) for own in inertia]
        columns["inertia"] = np.array([moments for moments, _ in axes])
        columns["principal"] = np.array([frame for _, frame in axes])
    return columns


def _turn(part: Part, k: int, dim: Dim) -> FloatArray:
    """The rotation matrix (dim, dim) of a part."""
    other = "orientation" if dim == 2 else "angle"
    if getattr(part, other) is not None:
        wanted = "an angle in 2D" if dim == 2 else "an orientation in 3D"
        raise InvalidInput(f"parts[{k}].{other}", "a value", wanted)
    if dim not in part.shape.dims:
        raise InvalidInput(f"parts[{k}].shape", part.shape.kind, f"a shape of {dim}D")
    for name in part.shape.vectors:
        checks.vector(f"parts[{k}].{name}", getattr(part.shape, name), dim)
    if dim == 2:
        angle = 0.0 if part.angle is None else checks.scalar(f"parts[{k}].angle", part.angle)
        return np.asarray(matrices(np.array([angle]))[0])
    if part.orientation is None:
        return np.eye(3)
    q = checks.vector(f"parts[{k}].orientation", part.orientation, 4)
    length = float(np.linalg.norm(q))
    if abs(length - 1.0) > UNIT_TOL:
        raise InvalidInput(
            f"parts[{k}].orientation", f"a quaternion of length {length:.6g}", "length 1"
        )
    return np.asarray(matrices(unit(q[None]))[0])


def _reach(piece: Piece) -> float:
    return float(np.linalg.norm(piece.solid.vertices, axis=1).max()) + piece.radius


def _half_width(piece: Piece) -> float:
    """Least distance from the middle of the corners to a face, and the roundness."""
    solid = piece.solid
    if not solid.loops:
        return piece.radius
    base = solid.vertices[[loop[0] for loop in solid.loops]]
    depth = ((base - solid.vertices.mean(axis=0)) * solid.normals).sum(axis=1)
    return float(depth.min()) + piece.radius


def _curvature(pieces: Sequence[Piece]) -> float:
    """1/R of all pieces; nan where they differ."""
    radii = {piece.radius for piece in pieces}
    if len(radii) > 1:
        return float("nan")
    radius = radii.pop()
    return 1.0 / radius if radius > 0.0 else 0.0


def _key(name: str, vertices: Any) -> tuple[bytes, tuple[int, ...]]:
    """What tells tables of corners apart."""
    table = polytope.table(name, vertices)
    return table.tobytes(), table.shape


@lru_cache(maxsize=4096)
def _polygon(data: bytes, shape: tuple[int, ...]) -> Polytope:
    return polytope.polygon(np.frombuffer(data).reshape(shape))


@lru_cache(maxsize=4096)
def _polyhedron(
    data: bytes, shape: tuple[int, ...], faces: tuple[tuple[int, ...], ...] | None
) -> Polytope:
    return polytope.polyhedron(np.frombuffer(data).reshape(shape), faces)
