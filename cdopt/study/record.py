"""Records of a study: one line of JSON for each run, of answers and failures alike.

A study is a file of such lines, appended as runs end. The first field, ``crc32``, is the CRC-32 of
the line without that field. Other fields are None if they were not measured, do not apply or are
not finite. Times are seconds of wall clock, memory is in MB of 2²⁰ bytes.

``outcome`` is one of these:

=========== ====================================================================================
solved     the certificate is ok at the requested tolerance, whatever the solver claims
wrong      the solver claims success, and the certificate fails
gave up    the solver claims no success, and the certificate fails
infeasible the problem is proven to have no solution
refused    the solver does not support this problem or this tolerance
missing    the solver is not installed
error      an exception, in cdopt or in the solver
crash      the process ended by a signal, or without a message
timeout    stopped at the time limit
memory     stopped at the memory limit, or by the kernel when the machine ran out of memory
interrupted the process was ended from outside; no result about the solver; it is repeated
=========== ====================================================================================
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import logging
import os
import platform
import re
import statistics
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import msgspec

import cdopt
from cdopt._util import checks, files
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import count
from cdopt._util.processes import first_line, physical_memory
from cdopt.backends.registry import SOLVERS
from cdopt.study.claims import is_near
from cdopt.study.plan import StudyRun

SCHEMA = 3  # of the lines; a reader refuses others
OUTCOMES = (
    "solved", "wrong", "gave up", "infeasible", "refused", "missing", "error", "crash", "timeout",
    "memory", "interrupted",
)  # fmt: skip
STAGES = (  # of a run's process, in this order
    "start", "load", "warm up", "cold", "solve", "proof", "own order", "compatible", "bounds",
)  # fmt: skip
PACKAGES = (
    *("numpy", "scipy", "numba", "cvxpy", "pypardiso", "pymetis"),
    *(solver.package for solver in SOLVERS.values() if solver.package),
)
FILE = "runs.jsonl"  # in the folder of a study
_BEGINNING = re.compile(rb'\{"crc32":"([0-9a-f]{8})",')
_EXPECTED = "a study's file or folder"
_LOG = logging.getLogger(__name__)
_LARGEST = 2**28  # bytes of a study's file
_DAMAGED = 10_000  # lines of one that is still read
LIMITED = ("timeout", "memory")  # outcomes that a higher limit may change


@dataclass(frozen=True)
class Answer:
    """The solver's answer and its certificate: of the last repeat, or the first that fails.

    Attributes
    ----------
    status : of the solver.
    claimed : whether it reported success.
    ok : whether the certificates are ok at ``tol``.
    tol : tolerance of the certificates: the requested one, or 1e-6.
    worst : the largest residual of all certificates.
    residuals : by certificate ("forces", and "classic" of a compatible solution) and name.
    iterations : the solver's count; of a compatible solution, that of its second problem.
    objective : optimal value of the form solved, N m/s or J.
    settings : of the solver; empty for its defaults.
    contacts, dofs : size of the problem as stated.
    """

    status: str
    claimed: bool
    ok: bool
    tol: float
    worst: float | None
    residuals: Mapping[str, Mapping[str, float | None]]
    iterations: int | None
    objective: float | None
    settings: Mapping[str, object]
    contacts: int
    dofs: int | None

    @property
    def near(self) -> bool:
        """Whether success is claimed, and the tolerance missed by less than a factor of ten."""
        return self.claimed and not self.ok and is_near(self.worst, self.tol)

    @property
    def honest(self) -> bool:
        """Whether claim and certificate agree, to within a factor of ten."""
        return self.claimed == self.ok or self.near


@dataclass(frozen=True)
class Times:
    """Seconds of one solve, by part. Imports and compiling of loops are excluded.

    Attributes
    ----------
    pose : to state the problem as cdopt's data and CVXPY's expressions.
    compile : to the solver's data (by CVXPY, or cdopt's scaling).
    solve : the solver including its set-up. setup : its set-up alone, if known.
    read : to convert the solver's answer to physical units.
    certify : cdopt's residuals.
    total : of the whole solve.
    """

    pose: float
    compile: float
    solve: float
    read: float
    certify: float
    total: float
    setup: float | None = None


@dataclass(frozen=True)
class Forces:
    """Positions of the contact forces among all admissible ones.

    Attributes
    ----------
    largest : largest contact force, N.
    distance : ‖f − f_compatible‖ / ‖f_compatible‖, on all contacts of the problem.
    distance_max : max |f − f_compatible| / max f_compatible.
    ratio : largest force divided by the largest compatible force.
    reference_worst : largest residual of the compatible solution by the reference backend.
    undetermined : number of contacts whose force classic contact dynamics does not determine; None
        if the bounds were not computed.
    positions : of these contacts, (f − lower) / (upper − lower) of their admissible interval.
    outside : the largest distance of a force from its interval, divided by the largest upper bound.
    """

    largest: float | None = None
    distance: float | None = None
    distance_max: float | None = None
    ratio: float | None = None
    reference_worst: float | None = None
    undetermined: int | None = None
    positions: tuple[float, ...] | None = None
    outside: float | None = None


@dataclass(frozen=True)
class Stability:
    """Whether repeated solves give the same answer, also with other orders and starts.

    Differences of forces are max |f − f'| / max f'.

    Attributes
    ----------
    identical : whether all repeats gave the same forces, bit by bit; None for one repeat.
    repeats : largest difference of a repeat from the first; None for one repeat.
    order : difference from the answer in the problem's order, of a run with a ``seed``.
    start : difference from the cold answer, of a run with another mode.
    cold_total : seconds of the cold solve. cold_iterations : its iterations.
    """

    identical: bool | None = None
    repeats: float | None = None
    order: float | None = None
    start: float | None = None
    cold_total: float | None = None
    cold_iterations: int | None = None


@dataclass(frozen=True)
class Findings:
    """Measurements of a run so far; None if not yet known.

    Attributes
    ----------
    outcome : one of ``OUTCOMES``.
    message : why there is no answer, or which later measurement failed; "" otherwise.
    answer, forces, stability : None if no solve returned.
    times : of every repeat, in order; the first may fill caches. Empty if no solve returned.
    memory : peak of the process until the last repeat ended, MB; memory_before : before the
        problem was stated.
    """

    outcome: str
    message: str = ""
    answer: Answer | None = None
    times: tuple[Times, ...] = ()
    forces: Forces | None = None
    stability: Stability | None = None
    memory: float | None = None
    memory_before: float | None = None

    @property
    def seconds(self) -> float | None:
        """Median over the repeats of the whole solve; None without an answer."""
        return statistics.median(t.total for t in self.times) if self.times else None


@dataclass(frozen=True)
class Ended:
    """How the process of the run ended.

    Attributes
    ----------
    code : its exit code; None if a signal ended it, or it did not start.
    signal : number of the signal; None without one.
    stage : the one at its end, of ``STAGES``; "" if it was complete.
    seconds : from start to end, imports included.
    stderr : up to 4000 characters: the last, or the first of Python's fault handler; empty if it
        was complete.
    """

    code: int | None
    signal: int | None
    stage: str
    seconds: float
    stderr: str = ""


@dataclass(frozen=True)
class Machine:
    """The machine and the package versions of a run.

    Attributes
    ----------
    host, processor, system, python : names. cores : logical processors. memory : physical, MB.
    versions : of cdopt, CVXPY and the solvers, by package; None where not installed.
    """

    host: str
    processor: str
    system: str
    python: str
    cores: int | None
    memory: float | None
    versions: Mapping[str, str | None] = field(default_factory=dict)


@functools.cache
def machine() -> Machine:
    """This machine, and the versions of the solvers on it."""
    name = first_line("/proc/cpuinfo", "model name").partition(":")[2].strip()
    return Machine(
        host=platform.node(),
        processor=name or platform.processor() or "unknown",
        system=platform.platform(),
        python=platform.python_version(),
        cores=os.cpu_count(),
        memory=physical_memory(),
        versions={"cdopt": cdopt.__version__} | {p: _version(p) for p in PACKAGES},
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, kw_only=True)
class Record(Findings):
    """One run and its result.

    Attributes
    ----------
    id : ``run.id``. run : its settings.
    time_limit : seconds for one solve. memory_limit : MB; None without one.
    ended : of the process. machine : where it ran. date : when it ended, ISO 8601 in UTC.
    schema : version of this layout.

    The others are those of its ``Findings``.
    """

    id: str
    run: StudyRun
    time_limit: float
    memory_limit: float | None
    ended: Ended
    machine: Machine
    date: str
    schema: int = SCHEMA

    def __repr__(self) -> str:
        return f"Record({self.run.label}: {self.outcome})"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        return content

    def line(self) -> bytes:
        """The record as one line of JSON, its end included."""
        text = msgspec.json.encode(self)
        return b'{"crc32":"%08x",' % zlib.crc32(text) + text[1:] + b"\n"


def outcomes(records: Sequence[Record]) -> str:
    """The number of records by outcome: "5 runs: 4 solved, 1 crash"."""
    numbers = Counter(record.outcome for record in records).most_common()
    listed = ", ".join(f"{number:,} {outcome}" for outcome, number in numbers)
    return ": ".join(filter(None, [count(len(records), "run"), listed]))


# --- the file of a study -----------------------------------------------------------------------


def read(path: str | Path) -> list[Record]:
    """The records of a study in the order in which they were made; of equal runs the last one.

    An incomplete last line is left out, and so are damaged lines, with a warning in the log.

    Parameters
    ----------
    path : the file, or the folder of the study.

    Raises
    ------
    InvalidInput : no such file, or one that is not of a study, of another version of cdopt, or
        larger than 256 MiB.
    """
    file_path = records_file(path)
    return records_in(files.read_bytes(file_path, _EXPECTED, at_most=_LARGEST), str(file_path))


def records_file(path: str | Path) -> Path:
    """The file of a study, given it or its folder."""
    if not isinstance(path, str | Path):
        raise InvalidInput("path", checks.describe(path), _EXPECTED)
    file_path = checks.path("path", path)
    return file_path if file_path.suffix == ".jsonl" else file_path / FILE


def records_in(text: bytes, source: str) -> list[Record]:
    """The records in the ``text`` of a file, the last one of each run; damaged lines are logged."""
    records: dict[str, Record] = {}
    damaged, foreign = [], bool(text)
    for number, line in enumerate(io.BytesIO(text), 1):
        foreign = foreign and not _BEGINNING.match(line)
        if not line.endswith(b"\n"):
            break  # half written
        try:
            record = parse(line)
        except InvalidInput as error:
            where = f"{source}, line {number}: {error.found}"
            raise InvalidInput("path", where, error.expected) from error
        if record is None:
            damaged.append(number)
        else:
            records.pop(record.id, None)
            records[record.id] = record
        if len(damaged) > _DAMAGED:
            found = f"{source}: more than {_DAMAGED:,} damaged lines"
            raise InvalidInput("path", found, _EXPECTED)
    if foreign:
        raise InvalidInput("path", f"{source}: lines that are no records of runs", _EXPECTED)
    if damaged:
        message = "%s: damaged lines are left out, their runs count as missing: line %s"
        _LOG.warning(message, source, ", ".join(map(str, damaged)))
    return list(records.values())


def parse(line: bytes) -> Record | None:
    """The record of a line, with or without a line end; None if it is damaged or not a record."""
    beginning = _BEGINNING.match(line)
    content = b"{" + line.rstrip(b"\n")[beginning.end() :] if beginning else b""
    if beginning is None or int(beginning[1], 16) != zlib.crc32(content):
        return None
    schema = msgspec.json.decode(content).get("schema")
    if schema != SCHEMA:
        expected = f"layout {SCHEMA}; make the study again in another folder"
        raise InvalidInput("line", f"layout {schema}, of another version of cdopt", expected)
    return msgspec.json.decode(content, type=Record)


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[tuple[list[Record], Callable[[Record], None]]]:
    """The records in a study's file, created if missing, and a function that appends one to it."""
    file_path = records_file(path)
    if file_path.exists():
        read(file_path)  # refused before it is opened for writing
    try:
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file = file_path.open("a+b", buffering=0)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput("out", f"{file_path}: {reason}", "a folder to write to") from error
    with file:
        _lock(file, file_path)
        file.seek(0)
        text = file.read()
        end = text.rfind(b"\n") + 1
        if _BEGINNING.match(text[end:]):
            file.truncate(end)
        elif text[end:]:
            file.write(b"\n")  # foreign text, which remains as a damaged line
        yield records_in(text, str(file_path)), lambda record: _append(file, record.line())


def _append(file: IO[bytes], line: bytes) -> None:
    """Write all of a line and wait for the disk; on failure leave the file as it was."""
    handle = file.fileno()
    end = os.fstat(handle).st_size
    with files.named(file.name, "out"):
        try:
            while line:
                line = line[os.write(handle, line) :]
            os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, end)
            raise


def _lock(file: IO[bytes], file_path: Path) -> None:
    """Lock the file until it is closed, on systems that can."""
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        found = f"{file_path}: another study is writing to it"
        raise InvalidInput("out", found, "a file of this study alone") from error
