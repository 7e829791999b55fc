"""Energies, momenta, restitution and statistics of bodies in motion.

Everything works on a Motion, the arrays of bodies in time. A Trajectory gives one, and so can the
output of any other code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.dynamics import free_bodies
from cdopt.dynamics.trajectory import Trajectory
from cdopt.scene import Scene, State

_STILL = 1e-9  # of the approach: bodies that part no faster stay together


@dataclass(frozen=True, eq=False)
class Motion:
    """Free bodies in time; arrays are read-only.

    Attributes
    ----------
    t : (frames,) s.
    x, v : (frames, n, dim) positions of the centres, m, and velocities, m/s.
    w : (frames, n, 1 or 3) angular velocities in the global frame, rad/s.
    mass : (n,) kg.
    spin : (frames, n, 1 or 3) angular momenta J w about the centres, N m s.

    Raises
    ------
    InvalidInput : arrays that do not fit together, or numbers that are not finite.
    """

    t: FloatArray
    x: FloatArray
    v: FloatArray
    w: FloatArray
    mass: FloatArray
    spin: FloatArray

    def __post_init__(self) -> None:
        shape = np.shape(self.x)
        if len(shape) != 3 or shape[2] not in (2, 3) or 0 in shape:
            raise InvalidInput("x", f"an array of shape {shape}", "(frames, bodies, 2 or 3)")
        turning = (*shape[:2], 3 if shape[2] == 3 else 1)
        shapes = {"t": shape[:1], "x": shape, "v": shape, "w": turning}
        shapes |= {"mass": shape[1:2], "spin": turning}
        for name, size in shapes.items():
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != size:
                raise InvalidInput(name, f"an array of shape {value.shape}", f"shape {size}")
            if not np.isfinite(value).all():
                raise InvalidInput(name, "a number that is not finite", "finite numbers")
            object.__setattr__(self, name, read_only(value))

    @classmethod
    def of(cls, run: Trajectory | Motion) -> Motion:
        """The free bodies of a trajectory, in all its frames.

        Raises
        ------
        InvalidInput : not a trajectory.
        """
        if isinstance(run, Motion):
            return run
        if not isinstance(run, Trajectory):
            raise InvalidInput("run", checks.describe(run), "a Trajectory or a Motion")
        return cls._of(run.scene, run.t, run.q, run.v)

    @classmethod
    def of_state(cls, scene: Scene, state: State) -> Motion:
        """The free bodies of a scene in one state, as a single frame.

        Raises
        ------
        InvalidInput : a state of another scene.
        """
        scene.check_state(state)
        return cls._of(scene, np.array([state.t]), state.q[None], state.v[None])

    @classmethod
    def _of(cls, scene: Scene, t: FloatArray, q: FloatArray, v: FloatArray) -> Motion:
        bodies = free_bodies.FreeBodies(scene)
        x, v, w, spin = bodies.motion(q, v)
        return cls(t, x, v, w, bodies.mass, spin)

    @classmethod
    def of_spheres(cls, t: Any, x: Any, v: Any, w: Any, mass: Any, radius: Any) -> Motion:
        """Homogeneous spheres in space, of masses (n,) kg and radii (n,) m: J = (2/5) m R².

        Raises
        ------
        InvalidInput : arrays that do not fit together.
        """
        heavy = checks.vector("mass", mass, None, "kg")
        inertia = 0.4 * heavy * checks.vector("radius", radius, heavy.size, "m") ** 2
        turning = checks.numbers("w", w, (None, heavy.size, 3), "rad/s")
        return cls(t, x, v, turning, heavy, inertia[:, None] * turning)


History = Trajectory | Motion


def translational_energy(run: History) -> FloatArray:
    """(frames,) ½ Σ m |v|² of the free bodies, J."""
    motion = Motion.of(run)
    return free_bodies.translational(motion.mass, motion.v)


def rotational_energy(run: History) -> FloatArray:
    """(frames,) ½ Σ w · J w of the free bodies, J."""
    motion = Motion.of(run)
    return free_bodies.rotational(motion.w, motion.spin)


def kinetic_energy(run: History) -> FloatArray:
    """(frames,) ½ Σ m |v|² + ½ Σ w · J w of the free bodies, J."""
    motion = Motion.of(run)
    return translational_energy(motion) + rotational_energy(motion)


def potential_energy(scene: Scene, state: State) -> float:
    """−Σ m g · x of the free bodies, J, from the origin."""
    free = ~scene.bodies.fixed
    return -float(scene.bodies.mass[free] @ (state.position[free] @ scene.gravity))


def momentum(run: History) -> FloatArray:
    """(frames, dim) Σ m v of the free bodies, N s."""
    motion = Motion.of(run)
    return free_bodies.momentum(motion.mass, motion.v)


def angular_momentum(run: History) -> FloatArray:
    """(frames, 1 or 3) Σ x × m v + J w of the free bodies about the origin, N m s."""
    motion = Motion.of(run)
    return free_bodies.angular_momentum(motion.mass, motion.x, motion.v, motion.spin)


def total_energy(run: Trajectory) -> FloatArray:
    """(frames,) kinetic and potential energy, and the elastic one of contacts, J.

    Methods of rigid contact know no elastic energy; with them this is the mechanical energy alone.

    Raises
    ------
    InvalidInput : not a trajectory; a Motion does not know its contacts.
    """
    if not isinstance(run, Trajectory):
        raise InvalidInput("run", checks.describe(run), "a Trajectory")
    known, step = run.diagnostics, run.steps
    rows = np.searchsorted(known["step"], step)
    parts = [known[name] for name in ("kinetic", "potential", "elastic") if name in known]
    return np.asarray(np.sum(parts, axis=0)[rows])


def restitution(run: History, pair: tuple[int, int] = (0, 1)) -> float:
    """Coefficient of restitution of a collision of two bodies.

    The normal speed at which they part in the last frame over that at which they meet in the
    first. The normal is the line of centres where they are closest, between the two frames around
    that moment; an undamped collision is symmetric about it, so that e = 1 at any offset.

    Parameters
    ----------
    run : from before the collision to after it; its frames resolve the contact.
    pair : numbers of the two bodies among the free ones.

    Raises
    ------
    InvalidInput : no such bodies, or they do not meet and part.
    """
    motion = Motion.of(run)
    n = motion.mass.size
    i, j = (int(k) for k in checks.integers("pair", pair, (2,), at_least=0))
    if i == j or max(i, j) >= n:
        raise InvalidInput("pair", f"({i}, {j})", f"two of {n} free bodies")
    arm, relative = motion.x[:, j] - motion.x[:, i], motion.v[:, j] - motion.v[:, i]
    closing = np.einsum("fi,fi->f", arm, relative)
    still = _STILL * abs(float(closing[0]))
    if not (closing[0] < 0.0 and closing[-1] >= -still):
        found = f"d|r|²/dt of {2 * closing[0]:.3g} at first and {2 * closing[-1]:.3g} m²/s at last"
        raise InvalidInput("run", found, "bodies that meet, and part or stay together")
    after = int(np.argmax(closing >= -still))
    share = closing[after - 1] / (closing[after - 1] - max(float(closing[after]), 0.0))
    normal = (1.0 - share) * arm[after - 1] + share * arm[after]
    before, later = (float(relative[frame] @ normal) for frame in (0, -1))
    return -later / before


def mean_kinetic_energy(run: History) -> FloatArray:
    """(frames,) kinetic energy per free body, translation and rotation, J.

    De Klerk et al. (2021), equation (35).
    """
    motion = Motion.of(run)
    return kinetic_energy(motion) / motion.mass.size


def velocity_fluctuation(run: History) -> FloatArray:
    """(frames,) mean square of what velocities differ from their mean, per axis, m²/s².

    (1/dim) Σ |v − v̄|² / n, with v̄ the mean over all free bodies: a granular temperature, in
    which rotation has no part. De Klerk et al. (2021), equation (36).
    """
    off = Motion.of(run).v
    off = off - off.mean(axis=1, keepdims=True)
    return np.asarray((off**2).mean(axis=(1, 2)))


def centre_of_mass(run: History) -> FloatArray:
    """(frames, dim) Σ m x / Σ m of the free bodies, m."""
    motion = Motion.of(run)
    return np.asarray(np.einsum("n,fni->fi", motion.mass, motion.x) / motion.mass.sum())
