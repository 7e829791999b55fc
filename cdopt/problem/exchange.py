"""What acts on each body and at each contact of a step: the scales of the certificate's residuals.

A residual compares an error with what acts at that place. Nothing here is taken over the whole
network, so that a fast or heavy body lends its scale to no other (compare the componentwise
backward error of Oettli & Prager, Numerische Mathematik 6, 1964).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.problem.bodies import Bodies, contact_impulses, contact_speeds, least_energies
from cdopt.problem.entries import Entries
from cdopt.problem.rigid import RigidStepData
from cdopt.problem.scaling import Parts

_LENT = 1e-2  # of what acts next to a body on which nothing acts
_RESOLVED = 1e7  # times round-off: the least scale where nothing acts, so that noise is none
_EPS = 8.0 * float(np.finfo(float).eps)  # round-off of a sum, of its terms' absolute values


@dataclass(frozen=True, eq=False)
class Exchange:
    """What acts in a step, by body and by contact, for an answer (v⁺, f).

    Attributes
    ----------
    data : the step.
    bodies : its dofs by body.
    energy : (bodies,) kg m²/s², Σ M_jj a_j² over the body's dofs; a_j is the change of speed
        that contacts or loads make in this step, whichever is larger. At least a small share of
        what the contacts that close would make, each by itself. A body without load, none
        of whose contacts closes, takes a small share of what acts on its neighbours; in a part
        of such bodies alone the part's speed counts. Where bodies are not stated, contact forces
        count by their absolute values.
    acting : (nv,) N s, Δt|B|ᵀ|f| + M_jj a_j: what acts on each dof.
    motion_energy : M_jj a_j² (nv,), kg m²/s².
    speed : (nc,) m/s, how fast the gap of each contact would change by what acts there, at most
        the speed of the contact's part.
    imbalance : M(v⁺ − v*) − Δt Bᵀf (nv,), N s.
    gap_round_off : (nc,) m/s, of the gap of each contact.
    momentum_round_off : (nv,) N s, of the imbalance of each dof.
    work : Δt f_i (N f)_i (nc,), J, of a step known by N and p alone.
    """

    data: RigidStepData
    bodies: Bodies
    energy: FloatArray
    acting: FloatArray
    motion_energy: FloatArray
    speed: FloatArray
    imbalance: FloatArray
    gap_round_off: FloatArray
    momentum_round_off: FloatArray
    work: FloatArray | None = None

    @property
    def root_mass(self) -> FloatArray:
        """√M_jj (nv,)."""
        mass = self.data.mass
        return np.zeros(0) if mass is None else np.sqrt(mass.diagonal)

    @property
    def contact_energy(self) -> FloatArray:
        """(nc,) J, without bodies to count it by: Δt f (N f), in parts without it Δt v²/N_ii."""
        data = self.data
        if self.work is None:
            return np.zeros(data.nc)
        parts = data.parts
        work = parts.total(parts.contact, self.work)[parts.contact]
        return np.where(work > 0.0, self.work, data.dt * self.speed**2 / data.mobility)

    def energy_of_parts(self, parts: Parts) -> FloatArray:
        """(parts,) J, the energies of the bodies of each part."""
        mass = self.data.mass
        if mass is None:
            return np.zeros(parts.count)
        dof = self.energy[self.bodies.label] / np.bincount(self.bodies.label)[self.bodies.label]
        least = _LENT * _LENT * parts.total(parts.dof, dof)
        return np.maximum(parts.total(parts.dof, self.motion_energy), least)

    def force(self) -> FloatArray:
        """(nc,) N, of what the bodies of each contact exchange the smaller."""
        data, B = self.data, self.data.B
        if B is None or data.mass is None:
            return self.speed / data.mobility
        exchanged = self.bodies.total((self.acting / self.root_mass) ** 2)
        exchanged = np.maximum(exchanged, self.energy)
        impulse = contact_impulses(
            B.indptr, B.indices, B.data, data.mass.diagonal, self.bodies.label, exchanged
        )
        return impulse / data.dt


def exchange_of(data: RigidStepData, v_next: FloatArray | None, f: FloatArray) -> Exchange:
    """What acts in a step, for an answer v⁺ (nv,) in m/s and f (nc,) in N."""
    step, B, mass = data.step, data.B, data.mass
    if v_next is None or B is None or mass is None or step.v_star is None or step.bias is None:
        return _by_delassus(data, f)
    dt, entries, bodies = data.dt, data.entries, data.bodies
    jump = v_next - step.v_star
    start = step.v if step.v is not None else step.v_star
    change = np.maximum(np.abs(jump), np.abs(step.v_star - start))
    motion_energy = mass.diagonal * change**2
    pushed = dt * entries.load_size(f)
    if step.dof_body is None:  # dofs in which forces cancel may be those of a body that moves
        change = np.maximum(change, pushed / mass.diagonal)
    rows = (B.indptr, B.indices, B.data, mass.diagonal, bodies.label)
    gap_round_off = _EPS * (np.abs(step.bias) + entries.times_size(v_next))
    still = data.idle_parts[data.parts.contact]
    most = np.where(still, np.maximum(data.speed, _RESOLVED * gap_round_off), data.speed)
    energy = least_energies(
        *rows, bodies.total(mass.diagonal * change**2), data.idle_bodies,
        np.maximum(-step.p_vec, 0.0), _LENT,
        np.where(still, 1.0, _LENT) * most,
    )  # fmt: skip
    speed = np.minimum(contact_speeds(*rows, energy), most)
    momenta = Entries(mass.M).times_size(np.abs(v_next) + np.abs(step.v_star))
    return Exchange(
        data,
        bodies,
        energy,
        pushed + mass.diagonal * change,
        motion_energy,
        speed,
        mass.M @ jump - dt * data.load(f),
        gap_round_off,
        _EPS * (pushed + momenta),
    )


def _by_delassus(data: RigidStepData, f: FloatArray) -> Exchange:
    """The same from N and p alone.

    Speeds that forces make at a contact are Σ_j |N_ij||f_j|, or if less √(N_ii fᵀN f), which bounds
    |N f|_i by Cauchy and Schwarz and does not count forces that cancel.
    """
    N, p, parts = data.step.N, data.step.p_vec, data.parts
    summed = Entries(N).times_size(f)
    work = f * (N @ f)
    bound = np.sqrt(np.maximum(N.diagonal() * parts.total(parts.contact, work)[parts.contact], 0.0))
    speed = np.maximum(np.maximum(-p, 0.0), np.minimum(np.minimum(summed, bound), data.speed))
    speed = np.where(data.idle_parts[parts.contact], data.speed, speed)
    none = np.zeros(0)
    bodies = Bodies(np.zeros(0, dtype=np.int64), 0)
    return Exchange(
        data,
        bodies,
        none,
        none,
        none,
        speed,
        none,
        _EPS * (np.abs(p) + summed),
        none,
        data.dt * work,
    )
