"""Families of problems of different size, for measuring how solvers' times grow with size.

>>> import cdopt
>>> cdopt.bank.families()["beams"].build(5)
ContactStep(5 contacts, 2 degrees of freedom, dt=0.001 s)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cdopt._util.errors import InvalidInput
from cdopt._util.files import problems_folder
from cdopt.bank.generators import (
    brick_pyramid,
    chain,
    crystal_2d,
    heavy_and_light,
    legs,
    nearly_parallel,
    packing,
    pyramid,
    pyramid_falling,
    stack,
    supports,
    uneven,
)
from cdopt.bank.manifests import manifest, names
from cdopt.interop import fclib
from cdopt.problem.contact_law import HERTZ
from cdopt.problem.contact_step import ContactStep, Step

RATIO = 1e6  # of the masses and stiffnesses of difficult families
_SEED = 1805


@dataclass(frozen=True)
class Family:
    """Problems that differ in size.

    Attributes
    ----------
    name : of the family. about : what its problems are, and what size means.
    sizes : usual sizes, from small to large.
    build : returns the contact step of a given size.
    power : exponent p of the contact energy.
    difficult : whether it was made to be difficult.
    """

    name: str
    about: str
    sizes: tuple[int, ...]
    build: Callable[[int], Step]
    power: float = 2.0
    difficult: bool = False

    def __repr__(self) -> str:
        return f"Family({self.name!r}: {self.about})"


@functools.cache
def families() -> Mapping[str, Family]:
    """All families by name."""
    return MappingProxyType({family.name: family for family in (*_FAMILIES, _published())})


def _published() -> Family:
    """The FCLib files of the bank."""
    published = [
        name for name in names() if name.startswith("fclib-") and manifest(name).kind == "step"
    ]
    paths = [problems_folder() / name / str(manifest(name).fclib) for name in published]
    steps = {step.nc: step for step in map(fclib.load_step, paths)}

    def build(size: int) -> Step:
        if size not in steps:
            raise InvalidInput("size", repr(size), f"one of {sorted(steps)}")
        return steps[size]

    about = "frictional problems of FCLib, normal rows; size: contacts"
    return Family("fclib", about, tuple(sorted(steps)), build)


def _hertz(n: int) -> ContactStep:
    """A pyramid of n spheres along the base, with Hertz contacts."""
    return pyramid(n).replace(power=HERTZ)


_LADDER = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PILES = (3, 5, 7, 10, 14, 20, 28)
_FAMILIES = (
    Family("beams", "a platform on n supports", _LADDER, supports),
    Family("tables", "a round top on n legs", _LADDER, legs),
    Family(
        "pyramids-hooke", "cannonball pyramids of equal spheres, n along the base", _PILES, pyramid
    ),
    Family(
        "pyramids-species", "the same of two materials", _PILES, lambda n: pyramid(n, "species")
    ),
    Family("pyramids-hertz", "the same with Hertz contacts", _PILES, _hertz, HERTZ),
    Family(
        "falling",
        "pyramids in mid-fall: random gaps, which most contacts close",
        _PILES,
        pyramid_falling,
    ),
    Family(
        "crystals",
        "n rows of n discs between walls in the plane",
        (4, 8, 16, 32, 64, 128),
        lambda n: crystal_2d(n, n),
    ),
    Family(
        "packings",
        "n spheres of several sizes at rest, disordered",
        (100, 200, 500, 1000),
        lambda n: packing(n, layers=4),
    ),
    Family("chains", "a column of n balls; isostatic", _LADDER, chain),
    Family("brick-walls", "stepped brick walls of n courses", _PILES, brick_pyramid),
    Family("stacks", "n boxes one on another, on their corners", _LADDER, stack),
    Family(
        "nearly-parallel",
        "a disc in a groove of n facets within 1e-4 rad",
        _LADDER[:6],
        nearly_parallel,
        difficult=True,
    ),
    Family(
        "mass-ratio",
        "crystals of n rows, masses over six orders",
        (4, 8, 16, 32),
        lambda n: heavy_and_light(crystal_2d(n, n), RATIO, _SEED),
        difficult=True,
    ),
    Family(
        "heavy-on-light",
        "a column of n balls, masses from 1 to 1e6 upwards",
        _LADDER,
        lambda n: chain(n, RATIO),
        difficult=True,
    ),
    Family(
        "stiffness-ratio",
        "crystals of n rows, stiffness over six orders",
        (4, 8, 16, 32),
        lambda n: uneven(crystal_2d(n, n), RATIO, _SEED),
        difficult=True,
    ),
)
