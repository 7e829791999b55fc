"""Contact dynamics, classic or compatible, without friction or with it: one method in time.

Algorithm 1 of Olsen & Kamrin (2018): contacts → step → v⁺ → q⁺ = q + Δt L(q) v⁺. The compatible
forces do not change the motion. How bodies in space turn is a setting; by default, unlike the
paper, their angular momentum is conserved. With friction each step is a ``FrictionalCD``, under
Coulomb's law or the associated law. Steps of Coulomb's law need not have an answer: one without a
certified answer is divided into halves, quarters and so on, with the gaps and velocities of each
instant and B of the start of the step.

``ContactDynamics`` takes the steps. The methods (``contact_methods``) choose the problems of a
step, ``StepProblems``: with friction or without, with compatible forces or not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt.backends.base import Backend
from cdopt.backends.modelled import at_work
from cdopt.collision import (
    TURNINGS,
    Contacts,
    PairFriction,
    VerletList,
    advance,
    detect,
    joint_gaps,
    safe_margins,
)
from cdopt.collision.contact_step import (
    PUSHED,
    TOUCHING,
    arguments_of_step,
    resisted_turns,
    warn_of_overlaps,
)
from cdopt.collision.contacts import from_start
from cdopt.dynamics.impacts import Slip, Solved, in_sequence, take
from cdopt.dynamics.method import (
    Advance,
    Arrays,
    Failure,
    Settings,
    Snapshot,
    Stage,
    StepContext,
    StepRecord,
    no_motion,
    without_memory,
)
from cdopt.dynamics.records import Checkpoint, ContactState, deepest, shape_of
from cdopt.formulations import ClassicCD, CompatibleCD, CompatibleFriction, FrictionalCD
from cdopt.formulations.friction_network import NetworkForces
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.friction import Friction
from cdopt.problem.solution import StepSolution, WarmStart
from cdopt.scene import Scene, State

LOG = logging.getLogger("cdopt.dynamics")
_GAIN = 1e-6  # share of the kinetic energy that impacts may add without a warning
_GAINED = (
    "impacts add %.2g J to %.2g J of kinetic energy in a step: with friction, Newton's law of "
    "restitution can do so. Later ones of the run are not reported"
)
_CARRIES = 1e-6  # of the largest force of a step: less counts as no force
_LIMIT = 1e-6  # share of μ f_n by which friction may miss it and count as sliding
_HITS = 4  # bodies in a row that may take over the speed of the first in one step


# --- common settings ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ContactSettings(Settings):
    """Common settings of the methods of contact dynamics.

    Parameters
    ----------
    warm_start : start each solve from the forces of the step before, contact by contact. Off by
        default: results then depend only on the state. OSQP then keeps its set-up too, as long
        as the contacts stay (``cdopt.backends.OSQPSession``); a run that is resumed sets it up
        again, and agrees with one that was not interrupted within OSQP's accuracy.
    tol : tolerance of the certificates. Interior point and splitting solvers leave 1e-5 to 1e-4
        at their defaults where contacts neither press nor part, as in free fall: widen it for
        them, or ask them for more accuracy.
    v_min : approach speed below which restitution does not act, m/s.
    turning : "momentum", which conserves the angular momentum of free bodies and is of second order
        for them, or "plain", the paper's update, of first order. They differ for bodies in space
        with unequal moments of inertia.
    impacts : most impacts within a step, where e > 0: each takes a further contact step. 1 closes
        all but the first without restitution. The diagnostics ``impacts`` counts the contact
        steps of each step, and ``plastic`` the contacts that closed without restitution.
    push_overlaps : push bodies apart that overlap by the error of the time step, which gives them
        energy, of first order in Δt. False counts them as touching: without restitution and drive
        the energy then never grows, but overlaps may accumulate.
    """

    warm_start: bool = False
    tol: float = TOLERANCE
    v_min: float = 0.0
    turning: str = TURNINGS[0]
    impacts: int = 16
    push_overlaps: bool = True

    name: ClassVar[str]

    def __post_init__(self) -> None:
        checked = {
            "warm_start": checks.flag("warm_start", self.warm_start),
            "tol": checks.tolerance("tol", self.tol),
            "v_min": checks.not_negative("v_min", self.v_min),
            "turning": checks.choice("turning", self.turning, TURNINGS),
            "impacts": checks.count("impacts", self.impacts, 100_000),
            "push_overlaps": checks.flag("push_overlaps", self.push_overlaps),
        }
        self._put(**checked)


# --- the steps -----------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownForces:
    """Forces of a step, from which the next one starts: by name, of contacts ``ids`` (n,)."""

    ids: IntArray
    forces: Mapping[str, FloatArray]


@dataclass(frozen=True)
class RigidSnapshot(Snapshot):
    """A snapshot of contact dynamics, with the contacts of the state for the next step.

    ``known`` are forces for a warm start, ``slip`` is the history of compatible forces with
    friction.
    """

    contacts: Contacts
    known: KnownForces | None = None
    slip: Slip | None = None

    def stored(self) -> Arrays:
        """The arrays by name; the contacts are detected again."""
        arrays = {"remembered": np.array(int(self.known is not None))}
        if self.known is not None:
            arrays |= {"ids": self.known.ids, **self.known.forces}
        return arrays | ({} if self.slip is None else self.slip.stored())


class ContactDynamics:
    """Contact dynamics on one scene: contacts, their problem, v⁺, and where bodies are then."""

    each_step = True

    def __init__(
        self, context: StepContext, settings: ContactSettings, problems: StepProblems
    ) -> None:
        scene = checks.instance("context", context, StepContext).scene
        if scene.bonds.size:
            methods = ("variational", "velocity-verlet", "quasi-static")
            raise Unsupported("contact dynamics", "the scene has bonds, which pull", methods)
        self.context, self.problems, self._chosen = context, problems, settings
        self.name, self.settings = settings.name, settings.settings()
        self.forces, self.stages = problems.forces, problems.stages
        self.measures = problems.measures
        self._dofs = scene.dofs if context.friction is None else scene.full_dofs
        self._neighbours = VerletList(scene)
        start, what = scene.start_overlaps, PUSHED if scene.overlaps == "resolve" else TOUCHING
        warn_of_overlaps(scene, start.bodies, start.phi, what)

    def begin(self, state: State) -> Advance[RigidSnapshot]:
        """An initial state, whose frame has no contacts."""
        contacts, seconds = self._detect(state)
        none, vectors = np.zeros(0), np.zeros((0, state.dim))
        return Advance(
            RigidSnapshot(0, state, contacts),
            StepRecord(
                ContactState(none.astype(np.int64), none, vectors, vectors, none, 0.0),
                {name: np.zeros(shape_of(name, 0, state.dim)) for name in self.forces},
                stages={},
                measures=dict.fromkeys(self.measures, 0.0),
                joint_forces=np.zeros(joint_gaps(self.context.scene, state).size),
                overlap=deepest(contacts.phi),
                seconds_detect=seconds,
            ),
        )

    def restore(self, saved: Checkpoint) -> RigidSnapshot:
        """The snapshot that was saved."""
        arrays = saved.memory
        if self.problems.remembers and saved.step and not arrays:
            raise without_memory(saved, ("ids", *self.forces))
        forces = {name: arrays[name] for name in ("f", "f_classic", "f_t") if name in arrays}
        contacts, _ = self._detect(saved.state)
        known = KnownForces(arrays["ids"], forces) if "ids" in arrays else None
        return RigidSnapshot(saved.step, saved.state, contacts, known, Slip.restored(arrays))

    def advance(self, snapshot: RigidSnapshot, steps: int) -> Advance[RigidSnapshot]:
        """Take one step."""
        context, contacts, state = self.context, snapshot.contacts, snapshot.state
        chosen, started = self._chosen, clock()
        how = (context.dt, chosen.v_min, chosen.turning, context.friction, chosen.push_overlaps)
        problem = rigid_step(context.scene, state, contacts, *how)
        seconds = clock() - started
        try:
            answer = self._solved(problem, snapshot)
        except SolveFailed as error:
            failure = Failure(str(error), error, state, contacts.nc)
            return Advance(snapshot, None, failure)
        after = advance(
            context.scene,
            state,
            answer.motion,
            context.dt,
            turning=chosen.turning,
            mean=None if answer.count == 1 else answer.mean,
            dofs=self._dofs,
        )
        measures = answer.measures | {"impacts": answer.count, "plastic": answer.plastic}
        record = StepRecord(
            contacts,
            answer.forces,
            answer.stages,
            measures,
            seconds_assemble=seconds,
            joint_forces=answer.reactions,
        )
        if context.strict and not record.ok:
            failure = Failure(_why(record), answer.solution, after, contacts.nc, record)
            return Advance(snapshot, None, failure)
        step = snapshot.step + 1
        after = after.at(step * context.dt)
        later, detecting = self._detect(after)
        record = replace(record, overlap=deepest(later.phi), seconds_detect=detecting)
        slip = snapshot.slip if answer.slip is None else answer.slip
        return Advance(
            RigidSnapshot(step, after, later, self._known(snapshot, answer), slip), record
        )

    def _solved(self, step: ContactStep, snapshot: RigidSnapshot) -> Solved:
        """The answer to a step, perhaps in parts and from impact to impact."""
        problems, impacts = self.problems, self._chosen.impacts

        def solve(part: ContactStep) -> Solved:
            return problems.solve(part, snapshot)

        def whole(part: ContactStep) -> Solved:
            return take(part, solve, problems.classic, impacts)

        parts = problems.substeps
        answer = whole(step) if parts == 1 else in_sequence(step, whole, parts)
        return replace(answer, measures=answer.measures | problems.counts(step, answer))

    def _known(self, snapshot: RigidSnapshot, answer: Solved) -> KnownForces | None:
        if not self._chosen.warm_start:
            return None
        return self.problems.known(snapshot.contacts.contact_ids, answer, snapshot)

    def _detect(self, state: State) -> tuple[Contacts, float]:
        """Contacts for a step from this state, and how long it took."""
        started, scene = clock(), self.context.scene
        margin = safe_margins(scene, state, self.context.dt)
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


def _why(record: StepRecord) -> str:
    """Which certificates of a step fail."""
    return "; ".join(
        f"{name}: residual {stage.residual:.1e}, solver status {stage.status!r}"
        for name, stage in record.stages.items()
        if not stage.ok
    )


# --- the problems of a step -----------------------------------------------------------------


@dataclass(frozen=True)
class CompatibleForces:
    """Settings for the compatible forces; with friction by Newton's method."""

    backend: Backend
    closed_tol: float | None


class StepProblems:
    """The problems of a contact step, and the names of their results.

    The first problem has the motion: ``ClassicCD``, or ``FrictionalCD`` where there is a ``law`` of
    friction. A second one may resolve the forces by compatibility: ``CompatibleCD`` or
    ``CompatibleFriction``.

    Attributes
    ----------
    classic : name of the normal forces of the first problem.
    forces, stages, measures : names in the records.
    remembers : whether a step needs more from the previous one than its state.
    substeps : most parts of a step.
    """

    def __init__(
        self,
        context: StepContext,
        settings: ContactSettings,
        backend: Backend,
        second: CompatibleForces | None = None,
        law: str | None = None,
        substeps: int = 1,
    ) -> None:
        self._context, self._settings, self._second, self._law = context, settings, second, law
        self._backend, self._session, self._gained = backend, False, False
        self.substeps, compatible, frictional = substeps, second is not None, law is not None
        self.remembers = settings.warm_start or (frictional and compatible)
        self.classic = "f_classic" if compatible else "f"
        normal = ("f", "f_classic") if compatible else ("f",)
        moments = ("_r",) if any(resisted_turns(context.scene)) else ()
        ends = ("", "_t", *moments) if frictional else ("",)
        self.forces = tuple(name + end for name in normal for end in ends)
        first = "friction" if frictional else "classic"
        self.stages = (first, "forces") if compatible else (first,)
        closed = ("closed", "closed_tol", "projected") if compatible and not frictional else ()
        limits = ("substeps", "carrying", "sliding") if frictional else ()
        self.measures = (*closed, "impacts", "plastic", *limits)

    def solve(self, step: ContactStep, before: RigidSnapshot) -> Solved:
        """The answer to one contact step."""
        started, both = clock(), None
        problem: ClassicCD | FrictionalCD
        if self._law is not None:
            problem = FrictionalCD(step, self._law)
        elif self._second is None:
            problem = ClassicCD(step)
        else:
            power, tol = self._context.scene.power, self._second.closed_tol
            both = CompatibleCD(step, power=power, closed_tol=tol)
            problem = both.classic_cd
        if self._settings.warm_start and not self._session:  # OSQP keeps its set-up
            self._backend, self._session = at_work(self._backend), True
        solution = problem.solve(
            self._backend,
            tol=self._settings.tol,
            warm_start=self._start(step, before),
            check=self._context.strict,
        )
        motion, rows = _last_iterate(problem, solution)
        forces = {self.classic: rows}
        if self._law is not None:
            self._warn_of_gain(step, motion)
            many = _friction(step).d + _friction(step).moments
            forces = _by_name(step, rows.reshape(step.nc, many), self.classic)
        stages = {self.stages[0]: Stage.of(solution, clock() - started)}
        answer = Solved(motion, motion, forces, stages, {}, solution)
        if step.joints is not None:
            answer = replace(answer, reactions=_reactions(step.joints.count, solution))
        if self._second is None:
            return answer
        if both is not None:
            return self._compatible(both, self._second, before, answer, solution)
        return self._with_history(step, before.slip, answer, solution)

    def _start(self, step: ContactStep, before: RigidSnapshot) -> WarmStart | None:
        """Forces of the step before for the first problem, if they are known."""
        known = before.known
        if known is None or self._law is None:
            return self._known_as(self.classic, before)
        rows = _rows(step, known.ids, known.forces["f"], known.forces["f_t"])
        return WarmStart(rows.ravel())

    def _known_as(self, name: str, before: RigidSnapshot) -> WarmStart | None:
        """Normal forces of the step before by their name."""
        known = before.known
        if known is None or name not in known.forces:
            return None
        return WarmStart(known.forces[name], contact_ids=known.ids)

    def _compatible(
        self,
        both: CompatibleCD,
        second: CompatibleForces,
        before: RigidSnapshot,
        answer: Solved,
        first: StepSolution,
    ) -> Solved:
        """The answer with forces of the rigid limit of elastic contacts."""
        started, last = clock(), None
        f, closed = np.full(both.step.nc, np.nan), {}
        if first.f is not None:
            last = both.solve(
                second.backend,
                tol=self._settings.tol,
                warm_start=self._known_as("f", before),
                check=self._context.strict,
                classic=first,
            )
            f, closed = f if last.f is None else last.f, last.provenance["closed"]
        keys = {"closed": "contacts", "closed_tol": "tol", "projected": "projected"}
        return replace(
            answer,
            forces={"f": f, **answer.forces},
            stages={**answer.stages, "forces": Stage.of(last, clock() - started)},
            measures={name: float(closed.get(key, np.nan)) for name, key in keys.items()},
            solution=last or first,
            reactions=answer.reactions if last is None else _reactions(answer.reactions.size, last),
        )

    def _with_history(
        self, step: ContactStep, slip: Slip | None, answer: Solved, solution: StepSolution
    ) -> Solved:
        """The answer with the forces of a network with the history ``slip``."""
        started = clock()
        rows, reactions = np.full((step.nc, self._context.scene.dim), np.nan), answer.reactions
        stage = Stage.of(None, 0.0)
        if not step.nc:
            stage, slip = Stage(0.0, True, True, 0, 0.0, "no contacts"), None
        elif solution.ok:
            history = None if slip is None else _history(step, slip)
            law = self._law or "coulomb"
            compatible = CompatibleFriction(step, law, history=history, sliders="haar-karman")
            slip = None
            try:
                network = compatible.solve(solution)
            except SolveFailed as error:
                stage = replace(stage, seconds=clock() - started, status=error.status)
            else:
                rows = network.rows.reshape(step.nc, -1)
                reactions = reactions if network.joint_forces is None else network.joint_forces
                seconds = clock() - started
                stage = Stage(network.residual, network.ok, True, -1, seconds, network.label)
                trial = _by_name(step, network.trial, "trial")
                ids = np.asarray(step.contact_ids)
                slip = Slip(ids, trial["trial"], trial["trial_t"])
        else:
            slip = None
        forces, stages = _by_name(step, rows, "f") | answer.forces, {"forces": stage}
        stages = answer.stages | stages
        return replace(answer, forces=forces, stages=stages, slip=slip, reactions=reactions)

    def counts(self, step: ContactStep, answer: Solved) -> dict[str, float]:
        """With friction, of the answer to a whole step, parts of it and contacts.

        These are contacts that carry a force, and those of them at the limit of friction.
        """
        if self._law is None:
            return {}
        f = answer.forces[self.classic]
        size = np.linalg.norm(answer.forces[f"{self.classic}_t"], axis=1)
        carrying = f > _CARRIES * f.max(initial=0.0)
        sliding = carrying & (size >= (1.0 - _LIMIT) * _friction(step).mu * f)
        counts = {"substeps": answer.parts, "carrying": carrying.sum(), "sliding": sliding.sum()}
        return {name: float(count) for name, count in counts.items()}

    def known(self, ids: IntArray, answer: Solved, before: RigidSnapshot) -> KnownForces | None:
        """The forces of contacts ``ids`` from which the next step may start.

        Of friction those of the motion's problem; where they are no numbers, those known before.
        """
        if self._law is None:
            finite = {name: f for name, f in answer.forces.items() if np.isfinite(f).all()}
            return KnownForces(ids, finite)
        forces = {"f": answer.forces[self.classic], "f_t": answer.forces[f"{self.classic}_t"]}
        if all(np.isfinite(f).all() for f in forces.values()):
            return KnownForces(ids, forces)
        return before.known

    def _warn_of_gain(self, step: ContactStep, motion: FloatArray) -> None:
        """Warn once in a run if impacts with restitution add energy."""
        still = not step.gap_rate.any() and step.phi.min(initial=0.0) >= 0.0
        if self._gained or not step.impacting.any() or not still:
            return
        before, after = (0.5 * v @ step.mass.times(v) for v in (step.v_star, motion))
        if after > (1.0 + _GAIN) * before:
            self._gained = True
            LOG.warning(_GAINED, after - before, before)


def _history(step: ContactStep, slip: Slip) -> NetworkForces:
    """Trial forces of the step before, along the normals and tangents of this one."""
    trial = _rows(step, slip.ids, slip.normal, slip.tangential)
    return NetworkForces(
        f=trial[:, 0],
        f_t=trial[:, 1:],
        u=np.zeros(step.nv),
        flow="coulomb",
        label="history",
        residual=0.0,
        trial=trial,
        contact_ids=step.contact_ids,
    )


def _friction(step: ContactStep) -> Friction:
    """The friction that a step of these has."""
    if step.friction is None:
        raise InvalidInput("step", "a step without friction", "one with friction")
    return step.friction


def _rows(step: ContactStep, ids: IntArray, normal: FloatArray, sliding: FloatArray) -> FloatArray:
    """Rows (nc, d) of a step from forces (n,) and vectors (n, dim) of contacts ``ids``; else 0."""
    friction = _friction(step)
    rows = np.zeros((step.nc, friction.d + friction.moments))
    if step.nc:
        now = np.asarray(step.contact_ids)
        _, here, there = np.intersect1d(now, ids, return_indices=True)
        rows[here, 0] = normal[there]
        along = np.einsum("ix,ikx->ik", sliding[there], friction.tangents[here])
        rows[here, 1 : friction.d] = along
    return rows


def _by_name(step: ContactStep, rows: FloatArray, name: str) -> dict[str, FloatArray]:
    """Normal forces (nc,), tangential ones as vectors (nc, dim) and moments, of rows (nc, d)."""
    friction = _friction(step)
    moments = rows.shape[1] > friction.d
    if not step.nc:
        none = {name: np.zeros(0), f"{name}_t": np.zeros((0, friction.d))}
        return none | ({f"{name}_r": np.zeros(shape_of("_r", 0, friction.d))} if moments else {})
    vectors = np.einsum("ik,ikx->ix", rows[:, 1 : friction.d], friction.tangents)
    forces = {name: rows[:, 0].copy(), f"{name}_t": vectors}
    return forces | ({f"{name}_r": _moments(step, rows)} if moments else {})


def _moments(step: ContactStep, rows: FloatArray) -> FloatArray:
    """Moments on the second bodies of rows (nc, d), N·m: vectors (nc, 3), or (nc,) in the plane."""
    friction, normals = _friction(step), step.normals
    moments = rows[:, friction.d :]
    if friction.d == 2 or normals is None:
        return moments[:, 0].copy()
    spins = friction.moments % 2  # about the normal, before those about the tangents
    about = np.concatenate([normals[:, None, :][:, :spins], friction.tangents], axis=1)
    return np.asarray(np.einsum("ik,ikx->ix", moments, about[:, : friction.moments]))


def rigid_step(
    scene: Scene,
    state: State,
    contacts: Contacts,
    dt: float,
    v_min: float,
    turning: str,
    friction: PairFriction | None = None,
    push: bool = True,
) -> ContactStep:
    """The contact step that a run of contact dynamics solves; arguments as in ``collision.step``.

    ``push`` : push bodies apart that have come to overlap.

    ``scene.overlaps`` applies to those of the start.
    """
    touching, mu = from_start(scene, contacts), None
    if not push:
        touching = touching._at_gaps(np.maximum(touching.phi, 0.0))
    if friction is not None:
        mu = read_only(friction.coefficients(scene, contacts.bodies))
    dofs = scene.dofs if friction is None else scene.full_dofs
    arguments = arguments_of_step(scene, state, touching, dofs, dt, turning, mu)
    return ContactStep._of(**arguments, v_min=v_min)


def _reactions(many: int, solution: StepSolution) -> FloatArray:
    """Reactions of as many joints (nj,), N and N·m; no numbers where a solution has none."""
    reactions = solution.joint_forces
    return np.full(many, np.nan) if reactions is None else reactions


def _last_iterate(
    problem: ClassicCD | FrictionalCD, solution: StepSolution
) -> tuple[FloatArray, FloatArray]:
    """Motion and forces of all rows where a solver ended, certified or not."""
    last = solution.iterate
    if last is None or last.motion is None or not np.isfinite(last.motion).all():
        raise no_motion(solution)
    motion = last.motion if problem.joints is None else problem.joints.full(last.motion)
    return motion, last.forces
