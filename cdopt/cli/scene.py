"""Which scene a command is about: a file, one that ships with cdopt, or a generator."""

from __future__ import annotations

import difflib
import inspect
from typing import Annotated, Any

import typer

from cdopt import bank, scene
from cdopt._util.errors import CdoptError, InvalidInput
from cdopt._util.parameters import merge, split
from cdopt.scene import GENERATORS, Scene

SceneName = Annotated[
    str,
    typer.Argument(
        metavar="SCENE",
        help="A scene file (.toml); a scene that ships with cdopt, such as beam, table or "
        "pyramid-5; or a generator of cdopt.scene with parameters, such as "
        "pyramid:n=8,power=2.5.",
    ),
]
_PLAIN = (bool, int, float, str)  # parameters that can be written as text


def load(text: str) -> Scene:
    """The scene that a word of the command line means.

    Raises
    ------
    InvalidInput : no such scene, an unknown parameter, or a bad file.
    """
    if text.endswith(".toml"):
        return scene.load(text)
    if text in shipped():
        return scene.load(bank.problems_folder() / f"{text}.toml")
    name, given = split(text)
    name = name.replace("-", "_")
    if name not in GENERATORS:
        known = [*shipped(), *(n for n in GENERATORS if n.replace("_", "-") not in shipped())]
        close = difflib.get_close_matches(name, known, n=1) or difflib.get_close_matches(
            text, known, n=1
        )
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InvalidInput("scene", repr(text), f"a .toml file, or one of {', '.join(known)}{hint}")
    generate: Any = GENERATORS[name]
    defaults = {
        key: parameter.default
        for key, parameter in inspect.signature(generate).parameters.items()
        if isinstance(parameter.default, _PLAIN)
    }
    made: Scene = generate(**merge(name, defaults, given, {}))
    return made


def known(text: str) -> bool:
    """Whether a scene that ships with cdopt, or a generator, has this name."""
    return text in shipped() or split(text)[0].replace("-", "_") in GENERATORS


def shipped() -> list[str]:
    """Names of the scenes that ship with cdopt."""
    try:
        return sorted(path.stem for path in bank.problems_folder().glob("*.toml"))
    except CdoptError:
        return []
