"""Read-only arrays, sparse matrices and records; copies and pickles of them are read-only too."""

from __future__ import annotations

import copyreg
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util import sparse
from cdopt._util.errors import InvalidInput


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, made read-only."""
    array.setflags(False)  # type: ignore[call-arg]  # a tenth of the time of its ``flags``
    return array


class FrozenMatrix(sp.csr_array):  # type: ignore[misc]  # scipy has no types
    """A read-only CSR array, sealed by ``freeze``; results and copies of it are writable."""

    @property
    def sealed(self) -> bool:
        """Whether ``freeze`` returned it; what is computed from it is not sealed."""
        return "_sealed" in self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("data", "indices", "indptr", "shape", "_shape"):
            self._require_unsealed()
        super().__setattr__(name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._require_unsealed()
        super().__setitem__(key, value)

    def _require_unsealed(self) -> None:
        if self.sealed:
            raise ValueError("the matrix is read-only; change a copy of it")

    def __copy__(self) -> sp.csr_array:
        """A matrix that shares the arrays and can be given others."""
        result = sp.csr_array.__new__(sp.csr_array)  # the checks of a constructor take longer
        result.__dict__.update(self.__dict__)
        for name in ("_sealed", "_rows"):  # the latter is of ``scaling.rows_of``
            result.__dict__.pop(name, None)
        return result

    def __deepcopy__(self, memo: Any) -> sp.csr_array:
        return freeze(self.copy()) if self.sealed else self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.data, self.indices, self.indptr)
        return _restored, (parts, self.shape, self.sealed)


def _restored(parts: Any, shape: tuple[int, int], sealed: bool) -> sp.csr_array:
    matrix = sp.csr_array(parts, shape=shape)
    return freeze(matrix) if sealed else matrix


def freeze(result: sp.csr_array) -> sp.csr_array:
    """A FrozenMatrix in canonical order without stored zeros; it takes over the arrays."""
    if isinstance(result, FrozenMatrix) and result.sealed:
        return result
    result.sum_duplicates()
    if np.count_nonzero(result.data) < result.data.size or result.data.size > result.nnz:
        if not result.indices.flags.writeable:  # they belong to another matrix
            result = result.copy()
        result.eliminate_zeros()
    result.sort_indices()
    return _sealed(result)


def _sealed(result: sp.csr_array) -> FrozenMatrix:
    """The same matrix, which is in canonical order, made read-only."""
    frozen = FrozenMatrix.__new__(FrozenMatrix)
    frozen.__dict__.update(result.__dict__)
    for part in (frozen.data, frozen.indices, frozen.indptr):
        _sealed_part(part)
    frozen.has_canonical_format = True
    frozen.__dict__["_sealed"] = True
    return frozen


def _sealed_part(part: NDArray[Any]) -> NDArray[Any]:
    """An array of a matrix, made read-only, and what it was cut from."""
    if isinstance(part.base, np.ndarray):
        read_only(part.base)
    return read_only(part)


_BLANK = freeze(sp.csr_array((1, 1)))
_FEW = 5_000  # entries up to which SciPy takes longer to transpose
_SMALL = np.iinfo(np.int32).max  # up to here indices have 32 bits


def frozen_rows(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> FrozenMatrix:
    """A FrozenMatrix of entries in canonical order without zeros, which nothing checks."""
    kind = np.int32 if max(*shape, data.size) < _SMALL else np.int64
    frozen = FrozenMatrix.__new__(FrozenMatrix)
    frozen.__dict__.update(
        _BLANK.__dict__,
        _shape=shape,
        data=_sealed_part(data),
        indices=_sealed_part(indices.astype(kind, copy=False)),
        indptr=_sealed_part(indptr.astype(kind, copy=False)),
    )
    return frozen


def unit_columns(chosen: NDArray[Any]) -> FrozenMatrix:
    """(n, k) with a one in each of the k ``chosen`` rows, a mask (n,)."""
    ends = np.append(0, np.cumsum(chosen))
    columns = np.arange(ends[-1])
    return frozen_rows(np.ones(columns.size), columns, ends, (chosen.size, columns.size))


def from_dense(matrix: NDArray[np.float64]) -> FrozenMatrix:
    """A FrozenMatrix of the entries (n, m) that are not zero."""
    row, column = matrix.nonzero()
    ends = row.searchsorted(np.arange(matrix.shape[0] + 1))
    return frozen_rows(matrix[row, column], column, ends, matrix.shape)


def transposed(matrix: sp.csr_array) -> sp.csr_array:
    """The transpose (m, n) of a matrix (n, m) in canonical order, by rows."""
    if matrix.data.size > _FEW:
        return sp.csr_array(matrix.T)
    order = matrix.indices.argsort(kind="stable")
    row = np.arange(matrix.shape[0]).repeat(matrix.indptr[1:] - matrix.indptr[:-1])[order]
    ends = matrix.indices[order].searchsorted(np.arange(matrix.shape[1] + 1))
    return frozen_rows(matrix.data[order], row, ends, matrix.shape[::-1])


def rows_at(matrix: sp.csr_array, rows: NDArray[Any]) -> FrozenMatrix:
    """The ``rows`` (k,) of a matrix in canonical order; SciPy takes longer to begin."""
    many = matrix.indptr[rows + 1] - matrix.indptr[rows]
    ends = np.append(0, many.cumsum())
    at = np.arange(ends[-1]) + (matrix.indptr[rows] - ends[:-1]).repeat(many)
    return frozen_rows(matrix.data[at], matrix.indices[at], ends, (rows.size, matrix.shape[1]))


def columns_at(matrix: sp.csr_array, columns: NDArray[Any]) -> FrozenMatrix:
    """The ``columns`` (k,), ascending, of a matrix in canonical order."""
    place = np.full(matrix.shape[1], -1)
    place[columns] = np.arange(columns.size)
    column = place[matrix.indices]
    kept = column >= 0
    ends = np.append(0, kept.cumsum())[matrix.indptr]
    shape = matrix.shape[0], columns.size
    return frozen_rows(matrix.data[kept], column[kept], ends, shape)


def _proxy(content: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(content)


# Python itself does not pickle read-only dictionaries
copyreg.pickle(MappingProxyType, lambda proxy: (_proxy, (dict(proxy),)))


class Frozen:
    """Base of frozen classes; copies writable arrays, checks the structure of sparse matrices."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen: make a new one")

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if type(value) not in _PLAIN:
                _require_structure(name, value)
                self.__dict__[name] = _frozen(value, copy=True)

    @classmethod
    def _of(cls, **values: Any) -> Self:
        """A record of arrays made by cdopt, which become read-only: neither copied nor checked."""
        record = object.__new__(cls)
        record.__setstate__(values)
        return record

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        known = self.__dict__
        for name, value in state.items():
            kind = type(value)
            if kind is np.ndarray:
                value.setflags(False)
            known[name] = value if kind is np.ndarray or kind in _PLAIN else _frozen(value, False)


def _require_structure(name: str, value: Any) -> None:
    """Refuse a sparse matrix whose structure leads compiled code out of its arrays."""
    if isinstance(value, (np.ndarray, Frozen)) or not isinstance(value, sp.csr_array):
        return
    if isinstance(value, FrozenMatrix) and value.sealed:
        return
    try:
        sparse.compressed(value.data, value.indices, value.indptr, *value.shape)
    except sparse.FAULTS as error:
        found = f"a sparse matrix: {error}"
        raise InvalidInput(name, found, "every index within its shape") from error


_PLAIN = frozenset({bool, int, float, str, tuple, type(None)})


def _frozen(value: Any, copy: bool) -> Any:
    """The value, no longer writable; a copy of it if others can write to it and ``copy``."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return read_only(value.copy() if copy and value.flags.writeable else value)
    if isinstance(value, Frozen):  # first: to ask whether something is a sparse matrix takes longer
        return value
    if type(value) is dict:
        return {name: _frozen(entry, copy) for name, entry in value.items()}
    if isinstance(value, FrozenMatrix) and value.sealed:
        return value
    if isinstance(value, sp.csr_array):
        return freeze(value.copy() if copy else value)
    if isinstance(value, (dict, MappingProxyType)) and not sp.issparse(value):
        return type(value)({name: _frozen(entry, copy) for name, entry in value.items()})
    return value
