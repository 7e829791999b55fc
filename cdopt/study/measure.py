"""Measurements of a run, made in its process."""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from cdopt import bank
from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import clock
from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InvalidInput,
    SolveFailed,
    Unsupported,
)
from cdopt._util.processes import peak_memory
from cdopt.backends import Backend, resolve
from cdopt.backends.foreign import of_function, takes_matrices
from cdopt.backends.modelled import Direct
from cdopt.formulations import CompatibleCD, NoTensionTruss
from cdopt.hyperstatic import indeterminacy
from cdopt.problem import LAWS, ContactProblem, prove_infeasible
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.study.comparison import formulation_of
from cdopt.study.named_problem import NamedProblem
from cdopt.study.plan import StudyRun
from cdopt.study.record import Answer, Findings, Forces, Stability, Times

BOUNDS_UP_TO = 64  # contacts: two linear programs for each undetermined force
_WARM_UPS = ("beam-uniform", "pyramid-hooke:n=5")  # the larger one compiles other loops
_WARM_UPS_WITH_FRICTION = ("incline", "rough-pile")
_SMALL = 8  # contacts of problems for which the first of them is enough
_CODE = 16  # hexadecimal digits
_PARTS = ("compile", "solve", "read", "certify")  # of a solve, which is timed


def measure(run: StudyRun) -> Iterator[str | Findings]:
    """Make a run: yields the name of each stage when it begins, and the findings so far."""
    try:
        yield from _measure(run)
    except (Unsupported, BackendUnavailable) as error:
        outcome = "missing" if isinstance(error, BackendUnavailable) else "refused"
        yield Findings(outcome, str(error))
    except SolveFailed as error:
        outcome = "memory" if isinstance(error.raw, MemoryError) else "error"
        yield Findings("infeasible" if error.proof is not None else outcome, str(error))
    except MemoryError as error:
        yield Findings("memory", f"MemoryError: {error}")


def _measure(run: StudyRun) -> Iterator[str | Findings]:
    yield "load"
    backend = backend_of(run)
    tol = TOLERANCE if run.tolerance is None else run.tolerance
    problem = run.problem.load()
    unshuffled = _Question.of(problem, run)
    earlier = None
    if run.mode == "previous":
        earlier = _Question.of(run.problem.previous_step().load(), run)
    yield "warm up"
    if run.backend not in makers(run.plugins):  # a plugin's backend may depend on what it solves
        _warm_up(problem, run, backend)
    question, start, cold = unshuffled.shuffled(run.seed), None, None
    if run.mode != "cold":
        yield "cold"
        cold = unshuffled.solve(backend, tol)
        start = cold[0] if earlier is None else earlier.solve(backend, tol)[0]
        if start.f is None:
            yield Findings("gave up", "the solve before gave no forces to start from")
            return
    memory_before = peak_memory()
    solves: list[tuple[StepSolution, Times]] = []
    for _ in range(run.repeats):
        gc.collect()
        yield "solve"
        solves.append(question.solve(backend, tol, start))
    judged = next((s for s, _ in solves if not s.ok), solves[-1][0])
    outcome, message = _outcome(judged)
    forces = [question.on_all(s.f) for s, _ in solves if s.f is not None]
    stability = _repeatability(forces, run.repeats)
    if cold is not None:
        stability = replace(stability, cold_total=cold[1].total, cold_iterations=cold[0].iterations)
    findings = Findings(
        outcome,
        message,
        answer=_answer(judged, question, tol),
        times=tuple(times for _, times in solves),
        forces=Forces(largest=_largest(forces[-1])) if forces else None,
        stability=stability,
        memory=peak_memory(),
        memory_before=memory_before,
    )
    yield findings
    if outcome == "gave up":
        yield "proof"
        proof = prove_infeasible(question.data)
        if proof is not None:
            findings = replace(findings, outcome="infeasible", message=str(proof))
            yield findings
    if not forces:
        return
    f = forces[-1]
    if cold is not None and cold[0].f is not None:
        stability = replace(stability, start=difference(f, unshuffled.on_all(cold[0].f)))
    if run.seed is not None:
        yield "own order"
        in_order = unshuffled.solve(backend, tol)[0].f
        if in_order is not None:
            stability = replace(stability, order=difference(f, unshuffled.on_all(in_order)))
    findings = replace(findings, stability=stability)
    yield findings
    yield "compatible"
    compared = _with_reference(Forces(largest=_largest(f)), f, problem, run.reference_backend)
    yield replace(findings, forces=compared)
    step = problem.step
    if step is not None and step.friction is None and step.nc <= BOUNDS_UP_TO:
        yield "bounds"
        yield replace(findings, forces=_bounded(compared, f, step))


def _warm_up(problem: NamedProblem, run: StudyRun, backend: Backend) -> None:
    """Solve small problems of the kind, so that imports and compiling are over."""
    names = _WARM_UPS_WITH_FRICTION if run.formulation in LAWS else _WARM_UPS
    for name in names[: 1 if problem.nc <= _SMALL else 2]:
        small = replace(problem, step=bank.load(name).step, truss=None)
        try:
            _Question.of(small, run).solve(backend, TOLERANCE)
        except Exception:  # the run's problem will show any error again
            return


# --- the backend of a run ------------------------------------------------------------------
#
# A plugin is a factory, a function without arguments that returns a mapping from names to makers;
# a maker takes the requested accuracy, or None for the defaults, and returns a Backend
# (``cdopt.backends.base``). Or it is a function of (P, q, G, h, A, b, lb, ub) by itself. It is
# named ``package.module:factory`` or ``path/to/file.py:factory`` and called only in the process of
# a run, and once before the first run in another one. It is not registered. That process does
# not import from the working folder: name a file there by its path. Its folder comes last in the
# search for modules, so that the file may import others next to it.

Maker = Callable[[float | None], Backend]


def makers(plugins: Iterable[str]) -> dict[str, Maker]:
    """The backends of these plugins by name; of equal names the last one is used."""
    makers_by_name: dict[str, Maker] = {}
    for text in plugins:
        location, name = parts(text)
        module = _module(location)
        factory: Any = getattr(module, name, None)
        if not callable(factory):
            own = {n: f for n, f in vars(module).items() if not n.startswith("_")}
            plain = [f"{location}:{n}" for n, f in own.items() if takes_matrices(f)]
            expected = " or ".join(["a factory", *plain])
            raise InvalidInput("plugins", f"no function {name!r} in {location}", expected)
        if takes_matrices(factory):
            makers_by_name[name] = partial(of_function, factory)
            continue
        mapping = factory()
        if not isinstance(mapping, Mapping):
            raise InvalidInput("plugins", f"{text} gives {checks.describe(mapping)}", "a mapping")
        makers_by_name.update(mapping)
    return makers_by_name


def code_of(plugins: Iterable[str]) -> str:
    """A digest of the files of loaded plugins and of modules imported from their folders."""
    loaded = {name: str(getattr(m, "__file__", "")) for name, m in list(sys.modules.items())}
    files = {Path(file).resolve() for file in loaded.values() if file.endswith(".py")}
    named = [parts(text)[0] for text in plugins]
    sources = [name if name.endswith(".py") else loaded.get(name, "") for name in named]
    folders = {Path(source).resolve().parent for source in sources if source}
    texts = [file.read_bytes() for file in sorted(files) if file.parent in folders]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:_CODE]


def parts(plugin: str) -> tuple[str, str]:
    """The module or file of a plugin, and its function: "factory" where none is named."""
    location, colon, name = plugin.rpartition(":")
    return (location, name) if colon else (plugin, "factory")


def backend_of(run: StudyRun) -> Backend:
    """The backend of a run."""
    plugin_makers = makers(run.plugins)
    if run.call == "direct":
        backend: Backend = Direct(run.backend, run.tolerance)
    elif run.backend in plugin_makers:
        backend = plugin_makers[run.backend](run.tolerance)
    else:
        try:
            backend = resolve(run.backend, accuracy=run.tolerance)
        except InvalidInput as error:
            if error.argument != "accuracy":
                raise
            raise Unsupported(f"a tolerance of {run.backend}", str(error)) from error
    if run.mode != "cold" and not backend.capability.warm_start:
        reason = f"{run.backend} called this way does not use a warm start"
        raise Unsupported(f"mode {run.mode!r}", reason, ("cold",))
    return backend


def _module(location: str) -> ModuleType:
    if not location.endswith(".py"):
        try:
            return importlib.import_module(location)
        except (ImportError, ValueError) as error:
            expected = "an installed module, or a file by its path, such as solver.py:factory"
            raise InvalidInput("plugins", str(error), expected) from error
    name = f"cdopt_plugin_{Path(location).stem}"
    spec = importlib.util.spec_from_file_location(name, location)
    if spec is None or spec.loader is None or not Path(location).exists():
        raise InvalidInput("plugins", f"{location}: no such file", "a Python file")
    folder = str(Path(location).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# --- one timed solve -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Question:
    """A step or truss in the formulation of a run, ``contacts`` of the ``total`` in some order."""

    formulation: str
    problem: NamedProblem
    contacts: NDArray[np.intp]
    total: int

    @classmethod
    def of(cls, problem: NamedProblem, run: StudyRun) -> _Question:
        """A problem in its order; a truss of a step has the contacts that the reference closes."""
        total = problem.nc
        if run.formulation not in LAWS:
            problem.require_frictionless(run.formulation)
        if problem.step is None or not run.formulation.startswith("truss"):
            return cls(run.formulation, problem, np.arange(total), total)
        compatible_cd = CompatibleCD(problem.step, problem.power)
        classic = compatible_cd.classic_cd.solve(run.reference_backend)
        if not classic.ok:
            raise SolveFailed(
                f"{run.reference_backend} has no certified classic answer: which contacts are "
                "closed is not known",
                backend=run.reference_backend,
                status=classic.status,
                problem=compatible_cd.classic_cd.data,
            )
        network = compatible_cd.network(classic)
        truss = replace(problem, step=None, truss=compatible_cd.truss(network).data)
        contacts = np.asarray(network.contacts, dtype=np.intp)
        return cls(run.formulation, truss, contacts, total)

    @property
    def data(self) -> ContactProblem:
        """The plain data; of a compatible step, those of its classic problem."""
        stated = formulation_of(self.problem, self.formulation)
        return stated.classic_cd.data if isinstance(stated, CompatibleCD) else stated.data

    def on_all(self, forces: FloatArray) -> FloatArray:
        """Forces on the contacts of the original problem, in its order, N."""
        everywhere = np.zeros(self.total)
        everywhere[self.contacts] = forces
        return everywhere

    def shuffled(self, seed: int | None) -> _Question:
        """The same question with its contacts in another order; None leaves it."""
        if seed is None:
            return self
        order = np.random.default_rng(seed).permutation(self.problem.nc)
        problem = self.problem.in_order(order)
        return _Question(self.formulation, problem, self.contacts[order], self.total)

    def solve(
        self, backend: Backend, tol: float, start: StepSolution | None = None
    ) -> tuple[StepSolution, Times]:
        # a copy, which has no cached properties of an earlier solve
        problem = self.problem.in_order(np.arange(self.problem.nc))
        began = clock()
        stated = formulation_of(problem, self.formulation)
        solution = stated.solve(backend, tol=tol, warm_start=start, check=False)
        return solution, _times(solution, clock() - began)


def _times(solution: StepSolution, total: float) -> Times:
    """Times of the parts of a solve, summed over both problems of a compatible solution."""
    parts = dict.fromkeys(_PARTS, 0.0)
    for name, seconds in solution.timings.items():
        part = name.rpartition(" ")[2]
        parts[part if part in parts else "solve"] += seconds
    other = max(total - sum(parts.values()), 0.0)
    return Times(pose=other, total=total, setup=_setup(solution), **parts)


def _setup(solution: StepSolution) -> float | None:
    """Seconds of the solver's set-up as it reports them; None if it does not."""
    if solution.classic is not None:
        return None  # the raw answer is only that of the second problem
    if isinstance(solution.raw, dict):
        info = solution.raw.get("info")
        milliseconds = info.get("setup_time") if isinstance(info, dict) else None  # SCS
        return None if milliseconds is None else 1e-3 * float(milliseconds)
    seconds = getattr(getattr(solution.raw, "info", None), "setup_time", None)
    return float(seconds) if seconds else None  # PIQP writes 0 when it was not asked to measure


# --- findings --------------------------------------------------------------------------


def _outcome(solution: StepSolution) -> tuple[str, str]:
    """The outcome of one solution, and a message."""
    if solution.ok:
        return "solved", ""
    if isinstance(solution.raw, MemoryError):
        return "memory", solution.status
    if isinstance(solution.raw, BaseException) and not isinstance(solution.raw, cp.SolverError):
        return "error", solution.status
    return ("wrong" if solution.claimed else "gave up"), ""


def _answer(solution: StepSolution, question: _Question, tol: float) -> Answer:
    certificates = solution.certificates
    return Answer(
        status=solution.status,
        claimed=solution.claimed,
        ok=solution.ok,
        tol=tol,
        worst=max((c.worst for c in certificates.values()), default=None),
        residuals={name: {r.name: r.value for r in c} for name, c in certificates.items()},
        iterations=solution.iterations,
        objective=solution.objective,
        settings=dict(solution.provenance.get("settings", {})),
        contacts=question.problem.nc,
        dofs=question.problem.dofs,
    )


def _repeatability(forces: Sequence[FloatArray], repeats: int) -> Stability:
    """Differences of the repeats, if there are several and all gave forces (nc,)."""
    if repeats == 1 or len(forces) != repeats:
        return Stability()
    first, others = forces[0], forces[1:]
    return Stability(
        identical=all(f.tobytes() == first.tobytes() for f in others),
        repeats=max(difference(f, first) for f in others),
    )


def difference(f: FloatArray, other: FloatArray) -> float:
    """max |f − f'| / max f', or / max |f| if f' is zero; zero without contacts."""
    gap = float(np.abs(f - other).max(initial=0.0))
    scale = _largest(other) or _largest(np.abs(f))
    return gap / scale if scale > 0.0 else gap


def _largest(f: FloatArray) -> float:
    return float(f.max(initial=0.0))


def _with_reference(forces: Forces, f: FloatArray, problem: NamedProblem, backend: str) -> Forces:
    """Distances of f (nc,) from the compatible forces; None without certified ones."""
    if problem.step is not None and problem.step.friction is not None:
        return forces
    formulation = (
        NoTensionTruss.of(problem.truss_data)
        if problem.step is None
        else CompatibleCD(problem.step, problem.power)
    )
    try:
        solution = formulation.solve(backend, check=False)
    except CdoptError:
        return forces
    if solution.f is None or not solution.ok:
        return forces
    norm, largest = float(np.linalg.norm(solution.f)), _largest(solution.f)
    error = np.abs(f - solution.f)
    return replace(
        forces,
        distance=float(np.linalg.norm(error)) / norm if norm > 0.0 else None,
        distance_max=_largest(error) / largest if largest > 0.0 else None,
        ratio=_largest(f) / largest if largest > 0.0 else None,
        reference_worst=max(c.worst for c in solution.certificates.values()),
    )


def _bounded(forces: Forces, f: FloatArray, step: Step) -> Forces:
    """Positions of forces among the admissible ones; unchanged if these are unknown."""
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
