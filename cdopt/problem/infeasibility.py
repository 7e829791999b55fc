"""Proofs that a problem has no solution: a vector that two matrix products verify.

- A truss is infeasible exactly when some motion u has B u ≥ 0 and F̃ᵀu < 0: no contact resists it,
  and the load drives it. It is an unbounded ray of (32).
- A rigid step is infeasible exactly when multipliers g ≥ 0 have Bᵀg = 0 and gᵀ bias < 0: a body
  squeezed between fixed walls.

A linear program (HiGHS through SciPy) finds the vector. It must meet its conditions to 1e-7 in
scaled units: a problem whose answers are all 1e7 times its own scale looks infeasible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.linear_program import linprog

_OPTIONS = {"time_limit": 60.0}  # seconds
_MARGIN = 1e-7  # the proof's value must be this clear of zero, in scaled units


def descending_ray(
    cost: FloatArray,
    rows: sp.csr_array,
    violation: Callable[[FloatArray], FloatArray],
    **program: Any,
) -> tuple[FloatArray, float] | None:
    """A vector x of negative cost that meets its conditions, and by how much it misses them.

    Parameters
    ----------
    cost : (n,) c of cᵀx. rows : matrix (m, n) of the conditions.
    violation : how far the products with the rows are from what they must be.
    program : constraints and bounds, as ``scipy.optimize.linprog`` takes them.
    """
    if not (np.isfinite(rows.data).all() and np.isfinite(cost).all()):
        return None
    x = linprog(cost, options=_OPTIONS, **program).x
    if x is None:
        return None
    x = np.clip(x, *program["bounds"])
    value, missed = float(cost @ x), float(violation(rows @ x).max(initial=0.0))
    if not value < -_MARGIN or missed > _MARGIN * abs(value):
        return None
    return x, missed
