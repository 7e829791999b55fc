"""One problem solved by several backends: every answer is certified, every failure recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from cdopt._util import checks
from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InvalidInput,
    SolveFailed,
    Unsupported,
)
from cdopt._util.formatting import count
from cdopt._util.progress import progress_bar
from cdopt.backends import Backend, available, resolve
from cdopt.backends.foreign import is_solver
from cdopt.backends.registry import SOLVERS, Solver
from cdopt.formulations import ClassicCD, CompatibleCD, FrictionalCD, NoTensionTruss
from cdopt.problem import LAWS
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.study.named_problem import NamedProblem, open_problem
from cdopt.study.solution_set import Comparison, SolutionSet, distinct

REFERENCE_BACKEND = "newton"  # always installed, and accurate where contacts only just touch
LAW_TITLES = {
    "coulomb": "Friction by Coulomb's law",
    "associated": "Friction by the associated law",
}
NO_COMPATIBLE = "with friction only in Python: cdopt.CompatibleFriction(step).solve()"
_FAILURES = (SolveFailed, Unsupported, BackendUnavailable)  # of a backend; others are the caller's

Stated = ClassicCD | CompatibleCD | FrictionalCD | NoTensionTruss
Finished = Callable[[str, StepSolution | CdoptError], None]


def compare(
    step: Step | NamedProblem | str,
    backends: str | Backend | Sequence[str | Backend] | None = None,
    power: float | None = None,
    form: str | None = None,
    tol: float = TOLERANCE,
    *,
    law: str | None = None,
    compatible_backend: str | Backend | None = REFERENCE_BACKEND,
    verbose: bool = False,
    progress: bool | Callable[[str], None] | None = None,
    finished: Finished | None = None,
    time_limit: float | None = None,
) -> Comparison:
    """Solve one classic contact dynamics step with several backends, then resolve its forces.

    A step with friction is solved as ``FrictionalCD``; its forces are not resolved further.

    Parameters
    ----------
    step : the step, or the name of a problem, as in ``cdopt.open_problem``.
    backends : names or settings objects; default all available ones, except those too slow for this
        number of contacts (listed in ``left_out`` of the result).
    power : p > 1 of the contact energy for the compatible forces: 2 Hooke, 5/2 Hertz; by default
        that of the problem or the step.
    form : statement of the problem, "force" or "velocity"; by default "force" of the classic one
        and that of ``FrictionalCD`` with friction.
    tol : tolerance of the certificates.
    law : of a step with friction, "coulomb" (default) or "associated".
    compatible_backend : solves the compatible step on the first certified classic solution; if
        there is none, it solves the classic step first. newton is the most accurate, also for
        contacts that just touch; None: no compatible step.
    verbose : let the solvers print.
    progress : True for a bar, or a function of the label of each backend before it runs.
    finished : called with the label of each backend that ran, and its solution or failure.
    time_limit : seconds for each solve, as in ``Formulation.solve``; None for no limit.

    Returns
    -------
    Comparison : one solution for each backend, in their order, the compatible solution, with
        the spread of motions and forces; ``to_frame()`` makes a table.

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
    checks.instance("step", step, Step)
    tol = checks.tolerance("tol", tol)
    _check_calls(progress, finished)
    options: dict[str, Any] = {"tol": tol, "verbose": verbose, "time_limit": time_limit}
    stated: ClassicCD | FrictionalCD
    compatible_cd = None
    if step.friction is not None:
        stated = FrictionalCD(step, law or LAWS[0], form)
        title = LAW_TITLES[stated.law]
    elif law is not None:
        raise InvalidInput("law", checks.describe(law), "none, of a step without friction")
    else:
        stated = ClassicCD(step, form="force" if form is None else form)
        compatible_cd = CompatibleCD(step, power, classic_form=stated.form)
        title = "Classic contact dynamics"
    answers = _answers(stated, backends, progress, finished, **options)
    dofs = f"{count(step.nv, 'degree')} of freedom" if step.nv else "N and p only"
    result = Comparison(
        answers,
        step=step,
        title=f"{title} ({stated.form} form), {count(step.nc, 'contact')}, {dofs}",
        tol=tol,
        failures=answers.failures,
        left_out=answers.left_out,
        data=stated.data,
    )
    if compatible_cd is None:
        result.left_out = MappingProxyType({**result.left_out, "compatible": NO_COMPATIBLE})
        return result
    result.power = compatible_cd.power
    if compatible_backend is not None:
        if callable(progress):
            progress("compatible forces")
        classic = next(iter(result.certified), None)
        try:
            backend = resolve(compatible_backend)
            result.compatible = compatible_cd.solve(backend, classic=classic, **options)
        except _FAILURES as error:
            result.compatible_failure = error
    return result


def solve_named(
    problem: NamedProblem,
    formulation: str | None = None,
    backends: Sequence[str] | None = None,
    tol: float = TOLERANCE,
    *,
    accuracy: float | None = None,
    compatible_backend: str = REFERENCE_BACKEND,
    verbose: bool = False,
    progress: Callable[[str], None] | None = None,
    finished: Finished | None = None,
    time_limit: float | None = None,
) -> SolutionSet:
    """Solve a named problem with several backends.

    Parameters
    ----------
    problem : the problem, from ``cdopt.open_problem``.
    formulation : one of ``problem.formulations``; None for the first.
    backends : names; None or an empty list for all available ones that suit the problem.
    accuracy : requested of every backend; None for their defaults.
    tol, compatible_backend, verbose, progress, finished, time_limit : as in ``compare``.

    Raises
    ------
    InvalidInput : a bad argument, such as an unknown backend or formulation.
    Unsupported : not a formulation of this kind of problem.
    """
    checks.instance("problem", problem, NamedProblem)
    tol = checks.tolerance("tol", tol)
    _check_calls(progress, finished)
    every = ("compare", "classic", "compatible", "truss", *LAWS)
    asked_form = problem.formulations[0] if formulation is None else formulation
    name = checks.choice("formulation", asked_form, every)
    if name not in problem.formulations:
        kind = "a truss" if problem.step is None else "a contact step without friction"
        if problem.step is not None and problem.step.friction is not None:
            kind = "a contact step with friction"
        reason = f"{problem.name} is {kind}"
        raise Unsupported(f"formulation {name!r}", reason, problem.formulations)
    stated = formulation_of(problem, "classic" if name == "compare" else name)
    named = None if backends is None else checks.instances("backends", backends, str)
    names, left_out = _chosen(named or None, stated)
    asked = {} if accuracy is None else {"accuracy": accuracy}
    settings = [resolve(backend, **asked) if asked else backend for backend in names]
    options: dict[str, Any] = {"tol": tol, "verbose": verbose, "time_limit": time_limit}
    solutions: SolutionSet
    if isinstance(stated, ClassicCD | FrictionalCD):
        solutions = compare(
            stated.step,
            settings,
            problem.power,
            law=name if name in LAWS else None,
            compatible_backend=resolve(compatible_backend, **asked) if name == "compare" else None,
            progress=progress,
            finished=finished,
            **options,
        )
    else:
        solutions = _answers(stated, settings, progress, finished, **options)
    solutions.left_out = MappingProxyType({**left_out, **solutions.left_out})
    return solutions


def _check_calls(progress: object, finished: object) -> None:
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        found = checks.describe(progress)
        raise InvalidInput("progress", found, "True or False or a function")
    if finished is not None:
        checks.function("finished", finished)


def formulation_of(problem: NamedProblem, formulation: str) -> Stated:
    """The formulation of a name: a law, or "classic", "compatible" or "truss", some with a form."""
    kind, _, form = formulation.partition("-")
    if problem.step is None:
        if kind != "truss":
            trusses = ("truss-complementary", "truss-potential")
            raise Unsupported(formulation, "the problem is a truss", trusses)
        return NoTensionTruss.of(problem.truss_data, form or "complementary")
    if formulation in LAWS:
        if problem.step.friction is None:
            steps = ("classic-force", "compatible")
            raise Unsupported(formulation, "the step has no friction", steps)
        return FrictionalCD(problem.step, formulation)
    if kind == "classic":
        return ClassicCD(problem.step, form or "force")
    return CompatibleCD(problem.step, problem.power)


def _answers(
    stated: Stated,
    backends: str | Backend | Sequence[str | Backend] | None,
    progress: bool | Callable[[str], None] | None,
    finished: Finished | None,
    **options: Any,
) -> SolutionSet:
    """Answers and failures of the backends; ``options`` are those of ``solve``."""
    asked, left_out = _chosen(backends, stated)
    if isinstance(asked, str) or not isinstance(asked, Sequence) or not asked:
        raise InvalidInput("backends", checks.describe(asked), "a list of names or settings")
    resolved: list[Backend | BackendUnavailable] = []
    for one in asked:
        try:
            resolved.append(resolve(one))
        except BackendUnavailable as error:
            resolved.append(error)
    names: list[tuple[str, Any]] = [
        (backend.name, getattr(backend, "settings", {}))
        if isinstance(backend, Backend)
        else (backend.backend, {})
        for backend in resolved
    ]
    solutions: list[StepSolution] = []
    failures: dict[str, CdoptError] = {}
    with progress_bar(progress is True, "solvers") as bar:
        for k, (backend, label) in enumerate(zip(resolved, distinct(names), strict=True)):
            bar(k, len(resolved), label)
            if isinstance(backend, BackendUnavailable):
                failures[label] = backend
                continue
            if callable(progress):
                progress(label)
            outcome: StepSolution | CdoptError
            try:
                outcome = stated.solve(backend, **options)
                solutions.append(outcome)
            except _FAILURES as error:
                outcome = failures[label] = error
            if finished is not None:
                finished(label, outcome)
    return SolutionSet(
        solutions, title=stated.name, tol=options["tol"], failures=failures, left_out=left_out
    )


def _chosen(
    backends: str | Backend | Sequence[str | Backend] | None, problem: Stated
) -> tuple[Sequence[str | Backend], dict[str, str]]:
    """The requested backends, by default those that suit the problem, and those left out."""
    if backends is not None:
        given: Any = backends  # or one that a user brings
        single = isinstance(given, (str, Backend)) or callable(given) or is_solver(given)
        return [given] if single else given, {}
    if isinstance(problem, CompatibleCD):
        problem_class, kinds = "QP" if problem.power == HOOKE else "SOCP", ["rigid step", "truss"]
        return choose_backends(problem.step.nc, problem_class, kinds, problem.classic_cd.data.nv)
    data = problem.data
    return choose_backends((problem.step or data).nc, problem.problem_class, [data.kind], data.nv)


def choose_backends(
    contacts: int, problem_class: str = "QP", kinds: Sequence[str] = ("rigid step",), dofs: int = 0
) -> tuple[list[str], dict[str, str]]:
    """Available backends that suit a problem, and the others with the reason.

    ``contacts`` and ``dofs`` are counts; ``problem_class``, "QP" or "SOCP", is for solvers through
    CVXPY; cdopt's solvers must support the ``kinds`` of data.
    """
    contacts = checks.whole("contacts", contacts, 0)
    dofs = checks.whole("dofs", dofs, 0)
    checks.choice("problem_class", problem_class, ("QP", "SOCP"))
    kinds = checks.instances("kinds", kinds, str)
    chosen: list[str] = []
    left_out: dict[str, str] = {}
    for name in available():
        capability = resolve(name).capability
        too_large = _too_large(SOLVERS[name], contacts, dofs) if name in SOLVERS else ""
        if name == "auto":
            left_out[name] = "chooses among cdopt's solvers, which take part themselves"
        elif not capability.classes and not capability.structured.issuperset(kinds):
            left_out[name] = f"only for: {', '.join(sorted(capability.structured))}"
        elif capability.classes and problem_class not in capability.classes:
            left_out[name] = "no second-order cones, which friction and powers other than 2 need"
        elif too_large:
            left_out[name] = too_large
        else:
            chosen.append(name)
    return chosen, left_out


def _too_large(solver: Solver, contacts: int, dofs: int) -> str:
    """Why a problem of this size is too large for a solver; empty if it is not."""
    sizes = (
        (solver.most_contacts, contacts, "contacts"),
        (solver.most_unknowns, contacts + dofs, "contacts and degrees of freedom"),
    )
    for most, number, noun in sizes:
        if most is not None and number > most[0]:
            return f"{most[1]}; {number:,} {noun} exceed {most[0]:,}"
    return ""
