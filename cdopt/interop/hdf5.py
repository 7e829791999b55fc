"""HDF5 files of unknown origin, checked completely before data are read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cdopt._util import files
from cdopt._util.errors import InvalidInput

_FAULTS = (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError, MemoryError)
_NUMBERS_AND_TEXTS = "iufbS"  # kinds of types whose size the file states
_ALWAYS = 2**24  # bytes of datasets that any file may declare
_EXPANSION = 64  # bytes of datasets per byte of the file
_MOST_OBJECTS = 4096  # of one file


def self_contained(
    file: h5py.File, size: int, kinds: str = _NUMBERS_AND_TEXTS
) -> dict[str, h5py.Dataset]:
    """The datasets of a file by path; an error if it has external links or is too large.

    They may take 64 times the file's ``size``, or 16 MiB; ``kinds`` as in ``numpy.dtype.kind``.
    """
    datasets: dict[str, h5py.Dataset] = {}
    declared, count = 0, 0
    groups: list[tuple[str, h5py.Group]] = [("", file)]
    while groups:
        path, group = groups.pop()
        for key in group:
            name, count = f"{path}/{key}".lstrip("/"), count + 1
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise ValueError(f"{name}: a link elsewhere")
            if count > _MOST_OBJECTS:  # a group may contain itself
                raise ValueError(f"more than {_MOST_OBJECTS} groups and datasets")
            item = group[key]
            if isinstance(item, h5py.Group):
                groups.append((name, item))
                continue
            if not isinstance(item, h5py.Dataset) or item.dtype.kind not in kinds:
                raise ValueError(f"{name}: type {getattr(item, 'dtype', 'unknown')}"[:200])
            if item.is_virtual or bool(item.external):
                raise ValueError(f"{name}: data in other files, not in the file itself")
            numbers = max(math.prod(item.shape or ()), math.prod(item.chunks or ()))
            declared += numbers * item.dtype.itemsize
            most = max(_ALWAYS, _EXPANSION * size)
            if declared > most:  # a name may be very long where a group contains itself
                told = f"more than {most} bytes declared in a file of {size}"
                raise ValueError(f"…{name[-100:]}: {told}" if name[100:] else f"{name}: {told}")
            datasets[name] = item
    return datasets


def fixed_attributes(file: h5py.File) -> None:
    """Refuse attributes of variable length, which HDF5 stores without a checksum."""

    def check(name: str, item: h5py.HLObject) -> None:
        for key in item.attrs:
            if item.attrs.get_id(key).dtype.kind not in _NUMBERS_AND_TEXTS:
                raise ValueError(f"{name}: the attribute {key} of variable length"[:200])

    check("/", file)
    file.visititems(check)


def read_arrays(path: str | Path, expected: str) -> dict[str, NDArray[Any]]:
    """All arrays of a file by path, without empty ones; ``expected`` describes the file."""
    checked, size = files.regular(path, expected)
    try:
        with h5py.File(checked, "r") as file:
            # texts of variable length may be there, but are not read
            datasets = self_contained(file, size, _NUMBERS_AND_TEXTS + "cO")
            return {
                name: np.asarray(dataset[()])
                for name, dataset in datasets.items()
                if dataset.shape is not None and dataset.dtype.kind != "O"
            }
    except _FAULTS as error:
        found = " ".join(f"{path}: {error}".split())[:300]
        raise InvalidInput("path", found, expected) from error
