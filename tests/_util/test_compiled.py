"""Compiled loops where no folder for their files can be written."""

from __future__ import annotations

import os
import subprocess
import sys


def test_loops_run_where_nothing_can_be_kept() -> None:
    code = "from cdopt._util.compiled import compiled\nprint(compiled()(lambda x: 2 * x)(21))"
    nowhere = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=nowhere, capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "42", run.stderr[-500:]
