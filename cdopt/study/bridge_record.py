"""What a walk to the limit of infinite stiffness leaves: lines of points, and their slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.formatting import seconds, short
from cdopt._util.frozen import Frozen
from cdopt.problem.contact_step import Step
from cdopt.scene import Scene
from cdopt.study.resting import CLOSED, FAILED, RESTLESS, ROUND_OFF

BLUR = 0.05  # of the error: more noise or unrest than this, and a point is not fitted
_FEWEST = 3  # points of a fit


@dataclass(frozen=True, eq=False)
class Line(Frozen):
    """Forces on the way to a limit.

    Attributes
    ----------
    name : of the method.
    parameter : (n,) κ, or ε.
    forces : (n, nc) N on the contacts of ``Bridge.step``; not-a-number where there are none.
    error : (n,) ‖f − f_compatible‖ / ‖f_compatible‖ over all contacts, those of ``forces`` or not.
    noise, unrest : (n,) what round-off of places, and what is not yet at rest, make of that error.
    excluded : (n,) why a point is not fitted, "round-off", "not at rest", "closed gaps" or
        "failed", and how; "" where it is.
    slope : fitted exponent of the error in ``parameter``; not-a-number with under three points.
    steps : (n,) time steps, passes or iterations. seconds : (n,) wall-clock time.
    """

    name: str
    parameter: FloatArray
    forces: FloatArray
    error: FloatArray
    noise: FloatArray
    unrest: FloatArray
    excluded: tuple[str, ...]
    slope: float
    steps: FloatArray
    seconds: FloatArray

    @property
    def used(self) -> BoolArray:
        """(n,) which points are fitted."""
        return np.array([not why for why in self.excluded], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Bridge(Frozen):
    """What ``bridge`` found.

    Attributes
    ----------
    scene : as given. step : the rigid step, of contacts that exactly touch.
    power : p. nullity : how many numbers balance leaves free among the closed contacts.
    forces : (nc,) N, compatible.
    minimum_norm : (nc,) N, the least force that balances.
    overlap : (n,) deepest overlap at each κ in the limit, over the smallest half-width.
    lines : of each method, against κ.
    one_step : of ``CompatibleCD(method="one-step")``, against ε.
    uniform : likewise with compliance ε of all contacts alike, Hooke, whatever they are.
    seconds_one_step, seconds_two_steps : median times of a solve, by the same backend.
    """

    scene: Scene
    step: Step
    power: float
    nullity: int
    forces: FloatArray
    minimum_norm: FloatArray
    overlap: FloatArray
    lines: tuple[Line, ...]
    one_step: Line
    uniform: Line
    seconds_one_step: float
    seconds_two_steps: float

    @property
    def expected(self) -> float:
        """The exponent −1/(p−1) of the error in κ."""
        return -1.0 / (self.power - 1.0)

    @property
    def minimum_norm_error(self) -> float:
        """‖f − f_compatible‖ / ‖f_compatible‖ of the least force; the ridge tends to it too."""
        return self.distance(self.minimum_norm)

    def distance(self, forces: FloatArray) -> float:
        """‖f − f_compatible‖ / ‖f_compatible‖ of forces (nc,), N."""
        size = float(np.linalg.norm(self.forces))
        return float(np.linalg.norm(forces - self.forces)) / size

    def line(self, name: str) -> Line:
        """A method's line.

        Raises
        ------
        InvalidInput : none of this name.
        """
        chosen = checks.choice("name", name, [line.name for line in self.lines])
        return next(line for line in self.lines if line.name == chosen)

    def __str__(self) -> str:
        head = (
            f"power {self.power:g}, {self.step.nc} contacts, nullity {self.nullity}; relative "
            f"distance from the compatible forces\n\n{'κ':>10} {'overlap':>9}"
        )
        rows = [head + "".join(f" {line.name:>16}" for line in self.lines)]
        for i, kappa in enumerate(self.lines[0].parameter if self.lines else ()):
            cells = "".join(f" {_cell(line, i):>16}" for line in self.lines)
            rows.append(f"{kappa:>10.2e} {self.overlap[i]:>9.1e}{cells}")
        fits = "".join(f" {line.slope:>+16.3f}" for line in self.lines)
        rows += [f"{'slope':>20}{fits}   expected {self.expected:+.3f}", ""]
        costs = "".join(f" {float(np.nansum(line.seconds)):>15.1f} " for line in self.lines)
        rows.insert(-1, f"{'seconds':>20}{costs}")
        rows.append(f"{'ε':>10} {'one step':>16} {'uniform ridge':>16}")
        for i, epsilon in enumerate(self.one_step.parameter):
            cells = f"{_cell(self.one_step, i):>16} {_cell(self.uniform, i):>16}"
            rows.append(f"{epsilon:>10.2e} {cells}")
        rows.append(f"{'slope':>10} {self.one_step.slope:>+16.3f}   expected +1.000")
        rows.append(f"minimum norm: {self.minimum_norm_error:.3g}")
        one, two = self.seconds_one_step, self.seconds_two_steps
        rows.append(f"time of a solve: one step {seconds(one)}, two steps {seconds(two)}")
        every = (*self.lines, self.one_step)
        why = {reason.partition(":")[0] for line in every for reason in line.excluded if reason}
        return "\n".join(rows + [f"* not fitted: {'; '.join(sorted(why))}"] * bool(why))


def fitted(
    *, name: str, parameter: FloatArray, forces: FloatArray, error: FloatArray, noise: FloatArray,
    unrest: FloatArray, trouble: Sequence[str], steps: FloatArray, seconds: FloatArray,
) -> Line:  # fmt: skip
    """A line with its slope, and the points that it is fitted to."""
    excluded = []
    for why, off, blur, left in zip(trouble, error, noise, unrest, strict=True):
        clear = off > 0.0 and blur <= BLUR * off
        if clear and left <= BLUR * off and not why.startswith((FAILED, CLOSED)):
            excluded.append("")  # at rest, or near enough
        else:
            excluded.append(why or (RESTLESS if clear else ROUND_OFF))
    used = np.array([not why for why in excluded])
    slope = np.nan
    if np.count_nonzero(used) >= _FEWEST:
        slope = float(np.polyfit(np.log(parameter[used]), np.log(error[used]), 1)[0])
    return Line(
        name=name, parameter=parameter, forces=forces, error=error, noise=noise, unrest=unrest,
        excluded=tuple(excluded), slope=slope, steps=steps, seconds=seconds,
    )  # fmt: skip


def _cell(line: Line, i: int) -> str:
    return short(float(line.error[i])) + ("*" if line.excluded[i] else " ")
