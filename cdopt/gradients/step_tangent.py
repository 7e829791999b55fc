"""One step of bodies in contact, differentiated once at its solution, for all data and all results.

    M (v⁺ − v) = Δt (F_ext + Gᵀ f),    g = G v⁺ + b,    f and g meet the contact law

G has the rows of the contacts, and after them those of rigid joints, whose forces may be anything
and whose rates vanish. A change of the data gives a load q and rates r, at v⁺ and f as they are,

    q = Δt dGᵀf + M dv + Δt dF + (F + Gᵀf) dΔt − dM (v⁺ − v),    r = dG v⁺ + db,

and dv⁺ and df follow from one linear system (``saddle``). Cotangents of results give q̄ and r̄ by
its adjoint, and those of the data from these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.gradients.linear_law import LinearLaw, Sides, linear_law
from cdopt.gradients.saddle import Saddle
from cdopt.hyperstatic import network
from cdopt.problem import ContactProblem
from cdopt.problem.scaling import scaled

CONSISTENT = 1e-8  # share of rates, or of forces, that may be left over
_IDLE = 1e-6  # of a random direction: what its projection on forces without effect must exceed
_RANK = 1e-9  # singular values below this share of the largest are zero


class NotTogether(Unsupported):
    """After a change, contacts that constrain the same motion cannot all stay closed."""


@dataclass
class Outer:
    """A matrix as a sum of products left rightᵀ, of which only some entries are ever needed."""

    terms: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)

    def add(self, left: FloatArray, right: FloatArray) -> None:
        """Add left rightᵀ."""
        self.terms.append((left, right))

    def along(self, change: sp.csr_array) -> float:
        """The sum of the entries of this matrix times those of a ``change`` (n, m)."""
        return sum(float(left @ (change @ right)) for left, right in self.terms)

    def on(self, pattern: sp.csr_array, rows: Any = slice(None)) -> sp.csr_array:
        """The entries where ``pattern`` (n, m) has some, of the ``rows`` (n,) of this matrix."""
        row = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        values = np.zeros(pattern.nnz)
        for left, right in self.terms:
            values += left[rows][row] * right[pattern.indices]
        return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


@dataclass
class Change:
    """A change of the data of a step."""

    # M, G: (nv, nv) and (rows, nv); or None
    M: sp.csr_array | None = None
    G: sp.csr_array | None = None
    bias: FloatArray | float = 0.0  # (rows,) m/s
    v: FloatArray | float = 0.0  # (nv,) m/s
    F: FloatArray | float = 0.0  # (nv,) N
    dt: float = 0.0  # s
    forces: FloatArray | float = 0.0  # (rows,) N, of f at rates as they are
    mu: FloatArray | None = None  # (nc,)
    impulse: FloatArray | float = 0.0  # (nv,) N s, of what moves the bodies apart from contacts

    def __add__(self, other: Change) -> Change:
        """Both changes."""

        def both(a: Any, b: Any) -> Any:
            return b if a is None else a if b is None else a + b

        return Change(
            **{name: both(getattr(self, name), value) for name, value in vars(other).items()}
        )


@dataclass
class Result:
    """A change of the results of a step, or their cotangents: zero what is not given."""

    v_next: FloatArray  # (nv,) m/s
    load: FloatArray  # (nv,) N, of Gᵀf
    forces: FloatArray  # (rows,) N


@dataclass
class Cotangent:
    """Cotangents of the data of a step; ``M`` and ``G`` of any of their entries."""

    M: Outer
    G: Outer
    bias: FloatArray
    v: FloatArray
    F: FloatArray
    dt: float
    forces: FloatArray
    mu: FloatArray | None
    impulse: FloatArray


class StepTangent:
    """A step at its solution.

    Parameters
    ----------
    data : of the contacts. motion : v⁺ (nv,), m/s. forces : (rows + nj,) N, of contacts and joints.
    J : (nj, nv) rigid joints, or None. tol : share of the local speed within which a contact is at
        a kink.
    inside : which contacts (nc,) rest inside their cones in some admissible answer; asked
        where this one has some on the boundary. None where that is not known.
    """

    # of contacts at kinks of friction; None where there are none, or none were chosen
    sides: Sides | None = None

    def __init__(
        self,
        data: ContactProblem,
        motion: FloatArray,
        forces: FloatArray,
        J: sp.csr_array | None = None,
        tol: float = 1e-7,
        inside: Callable[[], BoolArray] | None = None,
    ) -> None:
        self.data, self.motion, self.forces, self.tol = data, motion, forces, tol
        self.mass, self.start, self.rows = data.mass, np.asarray(data.start), data.rows
        self._inside = inside
        self.J = sp.csr_array((0, data.nv)) if J is None else J
        self.G = data.B if J is None else sp.csr_array(sp.vstack([data.B, J], format="csr"))
        self.jump = motion - self.start
        self.load = np.asarray(self.G.T @ forces)

    # --- the law and the system ------------------------------------------------------------

    @cached_property
    def _scaled_rates(self) -> FloatArray:
        scales = self.data.scales
        w = (self.motion - self.data.free_motion) / scales.unit
        return np.asarray(scales.B @ w + scales.p)

    @cached_property
    def local_speed(self) -> FloatArray:
        """(nc,) m/s, the speed at each contact that counts there."""
        local = self.data.scales.local(self.motion, self.forces[: self.rows]).speed
        return np.where(local > 0.0, local, self.data.speed[self.data.cones.first])

    @cached_property
    def _local_speed(self) -> FloatArray:
        """``local_speed`` in the units of rates."""
        return np.asarray(self.local_speed / self.data.speed[self.data.cones.first])

    @property
    def _scaled_forces(self) -> FloatArray:
        return np.asarray(self.forces[: self.rows] / self.data.force)

    def _law(self, held: BoolArray) -> LinearLaw:
        return linear_law(self.data, self._scaled_forces, self._scaled_rates, held, self.sides)

    @property
    def kinks_of_friction(self) -> Sides:
        """The sides of the kinks."""
        return Sides.of(self.data, self._scaled_forces, self._scaled_rates, self.kinks)

    def on(self, sides: Sides) -> StepTangent:
        """The same with these sides of the kinks."""
        found = StepTangent(self.data, self.motion, self.forces, self.J, self.tol, self._inside)
        found.sides = sides
        return found

    def along_kinks(self, sides: Sides, change: Change, result: Result) -> tuple[Any, Any]:
        """(n,) shares of forces and rates along the ways of ``sides``, of a ``result``."""
        cones, rows, speed = self.data.cones, slice(0, self.rows), self.data.speed
        forces, r = result.forces[rows] / self.data.force, self.rates_of(change)
        rates = (self.G @ result.v_next + r)[rows] / speed
        reach = np.abs(self.loads_of(change, self.forces)) / self.mass.diagonal
        free = (abs(self.G) @ reach + np.abs(r))[rows] / speed
        df, dg = cones.table(forces)[sides.contacts], cones.table(rates)[sides.contacts]
        sizes = (float(np.abs(x).max(initial=0.0)) or 1.0 for x in (forces, free))
        return tuple(
            np.sum(way * x, axis=1) / size
            for way, x, size in zip((sides.way, sides.rate), (df, dg), sizes, strict=True)
        )

    @cached_property
    def law(self) -> LinearLaw:
        """The law at the solution.

        A contact that presses in another admissible answer, though not in this one, is no kink.
        """
        free = np.zeros(self.data.nc, dtype=bool)
        law = self._law(free)
        weak = law.margin / self._local_speed <= self.tol
        if not weak.any() or self.data.compliance is not None:
            return law
        if not law.by_rows:
            rests = free if self._inside is None else self._inside() & weak
            return self._law(rests) if rests.any() else law
        near = np.flatnonzero(law.held | weak)
        joints = np.arange(self.rows, self.G.shape[0])
        rows = network.equilibrated(sp.csr_array(self.G[np.append(near, joints)]))[0]
        loaded = np.append(~weak[near], np.ones(joints.size, dtype=bool))
        can = network.loadable_of(rows, loaded, _RANK)[0][: near.size]
        free[near[can & weak[near]]] = True
        return self._law(free)

    @cached_property
    def margin(self) -> FloatArray:
        """(nc,) how far each contact is from a kink, as a share of the local speed."""
        return np.asarray(self.law.margin / self._local_speed)

    @cached_property
    def kinks(self) -> IntArray:
        """(n,) contacts at a kink, which the others do not hold anyway.

        Of contacts without friction those that hold it press in another answer (``law``).
        """
        weak = self.margin <= self.tol
        if not weak.any() or self.data.compliance is not None or self.law.by_rows:
            return np.flatnonzero(weak)
        whole = sp.csr_array(self.data.B[self.data.cones.rows_of(np.flatnonzero(weak))])
        strict = self.law.T.T @ sp.diags_array((~weak)[self.data.cones.contact].astype(float))
        held = sp.csr_array(sp.csr_array(strict) @ self.data.B)
        held = sp.csr_array(sp.vstack([held, self.J], format="csr"))
        held = held[np.flatnonzero(np.diff(held.indptr))]
        every = network.equilibrated(sp.csr_array(sp.vstack([held, whole], format="csr")))[0]
        implied = network.rank_of(every, _RANK) == network.rank_of(every[: held.shape[0]], _RANK)
        return np.flatnonzero(weak & (not implied))

    @cached_property
    def _joint_rows(self) -> tuple[sp.csr_array, FloatArray]:
        """The joints in units of the motion, of unit length, and their units of rates."""
        rows = scaled(self.J, None, self.data.scales.unit)
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        return scaled(rows, 1.0 / length), length

    @cached_property
    def _whole_law(self) -> LinearLaw:
        """The law of contacts and joints."""
        law, many = self.law, self.J.shape[0]
        if not many:
            return law
        one, none = sp.eye_array(many), sp.csr_array((many, many))
        parts = [(law.T, one), (law.R, one), (law.D, none)]
        T, R, D = (sp.csr_array(sp.block_diag(part, format="csr")) for part in parts)
        return LinearLaw(T, R, D, law.margin, by_rows=law.by_rows)

    def _saddle(self, law: LinearLaw) -> Saddle:
        scales = self.data.scales
        if scales.S is None:
            raise TypeError("a network without inertia")
        G = scales.B
        if self.J.shape[0]:
            G = sp.csr_array(sp.vstack([G, self._joint_rows[0]], format="csr"))
        return Saddle(G, scales.S, law, self.data.dof_body)

    @cached_property
    def saddle(self) -> Saddle:
        """The linear system of changes."""
        return self._saddle(self._whole_law)

    @cached_property
    def adjoint(self) -> Saddle:
        """The linear system of cotangents."""
        law = self._whole_law.transposed
        return self.saddle if law is self._whole_law else self._saddle(law)

    @cached_property
    def _units(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Units of motions, of loads Δt Gᵀf (nv,), of rates and of forces (rows + nj,)."""
        data = self.data
        unit, energy = data.scales.unit, data.part_energy[data.parts.dof]
        speed, force = data.speed, data.force
        if self.J.shape[0]:
            length = self._joint_rows[1]
            part = data.parts.dof[self.J.indices[self.J.indptr[:-1]]]
            speed = np.append(speed, length)
            force = np.append(force, data.part_energy[part] / (length * data.dt))
        return unit, energy / unit, speed, force

    # --- what forces do not determine --------------------------------------------------------

    @cached_property
    def loose(self) -> BoolArray:
        """(rows + nj,) forces that are not determined: self-balanced ones may be added."""
        saddle, law = self.saddle, self._whole_law
        if not law.T.shape[1]:
            return np.zeros(self.G.shape[0], dtype=bool)
        return np.asarray(abs(law.T) @ (np.abs(saddle.idle / np.sqrt(saddle.unit))) > _IDLE)

    @cached_property
    def loose_contacts(self) -> IntArray:
        """(n,) contacts whose forces are not determined."""
        rows = self.loose[: self.rows]
        return np.unique(self.data.cones.contact[rows])

    @cached_property
    def _idle_forces(self) -> FloatArray:
        """(rows + nj,) N, forces made at random that do nothing to the bodies."""
        idle = self._units[3] * (self._whole_law.T @ self.saddle.idle)
        return np.where(self.loose, idle, 0.0)

    def _require_isolated(self) -> None:
        """Refuse Coulomb's law where sliding forces differ that hold the same rates.

        Such answers are no single point: other forces and motions are next to this one.
        """
        if self._whole_law.by_rows or self.data.law != "coulomb" or not self.loose.any():
            return
        saddle = self.saddle
        if network.rank_of(saddle.held, _RANK) != network.rank_of(saddle.forced, _RANK):
            contacts = self.loose_contacts.tolist()
            why = f"sliding contacts, such as {contacts[0]}, leave the motion open to first order"
            raise Unsupported("the derivative", why, ("law='associated'",))

    # --- changes -----------------------------------------------------------------------------

    def loads_of(self, change: Change, forces: FloatArray) -> FloatArray:
        """q (nv,) N s of a change, at forces (rows + nj,) in N."""
        dt = self.data.dt
        q = dt * np.broadcast_to(np.asarray(change.F, dtype=float), self.start.shape)
        q = q + change.dt * (self.data.applied + self.load) + change.impulse
        if np.ndim(change.v):
            q = q + self.mass.times(np.asarray(change.v))
        if change.M is not None:
            q = q - change.M @ self.jump
        return q if change.G is None else np.asarray(q + dt * (change.G.T @ forces))

    def rates_of(self, change: Change) -> FloatArray:
        """r (rows + nj,) m/s of a change, without that of μ."""
        rates = np.broadcast_to(np.asarray(change.bias, dtype=float), (self.G.shape[0],))
        return rates if change.G is None else np.asarray(rates + change.G @ self.motion)

    def result_of(
        self, change: Change, forces: FloatArray, motion: FloatArray, df: FloatArray
    ) -> Result:
        """Results of dv⁺ = ``motion`` (nv,) and df (rows + nj,) at ``forces`` (rows + nj,)."""
        load = self.G.T @ df
        return Result(motion, load if change.G is None else load + change.G.T @ forces, df)

    def jvp(self, change: Change) -> Result:
        """The change of results for one of data."""
        self._require_isolated()
        dt, G = self.data.dt, self.G
        forces = np.broadcast_to(np.asarray(change.forces, dtype=float), (G.shape[0],)).copy()
        if change.G is not None:
            self._require_unmoved(dt * (change.G.T @ self._idle_forces), change.G)
        if change.mu is not None and self._slides.any():
            self._require_unmoved(dt * (G.T @ self._idle_slip(change.mu)), G)
        q, rates = self.loads_of(change, self.forces), self.rates_of(change)
        motion, df, missed = self._solved(q, rates, forces, change.mu)
        if missed > CONSISTENT:
            raise self._inconsistent()
        return self.result_of(change, self.forces, motion, df)

    def _solved(
        self, q: FloatArray, rates: FloatArray, forces: FloatArray, mu: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, float]:
        """dv⁺ (nv,), df (rows + nj,), and the share of rates that no motion has."""
        saddle, law = self.saddle, self._whole_law
        unit, load_unit, speed, force = self._units
        r, e, rho = rates / speed, forces / force, np.zeros(law.T.shape[1])
        if mu is not None:
            by_forces, by_rates = self._by_mu
            e[: self.rows] += by_forces @ mu
            rho[: by_rates.shape[0]] += by_rates @ mu
        answer = saddle.solve(q / load_unit + saddle.G.T @ (e - law.D @ r), rho - law.R @ r)
        dg = saddle.G @ answer.x + r
        df = law.T @ answer.a - law.D @ dg + e
        return unit * answer.x, force * df, answer.missed

    @property
    def _by_mu(self) -> tuple[sp.csr_array, sp.csr_array]:
        by_forces, by_rates = self.law.forces_by_mu, self.law.rates_by_mu
        if by_forces is None or by_rates is None:
            raise Unsupported("the derivative by mu", "contacts have several coefficients")
        return by_forces, by_rates

    def _require_unmoved(self, q: FloatArray, G: sp.csr_array) -> None:
        """Refuse a change under which undetermined forces, as a load q, would move the bodies.

        ``G`` (rows + nj, nv) is what makes the load.
        """
        if not self.loose.any():
            return
        size = self.data.dt * (abs(G).T @ np.abs(self._idle_forces))
        nothing = np.zeros(self.G.shape[0])
        moved = self._solved(q, nothing, nothing, None)[0]
        root = np.sqrt(self.mass.diagonal)
        if np.abs(root * moved).max() > 1e-6 * np.abs(size / root).max(initial=0.0):
            raise self._inconsistent()

    @property
    def _slides(self) -> BoolArray:
        """(rows,) rows whose forces follow μ."""
        by_mu = self.law.forces_by_mu
        none = np.zeros(self.rows, dtype=bool)
        return none if by_mu is None else np.asarray(abs(by_mu).sum(axis=1)).ravel() > 0.0

    def _idle_slip(self, mu: FloatArray) -> FloatArray:
        """(rows + nj,) N, what a change of μ (nc,) makes of forces that do nothing."""
        share, result = (
            mu / np.where(self.data.cones.mu > 0.0, self.data.cones.mu, 1.0),
            self._idle_forces.copy(),
        )
        result[: self.rows] *= np.where(self._slides, share[self.data.cones.contact], 0.0)
        result[self.rows :] = 0.0
        result[np.arange(self.rows)[self.data.cones.first]] = 0.0
        return result

    def _inconsistent(self) -> Unsupported:
        contacts = self.loose_contacts
        names = ", ".join(map(str, contacts[:8].tolist())) + (", …" if contacts.size > 8 else "")
        why = (
            f"contacts {names} constrain the same motion; after this change they cannot all stay "
            "closed, and which of them open depends on its sign"
        )
        ways = (
            "on_kink='one-sided'",
            "changes under which all stay closed, such as a body's motion",
        )
        return NotTogether("the derivative", why, ways)

    # --- cotangents --------------------------------------------------------------------------

    def vjp(self, weights: Result) -> Cotangent:
        """The cotangents of the data for those of results."""
        self._require_isolated()
        dt, saddle, law = self.data.dt, self.adjoint, self._whole_law
        unit, load_unit, speed, force = self._units
        by_load = self.mass.times(weights.load) / dt
        w, f = unit * (weights.v_next + by_load), force * weights.forces
        D, R = law.D, law.R
        answer = saddle.solve(w - saddle.G.T @ (D.T @ f), -(law.T.T @ f))
        if answer.missed > CONSISTENT:
            raise self.undetermined()
        e = f + saddle.G @ answer.x
        r = R.T @ answer.a - D.T @ e
        q, rates, forces = answer.x / load_unit, r / speed, e / force
        load, jump = weights.load, self.jump
        M, G = Outer([(load / dt - q, jump)]), Outer([(dt * self.forces, q), (rates, self.motion)])
        mu = None
        if self.law.forces_by_mu is not None and self.law.rates_by_mu is not None:
            n = self.law.rates_by_mu.shape[0]
            mu = self.law.forces_by_mu.T @ e[: self.rows] - self.law.rates_by_mu.T @ answer.a[:n]
        return Cotangent(
            M,
            G,
            rates,
            self.mass.times(q - load / dt),
            dt * q - load,
            float(q @ (self.data.applied + self.load) - load @ self.mass.times(jump) / dt**2),
            forces,
            mu,
            q,
        )

    def undetermined(self) -> Unsupported:
        """That forces are not determined, and what is."""
        contacts = self.loose_contacts
        names = ", ".join(map(str, contacts[:8].tolist())) + (", …" if contacts.size > 8 else "")
        who = f"forces of contacts {names}" if contacts.size else "forces of joints"
        ways = (
            "v_next or load",
            "a weighted sum that self-balanced forces do not change",
            "CompatibleCD",
        )
        return Unsupported("the derivative of f", f"{who} are not determined by the motion", ways)
