"""A run of a method: the loop over steps, what it records and when it is saved."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

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
from cdopt.scene import State

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
    """A run of so many ``steps`` of a method, with a frame after ``every`` of them."""

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
        self._neighbours, self._bodies = VerletList(run.scene), FreeBodies(run.scene)
        self._output = 0.0  # seconds that recording the last row took
        columns = tuple(self._row(0, run.scene.initial))
        self.header = Header(run.scene, json.loads(json.dumps(settings)), method.forces, columns)

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

    def _initial(self) -> tuple[dict[str, float], Frame]:
        """Diagnostics and frame of the initial state."""
        state = self.run.scene.initial
        if isinstance(self.method, Integrator):
            taken = self.method.begin(self.run, state)
            found = _contacts(taken)
            row = self._row(0, state, found, taken, found.nc)
            return row, _frame(0, state, found, taken.forces)
        contacts, seconds = self._detect(state)
        none, vectors = np.zeros(0), np.zeros((0, state.dim))
        forces = {name: vectors if is_tangential(name) else none for name in self.method.forces}
        frame = Frame(0, state, none.astype(int), none, vectors, vectors, forces)
        return self._row(0, state, contacts, None, 0, seconds), frame

    def _begin(self, row: dict[str, float], frame: Frame) -> Checkpoint:
        """Record the initial state."""
        checkpoint = Checkpoint(0, frame.state, dict(self.run.memory))
        self._store.add(list(row.values()), frame)
        self._store.commit(checkpoint)
        return checkpoint

    def _go(self, start: Checkpoint, trajectory: Trajectory) -> None:
        """Take the steps that are left; save them however the run ends."""
        self.run.memory, self._last = dict(start.memory), start
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
            with interrupts_delayed():
                self._store.commit(self._last, final=True)

    def _step_by_step(self, method: Method, start: Checkpoint) -> None:
        """Steps of a method that is given the contacts."""
        state = start.state
        contacts, _ = self._detect(state)
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
                row = self._row(k, taken.state, contacts, taken, contacts.nc)
                self._record(k, state, row, _frame(k, state, contacts, taken.forces))
                self.progress(k, self.steps, f"t = {state.t:.6g} s, {contacts.nc:,} contacts")
            if taken.failure:
                self._fail(k + 1, state, 0, taken.failure, taken.solution)

    def _record(self, k: int, state: State, row: dict[str, float], frame: Frame | None) -> None:
        """Record a step, and save it if it is time to; a Ctrl-C waits."""
        with interrupts_delayed():
            started = clock()
            self._store.add(list(row.values()), frame)
            self._last = trusted(Checkpoint, k, state, dict(self.run.memory))
            self._store.commit(self._last)
            self._output = clock() - started

    def _take(self, method: Method, k: int, state: State, contacts: Contacts) -> StepTaken:
        """One step; one that fails is recorded before anything is raised."""
        try:
            taken = method.step(self.run, state, contacts)
        except SolveFailed as error:
            self._fail(k, state, contacts.nc, str(error), error)
        if self.run.strict and not taken.ok:
            why = "; ".join(
                f"{name}: residual {stage.residual:.1e}, the solver says {stage.status!r}"
                for name, stage in taken.stages.items()
                if not stage.ok
            )
            self._fail(k, taken.state, contacts.nc, why, taken.solution, taken)
        return taken

    def _fail(
        self, k: int, state: State, nc: int, why: str, source: Any, taken: StepTaken | None = None
    ) -> NoReturn:
        """Record that step k failed, and raise; ``source`` is a solution or an exception."""
        self._store.add(list(self._row(k, state, None, taken, nc).values()))
        t = k * self.run.dt
        failure = StepFailed(
            f"the step to t = {t:g} s has no certified answer: {why}",
            backend=getattr(source, "backend", ""),
            status=getattr(source, "status", ""),
            **{name: getattr(source, name, None) for name in ("problem", "proof", "raw")},
        )
        failure.t = t
        if isinstance(source, StepSolution):
            failure.solution = source
        raise failure from (source if isinstance(source, BaseException) else None)

    def _detect(self, state: State) -> tuple[Contacts, float]:
        """Contacts for a step from this state, and how long it took."""
        started, scene = clock(), self.run.scene
        margin = safe_margins(scene, state, self.run.dt)
        contacts = detect(scene, state, margin, self._neighbours)
        if scene.body_restitution.any():  # a body that is hit may fly on within the step
            for _ in range(_HITS):
                wider = margin.copy()
                pairs = contacts.bodies[~scene.bodies.fixed[contacts.bodies].any(axis=1)]
                for i, j in (pairs.T, pairs.T[::-1]):
                    np.maximum.at(wider, i, margin[j])
                if np.array_equal(wider, margin):
                    break
                margin = wider
                contacts = detect(scene, state, margin, self._neighbours)
        return contacts, clock() - started

    def _row(
        self,
        k: int,
        state: State,
        after: Contacts | ContactState | None = None,
        taken: StepTaken | None = None,
        nc: int = 0,
        detect_seconds: float = 0.0,
    ) -> dict[str, float]:
        """Diagnostics by name; a dot separates a vector's name from its component.

        ``after`` are the contacts at the end of the step, ``nc`` counts those at its start. A
        step that left nothing has None for ``taken``, and so has the initial state.
        """
        ok = taken.ok if taken is not None else k == 0
        depth = np.nan if after is None else max(0.0, -float(after.phi.min(initial=0.0)))
        row = {"step": float(k), "time": k * self.run.dt, "ok": float(ok), "contacts": float(nc)}
        row |= self._bodies.totals(state)
        row["overlap"] = depth
        for name in self.method.stages:
            numbers = (np.inf, 0.0, -1.0, 0.0) if k else (0.0, 1.0, 0.0, 0.0)
            if taken is not None and k:
                stage = taken.stages[name]
                numbers = (stage.residual, stage.claimed, stage.iterations, stage.seconds)
            names = ("residual", "claimed", "iterations", "seconds")
            row |= {f"{what}_{name}": float(x) for what, x in zip(names, numbers, strict=True)}
        for name in self.method.measures:
            row[name] = taken.measures[name] if taken is not None else np.nan if k else 0.0
        row["seconds_detect"] = detect_seconds
        row["seconds_assemble"] = 0.0 if taken is None else taken.seconds_assemble
        row["seconds_output"] = self._output
        return row


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


@contextlib.contextmanager
def interrupts_delayed() -> Iterator[None]:
    """A Ctrl-C in the block acts at its end, so that nothing is left half written.

    Only the main thread of a program receives Ctrl-C; elsewhere this does nothing.
    """
    before: Any = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received and callable(before):
        before(*received[-1])
