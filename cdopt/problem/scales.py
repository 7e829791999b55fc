"""The units and local scales of a step: common ones, and those of a step with matrices.

Each residual of a certificate is an error over the load, speed or energy of that contact or body,
so that a light body next to a heavy one is checked as strictly as if it were alone.
``docs/residuals.md`` derives the scales.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt.problem.cones import Cones
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.contact_problem import ContactProblem, LocalScales, Scales
from cdopt.problem.local_speeds import (
    FreeMotion,
    NetworkTables,
    free_motion,
    local_speeds,
    motion_terms,
)
from cdopt.problem.residual import EPS, Condition, largest, positive
from cdopt.problem.scaling import (
    ContactBodies,
    Parts,
    column_scale,
    contact_bodies,
    contact_rows,
    likely_bodies,
    network_parts,
    numbered_bodies,
    scaled,
    total_by,
)

BACKGROUND = 1e-6  # least gap speed over that of the part, where no neighbour has a load
_RESOLVED = 1e7  # least gap speed over its round-off, in parts without load
# of B and M alone
_OF_NETWORK = (
    *("parts", "bodies", "mobility", "_reach", "_contact_bodies", "_network"),
    *("lever", "row_unit", "_root_mass", "_part_mobility", "_largest_entry"),
    *("B", "S", "N", "load", "used", "cones"),
)


class StepScales(Scales):
    """A step: its speeds are those at which contacts close in free motion."""

    @abstractmethod
    def _closing_speeds(self) -> FloatArray:
        """``part_speed``, zero where there is no motion at all."""

    @abstractmethod
    def _diagonal(self) -> FloatArray:
        """N_ii (rows,), zero where the row moves nothing."""

    @abstractmethod
    def acting_force(self, local: LocalScales) -> FloatArray:
        """(nc,) N, the local load of each contact."""

    @abstractmethod
    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J, of an answer, a motion (nv,) or None and forces f (rows,)."""

    @property
    @abstractmethod
    def effect(self) -> sp.csr_array:
        """Bᵀ or N with its lines so scaled that ‖effect f‖² is about fᵀN f."""

    @cached_property
    def position_round_off(self) -> FloatArray:
        """(nc,) m/s, round-off of positions x in a gap over Δt, 8ε|x|/Δt; zero without points.

        |x| is the largest coordinate of the points of a part: its bodies lie between them.
        """
        points, parts = self.problem.points, self.parts
        if points is None:
            return np.zeros(self.problem.nc)
        size = parts.largest(parts.contact, np.abs(points).max(axis=1, initial=0.0))
        return read_only(EPS * size[parts.contact] / self.problem.dt)

    # How a contact opens. Of the associated law it is g_n − μ‖g_T‖: there sliding opens contacts.

    def opening(self, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, how fast contacts open at ``rates`` (rows,); below 0 they close."""
        problem = self.problem
        opening = problem.cones.opening(rates)
        if problem.d > 1 and problem.law == "associated":
            opening = opening - problem.cones.shift(rates)
            round_off = EPS * self.opening_size(rates)
            opening = np.where(np.abs(opening) <= round_off, 0.0, opening)
        return opening

    def opening_size(self, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, sizes of the terms of ``opening``: |g_n|, of the associated law + μ‖g_T‖."""
        problem = self.problem
        size = np.abs(problem.cones.normal(rates))
        if problem.d > 1 and problem.law == "associated":
            size = size + problem.cones.shift(rates)
        return size

    @cached_property
    def part_speed(self) -> FloatArray:
        """(parts,) m/s: fastest closing of the free motion.

        Where nothing closes, the smaller of the fastest rate B v* + gap_rate and the largest |p|,
        so that neither a far gap (Φ/Δt is large) nor an overlap that ends in this step blunts
        the scale; where nothing moves, the largest |p|. Never below the round-off of the terms
        that p is made of.
        """
        speed = self._closing_speeds()
        return read_only(np.where(speed > 0.0, speed, largest(speed) or 1.0))

    @cached_property
    def mobility(self) -> FloatArray:
        """(nc,) m/(s·N), w = tr(N_ii)/d of each contact without moments; positive."""
        diagonal = self._mean_mobility(self._diagonal(), ~self.problem.cones.moments)
        moved = diagonal > 0.0
        if moved.all():
            return read_only(diagonal)
        mean = self.parts.geometric_mean(diagonal)[self.parts.contact]
        return read_only(np.where(moved, diagonal, mean))

    def _mean_mobility(self, diagonal: FloatArray, chosen: BoolArray) -> FloatArray:
        """(nc,) mean of N_ii (rows,) over the ``chosen`` rows (rows,) of each contact."""
        cones = self.problem.cones
        if chosen.all():
            return cones.total(diagonal) / np.diff(cones.ends)
        count = cones.total(chosen.astype(np.float64))
        return cones.total(np.where(chosen, diagonal, 0.0)) / np.maximum(count, 1.0)

    @cached_property
    def lever(self) -> FloatArray | float:
        """(rows,) m, the arm ℓ of moments, which gives moments and forces the same mobility.

        ℓ² = w over the mean of N_ii of the moments; if these move nothing, the mean of all arms.
        """
        cones, moments = self.problem.cones, self.problem.cones.moments
        if not moments.any():
            return 1.0
        diagonal = self._diagonal()
        turning = self._mean_mobility(diagonal, moments)
        used = turning > 0.0
        moving = self._mean_mobility(diagonal, ~moments)
        arm = np.sqrt(moving / np.where(used, turning, 1.0))
        used &= arm > 0.0
        usual = float(np.exp(np.log(arm[used]).mean())) if used.any() else 1.0
        arm = np.where(used, arm, usual)
        return read_only(np.where(moments, cones.on_rows(arm), 1.0))

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: the force that stops the part's speed at a contact of mean mobility."""
        return read_only(self.part_speed / self._part_mobility)

    @cached_property
    def _part_mobility(self) -> FloatArray:
        """(parts,) m/(s·N), mean of the contacts' mobilities."""
        return self.parts.geometric_mean(self.mobility)


class MatrixScales(StepScales):
    """A step with matrices.

    √E_b is the change of motion of body b in this step: E_b = Σ M_jj a_j² over its dofs, with a_j
    the larger of |v⁺ − v*|_j and Δt |M⁻¹F_ext|_j. The local speed S_i is the gap speed that this
    means at contact i.
    """

    def __init__(self, problem: ContactProblem) -> None:
        super().__init__(problem)
        self._mass, self._motion = problem.mass, problem.free_motion
        self._start = np.asarray(problem.start)

    def of(self, problem: ContactProblem) -> MatrixScales:
        """The scales of a ``problem`` on the same network; what B and M determine is kept."""
        other = MatrixScales(problem)
        vars(other).update({name: getattr(self, name) for name in _OF_NETWORK})
        return other

    @property
    def _coupling(self) -> sp.csr_array | None:
        return None if self._mass.is_diagonal else self._mass.ties

    @cached_property
    def _reach(self) -> sp.csr_array:
        """(nc, nv) motion of a contact in any direction per unit of a dof: B if it has one row."""
        return contact_rows(self._levered, self.problem.cones.ends)

    @cached_property
    def _levered(self) -> sp.csr_array:
        """B, its rows of moments times their arms."""
        B, lever = self.problem.B, self.lever
        return scaled(B, lever) if isinstance(lever, np.ndarray) else B

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the network of contacts, and of sliders.

        The tangents of a slider share its cap, and so are in one part.
        """
        coupling, sliders = self._coupling, self.problem.sliders
        if sliders is not None:
            many = sliders.start.shape[1]
            ends = np.arange(0, sliders.B_t.shape[0] + 1, many)
            touched = contact_rows(sliders.B_t, ends)
            coupling = sp.csr_array(abs(self._mass.M) + touched.T @ touched)
        return network_parts(self._reach, coupling)

    @cached_property
    def bodies(self) -> IntArray:
        if self.problem.dof_body is not None:
            return numbered_bodies(self.problem.dof_body)
        return likely_bodies(self._reach, self._mass.diagonal, self._coupling)

    def _of_bodies(self, values: FloatArray) -> FloatArray:
        """(bodies,) the sum of values (nv,) of each body's dofs."""
        return total_by(self.bodies, values, self._contact_bodies.count)

    @cached_property
    def _contact_bodies(self) -> ContactBodies:
        """The bodies of each contact, with its mobility in all directions."""
        return contact_bodies(self._reach, self._mass.diagonal, self.bodies)

    # --- the local scales of an answer -----------------------------------------------------

    @np.errstate(all="ignore")  # what is not a number fails its residual
    def _local(self, motion: FloatArray | None, f: FloatArray) -> LocalScales:
        problem, dt, mass, network = self.problem, self.problem.dt, self._mass, self._network
        v_next = np.asarray(problem.velocity(f) if motion is None else motion)
        f = checks.answer("f", f, problem.rows)
        jump, known = v_next - self._motion, problem.dof_body is not None
        rows, motions = (f, problem.bias), (v_next, jump, self._free.drift)
        terms = motion_terms(network, rows, motions, dt, known)
        opening, blur = self.opening(terms.rates), self.opening_size(terms.round_off)
        push = self.mobility * problem.cones.normal(f)
        contacts = opening, blur, push, *self._bounds(terms.round_off)
        imbalance = mass.times(jump) - dt * terms.load
        momenta = mass.times_size(np.abs(v_next) + np.abs(self._motion))
        dofs, rigid = (jump, imbalance, mass.solve(imbalance), momenta), problem.compliance is None
        found = local_speeds(network, terms, self._free.load_energy, contacts, dofs, rigid)
        speed, force = found.speed, np.zeros(0)
        if problem.compliance is not None:
            law, cones = problem.compliance, problem.cones
            stiffest = PowerLaw(cones.largest(law.stiffness), law.power)
            if law.pulls:  # a contact presses in all its rows, and in both directions
                speed = np.maximum(speed, cones.norms(problem.times_size(terms.change)))
            closing = stiffest.force(dt * (positive(-self.opening(problem.p)) + speed))
            force = np.minimum(self._forces(found.acting, found.energy), closing)
        errors_there = found.error, found.scale, found.round_off
        return LocalScales(
            terms.round_off,
            found.part_energy,
            found.imbalance,
            found.imbalance_round_off,
            (Condition("momentum", "m/s √kg", *errors_there, part=self.parts.dof),),
            speed,
            force,
            body_energy=found.energy,
            acting=found.acting,
            rates=terms.rates,
        )

    def acting_force(self, local: LocalScales) -> FloatArray:
        """(nc,) N, the local load of each contact: the smaller of those of its bodies."""
        return self._forces(local.acting, local.body_energy)

    def _forces(self, acting: FloatArray, energy: FloatArray) -> FloatArray:
        """(nc,) N, of the loads ``acting`` (nv,) in N s and body energies (bodies,) kg m²/s²."""
        momenta = acting / self._root_mass
        exchanged = np.maximum(self._of_bodies(momenta**2), energy)
        return self._contact_bodies.impulses(exchanged) / self.problem.dt

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J, of an answer ``motion`` (nv,) and f (rows,): changes of motion, and loads."""
        jump = np.asarray(self.problem.velocity(f) if motion is None else motion) - self._motion
        change = np.maximum(np.abs(jump), self._free.drift)
        return self.parts.total(self.parts.dof, self._mass.diagonal * change**2)

    @property
    def effect(self) -> sp.csr_array:
        """√Δt M^(−1/2) Bᵀ, of the diagonal of M."""
        root = np.sqrt(self.problem.dt / self._mass.diagonal)
        return sp.csr_array(self.problem.products * root[:, None])

    def _bounds(self, round_off: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(nc,) m/s, the largest local gap speed and the background.

        ``round_off`` (rows,) is that of the rates.
        Both are of the part's speed; in a part of idle bodies alone they are beyond round-off.
        """
        speed = self.part_speed[self.parts.contact]
        most, background = speed, BACKGROUND * speed
        if np.count_nonzero(self.idle_parts):
            idle = self.idle_parts[self.parts.contact]
            noise, cones = _RESOLVED * self.lever * round_off, self.problem.cones
            most = np.where(idle, np.maximum(speed, cones.largest(noise)), speed)
            background = np.where(idle, np.maximum(speed, -cones.largest(-noise)), background)
        return most, background

    @cached_property
    def _network(self) -> NetworkTables:
        """The network as compiled loops read it."""
        B, pairs, (at, column, value) = self.problem.B, self._contact_bodies, self._normal
        normal = pairs.mobility
        if at is not pairs.entry:
            normal = total_by(at, value**2 / self._mass.diagonal[column], pairs.body.size)
        of_normal = total_by(pairs.contact, normal, pairs.nc)[pairs.contact]
        dofs_there = np.bincount(self.bodies)[self.bodies]
        return NetworkTables(
            np.array([self.problem.entry_row, B.indices], dtype=np.int64),
            np.array(B.data),
            np.array([at, column], dtype=np.int64),
            np.array(value),
            np.array([pairs.contact, pairs.body], dtype=np.int64),
            np.array([pairs.mobility, pairs.total[pairs.contact], normal, of_normal]),
            np.array([self.bodies, self.parts.dof], dtype=np.int64),
            np.array([self._mass.diagonal, self._root_mass, dofs_there]),
            np.array(self.parts.contact, dtype=np.int64),
            pairs.count,
            self.parts.count,
        )

    @cached_property
    def _normal(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Of each entry of the normal rows (nc, nv): place among contacts' bodies, dof, value."""
        B, row, cones = self.problem.B, self.problem.entry_row, self.problem.cones
        pairs, column, value = self._contact_bodies, B.indices, B.data
        if self._reach is B and pairs.entry is not None:
            return pairs.entry, column, value
        normal = row == cones.ends[cones.contact[row]]
        column, value = column[normal], value[normal]
        return pairs.places(cones.contact[row[normal]], self.bodies[column]), column, value

    @cached_property
    def _root_mass(self) -> FloatArray:
        """(nv,) √M_jj."""
        return np.sqrt(self._mass.diagonal)

    @cached_property
    def _free(self) -> FreeMotion:
        """What the free motion says of contacts, bodies and parts."""
        problem, size_of = self.problem, self.opening_size
        terms = np.abs(problem.bias) + problem.times_size(self._motion)
        sizes = size_of(problem.p), size_of(terms), size_of(problem.free_rates)
        contacts = self.opening(problem.p), *sizes
        return free_motion(self._network, contacts, (self._motion, self._start))

    @cached_property
    def idle_parts(self) -> BoolArray:
        """(parts,) those without a loaded body or a contact that closes in free motion."""
        return self._free.busy_parts == 0.0

    # --- units -----------------------------------------------------------------------------

    def _closing_speeds(self) -> FloatArray:
        return self._free.part_speed

    def _diagonal(self) -> FloatArray:
        """N_ii (rows,); of elastic contacts with the diagonal of M: that is enough for a scale."""
        B, dt = self.problem.B, self.problem.dt
        if self._mass.is_diagonal or self.problem.compliance is not None:
            share = B.data**2 / self._mass.diagonal[B.indices]
            return dt * total_by(self.problem.entry_row, share, self.problem.rows)
        product = self._mass.solve_sparse(sp.csr_array(B.T)).T.tocsr()
        return dt * np.asarray(B.multiply(product).sum(axis=1)).ravel()

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: the force that stops the part's speed at a contact of mean mobility.

        For elastic contacts, if that is less, the force of the stiffest one at the overlap that
        closes in one step: contacts may deform before they stop it.
        """
        stopping = self.part_speed / self._part_mobility
        law = self.problem.compliance
        if law is None:
            return read_only(stopping)
        of_contacts = self.problem.cones.largest(law.stiffness)
        stiffest = self.parts.largest(self.parts.contact, of_contacts)
        yielding = PowerLaw(stiffest, law.power).force(self.part_speed * self.problem.dt)
        return read_only(np.where(yielding > 0.0, np.minimum(stopping, yielding), stopping))

    @cached_property
    def row_unit(self) -> FloatArray | float:
        """(rows,) √(k/k̄) of springs that also pull, so that those of a part are equal; else one.

        k̄ is the mean of the stiffness of the normal rows of the part.
        """
        law, cones = self.problem.compliance, self.problem.cones
        if law is None or not law.pulls:
            return self.lever
        mean = self.parts.geometric_mean(cones.normal(law.stiffness))
        return np.sqrt(law.stiffness / mean[self.parts.contact][cones.contact])

    @cached_property
    def dof_speed(self) -> FloatArray:
        """(nv,) m/s or rad/s: speed of each degree of freedom.

        The speed that moves a gap at the part's speed, or has the part's energy if that is less: a
        very short lever must not give its dof a speed it never has.
        """
        part = self.parts.dof
        with np.errstate(divide="ignore"):  # a dof without contact has the speed of its energy
            moving = self.part_speed[part] / self._largest_entry
        kinetic = np.sqrt(self.part_energy[part] / self._mass.diagonal)
        return read_only(np.minimum(moving, kinetic))

    @cached_property
    def _largest_entry(self) -> FloatArray:
        """(nv,) the largest change of a gap per unit of each dof."""
        return column_scale(self._levered)

    # --- the problem in these units ----------------------------------------------------------

    @cached_property
    def B(self) -> sp.csr_array:
        return scaled(self.problem.B, 1.0 / self.problem.speed, self.dof_speed)

    @cached_property
    def S(self) -> sp.csr_array:
        s = self.dof_speed
        return scaled(self._mass.M, s / self.part_energy[self.parts.dof], s)

    @cached_property
    def compliance(self) -> PowerLaw | None:
        problem, law = self.problem, self.problem.compliance
        if law is None:
            return None
        stiffness = law.force(problem.speed * problem.dt) / problem.force
        return dataclasses.replace(law, stiffness=stiffness)

    @cached_property
    def cones(self) -> Cones:
        problem, law = self.problem, self.problem.compliance
        soft = law is not None and law.pulls
        return problem.cones.in_units(problem.force) if soft else problem.scaled_cones


def step_scales(problem: ContactProblem) -> StepScales:
    """The scales of a step."""
    if not isinstance(problem.scales, StepScales):
        raise TypeError(f"the scales of a {problem.kind} are not those of a step")
    return problem.scales
