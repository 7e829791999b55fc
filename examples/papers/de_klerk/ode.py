"""A few spheres by a high-order method: what integrators of fixed step are measured against.

The contact model (20)–(25) of De Klerk et al. (2021), between two changes of the set of contacts a
smooth differential equation, is integrated by DOP853 and stopped where a gap opens or closes, so
that no step goes across a jump of the force.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from cdopt import InvalidInput, SolveFailed, Unsupported
from cdopt.collision.contacts import contact_stiffness
from cdopt.dynamics.analysis import Motion
from cdopt.scene import HalfSpace, Scene, Sphere

RELATIVE, ABSOLUTE = 1e-12, 1e-15  # of DOP853; the absolute one for lengths in m
_RESOLUTION = 0.5  # steps in contact per √(m/k)
_FLIGHT = 0.01  # steps without contact, in radii: shallower passes may be missed
_MOST = 100_000  # changes of contacts
_NOWHERE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Model:
    """Spheres, walls and their contact law; pairs i < j, walls fixed.

    Attributes
    ----------
    mass, radius : (n,) kg and m. load : (n, 3) constant force, N.
    pairs : (m, 2) pairs of spheres. stiffness : (m,) k, or k_B of bonds, N/m.
    bonded : (m,) which pairs keep a two-sided spring.
    points, normals : (walls, 3) a point on every wall, m, and its unit normal, into the free side.
    wall_stiffness : (walls, n) N/m.
    gamma_n, gamma_t : damping, 1/s.
    """

    mass: np.ndarray
    radius: np.ndarray
    load: np.ndarray
    pairs: Any
    stiffness: np.ndarray
    bonded: Any
    points: np.ndarray
    normals: np.ndarray
    wall_stiffness: np.ndarray
    gamma_n: float
    gamma_t: float

    @classmethod
    def of(cls, scene: Scene) -> Model:
        """The model of a scene of spheres in space, all of them free, and half-spaces at rest.

        Raises
        ------
        Unsupported : anything else in the scene, or contacts other than Hooke's.
        """
        bodies = scene.bodies
        spheres, walls = bodies.table(Sphere), bodies.table(HalfSpace)
        known = 0 if walls is None else walls.body.size
        if spheres is None or scene.dim != 3 or spheres.body.size + known != scene.nb:
            raise Unsupported("the scene", "only spheres in space and half-spaces are supported")
        free = spheres.body
        if bodies.fixed[free].any() or scene.power != 2.0 or np.any(bodies.velocity[bodies.fixed]):
            raise Unsupported("the scene", "fixed spheres, moving walls or a power other than 2")
        n = free.size
        pairs = np.stack(np.triu_indices(n, 1), axis=1)
        k = contact_stiffness(scene, free[pairs])
        tied = {tuple(bond) for bond in scene.bonds.tolist()}
        bonded = np.array([tuple(pair) in tied for pair in free[pairs].tolist()], dtype=bool)
        other = np.zeros(0, dtype=np.int64) if walls is None else walls.body
        normals = np.zeros((0, 3)) if walls is None else walls.columns["normal"]
        against = np.stack([np.repeat(other, n), np.tile(free, other.size)], axis=1)
        return cls(
            bodies.mass[free], bodies.reach[free],
            bodies.mass[free, None] * scene.gravity + bodies.force[free],
            pairs, np.where(bonded, scene.bond_stiffness or 0.0, k), bonded,
            bodies.position[other], normals,
            contact_stiffness(scene, against).reshape(other.size, n),
            scene.damping, scene.gamma_t,
        )  # fmt: skip

    @property
    def n(self) -> int:
        """Number of spheres."""
        return int(self.mass.size)

    def gaps(self, x: np.ndarray) -> np.ndarray:
        """(m + walls n,) gaps of pairs, then of walls with every sphere, m."""
        arm = x[self.pairs[:, 0]] - x[self.pairs[:, 1]]
        apart = np.linalg.norm(arm, axis=1) - self.radius[self.pairs].sum(axis=1)
        height = np.einsum("wi,wni->wn", self.normals, x[None] - self.points[:, None])
        return np.concatenate([apart, (height - self.radius).ravel()])

    def rates(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """(m + walls n,) dΦ/dt, m/s."""
        i, j = self.pairs.T
        arm = x[i] - x[j]
        along = np.einsum("mi,mi->m", arm, v[i] - v[j]) / np.linalg.norm(arm, axis=1)
        return np.concatenate([along, (self.normals @ v.T).ravel()])

    def forces(
        self, x: np.ndarray, v: np.ndarray, w: np.ndarray, active: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Forces (n, 3) N and torques (n, 3) N m of the active contacts and the loads.

        Equations (20)–(25): k δ n − γ_n m_eff v_n − γ_t m_eff v_t, torques with the lever |r|/2,
        at a wall with the distance |r| of the centre, which there stands for half of that of its
        image.
        """
        force, torque = self.load.copy(), np.zeros_like(x)
        phi, m = self.gaps(x), self.stiffness.size
        for c in np.flatnonzero(active):
            if c < m:
                i, j = self.pairs[c]
                arm = x[i] - x[j]
                normal = arm / np.linalg.norm(arm)
                lever, other_v, other_w = 0.5 * arm, v[j], w[j]
                heavy = self.mass[i] * self.mass[j] / (self.mass[i] + self.mass[j])
                k = self.stiffness[c]
            else:
                wall, i = divmod(c - m, self.n)
                j, normal = -1, self.normals[wall]
                lever, other_v, other_w = (phi[c] + self.radius[i]) * normal, 0.0, 0.0
                heavy, k = self.mass[i], self.wall_stiffness[wall, i]
            slip = v[i] - other_v
            approach = normal @ slip
            tangential = slip - approach * normal + np.cross(lever, w[i] + other_w)
            side = -self.gamma_t * heavy * tangential
            total = (-k * phi[c] - self.gamma_n * heavy * approach) * normal + side
            turn = -np.cross(lever, side)
            force[i] += total
            torque[i] += turn
            if j >= 0:
                force[j] -= total
                torque[j] += turn
        return force, torque

    def energy(self, motion: Motion) -> np.ndarray:
        """(frames,) elastic energy of contacts and bonds, J."""
        result = np.zeros(motion.t.size)
        k = np.concatenate([self.stiffness, self.wall_stiffness.ravel()])
        two_sided = np.concatenate([self.bonded, np.zeros(k.size - self.bonded.size, dtype=bool)])
        for frame, x in enumerate(motion.x):
            phi = self.gaps(x)
            result[frame] = 0.5 * float(k @ np.where(two_sided, phi, np.minimum(phi, 0.0)) ** 2)
        return result


def solve(scene: Scene, t: np.ndarray) -> Motion:
    """The motion of a scene at times t (frames,), s, rising from 0.

    Accurate to about 1e-11 of the lengths and speeds at hand. Spheres that pass each other by
    less than a hundredth of a radius may be missed.

    Raises
    ------
    Unsupported : see Model.of. InvalidInput : times that do not rise.
    SolveFailed : the integrator gave up, or contacts chatter.
    """
    if t.ndim != 1 or t.size == 0 or t[0] < 0.0 or np.any(np.diff(t) <= 0.0):
        raise InvalidInput("t", f"times of shape {t.shape}", "times that rise from 0")
    model = Model.of(scene)
    free = ~scene.bodies.fixed
    state = scene.initial
    y = np.concatenate([
        state.position[free].ravel(), state.velocity[free].ravel(),
        state.angular_velocity[free].ravel(),
    ])  # fmt: skip
    solution = _integrated(model, y, t)
    x, v, w = solution.reshape(t.size, 3, model.n, 3).swapaxes(0, 1)
    return Motion.of_spheres(t, x, v, w, model.mass, model.radius)


def _integrated(model: Model, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(frames, 9 n) states at times t, from y at 0."""
    inertia = 0.4 * model.mass * model.radius**2
    two_sided = np.concatenate([model.bonded, np.zeros(model.wall_stiffness.size, dtype=bool)])
    x, v, _ = _parts(y, model.n)
    phi = model.gaps(x)
    touching = np.abs(phi) <= 4.0 * np.finfo(float).eps * np.abs(x).max()
    active = two_sided | (phi < 0.0) & ~touching | touching & (model.rates(x, v) < 0.0)
    result = np.empty((t.size, y.size))
    now, done = 0.0, 0
    for _ in range(_MOST):
        rate = _rate(model, inertia, active)
        until, change = _next_change(model, rate, active, two_sided, now, y, float(t[-1]))
        inside = t[done:][t[done:] < until]
        states = _advanced(model, rate, active, now, y, until, inside)
        result[done : done + inside.size] = states[:-1]
        y, now, done = states[-1], until, done + inside.size
        if change < 0:
            result[done:] = y
            return result
        active[change] = ~active[change]
    status = f"{_MOST} changes of contacts up to t = {now:g} s"
    raise SolveFailed(f"DOP853: {status}", backend="DOP853", status=status)


def _next_change(
    model: Model, rate: Callable[..., np.ndarray], active: Any, two_sided: Any, now: float,
    y: np.ndarray, end: float,
) -> tuple[float, int]:  # fmt: skip
    """When a gap opens or closes next, and which; the end and −1 if none does."""

    def event(c: int) -> Any:
        def gap(_: float, state: np.ndarray) -> float:
            return float(model.gaps(_parts(state, model.n)[0])[c])

        gap.terminal, gap.direction = True, 1.0 if active[c] else -1.0  # type: ignore[attr-defined]
        return gap

    watched = np.flatnonzero(~two_sided)
    solution = solve_ivp(
        rate, (now, end), y, method="DOP853", rtol=RELATIVE, atol=ABSOLUTE,
        max_step=_longest(model, active, y), events=[event(int(c)) for c in watched],
    )  # fmt: skip
    if solution.status == -1:
        raise SolveFailed(f"DOP853: {solution.message}", backend="DOP853", status=solution.message)
    if solution.status == 0:
        return end, -1
    first = next(k for k, times in enumerate(solution.t_events) if times.size)
    change, until = int(watched[first]), float(solution.t_events[first][0])
    # the event's time comes from an interpolation: one Newton step on the integrated gap
    x, v, _ = _parts(_advanced(model, rate, active, now, y, until, _NOWHERE)[-1], model.n)
    until -= float(model.gaps(x)[change] / model.rates(x, v)[change])
    return (until, change) if until < end else (end, -1)


def _advanced(
    model: Model, rate: Callable[..., np.ndarray], active: Any, now: float, y: np.ndarray,
    until: float, between: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """States (between + 1, 9 n) at times in between, and at ``until``, where a step ends."""
    if until == now:
        return np.tile(y, (between.size + 1, 1))
    solution = solve_ivp(
        rate, (now, until), y, method="DOP853", rtol=RELATIVE, atol=ABSOLUTE,
        max_step=_longest(model, active, y), t_eval=np.append(between, until),
    )  # fmt: skip
    if not solution.success:
        raise SolveFailed(f"DOP853: {solution.message}", backend="DOP853", status=solution.message)
    return np.asarray(solution.y.T)


def _rate(model: Model, inertia: np.ndarray, active: Any) -> Callable[..., np.ndarray]:
    """d/dt of (x, v, w)."""
    contacts = active.copy()

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        x, v, w = _parts(y, model.n)
        force, torque = model.forces(x, v, w, contacts)
        return np.concatenate([
            v.ravel(), (force / model.mass[:, None]).ravel(), (torque / inertia[:, None]).ravel()
        ])  # fmt: skip

    return rate


def _longest(model: Model, active: Any, y: np.ndarray) -> float:
    """The longest step, s."""
    k = np.concatenate([model.stiffness, model.wall_stiffness.ravel()])
    if active.any():
        return _RESOLUTION * float(np.sqrt(model.mass.min() / k[active].max()))
    _, v, _ = _parts(y, model.n)
    fastest = float(np.linalg.norm(v, axis=1).max(initial=0.0))
    pull = float(np.linalg.norm(model.load / model.mass[:, None], axis=1).max(initial=0.0))
    way = _FLIGHT * float(model.radius.min())
    if fastest == pull == 0.0:
        return np.inf
    return way / (fastest + float(np.sqrt(pull * way)))


def _parts(y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and angular velocities (n, 3)."""
    x, v, w = y.reshape(3, n, 3)
    return x, v, w
