"""Carrying out a plan: every missing run in a separate process, here or by any executor.

Every run has a record: of an answer, an exception, a crash, a timeout, or lack of memory. A process
that was ended from outside is recorded as interrupted, not as a crash.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import logging
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numba
from threadpoolctl import threadpool_limits

from cdopt._util import checks
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.formatting import count
from cdopt._util.processes import Worker, killed_for_memory, limit_memory
from cdopt._util.processes import memory_limit as default_memory_limit
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.backends import Backend
from cdopt.backends.registry import known_names
from cdopt.backends.time_limit import warm_up
from cdopt.study.measure import code_of, makers, measure
from cdopt.study.plan import Plan, StudyRun
from cdopt.study.record import Ended, Findings, Record, machine, opened, outcomes

_DASK = "pip install distributed"
_CONNECT_SECONDS = 30.0  # for the scheduler to answer
_LOOK_SECONDS = 10.0  # without a record, after which the executor is checked
LOGGER = logging.getLogger("cdopt.study")

_WORKING = "a factory of backends that works"
START_LIMIT = 300.0  # s: imports, reading the problem, loops compiled for the first time
PREPARING = ("start", "load", "warm up")  # stages with this limit
_READ, _KEPT = 1 << 16, 4000  # bytes of stderr that are read, and characters kept
_FAULT, _MODULES = "Fatal Python error:", "Extension modules:"  # as the fault handler writes
_NO_MEMORY = (  # what runtimes write when an allocation fails
    "MemoryError",
    "bad_alloc",
    "memory allocation of",
    "Cannot allocate memory",
    "out of memory",
)
_FROM_OUTSIDE = {"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"}  # solvers do not end themselves by these
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True)
class Study:
    """The result of a plan.

    Attributes
    ----------
    records : one for each run of the plan that was made, now or before, in the order of the plan.
    made : number of runs made now.
    lost : by run, why the executor returned no record; such runs count as not made.
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
    """Make the runs of a plan, each in a separate process.

    Parameters
    ----------
    plan : the plan.
    out : folder of the study, or its ``.jsonl`` file, to which each record is added when its run
        ends. Runs that are there already are not repeated, unless they were interrupted, ended
        with an error, or stopped at a limit lower than the present one. Without ``out``, records
        are only returned.
    executor : makes the runs, such as that of ``dask_executor``; None: one at a time, here.
        Two runs at once on one machine disturb each other's times.
    progress : True for a bar on stderr, or a function of (done, total, text).

    Raises
    ------
    InvalidInput : a file that cannot be used or is not of a study, or a plugin that fails.
    KeyboardInterrupt : all finished runs are saved; the same call continues the study.
    """
    checks.instance("plan", plan, Plan)
    names, code = check_plugins(plan.plugins, plan.backends, plan.tolerances)
    runs = [replace(one, code=code) if one.backend in names else one for one in plan.runs]
    with contextlib.ExitStack() as stack:
        records_by_id: dict[str, Record] = {}
        append = None
        if out is not None:
            earlier, append = stack.enter_context(opened(out))
            records_by_id = {record.id: record for record in earlier}
        missing = [run for run in runs if not _settled(records_by_id.get(run.id), plan)]
        changed = _changed(missing, records_by_id.values())
        if changed:
            LOGGER.warning("%s changed: %s made again", changed, count(len(missing), "run"))
        report = stack.enter_context(progress_bar(progress, "runs"))
        report(0, len(missing), "")
        made, lost = 0, dict[str, str]()
        for record in _made(executor, missing, plan, lost):
            if append is not None:
                append(record)
            made += 1
            records_by_id[record.id] = record
            report(made, len(missing), f"{record.run.label}: {record.outcome}")
        kept = [records_by_id[run.id] for run in runs if run.id in records_by_id]
        return Study(tuple(kept), made, lost)


def _changed(missing: Sequence[StudyRun], records: Iterable[Record]) -> str:
    """Backends of plugins with recorded runs of other code."""
    made = {record.run.cell for record in records}
    return ", ".join(dict.fromkeys(run.backend for run in missing if run.code and run.cell in made))


def _settled(record: Record | None, plan: Plan) -> bool:
    """Whether a run need not be repeated."""
    if record is None or record.outcome in ("interrupted", "error"):
        return False
    limit = {"timeout": "time_limit", "memory": "memory_limit"}.get(record.outcome)
    now, then = (getattr(one, limit) if limit else None for one in (plan, record))
    return now is None or then is None or bool(now <= then)


def _made(
    executor: Executor | None, missing: list[StudyRun], plan: Plan, lost: dict[str, str]
) -> Iterator[Record]:
    """Yields records as they are made; ``lost`` gets the reason for each missing one."""
    limits = plan.time_limit, plan.memory_limit
    if executor is None:
        yield from (make(run, *limits) for run in missing)
        return
    futures = {executor.submit(make, run, *limits): run for run in missing}
    pending, warned = set(futures), ""
    try:
        while pending:
            done, pending = wait(pending, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                why = _why_lost(future)
                if not why:
                    yield future.result()
                else:
                    lost[futures[future].id] = why
            silent = executor.why_silent() if not done and isinstance(executor, _Watched) else ""
            if silent and silent != warned:
                LOGGER.warning("%s", silent)
            warned = silent
    finally:
        for future in futures:
            future.cancel()


def _why_lost(future: Future[Record]) -> str:
    """Why the executor has no record of a run; empty where it has one."""
    if future.cancelled():
        return "cancelled by the executor, as by one that has lost its scheduler"
    error = future.exception()
    return "" if error is None else f"{type(error).__name__}: {error}"


class _Watched(Executor):
    """Dask's ``executor``, its ``client``, and whether its cluster can work."""

    def __init__(self, client: Any) -> None:
        self.client, self.executor = client, client.get_executor()

    def submit(self, *call: Any, **arguments: Any) -> Future[Any]:
        future: Future[Any] = self.executor.submit(*call, **arguments)
        return future

    def why_silent(self) -> str:
        """Why nothing happens; empty where workers are there."""
        if self.client.status != "running":
            return f"no scheduler answers at {self.client.scheduler.address}: waiting for it"
        if not self.client.nthreads():
            return "no worker is left in the Dask cluster: waiting for one (Ctrl-C ends the study)"
        return ""


@contextlib.contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster as an executor for ``run``.

    Start one worker with one thread on each machine (``dask worker ADDRESS --nthreads 1``), because
    simultaneous runs on one machine disturb each other's times. If a worker dies, another repeats
    its run. Files of problems and plugins must have the same paths on all machines.

    Parameters
    ----------
    address : of the scheduler, ``tcp://host:8786``.

    Raises
    ------
    Unsupported : Dask is not installed here.
    InvalidInput : no scheduler responds at the address.
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
        yield _Watched(client)


# --- one run --------------------------------------------------------------------------------


def make(run: StudyRun, time_limit: float = 60.0, memory_limit: float | None = None) -> Record:
    """Make a run in a separate process, which is ended if an exception occurs here.

    ``time_limit`` in s for one solve and each other measurement; ``memory_limit`` in MB.
    """
    if memory_limit is None:
        memory_limit = default_memory_limit()

    def limit() -> float:
        return max(START_LIMIT, time_limit) if stage in PREPARING else time_limit

    began, killed_before = time.monotonic(), killed_for_memory()
    stage, findings, lost = "start", None, None
    with tempfile.TemporaryFile() as errors:
        worker = Worker(prepare, errors)
        try:
            worker.start(limit())
            worker.call(_send_findings, run, memory_limit)
            while stage:
                message = worker.receive(limit())
                if isinstance(message, str):
                    stage = message
                else:
                    findings = _joined(findings, msgspec.json.decode(message, type=Findings), stage)
        except TimeoutError:
            lost = Findings("timeout", f"stopped after {limit():g} s: {stage}")
        except EOFError:
            pass
        finally:
            code = worker.end()
        errors.seek(max(errors.seek(0, os.SEEK_END) - _READ, 0))
        text = errors.read().decode("utf-8", "replace").strip()
    if not stage:
        code = 0  # it was complete
    elif lost is None:
        starved = any(phrase in text for phrase in _NO_MEMORY) or (
            code == -signal.SIGKILL and killed_for_memory() > killed_before
        )
        lost = _lost(code, stage, starved)
    ended = Ended(
        code=None if code < 0 else code,
        signal=-code if code < 0 and lost is not None and lost.outcome != "timeout" else None,
        stage=stage,
        seconds=time.monotonic() - began,
        stderr="" if findings and not stage and findings.outcome != "error" else _excerpt(text),
    )
    if lost is not None:
        replaced = findings is None or lost.outcome == "interrupted"
        findings = lost if replaced else _joined(findings, lost, "")
    return Record(
        id=run.id,
        run=run,
        time_limit=float(time_limit),
        memory_limit=memory_limit,
        ended=ended,
        machine=machine(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **vars(findings),
    )


def check_plugins(
    plugins: Sequence[str], backends: Sequence[str] = (), accuracies: Sequence[float | None] = ()
) -> tuple[list[str], str]:
    """The names of the backends of plugins and a digest of their code, checked as in runs."""
    if not plugins:
        return [], ""
    worker = Worker(prepare)
    try:
        worker.call(_send_names, plugins, backends, accuracies)
        worker.start(START_LIMIT)
        answer: tuple[list[str], str] | InvalidInput = worker.receive(START_LIMIT)
    except (EOFError, TimeoutError):
        found = f"{', '.join(plugins)}: the process ended with code {worker.end()}"
        raise InvalidInput("plugins", found, _WORKING) from None
    worker.end()
    if isinstance(answer, InvalidInput):
        raise answer
    return answer


def _joined(earlier: Findings | None, later: Findings, stage: str) -> Findings:
    """The result so far: an answer is kept if a later measurement fails."""
    if earlier is None or not earlier.times or later.times:
        return later
    where = f", {stage}" if stage else ""
    return replace(earlier, message=f"unfinished{where}: {later.message or later.outcome}")


def _lost(code: int, stage: str, starved: bool) -> Findings:
    """The outcome of a process that ended before it was complete."""
    known = {number.value: number.name for number in signal.Signals}
    name = known.get(-code, f"signal {-code}")
    how = f"ended with code {code}" if code >= 0 else f"ended by {name}"
    if starved:
        return Findings("memory", f"{how} for lack of memory: {stage}")
    if name in _FROM_OUTSIDE:
        return Findings("interrupted", f"{how} from outside: {stage}")
    return Findings("crash", f"{how}: {stage}")


def _excerpt(text: str) -> str:
    """The part to keep: the end, or the beginning of what Python's fault handler wrote."""
    fault = text.rfind(_FAULT)
    if fault < 0:
        return text[-_KEPT:]
    before, after = text[:fault], text[fault:].partition(_MODULES)[0]
    return (before[-_KEPT // 4 :] + after).strip()[:_KEPT]


# --- in the process ----------------------------------------------------------------------------


def prepare() -> None:
    """Common imports are made with this module, and by CVXPY's first problem."""
    warm_up()


def _send_findings(
    send: Callable[[object], None], run: StudyRun, memory_limit: float | None
) -> None:
    """Make a run; send each stage when it begins, findings as JSON, and "" at the end."""
    limit_memory(memory_limit)
    if run.threads is not None:
        os.environ.update(dict.fromkeys(_THREADS, str(run.threads)))
        numba.set_num_threads(min(run.threads, numba.config.NUMBA_NUM_THREADS))
        threadpool_limits(run.threads)
    try:
        for message in measure(run):
            send(message if isinstance(message, str) else msgspec.json.encode(message))
    except Exception as error:
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}"[:500]
        send(msgspec.json.encode(Findings("error", text)))
    send("")


def _send_names(
    send: Callable[[object], None],
    plugins: Sequence[str],
    backends: Sequence[str],
    accuracies: Sequence[float | None],
) -> None:
    """Send the names of the backends of plugins and the digest of their code, or the error."""
    try:
        by_name = makers(plugins)
        for name in backends:
            if name not in by_name:
                checks.choice("backends", name, (*by_name, *known_names()))
                continue
            for accuracy in accuracies:
                backend = by_name[name](accuracy)
                if not isinstance(backend, Backend):
                    found = f"the maker of {name!r} gives {checks.describe(backend)}"
                    raise InvalidInput("plugins", found, "a Backend")
    except InvalidInput as error:
        send(error)
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f'{type(error).__name__}: {error} ("{place.filename}", line {place.lineno})'
        send(InvalidInput("plugins", f"{', '.join(plugins)}: {where}", _WORKING))
    else:
        send((list(by_name), code_of(plugins)))
