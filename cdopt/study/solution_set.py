"""Solutions of one problem by several backends, their differences, and failures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks, notebook
from cdopt._util.checks import FloatArray
from cdopt._util.errors import CdoptError, InfeasibilityProof, SolveFailed, Unsupported
from cdopt._util.formatting import against, count, one_line, plain, seconds, short, significant
from cdopt.hyperstatic.network import DENSE_LIMIT, equilibrated, rank_of
from cdopt.problem import ContactProblem, rigid_data
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.study.claims import is_false, missed_by

if TYPE_CHECKING:
    import pandas as pd

DISAGREE = 1e-3  # forces further apart than this share of the largest are different answers
COLUMNS = ("backend", "status", "certificate", "time", "largest [N]", "distance")
_RANK, _RANK_N = 1e-9, 1e-14  # singular values of B and of N below this count as none
_NAN = float("nan")
_INSIDE = 0.99  # share of its normal force with which a force may still be in its cone


@dataclass(frozen=True)
class Row:
    """One line of a table of solutions.

    Attributes
    ----------
    label : the backend, with its settings if labels would be equal.
    status : of the solver.
    ok : whether every certificate is ok.
    verdict : ``ok`` as text, with the worst residual.
    seconds : wall-clock time of the whole solve.
    largest : largest contact force, N; NaN without forces.
    distance : ‖f − reference‖ / ‖reference‖; NaN without either.
    method : the one that the backend chose, if it has several.
    """

    label: str
    status: str
    ok: bool
    verdict: str
    seconds: float
    largest: float
    distance: float
    method: str = ""

    @classmethod
    def of(cls, solution: StepSolution, label: str, reference: FloatArray | None) -> Row:
        """The line of a ``solution``; distances are from the ``reference`` (nc,)."""
        checks.instance("solution", solution, StepSolution)
        label = checks.text("label", label)
        distance = _NAN
        if reference is not None:
            size = None if solution.f is None else solution.f.size
            reference = checks.answer("reference", reference, size)
        if solution.f is not None and reference is not None and reference.any():
            distance = float(np.linalg.norm(solution.f - reference) / np.linalg.norm(reference))
        texts = label, solution.status, solution.ok, verdict(solution)
        method = str(solution.provenance.get("how", "")).partition(",")[0]
        method = "" if method[:1].isdigit() else method  # what one method has spent
        return cls(*texts, solution.seconds, largest_force(solution), distance, method)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text, one entry for each of ``COLUMNS``."""
        distance = f"{self.distance:.1e}" if math.isfinite(self.distance) else "–"
        numbers = seconds(self.seconds), short(self.largest), distance
        status = f"{self.status}: {self.method}" if self.method else self.status
        return self.label, one_line(status, 28), self.verdict, *numbers


class SolutionSet(list[StepSolution]):
    """Solutions of one problem, in the order of the requested backends; printed as a table.

    Attributes
    ----------
    title : what was solved.
    tol : tolerance of the certificates.
    failures : by label, the error of each backend without an answer.
    left_out : backends that were not run, with the reason.
    compatible : the compatible solution, if it was requested.
    """

    compatible: StepSolution | None = None

    def __init__(
        self,
        solutions: Iterable[StepSolution] = (),
        *,
        title: str = "",
        tol: float = TOLERANCE,
        failures: Mapping[str, CdoptError] = MappingProxyType({}),
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(checks.instances("solutions", solutions, StepSolution))
        self.title = checks.text("title", title)
        self.tol = checks.tolerance("tol", tol)
        self.failures = MappingProxyType(dict(checks.mapping("failures", failures)))
        self.left_out = MappingProxyType(dict(checks.mapping("left_out", left_out)))

    @property
    def labels(self) -> list[str]:
        """A distinct name for each solution: the backend, with settings where needed."""
        return distinct([(s.backend, s.provenance.get("settings", {})) for s in self])

    @property
    def certified(self) -> list[StepSolution]:
        """The solutions whose certificates are ok."""
        return [solution for solution in self if solution.ok]

    @property
    def ok(self) -> bool:
        """Whether one of the answers is certified."""
        return bool(self.certified)

    @property
    def reference(self) -> FloatArray | None:
        """(nc,) N, the compatible forces, from which distances are measured; None without them."""
        return None if self.compatible is None else self.compatible.f

    @property
    def proof(self) -> InfeasibilityProof | None:
        """A proof that the problem has no solution, if a failed solve led to one."""
        proofs = (e.proof for e in self.failures.values() if isinstance(e, SolveFailed))
        return next((proof for proof in proofs if proof is not None), None)

    @property
    def force_range(self) -> tuple[float, float]:
        """Range of the largest force of the certified solutions, N."""
        largest = [largest_force(s) for s in self.certified]
        return (min(largest), max(largest)) if largest else (_NAN, _NAN)

    @property
    def force_spread(self) -> float:
        """Largest difference of certified forces at one contact, relative to the largest force."""
        forces = self._forces
        return (
            float(np.max(np.ptp(forces, axis=0) / self._scale, initial=0.0))
            if len(forces)
            else _NAN
        )

    @property
    def _forces(self) -> FloatArray:
        """(certified, nc) N, the certified forces."""
        return np.array([s.f for s in self.certified if s.f is not None])

    @property
    def _scale(self) -> FloatArray | float:
        return float(self._forces.max(initial=0.0)) or 1.0

    def rows(self) -> list[Row]:
        """One row for each solution, and one for the compatible one."""
        pairs = zip(self, self.labels, strict=True)
        rows = [Row.of(solution, label, self.reference) for solution, label in pairs]
        return (
            rows
            if self.compatible is None
            else [*rows, Row.of(self.compatible, "compatible", None)]
        )

    @property
    def summary(self) -> str:
        """A summary of the table, in sentences."""
        if self.proof is None:
            return " ".join([self._success, *self._agreement()])
        claimed = sum(s.claimed for s in self)
        false = f" Yet {count(claimed, 'solver')} claimed success." if claimed else ""
        return proof_text(self.proof) + false

    @property
    def _success(self) -> str:
        """Counts of certified answers, and of claims of success that are near or false."""
        if not self:
            return "No solver has an answer."
        text = f"{len(self.certified)} of {count(len(self), 'answer')} certified at {self.tol:g}"
        missed = [missed_by(s) for s in self if s.claimed and not s.ok]
        false = sum(map(is_false, self))
        if missed:
            by = " to ".join(dict.fromkeys(map(_times, (min(missed), max(missed)))))
            have = "has a residual" if len(missed) == 1 else "have residuals"
            text += f"; {count(len(missed), 'claim')} of success {have} of {by} times {self.tol:g}"
        if false:
            whose = "all" if false == len(missed) else f"{false} of them"
            verb = "is" if false == 1 else "are"
            text += " and is false" if len(missed) == 1 else f"; {whose} {verb} false"
        return f"{text}."

    def _agreement(self) -> list[str]:
        """Sentences on the agreement of the certified answers."""
        if len(self.certified) < 2:
            return []
        return [f"The certified forces differ by {self.force_spread:.0e} of the largest."]

    def as_dict(self, forces: bool = False) -> dict[str, Any]:
        """Plain values for JSON; numbers that are not finite become None.

        Parameters
        ----------
        forces : whether to include every solution's f (nc,), and f_t with friction, N.
        """
        forces = checks.flag("forces", forces)
        rows, (low, high) = self.rows(), self.force_range
        content: dict[str, Any] = plain(
            {
                "title": self.title,
                "tol": self.tol,
                "solutions": [_content(*pair, forces) for pair in zip(rows, self, strict=False)],
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
        """Column names and rows of the printed table."""
        columns = COLUMNS if self.reference is not None else COLUMNS[:-1]
        return [columns, *(row.cells[: len(columns)] for row in self.rows())]

    @property
    def _texts(self) -> list[str]:
        """The text below the table: why backends have no answer, and the summary."""
        failed = [f"{label}: {failure(error)}" for label, error in self.failures.items()]
        left_out = [f"{label}: not asked, {why}" for label, why in self.left_out.items()]
        return [*failed, *left_out, self.summary]

    def _repr_html_(self) -> str:
        header, *rows = self._written
        return notebook.table(self.title, header, rows, *self._texts, left=3)

    def to_frame(self) -> pd.DataFrame:
        """The printed table as a pandas.DataFrame: a row for each solution, numbers in full.

        Its index is the label. Columns: ``status``, ``ok``, ``verdict``, ``seconds``, ``largest``
        (N) and ``distance``, as in ``Row``.
        """
        rows = [vars(row) for row in self.rows()]
        columns = {name: [row[name] for row in rows] for name in Row.__dataclass_fields__}
        return notebook.data_frame(columns, index="label")

    def __str__(self) -> str:
        table = self._written
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        padded = [
            [f"{cell:{'<' if k < 3 else '>'}{widths[k]}}" for k, cell in enumerate(line)]
            for line in table
        ]
        lines = ["  ".join(line).rstrip() for line in padded]
        return "\n".join([self.title, "", *lines, "", *self._texts])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.labels)}; {len(self.failures)} failed)"


class Comparison(SolutionSet):
    """Classic contact dynamics by several backends, and the compatible forces.

    A list of StepSolution, in the order of the backends; printing it gives a table.

    Attributes
    ----------
    step : the step.
    power : exponent p of the compatible forces' contact energy.
    compatible : the compatible solution, or None if it failed or was not requested.
    compatible_failure : why it failed, or None.
    law : of a step with friction, "coulomb" or "associated"; None without friction.

    Other ``fields`` are those of ``SolutionSet``. ``data`` is the problem that was solved, by
    default made from the step.
    """

    def __init__(
        self,
        solutions: Iterable[StepSolution] = (),
        *,
        step: Step,
        power: float = HOOKE,
        compatible: StepSolution | None = None,
        compatible_failure: CdoptError | None = None,
        data: ContactProblem | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(solutions, **fields)
        self.step = checks.instance("step", step, Step)
        self._data: ContactProblem = data or rigid_data(step)
        self.power = checks.power("power", power)
        for name, value, kind in (
            ("compatible", compatible, StepSolution),
            ("compatible_failure", compatible_failure, CdoptError),
        ):
            if value is not None:
                checks.instance(name, value, kind)
        self.compatible = compatible
        self.compatible_failure = compatible_failure
        self.law: str | None = self._data.law if self._data.d > 1 else None

    @property
    def distances(self) -> list[float]:
        """‖f − f_compatible‖ / ‖f_compatible‖ of each solution; NaN if undefined."""
        return [row.distance for row in self.rows()[: len(self)]]

    @property
    def ok(self) -> bool:
        """Whether the compatible answer is certified or, if not requested, one of the others."""
        if self.compatible is None:
            return self.compatible_failure is None and super().ok
        return self.compatible.ok

    @property
    def proof(self) -> InfeasibilityProof | None:
        """A proof that the step has no solution, when a failure led to one."""
        failed = self.compatible_failure
        return super().proof or (failed.proof if isinstance(failed, SolveFailed) else None)

    @property
    def motion_spread(self) -> float:
        """Largest relative difference of v⁺ of certified solutions; for N and p of rates."""
        if not self.certified:
            return _NAN
        data, iterates = self._data, [s.iterate for s in self.certified if s.iterate is not None]
        moving = data.N is None
        unit = data.dof_speed if moving else data.speed
        motions = np.array([i.motion if moving else data.gap(None, i.forces) for i in iterates])
        return float(np.max(np.ptp(motions, axis=0) / unit, initial=0.0))

    @property
    def force_spread(self) -> float:
        """Largest difference of certified forces at one contact, relative to its part's largest.

        With friction, of normal forces, relative to the largest of all.
        """
        return super().force_spread

    @property
    def _scale(self) -> FloatArray | float:
        if self.law is not None:
            return super()._scale
        data = self._data
        largest = data.parts.largest(data.parts.contact, self._forces.max(axis=0))
        visible = self.tol * data.part_force / DISAGREE
        return np.asarray(np.maximum(largest, visible)[data.parts.contact])

    def _agreement(self) -> list[str]:
        compatible, sentences = self.compatible, []
        if len(self.certified) > 1:
            sentences.append(self._spread_text())
        if self.compatible_failure is not None:
            sentences.append(f"There are no compatible forces: {failure(self.compatible_failure)}.")
        elif compatible is not None and compatible.ok:
            sentences.append("The compatible forces are what elastic contacts would carry.")
        elif compatible is not None:
            sentences.append(f"The compatible forces are not certified ({verdict(compatible)}).")
        if self.law == "coulomb":
            sentences.append("Answers under Coulomb's law need not be unique.")
        return sentences

    def _spread_text(self) -> str:
        """How far the certified answers differ, and whether there are several."""
        motions, forces = self.motion_spread, self._forces
        if motions > DISAGREE:
            return f"Certified motions differ by {motions:.1g}."
        if self.force_spread > DISAGREE:
            contact = int(np.argmax(np.ptp(forces, axis=0) / self._scale))
            low, high = short(forces[:, contact].min()), short(forces[:, contact].max())
            where = f"the force at contact {self.step.contact_names[contact]}"
            ranges = f"{where} ranges from {low} N to {high} N"
            return f"Their motions agree, yet {ranges}: {self._uniqueness}."
        away = max(d for s, d in zip(self, self.distances, strict=True) if s.ok)
        if self.compatible is not None and self.compatible.ok and away > DISAGREE:
            return (
                "Their motions and forces agree, yet the compatible forces differ by "
                f"{away:.2g} of their norm: {self._uniqueness}."
            )
        return "Their motions and forces agree: no sign here of more than one answer."

    @property
    def _uniqueness(self) -> str:
        """Whether forces that differ are different solutions, by the rank of loaded contacts.

        If B is badly conditioned, certified forces can differ although the solution is unique.
        """
        answers = [*self.certified, *([self.compatible] if self.compatible else [])]
        answers = [s for s in answers if s.ok and s.f is not None]
        mean = np.mean(np.array([s.f for s in answers]), axis=0)
        loaded = mean > DISAGREE * self._scale
        if self.law is not None:
            cones, iterates = self._data.cones, [s.iterate for s in answers if s.iterate]
            rows = np.mean(np.array([iterate.forces for iterate in iterates]), axis=0)
            size = cones.norms(rows)
            rows[cones.first] *= _INSIDE  # still in the cones where they are well inside
            loaded = (loaded & (cones.distance(rows) <= 1e-14 * size))[cones.contact]
        data = self._data
        known, tol = (data.B, _RANK) if data.N is None else (data.N, _RANK_N)
        B, _ = equilibrated(known[np.flatnonzero(loaded)])
        try:
            rank = rank_of(B, tol * math.sqrt(max(B.shape[0], 1)))
        except Unsupported:
            rank = 0  # not known
        if rank < B.shape[0] and (min(B.shape) <= DENSE_LIMIT or B.shape[0] > B.shape[1]):
            return "the contact forces are not unique"
        if rank < B.shape[0] or self.law is not None:
            return "the contact forces may not be unique (cdopt bounds decides)"
        return (
            "the contact forces are unique, but badly conditioned: a residual of "
            f"{self.tol:.0e} allows such differences"
        )

    def as_dict(self, forces: bool = False) -> dict[str, Any]:
        """As for ``SolutionSet``, with the step, the motions and the compatible solution."""
        forces = checks.flag("forces", forces)
        failed, compatible = self.compatible_failure, None
        if self.compatible is not None:
            compatible = _content(self.rows()[-1], self.compatible, forces)
        dofs = self.step.nv or None
        content: dict[str, Any] = plain(
            {
                "step": {"contacts": self.step.nc, "dofs": dofs, "dt": self.step.dt},
                "power": self.power,
                **super().as_dict(forces),
                "motion_spread": self.motion_spread,
                "compatible": compatible,
                "compatible_failure": None if failed is None else failure(failed),
            }
        )
        return content if self.law is None else {**content, "law": self.law}


def largest_force(solution: StepSolution) -> float:
    """Largest contact force, N; zero without contacts, not-a-number without an answer."""
    return _NAN if solution.f is None else float(solution.f.max(initial=0.0))


def distinct(named: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Labels: the name, with settings if it occurs twice, with a number if still equal."""
    repeated = Counter(name for name, _ in named)
    labels: list[str] = []
    for name, settings in named:
        label = name
        if repeated[name] > 1 and settings:
            label = f"{name} " + " ".join(f"{key}={value}" for key, value in settings.items())
        same = sum(1 for other in labels if other == label or other.startswith(f"{label} #"))
        labels.append(f"{label} #{same + 1}" if same else label)
    return labels


def _content(row: Row, solution: StepSolution, forces: bool) -> dict[str, Any]:
    more = {"seconds": row.seconds, "largest_force": row.largest, "distance": row.distance}
    return {"label": row.label, **solution.as_dict(forces), **more}


def _times(ratio: float) -> str:
    return significant(ratio, 2) if ratio < 1e6 else "more than a million"


def _failure_record(error: CdoptError) -> dict[str, Any]:
    content: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, SolveFailed):
        content["status"] = error.status
        content["proof"] = error.proof and vars(error.proof)
    return content


# --- texts about solutions, failures and proofs of infeasibility ---------------------------


def verdict(solution: StepSolution) -> str:
    """The certificates in a few characters: "ok 7e-11" or "NOT OK 2e-05 momentum"."""
    residuals = [
        (math.inf if math.isnan(residual.value) else residual.value, name, residual)
        for name, certificate in solution.certificates.items()
        for residual in certificate
    ]
    if not residuals:
        return "none"
    _, name, worst = max(residuals, key=lambda entry: entry[0])
    shown = against(worst.value, solution.certificates[name].tol)
    where = f"{name} " if name.startswith("classic") else ""
    return f"ok {shown}" if solution.ok else f"NOT OK {shown} {where}{worst.name}"


def failure(error: CdoptError) -> str:
    """Why a backend has no answer, on one line."""
    if isinstance(error, SolveFailed):
        kind = "infeasible, with proof" if error.proof is not None else "no answer"
        return f"{kind}; solver status {one_line(error.status, 90)!r}"
    return one_line(str(error))


def proof_text(proof: InfeasibilityProof) -> str:
    """A proof of infeasibility as a sentence."""
    return f"Proven infeasible: {str(proof).partition(': ')[2]}."
