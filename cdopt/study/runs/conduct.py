"""Carrying out a plan: what is missing is run, one after the other or by any executor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.study.runs.plan import Plan
from cdopt.study.runs.process import make
from cdopt.study.runs.record import LIMITED, Record
from cdopt.study.runs.run import Run
from cdopt.study.runs.store import Writer, opened


@dataclass(frozen=True)
class Study:
    """What came of a plan.

    Attributes
    ----------
    records : one for each run of the plan that was made, now or earlier, in the plan's order.
    made : number of runs made now.
    lost : why the executor gave no record, by run; such runs count as not made.
    """

    records: tuple[Record, ...]
    made: int
    lost: Mapping[str, str] = field(default_factory=dict)


def conduct(
    plan: Plan,
    out: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool | ProgressCallback = False,
) -> Study:
    """Make the runs of a plan, each in a process of its own.

    Parameters
    ----------
    plan : the plan.
    out : folder of the study, or its ``.jsonl`` file, to which each record is added as it comes.
        Runs that are there already are not made again, unless they were interrupted, or stopped
        at a limit lower than today's. Without it, records are only returned.
    executor : makes the runs, as ``cdopt.study.runs.process.make``; None: one at a time, here.
        Two runs at once on one machine disturb each other's times.
    progress : True for a bar on stderr, or a function of (done, total, text).

    Raises
    ------
    InvalidInput : not a plan, or a file that cannot be used, or is not a study's.
    KeyboardInterrupt : after what was made is on the disk; call again to go on.
    """
    if not isinstance(plan, Plan):
        raise InvalidInput("plan", checks.describe(plan), "a Plan")
    with contextlib.ExitStack() as stack:
        writer: Writer | None = None
        earlier: list[Record] = []
        if out is not None:
            earlier, writer = stack.enter_context(opened(out))
        known = {r.id: r for r in earlier}
        todo = [run for run in plan.runs if not _settled(known.get(run.id), plan)]
        tell = stack.enter_context(progress_bar(progress, "runs"))
        tell(0, len(todo), "")
        lost: dict[str, str] = {}
        made = 0
        for found in _here(todo, plan) if executor is None else _by(executor, todo, plan, lost):
            if writer is not None:
                writer.add(found)
            made += 1
            known[found.id] = found
            tell(made, len(todo), f"{found.run.label}: {found.outcome}")
        records = tuple(known[run.id] for run in plan.runs if run.id in known)
        return Study(records, made, lost)


def _settled(record: Record | None, plan: Plan) -> bool:
    """Whether a run need not be made again."""
    if record is None or record.outcome == "interrupted":
        return False
    if record.outcome not in LIMITED:
        return True
    if record.outcome == "timeout":
        return plan.time_limit <= record.time_limit
    if plan.memory_limit is None or record.memory_limit is None:
        return True
    return plan.memory_limit <= record.memory_limit


def _here(todo: list[Run], plan: Plan) -> Iterator[Record]:
    for run in todo:
        yield make(run, plan.time_limit, plan.memory_limit)


def _by(executor: Executor, todo: list[Run], plan: Plan, lost: dict[str, str]) -> Iterator[Record]:
    """Records as the executor brings them; what it loses is told apart."""
    futures = {executor.submit(make, run, plan.time_limit, plan.memory_limit): run for run in todo}
    try:
        for future in as_completed(futures):
            error = future.exception()
            if error is None:
                yield future.result()
            else:
                lost[futures[future].id] = f"{type(error).__name__}: {error}"
    finally:
        for future in futures:
            future.cancel()
