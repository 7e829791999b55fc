"""Records of runs that never were, with numbers chosen by hand."""

from __future__ import annotations

from cdopt.study import ProblemSource, StudyRun
from cdopt.study.record import Answer, Ended, Forces, Machine, Record, Stability, Times

MACHINE = Machine(
    host="bench", processor="a processor", system="Linux", python="3.11.7", cores=2, memory=8000.0,
    versions={"cvxpy": "1.9.3"},
)  # fmt: skip


def record(
    problem: str, backend: str, outcome: str = "solved", seconds: float = 1.0, *,
    tolerance: float | None = 1e-6, contacts: int = 4, worst: float | None = None,
    claimed: bool | None = None, forces: Forces | None = None, iterations: int | None = 10,
    stability: Stability | None = None, formulation: str = "classic-force",
    machine: Machine = MACHINE, message: str = "", **run: object,
) -> Record:  # fmt: skip
    asked = StudyRun(ProblemSource(problem), formulation, backend, tolerance, **run)
    answered = outcome in ("solved", "wrong", "gave up")
    ok = outcome == "solved"
    found = (1e-9 if ok else 1.0) if worst is None else worst
    said = (outcome != "gave up") if claimed is None else claimed
    answer = None
    if answered:
        answer = Answer(
            status="fine", claimed=said, ok=ok, tol=tolerance or 1e-6, worst=found, residuals={},
            iterations=iterations, objective=1.0, settings={"eps": 1e-6}, contacts=contacts, dofs=2,
        )  # fmt: skip
    once = Times(pose=0.0, compile=0.0, solve=seconds, read=0.0, certify=0.0, total=seconds)
    return Record(
        id=asked.id, run=asked, outcome=outcome, message=message, answer=answer,
        times=(once,) * asked.repeats if answered else (), forces=forces, stability=stability,
        memory=100.0, memory_before=90.0, time_limit=60.0, memory_limit=None,
        ended=Ended(code=0, signal=None, stage="", seconds=2.0), machine=machine,
        date="2026-01-01T00:00:00Z",
    )  # fmt: skip
