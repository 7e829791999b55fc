"""What a run measures, in the process that was made for it."""

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
from cdopt.problem import ProblemData
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.solution import StepSolution
from cdopt.study.named_problem import NamedProblem
from cdopt.study.runs.memory import peak_memory
from cdopt.study.runs.plugins import makers
from cdopt.study.runs.posed import Question, question, solve, solver
from cdopt.study.runs.record import Answer, Findings, Forces, Stability, Times
from cdopt.study.runs.run import Run
from cdopt.study.runs.sources import before, load

BOUNDS_UP_TO = 64  # contacts: two linear programs for each that is undetermined
_WARM_UPS = ("beam-uniform", "pyramid-hooke:n=5")  # other loops are compiled for the larger one
_SMALL = 8  # contacts of problems that the first of them stands for

Stage = Callable[[str], None]
Send = Callable[[Findings], None]


def measure(run: Run, stage: Stage, send: Send) -> None:
    """Make a run: its answers first, then what they are worth beside others.

    Parameters
    ----------
    stage : told what begins, one of ``STAGES``; told "solve" before every repeat.
    send : given what is known so far, whenever there is more.
    """
    try:
        _measure(run, stage, send)
    except (Unsupported, BackendUnavailable) as error:
        outcome = "missing" if isinstance(error, BackendUnavailable) else "refused"
        send(Findings(outcome, str(error)))
    except SolveFailed as error:
        send(Findings("infeasible" if error.proof is not None else "error", str(error)))
    except MemoryError as error:
        send(Findings("memory", f"MemoryError: {error}"))


def _measure(run: Run, stage: Stage, send: Send) -> None:
    stage("load")
    backend = solver(run, makers(run.plugins))
    tol = TOLERANCE if run.tolerance is None else run.tolerance
    material = load(run.problem)
    asked = question(run.formulation, material)
    earlier = None
    if run.mode == "previous":
        earlier = question(run.formulation, load(before(run.problem)))
    stage("warm up")
    _warm_up(run, backend, material)
    cold = None
    if run.mode != "cold":
        stage("cold")
        cold = solve(asked, backend, tol)
    start = None if cold is None else cold[0]
    if earlier is not None:
        start = solve(earlier, backend, tol)[0]
    if cold is not None and (start is None or start.f is None):
        send(Findings("gave up", "no forces to start from: the solve before gave none"))
        return
    given = asked.shuffled(run.seed)
    if start is not None and earlier is None:
        start = _reordered(start, asked, given)
    memory_before = peak_memory()
    found: list[tuple[StepSolution, Times]] = []
    for _ in range(run.repeats):
        gc.collect()
        stage("solve")
        found.append(solve(given, backend, tol, start))
    judged = next((s for s, _ in found if not s.ok), found[-1][0])
    outcome, message = _outcome(judged)
    forces = [given.on_all(s.f) for s, _ in found if s.f is not None]
    sent = Findings(
        outcome,
        message,
        answer=_answer(judged, given, tol),
        times=tuple(times for _, times in found),
        forces=Forces(largest=_top(forces[-1])) if forces else None,
        stability=_repeated(forces, run.repeats, cold),
        memory=peak_memory(),
        memory_before=memory_before,
    )
    send(sent)
    if outcome == "gave up":
        stage("proof")
        proof = _data(given).prove_infeasible()
        sent = sent if proof is None else replace(sent, outcome="infeasible", message=str(proof))
        send(sent)
    if not forces:
        return
    _Beside(asked, material, backend, tol, stage, send).tell(sent, run, forces[-1], cold)


@dataclass(frozen=True, eq=False)
class _Beside:
    """What an answer is compared with, once it has been kept."""

    asked: Question
    material: NamedProblem
    backend: Backend
    tol: float
    stage: Stage
    send: Send

    def tell(
        self, sent: Findings, run: Run, f: FloatArray, cold: tuple[StepSolution, Times] | None
    ) -> None:
        """The same question put otherwise, the compatible forces, and the admissible ones."""
        stability = sent.stability or Stability()
        if cold is not None and cold[0].f is not None:
            start = difference(f, self.asked.on_all(cold[0].f))
            stability = replace(stability, start=start)
        if run.seed is not None:
            self.stage("own order")
            own = solve(self.asked, self.backend, self.tol)[0].f
            if own is not None:
                stability = replace(stability, order=difference(f, self.asked.on_all(own)))
        sent = replace(sent, stability=stability)
        self.send(sent)
        self.stage("compatible")
        reference = _reference(self.material)
        forces = sent.forces or Forces()
        if reference is not None:
            forces = _beside_compatible(forces, f, reference)
        self.send(replace(sent, forces=forces))
        step = self.material.step
        if step is not None and step.nc <= BOUNDS_UP_TO:
            self.stage("bounds")
            self.send(replace(sent, forces=_bounded(forces, f, step)))


# --- pieces ----------------------------------------------------------------------------


def difference(f: FloatArray, other: FloatArray) -> float:
    """max |f − f'| / max f', or over the larger where f' vanishes; zero without contacts."""
    gap = float(np.abs(f - other).max(initial=0.0))
    top = _top(other) or _top(np.abs(f))
    return gap / top if top > 0.0 else gap


def _top(f: FloatArray) -> float:
    return float(f.max(initial=0.0))


def _warm_up(run: Run, backend: Backend, material: NamedProblem) -> None:
    """Solve small problems of the kind, so that imports and compiling are over; whatever comes.

    Backends of plugins are left alone: what they do to other problems is not known.
    """
    if run.backend in makers(run.plugins):
        return
    for name in _WARM_UPS[: 1 if material.nc <= _SMALL else 2]:
        step = bank.load(name).step
        try:
            solve(
                question(run.formulation, replace(material, step=step, truss=None)),
                backend,
                TOLERANCE,
            )
        except Exception:  # what the solver does to the run's own problem is told there
            return


def _reordered(start: StepSolution, asked: Question, given: Question) -> StepSolution:
    """A solution whose contacts are given in another order now."""
    if asked is given or start.f is None:
        return start
    classic = None if start.classic is None else _reordered(start.classic, asked, given)
    place = np.empty(asked.total, dtype=np.intp)
    place[asked.contacts] = np.arange(asked.contacts.size)
    order = place[given.contacts]
    ids = start.contact_ids
    return replace(
        start,
        f=start.f[order],
        contact_ids=None if ids is None else ids[order],
        classic=classic,
    )


def _outcome(solution: StepSolution) -> tuple[str, str]:
    """The word for one answer, and why."""
    if solution.ok:
        return "solved", ""
    if isinstance(solution.raw, MemoryError):
        return "memory", solution.status
    if isinstance(solution.raw, BaseException) and not isinstance(solution.raw, cp.SolverError):
        return "error", solution.status
    return ("wrong" if solution.claimed else "gave up"), ""


def _answer(solution: StepSolution, given: Question, tol: float) -> Answer:
    held = solution.certificates
    known = given.material.step
    return Answer(
        status=solution.status,
        claimed=solution.claimed,
        ok=solution.ok,
        tol=tol,
        worst=max((c.worst for c in held.values()), default=None),
        residuals={name: {r.name: r.value for r in c} for name, c in held.items()},
        iterations=solution.iterations,
        objective=solution.objective,
        settings=dict(solution.provenance.get("settings", {})),
        contacts=given.material.nc,
        dofs=known.nv if isinstance(known, ContactStep) else _truss_dofs(given.material),
    )


def _truss_dofs(material: NamedProblem) -> int | None:
    return None if material.truss is None else int(material.truss.B.shape[1])


def _repeated(
    forces: Sequence[FloatArray], repeats: int, cold: tuple[StepSolution, Times] | None
) -> Stability:
    """What repeats have in common; without forces in all of them, nothing is told."""
    beside = Stability()
    if cold is not None:
        beside = Stability(cold_total=cold[1].total, cold_iterations=cold[0].iterations)
    if repeats == 1 or len(forces) != repeats:
        return beside
    first = forces[0]
    return replace(
        beside,
        identical=all(f.tobytes() == first.tobytes() for f in forces[1:]),
        repeats=max(difference(f, first) for f in forces[1:]),
    )


def _data(given: Question) -> ProblemData:
    """The plain data of a question; of a compatible one, those of its first problem."""
    posed = given.pose(given.fresh())
    return posed.classic_cd.data if isinstance(posed, CompatibleCD) else posed.data


def _reference(material: NamedProblem) -> tuple[FloatArray, float] | None:
    """Compatible forces on all contacts by newton, N, and their largest residual; or None."""
    try:
        if material.step is not None:
            found = CompatibleCD(material.step, material.power).solve("newton", check=False)
        elif material.truss is not None:
            found = NoTensionTruss.of(material.truss).solve("newton", check=False)
        else:
            return None
    except CdoptError:
        return None
    if found.f is None or not found.ok:
        return None
    return np.asarray(found.f), max(c.worst for c in found.certificates.values())


def _beside_compatible(
    forces: Forces, f: FloatArray, reference: tuple[FloatArray, float]
) -> Forces:
    known, worst = reference
    size, top = float(np.linalg.norm(known)), _top(known)
    return replace(
        forces,
        distance=float(np.linalg.norm(f - known)) / size if size > 0.0 else None,
        distance_max=float(np.abs(f - known).max(initial=0.0)) / top if top > 0.0 else None,
        ratio=_top(f) / top if top > 0.0 else None,
        reference_worst=worst,
    )


def _bounded(forces: Forces, f: FloatArray, step: Step) -> Forces:
    """Where forces lie among the admissible ones; unchanged where these are not known."""
    try:
        report = indeterminacy(step)
    except CdoptError:
        return forces
    place = report.position(f)
    top = float(np.max(report.upper[np.isfinite(report.upper)], initial=0.0))
    beyond = float(np.nanmax(report.outside(f), initial=0.0))
    return replace(
        forces,
        undetermined=int(np.count_nonzero(~report.unique)),
        positions=tuple(place[np.isfinite(place)].tolist()),
        outside=beyond / top if top > 0.0 else None,
    )
