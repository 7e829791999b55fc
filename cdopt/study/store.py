"""The file of a study: one record a line, appended as runs end.

A file that is not a study's is refused before it is opened for writing. A damaged line among
records costs its run, which is repeated.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from cdopt._util import checks, files
from cdopt._util.errors import InvalidInput
from cdopt.study.record import OtherLayout, Record, begins_record, parse

FILE = "runs.jsonl"  # in the folder of a study

_LOG = logging.getLogger(__name__)
_EXPECTED = "a study's file or folder"


def read(path: str | Path) -> list[Record]:
    """The records of a study in the order in which they came; of equal runs the last one.

    A last line that was only half written is left out. So are damaged lines, with a warning in
    the log.

    Parameters
    ----------
    path : the file, or the folder of the study.

    Raises
    ------
    InvalidInput : no such file, or one that is no study's or of another version of cdopt.
    """
    file_path = records_file(path)
    return _records(files.read_bytes(file_path, _EXPECTED), file_path)


def records_file(path: str | Path) -> Path:
    """The file of a study, given it or its folder.

    Raises
    ------
    InvalidInput : not a path.
    """
    if not isinstance(path, str | Path):
        raise InvalidInput("path", checks.describe(path), _EXPECTED)
    file_path = Path(path)
    return file_path if file_path.suffix == ".jsonl" else file_path / FILE


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[tuple[list[Record], Callable[[Record], None]]]:
    """The records in a study's file, and a function that adds one; the file is made if missing.

    When the function returns, the record is on the disk. It raises SaveFailed when the disk is full
    or cannot be written; all records before this one are kept. A last line that was only half
    written is cut off first.

    Raises
    ------
    InvalidInput : the file is no study's, cannot be written or read, or another study is writing
        to it.
    """
    file_path = records_file(path)
    if file_path.exists():
        _records(
            files.read_bytes(file_path, _EXPECTED), file_path
        )  # refused before opened for writing
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
        if begins_record(text[end:]):
            file.truncate(end)
        elif text[end:]:
            file.write(b"\n")  # text of somebody else, which stays as a damaged line
        yield _records(text, file_path), lambda record: _append(file, record.line())


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


def _records(text: bytes, file_path: Path) -> list[Record]:
    """The records in the text of a file, the last one of each run; damaged lines are logged.

    Raises
    ------
    InvalidInput : the text is not a study's, or of another version of cdopt.
    """
    *lines, rest = text.split(b"\n")
    records: dict[str, Record] = {}
    damaged = []
    for number, line in enumerate(lines, 1):
        try:
            record = parse(line)
        except OtherLayout as error:
            where = f"{file_path}, line {number}: {error.found}"
            raise InvalidInput("path", where, error.expected) from error
        except InvalidInput:
            damaged.append(str(number))
            continue
        records.pop(record.id, None)
        records[record.id] = record
    if text and not records and not any(begins_record(line) for line in (*lines, rest)):
        raise InvalidInput("path", f"{file_path}: lines that are no records of runs", _EXPECTED)
    if damaged:
        where = ", ".join(damaged[:10]) + (", …" if len(damaged) > 10 else "")
        message = "%s: damaged lines are left out, their runs count as missing: line %s"
        _LOG.warning(message, file_path, where)
    return list(records.values())


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
        raise InvalidInput("out", found, "a file of its own") from error
