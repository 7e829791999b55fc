"""Cones of several kinds as one product, and the same with as many rows for each contact."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem.cone_rules import Rules
from cdopt.problem.cones import Cones


class Product(Cones):
    """Cones of several kinds, such as contacts and joints, one kind after the other.

    Parameters
    ----------
    parts : the cones of each kind.
    """

    name = "products"

    def __init__(self, *parts: Cones) -> None:
        self.parts = parts
        self.nc, self.d = sum(p.nc for p in parts), max((p.d for p in parts), default=1)
        self.mu = self._joined([p.mu for p in parts])

    @staticmethod
    def _joined(values: list[FloatArray]) -> FloatArray:
        return np.concatenate([np.zeros(0), *values])

    @property
    def kinds(self) -> dict[str, frozenset[str]]:
        return {name: traits for p in self.parts if p.nc for name, traits in p.kinds.items()}

    @property
    def moments(self) -> BoolArray:
        return np.concatenate([np.zeros(0, dtype=bool), *(p.moments for p in self.parts)])

    @property
    def bilateral(self) -> BoolArray:
        return np.concatenate([np.zeros(0, dtype=bool), *(p.bilateral for p in self.parts)])

    @property
    def polyhedral(self) -> bool:
        return all(p.polyhedral for p in self.parts)

    @property
    def lorentz(self) -> tuple[sp.csr_array, list[int]]:
        each = [p.lorentz for p in self.parts]
        sizes = [size for _, sizes in each for size in sizes]
        return sp.csr_array(sp.block_diag([R for R, _ in each], format="csr")), sizes

    @cached_property
    def ends(self) -> IntArray:
        counts = [np.full(p.nc, p.d, dtype=np.int64) for p in self.parts]
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(counts))])

    @cached_property
    def rows(self) -> int:
        return int(self.ends[-1])

    def _split(self, rows: FloatArray) -> list[FloatArray]:
        """Values of the rows, by part."""
        return np.split(rows, np.cumsum([p.rows for p in self.parts])[:-1])

    def _of_each(self, name: str, rows: FloatArray) -> FloatArray:
        """The results of a method of each part, joined."""
        pieces = zip(self.parts, self._split(rows), strict=True)
        return self._joined([getattr(p, name)(piece) for p, piece in pieces])

    def table(self, rows: FloatArray) -> FloatArray:
        table = np.zeros((self.nc, self.d))
        table[self.contact, np.arange(rows.size) - self.ends[self.contact]] = rows
        return table

    def normal(self, rows: FloatArray) -> FloatArray:
        return rows[self.ends[:-1]]

    def norms(self, rows: FloatArray) -> FloatArray:
        return self._of_each("norms", rows)

    def total(self, rows: FloatArray) -> FloatArray:
        return self._of_each("total", rows)

    def largest(self, rows: FloatArray) -> FloatArray:
        return self._of_each("largest", rows)

    def on_rows(self, values: FloatArray) -> FloatArray:
        return values[self.contact]

    def opening(self, g: FloatArray) -> FloatArray:
        return self._of_each("opening", g)

    @property
    def sensitivity(self) -> FloatArray:
        return self._joined([p.sensitivity for p in self.parts])

    @property
    def stretch(self) -> FloatArray:
        return self._joined([p.stretch for p in self.parts])

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        rules, mu, at = np.zeros((self.nc, self.d), dtype=np.int8), np.zeros((self.nc, self.d)), 0
        for p in self.parts:
            rules[at : at + p.nc, : p.d], mu[at : at + p.nc, : p.d] = p.rules
            at += p.nc
        return rules, mu

    def take(self, contacts: IntArray) -> Product:
        """The cones of these contacts (n,), in increasing order of the parts."""
        begins = np.cumsum([0, *(p.nc for p in self.parts)])
        inside = [
            contacts[(contacts >= a) & (contacts < b)] - a for a, b in pairwise(begins.tolist())
        ]
        return Product(*(p.take(i) for p, i in zip(self.parts, inside, strict=True)))

    def in_units(self, unit: FloatArray) -> Product:
        pieces = zip(self.parts, self._split(unit), strict=True)
        return Product(*(p.in_units(u) for p, u in pieces))

    def project(self, y: FloatArray) -> FloatArray:
        return self._of_each("project", y)

    def takes_units(self, unit: FloatArray) -> BoolArray:
        pieces = zip(self.parts, self._split(unit), strict=True)
        return np.concatenate([np.zeros(0, dtype=bool), *(p.takes_units(u) for p, u in pieces)])

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        return self._blocks("projection_derivative", y, (self.d, self.d))

    def projection_root(self, y: FloatArray) -> FloatArray:
        return self._blocks("projection_root", y, (self.d, self.d))

    def _blocks(self, name: str, rows: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Arrays of each part's method as one (nc, *shape), filled with zeros."""
        result, at = np.zeros((self.nc, *shape)), 0
        for p, piece in zip(self.parts, self._split(rows), strict=True):
            within = slice(at, at + p.nc), *(slice(p.d) for _ in shape)
            result[within] = getattr(p, name)(piece)
            at += p.nc
        return result

    def frictional_cut(self, tried: FloatArray) -> FloatArray:
        return self._of_each("frictional_cut", tried)

    def cut_derivative(self, tried: FloatArray) -> FloatArray:
        return self._blocks("cut_derivative", tried, (self.d, self.d))

    def projected_work(self, y: FloatArray, change: FloatArray, t: float) -> float:
        pieces = zip(self.parts, self._split(y), self._split(change), strict=True)
        return sum(p.projected_work(a, b, t) for p, a, b in pieces)

    def margin(self, y: FloatArray) -> FloatArray:
        return self._of_each("margin", y)

    def projection_by_mu(self, y: FloatArray) -> FloatArray:
        return self._of_each("projection_by_mu", y)

    def shift_by_mu(self, g: FloatArray) -> FloatArray:
        return self._of_each("shift_by_mu", g)

    def natural_map(self, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        return self._mapped("natural_map", f, g, mobility)

    def shift(self, g: FloatArray) -> FloatArray:
        return self._of_each("shift", g)

    def shift_gradient(self, g: FloatArray) -> FloatArray:
        return self._blocks("shift_gradient", g, (self.d,))

    def coulomb_map(self, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        return self._mapped("coulomb_map", f, g, mobility)

    def _mapped(self, name: str, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        """The results of a method of each part for forces and rates, joined."""
        of_each = np.split(mobility, np.cumsum([p.nc for p in self.parts])[:-1])
        pieces = zip(self.parts, self._split(f), self._split(g), of_each, strict=True)
        return self._joined([getattr(p, name)(*given) for p, *given in pieces])


class Filled(Cones):
    """The same cones with rows of zeros, so that each has the largest number of rows.

    Native solvers take every contact with the same number of rows.

    Parameters
    ----------
    cones : to be filled up.

    Attributes
    ----------
    rows_there : (rows of the cones,) where each of their rows is here.
    empty : (rows,) the rows that were added.
    """

    name = "products"

    def __init__(self, cones: Cones) -> None:
        self.cones, self.nc, self.d, self.mu = cones, cones.nc, cones.d, cones.mu
        begins = np.arange(cones.nc) * cones.d - cones.ends[:-1]
        self.rows_there = np.arange(cones.rows) + begins[cones.contact]
        self.empty = self.fill(np.zeros(cones.rows), 1.0) > 0.0

    def fill(self, rows: FloatArray, value: float = 0.0) -> FloatArray:
        """Values of the rows of ``cones`` on those here, another ``value`` on the others."""
        result = np.full(self.rows, value)
        result[self.rows_there] = rows
        return result

    @property
    def kinds(self) -> dict[str, frozenset[str]]:
        return self.cones.kinds

    @property
    def bilateral(self) -> BoolArray:
        return self.cones.bilateral

    @property
    def sensitivity(self) -> FloatArray:
        return self.cones.sensitivity

    @property
    def stretch(self) -> FloatArray:
        return self.fill(self.cones.stretch)

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        return self.cones.rules

    def take(self, contacts: IntArray) -> Filled:
        return Filled(self.cones.take(contacts))

    def in_units(self, unit: FloatArray) -> Filled:
        return Filled(self.cones.in_units(unit[self.rows_there]))

    def project(self, y: FloatArray) -> FloatArray:
        return self.fill(self.cones.project(y[self.rows_there]))

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        return self.cones.projection_derivative(y[self.rows_there])

    def projection_root(self, y: FloatArray) -> FloatArray:
        return self.cones.projection_root(y[self.rows_there])

    def margin(self, y: FloatArray) -> FloatArray:
        return self.cones.margin(y[self.rows_there])

    def frictional_cut(self, tried: FloatArray) -> FloatArray:
        return self.fill(self.cones.frictional_cut(tried[self.rows_there]))

    def cut_derivative(self, tried: FloatArray) -> FloatArray:
        return self.cones.cut_derivative(tried[self.rows_there])

    def projected_work(self, y: FloatArray, change: FloatArray, t: float) -> float:
        return self.cones.projected_work(y[self.rows_there], change[self.rows_there], t)

    def shift(self, g: FloatArray) -> FloatArray:
        return self.cones.shift(g[self.rows_there])

    def shift_gradient(self, g: FloatArray) -> FloatArray:
        return self.cones.shift_gradient(g[self.rows_there])

    def coulomb_map(self, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        there = self.rows_there
        return self.fill(self.cones.coulomb_map(f[there], g[there], mobility))
