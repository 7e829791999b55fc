"""Quasi-static motion as a method: walls move, bodies follow from equilibrium to equilibrium.

De Klerk et al. (2021): the variational integrator without inertia and damping.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends.base import Backend
from cdopt.collision import Neighbours, move
from cdopt.dynamics.contact_dynamics import resolved
from cdopt.dynamics.elastic import measured, require_elastic
from cdopt.dynamics.equilibrium import TRAVEL, equilibrium
from cdopt.dynamics.method import Run, Stage, StepTaken
from cdopt.dynamics.relinearised import touching
from cdopt.scene import State


@dataclass(frozen=True, kw_only=True)
class QuasiStaticSteps:
    """From equilibrium to equilibrium: fixed bodies move as prescribed, time only counts.

    Parameters
    ----------
    backend : of every linearised problem.
    tol : of the unbalanced force, as a share of the largest.
    limit : times that a step linearises gaps, at most.
    travel : how far a body may go in a step, in its own sizes; further away it was not held.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    backend: str | Backend = "newton"
    tol: float = 1e-10
    limit: int = 200
    travel: float = TRAVEL

    name: ClassVar[str] = "quasi-static"
    forces: ClassVar[tuple[str, ...]] = ("f",)
    stages: ClassVar[tuple[str, ...]] = ("step",)
    measures: ClassVar[tuple[str, ...]] = ("elastic",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", resolved("backend", self.backend))
        checks.scalar("tol", self.tol, above=0.0, at_most=1e-2)
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise InvalidInput("limit", checks.describe(self.limit), "a whole number from 1")
        checks.scalar("travel", self.travel, above=0.0)

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        names = ("tol", "limit", "travel")
        return {name: getattr(self, name) for name in names} | {"backend": repr(self.backend)}

    def begin(self, run: Run, state: State) -> StepTaken:
        """Measures of the initial state.

        Raises
        ------
        InvalidInput : a scene without stiffness, or with Newton's restitution.
        """
        require_elastic(run.scene)
        held = Stage(0.0, True, True, 0, 0.0, "")
        return measured(state, touching(run.scene, state, _near(run)), held)

    def march(self, run: Run, state: State, steps: int) -> StepTaken:
        """Up to so many equilibria."""
        started, worst, passes, done, failure = time.perf_counter(), 0.0, 0, 0, ""
        cause: SolveFailed | None = None
        while done < steps and not failure:
            moved = run.scene.dofs.scatter(np.zeros(run.scene.dofs.nv), state.v)
            moved[~run.scene.bodies.fixed] = 0.0
            there = State(state.t + run.dt, move(state, moved, run.dt), moved)
            try:
                rest = equilibrium(
                    run.scene, there, backend=self.backend, tol=self.tol, limit=self.limit,
                    travel=self.travel, neighbours=_near(run),
                )  # fmt: skip
            except SolveFailed as error:
                failure, cause = str(error), error
                break
            state, done = rest.state, done + 1
            worst, passes = max(worst, rest.residual), passes + rest.passes
        held = Stage(worst, True, True, passes, time.perf_counter() - started, "")
        return measured(state, touching(run.scene, state, _near(run)), held, done, failure, cause)


def _near(run: Run) -> Neighbours:
    if "near" not in run.desk:
        run.desk["near"] = Neighbours(run.scene)
    found: Neighbours = run.desk["near"]
    return found
