"""Simulate a scene: the run of a method, what it records and when; and find where it rests."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np

from cdopt._util import checks
from cdopt._util.arguments import trusted
from cdopt._util.checks import NotNegative, Positive, integer, one_of
from cdopt._util.compiled import clock
from cdopt._util.errors import CdoptError, InvalidInput, SolveFailed, Unsupported
from cdopt._util.processes import MB, physical_memory
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.collision import Contacts, VerletList, detect, safe_margins, step
from cdopt.collision.contact_step import PUSHED, TOUCHING, warn_of_overlaps
from cdopt.dynamics.contact_dynamics import (
    ClassicSteps,
    CompatibleFrictionSteps,
    CompatibleSteps,
    FrictionalSteps,
)
from cdopt.dynamics.elastic import QuasiStaticSteps, VariationalSteps, VelocityVerletSteps
from cdopt.dynamics.records import (
    Checkpoint,
    ContactState,
    Frame,
    FreeBodies,
    Header,
    Integrator,
    MemoryStore,
    Method,
    StepContext,
    StepTaken,
    is_tangential,
)
from cdopt.dynamics.trajectory import Trajectory
from cdopt.dynamics.trajectory_file import FileStore, FileWriter
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State, load

METHODS: dict[str, Callable[..., Method | Integrator]] = {
    "classic-cd": ClassicSteps,
    "compatible-cd": CompatibleSteps,
    "contact-dynamics": FrictionalSteps,
    "compatible-friction": CompatibleFrictionSteps,
    "variational": VariationalSteps,
    "velocity-verlet": VelocityVerletSteps,
    "quasi-static": QuasiStaticSteps,
}

_SUFFIXES = ("", ".vtkhdf", ".hdf")  # of files of runs
_ROUND_OFF = 1e-9  # share by which a duration may miss a whole number of steps
_MOST = 1e12  # steps
_ROW = 100  # bytes of diagnostics, at least
_DT = 1e-3  # s
_WAIT = 0.3  # s, in which a dropped scene must come to rest
_AT_REST = 1e-6  # of the largest load: what the contacts of bodies at rest may leave uncarried
_EARLY, _EXACTLY = 0.03, 1e-12  # s, the share: rest to round-off, as soon, ends the waiting
_HITS = 4  # bodies in a row that may take over the speed of the first in one step


def simulate(
    scene: Scene | str | Path,
    dt: Positive,
    duration: Positive,
    method: str | Method | Integrator | None = None,
    *,
    friction: NotNegative | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    every: Annotated[int, integer(1)] = 1,
    on_failure: Annotated[str, one_of(("stop", "continue"))] = "stop",
    overlaps: str | None = None,
    frictionless: bool = False,
    progress: bool | ProgressCallback = False,
    **options: Any,
) -> Trajectory:
    """Simulate a scene.

    Parameters
    ----------
    scene : a Scene, or what ``cdopt.scene.load`` takes: a scene file, the name of a shipped scene,
        or a generator with parameters, "pyramid:n=8". Its ``power`` is that of the contact forces.
    dt : time step Δt, s.
    duration : s; the last step may pass it.
    method : a name of ``cdopt.dynamics.METHODS`` or a settings object from there. Rigid contacts:
        "classic-cd", "compatible-cd" and, with friction, "contact-dynamics" and
        "compatible-friction". Elastic ones, whose
        stiffness the scene's materials state in N/m^(p−1): "variational", "velocity-verlet" and
        "quasi-static". By default "contact-dynamics" with friction, else "compatible-cd".
    friction : coefficient μ of all contacts; by default those that the scene states, if any. 0 is
        none. Without friction "contact-dynamics" is "classic-cd", and "compatible-friction"
        "compatible-cd".
    out : a new file to stream to, in VTKHDF, which ParaView opens; None keeps all in memory.
        Killed at any moment, it keeps what was done but for the last half second and what is not
        recorded yet.
    resume : go on with the run in ``out``, which ends with the arrays of a run that was never
        killed, bit for bit; start it if there is none. Scene, dt, method, every and options must
        be the same; a longer duration extends the run.
    every : record every so many steps, and the last one. Diagnostics are of all steps with rigid
        contacts, and of the recorded ones with elastic contacts, whose steps between run in one go.
    on_failure : what a step does whose certificate fails, or that leaves no forces: "stop" raises,
        "continue" goes on with its motion. Either way the diagnostics show it as not ok. A step of
        an elastic method that cannot be taken always ends the run.
    overlaps : what is done with bodies that overlap at the start, as in ``Scene``: "touching",
        "resolve" or "refuse"; None takes the scene's own. Overlaps that count as touching are
        logged as a warning, with their number and the deepest.
    frictionless : leave out the friction that the scene states.
    progress : True for a bar, or a function of (done, total, text).
    options : settings of a method given by name, as its class documents. Both methods of contact
        dynamics have
        ``backend`` and ``classic_backend`` (names or settings objects: by default "newton" for
        compatible forces and "apgd" for the classic step), ``warm_start`` (from the forces of the
        step before, by contact identity; off by default), ``tol`` of the certificates,
        ``v_min``, the approach speed below which restitution does not act, and ``turning``
        ("momentum" keeps angular momentum in space; "plain" is the papers' first-order update).
        Those with friction have ``backend`` and the last four, ``law`` ("coulomb" or "associated"),
        warm starts by default, and ``substeps``.
        Those with elastic contacts have ``stiffness_ratio``, k_t/k_n of the springs of friction, by
        default Mindlin's.

    Returns
    -------
    Trajectory

    Raises
    ------
    InvalidInput : a bad argument; ``out`` exists and ``resume`` is False, or holds another run;
        without ``out``, so many steps that their record does not fit into the machine's memory.
    BackendUnavailable, Unsupported : before the first step; friction with a method that has none,
        or materials with rolling friction with a method that has only sliding friction.
    StepFailed : see ``on_failure``; also when there is no motion to go on with. A SolveFailed that
        carries ``t`` and the ``trajectory`` so far. In its file the run can be resumed.
    Interrupted : Ctrl-C; a KeyboardInterrupt that carries the ``trajectory`` so far.

    >>> import cdopt
    >>> cdopt.simulate(cdopt.scene.beam(), dt=1e-3, duration=0.02)
    Trajectory(compatible-cd: 21 frames, 20 steps to t=0.02 s, ok)

    Notes
    -----
    Olsen & Kamrin (2018), Algorithm 1; De Klerk et al. (2021), Algorithm 1.
    """
    if isinstance(scene, str | Path):
        scene = load(scene, overlaps=overlaps)
    elif overlaps is not None:
        scene = scene.with_overlaps(overlaps)
    rough = _friction(scene, friction, frictionless)
    if out is not None and Path(out).suffix not in _SUFFIXES:
        expected = "a name ending in .vtkhdf, which cdopt show and ParaView open"
        raise InvalidInput("out", repr(str(out)), expected)
    steps = _count(duration / dt)
    if method is None:
        method = "compatible-cd" if rough is None else "contact-dynamics"
    chosen = _suited(method_of(method, **options), scene, rough)
    if resume and out is None:
        raise InvalidInput("resume", "True without a file", "out, the file of the run")
    if out is None:
        _require_room(scene, chosen, steps, every)
    if not isinstance(chosen, Integrator):
        start, what = scene.start_overlaps, PUSHED if scene.overlaps == "resolve" else TOUCHING
        warn_of_overlaps(scene, start.bodies, start.phi, what)
    with progress_bar(progress, "steps") as report:
        context = StepContext(scene, dt, on_failure == "stop", rough)
        run = Simulation(context, steps, chosen, every, report)
        return run.in_memory() if out is None else run.in_file(Path(out), resume)


def method_of(method: str | Method | Integrator, **options: Any) -> Method | Integrator:
    """The settings object of a method."""
    if isinstance(method, str):
        maker: Any = METHODS[checks.choice("method", method, METHODS)]
        known = [f.name for f in dataclasses.fields(maker) if f.init]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInput(unknown[0], f"no setting of {method}", "one of " + ", ".join(known))
        settings: Method | Integrator = maker(**options)
        return settings
    if not isinstance(method, Method | Integrator):
        expected = "one of " + ", ".join(map(repr, METHODS)) + ", or a settings object"
        raise InvalidInput("method", checks.describe(method), expected)
    if options:
        raise InvalidInput(", ".join(options), "options beside a settings object", "them inside")
    return method


def _friction(scene: Scene, friction: float | None, frictionless: bool) -> float | bool | None:
    """Friction of a run as StepContext states it."""
    if frictionless:
        if friction is not None:
            raise InvalidInput("friction", f"{friction!r} beside frictionless", "one of them")
        return None
    if friction is None:
        return True if scene.has_friction else None
    return friction or None


def _suited(
    method: Method | Integrator, scene: Scene, friction: float | bool | None
) -> Method | Integrator:
    """The method, for a run with this friction or without."""
    if friction is None:
        return method.without_friction() if isinstance(method, FrictionalSteps) else method
    if not getattr(method, "frictional", False):
        known = [name for name, maker in METHODS.items() if getattr(maker, "frictional", False)]
        why = "this method has no friction, which the run has"
        instead = (*map("method={!r}".format, known), "frictionless=True")
        raise Unsupported(method.name, why, instead)
    rolling = any(m.rolling_friction or m.spinning_friction for m in scene.materials)
    if rolling and not isinstance(method, VelocityVerletSteps):
        why = f"{method.name!r} has sliding friction alone"
        raise Unsupported("rolling and spinning friction", why, ("method='velocity-verlet'",))
    if isinstance(method, VelocityVerletSteps | VariationalSteps | QuasiStaticSteps):
        return method.with_friction()
    return method


def _require_room(scene: Scene, method: Method | Integrator, steps: int, every: int) -> None:
    """Refuse a run whose record does not fit into memory, by what states and rows take at least."""
    frames = steps // every + 1
    rows = frames if isinstance(method, Integrator) else steps + 1
    size = scene.initial.q.nbytes + scene.initial.v.nbytes
    least, known = (frames * size + rows * _ROW) / MB, physical_memory()
    if known is not None and least > known:
        size_text = f"{steps:.3g} steps, a record of at least {least / 1024:.3g} GB"
        expected = f"less than the {known / 1024:.3g} GB of this machine; or out, a file"
        raise InvalidInput("duration", size_text, expected)


def _count(steps: float) -> int:
    """Steps that a duration takes, this many times Δt."""
    if not steps <= _MOST:
        raise InvalidInput("duration", f"{steps:.3g} steps", f"at most {_MOST:.0e} of them")
    return max(1, math.ceil(steps - _ROUND_OFF * max(steps, 1.0)))


# --- a run ---------------------------------------------------------------------------------


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
                self._require_memory(FileStore(path).checkpoint())
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

    def _require_memory(self, start: Checkpoint) -> None:
        """Refuse a copy by an earlier version, which lacks what the next step needs."""
        remembers = getattr(self.method, "warm_start", True)
        if isinstance(self.method, CompatibleFrictionSteps):
            remembers = True
        if remembers and start.step and not start.memory:
            found = "a copy of a run, without what its next step needs from the last one"
            raise InvalidInput("out", found, "the run's own file, or a copy by this version")

    # --- the loop ----------------------------------------------------------------------

    def _initial(self) -> tuple[dict[str, float], Frame]:
        """Diagnostics and frame of the initial state."""
        state = self.run.scene.initial
        if isinstance(self.method, Integrator):
            taken = self.method.begin(self.run, state)
            touching = _contacts(taken)
            row = self._row(0, state, touching, taken, touching.nc)
            return row, _frame(0, state, touching, taken.forces)
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


# --- scenes at rest ------------------------------------------------------------------------


def at_rest(scene: Scene) -> tuple[State, ContactStep, ClosedNetwork]:
    """Where a scene rests, its contact step there, and the contacts that are closed.

    A scene that starts above its supports falls onto them first, by classic contact dynamics. It
    has no bonds, which pull.
    """
    if scene.bonds.size:
        raise InvalidInput("scene", f"{len(scene.bonds):,} bonds, which pull", "contacts alone")
    for state, allowed in _states(scene):
        posed = step(scene, state, detect(scene, state), _DT)
        try:
            _, network = closed(posed)
        except InvalidInput:
            continue
        applied = np.asarray(posed.F_ext)
        worst = float(np.abs(network.contact_load + applied).max(initial=0.0))
        if worst <= allowed * float(np.abs(applied).max(initial=0.0)):
            return state, posed, network
    raise InvalidInput(
        "scene", f"bodies that still move after {_WAIT:g} s", "a scene that comes to rest"
    )


def _states(scene: Scene) -> Iterator[tuple[State, float]]:
    """The start, and where the scene is after a while; what loads may be left uncarried there."""
    yield scene.initial, _AT_REST
    for wait, allowed in ((_EARLY, _EXACTLY), (_WAIT, _AT_REST)):
        try:
            fallen = simulate(scene, _DT, wait, "classic-cd", backend="newton", every=50)
        except CdoptError as error:
            raise InvalidInput("scene", str(error), "a scene that comes to rest") from error
        yield fallen.final.state, allowed


def closed(step_at_rest: Step) -> tuple[StepSolution, ClosedNetwork]:
    """The classic answer of a step, and its closed contacts."""
    problem = CompatibleCD(step_at_rest)
    try:
        classic = problem.classic_cd.solve("newton")
    except CdoptError as error:
        raise InvalidInput("scene", str(error), "a contact step with a classic answer") from error
    if classic.f is None:
        raise InvalidInput("scene", "a step that newton cannot solve", "one that it can")
    return classic, problem.network(classic)
