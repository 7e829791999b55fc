"""What the process of a run is told, and what it tells, each a line of JSON."""

from __future__ import annotations

from dataclasses import dataclass

from cdopt.study.runs.record import Findings
from cdopt.study.runs.run import Run

PREPARING = ("start", "load", "warm up")  # stages that may compile: they have a limit of their own


@dataclass(frozen=True)
class Order:
    """What a process is told.

    Attributes
    ----------
    run : what to do. time_limit : s, for each stage. start_limit : s, for stages that may compile.
    memory_limit : MB, or None.
    """

    run: Run
    time_limit: float
    start_limit: float
    memory_limit: float | None


@dataclass(frozen=True)
class Message:
    """One line from a process.

    Attributes
    ----------
    stage : what begins now, if this is what the line tells; limit : s that it may take.
    findings : what is known so far, if the line tells this.
    done : whether this is the last line.
    """

    stage: str | None = None
    limit: float | None = None
    findings: Findings | None = None
    done: bool = False
