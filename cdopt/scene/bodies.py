"""Bodies: Body and Spheres as a user writes them, and Bodies, the columns of a whole scene."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import isqrt
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.geometry.hulls import Hulls, Piece
from cdopt.geometry.polytope import LABELS, point
from cdopt.geometry.rotations import unit
from cdopt.scene.shapes import (
    IDENTITY,
    SHAPES,
    HalfSpace,
    Shape,
    ShapeMeasures,
    Sphere,
    Vector,
    check_placed,
)
from cdopt.scene.state import UNIT_TOL

if TYPE_CHECKING:
    Spin = ArrayLike
    Table = ArrayLike
    Spins = ArrayLike
    Numbers = ArrayLike | None
    Flags = ArrayLike
else:  # what a scene file may contain
    Spin = float | Sequence[float]
    Table = Sequence[Sequence[float]]
    Spins = Sequence[float | Sequence[float]]
    Numbers = float | Sequence[float] | None
    Flags = bool | Sequence[bool]

MAX_BODIES = isqrt(2**63 // LABELS**2)  # contacts can then be numbered in 64 bits
_LARGEST = 1e150

# names of a Body's fields in a group of Spheres
GROUP_FIELDS = {
    "position": "centres",
    "velocity": "velocities",
    "angular_velocity": "angular_velocities",
    "name": "names",
}
SHARED = ("radius", "mass", "density")  # of a group of Spheres: one number for all, or one each


class Body(msgspec.Struct, frozen=True):
    """One rigid body.

    Attributes
    ----------
    shape : a Sphere, HalfSpace, Box, Capsule, Polygon, Polyhedron or Compound.
    position : of its centre of mass, or of a point on a half-space's surface, (dim,) m.
    angle : orientation in the plane, rad.
    orientation : in space, a unit quaternion (w, x, y, z).
    velocity : (dim,) m/s.
    angular_velocity : in the plane a number, in space (3,) in the global frame, rad/s.
    fixed : carries no degrees of freedom; its velocity, if any, is prescribed. Half-spaces are
        always fixed.
    mass, density : one of the two for a free body, kg or kg/m³ (in the plane per 1 m of depth).
    material : name of a Material of the scene; "" is rigid.
    force, torque : constant load on a free body in the global frame, added to gravity, N and N·m.
    name : for messages and results.
    """

    shape: Shape
    position: Vector
    angle: float | None = None
    orientation: Vector | None = None
    velocity: Vector | None = None
    angular_velocity: Spin | None = None
    fixed: bool | None = None
    mass: float | None = None
    density: float | None = None
    material: str = ""
    force: Vector | None = None
    torque: Spin | None = None
    name: str = ""


class Spheres(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many spheres, in the plane discs; a value common to all is written once.

    Attributes
    ----------
    centres : (n, dim) m.
    radius : m, one number or (n,)
    velocities : (n, dim) m/s, fixed, mass [kg] or density [kg/m³], and material.
    names : (n,) texts.
    angular_velocities : (n,) in the plane or (n, 3) in the global frame, rad/s.
    """

    centres: Table
    radius: Numbers
    velocities: Table | None = None
    fixed: Flags = False
    mass: Numbers = None
    density: Numbers = None
    material: str | Sequence[str] = ""
    names: Sequence[str] | None = None
    angular_velocities: Spins | None = None


Item = Any  # Body | Spheres


@dataclass(frozen=True, eq=False)
class ShapeTable(Frozen):
    """The bodies of one kind of shape.

    Attributes
    ----------
    shape : the class of the shape.
    body : (n,) their numbers, ascending.
    columns : the shape's numbers by name, (n,) or (n, dim): ``radius``, ``size``, ``normal``.
    given : (n,) the shapes themselves; none for spheres.

    Raises
    ------
    InvalidInput : no class of shapes, or columns of another length.
    """

    shape: type[Shape]
    body: IntArray
    columns: Mapping[str, FloatArray]
    given: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        _check_shape(self.shape)
        self.__dict__["body"] = checks.integers("body", self.body, (None,), at_least=0)
        for name, column in checks.mapping("columns", self.columns).items():
            expected = f"numbers of {self.body.size} bodies"
            if len(np.atleast_1d(checks.real(f"columns.{name}", column, expected))) != len(
                self.body
            ):
                raise InvalidInput(f"columns.{name}", checks.describe(column), expected)
        super().__post_init__()


@dataclass(frozen=True, eq=False)
class Bodies(Frozen):
    """All bodies of a scene, numbered from 0; arrays are read-only.

    Attributes
    ----------
    dim : 2 or 3.
    tables : one ShapeTable per kind that occurs, in the order of ``cdopt.scene.SHAPES``.
    kind : (nb,) each body's shape, as index into SHAPES.
    position : (nb, dim) m.
    orientation : (nb,) rad in the plane, (nb, 4) unit quaternions in space.
    velocity : (nb, dim) m/s. angular_velocity : (nb,) or (nb, 3) rad/s.
    fixed : (nb,) bodies without degrees of freedom.
    mass : (nb,) kg; infinite for a fixed body that states none.
    density : (nb,) kg/m³, nan where the mass was given.
    inertia : (nb,) or (nb, 3) about the centre of mass and the principal axes, kg·m².
    principal : (nb, 4) unit quaternions from the principal axes to the body's own; the identity
        for spheres, boxes and capsules, and in the plane.
    material : (nb,) index into the scene's materials; −1 is rigid.
    force : (nb, dim) N. torque : (nb,) or (nb, 3) N·m: constant loads in addition to gravity.
    reach, core : (nb,) radii of the bounding sphere, and of one that fits inside, m.
    curvature : (nb,) 1/R of the surface, 1/m; 0 where flat, nan where it varies.
    hulls : convex pieces of the bounded bodies; none where all of these are spheres.
    names : (nb,) texts, "" for none.
    """

    dim: int
    tables: tuple[ShapeTable, ...]
    kind: IntArray
    position: FloatArray
    orientation: FloatArray
    velocity: FloatArray
    angular_velocity: FloatArray
    fixed: BoolArray
    mass: FloatArray
    density: FloatArray
    inertia: FloatArray
    principal: FloatArray
    material: IntArray
    force: FloatArray
    torque: FloatArray
    reach: FloatArray
    core: FloatArray
    curvature: FloatArray
    hulls: Hulls
    names: tuple[str, ...]

    @property
    def nb(self) -> int:
        """Number of bodies."""
        return int(self.fixed.size)

    @property
    def turns(self) -> BoolArray:
        """(nb,) bodies that frictionless contacts can turn: all but spheres."""
        return np.array([shape.turns for shape in SHAPES])[self.kind]

    def table(self, shape: type[Shape]) -> ShapeTable | None:
        """The bodies of one kind of ``shape``; None if there are none."""
        _check_shape(shape)
        return next((table for table in self.tables if table.shape is shape), None)

    def shape_columns(self, shape: type[Shape], body: IntArray) -> dict[str, FloatArray]:
        """The shape's numbers for bodies (n,) of this kind, row by row.

        Raises
        ------
        InvalidInput : no body is of this kind.
        """
        table = self.table(shape)
        if table is None:
            raise InvalidInput("shape", shape.kind, "a kind of body in this scene")
        expected = f"numbers of bodies that are each a {shape.kind}"
        numbers = checks.integers("body", body, (None,), at_least=0, below=self.nb)
        row = np.searchsorted(table.body, numbers)
        if not np.isin(numbers, table.body).all():
            raise InvalidInput("body", "a body of another kind", expected)
        return {name: column[row] for name, column in table.columns.items()}

    def shape(self, body: int) -> Any:
        """The shape of one body, as a user would write it."""
        body = checks.index("body", body, len(self.names))
        table = next(t for t in self.tables if t.shape is SHAPES[self.kind[body]])
        if not table.given:
            return Sphere(float(self.reach[body]))
        return table.given[int(np.searchsorted(table.body, body))]

    def label(self, body: int) -> str:
        """A body for messages: its number and name."""
        name = self.names[checks.index("body", body, len(self.names))]
        return f"bodies[{body}] {name!r}" if name else f"bodies[{body}]"


def _check_shape(shape: type[Shape]) -> None:
    if not any(shape is known for known in SHAPES):
        raise InvalidInput("shape", checks.describe(shape), "a class of shapes, such as Sphere")


def assemble(items: Sequence[Item], dim: int, materials: Sequence[str]) -> Bodies:
    """Bodies from Body and Spheres in any order; faults name ``bodies[k].field``, k over all."""
    for item in items:
        if not isinstance(item, (Body, Spheres)):
            raise InvalidInput("bodies", checks.describe(item), "Body or Spheres")
    parts: list[dict[str, Any]] = []
    shapes: dict[int, Shape] = {}  # of all bodies but spheres
    nb = 0
    for grouped, run in groupby(items, key=lambda item: isinstance(item, Spheres)):
        members = list(run)
        for part in members if grouped else [members]:
            make: Any = _of_spheres if grouped else _of_bodies
            parts.append(make(part, nb, dim))
            nb += len(parts[-1]["position"])
        if not grouped:
            numbered = enumerate((body.shape for body in members), nb - len(members))
            shapes |= {k: shape for k, shape in numbered if type(shape) is not Sphere}
    if not 0 < nb <= MAX_BODIES:
        raise InvalidInput("bodies", f"{nb} bodies", f"at least one, and at most {MAX_BODIES}")
    given = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    radius, fixed, used = given["radius"], given["fixed"], given["material"]
    for name in ("force", "torque"):
        loaded = ~np.isnan(given[name].reshape(nb, -1)).all(axis=1)
        _refuse(fixed & loaded, name, lambda _: "a load on a fixed body", "none, or a free body")
    tables, kind = _tables(radius, shapes)
    measures = _measures(radius, shapes, dim)
    mass = _masses(given, measures.pop("volume"))
    per_mass = measures.pop("inertia")
    number = {name: k for k, name in enumerate(materials)} | {"": -1}
    known = ", ".join(map(repr, materials)) or "none: the scene has no materials"
    strange = ~np.isin(used, list(number))
    _refuse(strange, "material", lambda k: repr(used[k]), f"one of {known}")
    motion: dict[str, Any] = {
        name: np.nan_to_num(given[name])
        for name in ("velocity", "angular_velocity", "force", "torque")
    }
    return Bodies(
        dim=dim,
        tables=tables,
        kind=kind,
        position=given["position"],
        orientation=_orientations(given["orientation"]),
        fixed=fixed,
        mass=mass,
        density=given["density"],
        inertia=(mass if dim == 2 else mass[:, None]) * per_mass,
        material=np.array([number[name] for name in used], dtype=np.int64),
        hulls=Hulls.of(_pieces(radius, shapes, dim), dim),
        names=tuple(given["name"]),
        **motion,
        **measures,
    )


def _refuse(bad: BoolArray, field: str, found: Callable[[int], str], expected: str) -> None:
    """Raise for the first of the bodies that are bad (nb,)."""
    for k in np.flatnonzero(bad)[:1].tolist():
        raise InvalidInput(f"bodies[{k}].{field}", found(k), expected)


# --- columns of what a user wrote; values not given are nan -------------------------------------


def _of_bodies(bodies: Sequence[Body], first: int, dim: int) -> dict[str, Any]:
    """Columns of single bodies numbered from ``first``; ``radius`` is that of spheres."""
    for k, body in enumerate(bodies, first):
        name, shape = f"bodies[{k}]", type(body.shape)
        if shape not in SHAPES:
            raise InvalidInput(f"{name}.shape", checks.describe(body.shape), "a Shape")
        check_placed(name, body, dim)
        if not (body.fixed is None or isinstance(body.fixed, (bool, np.bool_))):
            raise InvalidInput(f"{name}.fixed", checks.describe(body.fixed), "true or false")
        if body.fixed is not None and not body.fixed and shape.always_fixed:
            raise InvalidInput(f"{name}.fixed", "false", "a fixed half-space")
        if body.position is None:
            raise InvalidInput(f"{name}.position", "nothing", f"{dim} finite numbers")
    fields: dict[str, Any] = {
        name: [getattr(b, name) for b in bodies] for name in Body.__struct_fields__
    }
    for name, values in fields.items():
        if all(value is None for value in values):
            fields[name] = None
    fields["fixed"] = [bool(b.fixed) or type(b.shape).always_fixed for b in bodies]
    fields["radius"] = [getattr(b.shape, "radius", None) for b in bodies]
    return _columns(fields, len(bodies), first, dim)


def _of_spheres(group: Spheres, first: int, dim: int) -> dict[str, Any]:
    """Columns of a group of spheres numbered from ``first``."""
    names = (*Body.__struct_fields__, "radius")
    fields: dict[str, Any] = {
        name: getattr(group, GROUP_FIELDS.get(name, name), None) for name in names
    }
    fields["position"] = _numbers("position", group.centres, dim, first)
    n = len(fields["position"])
    flags = np.asarray(group.fixed)
    if flags.dtype.kind != "b" or flags.shape not in ((), (n,)):
        raise InvalidInput(f"bodies[{first}:].fixed", checks.describe(flags), f"one flag or {n}")
    fields["fixed"] = np.broadcast_to(flags, n)
    if isinstance(group.material, str):
        fields["material"] = [group.material] * n
    if group.names is None:
        fields["name"] = [""] * n
    for name in SHARED:
        if fields[name] is not None and np.ndim(fields[name]) == 0:
            fields[name] = np.broadcast_to(_numbers(name, [fields[name]], 0, first), n)
    columns = _columns(fields, n, first, dim)
    radius = columns["radius"]
    for k in np.flatnonzero(~(radius > 0.0))[:1]:
        raise InvalidInput(f"bodies[{first + k}].radius", repr(float(radius[k])), "above 0")
    return columns


def _columns(fields: Mapping[str, Any], n: int, first: int, dim: int) -> dict[str, Any]:
    """Arrays of n bodies from lists or arrays of what was written; None is a column of nan."""
    columns: dict[str, Any] = {"fixed": np.asarray(fields["fixed"])}
    for name in ("material", "name"):
        for k, text in enumerate(fields[name], first):
            if not isinstance(text, str):
                raise InvalidInput(f"bodies[{k}].{name}", checks.describe(text), "a text")
        columns[name] = np.array(fields[name], dtype=object)
    turn, angle = (0, "angle") if dim == 2 else (3, "orientation")
    widths = {"position": dim, "velocity": dim, "force": dim, "angular_velocity": turn}
    widths |= {"torque": turn, "mass": 0, "density": 0, "radius": 0, angle: 4 * (dim - 2)}
    for name, width in widths.items():
        shape, value = (n, width) if width else (n,), fields[name]
        column = np.full(shape, np.nan) if value is None else _numbers(name, value, width, first)
        columns["orientation" if name == angle else name] = column
    for name, column in columns.items():
        if len(column) != n:
            raise InvalidInput(f"bodies[{first}:].{name}", f"{len(column)} values", f"one or {n}")
    return columns


def _numbers(name: str, values: Any, width: int, first: int) -> FloatArray:
    """A finite column (n,) for width 0, else a table (n, width); rows of nan where None."""
    expected = "one finite number" if width == 0 else f"{width} finite numbers"
    if isinstance(values, str) or not np.iterable(values):
        raise InvalidInput(f"bodies[{first}:].{name}", checks.describe(values), expected)
    rows: Any = values if isinstance(values, np.ndarray) else list(values)
    shape = () if width == 0 else (width,)
    missing = np.zeros(len(rows), dtype=bool)
    if isinstance(rows, list):
        missing = np.array([row is None for row in rows], dtype=bool)
        blank = [np.nan] * width if width else np.nan
        rows = [blank if row is None else row for row in rows]
    table = _real_array(rows, (len(rows), *shape)) if len(rows) else np.empty((0, *shape))
    if table is not None:
        finite = (np.abs(table.reshape(len(rows), max(width, 1))) <= _LARGEST).all(axis=1)
        if (missing | finite).all():
            return table
    for k, row in enumerate(rows):
        array = _real_array(row, shape)
        if not missing[k] and (array is None or not np.all(np.abs(array) <= _LARGEST)):
            short = isinstance(row, (list, tuple)) and len(row) <= 7
            found = repr(list(row)) if short else checks.describe(row)
            raise InvalidInput(f"bodies[{first + k}].{name}", found, expected)
    raise InvalidInput(f"bodies[{first}:].{name}", "values that do not fit together", expected)


def _real_array(values: Any, shape: tuple[int, ...]) -> FloatArray | None:
    """Numbers as an array of this shape, copied; None if they are not that."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        return None
    fits = array.shape == shape and array.dtype.kind in "iuf"
    return np.array(array, dtype=np.float64) if fits else None


# --- columns that follow from the shapes --------------------------------------------------------


def _tables(
    radius: FloatArray, shapes: Mapping[int, Shape]
) -> tuple[tuple[ShapeTable, ...], IntArray]:
    """Tables by kind, and each body's kind; ``shapes`` of all bodies but spheres."""
    kind = np.zeros(radius.size, dtype=np.int64)
    for k, shape in shapes.items():
        kind[k] = SHAPES.index(type(shape))
    tables = []
    for number in np.unique(kind):
        body, shape_type = np.flatnonzero(kind == number), SHAPES[number]
        if shape_type is Sphere:
            tables.append(ShapeTable(Sphere, body, {"radius": radius[body]}))
            continue
        solids = tuple(shapes[k] for k in body.tolist())
        columns = {
            name: np.array([getattr(shape, name) for shape in solids])
            for name in shape_type.numbers
        }
        tables.append(ShapeTable(shape_type, body, columns, solids))
    return tuple(tables), kind


def _measures(radius: FloatArray, shapes: Mapping[int, Shape], dim: Any) -> dict[str, FloatArray]:
    """Columns of the measures of all bodies; those of spheres first, in one go."""
    columns = {}
    for name, values in Sphere.measures_of(radius, dim)._asdict().items():
        wide = (radius.size, 4) if name == "principal" else np.shape(values)
        columns[name] = np.array(np.broadcast_to(values, wide))
    for k, shape in shapes.items():
        for name, value in _measured(shape, dim)[0]._asdict().items():
            columns[name][k] = value
    return columns


def _pieces(radius: FloatArray, shapes: Mapping[int, Shape], dim: Any) -> list[tuple[Piece, ...]]:
    """Convex pieces of every body; none at all where bodies are spheres and half-spaces."""
    if all(isinstance(shape, HalfSpace) for shape in shapes.values()):
        return []
    centre = point(dim)
    return [
        _measured(shapes[k], dim)[1] if k in shapes else (Piece(centre, r),)
        for k, r in enumerate(radius.tolist())
    ]


@lru_cache(maxsize=4096)
def _measured(shape: Shape, dim: Any) -> tuple[ShapeMeasures, tuple[Piece, ...]]:
    """Measures and pieces of a shape; equal ones, such as the bricks of a wall, are reused."""
    return shape.measures(dim), shape.pieces(dim)


def _orientations(given: FloatArray) -> FloatArray:
    """The identity where nothing is given; quaternions at unit length."""
    if given.ndim == 1:
        return np.nan_to_num(given)
    result = np.where(np.isnan(given), IDENTITY, given)
    length = np.linalg.norm(result, axis=1)
    _refuse(
        np.abs(length - 1.0) > UNIT_TOL,
        "orientation",
        lambda k: f"a quaternion of length {length[k]:.6g}",
        "length 1",
    )
    return unit(result)


def _masses(given: dict[str, Any], volume: FloatArray) -> FloatArray:
    mass, density = given["mass"], given["density"]
    has_mass, has_density = ~np.isnan(mass), ~np.isnan(density)
    for name, stated in (("mass", has_mass), ("density", has_density)):
        bad = stated & ~(given[name] > 0.0)
        _refuse(bad, name, lambda k, name=name: repr(float(given[name][k])), "above 0")  # type: ignore[misc]
    wrong = (has_mass & has_density) | ~(given["fixed"] | has_mass | has_density)
    found = ("neither mass nor density", "mass and density")
    _refuse(wrong, "mass", lambda k: found[int(has_mass[k])], "one of the two")
    return np.where(has_mass, mass, np.where(has_density, density * volume, np.inf))
