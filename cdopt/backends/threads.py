"""Threads of the compiled loops: one for each idle core for large problems, one for the others.

A thread on a core that another process uses keeps all others waiting at the end of each loop: two
threads on two busy cores took 9 to 40 times as long as one. BLAS is kept to one thread meanwhile:
two pools of threads on the same cores wait for each other, and a solve can take twenty times as
long.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numba
from threadpoolctl import ThreadpoolController

from cdopt._util.compiled import thread_count
from cdopt._util.forking import in_child

SERIAL = 30_000  # contacts up to which a second thread gains less than it may lose
_LOAD = Path("/proc/loadavg")  # its fourth field starts with the number of running threads
_TASKS = Path("/proc/self/task")  # a folder for each thread of this process, by number
_ALL_CORES: ContextVar[bool] = ContextVar("_ALL_CORES", default=False)
_SHORT = 500  # contacts up to which no compiled loop has threads
_LIMITLESS = 2_000  # entries of a matrix below which BLAS starts no threads by itself


@contextlib.contextmanager
def threads_for(contacts: int, dofs: int | None = None) -> Iterator[int]:
    """BLAS on one thread; the compiled loops on idle cores, or on one; how many threads that are.

    On busy cores the threads of a small problem wait for each other and do no work. Previous values
    are restored at the end, of BLAS when the last of several overlapping solves ends. With a few
    tens of contacts and ``dofs`` thread counts are left alone: setting them would take longer than
    the solve; BLAS itself uses one thread there, and so does every compiled loop.
    """
    if dofs is not None and contacts <= _SHORT and max(contacts, dofs) * dofs <= _LIMITLESS:
        yield 1
        return
    solve, before = _Solve(), thread_count()
    try:  # first: Ctrl-C may come between any two lines
        _BLAS.limit(solve)
        numba.set_num_threads(max(1, min(before, idle_cores())) if contacts > SERIAL else 1)
        yield thread_count()
    finally:
        try:
            _BLAS.release(solve)
        finally:
            numba.set_num_threads(before)


@contextlib.contextmanager
def all_cores() -> Iterator[None]:
    """Use busy cores, too, within: loops for several threads are compiled even on busy cores."""
    token = _ALL_CORES.set(True)
    try:
        yield
    finally:
        _ALL_CORES.reset(token)


def idle_cores() -> int:
    """Cores without another running thread, now; all where the system does not report them.

    Threads of BLAS do not count: after a long product they look for more work for some
    milliseconds, and would make cores that are idle seem busy.
    """
    cores = os.cpu_count() or 1
    if _ALL_CORES.get():
        return cores
    try:
        running = int(_LOAD.read_text().split()[3].partition("/")[0])  # this thread is one of them
        running -= _blas_threads()
    except OSError:
        return cores
    return cores - (running - 1)


def _blas_threads() -> int:
    """Running threads of this process that Python did not start; 0 if it runs other solves."""
    if _BLAS.solves > 1:
        return 0
    python = {str(thread.native_id) for thread in threading.enumerate()}
    states = (
        (task / "stat").read_text().rpartition(")")[2].split()[0]
        for task in _TASKS.iterdir()
        if task.name not in python
    )
    return sum(state == "R" for state in states)


def several() -> bool:
    """Whether the compiled loops of this thread have more than one."""
    return thread_count() > 1


@functools.cache
def _libraries() -> ThreadpoolController:
    """The loaded libraries that run threads; the search takes longer than to solve a beam."""
    return ThreadpoolController()


class _Solve:
    """A solve that keeps BLAS to one thread, until it ends or is garbage."""


class _BlasLimit:
    """BLAS on one thread while at least one solve runs, in whatever Python thread.

    BLAS has one number of threads for the whole process: the first solve notes it, the last one
    sets it again. A solve may be interrupted anywhere: its end is then noticed by the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._solves: WeakKeyDictionary[_Solve, int] = WeakKeyDictionary()  # and Python threads
        self._before: list[tuple[Any, int]] = []  # libraries, and threads that each of them had

    @property
    def solves(self) -> int:
        """Number of solves that run."""
        return len(self._solves)

    def limit(self, solve: _Solve) -> None:
        """A solve begins."""
        with self._lock:
            self._solves[solve] = threading.get_ident()
            if not self._before:
                _release_control()
                libraries = [one for one in _libraries().lib_controllers if one.user_api == "blas"]
                self._before = [(library, library.num_threads) for library in libraries]
                for library in libraries:
                    library.set_num_threads(1)

    def release(self, solve: _Solve) -> None:
        """A solve ends, or has ended."""
        with self._lock:
            self._solves.pop(solve, None)
            self._restore_if_idle()

    def after_fork(self) -> None:
        """In the child, which has the one thread that forked: the others' solves are gone."""
        self._lock = threading.Lock()
        thread = threading.get_ident()
        self._solves = WeakKeyDictionary(
            {solve: owner for solve, owner in self._solves.items() if owner == thread}
        )
        self._restore_if_idle()

    def _restore_if_idle(self) -> None:
        if self._solves:
            return
        _release_control()
        for library, threads in self._before:
            library.set_num_threads(threads)
        _release_control()
        self._before = []


def _release_control() -> None:
    """Let this Python thread set BLAS's threads, which threadpoolctl gives to the first alone."""
    for library in _libraries().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_BLAS = _BlasLimit()
in_child(_BLAS.after_fork)
