"""The plain data of a classic contact dynamics step, its energies and its characteristic scales."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.checks import BoolArray, FloatArray, freeze, read_only
from cdopt._util.errors import InvalidInput
from cdopt.problem import kernels
from cdopt.problem.bodies import Bodies, bodies_of, touched
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.entries import Entries
from cdopt.problem.mass import MassMatrix
from cdopt.problem.scaling import Parts, column_scale, matrix_parts, network_parts

_NEGLIGIBLE = 1e-12  # a closing speed below this share of the opening ones is round-off
_ROUND_OFF = 1e-10  # nor is anything below this share of the terms that cancelled to make it
_EPS = 8.0 * float(np.finfo(float).eps)  # round-off of a sum, of its terms' absolute values
_IDLE = 1e-20  # a dof with less than this share of every contact's mobility moves none of them


@dataclass(frozen=True, eq=False)
class RigidStepData:
    """A classic contact dynamics step: f ≥ 0, B v⁺ + bias ≥ 0, M (v⁺ − v*) = Δt Bᵀ f.

    Methods take v⁺ as ``v_next`` (nv,) in m/s, None for that which f causes, and f (nc,) in N.

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

    @cached_property
    def B(self) -> sp.csr_array | None:
        """Gap gradient (nc, nv); None when only N and p are known.

        Columns that move no gap but for round-off (rotations of spheres, whose levers are
        zero up to 1e-16) are empty here, or they would tie the forces like any other (trap 5).
        """
        given, mass = self.step.B, self.mass
        if given is None or mass is None:
            return given
        _, moving = self._diagonal_mobility
        if moving.all() or moving[given.indices].all():
            return given
        return freeze(sp.csr_array(given * np.where(moving, 1.0, 0.0)[None, :]))

    @cached_property
    def entries(self) -> Entries:
        """The entries of B.

        Raises
        ------
        InvalidInput : the step is known by N and p alone.
        """
        if self.B is None:
            raise InvalidInput("step", "no matrices", "a step with M and B")
        return Entries(self.B)

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
        return np.asarray(self.step.v_star + self.dt * self.mass.solve(self.load(f)))

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (nv,), N and N·m: what forces f (nc,) in N do to the bodies."""
        return self.entries.load(f)

    def gap(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """(nc,) m/s, the value of each contact's constraint: B v⁺ + bias, or N f + p."""
        if v_next is None or self.B is None or self.step.bias is None:
            return np.asarray(self.step.N @ f + self.step.p_vec)
        return self.entries.times(v_next) + self.step.bias

    # --- energies, by part -------------------------------------------------------------

    def velocity_objective(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ ‖v⁺ − v*‖²_M (parts,), J; without matrices that of the motion f causes."""
        if v_next is None or self.mass is None or self.step.v_star is None:
            return self.parts.total(self.parts.contact, 0.5 * self.dt * f * (self.step.N @ f))
        jump = v_next - self.step.v_star
        return self.parts.total(self.parts.dof, 0.5 * jump * Entries(self.mass.M).times(jump))

    def force_objective(self, f: FloatArray) -> FloatArray:
        """½ fᵀN f + pᵀf (parts,), the objective of (22), N m/s."""
        linear = self.parts.total(self.parts.contact, self.step.p_vec * f)
        if self.B is None or self.mass is None:
            return self.velocity_objective(None, f) / self.dt + linear
        load = self.load(f)
        jump = self.dt * self.mass.solve(load)
        return self.parts.total(self.parts.dof, 0.5 * jump * load) + linear

    # --- scales ------------------------------------------------------------------------

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the contact network."""
        if self.B is None or self.mass is None:
            return matrix_parts(self.step.N)
        return network_parts(self.B, self.mass.M)

    @cached_property
    def bodies(self) -> Bodies:
        """The bodies that the degrees of freedom belong to; none with N and p alone."""
        if self.B is None or self.mass is None:
            return Bodies(np.zeros(0, dtype=np.int64), 0)
        coupling = None if self.mass.M.nnz == self.mass.diagonal.size else self.mass.M
        return bodies_of(self.B, self.mass.diagonal, coupling, self.step.dof_body)

    @cached_property
    def _closing(self) -> BoolArray:
        """(nc,) contacts that close in free motion, by more than round-off."""
        step = self.step
        if self.B is None or step.bias is None or step.v_star is None:
            return step.p_vec < 0.0
        terms = np.abs(step.bias) + self.entries.times_size(step.v_star)
        return np.asarray(step.p_vec < -_EPS * terms)

    @cached_property
    def idle_bodies(self) -> BoolArray:
        """(bodies,) those without load, none of whose contacts closes in free motion."""
        step, B, label = self.step, self.B, self.bodies.label
        if B is None or step.v is None or step.v_star is None:
            return np.zeros(self.bodies.count, dtype=bool)
        loaded = self.bodies.largest(np.abs(step.v_star - step.v)) > 0.0
        return ~loaded & ~touched(B.indptr, B.indices, label, self._closing, self.bodies.count)

    @cached_property
    def idle_parts(self) -> BoolArray:
        """(parts,) those in which no body bears a load and no contact closes in free motion."""
        parts = self.parts
        acting = parts.largest(parts.contact, self._closing.astype(np.float64))
        if self.B is not None:
            acting += parts.largest(
                parts.dof, (~self.idle_bodies[self.bodies.label]).astype(np.float64)
            )
        return acting == 0.0

    @cached_property
    def position_round_off(self) -> FloatArray:
        """(nc,) m/s, round-off of positions x in a gap over Δt, 8ε|x|/Δt; zero without points.

        |x| is the largest coordinate of the points of a part: its bodies lie between them.
        """
        points, parts = self.step.points, self.parts
        if points is None:
            return np.zeros(self.nc)
        size = parts.largest(parts.contact, np.abs(points).max(axis=1, initial=0.0))
        return read_only(_EPS * size[parts.contact] / self.dt)

    @cached_property
    def part_speed(self) -> FloatArray:
        """(parts,) m/s: fastest closing of the free motion.

        Where nothing closes, the fastest gap rate B v*, so that a far gap (Φ/Δt is large) does
        not blunt the scale; where nothing moves either, the largest |p|. Never below the
        round-off of the terms that p is made of.
        """
        step, parts, B = self.step, self.parts, self.B
        p, bias, v_star = step.p_vec, step.bias, step.v_star
        if B is None or bias is None or v_star is None:
            B, bias, v_star = sp.csr_array((self.nc, 0)), np.zeros(self.nc), np.zeros(0)
        speed = kernels.closing_speeds(
            B.indptr, B.indices, B.data, v_star, p, bias, parts.contact, parts.count,
            _NEGLIGIBLE, _ROUND_OFF,
        )  # fmt: skip
        if (speed > 0.0).all():
            return read_only(speed)
        return read_only(np.where(speed > 0.0, speed, float(speed.max(initial=0.0)) or 1.0))

    @cached_property
    def mobility(self) -> FloatArray:
        """N_ii (nc,), m/(s·N): gap speed per unit of the contact's own force, always positive."""
        own = self._own_mobility()
        if (own > 0.0).all():
            return read_only(own)
        return read_only(
            np.where(own > 0.0, own, self.parts.geometric_mean(own)[self.parts.contact])
        )

    def _own_mobility(self) -> FloatArray:
        """N_ii (nc,), m/(s·N), zero where the contact moves nothing."""
        if self.B is None or self.mass is None:
            return np.asarray(self.step.N.diagonal())
        if self.mass.M.nnz == self.mass.diagonal.size:
            return self.dt * self._diagonal_mobility[0]
        product = self.mass.solve_sparse(sp.csr_array(self.B.T)).T.tocsr()
        return self.dt * np.asarray(self.B.multiply(product).sum(axis=1)).ravel()

    @cached_property
    def _diagonal_mobility(self) -> tuple[FloatArray, BoolArray]:
        """(nc,) 1/kg, N_ii/Δt if M were its diagonal; and which dofs (nv,) move a gap."""
        B, mass = self.step.B, self.mass
        if B is None or mass is None:
            raise InvalidInput("step", "no matrices", "a step with M and B")
        return kernels.mobilities(B.indptr, B.indices, B.data, mass.diagonal, _IDLE)

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

    @cached_property
    def force(self) -> FloatArray:
        """(nc,) N, the force of each contact's part."""
        return read_only(self.part_force[self.parts.contact])

    @cached_property
    def dof_energy(self) -> FloatArray:
        """(nv,) J, the energy of each dof's part."""
        return read_only(self.part_energy[self.parts.dof])

    @cached_property
    def dof_speed(self) -> FloatArray:
        """(nv,) m/s or rad/s: speed of each degree of freedom.

        What moves a gap at the part's speed, or what takes the part's energy if that is less: a
        lever too short to matter must not lend its dof a speed it never has.
        """
        if self.B is None or self.mass is None:
            return np.zeros(0)
        with np.errstate(divide="ignore"):  # a dof that touches nothing keeps what its energy gives
            moving = self.part_speed[self.parts.dof] / column_scale(self.B)
        return read_only(np.minimum(moving, np.sqrt(self.dof_energy / self.mass.diagonal)))

    @cached_property
    def scaled_matrices(self) -> tuple[sp.csr_array, sp.csr_array]:
        """M and B in units of the energies, speeds and dof speeds of their parts.

        Raises
        ------
        InvalidInput : the step is known by N and p alone.
        """
        if self.mass is None:
            raise InvalidInput("step", "no matrices", "a step with M and B")
        s = self.dof_speed
        M = Entries(self.mass.M).scaled(s / self.dof_energy, s)
        return M, self.entries.scaled(1.0 / self.speed, s)
