"""Generators: scenes from a few numbers, one function each."""

from __future__ import annotations

from collections.abc import Callable

from cdopt.scene.generators import frictional, masonry, packings, paper, primitives
from cdopt.scene.scene import Scene

# all functions of these modules that return a Scene, by name
GENERATORS: dict[str, Callable[..., Scene]] = dict(
    sorted(
        (name, member)
        for module in (frictional, masonry, packings, paper, primitives)
        for name, member in vars(module).items()
        if getattr(member, "__module__", "") == module.__name__
        and getattr(member, "__annotations__", {}).get("return") == "Scene"
    )
)
