"""A simulation under way: the loop over steps, what it records and when it makes it last."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util.errors import CdoptError, InvalidInput, SolveFailed
from cdopt._util.progress import ProgressCallback
from cdopt.collision import Contacts, Neighbours, detect, safe_margins
from cdopt.dynamics import diagnostics
from cdopt.dynamics.frame import Frame
from cdopt.dynamics.interrupts import uninterrupted
from cdopt.dynamics.method import MarchingMethod, Method, Run, StepTaken
from cdopt.dynamics.spheres import Touch
from cdopt.dynamics.store import Checkpoint, Header, MemoryStore
from cdopt.dynamics.trajectory import Trajectory
from cdopt.dynamics.trajectory_file import FileStore, FileWriter, create
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

_COMMIT_SECONDS = 0.5  # of work that a kill may cost, beside the step under way
_COMMIT_BYTES = 2**26  # or memory that may wait for a commit
_AXES = "xyz"


class StepFailed(SolveFailed):
    """A step of a simulation has no certified answer.

    Attributes
    ----------
    t : time at the end of that step, s.
    trajectory : everything before it, and the diagnostics of it.
    solution : the StepSolution that failed, or None if the solver left nothing.
    """

    t: float
    trajectory: Trajectory
    solution: Any = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a simulation; ``trajectory`` is what was done until then."""

    trajectory: Trajectory


class Simulation:
    """A run under way.

    Parameters
    ----------
    scene : the scene. dt : Δt, s. steps : how many to take. method : how.
    every : steps from frame to frame. strict : stop at a step that fails.
    tell : told of (done, total, text).
    """

    def __init__(
        self, scene: Scene, dt: float, steps: int, method: Method | MarchingMethod, every: int,
        strict: bool, tell: ProgressCallback,
    ) -> None:  # fmt: skip
        self.scene, self.dt, self.steps, self.method = scene, dt, steps, method
        self.every, self.strict, self.tell = every, strict, tell
        settings = {"method": method.name, "dt": dt, "every": every, **method.settings()}
        self.header = Header(
            scene, json.loads(json.dumps(settings)), method.forces, _columns(scene, method)
        )
        self._run = Run(scene, dt, strict)
        self._neighbours = Neighbours(scene)
        self._committed = time.perf_counter()
        self._output = 0.0  # seconds since the last row

    # --- where to ----------------------------------------------------------------------

    def in_memory(self) -> Trajectory:
        """Run; all in memory."""
        store = MemoryStore(self.header)
        self._go(store, self._record(store, *self._first()), trajectory := Trajectory(store))
        return trajectory

    def in_file(self, path: Path, resume: bool) -> Trajectory:
        """Run, or go on, in a file."""
        first = None
        if not (resume and os.path.lexists(path)):
            first = self._first()  # a run that is refused leaves no file
            create(path)
        writer = FileWriter(path)
        try:
            if writer.empty:
                writer.start(self.header)
                begun = self._record(writer, *(first or self._first()))
            else:
                self._require_same(writer.header(path))
                begun = writer.checkpoint(path)
                writer.take_back(begun.step)
            self._go(writer, begun, trajectory := Trajectory(FileStore(path), path))
        finally:
            writer.close()
        return trajectory

    def _require_same(self, found: Header) -> None:
        """Refuse to go on with another run."""
        if found.scene.to_toml() != self.scene.to_toml():
            raise InvalidInput("scene", repr(self.scene), f"that of the run, {found.scene!r}")
        now, then = dict(self.header.settings), dict(found.settings)
        for name in dict.fromkeys([*now, *then]):
            if now.get(name) != then.get(name):
                wanted = f"{then.get(name)!r}, as in the run to resume"
                raise InvalidInput(name, repr(now.get(name)), wanted)

    # --- the loop ----------------------------------------------------------------------

    def _first(self) -> tuple[list[float], Frame]:
        """Measures and frame of the initial state."""
        state = self.scene.initial
        if isinstance(self.method, MarchingMethod):
            taken = self.method.begin(self._run, state)
            return self._marked(0, taken), _frame(0, state, _touch(taken), taken)
        contacts, seconds = self._detect(state)
        none = np.empty((0, self.scene.dim))
        forces = {name: np.empty(0) for name in self.method.forces}
        ids = np.empty(0, dtype=np.int64)
        row = self._row(0, state, contacts, None, 0, seconds)
        return row, Frame(0, state, ids, np.empty(0), none, none, forces)

    def _record(
        self, store: MemoryStore | FileWriter, row: list[float], frame: Frame
    ) -> Checkpoint:
        """Record the initial state."""
        checkpoint = Checkpoint(0, self.scene.initial, dict(self._run.memory))
        store.add_row(row)
        store.add_frame(frame)
        store.commit(checkpoint)
        return checkpoint

    def _go(
        self, store: MemoryStore | FileWriter, begun: Checkpoint, trajectory: Trajectory
    ) -> None:
        """Take the steps that are left; whatever ends them, keep what was done."""
        self._run.memory = dict(begun.memory)
        self._last = begun
        try:
            if isinstance(self.method, MarchingMethod):
                self._marches(self.method, store, begun)
            else:
                self._steps(self.method, store, begun)
        except KeyboardInterrupt as error:
            stop = Interrupted(f"at t = {self._last.state.t:g} s")
            stop.trajectory = trajectory
            raise stop from error
        except StepFailed as error:
            error.trajectory = trajectory
            raise
        except CdoptError as error:
            error.add_note(f"in the step from t = {self._last.state.t:g} s")
            raise
        finally:
            with uninterrupted():
                store.commit(self._last)

    def _steps(self, method: Method, store: MemoryStore | FileWriter, begun: Checkpoint) -> None:
        state = begun.state
        contacts, seconds = self._detect(state)
        for k in range(begun.step + 1, self.steps + 1):
            taken = self._take(method, store, k, state, contacts)
            state = State(k * self.dt, taken.state.q, taken.state.v)
            found, seconds = self._detect(state)
            with uninterrupted():
                started = time.perf_counter()
                store.add_row(self._row(k, state, found, taken, contacts.nc, seconds))
                if k % self.every == 0 or k == self.steps:
                    store.add_frame(_frame(k, state, contacts, taken))
                self._last = Checkpoint(k, state, dict(self._run.memory))
                self._commit_in_time(store)
                self._output = time.perf_counter() - started
            worst = max((stage.residual for stage in taken.stages.values()), default=0.0)
            text = f"t = {state.t:.6g} s, {contacts.nc} contacts, residual {worst:.0e}"
            self.tell(k, self.steps, text)
            contacts = found

    def _marches(
        self, method: MarchingMethod, store: MemoryStore | FileWriter, begun: Checkpoint
    ) -> None:
        """Marches from frame to frame."""
        k, state = begun.step, begun.state
        while k < self.steps:
            stop = min((k // self.every + 1) * self.every, self.steps)
            taken = method.march(self._run, state, stop - k)
            k += taken.steps
            state = State(k * self.dt, taken.state.q, taken.state.v)
            if taken.steps:
                with uninterrupted():
                    started = time.perf_counter()
                    store.add_row(self._marked(k, taken))
                    store.add_frame(_frame(k, state, _touch(taken), taken))
                    self._last = Checkpoint(k, state, dict(self._run.memory))
                    self._commit_in_time(store)
                    self._output = time.perf_counter() - started
                text = f"t = {state.t:.6g} s, {_touch(taken).nc} contacts"
                self.tell(k, self.steps, text)
            if taken.failure:
                store.add_row(self._row(k + 1, state, None, None, 0, 0.0))
                failure = self._failure(k + 1, taken.failure, taken.solution)
                if isinstance(taken.solution, StepSolution):
                    failure.solution = taken.solution
                raise failure

    def _marked(self, k: int, taken: StepTaken) -> list[float]:
        """The row of a march that ends in step k."""
        touch = _touch(taken)
        return self._row(k, taken.state, touch, taken, touch.nc, 0.0)

    def _take(
        self, method: Method, store: MemoryStore | FileWriter, k: int, state: State,
        contacts: Contacts,
    ) -> StepTaken:  # fmt: skip
        """One step; one that fails is told in the diagnostics before anything is raised."""
        try:
            taken = method.step(self._run, state, contacts)
        except SolveFailed as error:
            store.add_row(self._row(k, state, None, None, contacts.nc, 0.0))
            raise self._failure(k, str(error), error) from error
        if self.strict and not taken.ok:
            store.add_row(self._row(k, taken.state, None, taken, contacts.nc, 0.0))
            words = "; ".join(
                f"{name}: residual {stage.residual:.1e}, the solver says {stage.status!r}"
                for name, stage in taken.stages.items()
                if not stage.ok
            )
            failure = self._failure(k, words, taken.solution)
            failure.solution = taken.solution
            raise failure
        return taken

    def _failure(self, k: int, words: str, source: Any) -> StepFailed:
        failure = StepFailed(
            f"the step to t = {k * self.dt:g} s has no certified answer: {words}",
            backend=getattr(source, "backend", ""),
            status=getattr(source, "status", ""),
            problem=getattr(source, "problem", None),
            proof=getattr(source, "proof", None),
            raw=getattr(source, "raw", None),
        )
        failure.t = k * self.dt
        return failure

    def _detect(self, state: State) -> tuple[Contacts, float]:
        """Contacts for a step from this state, and how long it took."""
        started = time.perf_counter()
        margin = safe_margins(self.scene, state, self.dt)
        found = detect(self.scene, state, margin, self._neighbours)
        return found, time.perf_counter() - started

    def _commit_in_time(self, store: MemoryStore | FileWriter) -> None:
        """Make it last when enough has gathered."""
        late = time.perf_counter() - self._committed > _COMMIT_SECONDS
        if late or store.pending > _COMMIT_BYTES:
            store.commit(self._last)
            self._committed = time.perf_counter()

    # --- what is recorded --------------------------------------------------------------

    def _row(
        self, k: int, state: State, after: Contacts | Touch | None, taken: StepTaken | None,
        nc: int, detect_seconds: float,
    ) -> list[float]:  # fmt: skip
        """Diagnostics in the order of ``_columns``.

        ``after`` are the contacts at the end of the step, ``nc`` counts those at its start; a
        step that left nothing has None for ``taken``, and so has the initial state.
        """
        scene, method = self.scene, self.method
        ok = taken.ok if taken is not None else k == 0
        depth = np.nan if after is None else max(0.0, -float(after.phi.min(initial=0.0)))
        row = [float(k), k * self.dt, float(ok), float(nc)]
        row += [
            diagnostics.kinetic_energy(scene, state),
            diagnostics.potential_energy(scene, state),
        ]
        row += diagnostics.momentum(scene, state).tolist()
        row += diagnostics.angular_momentum(scene, state).tolist()
        row.append(depth)
        for name in method.stages:
            row += _of_stage(k, name, taken)
        for name in method.measures:
            row.append(taken.measures[name] if taken is not None else np.nan if k else 0.0)
        row += [detect_seconds, 0.0 if taken is None else taken.seconds_assemble, self._output]
        return row


def _columns(scene: Scene, method: Method | MarchingMethod) -> tuple[str, ...]:
    """Names of the diagnostics; a dot parts a vector from its component."""
    axes = _AXES[: scene.dim]
    stages = (
        f"{what}_{name}"
        for name in method.stages
        for what in ("residual", "claimed", "iterations", "seconds")
    )
    return (
        "step", "time", "ok", "contacts", "kinetic", "potential",
        *(f"momentum.{axis}" for axis in axes),
        *(f"angular_momentum.{axis}" for axis in (axes if scene.dim == 3 else "z")),
        "overlap", *stages, *method.measures,
        "seconds_detect", "seconds_assemble", "seconds_output",
    )  # fmt: skip


def _of_stage(k: int, name: str, taken: StepTaken | None) -> list[float]:
    """Residual, claim, iterations and seconds of a stage; of the initial state, nothing amiss."""
    if taken is None:
        return [0.0, 1.0, 0.0, 0.0] if k == 0 else [np.inf, 0.0, -1.0, 0.0]
    stage = taken.stages[name]
    return [stage.residual, float(stage.claimed), float(stage.iterations), stage.seconds]


def _touch(taken: StepTaken) -> Touch:
    """The contacts that a marching method always gives."""
    if taken.touch is None:
        raise InvalidInput("method", "a march without contacts", "a Touch in what it returns")
    return taken.touch


def _frame(k: int, state: State, contacts: Contacts | Touch, taken: StepTaken) -> Frame:
    return Frame(
        step=k,
        state=state,
        contact_ids=contacts.contact_ids,
        phi=contacts.phi,
        normals=contacts.normals,
        points=contacts.points,
        forces=taken.forces,
    )
