"""The file of a study: one record a line, appended as runs end, read back to go on.

A file that holds anything else is refused before it is opened for writing. A damaged line among
records costs its run, which is made again.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from cdopt._util import checks, files
from cdopt._util.errors import InvalidInput
from cdopt.study.runs.record import OtherLayout, Record, begins_record, parse

FILE = "runs.jsonl"  # in the folder of a study

_LOG = logging.getLogger(__name__)
_EXPECTED = "a study's file or folder"


def read(path: str | Path) -> list[Record]:
    """The records of a study, in the order in which they came; of each run the last one.

    A last line that was only half written is passed over. Damaged lines are too, and a warning is
    logged.

    Parameters
    ----------
    path : the file, or the folder of the study.

    Raises
    ------
    InvalidInput : no such file, or one that is no study's or of another version of cdopt.
    """
    place = place_of(path)
    found, damaged = _records(files.read_bytes(place, _EXPECTED), place)
    _tell(damaged, place)
    return found


def place_of(path: str | Path) -> Path:
    """The file of a study, given it or its folder.

    Raises
    ------
    InvalidInput : not a path.
    """
    if not isinstance(path, str | Path):
        raise InvalidInput("path", checks.describe(path), _EXPECTED)
    place = Path(path)
    return place if place.suffix == ".jsonl" else place / FILE


class Writer:
    """A study's file, open to be added to, by one writer at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, record: Record) -> None:
        """Write a record; when this returns, it is on the disk.

        Raises
        ------
        SaveFailed : the disk is full or cannot be written. All records before this one are kept.
        """
        rest, handle = record.line(), self._file.fileno()
        end = os.fstat(handle).st_size
        with files.named(self._file.name, "out"):
            try:
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, end)
                raise


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[tuple[list[Record], Writer]]:
    """What a study's file holds, and the way to add to it; made if it is not there.

    A last line that was only half written is cut off first.

    Raises
    ------
    InvalidInput : the file is no study's, cannot be written or read, or somebody else is writing
        to it.
    """
    place = place_of(path)
    if place.exists():
        # what is not a study's is refused here, before it is opened for writing
        _records(files.read_bytes(place, _EXPECTED), place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.open("a+b", buffering=0)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput("out", f"{place}: {reason}", "a folder to write to") from error
    with file:
        _claim(file, place)
        file.seek(0)
        text = file.read()
        found, damaged = _records(text, place)
        _tell(damaged, place)
        end = text.rfind(b"\n") + 1
        if begins_record(text[end:]):
            file.truncate(end)
        elif text[end:]:
            file.write(b"\n")  # not ours to cut off: a damaged line
        yield found, Writer(file)


def _records(text: bytes, place: Path) -> tuple[list[Record], list[int]]:
    """The records in the text of a file, the last one of each run; numbers of damaged lines.

    Raises
    ------
    InvalidInput : the text is not a study's, or of another version of cdopt.
    """
    *lines, rest = text.split(b"\n")
    found: dict[str, Record] = {}
    damaged = []
    for number, line in enumerate(lines, 1):
        try:
            record = parse(line)
        except OtherLayout as error:
            raise InvalidInput(
                "path", f"{place}, line {number}: {error.found}", error.expected
            ) from error
        except InvalidInput:
            damaged.append(number)
            continue
        found.pop(record.id, None)
        found[record.id] = record
    begun = found or any(begins_record(line) for line in (*lines, rest))
    if text and not begun:
        raise InvalidInput("path", f"{place}: lines that are no records of runs", _EXPECTED)
    return list(found.values()), damaged


def _tell(damaged: list[int], place: Path) -> None:
    if damaged:
        where = ", ".join(map(str, damaged[:10])) + (", …" if len(damaged) > 10 else "")
        words = "%s: %d damaged, left out, their runs count as not made: line %s"
        _LOG.warning(words, place, len(damaged), where)


def _claim(file: IO[bytes], place: Path) -> None:
    """Lock the file until it is closed, where the system can."""
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        found = f"{place}: another study is writing to it"
        raise InvalidInput("out", found, "a file of its own") from error
