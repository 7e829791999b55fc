"""One lock for what CVXPY does: stating, compiling, reading back.

CVXPY numbers its variables by a counter without a lock, keeps the last compilation in the problem
and answers in the variables. Two Python threads that state or compile at once, or that solve one
problem, would mix these up. So everything but the solver's own run is done under this lock.
"""

from __future__ import annotations

import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any


class _Lock:
    """A reentrant lock of this process; a forked child has a new one."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """A new lock, which nobody holds."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


POSING = _Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POSING.renew)


if TYPE_CHECKING:
    posed_once = cached_property
else:

    class posed_once(cached_property):  # noqa: N801
        """A cached property that is computed once, whatever the number of Python threads.

        ``func`` computes it.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            """The value of ``instance``, of class ``owner``, computed under the lock."""
            with POSING:
                return super().__get__(instance, owner)
