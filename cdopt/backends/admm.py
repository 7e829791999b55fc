"""Over-relaxed ADMM for steps with friction, of both laws.

The rates g̃ of the contacts are split from the motion: they are a separate variable z in K*_μ,
with multipliers f. With D = 1/w of each contact, ρ > 0 and the over-relaxation α, each iteration is

    M w = Bᵀ(f + ρ D (z − p̃ − B w)),    one linear system with the matrix M + ρ BᵀD B
    y = f − ρ D (α (B w + p̃) + (1 − α) z)
    f ← P_K(y),    z ← (f − y) / ρ D

so that f ∈ K_μ, z ∈ K*_μ and fᵀz = 0 hold exactly, and only z = B w + p̃ must be reached. The
matrix is factorised when ρ changes: rarely, where the residuals of z and of w differ much, or where
both are slow, for then a larger one is needed: bodies of very different masses. For
Coulomb's law p̃ = p + μ‖g_T‖e_n has the shift of the last rates; then nothing guarantees that
it converges. S. Boyd et al., Found. Trends Mach. Learn. 3 (2011); for contact with friction V.
Acary, M. Brémond, O. Huber, *On solving contact problems with Coulomb friction: formulations and
numerical comparisons*, in Advanced Topics in Nonsmooth Dynamics (2018); A. Tasora, D. Mangoni, S.
Benatti, R. Garziera, Int. J. Numer. Methods Eng. 122 (2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.factorisation import DenseFactors, factorised
from cdopt.backends.native import NativeBackend, Run, listed
from cdopt.backends.network_problem import NetworkProblem

_CHECKS = 10  # iterations between two checks of the natural map and the clock
_BALANCES = 50  # iterations between two checks of ρ,
_CHANGES = 12  # which changes so often at most, each time half as long after
_RATIO = 5.0  # of both residuals, from which it changes
# or where they do not, but from the check before more of the natural map is left than this share
_STALLED, _HIGHER = 0.8, 10.0
_DENSE = 400  # unknowns up to which the system is dense; or if a quarter of it is filled
_RELAXED = 2.0  # over-relaxation is below it


@listed
@dataclass(frozen=True)
class ADMM(NativeBackend):
    """Settings of the alternating direction method of multipliers for steps with friction.

    Parameters
    ----------
    max_iterations : iterations at most.
    accuracy : the run is solved when the natural map of every contact, over the closing speed of
        its part, is at most this; and, down to 1e-10, when the certificate is.
    penalty : ρ at the start, without unit.
    relaxation : α in (0, 2); 1 is ADMM without over-relaxation.
    history : keep the natural map, every ten iterations, in ``raw.residuals``.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "admm"
    kinds: ClassVar[frozenset[str]] = frozenset({"frictional step", "soft step"})
    limit: ClassVar[str] = "max_iterations"

    max_iterations: int = 20_000
    accuracy: float = 1e-8
    penalty: float = 1.0
    relaxation: float = 1.6
    history: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(penalty=checks.positive("penalty", self.penalty))
        self._set(relaxation=checks.positive("relaxation", self.relaxation))
        if self.relaxation >= _RELAXED:
            raise InvalidInput("relaxation", repr(self.relaxation), "a number below 2")

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        split = Splitting(problem, self.penalty, self.relaxation)
        f, limits = problem.acting_start(run.start), (self.accuracy, self.max_iterations)
        with run.iterating(problem.rows):
            f, iterations, residuals = split.run(f, *limits, run.deadline)
        least = min(residuals, default=0.0)
        how = f"{split.factorisations} factorisations, last ρ {split.penalty:.2g}"
        run.report(f"{iterations:,} iterations, {how}, natural map {least:.1e}")
        met = least <= self.accuracy
        return run.ended(problem.caused(f), met, iterations, residuals, how)


class Splitting:
    """The iteration on a scaled step, with N = R Sᵀ."""

    def __init__(self, problem: NetworkProblem, penalty: float, relaxation: float) -> None:
        self.problem, self.penalty, self.relaxation = problem, penalty, relaxation
        self.factorisations, self.factors = 0, problem.factors
        weights = np.repeat(1.0 / problem.weight, problem.d)
        self.system = sp.csr_array(self.factors.spread.T @ (self.factors.rows * weights[:, None]))
        self.solve = self._factorise()

    def run(
        self, f: FloatArray, accuracy: float, most: int, deadline: Deadline
    ) -> tuple[FloatArray, int, list[float]]:
        """The best forces (nc, d), iterations, and the natural map at each check."""
        problem, a = self.problem, self.relaxation
        w, free, effect = problem.weight[:, None], problem.table(problem.p), problem.effect
        rates = problem.rates_of(effect(f))
        z = problem.shifted(rates)
        z = z + problem.project(-z)
        best, best_forces, residuals = np.inf, f, list[float]()
        balance_at, pause, changes, mark = _BALANCES, _BALANCES, 0, np.inf
        for k in range(most + 1):
            if k % _CHECKS == 0 or k == most:
                residuals.append(problem.natural_map(f, problem.rates_of(effect(f))))
                if residuals[-1] < best:
                    best, best_forces = residuals[-1], f
                if best <= accuracy or deadline.passed or k == most or not np.isfinite(best):
                    return best_forces, k, residuals
            shift = np.zeros(()) if problem.steep else problem.shifted(rates) - rates
            aim = f + self.penalty * (z - free - shift) / w
            rates = problem.rates_of(self.solve(effect(aim)))
            reached = rates + shift
            y = f - self.penalty * (a * reached + (1.0 - a) * z) / w
            f = problem.answered(y)
            before, z = z, (f - y) * w / self.penalty
            if k == balance_at and changes < _CHANGES:
                primal = float(np.sqrt(np.sum((reached - z) ** 2 / w)))
                dual = self.penalty * float(np.sqrt(np.sum((z - before) ** 2 / w)))
                if np.inf > max(primal, dual) >= _RATIO * min(primal, dual) > 0.0:
                    self.penalty *= float(np.clip(np.sqrt(primal / dual), 0.1, 10.0))
                    self.solve = self._factorise()
                    changes, pause = changes + 1, pause + pause // 2
                elif best > _STALLED * mark:
                    self.penalty *= _HIGHER
                    self.solve = self._factorise()
                    changes, pause = changes + 1, pause + pause // 2
                mark, balance_at = best, k + pause
        return best_forces, most, residuals

    def _factorise(self) -> Callable[[FloatArray], FloatArray]:
        """What applies (I + ρ Sᵀ D R)⁻¹."""
        self.factorisations += 1
        n = self.system.shape[0]
        if n <= _DENSE or self.system.nnz > 0.25 * n * n:
            dense = self.penalty * self.system.toarray()
            dense.flat[:: n + 1] += 1.0
            return DenseFactors(dense)
        return factorised(sp.csr_array(sp.eye_array(n) + self.penalty * self.system))
