"""Steps of the variational integrator in exact geometry, by passes of convex problems.

Each pass states ``cdopt.VariationalStep`` with the gaps, B and C of q̂_α = q + α Δq̂ and solves it
for Δq; when Δq no longer changes, it satisfies R(q⁺) = 0 of the nonlinear problem, De Klerk et al.
(2021), (29) corrected. The contacts that damp are those that touch in q + α h v, for the whole
step. Gaps are linear in turns in each pass, and exact when passes agree.

Solids in space turn by rotation vectors: the unknown turn of a step is θ in the global frame,
q⁺ = exp(θ) q and q_α = exp(αθ) q. The discrete Lagrangian of a body that turns is, with Θ = Rᵀ θ::

    L_d(q, q⁺) = (1/2h) Θᵀ J₀ Θ − h V(q_α)

Its derivatives are, with φ = |θ|, P = 1 − θθᵀ/φ² and J_m the inertia at exp(½θ) q::

    ℓ  = J(θ) θ/h − h Aᵀ τ,   ℓ⁺ = J(θ) θ/h + h Bᵀ τ,   ℓ⁺ − ℓ = h τ
    J(θ) = S J_m S,   S = 1 + (½φ / sin ½φ − 1) P
    B = (exp(αθ) − 1) (exp(θ) − 1)⁻¹,   A = 1 − B

with τ the torque of V at q_α. A free body has τ = 0 and conserves ℓ exactly; J(θ) is symmetric and
positive definite, so that a pass of a step with J(θ̂) is the convex problem of a body that is
displaced. For α = ½, Aᵀ τ = ½ (τ − tan(¼φ) θ × τ/φ). Spheres have J(θ) θ = J₀ θ.

Bou-Rabee & Marsden (2009), Hamilton–Pontryagin integrators on Lie groups, with the exponential map;
the forces are those of De Klerk et al. (2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.backends.base import Backend
from cdopt.collision import (
    Contacts,
    PairFriction,
    VerletList,
    applied_loads,
    damping_drive,
    damping_matrix,
    default_margin,
    detect,
    effective_mass,
    gap_gradient,
    joint_gaps,
    joints,
    mass_matrix,
    move,
)
from cdopt.collision.contact_step import with_turns
from cdopt.collision.motion import body_axes, inertia, rates, uneven
from cdopt.dynamics.configuration import half_width
from cdopt.dynamics.friction_springs import FrozenForces, SlidingSprings, frozen
from cdopt.dynamics.linearised import OVERLAP_TOO_DEEP, STEP_TOO_LONG, Passes, settle
from cdopt.dynamics.method import no_motion
from cdopt.formulations import Sliders, StepDamping, VariationalStep
from cdopt.geometry.polytope import FEATURES
from cdopt.geometry.rotations import cross_matrices, turned
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.joints import Joints
from cdopt.problem.mass import MassMatrix
from cdopt.problem.solution import StepSolution
from cdopt.scene import SHAPES, Dofs, Scene, Sphere, State

_CAUTION = 10.0  # times the expected contraction of passes
_LEAP = 1.5  # smallest half-widths: two that close twice as much still overlap by one
_CYCLES = 1e-6  # a step that still changes by more than this share does not settle
_TURN = 0.5 * np.pi  # rad a step, where contacts are far from where the step foresees them
TURNS_TOO_FAR = "a body turns further in one step than its contacts can be foreseen"
PASSES = 40  # of linearising again; each gains two digits and more
_NEWTON = 60  # iterations for the free motion; four to eight at small turns
_DEPENDENT = 1e-10  # of the largest singular value: joints that depend on others
_SETTLED = 1e-15  # change of θ, as a share, that ends it
_SMALL = 1e-4  # rad, below which series are used


@dataclass(frozen=True)
class _Stated:
    """The convex problem of a pass, and its answer."""

    step: ContactStep
    contacts: Contacts
    sliders: Sliders | None  # None without friction
    solution: StepSolution
    drive: FloatArray | None = None  # (nj,) m/s, rates of joints by bodies that are moved

    @property
    def u(self) -> FloatArray:
        """Δq (nv,) of the answer."""
        return np.asarray(self.solution.u)

    def kicked(self, impulse: FloatArray) -> FloatArray:
        """Jᵀ (nv,) of an ``impulse`` (nj,) of the joints, kg m/s and kg m²/s."""
        if self.step.joints is None:
            raise TypeError("a step without joints")
        return np.asarray(self.step.joints.J.T @ impulse)

    def pushed(self, alpha: float, h: float) -> FloatArray:
        """Bᵀf + B_tᵀf_t + Jᵀr (nv,), N and N·m."""
        load = self.step.B.T @ np.asarray(self.solution.f)
        if self.sliders is not None:
            load = load + self.sliders.B_t.T @ self.sliders.forces(self.u, alpha, h).ravel()
        if self.step.joints is not None and self.solution.joint_forces is not None:
            load = load + self.step.joints.J.T @ self.solution.joint_forces
        return np.asarray(load)


@dataclass(frozen=True)
class _Answer:
    """The result of a pass: Δq, ``d`` (nv,), its problem, and momenta by turns, ``shift`` (nv,)."""

    d: FloatArray
    shift: FloatArray
    stated: _Stated
    change: float  # of Δq in this pass, as a share of the step
    left: float  # expected change of a further pass
    stuck: bool  # round-off of the change


@dataclass(frozen=True)
class _Start:
    """The current step."""

    state: State
    v: FloatArray  # (nv,) m/s and rad/s
    mom: FloatArray  # (nv,) kg m/s and kg m²/s
    fastest: float  # m/s
    damping: IntArray  # ids of the contacts that damp
    frozen: FrozenForces | None  # friction; None without


class _Passes:
    """The passes of one step."""

    def __init__(self, work: VariationalPasses, start: _Start) -> None:
        self._work, self._start = work, start

    def settled(self, here: _Answer, passes: int) -> bool:
        """Whether Δq has converged, or cannot."""
        return here.left <= self._work.tol or here.stuck or passes == PASSES - 1

    def moved(self, here: _Answer) -> _Answer:
        """The answer of the gaps that are linear at ``here``."""
        return self.answer(here.d, self._work.shift(here), here.change)

    def answer(self, d: FloatArray, shift: FloatArray, before: float = np.inf) -> _Answer:
        """The answer of the gaps that are linear after Δq d (nv,); ``before``, the last change."""
        work, start = self._work, self._start
        stated = work.stated(start, start.mom + shift, d)
        u = stated.solution.u
        if u is None or not np.isfinite(u).all():
            raise no_motion(stated.solution)
        change = work.size(u - d, start.v)
        ratio = change / before if 0.0 < before < np.inf else 1.0
        left = change * min(1.0, max(ratio, work.contraction(stated.solution, u)))
        stuck = change >= 0.5 * before and change <= 1e3 * work.tol
        return _Answer(u, shift, stated, change, left, stuck)


class VariationalPasses:
    """The variational integrator on one scene; settings as in ``VariationalSteps``."""

    def __init__(
        self,
        scene: Scene,
        h: float,
        alpha: float,
        split: str,
        backend: Backend,
        tol: float,
        law: PairFriction | None = None,
    ) -> None:
        b = scene.bodies
        self._undamped = scene.damping == 0.0 and scene.gamma_t == 0.0
        self._dofs = scene.full_dofs
        self._turns = _SolidTurns(scene, self._dofs)
        if split == "paper" and self._turns.body.size and not self._undamped:
            reason = f"{b.label(int(self._turns.body[0]))} turns in space"
            raise Unsupported("the paper's split of damping", reason, ('damping="forced"',))
        self.scene, self.h, self.alpha, self.split = scene, h, alpha, split
        self.backend, self.tol, self.law = backend, tol, law
        self._near, self._least = VerletList(scene), half_width(scene)
        self._lightest = float(b.mass[~b.fixed].min())
        solid = ~b.fixed & (b.kind != SHAPES.index(Sphere))
        self._reach = np.where(solid, b.reach, 0.0)  # of turns that move contacts
        turns = self._dofs.column >= scene.dim
        self._lever = np.where(turns, self._reach[self._dofs.body], 1.0)

    def step(self, state: State, springs: SlidingSprings | None) -> Passes:
        """One step, from the ``springs`` of friction at its start; None without friction."""
        dofs, start, d = self._dofs, *self._begun(state, springs)
        passes = _Passes(self, start)
        here, more = settle(passes, passes.answer(d, np.zeros_like(d)))
        stated, solution = here.stated, here.stated.solution
        mom_next = np.asarray(solution.mom) - here.shift
        ended = self._ended(state, solution, mom_next)
        kick = self._kick(ended, stated)
        if kick is not None:
            pushed = stated.kicked(kick)
            mom_next = mom_next + pushed
            v_next = np.asarray(solution.v_next) + stated.step.mass.solve(pushed)
            ended = self._ended(state, replace(solution, v_next=v_next), mom_next)
        failure = self._failure(more + 1, here.left, solution, state, ended)
        energy = self._energy(start, dofs.gather(ended.v), mom_next, stated, kick)
        after = None
        if start.frozen is not None and stated.sliders is not None:
            sliding = stated.sliders, stated.contacts, here.d, self.alpha, self.h
            after, lost, walls = start.frozen.stretched(*sliding)
            energy = np.append(energy + np.array([lost, -walls, lost + walls]), lost)
        if kick is not None and solution.joint_forces is not None:  # mean ones of the step
            solution = replace(solution, joint_forces=solution.joint_forces + kick / self.h)
        residual = np.inf if solution.certificate is None else solution.certificate.worst
        certified = residual, solution.ok, solution.claimed
        return Passes(ended, more + 1, *certified, solution, failure, energy, after)

    def _begun(self, state: State, springs: SlidingSprings | None) -> tuple[_Start, FloatArray]:
        """A step from a state, and Δq (nv,) of its predictor."""
        v, fastest = self._dofs.gather(state.v), self._fastest(state)
        mom = mass_matrix(self.scene, state, self._dofs) @ v
        d = self._turns.free_displacement(state, self.h)
        there = self._at(state, d, self.alpha)
        contacts = self._detect(there, fastest)
        damping = contacts.contact_ids[(contacts.phi < 0.0) | contacts.bonded]
        friction = None
        if self.law is not None and springs is not None:
            friction = frozen(self.scene, self.law, (state, there, self.h), contacts, springs)
        return _Start(state, v, mom, fastest, damping, friction), d

    def _kick(self, ended: State, stated: _Stated) -> FloatArray | None:
        """Impulses (nj,), N s, along Jᵀ at q_α, by which end velocities satisfy joints (RATTLE)."""
        held = stated.step.joints
        if held is None or self.alpha == 0.0:
            return None
        there = joints(self.scene, ended, self.h, self._dofs)
        if there is None:
            return None
        rate = there.rate - joint_gaps(self.scene, ended) / self.h
        missed = there.J @ self._dofs.gather(ended.v) + rate
        mass = MassMatrix(mass_matrix(self.scene, ended, self._dofs))
        push = mass.solve_sparse(sp.csr_array(held.J.T))
        return np.linalg.lstsq((there.J @ push).toarray(), -missed, rcond=_DEPENDENT)[0]

    def _joints(self, state: State, there: State, d: FloatArray) -> tuple[Joints | None, Any]:
        """The joints of a pass, J at q_α, gaps at its end by d (nv,), and rates by moved bodies."""
        held = joints(self.scene, there, self.h, self._dofs)
        if held is None:
            return None, None
        drive = held.rate - joint_gaps(self.scene, there) / self.h
        end = joint_gaps(self.scene, self._at(state, d, 1.0))
        return Joints(held.J, (end - held.J @ d) / self.h, names=held.names), drive

    def shift(self, here: _Answer) -> FloatArray:
        """Contribution (nv,) of the turns of solids to the momenta, by the last forces."""
        stated = here.stated
        if stated.solution.f is None or not self._turns.body.size:
            return here.shift
        pushed = stated.pushed(self.alpha, self.h)
        return self.h * self._turns.later_share(self.alpha, here.d, pushed)

    def stated(self, start: _Start, mom: FloatArray, d: FloatArray) -> _Stated:
        """The convex problem of the gaps that are linear after Δq d (nv,), and its answer."""
        scene, dofs, a = self.scene, self._dofs, self.alpha
        there = self._at(start.state, d, a)
        contacts, sliders = self._detect(there, start.fastest), None
        B = gap_gradient(scene, there, contacts, dofs)
        if start.frozen is not None:
            sliders = start.frozen.sliders(scene, there, contacts, dofs)
        held, drive = self._joints(start.state, there, d)
        step = ContactStep(
            M=self._turns.mass(start.state, d),
            B=B,
            phi=contacts.phi - a * (B @ d),
            v=np.zeros(dofs.nv),
            F_ext=applied_loads(scene, dofs),
            dt=self.h,
            stiffness=contacts.stiffness,
            bodies=contacts.bodies,
            normals=contacts.normals,
            points=contacts.points,
            contact_ids=contacts.contact_ids,
            dof_body=dofs.body,
            joints=held,
        )
        solution = VariationalStep(
            step,
            mom,
            alpha=a,
            power=scene.power,
            damping=self._dissipation(start, there, contacts, d),
            two_sided=contacts.bonded,
            sliders=sliders,
        ).solve(self.backend, check=True)
        return _Stated(step, contacts, sliders, solution, drive)

    def _dissipation(
        self, step: _Start, there: State, contacts: Contacts, d: FloatArray
    ) -> str | StepDamping:
        """C at q_α, and at q or q_{1−α} for the paper's split, and forces by moving walls."""
        state, ids = step.state, step.damping
        if self._undamped or not np.isin(contacts.contact_ids, ids).any():
            return self.split
        start = end = None
        if self.split == "paper":
            start = self._damping(state, self._detect(state, step.fastest), ids)
        elif self.alpha != 0.5:
            later = self._at(state, d, 1.0 - self.alpha)
            end = self._damping(later, self._detect(later, step.fastest), ids)
        C, drive = self._damping(there, contacts, ids)
        return StepDamping(C, drive, self.split, start, end)

    def _damping(
        self, state: State, contacts: Contacts, ids: IntArray
    ) -> tuple[sp.csr_array, FloatArray]:
        """C without dashpots of sliders, and forces by moving walls, of the damped contacts."""
        scene, damped = self.scene, np.isin(contacts.contact_ids, ids)
        whole = damped if self.law is None else damped & contacts.bonded
        arguments = (scene, state, contacts, whole, self._dofs)
        C, drive = damping_matrix(*arguments), damping_drive(*arguments)
        if self.law is None:
            return C, drive
        c_n = scene.damping * effective_mass(scene, contacts.bodies)
        c_n = np.where(damped & ~contacts.bonded, c_n, 0.0)
        B = gap_gradient(scene, state, contacts, self._dofs)
        normal = B.T @ sp.csr_array(B * c_n[:, None])
        return sp.csr_array(C + normal), drive - B.T @ (c_n * contacts.gap_rate)

    def _energy(
        self,
        start: _Start,
        v_next: FloatArray,
        mom_next: FloatArray,
        stated: _Stated,
        kick: FloatArray | None,
    ) -> FloatArray:
        """Energy lost in damping, external work and error of a step, ``Passes.energy``.

        All impulses but the elastic ones and loads are damping; their work is on the mean velocity.
        """
        solution, step, v, mom = stated.solution, stated.step, start.v, start.mom
        if solution.f is None or solution.u is None:
            return np.full(3, np.nan)
        scene, dofs = self.scene, self._dofs
        impulses = self.h * (stated.pushed(self.alpha, self.h) + step.F_ext)
        impulses = impulses if kick is None else impulses + stated.kicked(kick)
        lost, mean = 0.0, 0.5 * (v_next + v)
        if not self._undamped:
            lost = -float((mom_next - mom - impulses) @ mean)
        torque = scene.bodies.torque.reshape(scene.nb, -1)
        applied = dofs.gather(np.hstack([scene.bodies.force, torque]))
        walls = self.h * float(solution.f @ stated.contacts.gap_rate)
        if stated.drive is not None and solution.joint_forces is not None:
            walls += self.h * float(solution.joint_forces @ stated.drive)
            walls += 0.0 if kick is None else float(kick @ stated.drive)
        error = float(impulses @ mean) - float(step.F_ext @ solution.u) + walls
        error += 0.5 * float(v_next @ mom - v @ mom_next)
        return np.array([lost, float(applied @ solution.u) - walls, error])

    def _failure(
        self, count: int, left: float, solution: StepSolution, state: State, ended: State
    ) -> str:
        """Why a step cannot be taken; ``left`` is the change that one more pass would make."""
        gap, ids, b = solution.gap, solution.contact_ids, self.scene.bodies
        pair, too_deep = "no two bodies", False
        if gap is not None and ids is not None and gap.size:
            i, j = np.divmod(ids // FEATURES, self.scene.nb)
            share = gap / np.minimum(b.core[i], b.core[j])
            k = int(np.argmin(share))
            pair = f"{b.label(int(i[k]))} with {b.label(int(j[k]))}, gap {gap[k]:.3g} m"
            too_deep = not share[k] >= -1.0
        if not left <= max(self.tol, _CYCLES):
            return (
                f"linearising again {count} times still changes the step by {left:.1e} of itself: "
                f"it cycles, or the time step is too large; the deepest contact is of {pair}"
            )
        beyond = detect(self.scene, ended, 0.0, self._near)
        least = b.core[beyond.bodies].min(axis=1, initial=np.inf)
        if too_deep or not np.all(beyond.phi >= -least):
            return f"{OVERLAP_TOO_DEEP}: {pair}"
        way = np.linalg.norm(ended.position - state.position, axis=1)
        k = int(np.argmax(way))
        if way[k] > _LEAP * self._least:  # it may have jumped over another body
            return f"{STEP_TOO_LONG}: {b.label(k)}, {way[k]:.3g} m"
        turns = self.h * self._rates(ended)
        k = int(np.argmax(turns))
        if self.scene.dim == 3 and turns[k] > _TURN:
            return f"{TURNS_TOO_FAR}: {b.label(k)}, {turns[k]:.3g} rad"
        return ""

    def contraction(self, solution: StepSolution, u: FloatArray) -> float:
        """Share of a change left after one more pass: B turns, h² f/(m r), and C, h γ |Δq|/r."""
        force = 0.0 if solution.f is None else float(np.abs(solution.f).max(initial=0.0))
        damped = max(self.scene.damping, self.scene.gamma_t) * float(np.abs(u).max(initial=0.0))
        turned_by = self.h * self.h * force / self._lightest + self.h * damped
        return _CAUTION * turned_by / self._least

    def size(self, change: FloatArray, v: FloatArray) -> float:
        """A change of Δq over h times the fastest speed, of this step or of gravity in it."""
        pull = self.h * float(np.abs(self.scene.gravity).max())
        speed = max(float(np.abs(self._lever * v).max(initial=0.0)), pull)
        return float(np.abs(self._lever * change).max(initial=0.0)) / (self.h * speed or 1.0)

    def _rates(self, state: State) -> FloatArray:
        """Angular speeds (nb,) of free bodies that are no spheres, rad/s."""
        spin = np.abs(state.angular_velocity.reshape(state.nb, -1))
        return np.where(self._reach > 0.0, np.linalg.norm(spin, axis=1), 0.0)

    def _fastest(self, state: State) -> float:
        """The speed that no point of a body exceeds, m/s."""
        speed = np.linalg.norm(state.velocity, axis=1) + self._reach * self._rates(state)
        return float(speed.max())

    def _at(self, state: State, d: FloatArray, a: float) -> State:
        """q + a Δq, fixed bodies moved as prescribed."""
        v = self._dofs.scatter(d / self.h, state.v)
        return State(state.t + a * self.h, move(state, v, a * self.h), v)

    def _ended(self, state: State, solution: StepSolution, mom: FloatArray) -> State:
        moved = self._at(state, np.asarray(solution.u), 1.0)
        v = self._dofs.scatter(np.asarray(solution.v_next), state.v)
        return State(moved.t, moved.q, self._turns.velocities(moved.q, v, mom))

    def _detect(self, state: State, foreseen: float) -> Contacts:
        """Contacts near enough to close within a step whose speed was ``foreseen``, m/s."""
        fastest = foreseen + self._fastest(state)
        margin = default_margin(self.scene) + 2.0 * self.h * fastest
        return detect(self.scene, state, margin, self._near)


class _SolidTurns:
    """Free solids, not spheres, that turn in space, ``body`` (n,), ``uneven`` by inertia."""

    def __init__(self, scene: Scene, dofs: Dofs) -> None:
        b = scene.bodies
        solid = ~b.fixed & (b.kind != SHAPES.index(Sphere)) & (scene.dim == 3)
        self.scene, self.dofs = scene, dofs
        self.body, self.uneven = np.flatnonzero(solid), uneven(scene, dofs)

    def free_displacement(self, state: State, h: float) -> FloatArray:
        """Δq (nv,) of a step h without forces.

        θ of uneven bodies is computed by Newton's method along the principal axes for h Λ = J₀Θ +
        ½ Θ × J₀Θ + c Θ × (Θ × J₀Θ), which is J(θ) θ = h ℓ, c = (1 − ½φ cot ½φ)/φ². The change of
        c is left out of the derivative.
        """
        table, body, bodies = h * state.v, self.uneven, self.scene.bodies
        if not body.size:
            return self.dofs.gather(table)
        axes, moments = body_axes(bodies, body, state.orientation[body]), bodies.inertia[body]
        turn = h * np.einsum("nji,nj->ni", axes, state.angular_velocity[body])
        aim = moments * turn
        for _ in range(_NEWTON):
            angle, cross = np.linalg.norm(turn, axis=1)[:, None, None], cross_matrices(turn)
            half = 0.5 * np.where(angle > _SMALL, angle, 1.0)
            exact = (1.0 - half / np.tan(half)) / (4.0 * half * half)
            c = np.where(angle > _SMALL, exact, 1.0 / 12.0 + angle * angle / 720.0)
            spin, inertia = moments * turn, moments[:, :, None] * np.eye(3)
            factor = np.eye(3) + 0.5 * cross + c * (cross @ cross)
            missing = aim - np.einsum("nij,nj->ni", factor, spin)
            slope = factor @ inertia - 0.5 * cross_matrices(spin)
            change = np.linalg.solve(slope, missing[:, :, None])[:, :, 0]
            turn = turn + change
            if np.abs(change).max(initial=0.0) <= _SETTLED * np.abs(turn).max(initial=0.0):
                break
        table[body, 3:] = np.einsum("nij,nj->ni", axes, turn)
        return self.dofs.gather(table)

    def mass(self, state: State, d: FloatArray) -> sp.csr_array:
        """M (nv, nv) of a step from ``state`` by d (nv,), the turns of uneven bodies by J(θ)."""
        body = self.uneven
        turn = self._rows(d)[body, 3:]
        if not turn.any():
            return mass_matrix(self.scene, state, self.dofs)
        angle = np.linalg.norm(turn, axis=1)[:, None, None]
        axis = turn / np.where(angle > 0.0, angle, 1.0)[:, :, 0]
        across = np.eye(3) - axis[:, :, None] * axis[:, None, :]
        S = np.eye(3) + (1.0 / np.sinc(angle / (2.0 * np.pi)) - 1.0) * across
        middle = inertia(self.scene.bodies, body, turned(state.orientation[body], 0.5 * turn))
        return with_turns(self.scene, self.dofs, body, S @ middle @ S)

    def later_share(self, alpha: float, d: FloatArray, force: FloatArray) -> FloatArray:
        """(α − Bᵀ) τ (nv,) of elastic forces (nv,) in a step by d (nv,): before q_α, not after."""
        torque, turn = self._rows(force)[self.body, 3:], self._rows(d)[self.body, 3:]
        angle = np.linalg.norm(turn, axis=1)[:, None]
        axis = turn / np.where(angle > 0.0, angle, 1.0)
        along = (axis * torque).sum(axis=1)[:, None] * axis
        length = alpha * np.sinc(alpha * angle / (2.0 * np.pi)) / np.sinc(angle / (2.0 * np.pi))
        late = 0.5 * (1.0 - alpha) * angle
        across = np.cos(late) * (torque - along) + np.sin(late) * np.cross(axis, torque)
        table = np.zeros_like(self.scene.initial.v)
        table[self.body, 3:] = alpha * (torque - along) - length * across
        return self.dofs.gather(table)

    def velocities(self, q: FloatArray, v: FloatArray, mom: FloatArray) -> FloatArray:
        """``v`` (nb, 6) with the angular velocities of the momenta ``mom`` (nv,) at q (nb, 7)."""
        if not self.body.size:
            return v
        spin, result = self._rows(mom)[self.body, 3:], np.array(v)
        result[self.body, 3:] = rates(self.scene.bodies, self.body, q[self.body, 3:], spin)
        return result

    def _rows(self, values: FloatArray) -> FloatArray:
        """Degrees of freedom (nv,) as a table like State.v."""
        return self.dofs.scatter(values, np.zeros_like(self.scene.initial.v))
