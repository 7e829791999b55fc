"""A run of a method, recorded in memory or in a file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, NoReturn

import numpy as np

from cdopt._util.checks import read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import CdoptError, InvalidInput, SolveFailed
from cdopt._util.progress import ProgressCallback
from cdopt.dynamics.method import Failure, M, StepContext, Stepper, StepRecord
from cdopt.dynamics.records import Checkpoint, Frame, FreeBodies, Header, MemoryStore
from cdopt.dynamics.trajectory import Trajectory
from cdopt.dynamics.trajectory_file import FileStore, FileWriter
from cdopt.problem.solution import StepSolution
from cdopt.scene import State

_AT_START, _FAILED = (0.0, 1.0, 0.0, 0.0), (np.inf, 0.0, -1.0, 0.0)  # numbers of a stage


class StepFailed(SolveFailed):
    """A step of a simulation has no certified answer.

    Attributes
    ----------
    t : time at the end of that step, s.
    trajectory : up to it, with its diagnostics.
    solution : the StepSolution that failed, or None if the solver left nothing.
    """

    t: float
    trajectory: Trajectory
    solution: StepSolution | None = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a simulation; ``trajectory`` is the run so far."""

    trajectory: Trajectory


class Simulation(Generic[M]):
    """A run of a method, ``steps`` steps long, with a frame after ``every`` of them."""

    _store: MemoryStore | FileWriter

    def __init__(
        self,
        context: StepContext,
        stepper: Stepper[M],
        steps: int,
        every: int,
        progress: ProgressCallback,
    ) -> None:
        self.context, self.stepper, self.steps = context, stepper, steps
        self.every, self.progress, self._interrupts = every, progress, Interrupts()
        settings = {"method": stepper.name, "dt": context.dt, "every": every, **stepper.settings}
        if context.friction is not None:
            mu = context.friction.mu
            settings["friction"] = "of the scene" if mu is None else mu
        self._no_totals = dict.fromkeys(FreeBodies(context.scene).names, np.nan)
        self._output = 0.0  # seconds that recording the last row took
        columns = tuple(self._row(0, context.scene.initial, None, 0))
        known = json.loads(json.dumps(settings))
        self.header = Header(context.scene, known, stepper.forces, columns)

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
                start = self.stepper.restore(FileStore(path).checkpoint())
                writer.resume()
            else:
                start = self._begin(*initial)
            trajectory = Trajectory(FileStore(path), path)
            self._go(start, trajectory)
        finally:
            writer.close()
        return trajectory

    def _require_same(self, saved: Header) -> None:
        scene = self.context.scene
        if saved.scene.to_toml() != scene.to_toml():
            raise InvalidInput("scene", repr(scene), f"that of the run, {saved.scene!r}")
        now, before = self.header.settings, saved.settings
        for name in dict.fromkeys([*now, *before]):
            if now.get(name) != before.get(name):
                expected = f"{before.get(name)!r}, as in the run to resume"
                raise InvalidInput(name, repr(now.get(name)), expected)
        was, here = ({*header.columns, *header.forces} for header in (saved, self.header))
        if was != here:
            other = ", ".join(sorted(was ^ here))
            raise InvalidInput("out", f"a run of another version, by {other}", "a new file")

    # --- the loop ----------------------------------------------------------------------

    def _initial(self) -> tuple[M, dict[str, float], Frame]:
        """The snapshot, diagnostics and frame of the initial state."""
        begun = self.stepper.begin(self.context.scene.initial)
        snapshot, record = begun.snapshot, begun.record
        if record is None:
            raise InvalidInput("method", "an initial state without a record", "a StepRecord")
        row = self._row(0, snapshot.state, record, record.contacts.nc)
        return snapshot, row, _frame(0, snapshot.state, record)

    def _begin(self, snapshot: M, row: dict[str, float], frame: Frame) -> M:
        self._store.add(list(row.values()), frame, snapshot.state)
        self._store.commit(_checkpoint(snapshot))
        return snapshot

    def _go(self, start: M, trajectory: Trajectory) -> None:
        """Take the steps that are left; save them however the run ends."""
        self._last = start
        with self._interrupts.handled():
            self._taken(start, trajectory)

    def _taken(self, start: M, trajectory: Trajectory) -> None:
        """Take the steps; what ends them has the ``trajectory``."""
        try:
            self._advance(start)
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
                self._store.commit(_checkpoint(self._last), final=True)

    def _advance(self, snapshot: M) -> None:
        """The steps that are left, from frame to frame or one by one."""
        while snapshot.step < self.steps:
            stop = min((snapshot.step // self.every + 1) * self.every, self.steps)
            taken = self.stepper.advance(snapshot, stop - snapshot.step)
            if taken.record is not None:
                snapshot = taken.snapshot
                self._record(snapshot, taken.record)
            if taken.failure is not None:
                self._fail(snapshot.step + 1, taken.failure)

    def _record(self, snapshot: M, record: StepRecord) -> None:
        """Record a snapshot, and save it if it is time to; a Ctrl-C waits."""
        k, state, nc = snapshot.step, snapshot.state, record.contacts.nc
        row = self._row(k, state, record, nc)
        # several steps end at a frame, or before one that failed
        shown = not self.stepper.each_step or k % self.every == 0 or k == self.steps
        frame = _frame(k, state, record) if shown else None
        with self._interrupts.delayed():
            started = clock()
            self._store.add(list(row.values()), frame, state)
            self._last = snapshot
            self._store.commit(_checkpoint(snapshot))
            self._output = clock() - started
        worst = max((stage.residual for stage in record.stages.values()), default=0.0)
        certified = f", residual {worst:.0e}" if record.stages else ""
        self.progress(k, self.steps, f"t = {state.t:.6g} s, {nc:,} contacts{certified}")

    def _fail(self, k: int, failure: Failure) -> NoReturn:
        row = self._row(k, failure.state, failure.record, failure.contacts)
        self._store.add(list(row.values()), None, failure.state)
        t, source = k * self.context.dt, failure.evidence
        error = StepFailed(
            f"the step to t = {t:g} s has no certified answer: {failure.why}",
            backend=getattr(source, "backend", ""),
            status=getattr(source, "status", ""),
            **{name: getattr(source, name, None) for name in ("problem", "proof", "raw")},
        )
        error.t = t
        if isinstance(source, StepSolution):
            error.solution = source
        raise error from (source if isinstance(source, BaseException) else None)

    def _row(self, k: int, state: State, record: StepRecord | None, nc: int) -> dict[str, float]:
        """Diagnostics by name, "vector.component"; a step without a result has no record."""
        ok = record.ok if record is not None else k == 0
        row = {
            "step": float(k),
            "time": k * self.context.dt,
            "ok": float(ok),
            "contacts": float(nc),
        }
        row |= self._no_totals  # the store enters them
        row["overlap"] = np.nan if record is None else record.overlap
        names = ("residual", "claimed", "iterations", "seconds")
        for name in self.stepper.stages:
            numbers = _FAILED if k else _AT_START
            if record is not None and k:
                stage = record.stages[name]
                numbers = (stage.residual, stage.claimed, stage.iterations, stage.seconds)
            row |= {f"{what}_{name}": float(x) for what, x in zip(names, numbers, strict=True)}
        for name in self.stepper.measures:
            row[name] = np.nan if record is None else record.measures[name]
        row["seconds_detect"] = 0.0 if record is None else record.seconds_detect
        row["seconds_assemble"] = 0.0 if record is None else record.seconds_assemble
        row["seconds_output"] = self._output
        return row


def _checkpoint(snapshot: M) -> Checkpoint:
    return Checkpoint(snapshot.step, snapshot.state, dict(snapshot.stored()))


def _frame(k: int, state: State, record: StepRecord) -> Frame:
    contacts = record.contacts
    return Frame._of(
        step=k,
        state=state,
        contact_ids=contacts.contact_ids,
        phi=contacts.phi,
        normals=contacts.normals,
        points=contacts.points,
        forces=record.forces,
        joint_forces=read_only(record.joint_forces),
    )


class Interrupts:
    """Ctrl-C in a run, in the main thread: it acts at once, or after a block ``delayed``."""

    def __init__(self) -> None:
        self._received: list[Any] | None = None  # in such a block

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Take the signal in this block; afterwards it goes where it went before."""
        before: Any = signal.getsignal(signal.SIGINT)
        if before is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def act(*arguments: Any) -> None:
            if self._received is not None:
                self._received.append(arguments)
            elif callable(before):
                before(*arguments)

        signal.signal(signal.SIGINT, act if callable(before) else before)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextlib.contextmanager
    def delayed(self) -> Iterator[None]:
        """A Ctrl-C in the block acts at its end."""
        self._received = received = list[Any]()
        try:
            yield
        finally:
            self._received = None
        if received:
            signal.raise_signal(signal.SIGINT)
