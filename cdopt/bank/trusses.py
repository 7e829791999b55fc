"""Trusses under a given load, which no scene gives, among the generators of the bank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, integer, positive, read_only
from cdopt._util.frozen import Frozen
from cdopt._util.parameters import limits

_LOADS = {"pull": (-10.0, 0.0, 0.0), "sideways": (10.0, 0.0, 1.0), "tip": (10.0, 10.0, 0.0)}


@dataclass(frozen=True, eq=False)
class Truss(Frozen):
    """The data of a no-tension truss, checked and read-only: contacts as struts under a load.

    Attributes
    ----------
    B : (nc, nv) gap gradient.
    contact_load : F̃ (nv,), the load that contacts must deliver, N and N·m.
    stiffness : (nc,) relative; given as one number or (nc,).
    """

    B: sp.csr_array
    contact_load: FloatArray
    stiffness: FloatArray

    def __init__(self, B: Any, contact_load: Any, stiffness: Any = 1.0) -> None:
        gradient = checks.matrix("B", B, None, None)
        nc, nv = gradient.shape
        self.__setstate__(
            {
                "B": gradient,
                "contact_load": checks.vector("contact_load", contact_load, nv, "N"),
                "stiffness": checks.per_contact("stiffness", stiffness, nc, positive=True),
            }
        )


@limits(n=integer(2, 10_000), weight=positive)
def fan(n: int = 7, weight: float = 10.0) -> Truss:
    """A point body held from below by n struts, spread evenly over ±60° about the vertical.

    B (n, 2) for the body's x and y; contact_load (0, weight) in N. By symmetry the body sinks
    straight down by d, strut i closes by d cos θ_i, and f_i = W cos^{p−1} θ_i / Σ cos^p θ_j for
    every power p: the forces are known in closed form.
    """
    angle = np.linspace(-np.pi / 3, np.pi / 3, n)
    angle = 0.5 * (angle - angle[::-1])  # symmetric to the last digit
    return Truss(np.column_stack([np.sin(angle), np.cos(angle)]), [0.0, weight])


@limits(n=integer(2, 10_000), weight=positive, power=checks.power)
def fan_forces(n: int, weight: float, power: float) -> FloatArray:
    """The forces (n,) of ``fan`` under ``weight`` N, in closed form, for any power p > 1, N."""
    angle = np.linspace(-np.pi / 3, np.pi / 3, n)
    share = np.cos(angle) ** (power - 1.0)
    return read_only(weight * share / (share @ np.cos(angle)))


@limits(load=checks.one_of(_LOADS))
def unreachable_load(load: str = "pull") -> Truss:
    """A platform 1 m long on three supports, under a load that its contacts cannot carry.

    B (3, 3) for the platform's height, turn (about its middle) and sideways motion;
    contact_load in N and N·m. "pull": it is lifted with 10 N, but contacts cannot pull.
    "sideways": in addition to its 10 N weight, 1 N pushes it sideways, without friction.
    "tip": its 10 N act 1 m from the middle, beyond the last support.
    """
    return Truss([[1.0, -0.5, 0.0], [1.0, 0.0, 0.0], [1.0, 0.5, 0.0]], _LOADS[load])
