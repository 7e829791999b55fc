"""Equilibrium of elastic contacts in exact geometry: quasi-static energy minimisation.

    minimise over q    E(q) − Fᵀ(q − q₀),    E = Σ w(−Φ(q))

by passes that state ``cdopt.QuasiStatic`` with the present gaps and B, and move the bodies
by its u, until the forces of the exact gaps balance: R(q) = F + Bᵀ w′(−Φ) = 0, De Klerk et
al. (2021) without inertia. Where the linearised energy has no minimum, or a pass would go
too far, inertia limits the pass: it is then a step of ``cdopt.CompliantCD`` from rest. For
spheres and walls the last steps are Newton's, with the exact curvature of the energy, which also
shows whether the equilibrium is stable::

    ∇²E = Bᵀ w″(−Φ) B − Σ w′(−Φ) ∇²Φ

The second term, which linearised gaps leave out, softens contacts that push: of two spheres a
distance ρ apart ∇²Φ = (1 − nnᵀ)/ρ on their relative displacement; of a sphere and a half-space it
is zero. Where the whole is not positive semidefinite, an equilibrium is unstable: bodies buckle.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.backends.selection import resolve
from cdopt.collision import Contacts, VerletList, external_forces, gap_gradient, move
from cdopt.dynamics.configuration import (
    MARGIN,
    ROUND_OFF,
    Configuration,
    Unknowns,
    half_width,
    levers,
    named,
    negligible_forces,
    slope,
)
from cdopt.dynamics.friction_springs import SlidingSprings
from cdopt.dynamics.linearised import Passes, moved_too_far, settle, shortened
from cdopt.formulations import CompliantCD, QuasiStatic
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Scene, State

LOG = logging.getLogger("cdopt.dynamics")

TRAVEL = 2.0  # of a body's reach: one that moves further was not supported

STRIDE = 0.2  # of the smallest half-width: a longer pass does not trust its linear gaps
_INERTIA = 1e-6, 1e6  # least and most, of the stiffest contact, where passes need inertia
_NEWTON = 12  # steps at most; six are many
_KICKS = 1e-3, 1e-5  # of the smallest half-width: steps off an unstable equilibrium
_GENTLE = 1e-2, 1e-4, 0.0  # inertia of passes that open contacts closed by a kick
_ESCAPES = 20


@dataclass(frozen=True, eq=False)
class Equilibrium(Frozen):
    """Bodies at rest.

    Attributes
    ----------
    state : free bodies do not move.
    contacts : of that state, including near ones. forces : (nc,) w′(−Φ), N.
    load : F (nv,) that they carry, N and N·m.
    residual : largest unbalanced force over the largest force, or over the force at an overlap
        of a millionth of the smallest half-width if that is more: bodies at rest without touching.
    passes : number of linearisations.
    energy : elastic, J.
    stable : whether the elastic energy is at a minimum; None where bodies other than spheres and
        half-spaces push, whose curvature is not known.
    """

    state: State
    contacts: Contacts
    forces: FloatArray
    load: FloatArray
    residual: float
    passes: int
    energy: float
    stable: bool | None = None


def equilibrium(
    scene: Scene,
    state: State | None = None,
    *,
    load: object = None,
    pushed: Mapping[int, float] | None = None,
    backend: str | Backend = "newton",
    tol: float = 1e-10,
    limit: int = 200,
    travel: float = TRAVEL,
    escape: bool = True,
    neighbours: VerletList | None = None,
) -> Equilibrium:
    """The equilibrium of a scene on its elastic contacts near a state, without inertia.

    Parameters
    ----------
    scene : its materials state stiffness in N/m^(p−1).
    state : where to start; default the scene's.
    load : (nv,) on its degrees of freedom, added to gravity and the bodies' loads, N and N·m.
    pushed : half-spaces that give way, by number, with the force that pushes each along its
        normal, N: their positions are unknowns of the same problems.
    backend : of every pass.
    tol : of the residual, as a share of the largest force; limited by round-off of the gaps.
    limit : passes at most.
    travel : largest displacement of a body, over its size; a body that moves further was not
        supported.
    escape : leave an unstable equilibrium, such as a ball on a ball, by its softest motion.
    neighbours : of the scene, for reuse; by default new.

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : a body is not supported: there is no equilibrium, or none within ``travel``.
        The message names it; ``proof`` is its motion where the energy is unbounded.
    Unsupported : bonds, whose springs are linear, in a scene whose contacts are not; joints.

    >>> import cdopt
    >>> steel = cdopt.scene.Material(name="steel", stiffness=2e4)
    >>> ball = cdopt.scene.Body(cdopt.scene.Sphere(0.1), [0.0, 0.1], mass=1.0, material="steel")
    >>> floor = cdopt.scene.Body(cdopt.scene.HalfSpace([0.0, 1.0]), [0.0, 0.0])
    >>> scene = cdopt.scene.Scene([floor, ball], dim=2, gravity=[0, -10], materials=[steel])
    >>> rest = cdopt.dynamics.equilibrium(scene)
    >>> rest.forces.round(6), rest.contacts.phi.round(9)
    (array([10.]), array([-0.0005]))
    """
    checks.instance("scene", scene, Scene)
    limit, escape = checks.whole("limit", limit, 0), checks.flag("escape", escape)
    tol, travel = checks.positive("tol", tol), _travel(travel)
    scene.require_no_joints("equilibrium of elastic contacts")
    if scene.power != HOOKE and scene.bonds.size:
        raise Unsupported(
            "quasi-static bonds", f"bonds are linear, contacts have p = {scene.power:g}"
        )
    start = scene.check_state(scene.initial if state is None else state)
    total = external_forces(scene, start)
    if load is not None:
        total = total + checks.vector("load", load, scene.dofs.nv, "N")
    near = VerletList(scene) if neighbours is None else neighbours
    if checks.instance("neighbours", near, VerletList).scene is not scene:
        raise InvalidInput("neighbours", "those of another scene", "VerletList(scene)")
    unknowns = Unknowns(scene, pushed)
    settings = RestSettings(resolve(backend), tol, limit, travel, escape)
    return _Rest(unknowns, total, settings, near, start).found()


def _travel(value: object) -> float:
    expected = "a number above 0, or infinity"
    travel = checks.real("travel", value, expected, ())
    if not travel > 0.0:
        raise InvalidInput("travel", checks.describe(value), expected)
    return float(travel)


@dataclass(frozen=True)
class RestSettings:
    """Settings of the search; as in ``equilibrium``."""

    backend: Backend
    tol: float
    limit: int
    travel: float
    escape: bool = True


class _Rest:
    """The passes towards one equilibrium from ``start``."""

    def __init__(
        self,
        unknowns: Unknowns,
        load: FloatArray,
        settings: RestSettings,
        near: VerletList,
        start: State,
    ) -> None:
        self.unknowns, self.scene, self.near = unknowns, unknowns.scene, near
        self.applied, self.load = load, np.append(load, unknowns.wall_forces)
        self.settings, self.start = settings, start
        self._core = half_width(self.scene)
        self._inertia, self._before, self._stuck = 0.0, np.inf, False
        self._escapes = 0
        self._away: Configuration | None = None  # of less energy, near an unstable balance
        self._stable: bool | None = None

    def found(self) -> Equilibrium:
        """The place where forces balance, and which is stable."""
        here, passes = settle(self, self._at(self.start))
        return replace(self._equilibrium(here, passes), stable=self._stable)

    def settled(self, here: Configuration, passes: int) -> bool:
        """Whether forces balance, and the equilibrium is stable."""
        residual, limit = self._residual(here), passes == self.settings.limit
        LOG.info("pass %d: residual %.2e, inertia %.1e", passes, residual, self._inertia)
        slow = self._stuck or residual > 0.5 * self._before
        if residual <= self.settings.tol or (slow and residual <= self._round_off(here)):
            self._stable, away = self._judged(here)
            if away is None or not self.settings.escape or self._escapes == _ESCAPES:
                return True
            LOG.info("pass %d: an unstable balance left", passes)
            self._away, self._before, self._inertia = away, np.inf, 0.0
            self._escapes, self._stuck = self._escapes + 1, False
            if limit:
                raise self._failure(self._equilibrium(here, passes))
            return False
        if (
            limit
            or self._stuck
            or moved_too_far(self.scene, self.start, here.state, self.settings.travel)
        ):
            raise self._failure(self._equilibrium(here, passes))
        self._before = residual
        return False

    def moved(self, here: Configuration) -> Configuration:
        """The result of a pass and Newton's steps, or a place off an unstable equilibrium."""
        if self._away is not None:
            away, self._away = self._away, None
            return away
        there = self._pass(here, self._before)
        self._stuck = there is here
        return here if self._stuck else self._finished(there)

    def _equilibrium(self, here: Configuration, passes: int) -> Equilibrium:
        balance = self._residual(here), passes, here.energy
        return Equilibrium(here.state, here.contacts, here.forces, self.applied, *balance)

    def _at(self, state: State, margin: float | None = None) -> Configuration:
        """A state with contacts up to a margin, m; its free bodies at rest."""
        dofs = self.scene.dofs
        still = State(state.t, state.q, dofs.scatter(np.zeros(dofs.nv), state.v))
        if margin is None:
            return Configuration(self.unknowns, still, MARGIN * self._core, self.near)
        return Configuration(self.unknowns, still, margin)

    def _moved(self, here: Configuration, u: FloatArray) -> Configuration:
        return self._at(self.unknowns.moved(here.state, u))

    def _residual(self, here: Configuration) -> float:
        unbalanced = np.abs(here.contact_load + self.load) / self.unknowns.lever
        return float(unbalanced.max(initial=0.0)) / self._largest(here)

    def _round_off(self, here: Configuration) -> float:
        place = float(np.abs(here.state.position).max())
        return ROUND_OFF * place * float(here.slope.max(initial=0.0)) / self._largest(here)

    def _largest(self, here: Configuration) -> float:
        """The largest load or force, or that at a tiny overlap, N; 1 if all are 0."""
        hardest = negligible_forces(here.contacts, self.scene.power, self._core)
        loads = np.abs(self.load / self.unknowns.lever)
        forces = (loads, np.abs(here.forces), hardest)
        return max(float(part.max(initial=0.0)) for part in forces) or 1.0

    # --- one pass ----------------------------------------------------------------------

    def _pass(self, here: Configuration, residual: float) -> Configuration:
        """Solve the linearised problem, with more inertia until the energy decreases."""

        def led(inertia: float) -> Configuration | None:
            """The result of the pass; None if the energy grows, or linear gaps are not valid."""
            u = self._solve(here, inertia)
            if u is None or not self._near(u):
                return None
            there = self._moved(here, u)
            if self._gained(here, there, u) >= 0.0 or self._residual(there) < residual:
                return self._further(here, there, u)
            return None

        least, most = _INERTIA
        there, inertia = shortened(led, self._inertia, least, most)
        self._inertia = inertia
        if there is None:
            return here
        self._inertia = inertia / 10.0 if inertia > 1.01 * least else 0.0
        return there

    def _further(self, here: Configuration, there: Configuration, u: FloatArray) -> Configuration:
        """Beyond u as far as the energy falls: where bodies buckle linear gaps are too stiff."""
        place = float(np.abs(here.state.position).max(initial=0.0))
        noise = ROUND_OFF * (here.energy + place * float(np.abs(here.forces).sum()))
        gained = self._gained(here, there, u)
        while self._near(2.0 * u):
            u = 2.0 * u
            beyond = self._moved(here, u)
            more = self._gained(here, beyond, u)
            if not more > gained + noise:
                break
            there, gained = beyond, more
        return there

    def _gained(self, here: Configuration, there: Configuration, u: FloatArray) -> float:
        """Potential energy lost by u, J."""
        return here.energy - there.energy + float(self.load @ u)

    def _solve(self, here: Configuration, inertia: float) -> FloatArray | None:
        """u (nv,) of the linearised problem, from rest if it has inertia; None if unsolved."""
        power, body = self.scene.power, self.unknowns.body
        B, phi, k = here.one_sided()
        try:
            if inertia == 0.0:
                static = QuasiStatic(B, phi, self.load, k, power, dof_body=body)
                return static.solve(self.settings.backend, check=False).u
            M = self.unknowns.mass(here.state)
            stiff = max(float(here.slope.max(initial=0.0)), self._largest(here) / self._core)
            dt = float(np.sqrt(M.diagonal().min() / (inertia * stiff)))
            still = np.zeros(M.shape[0])
            step = ContactStep(
                M, B, phi, v=still, F_ext=self.load, dt=dt, stiffness=k, dof_body=body
            )
            rate = CompliantCD(step, power, form="velocity").solve(
                self.settings.backend, check=False
            )
        except SolveFailed:
            return None
        return None if rate.v_next is None else rate.v_next * step.dt

    def _size(self, u: FloatArray) -> float:
        return float(np.abs(u * self.unknowns.lever).max(initial=0.0))

    def _near(self, u: FloatArray) -> bool:
        """Whether linear gaps are valid for u."""
        return self._size(u) <= STRIDE * self._core

    # --- the exact energy's curvature --------------------------------------------------

    def _finished(self, here: Configuration) -> Configuration:
        """The result of Newton's steps if they converge downwards, else the same place."""
        now, way, residual = here, np.zeros(self.load.size), self._residual(here)
        for _ in range(_NEWTON):
            if residual <= self.settings.tol:
                break
            bent = now.curvature()
            u = None if bent is None else bent.step(now.contact_load + self.load)
            if u is None or not self._near(way + u):
                return here
            now, way = self._moved(now, u), way + u
            before, residual = residual, self._residual(now)
            if residual > 0.5 * before:
                break
        noise = ROUND_OFF * (here.energy + float(np.abs(self.load * way).sum()))
        down = self._gained(here, now, way) >= -noise
        return now if down and residual < self._residual(here) else here

    def _judged(self, here: Configuration) -> tuple[bool | None, Configuration | None]:
        """Whether an equilibrium is stable, and if not a place near by of less energy."""
        bent = here.curvature()
        if bent is None or bent.stable:
            return None if bent is None else True, None
        least, way = bent.softest()
        for share in _KICKS:
            u = way * (share * self._core / self._size(way))
            promised = -0.5 * least * float(u @ u)
            for kick in (u, -u):
                there = self._downhill(here, kick, promised)
                if there is not None:
                    return False, there
        return True, None  # contacts that just touch stabilise it

    def _downhill(
        self, here: Configuration, kick: FloatArray, promised: float
    ) -> Configuration | None:
        """A place of less energy near one, or beyond it where one pass opens what closed."""
        there = self._moved(here, kick)
        if self._gained(here, there, kick) > 0.25 * promised:
            return there
        least = 1e-3 * promised + ROUND_OFF * here.energy
        for inertia in _GENTLE:
            u = self._solve(there, inertia)
            if u is not None and self._near(u):
                beyond = self._moved(there, u)
                if self._gained(here, beyond, kick + u) > least:
                    return beyond
        return None

    def _failure(self, rest: Equilibrium) -> SolveFailed:
        """Bodies that are not supported."""
        scene, reach = self.scene, self.scene.bodies.reach
        widest = 2.0 * float(reach[np.isfinite(reach)].max())
        far = float(np.linalg.norm(np.ptp(rest.state.position, axis=0))) + widest
        if scene.box is not None:  # as far as images are not nearer
            far = min(far, 0.45 * float(scene.box.at(rest.state.t).size.min()) - widest)
        B, phi, k = self._at(rest.state, max(far, 0.0)).one_sided()
        static = QuasiStatic(B, phi, self.load, k, scene.power, dof_body=self.unknowns.body)
        try:
            solved = static.solve(self.settings.backend)
        except SolveFailed as error:
            if error.proof is None:
                return error
            work = self.load * error.proof.vector[: self.load.size]
            driven = np.unique(self.unknowns.body[work > 1e-6 * work.max()])
            return SolveFailed(
                f"the energy has no minimum: no contacts hold {named(scene, driven)} against loads",
                backend=error.backend,
                status=error.status,
                problem=error.problem,
                proof=error.proof,
                raw=error.raw,
            )
        left = moved_too_far(scene, self.start, rest.state, self.settings.travel)
        why = f"{named(scene, left)} moved too far" if left else "the forces do not balance"
        return SolveFailed(
            f"no equilibrium after {rest.passes} passes, residual {rest.residual:.1e}: {why}",
            backend=self.settings.backend.name,
            status=solved.status,
            problem=static.data,
        )


class SmoothIncrements:
    """Equilibria of one scene without friction, ``dt`` s of the prescribed motions apart."""

    def __init__(self, scene: Scene, dt: float, settings: RestSettings, near: VerletList) -> None:
        self.scene, self.dt, self.settings, self.near = scene, dt, settings, near

    def step(self, state: State, springs: SlidingSprings | None) -> Passes:
        """The next equilibrium."""
        scene, dt, chosen = self.scene, self.dt, self.settings
        still = np.where(scene.bodies.fixed[:, None], state.v, 0.0)
        moved = State(state.t + dt, move(state, still, dt), still)
        rest = equilibrium(
            scene,
            moved,
            backend=chosen.backend,
            tol=chosen.tol,
            limit=chosen.limit,
            travel=chosen.travel,
            neighbours=self.near,
        )
        residual = unbalanced(scene, rest)
        ok = residual <= max(chosen.tol, TOLERANCE)
        return Passes(rest.state, rest.passes, residual, ok, True, None, "", np.zeros(3))


def unbalanced(scene: Scene, rest: Equilibrium) -> float:
    """The unbalanced force of an equilibrium, as a share of the largest force on each body.

    max_j |F + Bᵀf|_j / Y_b, torques over the body's reach. Y_b is the largest of |F|_j and |B|ᵀf_j
    of the body, and no less than the force at an overlap of a millionth of the smallest half-width
    at one of its contacts. The effect of round-off of positions, times the stiffness, on the forces
    is subtracted.
    """
    dofs, contacts, lever = scene.dofs, rest.contacts, levers(scene, scene.dofs)
    B = gap_gradient(scene, rest.state, contacts)
    place = float(np.abs(rest.state.position).max())
    noise = abs(B).T @ (ROUND_OFF * place * slope(contacts, scene.power)) / lever
    off = np.abs(B.T @ rest.forces + rest.load) / lever - noise
    acts = np.maximum(abs(B).T @ np.abs(rest.forces), np.abs(rest.load)) / lever
    scale = np.zeros(scene.nb)
    np.maximum.at(scale, dofs.body, acts)
    hardest = negligible_forces(contacts, scene.power, half_width(scene))
    np.maximum.at(scale, contacts.bodies, hardest[:, None])
    wrong = off > 0.0
    return float((off[wrong] / scale[dofs.body[wrong]]).max(initial=0.0))
