"""A run of a method: the loop over steps, what it records and when it is saved."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util.arguments import trusted
from cdopt._util.compiled import clock
from cdopt._util.errors import CdoptError, InvalidInput, SolveFailed
from cdopt._util.progress import ProgressCallback
from cdopt.collision import Contacts, VerletList, detect, safe_margins
from cdopt.dynamics.free_bodies import FreeBodies
from cdopt.dynamics.method import Integrator, Method, StepContext, StepTaken
from cdopt.dynamics.records import (
    Checkpoint,
    ContactState,
    Frame,
    Header,
    MemoryStore,
    is_tangential,
)
from cdopt.dynamics.trajectory import Trajectory
from cdopt.dynamics.trajectory_file import FileStore, FileWriter
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

_AXES = "xyz"
_HITS = 4  # bodies in a row that may take over the speed of the first in one step


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
    """A run of a method.

    Parameters
    ----------
    run : scene, dt and whether a step that fails ends it.
    steps : how many to take. method : how.
    every : steps from frame to frame.
    progress : called with (done, total, text).
    """

    _store: MemoryStore | FileWriter

    def __init__(
        self,
        run: StepContext,
        steps: int,
        method: Method | Integrator,
        every: int,
        progress: ProgressCallback,
    ) -> None:
        self.run, self.steps, self.method = run, steps, method
        self.every, self.progress = every, progress
        settings = {"method": method.name, "dt": run.dt, "every": every, **method.settings()}
        if run.friction is not None:
            settings["friction"] = "of the scene" if run.friction is True else run.friction
        columns = _columns(run.scene, method)
        self.header = Header(run.scene, json.loads(json.dumps(settings)), method.forces, columns)
        self._neighbours = VerletList(run.scene)
        self._bodies = FreeBodies(run.scene)
        self._interrupts = _Interrupts()
        self._output = 0.0  # seconds that recording the last row took

    def in_memory(self) -> Trajectory:
        """Run, and keep everything in memory."""
        self._store = store = MemoryStore(self.header)
        trajectory = Trajectory(store)
        self._go(self._begin(*self._initial()), trajectory)
        return trajectory

    def in_file(self, path: Path, resume: bool) -> Trajectory:
        """Run, or resume a run, in a file."""
        resuming = resume and os.path.lexists(path)
        initial = None if resuming else self._initial()  # a run that is refused leaves no file
        self._store = writer = FileWriter(path, None if resuming else self.header)
        try:
            if initial is None:
                self._require_same(writer.header)
                start = writer.resume()
            else:
                start = self._begin(*initial)
            trajectory = Trajectory(FileStore(path), path)
            self._go(start, trajectory)
        finally:
            writer.close()
        return trajectory

    def _require_same(self, saved: Header) -> None:
        """Refuse to resume another run."""
        scene = self.run.scene
        if saved.scene.to_toml() != scene.to_toml():
            raise InvalidInput("scene", repr(scene), f"that of the run, {saved.scene!r}")
        now, before = self.header.settings, saved.settings
        for name in dict.fromkeys([*now, *before]):
            if now.get(name) != before.get(name):
                expected = f"{before.get(name)!r}, as in the run to resume"
                raise InvalidInput(name, repr(now.get(name)), expected)
        if saved.columns != self.header.columns:
            other = ", ".join(sorted(set(saved.columns) ^ set(self.header.columns)))
            raise InvalidInput("out", f"a run of another version, by {other}", "a new file")

    # --- the loop ----------------------------------------------------------------------

    def _initial(self) -> tuple[list[float], Frame]:
        """Diagnostics and frame of the initial state."""
        scene = self.run.scene
        state = scene.initial
        if isinstance(self.method, Integrator):
            taken = self.method.begin(self.run, state)
            return self._row_of_many(0, taken), _frame(0, state, _contacts(taken), taken.forces)
        contacts, seconds = self._detect(state)
        none = np.empty((0, scene.dim))
        forces = {name: none if is_tangential(name) else np.empty(0) for name in self.method.forces}
        row = self._row(0, state, contacts, None, 0, seconds)
        return row, Frame(0, state, np.empty(0, dtype=np.int64), np.empty(0), none, none, forces)

    def _begin(self, row: list[float], frame: Frame) -> Checkpoint:
        """Record the initial state."""
        checkpoint = Checkpoint(0, frame.state, dict(self.run.memory))
        self._store.add(row, frame)
        self._store.commit(checkpoint)
        return checkpoint

    def _go(self, start: Checkpoint, trajectory: Trajectory) -> None:
        """Take the steps that are left; save them however the run ends."""
        self.run.memory = dict(start.memory)
        self._last = start
        with self._interrupts:
            self._stepping(start, trajectory)

    def _stepping(self, start: Checkpoint, trajectory: Trajectory) -> None:
        """The steps themselves, and what the ways to end mean."""
        try:
            if isinstance(self.method, Integrator):
                self._integrate(self.method, start)
            else:
                self._step_by_step(self.method, start)
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
            with self._interrupts.delayed():
                self._store.commit(self._last, final=True)

    def _step_by_step(self, method: Method, start: Checkpoint) -> None:
        """Steps of a method that is given the contacts."""
        state = start.state
        contacts, seconds = self._detect(state)
        for k in range(start.step + 1, self.steps + 1):
            taken = self._take(method, k, state, contacts)
            state = taken.state.at(k * self.run.dt)
            after, seconds = self._detect(state)
            row = self._row(k, state, after, taken, contacts.nc, seconds)
            recorded = k % self.every == 0 or k == self.steps
            frame = _frame(k, state, contacts, taken.forces) if recorded else None
            self._record(k, state, row, frame)
            worst = max((stage.residual for stage in taken.stages.values()), default=0.0)
            text = f"t = {state.t:.6g} s, {contacts.nc:,} contacts, residual {worst:.0e}"
            self.progress(k, self.steps, text)
            contacts = after

    def _integrate(self, method: Integrator, start: Checkpoint) -> None:
        """Steps of an integrator, from frame to frame."""
        k, state = start.step, start.state
        while k < self.steps:
            stop = min((k // self.every + 1) * self.every, self.steps)
            taken = method.integrate(self.run, state, stop - k)
            k += taken.steps
            state = taken.state.at(k * self.run.dt)
            if taken.steps:
                contacts = _contacts(taken)
                frame = _frame(k, state, contacts, taken.forces)
                self._record(k, state, self._row_of_many(k, taken), frame)
                self.progress(k, self.steps, f"t = {state.t:.6g} s, {contacts.nc:,} contacts")
            if taken.failure:
                self._store.add(self._row(k + 1, state, None, None, 0, 0.0))
                failure = self._failure(k + 1, taken.failure, taken.solution)
                if isinstance(taken.solution, StepSolution):
                    failure.solution = taken.solution
                raise failure

    def _record(self, k: int, state: State, row: list[float], frame: Frame | None) -> None:
        """Record a step, and save it if it is time to; a Ctrl-C waits."""
        with self._interrupts.delayed():
            started = clock()
            self._store.add(row, frame)
            self._last = trusted(Checkpoint, k, state, dict(self.run.memory))
            self._store.commit(self._last)
            self._output = clock() - started

    def _take(self, method: Method, k: int, state: State, contacts: Contacts) -> StepTaken:
        """One step; one that fails is recorded before anything is raised."""
        try:
            taken = method.step(self.run, state, contacts)
        except SolveFailed as error:
            self._store.add(self._row(k, state, None, None, contacts.nc, 0.0))
            raise self._failure(k, str(error), error) from error
        if self.run.strict and not taken.ok:
            self._store.add(self._row(k, taken.state, None, taken, contacts.nc, 0.0))
            why = "; ".join(
                f"{name}: residual {stage.residual:.1e}, the solver says {stage.status!r}"
                for name, stage in taken.stages.items()
                if not stage.ok
            )
            failure = self._failure(k, why, taken.solution)
            failure.solution = taken.solution
            raise failure
        return taken

    def _failure(self, k: int, why: str, source: Any) -> StepFailed:
        """Step k failed; ``source`` is the solution or the exception that says more."""
        t = k * self.run.dt
        names = ("problem", "proof", "raw")
        failure = StepFailed(
            f"the step to t = {t:g} s has no certified answer: {why}",
            backend=getattr(source, "backend", ""),
            status=getattr(source, "status", ""),
            **{name: getattr(source, name, None) for name in names},
        )
        failure.t = t
        return failure

    def _detect(self, state: State) -> tuple[Contacts, float]:
        """Contacts for a step from this state, and how long it took."""
        started = clock()
        margin = safe_margins(self.run.scene, state, self.run.dt)
        contacts = detect(self.run.scene, state, margin, self._neighbours)
        if self.run.scene.body_restitution.any():  # a body that is hit may fly on within the step
            for _ in range(_HITS):
                wider = margin.copy()
                pairs = contacts.bodies[~self.run.scene.bodies.fixed[contacts.bodies].any(axis=1)]
                for i, j in (pairs.T, pairs.T[::-1]):
                    np.maximum.at(wider, i, margin[j])
                if np.array_equal(wider, margin):
                    break
                margin = wider
                contacts = detect(self.run.scene, state, margin, self._neighbours)
        return contacts, clock() - started

    # --- what is recorded --------------------------------------------------------------

    def _row_of_many(self, k: int, taken: StepTaken) -> list[float]:
        """Diagnostics of an integrator's steps, which end with step k."""
        contacts = _contacts(taken)
        return self._row(k, taken.state, contacts, taken, contacts.nc, 0.0)

    def _row(
        self,
        k: int,
        state: State,
        after: Contacts | ContactState | None,
        taken: StepTaken | None,
        nc: int,
        detect_seconds: float,
    ) -> list[float]:
        """Diagnostics in the order of ``_columns``.

        ``after`` are the contacts at the end of the step, ``nc`` counts those at its start. A
        step that left nothing has None for ``taken``, and so has the initial state.
        """
        ok = taken.ok if taken is not None else k == 0
        depth = np.nan if after is None else max(0.0, -float(after.phi.min(initial=0.0)))
        row = [float(k), k * self.run.dt, float(ok), float(nc)]
        row += self._bodies.totals(state)
        row.append(depth)
        for name in self.method.stages:
            row += _stage_numbers(k, name, taken)
        for name in self.method.measures:
            row.append(taken.measures[name] if taken is not None else np.nan if k else 0.0)
        row += [detect_seconds, 0.0 if taken is None else taken.seconds_assemble, self._output]
        return row


def _columns(scene: Scene, method: Method | Integrator) -> tuple[str, ...]:
    """Names of the diagnostics; a dot separates a vector's name from its component."""
    axes = _AXES[: scene.dim]
    stages = (
        f"{what}_{name}"
        for name in method.stages
        for what in ("residual", "claimed", "iterations", "seconds")
    )
    return (
        *("step", "time", "ok", "contacts", "kinetic", "potential"),
        *(f"momentum.{axis}" for axis in axes),
        *(f"angular_momentum.{axis}" for axis in (axes if scene.dim == 3 else "z")),
        *("overlap", *stages, *method.measures),
        *("seconds_detect", "seconds_assemble", "seconds_output"),
    )


def _stage_numbers(k: int, name: str, taken: StepTaken | None) -> list[float]:
    """Residual, claim, iterations and seconds of a stage; the initial state needs no solve."""
    if taken is None or not k:
        return [np.inf, 0.0, -1.0, 0.0] if k else [0.0, 1.0, 0.0, 0.0]
    stage = taken.stages[name]
    return [stage.residual, float(stage.claimed), float(stage.iterations), stage.seconds]


def _contacts(taken: StepTaken) -> ContactState:
    """The contacts that an integrator always gives."""
    if taken.contacts is None:
        raise InvalidInput("method", "steps without contacts", "a ContactState in StepTaken")
    return taken.contacts


def _frame(k: int, state: State, contacts: Contacts | ContactState, forces: Any) -> Frame:
    return Frame._of(
        step=k,
        state=state,
        contact_ids=contacts.contact_ids,
        phi=contacts.phi,
        normals=contacts.normals,
        points=contacts.points,
        forces=forces,
    )


class _Interrupts:
    """Ctrl-C during a run: it acts at once, but waits while something is being recorded.

    Only the main thread of a program receives Ctrl-C; elsewhere this does nothing.
    """

    _waits = False
    _before: Any = None
    _received: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._receive)

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _receive(self, *arguments: Any) -> None:
        if self._waits:
            self._received = arguments
        elif callable(self._before):
            self._before(*arguments)

    @contextlib.contextmanager
    def delayed(self) -> Iterator[None]:
        """A Ctrl-C in the block acts at its end, so that nothing is left half written."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
        received, self._received = self._received, ()
        if received:
            self._receive(*received)
