"""Compiled loops on disk: numba's cache, robust to damaged files and a full disk.

numba trusts its files: one that is cut short or changed ends in any error, or in wrong machine
code. Here each file begins with the SHA-256 of the rest. What does not match is compiled again and
written again; what cannot be read or written is compiled in every process. A warning is logged.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

LOGGER = logging.getLogger("cdopt.compiling")
_DIGEST = hashlib.sha256().digest_size  # bytes


class LoopCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """The compiled versions of one function on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFiles(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The version for a signature, None if there is none."""
        try:
            return super().load_overload(sig, target_context)
        except OSError as error:
            _warn(f"compiled loops cannot be read ({error.strerror}), so they are compiled again")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the version for a signature, if possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"compiled loops cannot be kept ({error.strerror})")


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The index of a function's versions and a file for each of them, with checksums."""

    def __init__(self, folder: str, name: str, source_stamp: Any) -> None:
        super().__init__(folder, f"{name}.checked", source_stamp)

    def _load_index(self) -> dict[Any, str]:
        if not Path(self._index_path).exists():
            return {}
        version, content = _sound(self._index_path) or ("", b"")
        if version != self._version:
            return {}
        stamp, names = pickle.loads(content)
        return names if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        kept = _sound(self._data_path(name))
        return None if kept is None else pickle.loads(kept[1])

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, value: Any) -> None:
        content = pickle.dumps((self._version, self._dump(value)))
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)


def _sound(path: str) -> tuple[str, bytes] | None:
    """numba's version and the content of a file; None if it is damaged."""
    stored = Path(path).read_bytes()
    content = stored[_DIGEST:]
    if hashlib.sha256(content).digest() != stored[:_DIGEST]:
        _warn(f"damaged files of compiled loops in {Path(path).parent} are written again")
        return None
    version, value = pickle.loads(content)
    return version, value


@cache
def _warn(message: str) -> None:
    LOGGER.warning(message)
