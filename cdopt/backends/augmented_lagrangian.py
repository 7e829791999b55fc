"""Augmented Lagrangians: of the no-tension truss (36), as Olsen & Kamrin (2018) solve it.

minimise over f ≥ 0    Σ w*(f) + fᵀ B ū    subject to    Bᵀ f = F̃ on the free dofs

The outer loop is that of LANCELOT: A. R. Conn, N. I. M. Gould, Ph. L. Toint, *A globally
convergent augmented Lagrangian algorithm*, SIAM J. Numer. Anal. 28 (1991) 545, algorithm 1. For
multipliers y and a penalty σ = 1/μ it minimises over f ≥ 0

    Σ w*(f) + fᵀ B ū + yᵀ(Bᵀf − F̃) + (σ/2) ‖Bᵀf − F̃‖²

to within ω. If then ‖Bᵀf − F̃‖ ≤ η, the multipliers move, y ← y + σ (Bᵀf − F̃), and the
tolerances tighten, ω ← ω μ, η ← η μ^0.9; if not, the penalty grows, μ ← μ/10, and the
tolerances start over at ω = μ, η = μ^0.1. (They divide μ by 100; a gentler step keeps the inner
problems better conditioned.) The multiplier y is the micro-displacement u itself.

The inner solver is APGD (``cdopt.backends.apgd``), with w* in the proximal operator: its slope
f^{1/(p−1)} is infinite at zero for p > 2, and no Lipschitz constant would bound it.

Everything is in units of each part's load and overlap (``TrussData.scaled``).

A rigid step is solved by the augmented Lagrangian of ``potential_newton``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt.backends import potential_newton
from cdopt.backends.apgd import ProximalGradient, Terms
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.sparse_rows import Rows, csr_parts
from cdopt.backends.native import (
    NativeBackend,
    Outcome,
    Run,
    starting_forces,
)
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.backends.newton import solve_network
from cdopt.problem import DelassusStepData, RigidStepData, TrussData
from cdopt.problem.solution import Iterate, WarmStart
from cdopt.problem.truss import ScaledTruss

_MU_START, _MU_FACTOR, _MU_LEAST = 0.1, 0.1, 1e-6
_ETA_START, _ETA_STEP = 0.1, 0.9  # the paper's α_η and β_η; α_ω = β_ω = 1
_OMEGA_LEAST = 1e-15
_INNER = 2000  # APGD steps at most between two looks at the multipliers


@dataclass(frozen=True)
class AugmentedLagrangian(NativeBackend):
    """Settings of the augmented Lagrangian.

    Parameters
    ----------
    max_iterations : inner steps at most, of all outer iterations together: APGD steps of a truss,
        Newton steps of a rigid step.
    max_outer : outer iterations at most.
    accuracy : a truss is solved when, in units of each part's load F, equilibrium
        |Bᵀf − F̃|_j / (β_j F) and the contact law |f_i − w′(c_i)| / F hold to it, with the
        overlap c = −B u of the multipliers; a rigid step when its scaled natural residual and
        momentum error do; and, down to 1e-10, when the certificate does.
    history : keep that residual after each outer iteration in ``raw.residuals``.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "augmented-lagrangian"
    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step", "truss"})
    limit: ClassVar[str] = "max_iterations"

    max_iterations: checks.Count = 50_000
    max_outer: checks.Count = 200
    accuracy: checks.Tolerance = 1e-8
    history: bool = False

    def _solve(self, data: TrussData | RigidStepData | DelassusStepData, run: Run) -> Outcome:
        if isinstance(data, RigidStepData | DelassusStepData):
            return solve_network(data, run, self._rigid)
        scaled = data.scaled()
        start = run.start
        state = _TrussIterate(scaled, starting_forces(data, start), _start_u(scaled, start))
        with run.iterating(data.nc):
            met = self._outer(state, run)
        status = "solved" if met else "stopped"
        run.report(f"{status} after {state.steps}: residual {state.worst:.2e}")
        u = np.array(data.prescribed_u)
        u[scaled.used] = state.u / scaled.unit
        iterate = Iterate(u, data.force * state.f)
        return Outcome(iterate, met, state.steps, [np.array(state.residuals)])

    def _rigid(
        self, problem: NetworkProblem, forces: FloatArray | None, run: Run
    ) -> IterationResult:
        limits = self.accuracy, self.max_outer, run.deadline
        return potential_newton.solve_rigid(problem, forces, *limits)

    def _outer(self, state: _TrussIterate, run: Run) -> bool:
        mu = _MU_START
        omega, eta = mu, mu**_ETA_START
        for outer in range(1, self.max_outer + 1):
            most = min(_INNER, self.max_iterations - state.steps)
            state.inner(1.0 / mu, omega, most, run.deadline)
            moved = state.u + state.excess / mu
            worst = state.test(moved)
            run.report(f"outer {outer}, {state.steps:,} steps: mu {mu:.0e}, {worst:.2e}")
            if worst <= self.accuracy or float(np.abs(state.excess).max(initial=0.0)) <= eta:
                state.u = moved
                omega = max(omega * mu, _OMEGA_LEAST)
                eta = max(eta * mu**_ETA_STEP, 0.1 * self.accuracy)
            else:
                mu = max(mu * _MU_FACTOR, _MU_LEAST)
                omega, eta = mu, mu**_ETA_START
            if worst <= self.accuracy:
                return True
            if state.steps >= self.max_iterations or run.deadline.passed:
                break
        state.u = moved
        return False


@dataclass
class _TrussIterate:
    """Where the iteration stands, in scaled units.

    Attributes
    ----------
    truss : the problem.
    f : (nc,) forces.
    u : (m,) multipliers y.
    excess : (m,) Bᵀf − F̃.
    steps : APGD steps so far.
    worst : the last value of the stopping test; ``residuals`` holds all.
    """

    truss: ScaledTruss
    f: FloatArray
    u: FloatArray
    excess: FloatArray = field(default_factory=lambda: np.zeros(0))
    steps: int = 0
    worst: float = np.inf
    residuals: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        B, law = self.truss.B, self.truss.law
        self.excess = np.asarray(B.T @ self.f - self.truss.load)
        self._rows = csr_parts(B)
        self._columns = csr_parts(sp.csr_array(B.T))
        self._squares = np.asarray(B.multiply(B).sum(axis=1), dtype=np.float64).ravel()
        self._slope = 1.0 / (law.power - 1.0)
        self._compliance = law.stiffness**-self._slope

    def inner(self, sigma: float, omega: float, limit: int, deadline: Deadline) -> None:
        """Minimise the augmented Lagrangian over f ≥ 0, from the forces at hand."""
        B, root = self.truss.B, np.sqrt(sigma)
        descent = ProximalGradient(
            Terms(
                *_times(self._rows, root),
                sigma * self._squares,
                self.truss.opening + B @ (self.u - sigma * self.truss.load),
                self._compliance,
                self._slope,
            ),
            _times(self._columns, root),
            self.f,
        )
        descent.minimise(omega, limit, deadline)
        self.f = descent.forces
        self.steps += descent.steps
        self.excess = np.asarray(B.T @ self.f - self.truss.load)

    def test(self, u: FloatArray) -> float:
        """The stopping test at the forces at hand and displacements u."""
        overlap = -np.asarray(self.truss.B @ u) - self.truss.opening
        law = np.abs(self.f - self.truss.law.force(overlap))
        self.worst = float(max(np.abs(self.excess).max(initial=0.0), law.max(initial=0.0)))
        self.residuals.append(self.worst)
        return self.worst


def _times(rows: Rows, factor: float) -> Rows:
    """The matrix times a number."""
    return rows[0], rows[1], rows[2] * factor


def _start_u(scaled: ScaledTruss, start: WarmStart | None) -> FloatArray:
    """Scaled displacements (m,) to start from: zero, or those of an earlier solution that fit."""
    earlier = None if start is None else start.motion
    if earlier is None or earlier.size <= int(scaled.used.max(initial=-1)):
        return np.zeros(scaled.used.size)
    return np.asarray(earlier[scaled.used] * scaled.unit)
