"""A file that is at all times what it was at some commit, wherever its process was killed.

HDF5 changes a file in many places at once, and a process that dies among these writes leaves
rubbish. Here the writes stay in memory until ``commit``. A commit writes the changed pages to a
journal beside the file, makes it valid by renaming it, and only then changes the file. Killed
before the renaming, the file is as it was at the last commit; killed after it, ``recover``
copies the journal once more. So a file without a journal beside it is always whole, and other
programs can read it while it grows.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from cdopt.errors import InvalidInput

try:
    import fcntl
except ImportError:  # Windows: two writers at a time are not noticed
    fcntl = None  # type: ignore[assignment]

PAGE = 16384  # bytes
_MAGIC = b"cdopt journal 1\n"
_HEAD = struct.Struct("<qqI")  # size of the file, number of pages, checksum of what follows


class JournaledFile(io.RawIOBase):
    """A binary file, open to read and write, whose changes reach the disk by ``commit`` alone.

    Parameters
    ----------
    path : an existing file; recovered first if a journal stands beside it.

    Attributes
    ----------
    pending : bytes that wait for a commit.

    Raises
    ------
    InvalidInput : another process has the file open to write.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = _locked(path)
        if self._lock is None:
            raise InvalidInput("out", f"{path}: a file that another run is writing", "its end")
        self._file = path.open("r+b", buffering=0)
        try:
            _replay(path, self._file)
        except BaseException:
            self.close()
            raise
        self._size = self._stored = self._file.seek(0, os.SEEK_END)
        self._pages: dict[int, bytearray] = {}
        self._place = 0

    @property
    def pending(self) -> int:  # noqa: D102
        return len(self._pages) * PAGE

    # --- what a file does --------------------------------------------------------------

    def readable(self) -> bool:  # noqa: D102
        return True

    def writable(self) -> bool:  # noqa: D102
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
        if not self.closed:
            self._file.close()
            _unlock(self._path, self._lock)
            super().close()

    def _page(self, number: int) -> bytes | bytearray:
        """A page as it will be after the next commit, zeros beyond the end."""
        page = self._pages.get(number)
        if page is not None:
            return page
        self._file.seek(number * PAGE)
        wanted = min(max(self._stored - number * PAGE, 0), PAGE)
        found = self._file.read(wanted) if wanted else b""
        return found + bytes(PAGE - len(found))

    # --- commits -----------------------------------------------------------------------

    def commit(self) -> None:
        """Make every change so far last."""
        numbers = np.array(sorted(self._pages), dtype="<i8")
        content = b"".join([numbers.tobytes(), *(self._pages[int(n)] for n in numbers)])
        head = _HEAD.pack(self._size, numbers.size, zlib.crc32(content))
        draft, journal = _beside(self._path, ".journal-draft"), _beside(self._path, ".journal")
        with draft.open("wb") as stream:
            stream.write(_MAGIC + head + content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(journal)
        _apply(self._file, self._size, numbers, memoryview(content)[numbers.nbytes :])
        journal.unlink()
        self._stored = self._size
        self._pages.clear()


def recover(path: Path) -> None:
    """Finish the commit that a killed process left half done; nothing to do for whole files.

    A file that is being written at this moment is left to its writer.

    Raises
    ------
    InvalidInput : the journal is damaged.
    """
    if not _beside(path, ".journal").exists():
        return
    lock = _locked(path)
    if lock is not None:
        try:
            with path.open("r+b", buffering=0) as file:
                _replay(path, file)
        finally:
            _unlock(path, lock)


def _replay(path: Path, file: Any) -> None:
    journal = _beside(path, ".journal")
    _beside(path, ".journal-draft").unlink(missing_ok=True)
    try:
        raw = journal.read_bytes()
    except FileNotFoundError:
        return
    start = len(_MAGIC) + _HEAD.size
    content = memoryview(raw)[start:]
    sound = raw.startswith(_MAGIC) and len(raw) >= start
    size, count, checksum = _HEAD.unpack_from(raw, len(_MAGIC)) if sound else (0, 0, 0)
    if not sound or zlib.crc32(content) != checksum or len(content) != count * (8 + PAGE):
        raise InvalidInput("path", f"{journal}: a damaged journal", "one that a run left")
    numbers = np.frombuffer(content[: 8 * count], dtype="<i8")
    _apply(file, size, numbers, content[8 * count :])
    journal.unlink()


def _apply(file: Any, size: int, numbers: Any, pages: memoryview) -> None:
    for k, number in enumerate(numbers.tolist()):
        file.seek(number * PAGE)
        _write_all(file, pages[k * PAGE : (k + 1) * PAGE])
    file.truncate(size)
    os.fsync(file.fileno())


def _write_all(file: Any, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


def _locked(path: Path) -> Any:
    """The lock of a file, held until this process ends or gives it back; None if another has it.

    It is a file of its own, for HDF5 locks what it reads, and readers are welcome at all times.
    """
    lock = _beside(path, ".lock").open("wb")
    if fcntl is not None:
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
    return lock


def _unlock(path: Path, lock: Any) -> None:
    _beside(path, ".lock").unlink(missing_ok=True)
    lock.close()


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
