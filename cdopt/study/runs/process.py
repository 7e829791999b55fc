"""One run from outside: its process is started, watched, ended when it must be, and judged.

Whatever a solver does, there is a record: an answer, an exception, a crash, a hang, or want of
memory. The process does not import from the working folder (``python -P``): a file ``numpy.py``
there is not run. A process that somebody else ended is recorded as interrupted, not as a crash.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from typing import IO, Any

import msgspec

from cdopt.study.runs.machine import machine
from cdopt.study.runs.memory import default_limit, killed_for_memory
from cdopt.study.runs.messages import PREPARING, Message, Order
from cdopt.study.runs.record import Ended, Findings, Record
from cdopt.study.runs.run import Run

START_LIMIT = 300.0  # s: imports, reading the problem, loops compiled for the first time
_GRACE = 10.0  # s between the last word of a process and its end
_PAUSE = 0.2  # s between looks at whether the process is still there
_READ, _KEPT = 1 << 16, 2000  # bytes of stderr that are looked at, and characters kept
_FAULT, _MODULES = "Fatal Python error:", "Extension modules:"  # the fault handler's words
_NO_MEMORY = (  # what runtimes write when they get none
    "MemoryError", "bad_alloc", "memory allocation of", "Cannot allocate memory", "out of memory",
)  # fmt: skip
_FROM_OUTSIDE = {"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"}  # solvers do not end themselves by these
_THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)  # fmt: skip


def make(run: Run, time_limit: float = 60.0, memory_limit: float | None = None) -> Record:
    """Make a run in a process of its own.

    Parameters
    ----------
    time_limit : s of wall clock for one solve, and for each other measurement; hard. Imports and
        warming up are not within it, and have ``START_LIMIT``.
    memory_limit : MB of the process, kept where the system can; None: 70 % of the machine's.

    An exception here, Ctrl-C included, ends the process too, and leaves no record.
    """
    most = default_limit() if memory_limit is None else memory_limit
    order = Order(run, float(time_limit), max(START_LIMIT, float(time_limit)), most)
    began, killed_before = time.monotonic(), killed_for_memory()
    with tempfile.TemporaryFile() as errors:
        watch = _Watch(_started(run, errors), order)
        try:
            watch.listen()
        finally:
            watch.end()
        text = _text(errors)
    starved = any(words in text for words in _NO_MEMORY)
    if watch.code == -signal.SIGKILL and killed_for_memory() > killed_before:
        starved = True
    return _record(run, order, watch, text, starved, time.monotonic() - began)


def _started(run: Run, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    if run.threads is not None:
        environment |= dict.fromkeys(_THREADS, str(run.threads))
    apart: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "faulthandler", "-m", "cdopt.study.runs.worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, **apart,
    )  # fmt: skip


class _Watch:
    """What a process tells, and how it ends.

    Attributes
    ----------
    stage : what it does now. findings : what it knows so far. done : whether it came to its end.
    late : whether it was ended at its time limit. code : as ``Popen.returncode``.
    """

    def __init__(self, process: subprocess.Popen[bytes], order: Order) -> None:
        self.process = process
        self.stage = "start"
        self.findings: Findings | None = None
        self.done = self.late = False
        self.code: int | None = None
        self._deadline = time.monotonic() + order.start_limit
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        with contextlib.suppress(OSError):  # it may be gone already
            if process.stdin is not None:
                process.stdin.write(msgspec.json.encode(order))
                process.stdin.close()

    def listen(self) -> None:
        """Hear the process to its end, or to the end of its time."""
        while not self.done:
            left = self._deadline - time.monotonic()
            if left <= 0.0:
                self.late = True
                return
            gone = self.process.poll() is not None
            try:
                line = self._lines.get(timeout=min(left, _PAUSE))
            except queue.Empty:
                if gone:
                    return
                continue
            if line is None:
                break
            self._hear(line)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)

    def end(self) -> None:
        """End the process, if it has not ended, and all that it started."""
        stopped = self.process.poll() is None
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()
        if not stopped:
            self._rest()
        self._reader.join(_PAUSE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not self._reader.is_alive():
                with contextlib.suppress(OSError):
                    pipe.close()
        self.code = self.process.returncode

    def _rest(self) -> None:
        """What it had still written."""
        with contextlib.suppress(queue.Empty):
            while (line := self._lines.get(timeout=_PAUSE)) is not None:
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError:
            return  # half a line: the process was ended while it wrote
        if message.stage is not None and message.limit is not None:
            self.stage = message.stage
            self._deadline = time.monotonic() + message.limit
        if message.findings is not None:
            self.findings = _joined(self.findings, message.findings, self.stage)
        if message.done:
            self.done, self.stage = True, ""

    def _read(self) -> None:
        if self.process.stdout is not None:
            with contextlib.suppress(ValueError, OSError):
                for line in self.process.stdout:
                    self._lines.put(line)
        self._lines.put(None)


def _joined(earlier: Findings | None, found: Findings, stage: str) -> Findings:
    """What is known now: an answer is not lost to what went wrong after it."""
    if earlier is None or not earlier.times or found.times:
        return found
    where = f", {stage}" if stage else ""
    return replace(earlier, message=f"unfinished{where}: {found.message or found.outcome}")


def _record(
    run: Run, order: Order, watch: _Watch, text: str, starved: bool, seconds: float
) -> Record:
    code = watch.code
    killed = code is not None and code < 0
    ended = Ended(
        code=None if killed or watch.late else code,
        signal=-code if killed and code is not None and not watch.late else None,
        stage=watch.stage,
        seconds=seconds,
        stderr="" if watch.done and _sound(watch.findings) else _excerpt(text),
    )
    found = watch.findings
    if found is None or not watch.done:
        lost = _lost(watch, order, ended, starved)
        made_again = found is None or lost.outcome == "interrupted"
        found = lost if made_again else _joined(found, lost, "")
    return Record(
        id=run.id,
        run=run,
        time_limit=order.time_limit,
        memory_limit=order.memory_limit,
        ended=ended,
        machine=machine(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **vars(found),
    )


def _sound(found: Findings | None) -> bool:
    return found is not None and found.outcome != "error"


def _lost(watch: _Watch, order: Order, ended: Ended, starved: bool) -> Findings:
    """What it means that a process did not come to its end."""
    if watch.late:
        limit = order.start_limit if watch.stage in PREPARING else order.time_limit
        return Findings("timeout", f"stopped after {limit:g} s: {watch.stage}")
    name = f"signal {ended.signal}"
    if ended.signal is not None:
        with contextlib.suppress(ValueError):
            name = signal.Signals(ended.signal).name
    how = f"ended by {name}" if ended.signal is not None else f"ended with code {ended.code}"
    if starved:
        return Findings("memory", f"{how} for want of memory: {watch.stage}")
    if name in _FROM_OUTSIDE:
        return Findings("interrupted", f"{how} from outside: {watch.stage}")
    return Findings("crash", f"{how}: {watch.stage}")


def _text(errors: IO[bytes]) -> str:
    """The end of what was written to stderr."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(size - _READ, 0))
    return errors.read().decode("utf-8", "replace").strip()


def _excerpt(text: str) -> str:
    """What to keep of it: the end, or the beginning of what Python's fault handler wrote."""
    fault = text.rfind(_FAULT)
    if fault < 0:
        return text[-_KEPT:]
    before, after = text[:fault], text[fault:].partition(_MODULES)[0]
    return (before[-_KEPT // 4 :] + after).strip()[:_KEPT]
