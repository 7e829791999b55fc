"""Boxes −a ≤ f ≤ a of single rows: dry friction whose limit does not depend on a pressure."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt.problem.cones import Cones


class Boxes(Cones):
    """|f| ≤ a: a convex set like a cone, and like it in all but its dual.

    The law is that f maximises −f g over the box: g = 0 inside, and at either end the rate is
    against the force. No rate violates it, so that ``dual_distance`` is zero. The support function
    a|g| replaces the dual cone: it is the dissipated power.

    Parameters
    ----------
    most : a (n,), N or N·m, not negative.
    """

    name = "boxes"

    def __init__(self, most: FloatArray) -> None:
        self.most = checks.answer("most", most, None)
        self.nc, self.d, self.mu = int(self.most.size), 1, np.zeros(self.most.size)

    def opening(self, g: FloatArray) -> FloatArray:
        return -np.abs(g)

    def dual_distance(self, g: FloatArray) -> FloatArray:
        """Zero, for rates g (rows,)."""
        return np.zeros(self.nc)

    def natural_map(self, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        """(rows,) w (f − P_K(f − g/w)) in m/s, of f (rows,), g (rows,) and w ``mobility`` (nc,)."""
        return mobility * (f - self.project(f - g / mobility))

    def support(self, g: FloatArray) -> FloatArray:
        """a|g| (nc,), for rates g (rows,)."""
        return self.most * np.abs(g)

    def take(self, contacts: IntArray) -> Boxes:
        return Boxes(self.most[contacts])

    def in_units(self, unit: FloatArray) -> Boxes:
        return Boxes(self.most / unit)

    def project(self, y: FloatArray) -> FloatArray:
        return np.clip(y, -self.most, self.most)

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        return np.where(np.abs(y) < self.most, 1.0, 0.0)[:, None, None]

    def margin(self, y: FloatArray) -> FloatArray:
        return np.abs(np.abs(y) - self.most)

    def projection_by_mu(self, y: FloatArray) -> FloatArray:
        return np.zeros(y.size)
