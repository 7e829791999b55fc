"""How loops are compiled and called, by numba.

numba stores a loop that Python calls on disk, and the next process reads it from there. A loop that
only compiled loops call becomes a part of them; without a file and a Python interface
it compiles in about a third less time.

Numbers are divided by the rules of IEEE 754, without Python's ZeroDivisionError: loops test their
results for infinities and not-a-number.

A loop with ``prange`` needs one of numba's threading layers, and none is safe in all cases: with
"workqueue" a second Python thread in such a loop ends the process, with GNU's OpenMP a forked
child does. So Python calls these loops through ``in_threads``.

A loop is compiled when it is first called, once per installation, or as soon as
compiling pays off (``compiled_in_time``, ``compiled_if_stored``). ``clock``, which measures times,
stops meanwhile.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from types import FunctionType
from typing import Any, TypeVar

import numba
import numpy as np
from numba import njit
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.event import Listener, register

from cdopt._util.errors import Unsupported
from cdopt._util.forking import in_child
from cdopt._util.kept_loops import LOGGER, LoopCache

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

_LOADING, _COMPILING = "numba:compiler_lock", "numba:compile"  # numba's events


def compiled(*, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """A loop that Python calls, with numba's options; not stored where no folder can be written.

    Unless it ``allocates`` arrays or runs in threads, no references to arrays are counted: that is
    half of the work of compiling it.
    """
    options.setdefault("_nrt", allocates or options.get("parallel", False))

    def make(function: Function) -> Function:
        options.update(error_model="numpy", no_cfunc_wrapper=True, pipeline_class=_Compiler)
        loop: Function = njit(**options)(function)
        if isinstance(loop, Dispatcher):  # not where numba is switched off
            try:
                loop._cache = LoopCache(function)  # type: ignore[attr-defined]
            except RuntimeError:  # numba's, if it finds no folder for its files
                _STOPPED.kept = False
        return loop

    return make


def compiled_twice(function: Function) -> tuple[Function, Callable[..., Any]]:
    """A loop with ``prange`` for one thread, and for several; each is compiled where it is called.

    The second takes as long again to compile. Its name on disk is another.
    """
    other = FunctionType(function.__code__, function.__globals__)
    other.__qualname__ = f"{function.__name__}_in_threads"
    return compiled()(function), partial(in_threads, compiled(parallel=True)(other))


def part(*, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """A loop that only compiled loops call, with numba's options; ``allocates`` as there."""
    options.setdefault("_nrt", allocates or options.get("parallel", False))
    options.update(error_model="numpy", no_cfunc_wrapper=True, pipeline_class=_Compiler)
    make: Callable[[Function], Function] = njit(no_cpython_wrapper=True, **options)
    return make


class _Remembering:
    """numba's typing context, for one loop: each operation on the same types is typed once.

    A loop repeats its operations, and numba types each of them twice: an eighth of the time.
    """

    def __init__(self, context: Any) -> None:
        self._context, self._known = context, dict[Any, Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: dict[str, Any]) -> Any:
        """The signature of ``func`` for types of arguments, by position and by name."""
        key = func, args, tuple(kws.items())
        if self._known.get(key) is None:
            self._known[key] = self._context.resolve_function_type(func, args, kws)
        return self._known[key]


class _Compiler(Compiler):  # type: ignore[misc]
    """numba's compiler with such a typing context."""

    def define_pipelines(self) -> Any:
        """Its passes."""
        self.state.typingctx = _Remembering(self.state.typingctx)
        return super().define_pipelines()


LOADING = 0.3  # s, to load a large loop from disk
_IN_PYTHON: Counter[str] = Counter()  # seconds, roughly, that each loop has run in Python
_PATIENCE = ContextVar("patience", default=LOADING)


def compiled_in_time(loop: Callable[..., Result], seconds: float, *arguments: Any) -> Result:
    """Call a compiled loop, or run it in Python as long as that takes less time than loading it.

    ``seconds`` is roughly what this call takes in Python; the answer has the same bits.
    """
    _IN_PYTHON[loop.__qualname__] += seconds  # type: ignore[assignment]
    if _IN_PYTHON[loop.__qualname__] > _PATIENCE.get():
        return loop(*arguments)
    with np.errstate(all="ignore"):
        result: Result = _in_python(loop)(*arguments)
    return result


def compiled_if_stored(loop: Callable[..., Result], seconds: float, *arguments: Any) -> Result:
    """Call a compiled loop that is quick to load; until it is stored, as ``compiled_in_time``."""
    if getattr(loop, "overloads", True) or _is_stored(loop):
        return loop(*arguments)
    return compiled_in_time(loop, seconds, *arguments)


@cache
def _is_stored(loop: Any) -> bool:
    """Whether a version of the loop was on disk at the first use of it in this process."""
    files = getattr(loop._cache, "_cache_file", None)
    try:
        return files is not None and bool(files._load_index())
    except OSError:
        return False


@contextmanager
def at_once() -> Iterator[None]:
    """Loops are compiled by their first call, however small it is."""
    token = _PATIENCE.set(-1.0)
    try:
        yield
    finally:
        _PATIENCE.reset(token)


@cache
def _in_python(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop as Python runs it, and the loops that it calls."""
    source = getattr(loop, "py_func", loop)  # itself where numba is switched off
    names = dict(source.__globals__)
    for name, value in names.items():
        if isinstance(value, Dispatcher):
            here = value.py_func.__globals__ is source.__globals__
            names[name] = (
                FunctionType(value.py_func.__code__, names, name) if here else _in_python(value)
            )
    return FunctionType(source.__code__, names)


_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


class _Thread(threading.local):
    """Of each Python thread: loops within loops being compiled, since when, and seconds spent."""

    depth, since, seconds, compiles, collects = 0, 0.0, 0.0, False, True


class _Stopped(Listener):  # type: ignore[misc]
    """The time in which loops are compiled or loaded from disk, which no clock counts."""

    def __init__(self) -> None:
        self.thread = _Thread()
        self.announced, self.compiled, self.kept = False, 0.0, True

    def on_start(self, event: Any) -> None:
        """A loop is compiled, or the first of several is loaded."""
        if event.kind == _LOADING:
            if self.thread.depth == 0:
                self.thread.since, self.thread.collects = time.perf_counter(), gc.isenabled()
                gc.disable()  # compiling leaves little garbage: a tenth of the time
            self.thread.depth += 1
            return
        self.thread.compiles = True
        if not self.announced:
            self.announced = True
            kept = "each loop once per installation" if self.kept else "which cannot be stored here"
            LOGGER.warning("compiling loops, %s", kept)

    def on_end(self, event: Any) -> None:
        """The loop is ready."""
        if event.kind != _LOADING:
            return
        self.thread.depth -= 1
        if self.thread.depth == 0:
            if self.thread.collects:
                gc.enable()
            spent = time.perf_counter() - self.thread.since
            self.thread.seconds += spent
            self.compiled += spent if self.thread.compiles else 0.0
            self.thread.compiles = False


_STOPPED = _Stopped()
for _kind in (_LOADING, _COMPILING):
    register(_kind, _STOPPED)


def clock() -> float:
    """Seconds on a clock of this Python thread that stops while loops are compiled."""
    return time.perf_counter() - _STOPPED.thread.seconds


@contextmanager
def uncounted() -> Iterator[None]:
    """The clock of this Python thread stops while a library is imported."""
    began = clock()
    try:
        yield
    finally:
        _STOPPED.thread.seconds += clock() - began


def seconds_compiling() -> float:
    """Seconds that this process has spent on compiling loops; zero if all were on disk."""
    return _STOPPED.compiled


class _Layer:
    """Numba's threading layer in this process; ``lost`` after a fork that it does not survive."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.lost = False
        self.name = ""

    def start(self) -> None:
        """Start the threads; those that wait give up their core, unless the caller sets otherwise.

        On busy cores, waiting in a loop takes up to 600 times as long.
        """
        passive = not any(name in os.environ for name in _WAITING)
        if passive:  # OpenMP reads it once, as it is loaded
            os.environ[_WAITING[0]] = "PASSIVE"
        try:
            numba.get_num_threads()
        finally:
            if passive:
                del os.environ[_WAITING[0]]
        self.name = str(numba.threading_layer())

    def after_fork(self) -> None:
        """In the child: a new lock; GNU's OpenMP does not survive a fork, the others do."""
        self.turn, self.name = threading.RLock(), ""
        try:
            self.lost = numba.threading_layer() == "omp"
        except ValueError:  # no threads yet: the child starts its own
            self.lost = False


_LAYER = _Layer()
in_child(_LAYER.after_fork)
if hasattr(os, "register_at_fork"):  # a fork waits until no loop is being compiled
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


def thread_count() -> int:
    """Threads of the compiled loops of this Python thread; the first call starts them."""
    if not _LAYER.name and not _LAYER.lost:
        _LAYER.start()
    return 1 if _LAYER.lost else int(numba.get_num_threads())


def threads_lost() -> bool:
    """Whether this process was forked from one whose threads it cannot use: loops run serially."""
    return _LAYER.lost


def in_threads(loop: Callable[..., Result], *arguments: Any) -> Result:
    """Call a compiled loop that runs in threads."""
    if _LAYER.lost:
        raise Unsupported(
            "a loop in threads",
            "this process was forked after numba's OpenMP threads had started, which do not "
            "survive a fork: start processes by 'spawn' or 'forkserver', or set "
            "NUMBA_THREADING_LAYER=workqueue",
        )
    if not _LAYER.name:
        _LAYER.start()
    if _LAYER.name != "workqueue":
        return loop(*arguments)
    with _LAYER.turn:
        return loop(*arguments)
