"""Materials: how stiff a body's half of a contact is, and how it rebounds."""

from __future__ import annotations

import msgspec

from cdopt._util import checks
from cdopt._util.errors import InvalidInput


class Material(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A material; one with neither ``young`` nor ``stiffness`` is rigid.

    Attributes
    ----------
    name : what bodies call it.
    young : Young's modulus E, Pa.
    poisson : Poisson's ratio ν, used by Hertz contacts alone.
    stiffness : of the half-contact, in place of E: relative, or N/m for Hooke contacts
        (E/(1−ν²) in Pa for Hertz contacts) where methods with finite stiffness are to use it.
    restitution : Newton's e in [0, 1]; None is the scene's. A contact takes the smaller of two.

    Raises
    ------
    InvalidInput : a number out of range, or both young and stiffness.
    """

    name: str
    young: float | None = None
    poisson: float = 0.0
    stiffness: float | None = None
    restitution: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput("name", checks.describe(self.name), "a name that bodies can use")
        if self.young is not None and self.stiffness is not None:
            raise InvalidInput("stiffness", "young and stiffness", "one of the two")
        for field in ("young", "stiffness"):
            if getattr(self, field) is not None:
                checks.scalar(field, getattr(self, field), above=0.0)
        checks.scalar("poisson", self.poisson, above=-1.0, at_most=0.5)
        if self.restitution is not None:
            checks.scalar("restitution", self.restitution, at_least=0.0, at_most=1.0)

    @property
    def rigid(self) -> bool:
        """Whether it has no stiffness of its own."""
        return self.young is None and self.stiffness is None

    def half_stiffness(self, power: float) -> float:
        """Of one side of a contact: E, or E/(1−ν²) for Hertz (power 5/2), Pa; infinite if rigid."""
        if self.stiffness is not None:
            return self.stiffness
        if self.young is None:
            return float("inf")
        return self.young / (1.0 - self.poisson**2) if power == HERTZ else self.young


HERTZ = 2.5  # the power of Hertz contacts
