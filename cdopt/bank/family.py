"""Families of problems of different size, for measuring how solvers' times grow with size.

>>> import cdopt
>>> cdopt.bank.families()["beams"].build(5)
ContactStep(5 contacts, 2 degrees of freedom, dt=0.001 s)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import cdopt
from cdopt._util.arguments import guard
from cdopt._util.errors import InvalidInput

if TYPE_CHECKING:
    from cdopt.problem import ContactStep, Step

HERTZ = 2.5  # as cdopt.problem.contact_law.HERTZ, which is slow to import
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


def families() -> Mapping[str, Family]:
    """All families by name."""
    return _FAMILIES


def _published(size: int) -> Step:
    """The FCLib file of the bank with so many contacts."""
    if size not in _PUBLISHED:
        raise InvalidInput("size", repr(size), f"one of {sorted(_PUBLISHED)}")
    step = cdopt.bank.load(_PUBLISHED[size]).step
    if step is None:
        raise InvalidInput("size", repr(size), "a contact step")
    return step


def _by(generator: str, **more: Any) -> Callable[[int], Step]:
    """A generator of the bank as a function of the size alone."""
    return partial(_call, generator, more)


def _call(generator: str, more: dict[str, Any], size: int) -> Step:
    step: Step = getattr(cdopt.bank.generators, generator)(size, **more)
    return step


def _hertz(n: int) -> Step:
    """A pyramid of n spheres along the base, with Hertz contacts."""
    return cdopt.bank.generators.pyramid(n).replace(power=HERTZ)


def _crystal(n: int) -> ContactStep:
    """A crystal of n rows of n discs."""
    return cdopt.bank.generators.crystal_2d(n, n)


def _heavy_and_light(n: int) -> Step:
    """The same with masses over six orders."""
    return cdopt.bank.generators.heavy_and_light(_crystal(n), RATIO, _SEED)


def _uneven(n: int) -> Step:
    """The same with stiffness over six orders."""
    return cdopt.bank.generators.uneven(_crystal(n), RATIO, _SEED)


_LADDER = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PILES = (3, 5, 7, 10, 14, 20, 28)
_ROWS = (4, 8, 16, 32)
_PUBLISHED = {  # by their numbers of contacts
    48: "fclib-boxes",
    60: "fclib-periodic-box",
    82: "fclib-box-stacks",
    256: "fclib-spheres",
    286: "fclib-capsules",
}
_ALL = (
    Family("beams", "a platform on n supports", _LADDER, _by("supports")),
    Family("tables", "a round top on n legs", _LADDER, _by("legs")),
    Family(
        "pyramids-hooke",
        "cannonball pyramids of equal spheres, n along the base",
        _PILES,
        _by("pyramid"),
    ),
    Family(
        "pyramids-species", "the same of two materials", _PILES, _by("pyramid", material="species")
    ),
    Family("pyramids-hertz", "the same with Hertz contacts", _PILES, _hertz, HERTZ),
    Family(
        "falling",
        "pyramids in mid-fall: random gaps, which most contacts close",
        _PILES,
        _by("pyramid_falling"),
    ),
    Family("crystals", "n rows of n discs between walls in the plane", (*_ROWS, 64, 128), _crystal),
    Family(
        "packings",
        "n spheres of several sizes at rest, disordered",
        (100, 200, 500, 1000),
        _by("packing", layers=4),
    ),
    Family("chains", "a column of n balls; isostatic", _LADDER, _by("chain")),
    Family("brick-walls", "stepped brick walls of n courses", _PILES, _by("brick_pyramid")),
    Family("stacks", "n boxes one on another, on their corners", _LADDER, _by("stack")),
    Family(
        "nearly-parallel",
        "a disc in a groove of n facets within 1e-4 rad",
        _LADDER[:6],
        _by("nearly_parallel"),
        difficult=True,
    ),
    Family(
        "mass-ratio",
        "crystals of n rows, masses over six orders",
        _ROWS,
        _heavy_and_light,
        difficult=True,
    ),
    Family(
        "heavy-on-light",
        "a column of n balls, masses from 1 to 1e6 upwards",
        _LADDER,
        _by("chain", mass_ratio=RATIO),
        difficult=True,
    ),
    Family(
        "stiffness-ratio",
        "crystals of n rows, stiffness over six orders",
        _ROWS,
        _uneven,
        difficult=True,
    ),
    Family(
        "fclib",
        "frictional problems of FCLib, normal rows; size: contacts",
        tuple(_PUBLISHED),
        _published,
    ),
)
_FAMILIES = MappingProxyType({family.name: family for family in _ALL})

guard(globals())
