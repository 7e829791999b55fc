"""A solve next to none, one and two busy processes, in wall time: what a shared machine costs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import cdopt
from benchmarks.problems import build
from benchmarks.record import Row, timed

BUSY = (0, 1, 2)
_BUDGET = 3.0  # s of solves for each number of busy processes
_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with us


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """This many processes that compute without end."""
    made = [subprocess.Popen([sys.executable, "-c", _LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for process in made:
            process.kill()
            process.wait()


def neighbours(problem: str, solver: str, kind: str, repeats: int = 5) -> list[Row]:
    """The least and median time of a solve next to each number of busy processes."""
    posed = _POSED[kind](problem)
    posed().solve(solver, check=False)  # loops are loaded, and threads started
    row: Row = {}
    for count in BUSY:
        with busy(count):
            run, answers = timed(lambda: posed().solve(solver, check=False), repeats, _BUDGET)
        row[f"seconds_{count}"] = run["seconds"]
    worst = max(c.worst for c in answers[-1].certificates.values())
    ratios = {f"ratio_{count}": row[f"seconds_{count}"] / row["seconds_0"] for count in BUSY[1:]}
    threads = answers[-1].provenance.get("threads", 1)
    return [row | ratios | {"seconds": row["seconds_0"], "worst": worst, "threads_ran": threads}]


def _truss(text: str) -> Callable[[], Any]:
    step = build(text).step
    given = step.B, -step.F_ext, step.stiffness, 2.0, "potential"
    return lambda: cdopt.NoTensionTruss(*given, dof_body=step.dof_body)


def _rigid(text: str) -> Callable[[], Any]:
    step = build(text).step
    return lambda: cdopt.ClassicCD(step)


def _friction(text: str) -> Callable[[], Any]:
    step = cdopt.bank.load(text).step
    return lambda: cdopt.FrictionalCD(step)


_POSED = {"truss": _truss, "rigid": _rigid, "friction": _friction}
