"""The evidence that a problem has no solution, as plain data that an error can carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class InfeasibilityProof:
    """A certificate of infeasibility.

    Attributes
    ----------
    kind : "truss" or "rigid step".
    vector : u (nv,) with B u ≥ 0 for a truss; g (nc,) ≥ 0 with Bᵀg = 0 for a rigid step.
    value : F̃ᵀu in J, or gᵀ bias (gᵀp for a step known by N and p) in m/s; negative.
    violation : largest violation of the vector's own conditions, relative; round-off when sound.
    """

    kind: str
    vector: NDArray[np.float64]
    value: float
    violation: float

    def __str__(self) -> str:
        if self.kind == "truss":
            what = "the motion u has B u >= 0 and contact_load @ u"
        else:
            what = "the multipliers g >= 0 have B.T @ g = 0 and g @ bias"
        return f"{self.kind} infeasible: {what} = {self.value:.3g} (to {self.violation:.1e})"
