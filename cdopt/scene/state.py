"""State: where all bodies are and how they move at one instant."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen

WIDTH_Q = {2: 3, 3: 7}
WIDTH_V = {2: 3, 3: 6}
UNIT_TOL = 1e-6  # a quaternion further than this from unit length is no rotation


class State(Frozen):
    """Positions and velocities of all bodies of a scene, fixed ones included.

    Parameters
    ----------
    t : time, s.
    q : (nb, 3) in the plane, [x, y, θ] in m and rad; (nb, 7) in space, [x, y, z, qw, qx, qy, qz]
        with a unit quaternion.
    v : (nb, 3) or (nb, 6), velocity in m/s and angular velocity in rad/s, in the global frame.

    Raises
    ------
    InvalidInput : wrong shapes, numbers that are not finite, quaternions not of unit length.
    """

    t: float
    q: FloatArray
    v: FloatArray

    def __init__(self, t: Any, q: Any, v: Any) -> None:
        place = _table("q", q, WIDTH_Q.values())
        dim = 2 if place.shape[1] == WIDTH_Q[2] else 3
        motion = _table("v", v, (WIDTH_V[dim],))
        if motion.shape[0] != place.shape[0]:
            raise InvalidInput("v", f"{motion.shape[0]} rows", f"{place.shape[0]} rows, as in q")
        if dim == 3:
            length = np.linalg.norm(place[:, 3:], axis=1)
            bad = np.flatnonzero(np.abs(length - 1.0) > UNIT_TOL)
            if bad.size:
                found = f"a quaternion of length {length[bad[0]]:.9g} in row {int(bad[0])}"
                raise InvalidInput("q", found, "unit quaternions")
        self.__setstate__({"t": checks.scalar("t", t), "q": place, "v": motion})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a State is frozen: make a new one")

    @property
    def dim(self) -> int:
        """2 in the plane, 3 in space."""
        return 2 if self.q.shape[1] == WIDTH_Q[2] else 3

    @property
    def nb(self) -> int:
        """Number of bodies."""
        return int(self.q.shape[0])

    @property
    def position(self) -> FloatArray:
        """(nb, dim) m."""
        return self.q[:, : self.dim]

    @property
    def orientation(self) -> FloatArray:
        """(nb,) angles in rad, or (nb, 4) unit quaternions."""
        return self.q[:, 2] if self.dim == 2 else self.q[:, 3:]

    @property
    def velocity(self) -> FloatArray:
        """(nb, dim) m/s."""
        return self.v[:, : self.dim]

    @property
    def angular_velocity(self) -> FloatArray:
        """(nb,) or (nb, 3) rad/s, in the global frame."""
        return self.v[:, 2] if self.dim == 2 else self.v[:, 3:]

    def __repr__(self) -> str:
        return f"State(t={self.t:g} s, {self.nb} bodies in {self.dim}D)"


def _table(name: str, value: object, widths: Any) -> FloatArray:
    """A finite (nb, width) table, copied."""
    allowed = " or ".join(f"(bodies, {width})" for width in widths)
    array = checks.real(name, value, f"numbers of shape {allowed}")
    if array.ndim != 2 or array.shape[1] not in tuple(widths):
        raise InvalidInput(name, checks.describe(array), f"numbers of shape {allowed}")
    result = np.array(array, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(result).all(axis=1))
    if bad.size:
        raise InvalidInput(name, f"a number that is not finite in row {int(bad[0])}", "finite")
    return result
