"""Equilibrium of elastic contacts in exact geometry: quasi-static energy minimisation.

    minimise over q    E(q) − Fᵀ(q − q₀),    E = Σ w(−Φ(q))

by passes that state ``cdopt.QuasiStatic`` with the gaps and B of where the bodies are, and move
them by its u, until the forces of the exact gaps balance: R(q) = F + Bᵀ w′(−Φ) = 0, De Klerk et
al. (2021) without inertia. Where the linearised energy has no minimum, or a pass would go
too far, inertia keeps the pass short: it is then a step of ``cdopt.CompliantCD`` from rest. Of
spheres and walls the last steps are Newton's, with the exact curvature of the energy, which also
tells whether the balance is stable::

    ∇²E = Bᵀ w″(−Φ) B − Σ w′(−Φ) ∇²Φ

The second term, which linearised gaps leave out, softens contacts that push: of two spheres a
distance ρ apart ∇²Φ = (1 − nnᵀ)/ρ on their relative displacement; of a sphere and a half-space it
is zero. Where the whole is not positive semidefinite, an equilibrium is unstable: bodies buckle.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh, splu

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, Positive, integer
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.backends.selection import resolve
from cdopt.collision import (
    Contacts,
    VerletList,
    detect,
    external_forces,
    gap_gradient,
    mass_matrix,
    move,
)
from cdopt.dynamics.records import ContactState
from cdopt.formulations import CompliantCD, QuasiStatic
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import SHAPES, Dofs, HalfSpace, Scene, Sphere, State
from cdopt.scene.pairs import outward

LOG = logging.getLogger("cdopt.dynamics")

TRAVEL = 2.0  # of its own reach: a body that goes further was not held

MARGIN = 0.5  # of the smallest half-width: gaps that a pass may close
STRIDE = 0.2  # of the same: a longer pass does not trust its linear gaps
ROUND_OFF = 64.0 * np.finfo(float).eps
_INERTIA = 1e-6, 1e6  # least and most, of the stiffest contact, where passes need inertia
_TRIFLE = 1e-6  # of the smallest half-width: forces at smaller overlaps are measured by its
_NEWTON = 12  # steps at most; six are many
_KICKS = 1e-3, 1e-5  # of the smallest half-width: ways off an unstable balance
_GENTLE = 1e-2, 1e-4, 0.0  # inertia of passes that open what a kick closed
_ESCAPES = 20
_SHIFT = 1e-9  # of the stiffest contact: what keeps loose bodies from making it singular
_SOFT = 1e-8  # of the same: a curvature below minus this is negative
_DENSE = 400  # dofs up to which eigenvalues are found densely


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
    unknowns = Unknowns(scene, pushed)
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
        self._core = half_width(self.scene)

    def settle(self, start: State, limit: int, escape: bool) -> Equilibrium:
        """Passes until nothing is out of balance, and small motions do not lead away."""
        here = self._at(start)
        inertia, before, escapes, stuck = 0.0, np.inf, 0, False
        for count in range(limit + 1):
            residual = self._residual(here)
            rest = Equilibrium(
                here.state, here.contacts, here.forces, self.applied, residual, count, here.energy
            )
            LOG.info("pass %d: residual %.2e, inertia %.1e", count, residual, inertia)
            slow = stuck or residual > 0.5 * before
            if residual <= self.tol or (slow and residual <= self._round_off(here)):
                stable, away = self._judged(here)
                if away is None or not escape or escapes == _ESCAPES:
                    return replace(rest, stable=stable)
                LOG.info("pass %d: an unstable balance left", count)
                here, before, inertia, escapes, stuck = away, np.inf, 0.0, escapes + 1, False
                continue
            if count == limit or stuck or gone(self.scene, start, here.state, self.travel):
                break
            before = residual
            there, inertia = self._pass(here, residual, inertia)
            stuck = there is here
            here = here if stuck else self._finished(there)
        raise self._failure(rest, start)

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
        unbalanced = np.abs(here.pull + self.load) / self.unknowns.lever
        return float(unbalanced.max(initial=0.0)) / self._largest(here)

    def _round_off(self, here: Configuration) -> float:
        """Residual that round-off of positions makes."""
        place = float(np.abs(here.state.position).max())
        return ROUND_OFF * place * float(here.slope.max(initial=0.0)) / self._largest(here)

    def _largest(self, here: Configuration) -> float:
        """The largest load or force, or that at a trifling overlap, N; 1 if all are 0."""
        hardest = trifling(here.contacts, self.scene.power, self._core)
        loads = np.abs(self.load / self.unknowns.lever)
        forces = (loads, np.abs(here.forces), hardest)
        return max(float(part.max(initial=0.0)) for part in forces) or 1.0

    # --- one pass ----------------------------------------------------------------------

    def _pass(
        self, here: Configuration, residual: float, inertia: float
    ) -> tuple[Configuration, float]:
        """Solve the linearised problem and go there, with more inertia until it leads down."""
        least, most = _INERTIA
        while True:
            u = self._solve(here, inertia)
            if u is not None and self._near(u):
                there = self._moved(here, u)
                if self._gained(here, there, u) >= 0.0 or self._residual(there) < residual:
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
        while self._near(2.0 * u):
            u = 2.0 * u
            beyond = self._moved(here, u)
            more = self._gained(here, beyond, u)
            if not more > gained + noise:
                break
            there, gained = beyond, more
        return there

    def _gained(self, here: Configuration, there: Configuration, u: FloatArray) -> float:
        """Potential energy lost on the way u, J."""
        return here.energy - there.energy + float(self.load @ u)

    def _solve(self, here: Configuration, inertia: float) -> FloatArray | None:
        """u (nv,) of the linearised problem; None where it has none.

        With inertia it begins at rest, and takes a time after which inertia weighs a share of the
        stiffness.
        """
        power, body = self.scene.power, self.unknowns.body
        B, phi, k = here.both_ways()
        try:
            if inertia == 0.0:
                static = QuasiStatic(B, phi, self.load, k, power, dof_body=body)
                return static.solve(self.backend, check=False).u
            M = self.unknowns.mass(here.state)
            stiff = max(float(here.slope.max(initial=0.0)), self._largest(here) / self._core)
            dt = float(np.sqrt(M.diagonal().min() / (inertia * stiff)))
            still = np.zeros(M.shape[0])
            step = ContactStep(
                M, B, phi, v=still, F_ext=self.load, dt=dt, stiffness=k, dof_body=body
            )
            rate = CompliantCD(step, power, form="velocity").solve(self.backend, check=False)
        except SolveFailed:
            return None
        return None if rate.v_next is None else rate.v_next * step.dt

    def _size(self, u: FloatArray) -> float:
        return float(np.abs(u * self.unknowns.lever).max(initial=0.0))

    def _near(self, u: FloatArray) -> bool:
        """Whether linear gaps can be trusted on the way u."""
        return self._size(u) <= STRIDE * self._core

    # --- the exact energy's curvature --------------------------------------------------

    def _finished(self, here: Configuration) -> Configuration:
        """Where Newton's steps lead if they converge without going up, else the same place."""
        now, way, residual = here, np.zeros(self.load.size), self._residual(here)
        for _ in range(_NEWTON):
            if residual <= self.tol:
                break
            bent = now.curvature()
            u = None if bent is None else bent.step(now.pull + self.load)
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
        """Whether a balance is stable, and if not a place near by of less energy."""
        bent = here.curvature()
        if bent is None or bent.stable:
            return None if bent is None else True, None
        least, way = bent.softest()
        for share in _KICKS:
            u = way * (share * self._core / self._size(way))
            promised = -0.5 * least * float(u @ u)
            for kick in (u, -u):
                there = self._beside(here, kick, promised)
                if there is not None:
                    return False, there
        return True, None  # contacts that just touch hold it

    def _beside(
        self, here: Configuration, kick: FloatArray, promised: float
    ) -> Configuration | None:
        """A place of less energy beside one, or beyond it where one pass opens what closed."""
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

    def _failure(self, rest: Equilibrium, start: State) -> SolveFailed:
        """Which bodies nothing holds."""
        scene, reach = self.scene, self.scene.bodies.reach
        widest = 2.0 * float(reach[np.isfinite(reach)].max())
        far = float(np.linalg.norm(np.ptp(rest.state.position, axis=0))) + widest
        if scene.box is not None:  # as far as images are not nearer
            far = min(far, 0.45 * float(scene.box.at(rest.state.t).size.min()) - widest)
        B, phi, k = self._at(rest.state, max(far, 0.0)).both_ways()
        static = QuasiStatic(B, phi, self.load, k, scene.power, dof_body=self.unknowns.body)
        try:
            solved = static.solve(self.backend)
        except SolveFailed as error:
            if error.proof is None:
                return error
            work = self.load * error.proof.vector[: self.load.size]
            driven = np.unique(self.unknowns.body[work > 1e-6 * work.max()])
            return SolveFailed(
                f"the energy has no minimum: nothing holds {named(scene, driven)} against loads",
                backend=error.backend,
                status=error.status,
                problem=error.problem,
                proof=error.proof,
                raw=error.raw,
            )
        left = gone(scene, start, rest.state, self.travel)
        why = f"{named(scene, left)} left their places" if left else "forces stay out of balance"
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
    dofs, contacts, lever = scene.dofs, rest.contacts, levers(scene, scene.dofs)
    B = gap_gradient(scene, rest.state, contacts)
    place = float(np.abs(rest.state.position).max())
    noise = abs(B).T @ (ROUND_OFF * place * slope(contacts, scene.power)) / lever
    off = np.abs(B.T @ rest.forces + rest.load) / lever - noise
    acts = np.maximum(abs(B).T @ np.abs(rest.forces), np.abs(rest.load)) / lever
    scale = np.zeros(scene.nb)
    np.maximum.at(scale, dofs.body, acts)
    hardest = trifling(contacts, scene.power, half_width(scene))
    np.maximum.at(scale, contacts.bodies, hardest[:, None])
    wrong = off > 0.0
    return float((off[wrong] / scale[dofs.body[wrong]]).max(initial=0.0))


def half_width(scene: Scene) -> float:
    """The smallest half-width of a body, m."""
    core = scene.bodies.core
    return float(core[np.isfinite(core)].min())


def levers(scene: Scene, dofs: Dofs) -> FloatArray:
    """(nv,) m for turns, 1 elsewhere: forces from generalised ones."""
    return np.where(dofs.column >= scene.dim, scene.bodies.reach[dofs.body], 1.0)


def gone(scene: Scene, start: State, now: State, travel: float) -> list[int]:
    """Free bodies that are further from where they began than ``travel`` of their own sizes."""
    free = ~scene.bodies.fixed
    way = np.linalg.norm(now.position - start.position, axis=1)
    return list(np.flatnonzero(free & (way > travel * np.where(free, scene.bodies.reach, 1.0))))


def named(scene: Scene, bodies: Iterable[int]) -> str:
    """Up to ten bodies by name."""
    labels = [scene.bodies.label(int(k)) for k in bodies]
    return ", ".join(labels[:10] + ["…"] * (len(labels) > 10))


# --- forces ------------------------------------------------------------------------------


def contact_state(scene: Scene, state: State, near: VerletList) -> ContactState:
    """Overlaps and bonds of a state, with their elastic forces."""
    contacts = detect(scene, state, 0.0, near)
    chosen = np.flatnonzero((contacts.phi < 0.0) | contacts.bonded)
    forces, energies = elastic_forces(contacts, scene.power, chosen)
    return ContactState(
        contact_ids=contacts.contact_ids[chosen],
        phi=contacts.phi[chosen],
        normals=contacts.normals[chosen],
        points=contacts.points[chosen],
        forces=forces,
        energy=float(energies.sum()),
    )


def elastic_forces(
    contacts: Contacts, power: float, chosen: Any = slice(None)
) -> tuple[FloatArray, FloatArray]:
    """Elastic forces (n,) of contacts, N, of bonds of both signs, and the energies in them, J."""
    overlap, k = -contacts.phi[chosen], contacts.stiffness[chosen]
    bonded, law, spring = contacts.bonded[chosen], PowerLaw(k, power), k * overlap
    forces = np.where(bonded, spring, law.force(overlap))
    return forces, np.where(bonded, 0.5 * spring * overlap, law.energy(overlap))


def slope(contacts: Contacts, power: float) -> FloatArray:
    """w″(−Φ) (nc,) of contacts, N/m."""
    overlap = np.maximum(-contacts.phi, 0.0)
    if power == HOOKE:
        return np.where((overlap > 0.0) | contacts.bonded, contacts.stiffness, 0.0)
    return PowerLaw(contacts.stiffness, power).tangent(overlap)


def trifling(contacts: Contacts, power: float, width: float) -> FloatArray:
    """(nc,) forces at an overlap of a millionth of the ``width``, N."""
    return PowerLaw(contacts.stiffness, power).force(np.full(contacts.nc, _TRIFLE * width))


# --- unknowns and curvature --------------------------------------------------------------


class Unknowns:
    """Degrees of freedom of the scene, then one for each wall: its way along its own normal, m.

    ``push`` (n,) are the forces on the ``walls`` (n,) along it, towards the bodies, N; ``lever``
    and ``body`` (nv,) the lever and the body of each degree of freedom.
    """

    def __init__(self, scene: Scene, pushed: Mapping[int, float] | None = None) -> None:
        forces, b = {} if pushed is None else pushed, scene.bodies
        for wall, force in forces.items():
            if not 0 <= wall < b.nb:
                raise InvalidInput("pushed", checks.describe(wall), "numbers of half-spaces")
            if b.kind[wall] != SHAPES.index(HalfSpace):
                raise InvalidInput("pushed", b.label(int(wall)), "a half-space")
            checks.scalar(f"pushed[{wall}]", force)
        self.scene, self.dofs = scene, scene.dofs
        self.walls = np.array([int(w) for w in forces], dtype=np.int64)
        self.push = np.array(list(forces.values()), dtype=np.float64)
        self.lever = np.append(levers(scene, self.dofs), np.ones(self.walls.size))
        self.body = np.append(self.dofs.body, self.walls)

    def _outward(self, state: State) -> FloatArray:
        """(n, dim) normals of the walls."""
        return outward(self.scene.bodies, state.orientation, self.walls)

    def gradient(self, state: State, contacts: Contacts) -> sp.csr_array:
        """B (nc, nv), of walls too."""
        B = gap_gradient(self.scene, state, contacts)
        if not self.walls.size:
            return B
        columns = np.zeros((contacts.nc, self.walls.size))
        for k, (wall, normal) in enumerate(zip(self.walls, self._outward(state), strict=True)):
            for side, sign in ((0, -1.0), (1, 1.0)):
                mine = contacts.bodies[:, side] == wall
                columns[mine, k] += sign * (contacts.normals[mine] @ normal)
        return sp.csr_array(sp.hstack([B, sp.csr_array(columns)]))

    def mass(self, state: State) -> sp.csr_array:
        """M (nv, nv); a wall, which states none, counts as one average body."""
        M = mass_matrix(self.scene, state)
        if not self.walls.size:
            return M
        free = self.scene.bodies.mass[~self.scene.bodies.fixed]
        walls = sp.diags_array(np.full(self.walls.size, float(free.mean())))
        return sp.csr_array(sp.block_diag([M, walls]))

    def moved(self, state: State, u: FloatArray) -> State:
        """Everything displaced by u (nv,)."""
        way = self.dofs.scatter(u[: self.dofs.nv], np.zeros_like(state.v))
        way[self.walls, : self.scene.dim] = u[self.dofs.nv :, None] * self._outward(state)
        return State(state.t, move(state, way, 1.0), state.v)


class Configuration:
    """A state with its contacts of gaps up to ``margin`` m, and their elastic forces and energy.

    ``forces`` (nc,) are w′(−Φ), N, and ``pull`` (nv,) is Bᵀ w′, N and N·m.
    """

    def __init__(
        self, unknowns: Unknowns, state: State, margin: float, near: VerletList | None = None
    ) -> None:
        self.unknowns, self.state = unknowns, state
        self.contacts = detect(unknowns.scene, state, margin, near)
        self.forces, energies = elastic_forces(self.contacts, unknowns.scene.power)
        self.energy = float(energies.sum())
        self.B = unknowns.gradient(state, self.contacts)
        self.pull = self.B.T @ self.forces

    @cached_property
    def slope(self) -> FloatArray:
        """w″(−Φ) (nc,), N/m."""
        return slope(self.contacts, self.unknowns.scene.power)

    def both_ways(self) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """B, Φ and k; a bond is a contact and its mirror image, which pulls."""
        B, contacts = self.B, self.contacts
        tied = np.flatnonzero(contacts.bonded)
        if not tied.size:
            return B, contacts.phi, contacts.stiffness
        return (
            sp.csr_array(sp.vstack([B, -B[tied]])),
            np.concatenate([contacts.phi, -contacts.phi[tied]]),
            np.concatenate([contacts.stiffness, contacts.stiffness[tied]]),
        )

    def curvature(self) -> Curvature | None:
        """∇²E; None where contacts that push are of other shapes than spheres and half-spaces."""
        loaded = np.flatnonzero(self.forces != 0.0)
        kind = self.unknowns.scene.bodies.kind[self.contacts.bodies[loaded]]
        is_sphere = kind == SHAPES.index(Sphere)
        if not np.all(is_sphere | (kind == SHAPES.index(HalfSpace))):
            return None
        pairs = loaded[is_sphere.all(axis=1)]
        matrix, least = self.B.T @ sp.diags_array(self.slope) @ self.B, 0.0
        if pairs.size:
            rotating = self._rotating(pairs)
            matrix, least = matrix - rotating, -float(abs(rotating).sum(axis=1).max())
        return Curvature(sp.csc_array(matrix), float(self.slope.max(initial=0.0)), least)

    def _rotating(self, pairs: IntArray) -> sp.csr_array:
        """Σ w′ ∇²Φ (nv, nv) of contacts between spheres."""
        scene, number = self.unknowns.scene, self.unknowns.dofs.number
        i, j = self.contacts.bodies[pairs].T
        arm, box = self.state.position[j] - self.state.position[i], scene.box
        apart = np.linalg.norm(arm if box is None else box.nearest(arm, self.state.t), axis=1)
        n = self.contacts.normals[pairs]
        across = np.eye(scene.dim)[None] - n[:, :, None] * n[:, None, :]
        block = across * (self.forces[pairs] / apart)[:, None, None]
        both = np.stack([number[i, : scene.dim], number[j, : scene.dim]], axis=1)
        both = both.reshape(pairs.size, -1)
        blocks = np.block([[block, -block], [-block, block]])
        row, column, blocks = np.broadcast_arrays(both[:, :, None], both[:, None, :], blocks)
        free = (row >= 0) & (column >= 0)
        size = self.unknowns.lever.size
        entries = blocks[free], (row[free], column[free])
        return sp.csr_array(sp.coo_array(entries, shape=(size, size)))


@dataclass(frozen=True, eq=False)
class Curvature:
    """∇²E (nv, nv) at one state, N/m.

    ``stiffest`` is w″ of the stiffest contact; no eigenvalue is below ``least``, N/m.
    """

    matrix: sp.csc_array
    stiffest: float
    least: float

    def step(self, unbalanced: FloatArray) -> FloatArray | None:
        """Newton's step (nv,) where the energy is convex, else None."""
        factor = self._factor(_SHIFT)
        if factor is None or np.any(factor.U.diagonal() <= 0.0):
            return None
        return np.asarray(factor.solve(unbalanced))

    @property
    def stable(self) -> bool:
        """Whether no direction has negative curvature, contacts that just touch left out."""
        factor = self._factor(_SOFT)
        if factor is None:
            return bool(self.softest()[0] >= -_SOFT * self.stiffest)
        return bool(np.all(factor.U.diagonal() > 0.0))

    def softest(self) -> tuple[float, FloatArray]:
        """The least curvature, N/m, and its direction (nv,) of length 1."""
        size = self.matrix.shape[0]
        if size <= _DENSE:
            values, vectors = np.linalg.eigh(self.matrix.toarray())
        else:
            start = np.cos(np.arange(size))  # a share of every direction, always the same
            below = 1.01 * self.least - _SOFT * self.stiffest
            values, vectors = eigsh(self.matrix, k=1, sigma=below, v0=start, tol=1e-6)
        way = vectors[:, 0]
        return float(values[0]), np.asarray(way * np.sign(way[np.argmax(np.abs(way))]))

    def _factor(self, share: float) -> Any:
        """L U, a share of the stiffest contact added to the diagonal; None if it fails.

        Without pivoting, so that the diagonal has the signs of the eigenvalues.
        """
        shift = sp.eye_array(self.matrix.shape[0]) * (share * (self.stiffest or 1.0))
        try:
            factor = splu(
                sp.csc_array(self.matrix + shift),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # exactly singular
            return None
        return factor if np.array_equal(factor.perm_r, factor.perm_c) else None
