"""Compliant contact dynamics: a step of implicit Euler with elastic contacts, and its dual.

Velocity form::

    minimise over v⁺    ½ ‖v⁺ − v*‖²_M + Σ w(c),   c = −Δt (B v⁺ + bias)

Force form, its dual::

    minimise over f ≥ 0    ½ fᵀN f + pᵀf + (1/Δt) Σ w*(f)

Both have a unique solution, with the same f. As the stiffness grows, v⁺ tends to that of classic
contact dynamics and f to the compatible forces: with ε = κ^(−1/(p−1))/Δt in front of Σ w*, taken at
relative stiffness, the error is O(ε).
"""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.formulations.base import FORMS, Formulation
from cdopt.formulations.printing import align, conjugate_latex
from cdopt.problem import ContactStep, Step, elastic_data, with_matrices
from cdopt.problem.contact_law import PowerLaw


class ElasticStep(Formulation):
    """A step with inertia on elastic contacts: compliant contact dynamics, variational steps."""

    step: ContactStep  # the given step, in coordinates that satisfy its joints

    def _take(self, step: Step, form: str) -> ContactStep:
        """Check that the step is a ContactStep, and store it and the form."""
        checks.instance("step", step, Step)
        step = with_matrices(step, type(self).__name__)
        step.require_frictionless(type(self).__name__)
        self.form = form
        return step


class CompliantCD(ElasticStep):
    """One step with contacts of finite stiffness.

    Parameters
    ----------
    step : the step; its ``stiffness`` times ``kappa`` is in N/m^(p−1).
    power : p > 1 of the contact energy: 2 Hooke, 5/2 Hertz; by default that of the step.
    kappa : κ, factor on the step's stiffness, including that of its joints.
    form : "velocity" for the primal, "force" for the dual, which is easier to solve for stiff
        contacts.

    Raises
    ------
    InvalidInput : a bad argument.
    Unsupported : a step known by N and p alone.

    Notes
    -----
    Olsen & Kamrin (2018), section 6, for the law; the rigid limit is that of their section 7.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-stiff-middle").step
    >>> cdopt.CompliantCD(beam, kappa=1e12).solve("newton").f.round(3)
    array([2., 6., 2.])
    """

    def __init__(
        self,
        step: Step,
        power: float | None = None,
        kappa: float = 1.0,
        form: str = "force",
    ) -> None:
        power = checks.optional(checks.power, "power", power)
        kappa = checks.positive("kappa", kappa)
        form = checks.choice("form", form, FORMS)
        step = self._keep_joints(self._take(step, form))
        self.step, self.kappa, springs = step, kappa, self.springs
        if springs is not None:
            springs = self.springs = springs.stiffer(kappa)
        stiffness = step.stiffness * kappa
        stated = stiffness if springs is None else np.append(stiffness, springs.stiffness)
        if not np.all(np.isfinite(stated) & (stated > 0.0)):
            raise InvalidInput("kappa", f"{self.kappa:g}", "a factor that keeps stiffness finite")
        self.data = elastic_data(step, PowerLaw(stiffness, power or step.power), springs=springs)

    def latex(self) -> str:
        """The problem as mathematics."""
        nc, nv, p = self.data.nc, self.data.nv, self._power
        if self.form == "velocity":
            return align(
                rf"\min_{{v^+ \in \mathbb{{R}}^{{{nv}}}}}\quad & "
                r"\tfrac12 \lVert v^+ - v^* \rVert_M^2 + "
                rf"\tfrac{{1}}{{{p:g}}} \sum_i k_i\, [-\Delta t (B v^+ + b)_i]_+^{{{p:g}}}"
            )
        return align(
            rf"\min_{{f \in \mathbb{{R}}^{{{nc}}},\, f \ge 0}}\quad & "
            r"\tfrac12 f^\mathsf{T} N f + p^\mathsf{T} f + "
            + conjugate_latex(p, divisor=r"\,\Delta t")
        )
