"""A step with inertia and elastic contacts as data: its energies, scales and residuals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray, read_only
from cdopt.problem.certificate import (
    ProblemData,
    Residual,
    energy_round_off,
    law_residual,
    positive,
    tension,
)
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.rigid import RigidStepData
from cdopt.problem.scaling import Parts, ScaledDynamics


@dataclass(frozen=True, eq=False)
class ElasticStepData(ProblemData):
    """Compliant contact dynamics: M (v⁺ − v*) = Δt Bᵀf, f = w′(c), c = −Δt (B v⁺ + bias).

    Methods take v⁺ as ``v_next`` (nv,) in m/s, None for that which f causes, and f (nc,) in N.
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

    @cached_property
    def rigid(self) -> RigidStepData:
        """The same step with rigid contacts, in the units of the elastic one."""
        return _YieldingStepData(self.step, self.law)

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.step.nc

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.step.nv

    @property
    def parts(self) -> Parts:
        """Independent parts of the contact network."""
        return self.rigid.parts

    @property
    def contact_ids(self) -> NDArray[Any] | None:
        """Names of the contacts, when given."""
        return self.step.contact_ids

    @property
    def free_motion(self) -> FloatArray:
        """v* (nv,), m/s: the motion without contacts."""
        return self.step.v_star

    @property
    def force(self) -> FloatArray:
        """(nc,) N, unit of each contact's force."""
        return self.rigid.force

    def overlap(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """c (nc,), m, at the end of the step: −Δt times the gap rate."""
        return -self.rigid.dt * self.rigid.gap(v_next, f)

    def primal(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ ‖v⁺ − v*‖²_M + Σ w(c) (parts,), J."""
        stored = self.law.energy(self.overlap(v_next, f))
        kinetic = self.rigid.velocity_objective(v_next, f)
        return kinetic + self.parts.total(self.parts.contact, stored)

    def dual(self, f: FloatArray) -> FloatArray:
        """½ fᵀN f + pᵀf + (1/Δt) Σ w*(f) (parts,), N m/s."""
        stored = self.parts.total(self.parts.contact, self.law.conjugate(f))
        return self.rigid.force_objective(f) + stored / self.rigid.dt

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """The optimality conditions at an answer v⁺ (nv,) in m/s and f (nc,) in N."""
        rigid, law, p = self.rigid, self.law, self.step.p_vec
        exchange = rigid.exchange(motion, f)
        c, slack = self.overlap(motion, f), rigid.dt * exchange.gap_round_off
        closing = law.force(rigid.dt * (positive(-p) + exchange.speed))
        force = np.minimum(exchange.force(), closing)
        stored = law.energy(c) + law.conjugate(f)
        round_off = energy_round_off(law, f, c, slack)
        return (
            law_residual(law, f, c, slack, force),
            tension(f, force),
            *rigid.momentum_residual(exchange),
            rigid.duality_gap(exchange, stored - f * c, round_off, stored),
        )

    def prove_infeasible(self) -> None:
        """None: elastic steps always have an answer."""

    def scaled(self) -> ScaledDynamics:
        """The step in units of the forces, speeds and energies of its parts."""
        return self.rigid.scaled()


@dataclass(frozen=True, eq=False)
class _YieldingStepData(RigidStepData):
    """A step whose contacts may yield before they stop what closes: forces are that much less.

    Attributes
    ----------
    law : of the contacts.
    """

    law: PowerLaw

    def _diagonal(self) -> FloatArray:
        """N_ii (nc,) of a diagonal M: enough for a scale, without a solve for each contact."""
        return self.dt * self._diagonal_mobility[0]

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: the force that stops the part's speed at a contact of mean mobility.

        Or, if that is less, what its stiffest contact makes of all that closes in one step.
        """
        stiffest = self.parts.largest(self.parts.contact, self.law.stiffness)
        yielding = stiffest * (self.part_speed * self.dt) ** (self.law.power - 1.0)
        stopping = self.stopping_force
        return read_only(np.where(yielding > 0.0, np.minimum(stopping, yielding), stopping))

    def _scaled_law(self) -> PowerLaw:
        """The law between forces and overlaps in units of their parts: F, and V Δt."""
        length = (self.speed * self.dt) ** (self.law.power - 1.0)
        return PowerLaw(self.law.stiffness * length / self.force, self.law.power)
