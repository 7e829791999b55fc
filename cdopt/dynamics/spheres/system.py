"""A scene of spheres and walls as plain arrays for compiled loops, and its neighbour list.

The neighbour list (a Verlet list) holds all pairs whose gap is at most ``skin``; it is good until
some sphere has moved half of it. Pairs stand in the order of their numbers, so that sums over
those in contact do not depend on which others are listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.collision import effective_mass
from cdopt.collision.contacts import contact_stiffness
from cdopt.geometry.broad_phase import near_pairs, unbounded_pairs
from cdopt.geometry.rotations import matrices
from cdopt.scene import SHAPES, HalfSpace, Scene, Sphere, State
from cdopt.scene.pairs import is_among


class SphereSystem(NamedTuple):
    """What does not change during a run. Fixed bodies move as prescribed.

    Attributes
    ----------
    free : (nb,) bodies that forces move.
    weight : (nb, 6) mass, kg, three times, then moment of inertia, kg·m²; 1 for fixed bodies.
    radius : (nb,) m, of spheres; 0 for walls.
    load : (nb, 6) gravity, applied forces and torques, N and N·m.
    normal : (nb, 3) out of each wall; 0 for spheres.
    power : exponent p of the contact law.
    turning : whether contacts turn spheres, by tangential damping.
    plane : whether the scene is a plane one.
    """

    free: BoolArray
    weight: FloatArray
    radius: FloatArray
    load: FloatArray
    normal: FloatArray
    power: float
    turning: bool
    plane: bool


class SphereMotion(NamedTuple):
    """What changes: all arrays are written in place.

    Attributes
    ----------
    x : (nb, 3) m. v : (nb, 6) velocity and angular velocity, m/s and rad/s.
    quaternion : (nb, 4) in space. angle : (nb,) rad, in the plane.
    """

    x: FloatArray
    v: FloatArray
    quaternion: FloatArray
    angle: FloatArray


def system_of(scene: Scene) -> SphereSystem:
    """The arrays of a scene.

    Raises
    ------
    Unsupported : a body that is neither sphere nor half-space, or a half-space that turns.
    """
    b, dim = scene.bodies, scene.dim
    known = np.isin(b.kind, [SHAPES.index(Sphere), SHAPES.index(HalfSpace)])
    if not known.all():
        first = int(np.argmin(known))
        raise Unsupported(
            "the compiled integrators", f"{b.label(first)} is neither a sphere nor a half-space"
        )
    normal = _normals(scene)
    spin = b.angular_velocity.reshape(scene.nb, -1).any(axis=1)
    turning_wall = np.flatnonzero(spin & normal.any(axis=1))
    if turning_wall.size:
        raise Unsupported("the compiled integrators", f"{b.label(turning_wall[0])} turns")
    free = ~b.fixed
    inertia = b.inertia if dim == 2 else b.inertia[:, 0]
    load = np.zeros((scene.nb, 6))
    load[:, :dim] = np.where(b.fixed, 0.0, b.mass)[:, None] * scene.gravity if free.any() else 0.0
    load[:, :dim] += b.force
    load[:, 3:] = _in_space(b.torque, dim)
    load[b.fixed] = 0.0
    return SphereSystem(
        free=free,
        weight=np.repeat(np.where(free, [b.mass, inertia], 1.0).T, 3, axis=1),
        radius=np.where(normal.any(axis=1), 0.0, b.reach),
        load=load,
        normal=normal,
        power=float(scene.power),
        turning=scene.gamma_t > 0.0,
        plane=dim == 2,
    )


def motion_of(state: State) -> SphereMotion:
    """Copies of the arrays of a state."""
    nb, dim = state.nb, state.dim
    x = np.zeros((nb, 3))
    x[:, :dim] = state.position
    v = np.zeros((nb, 6))
    v[:, :dim] = state.velocity
    v[:, 3:] = _in_space(state.angular_velocity, dim)
    upright = np.tile([1.0, 0.0, 0.0, 0.0], (nb, 1))
    return SphereMotion(
        x=x,
        v=v,
        quaternion=upright if dim == 2 else np.array(state.orientation),
        angle=np.array(state.orientation) if dim == 2 else np.zeros(nb),
    )


def state_of(motion: SphereMotion, t: float, dim: int) -> State:
    """The State that these arrays describe."""
    if dim == 2:
        q = np.column_stack([motion.x[:, :2], motion.angle])
        return State(t, q, motion.v[:, [0, 1, 5]])
    return State(t, np.hstack([motion.x, motion.quaternion]), motion.v)


def _normals(scene: Scene) -> FloatArray:
    normal = np.zeros((scene.nb, 3))
    table = scene.bodies.table(HalfSpace)
    if table is not None:
        frame = matrices(scene.bodies.orientation[table.body])
        normal[table.body, : scene.dim] = np.einsum("nij,nj->ni", frame, table.columns["normal"])
    return normal


def _in_space(spin: FloatArray, dim: int) -> FloatArray:
    """Turns (n,) or (n, 3) as (n, 3)."""
    if dim == 3:
        return spin
    return np.column_stack([np.zeros((spin.size, 2)), spin])


# --- the neighbour list ------------------------------------------------------------------


class NeighborList(NamedTuple):
    """Pairs of spheres, and of spheres with walls, that may touch before long.

    Attributes
    ----------
    i, j : (np,) bodies; j may be a wall, i is a sphere.
    wall : (np,) whether j is a wall; normal (np, 3), out of the wall, else zero.
    reach : (np,) distance of centres, or height, at which they touch, m.
    k : (np,) N/m^(p−1); of a bond N/m.
    bonded : (np,) whether the spring also pulls.
    c_n, c_t : (np,) γ_n m_eff and γ_t m_eff, kg/s.
    listed : (nb, 3) positions of all bodies when the list was made, m. skin : m.
    """

    i: IntArray
    j: IntArray
    wall: BoolArray
    normal: FloatArray
    reach: FloatArray
    k: FloatArray
    bonded: BoolArray
    c_n: FloatArray
    c_t: FloatArray
    listed: FloatArray
    skin: float


def neighbor_list(scene: Scene, x: FloatArray, normal: FloatArray, skin: float) -> NeighborList:
    """All pairs of a scene with gaps up to ``skin`` m.

    Parameters
    ----------
    x : (nb, 3) positions of centres, or of a point of a wall, m.
    normal : (nb, 3) out of each wall, zero for spheres.
    """
    b = scene.bodies
    is_wall = np.asarray(normal.any(axis=1))
    near = near_pairs(x[:, : scene.dim], b.reach, b.fixed, skin)
    against = _against_walls(scene, x, normal, skin)
    pairs = np.unique(np.concatenate([near, against, scene.bonds]), axis=0)
    bonded = is_among(pairs, scene.bonds)
    mass = effective_mass(scene, pairs)
    k = contact_stiffness(scene, pairs)
    swap = is_wall[pairs[:, 0]]
    i = np.where(swap, pairs[:, 1], pairs[:, 0])
    j = np.where(swap, pairs[:, 0], pairs[:, 1])
    wall = is_wall[j]
    return NeighborList(
        i=i,
        j=j,
        wall=wall,
        normal=np.ascontiguousarray(normal[j]),
        reach=b.reach[i] + np.where(wall, 0.0, b.reach[j]),
        k=np.ascontiguousarray(k, dtype=np.float64),
        bonded=bonded,
        c_n=scene.damping * mass,
        c_t=scene.gamma_t * mass,
        listed=x.copy(),
        skin=skin,
    )


def _against_walls(scene: Scene, x: FloatArray, normal: FloatArray, skin: float) -> IntArray:
    """Pairs (n, 2) of free spheres with walls within ``skin``."""
    pairs = unbounded_pairs(scene.bodies.reach, scene.bodies.fixed)
    is_wall = np.asarray(normal.any(axis=1))
    swap = is_wall[pairs[:, 0]]
    sphere = np.where(swap, pairs[:, 1], pairs[:, 0])
    wall = np.where(swap, pairs[:, 0], pairs[:, 1])
    height = ((x[sphere] - x[wall]) * normal[wall]).sum(axis=1)
    return np.asarray(pairs[height - scene.bodies.reach[sphere] <= skin])
