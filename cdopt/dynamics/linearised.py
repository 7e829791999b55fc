"""Linearise, solve the convex problem, move: the loop of everything elastic in exact geometry.

Gaps depend on the configuration, so that the problem of a step is not convex. Each *pass* takes
the present gaps and B, solves the convex problem of these linear gaps, and moves the
bodies, until the exact problem is solved. A step of the variational integrator
(``variational``), the rest of elastic contacts (``equilibrium``) and an increment with friction
(``frictional_rest``) differ in the convex problem and in their stopping test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.dynamics.friction_springs import SlidingSprings
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

OVERLAP_TOO_DEEP = "two bodies overlap by more than a radius"
STEP_TOO_LONG = "a body goes further in one step than its contacts can be foreseen"

Place = TypeVar("Place")


class Linearised(Protocol[Place]):
    """A problem that passes solve; a place is a configuration with its gaps."""

    def settled(self, here: Place, passes: int) -> bool:
        """Whether passes end here, the number of ``passes`` so far."""

    def moved(self, here: Place) -> Place:
        """The result of the convex problem of the gaps that are linear here."""


def settle(problem: Linearised[Place], start: Place) -> tuple[Place, int]:
    """The last place of passes from ``start``, and their number."""
    here, passes = start, 0
    while not problem.settled(here, passes):
        here, passes = problem.moved(here), passes + 1
    return here, passes


def shortened(
    try_with: Callable[[float], Place | None], inertia: float, least: float, most: float
) -> tuple[Place | None, float]:
    """The first place that is taken, with ever more inertia, and with how much.

    Linear gaps are valid only near by; ``inertia``, a share of the stiffest contact, limits a
    pass. None if even the ``most`` does not help.
    """
    while True:
        there = try_with(inertia)
        if there is not None or inertia >= most:
            return there, inertia
        inertia = max(least, 10.0 * inertia)


@dataclass(frozen=True)
class Passes:
    """The result of passes for one step, or for one equilibrium.

    ``energy`` (3,) is the energy lost in damping of free bodies, the work of loads except gravity
    and of moving walls through elastic contacts, and the error of the scheme without elastic
    energy, J; with friction (4,), its loss last, which is part of the first.
    """

    state: State  # at its end
    passes: int  # number of linearisations
    residual: float  # of the last pass, and so the next three
    ok: bool
    claimed: bool
    solution: StepSolution | None
    failure: str  # why the step cannot be taken; "" if it can
    energy: FloatArray
    springs: SlidingSprings | None = None  # of friction, at the end of the step


class Increments(Protocol):
    """Steps in exact geometry on one scene."""

    def step(self, state: State, springs: SlidingSprings | None) -> Passes:
        """One step, from the ``springs`` of friction at its start; None without friction."""


def moved_too_far(scene: Scene, start: State, now: State, travel: float) -> list[int]:
    """Free bodies that moved further than ``travel`` times their sizes."""
    free = ~scene.bodies.fixed
    way = np.linalg.norm(now.position - start.position, axis=1)
    return list(np.flatnonzero(free & (way > travel * np.where(free, scene.bodies.reach, 1.0))))
