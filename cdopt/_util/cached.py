"""A property that is computed once: ``functools.cached_property`` without the lock of Python 3.11.

All instances of a class share that lock: taking it costs more than many small properties do, and
in a forked child it would stay locked. Two threads may both compute the value, as in later versions
of Python.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, TypeVar

Record = TypeVar("Record")

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """Computed by ``func`` at the first use; then an attribute of the instance."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """The property of the class, or its value."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


def changed(record: Record, **values: Any) -> Record:
    """A copy of a frozen dataclass with other values, which nothing checks.

    As by ``dataclasses.replace``, without the constructor, and with what ``values`` has beyond
    fields.
    """
    kind: Any = type(record)
    known, fields = record.__dict__, _fields_of(kind)
    other: Record = object.__new__(kind)
    if not known.keys() <= fields:
        known = {name: value for name, value in known.items() if name in fields}
    other.__dict__.update(known, **values)
    return other


def twin(record: Record) -> Record:
    """A copy of an object with the same attributes; ``copy.copy`` takes ten times as long."""
    other: Record = object.__new__(type(record))
    other.__dict__.update(record.__dict__)
    return other


@functools.cache
def _fields_of(kind: Any) -> frozenset[str]:
    return frozenset(part.name for part in dataclasses.fields(kind))
