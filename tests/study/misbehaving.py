"""Backends that do what solvers do on bad days; a plugin for the process of a run."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np

from cdopt.backends import Backend, Capability, Newton, RunResult
from cdopt.problem.solution import Iterate

PIDS = "CDOPT_TEST_PIDS"  # names the file for the number of the process that hangs last
calls = 0


def with_forces(found: RunResult, forces: np.ndarray, **changes) -> RunResult:
    return dataclasses.replace(found, iterate=Iterate(found.iterate.motion, forces), **changes)


def crash(found: RunResult) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def end_from_outside(found: RunResult) -> None:
    """What somebody else does by kill, or a machine that is shut down."""
    os.kill(os.getpid(), signal.SIGTERM)


def leave(found: RunResult) -> None:
    os._exit(3)


def hang(found: RunResult) -> None:
    Path(os.environ[PIDS]).write_text(str(os.getpid()))
    time.sleep(3600.0)


def parent(found: RunResult) -> None:
    """Start a process that outlives it, and hang."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(os.environ[PIDS]).write_text(str(child.pid))
    time.sleep(3600.0)


def hog(found: RunResult) -> None:
    held = []
    while True:
        held.append(np.ones(8_000_000))


def starve(found: RunResult) -> None:
    """End as runtimes do that get no memory."""
    os.write(2, b"memory allocation of 8589934592 bytes failed\n")
    os.abort()


def fail(found: RunResult) -> None:
    raise ZeroDivisionError("one by nothing")


def lie(found: RunResult) -> RunResult:
    """Claim success with twice the forces."""
    return with_forces(found, 2.0 * found.iterate.forces)


def give_up(found: RunResult) -> RunResult:
    forces = 2.0 * found.iterate.forces
    return with_forces(found, forces, status="no progress", claim="inaccurate")


def say_nan(found: RunResult) -> RunResult:
    return with_forces(found, np.full(found.iterate.forces.size, np.nan))


def chatter(found: RunResult) -> RunResult:
    """Print to standard output, as C does, what looks like an answer."""
    os.write(1, b'{"done": true}\n')
    return found


def drift(found: RunResult) -> RunResult:
    """Other forces each time, all of them right on a beam: 1, 2, ... N more in the middle."""
    global calls
    calls += 1
    return with_forces(found, found.iterate.forces + calls * np.array([-0.5, 1.0, -0.5]))


def count(found: RunResult) -> RunResult:
    """Say how many threads there are."""
    return dataclasses.replace(found, status=f"{numba.get_num_threads()} of numba")


def crash_later(found: RunResult) -> RunResult:
    """Crash when asked again."""
    global calls
    calls += 1
    return found if calls == 1 else crash(found)


@dataclass(frozen=True)
class Misbehaving:
    """Newton, and then something else."""

    then: Callable[[RunResult], RunResult]

    @property
    def name(self) -> str:
        return self.then.__name__

    @property
    def capability(self) -> Capability:
        return Newton().capability

    def run(self, posed, warm_start, verbose) -> RunResult:
        return self.then(Newton().run(posed, warm_start, verbose))


def factory() -> Mapping[str, Callable[[float | None], Backend]]:
    doings = (crash, leave, hang, parent, hog, starve, fail, lie, give_up, say_nan, chatter, drift,
              count, crash_later, end_from_outside)  # fmt: skip
    return {then.__name__: lambda accuracy, then=then: Misbehaving(then) for then in doings}
