"""The plain data of each problem kind, and the characteristic scales of its quantities.

A structured solver consumes these; a formulation states them in CVXPY in units of their
scales; the certificate measures against the same scales. Every scale is homogeneous: a change
of units changes the scale by the same factor, so scaled problems do not see units at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt.checks import BoolArray, FloatArray, read_only
from cdopt.contact_law import PowerLaw
from cdopt.mass import MassMatrix
from cdopt.step import ContactStep

_NEGLIGIBLE = 1e-9  # a closing speed below this share of the opening ones is round-off


def column_scale(B: sp.csr_array) -> FloatArray:
    """β_j = max_i |B_ij| (nv,): what one unit of a degree of freedom does to a gap, at most."""
    result = np.zeros(B.shape[1])
    np.maximum.at(result, B.indices, np.abs(B.data))
    return result


def geometric_mean(values: FloatArray) -> float:
    """Geometric mean of the positive values; one when there are none."""
    positive = values[values > 0.0]
    return float(np.exp(np.mean(np.log(positive)))) if positive.size else 1.0


@dataclass(frozen=True, eq=False)
class RigidStepData:
    """A classic contact dynamics step: f ≥ 0, B v⁺ + bias ≥ 0, M (v⁺ − v*) = Δt Bᵀ f.

    Equations (20)–(22) of Olsen & Kamrin (2018).
    """

    step: ContactStep

    @property
    def kind(self) -> str:
        """Name of the problem kind."""
        return "rigid step"

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.step.nc

    @property
    def dt(self) -> float:
        """Time step Δt, s."""
        return self.step.dt

    @property
    def B(self) -> sp.csr_array | None:
        """Gap gradient (nc, nv); None when only N and p are known."""
        return self.step.B

    @property
    def mass(self) -> MassMatrix | None:
        """Mass matrix; None when only N and p are known."""
        return self.step.mass

    @property
    def contact_ids(self) -> NDArray[Any] | None:
        """Names of the contacts, when given."""
        return self.step.contact_ids

    def velocity(self, f: FloatArray) -> FloatArray | None:
        """v⁺ = v* + Δt M⁻¹ Bᵀ f (nv,), m/s: the motion under forces f (nc,) in N."""
        if self.B is None or self.mass is None or self.step.v_star is None:
            return None
        return np.asarray(self.step.v_star + self.dt * self.mass.solve(self.B.T @ f))

    def gap(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """(nc,) m/s, the value of each contact's constraint: B v⁺ + bias, or N f + p."""
        if v_next is None or self.B is None or self.step.bias is None:
            return np.asarray(self.step.N @ f + self.step.p_vec)
        return np.asarray(self.B @ v_next + self.step.bias)

    # --- scales ------------------------------------------------------------------------

    @cached_property
    def speed(self) -> float:
        """m/s: fastest closing of the free motion; where nothing closes, fastest opening."""
        p = self.step.p_vec
        closing = float(np.max(-p, initial=0.0))
        largest = float(np.abs(p).max(initial=0.0))
        return (closing if closing > _NEGLIGIBLE * largest else largest) or 1.0

    @cached_property
    def mobility(self) -> FloatArray:
        """N_ii (nc,), m/(s·N): gap speed per unit of the contact's own force, always positive."""
        if self.B is None or self.mass is None:
            own = self.step.N.diagonal()
        else:
            product = self.mass.solve_sparse(sp.csr_array(self.B.T)).T.tocsr()
            own = self.dt * np.asarray(self.B.multiply(product).sum(axis=1)).ravel()
        return read_only(np.where(own > 0.0, own, geometric_mean(own)))

    @cached_property
    def force(self) -> float:
        """N: the force that stops ``speed`` at a contact of geometric-mean mobility."""
        return self.speed / geometric_mean(self.mobility)

    @cached_property
    def energy(self) -> float:
        """J: work of ``force`` over ``speed`` in one time step."""
        return self.force * self.speed * self.dt

    @cached_property
    def dof_speed(self) -> FloatArray:
        """(nv,) m/s or rad/s: speed of each degree of freedom that moves a gap at ``speed``."""
        if self.B is None or self.mass is None:
            return np.zeros(0)
        beta = column_scale(self.B)
        free = np.sqrt(self.energy / self.mass.diagonal)
        return read_only(np.where(beta > 0.0, self.speed / np.where(beta > 0.0, beta, 1.0), free))


@dataclass(frozen=True, eq=False)
class TrussData:
    """A no-tension truss: f ≥ 0, Bᵀf = F̃ on free dofs, f = w′(−B u).

    Attributes
    ----------
    B : (nc, nv).
    contact_load : F̃ (nv,), N and N·m; entries at prescribed dofs are not used.
    law : stiffness (nc,) and power.
    free : (nv,) mask of the free dofs Γ_N.
    prescribed_u : (nv,) displacement of the others, m; zero on free dofs.
    contact_ids : names of the contacts, or None.

    Equations (32), (33) and (36) of Olsen & Kamrin (2018), with the sign of (32) corrected.
    """

    B: sp.csr_array
    contact_load: FloatArray
    law: PowerLaw
    free: BoolArray
    prescribed_u: FloatArray
    contact_ids: NDArray[Any] | None = None

    @property
    def kind(self) -> str:
        """Name of the problem kind."""
        return "truss"

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.B.shape[0])

    def overlap(self, u: FloatArray) -> FloatArray:
        """c = −B u (nc,), m."""
        return -np.asarray(self.B @ u)

    def reactions(self, f: FloatArray) -> FloatArray:
        """(Bᵀ f) on the prescribed dofs, in their order, N and N·m."""
        return np.asarray(self.B.T @ f)[~self.free]

    def complementary_energy(self, f: FloatArray) -> float:
        """Σ w*(f) + fᵀ B u_prescribed, J: the objective of (33) and (36)."""
        return float(self.law.conjugate(f).sum() - f @ self.overlap(self.prescribed_u))

    def potential_energy(self, u: FloatArray) -> float:
        """Σ w(−B u) + F̃ᵀ u over free dofs, J: the corrected objective of (32)."""
        work = float(self.contact_load[self.free] @ u[self.free])
        return float(self.law.energy(self.overlap(u)).sum()) + work

    # --- scales ------------------------------------------------------------------------

    @cached_property
    def dof_lever(self) -> FloatArray:
        """β_j (nv,): gap per unit of the dof; the largest one where a dof touches no contact."""
        beta = column_scale(self.B)
        return read_only(np.where(beta > 0.0, beta, float(beta.max(initial=0.0)) or 1.0))

    @cached_property
    def reached(self) -> BoolArray:
        """(nv,) free dofs that some contact acts on."""
        return read_only(self.free & (column_scale(self.B) > 0.0))

    @cached_property
    def force(self) -> float:
        """N: the largest load as a contact would feel it.

        With prescribed displacement, the force that it would cause if larger.
        """
        load = float(np.max(np.abs(self.contact_load / self.dof_lever)[self.free], initial=0.0))
        held = np.abs(self.overlap(self.prescribed_u))
        caused = float(np.max(self.law.force(held), initial=0.0))
        return max(load, caused) or 1.0

    @cached_property
    def stiffness(self) -> float:
        """N/m^(p−1): geometric mean of the contact stiffness."""
        return geometric_mean(self.law.stiffness)

    @cached_property
    def length(self) -> float:
        """m: overlap of a contact of mean stiffness under ``force``."""
        return float((self.force / self.stiffness) ** (1.0 / (self.law.power - 1.0)))
