"""The variational integrator with solids that turn in space: order, momenta, the rigid limit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from turning_tops import SIZE, TUMBLING, box, euler, rotation, times, turn

import cdopt
from cdopt._util.errors import Unsupported
from cdopt.scene import (
    Body,
    Box,
    Capsule,
    Compound,
    HalfSpace,
    Material,
    Part,
    Polyhedron,
    Scene,
    Sphere,
)

STEEL = Material(name="steel", stiffness=2e3)  # of half a contact with a steel wall: k = 1e3 N/m
TILTED = times(turn(0.3, 0.2, 0.1), turn(0.0, 0.6, 0.5))
FORCE, TORQUE, SPIN = np.array([0.5, 0.2, 0.0]), np.array([0.02, 0.01, -0.03]), [1.0, -2.0, 3.0]
SPEED = [0.1, 0.2, -0.05]


def corner_in_floor(gamma: float) -> tuple[Scene, np.ndarray]:
    """A box of 1 kg with one corner 4 mm in a floor, and that corner in the box's frame."""
    R = rotation(TILTED)
    signs = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), -1).reshape(-1, 3)
    corner = min(signs * SIZE / 2.0, key=lambda c: float((R @ c)[2]))
    height = -float((R @ corner)[2]) - 0.004
    crate = Body(
        Box(list(SIZE)),
        [0.0, 0.0, height],
        orientation=list(TILTED),
        mass=1.0,
        material="steel",
        velocity=SPEED,
        angular_velocity=SPIN,
        force=list(FORCE),
        torque=list(TORQUE),
    )
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], material="steel")
    more = {"materials": [STEEL], "overlap_tol": 0.1, "damping": gamma}
    return Scene([floor, crate], dim=3, gravity=[0.0, 0.0, -9.8], **more), corner


def exact(scene: Scene, corner: np.ndarray, duration: float) -> np.ndarray:
    """Position, velocity and angular velocity in the body's frame, by Euler's equations."""
    moments, up = scene.bodies.inertia[1], np.array([0.0, 0.0, 1.0])

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        R = rotation(y[6:10] / np.linalg.norm(y[6:10]))
        arm = R @ corner
        gap = min(y[2] + arm[2], 0.0)
        point = arm - 0.5 * gap * up
        push = -1e3 * gap * up
        if gap < 0.0:
            slip = y[3:6] + np.cross(R @ y[10:], point)
            push = push - scene.damping * slip[2] * up - scene.gamma_t * (slip - slip[2] * up)
        torque = R.T @ (np.cross(point, push) + TORQUE)
        spin = (torque - np.cross(y[10:], moments * y[10:])) / moments
        pull = push + FORCE - [0.0, 0.0, 9.8]
        return np.concatenate([y[3:6], pull, 0.5 * times(y[6:10], np.array([0.0, *y[10:]])), spin])

    start = [*scene.initial.position[1], *SPEED, *TILTED, *(rotation(TILTED).T @ SPIN)]
    ended = solve_ivp(rate, (0.0, duration), start, method="DOP853", rtol=1e-12, atol=1e-13)
    return np.delete(ended.y[:, -1], np.s_[6:10])


@pytest.mark.parametrize(
    ("gamma", "counts"),
    [(5.0, [6, 12]), *(pytest.param(g, [6, 12, 24], marks=pytest.mark.slow) for g in (0.0, 5.0))],
)
def test_order_two_with_forces_torques_and_damping(gamma: float, counts: list[int]) -> None:
    scene, corner = corner_in_floor(gamma)
    reference, errors = exact(scene, corner, 0.02), []
    for n in counts:
        run = cdopt.simulate(scene, 0.02 / n, 0.02, "variational", every=int(n))
        state = run.final.state
        spin = rotation(state.orientation[1]).T @ state.angular_velocity[1]
        ended = np.concatenate([state.position[1], state.velocity[1], spin])
        errors.append(np.abs(ended - reference))
    moving = np.array(errors)[:, [2, 5, 6, 7]]  # height, its rate, turns about x and y
    slopes = np.polyfit(-np.log(counts), np.log(moving), 1)[0]
    np.testing.assert_allclose(slopes, 2.0, atol=0.1)
    assert run.diagnostics["contacts"].min() == 1


def tumbling() -> Scene:
    """A box that turns near its middle axis, alone."""
    crate = box(TUMBLING, material="steel")
    return Scene([crate], dim=3, gravity=[0.0] * 3, materials=[STEEL])


@pytest.mark.slow
def test_a_tumbling_box_keeps_its_momentum_and_follows_euler() -> None:
    """Large turns, 0.2 rad a step; the error falls with Δt²."""
    scene, errors = tumbling(), []
    _, exact_spin = euler(scene.bodies.inertia[0], scene.initial.orientation[0], TUMBLING, 1.0)
    for n in (40, 80):
        run = cdopt.simulate(scene, 1.0 / n, 1.0, "variational", every=n)
        errors.append(np.abs(run.final.state.angular_velocity[0] - exact_spin).max())
    momentum = run.diagnostics["angular_momentum"]
    assert np.abs(momentum - momentum[0]).max() <= 1e-13 * np.linalg.norm(momentum[0])
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)
    assert np.abs(run.final.state.angular_velocity[0] - TUMBLING).max() > 0.1


@pytest.mark.slow
def test_many_steps_of_a_tumbling_box() -> None:
    """The turn about the middle axis, over and over: energy swings and does not drift.

    10,000 steps keep the momentum to 1.2e-14 and take three minutes.
    """
    scene = tumbling()
    seen = cdopt.simulate(scene, 1e-2, 30.0, "variational", every=50).diagnostics
    momentum, energy = seen["angular_momentum"], seen["kinetic"] / seen["kinetic"][0] - 1.0
    assert np.abs(momentum - momentum[0]).max() <= 1e-13 * np.linalg.norm(momentum[0])
    assert np.abs(energy[30:]).max() <= 1.1 * np.abs(energy[:30]).max() <= 1e-3


def crash() -> Scene:
    """A box and a capsule, skew, that meet in space."""
    crate = Body(
        Box([0.4, 0.3, 0.2]),
        [0.0, 0.0, 0.0],
        orientation=list(TILTED),
        mass=1.0,
        material="steel",
        velocity=[1.0, 0.0, 0.0],
        angular_velocity=SPIN,
    )
    rod = Body(
        Capsule(0.4, 0.08),
        [0.7, 0.05, 0.02],
        orientation=list(turn(0.1, 0.2, 0.3)),
        mass=0.5,
        material="steel",
        velocity=[-1.0, 0.0, 0.0],
        angular_velocity=[0.5, 1.0, -1.0],
    )
    return Scene([crate, rod], dim=3, gravity=[0.0] * 3, materials=[STEEL])


@pytest.mark.slow
def test_a_box_and_a_capsule_that_collide_keep_their_momenta() -> None:
    run = cdopt.simulate(crash(), 2e-3, 0.3, "variational")
    seen = run.diagnostics
    assert seen["elastic"].max() > 0.05 * seen["kinetic"][0]
    assert seen["contacts"][-1] == 0
    assert np.abs(run.v[-1, :, 3:] - run.v[0, :, 3:]).max() > 1.0
    for name in ("momentum", "angular_momentum"):
        drift = np.abs(seen[name] - seen[name][0]).max()
        assert drift <= 1e-12 * np.linalg.norm(seen[name][0])
    assert abs(seen["kinetic"][-1] / seen["kinetic"][0] - 1.0) < 5e-3


def test_the_papers_split_of_damping_is_refused() -> None:
    scene, _ = corner_in_floor(5.0)
    with pytest.raises(Unsupported, match="turns in space"):
        cdopt.simulate(scene, 1e-3, 1e-3, "variational", damping="paper")


def top(stiffness: float = np.inf) -> Scene:
    """A short, tilted capsule of 1 kg that spins on a floor, at first as deep as its weight asks.

    Damping grows with √k, so that it hardly swings; infinite stiffness is rigid.
    """
    rigid = np.isinf(stiffness)
    material = {} if rigid else {"material": "elastic"}
    capsule = Body(
        Capsule(radius=0.1, length=0.1),
        [0.0, 0.0, 0.1 + 0.05 * np.sin(0.6) - 9.8 / stiffness],
        orientation=list(turn(0.0, 0.6, 0.0)),
        angular_velocity=[0.0, 0.0, 10.0],
        mass=1.0,
        **material,
    )
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], **material)
    more = {"gravity": [0.0, 0.0, -9.8], "overlap_tol": 0.5, "tangential_damping": 0.0}
    if rigid:
        return Scene([floor, capsule], dim=3, **more)
    elastic = Material(name="elastic", stiffness=2.0 * stiffness)
    gamma = 1.4 * np.sqrt(stiffness)
    return Scene([floor, capsule], dim=3, materials=[elastic], damping=gamma, **more)


@pytest.mark.slow
def test_stiff_solids_that_turn_tend_to_contact_dynamics() -> None:
    """The height differs by 1/k: it falls 2 mm, and contact dynamics is extrapolated to dt = 0."""
    coarse, fine = (
        cdopt.simulate(top(), dt, 0.04, "classic-cd").final.state.position[1, 2]
        for dt in (2.5e-4, 1.25e-4)
    )
    stiffness, apart = np.array([1e4, 3e4]), []
    for k in stiffness:
        run = cdopt.simulate(top(k), 1e-3, 0.04, "variational", every=40)
        apart.append(abs(run.final.state.position[1, 2] - (2.0 * fine - coarse)))
    assert max(apart) < 1e-3
    slope = np.diff(np.log(apart)) / np.diff(np.log(stiffness))
    np.testing.assert_allclose(slope, -1.0, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("solid", ["polyhedron", "compound"])
def test_other_solids_tumble_onto_a_floor(solid: str) -> None:
    points = np.random.default_rng(1).normal(size=(12, 3))
    points *= 0.2 / np.linalg.norm(points, axis=1)[:, None]
    ends = [Part(Sphere(0.1), [x, 0.0, 0.0]) for x in (-0.15, 0.15)]
    shape = Compound([*ends, Part(Box([0.3, 0.1, 0.1]), [0.0, 0.0, 0.0])])
    if solid == "polyhedron":
        shape = Polyhedron(points)
    body = Body(
        shape,
        [0.0, 0.0, 0.25],
        mass=1.0,
        material="steel",
        velocity=[0.3, 0.0, -1.0],
        angular_velocity=[3.0, -2.0, 1.0],
    )
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], material="steel")
    harder = Material(name="steel", stiffness=2e4)
    scene = Scene([floor, body], dim=3, gravity=[0.0, 0.0, -9.8], materials=[harder])
    seen = cdopt.simulate(scene, 2e-3, 0.16, "variational").diagnostics
    assert seen["elastic"].max() > 0.5
    assert np.abs(seen["balance"]).max() < 0.05
    np.testing.assert_allclose(seen["balance"], seen["scheme_error"], atol=1e-13)
