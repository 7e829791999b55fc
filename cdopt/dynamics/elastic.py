"""Methods with elastic contacts: variational integrator, velocity-Verlet, quasi-static motion.

De Klerk et al. (2021). All deform contacts, whose stiffness the scene's materials state in N/m
(N/m^(p−1)), and hold the scene's bonds. The first two damp with the scene's γ_n and γ_t; the third
has neither inertia nor damping.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields
from itertools import combinations
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from cdopt._util.arguments import trusted
from cdopt._util.checks import FloatArray, NotNegative, Positive, integer, number, one_of
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt.backends.base import Backend
from cdopt.collision import VerletList, detect, move
from cdopt.collision.contacts import contact_stiffness
from cdopt.collision.motion import cross_matrices
from cdopt.dynamics.contact_dynamics import resolved
from cdopt.dynamics.equilibrium import TRAVEL, contact_state, equilibrium, unbalanced
from cdopt.dynamics.frozen_friction import FrictionalIncrements, SlidingSprings
from cdopt.dynamics.records import ContactState, Stage, StepContext, StepTaken
from cdopt.dynamics.relinearised import OVERLAP_TOO_DEEP, STEP_TOO_LONG, Passes, Relinearised
from cdopt.dynamics.spheres import (
    DIVERGED,
    DONE,
    FORCED,
    NOT_CERTIFIED,
    PAPER,
    TOO_DEEP,
    TOO_FAST,
    Integration,
    Scheme,
    SphereStepper,
    is_native,
)
from cdopt.dynamics.spheres.system import FrictionLaw, Memory
from cdopt.formulations.variational_step import LEAST_ALPHA
from cdopt.geometry.rotations import matrices
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.scene import Scene, State

SPLITS = {"paper": PAPER, "forced": FORCED}
SOLVERS = ("cg", "direct")
PATHS = ("auto", "native", "cvxpy")
LOG = logging.getLogger("cdopt.dynamics")
_ADVISED = 16.0  # steps in t_c, the largest step of most of the paper's examples
_COARSE = 0.1 * np.pi  # of 2/ω = (2/π) t_c: t_c/5
_TOO_COARSE = (
    "dt = %g s is more than a fifth of the shortest collision: energy may change by more than 5 %% "
    "in each; %.2g s resolves them (t_c/16)"
)
_LIMIT = 60  # Newton iterations of a step: five are many
_WHY = {
    DIVERGED: "Newton's iteration came to a residual of {residual:.1e} and no further",
    NOT_CERTIFIED: "the residual, {residual:.1e} of what acts on a body, is above the tolerance",
    TOO_DEEP: OVERLAP_TOO_DEEP,
    TOO_FAST: STEP_TOO_LONG,
}


@dataclass(frozen=True, kw_only=True)
class _ElasticSteps:
    """What the methods with elastic contacts have in common: friction, springs and energies."""

    stiffness_ratio: Positive | None = None
    rough: bool = field(default=False, init=False, repr=False)

    frictional: ClassVar[bool] = True
    stages: ClassVar[tuple[str, ...]] = ("step",)
    energies: ClassVar[tuple[str, ...]] = ("elastic", "dissipated", "work", "scheme_error")

    @property
    def forces(self) -> tuple[str, ...]:
        """Names of the forces of a step."""
        return ("f", "f_t") if self.rough else ("f",)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the energies of a step."""
        return (*self.energies, "friction", "tangential") if self.rough else self.energies

    def with_friction(self) -> Self:
        """The same settings for a run with friction."""
        rough = copy(self)
        object.__setattr__(rough, "rough", True)
        return rough

    def settings(self) -> dict[str, Any]:
        """The settings as plain values, those left out that have no part in the run."""
        shown = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        ratio = {"stiffness_ratio": shown.pop("stiffness_ratio")}
        if shown.get("backend") is not None:
            shown["backend"] = repr(shown["backend"])
        known = {name: value for name, value in shown.items() if value is not None}
        return known | (ratio if self.rough else {})

    def _law(self, run: StepContext) -> FrictionLaw | None:
        """Friction of the run."""
        if not self.rough:
            return None
        return FrictionLaw(True if run.friction is None else run.friction, self.stiffness_ratio)

    def _begun(self, run: StepContext, state: State, contacts: ContactState) -> StepTaken:
        """The initial state, from which energies count."""
        run.memory["energy"] = np.array([0.0, 0.0, -contacts.energy, 0.0][: 3 + self.rough])
        return self._taken(run, state, contacts)

    def _taken(
        self,
        run: StepContext,
        state: State,
        contacts: ContactState,
        stage: Stage | None = None,
        steps: int = 0,
        failure: str = "",
        solution: object = None,
        energy: Any = 0.0,
    ) -> StepTaken:
        """Steps that took and made ``energy``, as in ``Passes``."""
        run.memory["energy"] = total = np.asarray(run.memory["energy"] + np.asarray(energy))
        lost, work, error = total[:3].tolist()
        elastic, forces = contacts.energy, {"f": contacts.forces}
        measures = {"elastic": elastic, "dissipated": lost, "work": work}
        measures["scheme_error"] = error + elastic
        if contacts.tangential is not None:
            forces["f_t"] = contacts.tangential
            measures |= {"friction": float(total[3]), "tangential": contacts.energy_t}
        return trusted(
            StepTaken,
            state=state,
            forces=forces,
            stages={} if stage is None else {"step": stage},
            measures=measures,
            seconds_assemble=0.0,
            steps=steps,
            contacts=contacts,
            failure=failure,
            solution=solution,
        )

    # --- steps of compiled loops -------------------------------------------------------

    def _stepper(self, run: StepContext) -> SphereStepper:
        """The run's compiled steps, made when first asked for, from the springs in its memory."""
        work, memory = run.workspace, run.memory
        if "stepper" not in work:
            require_elastic(run.scene)
            work["stepper"] = SphereStepper(run.scene, self._law(run))
        stepper: SphereStepper = work["stepper"]
        if "springs" in memory and memory["springs"] is not work.get("springs"):
            stepper.memory = Memory(memory["spring_ids"], memory["springs"])
            work["springs"] = memory["springs"]
        return stepper

    def _remember(self, run: StepContext) -> None:
        """Put the springs of friction into the run's memory."""
        if self.rough:
            springs = self._stepper(run).memory
            run.memory["spring_ids"], run.memory["springs"] = springs.ids, springs.values
            run.workspace["springs"] = springs.values

    def _integrated(self, run: StepContext, ended: Integration, stage: Stage | None) -> StepTaken:
        """What compiled loops did."""
        spheres = self._stepper(run)
        self._remember(run)
        contacts, failure = spheres.contacts(ended.state), _failure(spheres, ended, run.dt)
        return self._taken(
            run, ended.state, contacts, stage, ended.done, failure, energy=ended.energy
        )

    # --- steps posed one after the other -----------------------------------------------

    def _contacts(self, run: StepContext, state: State) -> ContactState:
        """Contacts of a state, with the forces of friction."""
        contacts = contact_state(run.scene, state, _neighbours(run))
        return _sliding_springs(run).shown(contacts) if self.rough else contacts

    def _begin_posed(self, run: StepContext, state: State) -> StepTaken:
        """The initial state, without springs."""
        if self.rough:
            run.memory |= SlidingSprings.none(run.scene.dim).stored()
        return self._begun(run, state, self._contacts(run, state))

    def _one_by_one(
        self, run: StepContext, state: State, steps: int, step: Callable[[State], Passes]
    ) -> StepTaken:
        """Up to so many steps; one that fails, or is not certified, leaves those before it."""
        started, worst, passes, done, failure = clock(), 0.0, 0, 0, ""
        ok, claimed, energy = True, True, np.zeros(3 + self.rough)
        evidence: object = None
        while done < steps and not failure:
            try:
                taken = step(state)
            except SolveFailed as error:
                failure, evidence = str(error), error
                break
            failure, evidence = taken.failure, taken.solution
            if not failure and run.strict and not taken.ok:
                failure = _WHY[NOT_CERTIFIED].format(residual=taken.residual)
                if taken.solution is not None:
                    said = f"the solver says {taken.solution.status!r}"
                    failure = f"the certificate fails at {taken.residual:.1e}: {said}"
            if not failure:
                state, done, passes = taken.state, done + 1, passes + taken.passes
                energy, worst = energy + taken.energy, max(worst, taken.residual)
                ok, claimed = ok and taken.ok, claimed and taken.claimed
                if taken.springs is not None:
                    run.memory |= taken.springs.stored()
        stage = Stage(worst, ok, claimed, passes, clock() - started, "")
        contacts, evidence = self._contacts(run, state), evidence if failure else None
        return self._taken(run, state, contacts, stage, done, failure, evidence, energy)


@dataclass(frozen=True, kw_only=True)
class VariationalSteps(_ElasticSteps):
    """The variational integrator, with friction too.

    With friction each step is convex: the normal forces in the caps μ f_n, and k_t, are those of
    the predictor q + α h v. The springs are as with velocity-Verlet.

    Parameters
    ----------
    alpha : α in [0, 1): forces act at q_α = (1−α) q + α q⁺. ½ is of second order; 0 is explicit
        but for damping, of first order.
    damping : "forced", of second order with damping too, or "paper", which is of first order.
    path : "native", compiled, for spheres and half-spaces; "cvxpy", ``cdopt.VariationalStep``
        linearised again until R(q⁺) = 0, for all shapes; or "auto", the first that takes the run.
    backend : of the CVXPY path, a name or a settings object, by default "newton". solver : of the
        native path's linear systems, "cg" or "direct".
    tol : of the residual R(q⁺) = 0, or of the change of Δq from pass to pass, as a share of the
        fastest speed. A step is certified if R, as a share of what acts on each body, is at most
        1e-6, or ``tol`` if that is more.
    stiffness_ratio : k_t/k_n of the tangential springs of friction; None for Mindlin's
        2(1−ν)/(2−ν), from Poisson's ratios of the materials. Unused without friction.
    allow_long_steps : take time steps of 2/ω and more, ω² = k/m_eff of the stiffest contact or bond
        between any two bodies. A step of R(q⁺) = 0 still has an answer there, but a collision falls
        between two steps: it multiplies the kinetic energy by 0.2 to 9, depending on its phase.

    Raises
    ------
    InvalidInput : a setting out of range.

    Notes
    -----
    De Klerk et al. (2021), equations (29)–(31) and Algorithm 1, corrected. Both paths meet the
    same equation; trajectories agree.

    Time steps: the largest of the paper, 1e-3 in its units, is t_c/1.61, t_c = π/ω = π √(m/2k),
    just below 2/ω = t_c/1.57, which is the limit here as for velocity-Verlet. A bond of k_B > k
    lowers it by √(k_B/k) (section 3.3: k_B = 10 k). A solid hit at a corner gives way as if it had
    a mass between m/4 and m/7, which ω counts; contacts at several corners of a face at once can
    be up to 2 times quicker, which it does not. Above t_c/5 a warning is logged: in an
    undamped collision energy may change by 5 % at t_c/5, by 25 % at t_c/3.2 and by 60 % at t_c/2,
    and by 0.2 % at the paper's t_c/16. With powers other than 2 only bonds are checked.
    """

    alpha: NotNegative = 0.5
    damping: Annotated[str, one_of(SPLITS)] = "forced"
    path: Annotated[str, one_of(PATHS)] = "auto"
    backend: str | Backend | None = None
    solver: Annotated[str, one_of(SOLVERS)] | None = None
    tol: Annotated[float, number(above=0.0, at_most=1e-2)] = 1e-12
    allow_long_steps: bool = False

    name: ClassVar[str] = "variational"

    def __post_init__(self) -> None:
        if not self.alpha < 1.0 or 0.0 < self.alpha < LEAST_ALPHA:
            expected = f"0, or a number in [{LEAST_ALPHA:g}, 1)"
            raise InvalidInput("alpha", f"{self.alpha:g}", expected)
        users = {"backend": "cvxpy", "solver": "native"}
        for name, path in users.items():
            if getattr(self, name) is None:
                continue
            if self.path == "auto":
                object.__setattr__(self, "path", path)
            elif self.path != path:
                both = f"{getattr(self, name)!r} with path {self.path!r}"
                raise InvalidInput(name, both, f"path {path!r}, which uses it")
        if self.path != "cvxpy":
            object.__setattr__(self, "solver", self.solver or "cg")
        if self.path != "native":
            object.__setattr__(self, "backend", resolved("backend", self.backend or "newton"))

    def with_friction(self) -> Self:
        """The same settings for a run with friction.

        Raises
        ------
        Unsupported : α = 0.
        """
        if self.alpha == 0.0:
            why = "forces at the start of the step know nothing of its slip"
            raise Unsupported("friction with alpha 0", why, ("alpha=0.5",))
        return super().with_friction()

    def begin(self, run: StepContext, state: State) -> StepTaken:
        """Measures of the initial state.

        Raises
        ------
        InvalidInput : a scene without stiffness, or with Newton's restitution; a time step that
            does not resolve its collisions.
        Unsupported : shapes that the path does not know.
        """
        require_elastic(run.scene)
        longest = _longest(run.scene, self._law(run))
        if run.dt >= longest and not self.allow_long_steps:
            expected = (
                f"less than {longest:.3g} s, beyond which collisions are not resolved and make "
                f"energy, or allow_long_steps=True"
            )
            raise InvalidInput("dt", f"{run.dt:g} s", expected)
        if run.dt > _COARSE * longest:
            best = 0.5 * np.pi * longest / _ADVISED
            LOG.warning(_TOO_COARSE, run.dt, best)
        if self._posed(run):
            return self._begin_posed(run, state)
        contacts = self._stepper(run).contacts(state)
        self._remember(run)
        return self._begun(run, state, contacts)

    def integrate(self, run: StepContext, state: State, steps: int) -> StepTaken:
        """Up to so many steps."""
        if self._posed(run):
            law = self._law(run)
            if "linearised" not in run.workspace:
                backend = resolved("backend", self.backend)
                settings = run.dt, self.alpha, self.damping, backend, self.tol, law
                run.workspace["linearised"] = Relinearised(run.scene, *settings)
            work: Relinearised = run.workspace["linearised"]

            def step(state: State) -> Passes:
                return work.step(state, None if law is None else _sliding_springs(run))

            return self._one_by_one(run, state, steps, step)
        accept, started = max(self.tol, TOLERANCE), clock()
        direct, split = self.solver == "direct", SPLITS[self.damping]
        scheme = Scheme(run.dt, self.alpha, split, self.tol, _LIMIT, direct, accept, run.strict)
        ended = self._stepper(run).variational(state, steps, scheme)
        seconds = clock() - started
        stage = Stage(ended.residual, ended.residual <= accept, True, ended.newton, seconds, "")
        return self._integrated(run, ended, stage)

    def _posed(self, run: StepContext) -> bool:
        """Whether this run takes the CVXPY path."""
        if self.path == "auto" and "posed" not in run.workspace:
            run.workspace["posed"] = not is_native(run.scene)
        return self.path == "cvxpy" or (self.path == "auto" and bool(run.workspace["posed"]))


@dataclass(frozen=True, kw_only=True)
class VelocityVerletSteps(_ElasticSteps):
    """Velocity-Verlet, the explicit integrator of both papers, compiled, for spheres and walls.

    Damping sees the velocities of the half step, as in LAMMPS. Friction is that of tangential
    springs with a memory, cut to μ f_n: Cundall & Strack (1979), as
    ``cdopt.dynamics.spheres.forces`` has it. The springs are saved with the run. Measures with
    friction: ``friction``, the part of ``dissipated`` that friction took, with its dashpots, and
    ``tangential``, the part of ``elastic`` in springs of friction, J.

    Parameters
    ----------
    stiffness_ratio : k_t/k_n of the tangential springs of friction; None for Mindlin's
        2(1−ν)/(2−ν), from Poisson's ratios of the materials. Unused without friction.

    Raises
    ------
    InvalidInput : a ratio that is not positive.
    """

    name: ClassVar[str] = "velocity-verlet"
    stages: ClassVar[tuple[str, ...]] = ()

    def begin(self, run: StepContext, state: State) -> StepTaken:
        """Measures of the initial state.

        Raises
        ------
        InvalidInput : a scene without stiffness, or with Newton's restitution; a time step
            beyond what is stable.
        Unsupported : shapes other than spheres and half-spaces.
        """
        spheres = self._stepper(run)
        longest = _longest(run.scene, spheres.law)
        if run.dt >= longest:
            expected = f"less than {longest:.3g} s, beyond which it is unstable"
            raise InvalidInput("dt", f"{run.dt:g} s", expected)
        run.memory["force"] = spheres.forces(state)
        self._remember(run)
        return self._begun(run, state, spheres.contacts(state))

    def integrate(self, run: StepContext, state: State, steps: int) -> StepTaken:
        """Up to so many steps."""
        spheres = self._stepper(run)
        ended, force = spheres.velocity_verlet(state, steps, run.dt, run.memory["force"])
        run.memory["force"] = force
        return self._integrated(run, ended, None)


@dataclass(frozen=True, kw_only=True)
class QuasiStaticSteps(_ElasticSteps):
    """From equilibrium to equilibrium: fixed bodies move as prescribed, time only counts.

    With friction contacts have tangential springs with a memory, cut to μ f_n; a step is an
    increment, ``cdopt.dynamics.frozen_friction``. Measures with friction: ``friction``, what it
    took, and ``tangential``, the part of ``elastic`` in springs of friction, J.

    Parameters
    ----------
    backend : of every linearised problem.
    tol : of the unbalanced force, as a share of the largest.
    limit : times that a step linearises gaps, at most.
    travel : how far a body may go in a step, in its own sizes; beyond that the step fails.
    stiffness_ratio : k_t/k_n of the tangential springs of friction; None for Mindlin's
        2(1−ν)/(2−ν), from Poisson's ratios of the materials. Unused without friction.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    backend: str | Backend = "newton"
    tol: Annotated[float, number(above=0.0, at_most=1e-2)] = 1e-10
    limit: Annotated[int, integer(1)] = 200
    travel: Positive = TRAVEL

    name: ClassVar[str] = "quasi-static"
    energies: ClassVar[tuple[str, ...]] = ("elastic",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", resolved("backend", self.backend))

    def begin(self, run: StepContext, state: State) -> StepTaken:
        """Measures of the initial state.

        Raises
        ------
        InvalidInput : a scene without stiffness, or with Newton's restitution.
        """
        require_elastic(run.scene)
        return self._begin_posed(run, state)

    def integrate(self, run: StepContext, state: State, steps: int) -> StepTaken:
        """Up to so many equilibria."""
        scene, near, law = run.scene, _neighbours(run), self._law(run)
        backend = resolved("backend", self.backend)

        def rest(state: State) -> Passes:
            """The next equilibrium."""
            if law is not None:
                settings = law, backend, self.tol, self.limit, self.travel, near
                increments = FrictionalIncrements(scene, *settings)
                settled = increments.rest(state, run.dt, _sliding_springs(run))
                return self._passes(settled, settled.residual, settled.lost, settled.springs)
            still = np.where(scene.bodies.fixed[:, None], state.v, 0.0)
            moved = State(state.t + run.dt, move(state, still, run.dt), still)
            smooth = equilibrium(
                scene,
                moved,
                backend=backend,
                tol=self.tol,
                limit=self.limit,
                travel=self.travel,
                neighbours=near,
            )
            return self._passes(smooth, unbalanced(scene, smooth))

        return self._one_by_one(run, state, steps, rest)

    def _passes(
        self, rest: Any, residual: float, lost: float = 0.0, springs: SlidingSprings | None = None
    ) -> Passes:
        """A rest as a step; its only energy is what friction took, ``lost`` J."""
        ok, energy = residual <= max(self.tol, TOLERANCE), np.full(3 + self.rough, lost)
        return Passes(rest.state, rest.passes, residual, ok, True, None, "", energy, springs)


def _neighbours(run: StepContext) -> VerletList:
    neighbours: VerletList = run.workspace.setdefault("neighbours", VerletList(run.scene))
    return neighbours


def _sliding_springs(run: StepContext) -> SlidingSprings:
    """The springs in the memory of a run whose steps are posed."""
    names = [part.name for part in fields(SlidingSprings)]
    return SlidingSprings(*(run.memory[f"spring_{name}"] for name in names))


def require_elastic(scene: Scene) -> None:
    """Refuse scenes that elastic contacts do not describe."""
    scene.require_no_box("a method with elastic contacts in time")
    if not np.isfinite(scene.half_stiffness).any():
        raise InvalidInput(
            "scene",
            "no material with a stiffness",
            "materials with a stiffness, N/m^(p−1): this method deforms contacts",
        )
    if scene.body_restitution.any():
        raise InvalidInput(
            "scene",
            "Newton's restitution",
            "restitution 0: elastic contacts lose energy by the scene's damping, γ_n",
        )


def _longest(scene: Scene, law: FrictionLaw | None = None) -> float:
    """2/ω, s, ω of the stiffest linear spring between any two bodies; infinite without any.

    Contacts count for the two lightest bodies of each material, hit where they give way most; with
    friction also for their tangential springs.
    """
    b, squares = scene.bodies, [0.0]
    inverse = np.where(b.fixed, 0.0, 1.0 / np.where(b.fixed, 1.0, b.mass))
    bonded = inverse
    if scene.power == HOOKE:
        inverse = inverse + _turned_away(scene)
        order = np.lexsort((-inverse, b.material))
        rank = np.arange(order.size) - np.searchsorted(b.material[order], b.material[order])
        pairs = np.array(list(combinations(order[rank < 2], 2)), dtype=np.int64).reshape(-1, 2)
        pairs = np.sort(pairs[np.isfinite(scene.half_stiffness[pairs]).any(axis=1)], axis=1)
        stiffness = contact_stiffness(scene, pairs)
        squares += (stiffness * inverse[pairs].sum(axis=1)).tolist()
        if law is not None and pairs.size:
            moment = b.inertia if scene.dim == 2 else b.inertia[:, 0]
            arm = np.where(b.fixed, 0.0, b.reach)
            across = bonded + arm**2 / np.where(b.fixed, 1.0, moment)
            ratio = law.ratios(scene, pairs)
            squares += (ratio * stiffness * across[pairs].sum(axis=1)).tolist()
    if scene.bond_stiffness is not None:
        squares += (scene.bond_stiffness * bonded[scene.bonds].sum(axis=1)).tolist()
    fastest = max(squares)
    return float(2.0 / np.sqrt(fastest)) if fastest else np.inf


def _turned_away(scene: Scene) -> FloatArray:
    """(nb,) 1/kg, added to 1/m by turning, at most: max (r × n)ᵀ J⁻¹ (r × n)."""
    b, hulls = scene.bodies, scene.bodies.hulls
    most, body = np.zeros(scene.nb), hulls.vertex_body
    corners = ~b.fixed[body]
    body, arm = body[corners], hulls.vertices[corners]
    if scene.dim == 2:
        size = (arm * arm).sum(axis=1) / b.inertia[body]
    else:
        arm = np.einsum("nji,nj->ni", matrices(b.principal[body]), arm)
        levers = cross_matrices(arm) / np.sqrt(b.inertia[body])[:, :, None]
        size = np.linalg.norm(levers, ord=2, axis=(1, 2)) ** 2
    np.maximum.at(most, body, size)
    return most


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
