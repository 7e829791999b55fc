"""Processes that are copies of one that has imported cdopt already: they start in milliseconds.

On Linux a server imports what runs need, once, and makes each run in a copy of itself (fork). It
has only one thread of Python, and no run takes place in the server itself. Its environment is that
of the run: another working folder, environment or number of threads needs another server.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

AVAILABLE = sys.platform == "linux"
WORKER = [sys.executable, "-P", "-X", "faulthandler", "-m", "cdopt.study.worker"]
SERVE = "--serve"  # the worker's option, with the number of its socket
_NUMBER = 8  # bytes of a process number or exit code
_IDLE: list[ForkServer] = []
_LOCK = threading.Lock()


class ForkServer:
    """A server, which has at most one copy of itself at a time.

    Parameters
    ----------
    environment : variables of the processes, by name.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.serves = (Path.cwd(), environment)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*WORKER, SERVE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def copy(self, order: int, answers: int, errors: int) -> int | None:
        """Make a copy with these files as stdin, stdout and stderr; its process number.

        None if the server has ended.
        """
        try:
            socket.send_fds(self._socket, [b"run"], [order, answers, errors])
        except OSError:
            return None
        return receive(self._socket)

    def exit_code(self, seconds: float | None) -> int | None:
        """The exit code of the copy, negative for a signal; None if it runs on after ``seconds``.

        A server that ended ends its copy too.
        """
        self._socket.settimeout(seconds)
        try:
            code = receive(self._socket)
        except (TimeoutError, BlockingIOError):
            return None
        finally:
            self._socket.settimeout(None)
        return -9 if code is None else code

    def end(self) -> None:
        """End the server."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


class Copy:
    """A process of a server, used like a ``subprocess.Popen``.

    Attributes
    ----------
    pid : its number, and that of its group. stdin, stdout : pipes to and from it.
    returncode : as in ``subprocess.Popen``.
    """

    def __init__(self, environment: dict[str, str], errors: IO[bytes]) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()
        (read, order), (answers, write) = os.pipe(), os.pipe()
        self.stdin: IO[bytes] = os.fdopen(order, "wb")
        self.stdout: IO[bytes] = os.fdopen(answers, "rb")
        try:
            self._server, self.pid = _copied(environment, read, write, errors.fileno())
        finally:
            os.close(read)
            os.close(write)

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdin.close()
        self.stdout.close()
        self.wait()

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit code.

        Raises
        ------
        subprocess.TimeoutExpired : it runs on after ``timeout`` seconds.
        """
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a run", timeout or 0.0)
        return code

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            os.kill(self.pid, 9)

    def _ended(self, seconds: float | None) -> int | None:
        with self._lock:
            if self.returncode is None:
                self.returncode = self._server.exit_code(seconds)
                if self.returncode is not None:
                    _IDLE.append(self._server)
            return self.returncode


def receive(end: socket.socket) -> int | None:
    """A number from the other end of a socket; None if that is closed."""
    try:
        content = end.recv(_NUMBER, socket.MSG_WAITALL)
    except ConnectionError:
        return None
    return int.from_bytes(content, "little", signed=True) if len(content) == _NUMBER else None


def send(end: socket.socket, number: int) -> None:
    """Send a number to the other end of a socket."""
    end.sendall(number.to_bytes(_NUMBER, "little", signed=True))


def _copied(
    environment: dict[str, str], order: int, answers: int, errors: int
) -> tuple[ForkServer, int]:
    """A server with this environment that is not in use, and a copy of it."""
    wanted = (Path.cwd(), environment)
    with _LOCK:
        for server in [s for s in _IDLE if s.serves != wanted]:
            _IDLE.remove(server)
            server.end()
        server = _IDLE.pop() if _IDLE else ForkServer(environment)
    pid = server.copy(order, answers, errors)
    if pid is None:  # it was ended from outside
        server.end()
        server = ForkServer(environment)
        pid = server.copy(order, answers, errors)
    if pid is None:
        server.end()
        raise OSError("the process that makes runs does not start")
    return server, pid


def _end_all() -> None:
    while _IDLE:
        _IDLE.pop().end()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # they answer to the parent
