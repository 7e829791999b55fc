"""Arguments of the public functions, checked against their annotations.

Every room of the package ends with ``guard(globals())``. From then on what the room lists in
``__all__`` refuses an argument of another class with InvalidInput, before any of its own code
runs. Ranges and shapes are checked where they are used.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from cdopt._util import checks
from cdopt._util.annotations import Check, Mismatch, Names, anything, check_of
from cdopt._util.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")

_MADE_BY_DATACLASSES = "<string>"


def guard(room: dict[str, Any]) -> None:
    """Check from now on the arguments of what a room lists in ``__all__``.

    Functions are replaced in the room, methods and constructors in their classes, bases inside
    cdopt included. Of a module that the room lists, like ``cdopt.interop.fclib``, everything
    public is guarded.
    """
    for name in room.get("__all__") or _defined_in(room):
        thing = room[name]
        if inspect.ismodule(thing):
            if not hasattr(thing, "__path__"):  # a package guards itself
                guard(vars(thing))
        elif inspect.isfunction(thing) and _ours(thing):
            checked = _checked(thing)
            if checked is not thing and thing.__module__ != room["__name__"]:
                checked.__module__ = room["__name__"]  # where pickle finds it
            room[name] = checked
        elif inspect.isclass(thing):
            for base in thing.__mro__:
                if _ours(base) and not getattr(base, "_is_protocol", False):
                    _guard_class(base)


def _defined_in(room: dict[str, Any]) -> list[str]:
    return [
        name
        for name, thing in room.items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == room["__name__"]
    ]


def _ours(thing: Any) -> bool:
    return str(thing.__module__).split(".")[0] == __name__.split(".")[0]


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


def _checked(function: Callable[P, R], owner: type | None = None) -> Callable[P, R]:
    """The same function, its arguments checked.

    ``owner`` is the class of a method, whose first argument is self or the class.
    """
    if hasattr(function, "__guarded__"):
        return function
    plan: list[_Plan] = []  # made at the first call, when every annotation can be resolved

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not plan:
            plan.append(_Plan(function, owner))
        return function(*plan[0].positional(args), **plan[0].named(kwargs))

    call.__guarded__ = True  # type: ignore[attr-defined]
    return call


class _Plan:
    """The checks of one function's arguments, by position and by name."""

    def __init__(self, function: Callable[..., Any], owner: type | None) -> None:
        code = getattr(function, "__code__", None)
        made = code is not None and code.co_filename == _MADE_BY_DATACLASSES
        self.by_position: list[tuple[str, Check]] = []
        self.by_name: dict[str, Check] = {}
        self.rest: tuple[str, Check] = ("", anything)
        self.others: Check = anything
        for i, parameter in enumerate(inspect.signature(function).parameters.values()):
            module = (made and _declaring(owner, parameter.name)) or function.__module__
            space = Names(vars(sys.modules[module]))
            first = owner is not None and i == 0
            check = anything if first else check_of(space(parameter.annotation), made)
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = (parameter.name, check)
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.others = check
            else:
                self.by_name[parameter.name] = check
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.by_position.append((parameter.name, check))

    def positional(self, args: tuple[Any, ...]) -> list[Any]:
        given = [_pass(*pair, value) for pair, value in zip(self.by_position, args, strict=False)]
        if len(args) > len(given):
            given += [_pass(*self.rest, value) for value in args[len(given) :]]
        return given

    def named(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        others = self.others
        return {
            name: _pass(name, self.by_name.get(name, others), value)
            for name, value in kwargs.items()
        }


def _declaring(owner: type | None, field: str) -> str | None:
    """The module of the class that declares a field: of a dataclass, or one of its bases."""
    for base in () if owner is None else owner.__mro__:
        if field in vars(base).get("__annotations__", {}):
            return base.__module__
    return None


def _pass(name: str, check: Check, value: Any) -> Any:
    try:
        return check(name, value)
    except Mismatch as mismatch:
        raise InvalidInput(name, checks.describe(value), str(mismatch)) from None
