"""The problem of this package: conditions on a contact network.

    F̃ + S w = Gᵀ f        balance         S: the inertia M/Δt; zero for statics
    g = G w + p + c(f)     rates or gaps   c(f): compliance of the contacts; zero for rigid ones
    K ∋ f ⟂ g̃ ∈ K*        contact law     g̃ = g, or de Saxcé's shifted g for Coulomb's law

In code G is ``B``, the gap gradient, with d rows a contact, and w is the motion less the one
without contact forces: v⁺ − v* of a step, u − ū of a static network. A static network has Δt = 1,
so that its rates in m/s are its gaps in m. A step may be known by N = G S⁻¹Gᵀ and p alone.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.cached import cached_property, twin
from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import transposed
from cdopt.problem.cones import Cones
from cdopt.problem.contact_law import Compliant, PowerLaw, RowSprings
from cdopt.problem.mass import MassMatrix
from cdopt.problem.residual import Condition
from cdopt.problem.scaling import (
    Parts,
    rows_of,
    times,
    times_size,
    transposed_times,
    transposed_times_size,
)
from cdopt.problem.sliders import StepSliders

_KEPT, _KEPT_DOFS = 20_000, 1_000  # entries of G or N and dofs up to which what is made is kept


@dataclass(frozen=True, eq=False)
class ContactProblem(Compliant):
    """The conditions on a contact network, for cdopt's solvers and the certificate.

    Forces f and rates g are arrays (rows,), d rows a contact, the normal one first. A motion is v⁺
    (nv,) of a step in m/s and rad/s, or u (nv,) of a static network in m; None with N and p alone.

    Attributes
    ----------
    kind : "rigid step", "frictional step", "elastic step", "elastic step with sliders", "soft
        step", "truss" or "friction network".
    cones : K, the cones of the contacts.
    B : G (rows, nv), the gap gradient; without columns where only N and p are known.
    p : (rows,) m/s, rates of the free motion.
    bias : (rows,) m/s, b of the rates B v⁺ + b; p where only N and p are known.
    contact_load : F̃ (nv,), N and N·m, zero of a step; not used on dofs that are not free.
    free_motion : (nv,) the motion without contact forces, where w = 0: v* of a step, the prescribed
        displacement of a static network, zero on its free dofs; empty with N and p alone.
    scale_by : function for the units and local scales of the problem.
    dt : time step Δt, s; one for a static network.
    inertia : the mass matrix M; None of a static network, and with N and p alone.
    N : (rows, rows) m/(s·N), the Delassus matrix where it is given; else None.
    compliance : the power law of elastic contacts; None of rigid ones.
    law : "associated", with g̃ = g, or "coulomb", with de Saxcé's shifted rates.
    free : (nv,) which dofs are free; None where all are.
    start : (nv,) m/s, the motion at the start of the step; None of a static network.
    applied : (nv,) N and N·m, the loads of the step, which cause ``free_motion``; empty where they
        are not known.
    free_rates : (rows,) m/s, B v* and the rates of moving walls, without gaps; p of a static
        network, and where only N and p are known. They do not depend on the frame.
    sliders : tangential springs with constant caps, or None.
    dof_body : (nv,) the body of each dof, or None.
    contact_ids : (nc,) names of the contacts, or None.
    points : (nc, 2) or (nc, 3) m, contact points, or None.
    step_bodies : (nv,) of a static network made of a step, ``bodies`` of the step; else None.
    step_acting : (nv,) N and N·m, of a static network made of a step, the local loads of the step,
        with which the scale of a falling body is its weight; else None.
    """

    kind: str
    cones: Cones
    B: sp.csr_array
    p: FloatArray
    bias: FloatArray
    contact_load: FloatArray
    free_motion: FloatArray
    scale_by: Callable[[ContactProblem], Scales] = field(repr=False)
    dt: float = 1.0
    inertia: MassMatrix | None = None
    N: sp.csr_array | None = None
    compliance: PowerLaw | None = None
    law: str = "associated"
    free: BoolArray | None = None
    start: FloatArray | None = None
    applied: FloatArray = field(default_factory=lambda: np.zeros(0))
    free_rates: FloatArray = field(default_factory=lambda: np.zeros(0))
    sliders: StepSliders | None = None
    dof_body: IntArray | None = None
    contact_ids: NDArray[Any] | None = None
    points: FloatArray | None = None
    step_bodies: IntArray | None = None
    step_acting: FloatArray | None = None

    expected: ClassVar[str] = "the data of a formulation, such as ClassicCD(step).data"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_cache"}

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.cones.nc

    @property
    def d(self) -> int:
        """Rows a contact: 1 without friction, 2 in the plane, 3 in space."""
        return self.cones.d

    @property
    def rows(self) -> int:
        """Number of rows, of forces and of rates."""
        return self.cones.rows

    @cached_property
    def nv(self) -> int:
        """Number of degrees of freedom; zero with N and p alone."""
        return int(self.B.shape[1])

    @property
    def mass(self) -> MassMatrix:
        """The ``inertia`` of a step of bodies, which others do not have: a TypeError."""
        if self.inertia is None:
            raise TypeError(f"a {self.kind} without bodies")
        return self.inertia

    @property
    def is_static(self) -> bool:
        """Whether the network has no inertia."""
        return self.inertia is None and self.N is None

    def forget_answers(self) -> None:
        """Drop what is kept of the last answer; what follows from the data alone is kept."""
        for name in ("_residuals", "_caused"):
            vars(self).pop(name, None)
        self.scales._last = None

    # --- the terms of the conditions -------------------------------------------------------

    @cached_property
    def entry_row(self) -> IntArray:
        """The row of each stored entry of B."""
        return rows_of(self.B)

    @cached_property
    def products(self) -> sp.csr_array:
        """Bᵀ (nv, rows), or N (rows, rows): zero for self-balanced forces."""
        return transposed(self.B) if self.N is None else self.N

    @cached_property
    def delassus(self) -> sp.csr_array:
        """N (rows, rows), m/(s·N): as given, or Δt B M⁻¹ Bᵀ of a step.

        Raises
        ------
        InvalidInput : a static network, which has none.
        """
        if self.N is not None:
            return self.N
        if self.inertia is None:
            raise InvalidInput("problem", "a static network", "a step, which has N")
        product = sp.csr_array(self.B @ self.inertia.solve_sparse(sp.csr_array(self.B.T)))
        return freeze(sp.csr_array((product + product.T) * (0.5 * self.dt)))

    def load(self, f: FloatArray) -> FloatArray:
        """Bᵀ f (nv,), N and N·m, the effect of forces f (rows,) in N on the bodies."""
        return transposed_times(self.B, checks.answer("f", f, self.rows), self.entry_row)

    def load_size(self, f: FloatArray) -> FloatArray:
        """|B|ᵀ |f| (nv,), for f (rows,)."""
        return transposed_times_size(self.B, checks.answer("f", f, self.rows), self.entry_row)

    def times(self, motion: FloatArray) -> FloatArray:
        """B v (rows,), for a motion v (nv,)."""
        return times(self.B, checks.answer("motion", motion, self.nv), self.entry_row)

    def times_size(self, motion: FloatArray) -> FloatArray:
        """|B| |v| (rows,), for a motion v (nv,)."""
        return times_size(self.B, checks.answer("motion", motion, self.nv), self.entry_row)

    def velocity(self, f: FloatArray) -> FloatArray | None:
        """The motion (nv,) of forces f (rows,) in N: v* + Δt M⁻¹Bᵀf.

        For a static network, whose forces do not determine a motion, it is that without forces;
        None with N and p alone.
        """
        if self.inertia is None:
            return self.free_motion if self.N is None else None
        f = checks.answer("f", f, self.rows)
        kept: Any = self.__dict__.get("_caused")
        if kept is None or not same(kept[0], f):
            motion = self.free_motion + self.dt * self.inertia.solve(self.load(f))
            kept = self.__dict__["_caused"] = np.array(f), read_only(motion)
        motion = kept[1]
        return motion

    def gap(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """g without compliance (rows,), m/s: B v + b, or N f + p with N and p alone.

        ``motion`` (nv,) None is the one that forces f (rows,) cause.
        """
        if self.N is not None:
            return np.asarray(self.N @ checks.answer("f", f, self.rows) + self.p)
        motion = self.velocity(f) if motion is None else motion
        return self.times(checks.answer("motion", motion, self.nv)) + self.bias

    def shifted(self, rates: FloatArray) -> FloatArray:
        """g̃ (rows,), m/s: the rates that the law sets orthogonal to the forces."""
        rates = checks.answer("rates", rates, self.rows)
        return self.cones.shifted(rates) if self.law == "coulomb" else rates

    def shift(self, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, the shift of the law for the normal rates of ``rates`` (rows,)."""
        rates = checks.answer("rates", rates, self.rows)
        return self.cones.shift(rates) if self.law == "coulomb" else np.zeros(self.nc)

    def overlap(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """c = −Δt g (rows,), m, at the end of a step; of a static network −(B u + gaps)."""
        return -self.dt * self.gap(motion, f)

    def contact_forces(self, c: FloatArray) -> FloatArray:
        """(rows,) N, forces of elastic contacts at overlaps c (rows,) in m.

        w′(c) for contacts that only push. If springs also pull, forces are projected onto K in the
        energy norm of the springs, or for Coulomb's law limited by friction.
        """
        c = checks.answer("c", c, self.rows)
        law = self.elastic_law
        if not law.pulls:
            return law.force(c)
        if self.law == "coulomb":
            return self.cones.frictional_cut(law.force(c))
        root = np.sqrt(law.stiffness)
        return root * self.cones.in_units(root).project(root * c)

    def stored_energy(self, c: FloatArray) -> FloatArray:
        """(rows,) J, of elastic contacts at overlaps c (rows,) in m."""
        c = checks.answer("c", c, self.rows)
        law = self.elastic_law
        if not law.pulls:
            return law.energy(c)
        f = self.contact_forces(c)
        return f * c - law.conjugate(f)

    def reactions(self, f: FloatArray) -> FloatArray:
        """(Bᵀ f) on the dofs that are not free, in their order, N and N·m."""
        return self.load(f)[:0] if self.free is None else self.load(f)[~self.free]

    def softened(self, give: FloatArray) -> ContactProblem:
        """The same step with the compliance ``give`` (rows,), m/(s·N)."""
        give = checks.answer("give", give, self.rows)
        springs = RowSprings(read_only(1.0 / (give * self.dt)))
        return replace(self, compliance=springs)

    # --- the two objectives, by part -------------------------------------------------------

    def force_objective(self, f: FloatArray) -> FloatArray:
        """½ fᵀN f + pᵀf + (1/Δt) Σ w*(f) (parts,): N m/s of a step, J of a static network.

        Equations (22), (33) and (36) of Olsen & Kamrin (2018).
        """
        f = checks.answer("f", f, self.rows)
        parts, linear = self.scales.parts, self.p * f
        objective = parts.total(self.row_part, linear)
        if self.compliance is not None:
            objective += parts.total(self.row_part, self.compliance.conjugate(f)) / self.dt
        if self.N is not None:
            objective += parts.total(self.row_part, 0.5 * f * (self.N @ f))
        elif self.inertia is not None:
            load = self.load(f)
            half = 0.5 * self.dt * self.inertia.solve(load) * load
            objective += parts.total(parts.dof, half)
        return objective

    def motion_objective(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ ‖w‖²_M + F̃ᵀu + Σ w(c) (parts,), J, and the energy of sliders.

        With N and p alone ½ Δt fᵀN f. ``motion`` (nv,) None is the one that forces f (rows,) cause.
        Equation (32) of Olsen & Kamrin (2018), corrected, for a static network.
        """
        parts = self.scales.parts
        if self.N is not None:
            f = checks.answer("f", f, self.rows)
            return parts.total(self.row_part, 0.5 * self.dt * f * (self.N @ f))
        moved = self.velocity(f) if motion is None else motion
        motion = checks.answer("motion", moved, self.nv)
        energy = np.zeros(parts.count)
        if self.inertia is not None:
            jump = motion - self.free_motion
            energy += parts.total(parts.dof, 0.5 * jump * self.inertia.times(jump))
        else:
            work = self.contact_load * motion
            work = work if self.free is None else np.where(self.free, work, 0.0)
            energy += parts.total(parts.dof, work)
        if self.compliance is not None:
            stored = self.stored_energy(self.overlap(motion, f))
            energy += parts.total(self.row_part, stored)
        if self.sliders is not None:
            part = self.sliders.parts_of(parts)
            energy += parts.total(part, self.dt * self.sliders.power(motion))
        return energy

    # --- units -----------------------------------------------------------------------------

    @cached_property
    def scales(self) -> Scales:
        """The units of the problem, and the local scales of its certificate."""
        return self.scale_by(self)

    @property
    def parts(self) -> Parts:
        """Independent parts of the contact network."""
        return self.scales.parts

    @property
    def bodies(self) -> IntArray:
        """(nv,) the body of each degree of freedom, numbered from zero."""
        return self.scales.bodies

    @cached_property
    def row_part(self) -> IntArray:
        """(rows,) the part of each row."""
        return read_only(self.parts.contact[self.cones.contact])

    @property
    def part_force(self) -> FloatArray:
        """(parts,) N, unit of the forces of each part."""
        return self.scales.part_force

    @property
    def part_speed(self) -> FloatArray:
        """(parts,) m/s, unit of the rates of each part; m of a static network."""
        return self.scales.part_speed

    @property
    def part_energy(self) -> FloatArray:
        """(parts,) J, unit of the energies of each part."""
        return self.scales.part_energy

    @cached_property
    def force(self) -> FloatArray:
        """(rows,) N, unit of each row's force: that of its part, times that of the row."""
        return read_only(self.part_force[self.row_part] * self.scales.row_unit)

    @cached_property
    def speed(self) -> FloatArray:
        """(rows,) m/s, unit of each row's rate: that of its part, over that of the row."""
        return read_only(self.part_speed[self.row_part] / self.scales.row_unit)

    @property
    def scaled_cones(self) -> Cones:
        """K of forces in units of ``force``."""
        equal = np.ndim(self.scales.row_unit) == 0
        return self.cones if equal else self.cones.in_units(self.force)

    @property
    def dof_speed(self) -> FloatArray:
        """(nv,) m/s or rad/s, unit of each dof's motion; m or rad of a static network."""
        return self.scales.dof_speed

    @property
    def mobility(self) -> FloatArray:
        """(nc,) m/(s·N), w: the rate of a contact per unit of its force."""
        return self.scales.mobility

    @property
    def cache(self) -> dict[Any, Any]:
        """What was made of G, M and N in scaled units, by name, for all steps on this network.

        Threads share nothing of it: factorisations have a state.
        Of a large network nothing is kept: its matrices would fill the memory.
        """
        small = (self.B if self.N is None else self.N).nnz <= _KEPT and self.nv <= _KEPT_DOFS
        return self._cache.setdefault(threading.get_ident(), {}) if small else {}

    @cached_property
    def _cache(self) -> dict[int, dict[Any, Any]]:
        return {}


@dataclass(frozen=True, eq=False)
class LocalScales:
    """The scales of an answer's certificate: speeds, loads and energies of contacts and bodies.

    They are local: no body has the scale of a faster or heavier one (compare the componentwise
    backward error of Oettli & Prager, Numerische Mathematik 6, 1964).
    """

    gap_round_off: FloatArray  # (rows,) m/s, of the rates
    # (parts,) J, energy of each independent part; zero where stored energies count
    part_energy: FloatArray
    # (parts,) J, the share of the duality gap due to the imbalance: ½ ‖M(v⁺ − v*) − Δt Bᵀf‖² by
    # M⁻¹, or (F̃ − Bᵀf)ᵀu
    imbalance: FloatArray
    imbalance_round_off: FloatArray  # (parts,) J
    balance: tuple[Condition, ...] = ()  # the condition of balance, where bodies are known
    # (nc,) m/s, how fast the local loads would change each gap, at most the unit of its part;
    # without entries for a static network
    speed: FloatArray = field(default_factory=lambda: np.zeros(0))
    # (nc,) N, the local load of each contact; without entries for rigid contacts
    force: FloatArray = field(default_factory=lambda: np.zeros(0))
    # (nc,) J, the least energy stored at a contact that counts; zero for a step
    least_stored: FloatArray | float = 0.0
    # (bodies,) kg m²/s², the energies behind the speeds; without entries where bodies are not known
    body_energy: FloatArray = field(default_factory=lambda: np.zeros(0))
    # (nv,) N s, Δt|B|ᵀ|f| + M_jj a_j on each dof, with a_j the larger change of its speed by
    # contacts or loads; without entries where bodies are not known
    acting: FloatArray = field(default_factory=lambda: np.zeros(0))
    # (rows,) m/s, g of the answer; without entries for a static network
    rates: FloatArray = field(default_factory=lambda: np.zeros(0))


class Scales(Compliant, ABC):
    """The units of a problem, the problem in these units, and the local scales of its certificate.

    There is one subclass for each way in which a network is known: a step with matrices, a step by
    N and p, a static network. A problem keeps its scales, which refer to it only weakly: otherwise
    the memory of both would be free for the next step only after a search for garbage.
    """

    def __init__(self, problem: ContactProblem) -> None:
        self.problem = problem
        self._last: tuple[FloatArray | None, FloatArray, LocalScales] | None = None

    @property
    def problem(self) -> ContactProblem:
        """The problem that they belong to."""
        problem = self._problem()
        if problem is None:
            raise ReferenceError("the problem of these scales no longer exists")
        return problem

    @problem.setter
    def problem(self, problem: ContactProblem) -> None:
        self._problem = weakref.ref(problem)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_problem": self.problem}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.problem = state["_problem"]

    @cached_property
    @abstractmethod
    def parts(self) -> Parts:
        """Independent parts of the contact network."""

    @cached_property
    @abstractmethod
    def bodies(self) -> IntArray:
        """(nv,) the body of each degree of freedom, numbered from zero."""

    @cached_property
    @abstractmethod
    def part_speed(self) -> FloatArray:
        """(parts,) m/s."""

    @cached_property
    @abstractmethod
    def part_force(self) -> FloatArray:
        """(parts,) N."""

    @cached_property
    def part_energy(self) -> FloatArray:
        """(parts,) J: work of the part's force over its speed in one time step."""
        return read_only(self.part_force * self.part_speed * self.problem.dt)

    @property
    def lever(self) -> FloatArray | float:
        """(rows,) m, the arm that converts a moment to a force; one for forces."""
        return 1.0

    @property
    def row_unit(self) -> FloatArray | float:
        """(rows,) force of each row over that of its part: the arm of moments, and for springs."""
        return self.lever

    @cached_property
    @abstractmethod
    def dof_speed(self) -> FloatArray:
        """(nv,) m/s or rad/s, unit of each dof's motion."""

    @cached_property
    @abstractmethod
    def mobility(self) -> FloatArray:
        """(nc,) m/(s·N)."""

    def local(self, motion: FloatArray | None, f: FloatArray) -> LocalScales:
        """The local scales of a motion (nv,) or None and forces f (rows,); the last are kept."""
        last = self._last
        if last is None or not (same(last[0], motion) and same(last[1], f)):
            copies = None if motion is None else np.array(motion), np.array(f)
            last = self._last = *copies, self._local(motion, f)
        return last[2]

    @abstractmethod
    def _local(self, motion: FloatArray | None, f: FloatArray) -> LocalScales:
        """The result of ``local``."""

    # --- the problem in these units: numbers of order one, and Δt = 1 ------------------------

    @cached_property
    @abstractmethod
    def B(self) -> sp.csr_array:
        """G (rows, m) on the m dofs used."""

    @cached_property
    def N(self) -> sp.csr_array | None:
        """(rows, rows) where only N and p are known; else None."""
        return None

    @cached_property
    def S(self) -> sp.csr_array | None:
        """(m, m) the inertia; None of a static network, and with N and p alone."""
        return None

    @cached_property
    def load(self) -> FloatArray:
        """F̃ (m,), zero of a step."""
        return np.zeros(self.used.size)

    @cached_property
    def p(self) -> FloatArray:
        """(rows,) rates, or gaps, of the free motion."""
        return read_only(self.problem.p / self.problem.speed)

    @cached_property
    def used(self) -> IntArray:
        """(m,) the dofs that contacts or loads act on; all of a step."""
        return np.arange(self.problem.nv)

    @cached_property
    def unit(self) -> FloatArray:
        """(m,) the motion of each w: a motion is ``free_motion`` plus it times w on those used."""
        return self.dof_speed

    @cached_property
    def cones(self) -> Cones:
        """K of the scaled forces."""
        return self.problem.scaled_cones

    def replaced(self, **values: Any) -> Self:
        """The scaled problem with other ``values`` by name."""
        other = twin(self)
        vars(other).update(values)
        return other


def same(kept: FloatArray | None, value: FloatArray | None) -> bool:
    """Whether both are the same vector, or None."""
    if kept is None or value is None:
        return kept is value
    return kept is value or kept.tobytes() == value.tobytes()
