"""Classic and compatible contact dynamics as methods of time stepping.

Algorithm 1 of Olsen & Kamrin (2018): contacts → step → v⁺ → q⁺ = q + Δt L(q) v⁺. The
compatible forces do not change the motion, which both methods share. How bodies in space turn is
a setting; by default, unlike the paper, their angular momentum is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from cdopt._util.checks import FloatArray, NotNegative, Tolerance, integer, one_of
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt.backends.base import Backend
from cdopt.backends.osqp_session import at_work
from cdopt.backends.selection import resolve
from cdopt.collision import TURNINGS, Contacts, advance
from cdopt.collision.contact_step import arguments_of_step
from cdopt.collision.contacts import from_start
from cdopt.dynamics.impacts import Impacts, Solved, take
from cdopt.dynamics.method import Stage, StepContext, StepTaken
from cdopt.formulations import ClassicCD, CompatibleCD
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.problem.warm_start import WarmStart
from cdopt.scene import Scene, State

CLOSED = ("closed", "closed_tol", "projected")
FIRST_BACKEND = "apgd"  # at n = 20 mid-fall 0.1 s a step, where the others take 5 s and more


@dataclass(frozen=True, kw_only=True)
class _ContactDynamics:
    """What both methods share.

    Parameters
    ----------
    warm_start : start each solve from the forces of the step before, contact by contact. Off by
        default: results then depend on the state alone. OSQP then keeps its set-up too, as long
        as the contacts stay (``cdopt.backends.osqp_session``); a run that is resumed sets it up
        anew, and agrees with one that was not interrupted within OSQP's accuracy.
    tol : tolerance of the certificates. Interior point and splitting solvers leave 1e-5 to 1e-4
        at their defaults where contacts neither press nor part, as in free fall: widen it for
        them, or ask them for more accuracy.
    v_min : approach speed below which restitution does not act, m/s.
    turning : "momentum", which keeps the angular momentum of free bodies and is of second order
        for them, or "plain", the paper's update, of first order. They differ for bodies in space
        that are not alike about all axes.
    impacts : that may follow one another within a step, at most, where e > 0: each takes a contact
        step more. 1 closes all but the first without restitution. The diagnostics ``impacts``
        counts the contact steps of each step, and ``plastic`` the contacts that closed without.
    push_overlaps : push bodies apart that overlap by the error of the time step, which gives them
        energy, of first order in Δt. False counts them as touching: without restitution and drive
        the energy then never grows, and overlaps may add up.
    """

    warm_start: bool = False
    tol: Tolerance = TOLERANCE
    v_min: NotNegative = 0.0
    turning: Annotated[str, one_of(TURNINGS)] = TURNINGS[0]
    impacts: Annotated[int, integer(1, 100_000)] = 16
    push_overlaps: bool = True

    classic: ClassVar[str]  # name of the forces of the first problem

    def _first(self, run: StepContext, backend: Backend) -> Backend:
        """The solver of the first problem; with warm starts OSQP keeps its set-up."""
        if not self.warm_start:
            return backend
        session: Backend = run.workspace.setdefault("classic", at_work(backend))
        return session

    def _solve(
        self,
        run: StepContext,
        name: str,
        problem: ClassicCD | CompatibleCD,
        backend: Backend,
        **more: Any,
    ) -> StepSolution:
        """Solve a problem of the step whose forces are ``name``.

        A warm start takes the forces of the step before; their motion belongs to another network.
        """
        start = None
        if self.warm_start and name in run.memory:
            start = WarmStart(run.memory[name], contact_ids=run.memory["ids"])
        solution: StepSolution = problem.solve(
            backend, tol=self.tol, warm_start=start, check=run.strict, **more
        )
        return solution

    def _remember(self, run: StepContext, contacts: Contacts, **forces: FloatArray) -> None:
        if self.warm_start:
            sound = {name: f for name, f in forces.items() if np.isfinite(f).all()}
            run.memory = {"ids": contacts.contact_ids, **sound}

    def _step(self, run: StepContext, state: State, contacts: Contacts) -> ContactStep:
        if run.scene.bonds.size:
            methods = ("variational", "velocity-verlet", "quasi-static")
            raise Unsupported("contact dynamics", "the scene has bonds, which pull", methods)
        return rigid_step(
            run.scene,
            state,
            contacts,
            run.dt,
            self.v_min,
            self.turning,
            run.friction,
            self.push_overlaps,
        )

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        """Solve one contact step."""
        raise NotImplementedError

    def _taken(self, run: StepContext, problem: ContactStep) -> Impacts:
        """Solve a contact step, from impact to impact where these follow one another."""
        return take(problem, lambda part: self._once(run, part), self.classic, self.impacts)

    def step(self, run: StepContext, state: State, contacts: Contacts) -> StepTaken:
        """One step.

        Raises
        ------
        SolveFailed : no iterate, or a step proven infeasible.
        """
        started = clock()
        problem = self._step(run, state, contacts)
        seconds = clock() - started
        taken = self._taken(run, problem)
        solved, scene = taken.solved, run.scene
        self._remember(run, contacts, **solved.forces)
        mean = None if taken.count == 1 else taken.mean
        counts = {"impacts": float(taken.count), "plastic": float(taken.plastic)}
        return StepTaken(
            state=advance(
                scene,
                state,
                solved.motion,
                run.dt,
                turning=self.turning,
                mean=mean,
                dofs=scene.dofs if run.friction is None else scene.full_dofs,
            ),
            forces=solved.forces,
            stages=solved.stages,
            measures={**solved.measures, **counts},
            seconds_assemble=seconds,
            solution=solved.solution,
        )

    def _settings(self, **backends: str | Backend) -> dict[str, Any]:
        shown = {name: repr(resolve(backend)) for name, backend in backends.items()}
        names = ("warm_start", "tol", "v_min", "turning", "impacts", "push_overlaps")
        return shown | {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class ClassicSteps(_ContactDynamics):
    """Classic contact dynamics, equation (22).

    Parameters
    ----------
    backend : solves each step; ``classic_backend`` is another word for it.

    Raises
    ------
    InvalidInput, BackendUnavailable : a setting that cannot be used.
    """

    backend: str | Backend | None = None
    classic_backend: str | Backend | None = None
    _solver: Backend = field(init=False, repr=False)

    name: ClassVar[str] = "classic-cd"
    forces: ClassVar[tuple[str, ...]] = ("f",)
    stages: ClassVar[tuple[str, ...]] = ("classic",)
    measures: ClassVar[tuple[str, ...]] = ("impacts", "plastic")
    classic: ClassVar[str] = "f"

    def __post_init__(self) -> None:
        names = ("backend", "classic_backend")
        stated = [(name, getattr(self, name)) for name in names]
        solvers = [resolved(name, value) for name, value in stated if value is not None]
        if solvers and solvers[0] != solvers[-1]:
            raise InvalidInput("backend", "two solvers for one problem", " or ".join(names))
        object.__setattr__(self, "_solver", (solvers or [resolve(FIRST_BACKEND)])[0])

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        return self._settings(backend=self._solver)

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        """Solve one contact step."""
        started = clock()
        solution = self._solve(run, "f", ClassicCD(problem), self._first(run, self._solver))
        motion, forces = answer(solution)
        stages = {"classic": stage(solution, clock() - started)}
        return Solved(motion, {"f": forces}, stages, {}, solution)


@dataclass(frozen=True, kw_only=True)
class CompatibleSteps(_ContactDynamics):
    """Compatible contact dynamics: classic motion, forces of the rigid limit of elastic contacts.

    Parameters
    ----------
    backend : solves the second problem, for the forces.
    classic_backend : solves the first, for the motion.
    closed_tol : as in ``CompatibleCD``.

    Raises
    ------
    InvalidInput, BackendUnavailable : a setting that cannot be used.

    Notes
    -----
    Olsen & Kamrin (2018), Algorithm 1.
    """

    backend: str | Backend = "newton"
    classic_backend: str | Backend = FIRST_BACKEND
    closed_tol: Tolerance | None = None

    name: ClassVar[str] = "compatible-cd"
    forces: ClassVar[tuple[str, ...]] = ("f", "f_classic")
    stages: ClassVar[tuple[str, ...]] = ("classic", "forces")
    measures: ClassVar[tuple[str, ...]] = (*CLOSED, "impacts", "plastic")
    classic: ClassVar[str] = "f_classic"

    def __post_init__(self) -> None:
        for name in ("backend", "classic_backend"):
            object.__setattr__(self, name, resolved(name, getattr(self, name)))

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        shown = self._settings(backend=self.backend, classic_backend=self.classic_backend)
        return {**shown, "closed_tol": self.closed_tol}

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        """Solve both problems of one contact step."""
        times = [clock()]
        both = CompatibleCD(problem, power=run.scene.power, closed_tol=self.closed_tol)
        backend = self._first(run, resolve(self.classic_backend))
        first = self._solve(run, "f_classic", both.classic_cd, backend)
        motion, classic = answer(first)
        times.append(clock())
        second = None
        if first.f is not None:
            second = self._solve(run, "f", both, resolve(self.backend), classic=first)
        forces = np.full(problem.nc, np.nan) if second is None or second.f is None else second.f
        times.append(clock())
        closed = {} if second is None else second.provenance["closed"]
        keys = ("contacts", "tol", "projected")
        return Solved(
            motion=motion,
            forces={"f": forces, "f_classic": classic},
            stages={
                "classic": stage(first, times[1] - times[0]),
                "forces": stage(second, times[2] - times[1]),
            },
            measures={
                name: float(closed.get(key, np.nan)) for name, key in zip(CLOSED, keys, strict=True)
            },
            solution=second or first,
        )


def rigid_step(
    scene: Scene,
    state: State,
    contacts: Contacts,
    dt: float,
    v_min: float,
    turning: str,
    friction: float | bool | None = None,
    push: bool = True,
) -> ContactStep:
    """The contact step that a run of contact dynamics solves; arguments as in ``collision.step``.

    ``push`` : push bodies apart that have come to overlap.

    ``scene.overlaps`` says what is done with those of the start.
    """
    touching = from_start(scene, contacts)
    if not push:
        touching = touching._at_gaps(np.maximum(touching.phi, 0.0))
    dofs = scene.dofs if friction is None else scene.full_dofs
    arguments = arguments_of_step(scene, state, touching, dofs, dt, turning, friction)
    return ContactStep._of(**arguments, v_min=v_min)


def answer(solution: StepSolution) -> tuple[FloatArray, FloatArray]:
    """v⁺ and f of a classic solve, or its last iterate, which is recorded as not ok.

    Raises
    ------
    SolveFailed : there is no iterate.
    """
    if solution.f is not None and solution.v_next is not None:
        return solution.v_next, solution.f
    return last_iterate(solution)


def last_iterate(solution: StepSolution) -> tuple[FloatArray, FloatArray]:
    """Motion and forces of all rows where a solver ended, certified or not.

    Raises
    ------
    SolveFailed : there is no iterate.
    """
    last = solution.iterate
    if last is None or last.motion is None or not np.isfinite(last.motion).all():
        raise no_motion(solution)
    return last.motion, last.forces


def no_motion(solution: StepSolution) -> SolveFailed:
    """The exception of a step after which a run has no motion to go on with."""
    return SolveFailed(
        f"{solution.formulation} by {solution.backend}: the solver says "
        f"{solution.status!r} and leaves no motion to go on with",
        backend=solution.backend,
        status=solution.status,
        raw=solution.raw,
    )


def stage(solution: StepSolution | None, seconds: float) -> Stage:
    """The numbers of a solve; None was not begun, because the first left no forces."""
    if solution is None:
        return Stage(np.inf, False, False, -1, seconds, "not begun")
    certificate = solution.certificate
    return Stage(
        residual=np.inf if certificate is None else certificate.worst,
        ok=certificate is not None and certificate.ok and solution.f is not None,
        claimed=solution.claimed,
        iterations=-1 if solution.iterations is None else solution.iterations,
        seconds=seconds,
        status=solution.status,
    )


def resolved(name: str, backend: Any) -> Backend:
    """The settings object of a name; errors name the argument."""
    try:
        return resolve(backend)
    except InvalidInput as error:
        raise InvalidInput(name, error.found, error.expected) from error
