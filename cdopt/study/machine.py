"""The machine that runs are made on; the memory of this process, MB of 2²⁰ bytes."""

from __future__ import annotations

import functools
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cdopt._util.processes import MB, physical_memory, resource_limits
from cdopt.backends.registry import SOLVERS
from cdopt.study.record import Machine

PACKAGES = (
    *("cdopt", "numpy", "scipy", "numba", "cvxpy", "pypardiso", "pymetis"),
    *(solver.package for solver in SOLVERS.values() if solver.package),
)


@functools.cache
def machine() -> Machine:
    """This machine, and the versions of the solvers on it."""
    name = _first_line("/proc/cpuinfo", "model name").partition(":")[2].strip()
    return Machine(
        host=platform.node(),
        processor=name or platform.processor() or "unknown",
        system=platform.platform(),
        python=platform.python_version(),
        cores=os.cpu_count(),
        memory=physical_memory(),
        versions={package: _version(package) for package in PACKAGES},
    )


def peak_memory() -> float | None:
    """The most memory that this process has had, MB; None where the system does not tell.

    On Linux the kernel's mark for the process: that of ``getrusage`` includes what the process
    that started it had.
    """
    line = _first_line("/proc/self/status", "VmHWM")
    if line:
        return int(line.split()[1]) / 1024
    resource = resource_limits()
    if resource is None:
        return None
    unit = MB if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / unit


def killed_for_memory() -> int:
    """How many processes Linux has ended since it started because memory ran out; 0 elsewhere."""
    line = _first_line("/proc/vmstat", "oom_kill ")
    return int(line.split()[1]) if line else 0


def _first_line(path: str, beginning: str) -> str:
    """The first line of a file that begins so; empty if there is none."""
    file = Path(path)
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line for line in lines if line.startswith(beginning)), "")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
