"""The solutions of one problem by several backends, failures included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks, formatting, notebook
from cdopt._util.checks import FloatArray
from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InfeasibilityProof,
    InvalidInput,
    SolveFailed,
    Unsupported,
)
from cdopt._util.progress import progress_bar
from cdopt.backends import Backend, available, resolve
from cdopt.backends.registry import SOLVERS, Solver
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.solution import StepSolution
from cdopt.study.formatting import agreement, failure, proof_text, verdict

if TYPE_CHECKING:
    import pandas as pd

DISAGREE = 1e-3  # forces further apart than this share of the largest are different answers
COLUMNS = ("backend", "says", "certificate", "time", "largest [N]", "distance")
FAILURES = (SolveFailed, Unsupported, BackendUnavailable)  # of a backend; others are the caller's


@dataclass(frozen=True)
class Row:
    """One line of a table of solutions.

    Attributes
    ----------
    label : the backend, with its settings where two labels would be equal.
    says : the solver's own status.
    ok : whether every certificate holds.
    verdict : the same as text, with the worst residual.
    seconds : wall-clock time of the whole solve.
    largest : largest contact force, N; not-a-number without forces.
    distance : ‖f − reference‖ / ‖reference‖; not-a-number without either.
    """

    label: str
    says: str
    ok: bool
    verdict: str
    seconds: float
    largest: float
    distance: float

    @classmethod
    def of(cls, solution: StepSolution, label: str, reference: FloatArray | None) -> Row:
        """The line of a ``solution``; distances are from the ``reference`` (nc,)."""
        distance = float("nan")
        if solution.f is not None and reference is not None:
            scale = float(np.linalg.norm(reference))
            if scale > 0.0:
                distance = float(np.linalg.norm(solution.f - reference)) / scale
        return cls(
            label,
            solution.status,
            solution.ok,
            verdict(solution),
            solution.seconds,
            largest_force(solution),
            distance,
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text, one entry for each of ``COLUMNS``."""
        return (
            self.label,
            formatting.one_line(self.says, 28),
            self.verdict,
            formatting.seconds(self.seconds),
            formatting.short(self.largest),
            f"{self.distance:.1e}" if np.isfinite(self.distance) else "–",
        )

    def as_dict(self, solution: StepSolution, forces: bool) -> dict[str, Any]:
        """The row and its ``solution`` as plain values, with its f (nc,) if ``forces``."""
        return {
            "label": self.label,
            **solution.as_dict(forces),
            "seconds": self.seconds,
            "largest_force": self.largest,
            "distance": self.distance,
        }


class SolutionSet(list[StepSolution]):
    """Solutions of one problem, in the order of the backends asked for.

    Attributes
    ----------
    title : what was solved.
    tol : tolerance of the certificates.
    failures : error of each backend that has no answer, by label.
    left_out : backends that were not asked, with the reason.
    """

    def __init__(
        self,
        solutions: Iterable[StepSolution] = (),
        *,
        title: str = "",
        tol: float = TOLERANCE,
        failures: Mapping[str, CdoptError] = MappingProxyType({}),
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(solutions)
        self.title = title
        self.tol = tol
        self.failures = MappingProxyType(dict(failures))
        self.left_out = MappingProxyType(dict(left_out))

    @property
    def labels(self) -> list[str]:
        """A distinct name for each solution: the backend, with settings where needed."""
        return _distinct([(s.backend, s.provenance.get("settings", {})) for s in self])

    @property
    def certified(self) -> list[StepSolution]:
        """The solutions whose certificates hold."""
        return [solution for solution in self if solution.ok]

    @property
    def ok(self) -> bool:
        """Whether one of the answers is certified."""
        return bool(self.certified)

    @property
    def reference(self) -> FloatArray | None:
        """(nc,) N, the forces that distances are measured from; None when there are none."""
        return None

    @property
    def proof(self) -> InfeasibilityProof | None:
        """A proof that the problem has no solution, when a backend's failure led to one."""
        proofs = (e.proof for e in self.failures.values() if isinstance(e, SolveFailed))
        return next((proof for proof in proofs if proof is not None), None)

    @property
    def force_range(self) -> tuple[float, float]:
        """Smallest and largest of the certified solutions' largest forces, N."""
        largest = [largest_force(s) for s in self.certified]
        return (min(largest), max(largest)) if largest else (float("nan"), float("nan"))

    @property
    def force_spread(self) -> float:
        """How far certified forces differ at one contact, relative to the largest force."""
        forces = [s.f for s in self.certified if s.f is not None]
        if not forces:
            return float("nan")
        stacked = np.stack(forces)
        largest = float(stacked.max(initial=0.0))
        return float(np.ptp(stacked, axis=0).max(initial=0.0)) / largest if largest > 0.0 else 0.0

    def rows(self) -> list[Row]:
        """One row for each solution."""
        pairs = zip(self, self.labels, strict=True)
        return [Row.of(solution, label, self.reference) for solution, label in pairs]

    def table_rows(self) -> list[Row]:
        """The rows of the printed table."""
        return self.rows()

    @property
    def summary(self) -> str:
        """What the table shows, in sentences."""
        if self.proof is not None:
            text = proof_text(self.proof)
            claimed = sum(s.claimed for s in self)
            if claimed:
                text += f" Yet {formatting.count(claimed, 'solver')} claimed success."
            return text
        text = self._success()
        if len(self.certified) > 1:
            spread = self.force_spread
            different = f"differ by {spread:.0e} of the largest"
            equal = f"agree {agreement(spread)}"
            text += f"; the certified forces {different if spread > DISAGREE else equal}"
        return text + "."

    def _success(self) -> str:
        """How many solvers report success, and which answers are certified."""
        if not self:
            return "No solver has an answer"
        claimed = [s for s in self if s.claimed]
        number, true = len(claimed), sum(s.ok for s in claimed)
        modest = len(self.certified) - true
        text = "No solver reports success"
        if claimed:
            which = "all " if number > 1 else ""
            if true < number:
                which = f"{true} of them " if true else "none " if number > 1 else "not "
            text = (
                f"{formatting.count(number, 'solver')} report{'s' if number == 1 else ''} success, "
            )
            text += f"{which}certified at {self.tol:g}"
        if modest:
            text += f"; {formatting.count(modest, 'answer')} certified without a report of success"
        return text

    def as_dict(self, forces: bool = False) -> dict[str, Any]:
        """Plain values for JSON; numbers that are not finite become None.

        Parameters
        ----------
        forces : whether to include every solution's f (nc,), N.
        """
        pairs = zip(self.rows(), self, strict=True)
        low, high = self.force_range
        content: dict[str, Any] = formatting.plain(
            {
                "title": self.title,
                "tol": self.tol,
                "solutions": [row.as_dict(solution, forces) for row, solution in pairs],
                "failures": {label: _failure_record(e) for label, e in self.failures.items()},
                "left_out": dict(self.left_out),
                "certified": len(self.certified),
                "force_range": {"lowest": low, "highest": high},
                "force_spread": self.force_spread,
                "summary": self.summary,
            }
        )
        return content

    @property
    def _written(self) -> list[tuple[str, ...]]:
        """The names of the columns and the rows of the printed table."""
        columns = COLUMNS if self.reference is not None else COLUMNS[:-1]
        return [columns, *(row.cells[: len(columns)] for row in self.table_rows())]

    @property
    def _without_answer(self) -> list[str]:
        """Why each backend without an answer has none."""
        failed = [f"{label}: {failure(error)}" for label, error in self.failures.items()]
        return [*failed, *(f"{label}: not asked, {why}" for label, why in self.left_out.items())]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        header, *rows = self._written
        texts = (*self._without_answer, self.summary)
        return notebook.table(self.title, header, rows, *texts, left=3)

    def to_frame(self) -> pd.DataFrame:
        """The printed table as a pandas.DataFrame: a row for each solution, numbers in full.

        Its index is the label. Columns: ``says``, ``ok``, ``verdict``, ``seconds``, ``largest``
        (N) and ``distance``, as in ``Row``.
        """
        rows = [vars(row) for row in self.table_rows()]
        columns = {name: [row[name] for row in rows] for name in Row.__dataclass_fields__}
        return notebook.data_frame(columns, index="label")

    def __str__(self) -> str:
        table = self._written
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [self.title, ""]
        for line in table:
            padded = [
                cell.ljust(width) if k < 3 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            lines.append("  ".join(padded).rstrip())
        lines.append("")
        return "\n".join([*lines, *self._without_answer, self.summary])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.labels)}; {len(self.failures)} failed)"


def largest_force(solution: StepSolution) -> float:
    """Largest contact force, N; zero without contacts, not-a-number without an answer."""
    return float("nan") if solution.f is None else float(solution.f.max(initial=0.0))


def attempt(
    solve: Callable[[Backend], StepSolution],
    backends: Sequence[str | Backend],
    progress: bool | Callable[[str], None] | None = None,
    finished: Callable[[str, StepSolution | CdoptError], None] | None = None,
) -> tuple[list[StepSolution], dict[str, CdoptError]]:
    """Solve with each backend; the failure of a backend is a result too.

    Parameters
    ----------
    solve : solves with one backend.
    backends : names or settings objects.
    progress : True for a bar, or a function of the label of each backend before it runs.
    finished : called with the label of each backend that ran and its solution or failure.

    Returns
    -------
    The solutions in order, and the error of each other backend by its label.

    Raises
    ------
    InvalidInput : an unknown backend, no backend at all, or arguments no backend could use.
    """
    if isinstance(backends, str) or not isinstance(backends, Sequence) or not backends:
        raise InvalidInput("backends", checks.describe(backends), "a list of names or settings")
    solutions: list[StepSolution] = []
    failures: dict[str, CdoptError] = {}
    resolved = [_resolved(backend) for backend in backends]
    names = [
        (b.backend, {})
        if isinstance(b, BackendUnavailable)
        else (b.name, getattr(b, "settings", {}))
        for b in resolved
    ]
    with progress_bar(progress is True, "solvers") as bar:
        for k, (backend, label) in enumerate(zip(resolved, _distinct(names), strict=True)):
            bar(k, len(resolved), label)
            if isinstance(backend, BackendUnavailable):
                failures[label] = backend
                continue
            if callable(progress):
                progress(label)
            outcome: StepSolution | CdoptError
            try:
                outcome = solve(backend)
                solutions.append(outcome)
            except FAILURES as error:
                outcome = failures[label] = error
            if finished is not None:
                finished(label, outcome)
    return solutions, failures


def _resolved(backend: str | Backend) -> Backend | BackendUnavailable:
    try:
        return resolve(backend)
    except BackendUnavailable as error:
        return error


def _distinct(named: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Labels: the name, with settings when it occurs twice, with a number when still equal."""
    repeated = Counter(name for name, _ in named)
    labels: list[str] = []
    for name, settings in named:
        label = name
        if repeated[name] > 1 and settings:
            label = f"{name} " + " ".join(f"{key}={value}" for key, value in settings.items())
        same = sum(1 for other in labels if other == label or other.startswith(f"{label} #"))
        labels.append(f"{label} #{same + 1}" if same else label)
    return labels


def _failure_record(error: CdoptError) -> dict[str, Any]:
    content: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, SolveFailed):
        content["status"] = error.status
        fields = ("kind", "vector", "value", "violation")
        content["proof"] = error.proof and {name: getattr(error.proof, name) for name in fields}
    return content


def choose_backends(
    contacts: int,
    problem_class: str = "QP",
    kinds: Sequence[str] = ("rigid step",),
    dofs: int = 0,
) -> tuple[list[str], dict[str, str]]:
    """Available backends that suit a problem, and the others with the reason.

    Parameters
    ----------
    contacts : number of contacts.
    problem_class : what the problem needs of a solver that CVXPY reaches, "QP" or "SOCP".
    kinds : kinds of plain data that one of cdopt's own solvers must take.
    dofs : number of degrees of freedom, which solvers with dense matrices count too.
    """
    chosen: list[str] = []
    left_out: dict[str, str] = {}
    for name in available():
        known = SOLVERS.get(name)
        too_large = "" if known is None else _too_large(known, contacts, dofs)
        capability = resolve(name).capability
        if name == "auto":
            left_out[name] = "chooses among cdopt's own solvers, which take part themselves"
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
    """Why a problem of this size is too large for a solver; empty when it is not."""
    unknowns = contacts + dofs
    sizes = (
        (solver.most_contacts, contacts, "contacts"),
        (solver.most_unknowns, unknowns, "contacts and degrees of freedom"),
    )
    for most, number, noun in sizes:
        if most is not None and number > most[0]:
            return f"{most[1]}; {number:,} {noun} exceed {most[0]:,}"
    return ""
