"""Gradients of a whole run of the variational integrator, whose contacts are elastic.

A step from q with momenta p by Δq = d meets, with y = q + α d, P(y) = Bᵀw′(−Φ) and the damping
impulse s = ½h drive(y) − ½C(y) d (De Klerk et al. (2021), equations (29)–(31), corrected),

    R  = p − M d/h + h(1−α)(F + P) + s = 0,    p⁺ = M d/h + hα(F + P) + s,    q⁺ = q + d.

With p̄⁺ = M⁻¹v̄⁺, H = ∂P/∂y and E = ∂s/∂y, each step back is one linear system for λ, the cotangent
of R,

    (M/h − hα(1−α)H + ½C − αE)ᵀ λ = x̄⁺ + (M/h + hα²H − ½C + αE)ᵀ p̄⁺,
    x̄ = x̄⁺ + (hαH + E)ᵀ p̄⁺ + (h(1−α)H + E)ᵀ λ,    v̄ = M λ.

How B and C turn with the bodies is found by central differences, at forces as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt import collision
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import SolveFailed, Unsupported
from cdopt.collision import Contacts
from cdopt.dynamics import StepContext, VariationalSteps
from cdopt.dynamics.configuration import elastic_forces, slope
from cdopt.gradients.run import NEAR, TrajectoryGradients
from cdopt.gradients.step_tangent import Outer
from cdopt.problem.contact_law import HOOKE
from cdopt.scene import SHAPES, Scene, Sphere, State

_TOUCHES = 1e-9  # gap of a contact at a kink, over the size of the smallest body


class _Middle(NamedTuple):
    """Where the forces of a step act: ``state`` y, Δq ``d`` (nv,), and the contacts that damp."""

    state: State
    d: FloatArray
    damping: IntArray
    margin: float


class _Cotangent(NamedTuple):
    """Cotangents of loads (nv,) times s, of the damping impulse (nv,), and of M."""

    middle: _Middle
    load: FloatArray
    damped: FloatArray
    M: Outer


class VariationalRun(TrajectoryGradients):
    """A run of the variational integrator with these ``settings``, without friction.

    Raises
    ------
    InvalidInput : a scene without stiffness, or with Newton's restitution; a time step that does
        not resolve its collisions.
    Unsupported : joints; solids in space other than spheres; damping with α other than ½.
    """

    def __init__(
        self,
        scene: Scene,
        dt: float,
        steps: int,
        settings: VariationalSteps,
        state: State,
        stride: int,
    ) -> None:
        self.settings, bodies, what = settings, scene.bodies, "gradients of this run"
        scene.require_no_joints(what)
        damped = scene.damping > 0.0 or scene.gamma_t > 0.0
        if damped and (settings.alpha != 0.5 or settings.damping != "forced"):
            raise Unsupported(what, "its damping changes in the step", ("alpha=0.5, forced",))
        if scene.dim == 3 and np.any(~bodies.fixed & (bodies.kind != SHAPES.index(Sphere))):
            raise Unsupported(what, "solids turn in space", ("spheres", "bodies in the plane"))
        self._stepper = settings.start(StepContext(scene, dt))
        super().__init__(scene, dt, steps, state, stride, scene.full_dofs)

    def _totals(self) -> dict[str, Any]:
        return {"F_ext": np.zeros(self.dofs.nv), "M": 0.0, "stiffness": 0.0}

    def _after(self, state: State) -> tuple[State, State]:
        taken = self._stepper.advance(self._stepper.begin(state).snapshot, 1)
        if taken.failure is not None:
            raise SolveFailed(taken.failure.why, backend="variational", status="failed")
        return taken.snapshot.state.at(state.t + self.dt), taken.snapshot.state

    # --- the step ------------------------------------------------------------------------------

    def _at(self, state: State, d: FloatArray, share: float) -> State:
        """The state after a share of Δq d (nv,), walls moved as prescribed."""
        v = self.dofs.scatter(d / self.dt, state.v)
        q = collision.move(state, v, share * self.dt)
        return State._of(t=state.t + share * self.dt, q=q, v=v)

    def _middle(self, state: State, following: State) -> _Middle:
        scene, dofs, h, alpha = self.scene, self.dofs, self.dt, self.settings.alpha
        table = 0.5 * h * (state.v + following.v)  # exact of turns without torque, or with α = ½
        table[:, :3] = (following.q - state.q)[:, :3]
        d, fastest = dofs.gather(table), float(np.abs(state.v).max(initial=0.0))
        margin = collision.default_margin(scene) + 2.0 * h * fastest
        foreseen = collision.detect(scene, self._at(state, h * dofs.gather(state.v), alpha), margin)
        touch = (foreseen.phi < 0.0) | foreseen.bonded
        return _Middle(self._at(state, d, alpha), d, foreseen.contact_ids[touch], margin)

    def _contacts(self, middle: _Middle, state: State, scene: Scene | None = None) -> Contacts:
        return collision.detect(self.scene if scene is None else scene, state, middle.margin)

    def _impulse(
        self, middle: _Middle, state: State, contacts: Contacts, scene: Scene
    ) -> tuple[sp.csr_array, FloatArray]:
        """C, and ½h drive − ½C d, in a state close to the middle."""
        damped: BoolArray = np.isin(contacts.contact_ids, middle.damping)
        given = scene, state, contacts, damped, self.dofs
        C = collision.damping_matrix(*given)
        return C, 0.5 * (self.dt * collision.damping_drive(*given) - C @ middle.d)

    def _turning(
        self, middle: _Middle, contacts: Contacts, f: FloatArray
    ) -> tuple[sp.csc_array, sp.csc_array]:
        """∂(Bᵀf)/∂y at forces (nc,) as they are, and ∂s/∂y, by central differences."""
        scene, dofs, state = self.scene, self.dofs, middle.state
        acts = (f != 0.0) | np.isin(contacts.contact_ids, middle.damping)
        force = dict(zip(contacts.contact_ids[f != 0.0].tolist(), f[f != 0.0], strict=True))
        solid = dofs.column < 3  # turns of spheres move no contact
        moving = np.flatnonzero(np.isin(dofs.body, contacts.bodies[acts]) & solid)
        changes = np.zeros((2, dofs.nv, moving.size))
        for column, k in enumerate(moving.tolist()):
            step = NEAR * (self._size if dofs.column[k] < scene.dim else 1.0)
            for sign in (1.0, -1.0):
                way = np.zeros(dofs.nv)
                way[k] = sign * step
                there = self._moved(state, way)
                nearby = self._contacts(middle, there)
                ids = nearby.contact_ids.tolist()
                if not force.keys() <= set(ids):
                    why = "a contact vanishes close to this state"
                    raise Unsupported("gradients of this run", why)
                own = np.array([force.get(name, 0.0) for name in ids])
                load = collision.gap_gradient(scene, there, nearby, dofs).T @ own
                share = sign / (2.0 * step)
                changes[0, :, column] += share * load
                changes[1, :, column] += share * self._impulse(middle, there, nearby, scene)[1]
        wide = sp.csc_array((np.ones(moving.size), (np.arange(moving.size), moving)),
                            shape=(moving.size, dofs.nv))  # fmt: skip
        return sp.csc_array(sp.csc_array(changes[0]) @ wide), sp.csc_array(
            sp.csc_array(changes[1]) @ wide
        )

    def _require_smooth(self, contacts: Contacts) -> None:
        near = (np.abs(contacts.phi) <= _TOUCHES * self._size) & ~contacts.bonded
        if self.scene.power <= HOOKE and near.any():
            i, j = contacts.bodies[np.flatnonzero(near)[0]].tolist()
            why = f"bodies {i} and {j} just touch, margin {np.abs(contacts.phi[near]).min():.1e} m"
            raise Unsupported("gradients of this run", why, ("power above 2",))

    # --- backwards -----------------------------------------------------------------------------

    def _back(self, state: State, taken: State, *after: Any) -> tuple[FloatArray, FloatArray, Any]:
        x, v, total = after
        h, alpha, dofs, scene = self.dt, self.settings.alpha, self.dofs, self.scene
        middle = self._middle(state, taken)
        contacts = self._contacts(middle, middle.state)
        self._require_smooth(contacts)
        f = elastic_forces(contacts, scene.power)[0]
        B = collision.gap_gradient(scene, middle.state, contacts, dofs)
        M = collision.mass_matrix(scene, state, dofs)
        C = self._impulse(middle, middle.state, contacts, scene)[0]
        turning, E = self._turning(middle, contacts, f)
        H = turning - B.T @ sp.csr_array(B * slope(contacts, scene.power)[:, None])

        before, speed = self._turned(x, middle.d / h)
        end = splu(sp.csc_matrix(M)).solve(v)
        late = M / h + (h * alpha**2) * H - 0.5 * C + alpha * E
        early = M / h - (h * alpha * (1.0 - alpha)) * H + 0.5 * C - alpha * E
        both = splu(sp.csc_matrix(sp.csc_array(early).T)).solve(speed + late.T @ end)
        load, damped = h * alpha * end + h * (1.0 - alpha) * both, end + both
        start, mean = dofs.gather(state.v), middle.d / h
        by_M = Outer([(both, start), (-end, dofs.gather(taken.v)), (end - both, mean)])
        total["F_ext"] = total["F_ext"] + load
        total["M"] = total["M"] + by_M.on(sp.csr_array(M))
        total["stiffness"] += float((B @ load) @ (f / contacts.stiffness))
        places = before + H.T @ load + E.T @ damped
        return np.asarray(places), np.asarray(M @ both), _Cotangent(middle, load, damped, by_M)

    def _of_scenes(self, state: State, pair: tuple[Scene, Scene], cotangent: _Cotangent) -> float:
        total, middle = 0.0, cotangent.middle
        for scene, sign in zip(pair, (1.0, -1.0), strict=True):
            contacts = self._contacts(middle, middle.state, scene)
            B = collision.gap_gradient(scene, middle.state, contacts, self.dofs)
            load = B.T @ elastic_forces(contacts, scene.power)[0]
            load = load + collision.applied_loads(scene, self.dofs)
            damped = self._impulse(middle, middle.state, contacts, scene)[1]
            M = sp.csr_array(collision.mass_matrix(scene, state, self.dofs))
            total += sign * float(
                cotangent.load @ load + cotangent.damped @ damped + cotangent.M.along(M)
            )
        return total / (2.0 * NEAR)
