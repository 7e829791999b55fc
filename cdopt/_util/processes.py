"""Processes that make calls for this one, and are ended when a call takes too long; their memory.

On Linux such a process is a copy (fork) of a server, which has imported what calls need and has one
thread: it starts in milliseconds. On other systems it is a new process. It does not import from the
working folder (``python -P``). Orders and answers are pickles in pipes; what calls print goes to
stderr. Memory is in MB of 2²⁰ bytes.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from cdopt._util.forking import in_child

MB = 1024 * 1024
SHARE = 0.7  # of the machine's memory, the default limit of a process
COMMAND = [sys.executable, "-P", "-X", "faulthandler", "-m", "cdopt._util.processes"]
_COPIES = sys.platform == "linux"
_DIE_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG
_GRACE = 10.0  # s between the last answer of a process and its end
_LONGEST = 1000  # bytes of a pickled function
_NUMBER = 8  # bytes of a process number or exit code
_SERVERS: dict[Callable[[], object], _Server] = {}
_LOCK = threading.Lock()


class Worker:
    """A process that makes calls, one after the other; it dies with this one.

    ``prepare`` is a function of a module, called first, that imports what calls need; ``errors`` a
    file for its stderr.
    """

    def __init__(self, prepare: Callable[[], object], errors: IO[bytes] | None = None) -> None:
        self._process: subprocess.Popen[bytes] | _Copy
        self._started = False
        if _COPIES:
            self._process = _Copy(prepare, 2 if errors is None else errors.fileno())
        else:
            pipe, group = subprocess.PIPE, sys.platform != "win32"
            self._process = subprocess.Popen(
                COMMAND, stdin=pipe, stdout=pipe, stderr=errors, start_new_session=group
            )
        self.call(_begin, None if _COPIES else prepare, dict(os.environ), Path.cwd())

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Order ``function(send, *args)``, a function of a module; what it sends is received."""
        content, stream = pickle.dumps((function, args)), self._process.stdin
        with contextlib.suppress(OSError):  # it has ended, and ``receive`` reports it
            stream.write(content)  # type: ignore[union-attr]
            stream.flush()  # type: ignore[union-attr]

    def start(self, seconds: float) -> None:
        """Wait until it is ready for calls; raises as ``receive``."""
        if not self._started:
            self._started = self.receive(seconds)

    def receive(self, seconds: float) -> Any:
        """The next answer of the process."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            return pickle.load(self._process.stdout)  # type: ignore[arg-type]
        except (EOFError, pickle.UnpicklingError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
            self.end()
            raise (TimeoutError if late.is_set() else EOFError) from error
        except BaseException:  # Ctrl-C: nobody else would end it
            self.end()
            raise
        finally:
            timer.cancel()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def end(self) -> int:
        """End it and all that it started; its exit code, negative for a signal."""
        self._kill()
        code = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, AttributeError):  # half an order is left in it
                stream.close()  # type: ignore[union-attr]
        return code

    def _kill(self) -> None:
        if not self.alive:
            return
        if isinstance(self._process, _Copy) or not hasattr(os, "killpg"):
            self._process.kill()
        else:
            os.killpg(self._process.pid, signal.SIGKILL)


class _Server:
    """A process that makes copies of itself when asked."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*COMMAND, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.socket.send(pickle.dumps(prepare))

    def end(self) -> None:
        self.socket.close()
        self._process.kill()
        self._process.wait()


class _Copy:
    """A copy of the server for a function, used like a ``subprocess.Popen``."""

    def __init__(self, prepare: Callable[[], object], errors: int) -> None:
        (order, stdin), (stdout, answers), (self._status, report) = (os.pipe() for _ in range(3))
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        self._reading = threading.Lock()
        self._numbers: list[int] = []  # of the process, then its exit code
        files = [order, answers, errors, report]
        with _LOCK:
            self._server = _SERVERS.get(prepare) or _Server(prepare)
            try:
                socket.send_fds(self._server.socket, [b"copy"], files)
            except OSError:  # it was ended from outside
                self._server.end()
                self._server = _Server(prepare)
                socket.send_fds(self._server.socket, [b"copy"], files)
            _SERVERS[prepare] = self._server
        for file in (order, answers, report):
            os.close(file)

    def poll(self) -> int | None:
        return self._read(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Exit code of the process when it has ended; raises TimeoutExpired if it still runs."""
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a process", timeout or 0.0)
        return code

    def kill(self) -> None:
        """End it, and what it started; one that has not begun yet with its server."""
        self.poll()
        if not self._numbers:
            self._server.end()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._numbers[0], signal.SIGKILL)

    def _read(self, seconds: float | None) -> int | None:
        with self._reading:
            while len(self._numbers) < 2 and select.select([self._status], [], [], seconds)[0]:
                content = os.read(self._status, _NUMBER)
                if content:
                    self._numbers.append(int.from_bytes(content, "little", signed=True))
                else:  # it ended with its server
                    self._numbers = [0, -signal.SIGKILL]
                if len(self._numbers) == 2:
                    os.close(self._status)
            return self._numbers[1] if len(self._numbers) == 2 else None


def _end_all() -> None:
    while _SERVERS:
        _SERVERS.popitem()[1].end()


atexit.register(_end_all)
in_child(_SERVERS.clear)  # they answer to the parent
in_child(_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


# --- in the other processes ------------------------------------------------------------------


def _serve(orders: socket.socket) -> None:
    """Copies of this process, until nobody asks for them any more."""
    pickle.loads(orders.recv(_LONGEST))()
    gc.collect()
    gc.freeze()  # a copy that looks for cycles would copy the memory of all that was imported
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(orders, _LONGEST, 4)
        if not message:
            return
        server = os.getpid()
        if os.fork() == 0:
            orders.close()
            _watch(server, *files)
        for file in files:
            os.close(file)


def _watch(server: int, order: int, answers: int, errors: int, report: int) -> None:
    """Make one more copy, which makes the calls; report its number, and how it ended."""
    die_with_parent(server)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watcher, pid = os.getpid(), os.fork()
    if pid == 0:
        die_with_parent(watcher)
        os.setpgid(0, 0)
        os.close(report)
        for number, file in enumerate((order, answers, errors)):
            os.dup2(file, number)
            os.close(file)
        _work()
    for file in (order, answers, errors):
        os.close(file)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # here too: the one or the other is first
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
        os.write(report, pid.to_bytes(_NUMBER, "little"))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)  # what it started
    with contextlib.suppress(BrokenPipeError):
        os.write(report, code.to_bytes(_NUMBER, "little", signed=True))
    os._exit(0)


def _work() -> None:
    """Make calls until their pipe ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # solvers print in C too

    def send(answer: object) -> None:
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:  # nobody waits for answers any more
            os._exit(0)

    with os.fdopen(0, "rb", closefd=False) as orders:
        while True:
            try:
                function, args = pickle.load(orders)
            except (EOFError, pickle.UnpicklingError):  # the latter in the middle of an order
                sys.stderr.flush()
                os._exit(0)  # the exit of solvers while Python shuts down does not count
            function(send, *args)


def _begin(
    send: Callable[[object], None],
    prepare: Callable[[], object] | None,
    environment: dict[str, str],
    folder: Path,
) -> None:
    """Take over the environment and the working folder; ``prepare`` if this is no copy."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if prepare is not None:
        prepare()
    send(True)


def die_with_parent(parent: int) -> None:
    """Let Linux end this process when its ``parent`` ends, or at once if that has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def python_for(program: Path, environment: dict[str, str]) -> str | None:
    """This Python or the system's, which runs a program without an error; None if neither."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [candidate, str(program)]
            subprocess.run(command, env=environment, capture_output=True, timeout=60.0, check=True)
            return candidate
    return None


# --- memory ------------------------------------------------------------------------------------


def physical_memory() -> float | None:
    """Memory of the machine, MB; None where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MB
    except (AttributeError, OSError, ValueError):
        return None


def memory_limit() -> float | None:
    """The default limit of a process: 70 % of the machine's memory, MB."""
    memory = physical_memory()
    return None if memory is None else SHARE * memory


def limit_memory(limit: float | None) -> None:
    """Limit the memory of this process to ``limit`` MB, on systems that can; None for no limit."""
    resource = _resource_limits()
    if resource is None or limit is None:
        return
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    size = int(limit * MB)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (size, size))


def peak_memory() -> float | None:
    """The peak memory of this process, MB, without that of its parent; None where not reported."""
    line = first_line("/proc/self/status", "VmHWM")
    if line:
        return int(line.split()[1]) / 1024
    resource = _resource_limits()
    if resource is None:
        return None
    unit = MB if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / unit


def killed_for_memory() -> int:
    """How many processes Linux has ended since it started because memory ran out; 0 elsewhere."""
    line = first_line("/proc/vmstat", "oom_kill ")
    return int(line.split()[1]) if line else 0


def first_line(path: str, beginning: str) -> str:
    """The first line of a file that begins so; empty if there is none."""
    file = Path(path)
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line for line in lines if line.startswith(beginning)), "")


def _resource_limits() -> Any:
    """Python's module of resource limits; None on Windows."""
    try:
        return importlib.import_module("resource")
    except ImportError:
        return None


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _serve(socket.socket(fileno=int(sys.argv[1])))
    else:
        _work()
