"""Meshes of blocks: Wavefront OBJ and STL, read with the accuracy of their digits."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.geometry.blocks import Block
from cdopt.geometry.levelling import levelled

_FACET = 50  # bytes in a binary STL
_MESH = 2**25  # bytes of a mesh
_MOST = 500_000  # vertices, and triangles, of a file
_BLOCKS = 50_000  # of a file
_LINE = 100_000  # characters of a line of OBJ
_DIGITS = 4.0  # a face is known to this many units of the last digit of its corners
FINE = 1e-9  # of the size of the model: no file is read more finely,
_COARSE = 5e-4  # or more coarsely
_SINGLE = 2.0**-23  # relative, of numbers in single precision
_SHORT = 1e-8  # numbers with a finer last digit are those of a binary number

Polygons = list[FloatArray]  # (n, 3) each


class Meshes(NamedTuple):
    """The faces of each block of a file in its unit, and the unit of its last digit."""

    polygons: dict[str, Polygons]
    digit: float


def block_meshes(place: Path) -> Meshes:
    """The faces of each block: an OBJ group, an STL solid, or a connected part of a single one."""
    if checks.path("path", place).suffix.lower() == ".obj":
        read = _obj(files.read_text(place, "a mesh", str(place), _MESH), place)
    elif place.suffix.lower() == ".stl":
        read = _stl(files.read_bytes(place, "a mesh", str(place), _MESH), place)
    else:
        raise InvalidInput("path", str(place), "a file named .obj, .stl or .json")
    if len(read.polygons) == 1:
        read = Meshes(_connected(*next(iter(read.polygons.items()))), read.digit)
    return read


def blocks_of(
    polygons: Sequence[tuple[str, Polygons]], digit: float, unit: float, tol: float | None
) -> tuple[list[Block], float, float]:
    """The solids of a file, the accuracy of its coordinates, and how far corners were moved, m.

    Within ``tol``, by default four units of the last ``digit``, faces are made planar and shared.
    """
    corners = unit * np.concatenate([face for _, faces in polygons for face in faces])
    size = float(np.ptp(corners, axis=0).max())
    if tol is None:
        tol = min(max(_DIGITS * digit * unit, FINE * size), _COARSE * size)
    solids = []
    for name, faces in polygons:
        ends = np.cumsum([0, *(len(face) for face in faces)])
        loops = [list(range(a, b)) for a, b in pairwise(ends.tolist())]
        solids.append(Block.of(name, unit * np.concatenate(faces), loops, tol))
    level = levelled(solids, tol)
    moved = [np.abs(a.vertices - b.vertices).max() for a, b in zip(solids, level, strict=True)]
    return level, tol, float(max(moved, default=0.0))


def last_digit(texts: Iterable[str]) -> float:
    """The unit of the last digit of numbers, written with fixed decimals or significant digits."""
    after, significant = 0, dict[int, int]()  # digits, the latter by power of ten
    for text in texts:
        mantissa, _, power = text.lower().partition("e")
        whole, _, fraction = mantissa.lstrip("+-").partition(".")
        whole, shift = whole.lstrip("0"), int(power or 0)
        digits = (whole + fraction).lstrip("0")
        after = max(after, len(fraction) - shift)
        if digits:
            size = len(digits) - len(fraction) + shift
            significant[size] = max(significant.get(size, 0), len(digits))
    most = max(significant.values(), default=1)
    if sum(many == most for many in significant.values()) > 1:
        after = min(after, most - max(significant))
    return float(10.0 ** -max(min(after, 300), 0))


def round_off(digit: float, corners: FloatArray) -> float:
    """The unit of the last digit; of numbers in single precision, written in full, theirs."""
    if digit < _SHORT and np.array_equal(corners.astype(np.float32).astype(float), corners):
        return _SINGLE * float(np.abs(corners).max(initial=0.0))
    return digit


def _obj(text: str, place: Path) -> Meshes:
    vertices: list[tuple[float, ...]] = []
    groups: dict[str, list[list[int]]] = {}
    name, triangles, written = place.stem, 0, list[str]()
    for number, line in enumerate(io.StringIO(text), 1):
        if len(line) > _LINE:
            found = f"line {number} of {len(line):,} characters"
            raise InvalidInput(str(place), found, f"lines of at most {_LINE:,}")
        kind, *words = line.split("#")[0].split() or [""]
        try:
            if kind == "v":
                x, y, z = map(float, words[:3])
                vertices.append((x, y, z))
                written += words[:3]
            elif kind in ("o", "g"):
                name = " ".join(words) or name
            elif kind == "f":
                corners = [int(word.split("/")[0]) for word in words]
                loop = [k - 1 if k > 0 else len(vertices) + k for k in corners]
                if len(loop) < 3 or not all(0 <= k < len(vertices) for k in loop):
                    raise ValueError("a face with numbers of missing vertices")
                groups.setdefault(name, []).append(loop)
                triangles += len(loop) - 2
        except ValueError as error:
            found = f"line {number}: {line.strip()[:40]!r}"
            raise InvalidInput(str(place), found, "vertices and faces of OBJ") from error
        _require_size(place, max(len(vertices), triangles), len(groups))
    if not groups:
        raise InvalidInput(str(place), "no faces", "groups with faces")
    corner = np.array(vertices)
    polygons = {title: [corner[loop] for loop in faces] for title, faces in groups.items()}
    return Meshes(polygons, round_off(last_digit(written), corner))


def _require_size(place: Path, parts: int, blocks: int) -> None:
    """Refuse more vertices, triangles or blocks than an assembly can have."""
    if parts > _MOST or blocks > _BLOCKS:
        found = f"more than {_BLOCKS:,} blocks" if blocks > _BLOCKS else f"more than {_MOST:,}"
        expected = f"at most {_MOST:,} vertices and triangles, in at most {_BLOCKS:,} blocks"
        raise InvalidInput(str(place), found, expected)


def _stl(content: bytes, place: Path) -> Meshes:
    facets = int.from_bytes(content[80:84], "little")
    if len(content) == 84 + _FACET * facets:
        _require_size(place, facets, 1)
        record = np.dtype([("numbers", "<f4", 12), ("attribute", "<u2")])
        numbers = np.frombuffer(content, record, facets, 84)["numbers"].astype(float)
        triangles = numbers.reshape(-1, 4, 3)[:, 1:]
        return Meshes({place.stem: list(triangles)}, round_off(0.0, triangles))
    solids, written = dict[str, Polygons](), list[str]()
    _require_size(place, content.count(b"vertex") // 3, content.count(b"solid") // 2)
    for part in re.split(r"(?m)^\s*solid\b", content.decode("ascii", "replace"))[1:]:
        name = part.partition("\n")[0].strip()
        if not name or name in solids:
            name = f"{name or place.stem} {len(solids)}"
        vertices = re.findall(r"(?m)^\s*vertex\s+(\S+)\s+(\S+)\s+(\S+)", part)
        try:
            solids[name] = list(np.array(vertices, dtype=float).reshape(-1, 3, 3))
            written += [word for vertex in vertices for word in vertex]
        except ValueError as error:
            raise InvalidInput(str(place), f"{name}: {error}", "triangles of STL") from error
    if not solids:
        raise InvalidInput(str(place), "no solid", "an STL file of text, or a whole binary one")
    corners = np.concatenate([face for faces in solids.values() for face in faces])
    return Meshes(solids, round_off(last_digit(written), corners))


def _connected(name: str, polygons: Polygons) -> dict[str, Polygons]:
    """The connected parts of a mesh; blocks that touch at whole edges must be stated apart."""
    mesh = np.array([(face[0], b, c) for face in polygons for b, c in pairwise(face[1:])])
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
