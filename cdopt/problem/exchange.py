"""What acts on each body and at each contact of a step: the scales of the certificate's residuals.

A residual compares an error with what acts at that place. Nothing here is taken over the whole
network, so that a fast or heavy body lends its scale to no other (compare the componentwise
backward error of Oettli & Prager, Numerische Mathematik 6, 1964).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.problem.bodies import BodyBlocks
from cdopt.problem.certificate import EPS
from cdopt.problem.scaling import Entries

if TYPE_CHECKING:
    from cdopt.problem.rigid import MatrixStepData

_LENT = 1e-2  # of what acts next to a body on which nothing acts
_BACKGROUND = 1e-6  # of the speed of its part, where nothing acts next to it either
_RESOLVED = 1e7  # times round-off: the least scale where nothing acts, so that noise is none


@dataclass(frozen=True, eq=False)
class Exchange:
    """What acts in a step for given forces.

    Attributes
    ----------
    speed : (nc,) m/s, how fast the gap of each contact would change by what acts there, at most
        the speed of the contact's part.
    gap_round_off : (nc,) m/s, of the gap of each contact.
    part_energy : (parts,) J, what acts in each independent part.
    mobility : (nc,) m/(s·N), gap speed per unit of the contact's own force.
    acting : (nv,) N s, what acts on each dof; empty where only N and p are known.
    """

    speed: FloatArray
    gap_round_off: FloatArray
    part_energy: FloatArray
    mobility: FloatArray
    acting: FloatArray = field(default_factory=lambda: np.zeros(0))

    def force(self) -> FloatArray:
        """(nc,) N, what acts at each contact."""
        return self.speed / self.mobility


@dataclass(frozen=True, eq=False, kw_only=True)
class BodyExchange(Exchange):
    """What acts on the bodies of a step, for an answer (v⁺, f).

    ``acting`` is Δt|B|ᵀ|f| + M_jj a_j of each dof.

    Attributes
    ----------
    data : the step.
    energy : (bodies,) kg m²/s², Σ M_jj a_j² over the body's dofs; a_j is the change of speed
        that contacts or loads make in this step, whichever is larger. At least a small share of
        what the contacts that close would make, each by itself. A body without load, none
        of whose contacts closes, takes a small share of what acts on its neighbours; in a part
        of such bodies alone the part's speed counts. Where bodies are not stated, contact forces
        count by their absolute values.
    imbalance : M(v⁺ − v*) − Δt Bᵀf (nv,), N s.
    momentum_round_off : (nv,) N s, of the imbalance of each dof.
    """

    data: MatrixStepData
    energy: FloatArray
    imbalance: FloatArray
    momentum_round_off: FloatArray

    @property
    def bodies(self) -> BodyBlocks:
        """The dofs by body."""
        return self.data.bodies

    @property
    def root_mass(self) -> FloatArray:
        """√M_jj (nv,)."""
        return np.sqrt(self.data.mass.diagonal)

    def force(self) -> FloatArray:
        """(nc,) N, of what the bodies of each contact exchange the smaller."""
        exchanged = self.bodies.total((self.acting / self.root_mass) ** 2)
        exchanged = np.maximum(exchanged, self.energy)
        return self.data.contact_bodies.impulses(exchanged) / self.data.dt


def body_exchange(data: MatrixStepData, v_next: FloatArray, f: FloatArray) -> BodyExchange:
    """What acts in a step, for an answer v⁺ (nv,) in m/s and f (nc,) in N."""
    step, mass, parts, bodies, dt = data.step, data.mass, data.parts, data.bodies, data.dt
    jump = v_next - step.v_star
    change = np.maximum(np.abs(jump), np.abs(step.v_star - step.v))
    motion_energy = mass.diagonal * change**2
    pushed = dt * data.entries.load_size(f)
    if step.dof_body is None:  # dofs in which forces cancel may be those of a body that moves
        change = np.maximum(change, pushed / mass.diagonal)
    at_contacts = data.contact_bodies
    gap_round_off = EPS * (np.abs(step.bias) + data.entries.times_size(v_next))
    still = data.idle_parts[parts.contact]
    most = np.where(still, np.maximum(data.speed, _RESOLVED * gap_round_off), data.speed)
    energy = at_contacts.least_energies(
        bodies.total(mass.diagonal * change**2),
        data.idle_bodies,
        np.maximum(-step.p_vec, 0.0),
        _LENT,
        np.where(still, 1.0, _BACKGROUND) * most,
    )
    dof_energy = energy[bodies.label] / np.bincount(bodies.label)[bodies.label]
    least = _LENT * _LENT * parts.total(parts.dof, dof_energy)
    momenta = Entries(mass.M).times_size(np.abs(v_next) + np.abs(step.v_star))
    return BodyExchange(
        speed=np.minimum(at_contacts.speeds(energy), most),
        gap_round_off=gap_round_off,
        part_energy=np.maximum(parts.total(parts.dof, motion_energy), least),
        mobility=data.mobility,
        acting=pushed + mass.diagonal * change,
        data=data,
        energy=energy,
        imbalance=mass.M @ jump - dt * data.load(f),
        momentum_round_off=EPS * (pushed + momenta),
    )
