"""Bodies and contacts as they are drawn: meshes, contact lines, cameras, hidden surfaces.

Plane scenes are placed at z = 0: discs become spheres, other shapes plates and walls bands. A solid
is drawn as its convex pieces. Flat faces do not share corners, so that each has one shade; the
facets of round pieces do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, cKDTree

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.dynamics import Frame
from cdopt.dynamics.records import in_space
from cdopt.geometry.hulls import Hulls
from cdopt.geometry.polytope import facets, fans
from cdopt.geometry.rotations import matrices, unit
from cdopt.plots import canvas
from cdopt.plots.palette import BODY, EDGE, FIXED, QUIET
from cdopt.problem.step import Step
from cdopt.scene import HalfSpace, Scene, Sphere, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AROUND = 24  # facets around a round piece
VIEWS = ("side", "isometric", "perspective")

Faces = Sequence[Sequence[int]]
_ROOM = 1.06  # how much wider than the bodies a wall is drawn


# --- meshes ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DrawnPiece:
    """A convex piece of a body."""

    body: int  # its number
    # numbers of the corners of each, anticlockwise seen from outside. In the plane the first is the
    # outline.
    faces: list[IntArray]
    edges: Faces  # pairs of corners that a drawn edge joins; none on round pieces in space
    smooth: bool  # whether it is round


@dataclass(frozen=True, eq=False)
class Solids:
    """The bodies of a scene, as they are drawn."""

    scene: Scene  # the scene
    # balls, walls, others: (n,) numbers of the spheres, of the half-spaces, and of all others
    balls: IntArray
    walls: IntArray
    others: IntArray
    radii: FloatArray  # (balls,) m.
    normals: FloatArray  # (walls, 3), out of the solid
    pieces: list[DrawnPiece]  # of the others.
    corners: FloatArray  # (nv, 3) m, theirs about the centre of mass of the body, in its frame.
    owner: IntArray  # (nv,) the body of each corner
    # low, high: (3,) m, corners of the box of bounded bodies
    low: FloatArray
    high: FloatArray
    thick: float  # m, a length to draw with: the usual half-width of a body

    @staticmethod
    def of(scene: Scene, position: FloatArray) -> Solids:
        """The bodies of a scene at positions (frames, nb, dim) m, or (nb, dim) for one frame."""
        b, none = scene.bodies, np.empty(0, dtype=np.int64)
        ball, wall = b.table(Sphere), b.table(HalfSpace)
        balls = none if ball is None else ball.body
        bounded = np.flatnonzero(np.isfinite(b.reach))
        thick = float(np.median(b.core[bounded]))
        centres, reach = in_space(position)[..., bounded, :], b.reach[bounded, None]
        axes = tuple(range(centres.ndim - 1))
        pieces, corners, first = [], [np.empty((0, 3))], 0
        for number in np.flatnonzero(~np.isin(b.hulls.body, balls)).tolist():
            x, faces, edges, smooth = _surface(b.hulls, number, thick)
            shifted = [np.array(face) + first for face in faces]
            joined = [(i + first, j + first) for i, j in edges]
            pieces.append(DrawnPiece(int(b.hulls.body[number]), shifted, joined, smooth))
            corners.append(x)
            first += len(x)
        owners = [piece.body for piece in pieces]
        return Solids(
            scene,
            balls=balls,
            walls=none if wall is None else wall.body,
            others=np.unique(np.array(owners, dtype=np.int64)),
            radii=np.empty(0) if ball is None else ball.columns["radius"],
            normals=np.empty((0, 3)) if wall is None else in_space(wall.columns["normal"]),
            pieces=pieces,
            corners=np.concatenate(corners),
            owner=np.repeat(np.array(owners, dtype=np.int64), [len(x) for x in corners[1:]]),
            low=(centres - reach).min(axis=axes),
            high=(centres + reach).max(axis=axes),
            thick=thick,
        )

    @property
    def triangles(self) -> IntArray:
        """(nt, 3) numbers of corners, of all faces."""
        return fans([face.tolist() for piece in self.pieces for face in piece.faces])

    def quaternions(self, state: State) -> FloatArray:
        """(others, 4) unit quaternions (w, x, y, z) of the bodies; about z in the plane."""
        turn = state.orientation[self.others]
        if state.dim == 3:
            return turn
        still = np.zeros(turn.size)
        return np.column_stack([np.cos(0.5 * turn), still, still, np.sin(0.5 * turn)])

    def placed(self, state: State) -> FloatArray:
        """(nv, 3) corners of bodies in place, m."""
        rotation = matrices(self.quaternions(state))[np.searchsorted(self.others, self.owner)]
        centre = in_space(state.position[self.owner])
        return np.asarray(centre + np.einsum("nij,nj->ni", rotation, self.corners))

    def patches(self, state: State) -> FloatArray:
        """(walls, 4, 3) m, corners in order of the part of each wall next to the bodies."""
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
        """(nc, 2, 3) m, a line per contact along its normal, to centres of spheres, up to walls."""
        points, normals = in_space(frame.points), in_space(frame.normals)
        depth = np.minimum(self.scene.bodies.core, self.thick)
        depth[self.walls] = 0.0
        centre = in_space(frame.state.position)[frame.bodies]
        inward = depth[frame.bodies, None] * np.stack([-normals, normals], axis=1)
        is_ball = np.isin(frame.bodies, self.balls)[:, :, None]
        return np.where(is_ball, centre, points[:, None] + inward)


def _surface(
    hulls: Hulls, piece: int, depth: float
) -> tuple[FloatArray, Faces, Sequence[tuple[int, int]], bool]:
    """Corners (n, 3) m, faces and drawn edges of a piece, and whether it is round."""
    net = hulls.topology
    start = int(net.first_vertex[piece])
    x = hulls.vertices[start : net.first_vertex[piece + 1]]
    radius = float(net.radius[piece])
    if x.shape[1] == 2:
        return *plate(outline(x, radius), depth, radius > 0.0), False
    if radius > 0.0:
        return *_rounded(x, radius), [], True
    faces = range(int(net.first_face[piece]), int(net.first_face[piece + 1]))
    loops = [(net.loop[net.first_loop[f] : net.first_loop[f + 1]] - start).tolist() for f in faces]
    edges = net.edges[net.first_edge[piece] : net.first_edge[piece + 1]] - start
    return *_faceted(x, loops, edges.tolist()), False


def outline(corners: FloatArray, radius: float) -> FloatArray:
    """(n, 2) m, anticlockwise: a convex polygon with ``radius`` m of roundness around it."""
    if radius > 0.0:
        angle = 2.0 * np.pi * np.arange(AROUND) / AROUND
        circle = radius * np.column_stack([np.cos(angle), np.sin(angle)])
        corners = (corners[:, None] + circle).reshape(-1, 2)
    return corners[ConvexHull(corners).vertices]


def plate(
    ring: FloatArray, depth: float, smooth: bool
) -> tuple[FloatArray, Faces, list[tuple[int, int]]]:
    """A plate with an outline (n, 2) m, ``depth`` m to either side of the plane."""
    n = len(ring)
    front, back = (np.column_stack([ring, np.full(n, z)]) for z in (depth, -depth))
    around = list(pairwise([*range(n), 0]))
    edges = [(first + a, first + b) for first in (0, n) for a, b in around]
    edges += [] if smooth else [(k, n + k) for k in range(n)]
    sides = [[n + a, n + b, b, a] for a, b in around]
    faces = [list(range(n)), list(range(2 * n - 1, n - 1, -1)), *sides]
    return _faceted(np.concatenate([front, back]), faces, edges)


def _faceted(
    x: FloatArray, loops: Faces, edges: Faces
) -> tuple[FloatArray, Faces, list[tuple[int, int]]]:
    """A polyhedron, each face with its corners (n, 3), m."""
    flat = [k for loop in loops for k in loop]
    ends = np.cumsum([0, *map(len, loops)]).tolist()
    first = {k: number for number, k in reversed(list(enumerate(flat)))}
    faces = [range(a, b) for a, b in pairwise(ends)]
    return x[flat], faces, [(first[a], first[b]) for a, b in edges]


def _rounded(x: FloatArray, radius: float) -> tuple[FloatArray, Faces]:
    """A convex polytope with corners (n, 3) m and ``radius`` m of roundness around it."""
    frame = np.linalg.svd(x - x.mean(axis=0))[2]  # of a segment the first row lies along it
    rise = np.pi * np.arange(AROUND // 2 + 1) / (AROUND // 2)
    turn = 2.0 * np.pi * np.arange(AROUND) / AROUND
    rise, turn = (angles.ravel() for angles in np.meshgrid(rise, turn))
    sphere = [np.cos(rise), np.sin(rise) * np.cos(turn), np.sin(rise) * np.sin(turn)]
    points = np.concatenate([centre + radius * np.transpose(sphere) @ frame for centre in x])
    hull = ConvexHull(points)
    number = np.zeros(len(points), dtype=np.int64)
    number[hull.vertices] = np.arange(hull.vertices.size)
    return points[hull.vertices], number[facets(hull)].tolist()


# --- contacts as lines, from a step alone ------------------------------------------------

_ROUND = 1e-6  # residual and condition beyond which a body has no centre of its contacts
_FLAT = 0.02  # of the extent of a body's contacts: nearer to their middle, it has no depth
_PARALLEL = 1e-9  # of a unit normal: normals that count as one
_APART = 1e-3  # of the extent of all contacts: nearer points count as one


class ContactSegments(NamedTuple):
    """Contacts as segments, and the round bodies among those they join."""

    # start, end: (nc, 2 or 3) ends of each contact's segment, m; body centres where known
    start: FloatArray
    end: FloatArray
    centres: FloatArray = np.zeros((0, 2))  # (nb, 2 or 3) centres of round bodies, m.
    radii: FloatArray = np.zeros(0)  # (nb,) m
    fixed: BoolArray = np.zeros(0, dtype=bool)  # (nb,) whether no degree of freedom moves the body

    @property
    def ends(self) -> FloatArray:
        """(2 nc, 2 or 3) both ends of all segments, m."""
        return np.concatenate([self.start, self.end])


def placed_bodies(bodies: tuple[Scene, State]) -> tuple[Scene, State]:
    """A scene and a state, after a check that the state fits the scene."""
    if not isinstance(bodies, tuple | list) or len(bodies) != 2:
        raise InvalidInput("bodies", checks.describe(bodies), "a scene and its state")
    scene = checks.instance("bodies[0]", bodies[0], Scene)
    return scene, scene.check_state(bodies[1], "bodies[1]")


def contact_segments(step: Step) -> ContactSegments:
    """Segments of a step's contacts, along their normals.

    They reach to the centre of a round body, whose normals meet there; in others to the middle of
    their contacts; elsewhere as far as their neighbours.
    """
    checks.instance("step", step, Step)
    if step.points is None or step.normals is None:
        missing = "points" if step.points is None else "normals"
        raise InvalidInput("step", f"no {missing}", "a step with points and normals to draw")
    x, n = step.points, step.normals
    if x.shape != n.shape:
        raise InvalidInput("step", f"points {x.shape}, normals {n.shape}", "one dimension")
    bodies = np.full((step.nc, 2), -1) if step.bodies is None else without_walls(step)
    sides = _Sides.among(bodies, n)
    centre, size = _spheres(sides, x)
    radius, depth = np.full((2, step.nc, 2), np.nan)
    radius[sides.row, sides.side] = size[sides.of]
    depth[sides.row, sides.side] = np.where(np.isnan(size[sides.of]), _depths(sides, x), np.nan)
    known = [values[np.isfinite(values)] for values in (radius, depth)]
    usual = next((np.median(values) for values in known if values.size), 0.5 * _spacing(x))
    reach = np.where(np.isfinite(radius), radius, np.where(np.isfinite(depth), depth, usual))
    if step.bodies is not None:
        reach[bodies < 0] = 0.0  # the fixed world has no centre
    spheres = np.flatnonzero(np.isfinite(size))
    name = sides.name[spheres]
    return ContactSegments(
        start=x - reach[:, :1] * n,
        end=x + reach[:, 1:] * n,
        centres=centre[spheres],
        radii=size[spheres],
        fixed=~np.isin(name, name if step.dof_body is None else step.dof_body),
    )


def without_walls(step: Step) -> IntArray:
    """(nc, 2) bodies, −1 for the world and for walls: fixed, all contacts with one normal."""
    bodies = np.array(step.bodies)
    if step.dof_body is None or step.normals is None:
        return bodies
    sides = _Sides.among(bodies, step.normals)
    turned = np.abs(sides.inward - sides.inward[sides.first][sides.of]).max(axis=1)
    level = (sides.many > 1) & (sides.largest(turned) < _PARALLEL)
    wall = (level & ~np.isin(sides.name, step.dof_body))[sides.of]
    bodies[sides.row[wall], sides.side[wall]] = -1
    return bodies


class _Sides(NamedTuple):
    """Sides of contacts (k,) that are on bodies, body after body."""

    name: IntArray  # (nb,) the bodies, ascending
    first: IntArray  # (nb,) where the sides of each begin
    many: IntArray  # (nb,) how many they are
    of: IntArray  # (k,) the place of each side's body among them
    row: IntArray  # (k,) its contact
    side: IntArray  # (k,) 0 or 1, its column in ``bodies``
    inward: FloatArray  # (k, 2 or 3) the normal into the body

    @classmethod
    def among(cls, bodies: IntArray, normals: FloatArray) -> _Sides:
        """Those of ``bodies`` (nc, 2), −1 for none, with ``normals`` (nc, 2 or 3)."""
        row, side = np.nonzero(bodies >= 0)
        order = np.argsort(bodies[row, side], kind="stable")
        row, side = row[order], side[order]
        name, first, of, many = np.unique(
            bodies[row, side], return_index=True, return_inverse=True, return_counts=True
        )
        inward = normals[row] * np.where(side == 0, -1.0, 1.0)[:, None]
        return cls(name, first, many, of, row, side, inward)

    def total(self, values: FloatArray) -> FloatArray:
        """(nb, …) sums of ``values`` (k, …) for each body."""
        return np.asarray(np.add.reduceat(values, self.first, axis=0))

    def largest(self, values: FloatArray) -> FloatArray:
        """(nb, …) the largest of ``values`` (k, …) of each body."""
        return np.asarray(np.maximum.reduceat(values, self.first, axis=0))


def _spheres(sides: _Sides, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centres (nb, 2 or 3) and radii (nb,) of round bodies, not-a-number of others.

    They are fitted to the contact points ``x`` (nc, 2 or 3) and the normals into each body.
    """
    points, inward = x[sides.row], sides.inward
    across = np.eye(x.shape[1]) - inward[:, :, None] * inward[:, None, :]
    matrix, aim = sides.total(across), sides.total(np.einsum("kij,kj->ki", across, points))
    regular = np.linalg.cond(matrix) <= 1.0 / _ROUND
    centre = np.full(aim.shape, np.nan)
    centre[regular] = np.linalg.solve(matrix[regular], aim[regular][:, :, None])[:, :, 0]
    size = sides.total(((centre[sides.of] - points) * inward).sum(axis=1)) / sides.many
    missed = np.abs(points + size[sides.of][:, None] * inward - centre[sides.of]).max(axis=1)
    fits = (size > 0.0) & (sides.largest(missed) <= 1e-3 * size)
    return np.where(fits[:, None], centre, np.nan), np.where(fits, size, np.nan)


def _depths(sides: _Sides, x: FloatArray) -> FloatArray:
    """(k,) m, from contacts of a body along their normals to the middle of all; nan for none."""
    points = x[sides.row]
    high, low = sides.largest(points), -sides.largest(-points)
    deep = ((0.5 * (low + high)[sides.of] - points) * sides.inward).sum(axis=1)
    extent = np.linalg.norm(high - low, axis=1)[sides.of]
    return np.where(deep > _FLAT * extent, deep, np.nan)


def _spacing(points: FloatArray) -> float:
    """Median distance of contact points to the nearest that is not in the same place, m."""
    if len(points) < 2:
        return 1.0
    near = cKDTree(points).query(points, k=min(len(points), 9))[0]
    near[near <= _APART * np.ptp(points, axis=0).max()] = np.inf
    apart = near.min(axis=1)
    apart = apart[np.isfinite(apart)]
    return float(np.median(apart)) if apart.size else 1.0


# --- cameras -----------------------------------------------------------------------------

_TURN = {"side": 0.0, "isometric": 35.0, "perspective": 30.0}  # about the vertical, degrees
_TILT = {"side": 0.0, "isometric": 25.0, "perspective": 22.0}  # looking down, degrees
_AWAY = 2.2  # distance of the eye, in diagonals of the scene


@dataclass(frozen=True, eq=False)
class Camera:
    """The viewpoint of a picture."""

    # of space: "side" (x to the right, z up), "isometric" (parallel, from above), or "perspective".
    # The plane is looked at straight.
    view: str
    centre: FloatArray  # (2,) or (3,) m, the point that stays in the middle
    distance: float  # m, from the eye to the centre, in perspective

    @staticmethod
    def facing(points: FloatArray, view: str) -> Camera:
        """A camera that looks at the middle of points (n, 2 or 3), from far enough away."""
        checks.choice("view", view, VIEWS)
        low, high = points.min(axis=0), points.max(axis=0)
        size = float(np.linalg.norm(high - low))
        return Camera(view, 0.5 * (low + high), _AWAY * max(size, 1e-12))

    @property
    def deep(self) -> bool:
        """Whether nearer things hide farther ones, and are larger."""
        return self.view == "perspective" and self.centre.shape[0] == 3

    def project(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coordinates on paper (n, 2) m, nearness (n,) m and magnification (n,) of points."""
        if points.shape[1] == 2:
            return points, np.zeros(len(points)), np.ones(len(points))
        turn, tilt = np.deg2rad(_TURN[self.view]), np.deg2rad(_TILT[self.view])
        x, y, z = (points - self.centre).T
        right = np.cos(turn) * x + np.sin(turn) * y
        away = -np.sin(turn) * x + np.cos(turn) * y
        up = z * np.cos(tilt) + away * np.sin(tilt)
        depth = z * np.sin(tilt) - away * np.cos(tilt)
        larger = self.distance / (self.distance - depth) if self.deep else np.ones(len(points))
        return np.column_stack([right, up]) * larger[:, None], depth, larger

    def lines(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """(n, 2, 2) m, where lines between points (n, 2 or 3) appear."""
        return np.stack([self.project(start)[0], self.project(end)[0]], axis=1)


# --- the painter's algorithm -----------------------------------------------------------

_LIGHT = np.array([-0.37, -0.56, 0.74])  # where light comes from
_DIM = 0.6  # light on round pieces, which have one shade
_DEEP = 0.02  # of its extent: how far a piece may reach behind a face and still be before it


class Face(NamedTuple):
    """A visible face of a solid: ``ring`` (n, 2) m on paper, ``light`` 0 to 1, its ``body``."""

    ring: FloatArray
    light: float
    body: int


class _Seen(NamedTuple):
    """A piece: corners (n, 3), box (2, 2) on paper, nearness; its faces' normals, offsets, …"""

    corners: FloatArray
    box: FloatArray
    near: float
    normals: FloatArray
    offsets: FloatArray
    visible: BoolArray
    shown: list[Face]


def painted(solids: Solids, state: State, camera: Camera) -> list[Face]:
    """The faces to draw, the farthest first: outlines, in space flat faces and silhouettes."""
    corners = solids.placed(state)
    if state.dim == 2:
        return [Face(corners[p.faces[0], :2], 1.0, p.body) for p in solids.pieces]
    flat, near, _ = camera.project(corners)
    seen = [_seen(piece, corners, flat, near) for piece in solids.pieces]
    return [face for k in _order(seen) for face in seen[k].shown]


def _seen(piece: DrawnPiece, corners: FloatArray, flat: FloatArray, near: FloatArray) -> _Seen:
    used = np.unique(np.concatenate(piece.faces))
    a, b, c = np.array([face[:3] for face in piece.faces]).T
    normals = unit(np.cross(corners[b] - corners[a], corners[c] - corners[a]))
    arm, leg = flat[b] - flat[a], flat[c] - flat[a]
    visible = arm[:, 0] * leg[:, 1] > arm[:, 1] * leg[:, 0]  # anticlockwise on paper too
    if piece.smooth:
        shown = [Face(flat[used][ConvexHull(flat[used]).vertices], _DIM, piece.body)]
    else:
        light = 0.5 + 0.5 * normals @ _LIGHT
        faces = np.flatnonzero(visible).tolist()
        shown = [Face(flat[piece.faces[k]], float(light[k]), piece.body) for k in faces]
    box = np.stack([flat[used].min(axis=0), flat[used].max(axis=0)])
    offsets = (normals * corners[a]).sum(axis=1)
    return _Seen(corners[used], box, float(near[used].mean()), normals, offsets, visible, shown)


def _order(pieces: list[_Seen]) -> list[int]:
    """Pieces in an order in which none covers an earlier one; in a cycle the farthest first."""
    n = len(pieces)
    low, high = np.array([piece.box for piece in pieces]).reshape(-1, 2, 2).transpose(1, 0, 2)
    overlap = ((low[:, None] < high) & (high[:, None] > low)).all(axis=2)
    over = np.zeros((n, n), dtype=bool)  # whether the second covers the first
    for i, j in np.argwhere(np.triu(overlap, 1)).tolist():
        front = _front(pieces[i], pieces[j]) or pieces[j].near - pieces[i].near
        over[(i, j) if front > 0.0 else (j, i)] = True
    near = np.array([piece.near for piece in pieces])
    below, waits, order = over.sum(axis=0), np.ones(n, dtype=bool), []
    for _ in pieces:
        ready = waits & (below == 0)
        k = int(np.where(ready if ready.any() else waits, near, np.inf).argmin())
        order.append(k)
        waits[k] = False
        below -= over[k]
    return order


def _front(a: _Seen, b: _Seen) -> int:
    """1 if b may cover a, −1 if a may cover b, 0 if no plane of a face separates them."""
    best, answer = 0.0, 0
    for this, other, sign in ((a, b, 1), (b, a, -1)):
        along = other.corners @ this.normals.T
        lowest = along.min(axis=0)
        height = (lowest - this.offsets) / (along.max(axis=0) - lowest)
        face = int(height.argmax())
        if answer == 0 or height[face] > best:
            best, answer = float(height[face]), sign if this.visible[face] else -sign
    return answer if best > -_DEEP else 0


# --- drawing -------------------------------------------------------------------------------

_SHADE = 0.78  # of its colour, of a face turned from the light


def draw_bodies(axes: Axes, solids: Solids, state: State, camera: Camera) -> None:
    """Every body: lines or patches for walls, solids from the back to the front, discs, spheres."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba_array

    is_fixed = solids.scene.bodies.fixed
    for patch in solids.patches(state):
        if state.dim == 2:
            axes.plot(*patch[:, :2].T, color=QUIET, linewidth=1.2, zorder=0.9)
        else:
            corners = camera.project(patch)[0].T
            axes.fill(*corners, color=FIXED, alpha=0.35, linewidth=0, zorder=0.5)
    faces = painted(solids, state, camera)
    bright = np.array([_SHADE + (1.0 - _SHADE) * face.light for face in faces])
    colours = to_rgba_array([FIXED if is_fixed[face.body] else BODY for face in faces])[:, :3]
    style: dict[str, Any] = {"edgecolors": EDGE, "linewidths": 0.6, "joinstyle": "round"}
    style |= {"facecolors": bright[:, None] * colours, "zorder": 0.8, "gid": "solids"}
    axes.add_collection(PolyCollection([face.ring for face in faces], **style), autolim=False)
    centres, fixed = state.position[solids.balls], is_fixed[solids.balls]
    draw_discs(axes, camera, centres, solids.radii, fixed)


def box_of(solids: Solids, state: State, camera: Camera) -> FloatArray:
    """Lower left and upper right corner of what is drawn, m."""
    reach = solids.scene.bodies.reach
    bounded = np.isfinite(reach)
    centres, _, larger = camera.project(state.position[bounded])
    wide = (reach[bounded] * larger)[:, None]
    walls = camera.project(solids.patches(state).reshape(-1, 3)[:, : state.dim])[0]
    return canvas.box_around(np.concatenate([centres - wide, centres + wide, walls]), 0.04)


def draw_discs(
    axes: Axes, camera: Camera, centres: FloatArray, radii: FloatArray, fixed: BoolArray
) -> None:
    """Round bodies: filled discs, fixed ones darker; in perspective faint outlines."""
    flat, near, larger = camera.project(centres)
    order = np.argsort(near)
    colours: Any = np.where(fixed, FIXED, BODY)[order].tolist()
    style = {"facecolors": "none" if camera.deep else colours, "zorder": 1, "gid": "bodies"}
    canvas.add_discs(axes, flat[order], (radii * larger)[order], **style)
