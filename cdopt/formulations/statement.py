"""One form of a problem as CVXPY states it.

Solvers see variables without dimensions. A physical quantity is its unit times a variable, and the
constants of a statement are those of ``data.scaled()``: in its units the time step is one, and the
problem reads as it does in physical symbols.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.problem import (
    DelassusStepData,
    ElasticStepData,
    MatrixStepData,
    ProblemData,
    RigidData,
    WarmStart,
)
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.scaling import scaled
from cdopt.problem.solution import Iterate

Self = TypeVar("Self", bound="Statement")


class Statement(ABC):
    """The variables of one form, the problem stated on them, and how to read and write them.

    Attributes
    ----------
    data : the plain data of the problem.
    weight : (parts,) factor of each part's share of the objective. Independent parts share no
        variable, so each may count in its own units.
    problem : the CVXPY problem.
    forces, velocity, displacement : physical quantities as CVXPY expressions of the variables;
        None where the form does not hold them.
    """

    forces: cp.Expression | None = None
    velocity: cp.Expression | None = None
    displacement: cp.Expression | None = None

    def __init__(self, data: ProblemData, state: Callable[[Any], cp.Problem]) -> None:
        self.data = data
        self.weight = np.ones(data.parts.count)
        self._state = state
        self._declare()
        self.problem = state(self)

    @abstractmethod
    def _declare(self) -> None:
        """Make the variables."""

    @abstractmethod
    def iterate(self) -> Iterate | None:
        """The primal–dual pair that the variables hold, in physical units."""

    @abstractmethod
    def seed(self, start: WarmStart) -> None:
        """Write a previous solution into the variables."""

    def with_constraints(self: Self, weight: FloatArray, *constraints: cp.Constraint) -> Self:
        """The same statement on the same variables, with more constraints and other weights."""
        other = copy.copy(self)
        other.weight = weight
        objective = self._state(other).objective
        other.problem = cp.Problem(objective, [*self.problem.constraints, *constraints])
        return other

    # --- constants ---------------------------------------------------------------------

    @property
    def contact_weight(self) -> FloatArray:
        """(nc,) weight of each contact; of an idle one where there is none (CVXPY needs one)."""
        return self.weight[self.data.parts.contact] if self.data.nc else np.ones(1)

    @property
    def dof_weight(self) -> FloatArray:
        """(nv,) weight of each dof."""
        return self.weight[self.data.parts.dof]

    def scaled_forces(self, forces: FloatArray) -> FloatArray:
        """Forces (nc,) in N as values of the variable f."""
        return np.maximum(forces / self.data.force, 0.0) if self.data.nc else np.zeros(1)

    def physical_forces(self, f: Any) -> FloatArray:
        """Values of the variable f as forces (nc,) in N."""
        return self.data.force * np.asarray(f, dtype=float).ravel()[: self.data.nc]


def weighted(matrix: sp.csr_array, weight: FloatArray, name: str) -> cp.Constant:
    """The matrix as a constant, each part's block multiplied by the part's weight."""
    if not np.all(weight == 1.0):
        root = np.sqrt(weight)
        matrix = scaled(matrix, root, root)
    return cp.Constant(matrix, name=name)


class ForceForm(Statement):
    """Variables f ≥ 0 of a step, with w = v⁺ − v* where the step has matrices.

    The quadratic form fᵀN f is then wᵀM w with M w = Bᵀf, so that N is never formed.
    """

    data: RigidData | ElasticStepData

    def _declare(self) -> None:
        data = self.data
        self.f = cp.Variable(max(data.nc, 1), nonneg=True, name="f")
        self.forces = cp.multiply(data.force, self.f[: data.nc])
        self.momentum: list[cp.Constraint] = []
        if isinstance(data, MatrixStepData):
            self.w = cp.Variable(data.nv, name="w")
            self.momentum = [self._momentum(data)]

    def _momentum(self, data: MatrixStepData) -> cp.Constraint:
        """M w = Bᵀf, each row in units of its own mass."""
        M, B = data.scaled().M, data.scaled().B if data.nc else sp.csr_array((1, data.nv))
        own = 1.0 / M.diagonal()
        push = cp.Constant(scaled(B, None, own).T, name="diag(M)⁻¹Bᵀ") @ self.f
        if data.mass.is_diagonal:
            return self.w == push
        return cp.Constant(scaled(M, own, None), name="diag(M)⁻¹M") @ self.w == push

    @property
    def fNf(self) -> cp.Expression:
        """fᵀN f."""
        data = self.data
        if not isinstance(data, DelassusStepData):
            M = weighted(data.scaled().M, self.dof_weight, "M")
            return cp.quad_form(self.w, M, assume_PSD=True)
        N = data.scaled().N if data.nc else sp.csr_array(np.eye(1))
        return cp.quad_form(self.f, weighted(N, self.contact_weight, "N"), assume_PSD=True)

    @property
    def p(self) -> cp.Constant:
        """p (nc,), positive for an idle contact."""
        p = self.data.scaled().p if self.data.nc else np.ones(1)
        return cp.Constant(self.contact_weight * p, name="p")

    @property
    def elastic_energy(self) -> cp.Expression:
        """Σ w*(f)."""
        return _law(self.data).conjugate_expression(self.f, self.contact_weight)

    def iterate(self) -> Iterate | None:
        """f, and the v⁺ that follows from it."""
        if self.f.value is None:
            return None
        forces = self.physical_forces(self.f.value)
        return Iterate(self.data.velocity(forces), forces)

    def seed(self, start: WarmStart) -> None:
        """Write forces, and the motion they cause."""
        self.write(start.forces_on(self.data.contact_ids, self.data.nc))

    def write(self, forces: FloatArray) -> None:
        """Write forces (nc,) in N, and the motion they cause."""
        data = self.data
        self.f.value = self.scaled_forces(forces)
        if isinstance(data, MatrixStepData):
            self.w.value = (data.velocity(forces) - data.free_motion) / data.dof_speed
            pace = self.w.value * data.scaled().M.diagonal()
            seed_dual(self.momentum[0], -self.dof_weight * pace)


class VelocityForm(Statement):
    """Variables w = v⁺ − v* of a step, with overlaps c ≥ 0 where its contacts are elastic."""

    data: MatrixStepData

    def _declare(self) -> None:
        data = self.data
        self.w = cp.Variable(data.nv, name="w")
        self.velocity = cp.multiply(data.dof_speed, self.w) + data.free_motion
        if isinstance(data, ElasticStepData):
            self.c = cp.Variable(max(data.nc, 1), nonneg=True, name="c")

    @property
    def wMw(self) -> cp.Expression:
        """‖v⁺ − v*‖²_M."""
        M = weighted(self.data.scaled().M, self.dof_weight, "M")
        return cp.quad_form(self.w, M, assume_PSD=True)

    @property
    def gap(self) -> cp.Expression:
        """B v⁺ + bias, which is B w + p; positive for an idle contact."""
        s, idle = self.data.scaled(), not self.data.nc
        B = sp.csr_array((1, self.data.nv)) if idle else s.B
        return cp.Constant(B, name="B") @ self.w + cp.Constant(
            np.ones(1) if idle else s.p, name="p"
        )

    @property
    def elastic_energy(self) -> cp.Expression:
        """Σ w(c)."""
        return _law(self.data).energy_expression(self.c, self.contact_weight)

    def iterate(self) -> Iterate | None:
        """v⁺, and f: of rigid contacts the multipliers, of elastic ones by their law."""
        data, multipliers = self.data, self.problem.constraints[0].dual_value
        if self.w.value is None:
            return None
        motion = data.free_motion + data.dof_speed * np.asarray(self.w.value, dtype=float)
        if isinstance(data, ElasticStepData):
            return Iterate(motion, data.law.force(data.overlap(motion, np.zeros(data.nc))))
        if multipliers is None:
            return None
        return Iterate(motion, self.physical_forces(multipliers / self.contact_weight))

    def seed(self, start: WarmStart) -> None:
        """Write the motion that forces cause, and forces as multipliers."""
        self.write(start.forces_on(self.data.contact_ids, self.data.nc))

    def write(self, forces: FloatArray) -> None:
        """Write the motion that forces (nc,) in N cause, and forces as multipliers."""
        data, f = self.data, self.scaled_forces(forces)
        self.w.value = (data.velocity(forces) - data.free_motion) / data.dof_speed
        seed_dual(self.problem.constraints[0], self.contact_weight * f)
        if isinstance(data, ElasticStepData):
            self.c.value = _law(data).overlap(f)


def _law(data: ProblemData) -> PowerLaw:
    """The law of the scaled step; that of an idle contact where there is none."""
    law = data.scaled().law
    return PowerLaw(np.ones(1), HOOKE) if law is None or not data.nc else law


def seed_dual(constraint: cp.Constraint, value: FloatArray) -> None:
    """Write the multiplier of a constraint."""
    constraint.dual_variables[0].save_value(value)


def align(*lines: str) -> str:
    """A LaTeX align environment of these lines."""
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
