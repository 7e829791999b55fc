"""What a forked child needs: a fork copies one thread, and locks that the others held stay locked.

Nobody is left in the child to release them. ``in_child`` registers what makes a module usable
there. Python 3.11 has a lock in each ``functools.cached_property``, which is renewed here.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any


def in_child(action: Callable[[], object]) -> None:
    """Call ``action`` in each forked child of this process, on systems that fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


def _renew_locks() -> None:
    for one in _cached_properties():
        one.lock = threading.RLock()


def _cached_properties() -> Iterator[Any]:
    """Those of cdopt's classes that have a lock, which all instances of the class share."""
    package = __name__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != package:
            continue
        for cls in list(vars(module).values()):
            if isinstance(cls, type) and cls.__module__ == name:
                members = vars(cls).values()
                yield from (m for m in members if isinstance(m, functools.cached_property))


if sys.version_info < (3, 12):  # later ones have no lock
    in_child(_renew_locks)
