"""Assemblies of convex blocks from other tools: OBJ and STL meshes, and a JSON list of blocks.

A mesh has only geometry: density, friction, the unit of length and which
blocks are fixed are stated separately.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.spatial import ConvexHull, QhullError

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import short
from cdopt.geometry import polytope
from cdopt.geometry.blocks import Block
from cdopt.scene.bodies import Body
from cdopt.scene.meshes import FINE, block_meshes, blocks_of, last_digit
from cdopt.scene.scene import GRAVITY, Scene
from cdopt.scene.shapes import Polygon, Polyhedron

_PATH = re.compile(r"(?P<path>.+\.(?:obj|stl|json))(?P<stated>:.*)?", re.IGNORECASE)
LIST_SIZE = 2**24  # bytes of a JSON list of blocks
_MOST = 100_000  # vertices of a block


class _Block(msgspec.Struct, forbid_unknown_fields=True):
    vertices: list[list[float]]
    name: str = ""
    fixed: bool = False
    density: float | None = None
    force: list[float] | None = None


class _Assembly(msgspec.Struct, forbid_unknown_fields=True):
    blocks: list[_Block]
    name: str = ""
    title: str = ""
    unit: float = 1.0
    density: float | None = None
    friction: float | None = None
    gravity: list[float] | None = None


def parts_of(text: str) -> tuple[str, str] | None:
    """Path and parameters of ``wall.obj:density=2000,fixed=base``; None of other texts."""
    match = _PATH.fullmatch(text)
    return None if match is None else (match["path"], match["stated"] or "")


def load_assembly(
    path: str | Path,
    density: float = 0.0,
    friction: float = -1.0,
    *,
    unit: float = 0.0,
    fixed: str = "",
    up: str = "",
    tol: float = 0.0,
) -> Scene:
    """A scene of convex blocks from a mesh (.obj, .stl) or a list of blocks (.json).

    A block is a group (``o`` or ``g``) of an OBJ file, a solid of an STL file, and in files with
    one of these a connected part of the mesh. A JSON file has ``blocks``, each with ``vertices``
    (n, 2) or (n, 3), and if wanted ``name``, ``fixed``, ``density`` and ``force`` (N); next to them
    ``name``, ``title``, ``unit``, ``density``, ``friction`` and ``gravity`` (m/s²) of all.

    Parameters
    ----------
    path : the file.
    density : of all blocks, kg/m³ (in the plane per 1 m of depth); 0 for that of the file.
    friction : coefficient of all contacts; negative for that of the file, if any.
    unit : length of the file's unit in m, 0.001 for millimetres; 0 for that of the file, or 1.
    fixed : names of blocks that do not move, with + between them. Blocks whose name begins with
        "fixed" do not move either, nor those that a JSON file marks as fixed.
    up : axis that gravity points against, "x", "y" or "z"; by default the file's gravity, or the
        last axis.
    tol : m, within which faces are planar and those of different blocks lie on each other, in
        space; 0 for four units of the last digit of the file's coordinates. Corners are moved
        so that they do so exactly; the scene's title states how far.

    Raises
    ------
    InvalidInput : a file that is none of these or too large, a block that is not convex or whose
        mesh is not closed, no density for a free block, no fixed block, or an unknown name.
    """
    place = checks.path("path", path)
    fixed, up = checks.text("fixed", fixed), checks.text("up", up)
    friction = checks.scalar("friction", friction)
    scale = checks.scalar("unit", unit, at_least=0.0)
    accuracy = checks.scalar("tol", tol, at_least=0.0) or None
    read = None if place.suffix.lower() == ".json" else block_meshes(place)
    if read is None:
        stated = _listed(place)
        scale = scale or checks.scalar("unit", stated.unit, above=0.0)
    else:
        stated = _Assembly([_Block([], name) for name in read.polygons])
    heavy = checks.scalar("density", density, at_least=0.0)
    named = {name for name in fixed.split("+") if name}
    if unknown := named - {block.name for block in stated.blocks}:
        known = ", ".join(block.name for block in stated.blocks[:20])
        raise InvalidInput("fixed", repr(sorted(unknown)[0]), f"one of the blocks: {known}")
    about: list[dict[str, Any]] = []
    for number, block in enumerate(stated.blocks):
        name = _name(block, number)
        still = block.fixed or block.name in named or name.lower().startswith("fixed")
        weight = None if still else block.density or heavy or stated.density
        if not still and not weight:
            raise InvalidInput("density", f"none for {name}", "a density in kg/m³, or fixed blocks")
        about.append({"name": name, "fixed": still or None, "density": weight})
    shapes: Sequence[Polygon | Polyhedron]
    moved = 0.0
    if read is None:
        dim, shapes, moved = _shapes_of_list(stated.blocks, scale, accuracy, place)
    else:
        polygons, dim = list(read.polygons.items()), 3
        solids, off, moved = blocks_of(polygons, read.digit, scale or 1.0, accuracy)
        shapes = [_polyhedron(solid, off) for solid in solids]
    bodies = [
        Body(shape, tuple(shape.centre), force=block.force, **known)
        for shape, block, known in zip(shapes, stated.blocks, about, strict=True)
    ]
    if not any(body.fixed for body in bodies):
        raise InvalidInput("fixed", "no fixed block", "names of the blocks that do not move")
    gravity = stated.gravity
    if up:
        gravity = [0.0] * dim
        gravity["xyz".index(checks.choice("up", up, "xyz"[:dim]))] = -GRAVITY
    return Scene(
        bodies,
        dim=dim,
        gravity=gravity,
        friction=friction if friction >= 0.0 else stated.friction,
        overlaps="touching",
        name=stated.name or place.stem,
        title=stated.title or f"{len(bodies):,} blocks of {place.name}{_repaired(moved, bodies)}",
    )


def _repaired(moved: float, bodies: Sequence[Body]) -> str:
    """How far corners were moved, where that is more than round-off."""
    far = max(float(np.abs(body.position).max()) for body in bodies)
    return f", corners moved by up to {short(moved, 2)} m" if moved > FINE * far else ""


def _name(block: _Block, number: int) -> str:
    return block.name or f"block {number}"


def _listed(place: Path) -> _Assembly:
    """A JSON list of blocks."""
    text = files.read_text(place, "an assembly", str(place), LIST_SIZE)
    try:
        return msgspec.json.decode(text, type=_Assembly)
    except msgspec.DecodeError as error:
        raise InvalidInput(str(place), str(error), "a JSON file of blocks") from error


def _shapes_of_list(
    blocks: Sequence[_Block], scale: float, tol: float | None, place: Path
) -> tuple[Any, list[Polygon] | list[Polyhedron], float]:
    """2 or 3, the solids of blocks, all of whose corners must stick out, and how far these move."""
    sizes = {len(vertex) for block in blocks for vertex in block.vertices}
    if not blocks or sizes not in ({2}, {3}):
        found = "no blocks" if not blocks else f"vertices of {sorted(sizes)} numbers"
        raise InvalidInput(str(place), found, "blocks with vertices of 2 or of 3 numbers")
    dim, hulls = sizes.pop(), list[Any]()
    for number, block in enumerate(blocks):
        vertices, name = np.array(block.vertices), _name(block, number)
        hull = _hull(vertices, name)
        if hull.vertices.size < len(vertices):
            inner = next(k for k in range(len(vertices)) if k not in hull.vertices)
            found = f"vertex {inner} inside the hull of the others"
            raise InvalidInput(name, found, "convex blocks")
        hulls.append(hull)
    if dim == 2:
        return dim, [Polygon((scale * hull.points[hull.vertices]).tolist()) for hull in hulls], 0.0
    polygons = [
        (_name(block, k), list(hull.points[polytope.facets(hull)]))
        for k, (block, hull) in enumerate(zip(blocks, hulls, strict=True))
    ]
    digit = last_digit(repr(x) for block in blocks for vertex in block.vertices for x in vertex)
    solids, off, moved = blocks_of(polygons, digit, scale, tol)
    return dim, [_polyhedron(solid, off) for solid in solids], moved


def _polyhedron(block: Block, tol: float) -> Polyhedron:
    """The convex solid of a block: its corners that stick out."""
    vertices = block.vertices
    if len(vertices) > _MOST:
        found = f"{len(vertices):,} vertices"
        raise InvalidInput(block.name, found, f"at most {_MOST:,} in a block")
    for number, (normal, centre) in enumerate(zip(*block.planes, strict=True)):
        before = float(((vertices - centre) @ normal).max())
        if before > 2.0 * tol:
            found = f"corners {before:.3g} m in front of face {number}"
            other = "convex blocks; for other blocks use cdopt.stability or cdopt.limit_load"
            raise InvalidInput(block.name, found, other)
    return Polyhedron(polytope.extreme_points(vertices, block.name).tolist())


def _hull(vertices: FloatArray, name: str) -> Any:
    try:
        return ConvexHull(vertices)
    except (QhullError, ValueError) as error:
        raise InvalidInput(name, f"{len(vertices)} vertices without a volume", "a solid") from error
