"""Simulate a scene by a method, and let a scene come to rest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import CdoptError, InvalidInput, Unsupported
from cdopt._util.processes import MB, physical_memory
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.collision import PairFriction, detect, step
from cdopt.dynamics.contact_methods import (
    ClassicSteps,
    CompatibleFrictionSteps,
    CompatibleSteps,
    FrictionalSteps,
)
from cdopt.dynamics.elastic import QuasiStaticSteps, VariationalSteps, VelocityVerletSteps
from cdopt.dynamics.method import Method, StepContext, Stepper
from cdopt.dynamics.run import Simulation
from cdopt.dynamics.trajectory import Trajectory
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.joint_elimination import eliminated
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.scene import Scene, State, load

METHODS: dict[str, Callable[..., Method]] = {
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
_AT_REST = 1e-6  # of the largest load: imbalance up to which bodies are at rest
_EARLY, _EXACTLY = 0.03, 1e-12  # s, the share: rest to round-off, as soon, ends the waiting


def simulate(
    scene: Scene | str | Path,
    dt: float,
    duration: float,
    method: str | Method | None = None,
    *,
    friction: float | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    every: int = 1,
    on_failure: str = "stop",
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
        If the process is killed, at most the last half second of work is lost.
    resume : continue the run in ``out``, with bit-identical results; start it if there is none.
        Scene, dt, method, every and options must be the same; a longer duration extends the run.
    every : number of steps from one frame to the next; the last step has a frame, too. Diagnostics
        cover all steps with rigid contacts, and the recorded ones with elastic contacts.
    on_failure : if a certificate fails or a step has no forces, "stop" raises and
        "continue" uses the motion. Either way the diagnostics show it as not ok. A step of
        an elastic method that cannot be taken always ends the run.
    overlaps : treatment of bodies that overlap at the start, as in ``Scene``: "touching",
        "resolve" or "refuse"; None for the scene's. Overlaps that count as touching are
        logged as a warning, with their number and the deepest.
    frictionless : ignore the friction of the scene.
    progress : True for a bar, or a function of (done, total, text).
    options : settings of a method given by name, as its class documents. Both methods of contact
        dynamics have
        ``backend`` and ``classic_backend`` (names or settings objects: by default "newton" for
        compatible forces and "apgd" for the classic step), ``warm_start`` (from the forces of the
        step before, by contact identity; off by default), ``tol`` of the certificates,
        ``v_min``, the approach speed below which restitution does not act, and ``turning``
        ("momentum" conserves angular momentum in space; "plain" is the papers' first-order update).
        Those with friction have ``backend`` and the last four, ``law`` ("coulomb" or "associated"),
        warm starts by default, and ``substeps``.
        Those with elastic contacts have ``stiffness_ratio``, k_t/k_n of the springs of friction, by
        default Mindlin's.

    Returns
    -------
    Trajectory

    Raises
    ------
    InvalidInput : a bad argument; ``out`` exists and ``resume`` is False, or is another run;
        without ``out``, more steps than fit into memory.
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
    dt, duration = checks.positive("dt", dt), checks.positive("duration", duration)
    every, resume = checks.count("every", every), checks.flag("resume", resume)
    checks.choice("on_failure", on_failure, ("stop", "continue"))
    if friction is not None:
        friction = checks.not_negative("friction", friction)
    if isinstance(scene, str | Path):
        scene = load(scene, overlaps=overlaps)
    elif overlaps is not None:
        scene = checks.instance("scene", scene, Scene).with_overlaps(overlaps)
    checks.instance("scene", scene, Scene)
    between = _friction(scene, friction, checks.flag("frictionless", frictionless))
    if out is not None and checks.path("out", out).suffix not in _SUFFIXES:
        expected = "a name ending in .vtkhdf, which cdopt show and ParaView open"
        raise InvalidInput("out", repr(str(out)), expected)
    steps = _count(duration / dt)
    if method is None:
        method = "compatible-cd" if between is None else "contact-dynamics"
    chosen = method_of(method, **options)
    if between is not None:
        _require_friction(chosen, scene)
    if resume and out is None:
        raise InvalidInput("resume", "True without a file", "out, the file of the run")
    context = StepContext(scene, dt, on_failure == "stop", between)
    stepper = chosen.start(context)
    if out is None:
        _require_room(scene, stepper, steps, every)
    with progress_bar(progress, "steps") as report:
        run = Simulation(context, stepper, steps, every, report)
        return run.in_memory() if out is None else run.in_file(Path(out), resume)


def method_of(method: str | Method, **options: Any) -> Method:
    """The settings object of a method."""
    if isinstance(method, str):
        maker: Any = METHODS[checks.choice("method", method, METHODS)]
        known = [f.name for f in dataclasses.fields(maker) if f.init]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInput(unknown[0], f"no setting of {method}", "one of " + ", ".join(known))
        settings: Method = maker(**options)
        return settings
    if not isinstance(method, Method):
        expected = "one of " + ", ".join(map(repr, METHODS)) + ", or a settings object"
        raise InvalidInput("method", checks.describe(method), expected)
    if options:
        raise InvalidInput(", ".join(options), "options and a settings object", "them inside")
    return method


def _friction(scene: Scene, friction: float | None, frictionless: bool) -> PairFriction | None:
    """Friction of a run; None for none."""
    if frictionless:
        if friction is not None:
            raise InvalidInput("friction", f"{friction!r} and frictionless", "one of them")
        return None
    if friction is None:
        return PairFriction() if scene.has_friction else None
    return PairFriction(friction) if friction else None


def _require_friction(method: Method, scene: Scene) -> None:
    """Refuse a method that does not support the friction of the run."""
    if not getattr(method, "frictional", False):
        known = [name for name, maker in METHODS.items() if getattr(maker, "frictional", False)]
        why = "this method does not support friction, which the run has"
        instead = (*map("method={!r}".format, known), "frictionless=True")
        raise Unsupported(method.name, why, instead)
    rolling = any(m.rolling_friction or m.spinning_friction for m in scene.materials)
    if rolling and not getattr(method, "rolling", False):
        why = f"{method.name!r} supports only sliding friction"
        known = [name for name, maker in METHODS.items() if getattr(maker, "rolling", False)]
        instead = tuple(map("method={!r}".format, known))
        raise Unsupported("rolling and spinning friction", why, instead)


def _require_room(scene: Scene, stepper: Stepper[Any], steps: int, every: int) -> None:
    frames = steps // every + 1
    rows = steps + 1 if stepper.each_step else frames
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


# --- scenes at rest ------------------------------------------------------------------------


def at_rest(scene: Scene) -> tuple[State, ContactStep, ClosedNetwork]:
    """The scene at rest, where it first falls onto its supports, its step, and closed contacts."""
    if scene.bonds.size:
        raise InvalidInput("scene", f"{len(scene.bonds):,} bonds, which pull", "contacts alone")
    for state, allowed in _states(scene):
        there = step(scene, state, detect(scene, state), _DT)
        try:
            _, network = closed(there)
        except InvalidInput:
            continue
        kept = eliminated(there)
        applied = np.asarray((there if kept is None else kept.step).F_ext)
        worst = float(np.abs(network.contact_load + applied).max(initial=0.0))
        if worst <= allowed * float(np.abs(applied).max(initial=0.0)):
            return state, there, network
    raise InvalidInput(
        "scene", f"bodies that still move after {_WAIT:g} s", "a scene that comes to rest"
    )


def _states(scene: Scene) -> Iterator[tuple[State, float]]:
    """The start, and the scene after a while, with the imbalance that is allowed there."""
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
        raise InvalidInput(
            "scene", "a step without a classic answer by newton", "a step that newton can solve"
        )
    return classic, problem.network(classic)
