"""No-tension trusses as data: energies, scales, residuals and infeasibility."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InfeasibilityProof
from cdopt.problem.certificate import (
    EPS,
    TOLERANCE,
    Condition,
    ProblemData,
    Residual,
    descending_ray,
    energy_round_off,
    law_condition,
    residuals_of,
    tension,
)
from cdopt.problem.contact_law import NEAR_ONE, PowerLaw
from cdopt.problem.scaling import (
    BodyBlocks,
    Entries,
    Parts,
    column_scale,
    largest_by,
    network_parts,
    scaled,
    smallest_by,
)

LARGEST = 240  # dofs, beyond which dense matrices take too long
LEAST = 1e-290  # of an overlap
_DEPENDENT = 1e-9  # of a row's largest entry: what is left of a row that depends on others
_SPARE, _MOST_DIGITS, _GAIN = 30, 700, 12.0  # decimal digits, and those that one refinement adds
_ROUND_OFF = 4.0 * float(np.finfo(float).eps)  # of u, of products with B, of their sums
_NEAR = 100.0  # times the round-off of overlaps, to which u is the one in many digits
_UNRESOLVED = 1e-8  # round-off of an overlap, relative, above which u does not resolve it
_LEAST_FORCE, _OPEN = 1e-8, 1e-9  # of what acts: least force of a weight; weight of open contacts
_FLOOR = 1e-3  # of the energy of what acts at a contact, where it stores less
_LENT = 1e-3  # of the smallest load, where no load acts
_NO_LEVER = 1e-12  # a dof moves no gap whose largest lever is below this share of the largest
_NO_LOAD = 1e-9  # nor one whose load is below this share of the largest


@dataclass(frozen=True, eq=False)
class ScaledTruss:
    """A truss in units of its parts: loads, forces and overlaps of order one."""

    B: sp.csr_array  # (nc, m) on the m dofs in play, each in units of its lever
    load: FloatArray  # F̃ (m,)
    opening: FloatArray  # (nc,) gap that prescribed displacements open: c = −B u − opening
    law: PowerLaw  # stiffness relative to the part's mean
    used: NDArray[np.intp]  # (m,) which dofs are in play: free, and touched or loaded
    unit: FloatArray  # (m,) scaled displacement per physical one


@dataclass(frozen=True, eq=False)
class TrussData(ProblemData):
    """A no-tension truss: f ≥ 0, Bᵀf = F̃ on free dofs, f = w′(c) with overlap c = −B u.

    Residuals, with Y_b the largest max(|B|ᵀ|f|, |F̃|)_j / β_j of a body's dofs and F_i the
    smaller Y_b of the contact's bodies:

    - ``equilibrium``  max_j |Bᵀf − F̃|_j / (β_j Y_b) over free dofs
    - ``tension``      max (−f_i)₊ / F_i
    - ``law``          max |f_i − w′(c_i)| / F_i
    - ``duality gap``  |potential + complementary energy| / their size, for each independent part

    Attributes
    ----------
    B : (nc, nv).
    contact_load : F̃ (nv,), N and N·m; entries at prescribed dofs are not used.
    law : stiffness (nc,) and power.
    free : (nv,) mask of the free dofs Γ_N.
    prescribed_u : (nv,) displacement of the others, m; zero on free dofs.
    contact_ids : (nc,) names of the contacts, or None.
    dof_body : (nv,) the body of each dof, or None; native solvers use it for blocks.
    step_bodies : the bodies of the step that the truss comes from, for the scales of the
        certificate; by default those of ``dof_body``, or each dof by itself.
    step_acting : (nv,) N and N·m, what acts on each dof in that step, or None: a falling body whose
        contacts hardly press is judged by its weight.

    Equations (32), (33) and (36) of Olsen & Kamrin (2018), with the sign of (32) corrected.
    """

    B: sp.csr_array
    contact_load: FloatArray
    law: PowerLaw
    free: BoolArray
    prescribed_u: FloatArray
    contact_ids: NDArray[Any] | None = None
    dof_body: IntArray | None = None
    step_bodies: BodyBlocks | None = None
    step_acting: FloatArray | None = None

    kind = "truss"

    @cached_property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.B.shape[0])

    @cached_property
    def nv(self) -> int:
        """Number of degrees of freedom, free or prescribed."""
        return int(self.B.shape[1])

    @cached_property
    def free_motion(self) -> FloatArray:
        """(nv,) m: the prescribed displacement, zero on free dofs."""
        return self.prescribed_u

    def overlap(self, u: FloatArray) -> FloatArray:
        """c = −B u (nc,), m."""
        return -self.entries.times(u)

    @cached_property
    def prescribed_overlap(self) -> FloatArray:
        """c (nc,), m, that prescribed displacements make by themselves."""
        return read_only(self.overlap(self.prescribed_u))

    def reactions(self, f: FloatArray) -> FloatArray:
        """(Bᵀ f) on the prescribed dofs, in their order, N and N·m."""
        return self.load(f)[~self.free]

    # --- the certificate ---------------------------------------------------------------

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """The optimality conditions at an answer u (nv,) in m and f (nc,) in N."""
        u = self.prescribed_u if motion is None else motion
        law, parts, used = self.law, self.parts, self.in_play
        acting, exchanged, force = self.exchange(f)
        c, load = self.overlap(u), self.load(f)
        slack = _ROUND_OFF * self.entries.times_size(u)
        by_law = law_condition(law, f, c, slack, force)
        near_one = law.power < NEAR_ONE and used.sum() <= LARGEST
        if near_one and residuals_of(by_law)[0].resolution > TOLERANCE:
            by_law = law_condition(law, f, *self._resolved(u, f, c, slack, force), force)
        stored = law.energy(c) + law.conjugate(f)
        work = np.where(self.free, (self.contact_load - load) * u, 0.0)
        gap = parts.total(parts.contact, stored - f * c) + parts.total(parts.dof, work)
        loads = np.where(self.free, self.entries.load_size(f) + np.abs(self.contact_load), 0.0)
        round_off = parts.total(parts.contact, energy_round_off(law, f, c, slack))
        round_off = round_off + EPS * parts.total(parts.dof, loads * np.abs(u))
        least = _FLOOR * law.conjugate(force)  # of contacts that carry nothing
        energy = parts.total(parts.contact, np.maximum(stored, least))
        error, scale = (
            np.abs(load - self.contact_load) / self.dof_lever,
            exchanged[self.bodies.label],
        )
        return residuals_of(
            Condition("equilibrium", "N", error[used], scale[used], EPS * acting[used]),
            tension(f, force),
            by_law,
            Condition("duality gap", "J", np.abs(gap), energy, round_off),
        )

    def _resolved(self, u: Any, f: Any, c: Any, slack: Any, force: Any) -> tuple[Any, Any]:
        """Overlaps of displacements in many digits that are u to 13 digits, and their round-off.

        Overlaps that u resolves are c; the others of a basis of contacts are those of their forces.
        Where no such displacements have been constructed, c and ``slack`` again.
        """
        by_force = self.law.overlap(np.maximum(f, _LEAST_FORCE * force))
        lost = slack > _UNRESOLVED * np.abs(c)
        wanted = np.where(lost, np.where(f > 0.0, by_force, np.minimum(c, 0.0)), c)
        stiff = 1.0 / np.maximum(np.where(f > 0.0, by_force, np.inf), LEAST)
        weight = np.maximum(stiff, _OPEN * stiff[f > 0.0].min(initial=1.0))
        B = np.where(self.in_play, self.B.toarray(), 0.0)
        R, C, _ = stiffest_basis(B, weight)
        near, _ = resolved(self.entries, B[np.ix_(R, C)], R, C, wanted[R], u)
        if not np.all(np.abs(near - c) <= _NEAR * slack):
            return c, slack
        return near, EPS * np.abs(near)

    def prove_infeasible(self) -> InfeasibilityProof | None:
        """A motion u with B u ≥ 0 and F̃ᵀu < 0, if there is any."""
        used = np.flatnonzero(self.in_play)
        if used.size == 0:
            return None
        lever = self.dof_lever[used]
        B = sp.csr_array(self.B[:, used] * (1.0 / lever)[None, :])
        load = self.contact_load[used] / (lever * self.part_force[self.parts.dof][used])
        ray = descending_ray(
            load, B, np.negative, A_ub=-B, b_ub=np.zeros(self.nc), bounds=(-1.0, 1.0)
        )
        if ray is None:
            return None
        motion, violation = ray
        u = np.zeros(self.nv)
        u[used] = motion / lever
        return InfeasibilityProof("truss", read_only(u), float(self.contact_load @ u), violation)

    # --- what acts ---------------------------------------------------------------------

    @cached_property
    def bodies(self) -> BodyBlocks:
        """The bodies that the dofs belong to."""
        if self.step_bodies is not None:
            return self.step_bodies
        return BodyBlocks.stated(np.arange(self.nv) if self.dof_body is None else self.dof_body)

    def exchange(self, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What acts on dofs, bodies and contacts under forces f (nc,), all in N at a contact.

        Returns
        -------
        (nv,) max(|B|ᵀ|f|, |F̃|)_j / β_j of each dof, or what acts on it in the step; (bodies,) its
        largest over the body's dofs; (nc,) the smallest of the contact's bodies. A body without
        load takes at least a small share of the smallest load; without any load it is one newton.
        """
        bodies, used = self.bodies, self.in_play
        contact, body = self.entries.row, bodies.label[self.entries.column]
        loads = np.where(used, np.abs(self.contact_load), 0.0)
        if self.step_acting is not None:
            loads = np.maximum(loads, self.step_acting)
        driven = self.law.force(self.prescribed_overlap)
        applied = np.maximum(
            bodies.largest(loads / self.dof_lever),
            largest_by(body, driven[contact], bodies.count),
        )
        least = float(np.min(applied, where=applied > 0.0, initial=np.inf))
        acting = np.maximum(self.entries.load_size(f), loads) / self.dof_lever
        exchanged = np.maximum(bodies.largest(acting), applied)
        floor = _LENT * least if np.isfinite(least) else 1.0
        exchanged = np.where(applied > 0.0, exchanged, np.maximum(exchanged, floor))
        free = bodies.largest(used.astype(np.float64)) > 0.0
        acts = self.entries.value != 0.0
        contact, body = contact[acts], body[acts]
        force = smallest_by(contact, np.where(free, exchanged, np.inf)[body], self.nc)
        force = np.where(force > 0.0, force, smallest_by(contact, exchanged[body], self.nc))
        return acting, exchanged, force

    # --- energies, by part -------------------------------------------------------------

    def complementary_energy(self, f: FloatArray) -> FloatArray:
        """Σ w*(f) + fᵀ B u_prescribed (parts,), J: the objective of (33) and (36)."""
        work = f * self.prescribed_overlap
        return self.parts.total(self.parts.contact, self.law.conjugate(f) - work)

    def potential_energy(self, u: FloatArray) -> FloatArray:
        """Σ w(−B u) + F̃ᵀ u over free dofs (parts,), J: the corrected objective of (32)."""
        work = np.where(self.free, self.contact_load * u, 0.0)
        stored = self.parts.total(self.parts.contact, self.law.energy(self.overlap(u)))
        return stored + self.parts.total(self.parts.dof, work)

    # --- scales ------------------------------------------------------------------------

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the network; prescribed dofs tie nothing together."""
        return network_parts(self.B, tied=self.free)

    @cached_property
    def entries(self) -> Entries:
        """The entries of B."""
        return Entries(self.B)

    @cached_property
    def dof_lever(self) -> FloatArray:
        """β_j (nv,): gap per unit of the dof; the largest one where a dof touches no contact."""
        beta = column_scale(self.B)
        longest = float(beta.max(initial=0.0)) or 1.0
        return read_only(np.where(beta > 0.0, beta, longest))

    @cached_property
    def in_play(self) -> BoolArray:
        """(nv,) free dofs that enter equilibrium: those that contacts act on, and loaded ones.

        A column of B whose levers are all round-off beside the largest of B acts on nothing,
        provided that its load is round-off too.
        """
        beta, load = column_scale(self.B), np.abs(self.contact_load)
        touched, most = beta > 0.0, load.max(where=self.free, initial=0.0)
        noise = (beta <= _NO_LEVER * beta.max(initial=0.0)) & (load <= _NO_LOAD * most)
        return read_only(self.free & np.where(touched, ~noise, load != 0.0))

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (nv,), N and N·m."""
        return self.entries.load(f)

    def scaled(self) -> ScaledTruss:
        """The same truss in units of each part's force and overlap, made once."""
        return self._scaled

    @cached_property
    def _scaled(self) -> ScaledTruss:
        used = np.flatnonzero(self.in_play)
        lever, part = self.dof_lever[used], self.parts.dof[used]
        ratio = self.law.stiffness / self.part_stiffness[self.parts.contact]
        return ScaledTruss(
            B=scaled(self.B[:, used], None, 1.0 / lever),
            load=self.contact_load[used] / (lever * self.part_force[part]),
            opening=-self.prescribed_overlap / self.length,
            law=PowerLaw(ratio, self.law.power),
            used=used,
            unit=lever / self.part_length[part],
        )

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: the largest load as a contact would feel it.

        With a prescribed displacement that presses, the force that it would cause if larger.
        Parts without load take the largest of the others.
        """
        parts = self.parts
        loads = np.where(self.in_play, np.abs(self.contact_load / self.dof_lever), 0.0)
        caused = self.law.force(self.prescribed_overlap)
        force = np.maximum(parts.largest(parts.dof, loads), parts.largest(parts.contact, caused))
        return read_only(np.where(force > 0.0, force, float(force.max(initial=0.0)) or 1.0))

    @cached_property
    def part_stiffness(self) -> FloatArray:
        """(parts,) N/m^(p−1): geometric mean of the contact stiffness."""
        return read_only(self.parts.geometric_mean(self.law.stiffness))

    @cached_property
    def part_length(self) -> FloatArray:
        """(parts,) m: overlap of a contact of mean stiffness under the part's force."""
        return read_only(PowerLaw(self.part_stiffness, self.law.power).overlap(self.part_force))

    @cached_property
    def part_energy(self) -> FloatArray:
        """(parts,) J: work of the part's force over its overlap."""
        return read_only(self.part_force * self.part_length)

    @cached_property
    def length(self) -> FloatArray:
        """(nc,) m, the overlap of each contact's part."""
        return read_only(self.part_length[self.parts.contact])


# --- overlaps that span more decades than displacements hold in double precision ---------
#
# An overlap is c = (f/k)^{1/(p−1)}: at p = 1.05 a force ten times smaller has an overlap 10²⁰ times
# smaller, below the round-off of c = −B u. Two means hold such overlaps to full relative precision:
# a basis of contacts from the stiffest on, of which the others are combinations without
# cancellation, and displacements in as many decimal digits as it takes.


def stiffest_basis(B: FloatArray, weight: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Independent rows of B (nc, m) of positive weight, heaviest first, and all rows by them.

    Returns
    -------
    The rows R and the columns C (rank,) of a regular square block, and T (nc, rank) = B[:, C]
    B[R, C]⁻¹: gaps are T times the gaps of R where no other displacement than those of C acts. A
    row of weight combines heavier rows alone, the entries of the others are exactly zero.
    """
    M, size = B.copy(), np.abs(B).max(axis=1, initial=0.0)
    rows, columns = [], []
    root = np.sqrt(weight)
    waiting, free = size > 0.0, np.ones(B.shape[1], dtype=bool)
    while free.any():
        left = np.abs(M[:, free]).max(axis=1, initial=0.0)
        dependent = waiting & (left <= _DEPENDENT * size)
        M[np.ix_(dependent, free)] = 0.0
        waiting &= ~dependent
        strength = np.where(waiting, root * left, 0.0)
        row = int(np.argmax(strength))
        if not strength[row] > 0.0:
            break
        column = int(np.argmax(np.where(free, np.abs(M[row]), -1.0)))
        M[:, column] /= M[row, column]
        others = M[row].copy()
        others[column] = 0.0
        M -= np.outer(M[:, column], others)
        M[row] = 0.0
        M[row, column] = 1.0
        waiting[row] = free[column] = False
        rows.append(row)
        columns.append(column)
    order = np.array(columns, dtype=np.int64)
    return np.array(rows, dtype=np.int64), order, M[:, order]


def resolved(
    entries: Entries, block: FloatArray, R: IntArray, C: IntArray, c: FloatArray, u: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Displacements near u (m,) that give the rows R the overlaps c (rank,), in decimal numbers.

    ``block`` is B[R, C] of the B with these entries; other displacements than those of C stay.

    Returns
    -------
    The overlaps −B u* (nc,) of the displacements u* in many digits, and u* (m,) rounded.
    """
    size = float(entries.times_size(u).max(initial=0.0))
    smallest = float(np.abs(c[c != 0.0]).min(initial=size))
    range_ = np.log10(size) - np.log10(smallest) if size > 0.0 else 0.0
    digits = int(min(_SPARE + max(range_, 0.0), _MOST_DIGITS))
    with decimal.localcontext(decimal.Context(prec=digits)):
        terms = [
            (int(i), int(j), Decimal(float(v)))
            for i, j, v in zip(entries.row, entries.column, entries.value, strict=True)
        ]
        exact = [Decimal(float(x)) for x in u]
        wanted = [Decimal(float(x)) for x in c]
        for _ in range(int(digits / _GAIN) + 2):
            overlap = _overlaps(terms, exact, entries.shape[0])
            error = [overlap[i] - x for i, x in zip(R, wanted, strict=True)]
            most = max((abs(e) for e in error), default=Decimal(0))
            if most == 0:
                break
            change = np.linalg.solve(block, np.array([float(e / most) for e in error]))
            for j, step in zip(C, change, strict=True):
                exact[j] += Decimal(float(step)) * most
        overlap = _overlaps(terms, exact, entries.shape[0])
    return np.array([float(x) for x in overlap]), np.array([float(x) for x in exact])


def _overlaps(terms: list[tuple[int, int, Decimal]], u: list[Decimal], count: int) -> list[Decimal]:
    """−B u."""
    total = [Decimal(0)] * count
    for i, j, value in terms:
        total[i] -= value * u[j]
    return total
