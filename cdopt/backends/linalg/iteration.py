"""Conjugate gradients, and the counts of iterations and factorisations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cdopt._util.checks import FloatArray


@dataclass
class IterationStatistics:
    """Iterations and factorisations of the systems of one network so far.

    Attributes
    ----------
    iterations : of conjugate gradients.
    factorisations : of matrices, dense ones included.
    library : what factorised last; empty if nothing did.
    methods : the solution methods that were used, in their order.
    """

    iterations: int = 0
    factorisations: int = 0
    library: str = ""
    methods: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [" → ".join(self.methods)] if self.methods else []
        if self.iterations:
            parts.append(f"{self.iterations} conjugate gradient iterations")
        if self.factorisations:
            by = f" by {self.library}" if self.library else ""
            parts.append(f"{self.factorisations} factorisations{by}")
        return ", ".join(parts)


class System(Protocol):
    """One symmetric positive definite system, to be solved for several right-hand sides."""

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x to a relative ``tol`` in the preconditioned residual, where it iterates.

        ``limit`` bounds the iterations of those that iterate.
        """

    @property
    def gave_up(self) -> bool:
        """Whether the last solution stopped at the limit of iterations."""


class IteratedSystem:
    """A system known by its product and a preconditioner, solved by conjugate gradients.

    Attributes
    ----------
    product : H x.
    precondition : P⁻¹ r, with P close to H.
    most : iterations at most; None for twenty to each unknown.
    growth : of the preconditioned residual at which to stop.
    gave_up : whether the last solution stopped before its residual had fallen as asked.
    """

    def __init__(
        self,
        product: Callable[[FloatArray], FloatArray],
        precondition: Callable[[FloatArray], FloatArray],
        statistics: IterationStatistics | None = None,
        most: int | None = None,
        growth: float = np.inf,
    ) -> None:
        self.product, self.precondition, self.statistics = product, precondition, statistics
        self.most, self.growth, self.gave_up = most, growth, False

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """The best x met, its preconditioned residual reduced by ``tol`` or as far as it goes."""
        most = 20 * rhs.size if self.most is None else self.most
        most = most if limit is None else min(limit, most)
        spent = self._iterate(rhs, tol, most)
        if self.statistics is not None:
            self.statistics.iterations += spent
        self.gave_up = not self._least <= max(tol * tol, _ROUND_OFF) * self._first
        return self._best

    def _iterate(self, rhs: FloatArray, tol: float, limit: int) -> int:
        """The best x met, from x = 0; the iterations spent.

        Ends early where the curvature along a direction is lost to round-off, or where rᵀz has
        grown by ``growth`` over its least value.
        """
        x, r, p, z = np.zeros_like(rhs), rhs, np.zeros_like(rhs), self.precondition(rhs)
        rz, beta = float(r @ z), 0.0
        self._best, self._first, self._least = x, rz, rz
        for iteration in range(limit):
            if not rz > self._first * tol * tol or rz > self.growth * self._least:
                return iteration
            p = z + beta * p
            image = self.product(p)
            curvature = float(p @ image)
            if not curvature > 0.0:
                return iteration
            alpha = rz / curvature
            x, r = x + alpha * p, r - alpha * image
            z = self.precondition(r)
            following = float(r @ z)
            beta, rz = following / rz, following
            if rz < self._least:
                self._least, self._best = rz, x
        return limit


_ROUND_OFF = 1e-24  # of the preconditioned residual squared: no better solution can be told
