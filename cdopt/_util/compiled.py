"""How loops are compiled and called, by numba.

numba keeps a loop that Python calls on disk, and the next process reads it from there. A loop that
only compiled loops call becomes a part of them; without a file and a Python interface of its own
it compiles in about a third less time.

Numbers are divided as IEEE 754 says, without Python's ZeroDivisionError: loops test their results
for infinities and not-a-number.

A loop with ``prange`` needs one of numba's threading layers, and no layer takes everything: with
"workqueue" a second Python thread in such a loop ends the process, with GNU's OpenMP a forked
child does. So Python calls these loops through ``side_by_side``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba import njit

from cdopt._util.errors import Unsupported

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


def compiled(*, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """A loop that Python calls, with numba's options; not kept where no folder can be written.

    Unless it ``allocates`` arrays or runs in threads, no references to arrays are counted: that is
    half of the work of compiling it.
    """
    options.setdefault("_nrt", allocates or options.get("parallel", False))

    def make(function: Function) -> Function:
        loop: Function
        try:
            loop = njit(cache=True, error_model="numpy", **options)(function)
        except RuntimeError:  # numba's, if it finds no folder for its files
            loop = njit(error_model="numpy", **options)(function)
        return loop

    return make


def part(*, allocates: bool = False, **options: Any) -> Callable[[Function], Function]:
    """A loop that only compiled loops call, with numba's options; ``allocates`` as there."""
    options.setdefault("_nrt", allocates or options.get("parallel", False))
    make: Callable[[Function], Function] = njit(
        no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", **options
    )
    return make


_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


class _Layer:
    """Numba's threading layer in this process.

    Attributes
    ----------
    turn : the lock of the Python thread whose loop runs, where the layer takes one at a time.
    lost : whether threads were started before this process was forked and are lost to it.
    name : the layer's name, empty until its threads have started.
    """

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.lost = False
        self.name = ""

    def start(self) -> None:
        """Start the layer's threads, and note its name.

        Where the caller has not said how OpenMP waits, threads that wait give their core away:
        beside busy processes, waiting in a loop takes up to 600 times as long.
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
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LAYER.after_fork)


def thread_count() -> int:
    """Threads of the compiled loops of this Python thread; the first call starts them."""
    if not _LAYER.name and not _LAYER.lost:
        _LAYER.start()
    return 1 if _LAYER.lost else int(numba.get_num_threads())


def threads_lost() -> bool:
    """Whether this process was forked from one whose threads it cannot use: loops run serially."""
    return _LAYER.lost


def side_by_side(loop: Callable[..., Result], *arguments: Any) -> Result:
    """Call a compiled loop that runs in threads.

    Raises
    ------
    Unsupported : the process was forked after GNU OpenMP had started its threads.
    """
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
