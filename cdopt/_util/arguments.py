"""Arguments of public functions, checked against their annotations.

Every room of the package ends with ``guard(globals())``. From then on the functions and classes
in its ``__all__`` raise InvalidInput for an argument of another type, before their own code runs.
Ranges, shapes and finite entries are checked there, by ``cdopt._util.checks``.

``float`` takes any real number, ``int`` any integer of 64 bits, an array annotation whatever
numpy turns into a real array (no masked entries, no complex numbers), ``tuple`` a list as well,
``Sequence`` a one-dimensional array as well, a protocol whatever has its members, and
``Annotated[X, check]`` what X takes and ``check(name, value)`` accepts. ``Any`` and ``object``
take everything. Numbers and arrays are passed on in the annotated type, also inside containers;
type checkers such as beartype only accept or refuse.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import one_of_these

Instance = TypeVar("Instance")
Converter = Callable[[Any], Any]  # gives the value in the annotated type, or raises Mismatch

_INT64_END = 2**63
_LONGEST_PATH = 4000  # characters


class Mismatch(Exception):
    """A value that an annotation does not take; the message says what it takes."""


# --- which functions are checked -----------------------------------------------------------


def guard(room: dict[str, Any]) -> None:
    """Check the arguments of everything that a room lists in ``__all__``.

    Functions are replaced in the room, methods and constructors in their classes and in bases
    that belong to cdopt or to the room's package. Of a listed module, such as
    ``cdopt.interop.fclib``, everything public is guarded.
    """
    packages = {_package(__name__), _package(room["__name__"])}
    for name in room.get("__all__") or _defined_in(room):
        member = room[name]
        if inspect.ismodule(member):
            if not hasattr(member, "__path__"):  # a package guards itself
                guard(vars(member))
        elif inspect.isfunction(member) and _package(member.__module__) in packages:
            if not hasattr(member, "__guarded__"):
                room[name] = _checked(member)
                room[name].__module__ = room["__name__"]  # where pickle finds it
        elif inspect.isclass(member):
            for base in member.__mro__:
                if _package(base.__module__) in packages and not _is_protocol(base):
                    _guard_class(base)


def trusted(cls: type[Instance], *args: Any, **kwargs: Any) -> Instance:
    """An instance from arguments of cdopt's own, which are not checked again."""
    instance = object.__new__(cls)
    init: Any = cls.__init__
    getattr(init, "__wrapped__", init)(instance, *args, **kwargs)
    return instance


def _defined_in(module: dict[str, Any]) -> list[str]:
    return [
        name
        for name, member in module.items()
        if not name.startswith("_") and getattr(member, "__module__", None) == module["__name__"]
    ]


def _package(module: str) -> str:
    return module.partition(".")[0]


def _guard_class(cls: type) -> None:
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__init__", "__getitem__", "__call__"):
            continue
        if isinstance(member, staticmethod):
            setattr(cls, name, staticmethod(_checked(member.__func__)))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(_checked(member.__func__, cls)))
        elif inspect.isfunction(member):
            setattr(cls, name, _checked(member, cls))


def _checked(function: Callable[..., Any], owner: type | None = None) -> Callable[..., Any]:
    """The same function with checked arguments; ``owner`` is the class of a method."""
    if hasattr(function, "__guarded__"):
        return function

    # at the first call, when the names in all annotations are known
    parameters = functools.cache(partial(_parameters, function, owner))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        ordered, rest, by_name, others = parameters()
        places = zip(args, chain(ordered, repeat(rest)), strict=False)
        args = tuple([_convert(name, convert, value) for value, (name, convert) in places])
        for name, value in kwargs.items():
            convert = by_name.get(name, others)
            if convert is None:
                names = [known for known in by_name if known not in ("self", "cls")]
                raise InvalidInput(name, "no such argument", one_of_these(name, names))
            kwargs[name] = _convert(name, convert, value)
        return function(*args, **kwargs)

    call.__guarded__ = True  # type: ignore[attr-defined]
    return call


def _convert(name: str, convert: Converter, value: Any) -> Any:
    try:
        return convert(value)
    except Mismatch as mismatch:
        raise InvalidInput(name, checks.describe(value), str(mismatch)) from None


def _parameters(function: Callable[..., Any], owner: type | None) -> Any:
    """Names and converters of arguments with a place, and of further ones; converters by name.

    At last that of other keywords, None if the function takes none.
    """
    code = getattr(function, "__code__", None)
    nan = code is not None and code.co_filename == "<string>"  # a dataclass may store not-a-number
    names = _Names.of(function, owner)
    rest: tuple[str, Converter] = ("", _anything)
    others: Converter | None = None
    ordered, by_name = [], {}
    for i, parameter in enumerate(inspect.signature(function).parameters.values()):
        convert: Converter = _anything
        if owner is None or i > 0:  # the first argument of a method is self or the class
            convert = _converter(parameter.name, names.evaluate(parameter.annotation), nan)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = (parameter.name, convert)
        elif parameter.kind is parameter.VAR_KEYWORD:
            others = convert
        else:
            by_name[parameter.name] = convert
            if parameter.kind is not parameter.KEYWORD_ONLY:
                ordered.append((parameter.name, convert))
    return ordered, rest, by_name, others


class _Names(ChainMap[str, Any]):
    """The names that annotations may use, those imported for type checkers only included."""

    @classmethod
    def of(cls, function: Any, owner: type | None) -> _Names:
        """Of a function and of its class's bases, from which dataclasses inherit fields."""
        modules = [function.__module__, *(c.__module__ for c in (owner.__mro__ if owner else ()))]
        return cls(*(vars(sys.modules[name]) for name in (*modules, "builtins")))

    def evaluate(self, annotation: Any) -> Any:
        """The annotation that a text says; Any where a name is unknown."""
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, {}, self)
        except (NameError, AttributeError, TypeError):
            return Any

    def __missing__(self, name: str) -> Any:
        """The only class of this name in cdopt."""
        modules = [vars(m) for key, m in list(sys.modules.items()) if key.startswith("cdopt.")]
        classes = {m[name] for m in modules if isinstance(m.get(name), type)}
        if len(classes) != 1:
            raise KeyError(name)
        return classes.pop()


# --- one converter for each kind of annotation -----------------------------------------------


def _anything(value: Any) -> Any:
    return value


def _converter(name: str, annotation: Any, nan: bool) -> Converter:
    """The converter of the argument ``name``; a float may be not-a-number if ``nan``."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if hasattr(origin, "__value__"):  # a generic alias of Python 3.12, such as numpy's NDArray
        annotation = origin.__value__[inner]
        origin, inner = typing.get_origin(annotation), typing.get_args(annotation)

    def of(part: Any) -> Converter:
        return _converter(name, part, nan)

    if origin in (typing.Union, types.UnionType):
        return partial(
            _any_of, [_file_name if p is str and Path in inner else of(p) for p in inner]
        )
    if origin is typing.Annotated:
        return partial(_annotated, of(inner[0]), partial(inner[1], name))
    if origin is typing.Literal:
        return partial(_one_of, inner)
    if origin is np.ndarray:
        return partial(_array, *(typing.get_args(inner[1]) or (Any,)))
    if origin is tuple and inner[-1] is not Ellipsis:
        return partial(_fixed, [of(part) for part in inner])
    if origin in _SEQUENCES:
        return partial(_many, origin, of(inner[0]))
    if origin is not None and issubclass(origin, Mapping):
        return partial(_mapping, *map(of, inner))
    cls = origin or annotation
    if cls in _SIMPLE:
        return _SIMPLE[cls]
    if not isinstance(cls, type):  # a type variable, or no annotation
        return _anything
    if cls is float:
        return partial(_number, nan)
    if _is_protocol(cls):
        return partial(_with_members, cls, _members(cls))
    return partial(_instance, cls)


def _number(nan: bool, value: Any) -> Any:
    if not isinstance(value, float):
        value = _plain(value, int | np.integer | np.floating, "one number")
        try:
            value = float(value)
        except OverflowError:
            raise Mismatch("a number within the range of a double") from None
    if value != value and not nan:
        raise Mismatch("one number")
    return value


def _integer(value: Any) -> int:
    value = _plain(value, int | np.integer, "an integer")
    if not -_INT64_END <= value < _INT64_END:
        raise Mismatch("an integer of 64 bits")
    return int(value)


def _plain(value: Any, kinds: Any, expected: str) -> Any:
    """The number in an array without dimensions; other numbers as they are."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and not np.ma.isMaskedArray(value):
        value = value[()]
    if isinstance(value, bool | np.bool_ | np.timedelta64) or not isinstance(value, kinds):
        raise Mismatch(expected)
    return value


def _of_type(kinds: Any, expected: str, convert: Converter, value: Any) -> Any:
    if not isinstance(value, kinds):
        raise Mismatch(expected)
    return convert(value)


def _path(value: Any) -> Path:
    if not isinstance(value, Path):
        raise Mismatch("a path")
    _file_name(str(value))
    return value


def _file_name(value: Any) -> str:
    if not isinstance(value, str):
        raise Mismatch("a text")
    longest = max(map(len, Path(value).parts), default=0) if len(value) < _LONGEST_PATH else None
    if "\0" in value or longest is None or longest > 255:
        raise Mismatch("a path that a file can have")
    return value


def _sparse(value: Any) -> sp.csr_array:
    try:
        return checks.matrix("", value, None, None)
    except InvalidInput as error:
        raise Mismatch(error.expected) from None


def _callable(value: Any) -> Any:
    if not callable(value):
        raise Mismatch("a function")
    return value


_none = partial(_of_type, types.NoneType, "None", _anything)
_SIMPLE: dict[Any, Converter] = {
    Any: _anything,
    object: _anything,
    types.NoneType: _none,
    int: _integer,
    bool: partial(_of_type, bool | np.bool_, "True or False", bool),
    Path: _path,
    sp.csr_array: _sparse,
    Callable: _callable,
}


def _instance(cls: type, value: Any) -> Any:
    if not isinstance(value, cls):
        article = "an" if cls.__name__[0] in "AEIOU" else "a"
        expected = "a text" if cls is str else f"{article} {cls.__name__}"
        expected = getattr(cls, "expected", expected)
        if isinstance(getattr(value, "step", None), cls):
            expected += " (its .step is one)"
        elif isinstance(value, str) and hasattr(cls, "by_name"):
            expected += f" (by name: {cls.by_name})"
        raise Mismatch(expected)
    return value


def _is_protocol(cls: Any) -> bool:
    return getattr(cls, "_is_protocol", False)


def _members(protocol: Any) -> list[str]:
    bases = [base for base in protocol.__mro__ if _is_protocol(base)]
    names = {m for b in bases for m in (*vars(b), *vars(b).get("__annotations__", {}))}
    return [m for m in names if not m.startswith("_")]


def _with_members(protocol: type, members: list[str], value: Any) -> Any:
    # vars, because hasattr would compute the object's properties
    cls, fields = type(value), getattr(value, "__dict__", {})
    if cls is type or not all(hasattr(cls, m) or m in fields for m in members):
        raise Mismatch(f"a {protocol.__name__}")
    return value


def _annotated(convert: Converter, check: Converter, value: Any) -> Any:
    try:
        converted = convert(value)
    except Mismatch:
        check(value)  # its message is the better one
        raise
    return check(converted)


def _one_of(options: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, str | int) or value not in options:
        raise Mismatch("one of " + ", ".join(map(repr, options)))
    return value


def _any_of(options: list[Converter], value: Any) -> Any:
    if value is None and _none in options:
        return None
    expected = []
    for option in options:
        try:
            return option(value)
        except Mismatch as mismatch:
            expected.append(str(mismatch))
    raise Mismatch(" or ".join(text for text in dict.fromkeys(expected) if text != "None"))


# --- arrays and containers -------------------------------------------------------------------


def _array(scalar: Any, value: Any) -> Any:
    """An array of numbers, integers or flags; ``scalar`` Any takes all three and texts."""
    if type(value) is np.ndarray and (scalar is Any or value.dtype == scalar):
        return value
    if not isinstance(value, np.ndarray | list | tuple | int | float | np.generic):
        raise Mismatch("an array")
    try:
        array = checks.unmasked(value)
    except (TypeError, ValueError, OverflowError):
        raise Mismatch("an array without masked entries") from None
    if array.dtype.kind not in "biufU":
        raise Mismatch("an array of real numbers")
    if scalar is Any:
        return array
    kind = np.dtype(scalar).kind
    if array.size and array.dtype.kind not in _WITHOUT_LOSS[kind]:
        raise Mismatch(f"an array of {_ENTRIES[kind]}")
    if array.dtype.kind == "u" and kind == "i" and array.max(initial=0) >= _INT64_END:
        raise Mismatch("integers of 64 bits")
    return array.astype(scalar, copy=False)


_ENTRIES = {"f": "numbers", "i": "integers", "b": "flags"}
_WITHOUT_LOSS = {"f": "iuf", "i": "iu", "b": "b"}  # kinds of arrays that are converted


def _mapping(key: Converter, value: Converter, mapping: Any) -> Any:
    if not isinstance(mapping, Mapping):
        raise Mismatch("a dictionary")
    entries = {key(k): value(v) for k, v in mapping.items()}
    if all(entries.get(k) is v for k, v in mapping.items()):
        return mapping
    return types.MappingProxyType(entries) if type(mapping) is types.MappingProxyType else entries


def _fixed(parts: list[Converter], value: Any) -> Any:
    if not isinstance(value, tuple | list) or len(value) != len(parts):
        raise Mismatch(f"{len(parts)} entries")
    return tuple(part(entry) for part, entry in zip(parts, value, strict=True))


_SEQUENCES: dict[Any, tuple[type, ...]] = {  # what each kind takes
    tuple: (tuple, list),
    list: (list,),
    frozenset: (frozenset, set),
    Iterable: (Iterable,),
    Sequence: (Sequence, np.ndarray),
}


def _many(origin: Any, part: Converter, value: Any) -> Any:
    expected = f"a {origin.__name__.lower()}"
    no_list = isinstance(value, str | bytes | Mapping) or sp.issparse(value)
    if no_list or not isinstance(value, _SEQUENCES[origin]) or getattr(value, "ndim", 1) != 1:
        raise Mismatch(expected)
    if isinstance(value, Iterator):
        value = tuple(value)  # it can be read only once
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    if part is not _anything:
        try:
            converted = [part(entry) for entry in value]
        except Mismatch as mismatch:
            raise Mismatch(f"{expected}, each entry {mismatch}") from None
        if not all(map(operator.is_, value, converted)):
            value = converted
    return value if isinstance(value, origin) else origin(value)
