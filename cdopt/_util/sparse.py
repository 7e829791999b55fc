"""Sparse matrices of unknown origin: their structure is checked before compiled code uses it.

SciPy's check is not enough: it stops if ``indptr`` ends with a negative number,
and sorting such rows reads beyond the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

FAULTS = (  # what damaged or foreign objects cause
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    OverflowError,
    MemoryError,
)
_INT64_END = 2**63


def compressed(
    data: Any, indices: Any, indptr: Any, lines: int, width: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Parts of a matrix in compressed rows or columns, with all indices within its arrays.

    ``lines`` rows, or columns, of ``width``; ``data`` are entries, or blocks of them.
    """
    data, indices, indptr = _plain(data), _integers(indices), _integers(indptr)
    if indptr.size != lines + 1:
        raise ValueError(f"indptr has {indptr.size} numbers for {lines} rows or columns")
    if indptr[0] != 0:
        raise ValueError(f"indptr starts at {indptr[0]}, not at 0")
    if (down := np.flatnonzero(indptr[1:] < indptr[:-1])).size:
        raise ValueError(f"indptr decreases after number {down[0]}")
    if indptr[-1] != indices.size or indices.size > len(data):
        sizes = f"{indices.size} and {len(data)} numbers"
        raise ValueError(f"indices and data have {sizes}, indptr ends at {indptr[-1]}")
    _require_inside(indices, width)
    return data[: indices.size], indices, indptr


def rows_of_parts(data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_array:
    """The CSR array of these parts."""
    rows, cols = (int(n) for n in shape)
    parts = compressed(_numbers(data), indices, indptr, rows, cols)
    if parts[0].ndim != 1:
        raise ValueError(f"entries of shape {parts[0].shape}")
    return sp.csr_array(parts, shape=(rows, cols))


def rows_of(value: Any) -> sp.csr_array:
    """A CSR copy in double precision of any sparse matrix, which is not touched."""
    if len(value.shape) != 2:
        raise ValueError(f"a sparse array of {len(value.shape)} dimensions")
    shape = (int(value.shape[0]), int(value.shape[1]))
    if value.format not in _CHECKED:
        raise ValueError(f"format {value.format!r}")
    checked = _CHECKED[value.format](value, shape)
    return sp.csr_array(checked.tocsr().astype(np.float64), shape=shape, copy=True)


def _csr(value: Any, shape: tuple[int, int]) -> Any:
    return rows_of_parts(value.data, value.indices, value.indptr, shape)


def _csc(value: Any, shape: tuple[int, int]) -> Any:
    return rows_of_parts(value.data, value.indices, value.indptr, shape[::-1]).T


def _bsr(value: Any, shape: tuple[int, int]) -> Any:
    high, wide = (int(n) for n in np.shape(value.data)[1:])
    if not high or not wide or shape[0] % high or shape[1] % wide:
        raise ValueError(f"blocks of {high} by {wide}")
    lines, data = (shape[0] // high, shape[1] // wide), _numbers(value.data)
    parts = compressed(data, value.indices, value.indptr, *lines)
    return sp.bsr_array(parts, shape=shape)


def _coo(value: Any, shape: tuple[int, int]) -> Any:
    row, column = map(_integers, value.coords)
    data = _numbers(value.data)
    if data.ndim != 1 or not row.size == column.size == data.size:
        raise ValueError(f"{row.size} rows, {column.size} columns and {data.size} entries")
    for index, size in zip((row, column), shape, strict=True):
        _require_inside(index, size)
    return sp.coo_array((data, (row, column)), shape=shape)


def _dia(value: Any, shape: tuple[int, int]) -> Any:
    offsets, data = _integers(value.offsets), _numbers(value.data)
    if data.ndim != 2 or len(offsets) != len(data):
        raise ValueError(f"{len(offsets)} offsets and {len(data)} diagonals")
    return _coo(sp.dia_array((data, offsets), shape=shape).tocoo(), shape)


def _lil(value: Any, shape: tuple[int, int]) -> Any:
    rows, data = list(value.rows), list(value.data)
    counts = list(map(len, rows))
    if len(rows) != shape[0] or counts != list(map(len, data)):
        raise ValueError("rows and data of different lengths")
    columns = np.array(list(chain.from_iterable(rows)))
    entries = np.array(list(chain.from_iterable(data)))
    indptr = np.append(0, np.cumsum(counts, dtype=np.int64))
    return rows_of_parts(entries, columns, indptr, shape)


def _dok(value: Any, shape: tuple[int, int]) -> Any:
    places = np.array(list(value.keys()), dtype=np.int64).reshape(-1, 2)
    row, column = map(_integers, places.T)
    _require_inside(row, shape[0])
    _require_inside(column, shape[1])
    entries = _numbers(list(value.values()))
    return sp.coo_array((entries, (row, column)), shape=shape)


_CHECKED: dict[str, Callable[[Any, tuple[int, int]], Any]] = {
    "csr": _csr,
    "csc": _csc,
    "bsr": _bsr,
    "coo": _coo,
    "dia": _dia,
    "lil": _lil,
    "dok": _dok,
}


def _require_inside(indices: NDArray[Any], size: int) -> None:
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        raise ValueError(f"an index outside of 0 to {size - 1}")


def _numbers(part: Any) -> NDArray[Any]:
    """Real numbers, nothing masked."""
    result = _plain(part)
    if result.ndim == 0 or (result.dtype.kind not in "iuf" and result.size):
        raise ValueError(f"entries of type {result.dtype}")
    return result if result.size else result.astype(np.float64)


def _integers(part: Any) -> NDArray[Any]:
    """Integers of 32 or 64 bits."""
    result = _plain(part)
    if result.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    if result.ndim != 1 or result.dtype.kind not in "iu":
        raise ValueError(f"indices of type {result.dtype} and shape {result.shape}")
    if result.dtype.kind == "u" and int(result.max()) >= _INT64_END:
        raise ValueError("an index beyond 64 bits")
    return result if result.dtype in (np.int32, np.int64) else result.astype(np.int64)


def _plain(part: Any) -> NDArray[Any]:
    if np.ma.isMaskedArray(part) and np.ma.getmaskarray(part).any():
        raise ValueError("masked entries")
    return np.asarray(part)
