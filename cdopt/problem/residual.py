"""Optimality conditions and their residuals: errors over local scales, beyond round-off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.problem.contact_law import PowerLaw

EPS = 8.0 * float(np.finfo(float).eps)  # round-off of a sum, relative to its terms' sizes
_NOTHING = 10.0  # a scale of at most this many times its round-off is no scale


@dataclass(frozen=True)
class Residual:
    """One optimality condition.

    Attributes
    ----------
    name : of the condition.
    value : the largest error beyond round-off, divided by its scale.
    scale : the local load, speed or energy there, in ``unit``.
    unit : of the scale.
    resolution : of ``law``, the largest round-off divided by its scale.
    """

    name: str
    value: float
    scale: float
    unit: str
    resolution: float = 0.0


class Condition(NamedTuple):
    """The errors (n,) of one optimality condition, their local scales, and their round-off.

    ``decides`` says that round-off may hide a wrong answer: then the resolution is computed.
    """

    name: str
    unit: str
    error: FloatArray
    scale: FloatArray
    round_off: FloatArray
    decides: bool = False


@np.errstate(all="ignore")
def residuals_of(*conditions: Condition) -> tuple[Residual, ...]:
    """Of each the largest error beyond round-off over its scale; not-a-number counts as largest.

    Where the scale itself is round-off, an error of that size counts as zero.
    """
    residuals = []
    for name, unit, error, scale, round_off, decides in conditions:
        value, size, resolution = 0.0, 1.0, 0.0
        if error.size:
            floor = _NOTHING * round_off
            acts, ratio = scale > floor, positive(error - round_off) / scale
            if not acts.all():
                beyond = np.where(scale > 0.0, error / scale, np.inf)
                ratio = np.where(acts, ratio, np.where(error <= floor, 0.0, beyond))
            if not math.isfinite(float((error + scale + floor).sum())):
                ratio[~np.isfinite(error + scale + floor)] = np.nan
            at = int(ratio.argmax())
            value, size = float(ratio[at]), float(scale[at])
            if decides:
                blurred = float(np.where(acts, round_off / scale, 0.0).max())
                resolution = blurred if value == value else np.nan
        residuals.append(Residual(name, value, size, unit, resolution))
    return tuple(residuals)


def positive(values: FloatArray) -> FloatArray:
    """max(values, 0)."""
    return np.maximum(values, 0.0)


def law_condition(
    law: PowerLaw, f: FloatArray, c: FloatArray, slack: FloatArray, force: FloatArray
) -> Condition:
    """|f − w′(c)| over the local force (nc,) in N; the overlap is known to ± slack."""
    at_c = law.force(c)
    spread = np.maximum(law.force(c + slack) - at_c, at_c - law.force(c - slack))
    return Condition("law", "N", np.abs(f - at_c), force, spread + EPS * np.abs(f), True)


def energy_round_off(law: PowerLaw, f: FloatArray, c: FloatArray, slack: FloatArray) -> FloatArray:
    """(nc,) J, of w(c) + w*(f) − f c, for an overlap known to ± slack."""
    stored = law.energy(c)
    summed = stored + law.conjugate(f) + np.abs(f * c)
    spread = np.maximum(law.energy(c + slack), law.energy(c - slack)) - stored
    return EPS * summed + spread + np.abs(f) * slack
