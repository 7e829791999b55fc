"""State: positions and velocities of all bodies. Dofs: the velocities that a solver may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
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
        q = checks.numbers("q", q, (None, None))
        if q.shape[1] not in WIDTH_Q.values():
            raise InvalidInput("q", checks.describe(q), "numbers (bodies, 3) or (bodies, 7)")
        dim = 2 if q.shape[1] == WIDTH_Q[2] else 3
        v = checks.numbers("v", v, (len(q), WIDTH_V[dim]))
        if dim == 3:
            length = np.sqrt((q[:, 3:] ** 2).sum(axis=1))
            for k in np.flatnonzero(np.abs(length - 1.0) > UNIT_TOL)[:1]:
                found = f"a quaternion of length {length[k]:.9g} in row {k}"
                raise InvalidInput("q", found, "unit quaternions")
        self.__setstate__({"t": checks.scalar("t", t), "q": q, "v": v})

    def at(self, t: float) -> State:
        """The same positions and velocities at another time t, s; the arrays are shared."""
        state = State.__new__(State)
        state.__dict__.update(self.__dict__, t=checks.scalar("t", t))
        return state

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
        return f"State(t={self.t:g} s, {self.nb:,} bodies in {self.dim}D)"


@dataclass(frozen=True, eq=False)
class Dofs(Frozen):
    """Translations of free bodies, and turns of some of them.

    Without friction no contact turns a sphere. Its spin is constant and not a degree of freedom of
    a contact step (``Scene.dofs``). Tangential damping turns spheres, and ``Scene.full_dofs``
    includes their turns.

    Attributes
    ----------
    number : (nb, 3) in the plane or (nb, 6) in space, the degree of freedom of each entry of
        State.v; −1 for none. Numbered body by body, translations first.

    Raises
    ------
    InvalidInput : another shape, or numbers that do not count the entries row by row.
    """

    number: IntArray

    def __post_init__(self) -> None:
        self.__dict__["number"] = checks.integers("number", self.number, (None, None))
        if self.number.ndim != 2 or self.number.shape[1] not in WIDTH_V.values():
            raise InvalidInput("number", f"shape {self.number.shape}", "(bodies, 3) or (bodies, 6)")
        numbers = self.number[self.number >= 0]
        if not np.array_equal(numbers, np.arange(numbers.size)):
            raise InvalidInput("number", f"{numbers.tolist()[:9]} …", "0, 1, 2 … row by row")

    @classmethod
    def of(cls, free: BoolArray, turns: BoolArray, dim: int) -> Dofs:
        """From flags (nb,): bodies that move, and bodies whose turns count."""
        dim = checks.dimension("dim", dim)
        free = checks.flags("free", free, (None,))
        turns = checks.flags("turns", turns, (free.size,))
        columns = np.arange(WIDTH_V[dim])
        mask = free[:, None] & ((columns < dim) | turns[:, None])
        number = np.full(mask.shape, -1, dtype=np.int64)
        number[mask] = np.arange(np.count_nonzero(mask))
        return cls(number)

    @cached_property
    def body(self) -> IntArray:
        """(nv,) the row of each degree of freedom in State.v."""
        return read_only(np.nonzero(self.number >= 0)[0].astype(np.int64))

    @cached_property
    def column(self) -> IntArray:
        """(nv,) the column of each degree of freedom in State.v."""
        return read_only(np.nonzero(self.number >= 0)[1].astype(np.int64))

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return int(self.body.size)

    def gather(self, v: FloatArray) -> FloatArray:
        """The (nv,) entries of a table like State.v that are degrees of freedom."""
        return np.asarray(self._like_state("v", v)[self.body, self.column])

    def scatter(self, values: FloatArray, base: FloatArray) -> FloatArray:
        """A copy of ``base``, like State.v, with ``values`` (nv,) of degrees of freedom in it."""
        table = np.array(self._like_state("base", base), dtype=np.float64)
        expected = f"real numbers of shape ({self.nv},)"
        table[self.body, self.column] = checks.real("values", values, expected, (self.nv,))
        return table

    def _like_state(self, name: str, table: FloatArray) -> FloatArray:
        shape = self.number.shape
        return checks.real(name, table, f"real numbers of shape {shape}", shape)

    def __repr__(self) -> str:
        return f"Dofs({self.nv:,} of {self.number.shape[0]:,} bodies)"
