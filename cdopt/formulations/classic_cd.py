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
import scipy.sparse as sp

from cdopt import checks
from cdopt.checks import FloatArray
from cdopt.data import RigidStepData
from cdopt.errors import InvalidInput, Unsupported
from cdopt.formulations.base import Formulation, matched
from cdopt.solution import Iterate, StepSolution
from cdopt.step import ContactStep

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
    InvalidInput : not a ContactStep, or no such form.
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

    data: RigidStepData

    def __init__(self, step: ContactStep, form: str = "force") -> None:
        if not isinstance(step, ContactStep):
            raise InvalidInput("step", checks.describe(step), "a ContactStep")
        self.form = checks.choice("form", form, FORMS)
        self.step = step
        self.data = RigidStepData(step)
        self.forces: cp.Expression | None = None
        self.velocity: cp.Expression | None = None
        if step.delassus_only:
            if form == "velocity":
                raise Unsupported(
                    "velocity form",
                    "the step is known by N and p alone, which hold no velocity",
                    ("form='force'",),
                )
            self._pose_delassus()
        elif form == "force":
            self._pose_force()
        else:
            self._pose_velocity()

    # --- the three statements ----------------------------------------------------------

    def _pose_delassus(self) -> None:
        data = self.data
        unit = data.force
        N = sp.csr_array(self.step.N * (1.0 / data.speed)[:, None] * unit[None, :])
        N = sp.csr_array((N + N.T) * 0.5)
        p = self.step.p_vec / data.speed
        if data.nc == 0:  # CVXPY needs a variable: an idle contact stands in
            N, p, unit = sp.csr_array((1, 1)), np.ones(1), np.ones(1)
        f = cp.Variable(p.size, nonneg=True, name="f")
        self._f = f
        self.forces = cp.multiply(unit, f)[: data.nc]

        def objective(weight: FloatArray) -> cp.Expression:
            own = weight[data.parts.contact] if data.nc else np.ones(1)
            return 0.5 * cp.quad_form(f, weighted(N, own), assume_PSD=True) + (own * p) @ f

        self._state(objective, [])

    def _pose_force(self) -> None:
        data = self.data
        M, B = data.scaled_matrices
        row = 1.0 / M.diagonal()
        p = self.step.p_vec / data.speed
        f = cp.Variable(data.nc, nonneg=True, name="f")
        w = cp.Variable(M.shape[0], name="w")
        self._f, self._w = f, w
        self.forces = cp.multiply(data.force, f)
        self._row = row
        self._balance = sp.csr_array(M * row[:, None]) @ w == sp.csr_array(B.T * row[:, None]) @ f

        def objective(weight: FloatArray) -> cp.Expression:
            mass = weighted(M, weight[data.parts.dof])
            linear = weight[data.parts.contact] * p
            return 0.5 * cp.quad_form(w, mass, assume_PSD=True) + linear @ f

        self._state(objective, [self._balance])

    def _pose_velocity(self) -> None:
        data, step = self.data, self.step
        if step.v_star is None or step.bias is None:
            raise InvalidInput("step", "no velocity", "a step with matrices")
        M, B = data.scaled_matrices
        w = cp.Variable(M.shape[0], name="w")
        self._w = w
        self.velocity = cp.multiply(data.dof_speed, w) + step.v_star
        self._no_penetration = B @ w + step.p_vec / data.speed >= 0

        def objective(weight: FloatArray) -> cp.Expression:
            return 0.5 * cp.quad_form(w, weighted(M, weight[data.parts.dof]), assume_PSD=True)

        self._state(objective, [self._no_penetration])

    # --- reading and writing -----------------------------------------------------------

    @property
    def name(self) -> str:
        """Name and form."""
        return f"ClassicCD ({self.form} form)"

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.part_energy

    def iterate(self) -> Iterate | None:
        """v⁺ and f: in force form v⁺ follows from f, in velocity form f from the multipliers."""
        data = self.data
        if self.form == "force":
            if self._f.value is None:
                return None
            forces = data.force * np.asarray(self._f.value, dtype=float).ravel()[: data.nc]
            return Iterate(data.velocity(forces), forces)
        impulses = self._no_penetration.dual_value
        if self._w.value is None or impulses is None or self.step.v_star is None:
            return None
        motion = self.step.v_star + data.dof_speed * np.asarray(self._w.value, dtype=float)
        unit = data.force / self._weight[data.parts.contact]
        return Iterate(motion, unit * np.asarray(impulses, dtype=float).reshape(data.nc))

    def seed(self, start: StepSolution) -> None:
        """Write forces (and the motion they cause) into the variables."""
        f = matched(start.f, start, self.data.contact_ids, self.data.nc)
        motion = self.data.velocity(f)
        scaled = np.maximum(f / self.data.force, 0.0)
        if motion is not None and self.step.v_star is not None:
            self._w.value = (motion - self.step.v_star) / self.data.dof_speed
        if self.form == "velocity":
            self._seed_dual(self._no_penetration, scaled * self._weight[self.data.parts.contact])
            return
        self._f.value = scaled
        if not self.step.delassus_only:
            weight = self._weight[self.data.parts.dof]
            self._seed_dual(self._balance, -weight * self._w.value / self._row)

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
        nc, nv = self.data.nc, self.step.nv
        moved = bool(self.step.impacting.any() or self.step.gap_rate.any())
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
            ""
            if self.step.delassus_only
            else (r", \qquad N = \Delta t\, B M^{-1} B^\mathsf{T}, \quad p = B v^* + b")
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


def weighted(matrix: sp.csr_array, weight: FloatArray) -> sp.csr_array:
    """The matrix with each part's block multiplied by the part's weight."""
    root = np.sqrt(weight)
    return sp.csr_array(matrix * root[:, None] * root[None, :])


_CONSTRAINT: dict[Any, str] = {
    False: r"\Phi / \Delta t + B v^+ \ge 0",
    True: r"B v^+ + b \ge 0, \qquad b_i = \dot g_i + e_i (B v + \dot g)_i "
    r"\text{ on impacting contacts, } \dot g_i + \Phi_i / \Delta t \text{ elsewhere}",
}
