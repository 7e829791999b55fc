"""Generators: scenes from a few numbers, one function each, and what they share.

A generator is a function that returns bodies; ``@generator`` makes the scene of them. Every
generator raises InvalidInput for a parameter of another type or out of its range.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ParamSpec

import numpy as np

from cdopt._util import checks, parameters
from cdopt._util.checks import FloatArray
from cdopt._util.parameters import Limit
from cdopt.scene.bodies import Body, Item
from cdopt.scene.material import Material
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import HalfSpace

GENERATORS: dict[str, Callable[..., Scene]] = {}  # by name
Made = Sequence[Item] | tuple[Sequence[Item], dict[str, Any]]  # bodies, other options of Scene
P = ParamSpec("P")

_SIDES = (("left", "right"), ("front", "back"), ("bottom", "top"))
# parameters of generators that are options of Scene, and their names there
_PASSED = {name: name for name in ("dim", "power", "restitution", "materials")} | {"mu": "friction"}
_CHECKS: tuple[tuple[Limit, str], ...] = (  # of parameters, unless a generator has others
    (checks.positive, "radius mass density stiffness_ratio thickness depth base top height young"),
    (checks.positive, "diameter modulus_ratio opening middle_stiffness weight leg_width"),
    (checks.positive, "support_radius"),
    (checks.not_negative, "mu separation head_joint load drop climber"),
    (checks.scalar, "shift offset gap speed floor_speed floor_friction wall_friction"),
    (checks.flag, "walls fixed keystone gate"),
    (checks.integer(1, 1000), "n courses bricks voussoirs rows"),
    (checks.integer(1, 10_000), "across"),
    (checks.number(at_least=0.0, at_most=0.95), "spread"),
    (checks.dimension, "dim"),
    (checks.power, "power"),
    (checks.share, "restitution"),
    (checks.seed, "seed"),
    (lambda name, value: checks.instances(name, value, Material), "materials"),
)
_LIMITS = {name: check for check, names in _CHECKS for name in names.split()}


def generator(
    title: str, limits: Mapping[str, Limit] = MappingProxyType({}), **always: Any
) -> Callable[[Callable[P, Made]], Callable[P, Scene]]:
    """The scene of the bodies that a function returns, named after it and listed in GENERATORS.

    ``limits`` check its parameters; ``dim``, ``power``, ``restitution``, ``materials`` and ``mu``
    are options of the scene, and so are those of ``always`` and those returned with the bodies.
    """

    def decorate(function: Callable[P, Made]) -> Callable[P, Scene]:
        signature = inspect.signature(function)
        known = {name: limit for name, limit in _LIMITS.items() if name in signature.parameters}
        usual = {"name": function.__name__.replace("_", "-"), "title": title, **always}

        @parameters.limits(**{**known, **limits})
        @functools.wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> Scene:
            made = function(*args, **kwargs)
            bodies, more = made if isinstance(made, tuple) else (made, {})
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            stated = {_PASSED[k]: v for k, v in given.arguments.items() if k in _PASSED}
            return Scene(bodies, **{**usual, **stated, **more})

        make.__signature__ = signature.replace(return_annotation="Scene")  # type: ignore[attr-defined]
        GENERATORS[function.__name__] = make
        return make

    return decorate


def up(dim: int, height: float, x: float = 0.0) -> FloatArray:
    """(dim,) a point or vector along the last axis, at ``x`` along the first."""
    vector = np.zeros(dim)
    vector[0], vector[-1] = x, height
    return vector


def floor(dim: int, speed: float = 0.0, material: str = "") -> Body:
    """A half-space below the origin, rising at ``speed`` m/s."""
    rising = up(dim, speed) if speed else None
    plane = HalfSpace(up(dim, 1.0))
    return Body(plane, np.zeros(dim), velocity=rising, material=material, name="floor")


def walls_at(sides: Any, dim: int, material: str = "") -> list[Body]:
    """Walls at the ends (n, 2) of the first n axes, m, facing in; none at an end that is nan."""
    names = (*_SIDES[: dim - 1], _SIDES[2])
    walls = []
    for axis, ends in enumerate(sides):
        for end, inward, name in zip(ends, (1.0, -1.0), names[axis], strict=True):
            if np.isfinite(end):
                normal, place = np.zeros((2, dim))
                normal[axis], place[axis] = inward, end
                walls.append(Body(HalfSpace(normal), place, material=material, name=f"{name} wall"))
    return walls


def cycled(materials: Sequence[Material], k: int) -> str:
    """The name of the material of body k where bodies take materials in turn."""
    return materials[k % len(materials)].name if materials else ""


def edges(size: object, usual: tuple[float, float, float], dim: int) -> FloatArray:
    """(dim,) of a block, m; by default ``usual``, without its depth in the plane."""
    default = usual if dim == 3 else (usual[0], usual[2])
    return checks.vector("size", default if size is None else size, dim)
