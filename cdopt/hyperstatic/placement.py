"""place_solutions(): where a solver's forces lie among all that are admissible.

Two reference answers serve for comparison; neither has a physical meaning. Krylov and gradient
methods that start from zero tend to the minimum norm, which equal linear springs would carry too.
Interior point methods without an objective tend to the analytic centre, max Σ log f; with friction
max Σ log f_n over sliding contacts plus Σ ½ log((μ f_n)² − ‖f_T‖²) over resting ones.

With friction two answers are compatible: those of elastic contacts whose micro-slip follows Coulomb
or Haar & Kármán (``formulations.friction_network``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.formulations import CompatibleCD, FrictionalCD
from cdopt.formulations.compatible_friction import network_on
from cdopt.hyperstatic.polytope import centre_of
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.joints import Joints
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step

_END = 1e-6  # of an interval's width: this close to an end is at it
TOL = 1e-6  # largest residual of a centre's optimality conditions


# --- distinguished answers -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ReferenceForces(Frozen):
    """Admissible forces with which solutions are compared.

    Attributes
    ----------
    name : its name. f : (nc,) N. f_t : (nc, d − 1) N, tangential forces; None without friction.
    residual : largest relative error of its optimality conditions, computed from the data.
    """

    name: str
    f: FloatArray
    residual: float
    f_t: FloatArray | None = None

    @property
    def ok(self) -> bool:
        """Whether the optimality conditions are met."""
        return self.residual <= TOL


def minimum_norm(report: Indeterminacy) -> ReferenceForces | None:
    """Admissible forces of least norm, min Σ ‖f‖² over the contacts; None if the solver failed.

    They are the forces of equal linear springs at the contacts of the ``report``: without friction
    those of the no-tension truss, with friction those of the network of Haar & Kármán with k_t =
    k_n. Reactions of joints, also of those with finite stiffness, are not part of the norm.

    Raises
    ------
    InvalidInput : not an ``Indeterminacy``.
    """
    checks.instance("report", report, Indeterminacy)
    step, joints = report.step, report.step.joints
    if joints is not None:
        step = step.replace(joints=Joints(joints.J, joints.rate, names=joints.names))
    if report.law is not None:
        problem = FrictionalCD(step, report.law)
        return _network_answer("minimum norm", report, "associated", problem, equal=True)
    return _truss_answer("minimum norm", report, step.replace(stiffness=1.0), HOOKE)


def _truss_answer(
    name: str, report: Indeterminacy, step: Step, power: float | None
) -> ReferenceForces | None:
    problem = CompatibleCD(step, power, closed_tol=report.faces.tol)
    solution = problem.solve("newton", classic=report.solution, check=False)
    if solution.f is None or solution.certificate is None:
        return None
    return ReferenceForces(name, solution.f, solution.certificate.worst)


def _network_answer(
    name: str,
    report: Indeterminacy,
    flow: str,
    problem: FrictionalCD | None = None,
    equal: bool = False,
) -> ReferenceForces | None:
    """Forces of an elastic network on the report's faces; None if they are refused or fail."""
    problem = problem or FrictionalCD(report.step, report.law or "")
    try:
        report.step.require_no_moments("elastic networks")
        forces = network_on(problem, report.faces, flow, equal=equal).solve()
    except (SolveFailed, Unsupported):
        return None
    return ReferenceForces(name, forces.f, forces.residual, forces.f_t)


def analytic_centre(report: Indeterminacy) -> ReferenceForces | None:
    """Analytic centre of the admissible forces; None if they are unbounded or have no centre.

    max Σ log f over the forces of the ``report`` that are not unique, by Newton's method on the
    optimality conditions 1/f = B u and Bᵀf = F̃; with friction the barrier is that of the cones.

    Raises
    ------
    InvalidInput : not an ``Indeterminacy``.
    """
    checks.instance("report", report, Indeterminacy)
    if report.rays:
        return None
    forces, worst = np.array(report.determined), 0.0
    for network in report.free:
        centre, residual = centre_of(network, report)
        if centre is None or not residual <= TOL:  # the barrier runs away along unbounded forces
            return None
        forces += network.forces(centre)
        worst = max(worst, residual)
    table = forces.reshape(report.nc, report.d)
    f_t = None if report.law is None else table[:, 1:].copy()
    return ReferenceForces("analytic centre", table[:, 0].copy(), worst, f_t)


# --- solutions among the admissible forces ---------------------------------------------------


@dataclass(frozen=True)
class PlacementRow:
    """Position of one solution.

    Attributes
    ----------
    label : the backend, numbered where it occurs twice.
    ok : whether its certificate is ok.
    largest : its largest force, N.
    mean_position : mean of its forces' positions in their intervals, 0 lower end to 1 upper end;
        not-a-number where no bounded interval is known.
    at_lower, at_upper : numbers of forces at an end of their interval.
    outside : N, largest distance of a force from its interval.
    to_compatible, to_minimum_norm, to_analytic_centre, to_haar_karman : ‖f − g‖ / ‖g‖, with
        tangential forces; not-a-number without g.
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
    to_haar_karman: float = float("nan")


@dataclass(frozen=True, eq=False)
class Placement:
    """Several solutions of one step among the admissible forces.

    Attributes
    ----------
    report : the bounds. solutions : those with forces. labels : a name for each.
    compatible, minimum_norm, analytic_centre : reference forces, or None.
    haar_karman : with friction, the compatible forces of the associated micro-slip; those of
        Coulomb's are ``compatible``, None where contacts slide.
    """

    report: Indeterminacy
    solutions: tuple[StepSolution, ...]
    labels: tuple[str, ...]
    compatible: ReferenceForces | None
    minimum_norm: ReferenceForces | None
    analytic_centre: ReferenceForces | None
    haar_karman: ReferenceForces | None = None

    @property
    def forces(self) -> FloatArray:
        """(solutions, nc) N."""
        return np.array([s.f for s in self.solutions]).reshape(len(self.solutions), self.report.nc)

    @property
    def position(self) -> FloatArray:
        """(solutions, nc d) position of each component, as ``Indeterminacy.position``."""
        positions = [self.report.position(*_components(s)) for s in self.solutions]
        return np.array(positions).reshape(len(positions), self.report.nc * self.report.d)

    @property
    def spread(self) -> FloatArray:
        """(nc,) N, largest minus smallest normal force of the certified solutions."""
        certified = self.forces[[s.ok for s in self.solutions]]
        return np.ptp(certified, axis=0) if len(certified) else np.full(self.report.nc, np.nan)

    def rows(self) -> list[PlacementRow]:
        """A record for each solution, then one for each of the reference forces."""
        rows = [
            self._row(label, s.ok, _components(s))
            for label, s in zip(self.labels, self.solutions, strict=True)
        ]
        centres = (self.compatible, self.haar_karman, self.minimum_norm, self.analytic_centre)
        return rows + [self._row(c.name, c.ok, _components(c)) for c in centres if c is not None]

    def _row(self, label: str, ok: bool, forces: tuple[FloatArray, ...]) -> PlacementRow:
        position, outside = self.report.position(*forces), self.report.outside(*forces)
        inside = position[~np.isnan(position)]
        return PlacementRow(
            label,
            ok,
            largest=float(forces[0].max(initial=0.0)),
            mean_position=float(inside.mean()) if inside.size else float("nan"),
            at_lower=int(np.count_nonzero(inside <= _END)),
            at_upper=int(np.count_nonzero(inside >= 1.0 - _END)),
            outside=float(outside[~np.isnan(outside)].max(initial=0.0)),
            to_compatible=_distance(forces, self.compatible),
            to_minimum_norm=_distance(forces, self.minimum_norm),
            to_analytic_centre=_distance(forces, self.analytic_centre),
            to_haar_karman=_distance(forces, self.haar_karman),
        )

    def __str__(self) -> str:
        rows, names = self.rows(), ["compatible", "min. norm", "centre"]
        if self.report.law is not None:
            names.append("Haar–K.")
        width = max((len(r.label) for r in rows), default=0) + 3
        headings = ("largest", "position", "at lower", "at upper", *names)
        lines = [" " * width + "".join(f"{name:>11}" for name in headings)]
        for r in rows:
            distances = [r.to_compatible, r.to_minimum_norm, r.to_analytic_centre, r.to_haar_karman]
            numbers = f"{r.largest:>11,.4g}{r.mean_position:>11.3f}{r.at_lower:>11}{r.at_upper:>11}"
            numbers += "".join(f"{d:>11.1e}" for d in distances[: len(names)])
            lines.append(f"{r.label:<{width}}{numbers}" + ("" if r.ok else "  not certified"))
        key = "largest force [N]; mean position in the interval; forces at its ends; distance from "
        return "\n".join([*lines, "", f"{key}{', '.join(names)}"])


def place_solutions(
    report: Indeterminacy, solutions: Sequence[StepSolution], power: float | None = None
) -> Placement:
    """Compare solutions with the set of all admissible forces.

    Parameters
    ----------
    report : of the step, with or without friction.
    solutions : of any backends; those without forces are left out.
    power : p > 1 of the contact energy for the compatible forces; default the step's. With friction
        it is 2.

    Returns
    -------
    A ``Placement``; print it, or read ``rows()``.

    Raises
    ------
    InvalidInput : a solution of another size or without tangential forces, or a bad power.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> solutions = cdopt.compare(beam, ["pgs"])
    >>> placement = cdopt.hyperstatic.place_solutions(cdopt.indeterminacy(beam), solutions)
    >>> placement.compatible.f.round(6)
    array([3.333333, 3.333333, 3.333333])
    """
    checks.instance("report", report, Indeterminacy)
    power = checks.optional(checks.power, "power", power)
    stated = checks.instances("solutions", solutions, StepSolution)
    answers = tuple(s for s in stated if s.f is not None)
    for solution in answers:
        if solution.f is not None and solution.f.shape != (report.nc,):
            raise InvalidInput("solutions", f"{solution.f.size:,} forces", f"{report.nc:,}")
    haar_karman, names = None, [s.backend for s in answers]
    if report.law is not None:
        if power not in (None, HOOKE):
            raise InvalidInput("power", checks.describe(power), "2 with friction")
        if any(s.f_t is None for s in answers):
            raise InvalidInput("solutions", "forces without friction", "tangential ones, too")
        compatible = _network_answer("compatible", report, "coulomb")
        haar_karman = _network_answer("Haar–Kármán", report, "associated")
    else:
        compatible = _truss_answer("compatible", report, report.step, power)
    return Placement(
        report=report,
        solutions=answers,
        labels=tuple(
            name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}"
            for i, name in enumerate(names)
        ),
        compatible=compatible,
        minimum_norm=minimum_norm(report),
        analytic_centre=analytic_centre(report),
        haar_karman=haar_karman,
    )


def _components(answer: StepSolution | ReferenceForces) -> tuple[FloatArray, ...]:
    """Normal forces, and tangential ones with friction."""
    f, f_t = np.asarray(answer.f), answer.f_t
    return (f,) if f_t is None else (f, f_t)


def _distance(forces: tuple[FloatArray, ...], centre: ReferenceForces | None) -> float:
    if centre is None:
        return float("nan")
    at, reference = (np.concatenate([x.ravel() for x in y]) for y in (forces, _components(centre)))
    size = float(np.linalg.norm(reference))
    return float(np.linalg.norm(at - reference)) / size if size else float("nan")
