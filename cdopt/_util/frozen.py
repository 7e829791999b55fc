"""Frozen records of arrays: what is stored is read-only, in copies and pickles too."""

from __future__ import annotations

import copyreg
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.arrays import FrozenMatrix, freeze, read_only


def _proxy(content: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(content)


def _proxy_parts(proxy: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _proxy, (dict(proxy),)


copyreg.pickle(MappingProxyType, _proxy_parts)  # read-only dictionaries, which Python leaves out


class Frozen:
    """Base of frozen dataclasses whose arrays and sparse matrices nobody writes to.

    An array that somebody else can write to is copied.
    """

    def __post_init__(self) -> None:
        self.__setstate__({name: _own(value) for name, value in self.__dict__.items()})

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in list(state.items()):
            self.__dict__[name] = _sealed(value)


def _own(value: Any) -> Any:
    """The value, or a read-only copy of it if somebody else can write to it."""
    if isinstance(value, np.ndarray) and value.flags.writeable:
        return read_only(value.copy())
    if isinstance(value, sp.csr_array) and not isinstance(value, FrozenMatrix):
        return freeze(value.copy())
    if isinstance(value, dict | MappingProxyType):
        return type(value)({name: _own(entry) for name, entry in value.items()})
    return value


def _sealed(value: Any) -> Any:
    """The value itself, no longer writable."""
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, sp.csr_array):
        return freeze(value)
    if isinstance(value, dict | MappingProxyType):
        return type(value)({name: _sealed(entry) for name, entry in value.items()})
    return value
