"""Actions in forked children: a fork copies one thread, and locks held by the others stay locked.

``in_child`` registers an action that makes a module usable there.
"""

from __future__ import annotations

import os
from collections.abc import Callable


def in_child(action: Callable[[], object]) -> None:
    """Call ``action`` in each forked child of this process, on systems that fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)
