"""Steps with friction as data: rows, law, residuals, infeasibility and the Slater number.

A contact has d rows, the normal one first. The rows are handled as those of a ``ContactStep`` with
nc·d contacts, so that products, energies and scales are those of rigid steps; what differs is the
cone: K_μ ∋ f ⟂ g̃ ∈ K*_μ, with g̃ = g for the associated law and de Saxcé's shifted rates for the
law of Coulomb (``friction_cone``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, one_of, read_only
from cdopt._util.cone_program import ConeProgram
from cdopt._util.errors import InfeasibilityProof
from cdopt._util.frozen import Frozen, frozen_rows
from cdopt.problem import friction_cone as cone
from cdopt.problem.certificate import EPS, Condition, Residual, residuals_of
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep, DelassusStep, Step
from cdopt.problem.friction import Friction
from cdopt.problem.rigid import DelassusStepData, RigidStepData, StepData, squeezed
from cdopt.problem.scaling import column_scale
from cdopt.problem.solution import row_ids

LAWS = ("coulomb", "associated")
Law = Annotated[str, one_of(LAWS)]
_MODERATE = 3.0  # forces over what acts that need no second look,
_GROWTH = -0.25  # or the worst residual to this power: so little do unbounded forces grow
_SHRINKS = 2.0  # the least forces of no attained answer do, when less accuracy is asked for
MARGIN = 1e-7  # a Slater number is zero within this; products of a proof are, relative to it
_SECONDS = 60.0  # of one cone program
_SMALL = 1e-6  # an error of forces, relative to what acts,
_LARGER = 1e-4, 0.3  # and bounds of another, which must not matter much


class FrictionalData(StepData):
    """A step with friction, however it is known.

    Attributes
    ----------
    step : the step of the rows, each as a contact.
    friction : of the contacts.
    law : "coulomb" or "associated".
    """

    friction: Friction
    law: str
    effect: Any  # Bᵀ or N with rows so scaled that ‖effect · f‖² is about fᵀN f
    acting_energy: Any  # of an answer: (parts,) J, of the changes of speed of contacts and loads

    kind = "frictional step"

    @property
    def contacts(self) -> int:
        """Number of contacts; ``nc`` counts their rows."""
        return int(self.friction.mu.size)

    @property
    def d(self) -> int:  # type: ignore[override]  # one without friction
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
        if self.law == "associated":
            rates = cone.shifted(rates, self.friction.mu)
        return np.repeat(rates[:, 0], self.d)

    def shifted(self, rates: FloatArray) -> FloatArray:
        """g̃ (contacts, d), m/s: the rates that the law sets orthogonal to the forces."""
        return cone.shifted(rates, self.friction.mu) if self.law == "coulomb" else rates

    def shift(self, rates: FloatArray) -> FloatArray:
        """(contacts,) m/s: what the law adds to the normal rates; ``rates`` is (contacts, d)."""
        return np.asarray(self.shifted(rates)[:, 0] - rates[:, 0])

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """The conditions K ∋ f ⟂ g̃ ∈ K*, for v⁺ (nv,) and the forces of the rows (nc,).

        With w = tr(N_ii)/d and S_i the gap speed of what acts at contact i:

        - ``penetration``    distance of g̃_i from K*, over S_i
        - ``friction cone``  w_i times the distance of f_i from K, over S_i
        - ``natural map``    ‖w_i f_i − P_K(w_i f_i − g̃_i)‖ / S_i
        - ``momentum``, ``duality gap`` : as of a rigid step, the latter with fᵀg̃
        """
        exchange, mu, d = self.exchange(motion, f), self.friction.mu, self.d
        forces, w = self.table(f), self.mobility[::d]
        rates = self.shifted(self.table(self.gap(motion, f)))
        speed = self.table(exchange.speed).max(axis=1, initial=0.0)
        round_off = (1.0 + mu) * np.linalg.norm(self.table(exchange.gap_round_off), axis=1)
        outside = np.linalg.norm(cone.project(-rates, mu), axis=1)
        natural = np.linalg.norm(cone.natural_map(forces, rates, mu, w), axis=1)
        work = self.dt * np.repeat(np.sum(forces * rates, axis=1) / d, d)
        size = self.dt * np.repeat(np.linalg.norm(forces, axis=1) * round_off / d, d)
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
        """How far the set of admissible rates is from having no interior."""
        return slater_number(self, np.arange(self.contacts))

    def prove_infeasible(self) -> InfeasibilityProof | None:
        """Forces f in the cone with Bᵀf = 0 (or N f = 0) and fᵀb < 0, if there are any.

        Of the associated law they are those of the Slater number. Of the law of Coulomb they are
        normal forces alone: such a proof excludes every law, and others exclude nothing.
        """
        if self.law == "coulomb":
            normal = sp.csr_array(sp.eye_array(self.nc, format="csr")[:: self.d])
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

        Forces that approach such an infimum grow as their ``worst`` residual gets less. So only
        forces f (nc,) above a multiple of what acts, the larger the less the residual, are looked
        at. They are right where the Slater number of their part is positive, and where the least
        forces for the same ``motion`` (nv,) hardly depend on their accuracy; in the plane cones
        are polyhedral, and every infimum is attained.

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
        doubts = (Residual("attainment", shrunk, float(acts[part]), "J"),)
        return slater.value, doubts if shrunk > _SHRINKS else ()


@dataclass(frozen=True, eq=False)
class FrictionalStepData(FrictionalData, RigidStepData):
    """A step with matrices: M (v⁺ − v*) = Δt Bᵀf, rates g = B v⁺ + b, d rows a contact."""

    step: ContactStep
    friction: Friction
    law: str

    @cached_property
    def _reach(self) -> sp.csr_array:
        """√Σ B² over the rows of each contact: how far a dof moves it in any direction."""
        squares = sp.csr_array((self.B.data**2, self.B.indices, self.B.indptr), self.B.shape)
        ends = np.arange(0, self.nc + 1, self.d)
        gather = sp.csr_array(
            (np.ones(self.nc), np.arange(self.nc), ends), (ends.size - 1, self.nc)
        )
        reach = sp.csr_array(gather @ squares)
        reach.data = np.sqrt(reach.data)
        return reach

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J, of an answer ``motion`` (nv,) and f (nc,): changes of motion, and loads."""
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

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J: of the motion that forces f (nc,) make; there is no ``motion`` (nv,)."""
        return self.exchange(motion, f).part_energy

    @property
    def effect(self) -> sp.csr_array:
        """N, each row over √w of its contact."""
        return sp.csr_array(self.step.N * (1.0 / np.sqrt(self.mobility))[:, None])


def frictional_data(step: Step, law: str) -> FrictionalStepData | FrictionalDelassusData:
    """The problem of a step with friction under a law of ``LAWS``."""
    friction = step.friction
    if friction is None:
        raise ValueError("a step without friction")
    rows: dict[str, Any] = dict.fromkeys(("bodies", "normals", "points", "friction", "origin"))
    rows["contact_ids"] = row_ids(step.contact_ids, friction.d)
    rows |= {"stiffness": np.ones(step.nc * friction.d), "power": HOOKE, "dt": step.dt}
    if isinstance(step, DelassusStep):
        rows |= {"N_rows": step.N_rows, "p_rows": step.p_rows, "N": step.N_rows}
        return FrictionalDelassusData(
            DelassusStep._of(**rows, p_vec=step.p_rows, negative=step.negative), friction, law
        )
    if not isinstance(step, ContactStep):
        raise TypeError(type(step).__name__)

    def stacked(normal: FloatArray, tangential: Any) -> FloatArray:
        return np.column_stack([normal, np.broadcast_to(tangential, friction.rate.shape)]).ravel()

    same = ("v", "F_ext", "v_min", "dof_body", "v_star")
    rows |= {name: getattr(step, name) for name in same}
    whole = ContactStep._of(
        **rows,
        M=step.mass,
        B=interleaved(step.B, friction.B_t, friction.d),
        phi=stacked(step.phi, 0.0),
        restitution=stacked(step.restitution, 0.0),
        gap_rate=stacked(step.gap_rate, friction.rate),
    )
    return FrictionalStepData(whole, friction, law)


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


# --- the Slater number -------------------------------------------------------------------
#
# For some motion v let every contact open faster than x S along its normal, with S the speed of its
# part: B v + b − x S e_n ∈ K*_μ. The Slater number is the largest such x. By duality it is
#
#     minimise bᵀf    subject to    f ∈ K_μ,  Bᵀf = 0,  Σ S f_n = 1,
#
# infinite where no forces balance themselves. Its sign says what may be expected.
#
# - Positive: the associated law has forces, and they are bounded; so has the law of Coulomb (A.
#   Klarbring & J.-S. Pang, SIAM J. Optim. 8, 1998; V. Acary, F. Cadoux, C. Lemaréchal & J. Malick,
#   ZAMM 91, 2011).
# - Zero: forces are unbounded along the f that attains it, or the infimum is not attained: the set
#   Bᵀ K_μ need not be closed (G. Pataki, Math. Oper. Res. 32, 2007), and forces then grow without
#   limit as the accuracy increases.
# - Negative: the associated law has no solution, and f proves it by two products.
#
# The cone programs are solved by Clarabel. Whatever it says, f is projected onto the cones, and its
# products are computed again from the data.


@dataclass(frozen=True, eq=False)
class Slater(Frozen):
    """How far the feasible set of a step with friction is from having no interior.

    Attributes
    ----------
    value : the largest x with g − x S e_n ∈ K*_μ for some motion, without unit; infinite where no
        forces balance themselves; NaN where the cone program was not solved.
    forces : (nc, d) N, self-balanced forces that attain it, with Σ S f_n = 1; None where it is
        infinite or NaN. Where ``value`` is zero, they may be added to the forces of any answer.
    violation : the largest entry of Bᵀf, relative to its terms.
    """

    value: float
    forces: FloatArray | None = None
    violation: float = 0.0

    @property
    def bounded(self) -> bool:
        """Whether the feasible set has an interior, so that forces exist and are bounded."""
        return self.value > MARGIN

    @property
    def infeasible(self) -> bool:
        """Whether the forces prove that the associated law has no solution."""
        return self.value < -MARGIN and self.violation <= MARGIN * -self.value

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "Slater number not known: the cone program was not solved"
        if self.bounded:
            return f"Slater number {self.value:.3g}: forces exist and are bounded"
        if self.infeasible:
            return f"Slater number {self.value:.3g}: the associated law has no solution"
        return "Slater number 0: forces are unbounded, or there are none"


def slater_number(data: FrictionalData, contacts: IntArray) -> Slater:
    """The Slater number of these contacts of a frictional step ``data``."""
    if not contacts.size:
        return Slater(np.inf)
    columns, stretch, mu = _cones(data, contacts)
    d, n, speed = data.d, columns.size, data.speed[columns]
    rows = sp.csr_array(data.products[:, columns] * (1.0 / speed)[None, :])
    reach = column_scale(sp.csr_array(rows.T))
    used = np.flatnonzero(reach > 0.0)
    balance = sp.csr_array(rows[used] * (1.0 / reach[used])[:, None])
    cost = data.rate_bias[columns] / speed
    total = np.where(np.arange(n) % d == 0, 1.0, 0.0)[None, :]
    equal = sp.vstack([balance * stretch[None, :], sp.csr_array(total)])
    right = np.append(np.zeros(used.size), 1.0)
    cones, dims = sp.eye_array(n), [d] * contacts.size
    program = ConeProgram(cost * stretch, equal, right, cones, np.zeros(n), dims, seconds=_SECONDS)
    answer = program.solve()
    if answer.status == "PrimalInfeasible":
        return Slater(np.inf)
    if not answer.useful:
        return Slater(np.nan, violation=np.inf)
    power = cone.project((stretch * answer.x).reshape(-1, d), mu)
    power /= power[:, 0].sum() or 1.0
    value = float(cost @ power.ravel())
    violation = float(np.abs(balance @ power.ravel()).max(initial=0.0))
    if violation > MARGIN:  # no self-balanced forces
        return Slater(np.nan, violation=np.inf)
    value = 0.0 if abs(value) <= MARGIN else value
    return Slater(value, read_only(power / speed.reshape(-1, d)), violation)


def forces_shrink(
    data: FrictionalData, motion: FloatArray | None, f: FloatArray, contacts: IntArray, worst: float
) -> float:
    """By which factor the least forces for the motion shrink when they may be less accurate.

    The forces f (nc,) of an answer are replaced by the least ones that have the same effect on
    the bodies and do the same work, but for a small error, and for a larger one, which exceeds
    that of motions with this ``worst`` residual. Of an attained answer the two differ little.
    Where an infimum is not attained, nothing but the accuracy bounds the forces that approach it.
    """
    columns, stretch, mu = _cones(data, contacts)
    root = np.sqrt(data.mobility[columns])
    rates = data.shifted(data.table(data.gap(motion, f)))[contacts]
    rates = rates + cone.project(-rates, mu)  # Moreau: the nearest point of K*
    effect = sp.csr_array(data.effect[:, columns] * (1.0 / root)[None, :])
    effect = sp.csr_array(effect[np.diff(effect.indptr) > 0])
    y = root * cone.project(data.table(f)[contacts], mu).ravel()
    unit = np.linalg.norm(effect @ y) or 1.0
    target, work = effect @ (y / unit), rates.ravel() / root / unit
    done = max(float(work @ (y / unit)), 0.0)
    n, m = columns.size, target.size
    on_forces = [  # in cones; then: Σ w ‖f‖² ≤ size², ‖effect − target‖ ≤ slack, work
        sp.eye_array(n),
        sp.csr_array((1, n)),
        sp.diags_array(stretch),
        sp.csr_array((1, n)),
        effect * stretch[None, :],
        sp.csr_array((-work * stretch)[None, :]),
    ]
    on_size = sp.csr_array(([1.0], ([n], [0])), shape=(2 * n + m + 3, 1))
    cones, cost = sp.hstack([sp.vstack(on_forces), on_size]), np.append(np.zeros(n), 1.0)
    dims = [data.d] * contacts.size + [n + 1, m + 1, 1]
    sizes = []
    for slack in (_SMALL, float(np.clip(10.0 * np.sqrt(worst), *_LARGER))):
        shift = np.concatenate([np.zeros(2 * n + 1), [slack], -target, [done + slack]])
        free = sp.csr_array((0, n + 1)), np.zeros(0)
        answer = ConeProgram(cost, *free, cones, shift, dims, seconds=_SECONDS).solve()
        sizes.append(float(answer.x[-1]) if answer.useful else np.inf)
    return sizes[0] / sizes[1] if sizes[1] > 0.0 else 1.0


def _cones(data: FrictionalData, contacts: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Rows (n d,) of these contacts; factors from the Lorentz cone to K_μ, 1 and μ; and μ (n,)."""
    d, mu = data.d, data.friction.mu[contacts]
    columns = (contacts[:, None] * d + np.arange(d)).ravel()
    return columns, np.where(columns % d == 0, 1.0, mu.repeat(d)), mu
