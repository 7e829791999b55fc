"""Contact dynamics, classic or compatible, without friction or with it, as methods in time.

Algorithm 1 of Olsen & Kamrin (2018): contacts → step → v⁺ → q⁺ = q + Δt L(q) v⁺. The
compatible forces do not change the motion. How bodies in space turn is a setting; by default,
unlike the paper, their angular momentum is kept. With friction each step is a ``FrictionalCD``, of
the law of Coulomb or of the associated one. Steps of the law of Coulomb need not have an answer:
one without a certified answer is taken in halves, quarters and so on, with the gaps and velocities
of each moment and B of the start of the step.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from cdopt._util.checks import FloatArray, NotNegative, Tolerance, integer, one_of
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt.backends.base import Backend
from cdopt.backends.modelled import at_work
from cdopt.backends.selection import resolve
from cdopt.collision import TURNINGS, Contacts, advance
from cdopt.collision.contact_step import arguments_of_step
from cdopt.collision.contacts import from_start
from cdopt.dynamics.impacts import Solved, in_sequence, take
from cdopt.dynamics.records import Stage, StepContext, StepTaken
from cdopt.formulations import ClassicCD, CompatibleCD, CompatibleFriction, FrictionalCD
from cdopt.formulations.friction_network import NetworkForces
from cdopt.problem import LAWS
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution, WarmStart
from cdopt.scene import Scene, State

LOG = logging.getLogger("cdopt.dynamics")
FIRST_BACKEND = "apgd"  # at n = 20 mid-fall 0.1 s a step, where the others take 5 s and more
_GAIN = 1e-6  # share of the kinetic energy that impacts may add without a warning
_GAINED = (
    "impacts add %.2g J to %.2g J of kinetic energy in a step: with friction, Newton's law of "
    "restitution can do so. Later ones of the run are not reported"
)
_CARRIES = 1e-6  # of the largest force of a step: less counts as no force
_LIMIT = 1e-6  # share of μ f_n by which friction may miss it and count as sliding


@dataclass(frozen=True, kw_only=True)
class _ContactDynamics:
    """What all methods of contact dynamics share.

    Parameters
    ----------
    warm_start : start each solve from the forces of the step before, contact by contact. Off by
        default: results then depend on the state alone. OSQP then keeps its set-up too, as long
        as the contacts stay (``cdopt.backends.OSQPSession``); a run that is resumed sets it up
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

    classic: ClassVar[str] = "f"  # name of the forces of the first problem

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        shown = {part.name: getattr(self, part.name) for part in fields(self)}
        solvers = {name: shown.pop(name) for name in list(shown) if name.endswith("backend")}
        return {name: repr(solver) for name, solver in solvers.items() if solver} | shown

    def step(self, run: StepContext, state: State, contacts: Contacts) -> StepTaken:
        """One step.

        Raises
        ------
        SolveFailed : no iterate, or a step proven infeasible.
        """
        started, scene = clock(), run.scene
        if scene.bonds.size:
            methods = ("variational", "velocity-verlet", "quasi-static")
            raise Unsupported("contact dynamics", "the scene has bonds, which pull", methods)
        push, friction = self.push_overlaps, run.friction
        how = (run.dt, self.v_min, self.turning, friction, push)
        problem = rigid_step(scene, state, contacts, *how)
        seconds = clock() - started
        answer = self._taken(run, problem)
        if self.warm_start:
            self._remember(run, contacts, answer.forces)
        return StepTaken(
            state=advance(
                scene,
                state,
                answer.motion,
                run.dt,
                turning=self.turning,
                mean=None if answer.count == 1 else answer.mean,
                dofs=scene.dofs if friction is None else scene.full_dofs,
            ),
            forces=answer.forces,
            stages=answer.stages,
            measures={**answer.measures, "impacts": answer.count, "plastic": answer.plastic},
            seconds_assemble=seconds,
            solution=answer.solution,
        )

    def _taken(self, run: StepContext, problem: ContactStep) -> Solved:
        """The answer to a contact step, from impact to impact where these follow one another."""
        return take(problem, lambda part: self._once(run, part), self.classic, self.impacts)

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        """The answer to one contact problem."""
        raise NotImplementedError

    def _remember(
        self, run: StepContext, contacts: Contacts, forces: dict[str, FloatArray]
    ) -> None:
        """Keep the forces for the next step, but those that are not known."""
        known = {name: f for name, f in forces.items() if np.isfinite(f).all()}
        run.memory = {"ids": contacts.contact_ids, **known}

    def _solve(self, run: StepContext, name: str, problem: Any, backend: Any, **more: Any) -> Any:
        """Solve a problem whose forces are ``name``, from those of the step before if asked to."""
        start = None
        if self.warm_start and name in run.memory:
            start = WarmStart(run.memory[name], contact_ids=run.memory["ids"])
        return problem.solve(backend, tol=self.tol, warm_start=start, check=run.strict, **more)

    def _first(
        self, run: StepContext, problem: ClassicCD, backend: Any
    ) -> tuple[StepSolution, FloatArray, FloatArray]:
        """The classic solution, v⁺ and f; with warm starts OSQP keeps its set-up."""
        if self.warm_start:
            backend = run.workspace.setdefault("classic", at_work(backend))
        solution: StepSolution = self._solve(run, self.classic, problem, backend)
        if solution.f is None or solution.v_next is None:
            return (solution, *_last_iterate(solution))
        return solution, solution.v_next, solution.f


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

    name: ClassVar[str] = "classic-cd"
    forces: ClassVar[tuple[str, ...]] = ("f",)
    stages: ClassVar[tuple[str, ...]] = ("classic",)
    measures: ClassVar[tuple[str, ...]] = ("impacts", "plastic")

    def __post_init__(self) -> None:
        names = ("backend", "classic_backend")
        stated = [(name, getattr(self, name)) for name in names]
        solvers = [resolved(name, value) for name, value in stated if value is not None]
        if solvers and solvers[0] != solvers[-1]:
            raise InvalidInput("backend", "two solvers for one problem", " or ".join(names))
        object.__setattr__(self, "backend", (solvers or [resolve(FIRST_BACKEND)])[0])
        object.__setattr__(self, "classic_backend", None)

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        started = clock()
        solution, motion, f = self._first(run, ClassicCD(problem), self.backend)
        stages = {"classic": _stage(solution, clock() - started)}
        return Solved(motion, motion, {"f": f}, stages, {}, solution)


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
    measures: ClassVar[tuple[str, ...]] = (
        "closed",
        "closed_tol",
        "projected",
        "impacts",
        "plastic",
    )
    classic: ClassVar[str] = "f_classic"

    def __post_init__(self) -> None:
        for name in ("backend", "classic_backend"):
            object.__setattr__(self, name, resolved(name, getattr(self, name)))

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        started = clock()
        both = CompatibleCD(problem, power=run.scene.power, closed_tol=self.closed_tol)
        first, motion, classic = self._first(run, both.classic_cd, self.classic_backend)
        between, second = clock(), None
        f, closed = np.full(problem.nc, np.nan), {}
        if first.f is not None:
            second = self._solve(run, "f", both, self.backend, classic=first)
            f, closed = f if second.f is None else second.f, second.provenance["closed"]
        keys = {"closed": "contacts", "closed_tol": "tol", "projected": "projected"}
        return Solved(
            motion=motion,
            mean=motion,
            forces={"f": f, "f_classic": classic},
            stages={
                "classic": _stage(first, between - started),
                "forces": _stage(second, clock() - between),
            },
            measures={name: float(closed.get(key, np.nan)) for name, key in keys.items()},
            solution=second or first,
        )


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
        names = ("tol", "v_min", "turning", "impacts", "push_overlaps")
        return {name: getattr(self, name) for name in names}

    @property
    def _solver(self) -> Backend:
        return resolve(self.backend or "newton")

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        return super().settings() | {"backend": repr(self._solver)}

    def _taken(self, run: StepContext, problem: ContactStep) -> Solved:
        whole = super()._taken
        answer = in_sequence(problem, lambda part: whole(run, part), self.substeps)
        friction: Any = problem.friction
        f = answer.forces[self.classic]
        size = np.linalg.norm(answer.forces[f"{self.classic}_t"], axis=1)
        carrying = f > _CARRIES * f.max(initial=0.0)
        sliding = carrying & (size >= (1.0 - _LIMIT) * friction.mu * f)
        counts = {"substeps": answer.parts, "carrying": carrying.sum(), "sliding": sliding.sum()}
        measures = {name: float(count) for name, count in counts.items()}
        return replace(answer, measures=answer.measures | measures)

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        started, start = clock(), None
        if self.warm_start and "ids" in run.memory:
            before = (run.memory[name] for name in ("ids", "f", "f_t"))
            start = WarmStart(_rows(problem, *before).ravel())
        solution = FrictionalCD(problem, self.law).solve(
            self._solver, tol=self.tol, warm_start=start, check=run.strict
        )
        motion, all_rows = _last_iterate(solution)
        _warn_of_gain(run, problem, motion)
        forces = _by_name(problem, all_rows.reshape(problem.nc, run.scene.dim), self.classic)
        stages = {"friction": _stage(solution, clock() - started)}
        return Solved(motion, motion, forces, stages, {}, solution)

    def _remember(
        self, run: StepContext, contacts: Contacts, forces: dict[str, FloatArray]
    ) -> None:
        f, f_t = forces[self.classic], forces[f"{self.classic}_t"]
        if np.isfinite(f).all() and np.isfinite(f_t).all():
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

    def step(self, run: StepContext, state: State, contacts: Contacts) -> StepTaken:
        """One step, whose micro-slip is kept once it is taken.

        Raises
        ------
        SolveFailed : no iterate, or a step proven infeasible.
        """
        taken = super().step(run, state, contacts)
        run.memory = {**run.memory, **run.workspace.pop("trial", {})}
        return taken

    def _once(self, run: StepContext, problem: ContactStep) -> Solved:
        answer, started = super()._once(run, problem), clock()
        solution = answer.solution
        rows, stage = np.full((problem.nc, run.scene.dim), np.nan), _stage(None, 0.0)
        if not problem.nc:
            stage = Stage(0.0, True, True, 0, 0.0, "no contacts")
            run.workspace["trial"] = {}
        elif isinstance(solution, StepSolution) and solution.ok:
            compatible = CompatibleFriction(
                problem, self.law, history=_history(run, problem), sliders="haar-karman"
            )
            try:
                network = compatible.solve(solution)
            except SolveFailed as error:
                stage = replace(stage, seconds=clock() - started, status=error.status)
            else:
                rows = np.column_stack([network.f, network.f_t])
                seconds = clock() - started
                stage = Stage(network.residual, network.ok, True, -1, seconds, network.label)
                trial = _by_name(problem, network.trial, "trial")
                run.workspace["trial"] = {
                    "trial_ids": np.asarray(problem.contact_ids),
                    "trial_n": trial["trial"],
                    "trial_t": trial["trial_t"],
                }
        forces = _by_name(problem, rows, "f") | answer.forces
        return replace(answer, forces=forces, stages=answer.stages | {"forces": stage})


def _history(run: StepContext, problem: ContactStep) -> NetworkForces | None:
    """Trial forces of the step before, along the normals and tangents of this one."""
    if "trial_ids" not in run.memory:
        return None
    before = (run.memory[name] for name in ("trial_ids", "trial_n", "trial_t"))
    trial = _rows(problem, *before)
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
    """Rows (nc, d) of a step from forces (n,) and vectors (n, dim) of contacts ``ids``; else 0."""
    friction: Any = problem.friction
    rows = np.zeros((problem.nc, friction.d))
    if problem.nc:
        now = np.asarray(problem.contact_ids)
        _, here, there = np.intersect1d(now, ids, return_indices=True)
        rows[here, 0] = normal[there]
        rows[here, 1:] = np.einsum("ix,ikx->ik", sliding[there], friction.tangents[here])
    return rows


def _by_name(problem: ContactStep, rows: FloatArray, name: str) -> dict[str, FloatArray]:
    """Normal forces (nc,), and tangential ones as vectors (nc, dim), of rows (nc, d)."""
    friction: Any = problem.friction
    if not problem.nc:
        return {name: np.zeros(0), f"{name}_t": np.zeros((0, friction.d))}
    vectors = np.einsum("ik,ikx->ix", rows[:, 1:], friction.tangents)
    return {name: rows[:, 0].copy(), f"{name}_t": vectors}


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


def _last_iterate(solution: StepSolution) -> tuple[FloatArray, FloatArray]:
    """Motion and forces of all rows where a solver ended, certified or not."""
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


def _stage(solution: StepSolution | None, seconds: float) -> Stage:
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
