"""Optimality conditions and their residuals: errors over local scales, beyond round-off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem.contact_law import PowerLaw

EPS = 8.0 * float(np.finfo(float).eps)  # round-off of a sum, relative to its terms' sizes
_NOTHING = 10.0  # a scale below this multiple of its round-off does not count


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

    ``decides`` means that round-off may hide a wrong answer; the resolution is then computed.
    ``part`` (n,) is the independent part of the network of each error; None if there is one for
    each contact.
    """

    name: str
    unit: str
    error: FloatArray
    scale: FloatArray
    round_off: FloatArray
    decides: bool = False
    part: IntArray | None = None


@dataclass(frozen=True, eq=False)
class Groups:
    """Problems without common degrees of freedom, side by side in one network."""

    of_contact: IntArray  # (nc,) the problem of each contact
    of_part: IntArray  # (parts,) the problem of each independent part of the network
    count: int  # number of problems

    def of(self, condition: Condition) -> IntArray:
        """(n,) the problem of each entry of a ``condition``."""
        return self.of_contact if condition.part is None else self.of_part[condition.part]


def residuals_of(*conditions: Condition) -> tuple[Residual, ...]:
    """The largest error beyond round-off over its scale of each condition; NaN is largest.

    Where the scale itself is round-off, an error of that size counts as zero.
    """
    return residuals_of_each(conditions)[0]


@np.errstate(all="ignore")
def residuals_of_each(
    conditions: tuple[Condition, ...], groups: Groups | None = None
) -> list[tuple[Residual, ...]]:
    """The residuals of each of the problems of ``groups``; None is one problem."""
    errors, scales, blurs = zip(*(condition[2:5] for condition in conditions), strict=True)
    error, scale, round_off = (np.concatenate(arrays) for arrays in (errors, scales, blurs))
    floor = _NOTHING * round_off
    acts, ratio = scale > floor, positive(error - round_off) / scale
    if np.count_nonzero(acts) < acts.size:
        beyond = np.where(scale > 0.0, error / scale, np.inf)
        ratio = np.where(acts, ratio, np.where(error <= floor, 0.0, beyond))
    if not math.isfinite(float((error + scale + floor).sum())):
        ratio[~np.isfinite(error + scale + floor)] = np.nan
    columns, begin = [], 0
    for condition in conditions:
        end = begin + condition.error.size
        columns.append(_largest(condition, ratio[begin:end], acts[begin:end], groups))
        begin = end
    return list(zip(*columns, strict=True))


def _largest(
    condition: Condition, ratio: FloatArray, acts: BoolArray, groups: Groups | None
) -> list[Residual]:
    """The residual of a condition in each problem; ``ratio`` (n,) are its errors over scales."""
    name, unit, error, scale, round_off, decides, _ = condition
    count = 1 if groups is None else groups.count
    if not error.size:
        return [Residual(name, 0.0, 1.0, unit)] * count
    blurred = np.where(scale > 0.0, round_off / scale, 0.0) if decides else None
    if groups is None:
        at = int(ratio.argmax())
        value, resolution = float(ratio[at]), 0.0
        if blurred is not None:
            resolution = float(blurred.max()) if value == value else np.nan
        return [Residual(name, value, float(scale[at]), unit, resolution)]
    of = groups.of(condition)
    places = largest_places(ratio, of)
    values, sizes, least = np.zeros(count), np.ones(count), np.zeros(count)
    values[of[places]], sizes[of[places]] = ratio[places], scale[places]
    if blurred is not None:
        np.maximum.at(least, of, blurred)
        least = np.where(np.isnan(values), np.nan, least)
    rows = zip(values.tolist(), sizes.tolist(), least.tolist(), strict=True)
    return [Residual(name, value, size, unit, blur) for value, size, blur in rows]


def largest_places(values: FloatArray, label: IntArray) -> IntArray:
    """The place of the largest value of each label; not-a-number counts as largest."""
    order = np.lexsort((-np.arange(values.size), values, label))
    last = np.append(label[order][1:] != label[order][:-1], True)
    return order[last]


def largest(sizes: FloatArray) -> float:
    """The largest of ``sizes`` (n,) ≥ 0, zero of none; not-a-number counts as largest."""
    return float(sizes[sizes.argmax()]) if sizes.size else 0.0


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
