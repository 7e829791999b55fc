"""A problem posed by the name of its formulation, and one timed solve of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt.backends import Backend, resolve
from cdopt.formulations import ClassicCD, CompatibleCD, NoTensionTruss
from cdopt.problem import TrussData
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.study.named_problem import NamedProblem
from cdopt.study.runs.direct import Direct
from cdopt.study.runs.plugins import Maker
from cdopt.study.runs.record import Times
from cdopt.study.runs.run import Run

_PARTS = ("compile", "solve", "read", "certify")


@dataclass(frozen=True, eq=False)
class Question:
    """What a run asks of a solver.

    Attributes
    ----------
    formulation : its name.
    material : the step, or the truss, in the order of contacts in which it is given.
    contacts : (nc of the material,) where its contacts stand among those of the problem.
    total : number of the problem's contacts.
    """

    formulation: str
    material: NamedProblem
    contacts: NDArray[np.intp]
    total: int

    def fresh(self) -> NamedProblem:
        """The material made anew: it remembers nothing of an earlier solve."""
        return self.material.in_order(np.arange(self.material.nc))

    def pose(self, made: NamedProblem) -> ClassicCD | CompatibleCD | NoTensionTruss:
        """The formulation of this material.

        Raises
        ------
        Unsupported : a truss has no such formulation.
        """
        kind, _, form = self.formulation.partition("-")
        if made.truss is not None and kind == "truss":
            return NoTensionTruss.of(made.truss, form)
        if made.step is None:
            can = ("truss-complementary", "truss-potential")
            raise Unsupported(self.formulation, "the problem is a truss", can)
        return ClassicCD(made.step, form) if form else CompatibleCD(made.step, made.power)

    def on_all(self, forces: FloatArray) -> FloatArray:
        """Forces of the material on the problem's contacts, in its own order, N."""
        everywhere = np.zeros(self.total)
        everywhere[self.contacts] = forces
        return everywhere

    def shuffled(self, seed: int | None) -> Question:
        """The same question with its contacts in another order; None leaves it."""
        if seed is None:
            return self
        order = np.random.default_rng(seed).permutation(self.material.nc)
        made = self.material.in_order(order)
        return Question(self.formulation, made, self.contacts[order], self.total)


def question(formulation: str, material: NamedProblem) -> Question:
    """The question in the problem's own order; newton finds what a step's truss is.

    Raises
    ------
    SolveFailed : the classic step has no certified answer, so that there is no truss.
    """
    total = material.nc
    if material.step is None or not formulation.startswith("truss"):
        return Question(formulation, material, np.arange(total), total)
    data, contacts = _closed(material.step, material.power)
    return Question(formulation, replace(material, step=None, truss=data), contacts, total)


def _closed(step: Step, power: float) -> tuple[TrussData, NDArray[np.intp]]:
    problem = CompatibleCD(step, power)
    classic = problem.classic_cd.solve("newton")
    if not classic.ok:
        why = "newton has no certified classic answer: which contacts are closed is not known"
        raise SolveFailed(
            why, backend="newton", status=classic.status, problem=problem.classic_cd.data
        )
    network = problem.network(classic)
    return problem.truss(network).data, np.asarray(network.contacts, dtype=np.intp)


def solver(run: Run, makers: Mapping[str, Maker]) -> Backend:
    """The backend of a run.

    Raises
    ------
    Unsupported : it cannot be called in this way, asked for this tolerance, or gain from a start.
    InvalidInput, BackendUnavailable : an unknown name, or one that is not to be had here.
    """
    backend = _made(run, makers)
    if run.mode != "cold" and not backend.capability.warm_start:
        reason = f"{run.backend} called so gains nothing from a start"
        raise Unsupported(f"mode {run.mode!r}", reason, ("cold",))
    return backend


def _made(run: Run, makers: Mapping[str, Maker]) -> Backend:
    if run.call == "direct":
        return Direct(run.backend, run.tolerance)
    if run.backend in makers:
        return makers[run.backend](run.tolerance)
    try:
        return resolve(run.backend, accuracy=run.tolerance)
    except InvalidInput as error:
        if error.argument != "accuracy":
            raise
        raise Unsupported(f"a tolerance of {run.backend}", str(error)) from error


def solve(
    asked: Question, backend: Backend, tol: float, start: StepSolution | None = None
) -> tuple[StepSolution, Times]:
    """One solve, and where its time went."""
    made = asked.fresh()
    began = time.perf_counter()
    found = asked.pose(made).solve(backend, tol=tol, warm_start=start, check=False)
    return found, _times(found, time.perf_counter() - began)


def _times(found: StepSolution, total: float) -> Times:
    """The parts of a solve; both problems of a compatible solution together."""
    parts = dict.fromkeys(_PARTS, 0.0)
    for name, seconds in found.timings.items():
        part = name.rpartition(" ")[2]
        parts[part if part in parts else "solve"] += seconds
    rest = max(total - sum(parts.values()), 0.0)
    return Times(pose=rest, total=total, setup=_setup(found), **parts)


def _setup(found: StepSolution) -> float | None:
    """Seconds of the solver's set-up, by its own clock; None where it tells none."""
    if found.classic is not None:
        return None  # the raw answer is that of the second problem alone
    raw = found.raw
    if isinstance(raw, dict):
        seconds = (
            raw.get("info", {}).get("setup_time") if isinstance(raw.get("info"), dict) else None
        )
        return None if seconds is None else 1e-3 * float(seconds)  # SCS counts milliseconds
    seconds = getattr(getattr(raw, "info", None), "setup_time", None)
    return float(seconds) if seconds else None  # PIQP writes 0 when it was not told to measure
