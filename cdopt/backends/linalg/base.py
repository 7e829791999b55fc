"""What all linear systems share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cdopt._util.checks import FloatArray


@dataclass
class Tally:
    """What has been spent.

    Attributes
    ----------
    iterations : of conjugate gradients.
    factorisations : of matrices, dense ones included.
    library : what factorised last, in words; empty if nothing did.
    ways : the methods that were used, in their order.
    """

    iterations: int = 0
    factorisations: int = 0
    library: str = ""
    ways: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [" → ".join(self.ways)] if self.ways else []
        if self.iterations:
            parts.append(f"{self.iterations} conjugate gradient iterations")
        if self.factorisations:
            by = f" by {self.library}" if self.library else ""
            parts.append(f"{self.factorisations} factorisations{by}")
        return ", ".join(parts)


def finite(x: FloatArray) -> FloatArray:
    """The same array.

    Raises
    ------
    ArithmeticError : an entry is infinite or not a number.
    """
    if not np.isfinite(x).all():
        raise ArithmeticError("a number beyond what a double holds")
    return x


class System(Protocol):
    """One symmetric positive definite system, to be solved for several right-hand sides."""

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x to a relative ``tol`` in the preconditioned residual, where it iterates.

        ``limit`` bounds the iterations of those that iterate.
        """

    @property
    def gave_up(self) -> bool:
        """Whether the last solution stopped at the limit of iterations."""
