"""What is measured of every state: energies, momentum, overlap."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.collision.motion import spins
from cdopt.scene import Scene, State


def kinetic_energy(scene: Scene, state: State) -> float:
    """½ Σ m |v|² + ½ Σ ω · J ω of the free bodies, J."""
    free, b = ~scene.bodies.fixed, scene.bodies
    speed = state.velocity[free]
    turning = state.angular_velocity[free] * _spin(scene, state)
    return 0.5 * float((b.mass[free, None] * speed**2).sum() + turning.sum())


def potential_energy(scene: Scene, state: State) -> float:
    """−Σ m g · x of the free bodies, J, from the origin."""
    free = ~scene.bodies.fixed
    height = state.position[free] @ scene.gravity
    return -float(scene.bodies.mass[free] @ height)


def momentum(scene: Scene, state: State) -> FloatArray:
    """Σ m v of the free bodies (dim,), N s."""
    free = ~scene.bodies.fixed
    return np.asarray(scene.bodies.mass[free] @ state.velocity[free])


def angular_momentum(scene: Scene, state: State) -> FloatArray:
    """Σ x × m v + J ω of the free bodies about the origin (1,) or (3,), N m s."""
    free = ~scene.bodies.fixed
    place, spin = state.position[free], _spin(scene, state)
    push = scene.bodies.mass[free, None] * state.velocity[free]
    if scene.dim == 2:
        return np.array([(place[:, 0] * push[:, 1] - place[:, 1] * push[:, 0] + spin).sum()])
    return np.asarray((np.cross(place, push) + spin).sum(axis=0))


def _spin(scene: Scene, state: State) -> FloatArray:
    """J ω of the free bodies, (n,) or (n, 3), N m s."""
    free = np.flatnonzero(~scene.bodies.fixed)
    own, omega = scene.bodies.inertia[free], state.angular_velocity[free]
    spin = np.asarray(own * omega)
    if scene.dim == 2:
        return spin
    k = np.flatnonzero((own != own[:, :1]).any(axis=1))
    if k.size:
        spin[k] = spins(scene.bodies, free[k], state.orientation[free[k]], omega[k])
    return spin
