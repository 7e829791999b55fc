"""Memory of this process, MB of 2²⁰ bytes, and a hard limit on it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from cdopt._util.memory import MB, physical_memory

_SHARE = 0.7  # of the machine's memory that a process gets where no limit was named


def default_limit() -> float | None:
    """What a process gets where no limit was named: 70 % of the machine's memory, MB."""
    known = physical_memory()
    return None if known is None else _SHARE * known


def limit_memory(most: float) -> bool:
    """Hold this process to so many MB from now on; False where the system cannot.

    Linux counts all private memory that can be written, other systems addresses.
    """
    resource = _resource()
    if resource is None:
        return False
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    size = int(most * MB)
    try:
        resource.setrlimit(kind, (size, size))
    except (OSError, ValueError):
        return False
    return True


def peak_memory() -> float | None:
    """The most memory that this process has held, MB; None where the system does not tell.

    On Linux by the kernel's mark for the process: that of ``getrusage`` includes what the process
    that started it held.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    resource = _resource()
    if resource is None:
        return None
    unit = MB if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / unit


def killed_for_memory() -> int:
    """How many processes Linux has ended since it started because memory ran out; 0 elsewhere."""
    counters = Path("/proc/vmstat")
    if counters.exists():
        for line in counters.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _resource() -> Any:
    """Python's module of resource limits; None on Windows."""
    try:
        return importlib.import_module("resource")
    except ImportError:
        return None
