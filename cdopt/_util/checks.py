"""Arguments, checked once at the door: what passes is finite, of the right shape, read-only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util.arrays import FrozenMatrix, sparse, unmasked
from cdopt._util.arrays import describe as describe
from cdopt._util.arrays import freeze as freeze
from cdopt._util.arrays import read_only as read_only
from cdopt._util.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_LARGEST = 1e150  # squares of larger entries overflow a double


def array(name: str, value: object, expected: str) -> NDArray[Any]:
    """Whatever numpy makes an array of, without masked entries."""
    try:
        return unmasked(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        masked = " with masked entries" if np.ma.isMaskedArray(value) else ""
        raise InvalidInput(name, describe(value) + masked, expected) from error


def real(name: str, value: object, expected: str) -> NDArray[Any]:
    """An array of real numbers, of any shape; no flags, objects, words or masked entries."""
    result = array(name, value, expected)
    if result.dtype.kind not in "iuf":
        kind = "" if result.dtype.kind != "c" else " (complex)"
        raise InvalidInput(name, describe(value) + kind, expected)
    return result


def _finite(name: str, array: FloatArray, expected: str) -> None:
    size = np.abs(array)
    if size.max(initial=0.0) <= _LARGEST:  # not-a-number is not
        return
    bad = np.flatnonzero(~(size <= _LARGEST))
    if bad.size:
        where = f" at index {int(bad[0])}" if array.ndim == 1 else ""
        raise InvalidInput(name, f"{float(array.ravel()[bad[0]])!r}{where}", expected)


def scalar(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> float:
    """One finite float within the stated range."""
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("above", above), ("at least", at_least), ("at most", at_most))
        if limit is not None
    ]
    expected = " ".join(["one finite number", " and ".join(limits)]).strip()
    array = real(name, value, expected)
    if array.ndim != 0:
        raise InvalidInput(name, describe(value), expected)
    number = float(array)
    if above == 0.0 and 0.0 < number < 1.0 / _LARGEST:
        raise InvalidInput(name, repr(number), f"one finite number of at least {1 / _LARGEST:g}")
    outside = (
        not abs(number) <= _LARGEST
        or (above is not None and not number > above)
        or (at_least is not None and not number >= at_least)
        or (at_most is not None and not number <= at_most)
    )
    if outside:
        raise InvalidInput(name, repr(number), expected)
    return number


def vector(name: str, value: object, size: int | None, unit: str = "") -> FloatArray:
    """A read-only finite vector, copied; ``size`` None takes any length."""
    length = "any length" if size is None else f"length {size}"
    expected = f"a finite vector of {length}" + (f" in {unit}" if unit else "")
    array = real(name, value, expected)
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        raise InvalidInput(name, describe(array), expected)
    result = array.astype(np.float64)
    _finite(name, result, expected)
    return read_only(result)


def answer(name: str, value: object, size: int | None) -> FloatArray:
    """A solver's vector, as it is: real, nothing masked; it may hold not-a-number."""
    length = "any length" if size is None else f"length {size}"
    expected = f"a vector of {length}, of real numbers"
    array = real(name, value, expected)
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        raise InvalidInput(name, describe(array), expected)
    return array.astype(np.float64)


def numbers(name: str, value: object, shape: tuple[int | None, ...], unit: str = "") -> FloatArray:
    """A read-only finite array, copied; None in ``shape`` takes any length."""
    sizes = ", ".join("any" if n is None else str(n) for n in shape)
    expected = f"a finite array of shape ({sizes})" + (f" in {unit}" if unit else "")
    array = real(name, value, expected)
    if not _fits(array, shape):
        raise InvalidInput(name, describe(array), expected)
    result = array.astype(np.float64)
    _finite(name, result, expected)
    return read_only(result)


def _fits(array: NDArray[Any], shape: tuple[int | None, ...]) -> bool:
    """Whether an array has a shape, in which None stands for any length."""
    return array.ndim == len(shape) and all(
        n is None or n == m for n, m in zip(shape, array.shape, strict=True)
    )


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
    limits = [
        text
        for text, wanted in (
            ("positive", positive),
            (f"at least {at_least}", at_least is not None),
            (f"at most {at_most}", at_most is not None),
        )
        if wanted
    ]
    expected = ", ".join([f"one number, or one per contact ({nc})", *limits])
    array = real(name, value, expected)
    if array.ndim == 0:
        array = np.full(nc, float(array))
    if array.shape != (nc,):
        raise InvalidInput(name, describe(array), expected)
    result = array.astype(np.float64)
    _finite(name, result, expected)
    low = 1.0 / _LARGEST if positive else -np.inf
    fit = (result > low) if at_least is None else (result > low) & (result >= at_least)
    if at_most is not None:
        fit &= result <= at_most
    if not fit.all():
        i = int(np.flatnonzero(~fit)[0])
        raise InvalidInput(name, f"{float(result[i])!r} at contact {i}", expected)
    return read_only(result)


def matrix(name: str, value: object, rows: int | None, cols: int | None) -> sp.csr_array:
    """A finite matrix, dense or sparse, as a canonical read-only CSR array.

    Copied, unless it is one already.
    """
    shape = f"({'any' if rows is None else rows}, {'any' if cols is None else cols})"
    expected = f"a finite matrix of shape {shape}, sparse or dense"
    if isinstance(value, FrozenMatrix) and value.sealed:
        result: sp.csr_array = value
    elif sp.issparse(value):
        result = sparse(name, value)
    else:
        array = real(name, value, expected)
        if array.ndim != 2:
            raise InvalidInput(name, describe(array), expected)
        result = sp.csr_array(array.astype(np.float64))
    if (rows is not None and result.shape[0] != rows) or (
        cols is not None and result.shape[1] != cols
    ):
        raise InvalidInput(name, f"shape {result.shape}", expected)
    _finite(name, result.data, expected)
    return result if result is value else freeze(result)


def gap_gradient(value: object) -> sp.csr_array:
    """B (nc, nv), with at least one degree of freedom."""
    result = matrix("B", value, None, None)
    if result.shape[1] == 0:
        raise InvalidInput("B", f"shape {result.shape}", "at least one degree of freedom")
    return result


def symmetric(name: str, value: sp.csr_array, tol: float) -> sp.csr_array:
    """The matrix with round-off asymmetry averaged away; refused beyond ``tol`` of its scale."""
    if value.shape[0] != value.shape[1]:
        raise InvalidInput(name, f"shape {value.shape}", "a square matrix")
    scale = float(np.abs(value.data).max(initial=0.0))
    difference = (value - value.T).tocsr()
    worst = float(np.abs(difference.data).max(initial=0.0))
    if worst > tol * scale:
        raise InvalidInput(
            name,
            f"asymmetry of {worst:.3g} beside entries of {scale:.3g}",
            f"a symmetric matrix (to {tol:g} of its largest entry)",
        )
    if worst == 0.0:
        return value
    return freeze(sp.csr_array((value + value.T) * 0.5))


def integers(
    name: str,
    value: object,
    shape: tuple[int | None, ...],
    *,
    at_least: int | None = None,
    below: int | None = None,
) -> IntArray:
    """A read-only integer array, copied; None in ``shape`` takes any length."""
    sizes = ", ".join("any" if n is None else str(n) for n in shape)
    low = "" if at_least is None else f", at least {at_least}"
    high = "" if below is None else f", below {below}"
    expected = f"integers of shape ({sizes}){low}{high}"
    array = real(name, value, expected)
    if not _fits(array, shape) or (array.dtype.kind == "f" and array.size):
        raise InvalidInput(name, describe(array), expected)
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise InvalidInput(name, "a number beyond 64 bits", expected)
    result = array.astype(np.int64)
    if at_least is not None and result.size and int(result.min()) < at_least:
        raise InvalidInput(name, str(int(result.min())), expected)
    if below is not None and result.size and int(result.max()) >= below:
        raise InvalidInput(name, str(int(result.max())), expected)
    return read_only(result)


def table(name: str, value: object, rows: int) -> FloatArray:
    """A read-only (rows, 2) or (rows, 3) array of plane or space vectors."""
    expected = f"a finite array of shape ({rows}, 2) or ({rows}, 3)"
    array = real(name, value, expected)
    if array.ndim != 2 or array.shape[0] != rows or array.shape[1] not in (2, 3):
        raise InvalidInput(name, describe(array), expected)
    result = array.astype(np.float64)
    _finite(name, result, expected)
    return read_only(result)


def labels(name: str, value: object, size: int) -> NDArray[Any]:
    """Read-only contact names: ``size`` distinct integers or strings."""
    expected = f"{size} distinct integers or strings"
    result = np.array(array(name, value, expected))
    if result.shape != (size,) or (size and result.dtype.kind not in "iuU"):
        raise InvalidInput(name, describe(result), expected)
    if len(np.unique(result)) != size:
        raise InvalidInput(name, "the same name twice", expected)
    return read_only(result)


def index(name: str, value: object, size: int) -> int:
    """A position in a sequence of ``size``, counted from the end when negative."""
    expected = f"an integer from {-size} to {size - 1}"
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not whole or not -size <= int(value) < size:  # type: ignore[call-overload]
        raise InvalidInput(name, describe(value), expected)
    return int(value)  # type: ignore[call-overload]


def dimension(name: str, value: object) -> int:
    """2 or 3: the plane, or space."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in (2, 3):
        raise InvalidInput(name, describe(value), "2 or 3")
    return value


def choice(name: str, value: object, options: Iterable[str]) -> str:
    """One of the stated words."""
    allowed = list(options)
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(name, describe(value), "one of " + ", ".join(map(repr, allowed)))
    return value


def power(name: str, value: object) -> float:
    """An exponent p > 1 of the contact energy."""
    one = "one power p > 1 for the whole problem: contacts of different p share no rigid limit"
    if real(name, value, one).ndim > 0:
        raise InvalidInput(name, describe(value), one)
    return scalar(name, value, at_least=1.0 + 1e-3, at_most=1e3)


Dim = Annotated[int, dimension]
Power = Annotated[float, power]
