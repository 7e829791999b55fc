"""Equilibrium of elastic contacts in exact geometry: quasi-static energy minimisation.

    minimise over q    Σ w(−Φ(q)) − Fᵀ(q − q₀)

by passes that state ``cdopt.QuasiStatic`` with the gaps and B of where the bodies are, and move
them by its u, until the forces of the exact gaps balance: R(q) = F + Bᵀ w′(−Φ) = 0, De Klerk et
al. (2021) without inertia. Where the linearised energy has no minimum, or a pass would go
too far, inertia keeps the pass short: it is then a step of ``cdopt.CompliantCD`` from rest. Of
spheres and walls the last steps are Newton's, with the exact curvature of the energy, which also
tells whether the balance is stable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, Positive, integer
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.backends.selection import resolve
from cdopt.collision import Contacts, VerletList, external_forces, gap_gradient
from cdopt.dynamics.elastic_energy import Configuration, Unknowns, slope
from cdopt.formulations import CompliantCD, QuasiStatic
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Scene, State

LOG = logging.getLogger("cdopt.dynamics")

TRAVEL = 2.0  # of its own reach: a body that goes further was not held

MARGIN = 0.5  # of the smallest half-width: gaps that a pass may close
STRIDE = 0.2  # of the same: a longer pass does not trust its linear gaps
_INERTIA = 1e-6, 1e6  # least and most, of the stiffest contact, where passes need inertia
_TRIFLE = 1e-6  # of the smallest half-width: forces at smaller overlaps are measured by its
ROUND_OFF = 64.0 * np.finfo(float).eps
_NEWTON = 12  # steps at most; six are many
_KICKS = 1e-3, 1e-5  # of the smallest half-width: ways off an unstable balance
_GENTLE = 1e-2, 1e-4, 0.0  # inertia of passes that open what a kick closed
_ESCAPES = 20


@dataclass(frozen=True, eq=False)
class Equilibrium(Frozen):
    """Bodies at rest.

    Attributes
    ----------
    state : where they are; free bodies do not move.
    contacts : of that state, near ones included. forces : (nc,) w′(−Φ), N.
    load : F (nv,) that they carry, N and N·m.
    residual : largest unbalanced force over the largest force, or over the force at an overlap
        of a millionth of the smallest half-width if that is more: bodies at rest without touching.
    passes : how often gaps were linearised.
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
    tol: Positive = 1e-10,
    limit: Annotated[int, integer(0)] = 200,
    travel: float = TRAVEL,
    escape: bool = True,
    neighbours: VerletList | None = None,
) -> Equilibrium:
    """Let a scene come to rest on its elastic contacts, from near by, without inertia.

    Parameters
    ----------
    scene : its materials state stiffness in N/m^(p−1).
    state : where to start; default the scene's.
    load : (nv,) on its degrees of freedom beside gravity and the bodies' own, N and N·m.
    pushed : half-spaces that give way, by number, with the force that pushes each along its
        normal, N: their places are sought together with the bodies', in the same problems.
    backend : of every pass.
    tol : of the residual, as a share of the largest force; round-off of the gaps may end it first.
    limit : passes at most.
    travel : how far a body may go, in its own sizes; further away it was not held.
    escape : leave a balance that is unstable, such as a ball upon a ball, by its softest motion.
    neighbours : the scene's, to be used again; by default made anew.

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : nothing holds some body: it has no rest, or none within its ``travel``.
        The message names it; ``proof`` is its motion where the energy is unbounded.
    Unsupported : bonds, whose springs are linear, in a scene whose contacts are not.

    >>> import cdopt
    >>> steel = cdopt.scene.Material(name="steel", stiffness=2e4)
    >>> ball = cdopt.scene.Body(cdopt.scene.Sphere(0.1), [0.0, 0.1], mass=1.0, material="steel")
    >>> floor = cdopt.scene.Body(cdopt.scene.HalfSpace([0.0, 1.0]), [0.0, 0.0])
    >>> scene = cdopt.scene.Scene([floor, ball], dim=2, gravity=[0, -10], materials=[steel])
    >>> rest = cdopt.dynamics.equilibrium(scene)
    >>> rest.forces.round(6), rest.contacts.phi.round(9)
    (array([10.]), array([-0.0005]))
    """
    if scene.power != HOOKE and scene.bonds.size:
        raise Unsupported(
            "quasi-static bonds", f"bonds are linear, contacts have p = {scene.power:g}"
        )
    start = scene.check_state(scene.initial if state is None else state)
    total = external_forces(scene, start)
    if load is not None:
        total = total + checks.vector("load", load, scene.dofs.nv, "N")
    near = VerletList(scene) if neighbours is None else neighbours
    if not travel > 0.0:
        raise InvalidInput("travel", checks.describe(travel), "a number above 0, or infinity")
    unknowns = Unknowns.of(scene, pushed)
    return _Work(unknowns, total, resolve(backend), tol, travel, near).settle(start, limit, escape)


class _Work:
    """Passes towards one equilibrium."""

    def __init__(
        self,
        unknowns: Unknowns,
        load: FloatArray,
        backend: Backend,
        tol: float,
        travel: float,
        near: VerletList,
    ) -> None:
        self.unknowns, self.scene, self.near = unknowns, unknowns.scene, near
        self.applied, self.load = load, np.append(load, unknowns.push)
        self.backend, self.tol, self.travel = backend, tol, travel
        b = self.scene.bodies
        self._core = float(b.core[np.isfinite(b.core)].min())
        self._widest = float(b.reach[np.isfinite(b.reach)].max())

    def settle(self, start: State, limit: int, escape: bool) -> Equilibrium:
        """Passes until nothing is out of balance, and small motions do not lead away."""
        here = self._at(start)
        inertia, before, escapes, stuck = 0.0, np.inf, 0, False
        for count in range(limit + 1):
            rest = self._equilibrium(here, count)
            LOG.info("pass %d: residual %.2e, inertia %.1e", count, rest.residual, inertia)
            slow = stuck or rest.residual > 0.5 * before
            if rest.residual <= self.tol or (slow and rest.residual <= self._round_off(rest)):
                away, rest = self._judged(here, rest)
                if away is None or not escape or escapes == _ESCAPES:
                    return rest
                LOG.info("pass %d: an unstable balance left", count)
                here, before, inertia, escapes, stuck = away, np.inf, 0.0, escapes + 1, False
                continue
            if count == limit or stuck or self._left(start, here.state):
                break
            before = rest.residual
            there, inertia = self._pass(here, rest, inertia)
            stuck = there is here
            here = here if stuck else self._finished(there)
        raise self._failure(rest, start)

    def _at(self, state: State, margin: float | None = None) -> Configuration:
        """A state with contacts up to a margin, m; its free bodies at rest."""
        dofs = self.scene.dofs
        still = State(state.t, state.q, dofs.scatter(np.zeros(dofs.nv), state.v))
        if margin is None:
            return Configuration.of(self.unknowns, still, MARGIN * self._core, self.near)
        return Configuration.of(self.unknowns, still, margin)

    def _equilibrium(self, here: Configuration, passes: int) -> Equilibrium:
        return Equilibrium(
            state=here.state,
            contacts=here.contacts,
            forces=here.forces,
            load=self.applied,
            residual=self._residual(here),
            passes=passes,
            energy=here.energy,
        )

    def _residual(self, here: Configuration) -> float:
        unbalanced = np.abs(here.B.T @ here.forces + self.load) / self.unknowns.lever
        largest = self._largest(here.contacts, here.forces)
        return float(unbalanced.max(initial=0.0)) / (largest or 1.0)

    def _round_off(self, rest: Equilibrium) -> float:
        """Residual that round-off of positions makes."""
        place = float(np.abs(rest.state.position).max())
        steepest = float(slope(rest.contacts, self.scene.power).max(initial=0.0))
        return ROUND_OFF * place * steepest / (self._largest(rest.contacts, rest.forces) or 1.0)

    def _largest(self, contacts: Contacts, forces: FloatArray) -> float:
        """The largest load or force, or that at a trifling overlap, N."""
        heaviest = float(np.abs(self.load / self.unknowns.lever).max(initial=0.0))
        hardest = PowerLaw(contacts.stiffness, self.scene.power).force(
            np.full(contacts.nc, _TRIFLE * self._core)
        )
        return max(
            heaviest, float(np.abs(forces).max(initial=0.0)), float(hardest.max(initial=0.0))
        )

    # --- one pass ----------------------------------------------------------------------

    def _pass(
        self, here: Configuration, rest: Equilibrium, inertia: float
    ) -> tuple[Configuration, float]:
        """Solve the linearised problem and go there, with more inertia until it leads down."""
        least, most = _INERTIA
        while True:
            u = self._solve(here, inertia)
            if u is not None and self._size(u) <= STRIDE * self._core:
                there = self._at(self.unknowns.moved(here.state, u))
                if self._gained(here, there, u) >= 0.0 or self._residual(there) < rest.residual:
                    further = self._further(here, there, u)
                    return further, inertia / 10.0 if inertia > 1.01 * least else 0.0
            if inertia >= most:
                return here, inertia
            inertia = max(least, 10.0 * inertia)

    def _further(self, here: Configuration, there: Configuration, u: FloatArray) -> Configuration:
        """As far beyond u as it leads down: linear gaps are too stiff where something buckles."""
        place = float(np.abs(here.state.position).max(initial=0.0))
        noise = ROUND_OFF * (here.energy + place * float(np.abs(here.forces).sum()))
        gained = self._gained(here, there, u)
        while self._size(2.0 * u) <= STRIDE * self._core:
            u = 2.0 * u
            beyond = self._at(self.unknowns.moved(here.state, u))
            more = self._gained(here, beyond, u)
            if not more > gained + noise:
                break
            there, gained = beyond, more
        return there

    def _gained(self, here: Configuration, there: Configuration, u: FloatArray) -> float:
        """Potential energy lost on the way u, J."""
        return here.energy - there.energy + float(self.load @ u)

    def _solve(self, here: Configuration, inertia: float) -> FloatArray | None:
        """u (nv,) of the linearised problem; None where it has none."""
        B, phi, k = self._both_ways(here)
        power = self.scene.power
        try:
            if inertia == 0.0:
                static = QuasiStatic(B, phi, self.load, k, power, dof_body=self.unknowns.body)
                return static.solve(self.backend, check=False).u
            step = self._step(here, B, phi, k, inertia)
            rate = CompliantCD(step, power, form="velocity").solve(self.backend, check=False)
        except SolveFailed:
            return None
        return None if rate.v_next is None else rate.v_next * step.dt

    def _step(
        self, here: Configuration, B: sp.csr_array, phi: FloatArray, k: FloatArray, inertia: float
    ) -> ContactStep:
        """The same from rest, in a time after which inertia weighs a share of the stiffness."""
        M = self.unknowns.mass(here.state)
        steepest = float(here.slope.max(initial=0.0))
        largest = self._largest(here.contacts, here.forces) or 1.0
        stiff = max(steepest, largest / self._core)
        dt = float(np.sqrt(M.diagonal().min() / (inertia * stiff)))
        return ContactStep(
            M=M,
            B=B,
            phi=phi,
            v=np.zeros(M.shape[0]),
            F_ext=self.load,
            dt=dt,
            stiffness=k,
            dof_body=self.unknowns.body,
        )

    def _both_ways(self, here: Configuration) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """B, Φ and k; a bond is a contact and its mirror image, which pulls."""
        B, contacts = here.B, here.contacts
        tied = np.flatnonzero(contacts.bonded)
        if not tied.size:
            return B, contacts.phi, contacts.stiffness
        return (
            sp.csr_array(sp.vstack([B, -B[tied]])),
            np.concatenate([contacts.phi, -contacts.phi[tied]]),
            np.concatenate([contacts.stiffness, contacts.stiffness[tied]]),
        )

    def _size(self, u: FloatArray) -> float:
        return float(np.abs(u * self.unknowns.lever).max(initial=0.0))

    # --- the exact energy's curvature --------------------------------------------------

    def _finished(self, here: Configuration) -> Configuration:
        """Where Newton's steps lead if they converge without going up, else the same place."""
        now, way, residual = here, np.zeros(self.load.size), self._residual(here)
        for _ in range(_NEWTON):
            if residual <= self.tol:
                break
            bent = now.curvature()
            u = None if bent is None else bent.step(now.B.T @ now.forces + self.load)
            if u is None or not self._size(way + u) <= STRIDE * self._core:
                return here
            now, way = self._at(self.unknowns.moved(now.state, u)), way + u
            before, residual = residual, self._residual(now)
            if residual > 0.5 * before:
                break
        noise = ROUND_OFF * (here.energy + float(np.abs(self.load * way).sum()))
        down = self._gained(here, now, way) >= -noise
        return now if down and residual < self._residual(here) else here

    def _judged(
        self, here: Configuration, rest: Equilibrium
    ) -> tuple[Configuration | None, Equilibrium]:
        """Whether a balance is stable, and if not a place near by of less energy."""
        bent = here.curvature()
        if bent is None:
            return None, rest
        if bent.stable:
            return None, replace(rest, stable=True)
        least, way = bent.softest()
        for share in _KICKS:
            u = way * (share * self._core / self._size(way))
            promised = -0.5 * least * float(u @ u)
            for kick in (u, -u):
                there = self._beside(here, kick, promised)
                if there is not None:
                    return there, replace(rest, stable=False)
        return None, replace(rest, stable=True)  # contacts that just touch hold it

    def _beside(
        self, here: Configuration, kick: FloatArray, promised: float
    ) -> Configuration | None:
        """A place of less energy beside one, or beyond it where one pass opens what closed."""
        there = self._at(self.unknowns.moved(here.state, kick))
        if self._gained(here, there, kick) > 0.25 * promised:
            return there
        least = 1e-3 * promised + ROUND_OFF * here.energy
        for inertia in _GENTLE:
            u = self._solve(there, inertia)
            if u is not None and self._size(u) <= STRIDE * self._core:
                beyond = self._at(self.unknowns.moved(there.state, u))
                if self._gained(here, beyond, kick + u) > least:
                    return beyond
        return None

    # --- where nothing holds -----------------------------------------------------------

    def _left(self, start: State, now: State) -> list[int]:
        """Bodies that are further from where they began than they may go."""
        way = np.linalg.norm(now.position - start.position, axis=1)
        free = ~self.scene.bodies.fixed
        reach = np.where(free, self.scene.bodies.reach, 1.0)
        return list(np.flatnonzero(free & (way > self.travel * reach)))

    def _failure(self, rest: Equilibrium, start: State) -> SolveFailed:
        """Which bodies nothing holds."""
        x = rest.state.position
        far = float(np.linalg.norm(np.ptp(x, axis=0))) + 2.0 * self._widest
        if self.scene.box is not None:  # as far as images are not nearer
            sides = self.scene.box.at(rest.state.t).size
            far = min(far, 0.45 * float(sides.min()) - 2.0 * self._widest)
        here = self._at(rest.state, max(far, 0.0))
        B, phi, k = self._both_ways(here)
        static = QuasiStatic(B, phi, self.load, k, self.scene.power, dof_body=self.unknowns.body)
        label = self.scene.bodies.label
        try:
            solved = static.solve(self.backend)
        except SolveFailed as error:
            if error.proof is None:
                return error
            work = self.load * error.proof.vector[: self.load.size]
            driven = np.unique(self.unknowns.body[work > 1e-6 * work.max()])
            return SolveFailed(
                f"the energy has no minimum: nothing holds {_few(label, driven)} against loads",
                backend=error.backend,
                status=error.status,
                problem=error.problem,
                proof=error.proof,
                raw=error.raw,
            )
        gone = self._left(start, rest.state)
        why = f"{_few(label, gone)} left their places" if gone else "forces stay out of balance"
        return SolveFailed(
            f"no rest within {rest.passes} passes, residual {rest.residual:.1e}: {why}",
            backend=self.backend.name,
            status=solved.status,
            problem=static.data,
        )


def unbalanced(scene: Scene, rest: Equilibrium) -> float:
    """The unbalanced force of an equilibrium, as a share of what acts on each body.

    max_j |F + Bᵀf|_j / Y_b, torques over the body's reach. Y_b is the largest of |F|_j and |B|ᵀf_j
    of the body, and no less than the force at an overlap of a millionth of the smallest half-width
    at one of its contacts. What round-off of positions, times the stiffness, makes of the forces
    is taken off.
    """
    b, dofs, contacts = scene.bodies, scene.dofs, rest.contacts
    lever = np.where(dofs.column >= scene.dim, b.reach[dofs.body], 1.0)
    B = gap_gradient(scene, rest.state, contacts)
    place = float(np.abs(rest.state.position).max())
    noise = abs(B).T @ (ROUND_OFF * place * slope(contacts, scene.power)) / lever
    off = np.abs(B.T @ rest.forces + rest.load) / lever - noise
    acts = np.maximum(abs(B).T @ np.abs(rest.forces), np.abs(rest.load)) / lever
    trifle = np.full(contacts.nc, _TRIFLE * float(b.core[np.isfinite(b.core)].min()))
    hardest = PowerLaw(contacts.stiffness, scene.power).force(trifle)
    scale = np.zeros(scene.nb)
    np.maximum.at(scale, dofs.body, acts)
    np.maximum.at(scale, contacts.bodies, hardest[:, None])
    wrong = off > 0.0
    return float((off[wrong] / scale[dofs.body[wrong]]).max(initial=0.0))


def _few(label: Callable[[int], str], bodies: Sequence[int] | IntArray) -> str:
    """Up to ten bodies by name."""
    named = [label(int(k)) for k in bodies[:10]]
    return ", ".join(named) + (", …" if len(bodies) > 10 else "")
