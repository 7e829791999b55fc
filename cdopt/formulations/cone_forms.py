"""CVXPY statements of forces in the cones K, and of rates in the dual cones K*.

A stretched Lorentz cone, or a class that extends a cone with a form, needs no form here; any other
cone needs one, with an entry in ``_FORMS``.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import MulExpression

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.formulations.printing import Term
from cdopt.problem import Cones, FrictionCones, HalfLines
from cdopt.problem.boxes import Boxes
from cdopt.problem.cone_products import Product
from cdopt.problem.cones import OPEN, RESTING, SLIDING, SYMMETRIC, FixedFaces, Lines
from cdopt.problem.rolling_cones import RollingCones


class ConeForm(ABC):
    """The cones of a problem in CVXPY.

    Attributes
    ----------
    signed : whether forces may be negative.
    loses : whether ``lost`` has terms.
    conditions : the number of first conditions of ``dual`` whose multipliers are the forces.
    """

    signed = True
    loses = False
    conditions: int = 1

    def __init__(self, cones: Any) -> None:
        self.cones = cones

    @property
    def key(self) -> Hashable:
        """Equal for forms that are the same but for their rates; None where this is not known."""
        return None

    @abstractmethod
    def holds(self, f: cp.Expression) -> list[Term]:
        """f ∈ K, for a variable (rows,)."""

    @abstractmethod
    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """g ∈ K*, for rates (rows,) with a ``name``."""

    def lost(self, rates: cp.Expression, weight: FloatArray) -> list[Term]:
        """Terms of the objective in motions: the power that ``rates`` (rows,) dissipate in sets K.

        It is the support function of K at −g, times the ``weight`` (rows,): zero for cones.
        """
        return []

    def multipliers(self, stated: list[Term]) -> FloatArray | None:
        """(rows,) forces, from the multipliers of the constraints ``stated`` by ``dual``.

        None, as here, where forces are those of springs.
        """
        return None

    def seed(self, stated: list[Term], f: FloatArray) -> None:  # noqa: B027
        """Write forces f (rows,) as the multipliers of the constraints ``stated`` by ``dual``."""


class HalfLineForm(ConeForm):
    """f ≥ 0 as the sign of the variable; g ≥ 0."""

    signed = False

    @property
    def key(self) -> Hashable:
        return type(self), self.cones.nc

    def holds(self, f: cp.Expression) -> list[Term]:
        """Only the sign of f, unless the variable has it."""
        return [Term("f ≥ 0", None if f.is_nonneg() else f >= 0)]

    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """g ≥ 0."""
        return [Term(f"{name} ≥ 0", g >= 0)]

    def multipliers(self, stated: list[Term]) -> FloatArray | None:
        """(nc,) multipliers of g ≥ 0."""
        value = stated[0].object.dual_value
        return None if value is None else np.asarray(value)

    def seed(self, stated: list[Term], f: FloatArray) -> None:
        """Write forces f (nc,)."""
        seed_dual(stated[0].object, f)


class LineForm(HalfLineForm):
    """Any f; g = 0."""

    signed = True

    def holds(self, f: cp.Expression) -> list[Term]:
        """Nothing."""
        return [Term("f free", None)]

    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """g = 0, with the sign that makes forces its multipliers."""
        return [Term(f"{name} = 0", -g == 0)]


class BoxForm(ConeForm):
    """|f| ≤ a; any g, which dissipates the power a|g|."""

    loses, conditions = True, 0
    cones: Boxes

    def holds(self, f: cp.Expression) -> list[Term]:
        """−a ≤ f ≤ a."""
        return [Term("|f| ≤ a", cp.abs(f) <= cp.Constant(self.cones.most, name="a"))]

    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """Nothing: no rate is excluded."""
        return []

    def lost(self, rates: cp.Expression, weight: FloatArray) -> list[Term]:
        """Σ a|g|."""
        return [Term("aᵀ |g|", cp.Constant(weight * self.cones.most, name="a") @ cp.abs(rates))]


class LorentzForm(ConeForm):
    """Stretched Lorentz cones: ‖(f_j/μ_j)‖ ≤ f_n, ‖(μ_j g_j)‖ ≤ g_n; f_j = 0 where μ_j = 0.

    μ_j are the ``stretch`` of the cones. It serves every kind with the trait ``SYMMETRIC``.
    """

    dual_name = "‖(μ_j ({0})_j)‖ ≤ ({0})_n"

    def __init__(self, cones: Cones) -> None:
        super().__init__(cones)
        self.mu = cones.table(cones.stretch)[:, 1:]

    @property
    def key(self) -> Hashable:
        return type(self), self.mu.shape, self.mu.tobytes()

    def holds(self, f: cp.Expression) -> list[Term]:
        """‖(f_j/μ_j)‖ ≤ f_n."""
        mu = self.mu
        table = cp.reshape(f, (self.cones.nc, self.cones.d), order="C")
        over = cp.Constant(1.0 / np.where(mu > 0.0, mu, 1.0), name="μ⁻¹")
        inside = cp.SOC(table[:, 0], cp.multiply(over, table[:, 1:]), axis=1)
        terms = [Term("‖(f_j/μ_j)‖ ≤ f_n", inside)]
        if np.any(mu == 0.0):
            nothing = np.flatnonzero(np.hstack([np.ones((self.cones.nc, 1)), mu]).ravel() == 0.0)
            terms.append(Term("f_j = 0 where μ_j = 0", f[nothing] == 0))
        return terms

    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """‖(μ_j g_j)‖ ≤ g_n."""
        rows = np.arange(self.cones.rows).reshape(-1, self.cones.d)
        sliding = cp.reshape(_at(g, rows[:, 1:].ravel()), self.mu.shape, order="C")
        inside = cp.SOC(_at(g, rows[:, 0]), cp.multiply(self.mu, sliding), axis=1)
        return [Term(self.dual_name.format(name), inside)]

    def multipliers(self, stated: list[Term]) -> FloatArray | None:
        """(rows,) forces from the multipliers (f_n, f_j/μ_j) of the cones."""
        value = stated[0].object.dual_value
        if value is None or value[0] is None:
            return None
        others = self.mu * np.reshape(np.asarray(value[1], dtype=float), self.mu.shape)
        return np.column_stack([np.ravel(value[0]), others]).ravel()

    def seed(self, stated: list[Term], f: FloatArray) -> None:
        """Write forces f (rows,) as (f_n, f_j/μ_j)."""
        table, mu = self.cones.table(f), self.mu
        seed_dual(stated[0].object, table[:, 0], table[:, 1:] / np.where(mu > 0.0, mu, np.inf))


class FrictionForm(LorentzForm):
    """‖f_T‖ ≤ μ f_n, and μ‖g_T‖ ≤ g_n, with one coefficient a contact."""

    dual_name = "μ ‖({0})_T‖ ≤ ({0})_n"

    def holds(self, f: cp.Expression) -> list[Term]:
        """‖f_T‖ ≤ μ f_n; for μ = 0 the sign of f_n remains."""
        columns = cp.reshape(f, (self.cones.nc, self.cones.d), order="C")
        normal = columns[:, 0]
        bound = cp.multiply(cp.Constant(self.cones.mu, name="μ"), normal)
        return [
            Term("‖f_T‖ ≤ μ f_n", cp.SOC(bound, columns[:, 1:], axis=1)),
            Term("f_n ≥ 0", normal >= 0),
        ]


class FacedForm(ConeForm):
    """Cones at resting contacts, rays at sliding ones, and no force at open ones."""

    cones: FixedFaces

    def _rows(self, status: int) -> tuple[IntArray, IntArray]:
        """The contacts (n,) of a status, and their rows (n, d)."""
        which = np.flatnonzero(self.cones.status == status)
        return which, which[:, None] * self.cones.d + np.arange(self.cones.d)

    def holds(self, f: cp.Expression) -> list[Term]:
        """‖f_T‖ ≤ μ f_n, f = α r, or f = 0."""
        (rests, rows), (slides, along) = self._rows(RESTING), self._rows(SLIDING)
        _, opened = self._rows(OPEN)
        terms = []
        if rests.size:
            table = cp.reshape(f[rows.ravel()], rows.shape, order="C")
            bound = cp.multiply(cp.Constant(self.cones.mu[rests], name="μ"), table[:, 0])
            terms = [
                Term("‖f_T‖ ≤ μ f_n where contacts rest", cp.SOC(bound, table[:, 1:], axis=1)),
                Term("f_n ≥ 0", table[:, 0] >= 0),
            ]
        if slides.size:
            share = cp.Variable(slides.size, nonneg=True, name="α")
            columns = np.repeat(np.arange(slides.size), self.cones.d)
            onto = sp.csr_array((self.cones.ray[slides].ravel(), (np.arange(along.size), columns)))
            terms.append(Term("f = α r where they slide", f[along.ravel()] == onto @ share))
        if opened.size:
            terms.append(Term("f = 0 where they are open", f[opened.ravel()] == 0))
        return terms

    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """g in the dual cones of resting contacts, and not against the rays."""
        (rests, rows), (slides, along) = self._rows(RESTING), self._rows(SLIDING)
        terms = []
        if rests.size:
            table = cp.reshape(_at(g, rows.ravel()), rows.shape, order="C")
            mu = np.repeat(self.cones.mu[rests][:, None], self.cones.d - 1, axis=1)
            inside = cp.SOC(table[:, 0], cp.multiply(mu, table[:, 1:]), axis=1)
            terms = [Term(f"μ ‖({name})_T‖ ≤ ({name})_n where contacts rest", inside)]
        if slides.size:
            columns = np.repeat(np.arange(slides.size), self.cones.d)
            entries = (self.cones.ray[slides].ravel(), (columns, along.ravel()))
            onto = sp.csr_array(entries, shape=(slides.size, self.cones.rows))
            terms.append(Term(f"rᵀ ({name}) ≥ 0 where they slide", onto @ g >= 0))
        return terms


class RollingForm(ConeForm):
    """‖f_k‖ ≤ μ_k f_n of each group; Σ x_k ≤ g_n with μ_k ‖g_k‖ ≤ x_k."""

    cones: RollingCones

    @property
    def conditions(self) -> int:  # type: ignore[override]
        """The sum, and one for each group."""
        return 1 + len(self.cones.widths)

    def _groups(self) -> list[tuple[FloatArray, IntArray]]:
        """The coefficient (nc,) of each group, and its rows (nc, width)."""
        ends = np.cumsum([1, *self.cones.widths])
        begins = np.arange(self.cones.nc)[:, None] * self.cones.d
        pieces = zip(self.cones.limits.T, ends[:-1], ends[1:], strict=True)
        return [(mu, begins + np.arange(a, b)) for mu, a, b in pieces]

    def holds(self, f: cp.Expression) -> list[Term]:
        """‖f_k‖ ≤ μ_k f_n of each group; f_n ≥ 0."""
        normal, terms = f[:: self.cones.d], []
        for k, (mu, rows) in enumerate(self._groups(), 1):
            bound = cp.multiply(cp.Constant(mu, name=f"μ{k}"), normal)
            inside = cp.SOC(bound, cp.reshape(f[rows.ravel()], rows.shape, order="C"), axis=1)
            terms.append(Term(f"‖f_{k}‖ ≤ μ{k} f_n", inside))
        return [*terms, Term("f_n ≥ 0", normal >= 0)]

    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """Σ x_k ≤ g_n, and a cone for each group."""
        terms, total = list[Term](), cp.Constant(np.zeros(self.cones.nc))
        for k, (mu, rows) in enumerate(self._groups(), 1):
            share, factor = (
                cp.Variable(self.cones.nc, name=f"x{k}"),
                mu[:, None] * np.ones(rows.shape),
            )
            sliding = cp.multiply(factor, cp.reshape(_at(g, rows.ravel()), rows.shape, order="C"))
            inside = cp.SOC(share, sliding, axis=1)
            terms.append(Term(f"μ{k} ‖({name})_{k}‖ ≤ x{k}", inside))
            total = total + share
        normal = _at(g, slice(None, None, self.cones.d))
        return [Term(f"Σ x ≤ ({name})_n", normal - total >= 0), *terms]

    def multipliers(self, stated: list[Term]) -> FloatArray | None:
        """(rows,) f_n of the sum, f_k/μ_k of the cones."""
        normal, f = stated[0].object.dual_value, np.zeros(self.cones.rows)
        if normal is None:
            return None
        f[:: self.cones.d] = normal
        for term, (mu, rows) in zip(stated[1:], self._groups(), strict=True):
            value = np.reshape(np.asarray(term.object.dual_value[1], dtype=float), rows.shape)
            f[rows] = mu[:, None] * value
        return f

    def seed(self, stated: list[Term], f: FloatArray) -> None:
        """Write forces f (rows,) as f_n and (f_n, f_k/μ_k)."""
        normal = f[:: self.cones.d]
        seed_dual(stated[0].object, normal)
        for term, (mu, rows) in zip(stated[1:], self._groups(), strict=True):
            seed_dual(term.object, normal, f[rows] / np.where(mu > 0.0, mu, np.inf)[:, None])


class ProductForm(ConeForm):
    """The forms of all parts, one after the other."""

    cones: Product

    def __init__(self, cones: Product) -> None:
        super().__init__(cones)
        ends = np.cumsum([0, *(part.rows for part in cones.parts)]).tolist()
        pieces = zip(cones.parts, ends[:-1], ends[1:], strict=True)
        self.parts = [(form_of(part), slice(a, b)) for part, a, b in pieces if b > a]
        self.conditions = sum(form.conditions for form, _ in self.parts)
        self.loses = any(form.loses for form, _ in self.parts)

    @property
    def key(self) -> Hashable:
        keys = tuple(form.key for form, _ in self.parts)
        return None if None in keys else keys

    def holds(self, f: cp.Expression) -> list[Term]:
        """Those of each part."""
        return [term for form, rows in self.parts for term in form.holds(f[rows])]

    def dual(self, g: cp.Expression, name: str) -> list[Term]:
        """Those of each part, first those with forces as multipliers."""
        first, others = list[Term](), list[Term]()
        for form, rows in self.parts:
            terms = form.dual(_at(g, rows), name)
            first += terms[: form.conditions]
            others += terms[form.conditions :]
        return first + others

    def lost(self, rates: cp.Expression, weight: FloatArray) -> list[Term]:
        """Those of each part."""
        each = [form.lost(rates[rows], weight[rows]) for form, rows in self.parts if form.loses]
        return [term for terms in each for term in terms]

    def _stated(self, stated: list[Term]) -> list[tuple[ConeForm, slice, list[Term]]]:
        """Each form, its rows, and what it has stated."""
        ends = np.cumsum([0, *(form.conditions for form, _ in self.parts)]).tolist()
        pieces = zip(self.parts, ends[:-1], ends[1:], strict=True)
        return [(form, rows, stated[a:b]) for (form, rows), a, b in pieces]

    def multipliers(self, stated: list[Term]) -> FloatArray | None:
        """(rows,) those of each part."""
        each = [form.multipliers(terms) for form, _, terms in self._stated(stated)]
        known = [f for f in each if f is not None]
        return np.concatenate(known) if len(known) == len(each) else None

    def seed(self, stated: list[Term], f: FloatArray) -> None:
        """Write forces f (rows,)."""
        for form, rows, terms in self._stated(stated):
            form.seed(terms, f[rows])


_FORMS: dict[type[Cones], type[ConeForm]] = {
    HalfLines: HalfLineForm,
    Lines: LineForm,
    Boxes: BoxForm,
    FrictionCones: FrictionForm,
    FixedFaces: FacedForm,
    RollingCones: RollingForm,
    Product: ProductForm,
}


def form_of(cones: Cones) -> ConeForm:
    """The CVXPY statement of these cones, or that of the nearest base class that has one.

    Raises
    ------
    Unsupported : cones without a form that are no stretched Lorentz cones.
    """
    for kind in type(cones).__mro__:
        if kind in _FORMS:
            return _FORMS[kind](cones)
    if SYMMETRIC not in cones.traits:
        raise Unsupported(cones.name, "they have no form in CVXPY, in formulations.cone_forms")
    return LorentzForm(cones)


def _at(x: cp.Expression, rows: IntArray | slice) -> cp.Expression:
    """Rows of a vector or matrix, of sums and products those of their constants where they can be.

    Rows of an expression cost CVXPY another sparse product when it compiles.
    """
    if isinstance(x, cp.Constant):
        return cp.Constant(x.value[rows])
    if isinstance(x, AddExpression):
        return functools.reduce(operator.add, (_at(part, rows) for part in x.args))
    if isinstance(x, MulExpression) and isinstance(x.args[0], cp.Constant):
        return _at(x.args[0], rows) @ x.args[1]
    return x[rows]


def seed_dual(constraint: cp.Constraint, *values: FloatArray) -> None:
    """Write the multiplier of a constraint; two of a second-order cone."""
    for variable, value in zip(constraint.dual_variables, values, strict=True):
        variable.save_value(value)
