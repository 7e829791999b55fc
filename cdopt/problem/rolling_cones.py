"""Cones of friction that resists sliding, spinning and rolling: f = (f_n, f_T, m), up to six rows.

m are moments, about the normal (torsion) and in the tangent plane (rolling); their rates ω are
relative angular velocities, and their coefficients lengths in m.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem import cone_rules
from cdopt.problem.cone_rules import Rules
from cdopt.problem.cones import RULED, SYMMETRIC, Frictional

_STEPS = 60  # of Newton's method on an ellipse at most
_TINY = 1e-300  # a size that may be divided by


class _WithMoments(Frictional):
    """Cones with rows of moments after those of sliding, projected by their rules."""

    @property
    def moments(self) -> BoolArray:
        return np.tile(np.arange(self.d) > self.sliding, self.nc)

    def project(self, y: FloatArray) -> FloatArray:
        y = checks.answer("y", y, self.rows)
        return cone_rules.project(self.table(y), *self.rules).ravel()


class RollingCones(_WithMoments):
    """‖f_k‖ ≤ μ_k f_n for each of up to three groups of rows: the product cone.

    With sliding and rolling it is that of V. Acary & F. Bourrier, European Journal of Mechanics
    A/Solids 85 (2021). The dual is g_n ≥ Σ μ_k ‖g_k‖. Sliding and moments are limited apart: a
    wheel that slips resists rolling as before.

    Parameters
    ----------
    limits : (nc, k) coefficients: μ of sliding, then those of the moments in m.
    widths : (k,) rows of each group; the first are those of sliding.
    """

    name, traits = "rolling cones", frozenset({RULED})

    widths: tuple[int, ...] = ()

    def __init__(self, limits: FloatArray, widths: tuple[int, ...]) -> None:
        self.limits, self.widths = np.asarray(limits, dtype=np.float64), widths
        self.nc, self.d, self.mu = len(self.limits), 1 + sum(widths), self.limits[:, 0]
        self._groups = [slice(a, b) for a, b in pairwise(np.cumsum([1, *widths]).tolist())]

    @property
    def sliding(self) -> int:
        return self.widths[0]

    @property
    def polyhedral(self) -> bool:
        return max(self.widths) == 1

    @property
    def sensitivity(self) -> FloatArray:
        return 1.0 + self.limits.sum(axis=1)

    def _on_groups(self, values: FloatArray, first: float) -> FloatArray:
        """Values of the groups (nc, k) on their rows (nc, d), and ``first`` on the normal ones."""
        normal = np.full((self.nc, 1), first)
        return np.hstack([normal, np.repeat(values, self.widths, axis=1)])

    @property
    def stretch(self) -> FloatArray:
        return self._on_groups(self.limits, 1.0).ravel()

    @property
    def lorentz(self) -> tuple[sp.csr_array, list[int]]:
        """A cone for each group of each contact, which share the normal row."""
        begins, columns = np.arange(self.nc) * self.d, list[int]()
        for begin in begins.tolist():
            for group in self._groups:
                columns += [begin, *range(begin + group.start, begin + group.stop)]
        sizes = [1 + width for width in self.widths] * self.nc
        entries = np.ones(len(columns)), (np.arange(len(columns)), np.array(columns, dtype=int))
        return sp.csr_array(entries, shape=(len(columns), self.rows)), sizes

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        numbers = np.broadcast_to(1.0 + np.arange(len(self.widths)), self.limits.shape)
        rules = self._on_groups(numbers, float(cone_rules.NORMAL)).astype(np.int8)
        return rules, self._on_groups(self.limits, 0.0)

    def take(self, contacts: IntArray) -> RollingCones:
        return RollingCones(self.limits[contacts], self.widths)

    def takes_units(self, unit: FloatArray) -> BoolArray:
        table = self.table(unit)
        even = [np.ptp(table[:, group], axis=1) == 0.0 for group in self._groups]
        return np.logical_and.reduce(even)

    def in_units(self, unit: FloatArray) -> RollingCones:
        table = self.table(unit)
        of_groups = table[:, [group.start for group in self._groups]]
        return RollingCones(self.limits * table[:, :1] / of_groups, self.widths)

    def _sizes(self, table: FloatArray) -> FloatArray:
        """(nc, k) norm of each group of a table (nc, d)."""
        return np.column_stack([np.linalg.norm(table[:, group], axis=1) for group in self._groups])

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        root = self.projection_root(y)
        return np.asarray(root.transpose(0, 2, 1) @ root)

    def projection_root(self, y: FloatArray) -> FloatArray:
        """F (nc, d, d) with FᵀF = ``projection_derivative`` at y (rows,).

        A row for f_n and the groups that are cut, and what turns the direction of each of these.
        """
        table, mu = self.table(y), self.limits
        sizes = self._sizes(table)
        normal = self.table(self.project(y))[:, 0]
        inside = table[:, 0] + np.sum(mu * sizes, axis=1) > 0.0
        cut = sizes > mu * normal[:, None]
        safe = np.where(cut, np.maximum(sizes, _TINY), 1.0)
        along = inside / np.sqrt(1.0 + np.sum(np.where(cut, mu**2, 0.0), axis=1))
        turn = np.where(cut, np.sqrt(mu * normal[:, None] / safe), 1.0) * inside[:, None]
        root = np.zeros((self.nc, self.d, self.d))
        root[:, 0, 0] = along
        for k, group in enumerate(self._groups):
            way = table[:, group] / safe[:, k : k + 1] * cut[:, k : k + 1]
            root[:, 0, group] = (along * mu[:, k])[:, None] * way
            across = np.eye(self.widths[k]) - way[:, :, None] * way[:, None, :]
            root[:, group, group] = turn[:, k, None, None] * across
        return root

    def margin(self, y: FloatArray) -> FloatArray:
        """(nc,) how far y (rows,) is from the onset of a cut, or from where f_n begins."""
        table, mu = self.table(y), self.limits
        sizes, normal = self._sizes(table), self.table(self.project(y))[:, 0]
        begins = table[:, 0] + np.sum(mu * sizes, axis=1)
        onset = np.where(mu > 0.0, np.abs(sizes - mu * normal[:, None]), np.inf).min(axis=1)
        length = np.sqrt(1.0 + np.sum(mu**2, axis=1))
        return np.minimum(np.abs(begins), np.where(begins > 0.0, onset, np.inf)) / length

    def frictional_cut(self, tried: FloatArray) -> FloatArray:
        table = self.table(tried).copy()
        table[:, 0] = np.maximum(table[:, 0], 0.0)
        sizes, most = self._sizes(table), self.limits * table[:, :1]
        share = np.where(sizes > most, most / np.where(sizes > 0.0, sizes, 1.0), 1.0)
        return (table * self._on_groups(share, 1.0)).ravel()

    def shift(self, g: FloatArray) -> FloatArray:
        return np.sum(self.limits * self._sizes(self.table(g)), axis=1)

    def shift_gradient(self, g: FloatArray) -> FloatArray:
        table, sizes = self.table(g), self._sizes(self.table(g))
        moving = np.where(sizes > 0.0, self.limits / np.maximum(sizes, _TINY), 0.0)
        return self._on_groups(moving, 0.0) * table


class EllipticCones(_WithMoments):
    """Σ (f_j/μ_j)² ≤ f_n² over the rows of sliding and moments: the elliptic cone of MuJoCo.

    Its ``condim`` 3, 4 and 6 have 3, 4 and 6 rows. The dual is g_n ≥ ‖(μ_j g_j)‖. Sliding and
    moments share the limit of the normal force.

    Parameters
    ----------
    coefficients : (nc, d − 1) μ_j of the rows after the normal one, those of moments in m.
    sliding : how many of them are of sliding, the first ones.
    """

    name, traits = "elliptic cones", frozenset({RULED, SYMMETRIC})

    def __init__(self, coefficients: FloatArray, sliding: int) -> None:
        self.coefficients = np.asarray(coefficients, dtype=np.float64)
        self.nc, self.d = len(self.coefficients), 1 + self.coefficients.shape[1]
        self.mu, self._sliding = self.coefficients[:, 0], sliding

    @property
    def sliding(self) -> int:
        return self._sliding

    @property
    def polyhedral(self) -> bool:
        return self.d <= 2

    @property
    def sensitivity(self) -> FloatArray:
        return 1.0 + self.coefficients.max(axis=1, initial=0.0)

    def _table_of(self, first: float) -> FloatArray:
        """(nc, d) the coefficients, and ``first`` on normal rows."""
        return np.hstack([np.full((self.nc, 1), first), self.coefficients])

    @property
    def stretch(self) -> FloatArray:
        return self._table_of(1.0).ravel()

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        rules = np.full((self.nc, self.d), cone_rules.ELLIPSE, dtype=np.int8)
        rules[:, 0] = cone_rules.NORMAL
        return rules, self._table_of(0.0)

    def take(self, contacts: IntArray) -> EllipticCones:
        return EllipticCones(self.coefficients[contacts], self._sliding)

    def takes_units(self, unit: FloatArray) -> BoolArray:
        return np.ones(self.nc, dtype=bool)

    def in_units(self, unit: FloatArray) -> EllipticCones:
        table = self.table(unit)
        return EllipticCones(self.coefficients * table[:, :1] / table[:, 1:], self._sliding)

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        """An element (nc, d, d) of its generalised derivative at y (rows,).

        On the surface Z (Zᵀ A Z)⁻¹ Zᵀ with a basis Z of its tangents and A = 1 + λ H, where
        y − f = λ H f and H = diag(−1, 1/μ²).
        """
        table, f, mu = self.table(y), self.table(self.project(y)), self.coefficients
        there = np.hstack([np.ones((self.nc, 1), dtype=bool), mu > 0.0])
        H = np.hstack([-np.ones((self.nc, 1)), 1.0 / np.where(mu > 0.0, mu, np.inf) ** 2])
        out, eye = np.zeros((self.nc, self.d, self.d)), np.eye(self.d)
        free = np.all((table == f) | ~there, axis=1) & (f[:, 0] > 0.0)
        out[free] = eye
        cut = ~free & (f[:, 0] > 0.0)
        normal = H[cut] * f[cut]
        square = np.sum(normal**2, axis=1)
        lam = np.sum((table - f)[cut] * normal, axis=1) / square
        A = 1.0 + lam[:, None] * H[cut]
        mirror = normal.copy()  # the reflection that leads e_n to the normal
        mirror[:, 0] += np.copysign(np.sqrt(square), normal[:, 0])
        half = 0.5 * np.sum(mirror**2, axis=1)
        Z = (eye - mirror[:, :, None] * mirror[:, None, :] / half[:, None, None])[:, :, 1:]
        inner = np.einsum("iab,ia,iac->ibc", Z, A, Z)
        out[cut] = Z @ np.linalg.solve(inner, Z.transpose(0, 2, 1))
        return out * there[:, :, None] * there[:, None, :]

    def margin(self, y: FloatArray) -> FloatArray:
        """(nc,) about how far y (rows,) is from the boundaries of K and of its polar cone."""
        table, mu = self.table(y), self.coefficients
        others, normal = np.where(mu > 0.0, table[:, 1:], 0.0), table[:, 0]
        each = others / np.where(mu > 0.0, mu, 1.0)
        slope = np.linalg.norm(each / np.where(mu > 0.0, mu, 1.0), axis=1)
        size, of_polar = np.linalg.norm(each, axis=1), np.linalg.norm(mu * others, axis=1)
        length = np.sqrt(1.0 + np.where(size > 0.0, slope / np.maximum(size, _TINY), 0.0) ** 2)
        of_cone = np.hypot(np.minimum(normal, 0.0), (size - np.maximum(normal, 0.0)) / length)
        polar = np.abs(normal + of_polar) / np.sqrt(1.0 + np.max(mu, axis=1, initial=0.0) ** 2)
        return np.where(np.any(mu > 0.0, axis=1), np.minimum(of_cone, polar), polar)

    def frictional_cut(self, tried: FloatArray) -> FloatArray:
        """Forces (rows,) with f_n = (y_n)₊ and the nearest others with ‖(f_j/μ_j)‖ ≤ f_n.

        They are y_j μ_j²/(μ_j² + λ) of those ``tried``, with λ ≥ 0 by Newton's method on the
        inverse of the norm, which ends from below in a few steps.
        """
        table, mu = self.table(tried).copy(), self.coefficients
        normal = np.maximum(table[:, 0], 0.0)
        multiplier, others = np.zeros(self.nc), table[:, 1:]
        for _ in range(_STEPS):
            bottom = mu**2 + multiplier[:, None]
            each = np.where(mu > 0.0, mu * others / np.where(bottom > 0.0, bottom, 1.0), 0.0)
            size = np.linalg.norm(each, axis=1)
            slope = np.sum(each**2 / np.where(bottom > 0.0, bottom, 1.0), axis=1)
            cut = (size > normal) & (normal > 0.0)
            step = size**2 * (size - normal) / np.where(cut, slope * normal, 1.0)
            step = np.where(cut, step, 0.0)
            multiplier += step
            if np.all(step <= 1e-16 * multiplier):
                break
        share = np.where(mu > 0.0, mu**2 / np.maximum(mu**2 + multiplier[:, None], _TINY), 0.0)
        share[normal == 0.0] = 0.0
        return np.column_stack([normal, share * others]).ravel()

    def shift(self, g: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(self.coefficients * self.table(g)[:, 1:], axis=1))

    def shift_gradient(self, g: FloatArray) -> FloatArray:
        size = self.shift(g)
        share = np.where(size > 0.0, 1.0 / np.maximum(size, _TINY), 0.0)[:, None]
        return self._table_of(0.0) ** 2 * self.table(g) * share
