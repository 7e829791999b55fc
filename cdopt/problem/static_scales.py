"""The units and local scales of a static network of elastic contacts."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.frozen import columns_at
from cdopt.problem.cones import Cones
from cdopt.problem.contact_law import PowerLaw, RowSprings
from cdopt.problem.contact_problem import ContactProblem, LocalScales, Scales
from cdopt.problem.residual import EPS, Condition, positive
from cdopt.problem.scaling import (
    Parts,
    column_scale,
    contact_rows,
    largest_by,
    network_parts,
    numbered_bodies,
    rows_of,
    scaled,
    smallest_by,
)

_ROUND_OFF = 4.0 * float(np.finfo(float).eps)  # of u, of products with B, of their sums
_FLOOR = 1e-3  # of the energy of the local load of a contact, where it stores less
_LENT = 1e-3  # local load of a body without load, over the smallest load of its part
_NO_LEVER = 1e-12  # a dof moves no gap whose lever is below this share of the largest there
_NO_LOAD = 1e-9  # nor one whose load is below this share of the largest
_DRIVEN = 1e-13  # least load of a body over the force of a prescribed displacement by itself
_NOISE = 1e-14  # loads below this share of the largest are round-off
# of all but the load, as long as the same dofs are in play
_OF_NETWORK = frozenset(
    (
        *("problem", "_last", "_law", "_normal", "_free", "bodies", "parts", "dof_lever", "_faint"),
        *("_driven", "_driven_rows", "_part_stiffness", "N", "S", "B", "used", "compliance"),
    )
)


class StaticScales(Scales):
    """A static network of elastic contacts.

    The local load of a body, Y_b, is the largest max(|B|ᵀ|f|, |F̃|)_j / β_j of its dofs, with the
    lever β_j of each; that of a contact, F_i, the smaller Y_b of its bodies.
    """

    def __init__(self, problem: ContactProblem) -> None:
        super().__init__(problem)
        if problem.compliance is None:
            raise TypeError("a static network of rigid contacts")
        self._law: PowerLaw = problem.compliance
        normal = problem.cones.normal(self._law.stiffness)
        self._normal = self._law if problem.d == 1 else RowSprings(normal)
        every = np.ones(problem.nv, dtype=bool)
        self._free: BoolArray = every if problem.free is None else problem.free

    def under_load(self, problem: ContactProblem) -> StaticScales | None:
        """Those of a ``problem`` with another load alone; None where other dofs are in play."""
        other = StaticScales.__new__(StaticScales)
        vars(other).update({name: vars(self)[name] for name in _OF_NETWORK & vars(self).keys()})
        other.problem, other._last = problem, None
        return other if np.array_equal(other.in_play, self.in_play) else None

    @cached_property
    def bodies(self) -> IntArray:
        body = self.problem.dof_body
        if self.problem.step_bodies is not None:
            return self.problem.step_bodies
        return np.arange(self.problem.nv) if body is None else numbered_bodies(body)

    def _of_bodies(self, values: FloatArray) -> FloatArray:
        """(bodies,) the largest value (nv,) of each body's dofs, at least zero."""
        return largest_by(self.bodies, values, int(self.bodies.max(initial=-1)) + 1)

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the network; prescribed dofs tie nothing together."""
        return network_parts(contact_rows(self.problem.B, self.problem.cones.ends), tied=self._free)

    @cached_property
    def dof_lever(self) -> FloatArray:
        """β_j (nv,): gap per unit of the dof; the largest one where a dof touches no contact."""
        beta = column_scale(self.problem.B)
        longest = float(beta.max(initial=0.0)) or 1.0
        return read_only(np.where(beta > 0.0, beta, longest))

    @cached_property
    def in_play(self) -> BoolArray:
        """(nv,) free dofs that enter equilibrium: those that contacts act on, and loaded ones.

        A column of B whose levers are all round-off of the others in their rows acts on nothing,
        provided that its load is round-off of those of its part too.
        """
        faint, load, parts = self._faint, np.abs(self.problem.contact_load), self.parts
        if not faint.any():
            return read_only(self._free.copy())
        most = parts.largest(parts.dof, np.where(self._free, load, 0.0))[parts.dof]
        noise = faint & (load <= _NO_LOAD * most)
        touched = column_scale(self.problem.B) > 0.0
        return read_only(self._free & np.where(touched, ~noise, load != 0.0))

    @cached_property
    def _faint(self) -> BoolArray:
        """(nv,) dofs without levers, or whose levers are all round-off of others in their rows."""
        B = self.problem.B
        row, size = rows_of(B), np.abs(B.data)
        longest = largest_by(row, size, B.shape[0])[row]
        share = largest_by(B.indices, size / np.where(size > 0.0, longest, 1.0), B.shape[1])
        return read_only(share <= _NO_LEVER)

    @cached_property
    def _driven(self) -> FloatArray:
        """(nc,) N, forces due to gaps and prescribed displacements alone."""
        return self.problem.cones.norms(self._driven_rows)

    @cached_property
    def _driven_rows(self) -> FloatArray:
        """(rows,) N, the same of each row."""
        return np.abs(self.problem.contact_forces(-self.problem.p))

    # --- the local scales of an answer -----------------------------------------------------

    def _local(self, motion: FloatArray | None, f: FloatArray) -> LocalScales:
        problem, parts, free, used = self.problem, self.parts, self._free, self.in_play
        u = np.asarray(problem.free_motion if motion is None else motion)
        acting, exchanged, force = self._loads(f, problem.contact_forces(problem.overlap(u, f)))
        load = problem.load(f)
        work = np.where(free, (problem.contact_load - load) * u, 0.0)
        sizes = problem.load_size(f) + np.abs(problem.contact_load)
        round_off = EPS * parts.total(parts.dof, np.where(free, sizes, 0.0) * np.abs(u))
        error = np.abs(load - problem.contact_load) / self.dof_lever
        scale = exchanged[self.bodies]
        pressed = positive(-problem.cones.normal(problem.p))  # m, by gaps and displacements
        part, noise = parts.dof[used], EPS * acting[used]
        balance = Condition("equilibrium", "N", error[used], scale[used], noise, part=part)
        return LocalScales(
            _ROUND_OFF * (problem.times_size(u) + np.abs(problem.bias)),
            np.zeros(parts.count),
            parts.total(parts.dof, work),
            round_off,
            (balance,),
            force=force,
            least_stored=_FLOOR * np.maximum(self._normal.conjugate(force), force * pressed),
        )

    def _loads(
        self, f: FloatArray, by_law: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Local loads of dofs, bodies and contacts under forces f (rows,), in N at a contact.

        ``by_law`` (rows,) are the forces of the law at the answer's motion, which are capped by
        those that prescribed displacements would cause by themselves. These alone would
        overestimate the load where other contacts deform too.

        Returns
        -------
        (nv,) max(|B|ᵀ|f|, |B|ᵀ|w′(c)|, |F̃|)_j / β_j of each dof, or its load in the step; (bodies,)
        the largest over the body's dofs; (nc,) the smallest of the contact's bodies. The load of a
        body is at least a small share of the smallest load of its part, or one newton without any
        load. Contacts that no free body moves have the force of their overlap.
        """
        problem, used, largest = self.problem, self.in_play, self._of_bodies
        contact = problem.cones.contact[problem.entry_row]
        body = self.bodies[problem.B.indices]
        loads = np.where(used, np.abs(problem.contact_load), 0.0)
        if problem.step_acting is not None:
            loads = np.maximum(loads, problem.step_acting)
        size = np.maximum(np.abs(f), np.minimum(np.abs(by_law), self._driven_rows))
        acting = np.maximum(problem.load_size(size), loads) / self.dof_lever
        applied, exchanged = largest(loads / self.dof_lever), largest(acting)
        floor = self._least_loads(applied, exchanged)
        exchanged = np.maximum(exchanged, floor)
        free = largest(used.astype(np.float64)) > 0.0
        acts = problem.B.data != 0.0
        contact, body = contact[acts], body[acts]
        force = smallest_by(contact, np.where(free, exchanged, np.inf)[body], problem.nc)
        if not np.all(force > 0.0):  # of contacts that no free body moves
            fixed, least = np.full((2, problem.nc), np.inf)
            np.minimum.at(fixed, contact, exchanged[body])
            np.minimum.at(least, contact, floor[body])
            own = problem.cones.norms(size)
            fixed = np.where(own > least, own, np.where(fixed < np.inf, fixed, 0.0))
            force = np.where(force > 0.0, force, fixed)
        return acting, exchanged, force

    def _least_loads(self, applied: FloatArray, exchanged: FloatArray) -> FloatArray:
        """(bodies,) N, the least local load of a body; zero for loaded ones.

        A small share of the smallest of the ``applied`` loads (bodies,) in the body's part, and of
        what bodies without load exchange, ``exchanged`` (bodies,), where displacements drive the
        part and it is no round-off.
        """
        parts, part = self.parts, np.zeros(applied.size, dtype=np.int64)
        part[self.bodies] = parts.dof
        most = largest_by(part, exchanged, parts.count)[part]
        loaded = applied > _NOISE * most
        counts = np.where(loaded, np.maximum(applied, _NO_LOAD * most), exchanged)
        driven = parts.largest(parts.contact, self._driven)[part]
        counts = np.where(loaded, counts, np.maximum(counts, _DRIVEN * driven))
        some = loaded | ((driven > 0.0) & (exchanged > _NO_LOAD * most))
        least = smallest_by(part[some], counts[some], parts.count)
        overall = float(np.min(least, where=least > 0.0, initial=np.inf))
        floor = _LENT * np.where(least > 0.0, least, overall)[part]
        return np.where(loaded, 0.0, np.where(floor < np.inf, floor, 1.0))

    # --- units -----------------------------------------------------------------------------

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: the largest load, as a force at a contact.

        With gaps or prescribed displacements that press, their force if larger. Parts without load
        have the largest of the others.
        """
        parts = self.parts
        loads = np.where(self.in_play, np.abs(self.problem.contact_load / self.dof_lever), 0.0)
        caused = parts.largest(parts.contact, self._driven)
        force = np.maximum(parts.largest(parts.dof, loads), caused)
        return read_only(np.where(force > 0.0, force, float(force.max(initial=0.0)) or 1.0))

    @cached_property
    def _part_stiffness(self) -> FloatArray:
        """(parts,) N/m^(p−1): geometric mean of the contact stiffness."""
        return read_only(self.parts.geometric_mean(self._normal.stiffness))

    @property
    def row_unit(self) -> FloatArray | float:
        """(rows,) √(k/k̄), by which springs of friction have stiffness one; else one."""
        if self.problem.d == 1:
            return 1.0
        mean = self._part_stiffness[self.problem.row_part]
        return np.sqrt(self._law.stiffness / mean)

    @cached_property
    def part_speed(self) -> FloatArray:
        """(parts,) m: overlap of a contact of mean stiffness under the part's force."""
        ratio = self.part_force / self._part_stiffness
        return read_only(ratio ** (1.0 / (self._law.power - 1.0)))

    @cached_property
    def mobility(self) -> FloatArray:
        """(nc,) m/N, the part's overlap over its force."""
        return read_only((self.part_speed / self.part_force)[self.parts.contact])

    @cached_property
    def dof_speed(self) -> FloatArray:
        """(nv,) m or rad: what moves a gap by the part's overlap."""
        return read_only(self.part_speed[self.parts.dof] / self.dof_lever)

    # --- the problem in these units ----------------------------------------------------------

    @cached_property
    def used(self) -> IntArray:
        return np.flatnonzero(self.in_play)

    @cached_property
    def B(self) -> sp.csr_array:
        rows = np.asarray(self.row_unit) if self.problem.d > 1 else None
        columns = self.problem.B
        if self.used.size < columns.shape[1]:
            columns = columns_at(columns, self.used)
        return scaled(columns, rows, 1.0 / self.dof_lever[self.used])

    @cached_property
    def load(self) -> FloatArray:
        unit = self.dof_lever * self.part_force[self.parts.dof]
        return self.problem.contact_load[self.used] / unit[self.used]

    @cached_property
    def compliance(self) -> PowerLaw:
        if self.problem.d > 1:
            return RowSprings(np.ones(self.problem.rows))
        mean = self._part_stiffness[self.parts.contact]
        return dataclasses.replace(self._law, stiffness=self._law.stiffness / mean)

    @cached_property
    def unit(self) -> FloatArray:
        return self.dof_speed[self.used]

    @cached_property
    def cones(self) -> Cones:
        cones = self.problem.cones
        return cones.in_units(np.asarray(self.row_unit)) if self.problem.d > 1 else cones
