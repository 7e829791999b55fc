"""A scene of spheres and walls as plain arrays for compiled loops: pairs near by, and springs.

The neighbour list (a Verlet list) has all pairs whose gap is at most ``skin``; it is valid until
some sphere has moved half of it. Pairs are in the order of their numbers, so that sums over
those in contact do not depend on which others are listed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.collision import PairFriction, effective_mass
from cdopt.collision.contacts import contact_stiffness
from cdopt.geometry.broad_phase import near_pairs, unbounded_pairs
from cdopt.scene import SHAPES, HalfSpace, Scene, Sphere, State
from cdopt.scene.pairs import is_among, outward
from cdopt.scene.state import WIDTH_Q

PAPER, FORCED = 0, 1  # splits of damping
_STORED = 14  # numbers of a spring: ξ, rolling, spinning, k_t, the tangential force and the normal


class Scheme(NamedTuple):
    """The integrator."""

    h: float  # time step, s
    alpha: float = 0.5
    split: int = FORCED  # or PAPER
    tol: float = 1e-12  # of the residual, as a share of the fastest speed
    limit: int = 60  # Newton iterations at most
    direct: bool = False  # whether the caller solves the linear systems
    accept: float = 1e-6  # largest residual of a certified step, of the largest force on each body
    strict: bool = True  # whether a step that is not certified ends the run


class SphereSystem(NamedTuple):
    """The constants of a run. Fixed bodies move as prescribed."""

    free: BoolArray  # (nb,) bodies that forces move
    weight: FloatArray  # (nb, 6) mass, kg, and moment of inertia, kg·m², thrice; 1 if fixed
    radius: FloatArray  # (nb,) m, of spheres; 0 for walls
    load: FloatArray  # (nb, 6) gravity, applied forces and torques, N and N·m
    applied: FloatArray  # (nb, 6) the same without gravity
    normal: FloatArray  # (nb, 3) out of each wall; 0 for spheres
    power: float  # exponent p of the contact law
    turning: bool  # whether contacts turn spheres, by tangential damping
    plane: bool  # whether the scene is a plane one


class SphereMotion(NamedTuple):
    """Positions and velocities; all arrays are written in place."""

    x: FloatArray  # (nb, 3) m
    v: FloatArray  # (nb, 6) m/s and rad/s
    quaternion: FloatArray  # (nb, 4) in space
    angle: FloatArray  # (nb,) rad, in the plane


class NeighborList(NamedTuple):
    """Pairs of spheres, and of spheres with walls, that may soon touch."""

    i: IntArray  # (np,) bodies, spheres
    j: IntArray  # (np,) bodies, spheres or walls
    wall: BoolArray  # (np,) whether j is a wall
    normal: FloatArray  # (np, 3) out of the wall, else zero
    reach: FloatArray  # (np,) distance of centres, or height, at which they touch, m
    k: FloatArray  # (np,) N/m^(p−1); of a bond N/m
    bonded: BoolArray  # (np,) whether the spring also pulls
    c_n: FloatArray  # (np,) γ_n m_eff, kg/s
    c_t: FloatArray  # (np,) γ_t m_eff, kg/s; with friction of bonds alone
    listed: FloatArray  # (nb, 3) positions of all bodies when the list was made, m
    skin: float  # m


class ActiveContacts(NamedTuple):
    """Pairs that act at some configuration, in the first entries of each array."""

    pair: IntArray  # number in the neighbour list
    n: FloatArray  # (np, 3) unit vectors from j to i
    distance: FloatArray  # |r|, m
    overlap: FloatArray  # δ, m
    force: FloatArray  # w′(δ), N
    slope: FloatArray  # w″(δ), N/m
    damping: FloatArray  # (np, 3) of C: along the normal, across it, of the surfaces' sliding
    matrix: FloatArray  # (np, 3) the same of Newton's matrix
    grip: FloatArray  # (np, 4) of friction in it: growth with sliding, kg/s, and where it is none


class Workspace(NamedTuple):
    """Arrays of a step, all (nb, 6) but ``damped`` (np,) and ``pending``.

    ``pending`` has, while the caller solves a linear system for ``z`` with right-hand side
    ``R``, 1, the iterations so far, the extra ones and the number of active pairs; else 0.
    """

    damped: BoolArray
    pending: IntArray
    d: FloatArray
    start_damping: FloatArray
    R: FloatArray
    R_new: FloatArray
    z: FloatArray
    r: FloatArray
    y: FloatArray
    p: FloatArray
    diagonal: FloatArray
    trial: FloatArray


class Springs(NamedTuple):
    """Friction of the pairs of a neighbour list; no rows in a run without friction.

    ``normal`` and the following fields are only for the variational integrator.
    """

    mu: FloatArray  # (np,) friction coefficients, and the next two those of
    rolling: FloatArray
    spinning: FloatArray
    ratio: FloatArray  # (np,) k_t/k_n
    damping: FloatArray  # (np,) γ_t m_eff of the dashpots parallel to the springs, kg/s
    xi: FloatArray  # (np, 3) tangential springs, m
    roll: FloatArray  # (np, 3) rolling ones, m
    twist: FloatArray  # (np,) spinning ones, m
    stiffness: FloatArray  # (np,) k_t at the last step, N/m; 0 where there is no contact
    force: FloatArray  # (np, 3) tangential force on body j, N
    normal: FloatArray  # (np, 3) of each spring
    cap: FloatArray  # (np,) μ f_n of the predictor, N; 0 is no friction
    frozen: FloatArray  # (np,) k_t of the predictor, N/m
    trial: FloatArray  # (np, 3) force of the spring on body j, at the start and the end, N
    acting: FloatArray  # (np, 3) force of spring and dashpot on body j, N
    at: FloatArray  # (np, 3) normals of ``trial``


class SphereArrays(NamedTuple):
    """All data that the loops of a step read and write."""

    system: SphereSystem
    motion: SphereMotion
    neighbors: NeighborList
    active: ActiveContacts
    work: Workspace
    scheme: Scheme
    springs: Springs


def work_arrays(nb: int, pairs: int) -> tuple[ActiveContacts, Workspace]:
    """Space for ``nb`` bodies and ``pairs`` pairs."""
    widths = {"n": (3,), "damping": (3,), "matrix": (3,), "grip": (4,)}
    numbers = {
        name: np.zeros((pairs, *widths.get(name, ()))) for name in ActiveContacts._fields[1:]
    }
    active = ActiveContacts(np.zeros(pairs, dtype=np.int64), **numbers)
    damped, pending = np.zeros(pairs, dtype=np.bool_), np.zeros(4, dtype=np.int64)
    return active, Workspace(damped, pending, *(np.zeros((nb, 6)) for _ in range(10)))


# --- from a scene ------------------------------------------------------------------------


def system_of(scene: Scene) -> SphereSystem:
    """The arrays of a scene."""
    b, dim = scene.bodies, scene.dim
    known = _known(scene)
    if not known.all():
        first = int(np.argmin(known))
        why = f"{b.label(first)} is neither a sphere nor a half-space"
        raise Unsupported("the compiled integrators", why, ("method='variational'",))
    walls = np.flatnonzero(b.kind == SHAPES.index(HalfSpace))
    normal = np.zeros((scene.nb, 3))
    normal[walls, :dim] = outward(b, b.orientation, walls)
    spin = b.angular_velocity.reshape(scene.nb, -1).any(axis=1)
    turning_wall = np.flatnonzero(spin & normal.any(axis=1))
    if turning_wall.size:
        raise Unsupported("the compiled integrators", f"{b.label(turning_wall[0])} turns")
    free = ~b.fixed
    inertia = b.inertia if dim == 2 else b.inertia[:, 0]
    applied = np.zeros((scene.nb, 6))
    applied[:, :dim], applied[:, 3:] = b.force, _in_space(b.torque, dim)
    applied[b.fixed] = 0.0
    load = applied.copy()
    load[free, :dim] += b.mass[free, None] * scene.gravity
    return SphereSystem(
        free=free,
        weight=np.repeat(np.where(free, [b.mass, inertia], 1.0).T, 3, axis=1),
        radius=np.where(normal.any(axis=1), 0.0, b.reach),
        load=load,
        applied=applied,
        normal=normal,
        power=float(scene.power),
        turning=scene.gamma_t > 0.0,
        plane=dim == 2,
    )


def is_native(scene: Scene) -> bool:
    """Whether a scene has no other shapes than spheres and half-spaces."""
    return bool(_known(checks.instance("scene", scene, Scene)).all())


def _known(scene: Scene) -> BoolArray:
    return np.isin(scene.bodies.kind, [SHAPES.index(Sphere), SHAPES.index(HalfSpace)])


def motion_of(state: State) -> SphereMotion:
    """Copies of the arrays of a state."""
    nb, dim = state.nb, state.dim
    x, v = np.zeros((nb, 3)), np.zeros((nb, 6))
    x[:, :dim], v[:, :dim] = state.position, state.velocity
    v[:, 3:] = _in_space(state.angular_velocity, dim)
    if dim == 2:
        quaternion = np.tile([1.0, 0.0, 0.0, 0.0], (nb, 1))
        return SphereMotion(x, v, quaternion, np.array(state.orientation))
    return SphereMotion(x, v, np.array(state.orientation), np.zeros(nb))


def state_of(motion: SphereMotion, t: float, dim: int) -> State:
    """The State that these arrays describe."""
    q, turn = np.empty((motion.x.shape[0], WIDTH_Q[dim])), motion.angle[:, None]
    q[:, :dim], q[:, dim:] = motion.x[:, :dim], turn if dim == 2 else motion.quaternion
    v = motion.v[:, [0, 1, 5]] if dim == 2 else motion.v.copy()
    sound = math.isfinite(np.vdot(q, q) + np.vdot(v, v))
    return State._of(t=t, q=q, v=v) if sound else State(t, q, v)  # which names what is wrong


def _in_space(spin: FloatArray, dim: int) -> FloatArray:
    return spin if dim == 3 else np.column_stack([np.zeros((spin.size, 2)), spin])


def neighbor_list(
    scene: Scene, x: FloatArray, normal: FloatArray, skin: float, frictional: bool = False
) -> NeighborList:
    """All pairs of a scene at x (nb, 3) with gaps up to ``skin`` m; ``normal`` of SphereSystem."""
    b = scene.bodies
    is_wall = np.asarray(normal.any(axis=1))
    near = near_pairs(x[:, : scene.dim], b.reach, b.fixed, skin)
    walls = unbounded_pairs(b.reach, b.fixed)
    i, j = _sphere_first(walls, is_wall)
    height = ((x[i] - x[j]) * normal[j]).sum(axis=1)
    walls = walls[height - b.reach[i] <= skin]
    pairs = np.unique(np.concatenate([near, walls, scene.bonds]), axis=0)
    mass = effective_mass(scene, pairs)
    i, j = _sphere_first(pairs, is_wall)
    wall, bonded = is_wall[j], is_among(pairs, scene.bonds)
    return NeighborList(
        i=i,
        j=j,
        wall=wall,
        normal=np.ascontiguousarray(normal[j]),
        reach=b.reach[i] + np.where(wall, 0.0, b.reach[j]),
        k=np.ascontiguousarray(contact_stiffness(scene, pairs), dtype=np.float64),
        bonded=bonded,
        c_n=scene.damping * mass,
        c_t=np.where(bonded | (not frictional), scene.gamma_t * mass, 0.0),
        listed=x.copy(),
        skin=skin,
    )


def _sphere_first(pairs: IntArray, is_wall: BoolArray) -> tuple[IntArray, IntArray]:
    """Bodies i and j of pairs (n, 2), walls second; contiguous, as the loops are compiled for."""
    swap = is_wall[pairs[:, 0]]
    i, j = np.ascontiguousarray(np.where(swap, pairs[:, ::-1].T, pairs.T))
    return i, j


# --- springs of friction -------------------------------------------------------------------


class Memory(NamedTuple):
    """Springs ``values`` (n, 14) of the contacts of a state, ``ids`` (n,) i nb + j, ascending."""

    ids: IntArray = np.zeros(0, dtype=np.int64)
    values: FloatArray = np.zeros((0, _STORED))


def springs_of(
    scene: Scene, law: PairFriction | None, neighbors: NeighborList, memory: Memory
) -> Springs:
    """The springs of a neighbour list with known values; without a law no rows."""
    pairs = np.sort(np.column_stack([neighbors.i, neighbors.j]), axis=1)
    if law is None:
        law, pairs = PairFriction(0.0, 1.0), pairs[:0]
    mu, ratio = law.coefficients(scene, pairs), law.ratios(scene, pairs)
    stored = np.zeros((len(pairs), _STORED))
    numbers = pairs @ [scene.nb, 1]
    _, here, there = np.intersect1d(numbers, memory.ids, assume_unique=True, return_indices=True)
    stored[here] = memory.values[there]
    xi, roll, force, normal = (stored[:, k : k + 3].copy() for k in (0, 3, 8, 11))
    rolling, spinning = scene.contact_resistance(pairs).copy()  # writable: one type, one loop
    return Springs(
        mu=mu,
        rolling=rolling,
        spinning=spinning,
        ratio=ratio,
        damping=scene.gamma_t * effective_mass(scene, pairs),
        xi=xi,
        roll=roll,
        twist=stored[:, 6].copy(),
        stiffness=stored[:, 7].copy(),
        force=force,
        normal=normal,
        cap=np.zeros(len(pairs)),
        frozen=np.zeros(len(pairs)),
        trial=np.zeros_like(xi),
        acting=np.zeros_like(xi),
        at=np.zeros_like(xi),
    )


def memory_of(springs: Springs, neighbors: NeighborList, nb: int) -> Memory:
    """The springs of pairs in contact."""
    touching = np.flatnonzero(springs.stiffness > 0.0)
    i, j = neighbors.i[touching], neighbors.j[touching]
    ids = np.minimum(i, j) * nb + np.maximum(i, j)
    columns = (springs.xi, springs.roll, springs.twist[:, None], springs.stiffness[:, None])
    values = np.hstack([*columns, springs.force, springs.normal])[touching]
    order = np.argsort(ids)
    return Memory(ids[order], values[order])
