"""Solid blocks as closed meshes, convex or not: mass properties, and the faces that they share.

Coordinates have a tolerance, given by the digits of the file that they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.geometry.polytope import MassProperties, of_mesh

_SLIVER = 4.0  # shared areas narrower than this many tolerances are edges, and no contact
_STEEP = 0.2  # faces whose normals are farther from opposite than this angle are not shared


@dataclass(frozen=True, eq=False)
class Block(Frozen):
    """A solid block."""

    name: str  # of the block
    vertices: FloatArray  # (n, 3) m
    faces: tuple[IntArray, ...]  # corners of each face in turn, seen from outside counterclockwise
    tol: float  # m, the accuracy of its coordinates

    @staticmethod
    def of(name: str, vertices: FloatArray, faces: Sequence[Sequence[int]], tol: float) -> Block:
        """A block, after a check that its faces enclose a volume; they are turned outward."""
        points, corner = np.unique(checks.numbers("vertices", vertices, (None, 3), "m"), axis=0,
                                   return_inverse=True)  # fmt: skip
        corner, loops = corner.ravel(), []
        for face in faces:
            loop = corner[np.asarray(face, dtype=np.int64)]
            loop = loop[loop != np.roll(loop, 1)]  # digits may make two corners one
            if np.unique(loop).size >= 3:
                loops.append(loop)
        if _open_faces(loops):
            loops = [_with_corners_between(points, loop, tol) for loop in loops]
        _require_closed(name, loops)
        block = Block(checks.text("name", name), read_only(points), tuple(loops), tol)
        if block.volume < 0.0:
            loops = [loop[::-1] for loop in loops]
            block = Block(name, read_only(points), tuple(loops), tol)
        if not block.volume > tol * float(np.ptp(points, axis=0).max()) ** 2:
            raise InvalidInput(name, f"a volume of {block.volume:.3g} m³", "a solid block")
        off = block.unevenness
        if (worst := int(np.argmax(off))) >= 0 and off[worst] > tol:
            found = f"face {worst} is {off[worst]:.3g} m off a plane"
            raise InvalidInput(name, found, f"faces that are planar within {tol:.3g} m")
        return block

    @cached_property
    def _mass(self) -> MassProperties:
        with np.errstate(divide="ignore", invalid="ignore"):  # without volume
            return of_mesh(self.vertices, [loop.tolist() for loop in self.faces])

    @property
    def volume(self) -> float:
        """m³."""
        return self._mass.volume

    @property
    def centre(self) -> FloatArray:
        """(3,) m, of mass."""
        return self._mass.centroid

    @property
    def inertia(self) -> FloatArray:
        """(3, 3) m⁵, moments of inertia about the centre of mass per unit of density."""
        return self._mass.volume * self._mass.inertia()

    @cached_property
    def planes(self) -> tuple[FloatArray, FloatArray]:
        """Outward unit normals (faces, 3), and a point of each face (faces, 3), m."""
        normals, centres = np.zeros((2, len(self.faces), 3))
        for k, loop in enumerate(self.faces):
            x = self.vertices[loop]
            centres[k] = x.mean(axis=0)
            around = x - centres[k]
            normals[k] = np.cross(around, np.roll(around, -1, axis=0)).sum(axis=0)
        return normals / np.linalg.norm(normals, axis=1)[:, None], centres

    @cached_property
    def unevenness(self) -> FloatArray:
        """(faces,) m, how far the corners of each are off its plane."""
        pairs = zip(self.faces, *self.planes, strict=True)
        off = [np.abs((self.vertices[loop] - x) @ n).max() for loop, n, x in pairs]
        return np.array(off)


def _open_faces(loops: Sequence[IntArray]) -> list[int]:
    """Faces with an edge that is no edge of another face, the other way."""
    edges = [np.column_stack([loop, np.roll(loop, -1)]).tolist() for loop in loops]
    there = {(a, b) for face in edges for a, b in face}
    return [k for k, face in enumerate(edges) if any((b, a) not in there for a, b in face)]


def _with_corners_between(points: FloatArray, loop: IntArray, tol: float) -> IntArray:
    """A face with those corners of the block in its loop that lie on its edges within ``tol``."""
    result: list[int] = []
    for a, b in zip(loop.tolist(), np.roll(loop, -1).tolist(), strict=True):
        along = points[b] - points[a]
        length = float(np.linalg.norm(along))
        place = (points - points[a]) @ along / length
        off = np.linalg.norm(points - points[a] - np.outer(place / length, along), axis=1)
        on = np.flatnonzero((off <= tol) & (place > tol) & (place < length - tol))
        result += [a, *on[np.argsort(place[on])].tolist()]
    return np.array(result)


def _require_closed(name: str, loops: Sequence[IntArray]) -> None:
    """Refuse meshes in which an edge does not belong to two faces, once in each direction."""
    edges = [edge for loop in loops for edge in zip(loop, np.roll(loop, -1), strict=True)]
    open_ = _open_faces(loops)
    if open_ or not edges or len(set(edges)) < len(edges):
        where = f"face {open_[0]} has an edge without a neighbour" if open_ else "folds"
        raise InvalidInput(name, where, "a closed mesh, its faces all turned outward")


# --- shared faces ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Interface(Frozen):
    """A plane contact between two blocks."""

    bodies: tuple[int, int]  # numbers i, j of the blocks
    normal: FloatArray  # (3,) unit vector from i to j
    points: FloatArray  # (n, 3) m, corners of the convex hull of the shared area


def shared_faces(blocks: Sequence[Block], tol: float) -> list[Interface]:
    """The plane contacts of blocks, whose faces lie on each other within ``tol`` in m.

    Faces may overlap in part, be split, or be nonconvex. All that two blocks share in one plane is
    one interface. Its contact points are the corners of its convex hull: forces at these can
    represent any pressure in between.
    """
    of, n, x, loops = _all_faces(blocks)
    areas_of: dict[tuple[int, int], list[tuple[FloatArray, FloatArray]]] = {}
    for a, b in near_faces(blocks, tol, np.cos(_STEEP)):
        if of[a] == of[b] or n[a] @ n[b] > 0.0:
            continue
        normal = n[a] - n[b]
        normal /= np.linalg.norm(normal)
        for area in _overlap(loops[a], loops[b], normal, tol):
            gaps = (x[b] - area) @ n[b] / float(n[b] @ normal)
            gaps -= (x[a] - area) @ n[a] / float(n[a] @ normal)
            if np.abs(gaps).max() <= tol:
                areas_of.setdefault((int(of[a]), int(of[b])), []).append((normal, area))
    return [
        face for pair, areas in sorted(areas_of.items()) for face in joined_areas(pair, areas, tol)
    ]


def near_faces(blocks: Sequence[Block], tol: float, parallel: float) -> Iterator[tuple[int, int]]:
    """Numbers a < b of (anti)parallel faces of all blocks, whose boxes touch within ``tol``."""
    _, n, _, loops = _all_faces(blocks)
    if not loops:
        return
    low = np.array([loop.min(axis=0) for loop in loops]) - tol
    high = np.array([loop.max(axis=0) for loop in loops]) + tol
    for a in range(len(loops)):
        near = np.abs(n[a + 1 :] @ n[a]) > parallel
        near &= ((low[a + 1 :] <= high[a]) & (high[a + 1 :] >= low[a])).all(axis=1)
        for b in np.flatnonzero(near).tolist():
            yield a, a + 1 + b


def _all_faces(
    blocks: Sequence[Block],
) -> tuple[IntArray, FloatArray, FloatArray, list[FloatArray]]:
    """For each face of all blocks: the block, unit normal, a point, and the corners (n, 3)."""
    owner = np.repeat(np.arange(len(blocks)), [len(block.faces) for block in blocks])
    normals, centres = np.zeros((0, 3)), np.zeros((0, 3))
    if blocks:
        normals, centres = (
            np.concatenate(part) for part in zip(*(b.planes for b in blocks), strict=True)
        )
    return owner, normals, centres, [b.vertices[loop] for b in blocks for loop in b.faces]


def joined_areas(
    pair: tuple[int, int], areas: list[tuple[FloatArray, FloatArray]], tol: float
) -> list[Interface]:
    """The interfaces of a pair: areas in one plane are one."""
    result: list[Interface] = []
    while areas:
        normal, first = areas[0]
        heights = [float(np.abs((area - first[0]) @ normal).max()) for _, area in areas]
        flat = [n @ normal > np.cos(_STEEP) and h <= 2.0 * tol
                for (n, _), h in zip(areas, heights, strict=True)]  # fmt: skip
        flat[0] = True
        points = np.concatenate([area for (_, area), here in zip(areas, flat, strict=True) if here])
        mean = np.sum([n for (n, _), here in zip(areas, flat, strict=True) if here], axis=0)
        normal = mean / np.linalg.norm(mean)
        areas = [area for area, here in zip(areas, flat, strict=True) if not here]
        corners = _hull_corners(points, normal, tol)
        if corners is not None:
            result.append(Interface(pair, read_only(normal), read_only(corners)))
    return result


def outward_normal(block: Block, polygon: FloatArray, tol: float) -> FloatArray | None:
    """(3,) of the block's faces under a polygon (n, 3), those it covers most of; or None."""
    best, normal = 0.0, None
    for loop, n, x in zip(block.faces, *block.planes, strict=True):
        if np.abs((polygon - x) @ n).max() > tol:
            continue
        axes = _axes(n)
        seen = (polygon - x) @ axes.T
        stated = polygon if _area(seen) < 0.0 else polygon[::-1]  # as of the other block
        areas = _overlap(block.vertices[loop], stated, n, tol)
        area = sum(_area((part - x) @ axes.T) for part in areas)
        if area > best:
            best, normal = area, n
    return normal


def _axes(normal: FloatArray) -> FloatArray:
    """(2, 3) axes of a plane, so that with the normal they turn counterclockwise."""
    first = np.zeros(3)
    first[np.argmin(np.abs(normal))] = 1.0
    first -= (first @ normal) * normal
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(normal, first)])


def _overlap(
    one: FloatArray, other: FloatArray, normal: FloatArray, tol: float
) -> list[FloatArray]:
    """The convex areas (n, 3) that two polygons share, seen along a normal of the first."""
    axes, origin = _axes(normal), one.mean(axis=0)
    first, second = (one - origin) @ axes.T, (other - origin) @ axes.T
    height = float(((one - origin) @ normal).mean() + ((other - origin) @ normal).mean()) / 2.0
    areas = []
    for p in _convex_pieces(first):
        for q in _convex_pieces(second[::-1]):
            cut = _clipped(p, q)
            if len(cut) >= 3 and _area(cut) > _SLIVER * tol * float(np.ptp(cut, axis=0).max()):
                areas.append(origin + cut @ axes + height * normal)
    return areas


def _area(polygon: FloatArray) -> float:
    x, y = polygon.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def _turns(polygon: FloatArray) -> FloatArray:
    """(n,) cross products of the edges that meet at each corner."""
    after = np.roll(polygon, -1, axis=0) - polygon
    before = np.roll(after, 1, axis=0)
    return np.asarray(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])


def _convex_pieces(polygon: FloatArray) -> list[FloatArray]:
    """A counterclockwise polygon as convex ones: itself, or triangles by cutting ears."""
    size = float(np.ptp(polygon, axis=0).max())
    if _turns(polygon).min() >= -1e-6 * size**2:
        return [polygon]
    left, pieces = list(range(len(polygon))), []
    while len(left) > 3:
        for k in range(len(left)):
            corner = [left[k - 1], left[k], left[(k + 1) % len(left)]]
            ear = polygon[corner]
            others = polygon[[i for i in left if i not in corner]]
            if _area(ear) > 0.0 and not _inside(ear, others).any():
                pieces.append(ear)
                left.pop(k)
                break
        else:  # the rest has no area
            return pieces
    return [*pieces, polygon[left]]


def _inside(triangle: FloatArray, points: FloatArray) -> FloatArray:
    """Which points (n, 2) are inside a triangle, its border included."""
    inside = np.ones(len(points), dtype=bool)
    for a, b in zip(triangle, np.roll(triangle, -1, axis=0), strict=True):
        edge, to = b - a, points - a
        inside &= edge[0] * to[:, 1] - edge[1] * to[:, 0] >= 0.0
    return inside


def _clipped(subject: FloatArray, clip: FloatArray) -> FloatArray:
    """The part of a convex polygon inside another, by Sutherland & Hodgman (1974)."""
    for a, b in zip(clip, np.roll(clip, -1, axis=0), strict=True):
        if not len(subject):
            break
        edge = b - a
        depth = edge[0] * (subject[:, 1] - a[1]) - edge[1] * (subject[:, 0] - a[0])
        kept = []
        for k in range(len(subject)):
            here, before = depth[k], depth[k - 1]
            if (here >= 0.0) != (before >= 0.0):
                share = before / (before - here)
                kept.append(subject[k - 1] + share * (subject[k] - subject[k - 1]))
            if here >= 0.0:
                kept.append(subject[k])
        subject = np.array(kept).reshape(-1, 2)
    return subject


def _hull_corners(points: FloatArray, normal: FloatArray, tol: float) -> FloatArray | None:
    """Corners (n, 3) of the hull of points in a plane, those that stick out by ``tol``."""
    axes, origin = _axes(normal), points.mean(axis=0)
    flat = (points - origin) @ axes.T
    try:
        corners = flat[ConvexHull(flat).vertices]
    except QhullError:
        return None
    while len(corners) > 3:  # leave out what is nearly on the line of its neighbours
        before, after = np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0)
        base = np.maximum(np.linalg.norm(after - before, axis=1), tol)
        off = _turns(corners) / base
        edge = np.linalg.norm(corners - before, axis=1)
        off = np.where(edge <= _SLIVER * tol, np.minimum(off, tol), off)
        least = int(np.argmin(off))
        if off[least] > _SLIVER * tol:
            break
        corners = np.delete(corners, least, axis=0)
    height = float(((points - origin) @ normal).mean())
    return np.asarray(origin + corners @ axes + height * normal)
