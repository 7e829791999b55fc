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


class Steps(Protocol):
    """The three steps of preconditioned conjugate gradients on one layout of the vectors."""

    def begin(self, rhs: FloatArray) -> float:
        """x = 0, r = rhs, z = P⁻¹ r; returns rᵀz."""

    def direction(self, beta: float) -> float:
        """p = z + β p; returns its curvature pᵀ H p."""

    def advance(self, alpha: float) -> float:
        """x += α p, r −= α H p, z = P⁻¹ r; returns rᵀz."""


def conjugate_gradients(
    steps: Steps, rhs: FloatArray, tol: float, limit: int, growth: float = np.inf
) -> int:
    """Iterate until rᵀz has fallen by ``tol``²; returns the iterations spent.

    Ends early where the curvature along a direction is lost to round-off, or where rᵀz has grown
    by ``growth`` over its least value.
    """
    rz = steps.begin(rhs)
    target, least, beta = rz * tol * tol, rz, 0.0
    for iteration in range(limit):
        if not rz > target or rz > growth * least:
            return iteration
        curvature = steps.direction(beta)
        if not curvature > 0.0:
            return iteration
        following = steps.advance(rz / curvature)
        beta, rz = following / rz, following
        least = min(least, rz)
    return limit


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
        spent = conjugate_gradients(self, rhs, tol, most, self.growth)
        if self.statistics is not None:
            self.statistics.iterations += spent
        self.gave_up = not self._least <= max(tol * tol, _ROUND_OFF) * self._first
        return self._best

    def begin(self, rhs: FloatArray) -> float:
        """From x = 0; rᵀz."""
        self._x, self._r, self._p = np.zeros_like(rhs), rhs, np.zeros_like(rhs)
        self._z = self.precondition(rhs)
        self._best, self._first = self._x, float(rhs @ self._z)
        self._least = self._first
        return self._first

    def direction(self, beta: float) -> float:
        """p = z + β p; pᵀ H p."""
        self._p = self._z + beta * self._p
        self._image = self.product(self._p)
        return float(self._p @ self._image)

    def advance(self, alpha: float) -> float:
        """x += α p, r −= α H p; rᵀz."""
        self._x = self._x + alpha * self._p
        self._r = self._r - alpha * self._image
        self._z = self.precondition(self._r)
        rz = float(self._r @ self._z)
        if rz < self._least:
            self._least, self._best = rz, self._x
        return rz


_ROUND_OFF = 1e-24  # of the preconditioned residual squared: no better solution can be told
