"""A time limit for solvers that do not look at a clock: a process that is ended when it is over.

Solvers that know no time limit, and all solvers where one factorisation of a large coupled mass
matrix may take longer than the limit, run in a process of their own. It is started once and used
again until a limit ends it. Its memory is limited too. Starting it is in no measured time.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any

from cdopt._util.memory import SHARE, physical_memory
from cdopt.backends.base import Backend, Problem, RunResult
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.modelled import Direct, Modelled
from cdopt.backends.native import NativeBackend
from cdopt.backends.registry import ACCURACY
from cdopt.problem import RigidStepData
from cdopt.problem.warm_start import WarmStart

LIMITED_BY = "the end of its process"
_COUPLED = 2000  # degrees of freedom from which on a coupled mass matrix takes long
_START = 300.0  # s for the process to import what it needs
_STATED = ("statement", "forces", "velocity", "displacement")  # made again when asked for
_IDLE: list[_Process] = []
_LOCK = threading.Lock()


def run(
    backend: Backend,
    posed: Problem,
    start: WarmStart | None,
    verbose: bool,
    time_limit: float | None,
) -> RunResult:
    """Run a backend; with a ``time_limit`` in a process of its own where it needs one.

    Parameters
    ----------
    posed, start : the problem, and a solution to start from.
    """
    if time_limit is None:
        return backend.run(posed, start, verbose)  # some backends know no time limit
    if not needs_process(backend, posed) or not _portable(posed):
        return backend.run(posed, start, verbose, time_limit)
    return _watched(backend, posed, start, verbose, time_limit)


def needs_process(backend: Backend, posed: Problem) -> bool:
    """Whether only the end of a process keeps this backend to a time limit."""
    if isinstance(backend, Modelled | Direct):
        name = backend.name if isinstance(backend, Modelled) else backend.solver
        if name not in ACCURACY or not ACCURACY[name].seconds:
            return True
    return isinstance(backend, Modelled | Direct | NativeBackend) and _is_coupled(posed)


def prepare(backends: Iterable[Backend], posed: Problem, time_limit: float | None) -> None:
    """Start a process in the background if one of these needs it and there is none."""
    if time_limit is None or not any(needs_process(backend, posed) for backend in backends):
        return
    with _LOCK:
        if not _IDLE:
            _IDLE.append(_Process())


def ready(backend: Backend, posed: Problem, time_limit: float | None) -> None:
    """Wait until the process has started that ``run`` would need."""
    if time_limit is not None and needs_process(backend, posed):
        if _is_coupled(posed):
            posed.data.scaled()  # takes long, and is sent along
        _give_back(_take())


def _is_coupled(posed: Problem) -> bool:
    data = posed.data
    if not isinstance(data, RigidStepData) or data.nv < _COUPLED:
        return False
    return data.step.mass.is_coupled


def _portable(posed: Problem) -> bool:
    """Whether a problem can be sent: constraints of a user may hold what cannot be."""
    try:
        return not posed.extended or bool(pickle.dumps(posed))
    except (TypeError, AttributeError, pickle.PicklingError):
        return False


def _watched(
    backend: Backend, posed: Problem, start: WarmStart | None, verbose: bool, time_limit: float
) -> RunResult:
    """The run in a process, which is ended at the time limit."""
    process = _take()
    began = time.perf_counter()
    answer = process.ask(backend, posed, start, verbose, time_limit)
    spent = time.perf_counter() - began
    if isinstance(answer, RunResult):
        _give_back(process)
        result = answer
        handed_over = max(spent - sum(result.timings.values()), 0.0)
        timings = {**result.timings, "process": handed_over}
        return RunResult(**{**vars(result), "timings": timings, "limited": LIMITED_BY})
    if isinstance(answer, BaseException):
        _give_back(process)
        raise answer
    if process.alive:
        _give_back(process)
    settings = getattr(backend, "settings", {})
    late = answer is None
    status = TIME_LIMIT if late else str(answer)
    timings = {"solve": spent}
    return RunResult(
        status, "failed", None, timings, settings=settings, out_of_time=late, limited=LIMITED_BY
    )


def _take() -> _Process:
    """A process that has started and is not in use."""
    with _LOCK:
        while _IDLE:
            process = _IDLE.pop()
            if process.alive:
                break
        else:
            process = _Process()
    process.wait()
    return process


def _give_back(process: _Process) -> None:
    with _LOCK:
        _IDLE.append(process)


class _Process:
    """A process that runs backends, one after the other."""

    def __init__(self) -> None:
        memory = physical_memory()
        limit = "" if memory is None else str(SHARE * memory)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cdopt.backends.watched_process", limit],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._started = False
        self._posed: Any = lambda: None  # a weak reference to the problem it has

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Wait until it has imported what it needs."""
        if not self._started:
            self._started = self._reply(_START) is True

    def ask(
        self,
        backend: Backend,
        posed: Problem,
        start: WarmStart | None,
        verbose: bool,
        seconds: float,
    ) -> RunResult | BaseException | str | None:
        """The result; what the backend raised; how the process ended; None at the time limit."""
        deadline, known = Deadline.after(seconds), self._posed() is posed
        order = (backend, None if known else _without_statement(posed), start, verbose)
        content, stream = pickle.dumps(order), self._process.stdin
        if stream is None:
            return "its process takes no orders"
        if deadline.passed:
            return None
        try:
            stream.write(content)
            stream.flush()
        except OSError:
            return self.end()
        self._posed = weakref.ref(posed)
        return self._reply(deadline.left)

    def _reply(self, seconds: float) -> Any:
        """What the process sends within so many seconds."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            return pickle.load(self._process.stdout)  # type: ignore[arg-type]
        except (EOFError, pickle.UnpicklingError):
            ended = self.end()
            return None if late.is_set() else ended
        except BaseException:  # Ctrl-C: nobody else would end it
            self.end()
            raise
        finally:
            timer.cancel()

    def end(self) -> str:
        """End it; how it ended."""
        self._process.kill()
        code = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # half an order is left in it
                    stream.close()
        return f"its process ended with code {code}"


def _end_all() -> None:
    """End the processes that nobody uses."""
    while _IDLE:
        _IDLE.pop().end()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # they answer to the parent


def _without_statement(posed: Problem) -> Problem:
    """The problem without what CVXPY made of it, unless a user added constraints to that."""
    if posed.extended:
        return posed
    bare = copy.copy(posed)
    for name in _STATED:
        vars(bare).pop(name, None)
    return bare
