"""Compiled loops kept on disk between processes, with a checksum on every file.

numba reads its cache without looking: a damaged index or a damaged loop ends the program. Here a
file that is not what was written is taken as missing, so that the loop is compiled again, and a
cache that cannot be written is done without.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import zlib
from typing import Any

from numba.core.caching import IndexDataCacheFile

_CHECKSUM = 4  # bytes at the end of a file


class _CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one loop: as numba's own, the CRC of each at its end."""

    def save(self, key: Any, data: Any) -> None:
        """Keep a compiled loop, if the disk takes it."""
        with contextlib.suppress(OSError):
            super().save(key, data)

    def flush(self) -> None:
        """Forget all that is kept, if the disk can be written."""
        with contextlib.suppress(OSError):
            super().flush()

    def _load_index(self) -> dict[Any, str]:
        try:
            stream = io.BytesIO(_checked(self._index_path))
        except OSError:
            return {}
        if pickle.load(stream) != self._version:
            return {}  # the rest is for that version to read
        stamp, overloads = pickle.load(stream)
        return overloads if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        version = pickle.dumps(self._version)
        self._keep(self._index_path, version + self._dump((self._source_stamp, overloads)))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(_checked(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._keep(self._data_path(name), self._dump(data))

    def _keep(self, path: str, raw: bytes) -> None:
        with self._open_for_write(path) as file:
            file.write(raw + zlib.crc32(raw).to_bytes(_CHECKSUM, "little"))


def checked(loop: Any) -> Any:
    """The same loop of numba's, whose cache knows damage when it sees it."""
    cache = getattr(getattr(loop, "_cache", None), "_cache_file", None)
    if isinstance(cache, IndexDataCacheFile):
        cache.__class__ = _CheckedCacheFile
    return loop


def _checked(path: str) -> bytes:
    """What was written into a file.

    Raises
    ------
    OSError : it is missing or damaged, which numba takes as missing.
    """
    with open(path, "rb") as file:  # noqa: PTH123
        raw = file.read()
    content = raw[:-_CHECKSUM]
    if zlib.crc32(content).to_bytes(_CHECKSUM, "little") != raw[-_CHECKSUM:]:
        raise OSError(f"{path}: a damaged file")
    return content
