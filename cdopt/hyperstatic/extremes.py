"""Results of the programs of bounds: extremes of costs over one network, in its units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray


class Extreme(NamedTuple):
    """One bound."""

    value: float = np.nan  # the least or largest value, infinite when unbounded
    # the worst of the infeasibility of both answers and of their gap, or of the ray's
    residual: float = np.inf
    failure: str = ""  # why it is not certified; empty where it is
    # Σ|u| over the dual's motion u: how far the bound moves, at most, with one unit of load on
    # every dof
    load_sensitivity: float = 0.0
    at: FloatArray | None = None  # (n,) coordinates that attain it, or None


class Extremes(NamedTuple):
    """The extremes of several costs."""

    # least, largest: of each cost
    least: list[Extreme]
    largest: list[Extreme]
    # (n,) coordinates that load nothing, along which the admissible ones grow
    rays: list[FloatArray]
    programs: int  # number of programs that were solved
