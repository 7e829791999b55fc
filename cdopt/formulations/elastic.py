"""What steps of bodies with inertia on elastic contacts share: two statements, and reading them.

Compliant contact dynamics and the variational integrator are one convex problem with other
matrices (``ElasticStepData``); the file of each says which.
"""

from __future__ import annotations

import cvxpy as cp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.formulations.base import Formulation
from cdopt.formulations.classic_cd import FORMS
from cdopt.formulations.statement import ForceForm, VelocityForm
from cdopt.problem import ContactStep, DelassusStep, ElasticStepData, Step
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.solution import Iterate


def force_form(x: ForceForm) -> cp.Problem:
    """½ fᵀN f + pᵀf + (1/Δt) Σ w*(f) over f ≥ 0."""
    return cp.Problem(cp.Minimize(0.5 * x.fNf + x.p @ x.f + x.elastic_energy), x.momentum)


def velocity_form(x: VelocityForm) -> cp.Problem:
    """½ ‖v⁺ − v*‖²_M + Σ w(c) with overlaps c ≥ −Δt (B v⁺ + bias), c ≥ 0."""
    return cp.Problem(cp.Minimize(0.5 * x.wMw + x.elastic_energy), [x.gap + x.c >= 0])


class ElasticStep(Formulation):
    """One step with inertia and elastic contacts, in force or velocity form.

    Attributes
    ----------
    step : the step as it was given.
    """

    data: ElasticStepData
    step: ContactStep
    statement: ForceForm | VelocityForm

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

    def _stated(self) -> ForceForm | VelocityForm:
        if self.form == "force":
            return ForceForm(self.data, force_form)
        return VelocityForm(self.data, velocity_form)

    @property
    def _quadratic(self) -> bool:
        return self.data.nc == 0 or self.data.law.power == HOOKE

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.part_energy

    def _multipliers(self, iterate: Iterate) -> FloatArray:
        """Force form: the gap's speed at the end; velocity form: the impulses."""
        if self.form == "force":
            return self.data.gap(iterate.motion, iterate.forces)
        return iterate.forces * self.data.dt

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "force":
            return float(self.data.dual(iterate.forces).sum())
        return float(self.data.primal(iterate.motion, iterate.forces).sum())
