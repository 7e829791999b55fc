"""The platform on three supports: drops to rest, and what each solver says of its forces.

Olsen & Kamrin (2018), section 8.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt import collision
from cdopt._util.checks import FloatArray
from cdopt.backends import APGD, PGS, Backend
from cdopt.dynamics import simulate
from cdopt.formulations import ClassicCD, CompatibleCD
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.scene.generators import paper

from .settings import Settings

STIFF_MIDDLE = 3.0
ORDERS = ((0, 1, 2), (1, 0, 2), (0, 2, 1))


@dataclass(frozen=True, eq=False)
class Beam:
    """The platform at rest, and its forces.

    Attributes
    ----------
    middle : stiffness of the middle support relative to the others.
    step : at rest. compatible : its solution.
    classic : by description, the forces (3,) N of classic contact dynamics from zero.
    """

    middle: float
    step: ContactStep
    compatible: StepSolution
    classic: dict[str, FloatArray]

    @property
    def f(self) -> FloatArray:
        """(3,) N, compatible; not a number where there is no answer."""
        return np.full(3, np.nan) if self.compatible.f is None else self.compatible.f

    @property
    def overlap(self) -> FloatArray:
        """(3,) relative overlaps c = −B u of the compatible micro-displacement."""
        u, B = self.compatible.u, self.step.B
        return np.full(3, np.nan) if u is None or B is None else -np.asarray(B @ u)

    @property
    def elastic(self) -> FloatArray:
        """(3,) N, by symmetry: all supports are pressed in equally, (1, k, 1) 10 N / (2 + k)."""
        share = np.array([1.0, self.middle, 1.0])
        return paper.WEIGHT * share / share.sum()


def beam(settings: Settings, middle: float) -> Beam:
    """The platform dropped from 1 % of a support's radius, solved at rest in every way."""
    scene = paper.beam(middle)
    run = simulate(scene, settings.dt, settings.length)
    state = run.final.state
    found = collision.detect(scene, state, collision.safe_margin(scene, state, settings.dt))
    step = collision.step(scene, state, found, settings.dt)
    classic = ClassicCD(step)
    ways: dict[str, Backend] = {_words(order): PGS(order=order) for order in ORDERS}
    ways["APGD"] = APGD()
    answers = {words: classic.solve(backend).f for words, backend in ways.items()}
    return Beam(
        middle, step, CompatibleCD(step).solve("newton"),
        {words: np.full(3, np.nan) if f is None else f for words, f in answers.items()},
    )  # fmt: skip


def _words(order: tuple[int, ...]) -> str:
    names = ("left", "middle", "right")
    return "PGS: " + ", ".join(names[k] for k in order)
