"""Parameters of generators: their text form ``name:key=value,key=value``, types and limits."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from cdopt._util import checks
from cdopt._util.errors import InvalidInput

P = ParamSpec("P")
Result = TypeVar("Result")
Value = bool | int | float | str
Limit = Callable[[str, Any], Any]  # takes a parameter's name and value, and returns the value

_FLAGS = ("true", "false")
_EXPECTED = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def limits(**stated: Limit) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Decorator: arguments pass these checks first, and unknown keywords are refused."""

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def limited(*args: P.args, **kwargs: P.kwargs) -> Result:
            for name in kwargs:
                if name not in signature.parameters:
                    expected = one_of_these(name, signature.parameters)
                    raise InvalidInput(name, "no such argument", expected)
            if not stated:
                return function(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            for name in stated.keys() & given.arguments.keys():
                given.arguments[name] = stated[name](name, given.arguments[name])
            return function(*given.args, **given.kwargs)

        return limited

    return decorate


def well_spelt(cls: type[Result]) -> type[Result]:
    """Class decorator: a misspelt argument is refused, and the one that it is most like named."""
    cls.__init__ = limits()(cls.__init__)  # type: ignore[method-assign]
    return cls


def split(text: object) -> tuple[str, dict[str, str]]:
    """Name and parameters, still as text, of ``name`` or ``name:key=value,key=value``."""
    expected = "a name, or name:key=value,key=value"
    name, colon, rest = checks.text("name", text).partition(":")
    values: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value:
            raise InvalidInput("name", repr(text), expected)
        if key in values:
            raise InvalidInput(key, f"two values in {text!r}", "one value")
        values[key] = value
    return name.strip(), values


def merge(
    problem: str,
    defaults: Mapping[str, Value],
    text: Mapping[str, str],
    keywords: Mapping[str, object],
) -> dict[str, Value]:
    """The parameters of a problem in the order of its manifest: defaults, changed by the others."""
    for key in (*text, *keywords):
        if key not in defaults:
            expected = one_of_these(key, defaults) if defaults else "no parameters at all"
            raise InvalidInput(key, f"no parameter of {problem!r}", expected)
        if key in text and key in keywords:
            raise InvalidInput(key, "a value in the name and a keyword", "one value")
    merged = dict(defaults)
    for key, value in {**text, **keywords}.items():
        merged[key] = _typed(key, value, defaults[key], is_text=key in text)
    return merged


def one_of_these(text: object, known: Iterable[str], shown: Iterable[str] | None = None) -> str:
    """The known names, or those ``shown``, for a message; the one most like the text first."""
    names = list(known)
    close = difflib.get_close_matches(text, names, n=1) if isinstance(text, str) else []
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"one of these{hint}: {', '.join(names if shown is None else shown)}"


def canonical(problem: str, defaults: Mapping[str, Value], merged: Mapping[str, Value]) -> str:
    """The problem's name with the parameters that differ from their defaults, in text form."""
    changed = [f"{key}={_text(merged[key])}" for key in defaults if merged[key] != defaults[key]]
    return f"{problem}:{','.join(changed)}" if changed else problem


def _typed(key: str, value: object, default: Value, *, is_text: bool) -> Value:
    """The value in the type of the default; integers serve as numbers, nothing else mixes."""
    kind = type(default)
    if is_text and kind is not str:
        value = _parsed(key, str(value), kind)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InvalidInput(key, checks.describe(value), _EXPECTED[kind])
    return value


def _parsed(key: str, text: str, kind: type) -> object:
    if kind is bool:
        return checks.choice(key, text, _FLAGS) == "true"
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidInput(key, repr(text), _EXPECTED[kind]) from error


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
