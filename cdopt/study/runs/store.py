"""The file of a study: one record a line, appended as runs end, read back to go on."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from cdopt import checks
from cdopt.errors import InvalidInput
from cdopt.study.runs.record import Record, parse

FILE = "runs.jsonl"  # in the folder of a study


def read(path: str | Path) -> list[Record]:
    """The records of a study, in the order in which they came; of each run the last one.

    A last line that was only half written is passed over.

    Parameters
    ----------
    path : the file, or the folder of the study.

    Raises
    ------
    InvalidInput : no such file, or a line in it that is no record.
    """
    place = place_of(path)
    try:
        text = place.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput("path", f"{place}: {reason}", "a study's file or folder") from error
    found: dict[str, Record] = {}
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), 1):
        try:
            record = parse(line)
        except InvalidInput as error:
            raise InvalidInput(
                "path", f"{place}, line {number}: {error.found}", error.expected
            ) from (error)
        found.pop(record.id, None)
        found[record.id] = record
    return list(found.values())


def place_of(path: str | Path) -> Path:
    """The file of a study, given it or its folder.

    Raises
    ------
    InvalidInput : not a path.
    """
    if not isinstance(path, str | Path):
        raise InvalidInput("path", checks.describe(path), "a study's file or folder")
    place = Path(path)
    return place if place.suffix == ".jsonl" else place / FILE


class Writer:
    """A study's file, open to be added to, by one writer at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, record: Record) -> None:
        """Write a record; when this returns, it is on the disk."""
        self._file.write(record.line())
        self._file.flush()
        os.fsync(self._file.fileno())


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[tuple[list[Record], Writer]]:
    """What a study's file holds, and the way to add to it; made if it is not there.

    A last line that was only half written is cut off first.

    Raises
    ------
    InvalidInput : the file cannot be written or read, or somebody else is writing to it.
    """
    place = place_of(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.open("a+b")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput("out", f"{place}: {reason}", "a folder to write to") from error
    with file:
        _claim(file, place)
        file.seek(0)
        text = file.read()
        file.truncate(text.rfind(b"\n") + 1)
        yield read(place), Writer(file)


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
