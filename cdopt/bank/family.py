"""Families of problems with a size: the ground on which solvers' growth with size is measured.

>>> import cdopt
>>> beams = cdopt.bank.families()["beams"]
>>> beams.member(5)
Member('beams', 5: ContactStep(5 contacts, 2 degrees of freedom, dt=0.001 s))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cdopt._util.checks import describe
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
from cdopt.problem.contact_step import Step

RATIO = 1e6  # of the masses and stiffnesses of difficult families
_SEED = 1805


@dataclass(frozen=True, eq=False)
class Member:
    """One problem of a family.

    Attributes
    ----------
    family : name of its family. size : its size. power : exponent p of the contact energy.
    step : the contact step.
    source : its name in the bank, with parameters; empty if the bank has no problem of its kind.
    """

    family: str
    size: int
    power: float
    step: Step
    source: str = ""

    @property
    def name(self) -> str:
        """A name that no other member has, fit for a file."""
        return f"{self.family}-{self.size}"

    def save(self, folder: str | Path) -> Path:
        """Write the step to ``NAME.npz`` in a folder, for studies that take files; its path."""
        path = Path(folder) / f"{self.name}.npz"
        self.step.save(path)
        return path

    def __repr__(self) -> str:
        return f"Member({self.family!r}, {self.size}: {self.step!r})"


@dataclass(frozen=True)
class Family:
    """Problems that differ in size.

    Attributes
    ----------
    name : of the family. about : what its members are, and what size means.
    sizes : usual sizes, from small to large.
    build : the step of a given size.
    power : exponent p of the contact energy.
    difficult : whether it was made to be difficult.
    source : the bank's name of a member, with {n} for its size; empty if the bank has none.
    """

    name: str
    about: str
    sizes: tuple[int, ...]
    build: Callable[[int], Step]
    power: float = 2.0
    difficult: bool = False
    source: str = ""

    def member(self, size: int) -> Member:
        """The member of this size.

        Raises
        ------
        InvalidInput : of the generator, or no such size in a family of files.
        """
        source = self.source.format(n=size) if self.source else ""
        return Member(self.name, size, self.power, self.build(size), source)

    def members(self, most: int | None = None) -> Iterable[Member]:
        """Its members of usual size, up to ``most``, one after the other."""
        return (self.member(size) for size in self.sizes if most is None or size <= most)

    def __repr__(self) -> str:
        return f"Family({self.name!r}: {self.about})"


@functools.cache
def families() -> Mapping[str, Family]:
    """All families by name. Those of files have the sizes that there are."""
    return MappingProxyType({family.name: family for family in (*_FAMILIES, _published())})


def of_files(name: str, paths: Iterable[str | Path], about: str = "", power: float = 2.0) -> Family:
    """A family of files: steps that ``ContactStep.save`` wrote, ``.npz``, and FCLib files.

    Steps of a run become files by ``cdopt.collision.step(scene, frame.state, …).save(path)``. The
    size of a member is its number of contacts; of files with equally many the first counts.

    Raises
    ------
    InvalidInput : no file, one that is damaged or of another kind.
    """
    steps: dict[int, Step] = {}
    for path in paths:
        loaded = fclib.load_step if Path(path).suffix in fclib.SUFFIXES else Step.load
        step = loaded(path)
        steps.setdefault(step.nc, step)
    if not steps:
        raise InvalidInput("paths", "none", "at least one file")

    def build(size: int) -> Step:
        if size not in steps:
            raise InvalidInput("size", describe(size), f"one of {sorted(steps)}")
        return steps[size]

    return Family(name, about or f"files, size their contacts: {name}", tuple(sorted(steps)),
                  build, power)  # fmt: skip


def _published() -> Family:
    """The bank's FCLib files."""
    names_of_files = {name: manifest(name).fclib for name in names() if name.startswith("fclib-")}
    paths = [problems_folder() / name / str(file) for name, file in names_of_files.items()]
    return of_files("fclib", paths, "frictional problems of FCLib, normal rows; size: contacts")


_LADDER = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PILES = (3, 5, 7, 10, 14, 20, 28)
_FAMILIES = (
    Family("beams", "a platform on n supports", _LADDER, supports, source="supports:n={n}"),
    Family("tables", "a round top on n legs", _LADDER, legs),
    Family("pyramids-hooke", "cannonball pyramids of equal spheres, n along the base", _PILES,
           pyramid, source="pyramid-hooke:n={n}"),
    Family("pyramids-species", "the same of two materials", _PILES,
           lambda n: pyramid(n, "species"), source="pyramid-species:n={n}"),
    Family("pyramids-hertz", "the same with Hertz contacts", _PILES, pyramid, 2.5,
           source="pyramid-hertz:n={n}"),
    Family("falling", "pyramids in mid-fall: random gaps, which most contacts close", _PILES,
           pyramid_falling),
    Family("crystals", "n rows of n discs between walls in the plane", (4, 8, 16, 32, 64, 128),
           lambda n: crystal_2d(n, n), source="crystal-2d:rows={n},columns={n}"),
    Family("packings", "n spheres of several sizes at rest, disordered", (100, 200, 500, 1000),
           lambda n: packing(n, layers=4)),
    Family("chains", "a column of n balls; isostatic", _LADDER, chain),
    Family("brick-walls", "stepped brick walls of n courses", _PILES, brick_pyramid),
    Family("stacks", "n boxes one on another, on their corners", _LADDER, stack),
    Family("nearly-parallel", "a disc in a groove of n facets within 1e-4 rad", _LADDER[:6],
           nearly_parallel, difficult=True),
    Family("mass-ratio", "crystals of n rows, masses over six orders", (4, 8, 16, 32),
           lambda n: heavy_and_light(crystal_2d(n, n), RATIO, _SEED), difficult=True),
    Family("heavy-on-light", "a column of n balls, masses from 1 to 1e6 upwards", _LADDER,
           lambda n: chain(n, RATIO), difficult=True),
    Family("stiffness-ratio", "crystals of n rows, stiffness over six orders", (4, 8, 16, 32),
           lambda n: uneven(crystal_2d(n, n), RATIO, _SEED), difficult=True),
)  # fmt: skip
