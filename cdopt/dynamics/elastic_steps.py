"""The steps of methods with elastic contacts: of compiled loops, and of passes.

``SphereRun`` takes steps of spheres and walls in compiled loops, many at a time.
``PassesRun`` takes steps of any shapes one after the other, each by passes of convex problems
(``cdopt.dynamics.linearised``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import clock
from cdopt._util.errors import SolveFailed
from cdopt.collision import PairFriction, VerletList, detect, joint_gaps, move
from cdopt.dynamics.configuration import contact_state
from cdopt.dynamics.friction_springs import SlidingSprings
from cdopt.dynamics.linearised import OVERLAP_TOO_DEEP, STEP_TOO_LONG, Increments, Passes
from cdopt.dynamics.method import (
    Advance,
    Arrays,
    Failure,
    Settings,
    Snapshot,
    Stage,
    StepContext,
    StepRecord,
    without_memory,
)
from cdopt.dynamics.records import Checkpoint, ContactState, deepest
from cdopt.dynamics.spheres import (
    DIVERGED,
    DONE,
    NOT_CERTIFIED,
    TOO_DEEP,
    TOO_FAST,
    Integration,
    SphereStepper,
)
from cdopt.dynamics.spheres.system import Memory
from cdopt.problem.solution import StepSolution
from cdopt.scene import State

_WHY = {
    DIVERGED: "Newton's iteration came to a residual of {residual:.1e} and no further",
    NOT_CERTIFIED: (
        "the residual, {residual:.1e} of the largest force on a body, is above the tolerance"
    ),
    TOO_DEEP: OVERLAP_TOO_DEEP,
    TOO_FAST: STEP_TOO_LONG,
}


@dataclass(frozen=True, kw_only=True)
class ElasticSettings(Settings):
    """Common base of the methods with elastic contacts: friction, springs and energies."""

    stiffness_ratio: float | None = None

    name: ClassVar[str]
    frictional: ClassVar[bool] = True
    stages: ClassVar[tuple[str, ...]] = ("step",)
    energies: ClassVar[tuple[str, ...]] = ("elastic", "dissipated", "work", "scheme_error")

    def __post_init__(self) -> None:
        if self.stiffness_ratio is not None:
            self._put(stiffness_ratio=checks.positive("stiffness_ratio", self.stiffness_ratio))

    def friction(self, context: StepContext) -> PairFriction | None:
        """Friction of a run, with the ratio of stiffness; None without."""
        friction = checks.instance("context", context, StepContext).friction
        return None if friction is None else replace(friction, ratio=self.stiffness_ratio)

    def shown(self, friction: PairFriction | None) -> dict[str, Any]:
        """The settings used in a run, as plain values."""
        known = {name: value for name, value in self.settings().items() if value is not None}
        known.pop("stiffness_ratio", None)
        return known if friction is None else known | {"stiffness_ratio": self.stiffness_ratio}


class _ElasticRun:
    """Common records of runs with elastic contacts: energies, and friction if there is any."""

    each_step = False

    def __init__(self, context: StepContext, settings: ElasticSettings) -> None:
        self.context, self.friction = context, settings.friction(context)
        self.name, self.settings = settings.name, settings.shown(self.friction)
        self.stages: tuple[str, ...] = settings.stages
        more = ("friction", "tangential") if self.friction else ()
        self.measures: tuple[str, ...] = (*settings.energies, *more)
        self.forces: tuple[str, ...] = ("f", "f_t") if self.friction else ("f",)
        scene = context.scene
        self._no_reactions = np.zeros(joint_gaps(scene, scene.initial).size)
        self._totals = 4 if self.friction else 3  # of ``Passes.energy``

    def _at_start(self, contacts: ContactState) -> FloatArray:
        """Energies (3 or 4,) of the initial state, the reference of later ones."""
        return np.array([0.0, 0.0, -contacts.energy, 0.0][: self._totals])

    def _record(
        self,
        contacts: ContactState,
        total: FloatArray,
        stage: Stage | None = None,
        solution: StepSolution | None = None,
    ) -> StepRecord:
        """The record of a state, with the ``total`` energies since the start, ``Passes.energy``."""
        reactions = self._no_reactions
        if solution is not None and solution.joint_forces is not None:
            reactions = solution.joint_forces
        lost, work, error = total[:3].tolist()
        elastic, forces = contacts.energy, {"f": contacts.forces}
        measures = {"elastic": elastic, "dissipated": lost, "work": work}
        measures["scheme_error"] = error + elastic
        if contacts.tangential is not None:
            forces["f_t"] = contacts.tangential
            measures |= {"friction": float(total[3]), "tangential": contacts.energy_t}
        stages = {} if stage is None else {"step": stage}
        overlap = deepest(contacts.phi)
        return StepRecord(contacts, forces, stages, measures, overlap, joint_forces=reactions)


# --- compiled loops ------------------------------------------------------------------------


@dataclass(frozen=True)
class SphereSnapshot(Snapshot):
    """Snapshot of compiled loops: ``energy`` (J) as in ``Passes``, ``force`` (nb, 6) of Verlet."""

    energy: FloatArray
    springs: Memory | None
    force: FloatArray | None

    def stored(self) -> Arrays:
        """The arrays by name."""
        arrays: dict[str, NDArray[Any]] = {"energy": self.energy}
        if self.springs is not None:
            arrays |= {"spring_ids": self.springs.ids, "springs": self.springs.values}
        return arrays | ({} if self.force is None else {"force": self.force})


@dataclass(frozen=True)
class Taken:
    """The result of compiled loops; ``force`` as in ``SphereSnapshot``."""

    ended: Integration
    stage: Stage | None = None
    force: FloatArray | None = None


Loops = Callable[[SphereStepper, SphereSnapshot, int], Taken]  # up to a number of steps


class SphereRun(_ElasticRun):
    """Steps of spheres and walls in compiled loops, many at a time.

    ``forces_first`` : whether the loops start from the forces of a state.
    """

    def __init__(
        self,
        context: StepContext,
        settings: ElasticSettings,
        loops: Loops,
        forces_first: bool = False,
    ) -> None:
        super().__init__(context, settings)
        self._spheres, self._loops = SphereStepper(context.scene, self.friction), loops
        self._forces_first = forces_first
        self._last: Memory | None = None  # the springs that the loops have

    def begin(self, state: State) -> Advance[SphereSnapshot]:
        """The snapshot of an initial state, and its record."""
        spheres = self._spheres
        force = spheres.forces(state) if self._forces_first else None
        springs = self._springs()
        contacts = spheres.contacts(state)
        energy = self._at_start(contacts)
        snapshot = SphereSnapshot(0, state, energy, springs, force)
        return Advance(snapshot, self._record(contacts, energy))

    def restore(self, saved: Checkpoint) -> SphereSnapshot:
        """The snapshot that was saved."""
        arrays = saved.memory
        names: tuple[str, ...] = ("energy",)
        names += ("spring_ids", "springs") if self.friction else ()
        names += ("force",) if self._forces_first else ()
        if not set(names) <= set(arrays):
            raise without_memory(saved, names)
        springs = Memory(arrays["spring_ids"], arrays["springs"]) if self.friction else None
        force = arrays["force"] if self._forces_first else None
        return SphereSnapshot(saved.step, saved.state, arrays["energy"], springs, force)

    def advance(self, snapshot: SphereSnapshot, steps: int) -> Advance[SphereSnapshot]:
        """Take up to ``steps`` steps; fewer, with a ``failure``, where one fails."""
        spheres, dt = self._spheres, self.context.dt
        if snapshot.springs is not None and snapshot.springs is not self._last:
            spheres.memory = snapshot.springs
        taken = self._loops(spheres, snapshot, steps)
        ended, springs = taken.ended, self._springs()
        contacts, why = spheres.contacts(ended.state), _failure(spheres, ended, dt)
        step, energy = (
            snapshot.step + ended.done,
            np.asarray(snapshot.energy + np.asarray(ended.energy)),
        )
        state = ended.state.at(step * dt)
        record = self._record(contacts, energy, taken.stage) if ended.done else None
        failure = Failure(why, None, state) if why else None
        return Advance(SphereSnapshot(step, state, energy, springs, taken.force), record, failure)

    def _springs(self) -> Memory | None:
        """The springs of friction after the last step."""
        self._last = self._spheres.memory if self.friction else None
        return self._last


def _failure(spheres: SphereStepper, ended: Integration, h: float) -> str:
    """Why steps ended early; "" if they did not."""
    if ended.outcome == DONE:
        return ""
    why = _WHY[ended.outcome].format(residual=ended.missed)
    label = spheres.scene.bodies.label
    if ended.outcome == TOO_FAST:
        speed = np.linalg.norm(ended.state.velocity, axis=1)
        k = int(np.argmax(speed))
        why += f": {label(k)}, {h * speed[k]:.3g} m"
    coming = State(0.0, move(ended.state, ended.state.v, h), ended.state.v)
    contacts = detect(spheres.scene, coming, spheres.skin)
    if contacts.nc:
        worst = int(np.argmin(contacts.phi))
        i, j = contacts.bodies[worst]
        pair = f"{label(i)} with {label(j)}, gap {contacts.phi[worst]:.3g} m"
        why += f"; the deepest contact is of {pair}"
    return f"{why}; the time step may be too large"


# --- passes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ElasticSnapshot(Snapshot):
    """A snapshot of a run of passes; ``energy`` (3 or 4,) since the start, as in ``Passes``, J."""

    energy: FloatArray
    springs: SlidingSprings | None  # of friction; None without

    def stored(self) -> Arrays:
        """The arrays by name."""
        springs = {} if self.springs is None else self.springs.stored()
        return {"energy": self.energy, **springs}


class PassesRun(_ElasticRun):
    """Steps that follow one another, each by passes of convex problems."""

    def __init__(
        self,
        context: StepContext,
        settings: ElasticSettings,
        increments: Increments,
        near: VerletList,
    ) -> None:
        super().__init__(context, settings)
        self._increments, self._near = increments, near

    def begin(self, state: State) -> Advance[ElasticSnapshot]:
        """The snapshot of an initial state, without springs, and its record."""
        springs = SlidingSprings.none(state.dim) if self.friction else None
        contacts = self._contacts(state, springs)
        energy = self._at_start(contacts)
        return Advance(ElasticSnapshot(0, state, energy, springs), self._record(contacts, energy))

    def restore(self, saved: Checkpoint) -> ElasticSnapshot:
        """The snapshot that was saved."""
        none = SlidingSprings.none(saved.state.dim)
        names = ("energy", *none.stored()) if self.friction else ("energy",)
        if not set(names) <= set(saved.memory):
            raise without_memory(saved, names)
        springs = SlidingSprings.restored(saved.memory) if self.friction else None
        return ElasticSnapshot(saved.step, saved.state, saved.memory["energy"], springs)

    def advance(self, snapshot: ElasticSnapshot, steps: int) -> Advance[ElasticSnapshot]:
        """Take up to ``steps`` steps, until one fails or is not certified."""
        started, state, springs = clock(), snapshot.state, snapshot.springs
        energy, worst, passes, done = np.zeros(self._totals), 0.0, 0, 0
        ok, claimed, solution = True, True, None
        failed: tuple[str, StepSolution | SolveFailed | None] | None = None
        while done < steps and failed is None:
            try:
                taken = self._increments.step(state, springs)
            except SolveFailed as error:
                failed = str(error), error
                break
            why = taken.failure or self._uncertified(taken)
            if why:
                failed = why, taken.solution
                break
            state, done, passes = taken.state, done + 1, passes + taken.passes
            energy, worst = energy + taken.energy, max(worst, taken.residual)
            ok, claimed = ok and taken.ok, claimed and taken.claimed
            springs, solution = taken.springs, taken.solution
        stage = Stage(worst, ok, claimed, passes, clock() - started, "")
        total, step = np.asarray(snapshot.energy + energy), snapshot.step + done
        shown = self._contacts(state, springs) if done else None
        record = None if shown is None else self._record(shown, total, stage, solution)
        state = state.at(step * self.context.dt)
        failure = None if failed is None else Failure(*failed, state)
        return Advance(ElasticSnapshot(step, state, total, springs), record, failure)

    def _uncertified(self, taken: Passes) -> str:
        """Why a step without a certificate ends the run; "" if it does not."""
        if taken.ok or not self.context.strict:
            return ""
        if taken.solution is None:
            return _WHY[NOT_CERTIFIED].format(residual=taken.residual)
        said = f"solver status {taken.solution.status!r}"
        return f"the certificate fails at {taken.residual:.1e}: {said}"

    def _contacts(self, state: State, springs: SlidingSprings | None) -> ContactState:
        """Contacts of a state, with the forces of friction."""
        contacts = contact_state(self.context.scene, state, self._near)
        return contacts if springs is None else springs.shown(contacts)
