"""Statistics of solver comparisons.

- Performance profiles: E. D. Dolan, J. J. Moré, *Benchmarking optimization software with
  performance profiles*, Mathematical Programming 91 (2002) 201–213.
- Shifted geometric means, as in H. Mittelmann's benchmarks of optimisation software.
- Exponents of power laws by least squares on logarithms, with Student's t interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen


@dataclass(frozen=True, eq=False)
class Profile:
    """ρ(τ), the share of problems that one solver solves within τ times the best solver's time.

    Attributes
    ----------
    ratios : (k,) ratios of the problems it solved, sorted; 1 where it was the best.
    problems : number of problems, including unsolved ones.
    """

    ratios: FloatArray
    problems: int

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    def at(self, tau: float) -> float:
        """ρ(τ); at 1 the share on which it was the fastest, at infinity the share solved."""
        ratio = checks.real("tau", tau, "one number, which may be infinite", ())
        return float(np.searchsorted(self.ratios, ratio, side="right")) / self.problems

    def steps(self, most: float) -> tuple[FloatArray, FloatArray]:
        """Corners (τ, ρ) of the step function from τ = 1 to ``most``."""
        most = checks.scalar("most", most)
        tau = np.concatenate([[1.0], self.ratios[self.ratios <= most], [most]])
        return tau, np.array([self.at(value) for value in tau])


def performance_profiles(times: Mapping[str, Sequence[float]]) -> dict[str, Profile]:
    """Dolan–Moré performance profiles of several solvers on the same problems.

    Parameters
    ----------
    times : by solver, one time for each problem, s; infinite or not a number where unsolved.

    Raises
    ------
    InvalidInput : no solver, no problem, lengths that differ, or a time that is not positive.
    """
    rows = {
        checks.text("times", name): checks.real(f"times[{name!r}]", row, "times", (None,))
        for name, row in checks.mapping("times", times).items()
    }
    lengths = {len(row) for row in rows.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidInput("times", f"lengths {sorted(lengths)}", "one time for each problem")
    table = np.nan_to_num(np.array(list(rows.values()), float), nan=np.inf, posinf=np.inf)
    if not np.all(table > 0.0):
        raise InvalidInput("times", f"{table.min()!r}", "positive times")
    best = np.where(np.isfinite(table.min(axis=0)), table.min(axis=0), 1.0)
    ratios = np.sort(table / best, axis=1)
    solved = np.isfinite(ratios)
    return {
        name: Profile(read_only(row[solves]), table.shape[1])
        for name, row, solves in zip(rows, ratios, solved, strict=True)
    }


def shifted_geometric_mean(values: Sequence[float], shift: float = 1.0) -> float:
    """exp(mean ln(x + shift)) − shift, not dominated by the largest or the smallest value.

    Parameters
    ----------
    values : not negative; of times, an unsolved problem counts with the time limit.
    shift : in the unit of the values. Mittelmann's benchmarks use 10 s; far above all values
        the mean is arithmetic, at zero geometric.

    Raises
    ------
    InvalidInput : no value, or a negative or infinite one.
    """
    numbers = checks.vector("values", values, None)
    offset = checks.scalar("shift", shift, at_least=0.0)
    if numbers.size == 0 or float(numbers.min()) < 0.0:
        raise InvalidInput("values", checks.describe(numbers), "at least one, none negative")
    with np.errstate(divide="ignore"):  # zeros have a geometric mean of zero
        return float(np.exp(np.mean(np.log(numbers + offset))) - offset)


class PowerFit(NamedTuple):
    """y = factor · x^exponent by least squares on logarithms.

    Attributes
    ----------
    exponent, factor : of the law.
    low, high : ends of the exponent's confidence interval; infinite for two points.
    points : number of points.
    """

    exponent: float
    factor: float
    low: float
    high: float
    points: int


def power_fit(x: Sequence[float], y: Sequence[float], confidence: float = 0.95) -> PowerFit:
    """The power law through points, and Student's t interval of its exponent.

    The interval measures how well these points determine a line on logarithmic axes if their
    errors are independent. It does not show a bend: overheads dominate the times of small problems.

    Parameters
    ----------
    x, y : (points,) positive numbers. confidence : of the interval, between 0 and 1.

    Raises
    ------
    InvalidInput : fewer than two different x, numbers that are not positive, or lengths differ.
    """
    level = checks.scalar("confidence", confidence, above=0.0, at_most=1.0 - 1e-9)
    across = checks.vector("x", x, None)
    up = checks.vector("y", y, across.size)
    if np.unique(across).size < 2 or min(across.min(), up.min()) <= 0.0:
        raise InvalidInput("x and y", "too few or not positive", "positive, at two or more x")
    lx, ly = np.log(across), np.log(up)
    centred, freedom = lx - lx.mean(), across.size - 2
    slope = float(centred @ ly / (centred @ centred))
    offset = float(ly.mean() - slope * lx.mean())
    half = np.inf
    if freedom:
        deviation = np.linalg.norm(ly - offset - slope * lx) / np.sqrt(freedom)
        error = deviation / np.linalg.norm(centred)
        half = float(stdtrit(freedom, 0.5 + 0.5 * level) * error)
    return PowerFit(slope, float(np.exp(offset)), slope - half, slope + half, across.size)
