"""Equilibrium of elastic contacts with friction: energy minimised by increments, Coulomb's caps.

    F + Bᵀ w′(−Φ) + B_tᵀ f_t = 0,    f_t = P(t − k_t s),    ‖f_t‖ ≤ μ w′(−Φ)

t are the forces of the tangential springs at the start of the increment and s what the contacts
slide in it. Each pass takes gaps, caps and k_t from where the bodies are, and minimises the energy
that is then convex, that of ``cdopt.VariationalStep`` with sliders, whose inertia keeps passes
short and fades: with q̂ the last place and α = ½, a step of twice the way u

    min over u    Σ w(−Φ − B (u − û)) + Σ ψ(s(u)) − Fᵀu + (2/h²) ‖u − û‖²_M

It ends when the forces of the exact gaps and of the caps μ f_n they have balance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import SolveFailed
from cdopt.backends.base import Backend
from cdopt.collision import (
    Contacts,
    VerletList,
    applied_loads,
    detect,
    gap_gradient,
    mass_matrix,
    move,
)
from cdopt.dynamics.elastic_energy import elastic_forces, slope
from cdopt.dynamics.equilibrium import MARGIN, ROUND_OFF, STRIDE
from cdopt.dynamics.frozen_friction import FrozenForces, SlidingSprings, frozen
from cdopt.dynamics.spheres.springs import FrictionLaw
from cdopt.formulations import Sliders, VariationalStep
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Scene, State

_INERTIA = 1e-8, 1e-2, 1e6  # least, first and most, of the stiffest contact


@dataclass(frozen=True)
class FrictionalRest:
    """Bodies at rest after an increment.

    Attributes
    ----------
    state : where they are. springs : of friction.
    residual : largest unbalanced force, as a share of the largest force.
    passes : how often gaps and caps were taken anew. lost : what friction took, J.
    """

    state: State
    springs: SlidingSprings
    residual: float
    passes: int
    lost: float


@dataclass(frozen=True)
class _Place:
    """A place on the way: what acts there, the unbalanced forces (nv,) and the largest force."""

    state: State
    contacts: Contacts
    frozen: FrozenForces
    sliders: Sliders
    unbalanced: FloatArray
    largest: float
    steepest: float


class FrictionalIncrements:
    """Increments of one scene; each begins at rest with the springs that the one before left.

    Parameters
    ----------
    law : of friction. backend : of every pass.
    tol : of the residual; round-off of the gaps may end it first.
    limit : passes at most. travel : how far a body may go in an increment, in its own sizes.
    """

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
        b, self._dofs = scene.bodies, scene.full_dofs
        turns = self._dofs.column >= scene.dim
        self._lever = np.where(turns, b.reach[self._dofs.body], 1.0)
        self._core = float(b.core[np.isfinite(b.core)].min())
        self._load = applied_loads(scene, self._dofs)

    def rest(self, state: State, dt: float, springs: SlidingSprings) -> FrictionalRest:
        """The rest after ``dt`` s of the prescribed motions.

        Raises
        ------
        SolveFailed : none within so many passes, or none near by.
        """
        still = State(state.t, state.q, np.where(self.scene.bodies.fixed[:, None], state.v, 0.0))
        u = np.zeros(self._dofs.nv)
        here, inertia, before = self._at(still, u, dt, springs), _INERTIA[1], np.inf
        for passes in range(self.limit + 1):
            residual = self._residual(here)
            slow = residual > 0.5 * before
            if residual <= self.tol or (slow and residual <= self._round_off(here)):
                after, lost, _ = here.frozen.stretched(here.sliders, here.contacts, u, 1.0, dt)
                return FrictionalRest(here.state, after, residual, passes, lost)
            if passes == self.limit or self._left(still, here.state):
                break
            before, last = residual, u
            u, inertia = self._pass(here, u, dt, inertia)
            if u is last:
                break
            here = self._at(still, u, dt, springs)
        raise self._failure(still, here, passes, residual)

    def _at(self, still: State, u: FloatArray, dt: float, springs: SlidingSprings) -> _Place:
        """The place at u (nv,) from the start of the increment."""
        scene, dofs = self.scene, self._dofs
        moved = move(still, dofs.scatter(u / dt, still.v), dt)
        there = State(still.t + dt, moved, still.v)
        contacts = detect(scene, there, MARGIN * self._core, self.near)
        caps = frozen(scene, self.law, (still, there, dt), contacts, springs, damped=False)
        sliders = caps.sliders(scene, there, contacts, dofs)
        f, _ = elastic_forces(contacts, scene.power, np.arange(contacts.nc))
        pull = gap_gradient(scene, there, contacts, dofs).T @ f + self._load
        pull = pull + sliders.B_t.T @ sliders.forces(u, 1.0, dt).ravel()
        heaviest = float(np.abs(self._load / self._lever).max(initial=0.0))
        largest = max(heaviest, float(np.abs(f).max(initial=0.0))) or 1.0
        steepest = float(slope(contacts, scene.power).max(initial=0.0))
        return _Place(there, contacts, caps, sliders, pull, largest, steepest)

    def _residual(self, here: _Place) -> float:
        """Largest unbalanced force, as a share of the largest force."""
        return float(np.abs(here.unbalanced / self._lever).max(initial=0.0)) / here.largest

    def _round_off(self, here: _Place) -> float:
        """Residual that round-off of positions makes."""
        return ROUND_OFF * float(np.abs(here.state.position).max()) * here.steepest / here.largest

    def _pass(
        self, here: _Place, u: FloatArray, dt: float, inertia: float
    ) -> tuple[FloatArray, float]:
        """The minimum of the energy of linear gaps, with so much inertia that it is near by."""
        least, _, most = _INERTIA
        while True:
            try:
                further = self._solve(here, u, dt, inertia)
            except SolveFailed:
                further = None
            if further is not None:
                way = float(np.abs((further - u) * self._lever).max(initial=0.0))
                if way <= STRIDE * self._core:
                    return further, max(0.1 * inertia, least)
            if inertia >= most:
                return u, inertia
            inertia *= 10.0

    def _solve(self, here: _Place, u: FloatArray, dt: float, inertia: float) -> FloatArray | None:
        """u (nv,) of the convex problem; None without an answer."""
        scene, contacts, dofs = self.scene, here.contacts, self._dofs
        M = mass_matrix(scene, here.state, dofs)
        stiff = max(here.steepest, here.largest / self._core)
        lightest = float((M.diagonal() / self._lever**2).min())
        h = 2.0 * float(np.sqrt(lightest / (inertia * stiff)))
        B = gap_gradient(scene, here.state, contacts, dofs)
        step = ContactStep(
            M=M,
            B=B,
            phi=contacts.phi - B @ u,
            v=np.zeros(dofs.nv),
            F_ext=self._load,
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
        twice = posed.solve(self.backend, check=False).u
        return None if twice is None or not np.isfinite(twice).all() else 0.5 * twice

    def _left(self, start: State, now: State) -> list[int]:
        """Bodies that went further than they may."""
        b = self.scene.bodies
        way = np.linalg.norm(now.position - start.position, axis=1)
        return list(
            np.flatnonzero(~b.fixed & (way > self.travel * np.where(b.fixed, 1.0, b.reach)))
        )

    def _failure(self, start: State, here: _Place, passes: int, residual: float) -> SolveFailed:
        """Why there is no rest."""
        gone = [self.scene.bodies.label(int(k)) for k in self._left(start, here.state)[:10]]
        why = f"{', '.join(gone)} left their places" if gone else "forces stay out of balance"
        return SolveFailed(
            f"no rest with friction within {passes} passes, residual {residual:.1e}: {why}",
            backend=self.backend.name,
            status="no rest",
            problem=None,
        )
