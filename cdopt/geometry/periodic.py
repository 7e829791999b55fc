"""Periodic boxes: cells that repeat without end, sheared or deforming (Lees–Edwards)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen


class PeriodicBox(Frozen):
    """A cell of which everything repeats, along some axes or all.

    At time t the images of a body at x are at x + H(t) n for all integers n, with
    H(t) = (1 + t D) H₀, H₀ the diagonal of ``size`` and above it the offset ``shear``. Bodies
    are not moved back into the cell: their velocities are those of the ground, and the images
    across the last axis move with D H₀ n (Lees & Edwards).

    Parameters
    ----------
    size : (dim,) lengths of the cell at t = 0, m; infinite or None along axes that do not repeat.
    shear : offset along the first axis of the images above, across the last axis, m.
    rate : D, 1/s: (dim, dim) velocity gradient of the images with entries on the diagonal and in
        the first row's last column; or one number, that entry: the rate of a simple shear.

    Raises
    ------
    InvalidInput : lengths that are not positive, or a shear or rate of axes that do not repeat.

    Notes
    -----
    Lees & Edwards, J. Phys. C 5, 1921 (1972).
    """

    size: FloatArray
    shear: float
    rate: FloatArray

    def __init__(self, size: Any, shear: float = 0.0, rate: Any = 0.0) -> None:
        expected = "2 or 3 lengths above 0, m; infinite for none"
        lengths = [np.inf if s is None else s for s in checks.sequence("size", size)]
        sides = checks.real("size", lengths, expected, (None,)).astype(np.float64)
        dim = sides.size
        if dim not in (2, 3) or not (sides > 0.0).all() or not np.isfinite(sides).any():
            raise InvalidInput("size", checks.describe(sides), expected)
        rates = checks.real("rate", rate, f"one number, or a ({dim}, {dim}) velocity gradient")
        if rates.ndim == 0:
            rates = np.array([[0.0] * (dim - 1) + [float(rates)], *[[0.0] * dim] * (dim - 1)])
        rates = checks.numbers("rate", rates, (dim, dim), "1/s")
        shear = checks.scalar("shear", shear)
        allowed = np.eye(dim, dtype=bool)
        allowed[0, -1] = True
        open_ = ~np.isfinite(sides)
        if rates[~allowed].any() or rates.diagonal()[open_].any():
            expected = "rates on the diagonal and of the first axis across the last"
            raise InvalidInput("rate", "other entries, or axes that do not repeat", expected)
        if (shear or rates[0, -1]) and (open_[0] or open_[-1]):
            raise InvalidInput("shear", "an axis that does not repeat", "repeating axes")
        self.__setstate__({"size": sides, "shear": shear, "rate": rates})

    @property
    def dim(self) -> int:
        """2 in the plane, 3 in space."""
        return int(self.size.size)

    @property
    def repeats(self) -> BoolArray:
        """(dim,) axes along which everything repeats."""
        return np.isfinite(self.size)

    @property
    def moves(self) -> bool:
        """Whether the cell deforms."""
        return bool(self.rate.any())

    def cell(self, t: float = 0.0) -> FloatArray:
        """H(t) (dim, dim), m, a column for each axis; zero along axes that do not repeat.

        Raises
        ------
        InvalidInput : a time at which the cell has shrunk to nothing.
        """
        stretch = np.eye(self.dim) + checks.scalar("t", t) * self.rate
        if not (stretch.diagonal() > 0.0).all():
            raise InvalidInput("t", f"{t:g} s", "a time at which the cell has a volume")
        return np.asarray(stretch @ self._start)

    def at(self, t: float) -> PeriodicBox:
        """The box as it is at time t, at rest."""
        cell = self.cell(t)
        return PeriodicBox(np.where(self.repeats, cell.diagonal(), np.inf), cell[0, -1])

    def images(self, arms: FloatArray, t: float = 0.0) -> IntArray:
        """Integers n (k, dim) for which arms (k, dim) + H(t) n are shortest.

        They are where the arms are shorter than half the cell.

        Raises
        ------
        InvalidInput : arms of another dimension, or a time without a cell.
        """
        arms, cell = checks.numbers("arms", arms, (None, self.dim), "m"), self.cell(t)
        rest, n = np.array(arms), np.zeros(arms.shape, dtype=np.int64)
        for axis in np.flatnonzero(self.repeats)[::-1]:  # the last one moves the first
            n[:, axis] = -np.rint(rest[:, axis] / cell[axis, axis])
            rest += n[:, axis, None] * cell[:, axis]
        return n

    def nearest(self, arms: FloatArray, t: float = 0.0) -> FloatArray:
        """Arms (k, dim) to the nearest image, m."""
        return np.asarray(self.images(arms, t) @ self.cell(t).T + arms)

    def velocities(self, arms: FloatArray, t: float = 0.0) -> FloatArray:
        """(k, dim) velocities of the images to which ``arms`` (k, dim) are shortest, m/s."""
        return np.asarray(self.images(arms, t) @ (self.rate @ self._start).T)

    def copies(self, x: FloatArray, wide: float, t: float = 0.0) -> tuple[FloatArray, IntArray]:
        """Points moved into the cell, then their images near it.

        Parameters
        ----------
        x : (n, dim) m. wide : how far from the cell images are wanted, m. t : s.

        Returns
        -------
        positions, the n points first, and the number of the point that each is an image of.

        Raises
        ------
        InvalidInput : points of another dimension, or a time without a cell.
        """
        x, cell = checks.numbers("x", x, (None, self.dim), "m"), self.cell(t)
        wide = checks.not_negative("wide", wide)
        if cell[0, -1]:  # the same lattice with an offset of at most half the cell
            cell[0, -1] -= np.rint(cell[0, -1] / cell[0, 0]) * cell[0, 0]
        x = np.array(x)
        for axis in np.flatnonzero(self.repeats)[::-1]:
            x -= np.floor(x[:, axis] / cell[axis, axis])[:, None] * cell[:, axis]
        places, numbers = [x], [np.arange(len(x))]
        for shift in product(*[(-1, 0, 1) if repeats else (0,) for repeats in self.repeats]):
            if any(shift):
                moved = x + cell @ np.array(shift)
                inside = (moved >= -wide) & (moved <= cell.diagonal() + wide)
                close = np.flatnonzero((inside | ~self.repeats).all(axis=1))
                places.append(moved[close])
                numbers.append(close)
        return np.concatenate(places), np.concatenate(numbers)

    @property
    def _start(self) -> FloatArray:
        cell = np.diag(np.where(self.repeats, self.size, 0.0))
        cell[0, -1] = self.shear
        return cell

    def __repr__(self) -> str:
        sides = " x ".join(f"{side:g}" for side in self.size)
        parts = f", shear {self.shear:g} m" if self.shear else ""
        parts += ", deforming" if self.moves else ""
        return f"PeriodicBox({sides} m{parts})"
