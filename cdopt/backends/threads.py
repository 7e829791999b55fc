"""Threads of the compiled loops: all of them for large problems, one for small ones.

BLAS is kept to one thread beside them: two pools of threads on the same cores wait for each
other, and a solve can take twenty times as long.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import numba
from threadpoolctl import ThreadpoolController

SERIAL = 10_000  # contacts up to which a second thread gains less than it may lose
_LIMITLESS = 2_000  # entries of a matrix below which BLAS starts no thread of its own accord


@contextlib.contextmanager
def threads_for(contacts: int, dofs: int | None = None) -> Iterator[None]:
    """BLAS on one thread; the compiled loops on all of theirs, or on one for small problems.

    On busy cores the threads of a small problem wait for each other and do no work. What was set
    before is set again at the end. Where contacts and ``dofs`` are a few tens nothing is set, which
    takes longer than such a problem's arithmetic: BLAS itself keeps to one thread there, and no
    compiled loop of such a problem has several.
    """
    if dofs is not None and max(contacts, dofs) * dofs <= _LIMITLESS:
        yield
        return
    before = numba.get_num_threads()
    with _libraries().limit(limits=1, user_api="blas"):
        numba.set_num_threads(before if contacts > SERIAL else 1)
        try:
            yield
        finally:
            numba.set_num_threads(before)


def several() -> bool:
    """Whether the compiled loops of this thread have more than one."""
    return bool(numba.get_num_threads() > 1)


@functools.cache
def _libraries() -> ThreadpoolController:
    """The loaded libraries that run threads, found once: the search takes longer than a beam."""
    return ThreadpoolController()
