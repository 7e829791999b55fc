"""HDF5 files that come from anywhere: checked as a whole before anything in them is read.

Sizes are known, and compared with what the file really stores, before anything is allocated; no
link leaves the file; every fault is one InvalidInput.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cdopt._util import files
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput

_FAULTS = (
    OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError, MemoryError,
)  # fmt: skip
_NUMBERS_AND_TEXTS = "iufbS"  # kinds of types whose size the file states
_BUDGET = 2**30  # bytes that all compressed datasets may take
_UNSTORED = 2**24  # bytes a dataset may have whatever it stores: zeros need not be written
_DEFLATION = 1100  # no deflate stream expands more than 1032-fold
_LONGEST_TEXT = 2**16
_MOST_OBJECTS = 4096  # of one file
_NO_SMALLER = {h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}


def require_self_contained(file: h5py.File, size: int, kinds: str = _NUMBERS_AND_TEXTS) -> None:
    """Refuse a file that leads elsewhere, or declares more than it stores.

    Without compression no dataset may be larger than what is stored of it, and 16 MiB where that
    is more; compressed ones may take 1 GiB together. Attributes are left to the reader.

    Parameters
    ----------
    file : open to read. size : of the file in bytes.
    kinds : of types that datasets may have, as in ``numpy.dtype.kind``.

    Raises
    ------
    ValueError : it does; besides what h5py raises of damaged files.
    """
    left, total, seen = _BUDGET, 0, 0
    groups: list[tuple[str, h5py.Group]] = [("", file)]
    while groups:
        path, group = groups.pop()
        for last in group:
            name, seen = f"{path}/{last}".lstrip("/"), seen + 1
            if not isinstance(group.get(last, getlink=True), h5py.HardLink):
                raise ValueError(f"{name}: a link elsewhere")
            if seen > _MOST_OBJECTS:  # groups may also contain themselves
                raise ValueError(f"more than {_MOST_OBJECTS} groups and datasets")
            item = group[last]
            if isinstance(item, h5py.Group):
                groups.append((name, item))
                continue
            if not isinstance(item, h5py.Dataset) or item.dtype.kind not in kinds:
                raise ValueError(f"{name}: type {getattr(item, 'dtype', 'unknown')}"[:200])
            stored, unpacked = _sizes(name, item, size)
            total, left = total + stored, left - unpacked
            if left < 0:
                raise ValueError(f"{name}: more than {_BUDGET} bytes when unpacked")
            if total > size:
                raise ValueError(f"{name}: more stored than a file of {size} bytes holds")


def _sizes(name: str, dataset: h5py.Dataset, size: int) -> tuple[int, int]:
    """Bytes that a dataset takes in a file of ``size``, and when unpacked if it is compressed.

    Raises
    ------
    ValueError : it is stored elsewhere, or declares more than can be stored.
    """
    if dataset.is_virtual or bool(dataset.external):
        raise ValueError(f"{name}: data in other files, not in the file itself")
    stored = dataset.id.get_storage_size()
    if stored > size:
        raise ValueError(f"{name}: {stored} bytes stored in a file of {size}")
    # a chunk is unpacked as a whole
    numbers = max(math.prod(dataset.shape or ()), math.prod(dataset.chunks or ()))
    needed = numbers * dataset.dtype.itemsize
    filters = dataset.id.get_create_plist()
    kinds = {filters.get_filter(k)[0] for k in range(filters.get_nfilters())}
    compressed = not kinds <= _NO_SMALLER
    if needed > max(_UNSTORED, (_DEFLATION if compressed else 1) * stored):
        raise ValueError(f"{name}: {needed} bytes declared, {stored} stored")
    return stored, needed if compressed else 0


class Hdf5Reader:
    """Numbers and texts of an open file; ``name`` below is a path such as ``fclib_local/W/m``.

    Parameters
    ----------
    path : of the file, for messages. file : open to read, and self-contained.
    expected : what the file should have been, for messages.
    """

    def __init__(self, path: str, file: h5py.File, expected: str) -> None:
        self.path = path
        self.expected = expected
        self._file = file

    def fault(self, found: str, expected: str | None = None) -> InvalidInput:
        """The error to raise when the file holds ``found`` instead of ``expected``."""
        return _fault(self.path, found, expected or self.expected)

    def has(self, name: str) -> bool:
        """Whether something stands under this name."""
        with self._faults_named(name):
            return name in self._file

    def integer(self, name: str) -> int:
        """One integer, as a scalar or as an array of one."""
        return int(self._numbers(name, "iu", 1, 1)[0])

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
        if dataset.dtype.kind != "S" or dataset.shape not in ((), (1,)):
            return ""
        if dataset.dtype.itemsize > _LONGEST_TEXT:
            raise self.fault(f"{name}: {dataset.dtype.itemsize} characters", "a shorter text")
        with self._faults_named(name):
            raw = bytes(np.asarray(dataset[()]).ravel()[0])
        return raw.decode("utf-8", errors="replace").strip("\x00 \n\r\t")

    def _numbers(self, name: str, kinds: str, at_least: int, at_most: int) -> NDArray[Any]:
        dataset = self._dataset(name)
        shape, what = dataset.shape, "integers" if kinds == "iu" else "numbers"
        if dataset.dtype.kind not in kinds:
            raise self.fault(f"{name}: type {dataset.dtype}"[:200], what)
        length = str(at_least) if at_least == at_most else f"{at_least} to {at_most}"
        if shape is None or (shape == () and at_least != 1) or len(shape) > 1:
            raise self.fault(f"{name}: shape {shape}", f"a vector of {length} {what}")
        if not at_least <= math.prod(shape) <= at_most:
            count = f"{name}: {math.prod(shape)} {what}"
            raise self.fault(count, f"{length}, as the sizes beside it say")
        with self._faults_named(name):
            return np.asarray(dataset[()]).reshape(-1)

    def _dataset(self, name: str) -> h5py.Dataset:
        if not self.has(name):
            raise self.fault(f"no {name}")
        with self._faults_named(name):
            item = self._file[name]
        if not isinstance(item, h5py.Dataset):
            raise self.fault(f"{name}: {type(item).__name__}", "a dataset")
        return item

    @contextlib.contextmanager
    def _faults_named(self, name: str) -> Iterator[None]:
        try:
            yield
        except _FAULTS as error:
            raise self.fault(f"{name}: {error}") from error


@contextlib.contextmanager
def opened(path: str | Path, expected: str) -> Iterator[Hdf5Reader]:
    """Open a file to read it; ``expected`` says in words what it should be.

    Raises
    ------
    InvalidInput : it is no file, not HDF5, damaged, or not self-contained. Everything read later
        raises the same.
    """
    place, size = files.regular(path, expected)
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(h5py.File(place, "r"))
            # complex numbers and texts of variable length may stand there; they are not read
            require_self_contained(file, size, _NUMBERS_AND_TEXTS + "cO")
        except _FAULTS as error:
            raise _fault(str(place), str(error), expected) from error
        yield Hdf5Reader(str(place), file, expected)


def _fault(path: str, found: str, expected: str) -> InvalidInput:
    return InvalidInput("path", " ".join(f"{path}: {found}".split())[:300], expected)
