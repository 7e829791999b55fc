"""Classic contact dynamics: equation (22) of Olsen & Kamrin (2018) and its dual.

Force form, (22)::

    minimise over f ≥ 0    ½ fᵀ N f + pᵀ f

Velocity form, its dual::

    minimise over v⁺    ½ ‖v⁺ − v*‖²_M    subject to    B v⁺ + bias ≥ 0

v⁺ and Bᵀf are unique; f is so only up to null(Bᵀ) on the optimal face. The multipliers of the
velocity form are the impulses Δt f, and the optimal values satisfy primal = −Δt · dual.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.backends.posing import posed_once
from cdopt.formulations.base import Formulation
from cdopt.formulations.statement import Statement, momentum, seed_dual, weighted
from cdopt.problem import DelassusStepData, RigidData, RigidStepData, rigid_data
from cdopt.problem.contact_step import ContactStep, DelassusStep, Step
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

FORMS = ("force", "velocity")


class ClassicCD(Formulation):
    """The classic contact dynamics QP of one step.

    Parameters
    ----------
    step : the step.
    form : "force" for (22), "velocity" for its dual.

    Attributes
    ----------
    forces : CVXPY expression of f (nc,), N (force form).
    velocity : CVXPY expression of v⁺ (nv,), m/s (velocity form).

    Raises
    ------
    InvalidInput : not a step, or no such form.
    Unsupported : the velocity form of a step known only by N and p.

    Notes
    -----
    The force form keeps sparsity with w = v⁺ − v* as a second variable, M w = Δt Bᵀf, so
    that ½ fᵀN f = ½ wᵀM w / Δt without ever forming N. With N and p alone it is the plain
    bound-constrained (22).

    >>> import cdopt
    >>> cd = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    >>> solution = cd.solve("clarabel")
    >>> solution.ok, float(solution.f.sum().round(6))
    (True, 10.0)
    """

    data: RigidData

    def __init__(self, step: Step, form: str = "force") -> None:
        if not isinstance(step, Step):
            raise InvalidInput("step", checks.describe(step), "a ContactStep or DelassusStep")
        self.form = checks.choice("form", form, FORMS)
        self.step = step
        self.data = data = rigid_data(step)
        self.statement: Statement
        if isinstance(data, RigidStepData):
            self.statement = (_Force if form == "force" else _Velocity)(data)
        else:
            if form == "velocity":
                raise Unsupported(
                    "velocity form",
                    "the step is known by N and p alone, which hold no velocity",
                    ("form='force'",),
                )
            self.statement = _Delassus(data)

    @property
    def name(self) -> str:
        """Name and form."""
        return f"ClassicCD ({self.form} form)"

    @property
    def forces(self) -> cp.Expression | None:
        """CVXPY expression of f (nc,), N; None in velocity form."""
        return self.statement.forces

    @property
    def velocity(self) -> cp.Expression | None:
        """CVXPY expression of v⁺ (nv,), m/s; None in force form."""
        return self.statement.velocity

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.part_energy

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        gap = self.data.gap(iterate.motion, iterate.forces)
        dual = gap if self.form == "force" else iterate.forces * self.data.dt
        return {"v_next": iterate.motion, "gap": gap, "dual": dual}

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "force":
            return float(self.data.force_objective(iterate.forces).sum())
        return float(self.data.velocity_objective(iterate.motion, iterate.forces).sum())

    def latex(self) -> str:
        """The problem as mathematics."""
        nc, nv, step = self.data.nc, self.data.nv, self.step
        plain = isinstance(step, DelassusStep)
        moved = isinstance(step, ContactStep) and bool(step.impacting.any() or step.gap_rate.any())
        if self.form == "velocity":
            return (
                r"\begin{align*}"
                "\n"
                rf"\min_{{v^+ \in \mathbb{{R}}^{{{nv}}}}}\quad & "
                r"\tfrac12 \lVert v^+ - v^* \rVert_M^2, \qquad "
                r"v^* = v + \Delta t\, M^{-1} F_\mathrm{ext} \\"
                "\n"
                r"\text{s.t.}\quad & " + _CONSTRAINT[moved] + "\n"
                r"\end{align*}"
            )
        given = (
            "" if plain else (r", \qquad N = \Delta t\, B M^{-1} B^\mathsf{T}, \quad p = B v^* + b")
        )
        return (
            r"\begin{align*}"
            "\n"
            rf"\min_{{f \in \mathbb{{R}}^{{{nc}}}}}\quad & "
            rf"\tfrac12 f^\mathsf{{T}} N f + p^\mathsf{{T}} f{given} \\"
            "\n"
            r"\text{s.t.}\quad & f \ge 0"
            "\n"
            r"\end{align*}"
        )


# --- the three statements --------------------------------------------------------------


class _ForceForm(Statement):
    """(22): what its two statements share."""

    data: RigidData

    @posed_once
    def f(self) -> cp.Variable:
        """Scaled forces; CVXPY needs a variable, so an idle contact stands for none."""
        return cp.Variable(max(self.data.nc, 1), nonneg=True, name="f")

    @posed_once
    def forces(self) -> cp.Expression:
        """f (nc,), N."""
        return cp.multiply(self.data.force, self.f[: self.data.nc])

    def iterate(self) -> Iterate | None:
        """f, and the v⁺ that follows from it."""
        if self.f.value is None:
            return None
        data = self.data
        forces = data.force * np.asarray(self.f.value, dtype=float).ravel()[: data.nc]
        return Iterate(data.velocity(forces), forces)

    def seed(self, start: WarmStart) -> None:
        """Write forces."""
        self._write(start.forces_on(self.data.contact_ids, self.data.nc))

    def _write(self, forces: FloatArray) -> None:
        if self.data.nc:
            self.f.value = np.maximum(forces / self.data.force, 0.0)


class _Delassus(_ForceForm):
    """(22) as it is printed, in f alone."""

    data: DelassusStepData

    @posed_once
    def constraints(self) -> list[cp.Constraint]:
        """None but the sign of f."""
        return []

    def objective(self) -> cp.Expression:
        """½ fᵀN f + pᵀf."""
        data = self.data
        if data.nc == 0:
            return cp.sum(self.f)
        scaled, own = data.scaled(), self.weight[data.parts.contact]
        N = cp.Constant(weighted(scaled.N, own), name="N")
        p = cp.Constant(own * scaled.p, name="p")
        return 0.5 * cp.quad_form(self.f, N, assume_PSD=True) + p @ self.f


class _Force(_ForceForm):
    """(22) with w = v⁺ − v* as a second variable and M w = Δt Bᵀf: N is never formed."""

    data: RigidStepData

    @posed_once
    def f(self) -> cp.Variable:
        """Scaled forces."""
        return cp.Variable(self.data.nc, nonneg=True, name="f")

    @posed_once
    def w(self) -> cp.Variable:
        """Scaled v⁺ − v*."""
        return cp.Variable(self.data.nv, name="w")

    @posed_once
    def constraints(self) -> list[cp.Constraint]:
        """M w = Δt Bᵀf."""
        scaled = self.data.scaled()
        return [momentum(scaled.M, scaled.B, self.w, self.f)]

    def objective(self) -> cp.Expression:
        """½ wᵀM w / Δt + pᵀf."""
        data, scaled = self.data, self.data.scaled()
        M = cp.Constant(weighted(scaled.M, self.weight[data.parts.dof]), name="M")
        p = cp.Constant(self.weight[data.parts.contact] * scaled.p, name="p")
        return 0.5 * cp.quad_form(self.w, M, assume_PSD=True) + p @ self.f

    def _write(self, forces: FloatArray) -> None:
        """Write forces and the motion they cause."""
        data = self.data
        super()._write(forces)
        self.w.value = (data.velocity(forces) - data.free_motion) / data.dof_speed
        pace = self.w.value * data.scaled().M.diagonal()
        seed_dual(self.constraints[0], -self.weight[data.parts.dof] * pace)


class _Velocity(Statement):
    """The dual of (22), in w = v⁺ − v*."""

    data: RigidStepData

    @posed_once
    def w(self) -> cp.Variable:
        """Scaled v⁺ − v*."""
        return cp.Variable(self.data.nv, name="w")

    @posed_once
    def velocity(self) -> cp.Expression:
        """v⁺ (nv,), m/s."""
        return cp.multiply(self.data.dof_speed, self.w) + self.data.free_motion

    @posed_once
    def constraints(self) -> list[cp.Constraint]:
        """B v⁺ + bias ≥ 0."""
        scaled = self.data.scaled()
        return [cp.Constant(scaled.B, name="B") @ self.w + scaled.p >= 0]

    def objective(self) -> cp.Expression:
        """½ ‖v⁺ − v*‖²_M."""
        mass = weighted(self.data.scaled().M, self.weight[self.data.parts.dof])
        return 0.5 * cp.quad_form(self.w, cp.Constant(mass, name="M"), assume_PSD=True)

    def iterate(self) -> Iterate | None:
        """v⁺, and f from the multipliers."""
        data, impulses = self.data, self.constraints[0].dual_value
        if self.w.value is None or impulses is None:
            return None
        motion = data.free_motion + data.dof_speed * np.asarray(self.w.value, dtype=float)
        unit = data.force / self.weight[data.parts.contact]
        return Iterate(motion, unit * np.asarray(impulses, dtype=float).reshape(data.nc))

    def seed(self, start: WarmStart) -> None:
        """Write the motion that forces cause, and forces as multipliers."""
        data = self.data
        f = start.forces_on(data.contact_ids, data.nc)
        self.w.value = (data.velocity(f) - data.free_motion) / data.dof_speed
        impulses = self.weight[data.parts.contact] * np.maximum(f / data.force, 0.0)
        seed_dual(self.constraints[0], impulses)


_CONSTRAINT: dict[Any, str] = {
    False: r"\Phi / \Delta t + B v^+ \ge 0",
    True: r"B v^+ + b \ge 0, \qquad b_i = \dot g_i + e_i (B v + \dot g)_i "
    r"\text{ on impacting contacts, } \dot g_i + \Phi_i / \Delta t \text{ elsewhere}",
}
