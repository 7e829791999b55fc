"""Bodies: all bodies of a scene as columns, their shapes in one table per kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import isqrt
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.geometry.hulls import Hulls, Piece
from cdopt.geometry.polytope import LABELS, point
from cdopt.geometry.rotations import unit
from cdopt.scene import columns as read
from cdopt.scene.body import Body, Item, Spheres
from cdopt.scene.shape import Shape
from cdopt.scene.shapes import SHAPES, HalfSpace, Sphere, fields, gather
from cdopt.scene.state import UNIT_TOL

MOST = isqrt(2**63 // LABELS**2)  # bodies whose contacts can be numbered in 64 bits


@dataclass(frozen=True, eq=False)
class ShapeTable(Frozen):
    """The bodies of one kind of shape.

    Attributes
    ----------
    shape : the class of the shape.
    body : (n,) their numbers, ascending.
    columns : the shape's numbers by name, (n,) or (n, dim): ``radius``, ``size``, ``normal``.
    given : (n,) the shapes themselves where they are more than a few numbers.
    """

    shape: type[Shape]
    body: IntArray
    columns: Mapping[str, FloatArray]
    given: tuple[Any, ...] = ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for column in self.columns.values():
            read_only(column)


@dataclass(frozen=True, eq=False)
class Bodies(Frozen):
    """All bodies of a scene, numbered from 0; arrays are read-only.

    Attributes
    ----------
    dim : 2 or 3.
    tables : one ShapeTable per kind that occurs, in the order of ``cdopt.scene.SHAPES``.
    kind, row : (nb,) each body's table, as index into SHAPES, and its row there.
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
    force : (nb, dim) N. torque : (nb,) or (nb, 3) N·m: constant loads beside gravity.
    reach, core : (nb,) radii of the bounding sphere, and of one that fits inside, m.
    hulls : convex pieces of the bounded bodies; none where all of these are spheres.
    names : (nb,) texts, "" for none.
    """

    dim: int
    tables: tuple[ShapeTable, ...]
    kind: IntArray
    row: IntArray
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
    hulls: Hulls
    names: tuple[str, ...]

    @property
    def nb(self) -> int:
        """Number of bodies."""
        return int(self.fixed.size)

    def table(self, shape: type[Shape]) -> ShapeTable | None:
        """The bodies of one kind of ``shape``; None if there are none."""
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
        return {name: column[self.row[body]] for name, column in table.columns.items()}

    def shape(self, body: int) -> Any:
        """The shape of one body, as a user would write it."""
        body = checks.index("body", body, len(self.names))
        table = self.tables[[t.shape for t in self.tables].index(SHAPES[self.kind[body]])]
        row = int(self.row[body])
        if table.given:
            return table.given[row]
        return table.shape(*(table.columns[name][row].tolist() for name in fields(table.shape)))

    def label(self, body: int) -> str:
        """A body for messages: its number and name."""
        name = self.names[checks.index("body", body, len(self.names))]
        return f"bodies[{body}] {name!r}" if name else f"bodies[{body}]"


def assemble(items: Sequence[Item], dim: int, materials: Sequence[str]) -> Bodies:
    """Bodies from what a user wrote, numbered in order, groups of spheres sphere by sphere.

    Parameters
    ----------
    items : Body and Spheres in any order. materials : names that bodies may use.

    Raises
    ------
    InvalidInput : naming the field as ``bodies[k].field``, k counted over all bodies.
    """
    parts = []
    first = 0
    for grouped, run in groupby(items, key=_is_group):
        members = list(run)
        for member in members if grouped else [members]:
            make: Any = read.of_spheres if grouped else read.of_bodies
            parts.append(make(member, first, dim))
            first += len(parts[-1]["position"])
    if not 0 < first <= MOST:
        raise InvalidInput("bodies", f"{first} bodies", f"at least one, and at most {MOST}")
    given = {
        name: np.concatenate([part[name] for part in parts])
        for name in ("position", "orientation", "velocity", "angular_velocity", "fixed", "mass",
                     "density", "force", "torque")
    }  # fmt: skip
    _require_sound_loads(given)
    orientation = _orientations(given["orientation"])
    motion = {name: np.nan_to_num(given[name]) for name in
              ("velocity", "angular_velocity", "force", "torque")}  # fmt: skip
    shapes = _shapes([part["shape"] for part in parts], dim, first)
    mass = _masses(given, shapes.pop("volume"))
    per_mass = shapes.pop("inertia")
    return Bodies(
        dim=dim,
        position=given["position"],
        orientation=orientation,
        fixed=given["fixed"],
        mass=mass,
        density=given["density"],
        inertia=(mass if dim == 2 else mass[:, None]) * per_mass,
        material=_material_numbers([*chain(*(part["material"] for part in parts))], materials),
        names=tuple(chain(*(part["name"] for part in parts))),
        **motion,
        **shapes,
    )


def _is_group(item: Item) -> bool:
    if not isinstance(item, (Body, Spheres)):
        raise InvalidInput("bodies", checks.describe(item), "Body or Spheres")
    return isinstance(item, Spheres)


def _shapes(parts: Sequence[Any], dim: int, nb: int) -> dict[str, Any]:
    """Tables by kind, and what the shapes say of every body."""
    result: dict[str, Any] = {
        "kind": np.zeros(nb, dtype=np.int64), "row": np.zeros(nb, dtype=np.int64),
        "volume": np.zeros(nb), "reach": np.zeros(nb), "core": np.zeros(nb),
        "inertia": np.zeros(nb if dim == 2 else (nb, 3)), "principal": np.zeros((nb, 4)),
    }  # fmt: skip
    tables = []
    for number, shape in enumerate(SHAPES):
        chunks = [chunk for chunk in _chunks(parts, shape, dim) if chunk[0].size]
        if not chunks:
            continue
        body = np.concatenate([chunk[0] for chunk in chunks])
        values = {
            name: np.concatenate([chunk[1][name] for chunk in chunks]) for name in chunks[0][1]
        }
        given = () if shape.numbers else tuple(chain(*(chunk[2] for chunk in chunks)))
        tables.append(ShapeTable(shape=shape, body=body, columns=values, given=given))
        result["kind"][body] = number
        result["row"][body] = np.arange(body.size)
        result["volume"][body] = shape.volume(values, dim)
        result["inertia"][body] = shape.inertia(values, dim)
        result["principal"][body] = shape.principal(values)
        result["reach"][body] = shape.reach(values)
        result["core"][body] = shape.core(values)
    result["tables"] = tuple(tables)
    result["hulls"] = Hulls.of(_pieces(parts, dim), dim)
    return result


def _pieces(parts: Sequence[Any], dim: int) -> list[tuple[Piece, ...]]:
    """Convex pieces of every body; none at all where bodies are spheres and half-spaces."""
    plain = (Sphere, HalfSpace)
    if all(isinstance(part, np.ndarray) or all(type(one) in plain for one in part)
           for part in parts):  # fmt: skip
        return []
    pieces: list[tuple[Piece, ...]] = []
    for part in parts:
        if isinstance(part, np.ndarray):
            pieces += [(Piece(point(dim), radius),) for radius in part.tolist()]
        else:
            pieces += [one.pieces(dim) for one in part]
    return pieces


def _chunks(
    parts: Sequence[Any], shape: type[Shape], dim: int
) -> Iterator[tuple[IntArray, dict[str, FloatArray], list[Any]]]:
    """Numbers, columns and shapes of the bodies of one kind, part by part; radii for spheres."""
    first = 0
    for part in parts:
        numbers = np.arange(first, first + len(part))
        first += len(part)
        if isinstance(part, np.ndarray):
            if shape is Sphere:
                yield numbers, {"radius": part}, []
            continue
        mine = [k for k, one in enumerate(part) if type(one) is shape]
        if mine:
            given = [part[k] if shape.numbers else part[k].plain() for k in mine]
            yield numbers[mine], gather(shape, given, dim), given


def _orientations(given: FloatArray) -> FloatArray:
    """Identity where nothing is given; unit quaternions to round-off."""
    if given.ndim == 1:
        return np.nan_to_num(given)
    result = np.where(np.isnan(given), [1.0, 0.0, 0.0, 0.0], given)
    length = np.linalg.norm(result, axis=1)
    bad = np.flatnonzero(np.abs(length - 1.0) > UNIT_TOL)
    if bad.size:
        k = int(bad[0])
        raise InvalidInput(
            f"bodies[{k}].orientation", f"a quaternion of length {length[k]:.6g}", "length 1"
        )
    return unit(result)


def _masses(given: dict[str, Any], volume: FloatArray) -> FloatArray:
    mass, density, fixed = given["mass"], given["density"], given["fixed"]
    has_mass, has_density = ~np.isnan(mass), ~np.isnan(density)
    for name, stated in (("mass", has_mass), ("density", has_density)):
        bad = np.flatnonzero(stated & ~(given[name] > 0.0))
        if bad.size:
            k = int(bad[0])
            raise InvalidInput(f"bodies[{k}].{name}", repr(float(given[name][k])), "above 0")
    bad = np.flatnonzero((has_mass & has_density) | ~(fixed | has_mass | has_density))
    if bad.size:
        k = int(bad[0])
        found = "mass and density" if has_mass[k] else "neither mass nor density"
        raise InvalidInput(f"bodies[{k}].mass", found, "one of the two")
    return np.where(has_mass, mass, np.where(has_density, density * volume, np.inf))


def _require_sound_loads(given: dict[str, Any]) -> None:
    for name in ("force", "torque"):
        table = given[name].reshape(given["fixed"].size, -1)
        bad = np.flatnonzero(given["fixed"] & ~np.isnan(table).all(axis=1))
        if bad.size:
            raise InvalidInput(
                f"bodies[{int(bad[0])}].{name}", "a load on a fixed body", "none, or a free body"
            )


def _material_numbers(used: Sequence[str], known: Sequence[str]) -> IntArray:
    number = {name: k for k, name in enumerate(known)} | {"": -1}
    for k, name in enumerate(used):
        if name not in number:
            expected = "one of " + (
                ", ".join(map(repr, known)) or "none: the scene has no materials"
            )
            raise InvalidInput(f"bodies[{k}].material", repr(name), expected)
    return np.array([number[name] for name in used], dtype=np.int64)
