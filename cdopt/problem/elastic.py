"""The plain data of a step with inertia and elastic contacts, and its energies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.rigid import RigidStepData
from cdopt.problem.scaling import Parts


@dataclass(frozen=True, eq=False)
class ElasticStepData:
    """Compliant contact dynamics: M (v⁺ − v*) = Δt Bᵀf, f = w′(c), c = −Δt (B v⁺ + bias).

    Methods take v⁺ as ``v_next`` (nv,) in m/s, None for that which f causes, and f (nc,) in N.

    Attributes
    ----------
    step : the step.
    law : stiffness (nc,) in N/m^(p−1) and power.
    """

    step: ContactStep
    law: PowerLaw

    @cached_property
    def rigid(self) -> RigidStepData:
        """The same step with rigid contacts, in the units of the elastic one."""
        return _YieldingStepData(self.step, self.law)

    @property
    def kind(self) -> str:
        """Name of the problem kind."""
        return "elastic step"

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.rigid.nc

    @property
    def parts(self) -> Parts:
        """Independent parts of the contact network."""
        return self.rigid.parts

    @property
    def contact_ids(self) -> NDArray[Any] | None:
        """Names of the contacts, when given."""
        return self.rigid.contact_ids

    @cached_property
    def free_motion(self) -> FloatArray:
        """v* (nv,), m/s: the motion without contacts.

        Raises
        ------
        InvalidInput : the step is known by N and p alone.
        """
        if self.step.v_star is None:
            raise InvalidInput("step", "no velocity", "a step with M and B")
        return self.step.v_star

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

    @cached_property
    def scaled_law(self) -> PowerLaw:
        """The law between forces and overlaps in units of their parts: F, and V Δt."""
        length = (self.rigid.speed * self.rigid.dt) ** (self.law.power - 1.0)
        return PowerLaw(self.law.stiffness * length / self.rigid.force, self.law.power)

    @cached_property
    def scaled_matrices(self) -> tuple[sp.csr_array, sp.csr_array]:
        """M and B in units of the energies, speeds and dof speeds of their parts."""
        return self.rigid.scaled_matrices

    @cached_property
    def scaled_opening(self) -> FloatArray:
        """(nc,) gap of the free motion over V Δt."""
        return np.asarray(self.step.p_vec / self.rigid.speed)


@dataclass(frozen=True, eq=False)
class _YieldingStepData(RigidStepData):
    """A step whose contacts may yield before they stop what closes: forces are that much less.

    Attributes
    ----------
    law : of the contacts.
    """

    law: PowerLaw

    def _own_mobility(self) -> FloatArray:
        """N_ii (nc,) of a diagonal M: enough for a scale, without a solve for each contact."""
        if self.B is None or self.mass is None:
            return super()._own_mobility()
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
