"""Contact dynamics with friction as a method of time stepping.

Each step is a ``FrictionalCD``: of the law of Coulomb, or of the associated one. Steps of the law
of Coulomb need not have an answer. One without a certified answer is taken in halves, quarters and
so on, with the gaps and velocities of each moment and B of the start of the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends.base import Backend
from cdopt.backends.selection import resolve
from cdopt.collision import Contacts
from cdopt.dynamics.contact_dynamics import ClassicSteps, _ContactDynamics, resolved, stage
from cdopt.dynamics.impacts import Impacts, Solved, in_sequence, take
from cdopt.dynamics.method import StepContext
from cdopt.formulations import FrictionalCD
from cdopt.problem import LAWS
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.warm_start import WarmStart

SOLVER = "newton"
_CARRIES = 1e-6  # of the largest force of a step: less counts as no force
_LIMIT = 1e-6  # share of μ f_n by which friction may miss it and count as sliding


@dataclass(frozen=True, kw_only=True)
class FrictionalSteps(_ContactDynamics):
    """Contact dynamics with friction.

    Parameters
    ----------
    law : "coulomb", or "associated" for the convex law, whose sliding contacts separate.
    backend : solves each step; by default "newton", and without friction that of "classic-cd".
    warm_start : start each step from the forces of the step before, contact by contact, in the
        directions that these have in space.
    substeps : into how many a step without a certified answer is split at most, a power of two; 1
        for none. The diagnostics ``substeps`` counts them.

    Notes
    -----
    The diagnostics ``carrying`` counts the contacts with a force, and ``sliding`` those of them
    whose friction is at its limit μ f.

    Raises
    ------
    InvalidInput, BackendUnavailable : a setting that cannot be used.
    """

    law: str = "coulomb"
    backend: str | Backend | None = None
    warm_start: bool = True
    substeps: int = 64

    name: ClassVar[str] = "contact-dynamics"
    frictional: ClassVar[bool] = True
    forces: ClassVar[tuple[str, ...]] = ("f", "f_t")
    stages: ClassVar[tuple[str, ...]] = ("friction",)
    measures: ClassVar[tuple[str, ...]] = ("impacts", "plastic", "substeps", "carrying", "sliding")
    classic: ClassVar[str] = "f"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("law", self.law, LAWS)
        if self.backend is not None:
            object.__setattr__(self, "backend", resolved("backend", self.backend))
        checks.whole("substeps", self.substeps, 1, 2**20)
        if self.substeps & (self.substeps - 1):
            raise InvalidInput("substeps", str(self.substeps), "a power of two")

    def without_friction(self) -> ClassicSteps:
        """The same method for a scene without friction."""
        names = ("backend", "tol", "v_min", "turning", "impacts")
        return ClassicSteps(**{name: getattr(self, name) for name in names})

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        shown = self._settings(backend=self.backend or SOLVER)
        return {"law": self.law, **shown, "substeps": self.substeps}

    def _taken(self, run: StepContext, problem: ContactStep) -> Impacts:
        """Solve a contact step, in parts where it has no certified answer as a whole."""
        taken = in_sequence(
            problem,
            lambda part: take(part, lambda now: self._once(run, now), self.classic, self.impacts),
            self.substeps,
        )
        solved, friction = taken.solved, problem.friction
        if friction is None:
            raise TypeError("a step without friction")
        f, size = solved.forces["f"], np.linalg.norm(solved.forces["f_t"], axis=1)
        carrying = f > _CARRIES * f.max(initial=0.0)
        sliding = carrying & (size >= (1.0 - _LIMIT) * friction.mu * f)
        counts = {"carrying": carrying, "sliding": sliding}
        measures = {name: float(np.count_nonzero(which)) for name, which in counts.items()}
        measures["substeps"] = float(taken.parts)
        return replace(taken, solved=replace(solved, measures={**solved.measures, **measures}))

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        """Solve one contact step."""
        started = clock()
        solution = FrictionalCD(problem, self.law).solve(
            resolve(self.backend or SOLVER),
            tol=self.tol,
            warm_start=self._start(run, problem),
            check=run.strict,
        )
        iterate = solution.iterate
        if iterate is None or iterate.motion is None or not np.isfinite(iterate.motion).all():
            raise SolveFailed(
                f"{solution.formulation} by {solution.backend}: the solver says "
                f"{solution.status!r} and leaves no motion to go on with",
                backend=solution.backend,
                status=solution.status,
                raw=solution.raw,
            )
        rows = iterate.forces.reshape(problem.nc, -1)
        forces = {"f": rows[:, 0].copy(), "f_t": _in_space(problem, rows)}
        stages = {"friction": stage(solution, clock() - started)}
        return Solved(iterate.motion, forces, stages, {}, solution)

    def _start(self, run: StepContext, problem: ContactStep) -> WarmStart | None:
        """Forces of the step before, along the normals and tangents of this one."""
        if not self.warm_start or "ids" not in run.memory or problem.friction is None:
            return None
        tangents = problem.friction.tangents
        rows = np.zeros((problem.nc, problem.friction.d))
        ids = np.asarray(problem.contact_ids)
        _, here, there = np.intersect1d(ids, run.memory["ids"], return_indices=True)
        rows[here, 0] = run.memory["f"][there]
        rows[here, 1:] = np.einsum("ix,ikx->ik", run.memory["f_t"][there], tangents[here])
        return WarmStart(rows.ravel())

    def _remember(self, run: StepContext, contacts: Contacts, **forces: FloatArray) -> None:
        if self.warm_start and all(np.isfinite(f).all() for f in forces.values()):
            run.memory = {"ids": contacts.contact_ids, **forces}


def _in_space(problem: ContactStep, rows: FloatArray) -> FloatArray:
    """Tangential forces (nc, dim) as vectors, from rows (nc, d) of forces."""
    friction, normals = problem.friction, problem.normals
    if friction is None or friction.tangents is None or normals is None:
        raise TypeError("a step without tangents")
    if not problem.nc:
        return np.zeros(normals.shape)
    return np.asarray(np.einsum("ik,ikx->ix", rows[:, 1:], friction.tangents))
