"""How loops are compiled, by numba.

A loop that Python calls is kept on disk, and read from there by the next process. One that only
compiled loops call becomes a part of them: it needs no file and no door to Python. Without those
the loops of ``newton_small`` and ``newton_truss_small`` compile in about a third less time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """A loop that Python calls, with numba's options."""
    make: Callable[[Function], Function] = njit(cache=True, **options)
    return make


def part(**options: Any) -> Callable[[Function], Function]:
    """A loop that only compiled loops call, with numba's options."""
    make: Callable[[Function], Function] = njit(
        no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )
    return make
