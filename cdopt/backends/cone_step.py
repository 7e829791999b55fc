"""A step with friction as iterative solvers see it: scaled, N = R Sᵀ, with d rows a contact."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.backends.linalg.sparse_rows import SparseOperator
from cdopt.backends.native import Outcome, outcome_of, scaled_step, starting_forces
from cdopt.problem import ContactProblem
from cdopt.problem import friction_cone as cone
from cdopt.problem.certificate import worst_residual
from cdopt.problem.solution import WarmStart


class ConeStep:
    """The scaled step, its law and its natural map. Forces and rates are (contacts, d).

    ``w`` (contacts,) is the mean of the diagonal of N at each contact, one where forces move
    nothing; ``p`` are the rates of the free motion.
    """

    def __init__(self, data: ContactProblem) -> None:
        self.data, self.step = data, scaled_step(data)
        self.mu, self.coulomb = np.array(data.cones.mu), data.law == "coulomb"
        w = self.step.diagonal.reshape(-1, data.d).mean(axis=1)
        self._fixed, self.w = w == 0.0, np.where(w > 0.0, w, 1.0)
        self.p = self.step.p.reshape(-1, data.d)
        self._rows = SparseOperator(self.step.rows)
        self._spread = self._rows
        if self.step.spread is not self.step.rows:
            self._spread = SparseOperator(sp.csr_array(self.step.spread))

    def start(self, start: WarmStart | None) -> FloatArray:
        """Forces to start from, in the cone; zero where they move nothing."""
        f = self.data.cones.table(starting_forces(self.data, start, signed=True))
        return np.where(self._fixed[:, None], 0.0, cone.project(f, self.mu))

    def effect(self, f: FloatArray) -> FloatArray:
        """Sᵀ f (m,)."""
        return self._spread.transposed_times(f.ravel())

    def rates(self, effect: FloatArray) -> FloatArray:
        """The rates at forces with this ``effect``."""
        return self.p + self._rows.times(effect).reshape(self.p.shape)

    def shifted(self, rates: FloatArray) -> FloatArray:
        """The rates (contacts, d) that the law sets orthogonal to the forces."""
        return cone.shifted(rates, self.mu) if self.coulomb else rates

    def natural_map(
        self, f: FloatArray, rates: FloatArray, shift: FloatArray | None = None
    ) -> float:
        """The largest natural map of forces f with these ``rates``, or with a ``shift`` instead."""
        law = self.shifted(rates)
        if shift is not None:
            law = rates.copy()
            law[:, 0] += shift
        return cone.largest_natural_map(f, law, self.mu, self.w)

    def worst(self, f: FloatArray) -> float:
        """The largest residual of the certificate of forces f."""
        return worst_residual(self.data, self.step.force * f.ravel())

    def outcome(
        self, f: FloatArray, met: bool, iterations: int, residuals: list[float], how: str = ""
    ) -> Outcome:
        """The result of a solver that stops here, after the natural maps ``residuals``."""
        forces = self.step.force * f.ravel()
        return outcome_of(self.data, forces, met, iterations, [np.array(residuals)], how)
