"""The two statements of a contact problem in CVXPY: in forces f ∈ K, and in motions.

In forces, with N = G S⁻¹ Gᵀ, and Gᵀf = F̃ where there is no inertia S::

    minimise over f ∈ K    ½ fᵀN f + pᵀf + Σ w*(f)

In motions, with overlaps c where contacts are elastic::

    minimise over w    ½ wᵀS w + F̃ᵀw + Σ w(c)    subject to    G w + p + c ∈ K*

Every formulation is one of both on its ``ContactProblem``. Solvers see variables without
dimensions: a physical quantity is its unit times a variable, and the constants are those of
``data.scales``, in which the time step is one. Multipliers of the motions are the impulses Δt f,
and the optimal values satisfy primal = −Δt · dual.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solution import Solution
from scipy.sparse.linalg import spsolve

from cdopt._util.checks import FloatArray
from cdopt.formulations.cone_forms import form_of, seed_dual
from cdopt.formulations.energies import (
    conjugate_energy,
    elastic_energy,
    force_factor,
    overlap_factor,
    slider_energy,
)
from cdopt.formulations.extension import (
    Addition,
    ExtendedIterate,
    claim,
    in_units,
    optimality,
    with_loads,
    with_rates,
)
from cdopt.formulations.numbers import SIGNED, Number, entries, weighted, with_entries
from cdopt.formulations.printing import PHYSICAL, PrintedProblem, Term, words
from cdopt.problem import ContactProblem, HalfLines, WarmStart
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_problem import Scales
from cdopt.problem.residual import Residual
from cdopt.problem.scaling import scaled
from cdopt.problem.solution import Iterate


class Statement(ABC):
    """The variables of one form, the problem stated on them, and how to read and write them.

    CVXPY does not accept variables of size zero. Without contacts, one without a force is added; if
    no dof of a static network is used, one without a load. The ``weight`` (parts,) multiplies each
    part's share of the objective: independent parts share no variable, so that each may have
    separate units. ``shift`` (nc,) is added to the normal rates.

    The numbers that are ``varying``, by name, are CVXPY parameters: the problem is compiled once
    for all statements that ``with_rates`` derives. ``given`` are expressions in place of numbers.
    """

    w: cp.Variable  # the motion; in forces of steps with matrices alone
    scaled: Scales
    NUMBERS: ClassVar[dict[str, Callable[[Any], Number]]] = {
        "M": lambda s: weighted(s.scaled.S, s.dof_weight)  # each part's block by its weight
    }

    def __init__(
        self,
        data: ContactProblem,
        shift: FloatArray | None = None,
        varying: Collection[str] = (),
        given: Mapping[str, cp.Expression] = MappingProxyType({}),
    ) -> None:
        self.varying, self.given = varying, given
        self._varied = list[tuple[cp.Parameter, str]]()
        self._take(data, shift)
        self._cones = self.scaled.cones if data.nc else HalfLines(1)
        self.dofs = self.scaled.used.size  # without the added one
        if data.is_static and not self.dofs:
            none = sp.csr_array((self.scaled.p.size, 1))
            self.scaled = self.scaled.replaced(B=none, load=np.zeros(1))
        self.weight, self.addition = np.ones(data.parts.count), Addition()
        self.form = form_of(self._cones)
        self._declare()
        claim(*self.own.values(), *(variable for variable, _ in self._others))
        self.conditions = self._conditions()
        self._stated = PrintedProblem(self._terms(), self.conditions)

    @property
    def problem(self) -> cp.Problem:
        """The problem; the numbers that vary are those of this statement."""
        for parameter, name in self._varied:
            parameter.save_value(entries(self.NUMBERS[name](self)))
        return self._stated

    @property
    def parts(self) -> list[Any]:
        """The variables and constraints, in one order for all statements of a structure."""
        return [*self._stated.variables(), *self._stated.constraints]

    def forget(self) -> None:
        """Remove the values of all variables and multipliers."""
        multipliers = (y for one in self._stated.constraints for y in one.dual_variables)
        for variable in (*self._stated.variables(), *multipliers):
            variable.save_value(None)

    def unpack(self, answer: Solution) -> None:
        """Write CVXPY's ``answer`` into the variables and multipliers."""
        values = answer.primal_vars, answer.dual_vars
        self.forget()
        self._stated.unpack(Solution(answer.status, answer.opt_val, *values, {}))  # pickled, too

    def _number(self, name: str) -> cp.Expression:
        """One of ``NUMBERS``: as given, a constant, or a parameter."""
        if name in self.given:
            return self.given[name]
        value = self.NUMBERS[name](self)
        if name not in self.varying:
            return cp.Constant(value, name=name)
        parameter = cp.Parameter(entries(value).size, nonneg=name not in SIGNED)
        self._varied.append((parameter, name))
        return with_entries(value, parameter)

    # physical quantities by the variables; None if the form does not have them

    @property
    def forces(self) -> cp.Expression | None:
        """f (nc,), N."""
        return None

    @property
    def velocity(self) -> cp.Expression | None:
        """v⁺ (nv,), m/s, of a step with matrices."""
        if self.scaled.S is None:
            return None
        unit = cp.Constant(self.scaled.unit, name="v₀")
        return cp.multiply(unit, self.w) + cp.Constant(self.data.free_motion, name="v*")

    @property
    def displacement(self) -> cp.Expression | None:
        """u (nv,), m."""
        return None

    @abstractmethod
    def _declare(self) -> None:
        """Make the variables."""

    @abstractmethod
    def _terms(self) -> list[Term]:
        """The terms of the objective."""

    @abstractmethod
    def _conditions(self) -> list[Term]:
        """The constraints."""

    @abstractmethod
    def iterate(self) -> Iterate | None:
        """The primal–dual pair in the variables, in physical units."""

    @abstractmethod
    def seed(self, start: WarmStart) -> None:
        """Write a previous solution into the variables."""

    @property
    @abstractmethod
    def own(self) -> dict[str, cp.Variable]:
        """The variables that added expressions may use, named "forces" and "motion"."""

    @property
    def unit(self) -> float:
        """Unit of the objective of an extended statement: W of steps in forces, J of others."""
        return float(self.data.part_energy.max(initial=0.0)) or 1.0

    @property
    def _others(self) -> list[tuple[cp.Variable, FloatArray | None]]:
        """Variables that added expressions cannot use, with their units if they have some."""
        return []

    def _unit(self, name: str) -> FloatArray | None:
        """The unit of the "forces", N, or of the "motion"; None if the variable is an added one."""
        if name == "motion":
            return self.scaled.unit if self.dofs else None
        return self.data.force if self.data.nc else None

    def physical_units(self) -> list[tuple[cp.Variable, FloatArray]]:
        """The variables that are forces, motions or overlaps, with their units in N, m/s or m."""
        own = [(variable, self._unit(name)) for name, variable in self.own.items()]
        return [(variable, unit) for variable, unit in own + self._others if unit is not None]

    def extended(self, addition: Addition) -> Self:
        """The same statement on the same variables, with added constraints and objectives.

        They may couple parts, so that all parts have the same unit of energy.
        """
        other, energy = copy.copy(self), self.data.part_energy
        other._varied = list(self._varied)
        other.weight = energy / (float(energy.max(initial=0.0)) or 1.0)
        other.addition = addition
        costs = [
            Term(f"({self.in_words(one)}) / {self.unit:.4g}", cost / self.unit)
            for one, cost in zip(addition.objectives, addition.costs, strict=True)
        ]
        more = addition.stated, [self.in_words(one) for one in addition.constraints]
        other._stated = PrintedProblem([*other._terms(), *costs], self.conditions, *more)
        return other

    def in_words(self, written: cp.Expression | cp.Constraint) -> str:
        """The text of an added expression, with names of physical quantities: "forces[1] ≤ 2.0"."""
        return words(written, {name: getattr(self, name) for name in PHYSICAL})

    def shifted(self, shift: FloatArray) -> Self:
        """The same extended statement with the normal rates shifted by (nc,) m/s."""
        other = self.with_rates(self.data, shift)
        if self.varying:
            return other
        other.conditions = other._conditions()
        return other.extended(self.addition)

    def with_rates(self, data: ContactProblem, shift: FloatArray | None = None) -> Self:
        """The same statement, on the same variables, of the same network at other rates.

        ``shift`` (nc,) in m/s is added to the normal rates of ``data``.
        """
        other = copy.copy(self)
        other._take(data, shift)
        return other

    def _take(self, data: ContactProblem, shift: FloatArray | None) -> None:
        """State ``data``, in its units."""
        self.data = data
        self.scaled = data.scales if data.nc else _with_a_contact(data.scales)
        self._shifted = self._with_shift(shift)

    def with_optimality(self, iterate: Iterate) -> ExtendedIterate:
        """The iterate with the values of the added constraints and objectives."""
        data, weights = self.data, {"forces": self.row_weight, "motion": self.dof_weight}
        by_id = {variable.id: weights[name] for name, variable in self.own.items()}
        conditions = optimality(self.addition, by_id, self.unit)
        if conditions is None:
            unknown = (Residual("added multipliers", np.inf, 1.0, ""),)
            return ExtendedIterate(iterate.motion, iterate.forces, data, (), unknown)
        changes = {"forces": np.zeros(data.rows), "motion": np.zeros(data.nv)}
        for name, variable in self.own.items():
            gradient, unit = conditions.gradient.get(variable.id, 0.0), self._unit(name)
            if unit is not None:
                at = self.scaled.used if name == "motion" else slice(None)
                changes[name][at] = self.unit * gradient / unit
        return ExtendedIterate(
            *(iterate.motion, iterate.forces),
            with_rates(data, changes["forces"], changes["motion"])
            if "forces" in self.own
            else with_loads(data, changes["motion"]),
            tuple(in_units(self.unit, multiplier) for multiplier in conditions.multipliers),
            conditions.residuals,
            float(sum(float(np.sum(one.value)) for one in self.addition.objectives)),
        )

    @abstractmethod
    def weak_duality(
        self, gradient: Mapping[int, FloatArray], constant: float
    ) -> tuple[float, FloatArray, float]:
        """The least value of an affine function under the contact conditions.

        Of the function with a ``gradient``, by id of the variables, and a ``constant``. Also a
        proof, rates (rows,) for a form in forces and forces (rows,) for one in motions, and the
        relative error of the proof.
        """

    # --- common to both ----------------------------------------------------------------

    def _with_shift(self, shift: FloatArray | None) -> FloatArray:
        """(rows,) rates of the free motion, with a ``shift`` (nc,) in m/s of the normal ones."""
        p, data = self.scaled.p, self.data
        if shift is None or not shift.any():
            return p
        p = np.array(p)
        p[data.cones.first] += shift / data.speed[data.cones.first]
        return p

    @property
    def row_weight(self) -> FloatArray:
        """(rows,) weight of each row; of the added contact where there is none."""
        return self.weight[self.data.row_part] if self.data.nc else np.ones(1)

    @property
    def dof_weight(self) -> FloatArray:
        """(m,) weight of each dof used; of the added one where there is none."""
        if not self.dofs:
            return np.ones(self.scaled.load.size)
        return self.weight[self.data.parts.dof[self.scaled.used]]

    def _half(self, x: cp.Variable, name: str) -> Term:
        """½ xᵀA x, of the matrix A with this name."""
        square = cp.quad_form(x, self._number(name), assume_PSD=True)
        return Term(f"½ {x.name()}ᵀ {name} {x.name()}", 0.5 * square)

    def _forces_of(self, start: WarmStart) -> tuple[FloatArray, FloatArray]:
        """Forces (rows,) of a previous solution in N, and as values of the variable f."""
        data = self.data
        forces = start.forces_in(data.cones, data.contact_ids)
        f = forces / data.force if data.nc else np.zeros(1)
        return forces, f if self.form.signed else np.maximum(f, 0.0)

    def _physical_forces(self, f: FloatArray) -> FloatArray:
        """Values of the variable f as forces (rows,) in N."""
        return np.asarray(self.data.force * np.asarray(f, dtype=float).ravel()[: self.data.rows])

    def _motion(self, w: FloatArray) -> FloatArray:
        """The motion (nv,) of values of the variable w."""
        motion, n = np.array(self.data.free_motion), self.dofs
        motion[self.scaled.used] += self.scaled.unit * np.asarray(w, dtype=float).ravel()[:n]
        return motion

    def _displacement_of(self, start: WarmStart) -> FloatArray | None:
        """Values of u of a previous solution, if it has one of this length."""
        u, n = start.motion, self.scaled.load.size
        if u is None or u.shape != self.data.free_motion.shape:
            return None
        used = self.scaled.used
        moved = (u[used] - self.data.free_motion[used]) / self.scaled.unit
        return moved if self.dofs else np.zeros(n)

    def _caused(self, forces: FloatArray) -> FloatArray:
        """Values of w that forces (rows,) in N cause."""
        moved = np.asarray(self.data.velocity(forces)) - self.data.free_motion
        return np.asarray(moved / self.scaled.unit)


def _with_a_contact(problem: Scales) -> Scales:
    """The problem without contacts, with a contact that carries no force."""
    N = None if problem.N is None else sp.csr_array(np.eye(1))
    law = None if problem.compliance is None else PowerLaw(np.ones(1), HOOKE)
    B = sp.csr_array((1, problem.B.shape[1]))
    p = np.zeros(1) if problem.S is None and N is None else np.ones(1)
    return problem.replaced(B=B, N=N, p=p, compliance=law)


def _relative(error: FloatArray, size: FloatArray) -> float:
    """The largest error over the largest ``size``, which is at least one."""
    return float(error.max(initial=0.0)) / max(float(size.max(initial=0.0)), 1.0)


# --- in forces -----------------------------------------------------------------------------


class InForces(Statement):
    """Variables f ∈ K, and w = v⁺ − v* of a step with matrices, so that N is never formed.

    With N alone and cones, fᵀN f has a copy r of f, so that solvers scale it and the cones
    separately, which makes answers of Clarabel slightly more accurate.
    """

    NUMBERS: ClassVar = Statement.NUMBERS | {
        "B": lambda s: scaled(s.scaled.B, None, s._per_mass).T,  # CVXPY's B.T is dense
        "M/m": lambda s: scaled(s.scaled.S, s._per_mass, None),
        "N": lambda s: weighted(s.scaled.N, s.row_weight),
        "p": lambda s: np.asarray(s.row_weight * s._shifted),
        "k": lambda s: force_factor(s.scaled.compliance, s.row_weight),
        "F̃": lambda s: s.scaled.load,
    }

    @property
    def _per_mass(self) -> FloatArray | None:
        """(m,) the inverse diagonal of S, so that each row is in units of its mass."""
        return None if self.scaled.S is None else 1.0 / self.scaled.S.diagonal()

    def _declare(self) -> None:
        if self.scaled.S is not None:
            self.w = cp.Variable(self.scaled.load.size, name="w")
        self.f = cp.Variable(self.scaled.p.size, nonneg=not self.form.signed, name="f")
        self.r = cp.Variable(self.f.size, name="r") if self._copied else self.f

    @property
    def _copied(self) -> bool:
        """Whether r is a copy of f."""
        return self.scaled.N is not None and self.form.signed

    @property
    def forces(self) -> cp.Expression | None:
        """f (nc,), N."""
        data, first = self.data, self.data.cones.first
        normal = self.f if self.f.size == data.nc else self.f[: data.rows][first]
        return cp.multiply(cp.Constant(data.force[first], name="f₀"), normal)

    @property
    def own(self) -> dict[str, cp.Variable]:
        """The forces, and the motion of a step with matrices."""
        return {"forces": self.f} | ({} if self.scaled.S is None else {"motion": self.w})

    @property
    def unit(self) -> float:
        """W of steps, J of static networks."""
        return super().unit / self.data.dt

    def weak_duality(
        self, gradient: Mapping[int, FloatArray], constant: float
    ) -> tuple[float, FloatArray, float]:
        """rᵀf + constant ≥ constant with rates r ∈ K*, of static networks also by Bᵀf = F̃."""
        problem = self.scaled
        rates = gradient.get(self.f.id, np.zeros(self.f.size)).copy()
        moved = np.zeros(problem.B.shape[1])
        if problem.S is not None and self.w.id in gradient:
            moved = spsolve(sp.csc_array(problem.S), gradient[self.w.id])
        elif self.data.is_static:
            moved = np.ravel(self.conditions[0].object.dual_value)
            constant -= float(problem.load @ moved)
        size = np.abs(rates) + abs(problem.B) @ np.abs(moved)
        rates += problem.B @ moved
        return constant, rates, _relative(self._cones.dual_distance(rates), size)

    def with_optimality(self, iterate: Iterate) -> ExtendedIterate:
        """As of any statement, at the motion that the forces cause."""
        if self.scaled.S is not None:
            self.w.value = self._caused(iterate.forces)
        return super().with_optimality(iterate)

    @property
    def _others(self) -> list[tuple[cp.Variable, FloatArray | None]]:
        return [(self.r, self._unit("forces"))] if self._copied else []

    def _terms(self) -> list[Term]:
        problem, law = self.scaled, self.scaled.compliance
        name = "Bū" if self.data.is_static and not self.form.signed else "p"
        shifted = "" if self._shifted is problem.p else " + sᵀ f_n"
        linear = [Term(f"{name}ᵀ f{shifted}", self._number("p") @ self.f)]
        elastic = [] if law is None else [conjugate_energy(law, self.f, self._number("k"))]
        if problem.S is not None:
            return [self._half(self.w, "M"), *linear, *elastic]
        if problem.N is not None:
            return [self._half(self.r, "N"), *linear, *elastic]
        return [*elastic, *(linear if problem.p.any() or self.varying else [])]

    def _conditions(self) -> list[Term]:
        problem, inertia, cones = self.scaled, self.data.inertia, self.form.holds(self.f)
        if inertia is not None:
            caused = self._number("B") @ self.f
            if inertia.is_diagonal:
                return [Term("w = M⁻¹Bᵀ f", self.w == caused), *cones]
            return [Term("M w = Bᵀ f", self._number("M/m") @ self.w == caused), *cones]
        if problem.N is not None:
            return [Term("r = f", self.r == self.f), *cones] if self._copied else cones
        return [Term("Bᵀ f = F̃", self._number("B") @ self.f == self._number("F̃")), *cones]

    def iterate(self) -> Iterate | None:
        """f, and the v⁺ that follows from it; u from the multipliers of Bᵀf = F̃."""
        if self.f.value is None:
            return None
        forces = self._physical_forces(self.f.value)
        if not self.data.is_static:
            return Iterate(self.data.velocity(forces), forces)
        u = self.conditions[0].object.dual_value
        return None if u is None else Iterate(self._motion(u / self.dof_weight), forces)

    def seed(self, start: WarmStart) -> None:
        """Write forces, and the motion they cause, or the displacement as multipliers."""
        forces, self.f.value = self._forces_of(start)
        if self.data.is_static:
            u = self._displacement_of(start)
            if u is not None:
                seed_dual(self.conditions[0].object, self.dof_weight * u)
        elif self.scaled.S is not None:
            self.w.value = self._caused(forces)
            pace = self.w.value * self.scaled.S.diagonal()
            seed_dual(self.conditions[0].object, -self.dof_weight * pace)
        elif self._copied:
            root, self.r.value = np.sqrt(self.row_weight), self.f.value
            N = scaled(sp.csr_array(self.scaled.N), root, root)
            seed_dual(self.conditions[0].object, -(N @ self.f.value))


# --- in motions ----------------------------------------------------------------------------


class InMotion(Statement):
    """Variables w = v⁺ − v* of a step or u of a static network, and overlaps c of elastic contacts.

    With sliders also their slip s.
    """

    NUMBERS: ClassVar = Statement.NUMBERS | {
        "B": lambda s: s.scaled.B,
        "p": lambda s: s._shifted,
        "k": lambda s: overlap_factor(s.scaled.compliance, s.row_weight),
        "F̃": lambda s: s.dof_weight * s.scaled.load,
    }

    def _declare(self) -> None:
        data, size = self.data, self.scaled.load.size
        self.w = cp.Variable(size, name="u" if data.is_static else "w")
        self.c: cp.Variable | None = None
        if self.scaled.compliance is not None:
            self.c = cp.Variable(self.scaled.p.size, nonneg=not self.form.signed, name="c")
        self.s: cp.Variable | None = None
        if data.sliders is not None and data.sliders.cap.size:
            self.s = cp.Variable(data.sliders.start.shape, name="s")

    @property
    def displacement(self) -> cp.Expression | None:
        """u (nv,), m."""
        if not self.data.is_static:
            return None
        used = self.scaled.used
        place = (self.scaled.unit, (used, np.arange(used.size)))
        onto = cp.Constant(sp.csr_array(place, shape=(self.data.nv, self.w.size)), name="U₀")
        return onto @ self.w + cp.Constant(self.data.free_motion, name="ū")

    @property
    def own(self) -> dict[str, cp.Variable]:
        """The motion."""
        return {"motion": self.w}

    @property
    def _others(self) -> list[tuple[cp.Variable, FloatArray | None]]:
        data = self.data
        overlap = None if data.is_static or not data.nc else data.dt * data.speed
        both = (self.c, overlap), (self.s, None)
        return [(variable, unit) for variable, unit in both if variable is not None]

    def weak_duality(
        self, gradient: Mapping[int, FloatArray], constant: float
    ) -> tuple[float, FloatArray, float]:
        """fᵀ(G w + p) + constant − fᵀp with forces f ∈ K that make Gᵀf the gradient."""
        problem, given = self.scaled, gradient.get(self.w.id, np.zeros(self.w.size))
        f = np.zeros(self._shifted.size)
        if self.c is None:
            known = self.form.multipliers(self.conditions)
            f = f if known is None else self._cones.project(np.asarray(known, dtype=float))
        missed = given - problem.B.T @ f
        size = np.abs(given) + abs(problem.B).T @ np.abs(f)
        return constant - float(self._shifted @ f), f, _relative(np.abs(missed), size)

    def _terms(self) -> list[Term]:
        problem, terms = self.scaled, list[Term]()
        if problem.S is not None:
            terms.append(self._half(self.w, "M"))
        if problem.compliance is not None and self.c is not None:
            terms.append(elastic_energy(problem.compliance, self.c, self._number("k")))
        if self.form.loses:
            terms += self.form.lost(self.g, self.row_weight)
        if self.s is not None:
            terms.append(slider_energy(self.data, self.w, self.s, self.weight))
        if self.data.is_static:
            terms.append(Term("F̃ᵀ u", self._number("F̃") @ self.w))
        return terms

    def _conditions(self) -> list[Term]:
        problem, static = self.scaled, self.data.is_static
        name = "Bū" if static and not self.form.signed else "p"
        shifted = "" if self._shifted is problem.p else " + s e_n"
        addends = [(f"B {self.w.name()}", self._number("B") @ self.w)]
        if not static or problem.p.any() or self.varying:
            addends.append((f"{name}{shifted}", self._number("p")))
        if self.c is not None:
            addends.append(("c", self.c))
        names, rates = zip(*addends, strict=True)
        self.g = sum(rates[1:], rates[0])
        conditions = self.form.dual(self.g, " + ".join(names))
        if static and not (problem.B.nnz or problem.load.any()):  # nothing resists or pushes
            conditions.append(Term("u = 0", self.w == 0))
        if self.c is not None and not self.form.signed:
            conditions.append(Term("c ≥ 0", None))
        return conditions

    def iterate(self) -> Iterate | None:
        """The motion, and f: of elastic contacts of a step by their law, else the multipliers."""
        data = self.data
        if self.w.value is None:
            return None
        motion = self._motion(self.w.value)
        if data.compliance is not None and not data.is_static:
            return Iterate(motion, data.contact_forces(data.overlap(motion, np.zeros(data.rows))))
        if data.compliance is not None and data.compliance.pulls and self.c is not None:  # springs
            c = self.c.value
            return None if c is None else Iterate(motion, self._physical_forces(c))
        f = self.form.multipliers(self.conditions)
        return None if f is None else Iterate(motion, self._physical_forces(f / self.row_weight))

    def seed(self, start: WarmStart) -> None:
        """Write the motion that forces cause, overlaps, and forces as multipliers."""
        forces, f = self._forces_of(start)
        w = self._displacement_of(start) if self.data.is_static else self._caused(forces)
        if w is None:
            return
        self.w.value = w
        if self.c is not None and self.scaled.compliance is not None:
            self.c.value = self.scaled.compliance.overlap(f)
        if self.s is not None:
            self.s.value = np.zeros(self.s.shape)
        if self.conditions:
            self.form.seed(self.conditions, self.row_weight * f)
