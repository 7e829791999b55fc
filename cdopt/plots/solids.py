"""Bodies for drawing in space: meshes of solids, patches of walls, lines of forces.

Plane scenes are placed at z = 0: discs become spheres, other shapes plates and walls bands. A solid
is drawn as its convex pieces. Flat faces do not share corners, so that each has one shade; the
facets of round pieces do.
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
from cdopt.dynamics.records import in_space
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
        centres, reach = in_space(position)[..., bounded, :], b.reach[bounded, None]
        axes = tuple(range(centres.ndim - 1))
        return Solids(
            scene,
            balls=number[Sphere],
            walls=number[HalfSpace],
            radii=_column(tables[Sphere], "radius", (0,)),
            normals=in_space(_column(tables[HalfSpace], "normal", (0, scene.dim))),
            meshes=Meshes.of(b, thick),
            low=(centres - reach).min(axis=axes),
            high=(centres + reach).max(axis=axes),
            thick=thick,
        )

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
        lower, upper = centre - second, centre + second
        return np.stack([lower - first, lower + first, upper + first, upper - first], axis=1)

    def lines(self, frame: Frame) -> FloatArray:
        """(nc, 2, 3) m, a line per contact through its point along its normal.

        It runs to centres of spheres and up to walls. Into other bodies it runs to the centre of a
        sphere that fits inside, but at most ``thick``.
        """
        points, normals = in_space(frame.points), in_space(frame.normals)
        depth = np.minimum(self.scene.bodies.core, self.thick)
        depth[self.walls] = 0.0
        is_ball = np.isin(frame.bodies, self.balls)
        centre = in_space(frame.state.position)[frame.bodies]
        inward = depth[frame.bodies, None] * np.stack([-normals, normals], axis=1)
        return np.where(is_ball[:, :, None], centre, points[:, None] + inward)


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
    edges: IntArray
    loops: IntArray
    first_loop: IntArray
    piece: IntArray
    smooth: BoolArray
    piece_body: IntArray

    @staticmethod
    def of(bodies: Bodies, depth: float) -> Meshes:
        """Meshes of bodies; in the plane plates ``depth`` m to either side of it."""
        table = bodies.table(Sphere)
        balls = np.empty(0, dtype=np.int64) if table is None else table.body
        pieces = np.flatnonzero(~np.isin(bodies.hulls.body, balls))
        skins = [_skin(bodies.hulls, int(piece), depth) for piece in pieces]
        body = bodies.hulls.body[pieces]
        count = np.array([len(skin.vertices) for skin in skins], dtype=np.int64)
        first = np.append(0, np.cumsum(count))[:-1].tolist()
        shifted = list(zip(skins, first, strict=True))
        loops = [[k + n for k in loop] for skin, n in shifted for loop in skin.loops]
        edges = [(a + n, b + n) for skin, n in shifted for a, b in skin.edges]
        triangles = [(loop[0], b, c) for loop in loops for b, c in pairwise(loop[1:])]
        piece = np.repeat(np.arange(len(skins)), [len(skin.loops) for skin in skins])
        return Meshes(
            body=np.unique(body),
            owner=np.repeat(body, count),
            vertices=np.concatenate([*(skin.vertices for skin in skins), np.empty((0, 3))]),
            triangles=np.array(triangles, dtype=np.int64).reshape(-1, 3),
            edges=np.array(edges, dtype=np.int64).reshape(-1, 2),
            loops=np.array([k for loop in loops for k in loop], dtype=np.int64),
            first_loop=np.cumsum([0, *(len(loop) for loop in loops)]),
            piece=piece,
            smooth=np.array([skin.smooth for skin in skins], dtype=bool)[piece],
            piece_body=body,
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
        rotation = matrices(self.quaternions(state))
        centre = in_space(state.position[self.owner])
        row = np.searchsorted(self.body, self.owner)
        return np.asarray(centre + np.einsum("nij,nj->ni", rotation[row], self.vertices))

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


def _skin(hulls: Hulls, piece: int, depth: float) -> Skin:
    net = hulls.topology
    start = int(net.first_vertex[piece])
    x = hulls.vertices[start : net.first_vertex[piece + 1]]
    radius = float(net.radius[piece])
    if x.shape[1] == 2:
        return plate(outline(x, radius), depth, radius > 0.0)
    if radius > 0.0:
        return rounded(x, radius)
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
    around = list(zip(range(n), [*range(1, n), 0], strict=True))
    sides = [[n + a, n + b, b, a] for a, b in around]
    edges = [(first + a, first + b) for first in (0, n) for a, b in around]
    if not smooth:
        edges += [(k, n + k) for k in range(n)]
    return faceted(
        np.concatenate([front, back]), [range(n), range(2 * n - 1, n - 1, -1), *sides], edges
    )


def faceted(x: FloatArray, loops: Loops, edges: Loops) -> Skin:
    """A polyhedron, each face with corners (n, 3) m of its own."""
    flat = [k for loop in loops for k in loop]
    ends = np.cumsum([len(loop) for loop in loops]).tolist()
    faces = [list(range(a, b)) for a, b in pairwise([0, *ends])]
    first = {k: number for number, k in reversed(list(enumerate(flat)))}
    return Skin(x[flat], faces, [(first[a], first[b]) for a, b in edges], False)


def rounded(x: FloatArray, radius: float) -> Skin:
    """A convex polytope with corners (n, 3) m and ``radius`` m of roundness around it."""
    frame = np.linalg.svd(x - x.mean(axis=0))[2]  # of a segment the first row lies along it
    rise = np.pi * np.arange(AROUND // 2 + 1) / (AROUND // 2)
    turn = 2.0 * np.pi * np.arange(AROUND) / AROUND
    rise, turn = (angles.ravel() for angles in np.meshgrid(rise, turn))
    sphere = np.column_stack(
        [np.cos(rise), np.sin(rise) * np.cos(turn), np.sin(rise) * np.sin(turn)]
    )
    points = np.concatenate([centre + radius * sphere @ frame for centre in x])
    hull = ConvexHull(points)
    number = np.zeros(len(points), dtype=np.int64)
    number[hull.vertices] = np.arange(hull.vertices.size)
    corners = points[hull.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inverted = (normals * hull.equations[:, :3]).sum(axis=1) < 0.0
    triangles = np.where(inverted[:, None], hull.simplices[:, ::-1], hull.simplices)
    return Skin(points[hull.vertices], number[triangles].tolist(), (), True)
