"""What the programs of bounds answer: extremes of costs over one network, in its units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray


class Extreme(NamedTuple):
    """One bound.

    Attributes
    ----------
    value : the least or largest value, infinite when unbounded.
    residual : the worst of the infeasibility of both answers and of their gap, or of the ray's.
    failure : why it is not certified; empty where it is.
    pull : Σ|u| over the dual's motion u: how far the bound moves, at most, with one unit of load on
        every dof.
    at : (n,) coordinates that attain it, or None.
    """

    value: float = np.nan
    residual: float = np.inf
    failure: str = ""
    pull: float = 0.0
    at: FloatArray | None = None


class Extremes(NamedTuple):
    """The extremes of several costs.

    Attributes
    ----------
    least, largest : of each cost.
    rays : (n,) coordinates that load nothing, along which the admissible ones grow.
    programs : number of programs that were solved.
    """

    least: list[Extreme]
    largest: list[Extreme]
    rays: list[FloatArray]
    programs: int
