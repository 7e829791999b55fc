"""Over-relaxed ADMM for steps with friction, of both laws.

The rates g̃ of the contacts are split from the motion: they are a variable z in K*_μ of their own,
with multipliers f. With D = 1/w of each contact, ρ > 0 and the over-relaxation α, each iteration is

    M w = Bᵀ(f + ρ D (z − p̃ − B w)),    one linear system with the matrix M + ρ BᵀD B
    y = f − ρ D (α (B w + p̃) + (1 − α) z)
    f ← P_K(y),    z ← (f − y) / ρ D

so that f ∈ K_μ, z ∈ K*_μ and fᵀz = 0 hold exactly, and only z = B w + p̃ must be reached. The
matrix is factorised when ρ changes: rarely, where the residuals of z and of w differ much. For
the law of Coulomb p̃ = p + μ‖g_T‖e_n has the shift of the last rates; then nothing guarantees that
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
import scipy.linalg as la
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import (
    NativeBackend,
    Outcome,
    Report,
    ScaledStep,
    check_settings,
    scaled_step,
    starting_forces,
)
from cdopt.backends.threads import threads_for
from cdopt.problem import FrictionalDelassusData, FrictionalStepData
from cdopt.problem import friction_cone as cone
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

_CHECKS = 10  # iterations between two looks at the natural map and the clock
_BALANCES = 50  # iterations between two looks at ρ,
_CHANGES = 12  # which changes so often at most, each time half as long after
_RATIO = 5.0  # of both residuals, from which it changes
_DENSE = 400  # unknowns up to which the system is dense; or if a quarter of it is filled
_RELAXED = 2.0  # over-relaxation is below it


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
    kinds: ClassVar[frozenset[str]] = frozenset({"frictional step"})
    limit: ClassVar[str] = "max_iterations"

    max_iterations: int = 20_000
    accuracy: float = 1e-8
    penalty: float = 1.0
    relaxation: float = 1.6
    history: bool = False

    def __post_init__(self) -> None:
        checks.scalar("penalty", self.penalty, above=0.0)
        if not checks.scalar("relaxation", self.relaxation, above=0.0) < _RELAXED:
            raise InvalidInput("relaxation", repr(self.relaxation), "a number below 2")
        check_settings(self)

    def _solve(
        self,
        data: FrictionalStepData | FrictionalDelassusData,
        start: WarmStart | None,
        report: Report,
        deadline: Deadline,
    ) -> Outcome:
        step, d, mu = scaled_step(data), data.d, data.friction.mu
        w = step.diagonal.reshape(-1, d).mean(axis=1)
        active = (w > 0.0)[:, None]
        w = np.where(w > 0.0, w, 1.0)
        f = cone.project(data.table(starting_forces(data, start, signed=True)), mu)
        split = Splitting(step, w, mu, data.law == "coulomb", self.penalty, self.relaxation, d)
        prepared = clock()
        with threads_for(data.nc):
            f, iterations, residuals = split.run(
                np.where(active, f, 0.0), self.accuracy, self.max_iterations, deadline
            )
        solved = clock()
        least = min(residuals, default=0.0)
        how = f"{split.factorisations} factorisations, last ρ {split.penalty:.2g}"
        report(f"{iterations} iterations, {how}, natural map {least:.1e}")
        forces = step.force * f.ravel()
        return Outcome(
            Iterate(data.velocity(forces), forces),
            least <= self.accuracy,
            iterations,
            prepared,
            solved,
            [np.array(residuals)],
            how,
        )


class Splitting:
    """The iteration on a scaled step, with N = R Sᵀ.

    Attributes
    ----------
    penalty : ρ.
    factorisations : so far.
    """

    def __init__(
        self,
        step: ScaledStep,
        w: FloatArray,
        mu: FloatArray,
        coulomb: bool,
        penalty: float,
        relaxation: float,
        d: int,
    ) -> None:
        """``w`` (contacts,) is the mobility of each contact, in units of the step."""
        self.step, self.w, self.mu, self.coulomb = step, w, mu, coulomb
        self.p = step.p.reshape(w.size, d)
        self.penalty, self.relaxation, self.factorisations = penalty, relaxation, 0
        self.rows, self.forward = step.rows, sp.csr_array(step.spread.T)
        weights = np.repeat(1.0 / w, d)
        self.system = sp.csr_array(self.forward @ (step.rows * weights[:, None]))
        self.solve = self._factorise()

    def run(
        self, f: FloatArray, accuracy: float, most: int, deadline: Deadline
    ) -> tuple[FloatArray, int, list[float]]:
        """The best forces (contacts, d), iterations, and the natural map at each look."""
        w, mu, a = self.w[:, None], self.mu, self.relaxation
        rates = self.p + self._products(f)
        z = self._shifted(rates)
        z = z + cone.project(-z, mu)
        best, best_forces, residuals = np.inf, f, list[float]()
        balance_at, pause, changes = _BALANCES, _BALANCES, 0
        for k in range(most + 1):
            if k % _CHECKS == 0 or k == most:
                residuals.append(self._natural_map(f))
                if residuals[-1] < best:
                    best, best_forces = residuals[-1], f
                if best <= accuracy or deadline.passed or k == most or not np.isfinite(best):
                    return best_forces, k, residuals
            shift = self._shifted(rates) - rates
            aim = f + self.penalty * (z - self.p - shift) / w
            rates = self.p + self.rates_of(aim)
            reached = rates + shift
            y = f - self.penalty * (a * reached + (1.0 - a) * z) / w
            f = cone.project(y, mu)
            before, z = z, (f - y) * w / self.penalty
            if k == balance_at and changes < _CHANGES:
                primal = np.sqrt(np.sum((reached - z) ** 2 / w))
                dual = self.penalty * np.sqrt(np.sum((z - before) ** 2 / w))
                changed = self._balance(float(primal), float(dual))
                changes, pause = changes + changed, pause + pause // 2 * changed
                balance_at = k + pause
        return best_forces, most, residuals

    def rates_of(self, aim: FloatArray) -> FloatArray:
        """B w (contacts, d) of the w with M w = Bᵀ(aim − ρ D B w)."""
        solved = self.solve(np.asarray(self.forward @ aim.ravel()))
        return np.asarray(self.rows @ solved).reshape(self.p.shape)

    def _products(self, f: FloatArray) -> FloatArray:
        return np.asarray(self.rows @ (self.forward @ f.ravel())).reshape(self.p.shape)

    def _shifted(self, rates: FloatArray) -> FloatArray:
        return cone.shifted(rates, self.mu) if self.coulomb else rates

    def _natural_map(self, f: FloatArray) -> float:
        rates = self._shifted(self.p + self._products(f))
        sizes = np.linalg.norm(cone.natural_map(f, rates, self.mu, self.w), axis=1)
        return float(sizes.max(initial=0.0))

    def _balance(self, primal: float, dual: float) -> bool:
        """Change ρ where one residual exceeds the other by much; whether it did."""
        if not (primal > 0.0 and dual > 0.0) or 1.0 / _RATIO < primal / dual < _RATIO:
            return False
        self.penalty *= float(np.clip(np.sqrt(primal / dual), 0.1, 10.0))
        self.solve = self._factorise()
        return True

    def _factorise(self) -> Callable[[FloatArray], FloatArray]:
        """What applies (I + ρ Sᵀ D R)⁻¹."""
        self.factorisations += 1
        n = self.system.shape[0]
        if n <= _DENSE or self.system.nnz > 0.25 * n * n:
            dense = self.penalty * self.system.toarray()
            dense.flat[:: n + 1] += 1.0
            factors = la.lu_factor(dense)
            return lambda right: np.asarray(la.lu_solve(factors, right, check_finite=False))
        system = sp.csc_array(sp.eye_array(n) + self.penalty * self.system)
        try:
            sparse = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01)
        except RuntimeError as error:
            raise ArithmeticError(str(error)) from error
        return lambda right: np.asarray(sparse.solve(right))
