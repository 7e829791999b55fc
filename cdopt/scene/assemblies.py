"""Assemblies of convex blocks from other tools: OBJ and STL meshes, and a JSON list of blocks.

A mesh says where faces are, not what they weigh: density, friction, the unit of length and which
blocks are fixed are stated beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, QhullError

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Body
from cdopt.scene.scene import GRAVITY, Scene
from cdopt.scene.shapes import Polygon, Polyhedron

_PATH = re.compile(r"(?P<path>.+\.(?:obj|stl|json))(?P<stated>:.*)?", re.IGNORECASE)
_ENCLOSED = 1e-5  # share of the hull's volume that a convex mesh may miss
_FACET = 50  # bytes in a binary STL
_MESH, LIST_SIZE = 2**25, 2**24  # bytes of a mesh, and of a JSON list of blocks
_MOST = 500_000  # vertices, and triangles, of a file; of a block a fifth
_BLOCKS = 50_000  # of a file
_LINE = 100_000  # characters of a line of OBJ


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
) -> Scene:
    """A scene of convex blocks from a mesh (.obj, .stl) or a list of blocks (.json).

    A block is a group (``o`` or ``g``) of an OBJ file, a solid of an STL file, and in files with
    one of these a connected part of the mesh. A JSON file has ``blocks``, each with ``vertices``
    (n, 2) or (n, 3), and if wanted ``name``, ``fixed``, ``density`` and ``force`` (N); beside them
    ``name``, ``title``, ``unit``, ``density``, ``friction`` and ``gravity`` (m/s²) of all.

    Parameters
    ----------
    path : the file.
    density : of all blocks, kg/m³ (in the plane per 1 m of depth); 0 takes what the file says.
    friction : coefficient of all contacts; negative takes what the file says, if anything.
    unit : length of the file's unit in m, 0.001 for millimetres; 0 takes the file's, or 1.
    fixed : names of blocks that do not move, with + between them. Blocks whose name begins with
        "fixed" do not move either, nor those of which a JSON file says so.
    up : axis that gravity points against, "x", "y" or "z"; by default the file's gravity, or the
        last axis.

    Raises
    ------
    InvalidInput : a file that is none of these or too large (meshes of more than 32 MiB, lists of
        more than 16 MiB, 500,000 vertices or triangles, or 50,000 blocks), a block that is not
        convex or whose mesh is not closed, no density for a free block, no fixed block, or an
        unknown name.

    >>> import json, pathlib, tempfile, cdopt
    >>> floor, block = [[-1, -1], [1, -1], [1, 0], [-1, 0]], [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]
    >>> blocks = [{"vertices": floor, "fixed": True}, {"vertices": block, "density": 2000}]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "block.json"
    >>> _ = path.write_text(json.dumps({"blocks": blocks, "friction": 0.6}))
    >>> round(cdopt.limit_load(cdopt.scene.load(path), [1, 0]).value, 9)
    0.4
    """
    place = checks.path("path", path)
    fixed, up = checks.text("fixed", fixed), checks.text("up", up)
    friction = checks.scalar("friction", friction)
    stated = _read(place)
    dim = _dimension(stated.blocks, place)
    scale = checks.scalar("unit", unit, at_least=0.0) or checks.scalar(
        "unit", stated.unit, above=0.0
    )
    heavy = checks.scalar("density", density, at_least=0.0)
    named = {name for name in fixed.split("+") if name}
    if unknown := named - {block.name for block in stated.blocks}:
        known = ", ".join(block.name for block in stated.blocks[:20])
        raise InvalidInput("fixed", repr(sorted(unknown)[0]), f"one of the blocks: {known}")
    bodies = []
    for number, block in enumerate(stated.blocks):
        name = block.name or f"block {number}"
        still = block.fixed or block.name in named or name.lower().startswith("fixed")
        weight = None if still else block.density or heavy or stated.density
        if not still and not weight:
            raise InvalidInput("density", f"none for {name}", "a density in kg/m³, or fixed blocks")
        shape, load = _shape(np.array(block.vertices) * scale, name), block.force
        place_of = tuple(shape.centre)
        bodies.append(
            Body(shape, place_of, name=name, fixed=still or None, density=weight, force=load)
        )
    if not any(body.fixed for body in bodies):
        raise InvalidInput("fixed", "no fixed block", "names of the blocks that do not move")
    coefficient = checks.scalar("friction", friction)
    gravity = stated.gravity
    if up:
        gravity = [0.0] * dim
        gravity["xyz".index(checks.choice("up", up, "xyz"[:dim]))] = -GRAVITY
    return Scene(
        bodies,
        dim=dim,
        gravity=gravity,
        friction=coefficient if coefficient >= 0.0 else stated.friction,
        overlaps="touching",
        name=stated.name or place.stem,
        title=stated.title or f"{len(bodies):,} blocks of {place.name}",
    )


def _dimension(blocks: Sequence[_Block], place: Path) -> Any:
    """2 or 3, the same for all vertices."""
    sizes = {len(vertex) for block in blocks for vertex in block.vertices}
    if not blocks or sizes not in ({2}, {3}):
        found = "no blocks" if not blocks else f"vertices of {sorted(sizes)} numbers"
        raise InvalidInput(str(place), found, "blocks with vertices of 2 or of 3 numbers")
    return sizes.pop()


def _shape(vertices: FloatArray, name: str) -> Polygon | Polyhedron:
    """The convex solid of its corners, all of which must stick out."""
    hull = _hull(vertices, name)
    if hull.vertices.size < len(vertices):
        inner = next(k for k in range(len(vertices)) if k not in hull.vertices)
        raise InvalidInput(name, f"vertex {inner} inside the hull of the others", "convex blocks")
    if vertices.shape[1] == 3:
        return Polyhedron(vertices.tolist())
    return Polygon(vertices[hull.vertices].tolist())


def _hull(vertices: FloatArray, name: str) -> Any:
    try:
        return ConvexHull(vertices)
    except (QhullError, ValueError) as error:
        raise InvalidInput(name, f"{len(vertices)} vertices without a volume", "a solid") from error


# --- files: meshes are polygons by name -----------------------------------------------


def _read(place: Path) -> _Assembly:
    """The blocks of a file; of a mesh those corners of each that stick out."""
    kind = place.suffix.lower()
    if kind == ".json":
        text = files.read_text(place, "an assembly", str(place), LIST_SIZE)
        try:
            return msgspec.json.decode(text, type=_Assembly)
        except msgspec.DecodeError as error:
            raise InvalidInput(str(place), str(error), "a JSON file of blocks") from error
    if kind not in (".obj", ".stl"):
        raise InvalidInput("path", str(place), "a file named .obj, .stl or .json")
    meshes = {name: fans(faces) for name, faces in block_meshes(place).items()}
    return _Assembly([_Block(_corners(mesh, name), name) for name, mesh in meshes.items()])


Polygons = list[FloatArray]  # (n, 3) each


def block_meshes(place: Path) -> dict[str, Polygons]:
    """The faces of each block of a mesh, in the file's unit.

    A block is a group of an OBJ file, a solid of an STL file, or a connected part of a mesh that
    has one of these.

    Raises
    ------
    InvalidInput : a file that is neither, too large or damaged.
    """
    if checks.path("path", place).suffix.lower() == ".obj":
        meshes = _obj(files.read_text(place, "a mesh", str(place), _MESH), place)
    elif place.suffix.lower() == ".stl":
        meshes = _stl(files.read_bytes(place, "a mesh", str(place), _MESH), place)
    else:
        raise InvalidInput("path", str(place), "a file named .obj, .stl or .json")
    if len(meshes) == 1:
        meshes = _connected(*next(iter(meshes.items())))
    return meshes


def fans(polygons: Polygons) -> FloatArray:
    """Triangles (n, 3, 3) of polygons, from the first corner of each."""
    parts = [(face[0], b, c) for face in polygons for b, c in pairwise(face[1:])]
    return np.array(parts)


def _corners(mesh: FloatArray, name: str) -> list[list[float]]:
    """Corners of a convex mesh."""
    vertices = np.unique(mesh.reshape(-1, 3), axis=0)
    if len(vertices) > _MOST // 5:
        found = f"{len(vertices):,} vertices"
        raise InvalidInput(name, found, f"at most {_MOST // 5:,} in a block")
    hull = _hull(vertices, name)
    a, b, c = np.moveaxis(mesh - vertices.mean(axis=0), 1, 0)
    share = abs(float(np.sum(a * np.cross(b, c)))) / 6.0 / hull.volume
    if not abs(share - 1.0) <= _ENCLOSED:
        found = f"{name}: its faces enclose {share:.4g} of its hull"
        raise InvalidInput(
            "mesh",
            found,
            "closed, convex blocks, their faces all turned outward; blocks "
            "that are not, or of few digits: cdopt.scene.load_blocks",
        )
    corners: list[list[float]] = vertices[np.sort(hull.vertices)].tolist()
    return corners


def _obj(text: str, place: Path) -> dict[str, Polygons]:
    """The groups of a Wavefront OBJ file."""
    vertices: list[tuple[float, ...]] = []
    groups: dict[str, list[list[int]]] = {}
    name, triangles = place.stem, 0
    for number, line in enumerate(_lines(text), 1):
        if len(line) > _LINE:
            found = f"line {number} of {len(line):,} characters"
            raise InvalidInput(str(place), found, f"lines of at most {_LINE:,}")
        kind, *words = line.split("#")[0].split() or [""]
        try:
            if kind == "v":
                x, y, z = map(float, words[:3])
                vertices.append((x, y, z))
            elif kind in ("o", "g"):
                name = " ".join(words) or name
            elif kind == "f":
                corners = [int(word.split("/")[0]) for word in words]
                loop = [k - 1 if k > 0 else len(vertices) + k for k in corners]
                if len(loop) < 3 or not all(0 <= k < len(vertices) for k in loop):
                    raise ValueError("corners that are not there")
                groups.setdefault(name, []).append(loop)
                triangles += len(loop) - 2
        except ValueError as error:
            found = f"line {number}: {line.strip()[:40]!r}"
            raise InvalidInput(str(place), found, "vertices and faces of OBJ") from error
        _require_size(place, max(len(vertices), triangles), len(groups))
    if not groups:
        raise InvalidInput(str(place), "no faces", "groups with faces")
    corner = np.array(vertices)
    return {title: [corner[loop] for loop in faces] for title, faces in groups.items()}


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, one at a time."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _require_size(place: Path, parts: int, blocks: int) -> None:
    """Refuse more vertices, triangles or blocks than an assembly can have."""
    if parts > _MOST or blocks > _BLOCKS:
        found = f"more than {_BLOCKS:,} blocks" if blocks > _BLOCKS else f"more than {_MOST:,}"
        expected = f"at most {_MOST:,} vertices and triangles, in at most {_BLOCKS:,} blocks"
        raise InvalidInput(str(place), found, expected)


def _stl(content: bytes, place: Path) -> dict[str, Polygons]:
    """The solids of an STL file, of text or binary."""
    facets = int.from_bytes(content[80:84], "little")
    if len(content) == 84 + _FACET * facets:
        _require_size(place, facets, 1)
        record = np.dtype([("numbers", "<f4", 12), ("attribute", "<u2")])
        numbers = np.frombuffer(content, record, facets, 84)["numbers"].astype(float)
        return {place.stem: list(numbers.reshape(-1, 4, 3)[:, 1:])}
    solids: dict[str, Polygons] = {}
    _require_size(place, content.count(b"vertex") // 3, content.count(b"solid") // 2)
    for part in re.split(r"(?m)^\s*solid\b", content.decode("ascii", "replace"))[1:]:
        name = part.partition("\n")[0].strip()
        if not name or name in solids:
            name = f"{name or place.stem} {len(solids)}"
        found = re.findall(r"(?m)^\s*vertex\s+(\S+)\s+(\S+)\s+(\S+)", part)
        try:
            solids[name] = list(np.array(found, dtype=float).reshape(-1, 3, 3))
        except ValueError as error:
            raise InvalidInput(str(place), f"{name}: {error}", "triangles of STL") from error
    if not solids:
        raise InvalidInput(str(place), "no solid", "an STL file of text, or a whole binary one")
    return solids


def _connected(name: str, polygons: Polygons) -> dict[str, Polygons]:
    """The connected parts of a mesh; blocks that touch at whole edges must be stated apart."""
    mesh = fans(polygons)
    vertices, index = np.unique(mesh.reshape(-1, 3), axis=0, return_inverse=True)
    corners = index.reshape(-1, 3)
    ends = (corners.ravel(), np.roll(corners, 1, axis=1).ravel())
    used = np.unique(np.sort(np.column_stack(ends), axis=1), axis=0, return_counts=True)[1]
    if used.max(initial=0) > 2:
        found = "one mesh of several blocks with common edges"
        raise InvalidInput(name, found, "a group or a solid for each block")
    graph = sp.coo_array((np.ones(ends[0].size), ends), shape=(len(vertices),) * 2)
    count, part = connected_components(graph.tocsr(), directed=False)
    if count == 1:
        return {name: polygons}
    return {f"{name} {k}": list(mesh[part[corners[:, 0]] == k]) for k in range(count)}
