"""Backends that cdopt does not know, for one run: solvers of your own, and those that misbehave.

A plugin is a factory, a function without arguments that returns a mapping from names to makers;
a maker takes the accuracy asked for, or None for the defaults, and returns a Backend
(``cdopt.backends.base``). It is written ``package.module:factory`` or ``path/to/file.py:factory``
and called in the process of the run alone: nothing is registered anywhere else. That process does
not import from the working folder: a file there is named by its path.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.backends import Backend

Maker = Callable[[float | None], Backend]


def makers(plugins: Iterable[str]) -> dict[str, Maker]:
    """The backends of these plugins by name; of equal names the last one wins.

    Raises
    ------
    InvalidInput : no such module or factory, or one that returns something else.
    """
    found: dict[str, Maker] = {}
    for text in plugins:
        place, colon, name = text.rpartition(":")
        if not colon or not place or not name:
            raise InvalidInput("plugins", checks.describe(text), "module:factory")
        factory: Any = getattr(_module(place), name, None)
        if not callable(factory):
            raise InvalidInput("plugins", f"no function {name!r} in {place}", "a factory")
        made = factory()
        if not isinstance(made, Mapping):
            raise InvalidInput("plugins", f"{text} gives {checks.describe(made)}", "a mapping")
        found.update(made)
    return found


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ImportError as error:
            expected = "an installed module, or a file by its path, such as solver.py:factory"
            raise InvalidInput("plugins", str(error), expected) from error
    name = f"cdopt_plugin_{Path(place).stem}"
    described = importlib.util.spec_from_file_location(name, place)
    if described is None or described.loader is None or not Path(place).exists():
        raise InvalidInput("plugins", f"{place}: no such file", "a Python file")
    module = importlib.util.module_from_spec(described)
    sys.modules[name] = module
    described.loader.exec_module(module)
    return module
