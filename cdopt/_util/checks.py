"""Checks of arguments, one line each where they are used: ``tol = checks.tolerance("tol", tol)``.

Each takes the argument's name and value, and returns the value in the type that the caller works
with: a float, an int, a path, a read-only finite array. Otherwise it raises InvalidInput, which
names the argument, its value and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util import sparse
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import FrozenMatrix, from_dense, frozen_rows, transposed
from cdopt._util.frozen import freeze as freeze
from cdopt._util.frozen import read_only as read_only

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Shape = tuple[int | None, ...]  # None is any length

Value = TypeVar("Value")

_ARRAY, _FLOAT = np.ndarray, np.dtype(np.float64)
_LARGEST = 1e150  # squares of larger entries overflow a double
_SHORT = 10_000  # entries of vectors up to which BLAS starts no threads for a product
_INT64_END = 2**63
_LONGEST_RANGE = 10**8
_LONGEST_PATH, _LONGEST_NAME = 4000, 255  # characters


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


# --- numbers and choices ---------------------------------------------------------------


def scalar(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> float:
    """One finite float within the stated range."""
    expected = partial(_range, above, at_least, at_most)
    number = value
    if type(number) is not float:
        array = real(name, value, expected())
        if array.ndim != 0:
            raise InvalidInput(name, describe(value), expected())
        number = float(array)
    if above == 0.0 and 0.0 < number < 1.0 / _LARGEST:
        raise InvalidInput(name, repr(number), f"one finite number of at least {1 / _LARGEST:g}")
    inside = (
        abs(number) <= _LARGEST
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (at_most is None or number <= at_most)
    )
    if not inside:
        raise InvalidInput(name, repr(number), expected())
    return number


def _range(above: float | None, at_least: float | None, at_most: float | None) -> str:
    """A range in words."""
    words = (("above", above), ("at least", at_least), ("at most", at_most))
    limits = [f"{word} {limit:g}" for word, limit in words if limit is not None]
    return " ".join(["one finite number", " and ".join(limits)]).strip()


def positive(name: str, value: object) -> float:
    """One finite number above zero."""
    return scalar(name, value, above=0.0)


def not_negative(name: str, value: object) -> float:
    """One finite number of at least zero."""
    return scalar(name, value, at_least=0.0)


def share(name: str, value: object) -> float:
    """One number from 0 to 1."""
    return scalar(name, value, at_least=0.0, at_most=1.0)


def tolerance(name: str, value: object) -> float:
    """One number above 0 and at most 1."""
    return scalar(name, value, above=0.0, at_most=1.0)


def whole(name: str, value: object, at_least: int | None = None, at_most: int | None = None) -> int:
    """One integer of 64 bits within the stated range; 3.0 counts as one."""
    low = -_INT64_END if at_least is None else at_least
    high = _INT64_END - 1 if at_most is None else at_most
    if type(value) is int and low <= value <= high:
        return value
    words = (("at least", at_least), ("at most", at_most))
    limits = [f"{word} {limit}" for word, limit in words if limit is not None]
    expected = " of ".join(filter(None, ["an integer", " and ".join(limits)]))
    array = real(name, value, expected)
    if array.ndim or not low <= array <= high or not float(array).is_integer():
        raise InvalidInput(name, describe(value), expected)
    return int(array)


def count(name: str, value: object, at_most: int | None = None) -> int:
    """One integer of at least 1."""
    return whole(name, value, 1, at_most)


def seed(name: str, value: object) -> int:
    """One integer as the seed of random numbers."""
    return whole(name, value, 0, 2**32 - 1)


def index(name: str, value: object, size: int) -> int:
    """A position in a sequence of ``size``, counted from the end when negative."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not whole or not -size <= int(value) < size:  # type: ignore[call-overload]
        raise InvalidInput(name, describe(value), f"an integer from {-size} to {size - 1}")
    return int(value)  # type: ignore[call-overload]


def dimension(name: str, value: object) -> int:
    """2 or 3: the plane, or space."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value not in (2, 3):
        raise InvalidInput(name, describe(value), "2 or 3")
    return int(value)


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(name, describe(value), "True or False")
    return bool(value)


def text(name: str, value: object) -> str:
    """A text that a file can contain: no halves of characters, which UTF-8 cannot write."""
    if not isinstance(value, str):
        raise InvalidInput(name, describe(value), "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(name, describe(value), "a text that UTF-8 can write") from None
    return value


def choice(name: str, value: object, options: Iterable[str]) -> str:
    """One of the stated words."""
    allowed = list(options)
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(name, describe(value), "one of " + ", ".join(map(repr, allowed)))
    return value


def power(name: str, value: object) -> float:
    """An exponent p > 1 of the contact energy."""
    expected = "one power p > 1 for the whole problem: mixed powers have no common rigid limit"
    if real(name, value, expected).ndim > 0:
        raise InvalidInput(name, describe(value), expected)
    return scalar(name, value, at_least=1.0 + 1e-3, at_most=1e3)


# --- paths, functions, containers and objects ----------------------------------------------


def path(name: str, value: object) -> Path:
    """A path, stated as a text or a Path, that a file can have."""
    expected = "a path that a file can have"
    if not isinstance(value, str | Path):
        raise InvalidInput(name, describe(value), "a text or a path")
    written = text(name, str(value))
    too_long = (
        len(written) >= _LONGEST_PATH
        or max(map(len, Path(written).parts), default=0) > _LONGEST_NAME
    )
    if "\0" in written or too_long:
        raise InvalidInput(name, describe(written), expected)
    return Path(value)


def function(name: str, value: Value) -> Value:
    """Whatever can be called."""
    if not callable(value):
        raise InvalidInput(name, describe(value), "a function")
    return value


def mapping(name: str, value: object) -> Mapping[Any, Any]:
    """A dictionary, or what reads like one."""
    if not isinstance(value, Mapping):
        raise InvalidInput(name, describe(value), "a dictionary")
    return value


def sequence(name: str, value: object) -> tuple[Any, ...]:
    """The entries of a list, a tuple, a one-dimensional array, a set or an iterator."""
    no_list = isinstance(value, str | bytes | memoryview | Mapping) or sp.issparse(value)
    wrong = no_list or getattr(value, "ndim", 1) != 1
    if wrong or not isinstance(value, Iterable) or _endless(value):
        raise InvalidInput(name, describe(value), "a sequence")
    return tuple(value.tolist() if isinstance(value, np.ndarray) else value)


def instance(name: str, value: Value, *classes: type) -> Value:
    """An object of one of these classes."""
    if not isinstance(value, classes):
        raise InvalidInput(name, describe(value), _one_of_classes(classes, value))
    return value


def instances(name: str, value: Iterable[Value], *classes: type) -> tuple[Value, ...]:
    """A sequence of objects, each of one of these classes."""
    entries = sequence(name, value)
    for entry in entries:
        if not isinstance(entry, classes):
            expected = f"a sequence, each entry {_one_of_classes(classes, entry)}"
            raise InvalidInput(name, f"a sequence with {describe(entry)}", expected)
    return entries


def provides(name: str, value: Value, protocol: type) -> Value:
    """An object with all public members of a protocol; its properties are not computed."""
    kind: Any = type(value)
    fields = getattr(value, "__dict__", {})
    lacking = [m for m in _lacking(kind, protocol) if m not in fields]
    if isinstance(value, type) or lacking:
        raise InvalidInput(name, describe(value), f"a {protocol.__name__}")
    return value


def _members(protocol: type) -> tuple[str, ...]:
    """The public members of a protocol."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    members = {m for b in bases for m in (*vars(b), *vars(b).get("__annotations__", {}))}
    return tuple(m for m in members if not m.startswith("_"))


@lru_cache
def _lacking(kind: type, protocol: type) -> list[str]:
    """The members of a protocol that a class has not: its objects may have them."""
    return [m for m in _members(protocol) if not hasattr(kind, m)]


def _one_of_classes(classes: Sequence[type], value: object) -> str:
    """The classes in words; a class may state ``expected``, and ``by_name``, how to make one."""
    words = []
    for cls in classes:
        article = "an" if cls.__name__[0] in "AEIOU" else "a"
        word = "a text" if cls is str else getattr(cls, "expected", f"{article} {cls.__name__}")
        if isinstance(getattr(value, "step", None), cls):
            word += " (its .step is one)"
        elif isinstance(value, str) and hasattr(cls, "by_name"):
            word += f" (by name: {cls.by_name})"
        words.append(word)
    return " or ".join(words)


def _endless(value: object) -> bool:
    """Whether this is a range of too many entries for memory."""
    return isinstance(value, range) and bool(value[_LONGEST_RANGE:])


def optional(check: Callable[[str, Any], Value], name: str, value: object) -> Value | None:
    """None as it is, anything else by another check: ``optional(checks.power, "power", power)``."""
    return None if value is None else check(name, value)


def number(**limits: Any) -> Callable[[str, object], float]:
    """A check for tables of limits: one finite float, as by ``scalar``."""
    return partial(scalar, **limits)


def integer(
    at_least: int | None = None, at_most: int | None = None
) -> Callable[[str, object], int]:
    """A check for tables of limits: one integer, as by ``whole``."""
    return partial(whole, at_least=at_least, at_most=at_most)


def one_of(options: Iterable[str]) -> Callable[[str, object], str]:
    """A check for tables of limits: one of these words."""
    return partial(choice, options=options)


# --- arrays ----------------------------------------------------------------------------


def unmasked(value: object) -> NDArray[Any]:
    """A plain array of what numpy makes of a value; ValueError if entries are masked."""
    masked = np.ma.isMaskedArray(value) or (
        isinstance(value, list | tuple) and any(np.ma.isMaskedArray(entry) for entry in value)
    )
    if masked and np.ma.getmaskarray(np.ma.asarray(value)).any():
        raise ValueError("masked entries")
    return np.asarray(value)


def array(name: str, value: object, expected: str) -> NDArray[Any]:
    """Whatever numpy makes an array of, without masked entries."""
    if type(value) is np.ndarray:
        return value
    try:
        if _endless(value):
            raise OverflowError("a range that memory cannot hold")
        return unmasked(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        what = " with masked entries" if np.ma.isMaskedArray(value) else ""
        if "inhomogeneous" in str(error):
            what = " of rows of different lengths"
        raise InvalidInput(name, describe(value) + what, expected) from error


def real(name: str, value: object, expected: str, shape: Shape | None = None) -> NDArray[Any]:
    """An array of real numbers; no flags, objects, words or masked entries."""
    if shape is None and type(value) is _ARRAY and value.dtype is _FLOAT:
        return value
    result = array(name, value, expected)
    if result.dtype.kind not in "iuf":
        kind = "" if result.dtype.kind != "c" else " (complex)"
        raise InvalidInput(name, describe(value) + kind, expected)
    if shape is not None:
        pairs = zip(shape, result.shape, strict=False)
        if result.ndim != len(shape) or any(n is not None and n != m for n, m in pairs):
            raise InvalidInput(name, describe(result), expected)
    return result


def _finite(name: str, values: NDArray[Any], expected: str) -> FloatArray:
    """A read-only copy in double precision."""
    result = values.astype(np.float64)
    _require_finite(name, result, expected)
    return read_only(result)


def _require_finite(name: str, values: FloatArray, expected: str) -> None:
    size = np.abs(values)
    if not size.max(initial=0.0) <= _LARGEST:  # not-a-number is not
        bad = int(np.flatnonzero(~(size <= _LARGEST))[0])
        where = f" at index {bad}" if values.ndim == 1 else ""
        raise InvalidInput(name, f"{float(values.ravel()[bad])!r}{where}", expected)


@lru_cache
def _sizes(shape: Shape) -> str:
    return "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"


def _length(size: int | None) -> str:
    return "any length" if size is None else f"length {size}"


def vector(name: str, value: object, size: int | None, unit: str = "") -> FloatArray:
    """A read-only finite vector, copied; ``size`` None is any length."""
    if (
        type(value) is _ARRAY
        and value.dtype is _FLOAT
        and value.shape == (size,)
        and value.size <= _SHORT
        and value.dot(value) <= _LARGEST  # so every entry is
    ):
        return read_only(value.copy())
    expected = f"a finite vector of {_length(size)}" + (f" in {unit}" if unit else "")
    return _finite(name, real(name, value, expected, (size,)), expected)


def answer(name: str, value: object, size: int | None) -> FloatArray:
    """A solver's vector, as it is: real, nothing masked; it may contain not-a-number."""
    plain = type(value) is _ARRAY and value.dtype is _FLOAT
    if plain and (value.shape == (size,) or (size is None and value.ndim == 1)):  # type: ignore[attr-defined]
        return value  # type: ignore[return-value]
    expected = f"a vector of {_length(size)}, of real numbers"
    return real(name, value, expected, (size,)).astype(np.float64)


def numbers(name: str, value: object, shape: Shape, unit: str = "") -> FloatArray:
    """A read-only finite array, copied; None in ``shape`` takes any length."""
    expected = f"a finite array of shape {_sizes(shape)}" + (f" in {unit}" if unit else "")
    return _finite(name, real(name, value, expected, shape), expected)


def table(name: str, value: object, rows: int) -> FloatArray:
    """A read-only (rows, 2) or (rows, 3) array of plane or space vectors."""
    expected = f"a finite array of shape ({rows}, 2) or ({rows}, 3)"
    array = real(name, value, expected, (rows, None))
    if array.shape[1] not in (2, 3):
        raise InvalidInput(name, describe(array), expected)
    return _finite(name, array, expected)


def per_contact(
    name: str,
    value: object,
    nc: int,
    *,
    positive: bool = False,
    at_least: float | None = None,
    at_most: float | None = None,
) -> FloatArray:
    """A scalar or one number per contact, as a read-only vector of shape (nc,)."""
    if type(value) is float and abs(value) <= _LARGEST:
        above = value > 1.0 / _LARGEST if positive else at_least is None or value >= at_least
        if above and (at_most is None or value <= at_most):
            return read_only(np.full(nc, value))
    expected = f"one number, or one per contact ({nc})"
    expected += ", positive" if positive else ""
    expected += "" if at_least is None else f", at least {at_least}"
    expected += "" if at_most is None else f", at most {at_most}"
    array = real(name, value, expected)
    array = real(name, array, expected, (nc,)) if array.ndim else np.full(nc, float(array))
    result = _finite(name, array, expected)
    fit = result > (1.0 / _LARGEST if positive else -np.inf)
    if at_least is not None:
        fit &= result >= at_least
    if at_most is not None:
        fit &= result <= at_most
    if not fit.all():
        i = int(np.argmin(fit))
        raise InvalidInput(name, f"{float(result[i])!r} at contact {i}", expected)
    return result


def integers(
    name: str, value: object, shape: Shape, *, at_least: int | None = None, below: int | None = None
) -> IntArray:
    """A read-only integer array, copied; None in ``shape`` takes any length."""
    low = "" if at_least is None else f", at least {at_least}"
    high = "" if below is None else f", below {below}"
    expected = f"integers of shape {_sizes(shape)}{low}{high}"
    array = real(name, value, expected, shape)
    if array.dtype.kind == "f" and array.size:
        raise InvalidInput(name, describe(array), expected)
    if array.dtype.kind == "u" and array.size and int(array.max()) >= _INT64_END:
        raise InvalidInput(name, "a number beyond 64 bits", expected)
    result = array.astype(np.int64)
    if at_least is not None and result.size and int(result.min()) < at_least:
        raise InvalidInput(name, str(int(result.min())), expected)
    if below is not None and result.size and int(result.max()) >= below:
        raise InvalidInput(name, str(int(result.max())), expected)
    return read_only(result)


def flags(name: str, value: object, shape: Shape) -> BoolArray:
    """A read-only array of True and False, copied; None in ``shape`` takes any length."""
    expected = f"flags, True or False, of shape {_sizes(shape)}"
    result = array(name, value, expected)
    pairs = zip(shape, result.shape, strict=False)
    fits = result.ndim == len(shape) and all(n is None or n == m for n, m in pairs)
    if not fits or (result.size and result.dtype.kind != "b"):
        raise InvalidInput(name, describe(result), expected)
    return read_only(result.astype(np.bool_))


def positions(name: str, value: object, size: int) -> IntArray:
    """Positions in a sequence of ``size``, stated as integers (n,) or as flags (size,)."""
    index = array(name, value, "indices or a boolean mask")
    if index.dtype.kind == "b" and index.shape == (size,):
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise InvalidInput(name, describe(index), f"indices, or a boolean mask of {size} flags")
    if index.size and not (index.min() >= 0 and index.max() < size):
        raise InvalidInput(name, "an index out of range", f"0 to {size - 1}")
    return index.astype(np.int64)


def labels(name: str, value: object, size: int) -> NDArray[Any]:
    """Read-only contact names: ``size`` distinct integers or strings."""
    expected = f"{size} distinct integers or strings"
    result = np.array(array(name, value, expected))
    if result.shape != (size,) or (size and result.dtype.kind not in "iuU"):
        raise InvalidInput(name, describe(result), expected)
    once, times = np.unique(result, return_counts=True)
    if len(once) != size:
        first = once[times > 1][0].item()
        twice = " and ".join(map(str, np.flatnonzero(result == first)[:2].tolist()))
        raise InvalidInput(name, f"the same name twice: {describe(first)} at {twice}", expected)
    return read_only(result)


# --- matrices --------------------------------------------------------------------------


def matrix(name: str, value: object, rows: int | None, cols: int | None) -> sp.csr_array:
    """A finite matrix, dense or sparse, as a canonical read-only CSR array, copied if needed."""
    expected = f"a finite matrix of shape {_sizes((rows, cols))}, sparse or dense"
    if isinstance(value, FrozenMatrix) and value.sealed:
        result: sp.csr_array = value
    elif sp.issparse(value):
        result = _sparse(name, value)
    else:
        array = real(name, value, expected, (None, None))
        result = from_dense(array.astype(np.float64, copy=False))
    if (rows is not None and result.shape[0] != rows) or (
        cols is not None and result.shape[1] != cols
    ):
        raise InvalidInput(name, f"shape {result.shape}", expected)
    _require_finite(name, result.data, expected)
    return result if result is value else freeze(result)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of a matrix, an array or nested lists; None of lists of different lengths."""
    try:
        return tuple(getattr(value, "shape", None) or np.shape(value))
    except (TypeError, ValueError):
        return None


def gap_gradient(value: object) -> sp.csr_array:
    """B (nc, nv), with at least one degree of freedom."""
    result = matrix("B", value, None, None)
    if result.shape[1] == 0:
        raise InvalidInput("B", f"shape {result.shape}", "at least one degree of freedom")
    return result


def symmetric(name: str, value: sp.csr_array, tol: float) -> sp.csr_array:
    """The canonical matrix without round-off asymmetry; refused beyond ``tol`` of its scale."""
    if value.shape[0] != value.shape[1]:
        raise InvalidInput(name, f"shape {value.shape}", "a square matrix")
    if np.count_nonzero(value.diagonal()) == value.nnz:
        return value
    other = transposed(value)
    alike = np.array_equal(other.indptr, value.indptr)
    alike = alike and np.array_equal(other.indices, value.indices)
    difference = value.data - other.data if alike else (value - other).data
    scale = float(np.abs(value.data).max(initial=0.0))
    worst = float(np.abs(difference).max(initial=0.0))
    if worst > tol * scale:
        raise InvalidInput(
            name,
            f"asymmetry of {worst:.3g} where the largest entry is {scale:.3g}",
            f"a symmetric matrix (to {tol:g} of its largest entry)",
        )
    if worst == 0.0:
        return value
    if alike and (mean := 0.5 * (value.data + other.data)).all():
        return frozen_rows(mean, value.indices, value.indptr, value.shape)
    return freeze(sp.csr_array((value + other) * 0.5))


def _sparse(name: str, value: Any) -> sp.csr_array:
    """A CSR copy of any sparse matrix, its structure checked before compiled code walks it."""
    try:
        return sparse.rows_of(value)
    except sparse.FAULTS as error:
        expected = "a sparse matrix of real numbers, every index within its shape"
        raise InvalidInput(name, f"{describe(value)}: {error}", expected) from error
