"""From space to paper: parallel projections, and perspective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray

VIEWS = ("side", "isometric", "perspective")

_TURN = {"side": 0.0, "isometric": 35.0, "perspective": 30.0}  # about the vertical, degrees
_TILT = {"side": 0.0, "isometric": 25.0, "perspective": 22.0}  # looking down, degrees
_AWAY = 2.2  # distance of the eye, in diagonals of what is seen


@dataclass(frozen=True, eq=False)
class Camera:
    """Where things are looked at from.

    Attributes
    ----------
    view : of space: "side" (x to the right, z up), "isometric" (parallel, from above), or
        "perspective". The plane is looked at straight.
    centre : (2,) or (3,) m, the point that stays in the middle.
    distance : m, from the eye to the centre, in perspective.
    """

    view: str
    centre: FloatArray
    distance: float

    @staticmethod
    def facing(points: FloatArray, view: str) -> Camera:
        """A camera that looks at the middle of points (n, 2 or 3), from far enough away."""
        low, high = points.min(axis=0), points.max(axis=0)
        size = float(np.linalg.norm(high - low))
        return Camera(view, 0.5 * (low + high), _AWAY * max(size, 1e-12))

    @property
    def deep(self) -> bool:
        """Whether nearer things hide farther ones, and are larger."""
        return self.view == "perspective" and self.centre.shape[0] == 3

    def place(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where points (n, 2 or 3) appear.

        Returns
        -------
        Plane coordinates (n, 2) m; depth (n,) m, larger nearer to the reader; magnification
        (n,), one in parallel projections.
        """
        if points.shape[1] == 2:
            return points, np.zeros(points.shape[0]), np.ones(points.shape[0])
        turn, tilt = np.deg2rad(_TURN[self.view]), np.deg2rad(_TILT[self.view])
        x, y, z = (points - self.centre).T
        right = np.cos(turn) * x + np.sin(turn) * y
        away = -np.sin(turn) * x + np.cos(turn) * y
        up = z * np.cos(tilt) + away * np.sin(tilt)
        depth = z * np.sin(tilt) - away * np.cos(tilt)
        larger = np.ones(points.shape[0])
        if self.deep:
            larger = self.distance / (self.distance - depth)
        return np.column_stack([right, up]) * larger[:, None], depth, larger
