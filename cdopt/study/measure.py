"""What a run measures, in the process that was started for it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np

from cdopt import bank
from cdopt._util.checks import FloatArray
from cdopt._util.errors import BackendUnavailable, CdoptError, SolveFailed, Unsupported
from cdopt.backends import Backend
from cdopt.formulations import CompatibleCD, NoTensionTruss
from cdopt.hyperstatic import indeterminacy
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.study.machine import peak_memory
from cdopt.study.named_problem import NamedProblem
from cdopt.study.plan import StudyRun
from cdopt.study.plugins import backend_of, makers
from cdopt.study.question import Question
from cdopt.study.record import Answer, Findings, Forces, Stability, Times

BOUNDS_UP_TO = 64  # contacts: two linear programs for each that is undetermined
_WARM_UPS = ("beam-uniform", "pyramid-hooke:n=5")  # the larger one compiles other loops
_SMALL = 8  # contacts of problems for which the first of them is enough

Stage = Callable[[str], None]
Send = Callable[[Findings], None]


def measure(run: StudyRun, stage: Stage, send: Send) -> None:
    """Make a run: first its answers, then how they compare with others.

    Parameters
    ----------
    stage : called with each stage that begins, one of ``STAGES``; with "solve" before every repeat.
    send : called with what is known so far, whenever there is more.
    """
    try:
        _Measurement(run, stage, send).make()
    except (Unsupported, BackendUnavailable) as error:
        outcome = "missing" if isinstance(error, BackendUnavailable) else "refused"
        send(Findings(outcome, str(error)))
    except SolveFailed as error:
        send(Findings("infeasible" if error.proof is not None else "error", str(error)))
    except MemoryError as error:
        send(Findings("memory", f"MemoryError: {error}"))


class _Measurement:
    """The stages of one run.

    Attributes
    ----------
    run, stage, send : as in ``measure``.
    backend : of the run. tol : tolerance of the certificates.
    problem : the problem. original : the question in the problem's own order of contacts.
    cold : solution and times of a cold solve, for runs of another mode.
    """

    def __init__(self, run: StudyRun, stage: Stage, send: Send) -> None:
        stage("load")
        self.run, self.stage, self.send = run, stage, send
        self.backend: Backend = backend_of(run)
        self.tol = TOLERANCE if run.tolerance is None else run.tolerance
        self.problem = run.problem.load()
        self.original = Question.of(self.problem, run)
        self.cold: tuple[StepSolution, Times] | None = None

    def make(self) -> None:
        """All stages, in order."""
        run = self.run
        earlier = None
        if run.mode == "previous":
            earlier = Question.of(run.problem.previous_step().load(), run)
        self.stage("warm up")
        self._warm_up()
        given, start = self.original.shuffled(run.seed), None
        if run.mode != "cold":
            self.stage("cold")
            self.cold = self.original.solve(self.backend, self.tol)
            if earlier is not None:
                start = earlier.solve(self.backend, self.tol)[0]
            else:
                start = self.original.reordered(self.cold[0], given)
            if start.f is None:
                self.send(Findings("gave up", "the solve before gave no forces to start from"))
                return
        memory_before = peak_memory()
        solves: list[tuple[StepSolution, Times]] = []
        for _ in range(run.repeats):
            gc.collect()
            self.stage("solve")
            solves.append(given.solve(self.backend, self.tol, start))
        judged = next((s for s, _ in solves if not s.ok), solves[-1][0])
        outcome, message = _outcome(judged)
        forces = [given.on_all(s.f) for s, _ in solves if s.f is not None]
        findings = Findings(
            outcome,
            message,
            answer=self._answer(judged, given),
            times=tuple(times for _, times in solves),
            forces=Forces(largest=_largest(forces[-1])) if forces else None,
            stability=self._repeated(forces),
            memory=peak_memory(),
            memory_before=memory_before,
        )
        self.send(findings)
        if outcome == "gave up":
            self.stage("proof")
            proof = given.data.prove_infeasible()
            if proof is not None:
                findings = replace(findings, outcome="infeasible", message=str(proof))
                self.send(findings)
        if forces:
            self._compare(findings, forces[-1])

    def _warm_up(self) -> None:
        """Solve small problems of the kind, so that imports and compiling are over.

        Backends of plugins are not: what they do to other problems is not known.
        """
        if self.run.backend in makers(self.run.plugins):
            return
        for name in _WARM_UPS[: 1 if self.problem.nc <= _SMALL else 2]:
            small = replace(self.problem, step=bank.load(name).step, truss=None)
            try:
                Question.of(small, self.run).solve(self.backend, TOLERANCE)
            except Exception:  # the run's own problem shows it again
                return

    def _answer(self, judged: StepSolution, given: Question) -> Answer:
        certificates = judged.certificates
        return Answer(
            status=judged.status,
            claimed=judged.claimed,
            ok=judged.ok,
            tol=self.tol,
            worst=max((c.worst for c in certificates.values()), default=None),
            residuals={name: {r.name: r.value for r in c} for name, c in certificates.items()},
            iterations=judged.iterations,
            objective=judged.objective,
            settings=dict(judged.provenance.get("settings", {})),
            contacts=given.problem.nc,
            dofs=given.problem.dofs,
        )

    def _repeated(self, forces: Sequence[FloatArray]) -> Stability:
        """How equal the repeats are, if all of them gave forces; and the cold solve."""
        stability = Stability()
        if self.cold is not None:
            solution, times = self.cold
            stability = Stability(cold_total=times.total, cold_iterations=solution.iterations)
        if self.run.repeats == 1 or len(forces) != self.run.repeats:
            return stability
        first, others = forces[0], forces[1:]
        return replace(
            stability,
            identical=all(f.tobytes() == first.tobytes() for f in others),
            repeats=max(difference(f, first) for f in others),
        )

    def _compare(self, findings: Findings, f: FloatArray) -> None:
        """Compare forces (nc,) with those of another start or order, and with all admissible."""
        stability = findings.stability or Stability()
        if self.cold is not None and self.cold[0].f is not None:
            cold = self.original.on_all(self.cold[0].f)
            stability = replace(stability, start=difference(f, cold))
        if self.run.seed is not None:
            self.stage("own order")
            unshuffled = self.original.solve(self.backend, self.tol)[0].f
            if unshuffled is not None:
                stability = replace(
                    stability, order=difference(f, self.original.on_all(unshuffled))
                )
        findings = replace(findings, stability=stability)
        self.send(findings)
        self.stage("compatible")
        forces = _beside_reference(
            findings.forces or Forces(), f, _reference(self.problem, self.run.reference_backend)
        )
        self.send(replace(findings, forces=forces))
        step = self.problem.step
        if step is not None and step.nc <= BOUNDS_UP_TO:
            self.stage("bounds")
            self.send(replace(findings, forces=_bounded(forces, f, step)))


def difference(f: FloatArray, other: FloatArray) -> float:
    """max |f − f'| / max f', or over max |f| where f' vanishes; zero without contacts."""
    gap = float(np.abs(f - other).max(initial=0.0))
    scale = _largest(other) or _largest(np.abs(f))
    return gap / scale if scale > 0.0 else gap


def _largest(f: FloatArray) -> float:
    return float(f.max(initial=0.0))


def _outcome(solution: StepSolution) -> tuple[str, str]:
    """The outcome of one solution, and a message."""
    if solution.ok:
        return "solved", ""
    if isinstance(solution.raw, MemoryError):
        return "memory", solution.status
    if isinstance(solution.raw, BaseException) and not isinstance(solution.raw, cp.SolverError):
        return "error", solution.status
    return ("wrong" if solution.claimed else "gave up"), ""


@dataclass(frozen=True, eq=False)
class _Reference:
    """Compatible forces (nc,), N, and their largest residual."""

    f: FloatArray
    worst: float


def _reference(problem: NamedProblem, backend: str) -> _Reference | None:
    """The compatible forces on all contacts by one backend; None if it has no certified answer."""
    stated: CompatibleCD | NoTensionTruss
    if problem.step is not None:
        stated = CompatibleCD(problem.step, problem.power)
    elif problem.truss is not None:
        stated = NoTensionTruss.of(problem.truss)
    else:
        return None
    try:
        solution = stated.solve(backend, check=False)
    except CdoptError:
        return None
    if solution.f is None or not solution.ok:
        return None
    return _Reference(solution.f, max(c.worst for c in solution.certificates.values()))


def _beside_reference(forces: Forces, f: FloatArray, reference: _Reference | None) -> Forces:
    """Distances from the reference, which stay None without one."""
    if reference is None:
        return forces
    known = reference.f
    norm, largest = float(np.linalg.norm(known)), _largest(known)
    away = np.abs(f - known)
    return replace(
        forces,
        distance=float(np.linalg.norm(away)) / norm if norm > 0.0 else None,
        distance_max=_largest(away) / largest if largest > 0.0 else None,
        ratio=_largest(f) / largest if largest > 0.0 else None,
        reference_worst=reference.worst,
    )


def _bounded(forces: Forces, f: FloatArray, step: Step) -> Forces:
    """Where forces lie among the admissible ones; unchanged where these are not known."""
    try:
        report = indeterminacy(step)
    except CdoptError:
        return forces
    position = report.position(f)
    largest = float(np.max(report.upper[np.isfinite(report.upper)], initial=0.0))
    outside = float(np.nanmax(report.outside(f), initial=0.0))
    return replace(
        forces,
        undetermined=int(np.count_nonzero(~report.unique)),
        positions=tuple(position[np.isfinite(position)].tolist()),
        outside=outside / largest if largest > 0.0 else None,
    )
