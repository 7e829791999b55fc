"""What steps of bodies with inertia on elastic contacts share: both statements, and reading them.

Compliant contact dynamics and the variational integrator are one convex problem with other
matrices (``ElasticStepData``); each file of theirs says which.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt import checks
from cdopt.checks import FloatArray
from cdopt.contact_law import HOOKE, PowerLaw
from cdopt.data import ElasticStepData
from cdopt.errors import InvalidInput, Unsupported
from cdopt.formulations.base import Formulation, matched
from cdopt.formulations.classic_cd import FORMS, weighted
from cdopt.solution import Iterate, StepSolution
from cdopt.step import ContactStep


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
    forces: cp.Expression | None = None
    velocity: cp.Expression | None = None

    def _take(self, step: ContactStep, form: str) -> None:
        """Keep the step and the form asked for.

        Raises
        ------
        InvalidInput : not a ContactStep, or no such form.
        Unsupported : a step known by N and p alone.
        """
        if not isinstance(step, ContactStep):
            raise InvalidInput("step", checks.describe(step), "a ContactStep")
        self.form = checks.choice("form", form, FORMS)
        if step.delassus_only:
            raise Unsupported(type(self).__name__, "the step is known by N and p alone")
        self.step = step

    # --- the two statements ------------------------------------------------------------

    def _pose(self, data: ElasticStepData) -> None:
        """State the problem of these data in the form asked for."""
        self.data = data
        w = cp.Variable(data.rigid.dof_speed.size, name="w")
        self._w = w
        self._motion = cp.multiply(data.rigid.dof_speed, w) + data.free_motion
        if self.form == "force":
            self._pose_force(w)
        else:
            self.velocity = self._motion
            self._pose_velocity(w)

    def _pose_force(self, w: cp.Variable) -> None:
        data = self.data
        M, B = data.scaled_matrices
        row = 1.0 / M.diagonal()
        f = cp.Variable(max(data.nc, 1), nonneg=True, name="f")
        self._f = f
        self.forces = cp.multiply(data.rigid.force, f[: data.nc])
        push = sp.csr_array(B.T * row[:, None])
        self._balance = sp.csr_array(M * row[:, None]) @ w == push @ f[: data.nc]
        law, opening = self._padded()

        def objective(weight: FloatArray) -> cp.Expression:
            own = self._own(weight)
            kinetic = 0.5 * cp.quad_form(w, weighted(M, weight[data.parts.dof]), assume_PSD=True)
            return kinetic + (own * opening) @ f + law.conjugate_expression(f, own)

        self._state(objective, [self._balance])

    def _pose_velocity(self, w: cp.Variable) -> None:
        data = self.data
        M, B = data.scaled_matrices
        c = cp.Variable(max(data.nc, 1), nonneg=True, name="c")
        self._c = c
        law, opening = self._padded()
        if data.nc == 0:
            B = sp.csr_array((1, M.shape[0]))
        self._closing = B @ w + opening + c >= 0

        def objective(weight: FloatArray) -> cp.Expression:
            kinetic = 0.5 * cp.quad_form(w, weighted(M, weight[data.parts.dof]), assume_PSD=True)
            return kinetic + law.energy_expression(c, self._own(weight))

        self._state(objective, [self._closing])

    def _padded(self) -> tuple[PowerLaw, FloatArray]:
        """The scaled law and gaps; CVXPY needs a variable, so an idle contact stands for none."""
        if self.data.nc:
            return self.data.scaled_law, self.data.scaled_opening
        return PowerLaw(np.ones(1), HOOKE), np.ones(1)

    def _own(self, weight: FloatArray) -> FloatArray:
        return weight[self.data.parts.contact] if self.data.nc else np.ones(1)

    # --- reading and writing -----------------------------------------------------------

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.rigid.part_energy

    def iterate(self) -> Iterate | None:
        """Motion and forces: the motion follows from f, or in velocity form f from the law."""
        data = self.data
        if self.form == "force":
            if self._f.value is None:
                return None
            f = data.rigid.force * np.asarray(self._f.value, dtype=float).ravel()[: data.nc]
            return Iterate(data.rigid.velocity(f), f)
        if self._w.value is None:
            return None
        motion = data.free_motion + data.rigid.dof_speed * np.asarray(self._w.value, dtype=float)
        return Iterate(motion, data.law.force(data.overlap(motion, np.zeros(data.nc))))

    def seed(self, start: StepSolution) -> None:
        """Write forces and the motion they cause into the variables."""
        self._write(matched(start.f, start, self.data.contact_ids, self.data.nc))

    def _write(self, forces: FloatArray) -> None:
        data, f = self.data, np.maximum(forces, 0.0)
        motion = data.rigid.velocity(f)
        if motion is not None:
            self._w.value = (motion - data.free_motion) / data.rigid.dof_speed
        if data.nc and self.form == "force":
            self._f.value = f / data.rigid.force
        elif data.nc:
            self._c.value = data.scaled_law.overlap(f / data.rigid.force)

    def _multipliers(self, iterate: Iterate) -> FloatArray:
        """Force form: the gap's speed at the end; velocity form: the impulses."""
        if self.form == "force":
            return self.data.rigid.gap(iterate.motion, iterate.forces)
        return iterate.forces * self.data.rigid.dt

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "force":
            return float(self.data.dual(iterate.forces).sum())
        return float(self.data.primal(iterate.motion, iterate.forces).sum())
