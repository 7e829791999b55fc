"""Friction of elastic contacts whose caps are known: in a variational step, and at rest.

Each contact that overlaps has a tangential spring with a memory (Cundall & Strack, 1979), of
stiffness k_t by the slope of the contact law, whose force is at most μ f_n. In a variational step
f_n, with the normal dashpot, and k_t are those of the step's predictor q + α h v. These are
``cdopt.formulations.Sliders``: the step is convex. Springs turn with the normal, and with half the
spin of the two bodies about it. Where k_t falls a spring keeps its length, where k_t grows its
force: both lose energy.

At rest, after an increment in which contacts slide by s from springs of forces t,

    F + Bᵀ w′(−Φ) + B_tᵀ f_t = 0,    f_t = P(t − k_t s),    ‖f_t‖ ≤ μ w′(−Φ)

Each pass takes gaps, caps and k_t from where the bodies are, and minimises the energy
that is then convex, that of ``cdopt.VariationalStep`` with sliders, whose inertia keeps passes
short and fades: with q̂ the last place and α = ½, a step of twice the way u

    min over u    Σ w(−Φ − B (u − û)) + Σ ψ(s(u)) − Fᵀu + (2/h²) ‖u − û‖²_M

It ends when the forces of the exact gaps and of the caps μ f_n they have balance.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import SolveFailed
from cdopt.backends.base import Backend
from cdopt.collision import (
    Contacts,
    VerletList,
    applied_loads,
    detect,
    effective_mass,
    friction,
    gap_gradient,
    mass_matrix,
    move,
    tangents,
)
from cdopt.collision.dissipation import surface_points
from cdopt.dynamics.equilibrium import (
    MARGIN,
    ROUND_OFF,
    STRIDE,
    elastic_forces,
    gone,
    half_width,
    levers,
    named,
    slope,
)
from cdopt.dynamics.records import ContactState
from cdopt.dynamics.spheres.system import FrictionLaw
from cdopt.formulations import Sliders, VariationalStep
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Dofs, Scene, State

_INERTIA = 1e-8, 1e-2, 1e6  # least, first and most, of the stiffest contact


@dataclass(frozen=True)
class SlidingSprings:
    """Springs of friction between two steps."""

    ids: IntArray  # (n,) ascending numbers of contacts
    force: FloatArray  # (n, dim) N, on the second bodies, at right angles to the normals
    normals: FloatArray  # (n, dim) of the contacts when the springs were stretched
    stiffness: FloatArray  # (n,) k_t, N/m
    acting: FloatArray  # (n, dim) N, f_t of the last step

    @staticmethod
    def none(dim: int) -> SlidingSprings:
        """Of a state without contacts."""
        empty = np.zeros((0, dim))
        return SlidingSprings(np.zeros(0, dtype=np.int64), empty, empty, np.zeros(0), empty)

    def stored(self) -> dict[str, FloatArray | IntArray]:
        """The arrays by name, for the memory of a run."""
        return {f"spring_{field.name}": getattr(self, field.name) for field in fields(self)}

    @property
    def energy(self) -> FloatArray:
        """(n,) J."""
        return np.asarray((self.force * self.force).sum(axis=1) / (2.0 * self.stiffness))

    def shown(self, contacts: ContactState) -> ContactState:
        """The contacts of a state with the forces and energy of friction."""
        tangential = np.zeros_like(contacts.normals)
        _, here, there = np.intersect1d(contacts.contact_ids, self.ids, return_indices=True)
        tangential[here] = self.acting[there]
        energy = float(self.energy.sum())
        whole = contacts.energy + energy
        return replace(contacts, energy=whole, tangential=tangential, energy_t=energy)


@dataclass(frozen=True)
class FrozenForces:
    """What a step takes from its predictor, of the contacts with friction."""

    ids: IntArray  # this and the next two as of SlidingSprings, at the start of the step
    force: FloatArray
    normals: FloatArray
    cap: FloatArray  # (n,) μ f_n, N
    stiffness: FloatArray  # (n,) k_t, N/m
    damping: FloatArray  # (n,) the tangential dashpot, N s/m
    lost: float  # J, of springs whose contacts parted or whose k_t changed

    def sliders(self, scene: Scene, state: State, contacts: Contacts, dofs: Dofs) -> Sliders:
        """The sliders of all ``contacts`` at ``state``; those without friction have no cap."""
        nc, dim = contacts.nc, scene.dim
        acting = replace(contacts, points=surface_points(scene, contacts))
        rows = friction(scene, state, acting, 0.0, dofs)
        cap, stiffness, damping = np.zeros(nc), np.ones(nc), np.zeros(nc)
        force = np.zeros((nc, dim))
        _, here, mine = np.intersect1d(contacts.contact_ids, self.ids, return_indices=True)
        cap[here], stiffness[here] = self.cap[mine], self.stiffness[mine]
        damping[here] = self.damping[mine]
        force[here] = _turned(self.force[mine], self.normals[mine], contacts.normals[here])
        trial = np.einsum("ix,ikx->ik", force, rows.tangents)
        return Sliders(rows.B_t, stiffness, cap, trial, damping, rows.rate)

    def stretched(
        self, sliders: Sliders, contacts: Contacts, u: FloatArray, alpha: float, h: float
    ) -> tuple[SlidingSprings, float, float]:
        """Springs after a step by u (nv,), what friction took, and what walls did on it, J."""
        after, lost = sliders.after(u, alpha, h)
        f_t = sliders.forces(u, alpha, h)
        here = np.flatnonzero(sliders.cap > 0.0)
        ways = tangents(contacts.normals[here])
        springs = SlidingSprings(
            ids=contacts.contact_ids[here],
            force=np.einsum("ik,ikx->ix", after[here], ways),
            normals=contacts.normals[here],
            stiffness=sliders.stiffness[here],
            acting=np.einsum("ik,ikx->ix", f_t[here], ways),
        )
        return springs, self.lost + float(lost[here].sum()), h * float((f_t * sliders.rate).sum())


def frozen(
    scene: Scene,
    law: FrictionLaw,
    moment: tuple[State, State, float],
    contacts: Contacts,
    springs: SlidingSprings,
    damped: bool = True,
) -> FrozenForces:
    """Of the step from a state; ``moment`` is that state, its predictor and h.

    ``contacts`` are those of the predictor; without ``damped`` dashpots do not count.
    """
    state, there, h = moment
    push, mass = elastic_forces(contacts, scene.power)[0], effective_mass(scene, contacts.bodies)
    dofs = scene.full_dofs
    rate = gap_gradient(scene, there, contacts, dofs) @ dofs.gather(state.v) + contacts.gap_rate
    push = np.maximum(push - damped * scene.damping * mass * rate, 0.0)
    mu, ratio = law.of_pairs(scene, contacts.bodies)
    stiffness = ratio * slope(contacts, scene.power)
    used = np.flatnonzero((contacts.phi < 0.0) & ~contacts.bonded & (mu * push > 0.0))
    ids, normals, k = contacts.contact_ids[used], contacts.normals[used], stiffness[used]
    force = np.zeros_like(normals)
    _, here, mine = np.intersect1d(ids, springs.ids, return_indices=True)
    moved = _turned(springs.force[mine], springs.normals[mine], normals[here])
    if scene.dim == 3 and here.size:
        turning = state.angular_velocity[contacts.bodies[used[here]]].mean(axis=1)
        n, angle = normals[here], h * (turning * normals[here]).sum(axis=1)[:, None]
        moved = np.cos(angle) * moved + np.sin(angle) * np.cross(n, moved)
    force[here] = np.minimum(1.0, k[here] / springs.stiffness[mine])[:, None] * moved
    lost = springs.energy.sum() - ((force * force).sum(axis=1) / (2.0 * k)).sum()
    damping = damped * scene.gamma_t * mass[used]
    return FrozenForces(ids, force, normals, mu[used] * push[used], k, damping, float(lost))


def _turned(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Vectors x (n, dim), at right angles to a, turned by the least rotation from a to b."""
    share = (b * x).sum(axis=1) / (1.0 + (a * b).sum(axis=1))
    return np.asarray(x - share[:, None] * (a + b))


# --- rest --------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrictionalRest:
    """Bodies at rest after an increment; ``residual`` as in ``Equilibrium``, ``lost`` to friction.

    ``passes`` counts how often gaps and caps were taken anew.
    """

    state: State
    springs: SlidingSprings
    residual: float
    passes: int
    lost: float


class _Place:
    """A place on the way, at u (nv,) from the start of an increment: what acts there."""

    def __init__(
        self,
        work: FrictionalIncrements,
        still: State,
        u: FloatArray,
        dt: float,
        old: SlidingSprings,
    ) -> None:
        scene, dofs = work.scene, work.dofs
        moved = move(still, dofs.scatter(u / dt, still.v), dt)
        self.state = there = State(still.t + dt, moved, still.v)
        self.contacts = detect(scene, there, MARGIN * work.core, work.near)
        moment = still, there, dt
        self.frozen = frozen(scene, work.law, moment, self.contacts, old, damped=False)
        self.sliders = self.frozen.sliders(scene, there, self.contacts, dofs)
        f, _ = elastic_forces(self.contacts, scene.power)
        self.B = gap_gradient(scene, there, self.contacts, dofs)
        pull = self.B.T @ f + work.load
        pull = pull + self.sliders.B_t.T @ self.sliders.forces(u, 1.0, dt).ravel()
        heaviest = float(np.abs(work.load / work.lever).max(initial=0.0))
        self.largest = max(heaviest, float(np.abs(f).max(initial=0.0))) or 1.0
        self.steepest = float(slope(self.contacts, scene.power).max(initial=0.0))
        self.residual = float(np.abs(pull / work.lever).max(initial=0.0)) / self.largest
        place = float(np.abs(there.position).max())
        self.round_off = ROUND_OFF * place * self.steepest / self.largest


class FrictionalIncrements:
    """Increments of one scene, as in ``QuasiStaticSteps``; each begins with the last's springs."""

    def __init__(
        self,
        scene: Scene,
        law: FrictionLaw,
        backend: Backend,
        tol: float,
        limit: int,
        travel: float,
        near: VerletList,
    ) -> None:
        self.scene, self.law, self.backend, self.near = scene, law, backend, near
        self.tol, self.limit, self.travel = tol, limit, travel
        self.dofs, self.core = scene.full_dofs, half_width(scene)
        self.lever, self.load = levers(scene, self.dofs), applied_loads(scene, self.dofs)

    def rest(self, state: State, dt: float, springs: SlidingSprings) -> FrictionalRest:
        """The rest after ``dt`` s of the prescribed motions."""
        scene = self.scene
        still = State(state.t, state.q, np.where(scene.bodies.fixed[:, None], state.v, 0.0))
        u, inertia, before = np.zeros(self.dofs.nv), _INERTIA[1], np.inf
        here = _Place(self, still, u, dt, springs)
        for passes in range(self.limit + 1):
            slow = here.residual > 0.5 * before
            if here.residual <= self.tol or (slow and here.residual <= here.round_off):
                after, lost, _ = here.frozen.stretched(here.sliders, here.contacts, u, 1.0, dt)
                return FrictionalRest(here.state, after, here.residual, passes, lost)
            left = gone(scene, still, here.state, self.travel)
            if passes == self.limit or left:
                break
            before, last = here.residual, u
            u, inertia = self._pass(here, u, dt, inertia)
            if u is last:
                break
            here = _Place(self, still, u, dt, springs)
        why = f"{named(scene, left)} left their places" if left else "forces stay out of balance"
        raise SolveFailed(
            f"no rest with friction within {passes} passes, residual {here.residual:.1e}: {why}",
            backend=self.backend.name,
            status="no rest",
            problem=None,
        )

    def _pass(
        self, here: _Place, u: FloatArray, dt: float, inertia: float
    ) -> tuple[FloatArray, float]:
        """The minimum of the energy of linear gaps, with so much inertia that it is near by."""
        least, _, most = _INERTIA
        while True:
            further = self._solve(here, u, dt, inertia)
            if further is not None:
                way = float(np.abs((further - u) * self.lever).max(initial=0.0))
                if way <= STRIDE * self.core:
                    return further, max(0.1 * inertia, least)
            if inertia >= most:
                return u, inertia
            inertia *= 10.0

    def _solve(self, here: _Place, u: FloatArray, dt: float, inertia: float) -> FloatArray | None:
        """u (nv,) of the convex problem; None without an answer."""
        scene, contacts, dofs = self.scene, here.contacts, self.dofs
        M = mass_matrix(scene, here.state, dofs)
        stiff = max(here.steepest, here.largest / self.core)
        lightest = float((M.diagonal() / self.lever**2).min())
        h = 2.0 * float(np.sqrt(lightest / (inertia * stiff)))
        step = ContactStep(
            M=M,
            B=here.B,
            phi=contacts.phi - here.B @ u,
            v=np.zeros(dofs.nv),
            F_ext=self.load,
            dt=h,
            stiffness=contacts.stiffness,
            contact_ids=contacts.contact_ids,
            dof_body=dofs.body,
        )
        sliders = replace(here.sliders, rate=2.0 * dt / h * here.sliders.rate)
        posed = VariationalStep(
            step,
            2.0 / h * (M @ u),
            power=scene.power,
            two_sided=contacts.bonded,
            sliders=sliders,
        )
        try:
            twice = posed.solve(self.backend, check=False).u
        except SolveFailed:
            return None
        return None if twice is None or not np.isfinite(twice).all() else 0.5 * twice
