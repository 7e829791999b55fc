"""Memory of the machine and of this process, and what ends it."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
from typing import Any

MB = 1024 * 1024
SHARE = 0.7  # of the machine's memory that a process gets where no limit was named
_DIE_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG


def physical_memory() -> float | None:
    """Memory of the machine, MB of 2²⁰ bytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MB
    except (AttributeError, OSError, ValueError):
        return None


def limit_memory(limit: float) -> None:
    """Limit the memory of this process to ``limit`` MB, on systems that can.

    Linux counts all private memory that can be written, other systems addresses.
    """
    resource = resource_limits()
    if resource is None:
        return
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    size = int(limit * MB)
    try:
        resource.setrlimit(kind, (size, size))
    except (OSError, ValueError):
        return


def resource_limits() -> Any:
    """Python's module of resource limits; None on Windows."""
    try:
        return importlib.import_module("resource")
    except ImportError:
        return None


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
