"""Comparison of solvers on one contact step: classic forces beside the compatible ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from cdopt._util import checks, formatting
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InfeasibilityProof,
    InvalidInput,
    SolveFailed,
    Unsupported,
)
from cdopt.backends import Backend, resolve, watched
from cdopt.formulations import ClassicCD, CompatibleCD, FrictionalCD, NoTensionTruss
from cdopt.hyperstatic import Indeterminacy, indeterminacy
from cdopt.problem import (
    LAWS,
    FrictionalDelassusData,
    FrictionalStepData,
    RigidStepData,
    StepData,
    rigid_data,
)
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.scaling import network_parts
from cdopt.problem.solution import StepSolution
from cdopt.study.formatting import agreement, failure, verdict
from cdopt.study.named_problem import NamedProblem, open_problem
from cdopt.study.solution_set import (
    DISAGREE,
    FAILURES,
    Row,
    SolutionSet,
    attempt,
    choose_backends,
)

SOLVED_AS = ("compare", "classic", "compatible", "truss", *LAWS)
REFERENCE_BACKEND = "newton"  # always installed, and sharp where contacts only just touch
LAW_TITLES = {
    "coulomb": "Friction by the law of Coulomb",
    "associated": "Friction by the associated law",
}
_DENSE_ROWS = 3000  # whose rank is found by dense linear algebra
_MOST_CONTACTS = 1000  # whose singular values take less than a second
_SECONDS = 10.0
_RANK = 1e-9  # singular values below this count as none
NOT_THE_SOLUTION = (
    "Answers under the law of Coulomb need not be unique: others may have other motions."
)
NO_COMPATIBLE = "with friction only in Python: cdopt.CompatibleFriction(step).solve()"

Posed = ClassicCD | CompatibleCD | FrictionalCD | NoTensionTruss


class Comparison(SolutionSet):
    """Classic contact dynamics by several backends, and the compatible forces.

    A list of StepSolution, in the order of the backends; printing it gives a table.

    Attributes
    ----------
    step : the step.
    power : exponent p of the compatible forces' contact energy.
    compatible : the compatible solution, or None when it failed or was not asked for.
    compatible_failure : why it failed, or None.

    Other ``fields`` are those of ``SolutionSet``. Of ``data``, the problem that was solved, known
    scales are taken; by default they are computed.
    """

    def __init__(
        self,
        solutions: Iterable[StepSolution] = (),
        *,
        step: Step,
        power: checks.Power = HOOKE,
        compatible: StepSolution | None = None,
        compatible_failure: CdoptError | None = None,
        data: StepData | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(solutions, **fields)
        self.step = step
        self._data = data or rigid_data(step)
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
        return [row.distance for row in self.rows()]

    @property
    def ok(self) -> bool:
        """Whether the compatible answer is certified; if not asked for, one of the others."""
        if self.compatible is None:
            return self.compatible_failure is None and super().ok
        return self.compatible.ok

    @property
    def motion_spread(self) -> float:
        """How far certified solutions differ in v⁺, each entry in units of its own speed.

        For a step known by N and p alone, how far they differ in the gaps.
        """
        certified, data = self.certified, self._data
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
        stacked = self._stacked
        if len(stacked) == 0:
            return float("nan")
        return float(np.max(np.ptp(stacked, axis=0) / self._scale, initial=0.0))

    @property
    def _stacked(self) -> FloatArray:
        """(certified, nc) N, the certified forces."""
        forces = [s.f for s in self.certified if s.f is not None]
        return np.stack(forces) if forces else np.zeros((0, self.step.nc))

    @property
    def _scale(self) -> FloatArray:
        """(nc,) N, the largest certified force of each contact's part."""
        data = self._data
        largest = data.parts.largest(data.parts.contact, self._stacked.max(axis=0))
        visible = self.tol * data.part_force / DISAGREE
        return np.asarray(np.maximum(largest, visible)[data.parts.contact])

    @cached_property
    def _uniqueness(self) -> str:
        """Whether the forces that differ are more than one answer."""
        stacked, scale = self._stacked, self._scale
        if self.compatible is not None and self.compatible.ok:
            stacked = np.vstack([stacked, np.asarray(self.compatible.f)])
        sharpest = min(self.certified, key=lambda s: s.certificate.worst if s.certificate else 1.0)
        spread = np.ptp(stacked, axis=0) / scale
        differing = spread > min(DISAGREE, 0.5 * float(spread.max()))
        loaded = stacked.mean(axis=0) > DISAGREE * scale
        return uniqueness(self.step, sharpest, loaded, differing, self.tol)

    @property
    def proof(self) -> InfeasibilityProof | None:
        """A proof that the step has no solution, when a failure led to one."""
        failed = self.compatible_failure
        return super().proof or (failed.proof if isinstance(failed, SolveFailed) else None)

    def compatible_row(self) -> Row | None:
        """The table's line of the compatible solution."""
        if self.compatible is None:
            return None
        return Row.of(self.compatible, "compatible", None)

    def table_rows(self) -> list[Row]:
        """The classic rows, then the compatible one."""
        row = self.compatible_row()
        return self.rows() if row is None else [*self.rows(), row]

    @property
    def summary(self) -> str:
        """What the table shows, in sentences."""
        if self.proof is not None:
            return super().summary
        return " ".join(filter(None, [self._agreement(), self._compatible_summary()]))

    def _agreement(self) -> str:
        """What the certified classic solutions agree on, and what they do not."""
        certified = self.certified
        if len(certified) < 2:
            return self._success() + "."
        subject = "they" if len(certified) == len(self) else "the certified ones"
        text = f"{self._success()}; {subject} agree on the motion {agreement(self.motion_spread)}"
        if not self.force_spread > DISAGREE:
            text += f" and on the forces {agreement(self.force_spread)}"
            farthest = max(d for s, d in zip(self, self.distances, strict=True) if s.ok)
            compatible = self.compatible is not None and self.compatible.ok
            if not (compatible and farthest > DISAGREE):
                return text + ": no sign here of more than one answer."
            return (
                f"{text}, yet the compatible forces differ by {farthest:.2g} of their norm: "
                f"{self._uniqueness}."
            )
        low, high = self.force_range
        what = "the largest force"
        if high - low <= 0.01 * high:
            stacked = self._stacked
            contact = int(np.argmax(np.ptp(stacked, axis=0)))
            low, high = float(stacked[:, contact].min()), float(stacked[:, contact].max())
            what = f"the force at contact {self.step.contact_names[contact]}"
        least, most = formatting.short(low), formatting.short(high)
        return f"{text}, yet {what} ranges from {least} N to {most} N: {self._uniqueness}."

    def _compatible_summary(self) -> str:
        if self.compatible_failure is not None:
            return f"There are no compatible forces: {failure(self.compatible_failure)}."
        if self.compatible is None:
            return ""
        if self.compatible.ok and not self.certified:
            return (
                f"The compatible forces, by {self.compatible.backend} alone, are certified; they "
                "are what elastic contacts would carry."
            )
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
        row, failed = self.compatible_row(), self.compatible_failure
        compatible = None
        if self.compatible is not None and row is not None:
            compatible = row.as_dict(self.compatible, forces)
        dofs = self.step.nv if isinstance(self.step, ContactStep) else None
        content: dict[str, Any] = formatting.plain(
            {
                "step": {"contacts": self.step.nc, "dofs": dofs, "dt": self.step.dt},
                "power": self.power,
                **super().as_dict(forces),
                "motion_spread": self.motion_spread,
                "compatible": compatible,
                "compatible_failure": None if failed is None else failure(failed),
            }
        )
        return content


class FrictionalComparison(Comparison):
    """A step with friction by several backends.

    A list of StepSolution, in the order of the backends; printing it gives a table.

    Attributes
    ----------
    law : "coulomb" or "associated".
    """

    _data: FrictionalStepData | FrictionalDelassusData

    def __init__(self, solutions: Iterable[StepSolution] = (), *, law: str, **fields: Any) -> None:
        super().__init__(solutions, **fields)
        self.law = law

    @property
    def force_spread(self) -> float:
        """How far certified normal forces differ at one contact, relative to the largest force."""
        return super(Comparison, self).force_spread

    @cached_property
    def _uniqueness(self) -> str:
        """Whether forces that differ are more than one answer, as the rank proves.

        Where contacts stick with forces inside their cones, a self-stress of their rows can be
        added to the forces.
        """
        data, answers = self._data, [s for s in self.certified if s.f is not None]
        rows = [np.column_stack([np.asarray(s.f), np.asarray(s.f_t)]) for s in answers]
        mean, limit = np.mean(rows, axis=0), data.friction.mu
        size = np.linalg.norm(mean[:, 1:], axis=1)
        inside = (mean[:, 0] > DISAGREE * mean[:, 0].max()) & (size < 0.99 * limit * mean[:, 0])
        index = np.flatnonzero(np.repeat(inside, data.d))
        if not 0 < index.size <= _DENSE_ROWS:
            return "the contact forces may not be unique"
        matrix = data.step.N if isinstance(data, FrictionalDelassusData) else data.step.B
        block = matrix[index].toarray()
        block /= np.maximum(np.linalg.norm(block, axis=1), np.finfo(float).tiny)[:, None]
        proven = np.linalg.matrix_rank(block, tol=_RANK * np.sqrt(index.size)) < index.size
        return (
            f"the contact forces {'are' if proven else 'may'} not {'' if proven else 'be '}unique"
        )

    @property
    def summary(self) -> str:
        """What the table shows, in sentences."""
        if self.proof is not None or self.law == "associated":
            return super().summary
        if len(self.certified) > 1 and self.motion_spread > DISAGREE:
            text = f"{self._success()}; certified motions differ by {self.motion_spread:.1g}."
        else:
            text = self._agreement()
        return f"{text} {NOT_THE_SOLUTION}"

    def as_dict(self, forces: bool = False) -> dict[str, Any]:
        """Plain values for JSON; numbers that are not finite become None.

        Parameters
        ----------
        forces : whether to include every solution's f (nc,) and f_t (nc, d − 1), N.
        """
        return {**super().as_dict(forces), "law": self.law}


def compare(
    step: Step | NamedProblem | str,
    backends: str | Backend | Sequence[str | Backend] | None = None,
    power: checks.Power | None = None,
    form: str | None = None,
    tol: checks.Tolerance = TOLERANCE,
    *,
    law: str | None = None,
    compatible_backend: str | Backend | None = REFERENCE_BACKEND,
    verbose: bool = False,
    progress: bool | Callable[[str], None] | None = None,
    finished: Callable[[str, StepSolution | CdoptError], None] | None = None,
    time_limit: float | None = None,
) -> Comparison:
    """Solve one classic contact dynamics step with several backends, then resolve its forces.

    A step with friction is solved as ``FrictionalCD``; its forces are not resolved further.

    Parameters
    ----------
    step : the step, or the name of a problem, as in ``cdopt.open_problem``.
    backends : names or settings objects; default every available one, except those that are too
        slow for the number of contacts (named in the result's ``left_out``).
    power : p > 1 of the contact energy for the compatible forces: 2 Hooke, 5/2 Hertz; by default
        that of the problem or the step.
    form : statement of the problem, "force" or "velocity"; by default "force" of the classic one
        and that of ``FrictionalCD`` with friction.
    tol : tolerance of the certificates.
    law : of a step with friction, "coulomb" (default) or "associated".
    compatible_backend : solves the compatible step on the first certified classic solution;
        when there is none, it solves its own classic step first. Newton's forces are the sharpest,
        also at contacts that only just touch; None: no compatible step.
    verbose : let the solvers print.
    progress : True for a bar, or a function of the label of each backend before it runs.
    finished : called with the label of each backend that ran and its solution or failure.
    time_limit : seconds for each solve, as in ``Formulation.solve``; None for no limit.

    Raises
    ------
    InvalidInput : a bad argument, such as an unknown backend, or a law without friction.
    Unsupported : the velocity form of a step known by N and p alone; a truss.

    >>> from cdopt import bank, study
    >>> result = study.compare(bank.load("beam-stiff-middle").step, ["clarabel", "osqp"])
    >>> len(result), result.compatible.f.round(6)
    (2, array([2., 6., 2.]))
    """
    step = open_problem(step) if isinstance(step, str) else step
    if isinstance(step, NamedProblem):
        if step.step is None:
            raise Unsupported(f"compare({step.name!r})", "it is a truss", ("solve_named",))
        step = step.step
    options = {"tol": tol, "verbose": verbose, "time_limit": time_limit}
    if isinstance(step, Step) and step.friction is not None:
        posed = FrictionalCD(step, law or LAWS[0], form)
        solutions, failures, left_out = _answers(posed, backends, progress, finished, **options)
        return FrictionalComparison(
            solutions,
            law=posed.law,
            step=step,
            title=f"{LAW_TITLES[posed.law]} ({posed.form} form), {_size(step)}",
            tol=tol,
            failures=failures,
            left_out={**left_out, "compatible": NO_COMPATIBLE},
            data=posed.data,
        )
    if law is not None:
        raise InvalidInput("law", checks.describe(law), "none, of a step without friction")
    form = form or "force"
    classic_cd = ClassicCD(step, form=form)
    compatible_cd = CompatibleCD(step, power, classic_form=form)
    solutions, failures, left_out = _answers(classic_cd, backends, progress, finished, **options)
    compatible, compatible_failure = None, None
    if compatible_backend is not None:
        if callable(progress):
            progress("compatible forces")
        try:
            compatible = compatible_cd.solve(
                resolve(compatible_backend),
                classic=next((solution for solution in solutions if solution.ok), None),
                tol=tol,
                verbose=verbose,
                time_limit=time_limit,
            )
        except FAILURES as error:
            compatible_failure = error
    return Comparison(
        solutions,
        step=step,
        power=compatible_cd.power,
        title=f"Classic contact dynamics ({form} form), {_size(step)}",
        tol=tol,
        failures=failures,
        left_out=left_out,
        compatible=compatible,
        compatible_failure=compatible_failure,
        data=classic_cd.data,
    )


def _size(step: Step) -> str:
    """Contacts and degrees of freedom, in words."""
    dofs = "N and p only"
    if isinstance(step, ContactStep):
        dofs = f"{formatting.count(step.nv, 'degree')} of freedom"
    return f"{formatting.count(step.nc, 'contact')}, {dofs}"


def solve_named(
    problem: NamedProblem,
    formulation: str | None = None,
    backends: Sequence[str] | None = None,
    tol: checks.Tolerance = TOLERANCE,
    *,
    accuracy: float | None = None,
    compatible_backend: str = REFERENCE_BACKEND,
    verbose: bool = False,
    progress: Callable[[str], None] | None = None,
    finished: Callable[[str, StepSolution | CdoptError], None] | None = None,
    time_limit: float | None = None,
) -> SolutionSet:
    """Solve a named problem with several backends.

    Parameters
    ----------
    problem : the problem, from ``cdopt.open_problem``.
    formulation : one of ``problem.formulations``; None takes the first.
    backends : names; None or an empty list takes every available one that suits the problem.
    accuracy : asked of every backend; None leaves their own.
    tol, compatible_backend, verbose, progress, finished, time_limit : as in ``compare``.

    Raises
    ------
    InvalidInput : a bad argument, such as an unknown backend or formulation.
    Unsupported : not a formulation of this kind of problem.
    """
    name = checks.choice("formulation", formulation or problem.formulations[0], SOLVED_AS)
    if name not in problem.formulations:
        kind = "a truss" if problem.step is None else "a contact step"
        if problem.step is not None:
            kind += " without friction" if problem.step.friction is None else " with friction"
        what = f"formulation {name!r}"
        raise Unsupported(what, f"{problem.name} is {kind}", problem.formulations)
    posed: Posed
    if problem.step is None:
        posed = NoTensionTruss.of(problem.truss_data)
    elif name in LAWS:
        posed = FrictionalCD(problem.step, name)
    elif name == "compatible":
        posed = CompatibleCD(problem.step, problem.power)
    else:
        posed = ClassicCD(problem.step)
    names, left_out = _chosen(backends or None, posed)

    def with_accuracy(backend: str | Backend) -> str | Backend:
        return backend if accuracy is None else resolve(backend, accuracy=accuracy)

    settings = [with_accuracy(backend) for backend in names]
    options: dict[str, Any] = {"tol": tol, "verbose": verbose, "time_limit": time_limit}
    solutions: SolutionSet
    if isinstance(posed, ClassicCD | FrictionalCD):
        reference = with_accuracy(compatible_backend) if name == "compare" else None
        solutions = compare(
            posed.step,
            settings,
            problem.power,
            law=name if name in LAWS else None,
            compatible_backend=reference,
            progress=progress,
            finished=finished,
            **options,
        )
    else:
        answers, failures, _ = _answers(posed, settings, progress, finished, **options)
        solutions = SolutionSet(answers, title=posed.name, tol=tol, failures=failures)
    solutions.left_out = MappingProxyType({**left_out, **solutions.left_out})
    return solutions


def _answers(
    posed: Posed,
    backends: str | Backend | Sequence[str | Backend] | None,
    progress: bool | Callable[[str], None] | None,
    finished: Callable[[str, StepSolution | CdoptError], None] | None,
    **options: Any,
) -> tuple[list[StepSolution], dict[str, CdoptError], dict[str, str]]:
    """Solutions, failures, and why backends were left out; ``options`` are those of ``solve``."""
    chosen, left_out = _chosen(backends, posed)
    _prepare(chosen, posed, options["time_limit"])
    answers = attempt(lambda backend: posed.solve(backend, **options), chosen, progress, finished)
    return *answers, left_out


def _chosen(
    backends: str | Backend | Sequence[str | Backend] | None, problem: Posed
) -> tuple[Sequence[str | Backend], dict[str, str]]:
    """The backends asked for, by default those that suit the problem, and those left out."""
    if isinstance(backends, (str, Backend)):
        return [backends], {}
    if backends is not None:
        return backends, {}
    dofs = _plain(problem).data.nv
    if isinstance(problem, CompatibleCD):
        conic = problem.power != HOOKE
        kinds = ("rigid step", "truss")
        return choose_backends(problem.step.nc, "SOCP" if conic else "QP", kinds, dofs)
    many = problem.step.nc if isinstance(problem, FrictionalCD) else problem.data.nc
    return choose_backends(many, problem.problem_class, (problem.data.kind,), dofs)


def _plain(problem: Posed) -> ClassicCD | FrictionalCD | NoTensionTruss:
    """The problem, or the first of the two that compatible forces need."""
    return problem.classic_cd if isinstance(problem, CompatibleCD) else problem


def _prepare(backends: Sequence[str | Backend], problem: Posed, time_limit: float | None) -> None:
    """Start what some of the backends need to keep to a time limit."""
    chosen = []
    for backend in backends:
        with contextlib.suppress(BackendUnavailable):  # which is a result of ``attempt``
            chosen.append(resolve(backend))
    watched.prepare(chosen, _plain(problem), time_limit)


# --- different answers, or one answer known badly ------------------------------------------
#
# A certificate leaves a small residual of load; where B is badly conditioned, the forces that it
# allows differ visibly though they are unique. So the rank decides, as in ``indeterminacy``.


def uniqueness(
    step: Step, classic: StepSolution, loaded: BoolArray, differing: BoolArray, tol: float
) -> str:
    """What follows where certified forces differ at some contacts: the end of a sentence.

    Parameters
    ----------
    step : the step. classic : its sharpest certified classic solution.
    loaded : (nc,) contacts with a force in the mean of the certified answers.
    differing : (nc,) contacts at which the answers differ.
    tol : tolerance of the certificates.
    """
    if _more_forces_than_equations(step, loaded, differing):
        return "the contact forces are not unique"
    unknown = "the contact forces may not be unique (cdopt bounds decides)"
    if step.nc > _MOST_CONTACTS:
        return unknown
    try:
        report = indeterminacy(step, classic, contacts=[], time_limit=_SECONDS)
    except (SolveFailed, Unsupported):
        return unknown
    if np.any(differing & ~report.unique):
        return "the contact forces are not unique"
    return (
        "the contact forces are unique, but badly conditioned (singular values down to "
        f"{_least_singular_value(report):.0e} of the largest): a residual of {tol:.0e} allows "
        "such differences"
    )


def _more_forces_than_equations(step: Step, loaded: BoolArray, differing: BoolArray) -> bool:
    """Whether a part with differing forces has more loaded contacts than degrees of freedom.

    Its loaded contacts then have a self-stress state, a little of which leaves them all loaded.
    """
    data = rigid_data(step)
    if not isinstance(data, RigidStepData):
        return False
    parts = network_parts(data.B[loaded])
    contacts = np.bincount(parts.contact, minlength=parts.count)
    surplus = contacts > np.bincount(parts.dof, minlength=parts.count)
    return bool(np.any(surplus[parts.contact] & differing[loaded]))


def _least_singular_value(report: Indeterminacy) -> float:
    """The least that is not zero over the largest, of the equilibrated B of each part."""
    least = 1.0
    for block in report.blocks:
        values: FloatArray = np.linalg.svd(block.B.toarray(), compute_uv=False)
        positive = values[values > report.rank_tol * values.max(initial=0.0)]
        if positive.size:
            least = min(least, float(positive.min() / positive.max()))
    return least
