"""Arrays and sparse matrices that nobody writes to, and what others hand over, looked through.

``freeze`` makes a sparse matrix read-only for good; ``sparse`` checks the structure of one before
compiled code walks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.errors import InvalidInput


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, no longer writable."""
    array.flags.writeable = False
    return array


def describe(value: object) -> str:
    """A short description of any object, for error messages."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    if sp.issparse(value):
        return f"a sparse matrix of shape {getattr(value, 'shape', '?')}"
    if isinstance(value, int) and abs(value) >= 10**60:
        return "an integer of more than 60 digits"  # Python refuses to print the longest
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}"


def unmasked(value: object) -> NDArray[Any]:
    """A plain array of what numpy makes of a value.

    Raises
    ------
    ValueError : entries are masked, or numpy makes no array of it.
    """
    masked = np.ma.isMaskedArray(value) or (
        isinstance(value, list | tuple) and any(np.ma.isMaskedArray(one) for one in value)
    )
    if masked and np.ma.getmaskarray(np.ma.asarray(value)).any():
        raise ValueError("masked entries")
    return np.asarray(value)


def sparse(name: str, value: object) -> sp.csr_array:
    """A CSR copy of any sparse matrix, its structure checked before compiled code walks it.

    Repeated entries are summed. The caller's object is not touched.

    Raises
    ------
    InvalidInput : entries that are no real numbers, or an index out of range.
    """
    expected = "a sparse matrix of real numbers, every index within its shape"
    if not sp.issparse(value) or value.ndim != 2:  # type: ignore[attr-defined]
        raise InvalidInput(name, describe(value), expected)
    try:
        parts = _compressed(value) if hasattr(value, "indptr") else _coordinates(value)
        shape = tuple(int(n) for n in value.shape)  # type: ignore[attr-defined]
        return sp.csr_array(parts.tocsr().astype(np.float64), shape=shape, copy=True)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise InvalidInput(name, f"{describe(value)}: {error}", expected) from error


def _compressed(value: Any) -> Any:
    """A CSR, CSC or BSR matrix that shares its arrays with the given one, checked."""
    data, indices, indptr = (unmasked(part) for part in (value.data, value.indices, value.indptr))
    _require_real(data)
    _require_indices(indices, indptr)
    same = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[value.format]
    # the constructor alone would not compare the indices with the shape
    result = same((data, indices, indptr), shape=value.shape, copy=False)
    result.check_format(full_check=True)
    return result


def _coordinates(value: Any) -> sp.coo_array:
    """COO, DIA, LIL and DOK matrices by their coordinates, checked."""
    if value.format == "lil":
        for row, entries in zip(value.rows, value.data, strict=True):
            if len(row) != len(entries):
                raise ValueError("rows and data of different lengths")
        rows = np.repeat(np.arange(len(value.rows)), [len(row) for row in value.rows])
        columns = np.array([j for row in value.rows for j in row], dtype=object)
        data = np.array([x for entries in value.data for x in entries])
        columns = columns.astype(np.int64) if columns.size == 0 else np.array(columns.tolist())
    elif value.format == "dok":
        items = dict(value.items())
        rows, columns = (np.array([key[axis] for key in items]) for axis in (0, 1))
        data = np.array(list(items.values()))
    elif value.format == "dia":
        offsets, band = unmasked(value.offsets), unmasked(value.data)
        _require_real(band)
        _require_indices(offsets)
        if band.ndim != 2 or offsets.shape != band.shape[:1]:
            raise ValueError("offsets and data of different lengths")
        line, columns = np.nonzero(band)
        data, rows = band[line, columns], columns - offsets[line].astype(np.int64)
        inside = (rows >= 0) & (rows < value.shape[0]) & (columns < value.shape[1])
        rows, columns, data = rows[inside], columns[inside], data[inside]
    else:
        rows, columns = (unmasked(part) for part in value.coords)
        data = unmasked(value.data)
    if data.size == 0:
        return sp.coo_array(value.shape)
    _require_real(data)
    _require_indices(rows, columns)
    if not rows.shape == columns.shape == data.shape:
        raise ValueError("coordinates and data of different lengths")
    for index, size in zip((rows, columns), value.shape, strict=True):
        if int(index.min()) < 0 or int(index.max()) >= size:
            raise ValueError("an index out of range")
    return sp.coo_array((data, (rows, columns)), shape=value.shape)


def _require_real(data: NDArray[Any]) -> None:
    if data.dtype.kind not in "iuf":
        raise ValueError(f"entries of type {data.dtype}")


def _require_indices(*parts: NDArray[Any]) -> None:
    for part in parts:
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise ValueError(f"indices of type {part.dtype} and shape {part.shape}")
        if part.dtype.kind == "u" and part.size and int(part.max()) > np.iinfo(np.int64).max:
            raise ValueError("an index beyond 64 bits")


class FrozenMatrix(sp.csr_array):  # type: ignore[misc]  # scipy has no types
    """A CSR array that refuses to be changed; what is computed from it can be.

    ``freeze`` seals it. A copy is an ordinary matrix; pickles and deep copies are sealed.
    """

    @property
    def sealed(self) -> bool:
        """Whether ``freeze`` has made it, rather than an operation on one."""
        return "_sealed" in self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("data", "indices", "indptr", "shape", "_shape") and self.sealed:
            raise ValueError("the matrix is read-only; change a copy of it")
        super().__setattr__(name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.sealed:
            raise ValueError("the matrix is read-only; change a copy of it")
        super().__setitem__(key, value)

    def __copy__(self) -> FrozenMatrix:
        """One that shares the arrays and can be given others."""
        result = FrozenMatrix.__new__(FrozenMatrix)
        result.__dict__.update(self.__dict__)
        result.__dict__.pop("_sealed", None)
        return result

    def __deepcopy__(self, memo: Any) -> sp.csr_array:
        return freeze(self.copy()) if self.sealed else self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.data, self.indices, self.indptr)
        return _thawed if not self.sealed else _sealed_again, (parts, self.shape)


def _thawed(parts: Any, shape: tuple[int, int]) -> sp.csr_array:
    return sp.csr_array(parts, shape=shape)


def _sealed_again(parts: Any, shape: tuple[int, int]) -> sp.csr_array:
    return freeze(sp.csr_array(parts, shape=shape))


def freeze(result: sp.csr_array) -> sp.csr_array:
    """A FrozenMatrix in canonical order, without stored zeros; it keeps the arrays as its own."""
    if isinstance(result, FrozenMatrix) and result.sealed:
        return result
    result.sum_duplicates()
    result.eliminate_zeros()
    result.sort_indices()
    parts = (result.data, result.indices, result.indptr)
    for part in parts:
        read_only(part)
        if isinstance(part.base, np.ndarray):  # what it was cut from
            read_only(part.base)
    frozen = FrozenMatrix(parts, shape=result.shape, copy=False)
    for part in (frozen.data, frozen.indices, frozen.indptr):
        read_only(part)
    frozen.has_canonical_format = True
    frozen.__dict__["_sealed"] = True
    return frozen
