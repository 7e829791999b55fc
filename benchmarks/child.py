"""One task in a separate process: a hard time limit, a memory limit, and its peak memory.

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

from benchmarks.record import Row, peak_mb, physical_memory, processor_time

ROOT = Path(__file__).resolve().parents[1]
_MARK = "rows: "
_MEMORY = 0.7  # share of the machine's memory that a task may ask for


STOLEN = 0.03  # share of the processors' time lost to the host, above which a task is run again
_TRIES = 3


def call(task: str, arguments: dict[str, Any], limit: float) -> list[Row]:
    """Rows of a task; its arguments stand in every row. ``limit`` in seconds of wall time.

    A task during which the host took processors away is run again; ``stolen`` is the share that
    was lost in the run that is kept.
    """
    kept: list[Row] = []
    for _ in range(_TRIES):
        before = processor_time()
        rows = _once(task, arguments, limit)
        spent, lost = (after - then for after, then in zip(processor_time(), before, strict=True))
        share = lost / spent if spent > 0.0 else 0.0
        if not kept or share < kept[0]["stolen"]:
            kept = [{**row, "stolen": round(share, 4)} for row in rows]
        if share <= STOLEN:
            break
    return kept


def _once(task: str, arguments: dict[str, Any], limit: float) -> list[Row]:
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
