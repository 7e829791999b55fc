"""Scenes named in words: a file, a scene that ships with cdopt, or a generator."""

from __future__ import annotations

import inspect
from typing import Any

from cdopt._util.errors import CdoptError, InvalidInput
from cdopt._util.files import problems_folder
from cdopt._util.parameters import merge, one_of_these, split
from cdopt.scene.files import load
from cdopt.scene.generators import GENERATORS
from cdopt.scene.scene import Scene

_WRITABLE = (bool, int, float, str)  # types of parameters that a text can give


def open_scene(text: str) -> Scene:
    """The scene that a text names.

    Parameters
    ----------
    text : a scene file (.toml); the name of a scene that ships with cdopt, ``beam``; or a
        generator of ``cdopt.scene`` with parameters, ``pyramid:n=8,power=2.5``.

    Raises
    ------
    InvalidInput : no such scene, an unknown parameter, or a bad file.

    >>> import cdopt
    >>> cdopt.scene.open_scene("pyramid:n=3")
    Scene('pyramid-3': 14 bodies in 3D, 5 free, power 2)
    """
    if text.endswith(".toml"):
        return load(text)
    shipped = shipped_scenes()
    if text in shipped:
        return load(problems_folder() / f"{text}.toml")
    name, given = split(text)
    name = name.replace("-", "_")
    if name not in GENERATORS:
        known = [*shipped, *(n for n in GENERATORS if n.replace("_", "-") not in shipped)]
        raise InvalidInput("scene", repr(text), f"a .toml file, or {one_of_these(name, known)}")
    generate: Any = GENERATORS[name]
    defaults = {
        key: parameter.default
        for key, parameter in inspect.signature(generate).parameters.items()
        if isinstance(parameter.default, _WRITABLE)
    }
    scene: Scene = generate(**merge(name, defaults, given, {}))
    return scene


def names_scene(text: str) -> bool:
    """Whether a text is a scene file, a scene that ships with cdopt or a generator."""
    if text.endswith(".toml") or text in shipped_scenes():
        return True
    return text.partition(":")[0].strip().replace("-", "_") in GENERATORS


def shipped_scenes() -> list[str]:
    """Names of the scenes that ship with cdopt."""
    try:
        return sorted(path.stem for path in problems_folder().glob("*.toml"))
    except CdoptError:
        return []
