"""The backend of a run: a solver of cdopt, one called directly, or one that a plugin brings.

A plugin is a factory, a function without arguments that returns a mapping from names to makers;
a maker takes the accuracy asked for, or None for the defaults, and returns a Backend
(``cdopt.backends.base``). It is named ``package.module:factory`` or ``path/to/file.py:factory``
and called only in the process of a run, and once before the first in one like it; it is registered
nowhere else. That process does not import from the working folder: name a file there by its path.
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
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.backends import Backend, resolve
from cdopt.backends.modelled import Direct
from cdopt.study.plan import StudyRun

Maker = Callable[[float | None], Backend]


def makers(plugins: Iterable[str]) -> dict[str, Maker]:
    """The backends of these plugins by name; of equal names the last one counts.

    Raises
    ------
    InvalidInput : no such module or factory, or one that returns something else.
    """
    makers_by_name: dict[str, Maker] = {}
    for text in plugins:
        location, name = parts(text)
        factory: Any = getattr(_module(location), name, None)
        if not callable(factory):
            raise InvalidInput("plugins", f"no function {name!r} in {location}", "a factory")
        mapping = factory()
        if not isinstance(mapping, Mapping):
            raise InvalidInput("plugins", f"{text} gives {checks.describe(mapping)}", "a mapping")
        makers_by_name.update(mapping)
    return makers_by_name


def parts(plugin: str) -> tuple[str, str]:
    """The module or file of a plugin, and its function: "factory" where none is named."""
    location, colon, name = plugin.rpartition(":")
    return (location, name) if colon else (plugin, "factory")


def backend_of(run: StudyRun) -> Backend:
    """The backend of a run.

    Raises
    ------
    Unsupported : it cannot be called in this way, asked for this tolerance, or warm-started.
    InvalidInput, BackendUnavailable : an unknown name, or one that is not installed.
    """
    plugin_makers = makers(run.plugins)
    if run.call == "direct":
        backend: Backend = Direct(run.backend, run.tolerance)
    elif run.backend in plugin_makers:
        backend = plugin_makers[run.backend](run.tolerance)
    else:
        try:
            backend = resolve(run.backend, accuracy=run.tolerance)
        except InvalidInput as error:
            if error.argument != "accuracy":
                raise
            raise Unsupported(f"a tolerance of {run.backend}", str(error)) from error
    if run.mode != "cold" and not backend.capability.warm_start:
        reason = f"{run.backend} called this way gains nothing from a start"
        raise Unsupported(f"mode {run.mode!r}", reason, ("cold",))
    return backend


def _module(location: str) -> ModuleType:
    if not location.endswith(".py"):
        try:
            return importlib.import_module(location)
        except (ImportError, ValueError) as error:
            expected = "an installed module, or a file by its path, such as solver.py:factory"
            raise InvalidInput("plugins", str(error), expected) from error
    name = f"cdopt_plugin_{Path(location).stem}"
    spec = importlib.util.spec_from_file_location(name, location)
    if spec is None or spec.loader is None or not Path(location).exists():
        raise InvalidInput("plugins", f"{location}: no such file", "a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
