"""Exploration: all that a page knows of a contact problem at rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.plots.explore.loads import Load
from cdopt.problem.contact_law import HOOKE

MOST = 60  # contacts, and degrees of freedom, that a page solves while a slider moves
POWERS = (1.2, 3.0)  # the ends of the slider of the power

_TRIFLE = 1e-9  # of a row's largest entry: round-off of a settled scene, no lever


@dataclass(frozen=True, eq=False)
class Exploration(Frozen):
    """Closed contacts of bodies at rest, and the loads they may be asked to carry.

    Attributes
    ----------
    name, title : for headings.
    B : (nc, nv) gap gradient of the closed contacts; entries that are round-off are zeros.
    response : (nc, nv) Δt B M⁻¹: what a load on each degree of freedom does to the gaps' rates,
        which projected Gauss–Seidel sees.
    stiffness : (nc,) relative to the softest contact.
    power : p of the contact energy, at the start.
    names : (nc,) of the contacts.
    load : F̃, as sliders make it.
    body : name of the body that rests, where it is one and has a name.
    picture : what is drawn, as the page reads it; None for nothing.
    units : of forces.

    Raises
    ------
    InvalidInput : no contacts; more than ``MOST`` contacts or degrees of freedom; a power beyond
        ``POWERS``.
    """

    name: str
    title: str
    B: FloatArray
    response: FloatArray
    stiffness: FloatArray
    power: float
    names: tuple[str, ...]
    load: Load
    body: str = ""
    picture: Mapping[str, Any] | None = None
    units: str = "N"

    def __post_init__(self) -> None:
        nc, nv = self.B.shape
        check_size(nc, nv)
        if nc == 0:
            raise InvalidInput("scene", "no closed contacts", "bodies that rest on something")
        if not POWERS[0] <= self.power <= POWERS[1]:
            raise InvalidInput("power", f"{self.power:g}", f"{POWERS[0]:g} to {POWERS[1]:g}")
        top = np.abs(self.B).max(axis=1, keepdims=True)
        object.__setattr__(self, "B", np.where(np.abs(self.B) > _TRIFLE * top, self.B, 0.0))
        object.__setattr__(self, "stiffness", self.stiffness / self.stiffness.min())
        super().__post_init__()

    def content(self) -> dict[str, Any]:
        """What the page's script reads."""
        return {
            "name": self.name,
            "title": self.title,
            "B": self.B.tolist(),
            "W": self.response.tolist(),
            "stiffness": self.stiffness.tolist(),
            "power": self.power,
            "powers": POWERS,
            "hooke": HOOKE,
            "names": self.names,
            "load": self.load.content(),
            "body": self.body or "body",
            "picture": self.picture,
            "units": self.units,
        }


def check_size(nc: int, nv: int) -> None:
    """Refuse what a page cannot solve while a slider moves.

    Raises
    ------
    InvalidInput : more than ``MOST`` contacts or degrees of freedom.
    """
    if nc > MOST or nv > MOST:
        raise InvalidInput(
            "scene",
            f"{nc} contacts and {nv} degrees of freedom",
            f"at most {MOST} of each; for larger ones see cdopt show --page",
        )
