"""Convex polytopes: checked corners, edges and faces.

A point, a segment and a polygon or polyhedron are all polytopes; with a radius around it a point
is a sphere and a segment a capsule. In the plane the sides of a polygon are its faces.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.transform import Rotation

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen

SMALLEST, LARGEST = 1e-30, 1e30  # m, sizes whose fifth powers are numbers
LABELS = 1024  # most corners, edges and faces of a body
FEATURES = LABELS**2  # most contact points of a pair of bodies
_ALIKE = 1e-12  # relative: principal moments, or off-diagonal terms, that count as none
FLAT = 1e-9  # of the size: a corner nearer than this to a plane lies in it


@dataclass(frozen=True, eq=False)
class Polytope(Frozen):
    """A convex polytope; arrays are read-only."""

    vertices: FloatArray  # (n, dim) corners, m
    # corner numbers of each face, anticlockwise seen from outside; in the plane the two ends of
    # each side
    loops: tuple[tuple[int, ...], ...]
    normals: FloatArray  # (nf, dim) unit normals of the faces, out of the solid
    edges: IntArray  # (ne, 2) corner numbers; in the plane the sides again
    # (ne, 2) faces to the left and to the right of an edge, looking along it with the outside up;
    # −1 for none; in the plane twice the side itself
    edge_faces: IntArray

    @property
    def dim(self) -> int:
        """2 or 3."""
        return int(self.vertices.shape[1])

    @property
    def triangles(self) -> IntArray:
        """(nt, 3) corner numbers of triangles that make up the faces in space."""
        return fans(self.loops)

    def placed(self, rotation: FloatArray, shift: FloatArray) -> Polytope:
        """The polytope turned by a rotation matrix (dim, dim), then shifted by (dim,) m."""
        vertices, normals = self.vertices @ rotation.T + shift, self.normals @ rotation.T
        return dataclasses.replace(self, vertices=vertices, normals=normals)

    def shifted(self, shift: FloatArray) -> Polytope:
        """The polytope moved by (dim,) m."""
        return dataclasses.replace(self, vertices=self.vertices + shift)


def fans(loops: Sequence[Sequence[int]]) -> IntArray:
    """(nt, 3) triangles from the first corner of each loop."""
    return np.array(
        [(loop[0], b, c) for loop in loops for b, c in pairwise(loop[1:])], dtype=np.int64
    ).reshape(-1, 3)


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """a × b of (…, 3), in the plane (…,) of (…, 2); without NumPy's checks, which cost more."""
    if a.shape[-1] == 2:
        return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])
    return np.asarray(a[..., [1, 2, 0]] * b[..., [2, 0, 1]] - a[..., [2, 0, 1]] * b[..., [1, 2, 0]])


def point(dim: int) -> Polytope:
    """The origin."""
    return Polytope(np.zeros((1, dim)), (), np.empty((0, dim)), _pairs([]), _pairs([]))


def segment(length: float, dim: int) -> Polytope:
    """A segment of ``length`` m along the first axis, about the origin."""
    ends = np.zeros((2, dim))
    ends[:, 0] = [-0.5 * length, 0.5 * length]
    if dim == 3:
        return Polytope(ends, (), np.empty((0, 3)), _pairs([[0, 1]]), _pairs([[-1, -1]]))
    return _of_sides(ends, ((0, 1), (1, 0)), np.array([[0.0, -1.0], [0.0, 1.0]]))


def polygon(vertices: Any, name: str = "vertices") -> Polytope:
    """A convex polygon from its corners (n, 2), anticlockwise; otherwise InvalidInput."""
    x = _corners(name, vertices, 2, 3)
    along = np.roll(x, -1, axis=0) - x
    onward = np.roll(along, -1, axis=0)
    length = np.linalg.norm(along, axis=1)
    angles = np.arctan2(cross(along, onward), (along * onward).sum(axis=1))
    k = int(angles.argmin())
    if not (length.min() > FLAT * _size(x) and angles[k] > FLAT and angles.sum() < 3.0 * np.pi):
        found = "clockwise" if angles.sum() < 0.0 else f"not convex at corner {(k + 1) % len(x)}"
        expected = "a convex polygon, anticlockwise, no three corners in a line"
        raise InvalidInput(name, f"{found} of {len(x)}", expected)
    normals = np.column_stack([along[:, 1], -along[:, 0]]) / length[:, None]
    sides = tuple((k, (k + 1) % len(x)) for k in range(len(x)))
    return _of_sides(x, sides, normals)


def polyhedron(vertices: Any, faces: Any = None, name: str = "vertices") -> Polytope:
    """A convex polyhedron from its corners (n, 3), and its faces where they are known.

    Faces are corner numbers, anticlockwise seen from outside; by default those of the convex hull,
    of which every vertex must be a corner.
    """
    x = _corners(name, vertices, 3, 4)
    loops = _hull_loops(x, name) if faces is None else _given_loops(x, faces)
    normals = np.array([_normal(x[list(loop)]) for loop in loops])
    edges, sides = _edges(loops)
    _require_solid(x, loops, normals)
    return Polytope(x, loops, normals, edges, sides)


def box(size: FloatArray) -> Polytope:
    """A box about the origin, (dim,) full lengths; corner k is at + along axis a where bit a is."""
    dim = size.size
    corner = np.arange(2**dim)
    signs = np.where((corner[:, None] >> np.arange(dim)) & 1, 0.5, -0.5)
    vertices = signs * size
    if dim == 2:
        order = (0, 1, 3, 2)
        sides = tuple((order[k], order[(k + 1) % 4]) for k in range(4))
        normals = np.array([[0.0, -1.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        return _of_sides(vertices, sides, normals)
    loops = ((1, 3, 7, 5), (0, 4, 6, 2), (2, 6, 7, 3), (0, 1, 5, 4), (4, 5, 7, 6), (0, 2, 3, 1))
    normals = np.repeat(np.eye(3), 2, axis=0) * np.tile([1.0, -1.0], 3)[:, None]
    return Polytope(vertices, loops, normals, *_edges(loops))


def _of_sides(x: FloatArray, sides: Any, normals: FloatArray) -> Polytope:
    """In the plane, where each side is an edge with itself as face on both sides."""
    faces = _pairs([(k, k) for k in range(len(sides))])
    return Polytope(x, sides, normals, _pairs(sides), faces)


def _corners(name: str, given: Any, dim: int, least: int) -> FloatArray:
    """(n, dim) finite, at least ``least`` points, of a size whose powers can be computed with."""
    x = checks.numbers(name, given, (None, dim), "m")
    if len(x) < least:
        raise InvalidInput(name, f"{len(x)} corners", f"{least} or more")
    if len(x) > LABELS:
        raise InvalidInput(name, f"{len(x)} corners", f"{LABELS} at most")
    if not np.ptp(x, axis=0).max() > 0.0:
        raise InvalidInput(name, "corners all in one place", "a solid")
    if not (np.abs(x).max() <= LARGEST and _size(x) >= SMALLEST):
        raise InvalidInput(name, f"a size of {_size(x):.3g} m", f"{SMALLEST:g} to {LARGEST:g} m")
    return x


def _size(x: FloatArray) -> float:
    return float(np.ptp(x, axis=0).max())


def extreme_points(vertices: Any, name: str = "vertices") -> FloatArray:
    """(n, 3) those of the points in space that are corners of their convex hull."""
    x = _corners(name, vertices, 3, 4)
    return x[np.unique([k for loop in _loops_of_hull(x, name) for k in loop])]


def _hull_loops(x: FloatArray, name: str) -> tuple[tuple[int, ...], ...]:
    """Faces of the convex hull, of which every vertex must be a corner."""
    loops = _loops_of_hull(x, name)
    hidden = np.setdiff1d(np.arange(len(x)), [k for loop in loops for k in loop])
    if hidden.size:
        found = f"corner {hidden[0]} inside the hull of the others or on its surface"
        raise InvalidInput(name, found, "vertices of the convex hull only")
    return loops


def _loops_of_hull(x: FloatArray, name: str) -> tuple[tuple[int, ...], ...]:
    """Faces of the convex hull; facets of one plane make one face."""
    scaled = (x - x.mean(axis=0)) / _size(x)
    try:
        if np.linalg.svd(scaled, compute_uv=False)[-1] <= FLAT:
            raise QhullError("flat")
        return _merged(scaled, ConvexHull(scaled))
    except QhullError as error:
        raise InvalidInput(name, "a polyhedron without volume", "a solid") from error


def facets(hull: Any) -> IntArray:
    """(nt, 3) corners of the triangles of a hull in space, anticlockwise seen from outside."""
    corners: IntArray = hull.simplices
    a, b, c = (hull.points[corners[:, k]] for k in range(3))
    inward = (cross(b - a, c - a) * hull.equations[:, :3]).sum(axis=1) < 0.0
    return np.where(inward[:, None], corners[:, [0, 2, 1]], corners)


def _merged(x: FloatArray, hull: Any) -> tuple[tuple[int, ...], ...]:
    """Loops of corners of each plane of a hull, the largest facet's first."""
    corners, plane = facets(hull), hull.equations
    a, b, c = (x[corners[:, k]] for k in range(3))
    areas = np.linalg.norm(cross(b - a, c - a), axis=1)
    off = np.abs(np.einsum("fkd,gd->gfk", x[corners], plane[:, :3]) + plane[:, None, 3:])
    alike = (off.max(axis=2) <= 10.0 * FLAT) & (plane[:, :3] @ plane[:, :3].T > 0.0)
    left = np.ones(len(corners), dtype=bool)
    loops = []
    for first in np.argsort(-areas, kind="stable"):
        if left[first]:
            members = np.flatnonzero(alike[first] & left)
            left[members] = False
            if members.size > 1:
                loops.append(_outline(np.unique(corners[members]), x, plane[first, :3]))
            else:
                loops.append(tuple(corners[first].tolist()))
    return tuple(loops)


def _outline(corners: IntArray, x: FloatArray, normal: FloatArray) -> tuple[int, ...]:
    """Corners of one plane, anticlockwise; those on the line of their neighbours left out."""
    arms = x[corners] - x[corners].mean(axis=0)
    first = arms[0] - (arms[0] @ normal) * normal
    angle = np.arctan2(arms @ cross(normal, first), arms @ first)
    loop = corners[np.argsort(angle)]
    along = np.roll(x[loop], -1, axis=0) - x[loop]
    before = np.roll(along, 1, axis=0)
    turn = cross(before, along) @ normal
    sides = np.linalg.norm(before, axis=1) * np.linalg.norm(along, axis=1)
    return tuple(loop[turn > FLAT * sides].tolist())


def loops_of(faces: Any) -> tuple[tuple[int, ...], ...]:
    """Lists of corner numbers as tuples of integers."""
    expected = "lists of corner numbers"
    if not isinstance(faces, (list, tuple, np.ndarray)):
        raise InvalidInput("faces", checks.describe(faces), expected)
    try:
        return tuple(tuple(operator.index(k) for k in face) for face in faces)
    except TypeError as error:
        raise InvalidInput("faces", checks.describe(faces), expected) from error


def _given_loops(x: FloatArray, faces: Any) -> tuple[tuple[int, ...], ...]:
    """Loops from what a user wrote."""
    loops = loops_of(faces)
    for number, loop in enumerate(loops):
        name, found = f"faces[{number}]", f"{list(loop)}"
        if len(set(loop)) < max(3, len(loop)) or min(loop) < 0 or max(loop) >= len(x):
            raise InvalidInput(name, found, f"three or more different corners below {len(x)}")
        level = (x[list(loop)] - x[loop[0]]) @ _normal(x[list(loop)])
        if not np.abs(level).max() <= FLAT * _size(x):
            raise InvalidInput(name, "corners not in one plane", "a flat face")
    alone = np.setdiff1d(np.arange(len(x)), [k for loop in loops for k in loop])
    if alone.size:
        raise InvalidInput("faces", f"corner {alone[0]} in no face", "faces that use every corner")
    return loops


def _normal(x: FloatArray) -> FloatArray:
    """Unit normal of a loop of corners, by Newell's sum; nan for a loop without area."""
    arms = x[1:] - x[0]
    total = cross(arms[:-1], arms[1:]).sum(axis=0)
    length = np.linalg.norm(total)
    return np.asarray(total / length) if length > 0.0 else np.full(3, np.nan)


def _edges(loops: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Edges and the faces that share them, of faces that close."""
    sides = [(a, b, k) for k, loop in enumerate(loops) for a, b in pairwise([*loop, loop[0]])]
    left = {(a, b): number for a, b, number in sides}
    for a, b, number in sides:
        if left[a, b] != number or (b, a) not in left:
            found = f"edge {a}–{b} of face {number} in no other face, or in the same direction"
            raise InvalidInput("faces", found, "faces that close, anticlockwise from outside")
    chosen = [(a, b) for a, b in left if a < b]
    return _pairs(chosen), _pairs([(left[a, b], left[b, a]) for a, b in chosen])


def _require_solid(x: FloatArray, loops: Sequence[Sequence[int]], normals: FloatArray) -> None:
    """Check that no vertex lies outside a face, and that no face is inverted."""
    size = _size(x)
    a, b, c = (x[fans(loops)[:, k]] - x[0] for k in range(3))
    volume = float((cross(b, c) * a).sum()) / 6.0
    extents = np.linalg.svd((x - x.mean(axis=0)) / size, compute_uv=False)
    if not volume > FLAT * size**3 * float(extents.prod()):
        found = "an inverted polyhedron, or one without volume"
        raise InvalidInput("faces", found, "corners anticlockwise seen from outside")
    out = x @ normals.T - (x[[loop[0] for loop in loops]] * normals).sum(axis=1)
    if out.max() > 10.0 * FLAT * size:
        corner, number = np.unravel_index(out.argmax(), out.shape)
        found = f"corner {corner} outside face {number}: not convex"
        raise InvalidInput("faces", found, "a convex polyhedron")


def _pairs(rows: Sequence[Sequence[int]]) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), 2)


# --- mass properties of solids of uniform density, by simplices ----------------------------------


@dataclass(frozen=True, eq=False)
class MassProperties(Frozen):
    """Mass properties of a solid of density 1."""

    volume: float  # m³; in the plane area × 1 m of depth
    centroid: FloatArray  # (dim,) m
    # (dim, dim) second moments ∫ x xᵀ dV about the centroid, m⁵; in the plane m⁴ × 1 m
    second: FloatArray

    def placed(self, rotation: FloatArray, shift: FloatArray) -> MassProperties:
        """The solid turned by a rotation matrix, then shifted by (dim,) m."""
        second = rotation @ self.second @ rotation.T
        return MassProperties(self.volume, rotation @ self.centroid + shift, second)

    def scaled(self, density: float) -> MassProperties:
        """With another density."""
        return MassProperties(density * self.volume, self.centroid, density * self.second)

    def inertia(self) -> FloatArray:
        """Per mass, about the centroid: (1, 1) in the plane or (3, 3), m²."""
        spread = self.second / self.volume
        trace = np.trace(spread)
        return np.array([[trace]]) if spread.shape[0] == 2 else trace * np.eye(3) - spread


def of_polytope(solid: Polytope) -> MassProperties:
    """Mass properties of a polygon or a polyhedron, by triangles or tetrahedra."""
    if solid.dim == 2:
        x = solid.vertices[[first for first, _ in solid.loops]]
        a, b = x[1:-1] - x[0], x[2:] - x[0]
        return _of_simplices(x[0], 0.5 * cross(a, b), (a, b))
    return of_mesh(solid.vertices, solid.loops)


def of_mesh(vertices: FloatArray, loops: Sequence[Sequence[int]]) -> MassProperties:
    """Mass properties inside a closed mesh in space, convex or not, by tetrahedra."""
    middle = vertices.mean(axis=0)
    a, b, c = ((vertices - middle)[fans(loops)[:, k]] for k in range(3))
    return _of_simplices(middle, (cross(a, b) * c).sum(axis=1) / 6.0, (a, b, c))


def of_capsule(radius: float, length: float, dim: int) -> MassProperties:
    """Mass properties of a capsule along the first axis, ``length`` m between its end centres."""
    r, half = radius, 0.5 * length
    if dim == 2:
        bar, ends, lever = 2.0 * r * length, np.pi * r**2, 4.0 * r / (3.0 * np.pi)
        along = bar * length**2 / 12.0 + ends * (0.25 * r**2 + half**2 + 2.0 * half * lever)
        across = bar * r**2 / 3.0 + ends * 0.25 * r**2
    else:
        bar, ends, lever = np.pi * r**2 * length, 4.0 / 3.0 * np.pi * r**3, 0.375 * r
        along = bar * length**2 / 12.0 + ends * (0.2 * r**2 + half**2 + 2.0 * half * lever)
        across = bar * 0.25 * r**2 + ends * 0.2 * r**2
    return MassProperties(bar + ends, np.zeros(dim), np.diag([along] + [across] * (dim - 1)))


def combined(parts: Sequence[MassProperties]) -> MassProperties:
    """Mass properties of several solids as one; where they overlap, mass counts twice."""
    volume = sum(part.volume for part in parts)
    centroid = np.asarray(sum(part.volume * part.centroid for part in parts) / volume)
    second = np.zeros((centroid.size, centroid.size))
    for part in parts:
        arm = part.centroid - centroid
        second += part.second + part.volume * np.outer(arm, arm)
    return MassProperties(float(volume), centroid, second)


def principal_axes(inertia: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Principal moments (3,), and the unit quaternion (4,) from the principal to the given axes."""
    diagonal = np.diag(inertia)
    off = np.abs(inertia - np.diag(diagonal)).max()
    if off <= _ALIKE * diagonal.max():
        return diagonal.copy(), np.array([1.0, 0.0, 0.0, 0.0])
    moments, axes = np.linalg.eigh(inertia)
    if np.ptp(moments) <= _ALIKE * moments.max():
        return np.full(3, moments.mean()), np.array([1.0, 0.0, 0.0, 0.0])
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    quaternion = Rotation.from_matrix(axes).as_quat(canonical=True)
    return moments, quaternion[[3, 0, 1, 2]]


def _of_simplices(
    origin: FloatArray, volume: FloatArray, edges: tuple[FloatArray, ...]
) -> MassProperties:
    """Mass properties of simplices with volumes (n,) and edges (n, dim) from an ``origin``."""
    dim, total, s = len(edges), volume.sum(), sum(edges)
    arm = (volume[:, None] * s).sum(axis=0) / ((dim + 1) * total)
    second = sum(np.einsum("k,ki,kj->ij", volume, y, y) for y in (*edges, s))
    second = np.asarray(second) / ((dim + 1) * (dim + 2)) - total * np.outer(arm, arm)
    return MassProperties(float(total), origin + arm, second)
