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

Everything is in units of each part's load and overlap (``network_problem``).

A rigid step is solved by the augmented Lagrangian of ``proximal_newton``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import Unsupported
from cdopt._util.sparse_rows import factor_parts
from cdopt.backends import proximal_newton
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import NativeBackend, Run, listed
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.newton import solve_network
from cdopt.backends.proximal_gradient import ProximalGradient, Terms
from cdopt.backends.semismooth import Point
from cdopt.problem.solution import WarmStart

_MU_START, _MU_FACTOR, _MU_LEAST = 0.1, 0.1, 1e-6
_ETA_START, _ETA_STEP = 0.1, 0.9  # the paper's α_η and β_η; α_ω = β_ω = 1
_OMEGA_LEAST = 1e-15
_INNER = 2000  # APGD steps at most between two checks of the multipliers


@listed
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

    max_iterations: int = 50_000
    max_outer: int = 200
    accuracy: float = 1e-8
    history: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(max_outer=checks.count("max_outer", self.max_outer))

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        if problem.compliance is None:
            return solve_network(problem, run, self._rigid)
        return self._truss(problem, run)

    def _rigid(self, problem: NetworkProblem, forces: FloatArray | None, run: Run) -> Point:
        limits = self.accuracy, self.max_outer, run.deadline
        return proximal_newton.solve_rigid(problem, forces, *limits)

    def _truss(self, problem: NetworkProblem, run: Run) -> Run:
        if problem.lines is not None:
            raise Unsupported(self.name, "members that also pull", ("newton", "clarabel"))
        f, law, inner = problem.starting_forces(run.start), problem.elastic_law, _Inner(problem)
        B, load = inner.B, inner.load
        y, excess = _start(problem, run.start), np.asarray(B.T @ f - load)
        mu, steps, residuals, met = _MU_START, 0, list[float](), False
        omega, eta = mu, mu**_ETA_START
        with run.iterating(problem.nc):
            for outer in range(1, self.max_outer + 1):
                most = min(_INNER, self.max_iterations - steps)
                f, spent = inner.minimise(f, y, 1.0 / mu, omega, most, run.deadline)
                steps, excess = steps + spent, np.asarray(B.T @ f - load)
                moved, left = y + excess / mu, float(np.abs(excess).max(initial=0.0))
                off = np.abs(f - law.force(-np.asarray(B @ moved) - problem.p))
                residuals.append(float(max(left, off.max(initial=0.0))))
                run.report(f"outer {outer}, {steps:,} steps: mu {mu:.0e}, {residuals[-1]:.2e}")
                met = residuals[-1] <= self.accuracy
                if met or steps >= self.max_iterations or run.deadline.passed:
                    break
                if left <= eta:
                    y, omega = moved, max(omega * mu, _OMEGA_LEAST)
                    eta = max(eta * mu**_ETA_STEP, 0.1 * self.accuracy)
                else:
                    mu = max(mu * _MU_FACTOR, _MU_LEAST)
                    omega, eta = mu, mu**_ETA_START
        return run.ended(problem.iterate_of(moved, f), met, steps, residuals)


class _Inner:
    """The inner problems of a truss, min over f ≥ 0 of the augmented Lagrangian, by APGD."""

    def __init__(self, problem: NetworkProblem) -> None:
        B = self.B = sp.csr_array(problem.G)
        self.load = np.zeros(B.shape[1]) if problem.F is None else problem.F
        self.opening, law = problem.p, problem.elastic_law
        self.rows, self.columns = factor_parts(B, B)
        self.squares = np.asarray(B.multiply(B).sum(axis=1), dtype=np.float64).ravel()
        self.slope = 1.0 / (law.power - 1.0)
        self.compliance = law.stiffness**-self.slope

    def minimise(
        self,
        f: FloatArray,
        y: FloatArray,
        sigma: float,
        omega: float,
        limit: int,
        deadline: Deadline,
    ) -> tuple[FloatArray, int]:
        """The forces from f (nc,) on, and the steps spent."""
        h = self.opening + self.B @ (y - sigma * self.load)
        root = np.sqrt(sigma)
        rows, columns = ((r[0], r[1], r[2] * root) for r in (self.rows, self.columns))
        terms = Terms(*rows, sigma * self.squares, h, self.compliance, self.slope)
        descent = ProximalGradient(terms, columns, f)
        descent.minimise(omega, limit, deadline)
        return descent.forces, descent.steps


def _start(problem: NetworkProblem, start: WarmStart | None) -> FloatArray:
    """Scaled displacements (m,) to start from: zero, or those of an earlier solution that fit."""
    w = problem.given_motion(start)
    return np.zeros(0 if problem.G is None else problem.G.shape[1]) if w is None else w
