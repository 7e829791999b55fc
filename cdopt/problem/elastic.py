"""Steps with inertia and elastic contacts as data: energies, scales and residuals."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cdopt._util.checks import FloatArray, read_only
from cdopt.problem.certificate import (
    Residual,
    energy_round_off,
    law_condition,
    positive,
    residuals_of,
    tension,
)
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.rigid import MatrixStepData
from cdopt.problem.scaling import ScaledDynamics


@dataclass(frozen=True, eq=False)
class ElasticStepData(MatrixStepData):
    """Compliant contact dynamics: M (v⁺ − v*) = Δt Bᵀf, f = w′(c), c = −Δt (B v⁺ + bias).

    Residuals, with F_i the smaller of the forces that the bodies of contact i exchange, or what
    it makes of all that closes in the step if less:

    - ``law``              max |f_i − w′(c_i)| / F_i
    - ``tension``          max (−f_i)₊ / F_i
    - ``momentum`` and ``duality gap`` as for the rigid step

    Attributes
    ----------
    step : the step.
    law : stiffness (nc,) in N/m^(p−1) and power.
    """

    step: ContactStep
    law: PowerLaw

    kind = "elastic step"

    def overlap(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """c (nc,), m, at the end of the step: −Δt times the gap rate."""
        return -self.dt * self.gap(v_next, f)

    def velocity_objective(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ ‖v⁺ − v*‖²_M + Σ w(c) (parts,), J."""
        stored = self.law.energy(self.overlap(v_next, f))
        kinetic = super().velocity_objective(v_next, f)
        return kinetic + self.parts.total(self.parts.contact, stored)

    def force_objective(self, f: FloatArray) -> FloatArray:
        """½ fᵀN f + pᵀf + (1/Δt) Σ w*(f) (parts,), N m/s."""
        stored = self.parts.total(self.parts.contact, self.law.conjugate(f))
        return super().force_objective(f) + stored / self.dt

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """The optimality conditions at an answer v⁺ (nv,) in m/s and f (nc,) in N."""
        law, exchange = self.law, self.exchange(motion, f)
        c, slack = self.overlap(motion, f), self.dt * exchange.gap_round_off
        closing = law.force(self.dt * (positive(-self.step.p_vec) + exchange.speed))
        force = np.minimum(self.acting_force(exchange), closing)
        stored = law.energy(c) + law.conjugate(f)
        round_off = energy_round_off(law, f, c, slack)
        return residuals_of(
            law_condition(law, f, c, slack, force),
            tension(f, force),
            *exchange.momentum,
            self.duality_gap(exchange, stored - f * c, round_off, stored),
        )

    def prove_infeasible(self) -> None:
        """None: elastic steps always have an answer."""

    # --- scales ------------------------------------------------------------------------

    def _diagonal(self) -> FloatArray:
        """N_ii (nc,) of a diagonal M: enough for a scale, without a solve for each contact."""
        return self.dt * self._diagonal_mobility[0]

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: the force that stops the part's speed at a contact of mean mobility.

        Or, if that is less, what its stiffest contact makes of all that closes in one step:
        contacts may yield before they stop what closes.
        """
        stiffest = self.parts.largest(self.parts.contact, self.law.stiffness)
        yielding = PowerLaw(stiffest, self.law.power).force(self.part_speed * self.dt)
        stopping = self.stopping_force
        return read_only(np.where(yielding > 0.0, np.minimum(stopping, yielding), stopping))

    @cached_property
    def _scaled(self) -> ScaledDynamics:
        """With the law between forces and overlaps in units of their parts: F, and V Δt."""
        law = PowerLaw(self.law.force(self.speed * self.dt) / self.force, self.law.power)
        return dataclasses.replace(super()._scaled, law=law)
