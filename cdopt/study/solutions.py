"""The answers of several backends to one problem, failures included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from cdopt._util import checks, formatting
from cdopt._util.checks import FloatArray
from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InfeasibilityProof,
    InvalidInput,
    SolveFailed,
    Unsupported,
)
from cdopt.backends import Backend, available, resolve
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.solution import StepSolution
from cdopt.study.formatting import agreement, failure, proof_in_words, verdict

# Backends that run out of time or memory beyond so many contacts: (contacts, reason).
SIZE_LIMITS: dict[str, tuple[int, str]] = {
    "proxqp": (2000, "dense matrices"),
    "daqp": (2000, "dense matrices"),
    "lcp": (500, "a dense tableau"),
    "highs": (4000, "an active set of this size takes from minutes to hours"),
}

DISAGREE = 1e-3  # forces further apart than this share of the largest are different answers

COLUMNS = ("backend", "says", "certificate", "time", "largest [N]", "distance")

# What running a backend may end in that says something about the backend, not about the call.
FAILURES = (SolveFailed, Unsupported, BackendUnavailable)


@dataclass(frozen=True)
class Row:
    """One line of a table of answers.

    Attributes
    ----------
    label : the backend, with its settings where two would read the same.
    says : status in the solver's own words.
    ok : whether every certificate holds.
    verdict : the same with the worst residual, in words.
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

    # --- what the answers have in common -----------------------------------------------

    @property
    def labels(self) -> list[str]:
        """A distinct name for each solution: the backend, with settings where needed."""
        return _distinct([(s.backend, s.provenance.get("settings", {})) for s in self])

    @property
    def certified(self) -> list[StepSolution]:
        """The solutions whose certificates hold."""
        return [solution for solution in self if solution.ok]

    @property
    def reference(self) -> FloatArray | None:
        """(nc,) N, the forces that distances are measured from; None when there are none."""
        return None

    @property
    def proof(self) -> InfeasibilityProof | None:
        """A proof that the problem has no solution, when a backend's failure led to one."""
        found = (e.proof for e in self.failures.values() if isinstance(e, SolveFailed))
        return next((proof for proof in found if proof is not None), None)

    @property
    def force_range(self) -> tuple[float, float]:
        """Smallest and largest of the certified solutions' largest forces, N."""
        tops = [largest_force(s) for s in self.certified]
        return (min(tops), max(tops)) if tops else (float("nan"), float("nan"))

    @property
    def force_spread(self) -> float:
        """How far certified forces differ at one contact, relative to the largest force."""
        forces = [s.f for s in self.certified if s.f is not None]
        if not forces:
            return float("nan")
        return _spread(forces)

    def rows(self) -> list[Row]:
        """One row per solution."""
        pairs = zip(self, self.labels, strict=True)
        return [row(solution, label, self.reference) for solution, label in pairs]

    def table_rows(self) -> list[Row]:
        """The rows of the printed table."""
        return self.rows()

    # --- words and numbers -------------------------------------------------------------

    @property
    def summary(self) -> str:
        """What the table shows, in plain words."""
        if self.proof is not None:
            text = proof_in_words(self.proof)
            claimed = sum(s.claimed for s in self)
            if claimed:
                text += f" Yet {formatting.count(claimed, 'solver')} claimed success."
            return text
        spread, text = self.force_spread, success(self)
        if len(self.certified) > 1:
            agree = f"agree {agreement(spread)}"
            differ = f"differ by {spread:.0e} of the largest"
            text += f"; the certified forces {differ if spread > DISAGREE else agree}"
        return text + "."

    def as_dict(self, forces: bool = False) -> dict[str, Any]:
        """Plain values for JSON; numbers that are not finite become None.

        Parameters
        ----------
        forces : whether to include every solution's f (nc,), N.
        """
        entries = [record(s, r, forces) for s, r in zip(self, self.rows(), strict=True)]
        failures = {label: _failure_record(e) for label, e in self.failures.items()}
        low, high = self.force_range
        content = {
            "title": self.title,
            "tol": self.tol,
            "solutions": entries,
            "failures": failures,
            "left_out": dict(self.left_out),
            "certified": len(self.certified),
            "force_range": {"lowest": low, "highest": high},
            "force_spread": self.force_spread,
            "summary": self.summary,
        }
        result: dict[str, Any] = formatting.plain(content)
        return result

    def __str__(self) -> str:
        head = COLUMNS if self.reference is not None else COLUMNS[:-1]
        table = [head, *(cells(r)[: len(head)] for r in self.table_rows())]
        widths = [max(len(line[i]) for line in table) for i in range(len(head))]
        lines = [self.title, ""]
        for line in table:
            text = [c.ljust(w) for c, w in zip(line[:3], widths[:3], strict=True)]
            text += [c.rjust(w) for c, w in zip(line[3:], widths[3:], strict=True)]
            lines.append("  ".join(text).rstrip())
        lines.append("")
        lines += [f"{label}: {failure(error)}" for label, error in self.failures.items()]
        lines += [f"{label}: not asked, {reason}" for label, reason in self.left_out.items()]
        return "\n".join([*lines, self.summary])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.labels)}; {len(self.failures)} failed)"


def cells(line: Row) -> tuple[str, ...]:
    """A row as text, one entry per entry of ``COLUMNS``."""
    return (
        line.label,
        formatting.one_line(line.says, 28),
        line.verdict,
        formatting.seconds(line.seconds),
        formatting.short(line.largest),
        f"{line.distance:.1e}" if np.isfinite(line.distance) else "–",
    )


def largest_force(solution: StepSolution) -> float:
    """Largest contact force, N; zero without contacts, not-a-number without an answer."""
    return float("nan") if solution.f is None else float(solution.f.max(initial=0.0))


def distance(f: FloatArray | None, reference: FloatArray | None) -> float:
    """‖f − reference‖ / ‖reference‖; not-a-number where that means nothing."""
    if f is None or reference is None:
        return float("nan")
    scale = float(np.linalg.norm(reference))
    return float(np.linalg.norm(f - reference)) / scale if scale > 0.0 else float("nan")


def row(solution: StepSolution, label: str, reference: FloatArray | None) -> Row:
    """The table's line of one solution."""
    return Row(
        label,
        solution.status,
        solution.ok,
        verdict(solution),
        solution.seconds,
        largest_force(solution),
        distance(solution.f, reference),
    )


def record(solution: StepSolution, line: Row, forces: bool) -> dict[str, Any]:
    """One solution as plain values."""
    content = {
        "label": line.label,
        **solution.as_dict(),
        "seconds": line.seconds,
        "largest_force": line.largest,
        "distance": line.distance,
    }
    return {**content, "f": solution.f} if forces else content


def success(solutions: SolutionSet) -> str:
    """How many solvers claim success, and how many certificates hold."""
    claimed, held = sum(s.claimed for s in solutions), len(solutions.certified)
    verb = "reports" if claimed <= 1 else "report"
    text = formatting.count(claimed, "solver") + f" {verb} success"
    text = text[0].upper() + text[1:]
    link = "and" if held == claimed else "but only" if held < claimed else "while"
    number = f"{held}" if held else "no"
    noun = "certificate holds" if held <= 1 else "certificates hold"
    if held == 0:
        link = "and" if claimed == 0 else "but"
    return f"{text} {link} {number} {noun} at {solutions.tol:g}"


def attempt(
    solve: Callable[[Backend], StepSolution],
    backends: Sequence[str | Backend],
    progress: Callable[[str], None] | None = None,
) -> tuple[list[StepSolution], dict[str, CdoptError]]:
    """Solve with each backend; a backend that fails is a result too.

    Parameters
    ----------
    solve : solves with one backend.
    backends : names or settings objects.
    progress : told the label of each backend before it runs.

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
    labels = _distinct(
        [
            (b, {}) if isinstance(b, str) else (b.name, getattr(b, "settings", {}))
            for b, _ in resolved
        ]
    )
    for (backend, unavailable), label in zip(resolved, labels, strict=True):
        if unavailable is not None or isinstance(backend, str):
            failures[label] = unavailable or BackendUnavailable(label, "unknown reason")
            continue
        if progress is not None:
            progress(label)
        try:
            solutions.append(solve(backend))
        except FAILURES as error:
            failures[label] = error
    return solutions, failures


def _resolved(backend: str | Backend) -> tuple[str | Backend, CdoptError | None]:
    try:
        return resolve(backend), None
    except BackendUnavailable as error:
        return error.backend, error


def _distinct(named: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Labels: the name, with settings when it occurs twice, with a number when still alike."""
    repeated = Counter(name for name, _ in named)
    labels: list[str] = []
    for name, settings in named:
        label = name
        if repeated[name] > 1 and settings:
            label = f"{name} " + " ".join(f"{key}={value}" for key, value in settings.items())
        same = sum(1 for other in labels if other == label or other.startswith(f"{label} #"))
        labels.append(f"{label} #{same + 1}" if same else label)
    return labels


def _spread(forces: Sequence[FloatArray]) -> float:
    stacked = np.stack(forces)
    top = float(stacked.max(initial=0.0))
    return float(np.ptp(stacked, axis=0).max(initial=0.0)) / top if top > 0.0 else 0.0


def _failure_record(error: CdoptError) -> dict[str, Any]:
    content: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, SolveFailed):
        content["status"] = error.status
        proof = error.proof
        content["proof"] = None if proof is None else {
            "kind": proof.kind,
            "vector": proof.vector,
            "value": proof.value,
            "violation": proof.violation,
        }  # fmt: skip
    return content


def choose_backends(
    contacts: int,
    candidates: Sequence[str] | None = None,
    problem_class: str = "QP",
    kinds: Sequence[str] = ("rigid step",),
) -> tuple[list[str], dict[str, str]]:
    """Available backends that suit a problem, and the others with the reason.

    Parameters
    ----------
    contacts : number of contacts.
    candidates : names to choose from; those not available are passed over. Default all.
    problem_class : what the problem needs of a modelled solver, "QP" or "SOCP".
    kinds : kinds of plain data that a structured solver must take.
    """
    chosen: list[str] = []
    left_out: dict[str, str] = {}
    for name in available():
        if candidates is not None and name not in candidates:
            continue
        limit, reason = SIZE_LIMITS.get(name, (contacts, ""))
        able = resolve(name).capability
        if not able.classes and not able.structured.issuperset(kinds):
            left_out[name] = f"for {' and '.join(sorted(able.structured))} problems only"
        elif able.classes and problem_class not in able.classes:
            left_out[name] = "no second-order cones, which powers other than 2 need"
        elif contacts > limit:
            left_out[name] = f"{reason}; {contacts} contacts exceed {limit}"
        else:
            chosen.append(name)
    return chosen, left_out
