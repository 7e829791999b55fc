"""One task in a process of its own: a hard time limit, a memory limit, and its peak memory.

    call("newton_truss", {"problem": "pyramid-hooke:n=5"}, limit=60.0)

A task that crashes, hangs or runs out of memory is one row that says so; the suite goes on.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.record import Row, peak_mb, physical_memory

ROOT = Path(__file__).resolve().parents[1]
_MARK = "rows: "
_MEMORY = 0.7  # share of the machine's memory that a task may ask for


def call(task: str, arguments: dict[str, Any], limit: float) -> list[Row]:
    """Rows of a task; its arguments stand in every row. ``limit`` in seconds of wall time."""
    command = [sys.executable, "-m", "benchmarks.child", json.dumps([task, arguments])]
    given: Row = {"task": task, **arguments}
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return [{**given, "failed": f"stopped after {limit:g} s"}]
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            return [{**given, **row} for row in json.loads(line.removeprefix(_MARK))]
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return [{**given, "failed": f"ended with code {done.returncode}: {last[:200]}"}]


def main() -> None:
    from benchmarks.tasks import TASKS  # the parent does not need it, and it takes seconds

    task, arguments = json.loads(sys.argv[1])
    most = int(_MEMORY * physical_memory())
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    rows = TASKS[task](**arguments)
    peak = peak_mb()
    print(_MARK + json.dumps([{"peak_mb": peak, **row} for row in rows]), flush=True)


if __name__ == "__main__":
    main()
