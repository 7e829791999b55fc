"""Methods with elastic contacts: variational integrator, velocity-Verlet, quasi-static motion.

De Klerk et al. (2021). Contacts deform; the scene's materials state their stiffness in N/m
(N/m^(p−1)). All include the scene's bonds. The first two have damping with the scene's γ_n and γ_t;
the third has neither inertia nor damping.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.backends.base import Backend
from cdopt.collision import PairFriction, VerletList
from cdopt.collision.contacts import contact_stiffness
from cdopt.dynamics.elastic_steps import (
    ElasticSettings,
    ElasticSnapshot,
    Loops,
    PassesRun,
    SphereRun,
    SphereSnapshot,
    Taken,
)
from cdopt.dynamics.equilibrium import TRAVEL, RestSettings, SmoothIncrements
from cdopt.dynamics.frictional_rest import FrictionalIncrements
from cdopt.dynamics.linearised import Increments
from cdopt.dynamics.method import Stage, StepContext, Stepper, resolved
from cdopt.dynamics.spheres import FORCED, PAPER, Scheme, SphereStepper, is_native
from cdopt.dynamics.variational import VariationalPasses
from cdopt.formulations.variational_step import LEAST_ALPHA
from cdopt.geometry.rotations import cross_matrices, matrices
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.scene import Scene

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


@dataclass(frozen=True, kw_only=True)
class VariationalSteps(ElasticSettings):
    """The variational integrator, with friction too.

    With friction each step is convex: the normal forces in the caps μ f_n, and k_t, are those of
    the predictor q + α h v. The springs are as with velocity-Verlet.

    Parameters
    ----------
    alpha : α in [0, 1): forces act at q_α = (1−α) q + α q⁺. ½ is of second order; 0 is of first
        order, and explicit except for damping.
    damping : "forced", of second order with damping too, or "paper", which is of first order.
    path : "native", compiled, for spheres and half-spaces; "cvxpy", ``cdopt.VariationalStep``
        linearised again until R(q⁺) = 0, for all shapes; or "auto", the first that supports the
        run.
    backend : of the CVXPY path, a name or a settings object, by default "newton". solver : of the
        native path's linear systems, "cg" or "direct".
    tol : of the residual R(q⁺) = 0, or of the change of Δq from pass to pass, as a share of the
        fastest speed. A step is certified if R, as a share of the largest force on each body, is
        at most 1e-6, or ``tol`` if that is more.
    stiffness_ratio : k_t/k_n of the tangential springs of friction; None for Mindlin's
        2(1−ν)/(2−ν), from Poisson's ratios of the materials. Unused without friction.
    allow_long_steps : allow time steps of 2/ω and more, ω² = k/m_eff of the stiffest contact or
        bond between any two bodies. A step of R(q⁺) = 0 still has an answer there, but a collision
        falls between two steps: it multiplies the kinetic energy by 0.2 to 9, depending on its
        phase.

    Raises
    ------
    InvalidInput : a setting out of range.

    Notes
    -----
    De Klerk et al. (2021), equations (29)–(31) and Algorithm 1, corrected. Both paths meet the
    same equation; trajectories agree.

    Time steps: the largest of the paper, 1e-3 in its units, is t_c/1.61, t_c = π/ω = π √(m/2k),
    just below 2/ω = t_c/1.57, which is the limit here as for velocity-Verlet. A bond of k_B > k
    lowers it by √(k_B/k) (section 3.3: k_B = 10 k). A solid hit at a corner reacts with an
    effective mass between m/4 and m/7, which ω includes; contacts at several corners of a face
    can be up to 2 times quicker, which it does not include. Above t_c/5 a warning is logged: in an
    undamped collision energy may change by 5 % at t_c/5, by 25 % at t_c/3.2 and by 60 % at t_c/2,
    and by 0.2 % at the paper's t_c/16. With powers other than 2 only bonds are checked.
    """

    alpha: float = 0.5
    damping: str = "forced"
    path: str = "auto"
    backend: str | Backend | None = None
    solver: str | None = None
    tol: float = 1e-12
    allow_long_steps: bool = False

    name: ClassVar[str] = "variational"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._put(
            alpha=checks.not_negative("alpha", self.alpha),
            damping=checks.choice("damping", self.damping, SPLITS),
            path=checks.choice("path", self.path, PATHS),
            tol=checks.scalar("tol", self.tol, above=0.0, at_most=1e-2),
            allow_long_steps=checks.flag("allow_long_steps", self.allow_long_steps),
        )
        if self.solver is not None:
            checks.choice("solver", self.solver, SOLVERS)
        if not self.alpha < 1.0 or 0.0 < self.alpha < LEAST_ALPHA:
            expected = f"0, or a number in [{LEAST_ALPHA:g}, 1)"
            raise InvalidInput("alpha", f"{self.alpha:g}", expected)
        users = {"backend": "cvxpy", "solver": "native"}
        for name, path in users.items():
            if getattr(self, name) is None:
                continue
            if self.path == "auto":
                self._put(path=path)
            elif self.path != path:
                both = f"{getattr(self, name)!r} with path {self.path!r}"
                raise InvalidInput(name, both, f"path {path!r}, which uses it")
        if self.path != "cvxpy":
            self._put(solver=self.solver or "cg")
        if self.path != "native":
            self._put(backend=resolved("backend", self.backend or "newton"))

    def start(self, context: StepContext) -> Stepper[Any]:
        """A stepper for a run.

        Raises
        ------
        InvalidInput : a scene without stiffness, or with Newton's restitution; a time step that
            does not resolve its collisions.
        Unsupported : shapes that the path does not support; friction with α = 0.
        """
        friction, scene = self.friction(context), context.scene
        _require_elastic(scene)
        if friction is not None and self.alpha == 0.0:
            why = "forces at the start of the step do not depend on its slip"
            raise Unsupported("friction with alpha 0", why, ("alpha=0.5",))
        self._check_length(context, friction)
        if self.path == "native":
            scene.require_no_joints("the native path")
        simple = is_native(scene) and not scene.joints
        if self.path == "native" or (self.path == "auto" and simple):
            return SphereRun(context, self, self._loops(context))
        backend = resolved("backend", self.backend or "newton")
        settings = context.dt, self.alpha, self.damping, backend, self.tol, friction
        increments = VariationalPasses(scene, *settings)
        return PassesRun(context, self, increments, VerletList(scene))

    def _check_length(self, context: StepContext, friction: PairFriction | None) -> None:
        """Refuse time steps that do not resolve collisions, and warn of coarse ones."""
        dt, longest = context.dt, _longest(context.scene, friction)
        if dt >= longest and not self.allow_long_steps:
            expected = (
                f"less than {longest:.3g} s, beyond which collisions are not resolved and create "
                f"energy, or allow_long_steps=True"
            )
            raise InvalidInput("dt", f"{dt:g} s", expected)
        if dt > _COARSE * longest:
            LOG.warning(_TOO_COARSE, dt, 0.5 * np.pi * longest / _ADVISED)

    def _loops(self, context: StepContext) -> Loops:
        accept = max(self.tol, TOLERANCE)
        direct, split = self.solver == "direct", SPLITS[self.damping]
        how = self.alpha, split, self.tol, _LIMIT, direct, accept, context.strict
        scheme = Scheme(context.dt, *how)

        def loops(spheres: SphereStepper, snapshot: SphereSnapshot, steps: int) -> Taken:
            started = clock()
            ended = spheres.variational(snapshot.state, steps, scheme)
            certified, seconds = ended.residual <= accept, clock() - started
            return Taken(ended, Stage(ended.residual, certified, True, ended.newton, seconds, ""))

        return loops


@dataclass(frozen=True, kw_only=True)
class VelocityVerletSteps(ElasticSettings):
    """Velocity-Verlet, the explicit integrator of both papers, compiled, for spheres and walls.

    Damping uses the velocities of the half step, as in LAMMPS. Friction is that of tangential
    springs with a history, cut to μ f_n: Cundall & Strack (1979), see
    ``cdopt.dynamics.spheres.forces``. The springs are saved with the run. Measures with
    friction: ``friction``, the part of ``dissipated`` lost in slip and its dashpots, and
    ``tangential``, the part of ``elastic`` in springs of friction, J.

    Parameters
    ----------
    stiffness_ratio : k_t/k_n of the tangential springs of friction; None for Mindlin's
        2(1−ν)/(2−ν), from Poisson's ratios of the materials. Unused without friction.
    """

    name: ClassVar[str] = "velocity-verlet"
    rolling: ClassVar[bool] = True
    stages: ClassVar[tuple[str, ...]] = ()

    def start(self, context: StepContext) -> Stepper[SphereSnapshot]:
        """A stepper for a run.

        Raises
        ------
        InvalidInput : no stiffness, Newton's restitution, or an unstable time step.
        Unsupported : shapes other than spheres and half-spaces.
        """
        friction, dt = self.friction(context), context.dt
        require_elastic(context.scene)

        def loops(spheres: SphereStepper, snapshot: SphereSnapshot, steps: int) -> Taken:
            force = spheres.forces(snapshot.state) if snapshot.force is None else snapshot.force
            ended, force = spheres.velocity_verlet(snapshot.state, steps, dt, force)
            return Taken(ended, force=force)

        run = SphereRun(context, self, loops, forces_first=True)
        longest = _longest(context.scene, friction)
        if dt >= longest:
            expected = f"less than {longest:.3g} s, beyond which it is unstable"
            raise InvalidInput("dt", f"{dt:g} s", expected)
        return run


@dataclass(frozen=True, kw_only=True)
class QuasiStaticSteps(ElasticSettings):
    """From equilibrium to equilibrium as fixed bodies move; time is only a parameter.

    With friction contacts have tangential springs with a history, cut to μ f_n; a step is an
    increment, ``cdopt.dynamics.frictional_rest``. Measures with friction: ``friction``, the
    energy lost in it, and ``tangential``, the part of ``elastic`` in springs of friction, J.

    Parameters
    ----------
    backend : of every linearised problem.
    tol : of the unbalanced force, as a share of the largest.
    limit : most linearisations of a step.
    travel : largest displacement of a body in a step, over its size; beyond it the step fails.
    stiffness_ratio : k_t/k_n of the tangential springs of friction; None for Mindlin's
        2(1−ν)/(2−ν), from Poisson's ratios of the materials. Unused without friction.
    """

    backend: str | Backend = "newton"
    tol: float = 1e-10
    limit: int = 200
    travel: float = TRAVEL

    name: ClassVar[str] = "quasi-static"
    energies: ClassVar[tuple[str, ...]] = ("elastic",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._put(
            backend=resolved("backend", self.backend),
            tol=checks.scalar("tol", self.tol, above=0.0, at_most=1e-2),
            limit=checks.count("limit", self.limit),
            travel=checks.positive("travel", self.travel),
        )

    def start(self, context: StepContext) -> Stepper[ElasticSnapshot]:
        """A stepper for a run, of a scene with stiffness and without Newton's restitution."""
        friction, scene = self.friction(context), context.scene
        require_elastic(scene)
        near = VerletList(scene)
        settings = RestSettings(
            resolved("backend", self.backend), self.tol, self.limit, self.travel
        )
        increments: Increments = SmoothIncrements(scene, context.dt, settings, near)
        if friction is not None:
            increments = FrictionalIncrements(scene, context.dt, friction, settings, near)
        return PassesRun(context, self, increments, near)


def require_elastic(scene: Scene) -> None:
    """Refuse scenes that elastic contacts do not describe, and joints."""
    scene.require_no_joints("velocity-Verlet or quasi-static motion")
    _require_elastic(scene)


def _require_elastic(scene: Scene) -> None:
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


def _longest(scene: Scene, law: PairFriction | None = None) -> float:
    """2/ω, s, ω of the stiffest linear spring between any two bodies; infinite without any.

    It considers the two lightest bodies of each material, hit where they are most compliant.
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
