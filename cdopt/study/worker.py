"""The process of one run: ``python -m cdopt.study.worker``, with its order as JSON on stdin.

It answers line by line in JSON on its stdout: which stage begins, what is known so far, and that it
is done. What solvers print goes to stderr. With ``--serve SOCKET`` it makes copies of itself that
do so, each with the three files that come with a message.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import traceback
from typing import Any

import msgspec

from cdopt._util.memory import die_with_parent, limit_memory
from cdopt.backends.watched_process import warm_up
from cdopt.study import fork_server
from cdopt.study.measure import measure
from cdopt.study.process import Message, Order
from cdopt.study.record import Findings


def main() -> None:
    """Make the run that stdin orders, or copies that do."""
    die_with_parent()
    if fork_server.SERVE in sys.argv:
        _serve(socket.socket(fileno=int(sys.argv[-1])))
    else:
        _make()


def _make() -> None:
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # solvers print in C too
    with os.fdopen(0, "rb", closefd=False) as stdin:
        order = msgspec.json.decode(stdin.read(), type=Order)
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


def _serve(orders: socket.socket) -> None:
    """Copies of this process, one after the other, until nobody asks for them any more."""
    warm_up()
    gc.collect()
    gc.freeze()  # a copy that looks for cycles would copy the memory of all that was imported
    while True:
        message, files, _, _ = socket.recv_fds(orders, 16, 3)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            orders.close()
            os.setpgid(0, 0)
            die_with_parent()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            _make()
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):  # it may have ended
            os.setpgid(pid, pid)  # here too: the one or the other is first
        fork_server.send(orders, pid)
        fork_server.send(orders, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
