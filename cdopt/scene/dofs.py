"""Degrees of freedom: which parts of State.v a solver may change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.scene.state import WIDTH_V


@dataclass(frozen=True, eq=False)
class Dofs(Frozen):
    """Translations of free bodies, and turns of some of them.

    Without friction nothing turns a sphere, so that its spin is constant and no degree of
    freedom of a contact step (``Scene.dofs``); a rotational column of zeros in B would only make
    step 2 harder. Tangential damping turns spheres, and ``Scene.full_dofs`` has their turns.

    Attributes
    ----------
    number : (nb, 3) in the plane or (nb, 6) in space, the degree of freedom behind each entry of
        State.v; −1 for none. Numbered body by body, translations first.
    body, column : (nv,) where each degree of freedom stands in State.v.

    Raises
    ------
    InvalidInput : another shape, or ``body`` and ``column`` that do not invert ``number``.
    """

    number: IntArray
    body: IntArray
    column: IntArray

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.number.ndim != 2 or self.number.shape[1] not in WIDTH_V.values():
            raise InvalidInput("number", f"shape {self.number.shape}", "(bodies, 3) or (bodies, 6)")
        where = np.nonzero(self.number >= 0)
        order = np.argsort(self.number[where])
        places = [np.asarray(axis)[order] for axis in where]
        counted = np.array_equal(self.number[where][order], np.arange(order.size))
        if not (counted and all(map(np.array_equal, places, (self.body, self.column)))):
            raise InvalidInput("number", "other places", "those that body and column state")

    @classmethod
    def of(cls, free: BoolArray, turns: BoolArray, dim: int) -> Dofs:
        """From flags (nb,): bodies that move, and bodies whose turns count."""
        width = 3 if dim == 2 else 6
        mask = free[:, None] & ((np.arange(width) < dim) | turns[:, None])
        number = np.full(mask.shape, -1, dtype=np.int64)
        number[mask] = np.arange(np.count_nonzero(mask))
        body, column = np.nonzero(mask)
        return cls(number=number, body=body.astype(np.int64), column=column.astype(np.int64))

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return int(self.body.size)

    def gather(self, v: FloatArray) -> FloatArray:
        """The (nv,) entries of a table like State.v that are degrees of freedom.

        Raises
        ------
        InvalidInput : the table is not of State.v's shape.
        """
        self._like_state(v)
        return np.asarray(v[self.body, self.column])

    def scatter(self, values: FloatArray, base: FloatArray) -> FloatArray:
        """A copy of ``base``, a table like State.v, with these (nv,) degrees of freedom in it.

        Raises
        ------
        InvalidInput : ``values`` is not (nv,), or ``base`` not of State.v's shape.
        """
        self._like_state(base)
        if np.shape(values) != (self.nv,):
            raise InvalidInput("values", f"shape {np.shape(values)}", f"shape ({self.nv},)")
        table = np.array(base, dtype=np.float64)
        table[self.body, self.column] = values
        return table

    def _like_state(self, table: FloatArray) -> None:
        if np.shape(table) != self.number.shape:
            raise InvalidInput("v", f"shape {np.shape(table)}", f"shape {self.number.shape}")

    def __repr__(self) -> str:
        return f"Dofs({self.nv} of {self.number.shape[0]} bodies)"
