"""Scenes that several tests use: elastic spheres (d = ρ = 1, k = 1e6), rough ones, solids."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import cdopt
from cdopt import collision
from cdopt._util.checks import FloatArray
from cdopt.dynamics import Trajectory
from cdopt.dynamics.records import FreeBodies
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, Spheres, State

# --- elastic spheres in the authors' units -------------------------------------------------

MASS = np.pi / 6
STIFFNESS = 1e6
T_C = np.pi * np.sqrt(MASS / (2.0 * STIFFNESS))  # of an undamped impact of two, s
STIFF = 2.0 * STIFFNESS  # half-stiffness, N/m
GRAIN = Material(name="grain", stiffness=STIFF)


def ball(place: Any, velocity: Any = None, radius: float = 0.5, **more: Any) -> Body:
    """An elastic sphere."""
    settings = {"mass": MASS, **more}
    return Body(Sphere(radius), place, velocity=velocity, material="grain", **settings)


def wall(normal: Any, place: Any, **more: Any) -> Body:
    """An elastic wall."""
    return Body(HalfSpace(normal), place, material="grain", **more)


def scene(bodies: list[Any], dim: int = 3, gravity: Any = None, **more: Any) -> Scene:
    """A scene without gravity, unless it is told otherwise."""
    pull = np.zeros(dim) if gravity is None else gravity
    return Scene(bodies, dim=dim, gravity=pull, **{"materials": [GRAIN], **more})


def impact(gamma: float = 0.0, offset: float = 0.0, dim: int = 3, **more: Any) -> Scene:
    """Two spheres at first touch, each at 1 m/s along x, their lines ``offset`` apart."""
    ends = (([0.0, 0.0, 0.0], 1.0), ([np.sqrt(1.0 - offset**2), offset, 0.0], -1.0))
    spheres = [ball(place[:dim], [v, 0.0, 0.0][:dim]) for place, v in ends]
    return scene(spheres, dim, damping=gamma, **more)


def between_walls() -> Scene:
    """A sphere that flies to and fro between walls 1.01 d apart."""
    walls = [wall([side, 0.0, 0.0], [-side * 0.505, 0.0, 0.0]) for side in (1.0, -1.0)]
    return scene([*walls, ball([0.0] * 3, [1.0, 0.0, 0.0])])


def bonded_hit(ratio: float, offset: float) -> Scene:
    """A bonded pair along x, of k_B = ratio k, and a third sphere that hits it at 1 m/s."""
    # the third sphere all but touches the first: a short reach spares it
    coming = [-np.sqrt(1.0 - offset**2) - 1e-6, offset, 0.0]
    spheres = [ball([0.0] * 3), ball([1.0, 0.0, 0.0]), ball(coming, [1.0, 0.0, 0.0])]
    return scene(spheres, bond_stiffness=ratio * STIFFNESS, bond_reach=1e-7)


def cluster(bonds: bool) -> Scene:
    """Spheres close together with random velocities, alone in space: 8 bonded or 13 loose ones."""
    rng = np.random.default_rng(0)
    signs = np.array([[0, a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)]) / np.sqrt(2.0)
    shell = {tuple(np.round(np.roll(p, k), 12) + 0.0) for p in signs for k in range(3)}
    centres = np.array([[0.0, 0.0, 0.0], *sorted(shell)[: 7 if bonds else 12]])
    velocities = rng.uniform(-1.0, 1.0, centres.shape) - (0.0 if bonds else centres)
    centres = centres if bonds else 1.02 * centres
    loose = Spheres(centres, 0.5, mass=MASS, velocities=velocities, material="grain")
    return scene([loose], bond_stiffness=0.1 * STIFFNESS if bonds else None)


def falling(n: int = 40, gamma: float = 100.0, dim: int = 3, fall: float = 0.0, **more: Any) -> Any:
    """Loose spheres that fall into a box of 3 d × 3 d, in the plane 4 d wide.

    They start at ``fall`` (1 + 2 z/d) m/s, so that all collide soon.
    """
    rng = np.random.default_rng(0)
    wide = 3.0 if dim == 3 else 4.0
    per = int(wide / 1.1)
    cells = np.stack(np.unravel_index(np.arange(n), (n, per, per) if dim == 3 else (n, per)), -1)
    centres = 0.6 + 1.1 * cells[:, ::-1] + rng.uniform(-0.04, 0.04, (n, dim))
    *across, up = np.eye(dim)
    walls = [wall(up, 0.0 * up)]
    for e in across:
        walls += [wall(e, 0.0 * e), wall(-e, wide * e)]
    speeds = -fall * np.outer(1.0 + 2.0 * centres[:, -1], up)
    loose = Spheres(centres, 0.5, mass=MASS, velocities=speeds, material="grain")
    return scene([*walls, loose], dim, -9.8 * up, damping=gamma, **more)


def apart(one: Trajectory, two: Trajectory) -> float:
    """The largest difference of two runs of one scene."""
    return float(max(np.abs(one.q - two.q).max(), np.abs(one.v - two.v).max()))


def both_paths(place: Scene, h: float, duration: float, **settings: Any) -> list[Trajectory]:
    """A run by the compiled loops, and one through CVXPY."""
    return [
        cdopt.simulate(place, h, duration, "variational", path=path, **settings)
        for path in ("native", "cvxpy")
    ]


def mixture(
    dim: int = 3, power: float = 2.0, units: tuple[float, float, float] = (1.0, 1.0, 1.0),
    turn: FloatArray | None = None, shift: Any = 0.0, order: Any = None, moving: bool = True,
    fall: float = 8.0,
) -> Scene:  # fmt: skip
    """Spheres of many sizes and masses, one of them fixed, loaded, spinning, among walls.

    Parameters
    ----------
    units : lengths of a metre, masses of a kilogram and times of a second.
    turn, shift : of the frame. order : numbers of the bodies as they are to stand.
    moving : whether walls and the fixed sphere move. fall : mean speed downwards, m/s.
    """
    metre, kilo, second = units
    rng = np.random.default_rng(0)
    frame = np.eye(dim) if turn is None else turn
    spun = frame if dim == 3 else np.eye(1)
    e, n = np.eye(dim), 8
    cells = np.stack(np.unravel_index(np.arange(n), (2, 2, 2) if dim == 3 else (4, 2)), -1)
    centres = 0.7 + 1.25 * cells[:, ::-1] + rng.uniform(-0.02, 0.02, (n, dim))
    radius, mass = rng.uniform(0.3, 0.6, n), rng.uniform(0.2, 2.0, n)
    velocity = rng.uniform(-4.0, 4.0, (n, dim)) - fall * e[-1]
    width = 3 if dim == 3 else 1
    spin, torque = rng.uniform(-5.0, 5.0, (n, width)), rng.uniform(-1.0, 1.0, (n, width))
    force = rng.uniform(-3.0, 3.0, (n, dim))
    speed, newton = metre / second, kilo * metre / second**2
    walls = (
        (e[-1], 0.0 * e[0], 0.5 * e[0] + e[-1]),
        (e[0], 0.0 * e[0], 0.0 * e[0]),
        (-e[0], 3.2 * e[0], -0.5 * e[0]),
    )
    bodies = [
        wall(frame @ out, metre * (frame @ place + shift), velocity=speed * (frame @ v) * moving)
        for out, place, v in walls
    ]
    for k in range(n):
        w, pull = spun @ spin[k] / second, newton * metre * (spun @ torque[k])
        more: dict[str, Any] = {"angular_velocity": w if dim == 3 else w[0]}
        if k != 3:
            more |= {"force": newton * (frame @ force[k]), "torque": pull if dim == 3 else pull[0]}
        elif not moving:
            more = {}
        v = None if k == 3 and not moving else speed * (frame @ velocity[k])
        place = metre * (frame @ centres[k] + shift)
        bodies.append(ball(place, v, metre * radius[k], mass=kilo * mass[k], fixed=k == 3, **more))
    # of Hertz contacts a modulus, else N/m^(p−1)
    stiffness = STIFF * newton / metre ** (2.0 if power == 2.5 else power - 1.0)
    return scene(
        bodies if order is None else [bodies[k] for k in order],
        dim,
        metre / second**2 * (frame @ (-9.8 * e[-1])),
        materials=[Material(name="grain", stiffness=stiffness)],
        power=power,
        damping=100.0 / second,
    )


# --- rough bodies --------------------------------------------------------------------------

G, R, K, MU = 9.81, 0.5, 2e5, 0.3


def rolling_ball(velocity: float, spin: float, dim: int = 3, **material: Any) -> Scene:
    """A ball of 1 kg at rest on its spring, with a speed along x and a spin about −y or z."""
    up = np.eye(dim)[-1]
    rubber = Material(name="m", stiffness=K, friction=MU, **material)
    body = Body(
        Sphere(R), (R - G / K) * up, mass=1.0, material="m", velocity=velocity * np.eye(dim)[0],
        angular_velocity=spin if dim == 2 else [0.0, -spin, 0.0],
    )  # fmt: skip
    return Scene(
        [Body(HalfSpace(up), np.zeros(dim)), body], dim=dim, gravity=-G * up, materials=[rubber],
        overlap_tol=1e-3, tangential_damping=20.0,
    )  # fmt: skip


def pressed(mu: float, **more: Any) -> Scene:
    """Two spheres of different sizes pressed together that spin and turn about each other."""
    balls = [
        Body(Sphere(0.5), np.zeros(3), mass=1.0, material="m", force=[30.0, 0.0, 0.0],
             velocity=[0.0, 0.1, 0.05], angular_velocity=[0.3, 0.5, -1.0]),
        Body(Sphere(0.4), [0.897, 0.0, 0.0], mass=0.7, material="m", force=[-30.0, 0.0, 0.0],
             velocity=[0.0, -0.2, 0.0], angular_velocity=[0.1, 0.2, 0.3]),
    ]  # fmt: skip
    return Scene(
        balls, dim=3, gravity=np.zeros(3), friction=mu, overlap_tol=1.0,
        materials=[Material(name="m", stiffness=2e4, poisson=0.3)], **more,
    )  # fmt: skip


def rough_box(n: int = 30, **more: Any) -> Scene:
    """Rough spheres thrown into a box."""
    rng = np.random.default_rng(3)
    cells = np.stack(np.unravel_index(np.arange(n), (n, 3, 3)), -1)[:, ::-1]
    centres = 0.55 + 1.1 * cells + rng.uniform(-0.03, 0.03, (n, 3))
    walls = [Body(HalfSpace([0, 0, 1]), np.zeros(3), material="m")]
    for e in np.eye(3)[:2]:
        walls += [Body(HalfSpace(s * e), p * e, material="m") for s, p in ((1, 0.0), (-1, 3.3))]
    thrown = rng.uniform(-2.0, 2.0, (n, 3))
    spheres = Spheres(centres=centres, radius=0.5, mass=1.0, material="m", velocities=thrown)
    rubber = Material(name="m", stiffness=2e5, poisson=0.25, **more)
    return Scene([*walls, spheres], dim=3, friction=0.4, gravity=[0.0, 0.0, -G], materials=[rubber])


def disc_pile(k: float, rows: int = 2) -> Scene:
    """Rough discs upon each other, damped."""
    rubber = Material(name="m", stiffness=2.0 * k, friction=0.5)
    places = [
        [column + 0.5 * row, 0.5 + row * np.sqrt(0.75)]
        for row in range(rows)
        for column in range(rows - row)
    ]
    floor = Body(HalfSpace([0.0, 1.0]), np.zeros(2), material="m", fixed=True)
    discs = Spheres(centres=places, radius=0.5, mass=1.0, material="m")
    gamma = {"damping": 1.4 * np.sqrt(k), "tangential_damping": 1.4 * np.sqrt(k)}
    return Scene([floor, discs], dim=2, gravity=[0.0, -1.0], materials=[rubber], **gamma)


def mechanical(run: Trajectory) -> FloatArray:
    """Kinetic, potential and elastic energy of the recorded steps, J."""
    seen = run.diagnostics
    names = ("kinetic", "potential", "elastic")
    return np.sum([seen[name] for name in names if name in seen], axis=0)


def order(steps: Any, errors: Any) -> float:
    """Fitted slope of the errors over the time steps, in powers."""
    return float(np.polyfit(np.log(steps), np.log(np.abs(errors)), 1)[0])


# --- solids that turn in space -------------------------------------------------------------

SIZE = np.array([0.4, 0.3, 0.2])
TUMBLING = np.array([0.5, 8.0, 0.5])  # near the middle axis, rad/s
ANYHOW = np.array([3.0, -2.0, 4.0])
UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


def kinetic_energy(place: Scene, state: State) -> float:
    return FreeBodies(place).totals(state)["kinetic"]


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


def box(omega: np.ndarray, place: float = 0.0, size: np.ndarray = SIZE, **fields: Any) -> Body:
    """A box of 1 kg that spins."""
    known = {"orientation": UPRIGHT, "mass": 1.0} | fields
    return Body(Box(list(size)), [place, 0.0, 0.0], angular_velocity=omega, **known)


def floating(*bodies: Body) -> Scene:
    """Bodies without gravity."""
    return Scene(list(bodies), dim=3, gravity=[0.0, 0.0, 0.0])


def free_flight(place: Scene, dt: float, steps: int, turning: str, start: State | None = None):
    """The state after this many steps without contacts, and the kinetic energy after each."""
    state = place.initial if start is None else start
    none, energy = collision.detect(place, state), []
    assert none.nc == 0
    for _ in range(steps):
        step = collision.step(place, state, none, dt, turning=turning)
        state = collision.advance(place, state, step.v_star, dt, turning=turning)
        energy.append(kinetic_energy(place, state))
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


def above_floor(q: np.ndarray, omega: Any = (0.0, 0.0, 0.0), **fields: Any) -> Scene:
    """A box whose lowest corner is 2 cm above a floor, z = 0."""
    height = 0.02 + np.abs(rotation(q)[2]) @ SIZE / 2.0
    crate = Body(
        Box(list(SIZE)), [0.0, 0.0, height], mass=1.0, orientation=q, angular_velocity=omega
    )
    return Scene([Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0]), crate], dim=3, **fields)


def solved(place: Scene, state: State, dt: float, turning: str = "momentum"):
    """The contact step from a state, and its certified solution."""
    found = collision.detect(place, state, collision.safe_margin(place, state, dt))
    step = collision.step(place, state, found, dt, turning=turning)
    solution = cdopt.ClassicCD(step).solve("newton")
    assert solution.ok
    return step, solution
