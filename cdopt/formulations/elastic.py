"""What steps of bodies with inertia on elastic contacts share: both statements, and reading them.

Compliant contact dynamics and the variational integrator are one convex problem with other
matrices (``ElasticStepData``); each file of theirs says which.
"""

from __future__ import annotations

from abc import abstractmethod

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.backends.posing import posed_once
from cdopt.formulations.base import Formulation
from cdopt.formulations.classic_cd import FORMS
from cdopt.formulations.statement import Statement, momentum, weighted
from cdopt.problem import ElasticStepData
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep, DelassusStep, Step
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart


class ElasticStep(Formulation):
    """One step with inertia and elastic contacts, in force or velocity form.

    Attributes
    ----------
    step : the step as it was given.
    forces : CVXPY expression of f, N (force form).
    velocity : CVXPY expression of the velocity (nv,), m/s (velocity form).
    """

    data: ElasticStepData
    step: ContactStep
    statement: ElasticStatement

    def _take(self, step: Step, form: str) -> ContactStep:
        """Keep the step and the form asked for.

        Raises
        ------
        InvalidInput : not a ContactStep, or no such form.
        Unsupported : a step known by N and p alone.
        """
        if isinstance(step, DelassusStep):
            raise Unsupported(type(self).__name__, "the step is known by N and p alone")
        if not isinstance(step, ContactStep):
            raise InvalidInput("step", checks.describe(step), "a ContactStep")
        self.form = checks.choice("form", form, FORMS)
        self.step = step
        return step

    def _pose(self, data: ElasticStepData) -> None:
        """State the problem of these data in the form asked for."""
        self.data = data
        self.statement = (_Force if self.form == "force" else _Velocity)(data)

    @property
    def forces(self) -> cp.Expression | None:
        """CVXPY expression of f (nc,), N; None in velocity form."""
        return self.statement.forces

    @property
    def velocity(self) -> cp.Expression | None:
        """CVXPY expression of the velocity (nv,), m/s; None in force form."""
        return self.statement.velocity

    @property
    def _quadratic(self) -> bool:
        return self.data.nc == 0 or self.data.law.power == HOOKE

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.rigid.part_energy

    def _multipliers(self, iterate: Iterate) -> FloatArray:
        """Force form: the gap's speed at the end; velocity form: the impulses."""
        if self.form == "force":
            return self.data.rigid.gap(iterate.motion, iterate.forces)
        return iterate.forces * self.data.rigid.dt

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "force":
            return float(self.data.dual(iterate.forces).sum())
        return float(self.data.primal(iterate.motion, iterate.forces).sum())


# --- the two statements ----------------------------------------------------------------


class ElasticStatement(Statement):
    """What both forms share: the scaled motion w = v⁺ − v*, and how to write forces."""

    data: ElasticStepData

    @posed_once
    def w(self) -> cp.Variable:
        """Scaled v⁺ − v*."""
        return cp.Variable(self.data.rigid.dof_speed.size, name="w")

    @posed_once
    def motion(self) -> cp.Expression:
        """v⁺ (nv,), m/s, in either form."""
        return cp.multiply(self.data.rigid.dof_speed, self.w) + self.data.free_motion

    def kinetic(self) -> cp.Expression:
        """½ wᵀM w."""
        mass = weighted(self.data.scaled().M, self.weight[self.data.parts.dof])
        return 0.5 * cp.quad_form(self.w, mass, assume_PSD=True)

    def padded(self) -> tuple[PowerLaw, FloatArray, FloatArray]:
        """The scaled law, gaps and weights; an idle contact stands for none (CVXPY needs one)."""
        data, scaled = self.data, self.data.scaled()
        if data.nc == 0 or scaled.law is None:
            return PowerLaw(np.ones(1), HOOKE), np.ones(1), np.ones(1)
        return scaled.law, scaled.p, self.weight[data.parts.contact]

    def seed(self, start: WarmStart) -> None:
        """Write forces and the motion they cause."""
        self.write(start.forces_on(self.data.contact_ids, self.data.nc))

    def write(self, forces: FloatArray) -> None:
        """Write forces (nc,), N, and the motion they cause."""
        data, f = self.data, np.maximum(forces, 0.0)
        self.w.value = (data.rigid.velocity(f) - data.free_motion) / data.rigid.dof_speed
        if data.nc:
            self._write(f / data.rigid.force)

    @abstractmethod
    def _write(self, scaled: FloatArray) -> None:
        """Write the other variable, from scaled forces (nc,)."""


class _Force(ElasticStatement):
    """min over f ≥ 0 of ½ fᵀN f + pᵀf + (1/Δt) Σ w*(f), with M w = Δt Bᵀf."""

    @posed_once
    def f(self) -> cp.Variable:
        """Scaled forces."""
        return cp.Variable(max(self.data.nc, 1), nonneg=True, name="f")

    @posed_once
    def forces(self) -> cp.Expression:
        """f (nc,), N."""
        return cp.multiply(self.data.rigid.force, self.f[: self.data.nc])

    @posed_once
    def constraints(self) -> list[cp.Constraint]:
        """M w = Δt Bᵀf."""
        scaled = self.data.scaled()
        return [momentum(scaled.M, scaled.B, self.w, self.f[: self.data.nc])]

    def objective(self) -> cp.Expression:
        """½ wᵀM w / Δt + pᵀf + (1/Δt) Σ w*(f)."""
        law, opening, own = self.padded()
        return self.kinetic() + (own * opening) @ self.f + law.conjugate_expression(self.f, own)

    def iterate(self) -> Iterate | None:
        """f, and the motion that follows from it."""
        if self.f.value is None:
            return None
        rigid = self.data.rigid
        f = rigid.force * np.asarray(self.f.value, dtype=float).ravel()[: self.data.nc]
        return Iterate(rigid.velocity(f), f)

    def _write(self, scaled: FloatArray) -> None:
        self.f.value = scaled


class _Velocity(ElasticStatement):
    """min over v⁺ of ½ ‖v⁺ − v*‖²_M + Σ w(c), with overlaps c ≥ 0 as a second variable."""

    @posed_once
    def c(self) -> cp.Variable:
        """Scaled overlaps."""
        return cp.Variable(max(self.data.nc, 1), nonneg=True, name="c")

    @property
    def velocity(self) -> cp.Expression:
        """v⁺ (nv,), m/s."""
        return self.motion

    @posed_once
    def constraints(self) -> list[cp.Constraint]:
        """c ≥ −Δt (B v⁺ + bias)."""
        B = self.data.scaled().B
        if self.data.nc == 0:
            B = sp.csr_array((1, B.shape[1]))
        return [B @ self.w + self.padded()[1] + self.c >= 0]

    def objective(self) -> cp.Expression:
        """½ ‖v⁺ − v*‖²_M + Σ w(c)."""
        law, _, own = self.padded()
        return self.kinetic() + law.energy_expression(self.c, own)

    def iterate(self) -> Iterate | None:
        """The motion, and the forces of the law."""
        if self.w.value is None:
            return None
        data = self.data
        w = np.asarray(self.w.value, dtype=float)
        motion = data.free_motion + data.rigid.dof_speed * w
        return Iterate(motion, data.law.force(data.overlap(motion, np.zeros(data.nc))))

    def _write(self, scaled: FloatArray) -> None:
        self.c.value = self.padded()[0].overlap(scaled)
