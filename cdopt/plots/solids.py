"""What a picture of a run shows, in space: bodies as solids, contacts as lines.

Scenes in the plane are lifted to z = 0: discs become spheres, rectangles plates and walls bands.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from cdopt.checks import FloatArray, IntArray
from cdopt.dynamics import Frame
from cdopt.scene import Box, HalfSpace, Scene, Sphere, State
from cdopt.scene.rotations import matrices

_ROOM = 1.06  # how much wider than the bodies a wall is drawn
_SIGNS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))  # (8, 3) corners of a box


@dataclass(frozen=True, eq=False)
class Solids:
    """The bodies of a scene, as they are drawn.

    Attributes
    ----------
    scene : the scene.
    balls, boxes, walls : (n,) numbers of the spheres, boxes and half-spaces.
    radii : (balls,) m. sizes : (boxes, 3) m, edges. normals : (walls, 3), out of the solid.
    low, high : (3,) m, corners of what bounded bodies reach.
    thick : m, a length to draw with: the usual half-width of a body.
    """

    scene: Scene
    balls: IntArray
    boxes: IntArray
    walls: IntArray
    radii: FloatArray
    sizes: FloatArray
    normals: FloatArray
    low: FloatArray
    high: FloatArray
    thick: float

    @staticmethod
    def of(scene: Scene, position: FloatArray) -> Solids:
        """The bodies of a scene at positions (frames, nb, dim) m, or (nb, dim) for one frame."""
        b = scene.bodies
        tables = {shape: b.table(shape) for shape in (Sphere, Box, HalfSpace)}
        number = {
            shape: np.empty(0, dtype=np.int64) if table is None else table.body
            for shape, table in tables.items()
        }
        bounded = np.flatnonzero(np.isfinite(b.reach))
        thick = float(np.median(b.core[bounded]))
        places, reach = in_space(position)[..., bounded, :], b.reach[bounded, None]
        axes = tuple(range(places.ndim - 1))
        return Solids(
            scene, number[Sphere], number[Box], number[HalfSpace],
            radii=_column(tables[Sphere], "radius", (0,)),
            sizes=in_space(_column(tables[Box], "size", (0, scene.dim)), 2.0 * thick),
            normals=in_space(_column(tables[HalfSpace], "normal", (0, scene.dim))),
            low=(places - reach).min(axis=axes),
            high=(places + reach).max(axis=axes),
            thick=thick,
        )  # fmt: skip

    def centres(self, state: State) -> FloatArray:
        """(balls, 3) m."""
        return in_space(state.position[self.balls])

    def corners(self, state: State) -> FloatArray:
        """(boxes, 8, 3) m, in the order of the products of −1 and 1."""
        turn = matrices(state.orientation[self.boxes])
        if self.scene.dim == 2:
            flat, turn = turn, np.tile(np.eye(3), (self.boxes.size, 1, 1))
            turn[:, :2, :2] = flat
        own = 0.5 * self.sizes[:, None, :] * _SIGNS
        place = in_space(state.position[self.boxes])
        return np.asarray(place[:, None, :] + np.einsum("nij,nkj->nki", turn, own))

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
        """(nc, 2, 3) m, a line per contact: to centres of spheres, into boxes, up to walls."""
        points, normals = in_space(frame.points), in_space(frame.normals)
        round_, flat = self._is(self.balls), self._is(self.walls)
        centre = in_space(frame.state.position)
        ends = []
        for side, sign in ((0, -1.0), (1, 1.0)):
            body = frame.bodies[:, side]
            inside = points + np.where(flat[body], 0.0, sign * self.thick)[:, None] * normals
            ends.append(np.where(round_[body, None], centre[body], inside))
        return np.stack(ends, axis=1)

    def _is(self, bodies: IntArray) -> np.ndarray:
        """(nb,) whether a body is one of these."""
        flags = np.zeros(self.scene.nb, dtype=bool)
        flags[bodies] = True
        return flags


def in_space(points: FloatArray, depth: float = 0.0) -> FloatArray:
    """(…, 3) from (…, 2) or (…, 3); the third number of points in the plane is ``depth``."""
    if points.shape[-1] == 3:
        return points
    return np.concatenate([points, np.full((*points.shape[:-1], 1), depth)], axis=-1)


def _column(table: object, name: str, empty: tuple[int, ...]) -> FloatArray:
    """A column of a ShapeTable, or none."""
    return np.empty(empty) if table is None else np.asarray(table.columns[name])  # type: ignore[attr-defined]
