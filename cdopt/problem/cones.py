"""The cones K of contact forces, one a contact, as one product: the contact law of a problem.

Forces and rates are arrays (rows,) in the order of the contacts, the normal row of each first. A
law is K ∋ f ⟂ g ∈ K*; Coulomb's law has de Saxcé's rates g + shift(g) e_n in place of g.

A further kind of cone is one more class; one that is no stretched Lorentz cone and extends none of
these also needs a form in ``formulations.cone_forms``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.frozen import Frozen
from cdopt.problem import cone_rules
from cdopt.problem import friction_cone as cone
from cdopt.problem.cone_rules import Rules

RULED = "cones with rules for compiled loops"  # which have ``rules``
SYMMETRIC = "Lorentz cones and lines"  # stretched Lorentz cones


class LawTerms(NamedTuple):
    """How far forces f and rates g of contacts are from a law of friction.

    The rates g̃ are shifted by Coulomb's law.
    """

    outside: FloatArray  # (nc,) m/s, (−g_n)₊; of the associated law the distance of g from K*
    beyond: FloatArray  # (nc,) N, the distance of f from K
    off: FloatArray  # (nc,) m/s, the size of ``natural``
    work: FloatArray  # (nc,) W, fᵀg̃
    force: FloatArray  # (nc,) N, ‖f‖
    blur: FloatArray  # (nc,) m/s, the size of the round-off of g
    natural: FloatArray  # (rows,) m/s, ``coulomb_map`` or ``natural_map``


class Cones(ABC):
    """A product of ``nc`` cones, each of ``d`` rows (in a ``Product``, of at most ``d``).

    Attributes
    ----------
    nc : number of contacts.
    d : rows of a contact.
    mu : (nc,) friction coefficients, zero without friction.
    name : of the kind, as in the lists of backends.
    traits : that solvers may require: ``RULED``, ``SYMMETRIC``.
    """

    nc: int
    d: int
    mu: FloatArray
    name: ClassVar[str]
    traits: ClassVar[frozenset[str]] = frozenset()

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    @cached_property
    def ends(self) -> IntArray:
        """(nc + 1,) the rows of contact i are those from ends[i] to ends[i + 1]."""
        return np.arange(0, self.nc * self.d + 1, self.d)

    @cached_property
    def rows(self) -> int:
        """Number of rows of all contacts."""
        return self.nc * self.d

    @property
    def kinds(self) -> dict[str, frozenset[str]]:
        """Names of the kinds of cones, with their traits."""
        return {self.name: self.traits}

    @property
    def sliding(self) -> int:
        """Rows of sliding, those after the normal one."""
        return self.d - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Rows of each group after the normal row that shares a limit."""
        return (self.d - 1,)

    @property
    def moments(self) -> BoolArray:
        """(rows,) rows whose forces are moments in N·m."""
        return np.zeros(self.rows, dtype=bool)

    @property
    def uniform(self) -> bool:
        """Whether all contacts have the same number of rows."""
        return self.rows == self.nc * self.d

    @cached_property
    def first(self) -> slice | IntArray:
        """The first row of each contact, as an index of rows."""
        return slice(None, None, self.d) if self.uniform else self.ends[:-1]

    @property
    def bilateral(self) -> BoolArray:
        """(nc,) whether a cone is a line, whose forces may be of either sign."""
        return np.zeros(self.nc, dtype=bool)

    @property
    def polyhedral(self) -> bool:
        """Whether all cones are polyhedral, so that every infimum is attained."""
        return True

    @cached_property
    def contact(self) -> IntArray:
        """(rows,) the contact of each row."""
        return np.repeat(np.arange(self.nc), np.diff(self.ends))

    def rows_of(self, contacts: IntArray) -> IntArray:
        """The rows of these contacts (n,), one contact after the other."""
        contacts = checks.positions("contacts", contacts, self.nc)
        begins, many = self.ends[contacts], np.diff(self.ends)[contacts]
        return np.arange(many.sum()) + np.repeat(begins - (np.cumsum(many) - many), many)

    def total(self, rows: FloatArray) -> FloatArray:
        """(nc,) sum of the rows of each contact."""
        table = self.table(rows)
        return table[:, 0] if self.d == 1 else table.sum(axis=1)

    def largest(self, rows: FloatArray) -> FloatArray:
        """(nc,) the largest of the rows of each contact."""
        table = self.table(rows)
        return table[:, 0] if self.d == 1 else table.max(axis=1)

    def table(self, rows: FloatArray) -> FloatArray:
        """Values of the rows as one line a contact (nc, d)."""
        rows = checks.answer("rows", rows, self.rows)
        return rows.reshape(self.nc, self.d)

    def normal(self, rows: FloatArray) -> FloatArray:
        """(nc,) the values of the normal rows."""
        rows = checks.answer("rows", rows, self.rows)
        return rows[:: self.d]

    def norms(self, rows: FloatArray) -> FloatArray:
        """(nc,) Euclidean norm of the rows of each contact."""
        table = self.table(rows)
        return np.abs(table[:, 0]) if self.d == 1 else cone.norms(table)

    def on_rows(self, values: FloatArray) -> FloatArray:
        """Values of the contacts (nc,) on each of their rows (rows,)."""
        values = checks.answer("values", values, self.nc)
        return values if self.d == 1 else values.repeat(self.d)

    def opening(self, g: FloatArray) -> FloatArray:
        """(nc,) rates at which contacts open, from g (rows,); negative if they close; unshifted."""
        return self.normal(checks.answer("g", g, self.rows))

    @property
    def sensitivity(self) -> FloatArray:
        """(nc,) factor by which an error of rates may change ``shifted`` rates."""
        return np.ones(self.nc)

    @property
    def stretch(self) -> FloatArray:
        """(rows,) factors by which points of ``lorentz`` become those of K."""
        return np.ones(self.rows)

    @property
    def lorentz(self) -> tuple[sp.csr_array, list[int]]:
        """R (k, rows) and sizes: K = {stretch x : R x in Lorentz cones of these sizes}."""
        return sp.csr_array(sp.eye_array(self.rows)), np.diff(self.ends).tolist()

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        """Rules and coefficients (nc, d) by which compiled loops project (``cone_rules``)."""
        raise TypeError(f"{self.name} have no rules for compiled loops")

    @abstractmethod
    def take(self, contacts: IntArray) -> Cones:
        """The cones of these contacts (n,)."""

    def in_units(self, unit: FloatArray) -> Cones:
        """The cones of forces over each ``unit`` (rows,), which may differ within a contact.

        The units of the tangential rows of one contact are equal.
        """
        return self

    def takes_units(self, unit: FloatArray) -> BoolArray:
        """(nc,) whether ``in_units`` takes each ``unit`` (rows,): tangential ones are equal."""
        table = self.table(checks.answer("unit", unit, self.rows))
        return np.all(table[:, 1:] == table[:, 1:2], axis=1)

    def frictional_cut(self, tried: FloatArray) -> FloatArray:
        """Forces (rows,) by Coulomb's micro-slip: f_n = (y_n)₊, f_T = y_T, at most μ f_n.

        y are the forces ``tried`` (rows,), without slip.
        """
        tried = checks.answer("tried", tried, self.rows)
        y, f = self.table(tried), np.maximum(self.table(tried), 0.0)
        size, most = cone.norms(y[:, 1:]), self.mu * f[:, 0]
        share = np.where(size > most, most / np.where(size > 0.0, size, 1.0), 1.0)
        f[:, 1:] = share[:, None] * y[:, 1:]
        return f.ravel()

    def cut_derivative(self, tried: FloatArray) -> FloatArray:
        """An element (nc, d, d) of the generalised derivative of ``frictional_cut(tried)``."""
        y = self.table(checks.answer("tried", tried, self.rows))
        size, most = cone.norms(y[:, 1:]), self.mu * y[:, 0]
        slips = size > most
        share = np.where(slips, most / np.where(size > 0.0, size, 1.0), 1.0)
        way = np.where(slips[:, None], y[:, 1:], 0.0) / np.where(size > 0.0, size, 1.0)[:, None]
        slope = np.zeros((self.nc, self.d, self.d))
        slope[:, 0, 0] = 1.0
        slope[:, 1:, 0] = self.mu[:, None] * way
        across = np.eye(self.d - 1) - way[:, :, None] * way[:, None, :]
        slope[:, 1:, 1:] = share[:, None, None] * across
        slope[y[:, 0] <= 0.0] = 0.0
        return slope

    @abstractmethod
    def project(self, y: FloatArray) -> FloatArray:
        """The nearest point of K to y (rows,)."""

    @abstractmethod
    def projection_derivative(self, y: FloatArray) -> FloatArray:
        """An element (nc, d, d) of the generalised derivative of ``project`` at y (rows,)."""

    def projection_root(self, y: FloatArray) -> FloatArray:
        """F (nc, d, d) with FᵀF = ``projection_derivative`` at y (rows,)."""
        values, vectors = np.linalg.eigh(self.projection_derivative(y))
        return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1))

    def shift(self, g: FloatArray) -> FloatArray:
        """(nc,) de Saxcé's shift of the normal rates: the least g_n with (g_n, g_T) in K*.

        Where g_n is at least the shift, g is in the dual cone. Without friction it is zero.
        """
        checks.answer("g", g, self.rows)
        return np.zeros(self.nc)

    def shift_gradient(self, g: FloatArray) -> FloatArray:
        """(nc, d) derivative of ``shift`` at rates g (rows,); zero where it has none."""
        return np.zeros((self.nc, self.d))

    def shifted(self, g: FloatArray) -> FloatArray:
        """Rates g + shift(g) e_n (rows,)."""
        g = checks.answer("g", g, self.rows)
        result = g.copy()
        result[self.first] += self.shift(g)
        return result

    @abstractmethod
    def margin(self, y: FloatArray) -> FloatArray:
        """(nc,) distance of y (rows,) from the points at which ``project`` has no derivative."""

    def projection_by_mu(self, y: FloatArray) -> FloatArray:
        """(rows,) derivative of ``project`` at y (rows,) with respect to the μ of each contact."""
        raise TypeError(f"{self.name} have several coefficients")

    def shift_by_mu(self, g: FloatArray) -> FloatArray:
        """(nc,) derivative of ``shift`` at rates g (rows,) with respect to each contact's μ."""
        return np.zeros(self.nc)

    def projected_work(self, y: FloatArray, change: FloatArray, t: float) -> float:
        """Σ P_K(y + t change)ᵀ change, y and ``change`` (rows,)."""
        y, change = (checks.answer(n, a, self.rows) for n, a in (("y", y), ("change", change)))
        return float(self.project(y + checks.scalar("t", t) * change) @ change)

    def distance(self, f: FloatArray) -> FloatArray:
        """(nc,) distance of forces f (rows,) from K."""
        f = checks.answer("f", f, self.rows)
        return self.norms(f - self.project(f))

    def dual_distance(self, g: FloatArray) -> FloatArray:
        """(nc,) distance of rates g (rows,) from K*: the size of P_K(−g), by Moreau."""
        g = checks.answer("g", g, self.rows)
        return self.norms(self.project(-g))

    def natural_map(self, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        """(rows,) w f − P_K(w f − g) in m/s: zero exactly where K ∋ f ⟂ g ∈ K*.

        ``mobility`` is w > 0 (nc,) in m/(s·N).
        """
        mobility = checks.answer("mobility", mobility, self.nc)
        f = checks.answer("f", f, self.rows)
        g = checks.answer("g", g, self.rows)
        push = self.on_rows(mobility) * f
        return push - self.project(push - g)

    def coulomb_map(self, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        """(rows,) in m/s, zero exactly where f and unshifted rates g meet Coulomb's law.

        The natural map of the shifted rates. ``mobility`` is w > 0 (nc,) in m/(s·N).
        """
        return self.natural_map(f, self.shifted(g), mobility)

    def law_terms(
        self,
        f: FloatArray,
        g: FloatArray,
        blur: FloatArray,
        mobility: FloatArray,
        coulomb: bool,
    ) -> LawTerms:
        """The terms of the conditions of friction, by Coulomb's law or the associated one.

        f, g and the round-off ``blur`` of g are (rows,), in N and m/s; ``mobility`` is w > 0 (nc,).
        """
        f, g, slack = (checks.answer("f, g and blur", x, self.rows) for x in (f, g, blur))
        coulomb = checks.flag("coulomb", coulomb)
        if coulomb:
            rates, natural = self.shifted(g), self.coulomb_map(f, g, mobility)
            outside = np.maximum(-self.opening(g), 0.0)
        else:
            rates, natural = g, self.natural_map(f, g, mobility)
            outside = self.dual_distance(g)
        sizes = self.norms(natural), self.total(f * rates), self.norms(f), self.norms(slack)
        return LawTerms(outside, self.distance(f), *sizes, natural)

    def largest_map(
        self, f: FloatArray, g: FloatArray, shift: FloatArray | None, mobility: FloatArray
    ) -> float:
        """The largest size of ``natural_map`` with a shift of the normal rates, m/s.

        ``f`` and ``g`` (rows,) in N and m/s, ``shift`` (nc,) m/s, or None for that of ``shifted``
        rates, ``mobility`` (nc,) m/s per N.
        """
        law = checks.answer("g", g, self.rows).copy()
        law[self.first] += (
            self.shift(g) if shift is None else checks.answer("shift", shift, self.nc)
        )
        return float(self.norms(self.natural_map(f, law, mobility)).max(initial=0.0))


class SingleRows(Cones):
    """Rows of which none differs from another."""

    def __init__(self, nc: int) -> None:
        self.nc, self.d = checks.whole("nc", nc, 0), 1
        self.mu = np.zeros(self.nc)

    def take(self, contacts: IntArray) -> Self:
        """As many rows as ``contacts`` (n,)."""
        return type(self)(checks.positions("contacts", contacts, self.nc).size)

    def projection_by_mu(self, y: FloatArray) -> FloatArray:
        return np.zeros(checks.answer("y", y, self.rows).size)


class HalfLines(SingleRows):
    """f ≥ 0 and g ≥ 0: contacts without friction, of one row each."""

    name, traits = "half-lines", frozenset({RULED, SYMMETRIC})

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        return np.full((self.nc, 1), cone_rules.NORMAL, dtype=np.int8), np.zeros((self.nc, 1))

    def project(self, y: FloatArray) -> FloatArray:
        y = checks.answer("y", y, self.rows)
        return np.maximum(y, 0.0)

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        y = checks.answer("y", y, self.rows)
        return np.where(y > 0.0, 1.0, 0.0)[:, None, None]

    def margin(self, y: FloatArray) -> FloatArray:
        return np.abs(checks.answer("y", y, self.rows))


class Lines(SingleRows):
    """Any f, and g = 0: bilateral rows, such as those of joints."""

    name, traits = "lines", frozenset({RULED, SYMMETRIC})

    @property
    def bilateral(self) -> BoolArray:
        return np.ones(self.nc, dtype=bool)

    @property
    def lorentz(self) -> tuple[sp.csr_array, list[int]]:
        return sp.csr_array((0, self.rows)), []

    def opening(self, g: FloatArray) -> FloatArray:
        return -np.abs(g)

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        return np.full((self.nc, 1), cone_rules.FREE, dtype=np.int8), np.zeros((self.nc, 1))

    def project(self, y: FloatArray) -> FloatArray:
        return y.copy()

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        return np.ones((y.size, 1, 1))

    def margin(self, y: FloatArray) -> FloatArray:
        return np.full(y.size, np.inf)

    def frictional_cut(self, tried: FloatArray) -> FloatArray:
        return tried.copy()

    def cut_derivative(self, tried: FloatArray) -> FloatArray:
        return np.ones((tried.size, 1, 1))


class Frictional(Cones):
    """Cones that limit the rows after the normal one in proportion to its force."""

    def coulomb_map(self, f: FloatArray, g: FloatArray, mobility: FloatArray) -> FloatArray:
        """(rows,) in m/s, zero exactly where f and unshifted rates g meet Coulomb's law.

        min(w f_n, g_n), and w f_T less ``frictional_cut`` of w f_T − g_T at w f_n: no rate is
        multiplied by μ (P. Alart & A. Curnier, Comput. Methods Appl. Mech. Eng. 92, 1991).
        ``mobility`` is w > 0 (nc,) in m/(s·N).
        """
        f, g = checks.answer("f", f, self.rows), checks.answer("g", g, self.rows)
        push = self.on_rows(checks.answer("mobility", mobility, self.nc)) * f
        tried, normal = push - g, self.ends[:-1]
        tried[normal] = push[normal]
        left = push - self.frictional_cut(tried)
        left[normal] = np.minimum(push[normal], g[normal])
        return left


class FrictionCones(Frictional):
    """Coulomb's cones ‖f_T‖ ≤ μ f_n, in the plane (d = 2) and in space (d = 3).

    Parameters
    ----------
    mu : (nc,) friction coefficients.
    d : rows a contact.
    """

    name, traits = "friction cones", frozenset({RULED, SYMMETRIC})

    def __init__(self, mu: FloatArray, d: int) -> None:
        self.mu = checks.answer("mu", mu, None)
        self.nc, self.d = int(self.mu.size), checks.dimension("d", d)

    @property
    def polyhedral(self) -> bool:
        return self.d <= 2

    @property
    def sensitivity(self) -> FloatArray:
        return 1.0 + self.mu

    @property
    def stretch(self) -> FloatArray:
        stretch = self.mu.repeat(self.d)
        stretch[:: self.d] = 1.0
        return stretch

    @property
    def rules(self) -> tuple[Rules, FloatArray]:
        rules = np.ones((self.nc, self.d), dtype=np.int8)
        rules[:, 0] = cone_rules.NORMAL
        return rules, np.repeat(self.mu[:, None], self.d, axis=1)

    def take(self, contacts: IntArray) -> FrictionCones:
        contacts = checks.positions("contacts", contacts, self.nc)
        return FrictionCones(self.mu[contacts], self.d)

    def in_units(self, unit: FloatArray) -> FrictionCones:
        unit = checks.answer("unit", unit, self.rows)
        return FrictionCones(self._ratio(unit), self.d)

    def _ratio(self, unit: FloatArray) -> FloatArray:
        return self.mu * unit[:: self.d] / unit[1 :: self.d]

    def project(self, y: FloatArray) -> FloatArray:
        return cone.project(self.table(y), self.mu).ravel()

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        return cone.projection_derivative(self.table(y), self.mu)

    def projection_root(self, y: FloatArray) -> FloatArray:
        return cone.projection_root(self.table(y), self.mu)

    def margin(self, y: FloatArray) -> FloatArray:
        table = self.table(y)
        return cone.margin(table[:, 0], cone.norms(table[:, 1:]), self.mu)

    def projection_by_mu(self, y: FloatArray) -> FloatArray:
        """(rows,) at y (rows,): with f_n = (y_n + μ‖y_T‖)/(1 + μ²) of what slides, f_T = μ f_n ŷ_T.

        Zero if y is in K or its polar cone.
        """
        table, result = self.table(y), np.zeros((self.nc, self.d))
        normal, size = table[:, 0], cone.norms(table[:, 1:])
        slides = (size > self.mu * normal) & (self.mu * size > -normal)
        slides |= (self.mu == 0.0) & (normal > 0.0) & (size > 0.0)
        push = (normal + self.mu * size) / (1.0 + self.mu**2)
        gain = (size - 2.0 * self.mu * push) / (1.0 + self.mu**2)
        way = table[:, 1:] / np.where(size > 0.0, size, 1.0)[:, None]
        result[:, 0], result[:, 1:] = gain, (gain * self.mu + push)[:, None] * way
        result[~slides] = 0.0
        return result.ravel()

    def shift_by_mu(self, g: FloatArray) -> FloatArray:
        return cone.norms(self.table(g)[:, 1:])

    def projected_work(self, y: FloatArray, change: FloatArray, t: float) -> float:
        return cone.projected_work(self.table(y), self.table(change), t, self.mu)

    def law_terms(
        self,
        f: FloatArray,
        g: FloatArray,
        blur: FloatArray,
        mobility: FloatArray,
        coulomb: bool,
    ) -> LawTerms:
        tables = np.array([self.table(x) for x in (f, g, blur)])
        w = checks.answer("mobility", mobility, self.nc)
        coulomb = checks.flag("coulomb", coulomb)
        found, natural = cone.law_terms(tables, w, self.mu, coulomb)
        return LawTerms._make((*found[:6], natural.ravel()))

    def largest_map(
        self, f: FloatArray, g: FloatArray, shift: FloatArray | None, mobility: FloatArray
    ) -> float:
        shift = None if shift is None else checks.answer("shift", shift, self.nc)
        w = checks.answer("mobility", mobility, self.nc)
        return cone.largest_map((self.table(f), self.table(g)), shift, self.mu, w)

    def shift(self, g: FloatArray) -> FloatArray:
        return cone.shift(self.table(g), self.mu)

    def shift_gradient(self, g: FloatArray) -> FloatArray:
        return cone.shift_gradient(self.table(g), self.mu)


OPEN, SLIDING, RESTING = 0, 1, 2


class FixedFaces(FrictionCones):
    """Faces of Coulomb's cones that a motion has fixed.

    A resting contact has the whole cone, a sliding one the ray of its slip, an open one no force.

    Parameters
    ----------
    mu : (nc,) friction coefficients.
    d : rows a contact.
    status : (nc,) OPEN, SLIDING or RESTING.
    ray : (nc, d) the force of a sliding contact per unit of normal force; not read at others.
    """

    name, traits = "faces of friction cones", frozenset[str]()

    def __init__(self, mu: FloatArray, d: int, status: IntArray, ray: FloatArray) -> None:
        super().__init__(mu, d)
        self.status, self.ray = status, np.where((status == SLIDING)[:, None], ray, 0.0)

    def take(self, contacts: IntArray) -> FixedFaces:
        contacts = checks.positions("contacts", contacts, self.nc)
        return FixedFaces(self.mu[contacts], self.d, self.status[contacts], self.ray[contacts])

    def in_units(self, unit: FloatArray) -> FixedFaces:
        unit = checks.answer("unit", unit, self.rows)
        table = self.table(unit)
        return FixedFaces(self._ratio(unit), self.d, self.status, self.ray / table * table[:, :1])

    def project(self, y: FloatArray) -> FloatArray:
        tried, f = self.table(y), self.table(super().project(y))
        slides, ray = self.status == SLIDING, self.ray[self.status == SLIDING]
        along = np.maximum(np.sum(ray * tried[slides], axis=1), 0.0) / np.sum(ray**2, axis=1)
        f[slides] = along[:, None] * ray
        f[self.status == OPEN] = 0.0
        return f.ravel()

    def projection_derivative(self, y: FloatArray) -> FloatArray:
        slope = super().projection_derivative(y)
        slides, ray = self.status == SLIDING, self.ray[self.status == SLIDING]
        on = np.sum(ray * self.table(y)[slides], axis=1) > 0.0
        square = np.sum(ray**2, axis=1)
        slope[slides] = (on / square)[:, None, None] * ray[:, :, None] * ray[:, None, :]
        slope[self.status == OPEN] = 0.0
        return slope

    def projection_root(self, y: FloatArray) -> FloatArray:
        return Cones.projection_root(self, y)

    largest_map, projected_work = Cones.largest_map, Cones.projected_work
    law_terms = Cones.law_terms

    def frictional_cut(self, tried: FloatArray) -> FloatArray:
        """Coulomb's micro-slip of closed contacts, from forces ``tried`` (rows,)."""
        closed = self.on_rows((self.status != OPEN).astype(np.float64))
        return closed * super().frictional_cut(tried)

    def cut_derivative(self, tried: FloatArray) -> FloatArray:
        slope = super().cut_derivative(tried)
        slope[self.status == OPEN] = 0.0
        return slope
