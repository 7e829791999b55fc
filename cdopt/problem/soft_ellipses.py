"""Elliptic friction cones Σ (f_k/μ_k)² ≤ f_n² of soft rows: round in the units of their springs."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem.cones import Cones

_ROUND = 1e-9  # relative difference of the coefficients of a round cone
_HALVINGS = 60


class SoftEllipses(Cones):
    """Elliptic cones of up to six rows, sliding, torsional and rolling friction in one norm.

    Only cones that are round, with equal coefficients, have a derivative: engines make the
    compliance such that ellipses are round where springs have stiffness one.

    Parameters
    ----------
    across : μ_k (nc, d − 1), positive.
    """

    name = "ellipses"

    def __init__(self, across: FloatArray) -> None:
        self.across = checks.numbers("across", across, np.shape(across))
        self.nc, self.d = len(self.across), 1 + self.across.shape[1]
        self.mu = self.across[:, 0].copy()

    def takes_units(self, unit: FloatArray) -> BoolArray:
        """(nc,) whether the cones are round in each ``unit`` (rows,)."""
        across = self.in_units(unit).across
        return np.ptp(across, axis=1) <= _ROUND * across[:, 0]

    @property
    def sensitivity(self) -> FloatArray:
        """(nc,) 1 + the largest coefficient."""
        return 1.0 + self.across.max(axis=1, initial=0.0)

    @property
    def stretch(self) -> FloatArray:
        """(rows,) 1 on normal rows, μ_k on the others."""
        return np.column_stack([np.ones(self.nc), self.across]).ravel()

    def take(self, contacts: IntArray) -> SoftEllipses:
        """The cones of these contacts (n,)."""
        return SoftEllipses(self.across[contacts])

    def in_units(self, unit: FloatArray) -> SoftEllipses:
        """The cones of forces over each ``unit`` (rows,)."""
        table = self.table(unit)
        return SoftEllipses(self.across * table[:, :1] / table[:, 1:])

    def _parts(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        table = self.table(y)
        return table, table[:, 0], np.linalg.norm(table[:, 1:], axis=1), self.across.mean(axis=1)

    def project(self, y: FloatArray) -> FloatArray:
        """The nearest point of K to y (rows,)."""
        table, normal, size, mu = self._parts(y)
        if np.any(np.ptp(self.across, axis=1) > _ROUND * mu):
            return self._project_slowly(table)
        top = np.maximum((normal + mu * size) / (1.0 + mu * mu), 0.0)
        inside = size <= mu * normal
        share = np.where(inside, 1.0, mu * top / np.where(size > 0.0, size, 1.0))
        result = share[:, None] * table
        result[:, 0] = np.where(inside, normal, top)
        return result.ravel()

    def _project_slowly(self, y: FloatArray) -> FloatArray:
        """By the multiplier λ of each ellipse as x = λ/(1 + λ), the root of a falling function."""
        normal, rest, mu = y[:, :1], y[:, 1:], self.across
        low, high = np.zeros_like(normal), np.ones_like(normal)
        for _ in range(_HALVINGS):
            x = 0.5 * (low + high)
            size = np.linalg.norm(mu * rest / (mu**2 * (1.0 - x) + x), axis=1, keepdims=True)
            above = (1.0 - 2.0 * x) * size > normal
            low, high = np.where(above, x, low), np.where(above, high, x)
        found = rest * mu**2 * (1.0 - x) / (mu**2 * (1.0 - x) + x)
        edge = np.column_stack([np.linalg.norm(found / mu, axis=1), found])
        inside = np.linalg.norm(rest / mu, axis=1) <= normal[:, 0]
        polar = np.linalg.norm(mu * rest, axis=1) <= -normal[:, 0]
        return np.where(inside[:, None], y, np.where(polar[:, None], 0.0, edge)).ravel()

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        """An element (nc, d, d) of its generalised derivative, of round cones."""
        table, normal, size, mu = self._parts(y)
        inside, polar = size <= mu * normal, mu * size <= -normal
        way = table[:, 1:] / np.where(size > 0.0, size, 1.0)[:, None]
        along = np.column_stack([np.ones(self.nc), mu[:, None] * way])
        slope = along[:, :, None] * along[:, None, :]
        ring = mu * (normal + mu * size) / np.where(size > 0.0, size, 1.0)
        across = np.eye(self.d - 1) - way[:, :, None] * way[:, None, :]
        slope[:, 1:, 1:] += ring[:, None, None] * across
        slope /= (1.0 + mu * mu)[:, None, None]
        slope[inside], slope[polar & ~inside] = np.eye(self.d), 0.0
        return slope

    def shift(self, g: FloatArray) -> FloatArray:
        """(nc,) the norm of the μ_k g_k."""
        return np.linalg.norm(self.across * self.table(g)[:, 1:], axis=1)
