"""One contact step, several solvers: classic answers side by side with the compatible one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from cdopt._util import checks, formatting
from cdopt._util.checks import FloatArray
from cdopt._util.errors import CdoptError, InfeasibilityProof, SolveFailed
from cdopt.backends import Backend, resolve
from cdopt.formulations import ClassicCD, CompatibleCD
from cdopt.problem import RigidStepData, rigid_data
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.solution import StepSolution
from cdopt.study.formatting import agreement, failure, verdict
from cdopt.study.solutions import (
    DISAGREE,
    FAILURES,
    Row,
    SolutionSet,
    attempt,
    choose_backends,
    record,
    row,
    success,
)

SHARPEST = "newton"  # of the backends that are always there


class Comparison(SolutionSet):
    """Classic contact dynamics by several backends, and the compatible forces.

    A list of StepSolution, in the order of the backends; printing it gives a table.

    Attributes
    ----------
    step : the step.
    power : exponent p of the compatible forces' contact energy.
    compatible : the compatible solution, or None when it failed or was not asked for.
    compatible_failure : why it failed, or None.
    failures, left_out : as in ``SolutionSet``.
    """

    def __init__(
        self,
        solutions: Iterable[StepSolution] = (),
        *,
        step: Step,
        power: checks.Power = HOOKE,
        title: str = "",
        tol: float = TOLERANCE,
        failures: Mapping[str, CdoptError] = MappingProxyType({}),
        left_out: Mapping[str, str] = MappingProxyType({}),
        compatible: StepSolution | None = None,
        compatible_failure: CdoptError | None = None,
    ) -> None:
        super().__init__(solutions, title=title, tol=tol, failures=failures, left_out=left_out)
        self.step = step
        self.power = power
        self.compatible = compatible
        self.compatible_failure = compatible_failure

    @property
    def reference(self) -> FloatArray | None:
        """(nc,) N, the compatible forces."""
        return None if self.compatible is None else self.compatible.f

    @property
    def distances(self) -> list[float]:
        """‖f − f_compatible‖ / ‖f_compatible‖ of each solution; not-a-number where undefined."""
        return [line.distance for line in self.rows()]

    @property
    def motion_spread(self) -> float:
        """How far certified solutions differ in v⁺, each entry in units of its own speed.

        For a step known by N and p alone, how far they differ in the gaps.
        """
        certified, data = self.certified, rigid_data(self.step)
        if not certified:
            return float("nan")
        if isinstance(data, RigidStepData):
            motions, unit = [s.v_next for s in certified if s.v_next is not None], data.dof_speed
        else:
            motions, unit = [s.gap for s in certified if s.gap is not None], data.speed
        return float(np.max(np.ptp(np.stack(motions), axis=0) / unit, initial=0.0))

    @property
    def force_spread(self) -> float:
        """How far certified forces differ at one contact, relative to its part's largest force.

        Parts are those of the contact network that share no degree of freedom. Forces too small
        for the certificate to see count as zero.
        """
        forces = [s.f for s in self.certified if s.f is not None]
        if not forces:
            return float("nan")
        data, stacked = rigid_data(self.step), np.stack(forces)
        top = data.parts.largest(data.parts.contact, stacked.max(axis=0))
        seen = self.tol * data.part_force / DISAGREE
        scale = np.maximum(top, seen)[data.parts.contact]
        return float(np.max(np.ptp(stacked, axis=0) / scale, initial=0.0))

    @property
    def proof(self) -> InfeasibilityProof | None:
        """A proof that the step has no solution, when a failure led to one."""
        failed = self.compatible_failure
        last = failed.proof if isinstance(failed, SolveFailed) else None
        return super().proof or last

    def compatible_row(self) -> Row | None:
        """The table's line of the compatible solution."""
        found = self.compatible
        return None if found is None else row(found, "compatible", None)

    @property
    def summary(self) -> str:
        """What the table shows, in plain words."""
        if self.proof is not None:
            return super().summary
        return " ".join(filter(None, [self._agreement(), self._compatible_in_words()]))

    def _agreement(self) -> str:
        """What the classic solutions agree on, and what they do not."""
        certified = self.certified
        if len(certified) < 2:
            return success(self) + "."
        everyone = len(certified) == len(self)
        who = "they agree" if everyone else "those that hold agree"
        text = f"{success(self)}; {who} on the motion {agreement(self.motion_spread)}"
        if not self.force_spread > DISAGREE:
            text += f" and on the forces {agreement(self.force_spread)}"
            away = [d for s, d in zip(self, self.distances, strict=True) if s.ok]
            if not max(away) > DISAGREE:  # also when there is nothing to measure from
                return text + ": no sign here of more than one answer."
            return (
                f"{text}, yet the compatible forces differ by {max(away):.2g} of their norm: the "
                "contact forces are not unique."
            )
        low, high = self.force_range
        if high - low > 0.01 * high:
            what = f"the largest force ranges from {low:.3g} N to {high:.3g} N"
        else:
            stacked = np.stack([s.f for s in certified if s.f is not None])
            at = int(np.argmax(np.ptp(stacked, axis=0)))
            low, high = float(stacked[:, at].min()), float(stacked[:, at].max())
            what = f"the force at contact {at} ranges from {low:.3g} N to {high:.3g} N"
        return f"{text}, yet {what}: the contact forces are not unique."

    def _compatible_in_words(self) -> str:
        if self.compatible_failure is not None:
            return f"There are no compatible forces: {failure(self.compatible_failure)}."
        if self.compatible is None:
            return ""
        if self.compatible.ok:
            return "The compatible forces are what elastic contacts would carry."
        return (
            f"The compatible forces are not certified ({verdict(self.compatible)}): try "
            "another solver for them, or a higher accuracy."
        )

    def as_dict(self, forces: bool = False) -> dict[str, Any]:
        """Plain values for JSON; numbers that are not finite become None.

        Parameters
        ----------
        forces : whether to include every solution's f (nc,), N.
        """
        line, failed = self.compatible_row(), self.compatible_failure
        compatible = None
        if self.compatible is not None and line is not None:
            compatible = record(self.compatible, line, forces)
        step, dofs = self.step, None
        if isinstance(step, ContactStep):
            dofs = step.nv
        content: dict[str, Any] = {
            "step": {"contacts": step.nc, "dofs": dofs, "dt": step.dt},
            "power": self.power,
            **super().as_dict(forces),
            "motion_spread": self.motion_spread,
            "compatible": compatible,
            "compatible_failure": None if failed is None else failure(failed),
        }
        result: dict[str, Any] = formatting.plain(content)
        return result

    def table_rows(self) -> list[Row]:
        """The classic rows, then the compatible one."""
        line = self.compatible_row()
        return self.rows() if line is None else [*self.rows(), line]


def compare(
    step: Step,
    backends: str | Backend | Sequence[str | Backend] | None = None,
    power: checks.Power = HOOKE,
    form: str = "force",
    tol: float = TOLERANCE,
    *,
    compatible_backend: str | Backend | None = SHARPEST,
    verbose: bool = False,
    progress: Callable[[str], None] | None = None,
    time_limit: float | None = None,
) -> Comparison:
    """Solve one classic contact dynamics step with several backends, then resolve its forces.

    Parameters
    ----------
    step : the step.
    backends : names or settings objects; default every available one, except those that the
        number of contacts would choke (named in the result's ``left_out``).
    power : p > 1 of the contact energy for the compatible forces: 2 Hooke, 5/2 Hertz.
    form : statement of the classic problem, "force" or "velocity".
    tol : tolerance of the certificates.
    compatible_backend : solves the compatible step on the first certified classic solution;
        when there is none, it solves its own classic step first. Newton places forces most
        sharply, even at contacts that only just touch; None: no compatible step.
    verbose : let the solvers print.
    progress : told the label of each backend before it runs.
    time_limit : seconds for each solve, as in ``Formulation.solve``: every backend has the same;
        None for none.

    Raises
    ------
    InvalidInput : a bad argument, such as an unknown backend.
    Unsupported : the velocity form of a step known by N and p alone.

    >>> from cdopt import bank, study
    >>> result = study.compare(bank.load("beam-stiff-middle").step, ["clarabel", "osqp"])
    >>> len(result), result.compatible.f.round(6)
    (2, array([2., 6., 2.]))
    """
    classic_cd = ClassicCD(step, form=form)
    compatible_cd = CompatibleCD(step, power, classic_form=form)
    tol = checks.scalar("tol", tol, above=0.0, at_most=1.0)
    if isinstance(backends, (str, Backend)):
        backends = [backends]
    left_out: dict[str, str] = {}
    if backends is None:
        backends, left_out = choose_backends(step.nc)
    solutions, failures = attempt(
        lambda backend: classic_cd.solve(backend, tol=tol, verbose=verbose, time_limit=time_limit),
        backends,
        progress,
    )
    first = next((solution for solution in solutions if solution.ok), None)
    found: tuple[StepSolution | None, CdoptError | None] = (None, None)
    if compatible_backend is not None:
        tell = progress or (lambda label: None)
        tell("compatible forces")
        found = _compatible(compatible_cd, compatible_backend, first, tol, verbose, time_limit)
    return Comparison(
        solutions,
        step=step,
        power=compatible_cd.power,
        title=_title(step, form),
        tol=tol,
        failures=failures,
        left_out=left_out,
        compatible=found[0],
        compatible_failure=found[1],
    )


def _compatible(
    problem: CompatibleCD,
    backend: str | Backend,
    first: StepSolution | None,
    tol: float,
    verbose: bool,
    time_limit: float | None,
) -> tuple[StepSolution | None, CdoptError | None]:
    """The compatible solution, or why there is none."""
    try:
        found = problem.solve(
            resolve(backend), classic=first, tol=tol, verbose=verbose, time_limit=time_limit
        )
        return found, None
    except FAILURES as error:
        return None, error


def _title(step: Step, form: str) -> str:
    size = formatting.count(step.nc, "contact")
    if isinstance(step, ContactStep):
        size += f", {step.nv} {'degree' if step.nv == 1 else 'degrees'} of freedom"
    else:
        size += ", N and p only"
    return f"Classic contact dynamics ({form} form), {size}"
