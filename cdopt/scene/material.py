"""Materials: stiffness of a body's half of a contact, restitution and friction."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.problem.contact_law import HERTZ
from cdopt.scene.bodies import Bodies


class Material(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A material; one with neither ``young`` nor ``stiffness`` is rigid.

    Attributes
    ----------
    name : used by bodies.
    young : Young's modulus E, Pa.
    poisson : Poisson's ratio ν, of Hertz contacts, and of the tangential springs of friction.
    stiffness : of the half-contact, in place of E: relative, or N/m for Hooke contacts
        (E/(1−ν²) in Pa for Hertz contacts) where methods with finite stiffness are to use it.
    restitution : Newton's e in [0, 1]; None is the scene's. A contact takes the smaller of two.
    friction : coefficient μ ≥ 0; None is the scene's. A contact has the smaller of two, unless
        a ``MaterialPair`` states another.
    rolling_friction, spinning_friction : coefficients of the resistance of spheres to rolling and
        to spinning about the normal, used by "velocity-verlet" and "contact-dynamics" with
        friction: the torque is at most μ_r R f_n, 1/R = 1/r_i + 1/r_j. None is none. A contact
        takes the smaller of two, and where only one is stated, that one.

    Raises
    ------
    InvalidInput : a number out of range, or both young and stiffness.
    """

    name: str
    young: float | None = None
    poisson: float = 0.0
    stiffness: float | None = None
    restitution: float | None = None
    friction: float | None = None
    rolling_friction: float | None = None
    spinning_friction: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput("name", checks.describe(self.name), "a name that bodies can use")
        if self.young is not None and self.stiffness is not None:
            raise InvalidInput("stiffness", "young and stiffness", "one of the two")
        checks.scalar("poisson", self.poisson, above=-1.0, at_most=0.5)
        rubbing = ("friction", "rolling_friction", "spinning_friction")
        ranges: dict[str, dict[str, float]] = {"restitution": {"at_least": 0.0, "at_most": 1.0}}
        ranges |= {field: {"above": 0.0} for field in ("young", "stiffness")}
        ranges |= {field: {"at_least": 0.0} for field in rubbing}
        for field, limits in ranges.items():
            if getattr(self, field) is not None:
                checks.scalar(field, getattr(self, field), **limits)

    @property
    def rigid(self) -> bool:
        """Whether it has no stiffness."""
        return self.young is None and self.stiffness is None

    def half_stiffness(self, power: float) -> float:
        """Modulus of one side, Pa: E, or E/(1−ν²) for Hertz (power 5/2); infinite if rigid."""
        power = checks.power("power", power)
        if self.stiffness is not None:
            return self.stiffness
        if self.young is None:
            return float("inf")
        return self.young / (1.0 - self.poisson**2) if power == HERTZ else self.young


class MaterialPair(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Friction of a pair of materials, which overrides that of each.

    Attributes
    ----------
    materials : names of the two, in any order; twice the same name for one against itself.
    friction : coefficient μ ≥ 0 of their contacts.

    Raises
    ------
    InvalidInput : not two names, or a number out of range.
    """

    materials: tuple[str, str]
    friction: float

    def __post_init__(self) -> None:
        names = self.materials
        if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != 2:
            raise InvalidInput("materials", checks.describe(names), "the names of two materials")
        checks.scalar("friction", self.friction, at_least=0.0)


Materials = tuple[Material, ...]


def checked(given: Sequence[Material]) -> Materials:
    """Materials of different names, their stiffness in one kind of number."""
    kinds: dict[str, str] = {}
    for k, material in enumerate(given):
        if any(material.name == other.name for other in given[:k]):
            raise InvalidInput(f"materials[{k}].name", repr(material.name), "another name")
        kind = "young" if material.stiffness is None else "stiffness"
        if not material.rigid:
            kinds[kind] = material.name
        if len(kinds) == 2:
            found = f"{kind} here and {next(iter(kinds))} of {next(iter(kinds.values()))!r}"
            expected = "young or stiffness throughout: the two have different units"
            raise InvalidInput(f"materials[{k}].{kind}", found, expected)
    return tuple(given)


def pair_frictions(
    pairs: Sequence[MaterialPair], materials: Materials
) -> dict[tuple[int, int], float]:
    """μ of the pairs, each stated once, by the numbers of their materials, the smaller first."""
    numbers = {material.name: k for k, material in enumerate(materials)}
    result: dict[tuple[int, int], float] = {}
    for k, pair in enumerate(pairs):
        for name in pair.materials:
            if name not in numbers:
                known = ", ".join(map(repr, numbers)) or "of which there is none"
                raise InvalidInput(f"pairs[{k}].materials", repr(name), f"a material: {known}")
        first, second = sorted(numbers[name] for name in pair.materials)
        if (first, second) in result:
            names = " and ".join(map(repr, pair.materials))
            raise InvalidInput(f"pairs[{k}].materials", f"{names} again", "each pair once")
        result[first, second] = float(pair.friction)
    return result


def stiffer(
    materials: Materials, bodies: Bodies, power: float, factor: float
) -> tuple[Materials, Bodies]:
    """Materials with ``factor`` times their stiffness, or of that stiffness if none states one."""
    if any(not material.rigid for material in materials):
        return tuple(_scaled(material, factor) for material in materials), bodies
    half = 2.0 * factor
    if power == HERTZ:  # E* for which k = (4/3) E* √R* is one, √(1/m)
        if np.ptp(bodies.curvature) > 0.0:
            raise InvalidInput(
                "scene",
                "no material with a stiffness, and Hertz contacts of several curvatures",
                "materials with a stiffness: no one modulus gives all contacts one stiffness",
            )
        half *= 0.75 * float(np.sqrt(2.0 * bodies.curvature[0] or 1.0))
    stiff = tuple(msgspec.structs.replace(m, stiffness=half) for m in materials)
    if not (bodies.material < 0).any():
        return stiff, bodies
    name = "elastic"
    while any(material.name == name for material in stiff):
        name += "'"
    index = np.where(bodies.material < 0, len(stiff), bodies.material)
    new = Material(name=name, stiffness=half)
    return (*stiff, new), dataclasses.replace(bodies, material=index)


def _scaled(material: Material, factor: float) -> Material:
    """The material with its E or its half-stiffness times a factor; a rigid one as it is."""
    if material.rigid:
        return material
    field = "young" if material.stiffness is None else "stiffness"
    return msgspec.structs.replace(material, **{field: factor * getattr(material, field)})
