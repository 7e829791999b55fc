"""Steps with inertia as data: energies, scales, residuals and infeasibility.

With friction a contact has d rows here, each handled as a contact; otherwise d is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import BoolArray, FloatArray, freeze, read_only
from cdopt._util.errors import InfeasibilityProof
from cdopt.problem.certificate import (
    EPS,
    Condition,
    ProblemData,
    Residual,
    descending_ray,
    positive,
    residuals_of,
)
from cdopt.problem.contact_step import ContactStep, DelassusStep, Step
from cdopt.problem.mass import MassMatrix
from cdopt.problem.scaling import (
    BodyBlocks,
    ContactBodies,
    Entries,
    Parts,
    ScaledDelassus,
    ScaledDynamics,
    column_scale,
    matrix_parts,
    network_parts,
    rows_of,
    scaled,
    total_by,
)

_NEGLIGIBLE = 1e-12  # a closing speed below this share of the opening ones is round-off
_ROUND_OFF = 1e-10  # nor is anything below this share of the terms that cancelled to make it
_IDLE = 1e-20  # a dof with less than this share of every contact's mobility moves none of them
_NEIGHBOUR = 1e-2  # a body on which nothing acts takes this share of what acts next to it,
BACKGROUND = 1e-6  # or this share of the speed of its part, where nothing acts next to it either
_RESOLVED = 1e7  # times round-off: the least scale where nothing acts, so that noise is none


@dataclass(frozen=True, eq=False)
class Exchange:
    """What acts on the bodies and at the contacts of a step, for an answer (v⁺, f).

    These are the scales of the certificate. None is taken over the whole network, so that a fast
    or heavy body lends its scale to no other (compare the componentwise backward error of Oettli &
    Prager, Numerische Mathematik 6, 1964).
    """

    speed: (
        FloatArray  # (nc,) m/s, how fast what acts would change the gap; at most its part's speed
    )
    gap_round_off: FloatArray  # (nc,) m/s
    part_energy: FloatArray  # (parts,) J, what acts in each independent part
    kinetic: FloatArray  # (parts,) J, ½ ‖M(v⁺ − v*) − Δt Bᵀf‖² by M⁻¹: a share of the duality gap
    kinetic_round_off: FloatArray
    # where bodies are known: energies behind the speeds (bodies,) kg m²/s²; on each dof (nv,) N s
    # Δt|B|ᵀ|f| + M_jj a_j, a_j the larger change of speed by contacts or loads; and momentum
    energy: FloatArray
    acting: FloatArray
    momentum: tuple[Condition, ...] = ()


class StepData(ProblemData):
    """A step of any kind: its gaps, energies, scales, and the residuals of rigid contacts.

    Methods take v⁺ as ``v_next`` (nv,) in m/s, None for the one that f causes, and f (nc,) in N.
    Every kind has

    - ``velocity(f)`` : v⁺ (nv,), m/s, the motion under forces f; None with N and p alone;
    - ``gap(v_next, f)`` : (nc,) m/s, the constraint of each contact, B v⁺ + bias or N f + p;
    - ``velocity_objective(v_next, f)`` : ½ ‖v⁺ − v*‖²_M (parts,), J;
    - ``force_objective(f)`` : ½ fᵀN f + pᵀf (parts,), the objective of (22), N m/s;
    - ``products`` : Bᵀ (nv, nc), or N: what self-balanced forces keep at zero;
    - ``rate_bias`` : (nc,) m/s, b of the rates B v⁺ + b, or p of N f + p;
    - ``exchange(v_next, f)`` : what acts; ``acting_force(exchange)`` : (nc,) N of it, at each
      contact the smaller of what its bodies exchange;
    - ``idle_parts`` : (parts,) those without load in which nothing closes in free motion.
    """

    step: Any
    velocity: Any
    gap: Any
    velocity_objective: Any
    force_objective: Any
    products: Any
    rate_bias: Any
    exchange: Any
    acting_force: Any
    idle_parts: Any
    _diagonal: Any  # N_ii (nc,), zero where the contact moves nothing
    _closing_speeds: Any  # (parts,) part_speed, zero where there is no motion at all

    kind = "rigid step"
    d = 1

    @cached_property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.step.nc)

    @property
    def dt(self) -> float:
        """Time step Δt, s."""
        return float(self.step.dt)

    @cached_property
    def contact_ids(self) -> NDArray[Any] | None:
        """Names of the contacts, when given."""
        ids: NDArray[Any] | None = self.step.contact_ids
        return ids

    def prove_infeasible(self) -> InfeasibilityProof | None:
        """Multipliers g ≥ 0 with Bᵀg = 0 (or N g = 0) and gᵀb < 0, if there are any."""
        return squeezed(self, self.products, self.rate_bias)

    # --- the certificate ---------------------------------------------------------------

    def normal(self, rows: FloatArray) -> FloatArray:
        """(nc,) of values of the ``rows`` (nc,), that of each one's normal row: here itself."""
        return rows

    def normal_size(self, rows: FloatArray) -> FloatArray:
        """(nc,) of values of the ``rows`` (nc,), the sizes of the terms of ``normal``."""
        return np.abs(rows)

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """The optimality conditions (20)–(22) of Olsen & Kamrin (2018): f ≥ 0, g ≥ 0, fᵀg = 0.

        With S_i the gap speed of what acts at contact i and E the energy of what acts in a part:

        - ``penetration``      max (−g_i)₊ / S_i
        - ``tension``          max (−N_ii f_i)₊ / S_i
        - ``complementarity``  max min(N_ii f_i, g_i)₊ / S_i
        - ``momentum``         max_j |M(v⁺ − v*) − Δt Bᵀf|_j / √(M_jj E_b), where bodies are known
        - ``duality gap``      |primal + Δt · dual| / E, the largest of all parts
        """
        exchange, gap, push = self.exchange(motion, f), self.gap(motion, f), self.mobility * f
        speed, round_off, zero = exchange.speed, exchange.gap_round_off, np.zeros(self.nc)
        both = positive(np.minimum(push, gap))
        return residuals_of(
            Condition("penetration", "m/s", positive(-gap), speed, round_off),
            Condition("tension", "m/s", positive(-push), speed, zero),
            Condition("complementarity", "m/s", both, speed, round_off),
            *exchange.momentum,
            self.duality_gap(exchange, self.dt * f * gap, self.dt * np.abs(f) * round_off, zero),
        )

    def duality_gap(
        self, exchange: Exchange, unbalanced: FloatArray, round_off: FloatArray, stored: FloatArray
    ) -> Condition:
        """The condition of the duality gap, P + Δt D, written so that it does not cancel.

        Each contact's share of the gap, its round-off, and its elastic energy are (nc,) in J:
        ``unbalanced``, ``round_off`` and ``stored``. What acts is the ``exchange``.
        """
        at, parts = self.parts.contact, self.parts
        return Condition(
            "duality gap",
            "J",
            np.abs(parts.total(at, unbalanced) + exchange.kinetic),
            parts.total(at, stored) + exchange.part_energy,
            parts.total(at, round_off) + exchange.kinetic_round_off,
        )

    @cached_property
    def position_round_off(self) -> FloatArray:
        """(nc,) m/s, round-off of positions x in a gap over Δt, 8ε|x|/Δt; zero without points.

        |x| is the largest coordinate of the points of a part: its bodies lie between them.
        """
        points, parts = self.step.points, self.parts
        if points is None:
            return np.zeros(self.nc)
        size = parts.largest(parts.contact, np.abs(points).max(axis=1, initial=0.0))
        return read_only(EPS * size[parts.contact] / self.dt)

    # --- scales ------------------------------------------------------------------------

    @cached_property
    def part_speed(self) -> FloatArray:
        """(parts,) m/s: fastest closing of the free motion.

        Where nothing closes, the fastest gap rate B v*, so that a far gap (Φ/Δt is large) does
        not blunt the scale; where nothing moves either, the largest |p|. Never below the
        round-off of the terms that p is made of.
        """
        speed = self._closing_speeds()
        return read_only(np.where(speed > 0.0, speed, float(speed.max(initial=0.0)) or 1.0))

    @cached_property
    def mobility(self) -> FloatArray:
        """(nc,) m/(s·N), w = tr(N_ii)/d of each row's contact: N_ii without friction; positive.

        It is the gap speed per unit of the contact's own force.
        """
        diagonal, d = self._diagonal().reshape(-1, self.d).mean(axis=1), self.d
        parts = Parts(self.parts.contact[::d], self.parts.dof, self.parts.count)
        mean = parts.geometric_mean(diagonal)[parts.contact]
        return read_only(np.where(diagonal > 0.0, diagonal, mean).repeat(d))

    @cached_property
    def stopping_force(self) -> FloatArray:
        """(parts,) N: the force that stops the part's speed at a contact of mean mobility."""
        return read_only(self.part_speed / self.parts.geometric_mean(self.mobility))

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: unit of the part's forces."""
        return self.stopping_force

    @cached_property
    def part_energy(self) -> FloatArray:
        """(parts,) J: work of the part's force over its speed in one time step."""
        return read_only(self.part_force * self.part_speed * self.dt)

    @cached_property
    def speed(self) -> FloatArray:
        """(nc,) m/s, the speed of each contact's part."""
        return read_only(self.part_speed[self.parts.contact])


class MatrixStepData(StepData):
    """A step with matrices: M (v⁺ − v*) = Δt Bᵀ f, gap rates g = B v⁺ + bias."""

    step: ContactStep

    @cached_property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.step.nv

    @property
    def mass(self) -> MassMatrix:
        """Mass matrix."""
        return self.step.mass

    @cached_property
    def free_motion(self) -> FloatArray:
        """v* (nv,), m/s: the motion without contacts."""
        return self.step.v_star

    @cached_property
    def B(self) -> sp.csr_array:
        """Gap gradient (nc, nv).

        Columns that move no gap but for round-off (rotations of spheres, whose levers are
        zero up to 1e-16) are empty here, or they would tie the forces like any other.
        """
        B, (_, moving) = self.step.B, self._diagonal_mobility
        if moving[B.indices].all():
            return B
        return freeze(sp.csr_array(B * np.where(moving, 1.0, 0.0)[None, :]))

    @cached_property
    def entries(self) -> Entries:
        """The entries of B."""
        return Entries(self.B)

    @property
    def _coupling(self) -> sp.csr_array | None:
        return None if self.mass.is_diagonal else self.mass.ties

    @cached_property
    def _reach(self) -> sp.csr_array:
        """How far a dof moves a contact in any direction: of one row a contact B itself."""
        return self.B

    @cached_property
    def products(self) -> sp.csr_array:
        """Bᵀ (nv, nc)."""
        return sp.csr_array(self.B.T)

    @cached_property
    def rate_bias(self) -> FloatArray:
        """b (nc,), m/s."""
        return self.step.bias

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the contact network; the rows of a contact are in one."""
        return network_parts(self._reach, self._coupling).repeated(self.d)

    @cached_property
    def bodies(self) -> BodyBlocks:
        """The bodies that the degrees of freedom belong to."""
        mass, body = self.mass.diagonal, self.step.dof_body
        return BodyBlocks.of(self._reach, mass, self._coupling, body)

    @cached_property
    def contact_bodies(self) -> ContactBodies:
        """The bodies of each contact, with its mobility in all directions."""
        return self.bodies.at_contacts(self._reach, self.mass.diagonal, self.d)

    def velocity(self, f: FloatArray) -> FloatArray:
        """v⁺ = v* + Δt M⁻¹ Bᵀ f (nv,), m/s: the motion under forces f (nc,) in N."""
        return np.asarray(self.step.v_star + self.dt * self.mass.solve(self.load(f)))

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (nv,), N and N·m: what forces f (nc,) in N do to the bodies."""
        return self.entries.load(f)

    def gap(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """B v⁺ + bias (nc,), m/s; ``v_next`` (nv,) None is the motion that f causes."""
        return self.entries.times(self.velocity(f) if v_next is None else v_next) + self.step.bias

    def velocity_objective(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ ‖v⁺ − v*‖²_M (parts,), J; ``v_next`` (nv,) None is the motion that f causes."""
        jump = (self.velocity(f) if v_next is None else v_next) - self.step.v_star
        return self.parts.total(self.parts.dof, 0.5 * jump * self.mass.times(jump))

    def force_objective(self, f: FloatArray) -> FloatArray:
        """½ fᵀN f + pᵀf (parts,), the objective of (22), N m/s."""
        load = self.load(f)
        half = 0.5 * self.dt * self.mass.solve(load) * load
        linear = self.step.p_vec * f
        return self.parts.total(self.parts.dof, half) + self.parts.total(self.parts.contact, linear)

    # --- the certificate ---------------------------------------------------------------

    @np.errstate(all="ignore")  # what is not a number fails its residual
    def exchange(self, v_next: FloatArray | None, f: FloatArray) -> Exchange:
        """What acts on the bodies and at the contacts, for an answer v⁺ (nv,) and f (nc,)."""
        step, dt, parts, bodies = self.step, self.dt, self.parts, self.bodies
        mass, root, blocks = self.mass.diagonal, np.sqrt(self.mass.diagonal), bodies.label
        v_next = self.velocity(f) if v_next is None else v_next
        jump = v_next - step.v_star
        change = np.maximum(np.abs(jump), np.abs(step.v_star - step.v))
        motion_energy = mass * change**2
        pushed = dt * self.entries.load_size(f)
        if step.dof_body is None:  # dofs in which forces cancel may be those of a body that moves
            change = np.maximum(change, pushed / mass)
        gap_round_off = EPS * (np.abs(step.bias) + self.entries.times_size(v_next))
        speed, energy = self._gap_speeds(bodies.total(mass * change**2), gap_round_off)
        least = parts.total(parts.dof, energy[blocks] / np.bincount(blocks)[blocks])
        imbalance = self.mass.times(jump) - dt * self.load(f)
        momenta = self.mass.times_size(np.abs(v_next) + np.abs(step.v_star))
        error, round_off = np.abs(imbalance) / root, EPS * (pushed + momenta) / root
        scale = np.sqrt(energy)[blocks]
        return Exchange(
            speed,
            gap_round_off,
            np.maximum(parts.total(parts.dof, motion_energy), _NEIGHBOUR**2 * least),
            kinetic=parts.total(parts.dof, 0.5 * imbalance * self.mass.solve(imbalance)),
            kinetic_round_off=parts.total(parts.dof, round_off**2),
            energy=energy,
            acting=pushed + mass * change,
            momentum=(Condition("momentum", "m/s √kg", error, scale, round_off),),
        )

    def acting_force(self, exchange: Exchange) -> FloatArray:
        """(nc,) N, what acts at each contact: of what its bodies ``exchange`` the smaller."""
        momenta = exchange.acting / np.sqrt(self.mass.diagonal)
        exchanged = np.maximum(self.bodies.total(momenta**2), exchange.energy)
        return self.contact_bodies.impulses(exchanged) / self.dt

    def _gap_speeds(
        self, energy: FloatArray, gap_round_off: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(nc,) m/s, gap speeds of what acts, and (bodies,) kg m²/s², the energies behind them.

        ``energy`` is Σ M_jj a_j² over each body's dofs. It is raised to a small share of what the
        contacts that close would make, each by itself. A body without load, none of whose
        contacts closes, takes a small share of what acts on its neighbours; in a part of such
        bodies alone the part's speed counts.
        """
        idle, most = self.idle_parts[self.parts.contact], self.speed
        most = np.where(idle, np.maximum(most, _RESOLVED * gap_round_off), most)
        background = np.where(idle, 1.0, BACKGROUND) * most
        energy = self.contact_bodies.least_energies(
            energy, self.idle_bodies, self._closing_rate, _NEIGHBOUR, background
        )
        return np.minimum(self.contact_bodies.speeds(energy), most), energy

    @cached_property
    def _closing_rate(self) -> FloatArray:
        """(nc,) m/s, how fast contacts close in free motion, zero if by no more than round-off."""
        opening = self.normal(self.step.p_vec)
        return np.where(opening < -EPS * self._free_terms, -opening, 0.0)

    @cached_property
    def _free_terms(self) -> FloatArray:
        """(nc,) m/s: size of the terms of ``normal`` in free motion, |bias| + |B| |v*|."""
        return self.normal_size(np.abs(self.step.bias) + self.entries.times_size(self.step.v_star))

    @cached_property
    def idle_bodies(self) -> BoolArray:
        """(bodies,) those without load, none of whose contacts closes in free motion."""
        loaded = self.bodies.largest(np.abs(self.step.v_star - self.step.v)) > 0.0
        return ~loaded & ~self.contact_bodies.touched(self._closing_rate > 0.0)

    @cached_property
    def idle_parts(self) -> BoolArray:
        """(parts,) those in which no body bears a load and no contact closes in free motion."""
        parts, busy = self.parts, ~self.idle_bodies[self.bodies.label]
        acting = np.bincount(parts.contact[self._closing_rate > 0.0], minlength=parts.count)
        return acting + np.bincount(parts.dof[busy], minlength=parts.count) == 0

    # --- scales ------------------------------------------------------------------------

    def _closing_speeds(self) -> FloatArray:
        p, bias, parts, size_of = self.step.p_vec, self.step.bias, self.parts, self.normal_size
        each = (self._closing_rate, size_of(p), size_of(p - bias), self._free_terms)
        closing, size, rate, terms = (parts.largest(parts.contact, values) for values in each)
        opening = np.where(rate > _NEGLIGIBLE * size, rate, size)
        speed = np.where(closing > _NEGLIGIBLE * size, closing, opening)
        return np.maximum(speed, _ROUND_OFF * terms)

    def _diagonal(self) -> FloatArray:
        if self.mass.is_diagonal:
            return self.dt * self._diagonal_mobility[0]
        product = self.mass.solve_sparse(sp.csr_array(self.B.T)).T.tocsr()
        return self.dt * np.asarray(self.B.multiply(product).sum(axis=1)).ravel()

    @cached_property
    def _diagonal_mobility(self) -> tuple[FloatArray, BoolArray]:
        """(nc,) 1/kg, N_ii/Δt if M were its diagonal; and which dofs (nv,) move a gap."""
        B, moving = self.step.B, np.zeros(self.nv, dtype=bool)
        rows, share = rows_of(B), B.data**2 / self.mass.diagonal[B.indices]
        total = total_by(rows, share, self.nc)
        moving[B.indices[share > _IDLE * total[rows]]] = True
        return total, moving

    @cached_property
    def dof_speed(self) -> FloatArray:
        """(nv,) m/s or rad/s: speed of each degree of freedom.

        What moves a gap at the part's speed, or what takes the part's energy if that is less: a
        lever too short to matter must not lend its dof a speed it never has.
        """
        part = self.parts.dof
        with np.errstate(divide="ignore"):  # a dof that touches nothing keeps what its energy gives
            moving = self.part_speed[part] / column_scale(self.B)
        return read_only(np.minimum(moving, np.sqrt(self.part_energy[part] / self.mass.diagonal)))

    @cached_property
    def _scaled(self) -> ScaledDynamics:
        s = self.dof_speed
        M = scaled(self.mass.M, s / self.part_energy[self.parts.dof], s)
        return ScaledDynamics(M, scaled(self.B, 1.0 / self.speed, s), self.step.p_vec / self.speed)

    def scaled(self) -> ScaledDynamics:
        """The step in units of the forces, speeds and energies of its parts; made once."""
        return self._scaled


@dataclass(frozen=True, eq=False)
class RigidStepData(MatrixStepData):
    """Classic contact dynamics with matrices: f ≥ 0, g = B v⁺ + bias ≥ 0, fᵀg = 0.

    √E_b is the change of motion of body b in this step: E_b = Σ M_jj a_j² over its dofs, with a_j
    the larger of |v⁺ − v*|_j and Δt |M⁻¹F_ext|_j. S_i is the gap speed that this means at i.
    """

    step: ContactStep


@dataclass(frozen=True, eq=False)
class DelassusStepData(StepData):
    """The problem of a step known by N and p alone: f ≥ 0, N f + p ≥ 0, fᵀ(N f + p) = 0.

    S_i is the largest of −p_i and of the speed that forces make at the contact, Σ_j |N_ij||f_j|
    or, if less, √(N_ii fᵀN f): that bounds |N f|_i by Cauchy and Schwarz and does not count forces
    that cancel. The energy of a part is Δt fᵀN f; where nothing closes, at least Δt Σ S_i²/N_ii, so
    that forces of round-off are not measured by themselves.
    """

    step: DelassusStep

    nv = 0
    free_motion = None

    @cached_property
    def products(self) -> sp.csr_array:
        """N (nc, nc)."""
        return self.step.N

    @cached_property
    def rate_bias(self) -> FloatArray:
        """p (nc,), m/s."""
        return self.step.p_vec

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the contact network; the rows of a contact are in one."""
        return matrix_parts(self.step.N, self.d)

    def velocity(self, f: FloatArray) -> None:
        """None: N and p hold no motion, whatever the forces f (nc,)."""

    def gap(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """N f + p (nc,), m/s; there is no ``v_next`` (nv,)."""
        return np.asarray(self.step.N @ f + self.step.p_vec)

    def velocity_objective(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ Δt fᵀN f (parts,), J; there is no ``v_next`` (nv,)."""
        return self.parts.total(self.parts.contact, 0.5 * self.dt * f * (self.step.N @ f))

    def force_objective(self, f: FloatArray) -> FloatArray:
        """½ fᵀN f + pᵀf (parts,), the objective of (22), N m/s."""
        linear = self.parts.total(self.parts.contact, self.step.p_vec * f)
        return self.velocity_objective(None, f) / self.dt + linear

    def exchange(self, v_next: FloatArray | None, f: FloatArray) -> Exchange:
        """What acts at the contacts, for forces f (nc,) in N; there is no ``v_next`` (nv,).

        With friction at least a small share of the speed of the part: forces of round-off on an
        open contact must not be measured by themselves.
        """
        N, p, parts = self.step.N, self.step.p_vec, self.parts
        summed, work = Entries(N).times_size(f), f * (N @ f)
        of_part = parts.total(parts.contact, work)[parts.contact]
        bound = np.sqrt(positive(N.diagonal() * of_part))
        closing = positive(-self.normal(p))
        speed = np.maximum(closing, np.minimum(np.minimum(summed, bound), self.speed))
        speed = np.where(self.idle_parts[parts.contact], self.speed, speed)
        energy = parts.total(parts.contact, self.dt * work)
        least = parts.total(parts.contact, self.dt * speed**2 / self.mobility)
        moved = (energy > 0.0) & ~self.idle_parts  # forces of round-off move idle parts
        none, zero = np.zeros(0), np.zeros(parts.count)
        if self.d > 1:
            speed = np.maximum(speed, BACKGROUND * self.speed)
        energy = np.where(moved, energy, np.maximum(energy, least))
        return Exchange(speed, EPS * (np.abs(p) + summed), energy, zero, zero, none, none)

    def acting_force(self, exchange: Exchange) -> FloatArray:
        """(nc,) N, the force that stops the speed of the ``exchange`` at each contact."""
        return exchange.speed / self.mobility

    @cached_property
    def idle_parts(self) -> BoolArray:
        """(parts,) those in which no contact closes in free motion."""
        closing = (self.normal(self.step.p_vec) < 0.0).astype(np.float64)
        return self.parts.largest(self.parts.contact, closing) == 0.0

    def _closing_speeds(self) -> FloatArray:
        p, parts = self.step.p_vec, self.parts
        closing = parts.largest(parts.contact, -self.normal(p))
        largest = parts.largest(parts.contact, self.normal_size(p))
        return np.where(closing > _NEGLIGIBLE * largest, closing, largest)

    def _diagonal(self) -> FloatArray:
        return np.asarray(self.step.N.diagonal())

    def scaled(self) -> ScaledDelassus:
        """The step in units of the forces and speeds of its parts."""
        N = scaled(self.step.N, self.force, 1.0 / self.speed)
        return ScaledDelassus(sp.csr_array((N + N.T) * 0.5), self.step.p_vec / self.speed)


RigidData = RigidStepData | DelassusStepData


def rigid_data(step: Step) -> RigidData:
    """The problem of classic contact dynamics on a step, however the step is known."""
    if isinstance(step, DelassusStep):
        return DelassusStepData(step)
    return RigidStepData(cast(ContactStep, step))


def squeezed(
    data: StepData,
    rows: sp.csr_array,
    bias: FloatArray,
    directions: sp.csr_array | None = None,
) -> InfeasibilityProof | None:
    """Forces of zero product with the rows and forceᵀ bias < 0, if there are any.

    Forces are g ≥ 0 on each contact, or g ≥ 0 times the ``directions`` (k, nc), one a row; ``rows``
    (m, nc) or (m, k) multiply g.
    """
    directions = sp.eye_array(data.nc, format="csr") if directions is None else directions
    if not np.any(directions @ bias < 0.0):
        return None
    reach = column_scale(sp.csr_array(rows.T))
    used = np.flatnonzero(reach > 0.0)
    balance = sp.csr_array(rows[used] * (1.0 / reach[used])[:, None])
    parts = data.parts
    height = parts.largest(parts.contact, positive(-bias))[parts.contact]
    ray = descending_ray(
        directions @ (bias / np.where(height > 0.0, height, 1.0)),
        balance,
        np.abs,
        A_eq=balance,
        b_eq=np.zeros(used.size),
        bounds=(0.0, 1.0),
    )
    if ray is None:
        return None
    forces, violation = np.asarray(directions.T @ ray[0]), ray[1]
    return InfeasibilityProof(data.kind, read_only(forces), float(bias @ forces), violation)
