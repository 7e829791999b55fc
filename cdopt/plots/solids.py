"""What a picture of a run shows, in space: bodies as solids, contacts as lines.

Scenes in the plane are lifted to z = 0: discs become spheres, other shapes plates and walls bands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.dynamics import Frame
from cdopt.plots.meshes import Meshes
from cdopt.scene import HalfSpace, Scene, Sphere, State

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
