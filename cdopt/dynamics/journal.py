"""A file that is at all times what it was at some commit, wherever its process was killed.

HDF5 changes a file in many places at once, and a process that dies among these writes leaves
rubbish. Here the writes stay in memory until ``commit``. A commit writes the changed pages to a
journal beside the file, makes it valid by renaming it, and only then changes the file. Killed
before the renaming, the file is as it was at the last commit. Killed after it, who reads the file
sees the pages of the journal in place of its own, and the next writer copies them once more.
Readers write nothing. A file without a journal beside it is always whole, and other programs can
read it while it grows.

None of these files may be a link, and a journal must bring every page by which the file grows.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util import files
from cdopt._util.checks import IntArray
from cdopt._util.errors import InvalidInput

try:
    import fcntl
except ImportError:  # Windows: two writers at a time are not noticed
    fcntl = None  # type: ignore[assignment]

PAGE = 16384  # bytes
_MAGIC = b"cdopt journal 1\n"
_HEAD = struct.Struct("<qqI")  # size of the file, number of pages, checksum of what follows
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
_MODES = {os.O_RDONLY: "rb", os.O_RDWR: "r+b"}


@dataclass(frozen=True, eq=False)
class _Journal:
    """Size of the file after a commit, and the pages (n, PAGE) that it changes, by number."""

    size: int
    numbers: IntArray
    pages: NDArray[np.uint8]


class CommittedFile(io.RawIOBase):
    """A file as it is after its last commit, open to read: its journal is read, not copied.

    Parameters
    ----------
    path : the file; not a link.
    writing : open it to write as well.

    Raises
    ------
    InvalidInput : the file or its journal is damaged, a link or no regular file.
    """

    _file: Any = None

    def __init__(self, path: Path, writing: bool = False) -> None:
        super().__init__()
        self._file = _opened(path, os.O_RDWR if writing else os.O_RDONLY)
        self._size = self._stored = self._file.seek(0, os.SEEK_END)
        self._place = 0
        self._pages: dict[int, Any] = {}
        journal = _read_journal(path, self._stored)
        if journal is not None:
            self._size = journal.size
            self._pages = dict(zip(journal.numbers.tolist(), journal.pages, strict=True))

    def readable(self) -> bool:  # noqa: D102
        return True

    def seekable(self) -> bool:  # noqa: D102
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:  # noqa: D102
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:  # noqa: D102
        return self._place

    def readinto(self, buffer: Any) -> int:  # noqa: D102
        view = memoryview(buffer).cast("B")
        count = max(min(len(view), self._size - self._place), 0)
        done = 0
        while done < count:
            number, start = divmod(self._place + done, PAGE)
            part = min(PAGE - start, count - done)
            view[done : done + part] = self._page(number)[start : start + part]
            done += part
        self._place += count
        return count

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            if self._file is not None:
                self._file.close()
            super().close()

    def _page(self, number: int) -> Any:
        """A page after the last commit, zeros beyond the end."""
        page = self._pages.get(number)
        if page is not None:
            return page
        self._file.seek(number * PAGE)
        wanted = min(max(self._stored - number * PAGE, 0), PAGE)
        found = self._file.read(wanted) if wanted else b""
        return found + bytes(PAGE - len(found))


class JournaledFile(CommittedFile):
    """A binary file, open to read and write, whose changes reach the disk by ``commit`` alone.

    Parameters
    ----------
    path : an existing file, not a link; a journal beside it is copied into it first.

    Attributes
    ----------
    pending : bytes that wait for a commit.

    Raises
    ------
    InvalidInput : another process has the file open to write; it, its journal or its lock is a
        link or no regular file; the journal is damaged.
    SaveFailed : the disk is full or cannot be written.
    """

    _lock: int | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _locked(path)
        try:
            _replay(path)
            super().__init__(path, writing=True)
        except BaseException:
            self.close()
            raise

    @property
    def pending(self) -> int:  # noqa: D102
        return len(self._pages) * PAGE

    def writable(self) -> bool:  # noqa: D102
        return True

    def write(self, data: Any) -> int:  # noqa: D102
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            number, start = divmod(self._place + done, PAGE)
            part = min(PAGE - start, len(view) - done)
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = bytearray(self._page(number))
            page[start : start + part] = view[done : done + part]
            done += part
        self._place += done
        self._size = max(self._size, self._place)
        return done

    def truncate(self, size: int | None = None) -> int:  # noqa: D102
        wanted = self._place if size is None else size
        if wanted < self._size:
            first, start = divmod(wanted, PAGE)
            for number in [number for number in self._pages if number > first]:
                del self._pages[number]
            if start and wanted < self._stored:
                self._pages.setdefault(first, bytearray(self._page(first)))
            if first in self._pages:
                self._pages[first][start:] = bytes(PAGE - start)
            self._stored = min(self._stored, wanted)  # nothing beyond is read again
        self._size = wanted
        return wanted

    def flush(self) -> None:
        """Nothing: what HDF5 flushes waits for ``commit``."""

    def close(self) -> None:
        """Close the file; what was not committed is gone."""
        super().close()
        lock, self._lock = self._lock, None
        if lock is not None:
            _unlock(self._path, lock)

    def commit(self) -> None:
        """Make every change so far last.

        Raises
        ------
        SaveFailed : the disk is full or cannot be written. The file can be opened as it was at
            the last commit, or at this one.
        """
        for number in range(self._stored // PAGE, -(-self._size // PAGE)):
            self._pages.setdefault(number, self._page(number))
        numbers = np.array(sorted(self._pages), dtype="<i8")
        content = b"".join([numbers.tobytes(), *(self._pages[int(n)] for n in numbers)])
        head = _HEAD.pack(self._size, numbers.size, zlib.crc32(content))
        draft, journal = _beside(self._path, ".journal-draft"), _beside(self._path, ".journal")
        pages = np.frombuffer(content, np.uint8, offset=numbers.nbytes).reshape(-1, PAGE)
        with files.named(self._path, "out"):
            try:
                draft.unlink(missing_ok=True)
                with os.fdopen(os.open(draft, _NEW, 0o666), "wb", buffering=0) as stream:
                    _write_all(stream, memoryview(_MAGIC + head + content))
                    os.fsync(stream.fileno())
                draft.replace(journal)
            except OSError:
                with contextlib.suppress(OSError):
                    draft.unlink(missing_ok=True)
                raise
            files.synchronise(journal.parent)
            _apply(self._file, _Journal(self._size, numbers, pages))
            journal.unlink()
        self._stored = self._size
        self._pages.clear()


def half_done(path: Path) -> bool:
    """Whether a journal stands beside a file: its last commit is not yet in it as a whole."""
    return os.path.lexists(_beside(path, ".journal"))


def _replay(path: Path) -> None:
    """Finish the commit that a killed process left half done; only the lock's holder may."""
    with files.named(path, "out"):
        _beside(path, ".journal-draft").unlink(missing_ok=True)
        with _opened(path, os.O_RDWR) as file:
            journal = _read_journal(path, file.seek(0, os.SEEK_END))
            if journal is not None:
                _apply(file, journal)
                _beside(path, ".journal").unlink()


def _read_journal(path: Path, stored: int) -> _Journal | None:
    """The journal beside a file of ``stored`` bytes, None if there is none.

    It names its pages once each and in order, all within the file as it will be, and brings all
    those that begin or end beyond the file as it is: the file cannot grow by holes.
    """
    place = _beside(path, ".journal")
    try:
        with _opened(place, os.O_RDONLY) as file:
            whole = os.fstat(file.fileno()).st_size
            raw = file.read(whole) if whole <= files.WHOLE else b""
    except FileNotFoundError:
        return None
    start = len(_MAGIC) + _HEAD.size
    content = memoryview(raw)[start:]
    sound = raw.startswith(_MAGIC) and len(raw) >= start
    size, count, checksum = _HEAD.unpack_from(raw, len(_MAGIC)) if sound else (0, 0, 0)
    if not sound or zlib.crc32(content) != checksum or len(content) != count * (8 + PAGE):
        raise _damaged(place)
    numbers = np.frombuffer(content[: 8 * count], dtype="<i8").astype(np.int64)
    end = -(-size // PAGE)
    new = range(stored // PAGE, end)
    if (
        size < 0
        or (np.diff(numbers, prepend=-1) <= 0).any()
        or (count and int(numbers[-1]) >= end)
        or len(new) > count
        or np.count_nonzero(numbers >= new.start) != len(new)
    ):
        raise _damaged(place)
    pages = np.frombuffer(content[8 * count :], dtype=np.uint8).reshape(count, PAGE)
    return _Journal(size, numbers, pages)


def _damaged(place: Path) -> InvalidInput:
    return InvalidInput("path", f"{place}: a damaged journal", "one that a run left")


def _apply(file: Any, journal: _Journal) -> None:
    for number, page in zip(journal.numbers.tolist(), journal.pages, strict=True):
        file.seek(number * PAGE)
        _write_all(file, memoryview(page))
    file.truncate(journal.size)
    os.fsync(file.fileno())


def _write_all(file: Any, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


def _opened(path: Path, flags: int) -> Any:
    """A regular file, unbuffered; links are not followed.

    Raises
    ------
    FileNotFoundError : there is none.
    InvalidInput : a link or no regular file; one that cannot be opened.
    """
    try:
        file = os.fdopen(os.open(path, flags | _NO_LINK), _MODES[flags], buffering=0)
    except FileNotFoundError:
        raise
    except OSError as error:
        found = "a link" if path.is_symlink() else error.strerror
        raise InvalidInput("path", f"{path}: {found}", "a regular file") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InvalidInput("path", f"{path}: no regular file", "a regular file")
    return file


def _locked(path: Path) -> int:
    """The lock of a file, held until this process ends or gives it back.

    It is a file of its own, for HDF5 locks what it reads, and readers are welcome at all times.
    Who holds it may remove it; who then gets the lock of a removed file begins again.
    """
    place = _beside(path, ".lock")
    while True:
        try:
            lock = os.open(place, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        except OSError as error:
            if place.is_symlink():
                found = f"{place}: a link"
                raise InvalidInput("out", found, "no such file, or a run's lock") from error
            with files.named(path, "out"):
                raise
        if fcntl is None:
            return lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            found = f"{path}: a file that another run is writing"
            raise InvalidInput("out", found, "its end") from error
        mine = os.fstat(lock)
        try:
            there = place.lstat()
        except FileNotFoundError:
            there = None
        if there is not None and (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
            return lock
        os.close(lock)


def _unlock(path: Path, lock: int) -> None:
    """Remove the lock while it is held, and give it back."""
    with contextlib.suppress(OSError):  # it stays: whoever comes next may have it
        _beside(path, ".lock").unlink(missing_ok=True)
    os.close(lock)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
