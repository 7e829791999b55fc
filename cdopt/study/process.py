"""One run in a process of its own, which is started, watched, and ended when it must be.

Every run gives a record: an answer, an exception, a crash, a hang, or lack of memory. On Linux the
process is a copy of one that has imported cdopt already (``fork_server``). It
does not import from the working folder (``python -P``), so a file ``numpy.py`` there is not run. A
process that was ended from outside is recorded as interrupted, not as a crash.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from typing import IO, Any

import msgspec

from cdopt.study import fork_server
from cdopt.study.machine import default_memory_limit, killed_for_memory, machine
from cdopt.study.plan import StudyRun
from cdopt.study.record import Ended, Findings, Record

START_LIMIT = 300.0  # s: imports, reading the problem, loops compiled for the first time
PREPARING = ("start", "load", "warm up")  # stages with this limit
_GRACE = 10.0  # s between the last message of a process and its end
_PAUSE = 0.1  # s between checks of a process
_READ, _KEPT = 1 << 16, 4000  # bytes of stderr that are read, and characters kept
_FAULT, _MODULES = "Fatal Python error:", "Extension modules:"  # as the fault handler writes
_NO_MEMORY = (  # what runtimes write when an allocation fails
    "MemoryError",
    "bad_alloc",
    "memory allocation of",
    "Cannot allocate memory",
    "out of memory",
)
Process = subprocess.Popen[bytes] | fork_server.Copy
_FROM_OUTSIDE = {"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"}  # solvers do not end themselves by these
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


@dataclass(frozen=True)
class Order:
    """What the process of a run is asked to do, as JSON on its stdin.

    Attributes
    ----------
    run : the run. time_limit : s, for each stage. start_limit : s, for stages that may compile.
    memory_limit : MB, or None.
    """

    run: StudyRun
    time_limit: float
    start_limit: float
    memory_limit: float | None

    def limit(self, stage: str) -> float:
        """Seconds that a stage may take."""
        return self.start_limit if stage in PREPARING else self.time_limit


@dataclass(frozen=True)
class Message:
    """One line of JSON from the process of a run.

    Attributes
    ----------
    stage : the stage that begins now, or None.
    findings : the findings so far, or None.
    done : whether this is the last line.
    """

    stage: str | None = None
    findings: Findings | None = None
    done: bool = False


def make(run: StudyRun, time_limit: float = 60.0, memory_limit: float | None = None) -> Record:
    """Make a run in a process of its own.

    Parameters
    ----------
    time_limit : s of wall clock for one solve, and for each other measurement; hard. Imports and
        warming up have ``START_LIMIT`` instead.
    memory_limit : MB of the process, enforced where the system can; None: 70 % of the machine's.

    An exception here, Ctrl-C included, ends the process too, and leaves no record.
    """
    limit = default_memory_limit() if memory_limit is None else memory_limit
    order = Order(run, float(time_limit), max(START_LIMIT, float(time_limit)), limit)
    began, killed_before = time.monotonic(), killed_for_memory()
    with tempfile.TemporaryFile() as errors, _started(run, errors) as process:
        monitor = _Monitor(order)
        watchdog = threading.Thread(target=monitor.watch, args=(process,), daemon=True)
        watchdog.start()
        try:
            monitor.listen(process)
        finally:
            _end(process)
            watchdog.join()
        text = _text(errors)
    starved = any(phrase in text for phrase in _NO_MEMORY) or (
        process.returncode == -signal.SIGKILL and killed_for_memory() > killed_before
    )
    ended = _ended(process.wait(), monitor, text, time.monotonic() - began)
    findings = monitor.findings
    if findings is None or not monitor.done:
        lost = _lost(monitor, ended, starved)
        replaced = findings is None or lost.outcome == "interrupted"
        findings = lost if replaced or findings is None else _joined(findings, lost, "")
    return Record(
        id=run.id,
        run=run,
        time_limit=order.time_limit,
        memory_limit=order.memory_limit,
        ended=ended,
        machine=machine(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **vars(findings),
    )


class _Monitor:
    """The state of a run's process, from its messages.

    Attributes
    ----------
    stage : what it does now. findings : what it has measured. done : whether it is complete.
    late : whether it was ended at its time limit.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.stage = "start"
        self.findings: Findings | None = None
        self.done = self.late = False
        self._deadline = time.monotonic() + order.limit(self.stage)

    def watch(self, process: Process) -> None:
        """End the process at its deadline; when it has ended, end what it started too."""
        while process.poll() is None:
            if time.monotonic() > self._deadline:
                self.late = not self.done
                break
            time.sleep(_PAUSE)
        _end(process)  # closes the pipe that a child of it may hold open

    def listen(self, process: Process) -> None:
        """Send the order, and read messages until the process closes its stdout."""
        if process.stdin is None or process.stdout is None:
            return
        with contextlib.suppress(OSError):  # it may have ended already
            process.stdin.write(msgspec.json.encode(self.order))
            process.stdin.close()
        for line in process.stdout:
            try:
                message = msgspec.json.decode(line, type=Message)
            except msgspec.MsgspecError:
                continue  # half a line: the process was ended while it wrote
            if message.stage is not None:
                self.stage = message.stage
                self._deadline = time.monotonic() + self.order.limit(self.stage)
            if message.findings is not None:
                self.findings = _joined(self.findings, message.findings, self.stage)
            if message.done:
                self.done, self.stage = True, ""
                self._deadline = time.monotonic() + _GRACE
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)


def _started(run: StudyRun, errors: IO[bytes]) -> Process:
    environment = dict(os.environ)
    if run.threads is not None:
        environment |= dict.fromkeys(_THREADS, str(run.threads))
    if fork_server.AVAILABLE:
        return fork_server.Copy(environment, errors)
    group: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return subprocess.Popen(
        fork_server.WORKER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        **group,
    )


def _end(process: Process) -> None:
    """End a process and all that it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _ended(code: int, monitor: _Monitor, text: str, seconds: float) -> Ended:
    complete = monitor.done and monitor.findings is not None and monitor.findings.outcome != "error"
    return Ended(
        code=None if code < 0 or monitor.late else code,
        signal=-code if code < 0 and not monitor.late else None,
        stage=monitor.stage,
        seconds=seconds,
        stderr="" if complete else _excerpt(text),
    )


def _joined(earlier: Findings | None, later: Findings, stage: str) -> Findings:
    """What is known now: an answer is kept when a measurement after it fails."""
    if earlier is None or not earlier.times or later.times:
        return later
    where = f", {stage}" if stage else ""
    return replace(earlier, message=f"unfinished{where}: {later.message or later.outcome}")


def _lost(monitor: _Monitor, ended: Ended, starved: bool) -> Findings:
    """The outcome of a process that was not complete when it ended."""
    if monitor.late:
        limit = monitor.order.limit(monitor.stage)
        return Findings("timeout", f"stopped after {limit:g} s: {monitor.stage}")
    name = f"signal {ended.signal}"
    if ended.signal is not None:
        with contextlib.suppress(ValueError):
            name = signal.Signals(ended.signal).name
    how = f"ended with code {ended.code}" if ended.signal is None else f"ended by {name}"
    if starved:
        return Findings("memory", f"{how} for lack of memory: {monitor.stage}")
    if name in _FROM_OUTSIDE:
        return Findings("interrupted", f"{how} from outside: {monitor.stage}")
    return Findings("crash", f"{how}: {monitor.stage}")


def _text(errors: IO[bytes]) -> str:
    """The end of what was written to stderr."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(size - _READ, 0))
    return errors.read().decode("utf-8", "replace").strip()


def _excerpt(text: str) -> str:
    """The part to keep: the end, or the beginning of what Python's fault handler wrote."""
    fault = text.rfind(_FAULT)
    if fault < 0:
        return text[-_KEPT:]
    before, after = text[:fault], text[fault:].partition(_MODULES)[0]
    return (before[-_KEPT // 4 :] + after).strip()[:_KEPT]
