"""The command line: one short file a command. Each imports only what help texts need.

What a command does is called as ``cdopt.NAME``, which is imported when it is first used; so
``cdopt --help`` is quick.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130  # exit code after Ctrl-C


def app() -> None:
    """Run the command line. Ctrl-C while modules are imported ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    importlib.import_module("cdopt.cli.main").app()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End at once during an import, where libraries turn KeyboardInterrupt into other errors."""
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            sys.stderr.write("interrupted\n")
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        caller = caller.f_back
    signal.default_int_handler(number, frame)
