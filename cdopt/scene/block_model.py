"""Block models: solids that need not be convex, whose contacts are the faces that they share.

They come from meshes (.obj, .stl) and the JSON files of COMPAS: assemblies of compas_assembly and
compas_cra, models of compas_dem. Where such a file states
interfaces, these are the contacts; otherwise they are faces that lie on each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cdopt._util import checks, files
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import count, listed, numbered, short
from cdopt._util.frozen import Frozen
from cdopt.geometry.blocks import Block, Interface, joined_areas, outward_normal, shared_faces
from cdopt.problem.contact_step import ContactStep
from cdopt.scene.assemblies import LIST_SIZE
from cdopt.scene.meshes import FINE, block_meshes, blocks_of, last_digit, round_off
from cdopt.scene.scene import GRAVITY

_STATED = 100.0  # tolerances that a stated interface may be off the faces of its blocks
_DT = 1e-3  # s, of a step; it cancels in statics


@dataclass(frozen=True, eq=False)
class BlockModel(Frozen):
    """Blocks, which of them are supports, and the plane contacts between them.

    Attributes
    ----------
    name : of the model. blocks : the solids, in m.
    fixed : (nb,) supports.
    density : (nb,) kg/m³.
    interfaces : plane contacts; forces act at their corners.
    stated : whether the file states them.
    tol : m, within which faces are planar and lie on each other.
    moved : m, how far corners were moved at most, so that they do.
    gravity : (3,) m/s². friction : μ of all contacts, if the file's name states it.
    weighed : whether the density of all blocks that move was given; 1 kg/m³ is assumed otherwise.
    """

    name: str
    blocks: tuple[Block, ...]
    fixed: BoolArray
    density: FloatArray
    interfaces: tuple[Interface, ...]
    stated: bool
    tol: float
    moved: float
    gravity: FloatArray
    friction: float | None = None
    weighed: bool = True

    @cached_property
    def repairs(self) -> list[str]:
        """Corrections of inexact coordinates, a line each."""
        off = [float(block.unevenness.max(initial=0.0)) for block in self.blocks]
        floor = FINE * self.size
        uneven = [k for k, x in enumerate(off) if x > floor]
        lines = []
        if self.moved > floor:
            text = f"corners were moved by up to {short(self.moved, 2)} m, so that faces are planar"
            lines.append(f"{text} and lie on each other")
        if uneven:
            worst = max(uneven, key=lambda k: off[k])
            text = f"faces of {count(len(uneven), 'block')} count as planar, the worst, of "
            lines.append(f"{text}{self.blocks[worst].name}, {short(off[worst], 2)} m off")
        return lines

    @property
    def size(self) -> float:
        """m, the longest side of the box around all blocks."""
        corners = np.concatenate([block.vertices for block in self.blocks])
        return float(np.ptp(corners, axis=0).max())

    @property
    def masses(self) -> FloatArray:
        """(nb,) kg."""
        return self.density * [block.volume for block in self.blocks]

    @property
    def weights(self) -> FloatArray:
        """(nb,) N, none of fixed blocks."""
        return np.where(self.fixed, 0.0, self.masses) * float(np.linalg.norm(self.gravity))

    @property
    def assumption(self) -> str:
        """A sentence on the density if none was given, else empty."""
        if self.weighed:
            return ""
        total = short(float(self.weights.sum()), 4)
        return f" Total weight {total} N: density 1 kg/m³ assumed."

    def require_density(self, what: str) -> None:
        """Require a density, because ``what`` is in newtons or pascals.

        Raises
        ------
        InvalidInput : no density was given, or ``what`` is no text.
        """
        checks.instance("what", what, str)
        if not self.weighed:
            raise InvalidInput("density", f"none, for {what}", "the density in kg/m³")

    @property
    def contact_areas(self) -> FloatArray:
        """(nc,) m², the share of each contact in its interface."""
        return np.concatenate([np.zeros(0), *(_shares(face) for face in self.interfaces)])

    @property
    def contacts(self) -> int:
        """Number of contact points, the corners of all interfaces."""
        return sum(len(face.points) for face in self.interfaces)

    def step(self, friction: Any = None, *, gravity: Any = None, dt: float = _DT) -> ContactStep:
        """The contact step of the model at rest, a contact at each corner of an interface.

        Parameters
        ----------
        friction : μ of all contacts, or (nc,); by default that of the model.
        gravity : (3,) m/s²; by default that of the model.
        dt : s.

        Raises
        ------
        InvalidInput : no blocks touch, no friction, or a bad argument.
        """
        friction = self.friction if friction is None else friction
        if friction is None:
            raise InvalidInput("friction", "None", "a coefficient of friction")
        many = [len(face.points) for face in self.interfaces]
        if not many:
            found = f"no faces that lie on each other within {self.tol:.3g} m"
            raise InvalidInput(self.name, found, "blocks in contact")
        g = self.gravity if gravity is None else gravity
        names = [block.name for block in self.blocks]
        between = ["–".join(names[k] for k in face.bodies) for face in self.interfaces]
        return ContactStep.from_contacts(
            np.concatenate([face.points for face in self.interfaces]),
            np.repeat([face.normal for face in self.interfaces], many, axis=0),
            np.repeat([face.bodies for face in self.interfaces], many, axis=0),
            self.masses,
            self.density[:, None, None] * [block.inertia for block in self.blocks],
            [block.centre for block in self.blocks],
            gravity=g,
            fixed=self.fixed,
            friction=friction,
            dt=dt,
            contact_ids=numbered(np.repeat(between, many).tolist()),
            body_names=names,
        )

    def __repr__(self) -> str:
        blocks, supports = count(len(self.blocks), "block"), int(self.fixed.sum())
        faces = count(len(self.interfaces), "interface")
        how = "stated" if self.stated else f"within {self.tol:.2g} m"
        return f"BlockModel({self.name}: {blocks}, {supports} fixed, {faces} {how})"


def load_blocks(
    path: str | Path,
    *,
    supports: Any = None,
    density: float | None = None,
    unit: float = 1.0,
    tol: float | None = None,
    friction: float | None = None,
    up: str = "z",
) -> BlockModel:
    """A block model from a mesh (.obj, .stl) or a file of COMPAS (.json).

    Parameters
    ----------
    path : the file. In meshes a block is a group or a solid, or a connected part.
    supports : names or numbers of the blocks that do not move; by default those of the file
        are supports, or whose name begins with "fixed".
    density : of all blocks, kg/m³; by default the file's, or 1, which is enough for ratios of
        weights. Loads in N and strengths in Pa need it.
    unit : length of the file's unit in m, 0.001 for millimetres.
    tol : m, within which faces are planar and shared; by default four units of the last digit of
        the file's coordinates.
    friction : μ of all contacts, where ``BlockModel.step`` is not given one.
    up : axis that gravity of 9.81 m/s² points against, "x", "y" or "z".

    Raises
    ------
    InvalidInput : a file that is none of these, a block that is not closed, a face that is not
        planar, no supports or unknown ones.
    """
    place = checks.path("path", path)
    unit = checks.positive("unit", unit)
    tol = checks.optional(checks.positive, "tol", tol)
    friction = checks.optional(checks.not_negative, "friction", friction)
    gravity = -GRAVITY * np.eye(3)["xyz".index(checks.choice("up", up, "xyz"))]
    if place.suffix.lower() == ".json":
        read = _json(files.read_text(place, "a block model", str(place), LIST_SIZE), place)
    else:
        meshes = block_meshes(place)
        read = _Read([_Solid(*polygon) for polygon in meshes.polygons.items()], [], meshes.digit)
    if not read.solids:
        raise InvalidInput(str(place), "no blocks", "a mesh, or a file of COMPAS")
    names = [solid.name for solid in read.solids]
    fixed = np.array([s.fixed or s.name.lower().startswith("fixed") for s in read.solids])
    if supports is not None:
        fixed = _supports(supports, names)
    if not fixed.any():
        some = listed(names, 20)
        raise InvalidInput("supports", "no fixed block", f"some of: {some}")
    polygons = [(solid.name, solid.faces) for solid in read.solids]
    blocks, tol, moved = blocks_of(polygons, read.digit, unit, tol)
    heavy = [1.0 if s.density is None else s.density for s in read.solids]
    known = all(s.density is not None or still for s, still in zip(read.solids, fixed, strict=True))
    if density is not None:
        heavy = [checks.positive("density", density)] * len(blocks)
    faces = _stated_interfaces(read, names, blocks, unit, tol) or shared_faces(blocks, tol)
    faces = [face for face in faces if not fixed[list(face.bodies)].all()]
    return BlockModel(
        place.stem,
        tuple(blocks),
        checks.read_only(fixed),
        checks.read_only(np.array(heavy)),
        tuple(faces),
        bool(read.interfaces),
        tol,
        moved,
        checks.read_only(gravity),
        friction,
        density is not None or known,
    )


def _shares(face: Interface) -> FloatArray:
    """(n,) m², of the area of an interface: half of the two triangles at each corner."""
    arms = face.points - face.points.mean(axis=0)
    after = np.abs(np.cross(arms, np.roll(arms, -1, axis=0)) @ face.normal) / 4.0
    return np.asarray(after + np.roll(after, 1))


def _supports(supports: Any, names: list[str]) -> BoolArray:
    fixed = np.zeros(len(names), dtype=bool)
    for one in [supports] if isinstance(supports, str | int) else supports:
        if isinstance(one, str) or str(one) in names:
            fixed[names.index(checks.choice("supports", str(one), names))] = True
        else:
            fixed[checks.index("supports", one, len(names))] = True
    return fixed


# --- files of JSON -------------------------------------------------------------------------------


class _Solid(NamedTuple):
    """A block of a file: polygons (n, 3) in its unit."""

    name: str
    faces: list[FloatArray]
    fixed: bool = False
    density: float | None = None


class _Read(NamedTuple):
    """Contents of a file: solids, interfaces (both names, polygon, normal), and its last digit."""

    solids: list[_Solid]
    interfaces: list[tuple[str, str, FloatArray, FloatArray]]
    digit: float


def _json(text: str, place: Path) -> _Read:
    content = _parsed(text, place)
    try:
        solids = [_of_mesh(*found) for found in _meshes(content, "", {})]
        interfaces = [
            (one, other, *_polygon(face))
            for one, other, stated in _edges(content)
            for face in stated
        ]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise InvalidInput(str(place), found, "blocks as COMPAS writes them") from error
    faces = [face for solid in solids for face in solid.faces]
    values = np.concatenate([np.zeros((0, 3)), *faces])
    digit = round_off(last_digit(map(repr, np.unique(values).tolist())), values)
    return _Read(solids, interfaces, digit)


def _parsed(text: str, place: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(str(place), str(error)[:200], "a JSON file") from error


def lists_convex_blocks(path: str | Path) -> bool:
    """Whether a file is a JSON list of convex blocks, as ``load_assembly`` reads them."""
    place = checks.path("path", path)
    if place.suffix.lower() != ".json":
        return False
    content = _parsed(files.read_text(place, "a block model", str(place), LIST_SIZE), place)
    return isinstance(content, dict) and isinstance(content.get("blocks"), list)


def _meshes(
    content: Any, key: str, about: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Key, mesh and attributes of every block in a file of COMPAS, in the order of their keys."""
    if isinstance(content, list):
        for number, one in enumerate(content):
            yield from _meshes(one, str(number), about)
    if not isinstance(content, dict):
        return
    if isinstance(content.get("vertex"), dict) and isinstance(content.get("face"), dict):
        yield key, content, about
        return
    if "is_support" in content or "block" in content:
        about = content
    for name in _in_order(content):
        if name not in ("interfaces", "interface", "edge", "adjacency"):
            named = name.lstrip("-").isdigit()
            yield from _meshes(content[name], name if named else key, about)


def _in_order(content: dict[str, Any]) -> list[str]:
    """Names of a dictionary, numbers by size."""
    numbers = [name for name in content if name.lstrip("-").isdigit()]
    others = [name for name in content if name not in numbers]
    return [*others, *sorted(numbers, key=int)]


def _of_mesh(key: str, mesh: dict[str, Any], about: dict[str, Any]) -> _Solid:
    """A mesh of COMPAS, with the attributes of its node."""
    at = {k: [float(v[axis]) for axis in "xyz"] for k, v in mesh["vertex"].items()}
    faces = [np.array([at[str(k)] for k in loop]) for loop in mesh["face"].values()]
    attributes = mesh.get("attributes") or {}
    fixed = bool(about.get("is_support") or attributes.get("is_support"))
    density = attributes.get("density")
    return _Solid(key, faces, fixed, None if density is None else float(density))


def _edges(content: Any) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Both nodes and the interfaces of every edge of a graph that states some."""
    if isinstance(content, list):
        for one in content:
            yield from _edges(one)
    if not isinstance(content, dict):
        return
    for name, value in content.items():
        if name != "edge" or not isinstance(value, dict):
            yield from _edges(value)
            continue
        for one, others in value.items():
            for other, about in others.items():
                stated = about.get("interfaces") or about.get("interface") or []
                yield one, other, stated if isinstance(stated, list) else [stated]


def _polygon(face: dict[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Corners and unit normal of an interface of COMPAS."""
    data = face.get("data", face)
    points, frame = np.array(data["points"], dtype=np.float64).reshape(-1, 3), data["frame"]
    frame = frame.get("data", frame)
    normal = np.cross(frame["xaxis"], frame["yaxis"])
    return points, normal / np.linalg.norm(normal)


def _stated_interfaces(
    read: _Read, names: list[str], blocks: list[Block], unit: float, tol: float
) -> list[Interface]:
    """The interfaces that a file states, normals from the block with the smaller number."""
    areas: dict[tuple[int, int], list[tuple[FloatArray, FloatArray]]] = {}
    for one, other, points, normal in read.interfaces:
        i, j = sorted((names.index(one), names.index(other)))
        corners = unit * points
        out, into = (outward_normal(blocks[k], corners, _STATED * tol) for k in (i, j))
        if out is None and into is None:
            found = f"an interface on no face of {names[i]} and {names[j]}"
            raise InvalidInput("interfaces", found, "interfaces on faces of their blocks")
        way = out if out is not None else -np.asarray(into)
        areas.setdefault((i, j), []).append((normal if way @ normal > 0.0 else -normal, corners))
    return [
        face for pair, found in sorted(areas.items()) for face in joined_areas(pair, found, tol)
    ]
