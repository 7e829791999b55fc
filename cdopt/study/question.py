"""A problem stated in the formulation of a run, and one timed solve of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.errors import SolveFailed, Unsupported
from cdopt.backends import Backend
from cdopt.formulations import ClassicCD, CompatibleCD, NoTensionTruss
from cdopt.problem import ProblemData
from cdopt.problem.solution import StepSolution
from cdopt.study.named_problem import NamedProblem
from cdopt.study.plan import StudyRun
from cdopt.study.record import Times

_PARTS = ("compile", "solve", "read", "certify")


@dataclass(frozen=True, eq=False)
class Question:
    """A problem and its formulation, with the contacts in some order.

    Attributes
    ----------
    formulation : its name.
    problem : the step, or the truss, in the order of contacts in which it is given.
    contacts : (nc of the problem,) numbers of its contacts in the original problem.
    total : number of contacts of the original problem.
    """

    formulation: str
    problem: NamedProblem
    contacts: NDArray[np.intp]
    total: int

    @classmethod
    def of(cls, problem: NamedProblem, run: StudyRun) -> Question:
        """A problem in the formulation of a run, in its own order of contacts.

        The truss of a step is that of the contacts which the reference backend closes.

        Raises
        ------
        SolveFailed : the classic step has no certified answer, so that there is no truss.
        """
        total = problem.nc
        if problem.step is None or not run.formulation.startswith("truss"):
            return cls(run.formulation, problem, np.arange(total), total)
        compatible_cd = CompatibleCD(problem.step, problem.power)
        classic = compatible_cd.classic_cd.solve(run.reference_backend)
        if not classic.ok:
            raise SolveFailed(
                f"{run.reference_backend} has no certified classic answer: which contacts are "
                "closed is not known",
                backend=run.reference_backend, status=classic.status,
                problem=compatible_cd.classic_cd.data,
            )  # fmt: skip
        network = compatible_cd.network(classic)
        truss = replace(problem, step=None, truss=compatible_cd.truss(network).data)
        contacts = np.asarray(network.contacts, dtype=np.intp)
        return cls(run.formulation, truss, contacts, total)

    def state(self) -> ClassicCD | CompatibleCD | NoTensionTruss:
        """The formulation of the problem.

        Raises
        ------
        Unsupported : a truss has no such formulation.
        """
        kind, _, form = self.formulation.partition("-")
        step, truss = self.problem.step, self.problem.truss
        if truss is not None and kind == "truss":
            return NoTensionTruss.of(truss, form)
        if step is None:
            known = ("truss-complementary", "truss-potential")
            raise Unsupported(self.formulation, "the problem is a truss", known)
        return ClassicCD(step, form) if form else CompatibleCD(step, self.problem.power)

    @property
    def data(self) -> ProblemData:
        """The plain data; of a compatible step, those of its classic problem."""
        stated = self.state()
        return stated.classic_cd.data if isinstance(stated, CompatibleCD) else stated.data

    def on_all(self, forces: FloatArray) -> FloatArray:
        """Forces on the contacts of the original problem, in its own order, N."""
        everywhere = np.zeros(self.total)
        everywhere[self.contacts] = forces
        return everywhere

    def shuffled(self, seed: int | None) -> Question:
        """The same question with its contacts in another order; None leaves it."""
        if seed is None:
            return self
        order = np.random.default_rng(seed).permutation(self.problem.nc)
        problem = self.problem.in_order(order)
        return Question(self.formulation, problem, self.contacts[order], self.total)

    def reordered(self, start: StepSolution, given: Question) -> StepSolution:
        """A solution of this question with its contacts in the order of another one, ``given``."""
        if self is given or start.f is None:
            return start
        place = np.empty(self.total, dtype=np.intp)
        place[self.contacts] = np.arange(self.contacts.size)
        order, ids = place[given.contacts], start.contact_ids
        return replace(
            start,
            f=start.f[order],
            contact_ids=None if ids is None else ids[order],
            classic=None if start.classic is None else self.reordered(start.classic, given),
        )

    def solve(
        self, backend: Backend, tol: float, start: StepSolution | None = None
    ) -> tuple[StepSolution, Times]:
        """One solve, and its times."""
        copy = replace(self, problem=self.problem.in_order(np.arange(self.problem.nc)))
        began = time.perf_counter()  # the copy remembers nothing of an earlier solve
        solution = copy.state().solve(backend, tol=tol, warm_start=start, check=False)
        return solution, _times(solution, time.perf_counter() - began)


def _times(solution: StepSolution, total: float) -> Times:
    """The parts of a solve; both problems of a compatible solution together."""
    parts = dict.fromkeys(_PARTS, 0.0)
    for name, seconds in solution.timings.items():
        part = name.rpartition(" ")[2]
        parts[part if part in parts else "solve"] += seconds
    rest = max(total - sum(parts.values()), 0.0)
    return Times(pose=rest, total=total, setup=_setup(solution), **parts)


def _setup(solution: StepSolution) -> float | None:
    """Seconds of the solver's set-up by its own clock; None where it reports none."""
    if solution.classic is not None:
        return None  # the raw answer is that of the second problem alone
    if isinstance(solution.raw, dict):
        info = solution.raw.get("info")
        milliseconds = info.get("setup_time") if isinstance(info, dict) else None  # SCS
        return None if milliseconds is None else 1e-3 * float(milliseconds)
    seconds = getattr(getattr(solution.raw, "info", None), "setup_time", None)
    return float(seconds) if seconds else None  # PIQP writes 0 when it was not asked to measure
