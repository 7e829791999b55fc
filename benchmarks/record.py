"""Rows of measurements: medians, what counts, and the machine they were taken on."""

from __future__ import annotations

import datetime
import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

from cdopt.study import record as running

COUNTED = 1e-8  # a run whose certificate is above it is listed, and counts in no ratio or fit
REPEATS = 5

Row = dict[str, Any]
Value = TypeVar("Value")


def timed(
    run: Callable[[], Value], repeats: int = REPEATS, budget: float = 60.0
) -> tuple[Row, list[Value]]:
    """Median, least and greatest seconds of ``run``, and what each of its runs returned.

    The first run warms caches and is dropped, unless it alone takes so long that no second one
    fits into ``budget`` seconds. Runs end when the budget is spent.
    """
    seconds: list[float] = []
    values: list[Value] = []
    begun = time.perf_counter()
    while len(seconds) <= repeats:
        started = time.perf_counter()
        values.append(run())
        seconds.append(time.perf_counter() - started)
        if time.perf_counter() - begun + seconds[-1] > budget:
            break
    kept = seconds[1:] or seconds
    row: Row = {
        "seconds": statistics.median(kept),
        "least": min(kept),
        "greatest": max(kept),
        "repeats": len(kept),
    }
    return row, values[1:] or values


def counts(row: Row) -> bool:
    """Whether a row may enter ratios and fits: an answer with a certificate of at most 1e-8."""
    worst = row.get("worst")
    return "failed" not in row and (worst is None or worst <= COUNTED)


def machine() -> dict[str, Any]:
    """Where and with what the rows were measured; not the name of the machine."""
    found = running.machine()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": found.processor,
        "cores": found.cores,
        "threads": numba.config.NUMBA_NUM_THREADS,
        "memory_gb": round(physical_memory() / 1e9, 1),
        "system": found.system,
        "python": found.python,
        "versions": found.versions,
    }


def processor_time() -> tuple[float, float]:
    """Seconds of all processors since the start, and those that another machine took from it.

    Where this one is a guest, its host may give its processors to others: what runs meanwhile
    takes longer. Zeros where the system does not tell.
    """
    told = Path("/proc/stat")
    if not told.exists():
        return 0.0, 0.0
    ticks = [float(word) for word in told.read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[7]


def peak_mb() -> float:
    """Most memory that this process has held so far, MB.

    On Linux by the kernel's own mark for it: that of ``getrusage`` includes the parent's memory.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
