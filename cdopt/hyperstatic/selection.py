"""Which force did I get? A solver's answer among all that are admissible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.formulations import CompatibleCD
from cdopt.hyperstatic.centres import Centre, analytic_centre, minimum_norm
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.solution import StepSolution

_END = 1e-6  # of an interval's width: this close to an end is at it


@dataclass(frozen=True)
class Selected:
    """Where one solution lies.

    Attributes
    ----------
    label : the backend, numbered where it occurs twice.
    ok : whether its certificate holds.
    largest : its largest force, N.
    mean_position : mean of its forces' places in their intervals, 0 lower end to 1 upper end;
        not-a-number where no bounded interval is known.
    at_lower, at_upper : how many forces are at an end of their interval.
    outside : N, how far the worst force is outside its interval.
    to_compatible, to_minimum_norm, to_analytic_centre : ‖f − g‖ / ‖g‖; not-a-number without g.
    """

    label: str
    ok: bool
    largest: float
    mean_position: float
    at_lower: int
    at_upper: int
    outside: float
    to_compatible: float
    to_minimum_norm: float
    to_analytic_centre: float


@dataclass(frozen=True, eq=False)
class Selection:
    """Several solutions of one step, placed among the admissible forces.

    Attributes
    ----------
    report : the bounds. solutions : those with forces. labels : a name for each.
    compatible, minimum_norm, analytic_centre : distinguished answers, or None.
    """

    report: Indeterminacy
    solutions: tuple[StepSolution, ...]
    labels: tuple[str, ...]
    compatible: Centre | None
    minimum_norm: Centre | None
    analytic_centre: Centre | None

    @property
    def forces(self) -> FloatArray:
        """(solutions, nc) N."""
        found = [s.f for s in self.solutions if s.f is not None]
        return np.stack(found) if found else np.zeros((0, self.report.nc))

    @property
    def position(self) -> FloatArray:
        """(solutions, nc) place of each force in its interval, as ``Indeterminacy.position``."""
        places = [self.report.position(f) for f in self.forces]
        return np.stack(places) if places else np.zeros((0, self.report.nc))

    @property
    def spread(self) -> FloatArray:
        """(nc,) N, largest minus smallest force of the certified solutions."""
        kept = self.forces[[s.ok for s in self.solutions]]
        return np.ptp(kept, axis=0) if kept.shape[0] else np.full(self.report.nc, np.nan)

    def rows(self) -> list[Selected]:
        """A record for each solution, then one for each distinguished answer."""
        found = [
            self._row(label, s.ok, f)
            for label, s, f in zip(self.labels, self.solutions, self.forces, strict=True)
        ]
        named = (self.compatible, self.minimum_norm, self.analytic_centre)
        return found + [self._row(c.name, c.ok, c.f) for c in named if c is not None]

    def _row(self, label: str, ok: bool, f: FloatArray) -> Selected:
        place, outside = self.report.position(f), self.report.outside(f)
        inside = place[~np.isnan(place)]
        known = outside[~np.isnan(outside)]
        return Selected(
            label=label,
            ok=ok,
            largest=float(f.max(initial=0.0)),
            mean_position=float(inside.mean()) if inside.size else float("nan"),
            at_lower=int(np.count_nonzero(inside <= _END)),
            at_upper=int(np.count_nonzero(inside >= 1.0 - _END)),
            outside=float(known.max(initial=0.0)),
            to_compatible=_distance(f, self.compatible),
            to_minimum_norm=_distance(f, self.minimum_norm),
            to_analytic_centre=_distance(f, self.analytic_centre),
        )

    def __str__(self) -> str:
        names = ("largest", "position", "at lower", "at upper", "compatible", "min. norm", "centre")
        width = max((len(r.label) for r in self.rows()), default=0) + 3
        lines = [" " * width + "".join(f"{name:>11}" for name in names)]
        for r in self.rows():
            distances = (r.to_compatible, r.to_minimum_norm, r.to_analytic_centre)
            numbers = f"{r.largest:>11.4g}{r.mean_position:>11.3f}{r.at_lower:>11}{r.at_upper:>11}"
            numbers += "".join(f"{d:>11.1e}" for d in distances)
            lines.append(f"{r.label:<{width}}{numbers}" + ("" if r.ok else "  not certified"))
        key = "largest force [N]; mean place in the interval; forces at its ends; distance from "
        return "\n".join([*lines, "", key + "the compatible, minimum-norm and central forces"])


def which_force(
    report: Indeterminacy, solutions: Sequence[StepSolution], power: checks.Power = HOOKE
) -> Selection:
    """Place solutions among all admissible forces.

    Parameters
    ----------
    report : of the step that the solutions solve.
    solutions : of any backends; those without forces are left out.
    power : p > 1 of the contact energy for the compatible forces.

    Raises
    ------
    InvalidInput : a solution of another size, or a bad power.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> found = cdopt.compare(beam, ["pgs"])
    >>> chosen = cdopt.hyperstatic.which_force(cdopt.indeterminacy(beam), found)
    >>> chosen.compatible.f.round(6)
    array([3.333333, 3.333333, 3.333333])
    """
    if not isinstance(report, Indeterminacy):
        raise InvalidInput("report", checks.describe(report), "an Indeterminacy")
    if not isinstance(solutions, Sequence) or any(
        not isinstance(s, StepSolution) for s in solutions
    ):
        raise InvalidInput("solutions", checks.describe(solutions), "a list of StepSolution")
    kept = tuple(s for s in solutions if s.f is not None)
    for solution in kept:
        if solution.f is not None and solution.f.shape != (report.nc,):
            raise InvalidInput("solutions", f"{solution.f.size} forces", f"{report.nc}")
    return Selection(
        report=report,
        solutions=kept,
        labels=_labels(kept),
        compatible=_compatible(report, checks.power("power", power)),
        minimum_norm=minimum_norm(report),
        analytic_centre=analytic_centre(report),
    )


def _compatible(report: Indeterminacy, power: float) -> Centre | None:
    problem = CompatibleCD(report.step, power, closed_tol=report.network.tol)
    found = problem.solve("newton", classic=report.classic, check=False)
    if found.f is None or found.certificate is None:
        return None
    return Centre("compatible", found.f, found.certificate.worst)


def _labels(solutions: Sequence[StepSolution]) -> tuple[str, ...]:
    """The backends' names, numbered where one occurs more than once."""
    names = [s.backend for s in solutions]
    return tuple(
        name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    )


def _distance(f: FloatArray, centre: Centre | None) -> float:
    size = 0.0 if centre is None else float(np.linalg.norm(centre.f))
    if centre is None or size == 0.0:
        return float("nan")
    return float(np.linalg.norm(f - centre.f)) / size
