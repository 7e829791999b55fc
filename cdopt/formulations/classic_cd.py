"""Classic contact dynamics: equation (22) of Olsen & Kamrin (2018) and its dual.

Force form, (22)::

    minimise over f ≥ 0    ½ fᵀ N f + pᵀ f

Velocity form, its dual::

    minimise over v⁺    ½ ‖v⁺ − v*‖²_M    subject to    B v⁺ + bias ≥ 0

v⁺ and Bᵀf are unique; f is so only up to null(Bᵀ) on the optimal face. The multipliers of the
velocity form are the impulses Δt f, and the optimal values satisfy primal = −Δt · dual.
"""

from __future__ import annotations

from cdopt._util import checks
from cdopt.formulations.base import FORMS, Formulation
from cdopt.formulations.printing import align
from cdopt.problem import Step, rigid_data, with_matrices


class ClassicCD(Formulation):
    """The classic contact dynamics QP of one step.

    Parameters
    ----------
    step : the step.
    form : "force" for (22), "velocity" for its dual.

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

    step: Step

    def __init__(self, step: Step, form: str = "force") -> None:
        checks.instance("step", step, Step)
        form = checks.choice("form", form, FORMS)
        step.require_frictionless("ClassicCD")
        self._of_rigid(step, form, rigid_data)

    def latex(self) -> str:
        """The problem as mathematics."""
        if self.form == "force":
            given = r", \qquad N = \Delta t\, B M^{-1} B^\mathsf{T}, \quad p = B v^* + b"
            return align(
                rf"\min_{{f \in \mathbb{{R}}^{{{self.step.nc}}}}}\quad & "
                r"\tfrac12 f^\mathsf{T} N f + p^\mathsf{T} f"
                + (given if self.data.N is None else ""),
                r"\text{s.t.}\quad & f \ge 0",
            )
        step = with_matrices(self.step, "velocity form")
        constraint = r"\Phi / \Delta t + B v^+ \ge 0"
        if step.impacting.any() or step.gap_rate.any():
            constraint = (
                r"B v^+ + b \ge 0, \qquad b_i = \dot g_i + e_i (B v + \dot g)_i "
                r"\text{ on impacting contacts, } \dot g_i + \Phi_i / \Delta t \text{ elsewhere}"
            )
        return align(
            rf"\min_{{v^+ \in \mathbb{{R}}^{{{step.nv}}}}}\quad & "
            r"\tfrac12 \lVert v^+ - v^* \rVert_M^2, \qquad "
            r"v^* = v + \Delta t\, M^{-1} F_\mathrm{ext}",
            r"\text{s.t.}\quad & " + constraint,
        )
