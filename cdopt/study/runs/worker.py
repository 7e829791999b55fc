"""The process of one run: ``python -m cdopt.study.runs.worker``, told by JSON on its stdin.

It answers line by line in JSON on its stdout: which stage begins and how long it may take, what
is known so far, and that it is done. What solvers print goes to stderr.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from typing import Any

import msgspec

from cdopt.study.runs.measure import measure
from cdopt.study.runs.memory import limit_memory
from cdopt.study.runs.messages import PREPARING, Message, Order
from cdopt.study.runs.record import Findings

_DIE_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG


def main() -> None:
    """Do what stdin says."""
    die_with_parent()
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # solvers that print do so in C
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    if order.memory_limit is not None:
        limit_memory(order.memory_limit)

    def tell(**content: Any) -> None:
        channel.write(msgspec.json.encode(Message(**content)) + b"\n")
        channel.flush()

    def stage(name: str) -> None:
        limit = order.start_limit if name in PREPARING else order.time_limit
        tell(stage=name, limit=limit)

    try:
        measure(order.run, stage, lambda findings: tell(findings=findings))
    except MemoryError:
        tell(findings=Findings("memory", "MemoryError"))
    except Exception as error:
        traceback.print_exc()
        tell(findings=Findings("error", f"{type(error).__name__}: {error}"[:500]))
    tell(done=True)
    sys.stderr.flush()
    os._exit(0)  # what solvers do while Python shuts down is no part of the run


def die_with_parent() -> None:
    """On Linux, let the kernel end this process when the one that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


if __name__ == "__main__":
    main()
