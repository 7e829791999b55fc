"""Grains: a scene of spheres and walls as the plain arrays that compiled loops read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import Unsupported
from cdopt.geometry.rotations import matrices
from cdopt.scene import HalfSpace, Scene, Sphere, State


class Grains(NamedTuple):
    """What does not change during a run. Fixed bodies move as prescribed.

    Attributes
    ----------
    free : (nb,) bodies that forces move.
    mass : (nb,) kg; inertia (nb,) kg·m²; both 1 for fixed bodies.
    radius : (nb,) m, of spheres; 0 for walls.
    load : (nb, 6) gravity, applied forces and torques, N and N·m.
    normal : (nb, 3) out of each wall; 0 for spheres.
    power : exponent p of the contact law.
    turning : whether contacts turn spheres, by tangential damping.
    plane : whether the scene is a plane one.
    """

    free: BoolArray
    mass: FloatArray
    inertia: FloatArray
    radius: FloatArray
    load: FloatArray
    normal: FloatArray
    power: float
    turning: bool
    plane: bool


class Motion(NamedTuple):
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


def grains(scene: Scene) -> Grains:
    """The arrays of a scene.

    Raises
    ------
    Unsupported : a body that is neither sphere nor half-space, or a half-space that turns.
    """
    b, dim = scene.bodies, scene.dim
    known = np.isin(b.kind, _kinds(scene))
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
    return Grains(
        free=free,
        mass=np.where(free, b.mass, 1.0),
        inertia=np.where(free, inertia, 1.0),
        radius=np.where(normal.any(axis=1), 0.0, b.reach),
        load=load,
        normal=normal,
        power=float(scene.power),
        turning=scene.gamma_t > 0.0,
        plane=dim == 2,
    )


def motion(state: State) -> Motion:
    """A state as arrays of its own."""
    nb, dim = state.nb, state.dim
    x = np.zeros((nb, 3))
    x[:, :dim] = state.position
    v = np.zeros((nb, 6))
    v[:, :dim] = state.velocity
    v[:, 3:] = _in_space(state.angular_velocity, dim)
    upright = np.tile([1.0, 0.0, 0.0, 0.0], (nb, 1))
    return Motion(
        x=x,
        v=v,
        quaternion=upright if dim == 2 else np.array(state.orientation),
        angle=np.array(state.orientation) if dim == 2 else np.zeros(nb),
    )


def state_of(moved: Motion, t: float, dim: int) -> State:
    """The State of these arrays."""
    if dim == 2:
        q = np.column_stack([moved.x[:, :2], moved.angle])
        return State(t, q, moved.v[:, [0, 1, 5]])
    return State(t, np.hstack([moved.x, moved.quaternion]), moved.v)


def _kinds(scene: Scene) -> list[int]:
    """Numbers of the two kinds of body among the scene's."""
    tables = (scene.bodies.table(shape) for shape in (Sphere, HalfSpace))
    return [int(scene.bodies.kind[table.body[0]]) for table in tables if table is not None]


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
