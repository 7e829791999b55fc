"""Contact dynamics with friction as a method of time stepping.

Each step is a ``FrictionalCD``: of the law of Coulomb, or of the associated one. Steps of the law
of Coulomb need not have an answer. One without a certified answer is taken in halves, quarters and
so on, with the gaps and velocities of each moment and B of the start of the step.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from cdopt._util.checks import FloatArray, integer, one_of
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends.base import Backend
from cdopt.backends.selection import resolve
from cdopt.collision import Contacts
from cdopt.dynamics.contact_dynamics import (
    ClassicSteps,
    CompatibleSteps,
    _ContactDynamics,
    last_iterate,
    resolved,
    stage,
)
from cdopt.dynamics.impacts import Impacts, Solved, in_sequence, take
from cdopt.dynamics.method import Stage, StepContext
from cdopt.formulations import CompatibleFriction, FrictionalCD
from cdopt.formulations.friction_network import NetworkForces
from cdopt.problem import LAWS
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.problem.warm_start import WarmStart

LOG = logging.getLogger("cdopt.dynamics")
SOLVER = "newton"
COMMON = ("tol", "v_min", "turning", "impacts", "push_overlaps")
_GAIN = 1e-6  # share of the kinetic energy that impacts may add without a warning
_GAINED = (
    "impacts add %.2g J to %.2g J of kinetic energy in a step: with friction, Newton's law of "
    "restitution can do so. Later ones of the run are not reported"
)
NOT_BEGUN = Stage(np.inf, False, False, -1, 0.0, "not begun")
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

    law: Annotated[str, one_of(LAWS)] = "coulomb"
    backend: str | Backend | None = None
    warm_start: bool = True
    substeps: Annotated[int, integer(1, 2**20)] = 64

    name: ClassVar[str] = "contact-dynamics"
    frictional: ClassVar[bool] = True
    forces: ClassVar[tuple[str, ...]] = ("f", "f_t")
    stages: ClassVar[tuple[str, ...]] = ("friction",)
    measures: ClassVar[tuple[str, ...]] = ("impacts", "plastic", "substeps", "carrying", "sliding")
    classic: ClassVar[str] = "f"

    def __post_init__(self) -> None:
        if self.backend is not None:
            object.__setattr__(self, "backend", resolved("backend", self.backend))
        if self.substeps & (self.substeps - 1):
            raise InvalidInput("substeps", str(self.substeps), "a power of two")

    def without_friction(self) -> ClassicSteps | CompatibleSteps:
        """The same method for a scene without friction."""
        return ClassicSteps(backend=self.backend, **self._common())

    def _common(self) -> dict[str, Any]:
        """Settings that the methods without friction have, too."""
        return {name: getattr(self, name) for name in COMMON}

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
        f = solved.forces[self.classic]
        size = np.linalg.norm(solved.forces[f"{self.classic}_t"], axis=1)
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
        motion, all_rows = last_iterate(solution)
        _warn_of_gain(run, problem, motion)
        rows = all_rows.reshape(problem.nc, run.scene.dim)
        forces = {self.classic: rows[:, 0].copy(), f"{self.classic}_t": _in_space(problem, rows)}
        stages = {"friction": stage(solution, clock() - started)}
        return Solved(motion, forces, stages, {}, solution)

    def _start(self, run: StepContext, problem: ContactStep) -> WarmStart | None:
        """Forces of the step before, along the normals and tangents of this one."""
        if not self.warm_start or "ids" not in run.memory or problem.friction is None:
            return None
        memory = run.memory
        return WarmStart(_rows(problem, memory["ids"], memory["f"], memory["f_t"]).ravel())

    def _remember(self, run: StepContext, contacts: Contacts, **forces: FloatArray) -> None:
        f, f_t = forces[self.classic], forces[f"{self.classic}_t"]
        if self.warm_start and np.isfinite(f).all() and np.isfinite(f_t).all():
            run.memory = {**run.memory, "ids": contacts.contact_ids, "f": f, "f_t": f_t}


@dataclass(frozen=True, kw_only=True)
class CompatibleFrictionSteps(FrictionalSteps):
    """Contact dynamics with friction, its forces resolved by compatibility, with their history.

    The motion is that of "contact-dynamics", whose forces are "f_classic". Contacts carry their
    micro-slip from step to step, by their ids and in the directions that it has in space; one
    that is new starts without force. Where contacts slide in a motion by the law of Coulomb, the
    forces of that step are those of Haar and Kármán's principle (``CompatibleFriction``).

    Notes
    -----
    The certificate of the forces is the balance of the network, relative to the largest load.
    """

    name: ClassVar[str] = "compatible-friction"
    forces: ClassVar[tuple[str, ...]] = ("f", "f_t", "f_classic", "f_classic_t")
    stages: ClassVar[tuple[str, ...]] = ("friction", "forces")
    classic: ClassVar[str] = "f_classic"

    def without_friction(self) -> CompatibleSteps:
        """The same method for a scene without friction."""
        chosen: dict[str, Any] = {} if self.backend is None else {"classic_backend": self.backend}
        return CompatibleSteps(**chosen, **self._common())

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        """Solve one contact step, and resolve its forces."""
        solved, started = super()._once(run, problem), clock()
        answer = solved.solution
        rows, resolved_stage = np.full((problem.nc, run.scene.dim), np.nan), NOT_BEGUN
        if not problem.nc:
            resolved_stage = Stage(0.0, True, True, 0, 0.0, "no contacts")
            run.workspace["trial"] = {}
        elif isinstance(answer, StepSolution) and answer.ok:
            compatible = CompatibleFriction(
                problem, self.law, history=self._history(run, problem), sliders="haar-karman"
            )
            try:
                resolution = compatible.solve(answer)
            except SolveFailed as error:
                resolved_stage = Stage(np.inf, False, False, -1, clock() - started, error.status)
            else:
                rows = np.column_stack([resolution.f, resolution.f_t])
                spent = clock() - started
                resolved_stage = Stage(
                    resolution.residual,
                    resolution.ok,
                    True,
                    -1,
                    spent,
                    resolution.label,
                )
                self._keep_history(run, problem, resolution)
        forces = {"f": rows[:, 0].copy(), "f_t": _in_space(problem, rows), **solved.forces}
        stages = {**solved.stages, "forces": resolved_stage}
        return replace(solved, forces=forces, stages=stages)

    def _history(self, run: StepContext, problem: ContactStep) -> NetworkForces | None:
        """Trial forces of the step before, along the normals and tangents of this one."""
        if "trial_ids" not in run.memory:
            return None
        memory = run.memory
        trial = _rows(problem, memory["trial_ids"], memory["trial_n"], memory["trial_t"])
        return NetworkForces(
            f=trial[:, 0],
            f_t=trial[:, 1:],
            u=np.zeros(problem.nv),
            flow="coulomb",
            label="history",
            residual=0.0,
            trial=trial,
            contact_ids=problem.contact_ids,
        )

    def _keep_history(
        self, run: StepContext, problem: ContactStep, resolution: NetworkForces
    ) -> None:
        """Put the trial forces of the next step aside, until this one is taken."""
        run.workspace["trial"] = {
            "trial_ids": np.asarray(problem.contact_ids),
            "trial_n": resolution.trial[:, 0].copy(),
            "trial_t": _in_space(problem, resolution.trial),
        }

    def _remember(self, run: StepContext, contacts: Contacts, **forces: FloatArray) -> None:
        super()._remember(run, contacts, **forces)
        run.memory = {**run.memory, **run.workspace.pop("trial", {})}


def _warn_of_gain(run: StepContext, problem: ContactStep, motion: FloatArray) -> None:
    """Log, once in a run, that impacts with restitution add energy where nothing else does."""
    still = not problem.gap_rate.any() and problem.phi.min(initial=0.0) >= 0.0
    if "gain" in run.workspace or not problem.impacting.any() or not still:
        return
    before, after = (0.5 * v @ problem.mass.times(v) for v in (problem.v_star, motion))
    if after > (1.0 + _GAIN) * before:
        run.workspace["gain"] = True
        LOG.warning(_GAINED, after - before, before)


def _rows(problem: ContactStep, ids: Any, normal: FloatArray, sliding: FloatArray) -> FloatArray:
    """Forces (nc, d) along the normals and tangents of a step, zero at other contacts than ``ids``.

    Parameters
    ----------
    normal : (n,) of the contacts ``ids``. sliding : (n, dim) vectors.
    """
    friction = problem.friction
    if friction is None:
        raise TypeError("a step without friction")
    rows = np.zeros((problem.nc, friction.d))
    if not problem.nc:
        return rows
    here: Any = slice(None)
    there: Any = here
    now = np.asarray(problem.contact_ids)
    if not np.array_equal(now, ids):  # else all contacts stay
        _, here, there = np.intersect1d(now, ids, return_indices=True)
    rows[here, 0] = normal[there]
    rows[here, 1:] = np.einsum("ix,ikx->ik", sliding[there], friction.tangents[here])
    return rows


def _in_space(problem: ContactStep, rows: FloatArray) -> FloatArray:
    """Tangential forces (nc, dim) as vectors, from rows (nc, d) of forces."""
    friction, normals = problem.friction, problem.normals
    if friction is None or friction.tangents is None or normals is None:
        raise TypeError("a step without tangents")
    if not problem.nc:
        return np.zeros(normals.shape)
    return np.asarray(np.einsum("ik,ikx->ix", rows[:, 1:], friction.tangents))
