"""What an annotation takes: one check for each kind, ``check_of``.

``float`` takes any real number, ``int`` any integer of 64 bits, an array annotation whatever
numpy turns into a real array (no masked entries, no complex numbers), ``tuple`` a list as well,
``Sequence`` a one-dimensional array as well, a protocol whatever has its members, and
``Annotated[X, check]`` what X takes and ``check(name, value)`` lets pass; that check also says
what is wrong with other values. ``Any`` and ``object`` take everything. Numbers and arrays are
handed on in the annotated type, those in containers too.
"""

from __future__ import annotations

import collections.abc as abc
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.arrays import unmasked
from cdopt._util.errors import InvalidInput

Check = Callable[[str, Any], Any]  # name and value in, value out

_LARGEST = 2**63
_LONGEST = 4000  # characters of a path


class Mismatch(Exception):
    """A value that an annotation does not take; says what it takes."""


class Names(dict[str, Any]):
    """The names that an annotation may use, those imported for type checkers included."""

    def __call__(self, annotation: Any) -> Any:
        """The annotation that a text says; Any where it says nothing known."""
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, {}, self)
        except (NameError, AttributeError, TypeError):
            return Any

    def __missing__(self, name: str) -> Any:
        found = {
            id(thing): thing
            for module, content in list(sys.modules.items())
            if module.startswith("cdopt.")
            for thing in (vars(content).get(name),)
            if isinstance(thing, type)
        }
        if len(found) != 1:
            raise KeyError(name)
        return next(iter(found.values()))


# --- one check for each kind of annotation -------------------------------------------------


def anything(name: str, value: Any) -> Any:
    """No check."""
    return value


def check_of(annotation: Any, made: bool) -> Check:
    """The check of an annotation; ``made`` by a dataclass, which may store not-a-number."""
    if annotation in (Any, object, inspect.Parameter.empty) or isinstance(annotation, TypeVar):
        return anything
    if annotation in (None, types.NoneType):
        return _none
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        text = _file_name if Path in inner else None  # then text is the name of a file
        return _any_of([text if one is str and text else check_of(one, made) for one in inner])
    if origin is typing.Annotated:
        return _both(check_of(inner[0], made), inner[1])
    if origin is typing.Literal:
        return _one_of(inner)
    if origin is np.ndarray:
        return _array(inner[1])
    if origin is type:
        return _subclass(inner[0])
    if isinstance(origin, type):
        return _container(origin, inner, made)
    if not isinstance(annotation, type):
        return anything
    if annotation is float:
        return _number if made else _number_not_nan
    simple: dict[type, Check] = {int: _integer, bool: _flag, sp.csr_array: _sparse, Path: _path}
    if annotation in simple:
        return simple[annotation]
    if getattr(annotation, "_is_protocol", False):
        return _with_members(annotation)
    if annotation is abc.Callable:
        return _callable
    return _instance(annotation)


def _none(name: str, value: Any) -> None:
    if value is not None:
        raise Mismatch("None")


def _any_of(options: list[Check]) -> Check:
    def check(name: str, value: Any) -> Any:
        expected = []
        for option in options:
            try:
                return option(name, value)
            except Mismatch as mismatch:
                expected.append(str(mismatch))
        raise Mismatch(" or ".join(dict.fromkeys(expected)))

    if _none in options and len(options) == 2:
        (other,) = [option for option in options if option is not _none]

        def optional(name: str, value: Any) -> Any:
            return None if value is None else other(name, value)

        return optional
    return check


def _one_of(words: tuple[Any, ...]) -> Check:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str | int) or value not in words:
            raise Mismatch("one of " + ", ".join(map(repr, words)))
        return value

    return check


def _number(name: str, value: Any) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0 and not np.ma.isMaskedArray(value):
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer | np.floating):
        raise Mismatch("one number")
    if isinstance(value, np.timedelta64):
        raise Mismatch("one number")
    try:
        return float(value)
    except OverflowError:
        raise Mismatch("a number within the range of a double") from None


def _number_not_nan(name: str, value: Any) -> Any:
    number = _number(name, value)
    if number != number:
        raise Mismatch("one number")
    return number


def _integer(name: str, value: Any) -> int:
    if isinstance(value, np.ndarray) and value.ndim == 0 and not np.ma.isMaskedArray(value):
        value = value[()]
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, int | np.integer):
        raise Mismatch("an integer")
    if not -_LARGEST <= value < _LARGEST:
        raise Mismatch("an integer of 64 bits")
    return int(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise Mismatch("True or False")
    return bool(value)


def _path(name: str, value: Any) -> Path:
    if not isinstance(value, Path):
        raise Mismatch("a path")
    _file_name(name, str(value))
    return value


def _file_name(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Mismatch("a text")
    if "\0" in value or len(value) > _LONGEST or max(map(len, Path(value).parts), default=0) > 255:
        raise Mismatch("a path that a file can have")
    return value


def _both(first: Check, second: Check) -> Check:
    """An annotation's class, then the check that ``Annotated`` adds, whose message comes first."""

    def check(name: str, value: Any) -> Any:
        try:
            converted = first(name, value)
        except Mismatch:
            second(name, value)
            raise
        return second(name, converted)

    return check


def _sparse(name: str, value: Any) -> sp.csr_array:
    try:
        return checks.matrix(name, value, None, None)
    except InvalidInput as error:
        raise Mismatch(error.expected) from None


def _array(dtype: Any) -> Check:
    (scalar,) = typing.get_args(dtype) or (Any,)
    if scalar is Any or not issubclass(scalar, np.generic):
        return _any_array
    kind = np.dtype(scalar)
    # an index is no number with a fraction, a flag no number at all
    kinds = {"f": "iuf", "i": "iu", "b": "b"}.get(kind.kind, kind.kind)
    expected = {"f": "an array of numbers", "i": "an array of integers", "b": "an array of flags"}

    def check(name: str, value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype == kind:
            return value
        array = _as_array(value)
        if array.dtype.kind not in kinds and array.size:
            raise Mismatch(expected.get(kind.kind, f"an array of {kind}"))
        if array.dtype.kind == "u" and kind.kind == "i" and array.max(initial=0) >= _LARGEST:
            raise Mismatch("integers of 64 bits")
        return array.astype(kind, copy=False)

    return check


def _any_array(name: str, value: Any) -> Any:
    return value if type(value) is np.ndarray else _as_array(value)


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    """A plain array of numbers, flags or words; nothing masked, no objects."""
    if not isinstance(value, np.ndarray | list | tuple | int | float | np.generic):
        raise Mismatch("an array")
    try:
        array = unmasked(value)
    except (TypeError, ValueError, OverflowError):
        raise Mismatch("an array without masked entries") from None
    if array.dtype.kind not in "biufU":
        raise Mismatch("an array of real numbers")
    return array


def _subclass(base: Any) -> Check:
    members = _members(base) if getattr(base, "_is_protocol", False) else None

    def check(name: str, value: Any) -> Any:
        fits = isinstance(value, type) and (
            issubclass(value, base) if members is None else all(hasattr(value, m) for m in members)
        )
        if not fits:
            raise Mismatch(f"a class like {base.__name__}")
        return value

    return check


def _members(protocol: Any) -> list[str]:
    bases = [b for b in protocol.__mro__ if getattr(b, "_is_protocol", False)]
    names = {m for b in bases for m in (*vars(b), *vars(b).get("__annotations__", {}))}
    return sorted(m for m in names if not m.startswith("_"))


def _with_members(protocol: Any) -> Check:
    members = _members(protocol)

    def check(name: str, value: Any) -> Any:
        kind, own = type(value), getattr(value, "__dict__", {})  # no property is computed for it
        if kind is type or not all(hasattr(kind, member) or member in own for member in members):
            raise Mismatch(f"a {protocol.__name__}")
        return value

    return check


def _callable(name: str, value: Any) -> Any:
    if not callable(value):
        raise Mismatch("a function")
    return value


def _instance(cls: type) -> Check:
    article = "an" if cls.__name__[0] in "AEIOU" else "a"
    expected = "a text" if cls is str else f"{article} {cls.__name__}"

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, cls):
            raise Mismatch(expected)
        return value

    return check


def _container(origin: type, inner: tuple[Any, ...], made: bool) -> Check:
    if issubclass(origin, Mapping):
        return _mapping(*inner, made) if len(inner) == 2 else _instance(origin)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return _fixed([check_of(one, made) for one in inner])
    if origin in _SEQUENCES and inner:
        return _many(origin, check_of(inner[0], made))
    return _callable if origin is abc.Callable else _instance(origin)  # type: ignore[comparison-overlap]


def _mapping(key: Any, value: Any, made: bool) -> Check:
    key_check, value_check = check_of(key, made), check_of(value, made)

    def check(name: str, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise Mismatch("a dictionary")
        entries = {key_check(name, k): value_check(name, value) for k, value in given.items()}
        if all(entries.get(k) is value for k, value in given.items()):
            return given
        proxy = isinstance(given, types.MappingProxyType)
        return types.MappingProxyType(entries) if proxy else entries

    return check


def _fixed(parts: list[Check]) -> Check:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            raise Mismatch(f"{len(parts)} entries")
        return tuple(part(name, one) for part, one in zip(parts, value, strict=True))

    return check


def _many(origin: Any, part: Check) -> Check:
    accepted, convert = _SEQUENCES[origin]

    def check(name: str, value: Any) -> Any:
        other = isinstance(value, str | bytes | Mapping) or sp.issparse(value)
        flat = not isinstance(value, np.ndarray) or value.ndim == 1
        if other or not flat or not isinstance(value, accepted):
            raise Mismatch(f"a {origin.__name__.lower()}")
        entries = convert(value)
        if part is anything:
            return entries
        try:
            converted = [part(name, one) for one in entries]
        except Mismatch as mismatch:
            raise Mismatch(f"a {origin.__name__.lower()}, each entry {mismatch}") from None
        if all(one is two for one, two in zip(entries, converted, strict=True)):
            return entries
        return origin(converted) if origin in (tuple, set, frozenset) else converted

    return check


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _same(value: Any) -> Any:
    return value


# what each kind of sequence takes, and what is handed on
_SEQUENCES: dict[Any, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
    tuple: ((tuple, list), tuple),
    list: ((list,), _same),
    set: ((set,), _same),
    frozenset: ((frozenset, set), frozenset),
    Iterable: ((abc.Iterable,), tuple),
    Sequence: ((abc.Sequence, np.ndarray), _listed),
}
