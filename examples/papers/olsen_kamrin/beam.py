"""The platform on three supports: dropped to rest, then solved by every solver.

Olsen & Kamrin (2018), section 8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import cdopt
from cdopt import collision
from cdopt.backends import APGD, PGS

from .pile import Settings

STIFF_MIDDLE = 3.0
DROP = 5e-4  # m, 1 % of a support's radius
STIFFNESS, STEP, SETTLES = 1e6, 5e-6, 0.06  # N/m and s, of the discrete elements
SUPPORTS = ("left", "middle", "right")
ORDERS = ((0, 1, 2), (1, 0, 2), (0, 2, 1))


@dataclass(frozen=True, eq=False)
class Beam:
    """The platform at rest, and its forces.

    Attributes
    ----------
    middle : stiffness of the middle support relative to the others.
    step : at rest. f, overlap : (3,) N and relative, compatible.
    classic : by solver and order, the forces (3,) N of classic contact dynamics from zero.
    """

    middle: float
    step: cdopt.ContactStep
    f: np.ndarray
    overlap: np.ndarray
    classic: dict[str, np.ndarray]

    @property
    def dem(self) -> np.ndarray:
        """(3,) N, by discrete elements: the drop on elastic supports, by velocity-Verlet.

        γ = 2√(km) at every contact, as in the paper; the damping sees half steps.
        """
        M, B = self.step.M.toarray(), self.step.B.toarray()
        k = STIFFNESS * np.array([1.0, self.middle, 1.0])
        gamma = 2.0 * np.sqrt(k * M[0, 0])
        phi, v, load = np.full(3, DROP), np.zeros(len(M)), np.asarray(self.step.F_ext)
        inverse, f = np.linalg.inv(M), np.zeros(3)
        for _ in range(round(SETTLES / STEP)):
            v = v + 0.5 * STEP * inverse @ (load + B.T @ f)
            phi = phi + STEP * B @ v
            f = np.where(phi < 0.0, np.maximum(-k * phi - gamma * (B @ v), 0.0), 0.0)
            v = v + 0.5 * STEP * inverse @ (load + B.T @ f)
        return f


@cache
def beam(settings: Settings, middle: float) -> Beam:
    """The platform dropped from 1 % of a support's radius, solved at rest in every way."""
    scene = cdopt.scene.beam(middle)
    state = cdopt.simulate(scene, settings.dt, settings.length).final.state
    contacts = collision.detect(scene, state, collision.safe_margin(scene, state, settings.dt))
    step = collision.step(scene, state, contacts, settings.dt)
    classic = cdopt.ClassicCD(step)
    ways = {"PGS: " + ", ".join(SUPPORTS[k] for k in order): PGS(order=order) for order in ORDERS}
    forces = {name: classic.solve(way).f for name, way in (*ways.items(), ("APGD", APGD()))}
    compatible = cdopt.CompatibleCD(step).solve("newton")
    return Beam(middle, step, compatible.f, -np.asarray(step.B @ compatible.u), forces)


def beams(settings: Settings) -> tuple[Beam, Beam]:
    """On supports of one stiffness, and with the middle one stiffer."""
    return beam(settings, 1.0), beam(settings, STIFF_MIDDLE)
