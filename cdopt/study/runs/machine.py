"""The machine that runs are made on."""

from __future__ import annotations

import functools
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cdopt._util.memory import physical_memory
from cdopt.study.runs.record import Machine

PACKAGES = (
    "cdopt", "numpy", "scipy", "numba", "cvxpy", "clarabel", "osqp", "scs", "highspy", "piqp",
    "qoco", "proxsuite", "daqp", "moreau", "pypardiso", "pymetis",
)  # fmt: skip


@functools.cache
def machine() -> Machine:
    """This machine, and the versions of what solves on it."""
    return Machine(
        host=platform.node(),
        processor=_processor(),
        system=platform.platform(),
        python=platform.python_version(),
        cores=os.cpu_count(),
        memory=physical_memory(),
        versions={name: _version(name) for name in PACKAGES},
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
