"""The plain data of a step with inertia and elastic contacts, and its energies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt.checks import FloatArray
from cdopt.contact_law import PowerLaw
from cdopt.data.rigid_step import RigidStepData
from cdopt.scales import Parts


@dataclass(frozen=True, eq=False)
class ElasticStepData:
    """Compliant contact dynamics: M (v⁺ − v*) = Δt Bᵀf, f = w′(c), c = −Δt (B v⁺ + bias).

    Attributes
    ----------
    rigid : the same step with rigid contacts, whose scales it shares.
    law : stiffness (nc,) in N/m^(p−1) and power.
    """

    rigid: RigidStepData
    law: PowerLaw

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
        return np.asarray(self.rigid.step.p_vec / self.rigid.speed)
