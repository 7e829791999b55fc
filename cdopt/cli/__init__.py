"""The command line: one short file per command, which imports only what help texts need.

Commands call ``cdopt.NAME``, which is imported on first use, so that ``cdopt --help`` is quick.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

import cdopt

INTERRUPTED = 130  # exit code after Ctrl-C
_PATIENCE = 2.0  # s that compiled code may go on after Ctrl-C
_PLAIN = {  # for terminals that have ASCII alone
    "–": "-", "—": "-", "−": "-", "…": "...", "∞": "inf", "×": "x", "·": "*", "µ": "u", "μ": "mu",
    "█": "#", "“": '"', "”": '"', "≤": "<=", "≥": ">=", "→": "->", "²": "^2", "°": " deg",
    "é": "e", "ö": "oe", "ä": "ae", "ü": "ue", "č": "c", "¯": "-", "∂": "d",
}  # fmt: skip
_python_interrupted = threading.Event()  # Ctrl-C, by Python


def app() -> None:
    """Run the command line; Ctrl-C, a full disk or a missing folder end it without a traceback."""
    codecs.register_error("cdopt", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where the descriptor was closed
            stream.reconfigure(errors="cdopt")
    os.environ["MPLBACKEND"] = "agg"  # pictures are saved, never shown
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=_end_compiled_code, args=(reader,), daemon=True).start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    if not hasattr(cdopt, "_OTHERS"):
        sys.exit("error: another project of the name cdopt is installed over this one; install "
                 "them apart: pip uninstall cdopt cdopt-contact")  # fmt: skip
    try:
        Path.cwd()
    except OSError as error:
        sys.exit(f"error: the working folder cannot be used: {error.strerror}")
    code: int | str | None = None
    try:
        importlib.import_module("cdopt.cli.main").app()
    except SystemExit as end:
        code = end.code
    except OSError as error:
        if error.filename is not None:  # of a file, and not of what is printed
            raise
        _not_written(error)
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError as error:
        _not_written(error)
    sys.exit(code)


def _not_written(error: OSError) -> NoReturn:
    """Exit if the output cannot be written, without further output."""
    for stream, text in ((sys.stdout, ""), (sys.stderr, f"error: no output: {error.strerror}\n")):
        with contextlib.suppress(OSError, AttributeError):
            stream.write(text)
            stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    sys.exit(1)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replacements for characters that the terminal cannot show."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    plain = (_PLAIN.get(c) or c.encode("unicode_escape").decode() for c in missing)
    return "".join(plain), error.end


def _end_compiled_code(reader: int) -> None:
    """End the process if a solver's compiled code keeps Python from receiving Ctrl-C."""
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    if not _python_interrupted.wait(_PATIENCE):
        _end()


def _end() -> None:
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End at once during imports, in which libraries turn KeyboardInterrupt into other errors."""
    _python_interrupted.set()
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            _end()
        caller = caller.f_back
    signal.default_int_handler(number, frame)
