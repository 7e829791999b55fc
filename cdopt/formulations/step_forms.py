"""The two forms of a step with inertia: forces f ≥ 0, or velocities v⁺.

The multipliers of the velocity form are the impulses Δt f, and primal = −Δt · dual.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Annotated, Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, one_of
from cdopt._util.errors import Unsupported
from cdopt.formulations.base import Formulation
from cdopt.formulations.statement import Statement, conjugate_energy, elastic_energy, seed_dual
from cdopt.problem import (
    DelassusStepData,
    ElasticStepData,
    RigidData,
    SlidingStepData,
    WarmStart,
)
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import DelassusStep, Step
from cdopt.problem.scaling import ScaledDelassus, ScaledDynamics, scaled
from cdopt.problem.solution import Iterate

Form = Annotated[str, one_of(("force", "velocity"))]


def possible_form(form: str, step: Step) -> str:
    """The same form; velocities of a step that holds none are refused."""
    if form == "velocity" and isinstance(step, DelassusStep):
        why = "the step is known by N and p alone, which hold no velocity"
        raise Unsupported("velocity form", why, ("form='force'",))
    return form


class StepFormulation(Formulation):
    """One step in force or velocity form, its contacts rigid or elastic."""

    data: RigidData | ElasticStepData
    statement: ForceForm | VelocityForm
    step: Step

    @staticmethod
    @abstractmethod
    def _force_form(x: ForceForm) -> cp.Problem:
        """The problem in the forces, on the variables ``x``."""

    @staticmethod
    @abstractmethod
    def _velocity_form(x: VelocityForm) -> cp.Problem:
        """The problem in the velocities, on the variables ``x``."""

    def _stated(self) -> ForceForm | VelocityForm:
        if self.form == "force" or isinstance(self.data, DelassusStepData):
            return ForceForm(self.data, self._force_form)
        return VelocityForm(self.data, self._velocity_form)

    def _multipliers(self, iterate: Iterate) -> FloatArray:
        """Force form: the gap's speed; velocity form: the impulses."""
        if self.form == "force":
            return self.data.gap(iterate.motion, iterate.forces)
        return iterate.forces * self.data.dt

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        gap = self.data.gap(iterate.motion, iterate.forces)
        dual = gap if self.form == "force" else self._multipliers(iterate)
        return {"v_next": iterate.motion, "gap": gap, "dual": dual}

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "force":
            return float(self.data.force_objective(iterate.forces).sum())
        return float(self.data.velocity_objective(iterate.motion, iterate.forces).sum())


def _with_a_contact(step: ScaledDynamics | ScaledDelassus) -> ScaledDynamics | ScaledDelassus:
    """The step, with an open contact where it has none."""
    if step.p.size:
        return step
    if isinstance(step, ScaledDelassus):
        return ScaledDelassus(sp.csr_array(np.eye(1)), np.ones(1))
    B, law = sp.csr_array((1, step.M.shape[0])), PowerLaw(np.ones(1), HOOKE)
    return dataclasses.replace(step, B=B, p=np.ones(1), law=law)


class StepForm(Statement):
    """What all forms share: the scaled step, its motion w = v⁺ − v* and its forces f."""

    data: Any  # of a step: rigid, elastic or with friction
    scaled: Any  # ScaledDynamics, or ScaledDelassus with N and p alone
    w: cp.Variable
    f: cp.Variable

    def _declare(self) -> None:
        self.scaled = _with_a_contact(self.data.scaled())

    def _quad_form(
        self, x: cp.Variable, A: sp.csr_array, weight: FloatArray, name: str
    ) -> cp.Expression:
        """xᵀA x, each part's block multiplied by the part's weight."""
        if not np.all(weight == 1.0):
            A = scaled(A, np.sqrt(weight), np.sqrt(weight))
        return cp.quad_form(x, cp.Constant(A, name=name), assume_PSD=True)

    @property
    def wMw(self) -> cp.Expression:
        """‖v⁺ − v*‖²_M."""
        return self._quad_form(self.w, self.scaled.M, self.dof_weight, "M")

    @property
    def fNf(self) -> cp.Expression:
        """fᵀN f."""
        if isinstance(self.scaled, ScaledDelassus):
            return self._quad_form(self.f, self.scaled.N, self.contact_weight, "N")
        return self.wMw

    def _declare_motion(self) -> None:
        """Make w and the expression of v⁺."""
        data = self.data
        self.w = cp.Variable(data.nv, name="w")
        unit = cp.Constant(data.dof_speed, name="v₀")
        self.velocity = cp.multiply(unit, self.w) + cp.Constant(data.free_motion, name="v*")

    def motion(self) -> FloatArray | None:
        """v⁺ (nv,), m/s, that the variable w holds."""
        data, w = self.data, self.w.value
        return None if w is None else np.asarray(data.free_motion + data.dof_speed * w)

    def _seed_motion(self, forces: FloatArray) -> None:
        """Write the motion that forces (nc,) in N cause."""
        data = self.data
        self.w.value = (data.velocity(forces) - data.free_motion) / data.dof_speed


class ForceForm(StepForm):
    """Variables f ≥ 0 of a step, with w = v⁺ − v* where the step has matrices.

    Then fᵀN f is wᵀM w with M w = Bᵀf, so that N is never formed.
    """

    def _declare(self) -> None:
        super()._declare()
        step = self.scaled
        self.f = cp.Variable(step.p.size, nonneg=True, name="f")
        self.forces = self.in_newtons(self.f)
        self.momentum: list[cp.Constraint] = []
        if isinstance(step, ScaledDynamics):
            self.w = cp.Variable(self.data.nv, name="w")
            self.momentum = [self._momentum(step)]

    def _momentum(self, step: ScaledDynamics) -> cp.Constraint:
        """M w = Bᵀf, each row in units of its own mass."""
        unit = 1.0 / step.M.diagonal()
        B = scaled(step.B, None, unit)
        if self.data.mass.is_diagonal:
            return self.w == cp.Constant(B.T, name="M⁻¹Bᵀ") @ self.f
        M = cp.Constant(scaled(step.M, unit, None), name="M")
        return M @ self.w == cp.Constant(B.T, name="Bᵀ") @ self.f

    @property
    def p(self) -> cp.Constant:
        """p (nc,)."""
        return cp.Constant(self.contact_weight * self.scaled.p, name="p")

    @property
    def conjugate_energy(self) -> cp.Expression:
        """Σ w*(f)."""
        return conjugate_energy(self.scaled.law, self.f, self.contact_weight)

    def iterate(self) -> Iterate | None:
        """f, and the v⁺ that follows from it."""
        if self.f.value is None:
            return None
        forces = self.physical_forces(self.f.value)
        return Iterate(self.data.velocity(forces), forces)

    def seed(self, start: WarmStart) -> None:
        """Write forces, and the motion they cause."""
        forces, self.f.value = self.forces_of(start)
        if self.momentum:
            self._seed_motion(forces)
            pace = self.w.value * self.scaled.M.diagonal()
            seed_dual(self.momentum[0], -self.dof_weight * pace)


class VelocityForm(StepForm):
    """Variables w = v⁺ − v* of a step, with overlaps c ≥ 0 where its contacts are elastic."""

    def _declare(self) -> None:
        super()._declare()
        self._declare_motion()
        data = self.data
        if isinstance(data, ElasticStepData):
            self.c = cp.Variable(self.scaled.p.size, nonneg=True, name="c")
        self.slip: cp.Variable | None = None
        if isinstance(data, SlidingStepData) and data.cap.size:
            self.slip = cp.Variable(data.start.shape, name="s")

    @property
    def gap(self) -> cp.Expression:
        """B v⁺ + bias, which is B w + p."""
        step = self.scaled
        return cp.Constant(step.B, name="B") @ self.w + cp.Constant(step.p, name="p")

    @property
    def elastic_energy(self) -> cp.Expression:
        """Σ w(c)."""
        return elastic_energy(self.scaled.law, self.c, self.contact_weight)

    @property
    def slider_energy(self) -> cp.Expression:
        """Σ ψ: least over the slip s of K/2 ‖s − y/K‖² + cap ‖s‖."""
        data = self.data
        if self.slip is None:
            return cp.Constant(0.0)
        n, m = data.start.shape
        energy = self.weight * data.dt / data.duration / data.part_energy
        length = data.duration * data.part_speed[data.slider_part]
        moved = scaled(data.B_t, np.repeat(-data.duration / length, m), data.dof_speed)
        begin = data.tried(data.free_motion) / (data.growth * length)[:, None]
        stretch = cp.reshape(cp.Constant(moved, name="B_t") @ self.w, (n, m), order="C")
        stretch = stretch + cp.Constant(begin, name="t")
        stiff = energy[data.slider_part] * data.growth * length**2
        cap = cp.Constant(energy[data.slider_part] * data.cap * length, name="cap")
        root = cp.Constant(np.sqrt(stiff)[:, None] * np.ones(m), name="√K")
        spring = 0.5 * cp.sum_squares(cp.multiply(root, stretch - self.slip))
        size = cp.norm(self.slip, 2, axis=1) if m > 1 else cp.abs(self.slip)[:, 0]
        return spring + cap @ size

    def iterate(self) -> Iterate | None:
        """v⁺, and f: of rigid contacts the multipliers, of elastic ones by their law."""
        data, motion = self.data, self.motion()
        multipliers = self.problem.constraints[0].dual_value
        if motion is None:
            return None
        if isinstance(data, ElasticStepData):
            return Iterate(motion, data.law.force(data.overlap(motion, np.zeros(data.nc))))
        if multipliers is None:
            return None
        return Iterate(motion, self.physical_forces(multipliers / self.contact_weight))

    def seed(self, start: WarmStart) -> None:
        """Write the motion that forces cause, and forces as multipliers."""
        forces, f = self.forces_of(start)
        self._seed_motion(forces)
        seed_dual(self.problem.constraints[0], self.contact_weight * f)
        if isinstance(self.data, ElasticStepData):
            self.c.value = self.scaled.law.overlap(f)
        if self.slip is not None:
            self.slip.value = np.zeros(self.slip.shape)
