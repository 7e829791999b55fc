"""The process of one run: ``python -m cdopt.study.worker``, with its order as JSON on stdin.

It answers line by line in JSON on its stdout: which stage begins, what is known so far, and that it
is done. What solvers print goes to stderr.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import msgspec

from cdopt._util.memory import die_with_parent, limit_memory
from cdopt.study.measure import measure
from cdopt.study.process import Message, Order
from cdopt.study.record import Findings


def main() -> None:
    """Make the run that stdin orders."""
    die_with_parent()
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # solvers print in C too
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    if order.memory_limit is not None:
        limit_memory(order.memory_limit)

    def send(**content: Any) -> None:
        channel.write(msgspec.json.encode(Message(**content)) + b"\n")
        channel.flush()

    try:
        measure(
            order.run, lambda stage: send(stage=stage), lambda findings: send(findings=findings)
        )
    except MemoryError:
        send(findings=Findings("memory", "MemoryError"))
    except Exception as error:
        traceback.print_exc()
        send(findings=Findings("error", f"{type(error).__name__}: {error}"[:500]))
    send(done=True)
    sys.stderr.flush()
    os._exit(0)  # what solvers do while Python shuts down is no part of the run


if __name__ == "__main__":
    main()
