"""Rest with friction of elastic contacts, after an increment of the prescribed motions.

After an increment in which contacts slide by s from springs of forces t,

    F + Bᵀ w′(−Φ) + B_tᵀ f_t = 0,    f_t = P(t − k_t s),    ‖f_t‖ ≤ μ w′(−Φ)

Each pass takes gaps, caps and k_t from the present state and minimises an energy that is
then convex, that of ``cdopt.VariationalStep`` with sliders. Its inertia keeps passes
short and fades: with q̂ the last place and α = ½, a step of twice the displacement u

    min over u    Σ w(−Φ − B (u − û)) + Σ ψ(s(u)) − Fᵀu + (2/h²) ‖u − û‖²_M

It ends when the forces of the exact gaps and of their caps μ f_n balance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import SolveFailed
from cdopt.collision import PairFriction, VerletList, applied_loads, move
from cdopt.dynamics.configuration import (
    MARGIN,
    ROUND_OFF,
    Configuration,
    Unknowns,
    half_width,
    named,
)
from cdopt.dynamics.equilibrium import STRIDE, RestSettings
from cdopt.dynamics.friction_springs import SlidingSprings, frozen
from cdopt.dynamics.linearised import Passes, moved_too_far, settle, shortened
from cdopt.formulations import VariationalStep
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Scene, State

_INERTIA = 1e-8, 1e-2, 1e6  # least, first and most, of the stiffest contact


class FrictionalIncrements:
    """Increments of one scene, ``dt`` s each; each begins with the springs of the last."""

    def __init__(
        self, scene: Scene, dt: float, law: PairFriction, settings: RestSettings, near: VerletList
    ) -> None:
        self.scene, self.dt, self.law, self.settings, self.near = scene, dt, law, settings, near
        self.unknowns, self.core = Unknowns(scene, dofs=scene.full_dofs), half_width(scene)
        self.load = applied_loads(scene, scene.full_dofs)

    def step(self, state: State, springs: SlidingSprings | None) -> Passes:
        """The rest after the next increment, from springs at its start; None for none yet."""
        still = np.where(self.scene.bodies.fixed[:, None], state.v, 0.0)
        old = SlidingSprings.none(self.scene.dim) if springs is None else springs
        increment = _Increment(self, State(state.t, state.q, still), old)
        here, passes = settle(increment, increment.place(np.zeros(self.unknowns.dofs.nv)))
        sliding = here.sliders, here.at.contacts, here.u, 1.0, self.dt
        after, lost, _ = here.frozen.stretched(*sliding)
        ok = here.residual <= max(self.settings.tol, TOLERANCE)
        energy = np.full(4, lost)
        return Passes(here.at.state, passes, here.residual, ok, True, None, "", energy, after)


class _Place:
    """An intermediate place, at u (nv,) from the start of an increment, with the forces there."""

    def __init__(
        self, work: FrictionalIncrements, still: State, u: FloatArray, old: SlidingSprings
    ) -> None:
        scene, dofs, dt, lever = work.scene, work.unknowns.dofs, work.dt, work.unknowns.lever
        moved = move(still, dofs.scatter(u / dt, still.v), dt)
        there, self.u = State(still.t + dt, moved, still.v), u
        self.at = here = Configuration(work.unknowns, there, MARGIN * work.core, work.near)
        interval = still, there, dt
        self.frozen = frozen(scene, work.law, interval, here.contacts, old, damped=False)
        self.sliders = self.frozen.sliders(scene, there, here.contacts, dofs)
        imbalance = here.contact_load + work.load
        imbalance = imbalance + self.sliders.B_t.T @ self.sliders.forces(u, 1.0, dt).ravel()
        heaviest = float(np.abs(work.load / lever).max(initial=0.0))
        self.largest = max(heaviest, float(np.abs(here.forces).max(initial=0.0))) or 1.0
        self.steepest = float(here.slope.max(initial=0.0))
        self.residual = float(np.abs(imbalance / lever).max(initial=0.0)) / self.largest
        place = float(np.abs(there.position).max())
        self.round_off = ROUND_OFF * place * self.steepest / self.largest


class _Increment:
    """The passes of one increment."""

    def __init__(self, work: FrictionalIncrements, still: State, old: SlidingSprings) -> None:
        self._work, self._still, self._old = work, still, old
        self._inertia, self._before, self._passes = _INERTIA[1], np.inf, 0

    def place(self, u: FloatArray) -> _Place:
        return _Place(self._work, self._still, u, self._old)

    def settled(self, here: _Place, passes: int) -> bool:
        """Whether forces balance."""
        work, self._passes = self._work, passes
        slow = here.residual > 0.5 * self._before
        if here.residual <= work.settings.tol or (slow and here.residual <= here.round_off):
            return True
        left = moved_too_far(work.scene, self._still, here.at.state, work.settings.travel)
        if passes == work.settings.limit or left:
            raise self._failure(here, left)
        self._before = here.residual
        return False

    def moved(self, here: _Place) -> _Place:
        """The minimum of the energy of linear gaps, with enough inertia to keep it near."""
        work = self._work

        def near(inertia: float) -> FloatArray | None:
            """u (nv,) of the pass; None if too far."""
            further = self._solve(here, inertia)
            if further is None:
                return None
            way = float(np.abs((further - here.u) * work.unknowns.lever).max(initial=0.0))
            return further if way <= STRIDE * work.core else None

        least, _, most = _INERTIA
        u, inertia = shortened(near, self._inertia, least, most)
        if u is None:
            raise self._failure(here, [])
        self._inertia = max(0.1 * inertia, least)
        return self.place(u)

    def _solve(self, here: _Place, inertia: float) -> FloatArray | None:
        """u (nv,) of the convex problem; None without an answer."""
        work, contacts, dofs, B = self._work, here.at.contacts, self._work.unknowns.dofs, here.at.B
        M = work.unknowns.mass(here.at.state)
        stiff = max(here.steepest, here.largest / work.core)
        lightest = float((M.diagonal() / work.unknowns.lever**2).min())
        h = 2.0 * float(np.sqrt(lightest / (inertia * stiff)))
        step = ContactStep(
            M=M,
            B=B,
            phi=contacts.phi - B @ here.u,
            v=np.zeros(dofs.nv),
            F_ext=work.load,
            dt=h,
            stiffness=contacts.stiffness,
            contact_ids=contacts.contact_ids,
            dof_body=dofs.body,
        )
        linear = VariationalStep(
            step,
            2.0 / h * (M @ here.u),
            power=work.scene.power,
            two_sided=contacts.bonded,
            sliders=replace(here.sliders, rate=2.0 * work.dt / h * here.sliders.rate),
        )
        try:
            twice = linear.solve(work.settings.backend, check=False).u
        except SolveFailed:
            return None
        return None if twice is None or not np.isfinite(twice).all() else 0.5 * twice

    def _failure(self, here: _Place, left: list[int]) -> SolveFailed:
        work, passes = self._work, self._passes
        why = f"{named(work.scene, left)} moved too far" if left else "the forces do not balance"
        return SolveFailed(
            f"no equilibrium with friction after {passes} passes, residual "
            f"{here.residual:.1e}: {why}",
            backend=work.settings.backend.name,
            status="no rest",
            problem=None,
        )
