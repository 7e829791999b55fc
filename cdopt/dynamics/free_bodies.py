"""Energies and momenta of the free bodies of a scene, from the arrays of its states."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray, read_only
from cdopt.collision.motion import spins
from cdopt.scene import Scene, State

_NEXT, _LAST = [1, 2, 0], [2, 0, 1]  # axes of a vector product


class FreeBodies:
    """The free bodies of a scene, of masses ``mass`` (n,), kg."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.index = scene, np.flatnonzero(~scene.bodies.fixed)
        self.mass = read_only(scene.bodies.mass[self.index])
        inertia = scene.bodies.inertia[self.index]
        self.inertia = inertia[:, None] if scene.dim == 2 else inertia
        self.uneven = np.flatnonzero((self.inertia != self.inertia[:, :1]).any(axis=1))

    def motion(
        self, q: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Positions, velocities, turning and angular momenta (frames, n, ...) of q and v."""
        dim, uneven = self.scene.dim, self.uneven
        q, v = q[:, self.index], v[:, self.index]
        w = v[:, :, dim:]
        spin = self.inertia * w
        if uneven.size:
            frames = q.shape[0]
            body = np.tile(self.index[uneven], frames)
            turn, omega = q[:, uneven, 3:].reshape(-1, 4), w[:, uneven].reshape(-1, 3)
            spin[:, uneven] = spins(self.scene.bodies, body, turn, omega).reshape(frames, -1, 3)
        return q[:, :, :dim], v[:, :, :dim], w, spin

    def totals(self, state: State) -> dict[str, float]:
        """Kinetic and potential energy, J, momentum and angular momentum of a state, by name."""
        x, v, w, spin = (part[0] for part in self.motion(state.q[None], state.v[None]))
        push = self.mass[:, None] * v
        energies = {
            "kinetic": 0.5 * float((push * v).sum() + (spin * w).sum()),
            "potential": -float((self.mass * (x @ self.scene.gravity)).sum()),
        }
        turning = angular_momentum(self.mass, x[None], v[None], spin[None])[0]
        axes = "xyz"[: self.scene.dim]
        moments = zip(axes, push.sum(axis=0).tolist(), strict=True)
        turns = zip("z" if turning.size == 1 else "xyz", turning.tolist(), strict=True)
        energies |= {f"momentum.{axis}": value for axis, value in moments}
        return energies | {f"angular_momentum.{axis}": value for axis, value in turns}


def angular_momentum(
    mass: FloatArray, x: FloatArray, v: FloatArray, spin: FloatArray
) -> FloatArray:
    """(frames, 1 or 3) Σ x × m v + J w about the origin."""
    push = mass[:, None] * v
    if x.shape[2] == 2:
        turning = x[:, :, :1] * push[:, :, 1:] - x[:, :, 1:] * push[:, :, :1]
    else:
        turning = x[:, :, _NEXT] * push[:, :, _LAST] - x[:, :, _LAST] * push[:, :, _NEXT]
    return np.asarray((turning + spin).sum(axis=1))
