"""sensitivity(): derivatives of compatible forces with respect to stiffness, load, power, friction.

One tangent serves all parameters (``tangent``): that of a no-tension truss, equation (36) of Olsen
& Kamrin (2018), or of an elastic network with friction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.formulations import CompatibleCD, CompatibleFriction, FrictionNetwork, NoTensionTruss
from cdopt.hyperstatic.friction_tangent import FrictionTangent
from cdopt.hyperstatic.tangent import Tangent
from cdopt.hyperstatic.truss_tangent import TOUCHING, TrussTangent
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.joint_elimination import Eliminated
from cdopt.problem.scaling import total_by
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.problem.step_problems import LAWS

_REFERENCE_BACKEND = "newton"


@dataclass(frozen=True, eq=False)
class Gradient(Frozen):
    """Derivatives of one number Σ weights f.

    Attributes
    ----------
    log_stiffness : (n,) with respect to log k of the contacts, then of joints of finite stiffness,
        in units of the number.
    load : (nv,) to F̃, per N and per N·m; not-a-number for a step known only by N and p.
    power : to p; not-a-number with friction.
    log_ratio, mu : (n,) to log(k_t/k_n) and to μ; None without friction; not-a-number to μ where
        contacts slide in the motion.
    """

    log_stiffness: FloatArray
    load: FloatArray
    power: float = np.nan
    log_ratio: FloatArray | None = None
    mu: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Sensitivity(Frozen):
    """First derivatives of compatible forces, at one solution.

    Rows are the d components of each contact's force in turn, the normal one first: d is 1 without
    friction, 2 in the plane, 3 in space. After them comes the reaction of each joint of finite
    stiffness, and columns of parameters have one more for each of these: n is the number of
    contacts and such joints.

    Attributes
    ----------
    tangent : of the network at its solution.
    joints : of the step, the rigid ones eliminated from the network; None without any.

    Notes
    -----
    Derivatives assume that closed and sliding contacts, and the load, do not change. If a contact
    without friction has neither force nor gap and p ≤ 2, derivatives are one-sided: only ``along``
    is available; the matrices and the gradient raise Unsupported. With friction all raise it at the
    onset of slip, and where contacts touch without force.
    """

    tangent: Tangent
    joints: Eliminated | None = None

    # --- the forces --------------------------------------------------------------------

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.tangent.nc - self.tangent.joints

    @property
    def d(self) -> int:
        """Components of a force."""
        return self.tangent.d

    @property
    def f(self) -> FloatArray:
        """(nc,) N, compatible normal forces."""
        return read_only(self._of_contacts[:, 0].copy())

    @property
    def _of_contacts(self) -> FloatArray:
        """(nc, d) N."""
        return self.tangent.forces[: self.nc * self.d].reshape(self.nc, self.d)

    @property
    def f_t(self) -> FloatArray | None:
        """(nc, d − 1) N, tangential forces; None without friction."""
        if self.d == 1:
            return None
        return read_only(self._of_contacts[:, 1:].copy())

    @property
    def loaded(self) -> BoolArray:
        """(n,) contacts that carry force; joints always do."""
        return self.tangent.loaded

    @property
    def touching(self) -> IntArray:
        """Contacts without force and without gap, or at the onset of slip."""
        return self.tangent.kinks

    @property
    def two_sided(self) -> bool:
        """Whether derivatives are the same from both sides."""
        return self.tangent.smooth

    # --- matrices ----------------------------------------------------------------------

    @cached_property
    def log_stiffness(self) -> FloatArray:
        """(rows, n) N: ∂f_i/∂log k_j, of normal and tangential stiffness together.

        Rows sum to zero without prescribed displacements.
        """
        return self._matrix("log_stiffness")

    @property
    def stiffness(self) -> FloatArray:
        """(rows, n): ∂f_i/∂k_j, N per unit of the stiffness that was given."""
        return self.log_stiffness / self.tangent.stiffness

    @cached_property
    def log_ratio(self) -> FloatArray:
        """(rows, n) N: ∂f_i/∂log(k_t/k_n)_j, at constant normal stiffness; refused without one."""
        return self._matrix("log_ratio")

    @cached_property
    def mu(self) -> FloatArray:
        """(rows, n) N: ∂f_i/∂μ_j; refused without friction, and where contacts slide."""
        return self._matrix("mu")

    @property
    def on_active_set(self) -> FloatArray:
        """(rows, n) N: ∂f_i/∂log k_j, loaded contacts staying loaded."""
        return self.tangent.jvp(self._each("log_stiffness"))

    @cached_property
    def load(self) -> FloatArray:
        """(rows, nv): ∂f_i/∂F̃_j, N per N and per N·m; Σ_j ∂f_i/∂F̃_j F̃_j = f_i for u = 0 walls.

        Changes of load are projected onto those that the loaded contacts can balance (``along``
        does not project). Zero for dofs without contacts; not available for a step given by N and
        p.
        """
        self.tangent.require_smooth()
        self.tangent.require("load")
        return read_only(self._of_bodies(self.tangent.vjp(np.eye(self._rows))[1]).T)

    @cached_property
    def power(self) -> FloatArray:
        """(rows,) N: ∂f_i/∂p at constant ratios of k.

        Raises
        ------
        Unsupported : a network with friction, or derivatives that depend on the direction.
        """
        self.tangent.require_smooth()
        if self.tangent.power is None:
            raise Unsupported("the derivative by power", "with friction it is 2")
        return read_only(self.tangent.jvp(self.tangent.power))

    # --- products ----------------------------------------------------------------------

    def along(
        self,
        log_stiffness: Any = None,
        load: Any = None,
        power: float = 0.0,
        log_ratio: Any = None,
        mu: Any = None,
    ) -> FloatArray:
        """(rows,) N: the derivative from one side, for a small step t ≥ 0 along a direction.

        Parameters
        ----------
        log_stiffness, log_ratio, mu : (n,) changes. load : (nv,) change of F̃, N and N·m.
        power : change of p. Default none.

        Raises
        ------
        InvalidInput : a direction of another shape, or a load on a dof that no contact acts on.
        Unsupported : contacts cannot balance the change of load; for p ≠ 2 the forces of touching
            contacts are not of first order, or not unique; with friction a contact at a kink, or a
            sliding one while μ changes.
        SolveFailed : the shares of the touching contacts are not certified.
        """
        change = np.zeros(self._rows)
        stated = {"log_stiffness": log_stiffness, "log_ratio": log_ratio, "mu": mu}
        for name, values in stated.items():
            if values is not None:
                vector = checks.vector(name, values, self.tangent.nc)
                change += self._change(name) * vector[self.tangent.contact]
        rate = checks.scalar("power", power)
        if self.tangent.power is not None:
            change += rate * self.tangent.power
        elif rate:
            raise InvalidInput("power", str(rate), "no change with friction")
        if load is None:
            return read_only(self.tangent.along(change, None))
        nv = self.tangent.nv if self.joints is None else self.joints.given.nv
        dF = checks.vector("load", load, nv, "N")
        if self.joints is not None:
            dF = np.asarray(self.joints.motions.Z.T @ dF)
        return read_only(self.tangent.along(change, dF))

    def reactions(self, change: Any, load: Any = None) -> FloatArray:
        """(nj,) N, the change of the joints' reactions for a change of the contact forces.

        Parameters
        ----------
        change : (rows,) N, such as that of ``along``. load : (nv,) change of F̃ that causes it, N
            and N·m.

        Raises
        ------
        InvalidInput : a step without joints, or a change of another shape.
        """
        if self.joints is None:
            raise InvalidInput("step", "one without joints", "ContactStep(..., joints=...)")
        change, many = checks.vector("change", change, self._rows, "N"), self.nc * self.d
        rows = change[:many].reshape(self.nc, self.d)
        nv = self.joints.given.nv
        dF = np.zeros(nv) if load is None else checks.vector("load", load, nv, "N")
        f_t = rows[:, 1:] if self.d > 1 else None
        return self.joints.bearing(dF - self.joints.load(rows[:, 0], f_t), change[many:])

    def gradient(self, weights: Any) -> Gradient:
        """Derivatives of Σ weights f by one adjoint solve.

        Parameters
        ----------
        weights : (rows,) of Σ weights f; for another function of f, its gradient at f.

        Raises
        ------
        InvalidInput : another number of weights.
        Unsupported : derivatives depend on the direction.
        """
        factors, many = checks.vector("weights", weights, self._rows), self.tangent.nc
        self.tangent.require_smooth()
        rows, load = self.tangent.vjp(factors)
        by = {
            name: total_by(self.tangent.contact, rows * e, many)
            for name, e in self.tangent.parameters.items()
        }
        by |= {name: np.full(many, np.nan) for name in self.tangent.refused if name in by}
        power = np.nan if self.tangent.power is None else float(rows @ self.tangent.power)
        return Gradient(load=self._of_bodies(load), power=power, **by)

    # --- pieces ------------------------------------------------------------------------

    @property
    def _rows(self) -> int:
        """Number of rows."""
        return int(self.tangent.forces.size)

    def _of_bodies(self, load: FloatArray) -> FloatArray:
        """Derivatives (nv, …) by loads on the bodies, of those by loads that joints leave."""
        return load if self.joints is None else np.asarray(self.joints.motions.Z @ load)

    def _change(self, name: str) -> FloatArray:
        """e (rows,) of a parameter."""
        if name not in self.tangent.parameters:
            raise Unsupported(f"the derivative by {name}", "the network has no friction")
        self.tangent.require(name)
        return self.tangent.parameters[name]

    def _each(self, name: str) -> FloatArray:
        """(rows, n): e of the parameter of each contact."""
        result = np.zeros((self._rows, self.tangent.nc))
        result[np.arange(self._rows), self.tangent.contact] = self._change(name)
        return result

    def _matrix(self, name: str) -> FloatArray:
        self.tangent.require_smooth()
        return read_only(self.tangent.jvp(self._each(name)))

    def __repr__(self) -> str:
        kind = "two-sided" if self.two_sided else f"one-sided at {self.touching.size:,} contacts"
        loaded = int(np.count_nonzero(self.loaded[: self.nc]))
        return f"Sensitivity({self.nc:,} contacts, {loaded:,} loaded, {self.tangent.label}: {kind})"


# --- at a solution -----------------------------------------------------------------------------


def sensitivity(
    problem: Step | NoTensionTruss | FrictionNetwork,
    power: float | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
    law: str | None = None,
    flow: str = "coulomb",
) -> Sensitivity:
    """Derivatives of compatible forces with respect to stiffness, load, power and friction.

    Parameters
    ----------
    problem : a contact step, whose closed contacts and load F̃ come from classic contact
        dynamics; or a no-tension truss; or a network with friction.
    power : p > 1 of the contact energy, default that of the step or truss; 2 with friction.
    backend : of the solve; its answer is certified.
    tol : a contact with an overlap below this share of the network's just touches; with friction
        also the distance from the onset of slip, relative to the largest force.
    law : of the motion of a step with friction, "coulomb" or "associated". The derivatives are then
        those of the forces of ``CompatibleFriction``.
    flow : of the micro-slip, "coulomb" or "associated".

    Returns
    -------
    Sensitivity : the forces, and derivatives such as ``log_stiffness`` (nc, nc), ∂f_i/∂log k_j
        in N.

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : the forces are not certified, or proven not to exist.
    Unsupported : a network too large and too ill-conditioned for its rank; with friction contacts
        that slide in the motion, with Coulomb's flow.

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
    checks.instance("problem", problem, Step, NoTensionTruss, FrictionNetwork)
    near = checks.scalar("tol", tol, above=0.0, at_most=1e-3)
    chosen = checks.choice("flow", flow, LAWS)
    exponent = None if power is None else checks.power("power", power)
    if law is not None:
        checks.choice("law", law, LAWS)
    if isinstance(problem, NoTensionTruss):
        if law is not None:
            raise InvalidInput("law", checks.describe(law), "none: a truss has no friction")
        if power is not None:
            raise InvalidInput("power", checks.describe(power), "none: the truss has its own")
        every = np.arange(problem.data.nc)
        solution = require_certified(problem.solve(backend))
        return Sensitivity(TrussTangent(problem, solution, every, every.size, near))
    if law is not None or isinstance(problem, FrictionNetwork):
        if exponent not in (None, HOOKE):
            raise InvalidInput("power", checks.describe(power), "2 with friction")
        if not isinstance(problem, FrictionNetwork):
            step = CompatibleFriction(problem, law or "", chosen)
            network = step.network(backend)
            rough = FrictionTangent(network, network.solve(), near)
            return Sensitivity(rough, step.joints)
        return Sensitivity(FrictionTangent(problem, problem.solve(), near))
    if chosen != "coulomb":
        raise InvalidInput(
            "flow", checks.describe(flow), "a law with it: there is no micro-slip without one"
        )
    compatible = CompatibleCD(problem, exponent)
    classic = require_certified(compatible.classic_cd.solve(backend))
    closed, joints = compatible.network(classic), compatible.springs or compatible.joints
    truss, known = compatible.elastic_network(closed, classic), compatible.classic_cd.data.N is None
    springs = truss.data.nc - closed.contacts.size
    rows = np.append(closed.contacts, problem.nc + np.arange(springs))
    solution, many = require_certified(truss.solve(backend)), problem.nc + springs
    return Sensitivity(TrussTangent(truss, solution, rows, many, near, known, springs), joints)


def require_certified(solution: StepSolution) -> StepSolution:
    """The same solution; raises SolveFailed if it is not certified."""
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
