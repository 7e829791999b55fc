"""Bodies as they are drawn in space: meshes of solids, patches of walls, lines of forces.

Scenes in the plane are lifted to z = 0: discs become spheres, other shapes plates and walls bands.
A solid is drawn as its convex pieces. Flat faces have corners of their own, so that each is shaded
as one; round pieces share theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.frozen import Frozen
from cdopt.dynamics import Frame
from cdopt.geometry.hulls import Hulls
from cdopt.geometry.rotations import matrices
from cdopt.scene import Bodies, HalfSpace, Scene, Sphere, State

AROUND = 24  # facets around a round piece

Loops = Sequence[Sequence[int]]
_ROOM = 1.06  # how much wider than the bodies a wall is drawn


@dataclass(frozen=True, eq=False)
class Solids:
    """The bodies of a scene, as they are drawn.

    Attributes
    ----------
    scene : the scene.
    balls, walls : (n,) numbers of the spheres and half-spaces.
    radii : (balls,) m. normals : (walls, 3), out of the solid.
    meshes : all other bodies.
    low, high : (3,) m, corners of what bounded bodies reach.
    thick : m, a length to draw with: the usual half-width of a body.
    """

    scene: Scene
    balls: IntArray
    walls: IntArray
    radii: FloatArray
    normals: FloatArray
    meshes: Meshes
    low: FloatArray
    high: FloatArray
    thick: float

    @staticmethod
    def of(scene: Scene, position: FloatArray) -> Solids:
        """The bodies of a scene at positions (frames, nb, dim) m, or (nb, dim) for one frame."""
        b = scene.bodies
        tables = {shape: b.table(shape) for shape in (Sphere, HalfSpace)}
        number = {
            shape: np.empty(0, dtype=np.int64) if table is None else table.body
            for shape, table in tables.items()
        }
        bounded = np.flatnonzero(np.isfinite(b.reach))
        thick = float(np.median(b.core[bounded]))
        places, reach = in_space(position)[..., bounded, :], b.reach[bounded, None]
        axes = tuple(range(places.ndim - 1))
        return Solids(
            scene, number[Sphere], number[HalfSpace],
            radii=_column(tables[Sphere], "radius", (0,)),
            normals=in_space(_column(tables[HalfSpace], "normal", (0, scene.dim))),
            meshes=Meshes.of(b, thick),
            low=(places - reach).min(axis=axes),
            high=(places + reach).max(axis=axes),
            thick=thick,
        )  # fmt: skip

    def centres(self, state: State) -> FloatArray:
        """(balls, 3) m."""
        return in_space(state.position[self.balls])

    def patches(self, state: State) -> FloatArray:
        """(walls, 4, 3) m, corners of the part of each wall beside the bodies, one after another.

        In the plane the first and last lie behind the others.
        """
        n = self.normals
        first = np.cross(n, [0.0, 0.0, 1.0])
        upright = np.linalg.norm(first, axis=1) < 0.5
        first[upright] = np.cross(n[upright], [0.0, 1.0, 0.0])
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        second = np.cross(n, first)
        middle, half = 0.5 * (self.low + self.high), 0.5 * _ROOM * (self.high - self.low)
        off = ((in_space(state.position[self.walls]) - middle) * n).sum(axis=1)
        centre = middle + off[:, None] * n
        first *= (np.abs(first) @ half)[:, None]
        second *= (np.abs(second) @ half)[:, None]
        return np.stack([
            centre - first - second, centre + first - second,
            centre + first + second, centre - first + second,
        ], axis=1)  # fmt: skip

    def lines(self, frame: Frame) -> FloatArray:
        """(nc, 2, 3) m, a line per contact through its point along its normal.

        It runs to centres of spheres and up to walls; into other bodies as deep as a sphere that
        fits inside has its centre, or ``thick`` where that is less.
        """
        points, normals = in_space(frame.points), in_space(frame.normals)
        deep = np.minimum(self.scene.bodies.core, self.thick)
        deep[self.walls] = 0.0
        round_ = self._is(self.balls)
        centre = in_space(frame.state.position)
        ends = []
        for side, sign in ((0, -1.0), (1, 1.0)):
            body = frame.bodies[:, side]
            inside = points + sign * deep[body, None] * normals
            ends.append(np.where(round_[body, None], centre[body], inside))
        return np.stack(ends, axis=1)

    def _is(self, bodies: IntArray) -> BoolArray:
        """(nb,) whether a body is one of these."""
        flags = np.zeros(self.scene.nb, dtype=bool)
        flags[bodies] = True
        return flags


def in_space(points: FloatArray) -> FloatArray:
    """(…, 3) from (…, 2) or (…, 3); points in the plane are at z = 0."""
    if points.shape[-1] == 3:
        return points
    return np.concatenate([points, np.zeros((*points.shape[:-1], 1))], axis=-1)


def _column(table: object, name: str, empty: tuple[int, ...]) -> FloatArray:
    """A column of a ShapeTable, or none."""
    return np.empty(empty) if table is None else np.asarray(table.columns[name])  # type: ignore[attr-defined]


# --- meshes ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Meshes(Frozen):
    """The bodies that are neither spheres nor half-spaces; flat arrays over all their pieces.

    Attributes
    ----------
    body : (n,) their numbers, ascending.
    owner : (nv,) the body of each corner.
    vertices : (nv, 3) corners about the body's centre of mass, in its frame, m.
    triangles : (nt, 3) numbers of corners, anticlockwise seen from outside.
    triangle_body : (nt,) whose triangle.
    edges : (ne, 2) corners that a drawn edge joins; none on round pieces in space.
    loops, first_loop : corners of the faces one after another, and (nf + 1,) where each begins.
    piece : (nf,) the piece of each face. smooth : (nf,) a facet of a round surface. In the plane
        the first face of a piece is its outline.
    piece_body : (np,) whose piece.
    """

    body: IntArray
    owner: IntArray
    vertices: FloatArray
    triangles: IntArray
    triangle_body: IntArray
    edges: IntArray
    loops: IntArray
    first_loop: IntArray
    piece: IntArray
    smooth: BoolArray
    piece_body: IntArray

    @staticmethod
    def of(bodies: Bodies, depth: float) -> Meshes:
        """Meshes of bodies; in the plane plates ``depth`` m to either side of it."""
        numbers, skins = _skins(bodies, depth)
        count = np.array([len(skin.vertices) for skin in skins], dtype=np.int64)
        first = np.append(0, np.cumsum(count))[:-1]
        shifted = list(zip(skins, first.tolist(), strict=True))
        loops = [[k + n for k in loop] for skin, n in shifted for loop in skin.loops]
        of_face = np.repeat(np.arange(len(skins)), [len(skin.loops) for skin in skins])
        fans = [(loop[0], b, c) for loop in loops for b, c in pairwise(loop[1:])]
        sizes = np.array([len(loop) for loop in loops], dtype=np.int64)
        number = np.array(numbers, dtype=np.int64)
        return Meshes(
            body=np.unique(number),
            owner=np.repeat(number, count),
            vertices=np.concatenate([*(skin.vertices for skin in skins), np.empty((0, 3))]),
            triangles=_rows(fans, 3),
            triangle_body=np.repeat(number[of_face], sizes - 2),
            edges=_rows([(a + n, b + n) for skin, n in shifted for a, b in skin.edges], 2),
            loops=np.array([k for loop in loops for k in loop], dtype=np.int64),
            first_loop=np.append(0, np.cumsum(sizes)).astype(np.int64),
            piece=of_face.astype(np.int64),
            smooth=np.array([skin.smooth for skin in skins], dtype=bool)[of_face],
            piece_body=number,
        )

    def quaternions(self, state: State) -> FloatArray:
        """(n, 4) unit quaternions (w, x, y, z) of the bodies; about z in the plane."""
        turn = state.orientation[self.body]
        if state.dim == 3:
            return turn
        still = np.zeros(turn.size)
        return np.column_stack([np.cos(0.5 * turn), still, still, np.sin(0.5 * turn)])

    def placed(self, state: State) -> FloatArray:
        """(nv, 3) corners of bodies in place, m."""
        turn = matrices(self.quaternions(state))
        place = np.zeros((self.body.size, 3))
        place[:, : state.dim] = state.position[self.body]
        row = np.searchsorted(self.body, self.owner)
        return np.asarray(place[row] + np.einsum("nij,nj->ni", turn[row], self.vertices))

    def faces(self, corners: FloatArray) -> list[FloatArray]:
        """The corners (n, …) of each face, of corners (nv, …) as they are shown."""
        rings: list[FloatArray] = np.split(corners[self.loops], self.first_loop[1:-1])
        return rings if self.piece.size else []

    @property
    def outlines(self) -> IntArray:
        """(np,) the first face of each piece."""
        return np.unique(self.piece, return_index=True)[1]


class Skin(NamedTuple):
    """The surface of one piece: corners (n, 3) m, faces, drawn edges; ``smooth`` if it is round."""

    vertices: FloatArray
    loops: Loops
    edges: Loops
    smooth: bool


def _skins(bodies: Bodies, depth: float) -> tuple[list[int], list[Skin]]:
    """Every piece of the bodies that are no spheres, and whose it is."""
    hulls = bodies.hulls
    table = bodies.table(Sphere)
    balls = np.empty(0, dtype=np.int64) if table is None else table.body
    numbers = np.flatnonzero(~np.isin(hulls.body, balls))
    skins = [_skin(hulls, int(piece), depth) for piece in numbers]
    return hulls.body[numbers].tolist(), skins


def _skin(hulls: Hulls, piece: int, depth: float) -> Skin:
    net = hulls.topology
    start = int(net.first_vertex[piece])
    x = hulls.vertices[start : net.first_vertex[piece + 1]]
    radius = float(net.radius[piece])
    if x.shape[1] == 2:
        return plate(outline(x, radius), depth, radius > 0.0)
    if radius > 0.0:
        return capsule(x[0], x[-1], radius)
    faces = range(int(net.first_face[piece]), int(net.first_face[piece + 1]))
    loops = [(net.loop[net.first_loop[f] : net.first_loop[f + 1]] - start).tolist() for f in faces]
    edges = net.edges[net.first_edge[piece] : net.first_edge[piece + 1]] - start
    return faceted(x, loops, edges.tolist())


# --- surfaces of pieces ----------------------------------------------------------------


def outline(corners: FloatArray, radius: float) -> FloatArray:
    """(n, 2) m, anticlockwise: a convex polygon with ``radius`` m of roundness around it."""
    if radius > 0.0:
        angle = 2.0 * np.pi * np.arange(AROUND) / AROUND
        circle = radius * np.column_stack([np.cos(angle), np.sin(angle)])
        corners = (corners[:, None] + circle).reshape(-1, 2)
    return corners[ConvexHull(corners).vertices]


def plate(ring: FloatArray, depth: float, smooth: bool) -> Skin:
    """A plate with an outline (n, 2) m, ``depth`` m to either side of the plane."""
    n = len(ring)
    front, back = (np.column_stack([ring, np.full(n, z)]) for z in (depth, -depth))
    after = np.roll(np.arange(n), -1)
    sides = np.stack([back, back[after], front[after], front], axis=1)  # (n, 4, 3)
    loops = [
        list(range(n)),
        list(range(2 * n - 1, n - 1, -1)),
        *(list(range(k, k + 4)) for k in range(2 * n, 6 * n, 4)),
    ]
    edges = [(first + k, first + int(after[k])) for first in (0, n) for k in range(n)]
    if not smooth:
        edges += [(k, n + k) for k in range(n)]
    return Skin(np.concatenate([front, back, sides.reshape(-1, 3)]), loops, edges, False)


def faceted(x: FloatArray, loops: Loops, edges: Loops) -> Skin:
    """A polyhedron, each face with corners (n, 3) m of its own."""
    flat = [k for loop in loops for k in loop]
    ends = np.cumsum([len(loop) for loop in loops]).tolist()
    faces = [list(range(a, b)) for a, b in pairwise([0, *ends])]
    first = {k: number for number, k in reversed(list(enumerate(flat)))}
    return Skin(x[flat], faces, [(first[a], first[b]) for a, b in edges], False)


def capsule(start: FloatArray, end: FloatArray, radius: float) -> Skin:
    """A cylinder between two points (3,) m with round ends; a sphere where they are one."""
    along = end - start if np.any(end != start) else np.array([1.0, 0.0, 0.0])
    frame = np.linalg.svd(along[None])[2]  # its first row points along the axis, or against it
    rise = np.pi * np.arange(AROUND // 2 + 1) / (AROUND // 2)
    turn = 2.0 * np.pi * np.arange(AROUND) / AROUND
    rise, turn = (angles.ravel() for angles in np.meshgrid(rise, turn))
    sphere = np.column_stack(
        [np.cos(rise), np.sin(rise) * np.cos(turn), np.sin(rise) * np.sin(turn)]
    )
    points = np.concatenate([centre + radius * sphere @ frame for centre in (start, end)])
    hull = ConvexHull(points)
    number = np.zeros(len(points), dtype=np.int64)
    number[hull.vertices] = np.arange(hull.vertices.size)
    corners = points[hull.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inverted = (normals * hull.equations[:, :3]).sum(axis=1) < 0.0
    triangles = np.where(inverted[:, None], hull.simplices[:, ::-1], hull.simplices)
    return Skin(points[hull.vertices], number[triangles].tolist(), (), True)


def _rows(rows: Sequence[Sequence[int]], width: int) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
