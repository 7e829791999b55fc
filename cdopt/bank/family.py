"""Families of problems of different size, for measuring how solvers' times grow with size.

>>> import cdopt
>>> cdopt.bank.families()["beams"].build(5)
ContactStep(5 contacts, 2 degrees of freedom, dt=0.001 s)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import cdopt
from cdopt._util import checks
from cdopt._util.errors import InvalidInput

if TYPE_CHECKING:
    from cdopt.problem import Step

HERTZ = 2.5  # as cdopt.problem.contact_law.HERTZ, which is slow to import
RATIO = 1e6  # of the masses and stiffnesses of difficult families
_SEED = 1805
_PUBLISHED = {  # by their numbers of contacts
    48: "fclib-boxes",
    60: "fclib-periodic-box",
    82: "fclib-box-stacks",
    256: "fclib-spheres",
    286: "fclib-capsules",
}


@dataclass(frozen=True, repr=False)
class Family:
    """Problems that differ in size.

    Attributes
    ----------
    name : of the family. about : what its problems are, and what size means.
    sizes : usual sizes, from small to large.
    generator : the function of ``cdopt.bank.generators`` that takes the size; "" for published
        steps of the bank.
    arguments : others of the generator.
    changed : a function of ``cdopt.bank.generators`` that changes its step; "" for none.
    power : exponent p of the contact energy.
    """

    name: str
    about: str
    sizes: tuple[int, ...]
    generator: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    changed: str = ""
    power: float = 2.0

    def build(self, size: int) -> Step:
        """The contact step of this ``size``.

        Raises
        ------
        InvalidInput : a size that the family does not have.
        """
        size = checks.count("size", size)
        if not self.generator:
            if size not in _PUBLISHED:
                raise InvalidInput("size", repr(size), f"one of {sorted(_PUBLISHED)}")
            published: Any = cdopt.bank.load(_PUBLISHED[size]).step
            return published
        made = cdopt.bank.generators
        sizes = (size, size) if self.generator == "crystal_2d" else (size,)
        step: Step = getattr(made, self.generator)(*sizes, **self.arguments)
        if self.changed:
            step = getattr(made, self.changed)(step, RATIO, _SEED)
        return step.replace(power=self.power)

    def __repr__(self) -> str:
        return f"Family({self.name!r}: {self.about})"


def families() -> Mapping[str, Family]:
    """All families by name."""
    return _FAMILIES


_LADDER = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PILES = (3, 5, 7, 10, 14, 20, 28)
_ROWS = (4, 8, 16, 32)
_CELLS = (100, 200, 500, 1000)
_ALL = (
    Family("beams", "a platform on n supports", _LADDER, "supports"),
    Family("tables", "a round top on n legs", _LADDER, "legs"),
    Family(
        "pyramids-hooke",
        "cannonball pyramids of equal spheres, n along the base",
        _PILES,
        "pyramid",
    ),
    Family(
        "pyramids-species", "the same of two materials", _PILES, "pyramid", {"material": "species"}
    ),
    Family("pyramids-hertz", "the same with Hertz contacts", _PILES, "pyramid", power=HERTZ),
    Family(
        "falling",
        "pyramids in mid-fall: random gaps, which most contacts close",
        _PILES,
        "pyramid_falling",
    ),
    Family(
        "crystals", "n rows of n discs between walls in the plane", (*_ROWS, 64, 128), "crystal_2d"
    ),
    Family(
        "packings",
        "n spheres of several sizes at rest, disordered",
        _CELLS,
        "packing",
        {"layers": 4},
    ),
    Family("chains", "a column of n balls; isostatic", _LADDER, "chain"),
    Family("brick-walls", "stepped brick walls of n courses", _PILES, "brick_pyramid"),
    Family("stacks", "n boxes one on another, on their corners", _LADDER, "stack"),
    Family(
        "nearly-parallel",
        "a disc in a groove of n facets within 1e-4 rad",
        _LADDER[:6],
        "nearly_parallel",
    ),
    Family(
        "mass-ratio",
        "crystals of n rows, masses over six orders",
        _ROWS,
        "crystal_2d",
        changed="heavy_and_light",
    ),
    Family(
        "heavy-on-light",
        "a column of n balls, masses from 1 to 1e6 upwards",
        _LADDER,
        "chain",
        {"mass_ratio": RATIO},
    ),
    Family(
        "stiffness-ratio",
        "crystals of n rows, stiffness over six orders",
        _ROWS,
        "crystal_2d",
        changed="uneven",
    ),
    Family(
        "fclib", "frictional problems of FCLib, normal rows; size: contacts", tuple(_PUBLISHED), ""
    ),
)
_FAMILIES = MappingProxyType({family.name: family for family in _ALL})
