"""Compiled loops where no folder for their files can be written."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numba

from cdopt._util import compiled
from cdopt._util.compiled import clock, seconds_compiling


def test_loops_run_where_nothing_can_be_kept() -> None:
    code = "from cdopt._util.compiled import compiled\nprint(compiled()(lambda x: 2 * x)(21))"
    nowhere = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=nowhere, capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "42", run.stderr[-500:]


def test_no_clock_counts_the_compiling_of_loops(caplog) -> None:
    @numba.njit
    def loop(x):
        return x + 1.0

    compiled._STOPPED.announced = False
    caplog.set_level("WARNING", compiled.LOGGER.name)
    began, counted, spent = time.perf_counter(), clock(), seconds_compiling()
    loop(1.0)
    spent, passed = seconds_compiling() - spent, time.perf_counter() - began
    assert 0.0 < spent <= passed
    assert abs(passed - (clock() - counted) - spent) < 0.1 * spent
    assert caplog.messages == ["compiling loops, once per installation"]
