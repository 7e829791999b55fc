"""The command line: one short file a command, which imports only what help texts need.

What a command does is called as ``cdopt.NAME``, which is imported when it is first used; so
``cdopt --help`` is quick.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130  # exit code after Ctrl-C
_PATIENCE = 2.0  # s that compiled code may go on after Ctrl-C
_python_interrupted = threading.Event()  # Ctrl-C, by Python


def app() -> None:
    """Run the command line. Ctrl-C ends it without a traceback, during imports and solves too."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=_end_compiled_code, args=(reader,), daemon=True).start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    importlib.import_module("cdopt.cli.main").app()


def _end_compiled_code(reader: int) -> None:
    """End the process where a solver's compiled code does not let Python hear of Ctrl-C."""
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    if not _python_interrupted.wait(_PATIENCE):
        _end()


def _end() -> None:
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End at once during an import, where libraries turn KeyboardInterrupt into other errors."""
    _python_interrupted.set()
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            _end()
        caller = caller.f_back
    signal.default_int_handler(number, frame)
