"""Compliant contact dynamics: a step of implicit Euler with elastic contacts, and its dual.

Velocity form::

    minimise over v⁺    ½ ‖v⁺ − v*‖²_M + Σ w(c),   c = −Δt (B v⁺ + bias)

Force form, its dual::

    minimise over f ≥ 0    ½ fᵀN f + pᵀf + (1/Δt) Σ w*(f)

Both have one solution and one f. As the stiffness grows, v⁺ tends to that of classic contact
dynamics and f to the compatible forces: with ε = κ^(−1/(p−1))/Δt in front of Σ w*, taken at
relative stiffness, the error is O(ε).
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt import checks
from cdopt.checks import FloatArray
from cdopt.contact_law import HOOKE, PowerLaw
from cdopt.data import ElasticStepData, RigidStepData
from cdopt.errors import InvalidInput, Unsupported
from cdopt.formulations.base import Formulation, matched
from cdopt.formulations.classic_cd import FORMS, weighted
from cdopt.solution import Iterate, StepSolution
from cdopt.step import ContactStep


class CompliantCD(Formulation):
    """One step with contacts of finite stiffness.

    Parameters
    ----------
    step : the step; its ``stiffness`` times ``kappa`` is in N/m^(p−1).
    power : p > 1 of the contact energy: 2 Hooke, 5/2 Hertz.
    kappa : κ, factor on the step's stiffness.
    form : "velocity" for the primal, "force" for the dual, which solvers find easier when stiff.

    Attributes
    ----------
    forces : CVXPY expression of f (nc,), N (force form).
    velocity : CVXPY expression of v⁺ (nv,), m/s (velocity form).

    Raises
    ------
    InvalidInput : a bad argument.
    Unsupported : a step known by N and p alone.

    Notes
    -----
    Olsen & Kamrin (2018), section 6, for the law; the rigid limit is that of their section 7.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-stiff-middle").step
    >>> cdopt.CompliantCD(beam, kappa=1e9).solve("newton").f.round(3)
    array([2., 6., 2.])
    """

    data: ElasticStepData

    def __init__(
        self, step: ContactStep, power: float = HOOKE, kappa: float = 1.0, form: str = "force"
    ) -> None:
        if not isinstance(step, ContactStep):
            raise InvalidInput("step", checks.describe(step), "a ContactStep")
        self.form = checks.choice("form", form, FORMS)
        if step.delassus_only:
            raise Unsupported("CompliantCD", "the step is known by N and p alone")
        self.step = step
        self.kappa = checks.scalar("kappa", kappa, above=0.0)
        stiffness = step.stiffness * self.kappa
        if not np.all(np.isfinite(stiffness) & (stiffness > 0.0)):
            raise InvalidInput("kappa", f"{self.kappa:g}", "a factor that keeps stiffness finite")
        law = PowerLaw(stiffness, checks.power("power", power))
        self.data = ElasticStepData(RigidStepData(step), law)
        self.forces: cp.Expression | None = None
        self.velocity: cp.Expression | None = None
        if self.form == "force":
            self._pose_force()
        else:
            self._pose_velocity()

    # --- the two statements ------------------------------------------------------------

    def _pose_force(self) -> None:
        data = self.data
        M, B = data.scaled_matrices
        row = 1.0 / M.diagonal()
        f = cp.Variable(max(data.nc, 1), nonneg=True, name="f")
        w = cp.Variable(M.shape[0], name="w")
        self._f, self._w, self._row = f, w, row
        self.forces = cp.multiply(data.rigid.force, f[: data.nc])
        push = sp.csr_array(B.T * row[:, None])
        self._balance = sp.csr_array(M * row[:, None]) @ w == push @ f[: data.nc]
        law, opening = self._padded()

        def objective(weight: FloatArray) -> cp.Expression:
            own = self._own(weight)
            kinetic = 0.5 * cp.quad_form(w, weighted(M, weight[data.parts.dof]), assume_PSD=True)
            return kinetic + (own * opening) @ f + law.conjugate_expression(f, own)

        self._state(objective, [self._balance])

    def _pose_velocity(self) -> None:
        data = self.data
        M, B = data.scaled_matrices
        w = cp.Variable(M.shape[0], name="w")
        c = cp.Variable(max(data.nc, 1), nonneg=True, name="c")
        self._w, self._c = w, c
        self.velocity = cp.multiply(data.rigid.dof_speed, w) + self.step.v_star
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
        return PowerLaw(np.ones(1), self.data.law.power), np.ones(1)

    def _own(self, weight: FloatArray) -> FloatArray:
        return weight[self.data.parts.contact] if self.data.nc else np.ones(1)

    # --- reading and writing -----------------------------------------------------------

    @property
    def name(self) -> str:
        """Name, form and power."""
        return f"CompliantCD ({self.form} form, p = {self.data.law.power:g})"

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.rigid.part_energy

    def iterate(self) -> Iterate | None:
        """v⁺ and f: in force form v⁺ follows from f, in velocity form f from the contact law."""
        data = self.data
        if self.form == "force":
            if self._f.value is None:
                return None
            f = data.rigid.force * np.asarray(self._f.value, dtype=float).ravel()[: data.nc]
            return Iterate(data.rigid.velocity(f), f)
        if self._w.value is None or self.step.v_star is None:
            return None
        motion = self.step.v_star + data.rigid.dof_speed * np.asarray(self._w.value, dtype=float)
        return Iterate(motion, data.law.force(data.overlap(motion, np.zeros(data.nc))))

    def seed(self, start: StepSolution) -> None:
        """Write forces and the motion they cause into the variables."""
        f = np.maximum(matched(start.f, start, self.data.contact_ids, self.data.nc), 0.0)
        motion = self.data.rigid.velocity(f)
        if motion is not None and self.step.v_star is not None:
            self._w.value = (motion - self.step.v_star) / self.data.rigid.dof_speed
        if self.data.nc and self.form == "force":
            self._f.value = f / self.data.rigid.force
        elif self.data.nc:
            self._c.value = self.data.scaled_law.overlap(f / self.data.rigid.force)

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        gap = self.data.rigid.gap(iterate.motion, iterate.forces)
        dual = gap if self.form == "force" else iterate.forces * self.data.rigid.dt
        return {"v_next": iterate.motion, "gap": gap, "dual": dual}

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "force":
            return float(self.data.dual(iterate.forces).sum())
        return float(self.data.primal(iterate.motion, iterate.forces).sum())

    def latex(self) -> str:
        """The problem as mathematics."""
        nc, nv, p = self.data.nc, self.step.nv, self.data.law.power
        if self.form == "velocity":
            energy = (
                rf"\min_{{v^+ \in \mathbb{{R}}^{{{nv}}}}}\quad & "
                r"\tfrac12 \lVert v^+ - v^* \rVert_M^2 + "
                rf"\tfrac{{1}}{{{p:g}}} \sum_i k_i\, [-\Delta t (B v^+ + b)_i]_+^{{{p:g}}}"
            )
        else:
            q = p / (p - 1.0)
            energy = (
                rf"\min_{{f \in \mathbb{{R}}^{{{nc}}},\, f \ge 0}}\quad & "
                r"\tfrac12 f^\mathsf{T} N f + p^\mathsf{T} f + "
                rf"\frac{{1}}{{{q:.6g}\,\Delta t}} \sum_i k_i^{{-1/{p - 1.0:.6g}}} f_i^{{{q:.6g}}}"
            )
        return "\\begin{align*}\n" + energy + "\n\\end{align*}"
