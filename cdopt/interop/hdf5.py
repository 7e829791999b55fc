"""HDF5 files that come from anywhere: FCLib files through a reader, run files as a whole.

Sizes are known, and held against what the file really stores, before anything is allocated;
no link is followed, so that a file speaks for itself alone; every fault is one InvalidInput.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cdopt._util import files
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput

_FAULTS = (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError)  # as h5py has it
_BUDGET = 2**30  # bytes of numbers from one file
_UNSTORED = 2**24  # bytes a dataset may have whatever it stores: zeros need not be written
_DEFLATION = 1100  # no deflate stream expands more than 1032-fold
_LONGEST_TEXT = 2**16
_MOST_OBJECTS = 4096  # of one file
_NO_SMALLER = {h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}


class Hdf5Reader:
    """An open file; ``name`` below is a path of hard links, such as ``fclib_local/W/m``.

    Attributes
    ----------
    path : the file, for messages.
    expected : what the file should have been, for messages.

    ``size`` is the file's, in bytes: no more can be stored in it.
    """

    def __init__(self, path: str, file: h5py.File, size: int, expected: str) -> None:
        self.path = path
        self.expected = expected
        self._file = file
        self._size = size
        self._left = _BUDGET

    def fault(self, found: str, expected: str | None = None) -> InvalidInput:
        """The error to raise when the file holds ``found`` instead of ``expected``."""
        return _fault(self.path, found, expected or self.expected)

    def has(self, name: str) -> bool:
        """Whether something stands under this name; its parent must be a group."""
        parent, _, last = name.rpartition("/")
        return self._link(self._group(parent), last, name) is not None

    def integer(self, name: str) -> int:
        """One integer, as a scalar or as an array of one."""
        values = self._numbers(name, "iu", 1, 1)
        return int(values[0])

    def integers(self, name: str, at_least: int, at_most: int) -> IntArray:
        """A vector of integers whose length lies in this range."""
        return self._numbers(name, "iu", at_least, at_most).astype(np.int64)

    def floats(self, name: str, at_least: int, at_most: int) -> FloatArray:
        """A vector of numbers whose length lies in this range; they may be infinite or NaN."""
        with np.errstate(over="ignore"):  # beyond a double is infinite
            return self._numbers(name, "iuf", at_least, at_most).astype(np.float64)

    def text(self, name: str) -> str:
        """A text of fixed length, as HDF5's own C functions write it; empty if there is none."""
        if not self.has(name):
            return ""
        dataset = self._dataset(name)
        try:
            if dataset.dtype.kind != "S" or dataset.shape not in ((), (1,)):
                return ""
        except _FAULTS as error:
            raise self.fault(f"{name}: {error}") from error
        if dataset.dtype.itemsize > _LONGEST_TEXT:
            raise self.fault(f"{name}: {dataset.dtype.itemsize} characters", "a shorter text")
        self._require_stored(name, dataset, dataset.dtype.itemsize)
        raw = bytes(np.asarray(self._content(name, dataset)).ravel()[0])
        return raw.decode("utf-8", errors="replace").strip("\x00 \n\r\t")

    # --- one level down ----------------------------------------------------------------

    def _link(self, group: h5py.Group, last: str, name: str) -> Any:
        try:
            link = group.get(last, getlink=True)
        except _FAULTS as error:
            raise self.fault(f"{name}: {error}") from error
        if link is not None and not isinstance(link, h5py.HardLink):
            raise self.fault(f"{name}: a link elsewhere", "everything in the file itself")
        return link

    def _child(self, group: h5py.Group, last: str, name: str) -> Any:
        if self._link(group, last, name) is None:
            raise self.fault(f"no {name}")
        try:
            return group[last]
        except _FAULTS as error:
            raise self.fault(f"{name}: {error}") from error

    def _group(self, name: str) -> h5py.Group:
        group: Any = self._file
        walked: list[str] = []
        for part in name.split("/") if name else ():
            walked.append(part)
            group = self._child(group, part, "/".join(walked))
            if not isinstance(group, h5py.Group):
                raise self.fault(f"{'/'.join(walked)}: {type(group).__name__}", "a group")
        return group

    def _dataset(self, name: str) -> h5py.Dataset:
        parent, _, last = name.rpartition("/")
        found = self._child(self._group(parent), last, name)
        if not isinstance(found, h5py.Dataset):
            raise self.fault(f"{name}: {type(found).__name__}", "a dataset")
        return found

    # --- numbers -----------------------------------------------------------------------

    def _numbers(self, name: str, kinds: str, at_least: int, at_most: int) -> NDArray[Any]:
        dataset = self._dataset(name)
        try:
            shape, dtype = dataset.shape, dataset.dtype
        except _FAULTS as error:
            raise self.fault(f"{name}: {error}") from error
        what = "integers" if kinds == "iu" else "numbers"
        if dtype.kind not in kinds:
            raise self.fault(f"{name}: type {dtype}"[:200], what)
        length = str(at_least) if at_least == at_most else f"{at_least} to {at_most}"
        if shape is None or (shape == () and at_least != 1) or len(shape) > 1:
            raise self.fault(f"{name}: shape {shape}", f"a vector of {length} {what}")
        size = math.prod(shape)
        if not at_least <= size <= at_most:
            raise self.fault(f"{name}: {size} {what}", f"{length}, as the sizes beside it say")
        self._require_stored(name, dataset, size * dtype.itemsize)
        return np.asarray(self._content(name, dataset)).reshape(size)

    def _require_stored(self, name: str, dataset: h5py.Dataset, size: int) -> None:
        """Refuse, before reading, what the file cannot really hold or keeps elsewhere.

        ``size`` is the dataset's in bytes. A chunk is unpacked as a whole, so its size counts.
        """
        try:
            needed = max(size, _stored(name, dataset, self._size, size).chunk)
        except _FAULTS as error:
            raise self.fault(str(error)) from error
        if needed > self._left:
            raise self.fault(f"{name}: {needed} bytes", f"at most {_BUDGET} in one file")
        self._left -= size

    def _content(self, name: str, dataset: h5py.Dataset) -> Any:
        try:
            return dataset[()]
        except (*_FAULTS, MemoryError) as error:
            raise self.fault(f"{name}: {error}") from error


@contextlib.contextmanager
def opened(path: str | Path, expected: str) -> Iterator[Hdf5Reader]:
    """Open a file to read it.

    Parameters
    ----------
    path : the file.
    expected : what it should be, in words.

    Raises
    ------
    InvalidInput : it is no file, not HDF5, or damaged. Everything read later raises the same.
    """
    place, size = files.regular(path, expected)
    name = str(place)
    try:
        file = h5py.File(name, "r")
    except _FAULTS as error:
        raise _fault(name, str(error), expected) from error
    with file:
        yield Hdf5Reader(name, file, size, expected)


def require_self_contained(file: h5py.File, size: int) -> None:
    """Refuse a file that leads elsewhere, or declares more than it stores.

    All datasets are numbers or texts of fixed length. Without compression none may be larger
    than what is stored of it, and 16 MiB where that is more; compressed ones may take 1 GiB
    together. Attributes are left to who reads them.

    Parameters
    ----------
    file : open to read. size : of the file in bytes.

    Raises
    ------
    ValueError : it does; with what h5py raises of damaged files, for the caller to name.
    """
    left, total, seen = _BUDGET, 0, 0
    groups: list[tuple[str, h5py.Group]] = [("", file)]
    while groups:
        path, group = groups.pop()
        for last in group:
            name, seen = f"{path}/{last}", seen + 1
            if not isinstance(group.get(last, getlink=True), h5py.HardLink):
                raise ValueError(f"{name}: a link elsewhere")
            if seen > _MOST_OBJECTS:  # groups may also contain themselves
                raise ValueError(f"more than {_MOST_OBJECTS} groups and datasets")
            found = group[last]
            if isinstance(found, h5py.Group):
                groups.append((name, found))
                continue
            if not isinstance(found, h5py.Dataset) or found.dtype.kind not in "iufbS":
                raise ValueError(f"{name}: no dataset of numbers")
            needed = math.prod(found.shape or ()) * found.dtype.itemsize
            part = _stored(name, found, size, needed)
            total += part.stored
            left -= max(needed, part.chunk) if part.packed else 0
            if left < 0 or total > size:
                raise ValueError(f"{name}: more declared than a file of {size} bytes holds")


@dataclass(frozen=True)
class _Stored:
    """How a dataset is stored: its bytes in the file, those of a chunk, whether compressed."""

    stored: int
    chunk: int
    packed: bool


def _stored(name: str, dataset: h5py.Dataset, size: int, needed: int = 0) -> _Stored:
    """How a dataset is stored, after what it declares was held against the file's size.

    Raises
    ------
    ValueError : it is stored elsewhere, or declares more than can be stored.
    """
    if dataset.is_virtual or bool(dataset.external):
        raise ValueError(f"{name}: data in other files, not in the file itself")
    stored = dataset.id.get_storage_size()
    if stored > size:
        raise ValueError(f"{name}: {stored} bytes stored in a file of {size}")
    chunk = math.prod(dataset.chunks) * dataset.dtype.itemsize if dataset.chunks else 0
    filters = dataset.id.get_create_plist()
    kinds = {filters.get_filter(k)[0] for k in range(filters.get_nfilters())}
    packed = not kinds <= _NO_SMALLER
    needed = max(needed, chunk)
    if needed > max(_UNSTORED, (_DEFLATION if packed else 1) * stored):
        raise ValueError(f"{name}: {needed} bytes declared, {stored} stored")
    return _Stored(stored, chunk, packed)


def _fault(path: str, found: str, expected: str) -> InvalidInput:
    return InvalidInput("path", " ".join(f"{path}: {found}".split())[:300], expected)
