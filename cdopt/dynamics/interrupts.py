"""Ctrl-C at a convenient moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Put a Ctrl-C off to the end of the block, so that nothing is left half written.

    Only the main thread of a program hears Ctrl-C; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[Any, Any]] = []
    before = signal.signal(signal.SIGINT, lambda *seen: heard.append(seen))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard and callable(before):
        before(*heard[0])
