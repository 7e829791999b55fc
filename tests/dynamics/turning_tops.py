"""Bodies that turn in space, alone and on a floor, and what Euler's equations say of them."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

import cdopt
from cdopt import collision
from cdopt.dynamics import analysis
from cdopt.dynamics.analysis import Motion
from cdopt.scene import Body, Box, HalfSpace, Scene, State

SIZE = np.array([0.4, 0.3, 0.2])
TUMBLING = np.array([0.5, 8.0, 0.5])  # near the middle axis, rad/s
ANYHOW = np.array([3.0, -2.0, 4.0])
UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


def kinetic_energy(scene: Scene, state: State) -> float:
    return float(analysis.kinetic_energy(Motion.of_state(scene, state))[0])


def turn(*rotation: float) -> np.ndarray:
    """The unit quaternion of a rotation vector, rad."""
    angle = float(np.linalg.norm(rotation))
    return np.array(
        [np.cos(angle / 2.0), *(np.sinc(angle / (2.0 * np.pi)) / 2.0 * np.array(rotation))]
    )


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quaternion product a b: the turn b first, then a."""
    real = a[0] * b[0] - a[1:] @ b[1:]
    return np.array([real, *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])


def rotation(q: np.ndarray) -> np.ndarray:
    """The matrix of a unit quaternion, from its products with the axes."""
    back = q * [1.0, -1.0, -1.0, -1.0]
    return np.column_stack([times(times(q, np.array([0.0, *e])), back)[1:] for e in np.eye(3)])


def box(omega: np.ndarray, place: float = 0.0, size: np.ndarray = SIZE, **fields) -> Body:
    """A box of 1 kg that spins."""
    known = {"orientation": UPRIGHT, "mass": 1.0} | fields
    return Body(Box(list(size)), [place, 0.0, 0.0], angular_velocity=omega, **known)


def floating(*bodies: Body) -> Scene:
    """Bodies without gravity."""
    return Scene(list(bodies), dim=3, gravity=[0.0, 0.0, 0.0])


def free_flight(scene: Scene, dt: float, steps: int, turning: str, start: State | None = None):
    """The state after so many steps without contacts, and the kinetic energy after each."""
    state = scene.initial if start is None else start
    none, energy = collision.detect(scene, state), []
    assert none.nc == 0
    for _ in range(steps):
        step = collision.step(scene, state, none, dt, turning=turning)
        state = collision.advance(scene, state, step.v_star, dt, turning=turning)
        energy.append(kinetic_energy(scene, state))
    return state, np.array(energy)


def euler(inertia: np.ndarray, q: np.ndarray, omega: np.ndarray, t: float):
    """Quaternion and angular velocity of a free body after t s, by Euler's equations."""

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        spin = np.cross(inertia * y[4:], y[4:]) / inertia
        return np.array([*(0.5 * times(y[:4], np.array([0.0, *y[4:]]))), *spin])

    begin = [*q, *(rotation(q).T @ omega)]
    found = solve_ivp(rate, (0.0, t), begin, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    ended = found[:4] / np.linalg.norm(found[:4])
    return ended, rotation(ended) @ found[4:]


def above_floor(q: np.ndarray, omega: np.ndarray | None = None, **fields) -> Scene:
    """A box whose lowest corner is 2 cm above a floor, z = 0."""
    height = 0.02 + np.abs(rotation(q)[2]) @ SIZE / 2.0
    crate = Body(Box(list(SIZE)), [0.0, 0.0, height], mass=1.0, orientation=q,
                 angular_velocity=np.zeros(3) if omega is None else omega)  # fmt: skip
    return Scene([Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0]), crate], dim=3, **fields)


def solved(scene: Scene, state: State, dt: float, turning: str):
    """The contact step from a state, and its certified solution."""
    found = collision.detect(scene, state, collision.safe_margin(scene, state, dt))
    step = collision.step(scene, state, found, dt, turning=turning)
    solution = cdopt.ClassicCD(step).solve("newton")
    assert solution.ok
    return step, solution
