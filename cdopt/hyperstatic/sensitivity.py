"""sensitivity(): derivatives of compatible forces by stiffness, load and power."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.formulations import (
    CompatibleCD,
    CompatibleFriction,
    FrictionNetwork,
    NoTensionTruss,
)
from cdopt.hyperstatic.frictional_sensitivity import FrictionalSensitivity, at_forces
from cdopt.hyperstatic.tangent import TOUCHING, Tangent, one_sided
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.solution import StepSolution

_REFERENCE_BACKEND = "newton"


@dataclass(frozen=True, eq=False)
class Gradient(Frozen):
    """Derivatives of one number weightsᵀf.

    Attributes
    ----------
    log_stiffness : (nc,) by log k, in units of the number.
    load : (nv,) by F̃, per N and per N·m; not-a-number for a step known by N and p alone.
    power : by p.
    """

    log_stiffness: FloatArray
    load: FloatArray
    power: float


@dataclass(frozen=True, eq=False)
class Sensitivity(Frozen):
    """First derivatives of the compatible forces f(k, F̃, p), equation (36), at one solution.

    Attributes
    ----------
    truss : the no-tension truss on the closed contacts. solution : of it, certified.
    contacts : (n,) the closed contacts among all ``nc``; open ones keep f = 0.
    nc : number of contacts.
    tangent : the linearised truss, scaled.
    known_load : whether F̃ is that of the bodies; not so for steps known by N and p alone.

    Notes
    -----
    Which contacts are closed does not change, nor does what the bodies ask the contacts to bear.
    Where a contact has neither force nor gap and p ≤ 2, derivatives are one-sided: the matrices
    are refused, ``along`` is there.
    """

    truss: NoTensionTruss
    solution: StepSolution
    contacts: IntArray
    nc: int
    tangent: Tangent
    known_load: bool = True

    # --- the forces --------------------------------------------------------------------

    @cached_property
    def f(self) -> FloatArray:
        """(nc,) N, compatible forces."""
        return self._on_all(self.tangent.f * self.truss.data.force)

    @cached_property
    def loaded(self) -> BoolArray:
        """(nc,) contacts that carry force."""
        return self._on_all(self.tangent.loaded)

    @cached_property
    def touching(self) -> IntArray:
        """Indices of contacts without force and without gap, in every motion that goes with f."""
        return read_only(self.contacts[self.tangent.touching])

    @property
    def two_sided(self) -> bool:
        """Whether derivatives by stiffness and power are the same from both sides.

        For p > 2 contacts that just touch have no stiffness, and do no harm.
        """
        return self.truss.data.law.power > HOOKE or self.touching.size == 0

    # --- matrices ----------------------------------------------------------------------

    @cached_property
    def log_stiffness(self) -> FloatArray:
        """(nc, nc) N: ∂f_i/∂log k_j; rows sum to zero without prescribed displacements.

        Raises
        ------
        Unsupported : some contacts just touch; ``along`` gives one-sided derivatives.
        """
        self._require_two_sides()
        n = self.contacts.size
        df = self.tangent.push(np.eye(n), np.zeros((self.tangent.truss.load.size, n)))
        result = np.zeros((self.nc, self.nc))
        result[np.ix_(self.contacts, self.contacts)] = df * self.truss.data.force[:, None]
        return read_only(result)

    @property
    def stiffness(self) -> FloatArray:
        """(nc, nc): ∂f_i/∂k_j, N per unit of the stiffness that was given.

        Raises
        ------
        Unsupported : as ``log_stiffness``.
        """
        k = np.ones(self.nc)
        k[self.contacts] = self.truss.data.law.stiffness
        return self.log_stiffness / k

    @cached_property
    def load(self) -> FloatArray:
        """(nc, nv): ∂f_i/∂F̃_j, N per N and per N·m; Σ_j ∂f_i/∂F̃_j F̃_j = f_i for u = 0 walls.

        For changes of load that the loaded contacts bear; others are projected on those that
        they do (``along`` takes them as they are). Zero for dofs that no contact acts on.

        Raises
        ------
        Unsupported : some contacts just touch; or the step is known by N and p alone.
        """
        self._require_two_sides()
        self._require_load()
        result = np.zeros((self.nc, self.truss.data.B.shape[1]))
        motion = self.tangent.pull(np.diag(self.truss.data.force))[1]
        result[np.ix_(self.contacts, self.tangent.truss.used)] = motion.T / self._load_unit
        return read_only(result)

    @cached_property
    def power(self) -> FloatArray:
        """(nc,) N: ∂f_i/∂p with the ratios of k held.

        Raises
        ------
        Unsupported : as ``log_stiffness``.
        """
        self._require_two_sides()
        df = self.tangent.push(self._kappa(None, 1.0), np.zeros(self.tangent.truss.load.size))
        return self._on_all(df * self.truss.data.force)

    # --- products ----------------------------------------------------------------------

    def along(self, log_stiffness: Any = None, load: Any = None, power: float = 0.0) -> FloatArray:
        """(nc,) N: the derivative from one side, for a small step t ≥ 0 along a direction.

        Parameters
        ----------
        log_stiffness : (nc,) change of log k. load : (nv,) change of F̃, N and N·m.
        power : change of p. Default none.

        Raises
        ------
        InvalidInput : a direction of another shape.
        Unsupported : no contact bears the change of load; or for p ≠ 2 the touching contacts'
            shares are not of first order, or not unique.
        SolveFailed : a solver left no answer.
        """
        change = None
        if log_stiffness is not None:
            change = checks.vector("log_stiffness", log_stiffness, self.nc)[self.contacts]
        scaled = np.zeros(self.tangent.truss.load.size)
        if load is not None:
            self._require_load()
            data = self.truss.data
            change_of_load = checks.vector("load", load, data.B.shape[1], "N")
            scaled = change_of_load[self.tangent.truss.used] / self._load_unit
            lost = np.flatnonzero(data.free & ~data.in_play & (change_of_load != 0.0))
            if lost.size:
                where = f"a load on dof {int(lost[0])}"
                raise InvalidInput("load", where, "none on dofs that no contact acts on")
        kappa = self._kappa(change, checks.scalar("power", power))
        changed = one_sided(self.tangent, kappa, scaled, self.contacts)
        return self._on_all(changed * self.truss.data.force)

    def gradient(self, weights: Any) -> Gradient:
        """Derivatives of Σ weights f by one adjoint solve.

        Parameters
        ----------
        weights : (nc,) of a number Σ weights f; for another function of f, its gradient at f.

        Raises
        ------
        InvalidInput : another number of weights.
        Unsupported : as ``log_stiffness``.
        """
        factors = checks.vector("weights", weights, self.nc)
        self._require_two_sides()
        kappa, motion = self.tangent.pull(factors[self.contacts] * self.truss.data.force)
        load = np.full(self.truss.data.B.shape[1], 0.0 if self.known_load else np.nan)
        if self.known_load:
            load[self.tangent.truss.used] = motion / self._load_unit
        by_power = float(kappa @ self._kappa(None, 1.0))
        return Gradient(self._on_all(kappa), read_only(load), by_power)

    # --- pieces ------------------------------------------------------------------------

    def _kappa(self, change: FloatArray | None, power: float) -> FloatArray:
        """κ (n,) = d log k + log c dp on the closed contacts."""
        data, logs = self.truss.data, self.tangent.log_overlap
        if np.any(data.prescribed_u):  # a common factor of k matters there, and so do metres
            logs = np.where(self.tangent.loaded, logs + np.log(data.length), 0.0)
        return power * logs if change is None else change + power * logs

    @property
    def _load_unit(self) -> FloatArray:
        """(m,) F̃ per scaled load, on the dofs in play."""
        data, used = self.truss.data, self.tangent.truss.used
        return np.asarray(data.dof_lever[used] * data.part_force[data.parts.dof[used]])

    def _on_all(self, values: Any) -> Any:
        """Values on closed contacts, nothing elsewhere."""
        result = np.zeros(self.nc, dtype=values.dtype)
        result[self.contacts] = values
        return read_only(result)

    def _require_two_sides(self) -> None:
        if not self.two_sided:
            names = ", ".join(map(str, self.touching[:8].tolist()))
            raise Unsupported(
                "the derivative",
                f"contacts {names} just touch, and what they do depends on the direction",
                ("along",),
            )

    def _require_load(self) -> None:
        if not self.known_load:
            raise Unsupported("the derivative by load", "the step is known by N and p alone")

    def __repr__(self) -> str:
        kind = "two-sided" if self.two_sided else f"one-sided at {self.touching.size:,} contacts"
        loaded = int(np.count_nonzero(self.loaded))
        power = self.truss.data.law.power
        return f"Sensitivity({self.nc:,} contacts, {loaded:,} loaded, p = {power:g}: {kind})"


@overload
def sensitivity(
    problem: Step | NoTensionTruss,
    power: checks.Power | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
    law: None = None,
) -> Sensitivity: ...
@overload
def sensitivity(
    problem: FrictionNetwork,
    power: checks.Power | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
) -> FrictionalSensitivity: ...
@overload
def sensitivity(
    problem: Step,
    power: checks.Power | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
    law: str,
    flow: str = "coulomb",
) -> FrictionalSensitivity: ...
def sensitivity(
    problem: Step | NoTensionTruss | FrictionNetwork,
    power: checks.Power | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
    law: str | None = None,
    flow: str = "coulomb",
) -> Sensitivity | FrictionalSensitivity:
    """How compatible forces change with stiffness, load and power, to first order.

    Parameters
    ----------
    problem : a contact step, whose closed contacts and load F̃ come from classic contact
        dynamics; or a no-tension truss; or a network with friction.
    power : p > 1 of a step's contact energy, default the step's; a truss has its own. With friction
        there is none but 2.
    backend : that solves it; its answer is certified.
    tol : overlap, over the network's own, within which a contact just touches; with friction also
        how near the onset of slip is a kink, over the largest force.
    law : of the motion of a step with friction, "coulomb" or "associated". The derivatives are then
        ``cdopt.hyperstatic.FrictionalSensitivity``, of the forces of ``CompatibleFriction``.
    flow : of the micro-slip, "coulomb" or "associated".

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : the forces are not certified, or proven not to exist.
    Unsupported : a network too large and too ill-conditioned for its rank; with friction contacts
        that slide in the motion, under the flow of Coulomb.

    Notes
    -----
    Implicit differentiation of the optimality conditions of (36), Olsen & Kamrin (2018); where
    strict complementarity fails, one-sided derivatives as in Bonnans & Shapiro (2000).

    >>> import cdopt
    >>> derivatives = cdopt.sensitivity(cdopt.bank.load("beam-uniform").step)
    >>> derivatives.log_stiffness.round(4) + 0.0
    array([[ 0.5556, -1.1111,  0.5556],
           [-1.1111,  2.2222, -1.1111],
           [ 0.5556, -1.1111,  0.5556]])
    """
    near = checks.scalar("tol", tol, above=0.0, at_most=1e-3)
    if law is not None or isinstance(problem, FrictionNetwork):
        if power not in (None, HOOKE):
            raise InvalidInput("power", checks.describe(power), "2 with friction")
        if isinstance(problem, NoTensionTruss):
            raise InvalidInput("law", repr(law), "none: a truss has no friction")
        if not isinstance(problem, FrictionNetwork):
            problem = CompatibleFriction(problem, law or "", flow).network(backend)
        return at_forces(problem, problem.solve(), near)
    if isinstance(problem, NoTensionTruss):
        if power is not None:
            raise InvalidInput("power", checks.describe(power), "none: the truss has its own")
        nc = problem.data.nc
        return at_solution(problem, certified(problem.solve(backend)), np.arange(nc), nc, near)
    compatible = CompatibleCD(problem, power)
    network = compatible.network(certified(compatible.classic_cd.solve(backend)))
    truss = compatible.truss(network)
    solution = certified(truss.solve(backend))
    known_load = isinstance(problem, ContactStep)
    return at_solution(truss, solution, network.contacts, problem.nc, near, known_load)


def at_solution(
    truss: NoTensionTruss,
    solution: StepSolution,
    contacts: IntArray,
    nc: int,
    tol: float = TOUCHING,
    known_load: bool = True,
) -> Sensitivity:
    """The derivatives at a known solution; arguments as ``Sensitivity``'s."""
    data = truss.data
    scaled = data.scaled()
    if solution.u is None or solution.f is None:
        raise InvalidInput("solution", repr(solution), "one with forces and displacement")
    u = solution.u[scaled.used] * scaled.unit
    tangent = Tangent.at(scaled, solution.f / data.force, u, tol)
    return Sensitivity(truss, solution, read_only(contacts), nc, tangent, known_load)


def certified(solution: StepSolution) -> StepSolution:
    """The same solution.

    Raises
    ------
    SolveFailed : it is not certified.
    """
    if solution.ok:
        return solution
    worst = solution.certificate.shown if solution.certificate else "nan"
    raise SolveFailed(
        f"{solution.formulation} is not certified: {solution.backend} left a residual of "
        f"{worst}; there is no solution to differentiate",
        backend=solution.backend,
        status=solution.status,
        raw=solution.raw,
    )
