"""Docstrings of public names: meaning, parameters, shapes of arrays, what is raised."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cdopt
from cdopt.backends import Backend
from cdopt.dynamics import Interrupted, Method, StepFailed, Stepper
from cdopt.formulations import Formulation
from cdopt.scene import Shape

GUIDE = Path(__file__).parents[1] / "docs"
# a shape, (nc,) or (nv, nv); a number of numbers in words; or whose shape it has
WORDS = r"\bshape\b|as in ``|the same|likewise|one number|permutation"
SHAPE = re.compile(r"\([\w −+]{1,12},[^()]{0,12}\)|" + WORDS)
ARRAYS = ("FloatArray", "IntArray", "BoolArray", "NDArray", "csr_array", "ArrayLike")
COMMON = {  # what these words mean everywhere; docs/api/index.md tells it once
    "scene": "a Scene", "state": "a State", "path": "a file", "dim": "2 or 3",
    "title": "above a picture", "subtitle": "below the title",
}  # fmt: skip
BARE = (Exception.__init__, KeyboardInterrupt.__init__, object.__init__)
OBVIOUS = ("self", "cls")
PROTOCOLS = (Backend, Method, Stepper, Formulation, Shape)


@dataclass(frozen=True)
class Public:
    """A public class, function, method or property, under the name that its users write."""

    name: str
    thing: Any
    holder: type | None = None

    @property
    def doc(self) -> str:
        own = self.thing.fget if isinstance(self.thing, property) else self.thing
        return inspect.cleandoc(getattr(own, "__doc__", None) or "")

    @functools.cached_property
    def parameters(self) -> dict[str, str]:
        """Names and annotations of what is handed in."""
        if isinstance(self.thing, property | functools.cached_property):
            return {}
        if getattr(self.thing, "_is_protocol", False):
            return {}  # nobody makes one
        if isinstance(self.thing, type) and self.thing.__init__ in BARE:
            return {}  # an exception that takes what all take
        found = inspect.signature(self.thing).parameters.values()
        return {p.name: str(p.annotation) for p in found
                if p.name not in (*OBVIOUS, *COMMON) and not p.name.startswith("_")}  # fmt: skip

    @functools.cached_property
    def raised(self) -> set[str]:
        """Exceptions of cdopt that its own body raises."""
        makers = ("__init__", "__post_init__")
        thing = self.thing
        own = [vars(thing).get(m) for m in makers] if isinstance(thing, type) else [thing]
        return {name for function in own for name in raises(function)}


def raises(thing: Any) -> set[str]:
    """Exceptions of cdopt that the body of a function raises."""
    thing = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
    thing = inspect.unwrap(thing)
    if not inspect.isfunction(thing) or thing.__code__.co_filename.startswith("<"):
        return set()  # what a dataclass makes for itself
    return {
        node.exc.func.id
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(thing))))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name) and node.exc.func.id in ERRORS
    }  # fmt: skip


def errors() -> set[str]:
    found = {name for name, thing in vars(cdopt._util.errors).items() if isinstance(thing, type)}
    return found | {Interrupted.__name__, StepFailed.__name__}


ERRORS = errors()


def rooms() -> list[ModuleType]:
    """Modules that list their public names."""
    names = ["cdopt", *(m.name for m in pkgutil.walk_packages(cdopt.__path__, "cdopt."))]
    found = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return [module for module in found if hasattr(module, "__all__")]


def public() -> dict[str, Public]:
    """Everything public, once each."""
    found: dict[int, Public] = {}
    for room in rooms():
        for name in room.__all__:
            thing = getattr(room, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            if not thing.__module__.startswith("cdopt"):
                continue
            found.setdefault(id(thing), Public(f"{room.__name__}.{name}", thing))
            if inspect.isclass(thing):
                for member, inner in vars(thing).items():
                    if member.startswith("_"):
                        continue
                    inner = getattr(inner, "__func__", inner)
                    if inspect.isfunction(inner) or isinstance(
                        inner, property | functools.cached_property
                    ):
                        full = f"{room.__name__}.{name}.{member}"
                        found.setdefault(id(inner), Public(full, inner, thing))
    return {one.name: one for one in found.values()}


PUBLIC = public()


def of_class(thing: type) -> str:
    """What a class and its bases in cdopt say."""
    bases = [base for base in thing.__mro__ if base.__module__.startswith("cdopt")]
    return "\n".join(inspect.cleandoc(base.__doc__ or "") for base in bases)


def said(one: Public) -> str:
    """Its docstring; of a method, with those of what it implements, and of its class.

    A class explains once the words that its methods share.
    """
    if one.holder is None:
        return of_class(one.thing) if isinstance(one.thing, type) else one.doc
    member = one.name.rpartition(".")[2]
    bases = (*one.holder.__mro__[1:], *PROTOCOLS)
    texts = [getattr(vars(base).get(member), "__doc__", None) or "" for base in bases]
    return "\n".join([one.doc, *map(inspect.cleandoc, texts), of_class(one.holder)])


def mentioned(name: str, doc: str) -> str:
    """What a docstring says from the first mention of a name to the next entry."""
    bare = re.escape(name.rstrip("_"))
    names = rf"(?:[\w*]+, )*\*{{0,2}}{bare}(?:, [\w*]+)*"
    entry = re.search(rf"(?m)^{names} : (?:.*\n?)(?:    .*\n?)*", doc)
    if entry:
        return entry[0]
    found = re.search(rf"\b{bare}\b", doc, re.IGNORECASE if len(name) > 1 else 0)
    return doc if found else ""


def test_it_finds_them() -> None:
    assert len(PUBLIC) > 300
    assert "cdopt.problem.Step.replace" in PUBLIC
    assert PUBLIC["cdopt.problem.Step.replace"].raised == {"InvalidInput"}


@pytest.mark.skipif(not GUIDE.is_dir(), reason="the guide is not in this checkout")
def test_the_guide_tells_what_common_words_mean() -> None:
    page = (GUIDE / "api" / "index.md").read_text(encoding="utf-8")
    assert [word for word in COMMON if f"`{word}`" not in page] == []


def modules() -> list[ModuleType]:
    names = [m.name for m in pkgutil.walk_packages(cdopt.__path__, "cdopt.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def test_everything_has_a_docstring() -> None:
    """A method may inherit that of the one it overrides."""

    def documented(thing: type, member: str) -> bool:
        bases = (*thing.__mro__, *PROTOCOLS)
        return any(getattr(vars(base).get(member), "__doc__", "") for base in bases)

    missing = [name for name, one in PUBLIC.items() if not one.holder and not one.doc]
    for module in modules():
        for thing in filter(inspect.isclass, vars(module).values()):
            if thing.__module__ == module.__name__ and not thing.__name__.startswith("_"):
                missing += [
                    f"{thing.__qualname__}.{member}"
                    for member, inner in vars(thing).items()
                    if not member.startswith("_")
                    and (is_method(inner) or isinstance(inner, property | staticmethod))
                    and not documented(thing, member)
                ]
    assert missing == []


def is_method(thing: Any) -> bool:
    """Whether it is a function that was defined by a name, or what wraps one."""
    inner = getattr(thing, "func", None) or getattr(thing, "__func__", thing)
    return inspect.isfunction(inner) and inner.__name__ != "<lambda>"


def test_every_parameter_is_mentioned() -> None:
    missing = [
        f"{name}: {parameter}"
        for name, one in PUBLIC.items()
        for parameter in one.parameters
        if not mentioned(parameter, said(one))
    ]
    assert missing == []


def test_the_shapes_of_arrays_are_stated() -> None:
    missing = [
        f"{name}: {parameter}"
        for name, one in PUBLIC.items()
        for parameter, annotation in one.parameters.items()
        if any(array in annotation for array in ARRAYS)
        and not SHAPE.search(mentioned(parameter, said(one)))
    ]
    assert missing == []


def test_what_is_raised_is_named() -> None:
    missing = [
        f"{name}: {error}"
        for name, one in PUBLIC.items()
        for error in one.raised
        if error not in one.doc.partition("Raises\n------")[2]
    ]
    assert missing == []
