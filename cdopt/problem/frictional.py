"""Steps with friction as data: rows, law, residuals and infeasibility.

A contact has d rows, the normal one first. The rows are handled as those of a ``ContactStep`` with
nc·d contacts, so that products, energies and scales are those of rigid steps; what differs is the
cone: K_μ ∋ f ⟂ g̃ ∈ K*_μ, with g̃ = g for the associated law and de Saxcé's shifted rates for the
law of Coulomb (``friction_cone``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, one_of, read_only
from cdopt._util.errors import InfeasibilityProof
from cdopt._util.frozen import from_dense, frozen_rows
from cdopt.problem import friction_cone as cone
from cdopt.problem.bodies import BodyBlocks, ContactBodies, bodies_of
from cdopt.problem.certificate import EPS, Condition, Residual, residuals_of
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep, DelassusStep, Step
from cdopt.problem.friction import Friction
from cdopt.problem.rigid import (
    BACKGROUND,
    DelassusStepData,
    Exchange,
    RigidStepData,
    StepData,
    squeezed,
)
from cdopt.problem.scaling import Parts, components, network_parts, rows_of
from cdopt.problem.slater import Slater, forces_shrink, slater_number
from cdopt.problem.warm_start import row_ids

LAWS = ("coulomb", "associated")
Law = Annotated[str, one_of(LAWS)]
_MODERATE = 3.0  # forces over what acts that need no second look,
_GROWTH = -0.25  # or the worst residual to this power: so little do unbounded forces grow
_DENSE = 20_000  # entries of a B whose squares are summed as a dense matrix
_SHRINKS = 2.0  # the least forces of no attained answer do, when less accuracy is asked for


class FrictionalData(StepData):
    """A step with friction, however it is known.

    Attributes
    ----------
    step : the step of the rows, each as a contact.
    friction : of the contacts.
    law : "coulomb" or "associated".
    """

    step: Any
    friction: Friction
    law: str

    kind = "frictional step"

    @property
    def contacts(self) -> int:
        """Number of contacts; ``nc`` counts their rows."""
        return int(self.friction.mu.size)

    @property
    def d(self) -> int:
        """Rows a contact."""
        return self.friction.d

    def table(self, rows: FloatArray) -> FloatArray:
        """Values of the rows (nc,) as one row a contact (contacts, d)."""
        return rows.reshape(self.contacts, self.d)

    def normal(self, rows: FloatArray) -> FloatArray:
        """(nc,) m/s, how fast each row's contact opens at rates ``rows`` (nc,); below 0 it closes.

        Of the associated law it is g_n − μ‖g_T‖: there sliding opens contacts.
        """
        rates = self.table(rows)
        opening = rates[:, 0]
        if self.law == "associated":
            opening = 2.0 * opening - cone.shifted(rates, self.friction.mu)[:, 0]
            round_off = EPS * self.normal_size(rows)[:: self.d]
            opening = np.where(np.abs(opening) <= round_off, 0.0, opening)
        return np.repeat(opening, self.d)

    def normal_size(self, rows: FloatArray) -> FloatArray:
        """(nc,) m/s, sizes of the terms of ``normal``: |g_n|, of the associated law + μ‖g_T‖."""
        rates = np.abs(self.table(rows))
        size = rates[:, 0]
        if self.law == "associated":
            size = cone.shifted(rates, self.friction.mu)[:, 0]
        return np.repeat(size, self.d)

    def shift(self, rates: FloatArray) -> FloatArray:
        """(contacts,) m/s: what the law adds to the normal rates; ``rates`` is (contacts, d)."""
        if self.law == "associated":
            return np.zeros(self.contacts)
        return cone.shifted(rates, self.friction.mu)[:, 0] - rates[:, 0]

    def shifted(self, rates: FloatArray) -> FloatArray:
        """g̃ (contacts, d), m/s: the rates that the law sets orthogonal to the forces."""
        return cone.shifted(rates, self.friction.mu) if self.law == "coulomb" else rates

    @cached_property
    def mobility(self) -> FloatArray:
        """(nc,) m/(s·N), w = tr(N_ii)/d of each row's contact, the same in every basis."""
        diagonal = self.table(self._diagonal()).mean(axis=1)
        of_part = self.parts.contact[:: self.d]
        mean = Parts(of_part, np.zeros(0, np.int64), self.parts.count).geometric_mean(diagonal)
        w = np.where(diagonal > 0.0, diagonal, mean[of_part])
        return read_only(np.repeat(w, self.d))

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """The conditions K ∋ f ⟂ g̃ ∈ K*, for v⁺ (nv,) and the forces of the rows (nc,).

        With w = tr(N_ii)/d and S_i the gap speed of what acts at contact i:

        - ``penetration``    distance of g̃_i from K*, over S_i
        - ``friction cone``  w_i times the distance of f_i from K, over S_i
        - ``natural map``    ‖w_i f_i − P_K(w_i f_i − g̃_i)‖ / S_i
        - ``momentum``, ``duality gap`` : as of a rigid step, the latter with fᵀg̃
        """
        exchange, mu = self.exchange(motion, f), self.friction.mu
        forces, w = self.table(f), self.mobility[:: self.d]
        rates = self.table(self.gap(motion, f))
        law_rates = self.shifted(rates)
        speed = self.table(exchange.speed).max(axis=1, initial=0.0)
        sizes = np.linalg.norm(self.table(exchange.gap_round_off), axis=1)
        round_off = (1.0 + mu) * sizes
        outside = np.linalg.norm(cone.project(-law_rates, mu), axis=1)
        natural = np.linalg.norm(cone.natural_map(forces, law_rates, mu, w), axis=1)
        work = self.dt * np.repeat(np.sum(forces * law_rates, axis=1) / self.d, self.d)
        size = self.dt * np.repeat(np.linalg.norm(forces, axis=1) * round_off / self.d, self.d)
        return residuals_of(
            Condition("penetration", "m/s", outside, speed, round_off),
            Condition("friction cone", "m/s", w * cone.distance(forces, mu), speed, 0.0 * speed),
            Condition("natural map", "m/s", natural, speed, round_off),
            *exchange.momentum,
            self.duality_gap(exchange, work, size, np.zeros(self.nc)),
        )

    def worst_residual(self, f: FloatArray) -> float:
        """The largest residual of forces f (nc,), N, and the motion that they cause."""
        return max(r.value for r in self.residuals_once(self.velocity(f), f))

    def errors_elsewhere(self, motion: FloatArray | None, f: FloatArray) -> dict[str, float]:
        """Errors that other programs report, of an answer v⁺ (nv,) and f (nc,).

        All are ‖r − P_K(r − g̃)‖ with the impulses r = Δt f, over a scale, with u = g and q = p:

        - ``siconos`` : max(‖q‖, ‖r‖, ‖u‖)
        - ``rr-9118`` : ‖q‖ (V. Acary, M. Brémond, O. Huber, Inria RR-9118, 2017)
        - ``fclib``   : 1 + √‖q‖, as FCLib's MERIT_1 is written

        They add m/s to N s, and depend on the units.
        """
        rates, mu = self.table(self.gap(motion, f)), self.friction.mu
        impulses, q = self.dt * self.table(f), float(np.linalg.norm(self.step.p_vec))
        error = impulses - cone.project(impulses - self.shifted(rates), mu)
        size = float(np.linalg.norm(error))
        largest = max(q, float(np.linalg.norm(impulses)), float(np.linalg.norm(rates)))
        scales = {"siconos": largest, "rr-9118": q, "fclib": 1.0 + np.sqrt(q)}
        return {name: size / scale if size else 0.0 for name, scale in scales.items()}

    # --- existence -----------------------------------------------------------------------

    def slater(self) -> Slater:
        """How far the set of admissible rates is from having no interior (``problem.slater``)."""
        if not self.contacts:
            return Slater(np.inf, None, 0.0)
        return slater_number(self, np.arange(self.contacts))

    def prove_infeasible(self) -> InfeasibilityProof | None:
        """Forces f in the cone with Bᵀf = 0 (or N f = 0) and fᵀb < 0, if there are any.

        Of the associated law they are those of the Slater number. Of the law of Coulomb they are
        normal forces alone: such a proof excludes every law, and others exclude nothing.
        """
        if not self.contacts:
            return None
        if self.law == "coulomb":
            count = self.contacts
            normal = sp.csr_array(
                (np.ones(count), (np.arange(count), self.d * np.arange(count))),
                shape=(count, self.nc),
            )
            rows = sp.csr_array(self.products @ normal.T)
            return squeezed(self, rows, self.rate_bias, normal)
        slater = self.slater()
        if slater.forces is None or not slater.infeasible:
            return None
        forces = slater.forces.ravel()
        value = float(self.rate_bias @ forces)
        return InfeasibilityProof(self.kind, read_only(forces), value, slater.violation)

    def attainment(
        self, motion: FloatArray | None, f: FloatArray, worst: float
    ) -> tuple[float | None, tuple[Residual, ...]]:
        """Whether forces that look right are those of an infimum that is not attained.

        Forces that approach such an infimum grow as their worst residual gets less. So only forces
        above a multiple of what acts, the larger the less the residual, are looked at. They
        are right where the Slater number of their part is positive, and where the least forces for
        the same motion hardly depend on their accuracy; in the plane cones are polyhedral, and
        every infimum is attained.

        Returns
        -------
        The Slater number, where it was computed, and a residual where the answer is none.
        """
        if self.d == 2 or not self.contacts:
            return None, ()
        acts, at = self.acting_energy(motion, f), self.parts.contact
        energy = self.dt * self.parts.total(at, self.mobility * f**2)
        size = np.sqrt(energy / np.where(acts > 0.0, acts, np.inf))
        part = int(np.argmax(size))
        large = float(size[part])
        if large <= max(_MODERATE, max(worst, EPS * (1.0 + large)) ** _GROWTH):
            return None, ()
        contacts = np.flatnonzero(at[:: self.d] == part)
        slater = slater_number(self, contacts)
        if slater.bounded:
            return slater.value, ()
        shrunk = forces_shrink(self, motion, f, contacts, worst)
        if shrunk <= _SHRINKS:
            return slater.value, ()
        return slater.value, (Residual("attainment", shrunk, float(acts[part]), "J"),)

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J: of the changes of speed that contacts and loads make."""
        raise NotImplementedError

    @property
    def effect(self) -> sp.csr_array:
        """Bᵀ or N with rows so scaled that ‖effect · f‖² is about fᵀN f."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FrictionalStepData(FrictionalData, RigidStepData):
    """A step with matrices: M (v⁺ − v*) = Δt Bᵀf, rates g = B v⁺ + b, d rows a contact."""

    step: ContactStep
    friction: Friction
    law: str

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the contact network; the rows of a contact are in one."""
        reach = self._reach if self.B is self.step.B else _reach(self.step.B, self.d)
        parts = network_parts(reach, self._coupling)
        return Parts(read_only(parts.contact.repeat(self.d)), parts.dof, parts.count)

    @cached_property
    def bodies(self) -> BodyBlocks:
        """The bodies that the degrees of freedom belong to."""
        return bodies_of(self._reach, self.mass.diagonal, self._coupling, self.step.dof_body)

    @cached_property
    def contact_bodies(self) -> ContactBodies:
        """The bodies of each row, with the mobility of its contact in all directions."""
        return self.bodies.at_contacts(self._reach, self.mass.diagonal).repeated(self.d)

    @cached_property
    def _reach(self) -> sp.csr_array:
        return _reach(self.B, self.d)

    @cached_property
    def _free_terms(self) -> FloatArray:
        """(nc,) m/s, of each row's contact: size of the terms of ``normal`` in free motion."""
        terms = np.abs(self.step.bias) + self.entries.times_size(self.step.v_star)
        return self.normal_size(terms)

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J: of the changes of speed that contacts and loads make."""
        step = self.step
        jump = (self.velocity(f) if motion is None else motion) - step.v_star
        change = np.maximum(np.abs(jump), np.abs(step.v_star - step.v))
        return self.parts.total(self.parts.dof, self.mass.diagonal * change**2)

    @property
    def effect(self) -> sp.csr_array:
        """√Δt M^(−1/2) Bᵀ, of the diagonal of M."""
        return sp.csr_array(self.products * np.sqrt(self.dt / self.mass.diagonal)[:, None])


@dataclass(frozen=True, eq=False)
class FrictionalDelassusData(FrictionalData, DelassusStepData):
    """A step known by N and p, d rows a contact: g = N f + p."""

    step: DelassusStep
    friction: Friction
    law: str

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the contact network; the rows of a contact are in one."""
        N, nc = self.step.N, self.step.nc
        first = np.arange(nc) // self.d * self.d
        left = np.concatenate([rows_of(N), np.arange(nc)])
        label, count = components(left, np.concatenate([N.indices, first]), nc)
        return Parts(read_only(label), np.zeros(0, dtype=np.int64), count)

    def exchange(self, v_next: FloatArray | None, f: FloatArray) -> Exchange:
        """What acts at the contacts; at least a small share of the speed of the part.

        Forces of round-off on an open contact must not be measured by themselves.
        """
        exchange = super().exchange(v_next, f)
        least = np.maximum(exchange.speed, BACKGROUND * self.speed)
        return dataclasses.replace(exchange, speed=least)

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J: of the motion that forces make."""
        return self.exchange(motion, f).part_energy

    @property
    def effect(self) -> sp.csr_array:
        """N, each row over √w of its contact."""
        return sp.csr_array(self.step.N * (1.0 / np.sqrt(self.mobility))[:, None])


class _DelassusRows(DelassusStep):
    """The rows of a step with friction known by N and p, each as a contact.

    Not validated again, pickled or not: with friction N may have larger negative eigenvalues.
    """

    _whole: DelassusStep

    def __init__(self, step: DelassusStep) -> None:
        friction = step.friction
        if friction is None:
            raise ValueError("a step without friction")
        self.__dict__.update(step.__dict__)
        for name in ("N", "p_vec"):
            self.__dict__.pop(name, None)
        ids = row_ids(step.contact_ids, friction.d)
        ones = np.ones(step.nc * friction.d)
        self.__dict__.update(_whole=step, _d=1, friction=None, contact_ids=ids, stiffness=ones)

    def __reduce__(self) -> tuple[Any, ...]:
        return _DelassusRows, (self._whole,)


def frictional_data(step: Step, law: str) -> FrictionalStepData | FrictionalDelassusData:
    """The problem of a step with friction under a law of ``LAWS``."""
    friction = step.friction
    if friction is None:
        raise ValueError("a step without friction")
    if isinstance(step, DelassusStep):
        return FrictionalDelassusData(_DelassusRows(step), friction, law)
    if not isinstance(step, ContactStep):
        raise TypeError(type(step).__name__)
    zero, nothing = np.zeros(friction.rate.shape), ("bodies", "normals", "points")
    rows = ContactStep._of(
        step.mass,
        **dict.fromkeys(nothing),
        B=interleaved(step.B, friction.B_t, friction.d),
        phi=_rows(step.phi, zero),
        v=step.v,
        F_ext=step.F_ext,
        dt=step.dt,
        restitution=_rows(step.restitution, zero),
        gap_rate=_rows(step.gap_rate, friction.rate),
        v_min=step.v_min,
        stiffness=np.ones(zero.size + step.nc),
        contact_ids=row_ids(step.contact_ids, friction.d),
        dof_body=step.dof_body,
        power=HOOKE,
        v_star=step.v_star,
    )
    return FrictionalStepData(rows, friction, law)


def interleaved(B: sp.csr_array, B_t: sp.csr_array, d: int) -> sp.csr_array:
    """Normal rows B (nc, nv) and tangential ones, the d of a contact together (nc d, nv).

    Both are in canonical order without zeros.
    """
    (nc, nv), many = B.shape, d - 1
    begins = np.column_stack([B.indptr[:-1], B.nnz + B_t.indptr[:-1].reshape(nc, many)]).ravel()
    counts = np.column_stack([np.diff(B.indptr), np.diff(B_t.indptr).reshape(nc, many)]).ravel()
    indptr = np.append(0, np.cumsum(counts))
    place = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], counts)
    data = np.concatenate([B.data, B_t.data])[place]
    indices = np.concatenate([B.indices, B_t.indices])[place]
    return frozen_rows(data, indices, indptr, (counts.size, nv))


def _rows(normal: FloatArray, tangential: FloatArray) -> FloatArray:
    return np.column_stack([normal, tangential]).ravel()


def _reach(B: sp.csr_array, d: int) -> sp.csr_array:
    """√Σ B² over the rows of each contact: how far a dof moves it in any direction."""
    nc, nv = B.shape[0] // d, B.shape[1]
    if B.shape[0] * nv <= _DENSE:  # constructing sparse matrices would take longer
        squares = (B.toarray() ** 2).reshape(nc, d, nv).sum(axis=1)
        return from_dense(np.sqrt(squares))
    squared = sp.csr_array((B.data**2, B.indices, B.indptr), shape=B.shape)
    gather = sp.csr_array(
        (np.ones(nc * d), np.arange(nc * d), np.arange(nc + 1) * d), shape=(nc, nc * d)
    )
    reach = sp.csr_array(gather @ squared)
    reach.data = np.sqrt(reach.data)
    return reach
