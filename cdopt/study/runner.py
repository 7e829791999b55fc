"""Carrying out a plan: missing runs are made one after the other, or by any executor."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.study.plan import Plan, StudyRun
from cdopt.study.process import check_plugins, make
from cdopt.study.record import LIMITED, Record, opened, outcomes

_DASK = "pip install 'cdopt[dask]'"
_CONNECT_SECONDS = 30.0  # for the scheduler to answer


@dataclass(frozen=True)
class Study:
    """The result of a plan.

    Attributes
    ----------
    records : one for each run of the plan that was made, now or earlier, in the plan's order.
    made : number of runs made now.
    lost : why the executor gave no record, by run; such runs count as not made.
    """

    records: tuple[Record, ...]
    made: int
    lost: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        lost = f", {len(self.lost):,} lost" if self.lost else ""
        return f"Study({outcomes(self.records)}; {self.made:,} made now{lost})"


def run(
    plan: Plan,
    out: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool | ProgressCallback = False,
) -> Study:
    """Make the runs of a plan, each in a process of its own.

    Parameters
    ----------
    plan : the plan.
    out : folder of the study, or its ``.jsonl`` file, to which each record is added when its run
        ends. Runs that are there already are not repeated, unless they were interrupted, ended
        with an error, or stopped at a limit lower than the present one. Without it, records are
        only returned.
    executor : makes the runs, such as that of ``dask_executor``; None: one at a time, here.
        Two runs at once on one machine disturb each other's times.
    progress : True for a bar on stderr, or a function of (done, total, text).

    Raises
    ------
    InvalidInput : a file that cannot be used, or is not a study's; or a plugin that
        does not work.
    KeyboardInterrupt : all finished runs are on the disk; the same call continues.
    """
    check_plugins(plan.plugins, plan.backends, plan.tolerances)
    with contextlib.ExitStack() as stack:
        records_by_id: dict[str, Record] = {}
        append = None
        if out is not None:
            earlier, append = stack.enter_context(opened(out))
            records_by_id = {record.id: record for record in earlier}
        missing = [run for run in plan.runs if not _settled(records_by_id.get(run.id), plan)]
        report = stack.enter_context(progress_bar(progress, "runs"))
        report(0, len(missing), "")
        made, lost = 0, dict[str, str]()
        if executor is None:
            records: Iterator[Record] = (
                make(run, plan.time_limit, plan.memory_limit) for run in missing
            )
        else:
            records = _by(executor, missing, plan, lost)
        for record in records:
            if append is not None:
                append(record)
            made += 1
            records_by_id[record.id] = record
            report(made, len(missing), f"{record.run.label}: {record.outcome}")
        kept = [records_by_id[run.id] for run in plan.runs if run.id in records_by_id]
        return Study(tuple(kept), made, lost)


def _settled(record: Record | None, plan: Plan) -> bool:
    """Whether a run need not be repeated."""
    if record is None or record.outcome in ("interrupted", "error"):
        return False
    if record.outcome not in LIMITED:
        return True
    if record.outcome == "timeout":
        return plan.time_limit <= record.time_limit
    if plan.memory_limit is None or record.memory_limit is None:
        return True
    return plan.memory_limit <= record.memory_limit


def _by(
    executor: Executor, missing: list[StudyRun], plan: Plan, lost: dict[str, str]
) -> Iterator[Record]:
    """Records as the executor finishes them; ``lost`` gets the reason for each that it loses."""
    futures = {
        executor.submit(make, run, plan.time_limit, plan.memory_limit): run for run in missing
    }
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


@contextlib.contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster as an executor for ``run``.

    Give each machine one worker with one thread (``dask worker ADDRESS --nthreads 1``): runs side
    by side on one machine disturb each other's times. When a worker dies, another repeats its run.
    All workers must find files of problems and plugins under the same paths.

    Parameters
    ----------
    address : of the scheduler, ``tcp://host:8786``.

    Raises
    ------
    Unsupported : Dask is not installed here.
    InvalidInput : no scheduler answers at the address.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise Unsupported("a Dask cluster", "distributed is not installed", (_DASK,)) from error
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        found = f"{address}: {str(error) or type(error).__name__}"
        raise InvalidInput("dask", found, "the address of a scheduler") from error
    with client:
        yield client.get_executor()
