"""Records of runs that never were, with numbers chosen by hand."""

from __future__ import annotations

from cdopt.study import ProblemSource, StudyRun
from cdopt.study.record import Answer, Ended, Forces, Machine, Record, Stability, Times

MACHINE = Machine("bench", "a processor", "Linux", "3.11.7", 2, 8000.0, {"cvxpy": "1.9.3"})


def record(
    problem: str, backend: str, outcome: str = "solved", seconds: float = 1.0, *,
    tolerance: float | None = 1e-6, contacts: int = 4, worst: float | None = None,
    claimed: bool | None = None, forces: Forces | None = None,
    stability: Stability | None = None, formulation: str = "classic-force",
    machine: Machine = MACHINE, message: str = "", **run: object,
) -> Record:  # fmt: skip
    asked = StudyRun(ProblemSource(problem), formulation, backend, tolerance, **run)
    answered = outcome in ("solved", "wrong", "gave up")
    ok = outcome == "solved"
    worst = (1e-9 if ok else 1.0) if worst is None else worst
    claimed = outcome != "gave up" if claimed is None else claimed
    certified = (claimed, ok, tolerance or 1e-6, worst, {})
    answer = Answer("fine", *certified, 10, 1.0, {"eps": 1e-6}, contacts, 2)
    times = (Times(0.0, 0.0, seconds, 0.0, 0.0, seconds),) * asked.repeats
    return Record(
        outcome, message, answer if answered else None, times if answered else (), forces,
        stability, 100.0, 90.0, id=asked.id, run=asked, time_limit=60.0, memory_limit=None,
        ended=Ended(0, None, "", 2.0), machine=machine, date="2026-01-01T00:00:00Z",
    )  # fmt: skip
