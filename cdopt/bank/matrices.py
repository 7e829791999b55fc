"""Problems that no scene gives: matrices posed carelessly, and trusses under a given load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, Positive, integer, one_of, read_only
from cdopt._util.frozen import Frozen
from cdopt.problem.contact_step import ContactStep
from cdopt.scene.scene import GRAVITY

Struts = Annotated[int, integer(2, 10_000)]
_LOADS = {"pull": (-10.0, 0.0, 0.0), "sideways": (10.0, 0.0, 1.0), "tip": (10.0, 10.0, 0.0)}


def rank_deficient() -> ContactStep:
    """Two balls of 1 kg stacked on a floor, posed as carelessly as possible.

    B (5, 12) has six columns of zeros (the balls' rotations, which frictionless contact does not
    turn), the ball–ball contact twice, the floor contact twice with the second one scaled to
    half its speed (as a lever arm would), and a row of zeros (a contact between two fixed
    things). nullity 3.
    """
    B = np.zeros((5, 12))
    B[0, 2], B[1, 2] = 1.0, 0.5
    B[2:4, 2], B[2:4, 8] = -1.0, 1.0
    radius, inertia = 0.1, 0.4 * 0.1**2  # m, kg·m²
    load = np.zeros(12)
    load[[2, 8]] = -GRAVITY
    return ContactStep(
        M=np.diag(np.tile([1.0, 1.0, 1.0, inertia, inertia, inertia], 2)),
        B=B,
        phi=np.zeros(5),
        v=np.zeros(12),
        F_ext=load,
        dt=1e-3,
        points=[[0.0, 0.0, z * radius] for z in (0.0, 0.0, 2.0, 2.0, 0.0)],
        dof_body=np.repeat([0, 1], 6),
    )


@dataclass(frozen=True, eq=False)
class Truss(Frozen):
    """The data of a no-tension truss, checked and read-only: contacts as struts under a load.

    Attributes
    ----------
    B : (nc, nv) gap gradient.
    contact_load : F̃ (nv,), what the contacts must deliver, N and N·m.
    stiffness : (nc,) relative; given as one number or (nc,).

    Raises
    ------
    InvalidInput : a bad argument.
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


def fan(n: Struts = 7, weight: Positive = 10.0) -> Truss:
    """A point body held from below by n struts, spread evenly over ±60° about the vertical.

    B (n, 2) for the body's x and y; contact_load (0, weight) in N. By symmetry the body sinks
    straight down by d, strut i closes by d cos θ_i, and f_i = W cos^{p−1} θ_i / Σ cos^p θ_j for
    every power p: the forces are known in closed form.
    """
    angle = np.linspace(-np.pi / 3, np.pi / 3, n)
    angle = 0.5 * (angle - angle[::-1])  # symmetric to the last digit
    return Truss(np.column_stack([np.sin(angle), np.cos(angle)]), [0.0, weight])


def fan_forces(n: Struts, weight: Positive, power: checks.Power) -> FloatArray:
    """The forces (n,) of ``fan`` under ``weight`` N, in closed form, for any power p > 1, N."""
    angle = np.linspace(-np.pi / 3, np.pi / 3, n)
    share = np.cos(angle) ** (power - 1.0)
    return read_only(weight * share / (share @ np.cos(angle)))


def unreachable_load(load: Annotated[str, one_of(_LOADS)] = "pull") -> Truss:
    """A platform 1 m long on three supports, asked for a load that its contacts cannot give.

    B (3, 3) for the platform's height, turn (about its middle) and sideways motion;
    contact_load in N and N·m. "pull": it is lifted with 10 N, but contacts cannot pull.
    "sideways": besides its 10 N weight, 1 N pushes it sideways, without friction.
    "tip": its 10 N act 1 m from the middle, beyond the last support.
    """
    return Truss([[1.0, -0.5, 0.0], [1.0, 0.0, 0.0], [1.0, 0.5, 0.0]], _LOADS[load])
